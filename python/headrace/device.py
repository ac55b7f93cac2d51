# SPDX-License-Identifier: Apache-2.0
"""Batches on a device while the batch before is trained on, all through torch.

A batch crosses as the pixels themselves: images and labels in one transfer, from memory that is page-locked once. It is
normalised there. On a GPU all of that runs on a stream of its own, T; S is the consumer's:

    S . . . step(k - 1) . . . | wait for done[k]   | step(k) . . . . . . .
    T                         | wait for S | copy k+1 | normalise | done[k+1]

Tensors are allocated under S, so that the allocator orders their next use by S. Before T writes to them it waits for
what S was given until then; before S reads them, or loses them unread, it waits for `done`. So nothing here waits on
the CPU, needs record_stream(), or copies once more; each batch is a tensor of its own that the consumer may keep.

With decode="gpu" what crosses are JPEGs, which a thread decodes (device_jpegs.py); the rest is the same, from the
pixels on.

Thread-safety: the thread that iterates, but for Pins and give_back().
"""
import concurrent.futures
import contextlib
import ctypes
import threading
import warnings
from collections import deque
from typing import Any, Callable, Deque, Iterator, List, Optional, Sequence, Set, Tuple

from .delivery import Slot
from .device_jpegs import JpegDecoding, Pixels

Post = Callable[[Any, Any], Tuple[Any, Any]]


