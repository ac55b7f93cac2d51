# SPDX-License-Identifier: Apache-2.0
"""Data sets: a folder with tiers of memory and disk before it, or a folder in a mount of headrace."""
import _thread
import contextlib
import ctypes
import operator
import os
import re
import subprocess
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import (Any, Callable, ContextManager, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple,
                    TypeVar, Union)

from . import _abi, sharing
from ._abi import check, lib

Path = Union[str, "os.PathLike[str]"]
_Self = TypeVar("_Self", bound="Dataset")
_WAIT_SECONDS = 0.1  # between two looks at signals: one that comes just before a wait does not end it
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}


def parse_size(size: Union[int, str], what: str) -> int:
    """Bytes of "16G", "1.5 GiB", "512M", "25%" (of the memory), or a number of bytes."""
    if isinstance(size, str):
        return _size_of(size, what, None)
    return _abi.uint(size, 63, what)


def _size_of(size: str, what: str, whole: Optional[int]) -> int:
    """Bytes of "16G", or of "25%" of `whole`; None: of the memory."""
    return _abi.uint(_parse_text(size, what, whole), 63, what)


def _parse_text(size: str, what: str, whole: Optional[int]) -> int:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:(%)|([KMGTP]?)(?:i?B)?)\s*", size, re.IGNORECASE)
    if not match:
        raise ValueError(f"{what} {size!r} is no size; write for instance 16G, 512M or 25%")
    number, percent, unit = match.groups()
    if percent:
        return int(float(number) / 100 * (lib.hr_memory_limit_bytes() if whole is None else whole))
    return int(float(number) * _UNITS[unit.upper()])


class _Tier(NamedTuple):
    kind: int
    path: bytes
    budget_bytes: int
    keep_free_bytes: int  # of its file system


def _read_tiers(kind: int, texts: Union[str, Sequence[str]], what: str) -> List[_Tier]:
    if isinstance(texts, (str, os.PathLike)):
        texts = [texts]
    elif not isinstance(texts, (list, tuple)):
        raise TypeError(f"{what} must be PATH:SIZE or a list of these, not {texts!r}")
    return [_read_tier(kind, str(text), what) for text in texts]


def _read_tier(kind: int, text: str, what: str) -> _Tier:
    path, colon, words = text.rpartition(":")
    if not colon or not path:
        raise ValueError(f"{what} {text!r}: write PATH:SIZE, for instance /nvme/headrace:200G")
    size, comma, more = words.partition(",")
    keep_free = 0
    if comma:
        name, equals, share = more.partition("=")
        if name.strip() != "free" or not equals:
            raise ValueError(f"{what} {text!r}: only free= may follow the size, for instance free=10%")
        room = _file_system_bytes(path)
        keep_free = _size_of(share, f"{what} {text}: free", room)
        if not 0 < keep_free < room:
            raise ValueError(f"{what} {text!r}: the file system there has {room} bytes, and some of them are to be the "
                             "tier's; write for instance free=10%")
    return _Tier(kind, _abi.path(path, what), parse_size(size, f"{what} {text}"), keep_free)


# Of the file system that `path` lies on or will lie on.
def _file_system_bytes(path: str) -> int:
    place = os.path.realpath(path)
    while not os.path.exists(place):
        place = os.path.dirname(place)
    status = os.statvfs(place)
    return status.f_blocks * status.f_frsize


def _encoded(path: Optional[Path], name: str) -> Optional[bytes]:
    return None if path is None else _abi.path(path, name)


