# SPDX-License-Identifier: Apache-2.0
"""Batches on a device while the batch before is trained on, all through torch.

A batch crosses as the pixels themselves: images and labels in one transfer, from memory that is page-locked once. It is
normalised there. On a GPU all of that runs on a stream of its own, T; S is the consumer's:

    S . . . step(k - 1) . . . | wait for done[k]   | step(k) . . . . . . .
    T                         | wait for S | copy k+1 | normalise | done[k+1]

Tensors are allocated under S, so that the allocator orders their next use by S. Before T writes to them it waits for
what S was given until then; before S reads them, or loses them unread, it waits for `done`. So nothing here needs
record_stream() or copies once more; each batch is a tensor of its own that the consumer may keep. The CPU waits in one
case: where it is so far ahead of the device that all slots are still to be read.

S may be another stream at each batch. A batch that was allocated under one and goes to another is recorded there, and T
waits for all that batches went to.

With decode="gpu" what crosses are JPEGs, which a thread decodes (device_jpegs.py); the rest is the same, from the
pixels on.

Thread-safety: the thread that iterates, but for SlotReads.
"""
import concurrent.futures
import contextlib
import ctypes
import threading
import warnings
from collections import deque
from typing import Any, Callable, ContextManager, Deque, Dict, Iterator, List, Optional, Sequence, Tuple

from .delivery import Slot
from .device_jpegs import JpegDecoding, Pixels

Post = Callable[[Any, Any], Tuple[Any, Any]]


