# SPDX-License-Identifier: Apache-2.0
"""PyTorch's ImageNet example (pytorch/examples, imagenet/main.py) cut down to its data and its loop, for CPUs.

    imagenet.py FOLDER [--distributed]

The tests apply the diff of python/FRAMEWORKS.md to it. Prints the loss of each step as JSON.
"""
import argparse
import json
import tempfile

import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler
from torchvision import datasets, transforms


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--distributed", action="store_true")
    return parser.parse_args()


def make_model(classes):
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4),
                               torch.nn.Flatten(), torch.nn.Linear(128, classes))


def main():
    args = parse_arguments()
    traindir = args.data
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = make_model(10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    normalize = transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    train_dataset = datasets.ImageFolder(
        traindir, transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
                                      transforms.ToTensor(), normalize]))
    train_sampler = DistributedSampler(train_dataset) if args.distributed else None
    train_loader = torch.utils.data.DataLoader(
        train_dataset, batch_size=args.batch_size, shuffle=(train_sampler is None), num_workers=args.workers,
        pin_memory=True, sampler=train_sampler)
    losses = []
    for epoch in range(args.epochs):
        if args.distributed:
            train_sampler.set_epoch(epoch)
        for images, target in train_loader:
            loss = torch.nn.functional.cross_entropy(model(images), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    print(json.dumps(losses))


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile() as meeting:
        dist.init_process_group("gloo", init_method=f"file://{meeting.name}", rank=0, world_size=1)
        main()