# Opens in a thread: listing a slow source takes long, and Ctrl-C does not interrupt C. After Ctrl-C the thread goes on
# alone until the listing is done, and closes what it has opened. Bare threads and locks: an exception of a signal's
# handler breaks what threading.Thread and threading.Event do in Python, and shows as another one.
def _open(options: _abi.DatasetOptions, handle: ctypes.c_void_p) -> None:
    opened = ctypes.c_void_p()
    mutex, opening = threading.Lock(), threading.Lock()
    failed: List[Exception] = []
    done: List[bool] = []  # empty: not yet
    given_up: List[bool] = []

    def run() -> None:
        try:
            check(lib.hr_dataset_open(ctypes.byref(options), ctypes.byref(opened)))
        except Exception as error:  # the caller's to raise
            failed.append(error)
        with mutex:
            done.append(True)
            if given_up:
                lib.hr_dataset_close(opened)
        opening.release()

    try:
        opening.acquire()
        _thread.start_new_thread(run, ())
        while not opening.acquire(timeout=_WAIT_SECONDS):
            pass
        if failed:
            raise failed[0]
        handle.value = opened.value
    except BaseException:  # Ctrl-C, or what another signal's handler raises
        with mutex:
            given_up.append(True)
            if done and opened and not handle:
                lib.hr_dataset_close(opened)
        raise


# The finalizer of a Dataset; at exit it comes while a daemon thread opens a loader.
def _close(handle: ctypes.c_void_p, busy: threading.RLock, process: int, leases: List[sharing.Lease]) -> None:
    if os.getpid() != process:
        return
    with busy:
        lib.hr_dataset_close(handle)
        leases.clear()


# The data set mounted once for all ranks of this node; empty: it cannot be.
def _share(root: str, ram_bytes: Optional[int], tiers: List[_Tier], listing: str, sample_list: Optional[Path],
           records: Optional[str]) -> List[sharing.Lease]:
    options = ["--listing", listing]
    if ram_bytes is not None:
        options += ["--ram", f"{ram_bytes}B"]
    for tier in tiers:
        kind = "--ssd" if tier.kind == _abi.TIER_SSD else "--hdd"
        keep_free = f",free={tier.keep_free_bytes}B" if tier.keep_free_bytes else ""
        options += [kind, f"{os.fsdecode(tier.path)}:{tier.budget_bytes}B{keep_free}"]
    if sample_list is not None:
        options += ["--samples", os.path.abspath(os.fsdecode(sample_list))]
    if records is not None:
        options += ["--records", records]
    try:
        return [sharing.lease(root, options)]
    except (OSError, subprocess.SubprocessError, _abi.HeadraceError) as error:
        warnings.warn(f"the ranks of this node cannot share the tiers of {root}, so none has any: {error}; mount it by "
                      "`headrace mount` and give the mount's path", stacklevel=4)
        return []


