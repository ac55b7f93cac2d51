# SPDX-License-Identifier: Apache-2.0
"""Batches reach torch, numpy and plain Python without a copy, keep their memory, and give it back."""
import gc
import sys
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import support

support.need("numpy")
import numpy

import headrace as hr
from headrace.delivery import has_module

CHAIN = [hr.RandomResizedCrop((12, 10)), hr.Normalize(hr.IMAGENET)]


class DeliveryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = hr.ImageFolder(support.synth("data", files=60), ram="64M")

    def loader(self, **options):
        return hr.DataLoader(self.data, 8, **{"shuffle": True, "transform": CHAIN, "output": "numpy", **options})

    def test_numpy_arrays_have_shape_and_type(self):
        for dtype, kind in (("float32", "float32"), ("float16", "float16"), ("bfloat16", "uint16")):
            images, labels = next(iter(self.loader(dtype=dtype)))
            self.assertEqual((images.shape, images.dtype.name), ((8, 3, 12, 10), kind))
            self.assertEqual((labels.shape, labels.dtype.name), ((8,), "int64"))
        images, _ = next(iter(self.loader(dtype="uint8", channels_last=True, transform=[hr.Resize((12, 10))])))
        self.assertEqual((images.shape, images.dtype.name), ((8, 12, 10, 3), "uint8"))

    def test_layouts_and_types_hold_the_same_pixels(self):
        chain = [hr.Resize((12, 10))]
        pixels, _ = next(iter(self.loader(dtype="uint8", channels_last=True, transform=chain)))
        numbers, _ = next(iter(self.loader(transform=chain)))
        numpy.testing.assert_allclose(numbers, pixels.transpose(0, 3, 1, 2) / 255, atol=1e-6)
        normal, _ = next(iter(self.loader(transform=chain + [hr.Normalize(hr.IMAGENET)])))
        mean, deviation = (numpy.array(values).reshape(3, 1, 1) for values in hr.IMAGENET)
        numpy.testing.assert_allclose(normal, (numbers - mean) / deviation, atol=1e-5)

    def test_torch_tensors_are_channels_last_where_asked(self):
        if not has_module("torch"):
            self.skipTest("torch is not installed")
        import torch
        for dtype in ("uint8", "float16", "bfloat16", "float32"):
            chain = CHAIN[:1] if dtype == "uint8" else CHAIN
            for channels_last in (False, True):
                images, labels = next(iter(self.loader(output="torch", dtype=dtype, channels_last=channels_last,
                                                       transform=chain)))
                self.assertEqual((images.dtype, tuple(images.shape)), (getattr(torch, dtype), (8, 3, 12, 10)))
                layout = torch.channels_last if channels_last else torch.contiguous_format
                self.assertTrue(images.is_contiguous(memory_format=layout))
                self.assertEqual(labels.dtype, torch.int64)
        images, _ = next(iter(self.loader(output="torch")))
        images.zero_()  # it is the consumer's to write
        self.assertEqual(images.abs().max().item(), 0)

    def test_output_is_chosen_by_what_is_installed(self):
        for missing, module in ((["torch"], "numpy"), (["torch", "numpy"], "headrace.delivery")):
            with mock.patch.dict(sys.modules, {name: None for name in missing}):
                images, labels = next(iter(self.loader(output=None)))
                with self.assertRaisesRegex(ModuleNotFoundError, "torch is not installed"):
                    self.loader(output="torch")
            self.assertEqual(type(images).__module__, module)
        self.assertEqual(len(memoryview(images.buffer)), 8 * 3 * 12 * 10 * 4)
        self.assertEqual(len(labels.tolist()), 8)

    def test_the_package_needs_neither_torch_nor_numpy(self):
        done = support.run_script(f"""
import sys
sys.modules["torch"] = sys.modules["numpy"] = None
import headrace as hr
data = hr.ImageFolder({str(support.synth("data"))!r}, ram="64M")
loader = hr.DataLoader(data, 8, transform=[hr.Resize((4, 4))], dtype="uint8")
print(sum(len(images.tobytes()) for images, labels in loader))""")
        self.assertEqual((done.stdout, done.stderr), (f"{60 * 48}\n", ""))

    def test_batches_that_are_kept_are_copies_and_stay_as_they_were(self):
        loader = self.loader()
        wanted = [(batch.images.tobytes(), batch.indices.tolist()) for batch in self.loader().batches()]
        kept = list(loader.batches())
        self.assertEqual([(batch.images.tobytes(), batch.indices.tolist()) for batch in kept], wanted)
        self.assertGreater(loader.report()["copied_batches"], 0)
        for _ in loader.batches():  # a further epoch writes over none of them
            pass
        self.assertEqual([(batch.images.tobytes(), batch.indices.tolist()) for batch in kept], wanted)

    def test_labels_and_indices_that_are_kept_keep_no_pixels(self):
        for output in ("numpy", "torch"):
            if not has_module(output):
                continue
            loader = self.loader(output=output)
            kept = [(batch.labels, batch.indices) for batch in loader.batches()]
            self.assertEqual(loader.report()["copied_batches"], 0, output)
            again = [(batch.labels.tolist(), batch.indices.tolist()) for batch in loader.batches()]
            self.assertEqual(len(kept), len(again))

    def test_batches_that_are_let_go_are_not_copied(self):
        loader = self.loader()
        for _ in range(3):
            for _ in loader:
                pass
        self.assertEqual(loader.report()["copied_batches"], 0)

    def test_as_many_batches_are_made_ahead_as_were_asked_for_and_no_more(self):
        for asked, ahead in ((0, 2), (2, 2), (4, 4), (6, 6)):
            loader = hr.DataLoader(self.data, 4, transform=CHAIN, output="numpy", prefetch_batches=asked, threads=2)
            batches = iter(loader)
            held = next(batches)
            made = 4 * (1 + ahead)
            support.wait_until(lambda: loader.report()["samples"] >= made, f"{made} samples are made")
            time.sleep(0.05)  # in which more would come
            self.assertEqual(loader.report()["samples"], made, asked)
            del held

    def test_a_batch_outlives_its_loader_and_data_set(self):
        data = hr.ImageFolder(support.synth("data"), ram="64M")
        loader = hr.DataLoader(data, 8, transform=CHAIN, output="numpy")
        images, _ = next(iter(loader))
        before = images.tobytes()
        loader.close()
        data.close()
        del loader, data
        gc.collect()
        self.assertEqual(images.tobytes(), before)

    def test_any_thread_may_let_a_batch_go(self):
        loader, held = self.loader(), []
        for epoch in range(3):
            for images, _ in loader:
                held.append(images)
                del images
                if len(held) == 2:
                    thread = threading.Thread(target=held.clear)
                    thread.start()
                    thread.join()
        self.assertEqual(loader.report()["copied_batches"], 0)

    def test_a_capsule_that_nobody_takes_gives_its_batch_back(self):
        loader = self.loader(output="buffer")
        for images, labels in loader:
            capsule = images.__dlpack__()
            self.assertEqual(images.__dlpack_device__(), (1, 0))
            del capsule
        self.assertEqual(loader.report()["copied_batches"], 0)
        taken = numpy.from_dlpack(next(iter(loader))[1])
        self.assertEqual(taken.shape, (8,))

    def test_files_are_bytes_or_what_a_function_makes_of_them(self):
        folder = support.synth("data")
        data = hr.Files(folder)
        wanted = [Path(path).read_bytes() for path, _ in data.samples]
        self.assertEqual([sample for samples, _ in hr.DataLoader(data, 7) for sample in samples], wanted)
        lengths = hr.DataLoader(hr.Files(folder, decode=len), 7, shuffle=True)
        batch = next(lengths.batches())
        self.assertEqual(batch.images, [len(wanted[index]) for index in batch.indices])

    def test_the_report_names_the_bottleneck(self):
        loader = self.loader()
        self.assertEqual(loader.report(), {})
        list(loader)
        report = loader.report()
        self.assertGreaterEqual(report["samples"], 60)
        ways = ("indexed", "made", "no_room", "unsuited", "damaged", "strict", "unchecked")
        self.assertGreater(sum(report["crops"][way] for way in ways), 0)
        self.assertGreater(report["crops"]["folder_bytes"], 0)
        self.assertRegex(report["bottleneck"], "^(source|cache|decode|consumer)-bound$")
        self.assertIn(report["bottleneck"], report["text"])
        self.assertEqual([tier["kind"] for tier in report["tiers"]], ["ram", "source"])


if __name__ == "__main__":
    support.main()
