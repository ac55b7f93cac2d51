# SPDX-License-Identifier: Apache-2.0
"""Batches that are brought to a device: what they hold, whose they are, and where the loader stands. Here the device is
the CPU, which takes every step but the streams; streams_test.py and tests/gpu have those."""
import gc
import importlib.util
import threading
import types
import unittest
import warnings
import weakref
from unittest import mock

import support

support.need("torch", "numpy")
import torch

import headrace as hr
from headrace.device_jpegs import groups_of
from headrace.loader import _Running

torch.set_num_threads(1)  # several that wait for each other by spinning take long where the machine is busy

CROP = hr.RandomResizedCrop((12, 10))
CHAIN = [CROP, hr.RandomHorizontalFlip(), hr.Normalize(hr.IMAGENET)]
TOLERANCE = {"uint8": 0, "float32": 1e-5, "float16": 4e-3, "bfloat16": 4e-2}  # a step of values up to 2.7


class DeviceTest(unittest.TestCase):
    DECODE, AHEAD, PIXELS_ATOL = "cpu", 1, 0  # of 255
    DTYPES, EPOCHS, FILES = tuple(TOLERANCE), 2, 203

    @classmethod
    def setUpClass(cls):
        cls.data = hr.ImageFolder(support.synth(f"data{cls.FILES}", files=cls.FILES), ram="64M")

    def loader(self, **options):
        return self.of(self.data, 8, **{"shuffle": True, "output": "torch", "seed": 3, **options})

    def of(self, data, batch_size, **options):
        decode = {"decode": self.DECODE} if "device" in options else {}
        return hr.DataLoader(data, batch_size, **{"transform": CHAIN, "dct_scaling": False, **decode, **options})

    def check_same(self, ours, theirs, atol):
        self.assertEqual((ours.epoch, ours.position, ours.states, list(ours.crops)),
                         (theirs.epoch, theirs.position, theirs.states, list(theirs.crops)))
        self.assertTrue(torch.equal(ours.indices, theirs.indices))
        torch.testing.assert_close(ours.labels, theirs.labels, atol=1e-6, rtol=0)
        pixel = 1 if ours.images.dtype == torch.uint8 else 1 / (255 * min(hr.IMAGENET[1]))
        torch.testing.assert_close(ours.images, theirs.images, atol=atol + pixel * self.PIXELS_ATOL, rtol=0)

    def test_batches_are_those_of_the_loader_without_a_device(self):
        for dtype in self.DTYPES:
            for channels_last in (False, True):
                chain = CHAIN[:2] if dtype == "uint8" else CHAIN
                side = {"dtype": dtype, "channels_last": channels_last, "transform": chain}
                ours, theirs = self.loader(device="cpu", **side), self.loader(**side)
                for _ in range(self.EPOCHS):
                    # All are kept: none is written again, and each is a tensor of its own.
                    batches = list(ours.batches())
                    self.assertEqual(len(batches), -(-self.FILES // 8))
                    for batch, expected in zip(batches, theirs.batches(), strict=True):
                        self.check_same(batch, expected, TOLERANCE[dtype])
                    layout = torch.channels_last if channels_last else torch.contiguous_format
                    self.assertTrue(all(batch.images.is_contiguous(memory_format=layout) for batch in batches))
                    self.assertEqual(len({batch.images.data_ptr() for batch in batches}), len(batches))

    def test_without_normalize_numbers_are_shares_of_255(self):
        images, _ = next(iter(self.loader(device="cpu", transform=[CROP])))
        pixels, _ = next(iter(self.loader(dtype="uint8", transform=[CROP])))
        torch.testing.assert_close(images, pixels / 255, atol=self.PIXELS_ATOL / 255 + 1e-6, rtol=0)

    def test_the_state_counts_what_was_handed_over(self):
        loader, whole = self.loader(device="cpu"), list(self.loader().batches())
        running = loader.batches()
        with mock.patch.object(_Running, "next", lambda self, wait=True, next=_Running.next: next(self)):
            for place in range(5):
                next(running)
                self.assertEqual(loader.state_dict()["position"], 8 * (place + 1))
                self.assertEqual(len(running._ahead), self.AHEAD)  # always on its way here: asking for it waits
        resumed = self.loader(device="cpu")
        resumed.load_state_dict(loader.state_dict())
        for batch, expected in zip(resumed.batches(), whole[5:], strict=True):
            self.check_same(batch, expected, 1e-5)

    def test_what_the_slots_hold_outlives_the_loader(self):
        loader, expected = self.loader(device="cpu"), [batch for batch, _ in self.loader()][:3]
        running = iter(loader)
        kept = [next(running)[0] for _ in range(3)]
        loader.close()
        del loader, running
        gc.collect()
        for ours, theirs in zip(kept, expected, strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-5 + self.PIXELS_ATOL / 50, rtol=0)

    def test_an_iteration_that_ends_early_begins_anew(self):
        loader = self.loader(device="cpu")
        for images, _ in loader:
            break
        again = next(iter(loader))[0]
        self.assertTrue(torch.equal(images, again))
        running = iter(loader)
        next(running)
        loader.close()
        with self.assertRaisesRegex(RuntimeError, "iteration is over"):
            next(running)

    def test_a_batch_that_was_staged_when_an_exception_came_is_not_lost(self):
        def interrupt_third(function):
            calls = iter(range(1000))

            def call(*arguments):
                if next(calls) == 2:
                    raise KeyboardInterrupt
                return function(*arguments)
            return call

        for place in ("post", "took"):
            post = lambda images, labels: (images, labels)
            loader = self.loader(device="cpu", post=interrupt_third(post) if place == "post" else post)
            took = interrupt_third(_Running.took) if place == "took" else _Running.took
            positions, interrupts = [], 0
            with mock.patch.object(_Running, "took", lambda self, slot, took=took: took(self, slot)):
                running = loader.batches()
                while True:
                    try:
                        positions.append(next(running).position)
                    except KeyboardInterrupt:
                        interrupts += 1
                    except StopIteration:
                        break
            wanted = [min(end, self.FILES) for end in range(8, self.FILES + 8, 8)]
            self.assertEqual((positions, interrupts), (wanted, 1), place)

    def test_the_batch_before_a_wrong_one_is_handed_over_first(self):
        folder = support.synth("wrong", files=64, classes=1)
        sorted(folder.rglob("*.jpg"))[35].write_bytes(b"no picture")
        data = hr.ImageFolder(folder, ram="64M")

        def delivered(**options):
            running, positions = self.of(data, 8, output="torch", **options).batches(), []
            with self.assertRaises((hr.BadSampleError, ArithmeticError)) as raised:
                while True:
                    positions.append(next(running).position)
            return positions, str(raised.exception)

        def divide(images, labels, calls=iter([1] * 2 + [0] * 99)):  # it may be tried before it is handed over
            return images / (1 // next(calls)), labels
        with mock.patch.object(_Running, "next", lambda self, wait=True, next=_Running.next: next(self)):
            self.assertEqual(delivered(device="cpu"), delivered())
            self.assertEqual(delivered(device="cpu", post=divide)[0], [8, 16])

    def test_batch_transforms_and_post_run_behind_each_other(self):
        steps = [hr.RandomErasing(0.5), hr.MixUp(num_classes=7, alpha=0.4)]
        loader = self.loader(device="cpu", batch_transform=steps, post=lambda images, labels: (images * 2, labels))
        for ours, theirs in zip(loader.batches(), self.loader(batch_transform=steps).batches(), strict=True):
            theirs.images = theirs.images * 2
            self.check_same(ours, theirs, 1e-4 + self.PIXELS_ATOL / 50)

    def test_what_post_is_given_stays_until_its_batch_is_handed_over(self):
        given = []

        def post(images, labels):
            given.append((weakref.ref(images), weakref.ref(labels)))
            return images + 1, labels + 1

        running = self.loader(device="cpu", post=post).batches()
        with mock.patch.object(_Running, "next", lambda self, wait=True, next=_Running.next: next(self)):
            next(running)
        self.assertEqual(len(running._ahead), self.AHEAD)
        if self.DECODE == "cpu":  # else it is given the next one later
            self.assertEqual([[one() is not None for one in batch] for batch in given], [[False, False], [True, True]])

    def test_a_bad_sample_is_zero_behind_normalize(self):
        folder = support.synth("broken", files=16, classes=1)
        sorted(folder.rglob("*.jpg"))[5].write_bytes(b"no picture")
        data = hr.ImageFolder(folder, ram="64M")
        batch = next(self.of(data, 16, device="cpu", bad_samples="zero").batches())
        self.assertEqual([place for place, state in enumerate(batch.states) if state == "bad"], [5])
        self.assertEqual([place for place in range(16) if not batch.images[place].any()], [5])

    def test_what_does_not_fit_is_refused(self):
        files = hr.Files(self.data.root, ram="64M")
        for options, error, text in (
                ({"device": "tpu"}, ValueError, "device 'tpu' is unknown to torch"),
                ({"device": "meta"}, ValueError, "device 'meta' is not supported"),
                ({"device": "cpu", "output": "numpy"}, ValueError, "takes batches of images as torch tensors"),
                ({"post": print}, ValueError, "post runs on a device"),
                ({"device": "cpu", "dtype": "uint8"}, ValueError, "Normalize does not fit dtype uint8")):
            with self.assertRaisesRegex(error, text):
                self.loader(**options)
        with self.assertRaisesRegex(ValueError, "Files and output None have none"):
            hr.DataLoader(files, 8, device="cpu")
        if not torch.cuda.is_available():
            with self.assertRaisesRegex(RuntimeError, "sees no CUDA device"):
                self.loader(device="cuda")
        with self.assertRaisesRegex(ValueError, "num_classes is 2, but there is a label [2-6]"):
            list(self.loader(device="cpu", batch_transform=[hr.MixUp(num_classes=2)]))


class GpuDecodeTest(DeviceTest):
    """All of that where the JPEGs are decoded on the device; and what is different there."""
    DECODE, AHEAD, PIXELS_ATOL = "gpu", 2, 2
    DTYPES, EPOCHS, FILES = ("uint8", "bfloat16"), 1, 67  # a GPU's products of matrices take a CPU long

    @classmethod
    def setUpClass(cls):
        if importlib.util.find_spec("torchvision") is None:
            raise unittest.SkipTest("torchvision is not installed")
        super().setUpClass()

    def pixels(self, data, chain, **options):
        loader = self.of(data, 8, transform=chain, dtype="uint8", seed=1, **options)
        return torch.cat([images for images, _ in loader]).int()

    def test_crops_are_resized_as_on_the_cpu(self):
        data = hr.ImageFolder(support.synth("some", files=8, classes=1), ram="64M")
        with_border = [hr.Resize(40), hr.CenterCrop(64)]
        for chain in ([hr.Resize(72), hr.CenterCrop(64)], with_border,
                      [hr.Resize((50, 40), interpolation="bicubic"), hr.RandomHorizontalFlip()],
                      [hr.RandomResizedCrop((90, 80), antialias=False), hr.RandomHorizontalFlip()]):
            difference = (self.pixels(data, chain, device="cpu") - self.pixels(data, chain)).abs()
            self.assertLessEqual(int(difference.max()), 2, chain)  # two roundings
            self.assertLess(float((difference > 0).float().mean()), 0.05, chain)

    def test_a_group_has_room_for_its_own_pictures_and_not_for_a_much_larger_one(self):
        alike = [(50, 40), (40, 50)] * 20
        for sizes, lengths in ((alike, [32, 8]), (alike + [(4000, 5000)], [32, 8, 1]), ([(10, 100), (100, 10)], [1, 1]),
                               ([(7, 7)], [1]), ([], [])):
            groups = list(groups_of(sizes))
            self.assertEqual([len(group) for group in groups], lengths)
            self.assertEqual(sorted(sum(groups, [])), list(range(len(sizes))))

    def test_files_that_nothing_can_be_cut_out_of_are_decoded_here(self):
        from PIL import Image
        folder = support.synth("mixed", files=24, classes=1)
        paths = sorted(folder.rglob("*.jpg"))
        pictures = [Image.open(path).convert("RGB") for path in paths[:4]]
        pictures[0].save(paths[0], "PNG")
        pictures[1].convert("CMYK").save(paths[1], "JPEG")
        pictures[2].convert("L").save(paths[2], "JPEG")
        pictures[3].save(paths[3], "JPEG", progressive=True)
        content = bytearray(paths[4].read_bytes())
        content[len(content) // 2:len(content) // 2 + 2] = b"\xff\xff"
        paths[4].write_bytes(content)
        data = hr.ImageFolder(folder, ram="64M")
        chain = [hr.RandomResizedCrop((48, 40)), hr.RandomHorizontalFlip()]
        difference = (self.pixels(data, chain, device="cpu") - self.pixels(data, chain)).abs()
        self.assertLessEqual(int(difference.max()), 2)

    def test_jpegs_that_the_device_refuses_are_decoded_by_the_cpu(self):
        from torchvision import io
        loader = self.loader(device="cpu")
        decoding = loader._device._decoding

        def decode_jpeg(jpegs, mode, device=None):
            if isinstance(jpegs, list):
                raise RuntimeError("one of these")
            if device is not None and len(jpegs) % 3 == 0:
                raise RuntimeError("unknown subsampling")
            return io.decode_jpeg(jpegs, mode)
        decoding._io = types.SimpleNamespace(decode_jpeg=decode_jpeg, ImageReadMode=io.ImageReadMode)
        decoding._takes_lists = decoding._on_gpu = True  # for these calls alone: there is no stream
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for ours, theirs in zip(loader.batches(), self.loader().batches(), strict=True):
                self.check_same(ours, theirs, 1e-5)
        self.assertGreater(decoding.refused, 1)
        self.assertEqual([str(one.message) for one in said], ["headrace: the GPU does not decode a JPEG, so the CPU "
                                                              "does: unknown subsampling"])

    def test_what_cannot_be_done_on_the_device_is_refused(self):
        jitter = [CROP, hr.ColorJitter(0.1)]
        for options, text in (({"transform": jitter, "device": "cpu"}, "ColorJitter needs decode=\"cpu\""),
                              ({"transform": [CROP, hr.RandAugment()], "device": "cpu"}, "RandAugment needs"),
                              ({"transform": [hr.RandomCrop(8)], "device": "cpu"}, "RandomCrop needs"),
                              ({"decode": "gpu"}, "decode=\"gpu\" needs a device"),
                              ({"decode": "tpu"}, "decode 'tpu' is unknown")):
            with self.assertRaisesRegex(ValueError, text):
                self.loader(**options)

    def test_torch_draws_the_crops(self):
        sides = [self.pixels(self.data, [hr.RandomResizedCrop((48, 40)), hr.RandomHorizontalFlip()], draws="torch",
                             torch_workers=2, generator=torch.Generator().manual_seed(7), **device)
                 for device in ({"device": "cpu"}, {})]
        self.assertLessEqual(int((sides[0] - sides[1]).abs().max()), 2)

    def test_the_thread_ends_with_the_loader(self):
        before, loader = set(threading.enumerate()), self.loader(device="cpu")
        next(iter(loader))
        [thread] = [one for one in set(threading.enumerate()) - before if one.name.startswith("hr-jpeg")]
        loader.close()
        thread.join(support.WAIT_SECONDS)
        self.assertFalse(thread.is_alive())
        next(iter(loader))  # once more, by a new thread
        loader.close()


if __name__ == "__main__":
    support.main()
