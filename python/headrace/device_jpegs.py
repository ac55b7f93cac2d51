# SPDX-License-Identifier: Apache-2.0
"""JPEGs that are decoded on the device: decode="gpu".

What comes from the library is a small JPEG per sample, cut out around its crop, and which part of it is to be resized.
A thread of its own has torchvision decode a batch of them (nvJPEG, on a GPU), and resizes the batch by two products of
matrices per group of samples of similar size. What comes out are the pixels of the batch, as bytes on the device.

On a GPU the thread works on a stream D of its own. torchvision decodes on yet another stream, to memory that it takes
under D without waiting for what D still does there. So before each batch the thread waits for D, on which nothing else
is done; and the pixels of a batch are kept until the stream that reads them is done.

Thread-safety: one thread calls start(); the thread here does the rest.
"""
import concurrent.futures
import contextlib
import ctypes
import warnings
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from . import _abi
from .delivery import Slot

# Samples of a group are laid into one array, of the size of the largest. Sorted by size, 32 differ little as a rule;
# more groups are more calls, of some 10 us each. One that is much larger than the rest would make each row as large.
_GROUP = 32
_PADDED = 2  # at most this many pixels are laid for each that a group has


def _tensor_of(torch: Any, structs: Any, count: int, dtype: Any, fields: int) -> Any:
    memory = bytearray(ctypes.string_at(structs, count * ctypes.sizeof(structs.contents)))
    return torch.frombuffer(memory, dtype=dtype).view(count, fields)


# Without a copy; the memory keeps the slot.
def _bytes_of(torch: Any, content: _abi.Bytes, slot: Slot) -> Any:
    memory = (ctypes.c_ubyte * content.bytes).from_address(content.data)
    memory.slot = slot
    return torch.frombuffer(memory, dtype=torch.uint8)


def groups_of(sizes: Sequence[Tuple[int, int]]) -> Iterator[List[int]]:
    """The places of `sizes` (height, width) by groups of similar size."""
    group: List[int] = []
    pixels = height = width = 0
    for place in sorted(range(len(sizes)), key=lambda k: sizes[k][0] * sizes[k][1]):
        own_height, own_width = sizes[place]
        height, width = max(height, own_height), max(width, own_width)
        pixels += own_height * own_width
        if group and (len(group) == _GROUP or (len(group) + 1) * height * width > _PADDED * pixels):
            yield group
            group, height, width, pixels = [], own_height, own_width, own_height * own_width
        group.append(place)
    if group:
        yield group


class Pixels(NamedTuple):
    """A batch on the device: N x 3 x H x W bytes, N int64, and the event behind which they are there (None: now)."""
    images: Any
    labels: Any
    ready: Any


class _Job(NamedTuple):
    """What to make of the samples of a group; one row each."""
    places: List[int]
    windows: Any   # N x 8, as _abi.Window, float64
    targets: Any   # N x 4: x, y, width, height, float64
    mirrored: Any  # N


