# SPDX-License-Identifier: Apache-2.0
"""Crops and flips are those that a torch DataLoader with torchvision's transforms draws, from the same seeds.

The pixels of the images tell where they are from: red grows from left to right, green from top to bottom. So equal
pixels are equal rectangles.
"""
import random
import unittest
import warnings

import support

support.need("numpy", "torch", "torchvision", "PIL")
import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader as TorchLoader, DistributedSampler, RandomSampler
from torchvision import transforms
from torchvision.datasets import ImageFolder

import headrace as hr

COUNT = 160


def make_images(name="gradients", count=COUNT, classes=1, side=500):
    top = support.WORK / name
    sizes = random.Random(1)
    for number in range(count):
        folder = top / f"class{number * classes // count}"
        folder.mkdir(parents=True, exist_ok=True)
        width, height = sizes.randint(20, side), sizes.randint(20, side)
        if number % 10 == 0:  # so narrow that no try fits, and the middle is taken
            width, height = sizes.randint(20, 40), sizes.randint(500, 700)
        red = numpy.linspace(0, 255, width)[None, :].repeat(height, 0)
        green = numpy.linspace(0, 255, height)[:, None].repeat(width, 1)
        blue = numpy.full((height, width), number % 256)
        Image.fromarray(numpy.stack([red, green, blue], 2).astype("uint8")).save(folder / f"{number:04}.png")
    return top


class EpochsOfTorch:
    """RandomSampler with the generator of the loader, as DataLoader(shuffle=True, generator=g) makes one."""

    def __init__(self, generator):
        self._sampler = RandomSampler(range(COUNT), generator=generator)

    def __len__(self):
        return COUNT

    def __iter__(self):
        return iter(self._sampler)


