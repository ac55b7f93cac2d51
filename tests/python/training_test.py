# SPDX-License-Identifier: Apache-2.0
"""A training has the same losses with headrace as with torchvision where the pixels are the same: images that are not
resized. The script is PyTorch's ImageNet example, before and after the diff of python/FRAMEWORKS.md."""
import json
import os
import re
import subprocess
import sys
import unittest

import support

support.need("numpy", "torch", "torchvision", "PIL")
import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader as TorchLoader, DistributedSampler
from torchvision import datasets, transforms

import headrace as hr
import imagenet

SIDE, COUNT = 32, 90


def make_images():
    random = numpy.random.default_rng(1)
    for number in range(COUNT):
        folder = support.WORK / "images" / f"class{number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 256, (8, 8, 3), dtype="uint8")
        image = Image.fromarray(pixels).resize((SIDE, SIDE), Image.BICUBIC)
        image.save(folder / f"{number:03}.{'jpg' if number % 2 else 'png'}")
    return support.WORK / "images"


def diff():
    text = (support.ROOT / "python/FRAMEWORKS.md").read_text()
    return re.search(r"```diff\n(.*?)```", text, re.DOTALL).group(1)


def apply_diff(script):
    """`script` with the hunks of the diff: each stands for one place, or for the top where it only adds."""
    for hunk in diff().split("@@\n"):
        lines = hunk.splitlines()
        before = "".join(line[1:] + "\n" for line in lines if line[0] in " -")
        after = "".join(line[1:] + "\n" for line in lines if line[0] in " +")
        if before:
            assert script.count(before) == 1, f"the diff does not fit the example: {before}"
            script = script.replace(before, after)
        else:
            script = after + script
    return script


# Without resizing, and flipping all images: what is drawn makes no difference.
def with_the_same_pixels(script):
    for old, new in (("RandomResizedCrop(224)", f"RandomResizedCrop({SIDE}, scale=(1, 1), ratio=(1, 1))"),
                     ("RandomHorizontalFlip()", "RandomHorizontalFlip(1.0)")):
        assert old in script
        script = script.replace(old, new)
    return script


class TrainingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = make_images()

    def losses_of(self, script):
        path = support.WORK / "train.py"
        path.write_text(script)
        environment = {**os.environ, "PYTHONPATH": str(support.ROOT / "python")}
        done = subprocess.run([sys.executable, "-B", path, self.folder, "--distributed"], capture_output=True,
                              text=True, env=environment, timeout=support.PROGRAM_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_the_change_is_small(self):
        self.assertLessEqual(len(diff().splitlines()), 15)

    def test_the_example_has_the_same_losses_before_and_after(self):
        script = (support.ROOT / "tests/python/imagenet.py").read_text()
        before = self.losses_of(with_the_same_pixels(script))
        after = self.losses_of(with_the_same_pixels(apply_diff(script)))
        self.assertEqual(len(before), 2 * -(-COUNT // 16))
        self.assertGreater(len(set(before)), 10)
        numpy.testing.assert_allclose(after, before, rtol=1e-4)  # normalised floats differ in their last two bits

    def train(self, batches_of):
        torch.manual_seed(0)
        model = imagenet.make_model(10)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for epoch in range(3):
            for images, labels in batches_of(epoch):
                loss = torch.nn.functional.cross_entropy(model(images.float() / 255), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return losses

    def test_losses_are_equal_to_the_bit_where_the_pixels_are(self):
        crop = {"scale": (1, 1), "ratio": (1, 1)}
        reference = datasets.ImageFolder(self.folder, transforms.Compose([
            transforms.RandomResizedCrop(SIDE, **crop), transforms.RandomHorizontalFlip(), transforms.PILToTensor()]))
        sampler = DistributedSampler(reference, num_replicas=1, rank=0)
        with_torch = TorchLoader(reference, 16, sampler=sampler, num_workers=1,
                                 generator=torch.Generator().manual_seed(3))
        loader = hr.DataLoader(hr.ImageFolder(self.folder, ram="64M"), 16, shuffle=True, dtype="uint8", draws="torch",
                               torch_workers=1, generator=torch.Generator().manual_seed(3),
                               transform=[hr.RandomResizedCrop(SIDE, **crop), hr.RandomHorizontalFlip()])

        def of_torch(epoch):
            sampler.set_epoch(epoch)
            return with_torch

        def of_headrace(epoch):
            loader.set_epoch(epoch)
            return loader

        torch.set_num_threads(1)
        self.assertEqual(self.train(of_headrace), self.train(of_torch))


if __name__ == "__main__":
    support.main()