class Dataset:
    """Samples of a folder by number, read through tiers.

    Parameters:
        root: the folder, or one in a headrace mount (which has tiers of its own: `ram`, `ssd` and `hdd` stay empty), or
            a bucket, "s3://bucket/prefix", with the keys and the endpoint of the environment (AWS_ENDPOINT_URL).
        ram: content kept in memory: "16G", "25%" or bytes. None: a quarter of the memory; 0 where `root` is a mount, or
            where several ranks share this node (LOCAL_WORLD_SIZE), which the page cache serves better than a tier each.
        ssd, hdd: "PATH:SIZE" each, fastest first, or "PATH:SIZE,free=10%": so much of its file system stays free.
            Where several ranks share this node and one of these is given, it is the node's: the first rank mounts
            `root` with them, all read that mount (`shared_mount`), and it ends with the last rank. Where it cannot be
            mounted, there is a warning, and no rank has a tier.
        listing: which files are samples, in which order: "imagefolder", "timm", "dali", "keras", "sorted".
        sample_list: a file of paths below `root`, one a line, that are the samples instead.
        catalog: a file where the listing is kept, which makes the next opening of a large data set faster.
        engine: "auto", "uring" or "pread".
        records: the samples are the records of the packs below `root`, as `headrace mount --records` names them:
            "auto", "lmdb", "hdf5:NAME", "stride=BYTES" (which takes every file). Files has them; sorted by path, all
            packs are one sequence, of 10 000 files at most, and orders are over the records. No sample_list. Where a
            pack changes, iterating raises StaleError.
    Raises: FileNotFoundError (no such folder, no samples), PermissionError, NotADirectoryError, ValueError (a tier or
        size, no pack), BusyError (another process has a tier open). Of packs also BadSampleError (an index that cannot
        be right) and NotImplementedError (a kind of pack whose records cannot be found).
    Thread-safety: any thread. A loader keeps its data set; close() is for the impatient.
    """

    decodes = True

    def __init__(self, root: Path, *, ram: Union[int, str, None] = None, ssd: Union[str, Sequence[str]] = (),
                 hdd: Union[str, Sequence[str]] = (), listing: str = "imagefolder", sample_list: Optional[Path] = None,
                 catalog: Optional[Path] = None, engine: str = "auto", records: Optional[str] = None):
        self.root = os.fsdecode(_abi.path(root, "root"))
        if os.path.exists(self.root) and not os.path.isdir(self.root):
            raise NotADirectoryError(f"data set {self.root} is no folder; name the folder that holds the samples")
        if records is not None and self.decodes:
            raise ValueError("records are bytes, which Files reads: headrace.Files(ROOT, decode, records=...)")
        listed, packed = _abi.text(listing, "listing"), None if records is None else _abi.text(records, "records")
        several = _abi.environment("LOCAL_WORLD_SIZE", 1) > 1
        if ram is None:
            ram_bytes = 0 if several else _abi.RAM_DEFAULT
        else:
            ram_bytes = parse_size(ram, "ram")
        tiers = _read_tiers(_abi.TIER_SSD, ssd, "ssd") + _read_tiers(_abi.TIER_HDD, hdd, "hdd")
        self._leases: List[sharing.Lease] = []
        if several and (ram_bytes or tiers) and os.path.isdir(self.root) and not sharing.is_mount(self.root):
            self._leases = _share(self.root, ram_bytes if ram is not None else None, tiers, listing, sample_list,
                                  records)
            ram_bytes, tiers = 0, []
        options = _abi.DatasetOptions(
            struct_bytes=ctypes.sizeof(_abi.DatasetOptions), path=os.fsencode(self.shared_mount or self.root),
            listing=listed, sample_list=_encoded(sample_list, "sample_list"),
            catalog_file=_encoded(catalog, "catalog"), engine=_abi.text(engine, "engine"), ram_bytes=ram_bytes,
            tiers=(_abi.Tier * len(tiers))(*(_abi.Tier(*tier[:3]) for tier in tiers)), tier_count=len(tiers),
            keep_free_bytes=(ctypes.c_uint64 * len(tiers))(*(tier.keep_free_bytes for tier in tiers)),
            records=packed)
        self._has_records = records is not None
        self._handle, self._process = ctypes.c_void_p(), os.getpid()
        self._busy = threading.RLock()  # held during a call that closing must not overtake
        self.close = weakref.finalize(self, _close, self._handle, self._busy, self._process, self._leases)
        _open(options, self._handle)
        self._samples: Optional[List[Tuple[str, int]]] = None
        self._digest: Optional[List[int]] = None

    def __len__(self) -> int:
        with self._open_handle() as handle:
            return int(lib.hr_dataset_size(handle))

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"a data set has threads and tiers, which cannot be copied or sent to another process; open "
                        f"{self.root} there")

    # The handle, for one call. In a child of a fork the lock may be held for ever, and nobody closes there.
    @contextlib.contextmanager
    def _open_handle(self) -> Iterator[ctypes.c_void_p]:
        busy: ContextManager[Any] = self._busy
        if os.getpid() != self._process:
            busy = contextlib.nullcontext()
        with busy:
            if not self.close.alive:
                raise ValueError(f"data set {self.root} is closed")
            yield self._handle

    @property
    def is_mount(self) -> bool:
        """Whether the samples come through a mount of headrace."""
        with self._open_handle() as handle:
            return bool(lib.hr_dataset_is_mount(handle))

    @property
    def shared_mount(self) -> Optional[str]:
        """The mount that the ranks of this node share; None: there is none, or the data set is closed."""
        return self._leases[0].mount if self._leases else None

    @property
    def targets(self) -> List[int]:
        """The class number of each sample; 0 where there are no classes."""
        labels = (ctypes.c_uint32 * len(self))()
        with self._open_handle() as handle:
            check(lib.hr_dataset_labels(handle, labels))
        return list(labels)

    def path(self, index: int) -> str:
        """The path of a sample; of a record, its pack's. Raises IndexError."""
        try:
            index = operator.index(index)
        except TypeError:
            raise TypeError(f"a sample's number must be an int, not {index!r}") from None
        count = len(self)
        if not 0 <= index < count:
            raise IndexError(f"sample {index} is out of range: the data set has {count} samples")
        with self._open_handle() as handle:
            return os.path.join(self.root, _abi.text_of(lib.hr_dataset_path, handle, index))

    def name(self, index: int) -> str:
        """What messages call a sample: its path, and its number where it is a record. Raises IndexError."""
        return self.path(index) + (f", record {index}" if self._has_records else "")

    @property
    def samples(self) -> List[Tuple[str, int]]:
        """(path, class number) of each sample, in order."""
        if self._samples is None:
            self._samples = [(self.path(index), label) for index, label in enumerate(self.targets)]
        return self._samples

    def digest(self) -> List[int]:
        """[number of samples, two sums over their paths and sizes]: what state_dict() keeps of a data set."""
        if self._digest is None:
            digest = _abi.Digest()
            with self._open_handle() as handle:
                check(lib.hr_dataset_digest(handle, ctypes.byref(digest)))
            self._digest = [digest.sample_count, digest.sum, digest.weighted_sum]
        return list(self._digest)

    def check_digest(self, saved: Sequence[int]) -> None:
        """Raises ValueError unless this is the data set that `saved` is the digest of. Names the file that differs."""
        here = self.digest()
        if not isinstance(saved, (list, tuple)) or len(saved) != 3 or not all(isinstance(one, int) for one in saved):
            raise ValueError(f"the digest of a data set is three numbers, not {saved!r}")
        if list(saved) == here:
            return
        if saved[0] != here[0]:
            raise ValueError(f"the state is of a data set of {saved[0]} samples; {self.root} has {here[0]}")
        prime = 2**61 - 1
        sums, weighted = (here[1] - saved[1]) % prime, (here[2] - saved[2]) % prime
        number = weighted * pow(sums, prime - 2, prime) % prime - 1  # the quotient; of one file, its number plus one
        if 0 <= number < here[0]:
            raise ValueError(f"the state is of another data set: {self.path(number)} is not what it was")
        raise ValueError(f"the state is of another data set: several files of {self.root} are not what they were")

    def order(self, spec: str, epoch: int) -> "ctypes.Array[ctypes.c_uint32]":
        """The sample numbers of an epoch by an order's spec, such as "torch-distributed:seed=1". Raises ValueError."""
        count, name, epoch = ctypes.c_uint64(), _abi.text(spec, "order"), _abi.uint(epoch, 63, "epoch")
        with self._open_handle() as handle:
            check(lib.hr_order_epoch(handle, name, epoch, None, ctypes.byref(count)))
        indices = (ctypes.c_uint32 * count.value)()
        with self._open_handle() as handle:
            check(lib.hr_order_epoch(handle, name, epoch, indices, ctypes.byref(count)))
        return indices

    def order_length(self, spec: str, epoch: int) -> int:
        """How many samples the epoch has. Raises ValueError."""
        count, name, epoch = ctypes.c_uint64(), _abi.text(spec, "order"), _abi.uint(epoch, 63, "epoch")
        with self._open_handle() as handle:
            check(lib.hr_order_epoch(handle, name, epoch, None, ctypes.byref(count)))
        return count.value