class CropsTest(unittest.TestCase):
    def test_a_batch_says_what_its_images_show(self):
        chain = [hr.RandomResizedCrop((24, 36)), hr.RandomHorizontalFlip()]
        loader = hr.DataLoader(self.data, 32, transform=chain, dtype="uint8", output="numpy", channels_last=True)
        mirrored = 0
        for batch in loader.batches():
            self.assertEqual(len(batch.crops), len(batch.indices))
            self.assertEqual(batch.crops[-1], list(batch.crops)[-1])
            self.assertEqual(batch.crops[1:3], [batch.crops[1], batch.crops[2]])
            self.assertRaises(IndexError, lambda crops=batch.crops: crops[len(crops)])
            for image, index, crop in zip(batch.images, batch.indices, batch.crops):
                self.assertEqual((crop.image_width, crop.image_height),
                                 Image.open(self.data.samples[index][0]).size)
                self.assertEqual((crop.target_x, crop.target_y, crop.target_width, crop.target_height), (0, 0, 36, 24))
                mirrored += crop.mirrored
                # Red tells the column, green the row: the middle of the sample is the middle of the rectangle.
                red = (crop.x + crop.width / 2 - 0.5) * 255 / (crop.image_width - 1)
                green = (crop.y + crop.height / 2 - 0.5) * 255 / (crop.image_height - 1)
                self.assertAlmostEqual(image[:, 17:19, 0].mean(), red, delta=3)
                self.assertAlmostEqual(image[11:13, :, 1].mean(), green, delta=3)
                left, right = image[12, 0, 0], image[12, -1, 0]
                if crop.width > 10:
                    self.assertEqual(bool(left > right), crop.mirrored)
        self.assertIn(mirrored, range(40, 120))
        border = hr.DataLoader(self.data, 160, transform=[hr.RandomCrop(1000, padding=900)], dtype="uint8",
                               output="numpy", channels_last=True)
        batch = next(border.batches())
        for image, crop in list(zip(batch.images, batch.crops))[:20]:
            shown = image[crop.target_y:crop.target_y + crop.target_height,
                          crop.target_x:crop.target_x + crop.target_width]
            self.assertEqual((crop.width, crop.height), (crop.target_width, crop.target_height))
            self.assertEqual(int(image[:, :, :2].astype(int).sum()), int(shown[:, :, :2].astype(int).sum()))

    def test_bicubic_gives_the_pixels_that_torchvision_gives_on_pil(self):
        mode = transforms.InterpolationMode.BICUBIC
        chain = transforms.Compose([transforms.Resize(48, mode), transforms.CenterCrop(40)])
        theirs = [numpy.asarray(chain(Image.open(path).convert("RGB"))) for path, _ in self.data.samples[:32]]
        theirs = torch.from_numpy(numpy.stack(theirs)).permute(0, 3, 1, 2).int()
        for interpolation in (mode, mode.value):
            loader = hr.DataLoader(self.data, 32, dtype="uint8", output="torch",
                                   transform=[hr.Resize(48, interpolation=interpolation), hr.CenterCrop(40)])
            difference = (next(iter(loader))[0].int() - theirs).abs()
            self.assertLessEqual((difference > 1).float().mean().item(), 0.001)

    @classmethod
    def setUpClass(cls):
        cls.folder = make_images()
        cls.data = hr.ImageFolder(cls.folder, ram="64M")
        warnings.simplefilter("ignore")  # torch finds that these are many workers for two cores

    def compare(self, workers, flip, drop_last, seed):
        chain = [transforms.RandomResizedCrop(24)]
        mine = [hr.RandomResizedCrop(24)]
        if flip is not None:
            chain.append(transforms.RandomHorizontalFlip(flip))
            mine.append(hr.RandomHorizontalFlip(flip))
        wanted = TorchLoader(ImageFolder(self.folder, transforms.Compose(chain + [transforms.PILToTensor()])), 16,
                             shuffle=True, num_workers=workers, drop_last=drop_last,
                             generator=torch.Generator().manual_seed(seed))
        generator = torch.Generator().manual_seed(seed)
        loader = hr.DataLoader(self.data, 16, sampler=EpochsOfTorch(generator), drop_last=drop_last, transform=mine,
                               dtype="uint8", dct_scaling=False, draws="torch", torch_workers=workers,
                               generator=generator)
        for _ in range(2):
            # Resizing differs from PIL's by 1 at most; another rectangle would by much more.
            found = hr.check(loader, wanted, tolerance=1)
            self.assertEqual(found["batches"], len(wanted))
            self.assertEqual(found["samples"], len(wanted) * 16 if drop_last else COUNT)

    def test_crops_and_flips_are_torchs(self):
        for workers, flip, drop_last, seed in ((1, 0.5, False, 0), (2, 0.5, True, 1), (3, None, False, 2),
                                               (2, 0.3, False, 3)):
            with self.subTest(workers=workers, flip=flip):
                self.compare(workers, flip, drop_last, seed)

    def test_order_labels_and_crops_of_each_rank_are_torchs(self):
        count, classes = 45, 5  # no multiple of ranks or batches
        folder = make_images("ranks", count, classes, side=120)
        reference = ImageFolder(folder, transforms.Compose([transforms.RandomResizedCrop(24),
                                                            transforms.RandomHorizontalFlip(),
                                                            transforms.PILToTensor()]))
        data = hr.ImageFolder(folder, ram="64M")
        self.assertEqual(len(set(data.targets)), classes)
        for ranks, drop_last in ((ranks, drop_last) for ranks in (1, 2, 8) for drop_last in (False, True)):
            for rank in sorted({0, ranks // 2, ranks - 1}):
                with self.subTest(ranks=ranks, rank=rank, drop_last=drop_last):
                    self.compare_rank(reference, data, ranks, rank, drop_last)

    def compare_rank(self, reference, data, ranks, rank, drop_last):
        workers, batch = 1 + rank % 2, 4
        sampler = DistributedSampler(reference, num_replicas=ranks, rank=rank, seed=6, drop_last=False)
        wanted = TorchLoader(reference, batch, sampler=sampler, num_workers=workers, drop_last=drop_last,
                             generator=torch.Generator().manual_seed(rank))
        loader = hr.DataLoader(data, batch, shuffle=True, seed=6, rank=rank, world_size=ranks, drop_last=drop_last,
                               transform=[hr.RandomResizedCrop(24), hr.RandomHorizontalFlip()], dtype="uint8",
                               dct_scaling=False, draws="torch", torch_workers=workers,
                               generator=torch.Generator().manual_seed(rank))
        samples = -(-len(reference) // ranks)
        for epoch in range(3):
            sampler.set_epoch(epoch)
            loader.set_epoch(epoch)
            found = hr.check(loader, wanted, tolerance=1)
            self.assertEqual(found["samples"], samples // batch * batch if drop_last else samples)

    def test_another_seed_gives_other_crops(self):
        with self.assertRaisesRegex(AssertionError, "batch 1: pixels differ"):
            self.compare_with_wrong_seed()

    def test_check_names_the_first_batch_that_differs(self):
        def labelled(*batches):
            return [(torch.zeros(len(labels), 3, 2, 2), torch.tensor(labels)) for labels in batches]

        same = labelled([1, 2], [3])
        self.assertEqual(hr.check(same, same, tolerance=0), {"batches": 2, "samples": 3, "difference": 0})
        self.assertEqual(hr.check(same, labelled([1, 2], [9]), batches=1)["samples"], 2)
        for other, words in ((labelled([1, 2], [9]), "batch 2: the labels differ from sample 0"),
                             (labelled([1, 2]), "batch 2: only headrace has it"),
                             (labelled([1, 2], [3], [4]), "batch 3: only torch has it"),
                             (labelled([1, 2, 5], [3]), "batch 1: the labels differ from sample 2")):
            with self.assertRaisesRegex(AssertionError, words):
                hr.check(same, other)

    def compare_with_wrong_seed(self):
        real = hr.DataLoader._torch_seed
        hr.DataLoader._torch_seed = lambda loader: real(loader) + 1
        try:
            self.compare(2, 0.5, False, 0)
        finally:
            hr.DataLoader._torch_seed = real


if __name__ == "__main__":
    support.main()
