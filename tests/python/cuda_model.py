# SPDX-License-Identifier: Apache-2.0
"""CUDA as far as its order goes, without a GPU: streams, events, page-locked memory and torch's caching allocator.

    model = CudaModel(lag=0.5, seed=1)
    with model.installed():
        for images, labels in hr.DataLoader(data, 8, device="cuda", ...): ...
    assert model.faults == []

Tensors of "cuda" are torch's own on the CPU, on which each operation happens at once, so what they hold is right
whatever the order. The order is judged beside that, by clocks: how much of each stream's work comes for certain before
the work of another stream, or is known to the host to be done. A fault is

- work of a stream on memory that another stream uses and that no event orders behind it;
- the same on memory that was let go: the worst is assumed, that each new tensor gets all memory that was let go under
  its stream;
- a slot that is given back to the library, or whose page lock is undone, while the device may still read it;
- a batch that is copied from memory that is not page-locked (unless `wants_locked` is false).

An event that is asked is done, or not yet, by chance (`lag`: of those asked how many are not); waiting makes it done.
It says nothing about speed, nor about what the device does of itself.
"""
import contextlib
import random
import threading
from unittest import mock

import torch

from headrace import _abi

SMALL_BYTES = 4096  # copied at once from any memory, whatever the device does
REAL = {name: getattr(torch, name) for name in ("empty", "zeros", "ones", "tensor", "arange")}
TO = torch.Tensor.to
SYNCHRONISING = ("item", "tolist", "cpu", "numpy", "nonzero", "equal", "__bool__", "__int__", "__float__")
REFUSED, NOT_LOCKED = 712, 713


def join(clock, other):
    for stream, tick in other.items():
        clock[stream] = max(clock.get(stream, 0), tick)


def is_behind(clock, other):
    """Whether all that `other` stands for comes before what has this clock."""
    return all(clock.get(stream, 0) >= tick for stream, tick in other.items())


class Event:
    def __init__(self, model, **_):
        self._model, self._clock = model, {}

    def _record(self, stream):
        stream.tick()
        self._clock = dict(stream.clock)

    def query(self):
        with self._model.lock:
            if not is_behind(self._model.host, self._clock) and self._model.choose.random() < self._model.lag:
                return False
            join(self._model.host, self._clock)
            return True

    def synchronize(self):
        with self._model.lock:
            self._model.waits += not is_behind(self._model.host, self._clock)
            join(self._model.host, self._clock)


class Stream:
    def __init__(self, model, device, name):
        self.model, self.device, self.name, self.clock = model, device, name, {}
        self.let_go = {}  # the uses of memory that was let go and that the next tensors under this stream may get

    def __repr__(self):
        return self.name

    def tick(self):
        join(self.clock, self.model.host)
        self.clock[self] = self.clock.get(self, 0) + 1

    def record_event(self, event=None):
        with self.model.lock:
            event = event or Event(self.model)
            event._record(self)
            return event

    def wait_event(self, event):
        with self.model.lock:
            join(self.clock, event._clock)

    def wait_stream(self, stream):
        self.wait_event(stream.record_event())

    def synchronize(self):
        self.model.synchronise(self, "Stream.synchronize")


class Block:
    """Memory of the device."""

    def __init__(self, stream):
        self.stream, self.reads, self.writes, self.recorded = stream, {}, dict(stream.let_go), set()

    def __del__(self):
        with self.stream.model.lock:
            uses = dict(self.reads)
            join(uses, self.writes)
            for stream in self.recorded:  # the allocator waits for what that stream was given until now
                uses = {user: tick for user, tick in uses.items() if stream.clock.get(user, 0) < tick}
            join(self.stream.let_go, uses)


class DeviceTensor(torch.Tensor):
    model = None  # the one that is installed

    @property
    def device(self):
        return self._block.stream.device

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        with cls.model.lock:
            return cls.model.run(function, types, arguments, named or {})

    def record_stream(self, stream):
        self._block.recorded.add(stream)


def tensors_in(thing):
    if isinstance(thing, torch.Tensor):
        return [thing]
    if isinstance(thing, dict):
        thing = list(thing.values())
    return [one for each in thing for one in tensors_in(each)] if isinstance(thing, (list, tuple)) else []