class ImageFolder(Dataset):
    """Images in one folder per class, numbered as torchvision's ImageFolder numbers them.

    `classes`: the names of the folders, sorted. `class_to_idx`: their numbers. `samples` (also `imgs`) and `targets` as
    torchvision has them. Raises FileNotFoundError also where there is no class, or one without files.
    """

    def __init__(self, root: Path, **options: Any):
        super().__init__(root, **options)
        self.classes = self._find_classes(options.get("listing", "imagefolder"))
        self.class_to_idx: Dict[str, int] = {name: number for number, name in enumerate(self.classes)}
        if options.get("listing", "imagefolder") == "imagefolder" and options.get("sample_list") is None:
            self._check_classes()
        with self._open_handle() as handle:
            has_classes = lib.hr_dataset_class_count(handle) > 0
        if not has_classes:
            self.close()
            raise FileNotFoundError(f"data set {self.root}: listed as {options.get('listing')!r} its samples have no "
                                    "classes; give another listing, or use Files")

    def _find_classes(self, listing: str) -> List[str]:
        if "://" in self.root or listing == "timm":
            return self._classes_of_samples(is_leaf=listing == "timm")
        with os.scandir(self.root) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
        return [name for name in names if not name.startswith(".")] if listing == "keras" else names

    # By the library's numbers. timm's class is the folder that a sample lies in, others' the one below the root. A
    # folder of a bucket has no name here where none of its samples is in the listing.
    def _classes_of_samples(self, is_leaf: bool) -> List[str]:
        with self._open_handle() as handle:
            names = [""] * lib.hr_dataset_class_count(handle)
        below = len(os.path.join(self.root, ""))
        for path, number in self.samples:
            folders = path[below:].split("/")[:-1]
            if folders and number < len(names):
                names[number] = folders[-1 if is_leaf else 0]
        return names

    def _check_classes(self) -> None:
        if not self.classes:
            self.close()
            raise FileNotFoundError(f"data set {self.root} has no folder per class; Files reads what has none")
        found = set(self.targets)
        if "" in self.classes:
            self.close()
            raise FileNotFoundError(f"data set {self.root}: {self.classes.count('')} of its {len(self.classes)} "
                                    "folders have no image; give the prefix above the classes alone, or use Files")
        empty = [name for name, number in self.class_to_idx.items() if number not in found]
        if empty:
            self.close()
            raise FileNotFoundError(f"data set {self.root}: no image in the folders of these classes: "
                                    f"{', '.join(empty)}")

    @property
    def imgs(self) -> List[Tuple[str, int]]:
        return self.samples


