# SPDX-License-Identifier: Apache-2.0
"""headrace.h in ctypes: the structs, the functions, and what a status means in Python.

Calls release the GIL by themselves. A test compares the structs here with the header.
"""
import ctypes
import math
import operator
import os
import re
from ctypes import (CDLL, POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_uint8, c_uint32, c_uint64,
                    c_void_p)
from pathlib import Path
from typing import Any, NoReturn

ABI_VERSION = 1

OK, END, TIMED_OUT = 0, 1, 2
RAM_DEFAULT = 2**64 - 1
TIER_SSD, TIER_HDD = 1, 2
CONTENT_IMAGES, CONTENT_BYTES, CONTENT_JPEGS = 0, 1, 2
RANDOM_RESIZED_CROP, RESIZE_CENTER_CROP, RESIZE, PAD_CROP = 0, 1, 2, 3
DRAW_BY_POSITION, DRAW_AS_TORCH = 0, 1
PART_IMAGES, PART_LABELS, PART_INDICES = 0, 1, 2

BAD_SAMPLES = {"raise": 0, "skip": 1, "zero": 2}
DAMAGE = {"repair": 0, "reject": 1, "salvage": 2}
INTERPOLATIONS = {"bilinear": 0, "bicubic": 1}
TRIVIAL_AUGMENT_WIDE, RAND_AUGMENT = 1, 2
DTYPES = {"uint8": 0, "float16": 1, "bfloat16": 2, "float32": 3}
STATES = ("good", "repaired", "bad")


class Tier(Structure):
    _fields_ = [("kind", c_int32), ("path", c_char_p), ("budget_bytes", c_uint64)]


class DatasetOptions(Structure):
    _fields_ = [("struct_bytes", c_uint64), ("path", c_char_p), ("listing", c_char_p), ("sample_list", c_char_p),
                ("catalog_file", c_char_p), ("engine", c_char_p), ("ram_bytes", c_uint64), ("tiers", POINTER(Tier)),
                ("tier_count", c_uint64), ("keep_free_bytes", POINTER(c_uint64)), ("records", c_char_p)]


class Digest(Structure):
    _fields_ = [("sample_count", c_uint64), ("sum", c_uint64), ("weighted_sum", c_uint64)]


class LoaderOptions(Structure):
    _fields_ = [("struct_bytes", c_uint64), ("order", c_char_p), ("indices", POINTER(c_uint32)),
                ("index_count", c_uint64), ("first_epoch", c_uint64), ("epochs", c_uint64),
                ("first_position", c_uint64), ("position_stride", c_uint64), ("position_offset", c_uint64),
                ("batch_size", c_uint64), ("batches_ahead", c_uint64), ("batches_lent", c_uint64),
                ("window_bytes", c_uint64), ("seed", c_uint64), ("content", c_int32), ("drop_last", c_int32),
                ("bad_samples", c_int32), ("damage", c_int32), ("apply_orientation", c_int32), ("threads", c_int32),
                ("geometry", c_int32), ("width", c_uint32), ("height", c_uint32), ("shorter_side", c_uint32),
                ("padding", c_uint32), ("fill", c_uint32), ("scale_min", c_double), ("scale_max", c_double),
                ("ratio_min", c_double), ("ratio_max", c_double), ("flip_probability", c_double),
                ("brightness", c_double), ("contrast", c_double), ("saturation", c_double), ("hue", c_double),
                ("no_antialias", c_int32), ("dct_scaling", c_int32), ("element_type", c_int32), ("layout", c_int32),
                ("mean", c_double * 3), ("standard_deviation", c_double * 3), ("draw", c_int32),
                ("torch_workers", c_uint32), ("torch_seed", c_uint64), ("interpolation", c_int32),
                ("augment", c_int32), ("augment_bins", c_uint32), ("augment_ops", c_uint32),
                ("augment_magnitude", c_uint32), ("reserved", c_uint32)]


class Bytes(Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_uint64)]


class Note(Structure):
    _fields_ = [("position", c_uint64), ("index", c_uint64), ("state", c_int32), ("reason", c_char_p)]


class Crop(Structure):
    _fields_ = [("image_width", c_uint32), ("image_height", c_uint32), ("x", c_double), ("y", c_double),
                ("width", c_double), ("height", c_double), ("target_x", c_uint32), ("target_y", c_uint32),
                ("target_width", c_uint32), ("target_height", c_uint32), ("mirrored", c_uint64)]


class Window(Structure):
    _fields_ = [(name, c_double) for name in ("x", "y", "width", "height", "part_x", "part_y", "part_width",
                                              "part_height")]


class Batch(Structure):
    _fields_ = [("epoch", c_uint64), ("next_position", c_uint64), ("count", c_uint64), ("sample_bytes", c_uint64),
                ("images", c_void_p), ("labels", POINTER(c_int64)), ("indices", POINTER(c_int64)),
                ("states", POINTER(c_uint8)), ("contents", POINTER(Bytes)), ("notes", POINTER(Note)),
                ("note_count", c_uint64), ("copied", c_int32), ("crops", POINTER(Crop)),
                ("windows", POINTER(Window))]


STRUCTS = {"hr_tier": Tier, "hr_dataset_options": DatasetOptions, "hr_digest": Digest,
           "hr_loader_options": LoaderOptions, "hr_bytes": Bytes, "hr_note": Note, "hr_crop": Crop,
           "hr_window": Window, "hr_batch": Batch}

