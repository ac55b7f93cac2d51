# SPDX-License-Identifier: Apache-2.0
"""Batches on a GPU: their pixels, their memory, and that nothing waits for the device. tests/gpu/run runs it."""
import gc
import shutil
import subprocess
import tempfile
import unittest
import warnings
from pathlib import Path

import torch

import headrace as hr
from headrace import _command

CHAIN = [hr.RandomResizedCrop((64, 48)), hr.RandomHorizontalFlip(), hr.Normalize(hr.IMAGENET)]


def digest(images):
    """Of a batch, made on the device without a wait."""
    values = images.reshape(-1).double()
    return torch.stack([values.sum(), (values * torch.arange(len(values), device=values.device)).sum()])


@unittest.skipUnless(torch.cuda.is_available(), "torch sees no CUDA device")
class CudaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = Path(tempfile.mkdtemp(prefix="headrace-cuda-"))
        cls.addClassCleanup(shutil.rmtree, cls.work)
        program, environment = _command.find()
        subprocess.run([program, "synth", str(cls.work / "data"), "--files", "500", "--classes", "7"], check=True,
                       env=environment)
        cls.data = hr.ImageFolder(cls.work / "data", ram="256M")

    def loader(self, **options):
        return hr.DataLoader(self.data, 16, **{"shuffle": True, "transform": CHAIN, "seed": 3, "device": "cuda",
                                               **options})

    def test_pixels_are_those_of_the_cpu(self):
        for dtype, atol in (("float32", 1e-5), ("float16", 4e-3), ("bfloat16", 4e-2), ("uint8", 0)):
            side = {"dtype": dtype, "transform": CHAIN[:2 if dtype == "uint8" else 3], "channels_last": True}
            for ours, theirs in zip(self.loader(**side).batches(), self.loader(**side, device=None,
                                                                               output="torch").batches(), strict=True):
                self.assertEqual(ours.images.device.type, "cuda")
                self.assertTrue(ours.images.is_contiguous(memory_format=torch.channels_last))
                torch.testing.assert_close(ours.images.cpu(), theirs.images, atol=atol, rtol=0)
                self.assertTrue(torch.equal(ours.labels.cpu(), theirs.labels))
                self.assertTrue(torch.equal(ours.indices, theirs.indices))

    def test_pixels_that_the_device_decodes_are_near_those_of_the_cpu(self):
        side = {"dtype": "uint8", "transform": CHAIN[:2], "dct_scaling": False}
        loader = self.loader(**side, decode="gpu")
        theirs = self.loader(**side, device=None, output="torch").batches()
        differences = []
        for ours, expected in zip(loader.batches(), theirs, strict=True):
            self.assertEqual((ours.images.device.type, list(ours.crops)), ("cuda", list(expected.crops)))
            self.assertTrue(torch.equal(ours.labels.cpu(), expected.labels))
            differences.append((ours.images.cpu().int() - expected.images.int()).abs().float())
        difference = torch.cat(differences)
        print(f"decode=\"gpu\": {float((difference > 0).float().mean()):.2%} of the values differ, by "
              f"{float(difference.mean()):.3f} of 255 on average, {int(difference.max())} at most; the CPU decoded "
              f"{loader._device._decoding.refused} JPEGs that the GPU refused")
        self.assertLess(float(difference.mean()), 2)  # another crop differs by 30 and more

    def test_batches_that_are_dropped_at_once_were_right(self):
        expected = [digest(images.cuda()) for images, _ in self.loader(device=None, output="torch")]
        self.check_dropped(self.loader(), expected)

    def test_decoded_batches_that_are_dropped_at_once_were_right(self):
        loader = self.loader(decode="gpu")
        kept = [images for images, _ in loader]
        self.check_dropped(loader, [digest(images) for images in kept])

    def check_dropped(self, loader, expected):
        for _ in range(5):
            digests = []
            loader.set_epoch(0)
            for images, _ in loader:
                torch.cuda._sleep(2_000_000)  # the device is behind: what is reused too early is overwritten
                digests.append(digest(images))
                del images
                torch.empty(16, 3, 64, 48, device="cuda").fill_(7)
            for ours, theirs in zip(digests, expected, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-3)

    def test_batches_that_go_unread_are_harmless(self):
        expected = [digest(images.cuda()) for images, _ in self.loader(device=None, output="torch")][:3]
        for _ in range(20):
            running = iter(self.loader())
            torch.cuda._sleep(2_000_000)
            digests = [digest(next(running)[0]) for _ in range(3)]
            del running  # with a batch that is on its way
            junk = [torch.empty(16, 3, 64, 48, device="cuda").fill_(7) for _ in range(8)]
            for ours, theirs in zip(digests, expected, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-3)
            self.assertTrue(all(bool((one == 7).all()) for one in junk))  # nothing wrote there behind our back

    def test_nothing_waits_for_the_device(self):
        for decode in ("cpu", "gpu"):
            loader = self.loader(dtype="bfloat16", channels_last=True, drop_last=True, decode=decode,
                                 batch_transform=[hr.RandomErasing(0.5), hr.MixUp(num_classes=7)],
                                 post=lambda images, labels: (images * 2, labels))
            next(iter(loader))
            torch.cuda.set_sync_debug_mode("error")
            try:
                self.assertEqual(sum(1 for _ in loader), len(loader))
            finally:
                torch.cuda.set_sync_debug_mode("default")

    def test_the_memory_of_the_device_does_not_grow(self):
        self.check_reserved(self.loader())

    # What the crops need differs from epoch to epoch, so the same one is read again and again.
    def test_the_memory_of_the_device_does_not_grow_where_it_decodes(self):
        self.check_reserved(self.loader(decode="gpu"))

    def check_reserved(self, loader):
        reserved = []
        for _ in range(50):
            loader.set_epoch(0)
            for images, _ in loader:
                images.sum()
            torch.cuda.synchronize()
            reserved.append(torch.cuda.memory_reserved())
        self.assertLessEqual(reserved[-1], max(reserved[:10]))

    def test_slots_are_page_locked_and_given_back(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(5):  # the same addresses may come again
                loader = self.loader()
                batches = list(loader.batches())
                reads = loader._running.reads
                self.assertEqual(reads.refused, 0)
                self.assertTrue(reads._pins)
                loader.close()
                self.assertFalse(reads._pins)
                del loader
                gc.collect()
        self.assertEqual(len(batches), 32)
        for images, theirs in zip(batches, self.loader(device=None, output="torch").batches(), strict=True):
            torch.testing.assert_close(images.images.cpu(), theirs.images, atol=1e-5, rtol=0)


if __name__ == "__main__":
    unittest.main()