class DecodeFailure(NamedTuple):
    """Stands for a sample on which the user's function raised."""
    error: Exception


class Files(Dataset):
    """Any samples, as bytes: every file below `root`, sorted by path; or with `records` each record of the packs there,
    as it lies in its pack (a value of LMDB, a row of .npy, a chunk of HDF5, a TFRecord with its length and checksums).
    `decode` turns the bytes of one sample into what the loader yields; it runs on threads of Python's, while headrace's
    threads read ahead. A sample that it raises on is a bad one; it is not asked about one that cannot be read, which is
    None (without `decode`: no bytes)."""

    decodes = False

    def __init__(self, root: Path, decode: Optional[Callable[[bytes], Any]] = None, **options: Any):
        options.setdefault("listing", "sorted")
        super().__init__(root, **options)
        self._decode = decode
        self._pool: Optional[ThreadPoolExecutor] = None

    def decode_all(self, contents: List[Optional[bytes]]) -> List[Any]:
        """What `decode` makes of each, or a DecodeFailure; the bytes themselves where there is none."""
        if self._decode is None:
            return [content or b"" for content in contents]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)), "hr-python")
        return list(self._pool.map(self._decode_one, contents))

    def _decode_one(self, content: Optional[bytes]) -> Any:
        if content is None or self._decode is None:
            return None
        try:
            return self._decode(content)
        except Exception as error:  # a function of the user's, which may raise anything
            return DecodeFailure(error)