class JpegDecoding:
    """Decodes and resizes batches to `size` (height, width) on a device. `reach`: of the filter, in pixels of what is
    larger, 1 for bilinear and 2 for bicubic; `antialias`: as in the transform."""

    def __init__(self, torch: Any, device: Any, size: Tuple[int, int], reach: int, antialias: bool):
        try:
            import torchvision.io
        except ImportError as error:
            raise ModuleNotFoundError("decode=\"gpu\" takes torchvision, which is not installed for this "
                                      "Python") from error
        self._torch, self._io, self._device, self._size = torch, torchvision.io, device, size
        self._reach, self._antialias = reach, antialias
        self._on_gpu = device.type == "cuda"
        self._stream = torch.cuda.Stream(device) if self._on_gpu else None
        self._last: Any = None  # the event behind what the stream was given
        # torchvision 0.20 and later take a list; the whole of it is decoded at once.
        self._takes_lists = self._on_gpu and hasattr(torch.ops.image, "decode_jpegs_cuda")
        self._thread: Optional[concurrent.futures.ThreadPoolExecutor] = None
        self._before: Optional[concurrent.futures.ThreadPoolExecutor] = None  # ended, behind the batches that it has
        self.refused = 0  # JPEGs that the device's decoder did not take, so that the CPU decoded them

    def start(self, slot: Slot) -> "concurrent.futures.Future[Pixels]":
        """Begins with a batch; the slot may go when the result is there."""
        thread = self._thread
        if thread is None:
            thread = self._thread = concurrent.futures.ThreadPoolExecutor(1, "hr-jpeg")
            if self._before is not None:
                thread.submit(self._before.shutdown)  # waits for it: nothing else is done on D
        return thread.submit(self._run, slot)

    def close(self) -> None:
        """Ends the thread behind the batches that it has; the next start() makes another one."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._before = thread
            thread.shutdown(wait=False)

    def _run(self, slot: Slot) -> Pixels:
        if self._stream is None:
            return Pixels(self._make(slot), self._labels(slot), None)
        with self._torch.cuda.device(self._device), self._torch.cuda.stream(self._stream):
            if self._last is not None:
                self._last.synchronize()
            try:
                images, labels = self._make(slot), self._labels(slot)
            finally:
                self._last = self._stream.record_event(self._torch.cuda.Event(blocking=True))  # a wait for it sleeps
            return Pixels(images, labels, self._last)

    # Without waiting for the stream, which a blocking copy does.
    def _there(self, tensor: Any) -> Any:
        return tensor.to(self._device, non_blocking=True)

    def _labels(self, slot: Slot) -> Any:
        batch = slot.batch.contents
        return self._there(self._torch.tensor(batch.labels[:batch.count], dtype=self._torch.int64))

    def _make(self, slot: Slot) -> Any:
        torch, batch = self._torch, slot.batch.contents
        count = batch.count
        out = torch.zeros((count, 3, *self._size), dtype=torch.uint8, device=self._device)
        windows = _tensor_of(torch, batch.windows, count, torch.float64, 8)
        crops = _tensor_of(torch, batch.crops, count, torch.int32, 16)  # whole numbers from the tenth on
        is_jpeg = (windows[:, 2] > 0).tolist()
        places = [place for place in range(count) if is_jpeg[place]]
        for place in range(count):
            content = batch.contents[place]
            if not is_jpeg[place] and content.data:
                out[place].copy_(_bytes_of(torch, content, slot).view(3, *self._size), non_blocking=True)
        if not places:
            return out
        images = self._decode([_bytes_of(torch, batch.contents[place], slot) for place in places])
        for group in groups_of([(int(image.shape[1]), int(image.shape[2])) for image in images]):
            rows = [places[k] for k in group]
            job = _Job(rows, windows[rows], crops[rows, 10:14].double(), crops[rows, 14] != 0)
            out[self._there(torch.tensor(rows))] = self._resize([images[k] for k in group], job)
        return out

    def _decode(self, jpegs: List[Any]) -> List[Any]:
        rgb = self._io.ImageReadMode.RGB
        if self._takes_lists:
            with contextlib.suppress(RuntimeError):  # one of them, which is found below
                return list(self._io.decode_jpeg(jpegs, rgb, self._device))
        return [self._decode_one(jpeg, rgb) for jpeg in jpegs]

    def _decode_one(self, jpeg: Any, rgb: Any) -> Any:
        if not self._on_gpu:
            return self._io.decode_jpeg(jpeg, rgb)
        try:
            return self._io.decode_jpeg(jpeg, rgb, self._device)
        except RuntimeError as error:
            image = self._there(self._io.decode_jpeg(jpeg, rgb))  # raises for what is nobody's JPEG
            self.refused += 1
            if self.refused == 1:
                warnings.warn(f"headrace: the GPU does not decode a JPEG, so the CPU does: {error}", RuntimeWarning,
                              stacklevel=2)
            return image

    # N x 3 x H x W of images of several sizes: first across, then down.
    def _resize(self, images: Sequence[Any], job: _Job) -> Any:
        torch = self._torch
        height, width = (int(max(image.shape[axis] for image in images)) for axis in (1, 2))
        laid = torch.zeros((len(images), 3, height, width), dtype=torch.uint8, device=self._device)
        for row, image in enumerate(images):
            laid[row, :, :image.shape[1], :image.shape[2]].copy_(image)
        down = self._weights(job, 1, height, torch.zeros_like(job.mirrored))
        across = self._weights(job, 0, width, job.mirrored)
        narrow = torch.matmul(laid.float(), across.transpose(1, 2).unsqueeze(1)).round_().clamp_(0, 255)  # as PIL
        return torch.matmul(down.unsqueeze(1), narrow).round_().clamp_(0, 255).to(torch.uint8)

    # N x outputs x inputs: what each output takes of each input along an axis, 0 for columns and 1 for rows. Rows of
    # what lies outside of the target are zero.
    def _weights(self, job: _Job, axis: int, inputs: int, mirrored: Any) -> Any:
        torch, outputs = self._torch, self._size[1 - axis]
        begin, count, part, extent = (job.windows[:, k + axis].view(-1, 1, 1) for k in (0, 2, 4, 6))
        at, target = (job.targets[:, k + axis].view(-1, 1, 1) for k in (0, 2))
        output = torch.arange(outputs, dtype=torch.float64).view(1, -1, 1) - at
        inside = (output >= 0) & (output < target)
        output = torch.where(mirrored.view(-1, 1, 1), target - 1 - output, output)
        step = extent / target
        centre = part + (output + 0.5) * step
        spread = step.clamp(min=1.0) if self._antialias else torch.ones_like(step)
        centre, spread, begin, count = (self._there(each.float()) for each in (centre, spread, begin, count))
        place = torch.arange(inputs, dtype=torch.float32, device=self._device).view(1, 1, -1) - begin
        weight = self._filter((place + 0.5 - centre) / spread)
        inside = self._there(inside)
        weight = weight * ((place >= 0) & (place < count)) * inside  # nothing is seen but the box
        total = weight.sum(2, keepdim=True)
        return weight / torch.where(inside, total, torch.ones_like(total))

    # PIL's: a triangle, or the cubic with a = -0.5.
    def _filter(self, distance: Any) -> Any:
        distance = distance.abs()
        if self._reach == 1:
            return (1 - distance).clamp(min=0)
        near = (1.5 * distance - 2.5) * distance * distance + 1
        far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
        return self._torch.where(distance < 1, near, far) * (distance < 2)
