# SPDX-License-Identifier: Apache-2.0
"""The loader, with the face of torch's DataLoader."""
import ctypes
import json
import operator
import os
import threading
import weakref
from collections import deque
from dataclasses import dataclass
from typing import (Any, ContextManager, Deque, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union,
                    cast, overload)

from . import _abi, batch_transforms, delivery, device as devices, sampler as orders, transforms
from ._abi import BadSampleError, check, check_next, lib
from .dataset import Dataset, DecodeFailure, Files

STATE_VERSION = 1
_WAIT_MS = 100  # between two looks at signals: Ctrl-C works within this
_AHEAD_MAX = 64  # the library's; each takes the memory of a batch
_AHEAD_OF_DEVICE = 3  # one crosses beside the one that the loop has
_LENT_TO_DEVICE = 3  # one crosses while another is given to it; the library keeps the third
_LENT_OF_JPEGS = 8  # three are decoded or wait for it, some more until the device has read them: no slot has pixels


class Note(NamedTuple):
    """A sample that is bad, or was repaired."""
    position: int  # within the epoch, over all ranks
    index: int  # type: ignore[assignment]  # a tuple's method of that name is not missed
    state: str     # "repaired" or "bad"
    reason: str    # names the file


class Crop(NamedTuple):
    """What a sample shows of its image, for boxes and masks: a point (px, py) of the image stands in the sample at
    target_x + (px - x) * target_width / width, mirrored: target_x + target_width less that, and so in height."""
    image_width: int  # as it is stored. 0: a bad sample
    image_height: int
    x: float  # the part of the image, in its pixels
    y: float
    width: float
    height: float
    target_x: int  # where in the sample that part stands; all of it unless there is a border
    target_y: int
    target_width: int
    target_height: int
    mirrored: bool  # the part is turned left to right


class Crops(Sequence[Crop]):
    """The Crop of each sample of a batch, made when it is asked for."""

    def __init__(self, crops: Any):
        self._crops = crops

    def __len__(self) -> int:
        return len(self._crops)

    @overload
    def __getitem__(self, place: int) -> Crop: ...

    @overload
    def __getitem__(self, place: slice) -> List[Crop]: ...

    def __getitem__(self, place: Union[int, slice]) -> Union[Crop, List[Crop]]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        number = operator.index(place) + (len(self) if place < 0 else 0)
        if not 0 <= number < len(self):  # an array of ctypes would count from its end once more
            raise IndexError(f"crop {place} of a batch of {len(self)}")
        crop = self._crops[number]
        return Crop._make([getattr(crop, name) for name in Crop._fields[:-1]] + [bool(crop.mirrored)])


@dataclass
class Batch:
    """One batch. `images`: N x 3 x H x W (torch), or as the layout says (numpy, buffer). With Files, `images` is a list
    of bytes or of what `decode` made of them. `labels`, `indices`: N int64. `states`: "good", "repaired" or "bad"."""
    images: Any
    labels: Any
    indices: Any
    states: List[str]
    epoch: int
    position: int  # samples of the epoch that are done with this batch, over all ranks
    notes: List[Note]  # also on samples that were skipped
    crops: Sequence[Crop] = ()  # what each image shows; empty with Files


