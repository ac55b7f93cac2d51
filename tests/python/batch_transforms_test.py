# SPDX-License-Identifier: Apache-2.0
"""RandomErasing, MixUp and CutMix do what torchvision's do, and draw the same however a loader runs."""
import unittest

import support
support.need("torch", "numpy")
import headrace as hr
import numpy
import torch

CHAIN = [hr.Resize((32, 48)), hr.Normalize(hr.IMAGENET)]
ERASE = hr.RandomErasing(0.7, value=(9.0, 8.0, 7.0))


def batches(steps, **options):
    options = {"shuffle": True, "seed": 3, "transform": CHAIN, "output": "torch", **options}
    loader = hr.DataLoader(data(), 16, batch_transform=steps, **options)
    return [batch for _ in range(2) for batch in loader.batches()]


def data():
    return hr.ImageFolder(support.synth("data"), ram="64M")


class BatchTransformsTest(unittest.TestCase):
    def both(self, step, **options):
        return zip(batches([], **options), batches([step], **options))

    def test_erasing_sets_one_rectangle_of_an_allowed_size_and_shape(self):
        erased = 0
        for plain, changed in self.both(ERASE):
            for before, after in zip(plain.images, changed.images):
                differs = (before != after).any(0)
                if not differs.any():
                    self.assertTrue(torch.equal(before, after))
                    continue
                rows, columns = differs.any(1).nonzero(), differs.any(0).nonzero()
                part = after[:, rows.min():rows.max() + 1, columns.min():columns.max() + 1]
                for channel, value in zip(part, (9.0, 8.0, 7.0)):
                    self.assertTrue((channel == value).all())
                _, height, width = part.shape
                # Sides are rounded to pixels.
                self.assertTrue((height - 0.5) * (width - 0.5) <= 0.33 * 32 * 48)
                self.assertTrue((height + 0.5) * (width + 0.5) >= 0.02 * 32 * 48)
                self.assertTrue((height - 0.5) / (width + 0.5) <= 3.3 and (height + 0.5) / (width - 0.5) >= 0.3)
                erased += 1
        self.assertTrue(0.6 < erased / (2 * len(data())) < 0.8, erased)

    def test_mixup_mixes_with_the_sample_before(self):
        for plain, mixed in self.both(hr.MixUp(num_classes=7, alpha=0.8)):
            self.assertEqual(tuple(mixed.labels.shape), (len(plain.labels), 7))
            hard = torch.nn.functional.one_hot(plain.labels, 7).float()
            apart = (plain.labels != plain.labels.roll(1, 0)).nonzero().flatten()[0]
            share = mixed.labels[apart, plain.labels[apart]].item()
            self.assertTrue(torch.allclose(mixed.labels, hard * share + hard.roll(1, 0) * (1 - share), atol=1e-6))
            wanted = plain.images * share + plain.images.roll(1, 0) * (1 - share)
            self.assertTrue(torch.allclose(mixed.images, wanted, atol=1e-5))

    def test_cutmix_takes_a_rectangle_of_the_sample_before_and_counts_its_area(self):
        for plain, mixed in self.both(hr.CutMix(num_classes=7)):
            other = plain.images.roll(1, 0)
            moved = (mixed.images != plain.images).any(1).any(0)
            self.assertTrue(torch.equal(mixed.images, torch.where(moved, other, plain.images)))
            if moved.any():
                rows, columns = moved.any(1).nonzero(), moved.any(0).nonzero()
                area = ((rows.max() - rows.min() + 1) * (columns.max() - columns.min() + 1)).item()
            else:
                area = 0
            hard = torch.nn.functional.one_hot(plain.labels, 7).float()
            share = 1 - area / (32 * 48)
            self.assertTrue(torch.allclose(mixed.labels, hard * share + hard.roll(1, 0) * (1 - share), atol=1e-6))

    def test_draws_are_the_same_for_any_threads_layout_and_output_and_differ_by_epoch_and_seed(self):
        for step in (ERASE, hr.MixUp(7), hr.CutMix(7)):
            with self.subTest(step):
                wanted = batches([step])
                for options in ({"threads": 1}, {"threads": 5, "prefetch_batches": 4}, {"channels_last": True},
                                {"output": "numpy"}, {"output": "numpy", "channels_last": True}):
                    for one, other in zip(wanted, batches([step], **options)):
                        images = torch.as_tensor(other.images)
                        if options.get("output") and options.get("channels_last"):
                            images = images.permute(0, 3, 1, 2)
                        self.assertTrue(torch.allclose(one.images, images, atol=1e-6), options)
                        self.assertTrue(numpy.allclose(one.labels, other.labels, atol=1e-6), options)
                for options in ({"seed": 4}, {"order": "sequential", "shuffle": False}):
                    self.assertFalse(all(torch.equal(one.images, other.images) for one, other in
                                         zip(wanted, batches([step], **options))))
                first, second = (batches([step], shuffle=False)[epoch * len(wanted) // 2] for epoch in (0, 1))
                self.assertFalse(torch.equal(first.images, second.images))

    def test_a_resumed_loader_draws_the_same(self):
        make = lambda: hr.DataLoader(data(), 16, shuffle=True, transform=CHAIN, batch_transform=[ERASE, hr.MixUp(7)])
        loader = make()
        iterator = loader.batches()
        next(iterator)
        state, wanted = loader.state_dict(), next(iterator)
        again = make()
        again.load_state_dict(state)
        got = next(again.batches())
        self.assertTrue(torch.equal(got.images, wanted.images) and torch.equal(got.labels, wanted.labels))

    def test_what_does_not_fit_is_refused(self):
        for error, text, steps, options in (
                (ValueError, "does not fit dtype uint8", [hr.MixUp(7)], {"dtype": "uint8", "transform": CHAIN[:1]}),
                (ValueError, "needs torch tensors", [ERASE], {"output": "buffer"}),
                (ValueError, "needs torch tensors", [ERASE], {"output": "numpy", "dtype": "bfloat16"}),
                (ValueError, "cannot follow each other", [hr.MixUp(7), hr.CutMix(7)], {}),
                (ValueError, "alpha of CutMix", [hr.CutMix(7, alpha=0)], {}),
                (ValueError, "num_classes of MixUp", [hr.MixUp(0)], {}),
                (ValueError, "p of RandomErasing", [hr.RandomErasing(1.5)], {}),
                (ValueError, "scale of RandomErasing", [hr.RandomErasing(scale=(0.5, 0.1))], {}),
                (ValueError, "'random' is not supported", [hr.RandomErasing(value="random")], {}),
                (ValueError, "a number or three", [hr.RandomErasing(value=(1, 2))], {}),
                (TypeError, "none of headrace's", [abs], {}), (TypeError, "must be a list", hr.MixUp(7), {})):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                batches(steps, **options)
        with self.assertRaisesRegex(ValueError, "num_classes is 3, but there is a label"):
            batches([hr.MixUp(3)])
        with self.assertRaisesRegex(ValueError, "no batch_transform fits"):
            hr.DataLoader(hr.Files(support.synth("data")), 8, batch_transform=[ERASE])


if __name__ == "__main__":
    support.main()
