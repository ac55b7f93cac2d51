#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares decode/ with PIL and torchvision: compare_with_pil.py TRANSFORM_TOOL

Exit status 77: one of them is missing here.
"""

import collections
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True

try:
    import numpy
    import torch
    import torchvision
    from PIL import Image
    from torchvision.transforms import InterpolationMode, autoaugment, functional
except ImportError as reason:
    print(f"skipped: {reason}")
    sys.exit(77)

TOOL = sys.argv[1]
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SIZES = [(224, 224), (96, 31), (640, 500), (299, 260)]


def run(*words):
    process = subprocess.run([TOOL, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert process.returncode == 0, process.stderr.decode()
    return process.stdout


def pixels(*words):
    head, _, data = run(*words).partition(b"\n")
    width, height = map(int, head.split())
    return numpy.frombuffer(data, numpy.uint8).reshape(height, width, 3).astype(int)


def picture(width, height, seed):
    """Smooth waves, hard edges and noise."""
    random = numpy.random.RandomState(seed)
    y, x = numpy.mgrid[0:height, 0:width]
    channels = [90 + 60 * numpy.sin(x / (9 + 7 * c) + y / 13) + 60 * ((x // 31 + y // 23) % 2) for c in range(3)]
    pixels = numpy.dstack(channels) + random.randint(0, 40, (height, width, 3))
    return Image.fromarray(pixels.clip(0, 255).astype("u1"))


class Comparison(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def save(self, image, name, **options):
        path = Path(self.folder.name) / name
        image.save(path, **options)
        return path

    def check(self, ours, theirs, beyond_one=0.0, what=""):
        """`beyond_one`: which fraction may differ by more than 1."""
        self.assertEqual(ours.shape, theirs.shape, what)
        difference = numpy.abs(ours - theirs)
        self.assertLessEqual((difference > 1).mean(), beyond_one, f"{what}: by up to {difference.max()}")

    def test_decoding_gives_the_pixels_that_pil_gives(self):
        rgb = picture(150, 111, 1)
        files = [self.save(rgb, f"s{s}.jpg", quality=80, subsampling=s) for s in (0, 1, 2)]
        files += [self.save(rgb, "progressive.jpg", progressive=True), self.save(rgb.convert("L"), "grey.jpg"),
                  self.save(rgb.convert("CMYK"), "cmyk.jpg"), self.save(rgb, "a.bmp"), self.save(rgb, "a.png"),
                  self.save(rgb.convert("L"), "grey.png"), self.save(rgb.quantize(40), "palette.png"),
                  self.save(rgb.convert("RGBA"), "alpha.png"), self.save(rgb.convert("1"), "bits.png"),
                  self.save(rgb.quantize(40), "palette.bmp"), self.save(rgb.convert("1"), "bits.bmp"),
                  self.save(rgb, "a.webp", lossless=True), self.save(rgb, "lossy.webp")]
        for file in files:
            theirs = numpy.asarray(Image.open(file).convert("RGB")).astype(int)
            self.assertEqual(numpy.abs(pixels("decode", file) - theirs).max(), 0, file.name)

    def test_resizing_is_within_one_of_pil(self):
        for width, height in ((500, 375), (64, 48), (333, 1000), (1600, 1200), (1, 1), (2, 3), (5, 400)):
            file = self.save(picture(width, height, width), "a.png")
            for target in SIZES:
                for name, kind in (("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)):
                    theirs = numpy.asarray(Image.open(file).resize(target, kind)).astype(int)
                    self.check(pixels("resize", file, *target, 1, name), theirs, 0.001,
                               f"{name} {width}x{height} to {target}")

    def test_resizing_without_antialias_is_within_one_of_torchvision(self):
        image = picture(500, 375, 3)
        file = self.save(image, "a.png")
        tensor = torch.from_numpy(numpy.asarray(image).copy()).permute(2, 0, 1)
        for width, height in SIZES:
            theirs = functional.resize(tensor, [height, width], InterpolationMode.BILINEAR, antialias=False)
            theirs = theirs.permute(1, 2, 0).numpy().astype(int)
            self.check(pixels("resize", file, width, height, 0, "bilinear"), theirs, 0.001)

    def test_the_middle_is_cut_out_as_torchvision_does(self):
        for width, height in ((500, 375), (375, 501), (256, 256), (90, 700), (1023, 257)):
            file = self.save(picture(width, height, 4), "a.png")
            for shorter, side in ((256, 224), (224, 224), (100, 150)):
                for mode in (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC):
                    theirs = functional.resize(Image.open(file), shorter, mode)
                    theirs = numpy.asarray(functional.center_crop(theirs, [side, side])).astype(int)
                    self.check(pixels("center", file, shorter, side, side, mode.value), theirs, 0.001,
                               f"{mode.value} {width}x{height} to {shorter}, {side}")

    def test_colours_are_adjusted_as_pil_does(self):
        image = picture(200, 150, 5)
        file = self.save(image, "a.png")
        for factor in (0.0, 0.3, 1.0, 1.7):
            for step in ("brightness", "contrast", "saturation"):
                theirs = getattr(functional, f"adjust_{step}")(image, factor)
                self.check(pixels("adjust", file, step, factor), numpy.asarray(theirs).astype(int), 0, step)
        for shift in (-0.5, -0.1, 0.0, 0.25):
            theirs = numpy.asarray(functional.adjust_hue(image, shift)).astype(int)
            self.check(pixels("adjust", file, "hue", shift), theirs, 0.001, f"hue {shift}")

    def test_augmentations_give_the_pixels_that_torchvision_gives_on_pil(self):
        for size, bins in (((224, 224), (7, 20, 30)), ((97, 64), (13, 30)), ((2, 5), (30,)), ((1, 1), (30,))):
            image = picture(*size, 7)
            file = self.save(image, "a.png")
            spaces = (torchvision.transforms.TrivialAugmentWide()._augmentation_space(31),
                      torchvision.transforms.RandAugment()._augmentation_space(31, size[::-1]))
            for number, name in enumerate(spaces[0]):
                drawn = {space[name][0].reshape(-1)[bin if space[name][0].ndim else 0].item()
                         for space in spaces for bin in bins}
                signed = spaces[0][name][1]
                for strength in sorted(drawn | ({-value for value in drawn} if signed else set())):
                    theirs = autoaugment._apply_op(image, name, strength, InterpolationMode.NEAREST, None)
                    ours = pixels("augment", file, number, repr(strength))
                    self.assertEqual(numpy.abs(ours - numpy.asarray(theirs).astype(int)).max(), 0,
                                     f"{name} {strength} of {size}")

    def test_augmentations_have_the_strengths_of_torchvision(self):
        for bins in (2, 10, 31, 64):
            for name, space in (("wide", torchvision.transforms.TrivialAugmentWide()._augmentation_space(bins)),
                                ("rand", torchvision.transforms.RandAugment()._augmentation_space(bins, (99, 201)))):
                rows = run("strengths", bins, name, 201, 99).decode().splitlines()
                self.assertEqual(len(rows), len(space))
                for row, (kind, (theirs, _)) in zip(rows, space.items()):
                    ours = numpy.array(row.split(), float)
                    # torch adds up the steps in single precision, in as many lanes as the machine has.
                    self.assertLess(numpy.abs(ours - theirs.reshape(-1).numpy()).max(), 1e-4, kind)

    def test_augmentations_are_drawn_evenly(self):
        count = 20_000
        rows = [line.split() for line in run("augments", count).decode().splitlines()]
        space = torchvision.transforms.TrivialAugmentWide()._augmentation_space(31)
        for kind, (strengths, signed) in enumerate(space.values()):
            drawn = collections.Counter(float(row[1]) for row in rows if int(row[0]) == kind)
            times = sum(drawn.values())
            self.assertLess(abs(times - count / 14), 6 * (count / 14)**0.5)
            values = {round(value, 4) for value in strengths.reshape(-1).tolist()}
            values |= {-value for value in values} if signed else set()
            self.assertEqual({round(value, 4) for value in drawn}, values)
            if signed:
                self.assertLess(abs(sum(drawn[value] for value in drawn if value < 0) / times - 30 / 62), 0.1)

    def test_numbers_are_the_nearest_to_the_exact_ones(self):
        image = picture(64, 48, 6)
        file = self.save(image, "a.png")
        exact = (numpy.asarray(image).astype(float) / 255 - MEAN) / DEVIATION
        exact = exact.transpose(2, 0, 1)
        for name, read in (("float16", numpy.float16), ("float32", numpy.float32)):
            data = run("tensor", file, name).partition(b"\n")[2]
            ours = numpy.frombuffer(data, read).reshape(3, 48, 64)
            self.assertTrue((ours == exact.astype(read)).all(), name)
        data = run("tensor", file, "bfloat16").partition(b"\n")[2]
        ours = torch.from_numpy(numpy.frombuffer(data, numpy.int16).copy()).view(torch.bfloat16).reshape(3, 48, 64)
        self.assertTrue(torch.equal(ours, torch.from_numpy(exact).to(torch.bfloat16)))

    def test_crops_are_distributed_as_torchvisions(self):
        count, size = 20_000, (500, 375)
        ours = numpy.array([line.split() for line in run("crops", *size, count).decode().splitlines()], float)
        torch.manual_seed(1)
        image = Image.new("RGB", size)
        draw = torchvision.transforms.RandomResizedCrop.get_params
        theirs = numpy.array([draw(image, (0.08, 1), (3 / 4, 4 / 3)) for _ in range(count)], float)[:, [1, 0, 3, 2]]
        for column, name in enumerate(("x", "y", "width", "height")):
            self.assertLess(kolmogorov_smirnov(ours[:, column], theirs[:, column]), 0.02, name)
        area_ours, area_theirs = ours[:, 2] * ours[:, 3], theirs[:, 2] * theirs[:, 3]
        self.assertLess(kolmogorov_smirnov(area_ours, area_theirs), 0.02)
        self.assertLess(abs(ours[:, 4].mean() - 0.5), 0.02)

    def test_padded_crops_begin_where_torchvisions_do(self):
        count, size, padding = 20_000, 32, 4
        ours = numpy.array([line.split() for line in run("pad-crops", size, padding, count).decode().splitlines()], int)
        torch.manual_seed(1)
        padded = Image.new("RGB", (size + 2 * padding,) * 2)
        draw = torchvision.transforms.RandomCrop.get_params
        theirs = numpy.array([draw(padded, (size, size))[:2] for _ in range(count)])[:, ::-1]
        self.assertEqual((ours.min(), ours.max()), (theirs.min(), theirs.max()))
        for column, name in enumerate(("x", "y")):
            self.assertLess(kolmogorov_smirnov(ours[:, column], theirs[:, column]), 0.02, name)

    def test_colour_jitter_is_distributed_as_torchvisions(self):
        count, strengths = 20_000, (0.4, 1.5, 0.2, 0.1)
        rows = [line.split() for line in run("jitters", *strengths, count).decode().splitlines()]
        torch.manual_seed(1)
        jitter = torchvision.transforms.ColorJitter(*strengths)
        theirs = [jitter.get_params(jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue)
                  for _ in range(count)]
        for column, name in enumerate(("brightness", "contrast", "saturation", "hue"), start=1):
            drawn = (numpy.array([float(row[column]) for row in rows]), numpy.array([row[column] for row in theirs]))
            self.assertLess(kolmogorov_smirnov(*drawn), 0.02, name)
        # All 24 orders, each within six standard deviations of its share.
        orders = collections.Counter(row[0] for row in rows)
        share = count / 24
        self.assertEqual(len(orders), 24)
        self.assertLess(max(abs(times - share) for times in orders.values()), 6 * share**0.5)


def kolmogorov_smirnov(a, b):
    """The largest distance between two empirical distributions; 0.02 is exceeded once in 2000 with 20 000 each."""
    values = numpy.sort(numpy.concatenate([a, b]))
    below = [numpy.searchsorted(numpy.sort(sample), values, side="right") / len(sample) for sample in (a, b)]
    return numpy.abs(below[0] - below[1]).max()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
