# SPDX-License-Identifier: Apache-2.0
"""The order in which batches reach a GPU, judged by a model of CUDA (cuda_model.py) below the real loader: whatever the
device and the consumer do, no memory is used by two at once, and none goes back too early. tests/gpu has a real GPU."""
import contextlib
import gc
import importlib.util
import sys
import threading
import types
import unittest
import warnings

import support

support.need("torch", "numpy")
import torch

import headrace as hr
from cuda_model import CudaModel, DeviceTensor
from headrace import device as devices

torch.set_num_threads(1)

CHAIN = [hr.RandomResizedCrop((24, 20)), hr.RandomHorizontalFlip(), hr.Normalize(hr.IMAGENET)]
FILES, BATCH = 27, 8
POSITIONS = [min(BATCH * (k + 1), FILES) for k in range(-(-FILES // BATCH))]
LIMIT_SECONDS = 60


def plain(tensor):
    with torch._C.DisableTorchFunction():
        return tensor.as_subclass(torch.Tensor).clone()


def double(images, labels):
    return images * 2, labels + 1


class StreamsTest(unittest.TestCase):
    DECODE, LAGS, LINES_APART = "cpu", (0, 0.5, 1), 9

    OPTIONS = ({}, {"dtype": "uint8", "transform": CHAIN[:2]}, {"channels_last": True}, {"post": double},
               {"batch_transform": [hr.RandomErasing(0.5), hr.MixUp(num_classes=7)]})

    @classmethod
    def setUpClass(cls):
        cls.data = hr.ImageFolder(support.synth("data", files=FILES), ram="64M")

    def loader(self, **options):
        loader = hr.DataLoader(self.data, BATCH, **{"shuffle": True, "transform": CHAIN, "seed": 3, "device": "cuda",
                                                    "decode": self.DECODE, **options})
        if self.DECODE == "gpu":
            decoding, model = loader._device._decoding, DeviceTensor.model
            decoding._io = types.SimpleNamespace(decode_jpeg=model.decode_jpeg(decoding._io.decode_jpeg),
                                                 ImageReadMode=decoding._io.ImageReadMode)
            decoding._takes_lists = True
        return loader

    @contextlib.contextmanager
    def model(self, **options):
        """Finds no fault with what is done inside, and all that was page-locked unlocked at its end."""
        model = CudaModel(**options)
        with model.installed():
            yield model
            gc.collect()
            for thread in threading.enumerate():  # which decodes the batches that it has still
                if thread.name.startswith("hr-jpeg"):
                    thread.join(LIMIT_SECONDS)
            self.assertEqual(model.faults, [])
            self.assertEqual(model.locked, {})

    def expected(self, **options):
        chain = CHAIN[:2] if options.get("dtype") == "uint8" else CHAIN
        loader = hr.DataLoader(self.data, BATCH, shuffle=True, transform=chain, seed=3, output="torch",
                               dct_scaling=False, **options)
        return [(images.clone(), labels.clone()) for images, labels in loader]

    @staticmethod
    def step(images, labels):
        """What a training does with a batch, and with memory of its own."""
        weights = torch.empty(images.shape, device="cuda").fill_(0.5)
        return (images * weights).sum() + labels.sum()

    def test_each_batch_is_dropped_at_once(self):
        for lag in self.LAGS:
            for options in self.OPTIONS:
                with self.subTest(lag=lag, **options), self.model(lag=lag, seed=1):
                    loader, losses = self.loader(**options), []
                    for _ in range(2):
                        for images, labels in loader:
                            losses.append(self.step(images, labels))
                            del images, labels
                    self.assertEqual(len(losses), 2 * len(POSITIONS))
                    self.assertEqual(loader.report()["copied_batches"], 0)
                    loader.close()

    def test_batches_that_are_kept_are_those_of_the_cpu(self):
        pixel = 1 / (255 * min(hr.IMAGENET[1]))
        atol = 3 * pixel if self.DECODE == "gpu" else 1e-5
        with self.model(lag=0.7):
            loader = self.loader(dct_scaling=False)
            kept = list(loader)
            loader.close()
            for (images, labels), (wanted, numbers) in zip(kept, self.expected(), strict=True):
                torch.testing.assert_close(plain(images), wanted, atol=atol, rtol=0)
                self.assertTrue(torch.equal(plain(labels), numbers))
            del kept, images, labels

    def test_each_batch_goes_to_another_stream(self):
        for post in (None, double):
            for lag in self.LAGS:
                with self.subTest(post=post, lag=lag), self.model(lag=lag):
                    streams, loader = [torch.cuda.Stream() for _ in range(3)], self.loader(post=post)
                    running, positions, losses = loader.batches(), [], []
                    for number in range(1000):
                        with torch.cuda.stream(streams[number * number % 3]):
                            batch = next(running, None)
                            if batch is None:
                                break
                            positions.append(batch.position)
                            losses.append(self.step(batch.images, batch.labels))
                            batch = None
                    self.assertEqual(positions, POSITIONS)
                    del running
                    loader.close()

    def test_a_batch_that_is_asked_for_again_goes_to_the_stream_of_then(self):
        with self.model(lag=1):
            loader, other, calls = self.loader(), torch.cuda.Stream(), iter(range(1000))
            running, note, positions = loader.batches(), loader._lock, []

            class Interrupting:  # behind the moment where the batch was handed over
                def __enter__(self):
                    if next(calls) % 2 == 0:
                        raise KeyboardInterrupt
                    note.acquire()

                def __exit__(self, *_):
                    note.release()

            first = next(running)
            self.step(first.images, first.labels)
            loader._lock = Interrupting()
            self.assertRaises(KeyboardInterrupt, next, running)
            with torch.cuda.stream(other):
                again = next(running)
                positions.append(again.position)
                self.step(again.images, again.labels)
            loader._lock = note
            self.assertEqual(positions, POSITIONS[1:2])
            del first, again, running
            loader.close()

    def test_whatever_goes_first_no_slot_goes_back_while_it_is_read(self):
        def keep_one(loader):
            return next(iter(loader))

        def break_off(loader):
            for batch in loader:
                return batch

        def close(loader):
            running = iter(loader)
            batch = next(running)
            loader.close()
            return batch

        def leave_to_the_collector(loader):
            loader.itself = loader
            return next(iter(loader))

        def begin_anew(loader):
            next(iter(loader))
            return next(iter(loader))

        for way in (keep_one, break_off, close, leave_to_the_collector, begin_anew):
            for lag in self.LAGS:
                with self.subTest(way.__name__, lag=lag), self.model(lag=lag):
                    batch = way(self.loader(post=double))
                    gc.collect()
                    self.step(*batch)
                    del batch

    def test_ctrl_c_at_any_line_loses_no_batch(self):
        def lines_until(place):
            lines = iter(range(10**9))

            def trace(frame, event, _):
                if frame.f_code.co_filename != devices.__file__:
                    return None
                if event == "line" and next(lines) == place:
                    raise KeyboardInterrupt
                return trace
            return trace

        interrupts = 0
        for place in range(0, 400, self.LINES_APART):
            with self.subTest(place=place), self.model(lag=place % 3 / 2):
                loader = self.loader(post=double)
                running, positions = loader.batches(), []
                sys.settrace(lines_until(place))
                try:
                    while True:
                        try:
                            batch = next(running)
                            positions.append(batch.position)
                            self.step(batch.images, batch.labels)
                            batch = None
                        except KeyboardInterrupt:
                            interrupts += 1
                        except StopIteration:
                            break
                finally:
                    sys.settrace(None)
                self.assertEqual(positions, POSITIONS)
                del running
                loader.close()
        self.assertGreater(interrupts, 5)

    def test_nothing_waits_where_waiting_is_an_error(self):
        with self.model(lag=1) as model:
            loader = self.loader(post=double)
            model.sync_mode = "error"
            for images, labels in loader:
                self.step(images, labels)
            loader.close()
            model.sync_mode = "default"
            del images, labels

    def test_the_cpu_waits_for_a_device_that_is_behind_instead_of_copying(self):
        with self.model(lag=0) as model:
            loader = self.loader()
            self.assertEqual(sum(1 for _ in loader), len(POSITIONS))
            waits = model.waits
            loader.close()
        self.assertEqual(waits, 0 if self.DECODE == "cpu" else waits)  # the decoder's thread waits for its own work
        with self.model(lag=1) as model:
            loader = self.loader()
            for _ in range(2):
                self.assertEqual(sum(1 for _ in loader), len(POSITIONS))
            self.assertGreater(model.waits, 0)
            self.assertEqual(loader.report()["copied_batches"], 0)
            loader.close()

    def test_a_loader_that_another_thread_closes(self):
        for place in range(6):
            # What was on its way when the memory was unlocked is copied all the same.
            with self.subTest(place=place), self.model(lag=1, wants_locked=False):
                loader, reached = self.loader(), threading.Event()

                def iterate():
                    with contextlib.suppress(RuntimeError):  # closed while it was iterated
                        for number, (images, labels) in enumerate(loader):
                            self.step(images, labels)
                            if number == place:
                                reached.set()
                    reached.set()
                thread = threading.Thread(target=iterate)
                thread.start()
                self.assertTrue(reached.wait(LIMIT_SECONDS))
                loader.close()
                thread.join(LIMIT_SECONDS)
                self.assertFalse(thread.is_alive())
                loader.close()
                del loader, iterate, thread

    def test_a_handler_of_a_signal_may_close_the_loader(self):
        with self.model(lag=1, wants_locked=False):
            loader = self.loader(post=lambda images, labels: (loader.close(), (images, labels))[1])
            with self.assertRaises(RuntimeError):
                list(loader)
            del loader

    def test_an_exception_of_post_comes_with_its_batch_and_loses_none(self):
        with self.model(lag=1):
            calls, raised = iter(range(1000)), []

            def post(images, labels):
                doubled = images * 2
                if next(calls) >= 2 and not raised:  # until the consumer knows: it may be tried before
                    raise KeyError("post failed")
                return doubled, labels
            loader = self.loader(post=post)
            running, positions = loader.batches(), []
            while True:
                try:
                    batch = next(running, None)
                except KeyError:
                    raised.append(True)
                    continue
                if batch is None:
                    break
                positions.append(batch.position)
                self.step(batch.images, batch.labels)
                del batch
            self.assertEqual((positions, raised), (POSITIONS, [True]))
            del running
            loader.close()


class PixelStreamsTest(StreamsTest):
    """What only slots have that are page-locked."""

    def test_memory_is_page_locked_once_and_for_the_device(self):
        with self.model(lag=1, devices=2) as model:
            loader = self.loader(device="cuda:1")
            for _ in range(2):
                for images, labels in loader:
                    self.assertEqual(images.device.index, 1)
            self.assertEqual({device for _, device in model.locked.values()}, {1})
            self.assertLessEqual(len(model.locked), 4)
            self.assertEqual((loader._running.reads.refused, torch.cuda.current_device()), (0, 0))
            loader.close()
            del images, labels

    def test_memory_that_cannot_be_page_locked_leaves_no_error_for_the_next_kernel(self):
        model = CudaModel(lag=0.5, refuses=lambda address: True, wants_locked=False)
        with model.installed(), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            loader = self.loader()
            for images, labels in loader:
                self.step(images, labels)
                self.assertEqual(model.error, 0)
            self.assertGreater(loader._running.reads.refused, 1)
            loader.close()
            del images, labels
            gc.collect()
        self.assertEqual([str(one.message)[:56] for one in said],
                         ["headrace: a batch's memory cannot be page-locked (CUDA e"])
        self.assertEqual((model.faults, model.locked, model.error), ([], {}, 0))

    def test_ctrl_c_while_memory_is_page_locked_has_it_locked_the_next_time(self):
        for is_locked in (False, True):
            with self.subTest(is_locked=is_locked), self.model(lag=1) as model:
                interrupts, register = iter([True]), model.cudaHostRegister

                def interrupted(*arguments):
                    code = register(*arguments) if is_locked else 0
                    if next(interrupts, False):
                        raise KeyboardInterrupt
                    return code if is_locked else register(*arguments)
                model.cudaHostRegister, loader = interrupted, self.loader()
                running = loader.batches()
                self.assertRaises(KeyboardInterrupt, next, running)
                self.assertEqual([batch.position for batch in running], POSITIONS)
                self.assertEqual(loader._running.reads.refused, 0)
                del running
                loader.close()

    def test_a_read_that_begins_while_another_thread_closes_is_waited_for(self):
        with self.model(lag=1) as model:
            stream = torch.cuda.Stream()
            reads = devices.SlotReads(torch, torch.device("cuda", 0), stream, 1)
            with reads.read("a slot"):
                reads.clear()
                waits = model.waits
                stream.record_event()  # what the device is given
            self.assertEqual(model.waits, waits + 1)

    def test_a_device_that_has_failed_leaves_nothing_open(self):
        def fail(_):
            raise RuntimeError("CUDA error: device-side assert triggered")

        model = CudaModel(lag=1)
        with model.installed():
            loader = self.loader()
            running = iter(loader)
            next(running)
            handle, loader._device.stream.record_event = loader._running.handle, fail
            loader.close()
            self.assertEqual((handle.value, model.locked), (None, {}))
            del loader._device.stream.record_event, running


@unittest.skipUnless(importlib.util.find_spec("torchvision"), "torchvision is not installed")
class JpegStreamsTest(StreamsTest):
    """The same where the device decodes."""
    DECODE, LAGS, LINES_APART, OPTIONS = "gpu", (1,), 31, StreamsTest.OPTIONS[-1:]

    @classmethod
    def setUpClass(cls):
        from PIL import Image
        folder = support.synth("small", files=FILES)
        for path in folder.rglob("*.jpg"):  # the products of matrices take a CPU long
            Image.open(path).resize((96, 72)).save(path, "JPEG")
        cls.data = hr.ImageFolder(folder, ram="64M")


del StreamsTest  # the two below have its tests

if __name__ == "__main__":
    support.main()
