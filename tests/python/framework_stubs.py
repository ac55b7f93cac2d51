# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for training frameworks that are not installed: the few names that python/FRAMEWORKS.md uses, no more.

They call the loader as the frameworks do, as far as their documentation and sources say: what is asked of it, and in
which order. They say nothing about the frameworks themselves.
"""
import sys
import types

from headrace.delivery import has_module


def module(name, **names):
    made = types.ModuleType(name)
    made.__dict__.update(names)
    sys.modules[name] = made
    return made


def take_step(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


# lightning 2: fit() asks the module for its loader and its optimizer.
def make_lightning():
    import torch

    class Trainer:
        def __init__(self, *, max_epochs, use_distributed_sampler):
            assert use_distributed_sampler is False  # it would look for a torch DataLoader's
            self.max_epochs = max_epochs

        def fit(self, model):
            loader, optimizer = model.train_dataloader(), model.configure_optimizers()
            for _ in range(self.max_epochs):
                steps = 0
                for steps, batch in zip(range(1, len(loader) + 1), loader):  # it does not ask for the end
                    take_step(optimizer, model.training_step(batch, steps - 1))
                assert steps == len(loader) > 0

    module("lightning", LightningModule=torch.nn.Module, Trainer=Trainer)


# transformers 4: batches are keywords of the model; set_epoch() is called where there is one.
def make_transformers():
    import torch

    class Classifier(torch.nn.Module):
        def __init__(self, config):
            super().__init__()
            self.layer = torch.nn.Linear(3 * 32 * 32, config.num_labels)

        def forward(self, pixel_values, labels):
            return {"loss": torch.nn.functional.cross_entropy(self.layer(pixel_values.flatten(1)), labels)}

    class Trainer:
        def __init__(self, *, model, args, train_dataset):
            self.model, self.args, self.train_dataset = model, args, train_dataset

        def train(self):
            loader = self.get_train_dataloader()
            assert len(loader.dataset) > 0
            optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
            for epoch in range(self.args.num_train_epochs):
                if hasattr(loader, "set_epoch"):
                    loader.set_epoch(epoch)
                batches = list(loader)
                assert len(batches) == len(loader) > 0
                for inputs in batches:
                    take_step(optimizer, self.model(**inputs)["loss"])

    module("transformers", Trainer=Trainer, ResNetForImageClassification=Classifier, ResNetConfig=types.SimpleNamespace,
           TrainingArguments=lambda **given: types.SimpleNamespace(**{"seed": 42, **given}))


# timm 1: models, and what they want of their images.
def make_timm():
    import torch

    def create_model(name, num_classes):
        assert name == "resnet18"
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, num_classes))

    def resolve_model_data_config(model):
        assert isinstance(model, torch.nn.Module)
        return {"input_size": (3, 32, 32), "interpolation": "bilinear", "mean": (0.485, 0.456, 0.406),
                "std": (0.229, 0.224, 0.225)}

    module("timm", create_model=create_model,
           data=module("timm.data", resolve_model_data_config=resolve_model_data_config))


# jax takes a tree of numpy arrays.
def make_jax():
    import numpy

    def device_put(tree):
        assert all(isinstance(leaf, numpy.ndarray) for leaf in tree)
        return tree

    module("jax", jit=lambda function: function, device_put=device_put, numpy=module("jax.numpy", mean=numpy.mean))


MAKERS = {"lightning": make_lightning, "transformers": make_transformers, "timm": make_timm, "jax": make_jax}


def stand_in_for(name):
    """Makes the module of this name, unless the framework is installed."""
    if not has_module(name):
        MAKERS[name]()
