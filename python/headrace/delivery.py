# SPDX-License-Identifier: Apache-2.0
"""How a batch reaches Python without a copy: as torch tensors, numpy arrays, or plain buffers with DLPack.

The memory is the loader's. It goes back when the last array or tensor of the batch is gone, on whichever thread, and it
outlives the loader.
"""
import ctypes
import importlib.util
import weakref
from ctypes import pythonapi
from typing import Any, Dict, List, Optional, Tuple

from . import _abi
from ._abi import lib

_CAPSULE = b"dltensor"  # lives as long as the module: a capsule keeps the pointer
_DTYPES = {"uint8": ("|u1", 1), "float16": ("<f2", 2), "bfloat16": ("<u2", 2), "float32": ("<f4", 4),
           "int64": ("<i8", 8)}

_capsule_new = pythonapi.PyCapsule_New
_capsule_new.restype, _capsule_new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_drop_unused = ctypes.cast(lib.hr_dlpack_drop_capsule, ctypes.c_void_p)


class Slot:
    """A batch of the library, given back when the object goes."""

    def __init__(self, batch: Any):
        self.batch = batch
        self.release = weakref.finalize(self, lib.hr_batch_release, batch)
        self.release.atexit = False  # what runs at exit may look at arrays still; the process ends anyway

    @classmethod
    def empty(cls) -> "Slot":
        """For the library to write a batch to: wherever an exception strikes, the batch has an owner."""
        return cls(ctypes.POINTER(_abi.Batch)())

    def capsule(self, part: int) -> Any:
        """A DLPack capsule that keeps the batch by itself."""
        tensor = lib.hr_batch_dlpack(self.batch, part)
        if not tensor:
            raise MemoryError("headrace: no memory to export a batch")
        return _capsule_new(tensor, _CAPSULE, _drop_unused)


class Array:
    """A part of a batch: `shape`, `dtype` (a name), and its memory by numpy, DLPack or memoryview(array.buffer)."""

    def __init__(self, slot: Slot, part: int, shape: Tuple[int, ...], dtype: str, address: int):
        self._slot, self._part, self._address = slot, part, address
        self.shape, self.dtype = shape, dtype

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        total = _DTYPES[self.dtype][1]
        for side in self.shape:
            total *= side
        return total

    @property
    def buffer(self) -> "ctypes.Array[ctypes.c_ubyte]":
        """The memory as a ctypes array of bytes; it keeps the batch."""
        memory = (ctypes.c_ubyte * self.nbytes).from_address(self._address)
        memory.slot = self._slot  # type: ignore[attr-defined]  # what keeps it
        return memory

    def tobytes(self) -> bytes:
        return ctypes.string_at(self._address, self.nbytes)

    def tolist(self) -> List[int]:
        """Of labels and indices. Raises TypeError for images, which numpy and torch take by themselves."""
        if self.dtype != "int64":
            raise TypeError("tolist() is for labels and indices; images go to numpy.asarray() or torch.from_dlpack()")
        return list((ctypes.c_int64 * self.shape[0]).from_address(self._address))

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        """For numpy, which has no bfloat16: its bits come as uint16."""
        return {"version": 3, "shape": self.shape, "typestr": _DTYPES[self.dtype][0], "data": (self._address, False)}

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        return self._slot.capsule(self._part)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (1, 0)


class BufferDelivery:
    """Arrays as they are; needs nothing."""

    def images(self, array: Array) -> Any:
        return array

    def numbers(self, array: Array) -> Any:
        return array


class NumpyDelivery(BufferDelivery):
    """numpy arrays, in the layout of the memory."""

    def __init__(self) -> None:
        import numpy
        self._asarray = numpy.asarray

    def images(self, array: Array) -> Any:
        return self._asarray(array)

    def numbers(self, array: Array) -> Any:
        """Labels and indices, copied: whoever keeps them would keep the pixels of their batch."""
        return self._asarray(array).copy()


class TorchDelivery(BufferDelivery):
    """torch tensors. Images are N x C x H x W; `channels_last` says how they lie in memory."""

    def __init__(self, channels_last: bool):
        from torch.utils.dlpack import from_dlpack
        self._from_dlpack, self._channels_last = from_dlpack, channels_last

    def images(self, array: Array) -> Any:
        tensor = self._from_dlpack(array.__dlpack__())
        return tensor.permute(0, 3, 1, 2) if self._channels_last else tensor

    def numbers(self, array: Array) -> Any:
        """As NumpyDelivery's."""
        return self._from_dlpack(array.__dlpack__()).clone()


def has_module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def make_delivery(output: Optional[str], channels_last: bool) -> BufferDelivery:
    """By name: "torch", "numpy", "buffer"; None: the first of these that can be imported."""
    if output is None:
        output = "torch" if has_module("torch") else "numpy" if has_module("numpy") else "buffer"
    if output not in ("torch", "numpy", "buffer"):
        raise ValueError(f"output {output!r} is unknown; there are: torch, numpy, buffer")
    if output != "buffer" and not has_module(output):
        raise ModuleNotFoundError(f"output {output!r}: {output} is not installed for this Python")
    if output == "torch":
        return TorchDelivery(channels_last)
    return NumpyDelivery() if output == "numpy" else BufferDelivery()


def name_of(delivery: Optional[BufferDelivery]) -> str:
    """What make_delivery() made it by."""
    return {TorchDelivery: "torch", NumpyDelivery: "numpy"}.get(type(delivery), "buffer")


def arrays_of(slot: Slot, shape: Tuple[int, int, int], dtype: str) -> List[Array]:
    """Images, labels and indices of a batch of images."""
    batch = slot.batch.contents
    count = batch.count
    numbers = [Array(slot, part, (count,), "int64", ctypes.addressof(pointer.contents))
               for part, pointer in ((_abi.PART_LABELS, batch.labels), (_abi.PART_INDICES, batch.indices))]
    return [Array(slot, _abi.PART_IMAGES, (count, *shape), dtype, batch.images)] + numbers