class DataLoader:
    """Batches of a data set, read ahead along the order, decoded and transformed by threads of the library.

    Parameters:
        dataset: ImageFolder, Files, or another Dataset.
        batch_size: samples a batch, of this rank.
        shuffle: the order of torch's DistributedSampler with `seed`, for any number of ranks. False: in sequence.
        sampler: instead, any iterable of sample numbers, asked once per epoch; set_epoch() is passed on.
        order: instead, a spec that `headrace order` knows, such as "torch-random:seed=0".
        drop_last: leaves out an epoch's last batch if it is not full.
        transform: a list of headrace's transforms; see headrace.transforms. Images need one.
        seed: of the order and of what transforms draw. (seed, epoch, position, sample) alone decide about a sample.
        dtype: "uint8", "float16", "bfloat16" or "float32"; numbers are pixel / 255 where there is no Normalize.
        channels_last: images lie in memory as N x H x W x 3.
        output: "torch", "numpy" or "buffer"; None: the first that is installed.
        rank, world_size: of torch.distributed, or of the environment (RANK, WORLD_SIZE), where both are None.
        bad_samples: "raise", "skip" (the samples behind move up) or "zero" (its image is all zero; of Files: None, or
            no bytes). A sample that the function of Files raises on is bad, too; where it is skipped, its batch is
            smaller.
        damage: "repair" (as PIL does), "reject" or "salvage" (also files that end early).
        threads: that decode; 0: as many as this process may use.
        prefetch_batches: made ahead of the consumer; of images two at least, three with a device. The loader has memory
            for one more.
        draws: "position", or "torch": RandomResizedCrop and RandomHorizontalFlip draw what torch's DataLoader with
            `torch_workers` workers (1 at least) and `generator` would draw. An epoch then cannot be resumed in its
            middle.
        batch_transform: RandomErasing, MixUp or CutMix, on the whole batch; see headrace.batch_transforms. Labels that
            were mixed are float32, N x classes.
        device: "cuda": batches are torch tensors there; the next one is copied, normalised and mixed on a stream of its
            own beside the step on this one. "cpu": the same without streams. None: tensors of the loader's memory.
        decode: "cpu", or with a device "gpu": the library cuts small JPEGs out of the files, around each crop, and
            torchvision decodes them on the device (nvJPEG), where they are resized. The pixels are nvJPEG's. Files that
            nothing can be cut out of (no JPEG, damaged, progressive, four channels) are decoded here. No ColorJitter,
            augmentation or RandomCrop.
        post: with `device`: a function of (images, labels) that returns both, run there behind batch_transform.

    Iterating yields (images, labels); batches() yields Batch. Each iteration is one epoch; epochs follow each other and
    are read ahead across the border, unless set_epoch() says otherwise or the order comes from a sampler.

    Raises: ValueError, TypeError (a parameter), IndexError (a sampler's index), BadSampleError and FileNotFoundError (a
        sample, with bad_samples="raise"), MemoryError.
    Thread-safety: one thread iterates; close(), report() and state_dict() from any. A forked child opens its own.
    """

    def __init__(self, dataset: Dataset, batch_size: int = 1, shuffle: bool = False, sampler: Any = None, *,
                 order: Optional[str] = None, drop_last: bool = False, transform: Optional[Sequence[Any]] = None,
                 seed: int = 0, dtype: str = "float32", channels_last: bool = False, output: Optional[str] = None,
                 rank: Optional[int] = None, world_size: Optional[int] = None, bad_samples: str = "raise",
                 damage: str = "repair", threads: int = 0, prefetch_batches: int = 2, window: int = 0,
                 dct_scaling: bool = True, draws: str = "position", torch_workers: int = 0, generator: Any = None,
                 batch_transform: Sequence[Any] = (), device: Any = None, post: Optional[devices.Post] = None,
                 decode: str = "cpu"):
        if not isinstance(dataset, Dataset):
            raise TypeError(f"dataset is a {type(dataset).__name__}; a loader reads headrace.ImageFolder or Files")
        batch_size, seed = _abi.uint(batch_size, 32, "batch_size", 1), _abi.uint(seed, 64, "seed")
        if order is not None:
            _abi.text(order, "order")
        if (sampler is not None) + (order is not None) + bool(shuffle) > 1:
            raise ValueError("give one of shuffle=True, sampler and order")
        self.dataset, self.batch_size, self.drop_last, self.seed = dataset, batch_size, drop_last, seed
        self.dtype, self._channels_last, self._generator = dtype, channels_last, generator
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._options = self._make_options(transform, bad_samples, damage, threads, prefetch_batches, window,
                                           dct_scaling, draws, torch_workers)
        self._device = self._make_device(device, output, post, decode)
        self._delivery = delivery.make_delivery(output, channels_last) if dataset.decodes else None
        self._batch_transform = self._check_batch_transform(batch_transform)
        self.rank, self.world_size = (0, 1) if sampler is not None else orders.ranks(rank, world_size)
        if sampler is not None:
            self._order: Union[orders.SamplerEpochs, orders.SpecEpochs] = orders.SamplerEpochs(sampler)
        else:
            spec = order or (f"torch-distributed:seed={seed}" if shuffle else "torch-distributed:shuffle=0")
            self._order = orders.SpecEpochs(dataset, spec, self.rank, self.world_size)
        self._epoch = 0       # of the next iteration
        self._position = 0    # within that epoch, over all ranks: what was delivered
        self._resume = False  # the next iteration begins at _position
        self._check = 0       # of the sampler's list for that epoch; 0: it gave none yet
        self._is_whole = False  # all of that epoch was delivered, and nobody has asked for more
        self._running: Optional[_Running] = None

    def _make_options(self, transform: Optional[Sequence[Any]], bad_samples: str, damage: str, threads: int,
                      prefetch_batches: int, window: int, dct_scaling: bool, draws: str,
                      torch_workers: int) -> _abi.LoaderOptions:
        options = _abi.LoaderOptions(struct_bytes=ctypes.sizeof(_abi.LoaderOptions), batch_size=self.batch_size,
                                     drop_last=bool(self.drop_last), dct_scaling=bool(dct_scaling), seed=self.seed,
                                     batches_ahead=self._batches_ahead(prefetch_batches),
                                     window_bytes=_abi.uint(window, 63, "window"),
                                     threads=_abi.uint(threads, 31, "threads"), layout=int(bool(self._channels_last)),
                                     torch_workers=_abi.uint(torch_workers, 32, "torch_workers"))
        options.bad_samples = _choice("bad_samples", bad_samples, _abi.BAD_SAMPLES)
        options.damage = _choice("damage", damage, _abi.DAMAGE)
        options.element_type = _choice("dtype", self.dtype, _abi.DTYPES)
        options.draw = _choice("draws", draws, {"position": _abi.DRAW_BY_POSITION, "torch": _abi.DRAW_AS_TORCH})
        if options.draw == _abi.DRAW_AS_TORCH and options.torch_workers == 0:
            raise ValueError("draws=\"torch\" needs torch_workers: the num_workers of torch's DataLoader, 1 at least; "
                             "without workers it draws from the process's own generator, which is the script's")
        if self.dataset.decodes:
            if not transform:
                raise ValueError("images of different sizes make no batch; give a transform, for instance "
                                 "[headrace.RandomResizedCrop(224)]")
            transforms.fill(options, transform, self.dtype)
        elif transform:
            raise ValueError("Files are bytes, which no transform fits; give Files a decode function")
        else:
            options.content = _abi.CONTENT_BYTES
        return options

    # What crosses are the pixels: a quarter of what float32 takes.
    def _make_device(self, device: Any, output: Optional[str], post: Optional[devices.Post],
                     decode: str) -> Optional[devices.DeviceDelivery]:
        on_device = _choice("decode", decode, {"cpu": False, "gpu": True})
        if device is None:
            if on_device:
                raise ValueError("decode=\"gpu\" needs a device, for instance device=\"cuda\"")
            if post is not None:
                raise ValueError("post runs on a device; give one, or call it in the loop")
            return None
        if not self.dataset.decodes or output not in (None, "torch"):
            raise ValueError(f"device {str(device)!r} takes batches of images as torch tensors; Files and output "
                             f"{output!r} have none")
        options = self._options
        common = (device, self.dtype, bool(self._channels_last), list(options.mean), list(options.standard_deviation),
                  post)
        if on_device:
            transforms.check_resizes_only(options)
            made: devices.DeviceDelivery = devices.JpegDelivery(
                *common, (options.height, options.width), 1 + options.interpolation, not options.no_antialias)
            options.content, options.layout, options.batches_lent = _abi.CONTENT_JPEGS, 0, _LENT_OF_JPEGS
        else:
            made, options.batches_lent = devices.DeviceDelivery(*common), _LENT_TO_DEVICE
        options.element_type = _abi.DTYPES["uint8"]
        options.batches_ahead = max(_AHEAD_OF_DEVICE, options.batches_ahead)
        options.mean[:] = options.standard_deviation[:] = [0.0] * 3
        return made

    def _batches_ahead(self, prefetch_batches: int) -> int:
        ahead = _abi.uint(prefetch_batches, 32, "prefetch_batches")
        if ahead > _AHEAD_MAX:
            raise ValueError(f"prefetch_batches must be 0 to {_AHEAD_MAX}, not {ahead}")
        return max(1, ahead)  # the library takes 0 for its own choice

    def _check_batch_transform(self, steps: Sequence[Any]) -> List[Any]:
        if steps and not self.dataset.decodes:
            raise ValueError("Files are bytes, which no batch_transform fits")
        if not steps:
            return []
        return batch_transforms.checked(steps, self.dtype, delivery.name_of(self._delivery))

    # ---- iterating ----

    def __iter__(self) -> Iterator[Tuple[Any, Any]]:
        for batch in self.batches():
            yield batch.images, batch.labels

    def batches(self) -> Iterator[Batch]:
        """The batches of one epoch, with indices, states, notes, epoch and position."""
        return _Epoch(self) if self._device is None else _DeviceEpoch(self, self._device)

    def __len__(self) -> int:
        """Batches of an epoch that is read from its beginning."""
        length = self._order.length(self._epoch)
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def set_epoch(self, epoch: int) -> None:
        """The next iteration reads this epoch. A state that was loaded for the same epoch stays in force."""
        epoch = _abi.uint(epoch, 63, "epoch")
        with self._lock:
            self._is_whole = False
            if epoch != self._epoch:
                self._epoch, self._position, self._check, self._resume = epoch, 0, 0, False

    # ---- state ----

    def state_dict(self) -> Dict[str, Any]:
        """Where the loader is: what was delivered, never what was prefetched. Plain values below 1 kB."""
        with self._lock:
            return {"version": STATE_VERSION, "epoch": self._epoch, "position": self._position, "seed": self.seed,
                    "order": getattr(self._order, "spec", None), "batch_size": self.batch_size,
                    "world_size": self._order.world, "check": self._check, "dataset": self.dataset.digest()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next iteration goes on behind the last batch that was delivered. The number of ranks may be another one.

        Raises ValueError: a state of another data set (names the file that differs), order or seed.
        """
        if not isinstance(state, dict):
            raise TypeError(f"a state is the dict of state_dict(), not {state!r}")
        if state.get("version") != STATE_VERSION:
            raise ValueError(f"the state is of version {state.get('version')}; this package reads {STATE_VERSION}")
        missing = [name for name in ("epoch", "position", "seed", "order", "world_size", "check", "dataset")
                   if name not in state]
        if missing:
            raise ValueError(f"the state has no {missing[0]}; it is not whole")
        epoch, position = (_abi.uint(state[name], 63, f"{name} of the state") for name in ("epoch", "position"))
        for name, mine in (("order", getattr(self._order, "spec", None)), ("seed", self.seed)):
            if state[name] != mine:
                raise ValueError(f"the state is of {name} {state[name]!r}, this loader of {mine!r}")
        self.dataset.check_digest(state["dataset"])
        # Ranks that the samples do not divide by have padded the epoch by less than one sample each.
        end = self._order.end(epoch) + _abi.uint(state["world_size"], 32, "world_size of the state", 1) - 1
        if position > end:
            raise ValueError(f"the state's position {position} lies behind its epoch, which ends at {end}")
        self._order.check_ranks(state["world_size"], epoch)
        self._check_process()
        with self._lock:
            self._drop_running()
            self._epoch, self._position, self._check = epoch, position, state["check"]
            self._resume, self._is_whole = True, False

    # ---- the rest ----

    def report(self) -> Dict[str, Any]:
        """What each stage of the running loader did and waited, in seconds over its threads; `bottleneck`, and `text`
        to print; `through_mount`, and `shared_mount` where the ranks of this node share one. Empty before the first
        iteration."""
        self._check_process()
        with self._lock:
            if self._running is None:
                return {}
            report = self._running.report()
            if report and self.dataset.shared_mount:
                report["shared_mount"] = self.dataset.shared_mount
            return report

    def close(self) -> None:
        """Ends the threads. Batches that were delivered stay good. Iterating again starts new ones. A thread that is
        iterating gets RuntimeError. In a forked child nothing happens."""
        if os.getpid() != self._process:  # the lock may be held for ever by a thread that is not here
            return
        with self._lock:
            self._drop_running()

    def __enter__(self) -> "DataLoader":
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"a loader of {self.dataset.root} has threads, which cannot be copied or sent to another "
                        "process; make one there, and give it state_dict()")

    def __exit__(self, *_: object) -> None:
        self.close()

    def _drop_running(self) -> None:
        if self._running is not None:
            self._running.shut()
            self._running = None
            if self._device is not None:
                self._device.close()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError("this loader belongs to the parent process; make one in this process")

    # The loader of the library for an epoch: the one that runs if it stands there, else a new one.
    def _start(self) -> "_Running":
        with self._lock:
            # Whoever counts batches, as Lightning does, does not ask for the end. After Ctrl-C the last may be pending.
            if self._is_whole and (self._running is None or self._running.ended):
                self._end_epoch(self._epoch, self._running)
            if not self._resume:
                self._position = 0
            running = self._running
            if running is not None and running.stands_at(self._epoch, self._position):
                running.enter(self._order.length(self._epoch))
            else:
                self._drop_running()
                self._running = running = self._open()
            self._resume = False
            return running

    # `running`: what has delivered it. The next iteration reads the next epoch, unless set_epoch() said another one.
    def _end_epoch(self, epoch: int, running: Optional["_Running"]) -> None:
        if epoch == self._epoch:
            self._epoch, self._position, self._check, self._is_whole = epoch + 1, 0, 0, False
        if running is None:
            return
        running.end_epoch()
        if running.part.spec is None and running is self._running:
            self._drop_running()

    def _open(self) -> "_Running":
        torch_seed = self._torch_seed() if self._options.draw == _abi.DRAW_AS_TORCH else 0
        part = self._order.part(self._epoch, self._position)
        if self._resume and self._check and part.check != self._check:
            raise ValueError(f"the sampler gives another list for epoch {self._epoch} than when the state was saved")
        self._check = part.check
        options = _abi.LoaderOptions.from_buffer_copy(self._options)
        options.torch_seed = torch_seed
        options.first_epoch, options.first_position = self._epoch, part.first
        options.position_offset, options.position_stride = part.base + part.rank, part.stride
        if part.spec is not None:
            options.order = part.spec.encode()
            options.epochs = int(self._options.draw == _abi.DRAW_AS_TORCH)  # else without end
        elif part.indices is not None:
            options.indices, options.index_count, options.epochs = part.indices, len(part.indices), 1
        reads = self._device.make_reads(options.batches_lent - 1) if self._device else None
        return _Running(self.dataset, options, part, self._epoch, reads)

    # What torch's DataLoader seeds its workers with, drawn where it draws it.
    def _torch_seed(self) -> int:
        import torch
        return int(torch.empty((), dtype=torch.int64).random_(generator=self._generator).item())


class _Running:
    """A loader of the library, and where it stands."""

    def __init__(self, dataset: Dataset, options: _abi.LoaderOptions, part: orders.Part, epoch: int,
                 reads: Optional[devices.SlotReads]):
        self.part, self.epoch, self.done, self.reads = part, epoch, part.first, reads
        self.drop_last, self.batch_size = options.drop_last, options.batch_size
        self._is_endless = options.epochs == 0
        self.pending = delivery.Slot.empty()  # the library writes the next batch here; it stays until delivered
        self.handle = ctypes.c_void_p()
        self._leases = list(dataset._leases)  # what is read through a mount needs it, also if the data set is closed
        self._stopping = False
        # Held during a call that closing must not overtake. Two, or a report would wait for a source that hangs. A
        # signal's handler that closes the loader runs behind the call of its thread.
        self._busy, self._reporting = threading.RLock(), threading.RLock()
        # Before there is something to close: opening takes long enough for Ctrl-C to come, which shows just behind it.
        self.close = weakref.finalize(self, _close, self.handle, self._busy, self._reporting, os.getpid(), reads)
        if len(part.indices or ()) == 0 and part.spec is None:
            return  # nothing to read, nothing to open
        with dataset._open_handle() as data:
            check(lib.hr_loader_open(data, ctypes.byref(options), ctypes.byref(self.handle)))

    @property
    def ended(self) -> bool:
        """Whether the epoch has no further batch."""
        return self._ends_at(self.done)

    def ends_behind(self, slot: delivery.Slot) -> bool:
        """Whether it has none behind this one."""
        return self._ends_at(int(slot.batch.contents.next_position))

    def _ends_at(self, done: int) -> bool:
        left = self.part.length - done
        return left <= 0 or (self.drop_last and left < self.batch_size)

    def position_behind(self, slot: delivery.Slot) -> int:
        """Within the epoch, over all ranks: what is delivered with this batch where all ranks are as far."""
        return int(self.part.base + slot.batch.contents.next_position * self.part.stride)

    def positions_in(self, slot: delivery.Slot) -> List[int]:
        """Of each sample of the next batch, within the epoch, over all ranks."""
        batch, part = slot.batch.contents, self.part
        noted = {note.position for note in batch.notes[:batch.note_count]}
        all_read = [part.base + part.rank + i * part.stride for i in range(self.done, batch.next_position)]
        skipped = noted if batch.count < len(all_read) else set()
        return [position for position in all_read if position not in skipped]

    def shut(self) -> None:
        """Closes, also while another thread waits for a batch."""
        self._stopping = True
        self.close()

    def report(self) -> Dict[str, Any]:
        with self._reporting:
            report: Dict[str, Any] = {}
            if self.close.alive:
                report = json.loads(_abi.text_of(lib.hr_loader_report, self.handle) or "{}")  # "": closed meanwhile
            return report

    def stands_at(self, epoch: int, position: int) -> bool:
        return self.close.alive and self._is_endless and self.epoch == epoch and self.done == 0 and position == 0

    def enter(self, length: int) -> None:
        self.part.length = length

    def end_epoch(self) -> None:
        self.epoch, self.done = self.epoch + 1, 0

    def next(self, wait: bool = True) -> Optional[delivery.Slot]:
        """The next batch of this epoch, again until took(); None at its end, or where it is not ready and `wait` is
        false. Raises RuntimeError: closed meanwhile."""
        while True:
            if not self.pending.batch and (self.ended or not self._receive(wait)):
                return None
            batch = self.pending.batch.contents
            if batch.epoch > self.epoch:
                return None
            if batch.count > 0:
                return self.pending
            # An epoch that makes no batch: this one, or one whose end was known before.
            ends = batch.epoch == self.epoch
            self.pending = delivery.Slot.empty()
            if ends:
                return None

    # Whether a batch came, to `pending`.
    def _receive(self, wait: bool) -> bool:
        while True:  # Python looks at signals in between
            with self._busy:
                if not self.close.alive:
                    raise RuntimeError("the loader was closed while it was iterated")
                status = check_next(lib.hr_loader_next(self.handle, _WAIT_MS if wait else 0,
                                                       ctypes.byref(self.pending.batch)))
            if status != _abi.TIMED_OUT or not wait:
                break
        if status == _abi.END and self._stopping:
            raise RuntimeError("the loader was closed while it was iterated")
        return status == _abi.OK

    def took(self, slot: delivery.Slot) -> None:
        """The batch was delivered."""
        self.done = slot.batch.contents.next_position
        self.pending = delivery.Slot.empty()


# The finalizer of a _Running; at exit it comes while a daemon thread iterates. In a child of a fork it leaves alone
# what is the parent's: locks that are held there stay so here. After Ctrl-C it closes what it was about to close.
def _close(handle: ctypes.c_void_p, busy: ContextManager[Any], reporting: ContextManager[Any], process: int,
           reads: Optional[devices.SlotReads]) -> None:
    if os.getpid() != process:
        return
    interrupt = None
    while handle.value is not None:
        try:
            lib.hr_loader_stop(handle)
            with busy, reporting:
                if reads is not None:
                    reads.clear()
                taken, handle.value = handle.value, None  # Python runs no signal handler between this and the call
                lib.hr_loader_close(taken)
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt


class _Epoch:
    """Iterates over the batches of one epoch."""

    def __init__(self, loader: DataLoader):
        self._loader = loader
        self._running: Optional[_Running] = None
        self._epoch = 0  # that `_running` was at
        self._ended = False

    def __iter__(self) -> "_Epoch":
        return self

    def __next__(self) -> Batch:
        loader = self._loader
        loader._check_process()
        if self._ended:
            raise StopIteration
        if self._running is None:
            self._running = loader._start()
            self._epoch = self._running.epoch
        if self._running is not loader._running or self._running.epoch != self._epoch:
            raise RuntimeError("this iteration is over: another one was begun, or the loader was closed")
        batch = self._take(self._running)
        if batch is None:
            self._finish(self._running)
            raise StopIteration
        return batch

    # The next batch, delivered; None at the end of the epoch.
    def _take(self, running: _Running) -> Optional[Batch]:
        while True:
            slot = running.next()
            if slot is None:
                return None
            # Until it is delivered the batch stays where it is: after an exception the next call delivers it.
            batch = _deliver(self._loader, slot, running)
            self._note_delivered(running, batch, running.ends_behind(slot))
            running.took(slot)
            if batch.states:  # else its samples were all skipped
                return batch

    def _note_delivered(self, running: _Running, batch: Batch, is_last: bool) -> None:
        with self._loader._lock:
            if running is self._loader._running and running.epoch == self._loader._epoch:
                self._loader._position, self._loader._is_whole = batch.position, is_last

    def _finish(self, running: _Running) -> None:
        self._ended = True
        with self._loader._lock:
            self._loader._end_epoch(running.epoch, running)


class _Ahead(NamedTuple):
    """A batch that is on its way to a device. Its slot goes back once that has read it."""
    batch: Batch
    staged: devices.Staged


class _DeviceEpoch(_Epoch):
    """Keeps batches on their way to the device beside the one that the consumer has."""

    def __init__(self, loader: DataLoader, device: devices.DeviceDelivery):
        super().__init__(loader)
        self._device = device
        self._ahead: Deque[_Ahead] = deque()  # the next to hand over first; at most one more than the device's `ahead`
        self._failure: Optional[Exception] = None  # of the batch behind these

    def _take(self, running: _Running) -> Optional[Batch]:
        if not self._ahead:
            failure, self._failure = self._failure, None
            try:
                if failure is not None:
                    raise failure
            finally:
                del failure  # whose traceback has this frame: such a ring would keep the slot
            self._stage(running, wait=True)
        if not self._ahead:
            return None
        batch, staged = self._ahead[0].batch, self._ahead[0].staged
        self._device.hand_over(staged)
        if len(self._ahead) > 1:
            self._ahead[1].staged.prepare()
        while len(self._ahead) <= self._device.ahead and self._failure is None and self._stage_behind(running):
            pass
        batch.images, batch.labels = staged.images, staged.labels
        self._note_delivered(running, batch, running.ended and len(self._ahead) == 1 and self._failure is None)
        self._ahead.popleft()
        return batch

    # What is wrong with that batch is said when it is asked for: this one is good. Whether there was one.
    def _stage_behind(self, running: _Running) -> bool:
        try:
            return self._stage(running, wait=False)
        except Exception as error:
            self._failure = error
            return False

    # After an exception a batch is still pending, or it is there and only left to be taken.
    def _stage(self, running: _Running, wait: bool) -> bool:
        if running.reads is not None:
            running.reads.make_room()
        slot = running.next(wait)
        if slot is None:
            return False
        if not self._ahead or self._ahead[-1].batch.position < running.position_behind(slot):
            batch, staged = _deliver_to_device(self._loader, self._device, slot, running)
            self._ahead.append(_Ahead(batch, staged))
        running.took(slot)
        return True


def _choice(name: str, value: str, known: Dict[str, int]) -> int:
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} {value!r} is unknown; there are: {', '.join(known)}")
    return known[value]


def _deliver(loader: DataLoader, slot: delivery.Slot, running: _Running) -> Batch:
    batch = _describe(slot, running.position_behind(slot))
    if not loader.dataset.decodes:
        return _deliver_bytes(loader, slot, batch, running)
    shape = _shape_in_slot(loader)
    images, labels, indices = delivery.arrays_of(slot, shape, loader.dtype)
    make = loader._delivery or delivery.BufferDelivery()
    batch.images, batch.labels, batch.indices = make.images(images), make.numbers(labels), make.numbers(indices)
    if loader._batch_transform:
        batch_transforms.check_labels(loader._batch_transform, labels.tolist())
        # Torch tensors are N x C x H x W however they lie in memory.
        is_last = bool(loader._options.layout) and delivery.name_of(make) != "torch"
        draws = _draws(loader, batch, indices.tolist(), is_last)
        batch.images, batch.labels = _mix(loader, draws, batch.images, batch.labels)
    batch.crops = _crops(slot)
    return batch


# The batch is the consumer's once it was handed over, and has `images` and `labels` then.
def _deliver_to_device(loader: DataLoader, device: devices.DeviceDelivery, slot: delivery.Slot,
                       running: _Running) -> Tuple[Batch, devices.Staged]:
    batch = _describe(slot, running.position_behind(slot))
    count = slot.batch.contents.count
    labels, indices = slot.batch.contents.labels[:count], slot.batch.contents.indices[:count]
    batch_transforms.check_labels(loader._batch_transform, labels)
    draws = _draws(loader, batch, indices, False)

    def on_device(images: Any, labels: Any) -> Tuple[Any, Any]:
        images, labels = _mix(loader, draws, images, labels)
        return device.post(images, labels) if device.post else (images, labels)

    bad = [place for place, state in enumerate(batch.states) if state == "bad"]
    staged = device.stage(slot, _shape_in_slot(loader), bad, running.reads, on_device)
    batch.indices, batch.crops = device.numbers(indices), _crops(slot)
    return batch, staged


# Of what lies beside the images. `images`, `labels`, `indices` follow.
def _describe(slot: delivery.Slot, position: int) -> Batch:
    batch = slot.batch.contents
    notes = [Note(note.position, note.index, _abi.STATES[note.state], note.reason.decode(errors="replace"))
             for note in batch.notes[:batch.note_count]]
    states = ["good"] * batch.count if not notes else [_abi.STATES[state] for state in batch.states[:batch.count]]
    return Batch(None, None, None, states, batch.epoch, position, notes)


def _shape_in_slot(loader: DataLoader) -> Tuple[int, int, int]:
    side = loader._options
    return (side.height, side.width, 3) if side.layout else (3, side.height, side.width)


def _crops(slot: delivery.Slot) -> Crops:
    batch = slot.batch.contents
    kind = _abi.Crop * batch.count
    return Crops(kind.from_buffer_copy(ctypes.string_at(batch.crops, ctypes.sizeof(kind))))


def _draws(loader: DataLoader, batch: Batch, indices: Sequence[int], is_last: bool) -> batch_transforms.Draws:
    height, width, channel = (1, 2, 3) if is_last else (2, 3, 1)
    return batch_transforms.Draws(loader.seed, batch.epoch, batch.position, loader.rank, indices, height, width,
                                  channel)


def _mix(loader: DataLoader, draws: batch_transforms.Draws, images: Any, labels: Any) -> Tuple[Any, Any]:
    for step in loader._batch_transform:
        images, labels = step.apply(images, labels, draws)
    return images, labels


def _deliver_bytes(loader: DataLoader, slot: delivery.Slot, batch: Batch, running: _Running) -> Batch:
    held = slot.batch.contents
    contents = [ctypes.string_at(one.data, one.bytes) if one.data else None for one in held.contents[:held.count]]
    batch.images = cast(Files, loader.dataset).decode_all(contents)
    batch.labels, batch.indices = held.labels[:held.count], held.indices[:held.count]
    failed = [place for place, made in enumerate(batch.images) if isinstance(made, DecodeFailure)]
    if failed:
        _judge_failures(loader, batch, failed, running.positions_in(slot))
    return batch


# Samples that the user's function cannot decode are bad ones as any others, but none moves up where one is skipped.
def _judge_failures(loader: DataLoader, batch: Batch, failed: List[int], positions: List[int]) -> None:
    for place in failed:
        error = batch.images[place].error
        reason = " ".join(f"{loader.dataset.name(batch.indices[place])}: decode raised {type(error).__name__}: "
                          f"{error}".split())
        if loader._options.bad_samples == _abi.BAD_SAMPLES["raise"]:
            raise BadSampleError(reason) from error
        batch.notes.append(Note(positions[place], batch.indices[place], "bad", reason))
        batch.images[place], batch.states[place] = None, "bad"
    if loader._options.bad_samples == _abi.BAD_SAMPLES["skip"]:
        for of_samples in (batch.images, batch.labels, batch.indices, batch.states):
            for place in reversed(failed):
                del of_samples[place]