_SIGNATURES = {
    "hr_abi_version": (c_uint32, []),
    "hr_version": (c_char_p, []),
    "hr_struct_bytes": (c_uint64, [c_char_p]),
    "hr_error_text": (c_char_p, []),
    "hr_set_log_level": (None, [c_int32]),
    "hr_memory_limit_bytes": (c_uint64, []),
    "hr_dataset_open": (c_int32, [POINTER(DatasetOptions), POINTER(c_void_p)]),
    "hr_dataset_close": (None, [c_void_p]),
    "hr_dataset_size": (c_uint64, [c_void_p]),
    "hr_dataset_class_count": (c_uint64, [c_void_p]),
    "hr_dataset_is_mount": (c_int32, [c_void_p]),
    "hr_dataset_labels": (c_int32, [c_void_p, POINTER(c_uint32)]),
    "hr_dataset_path": (c_uint64, [c_void_p, c_uint64, c_char_p, c_uint64]),
    "hr_dataset_digest": (c_int32, [c_void_p, POINTER(Digest)]),
    "hr_order_epoch": (c_int32, [c_void_p, c_char_p, c_uint64, POINTER(c_uint32), POINTER(c_uint64)]),
    "hr_loader_open": (c_int32, [c_void_p, POINTER(LoaderOptions), POINTER(c_void_p)]),
    "hr_loader_close": (None, [c_void_p]),
    "hr_loader_next": (c_int32, [c_void_p, c_uint32, POINTER(POINTER(Batch))]),
    "hr_loader_stop": (None, [c_void_p]),
    "hr_loader_report": (c_uint64, [c_void_p, c_char_p, c_uint64]),
    "hr_batch_retain": (None, [POINTER(Batch)]),
    "hr_batch_release": (None, [POINTER(Batch)]),
    "hr_batch_dlpack": (c_void_p, [POINTER(Batch), c_int32]),
    "hr_dlpack_drop": (None, [c_void_p]),
    "hr_dlpack_drop_capsule": (None, [c_void_p]),
}


class HeadraceError(RuntimeError):
    """What went wrong in the library and has no closer Python exception."""


class BadSampleError(HeadraceError):
    """A sample that cannot be decoded, or ends early; the message names its file."""


class StaleError(HeadraceError):
    """A file is not what it was when the data set was opened."""


class BusyError(OSError):
    """A tier's folder is in use by another process. A headrace mount shares its tiers among processes."""


_EXCEPTIONS = {3: ValueError, 4: IndexError, 5: FileNotFoundError, 6: PermissionError, 7: OSError, 8: MemoryError,
               9: BadSampleError, 10: StaleError, 11: BusyError, 12: NotImplementedError, 13: RuntimeError,
               14: OSError}


def _library_path() -> str:
    """The library of HEADRACE_LIBRARY, the one that came with this package, or the system's."""
    named = os.environ.get("HEADRACE_LIBRARY")
    if named:
        return named
    beside = Path(__file__).parent / "_lib" / "libheadrace.so.1"
    return str(beside) if beside.exists() else "libheadrace.so.1"


def _load() -> CDLL:
    path = _library_path()
    try:
        library = CDLL(path)
    except OSError as error:
        raise ImportError(f"headrace: cannot load {path}: {error}; install the wheel, or set "
                          "HEADRACE_LIBRARY") from None
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    differing = [name for name, struct in STRUCTS.items()
                 if library.hr_struct_bytes(name.encode()) != ctypes.sizeof(struct)]
    if library.hr_abi_version() != ABI_VERSION or differing:
        raise ImportError(f"headrace: {path} is of another version than this package ({', '.join(differing) or 'ABI'})")
    return library


lib = _load()


def check(status: int) -> None:
    """Raises what the status stands for, unless it is OK."""
    if status != OK:
        _fail(status)


def check_next(status: int) -> int:
    """The same of hr_loader_next, which returns END and TIMED_OUT as well."""
    if status not in (OK, END, TIMED_OUT):
        _fail(status)
    return status


def _fail(status: int) -> NoReturn:
    raise _EXCEPTIONS.get(status, HeadraceError)(lib.hr_error_text().decode(errors="replace"))


def uint(value: Any, bits: int, name: str, least: int = 0) -> int:
    """`value` as the int of a field of so many bits, which ctypes would cut off. Raises TypeError, ValueError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, not {value!r}") from None
    if not least <= number < 2**bits:
        raise ValueError(f"{name} must be {least} to {2**bits - 1}, not {number}")
    return number


def number(value: Any, name: str) -> float:
    """`value` as a finite float. Raises TypeError, ValueError."""
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} must be a number, not {value!r}") from None
    if not math.isfinite(result):
        raise ValueError(f"{name} must be a finite number, not {value!r}")
    return result


def text(value: Any, name: str) -> bytes:
    """A str for C, which ends it at its first NUL. Raises TypeError, ValueError."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {value!r}")
    return _whole(value.encode(), value, name)


def path(value: Any, name: str) -> bytes:
    """The same of a path. Raises TypeError, ValueError."""
    try:
        encoded = os.fsencode(value)
    except TypeError:
        raise TypeError(f"{name} must be a path, not {value!r}") from None
    return _whole(encoded, value, name)


def _whole(encoded: bytes, value: Any, name: str) -> bytes:
    if b"\0" in encoded:
        raise ValueError(f"{name} {value!r} has a NUL character in it")
    return encoded


def environment(name: str, otherwise: int) -> int:
    """The number of an environment variable. Raises ValueError."""
    value = os.environ.get(name) or str(otherwise)
    if not re.fullmatch(r"\s*\d+\s*", value):
        raise ValueError(f"{name} of the environment is {value!r}, which is no number")
    return int(value)


def text_of(function: Any, *arguments: Any) -> str:
    """The text of a function that fills a buffer as snprintf does."""
    size = 4096
    while True:
        buffer = ctypes.create_string_buffer(size)
        needed = function(*arguments, buffer, size)
        if needed < size:
            return os.fsdecode(buffer.value)
        size = needed + 4096  # a report may grow meanwhile