def storage_of(tensor):
    with torch._C.DisableTorchFunction():
        return getattr(tensor, "untyped_storage", tensor.storage)().data_ptr()


def is_of_device(device):
    return device is not None and torch.device(device).type == "cuda"


class CudaModel:
    def __init__(self, lag=0.5, seed=0, devices=1, refuses=lambda address: False, wants_locked=True):
        self.lag, self.choose, self.refuses, self.wants_locked = lag, random.Random(seed), refuses, wants_locked
        self.lock = threading.RLock()
        self.host = {}  # what the host knows to be done
        self.faults, self.waits, self.error, self.sync_mode = [], 0, 0, "default"
        self.locked = {}  # address: its size, and the device that was the current one
        self.host_reads = {}  # address of locked memory: the reads of it
        self.devices = [torch.device("cuda", index) for index in range(devices)]
        self.defaults = [Stream(self, device, f"default{device.index}") for device in self.devices]
        self.decoder = Stream(self, self.devices[0], "decoder")
        self.made = 0
        self._of_thread = threading.local()

    # ---- what torch.cuda has ----

    def current_device(self):
        return getattr(self._of_thread, "device", 0)

    def current_stream(self, device=None):
        index = self.current_device() if device is None else torch.device(device).index or 0
        return getattr(self._of_thread, "streams", {}).get(index, self.defaults[index])

    @contextlib.contextmanager
    def stream(self, stream):
        streams, before = getattr(self._of_thread, "streams", {}), self.current_device()
        self._of_thread.streams = {**streams, stream.device.index: stream}
        self._of_thread.device = stream.device.index
        try:
            yield
        finally:
            self._of_thread.streams, self._of_thread.device = streams, before

    @contextlib.contextmanager
    def device(self, device):
        before, self._of_thread.device = self.current_device(), torch.device(device).index
        try:
            yield
        finally:
            self._of_thread.device = before

    def make_stream(self, device=None):
        self.made += 1
        return Stream(self, self.devices[torch.device(device or "cuda").index or 0], f"side{self.made}")

    def cudaHostRegister(self, address, size, flags):
        with self.lock:
            if self.refuses(address) or address in self.locked:
                self.error = REFUSED
                return REFUSED
            self.locked[address], self.host_reads[address] = (size, self.current_device()), {}
            return 0

    def cudaHostUnregister(self, address):
        with self.lock:
            if address not in self.locked:
                self.error = NOT_LOCKED
                return NOT_LOCKED
            self.let_go(address, "its page lock is undone")
            del self.locked[address], self.host_reads[address]
            return 0

    def synchronise(self, stream, name):
        with self.lock:
            if self.sync_mode == "error":
                raise RuntimeError(f"called a synchronizing CUDA operation: {name}")
            join(self.host, stream.clock)

    # ---- what happens ----

    def fault(self, text):
        self.faults.append(text)

    def let_go(self, address, what):
        if not is_behind(self.host, self.host_reads.get(address, {})):
            self.fault(f"a slot is being read while {what}")

    def work(self, stream, name, reads, writes):
        """Something that a stream is given."""
        if self.error:
            code, self.error = self.error, 0
            raise RuntimeError(f"CUDA error {code}")
        stream.tick()
        for block in reads:
            if not is_behind(stream.clock, block.writes):
                self.fault(f"{name} of {stream} reads what {block.writes} may still write; it has {stream.clock}")
            join(block.reads, {stream: stream.clock[stream]})
        for block in writes:
            if not (is_behind(stream.clock, block.writes) and is_behind(stream.clock, block.reads)):
                self.fault(f"{name} of {stream} writes what {block.writes}, {block.reads} may still use; it has "
                           f"{stream.clock}")
            join(block.writes, {stream: stream.clock[stream]})

    def put(self, tensor, name, stream=None):
        """A new tensor of the device, with what is in this one of the CPU."""
        stream = stream or self.current_stream()
        made = tensor.as_subclass(DeviceTensor)
        made._block = Block(self.current_stream())
        self.work(stream, name, [], [made._block])
        return made

    def run(self, function, types, arguments, named):
        """An operation on tensors of the device."""
        name = getattr(function, "__name__", str(function))
        if is_of_device(named.get("device")):
            named = {**named, "device": "cpu"}
        given = tensors_in([arguments, named])
        ours = [one for one in given if isinstance(one, DeviceTensor)]
        with torch._C.DisableTorchFunction():
            result = function(*arguments, **named)
        in_place = name == "__setitem__" or "out" in named or (name.endswith("_") and not name.endswith("__"))
        written = tensors_in(named.get("out", arguments[0]))[:1] if in_place else []
        blocks, made = {storage_of(one): one._block for one in ours}, []
        result = self.adopt(result, blocks, made)
        writes = made + [one._block for one in written if isinstance(one, DeviceTensor)]
        reads = list({id(one._block): one._block for one in ours if one._block not in writes}.values())
        stream = self.current_stream(ours[0].device)
        if name in SYNCHRONISING:
            self.synchronise(stream, name)
        elif writes:
            self.read_host(stream, [one for one in given if not isinstance(one, DeviceTensor)], name)
            self.work(stream, name, reads, writes)
        return result

    def adopt(self, result, blocks, made):
        """The result, its tensors being the device's: views of `blocks` by storage, or new."""
        if isinstance(result, (list, tuple)):
            return type(result)([self.adopt(one, blocks, made) for one in result])
        if not isinstance(result, torch.Tensor):
            return result
        result = result if isinstance(result, DeviceTensor) else result.as_subclass(DeviceTensor)
        if not hasattr(result, "_block"):
            result._block = blocks.get(storage_of(result))
            if result._block is None:
                result._block = Block(self.current_stream())
                made.append(result._block)
        return result

    def read_host(self, stream, tensors, name):
        for one in tensors:
            address, size = one.data_ptr(), one.numel() * one.element_size()
            for begin, (length, _) in self.locked.items():
                if begin <= address and address + size <= begin + length:
                    join(self.host_reads[begin], {stream: stream.clock.get(stream, 0) + 1})
                    break
            else:
                if size > SMALL_BYTES and self.wants_locked:
                    self.fault(f"{name} of {size} bytes that are not page-locked")

    # ---- in torch's place ----

    def factory(self, name):
        def make(*arguments, **named):
            if not is_of_device(named.get("device")):
                return REAL[name](*arguments, **named)
            with self.lock, torch._C.DisableTorchFunction():
                return self.put(REAL[name](*arguments, **{**named, "device": "cpu"}), name)
        return make

    def to(self, tensor, *arguments, **named):
        device = named.get("device", arguments[0] if arguments and not isinstance(arguments[0], torch.dtype) else None)
        if isinstance(tensor, DeviceTensor) or not is_of_device(device):
            return TO(tensor, *arguments, **named)
        with self.lock:
            moved = self.put(tensor.clone(), "to")
            if not named.get("non_blocking"):
                self.synchronise(self.current_stream(), "to")
            return moved

    def release(self, real):
        def release(batch):
            if batch and batch.contents.images:
                with self.lock:
                    self.let_go(batch.contents.images, "it goes back")
            real(batch)
        return release

    # Decodes on a stream of its own, to memory that it takes under the current stream, without waiting for that one.
    def decode_jpeg(self, real):
        def decode(jpegs, mode, device=None):
            if device is None or not is_of_device(device):
                return real(jpegs, mode)
            pictures = [real(jpeg, mode) for jpeg in jpegs]
            with self.lock:
                made = [self.put(picture, "decode", self.decoder) for picture in pictures]
                self.current_stream().wait_stream(self.decoder)
                return made
        return decode

    @contextlib.contextmanager
    def installed(self):
        cuda, patches = torch.cuda, contextlib.ExitStack()
        with patches:
            for place, names in (
                    (cuda, {"is_available": lambda: True, "device_count": lambda: len(self.devices),
                            "current_device": self.current_device, "current_stream": self.current_stream,
                            "stream": self.stream, "device": self.device, "Stream": self.make_stream,
                            "Event": lambda **options: Event(self, **options), "cudart": lambda: self}),
                    (torch, {name: self.factory(name) for name in REAL}),
                    (torch.Tensor, {"to": lambda tensor, *arguments, **named: self.to(tensor, *arguments, **named)}),
                    (DeviceTensor, {"model": self}),
                    (_abi.lib, {"hr_batch_release": self.release(_abi.lib.hr_batch_release)})):
                for name, thing in names.items():
                    patches.enter_context(mock.patch.object(place, name, thing))
            yield