class SlotReads:
    """The slots of one loader of the library that a device reads: their memory is page-locked once, and none goes back
    before it was read, whatever goes first: loader, iterator or delivery. `most`: reads that may be under way when the
    next slot is asked for; the library would copy it otherwise, to memory that is not page-locked. Any thread."""

    def __init__(self, torch: Any, device: Any, stream: Any, most: int):
        self._torch, self._runtime, self._device, self._stream = torch, torch.cuda.cudart(), device, stream
        self._most = most
        self._lock = threading.RLock()  # a signal's handler may close the loader inside
        # By address: page-locked, or refused. None: an exception came before that was known.
        self._pins: Dict[int, Optional[bool]] = {}
        self._under_way: Deque[List[Any]] = deque()  # an event, and what T reads until then; None: it was not recorded
        self._closed = False
        self.refused = 0  # slots that could not be page-locked

    def pin(self, address: int, size: int) -> None:
        """Locks the memory unless it is locked. Where that fails, copies are slower, which is said once."""
        with self._lock:
            if self._closed or self._pins.get(address) is not None:
                return
            with self._torch.cuda.device(self._device):
                if address in self._pins:
                    self._unpin(address)
                self._pins[address] = None
                code = int(self._runtime.cudaHostRegister(address, size, 0))
            self._pins[address] = code == 0
            if code == 0:
                return
            self._take_error_away()
            self.refused += 1
            if self.refused == 1:
                warnings.warn(f"headrace: a batch's memory cannot be page-locked (CUDA error {code}); copies to the "
                              "device are slower", RuntimeWarning, stacklevel=2)

    @contextlib.contextmanager
    def read(self, kept: Any) -> Iterator[None]:
        """What T is given inside may read `kept`, which stays until that is done."""
        with self._lock:  # clear() waits for what T was given: none may come behind
            one: List[Any] = [None, kept]
            self._under_way.append(one)  # before: wherever an exception strikes, it stays
            try:
                yield
            finally:
                one[0] = self._mark()
                if self._closed:  # by another thread meanwhile: nobody asks for it later
                    one[0].synchronize()

    def make_room(self) -> None:
        """Lets go of what was read; with too many reads under way it waits for the oldest."""
        while True:
            with self._lock:
                while self._under_way and self._event_of(self._under_way[0]).query():
                    self._under_way.popleft()
                if len(self._under_way) <= self._most:
                    return
                oldest = self._event_of(self._under_way[0])
            oldest.synchronize()

    def clear(self) -> None:
        """Before the memory goes: waits for the reads that are under way."""
        with self._lock:
            self._closed = True
            if not self._pins and not self._under_way:
                return
            with contextlib.suppress(RuntimeError):  # a device that has failed reads nothing any more
                self._mark().synchronize()
            with self._torch.cuda.device(self._device):
                for address in [address for address, is_pinned in self._pins.items() if is_pinned is not False]:
                    self._unpin(address)
                    del self._pins[address]
            self._under_way.clear()

    def _unpin(self, address: int) -> None:
        if int(self._runtime.cudaHostUnregister(address)) != 0:
            self._take_error_away()

    # A wait for it sleeps, and is none of those that torch's set_sync_debug_mode() refuses.
    def _mark(self) -> Any:
        return self._stream.record_event(self._torch.cuda.Event(blocking=True))

    # An exception in the middle has left it without one.
    def _event_of(self, read: List[Any]) -> Any:
        read[0] = read[0] or self._mark()
        return read[0]

    # CUDA keeps the error of a call that failed for this thread, and torch raises it from the next kernel that it
    # starts, whatever that is for. So one is started here.
    def _take_error_away(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._torch.ones(1, device=self._device)


class Staged:
    """A batch on its way to the device, or there."""

    _is_waited_for = True  # no work of T's is on its way to it that S does not wait for

    def __init__(self, images: Any, labels: Any, read: Any, done: Any, stream: Any):
        self.images, self.labels = images, labels
        # What T reads on the way there was allocated under S: freed before S waits, it could be S's next tensor.
        self._read, self._done, self._allocated_under = read, done, stream
        self._is_waited_for = done is None

    def prepare(self) -> None:
        """Brings it as far as it goes without waiting."""

    def hand_over(self, stream: Any) -> None:
        """From now on the consumer's stream may read it, and the allocator may have what it lets go. After an exception
        it may come again, for another stream."""
        if self._done is not None:
            stream.wait_event(self._done)
            if stream != self._allocated_under:
                self._allocated_under.wait_event(self._done)
                for one in (self.images, self.labels):
                    if hasattr(one, "record_stream"):  # post may return anything
                        one.record_stream(stream)
        self._is_waited_for, self._read = True, None

    def __del__(self) -> None:
        if not self._is_waited_for:  # it goes unread, while T may write to it
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
        self.stream: Any = torch.cuda.Stream(self.device) if self._on_gpu else None
        self._given_to: List[Any] = []  # streams that batches went to
        deviation = deviation if any(deviation) else (1.0, 1.0, 1.0)
        self._scale = self._per_channel([1 / (255 * one) for one in deviation])
        self._shift = self._per_channel([-middle / one for middle, one in zip(mean, deviation)])

    def _per_channel(self, values: List[float]) -> Any:
        return self._torch.tensor(values, dtype=self._torch.float32).view(1, 3, 1, 1).to(self.device)

    def make_reads(self, slots: int) -> Optional[SlotReads]:
        """Of the slots of one loader of the library, which lends so many without copying them."""
        return SlotReads(self._torch, self.device, self.stream, self._most_reads(slots)) if self._on_gpu else None

    # Those that are staged are reads; the next one is lent beside them.
    def _most_reads(self, slots: int) -> int:
        return slots - 1

    def _consumer_stream(self) -> Any:
        return self._torch.cuda.current_stream(self.device) if self._on_gpu else None

    def hand_over(self, staged: Staged) -> None:
        """The consumer's stream waits for the batch."""
        stream = self._consumer_stream()
        if self._on_gpu and stream not in self._given_to:
            self._given_to.append(stream)
        staged.hand_over(stream)

    def numbers(self, values: List[int]) -> Any:
        """N int64, which stay in the CPU's memory."""
        return self._torch.tensor(values, dtype=self._torch.int64)

    def close(self) -> None:
        """No batch comes until the next stage(). Any thread."""

    def stage(self, slot: Slot, shape: Tuple[int, int, int], bad: Sequence[int], reads: Optional[SlotReads],
              on_device: Post) -> Staged:
        """Begins to bring a batch over. `shape` of an image in the slot; `bad`: samples whose image is to be zero;
        `on_device` gets images and labels on the side stream, before the consumer has them."""
        torch, count = self._torch, slot.batch.contents.count
        memory = self._memory(slot, reads)
        pixels_end = count * shape[0] * shape[1] * shape[2]
        with self._current_device():
            under = self._consumer_stream()
            raw = torch.empty(memory.shape, dtype=torch.uint8, device=self.device)
            pixels = raw[:pixels_end].view((count, *shape))
            pixels = pixels.permute(0, 3, 1, 2) if self._channels_last else pixels
            images = None if self._dtype == torch.uint8 else self._empty_like(pixels)
            labels = torch.empty(count, dtype=torch.int64, device=self.device)
            with self._side_stream(under):
                with self._reading(reads, slot):
                    raw.copy_(memory, non_blocking=True)
                return self._finish(under, pixels, raw[-8 * count:].view(torch.int64), images, labels, bad, on_device,
                                    contextlib.nullcontext())

    # A tensor of the consumer's of this size.
    def _empty_like(self, pixels: Any) -> Any:
        torch = self._torch
        layout = torch.channels_last if self._channels_last else torch.contiguous_format
        return torch.empty(pixels.shape, dtype=self._dtype, device=self.device, memory_format=layout)

    # What T is given inside reads `kept`.
    @staticmethod
    def _reading(reads: Optional[SlotReads], kept: Any) -> ContextManager[None]:
        return contextlib.nullcontext() if reads is None else reads.read(kept)

    # From the pixels on, on T. `images` and `labels` were allocated under the consumer's stream; images None: the
    # pixels themselves, which were, too. `reading`: around what reads the pixels.
    def _finish(self, under: Any, pixels: Any, numbers: Any, images: Any, labels: Any, bad: Sequence[int],
                on_device: Post, reading: ContextManager[None]) -> Staged:
        with reading:
            images = pixels if images is None else self._normalise(pixels, images)
            labels.copy_(numbers)  # or whoever keeps labels keeps the pixels
        for place in bad:
            images[place].zero_()
        read = (pixels, numbers, images, labels)
        images, labels = on_device(images, labels)
        done = self.stream.record_event() if self._on_gpu else None
        return Staged(images, labels, read, done, under)

    # The slot's bytes from the first pixel to the last label.
    def _memory(self, slot: Slot, reads: Optional[SlotReads]) -> Any:
        batch = slot.batch.contents
        end = ctypes.addressof(batch.labels.contents) + 8 * batch.count
        if reads is not None and not batch.copied:  # the memory of a copy is not used again
            reads.pin(batch.images, ctypes.addressof(batch.indices.contents) - batch.images)
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
        for stream in {consumers, *self._given_to}:
            self.stream.wait_event(stream.record_event())
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

    # What is being decoded is none yet, but lent.
    def _most_reads(self, slots: int) -> int:
        return slots - 1 - self.ahead

    def close(self) -> None:
        self._decoding.close()

    def stage(self, slot: Slot, shape: Tuple[int, int, int], bad: Sequence[int], reads: Optional[SlotReads],
              on_device: Post) -> Staged:
        return _Decoded(self, self._decoding.start(slot), reads, slot, bad, on_device)

    def finish(self, pixels: Pixels, reads: Optional[SlotReads], slot: Slot, bad: Sequence[int],
               on_device: Post) -> Staged:
        """Makes a batch of its pixels. They lie in memory of another stream's, and are kept until T has read them."""
        with self._current_device():
            under = self._consumer_stream()
            images = self._empty_like(pixels.images)
            labels = self._torch.empty(pixels.labels.shape, dtype=self._torch.int64, device=self.device)
            with self._side_stream(under):
                if pixels.ready is not None:
                    self.stream.wait_event(pixels.ready)
                return self._finish(under, pixels.images, pixels.labels, images, labels, bad, on_device,
                                    self._reading(reads, (slot, pixels)))


class _Decoded(Staged):
    """A batch that is being decoded, and then staged. After an exception it is asked again, from its pixels on."""

    def __init__(self, delivery: JpegDelivery, decoded: "concurrent.futures.Future[Pixels]",
                 reads: Optional[SlotReads], slot: Slot, bad: Sequence[int], on_device: Post):
        super().__init__(None, None, None, None, None)
        self._delivery, self._decoded = delivery, decoded
        self._arguments = (reads, slot, bad, on_device)
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
        self._staged = self._delivery.finish(self._decoded.result(), *self._arguments)
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