class Pins:
    """Memory of slots that is page-locked. Any thread."""

    def __init__(self, torch: Any, stream: Any):
        self._torch, self._runtime, self._stream = torch, torch.cuda.cudart(), stream
        self._lock = threading.Lock()
        self._pinned: Set[int] = set()
        self._unpinned: Set[int] = set()  # what could not be page-locked
        self._closed = False
        self.refused = 0  # slots that could not be page-locked

    def add(self, address: int, size: int) -> None:
        """Locks the memory unless it is locked. Where that fails, copies are slower, which is said once."""
        with self._lock:
            if self._closed or address in self._pinned or address in self._unpinned:
                return
            code = int(self._runtime.cudaHostRegister(address, size, 0))
            if code == 0:
                self._pinned.add(address)
                return
            self._unpinned.add(address)
            self._take_error_away()
            self.refused += 1
            if self.refused == 1:
                warnings.warn(f"headrace: a batch's memory cannot be page-locked (CUDA error {code}); copies to the "
                              "device are slower", RuntimeWarning, stacklevel=2)

    def clear(self) -> None:
        """Before the memory goes: waits for the copies that are under way."""
        with self._lock:
            self._closed = True
            if not self._pinned:
                return
            self._stream.synchronize()
            for address in self._pinned:
                if int(self._runtime.cudaHostUnregister(address)) != 0:
                    self._take_error_away()
            self._pinned.clear()

    # CUDA keeps the error of a call that failed for this thread, and torch raises it from the next kernel that it
    # starts, whatever that is for. So one is started here.
    def _take_error_away(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._torch.ones(1, device=self._stream.device)


class Staged:
    """A batch on its way to the device, or there."""

    def __init__(self, images: Any, labels: Any, read: Any, done: Any, stream: Any):
        self.images, self.labels = images, labels
        # What T reads on the way there was allocated under S: freed before S waits, it could be S's next tensor.
        self._read, self._done, self._allocated_under = read, done, stream

    def prepare(self) -> None:
        """Brings it as far as it goes without waiting."""

    def hand_over(self, stream: Any) -> None:
        """From now on the consumer's stream may read it, and the allocator may have what it lets go."""
        if self._done is not None:
            stream.wait_event(self._done)
            self._allocated_under.wait_event(self._done)  # the same stream, unless the consumer changed it
        self._read = self._done = None

    def __del__(self) -> None:
        if self._done is not None:  # it goes unread, while T may write to it
            self._allocated_under.wait_event(self._done)


class DeviceDelivery:
    """Brings batches of pixels to `device`. `dtype`, `mean`, `deviation`: what they become there."""

    ahead = 1  # batches on their way beside the one that the consumer has

    def __init__(self, device: Any, dtype: str, channels_last: bool, mean: Sequence[float], deviation: Sequence[float],
                 post: Optional[Post]):
        import torch
        self._torch, self.device = torch, _device(torch, device)
        self._dtype, self._channels_last, self.post = getattr(torch, dtype), channels_last, post
        self._on_gpu = self.device.type == "cuda"
        self.stream = torch.cuda.Stream(self.device) if self._on_gpu else None
        self._copying: Deque[Tuple[Any, Any]] = deque()  # an event, and what T may read until then: slots, pixels
        deviation = deviation if any(deviation) else (1.0, 1.0, 1.0)
        self._scale = self._per_channel([1 / (255 * one) for one in deviation])
        self._shift = self._per_channel([-middle / one for middle, one in zip(mean, deviation)])

    def _per_channel(self, values: List[float]) -> Any:
        return self._torch.tensor(values, dtype=self._torch.float32).view(1, 3, 1, 1).to(self.device)

    def make_pins(self) -> Optional[Pins]:
        """For the slots of one loader of the library."""
        return Pins(self._torch, self.stream) if self._on_gpu else None

    def _consumer_stream(self) -> Any:
        return self._torch.cuda.current_stream(self.device) if self._on_gpu else None

    def hand_over(self, staged: Staged) -> None:
        """The consumer's stream waits for the batch."""
        staged.hand_over(self._consumer_stream())

    def numbers(self, values: List[int]) -> Any:
        """N int64, which stay in the CPU's memory."""
        return self._torch.tensor(values, dtype=self._torch.int64)

    def give_back(self) -> None:
        """Lets go of slots whose copy is done. Any thread: closing does it, too."""
        for one in list(self._copying):
            if not one[0].query():
                return
            with contextlib.suppress(ValueError, IndexError):  # another thread was faster
                self._copying.remove(one)

    def close(self) -> None:
        """No batch comes until the next stage(). Any thread."""
        self.give_back()

    def stage(self, slot: Slot, shape: Tuple[int, int, int], bad: Sequence[int], pins: Optional[Pins],
              on_device: Post) -> Staged:
        """Begins to bring a batch over. `shape` of an image in the slot; `bad`: samples whose image is to be zero;
        `on_device` gets images and labels on the side stream, before the consumer has them."""
        torch, count = self._torch, slot.batch.contents.count
        memory = self._memory(slot, pins)
        pixels_end = count * shape[0] * shape[1] * shape[2]
        with self._current_device():
            under = self._consumer_stream()
            raw = torch.empty(memory.shape, dtype=torch.uint8, device=self.device)
            pixels = raw[:pixels_end].view((count, *shape))
            pixels = pixels.permute(0, 3, 1, 2) if self._channels_last else pixels
            images = None if self._dtype == torch.uint8 else self._empty_like(pixels)
            labels = torch.empty(count, dtype=torch.int64, device=self.device)
            with self._side_stream(under):
                raw.copy_(memory, non_blocking=True)
                if self._on_gpu:
                    self._copying.append((self.stream.record_event(), slot))
                return self._finish(under, pixels, raw[-8 * count:].view(torch.int64), images, labels, bad, on_device)

    # A tensor of the consumer's of this size.
    def _empty_like(self, pixels: Any) -> Any:
        torch = self._torch
        layout = torch.channels_last if self._channels_last else torch.contiguous_format
        return torch.empty(pixels.shape, dtype=self._dtype, device=self.device, memory_format=layout)

    # From the pixels on, on T. `images` and `labels` were allocated under the consumer's stream; images None: the
    # pixels themselves, which were, too.
    def _finish(self, under: Any, pixels: Any, numbers: Any, images: Any, labels: Any, bad: Sequence[int],
                on_device: Post) -> Staged:
        images = pixels if images is None else self._normalise(pixels, images)
        for place in bad:
            images[place].zero_()
        labels.copy_(numbers)  # or whoever keeps labels keeps the pixels
        read = (pixels, numbers, images, labels)
        images, labels = on_device(images, labels)
        done = self.stream.record_event() if self._on_gpu else None
        return Staged(images, labels, read, done, under)

    # The slot's bytes from the first pixel to the last label.
    def _memory(self, slot: Slot, pins: Optional[Pins]) -> Any:
        batch = slot.batch.contents
        end = ctypes.addressof(batch.labels.contents) + 8 * batch.count
        if pins is not None and not batch.copied:  # the memory of a copy is not used again
            pins.add(batch.images, ctypes.addressof(batch.indices.contents) - batch.images)
        memory = (ctypes.c_ubyte * (end - batch.images)).from_address(batch.images)
        return self._torch.frombuffer(memory, dtype=self._torch.uint8)

    def _normalise(self, pixels: Any, images: Any) -> Any:
        if self._dtype == self._torch.uint8:
            return images.copy_(pixels)
        return self._torch.add(self._torch.mul(pixels, self._scale), self._shift, out=images)

    def _current_device(self) -> Any:
        return self._torch.cuda.device(self.device) if self._on_gpu else contextlib.nullcontext()

    # Work for the side stream, behind what the consumer's was given until now. What on_device() allocates there is
    # safe for the same reason: it is used again behind the next such wait.
    @contextlib.contextmanager
    def _side_stream(self, consumers: Any) -> Iterator[None]:
        if not self._on_gpu:
            yield
            return
        self.stream.wait_event(consumers.record_event())
        try:
            with self._torch.cuda.stream(self.stream):
                yield
        except BaseException:
            consumers.wait_stream(self.stream)  # the tensors go
            raise


class JpegDelivery(DeviceDelivery):
    """The same of batches of JPEGs, which are decoded on the device."""

    ahead = 2  # one is decoded while one that is decoded waits

    def __init__(self, device: Any, dtype: str, channels_last: bool, mean: Sequence[float], deviation: Sequence[float],
                 post: Optional[Post], size: Tuple[int, int], reach: int, antialias: bool):
        super().__init__(device, dtype, channels_last, mean, deviation, post)
        self._decoding = JpegDecoding(self._torch, self.device, size, reach, antialias)

    def make_pins(self) -> Optional[Pins]:
        return None

    def close(self) -> None:
        super().close()
        self._decoding.close()

    def stage(self, slot: Slot, shape: Tuple[int, int, int], bad: Sequence[int], pins: Optional[Pins],
              on_device: Post) -> Staged:
        return _Decoded(self, self._decoding.start(slot), slot, bad, on_device)

    def finish(self, pixels: Pixels, slot: Slot, bad: Sequence[int], on_device: Post) -> Staged:
        """Makes a batch of its pixels. They lie in memory of another stream's, and are kept until T has read them."""
        with self._current_device():
            under = self._consumer_stream()
            images = self._empty_like(pixels.images)
            labels = self._torch.empty(pixels.labels.shape, dtype=self._torch.int64, device=self.device)
            with self._side_stream(under):
                if pixels.ready is not None:
                    self.stream.wait_event(pixels.ready)
                try:
                    return self._finish(under, pixels.images, pixels.labels, images, labels, bad, on_device)
                finally:
                    if self._on_gpu:
                        self._copying.append((self.stream.record_event(), (slot, pixels)))


class _Decoded(Staged):
    """A batch that is being decoded, and then staged. After an exception it is asked again, from its pixels on."""

    def __init__(self, delivery: JpegDelivery, decoded: "concurrent.futures.Future[Pixels]", slot: Slot,
                 bad: Sequence[int], on_device: Post):
        super().__init__(None, None, None, None, None)
        self._delivery, self._decoded, self._slot, self._bad, self._on_device = delivery, decoded, slot, bad, on_device
        self._staged: Optional[Staged] = None

    def prepare(self) -> None:
        if self._staged is None and self._decoded.done():
            with contextlib.suppress(Exception):  # which comes again when it is handed over
                self._stage()

    def hand_over(self, stream: Any) -> None:
        staged = self._staged or self._stage()
        staged.hand_over(stream)
        self.images, self.labels = staged.images, staged.labels

    def _stage(self) -> Staged:
        self._staged = self._delivery.finish(self._decoded.result(), self._slot, self._bad, self._on_device)
        return self._staged


def _device(torch: Any, device: Any) -> Any:
    try:
        device = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device {device!r} is unknown to torch; say \"cuda\", \"cuda:1\" or \"cpu\"") from error
    if device.type not in ("cuda", "cpu"):
        raise ValueError(f"device {str(device)!r} is not supported; there are: cuda, cpu")
    if device.type == "cpu":
        return device
    if not torch.cuda.is_available():
        raise RuntimeError(f"device {str(device)!r}: torch {torch.__version__} sees no CUDA device")
    if device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    if device.index >= torch.cuda.device_count():
        raise ValueError(f"device {str(device)!r}: there are {torch.cuda.device_count()} CUDA devices")
    return device
