# SPDX-License-Identifier: Apache-2.0
"""TrivialAugmentWide and RandAugment make of a crop what torchvision makes of it on PIL, pixel for pixel."""
import unittest

import support
support.need("numpy", "torch", "torchvision", "PIL")
import numpy
import torch
import torchvision
from PIL import Image
from torchvision.transforms import autoaugment, functional

import headrace as hr

SIDE = 48
CROP = [hr.RandomResizedCrop(SIDE), hr.RandomHorizontalFlip()]
NEAREST = functional.InterpolationMode.NEAREST


def exact(magnitudes):
    """torch adds up the steps in single precision, with as many lanes as the machine has; these are the right ones."""
    if not magnitudes.is_floating_point() or not magnitudes.ndim:
        return magnitudes
    first, last = (float(str(numpy.float32(value.item()))) for value in (magnitudes[0], magnitudes[-1]))
    steps = len(magnitudes) - 1
    return torch.tensor([first + (last - first) * bin / steps for bin in range(steps + 1)])


def table_of(policy, *arguments):
    space = policy._augmentation_space(31, *arguments)
    return {name: (exact(magnitudes), signed) for name, (magnitudes, signed) in space.items()}


def strengths(table):
    """(operation, strength) of all that a policy may draw."""
    for name, (magnitudes, signed) in table.items():
        values = sorted(set(magnitudes.reshape(-1).tolist()))
        for value in values + ([-value for value in values] if signed else []):
            yield name, value


def variants(image, table):
    """{pixels: names of the operations} of all that a policy makes of an image."""
    found = {}
    for name, strength in strengths(table):
        made = autoaugment._apply_op(image, name, strength, NEAREST, None)
        found.setdefault(numpy.asarray(made).tobytes(), set()).add(name)
    return found


@unittest.skipUnless(hasattr(autoaugment, "_apply_op"), "this torchvision applies operations otherwise")
class AugmentTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = hr.ImageFolder(support.synth("data", files=203), ram="64M")

    def images(self, *augment, count=60):
        loader = hr.DataLoader(self.data, count, transform=[*CROP, *augment], dtype="uint8", output="numpy",
                               channels_last=True, seed=5)
        return next(iter(loader))[0]

    def check_each(self, augment, table, kinds_least):
        seen = set()
        for plain, made in zip(self.images(), self.images(augment)):
            # What the crop draws comes first, so that it is the same with and without.
            found = variants(Image.fromarray(plain), table)
            self.assertTrue(made.tobytes() in found)  # assertIn would print all of them
            names = found[made.tobytes()]
            seen.update(names if len(names) == 1 else ())
        self.assertGreaterEqual(len(seen), kinds_least, seen)

    def test_trivial_augment_wide_does_one_of_torchvisions_operations(self):
        self.check_each(hr.TrivialAugmentWide(), table_of(torchvision.transforms.TrivialAugmentWide()), 11)

    def test_rand_augment_does_its_operations_of_one_strength(self):
        self.check_each(hr.RandAugment(num_ops=1), self.rand_augment_table(), 10)

    def rand_augment_table(self):
        space = table_of(torchvision.transforms.RandAugment(), (SIDE, SIDE))
        return {name: (values[9] if values.ndim else values, signed) for name, (values, signed) in space.items()}

    def test_operations_follow_each_other(self):
        plain = self.images()
        self.assertEqual(self.images(hr.RandAugment(num_ops=0)).tobytes(), plain.tobytes())
        once, twice = self.images(hr.RandAugment(num_ops=1)), self.images(hr.RandAugment(num_ops=2))
        table = self.rand_augment_table()
        for first, second in list(zip(once, twice))[:20]:
            self.assertTrue(second.tobytes() in variants(Image.fromarray(first), table))

    def test_another_epoch_draws_anew(self):
        loader = hr.DataLoader(self.data, 60, transform=[hr.Resize((SIDE, SIDE)), hr.TrivialAugmentWide()],
                               dtype="uint8", output="numpy", seed=5)
        made = []
        for epoch in range(2):
            loader.set_epoch(epoch)
            made.append(next(iter(loader))[0].copy())
        self.assertLess(sum(bool((a == b).all()) for a, b in zip(*made)), 20)


if __name__ == "__main__":
    support.main()
