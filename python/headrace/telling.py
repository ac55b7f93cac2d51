# SPDX-License-Identifier: Apache-2.0
"""attach(): a torch DataLoader stays as it is and tells a mount of headrace the order that it is going to read."""
import contextlib
import copy
import itertools
import operator
import os
import random
import sys
import warnings
from array import array
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, TypeVar, Union

from . import _abi, _command

Path = Union[str, "os.PathLike[str]"]
Loader = TypeVar("Loader")
# A daemon takes no more than four reads of each sample, or a million, for one epoch.
_READS_PER_SAMPLE_MAX = 4
_EPOCH_LENGTH_ALWAYS = 2**20
_NOT_THERE = 2**32 - 1  # instead of a sample number: the file lies outside of the mount
_attached = itertools.count()  # the ranks of a job attach their loaders in the same sequence


def attach(loader: Loader, mount: Optional[Path] = None, *, paths: Optional[Iterable[Path]] = None) -> Loader:
    """Has a torch DataLoader tell a mount of headrace what it reads, epoch by epoch, just before it begins to.

    So the mount reads ahead from the first sample on, along orders that nobody could find out: an unseeded sampler, a
    sampler of your own. What the loader gives stays what it was: the same batches, the same length, the same states of
    all random generators. Where the order cannot be told, there is a warning and the mount looks for it in the opens.
    Where several ranks of a node read the mount (LOCAL_RANK, or torch.distributed), each attaches its loader; the mount
    follows an epoch once all have begun it.

    Parameters:
        loader: a torch.utils.data.DataLoader over a data set with numbers, before its first epoch. Any sampler or batch
            sampler; workers or none.
        mount: the mount point. None: that of the first file.
        paths: the file of each sample of the data set, by number. None: taken from `samples` or `imgs`, as
            torchvision's ImageFolder has them, also below Subset and ConcatDataset.
    Returns the loader. Raises TypeError (an iterable data set, or no paths to be found), ValueError (none of the files
        lies in the mount, or the loader has begun), FileNotFoundError (no headrace command),
        HeadraceError (no such mount).
    """
    told: Any = loader  # torch has types, but headrace needs no torch
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(told, torch.utils.data.DataLoader):
        raise TypeError(f"attach() needs a torch DataLoader, not {loader!r}")
    dataset = told.dataset
    if isinstance(dataset, torch.utils.data.IterableDataset):
        raise TypeError("a data set that is iterated has no order that could be told")
    if getattr(told, "_iterator", None) is not None:
        raise ValueError("this loader has begun with persistent workers; attach it before its first epoch")
    name = "sampler" if told.batch_sampler is None else "batch_sampler"
    sampler = getattr(told, name)
    if isinstance(sampler, TellingSampler):
        return loader
    files = [os.fspath(path) for path in (paths if paths is not None else _files_of(dataset))]
    if not files:
        raise ValueError("the data set has no files")
    point = os.path.realpath(mount) if mount is not None else _mount_point_of(files[0])
    teller = _Teller(point, _numbers_of(files, point), told.num_workers, told.prefetch_factor or 2,
                     _local_ranks(torch))
    telling = TellingSampler(sampler, teller, dataset, told.generator)
    object.__setattr__(loader, name, telling)  # torch refuses the plain assignment
    return loader


class TellingSampler:
    """A sampler that gives what another one gives, and tells an epoch before its first index is taken.

    The epoch is drawn by a copy of the sampler. The states of torch's, Python's and numpy's random generators are put
    back after that, so the sampler itself draws the same, at the moment at which it always did.

    Parameters:
        sampler: of indices, or of batches of them. Other attributes than this class's are its.
        tell: is called with the indices of each epoch, as one flat list, and the size of the largest batch.
        dataset: what the copy shares with the sampler.
        generator: a torch.Generator that the sampler may use beside those that are its attributes.
    """

    def __init__(self, sampler: Any, tell: Callable[[List[int], int], None], dataset: object = None,
                 generator: object = None):
        self.sampler_told, self._tell = sampler, tell
        self._dataset, self._generator = dataset, generator
        self._warned = False

    def __len__(self) -> int:
        return len(self.sampler_told)

    def __getattr__(self, name: str) -> Any:
        if name == "sampler_told":  # while it is copied or unpickled, before it has one
            raise AttributeError(name)
        return getattr(self.sampler_told, name)

    def __iter__(self) -> Iterator[Any]:
        twin: Optional[_Twin] = None
        try:
            with _same_random_states():
                twin = _Twin(self.sampler_told, self._dataset, self._generator)
        except Exception as error:  # a sampler of the user's, which may raise anything
            self._warn(error)
        return self._run(iter(self.sampler_told), twin)

    # Torch begins to draw at the first index, not at iter(): a loader draws its workers' seed in between.
    def _run(self, indices: Iterator[Any], twin: Optional["_Twin"]) -> Iterator[Any]:
        if twin is not None:
            try:
                with _same_random_states():
                    told, batch = twin.draw()
                self._tell(told, batch)
            except Exception as error:
                self._warn(error)
        yield from indices

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            warnings.warn(f"headrace is not told the order of {type(self.sampler_told).__name__}: "
                          f"{type(error).__name__}: {error}")
        self._warned = True


class _Twin:
    """A copy of a sampler that has begun an epoch, with generators of its own."""

    def __init__(self, sampler: object, dataset: object, generator: object):
        self._generators: List[Tuple[Any, Any]] = []  # of the sampler, and the copy's
        memo: Dict[int, Any] = {id(dataset): dataset}
        self._share(sampler, memo)
        self._share_generator(generator, memo)
        self._limit = _EPOCH_LENGTH_ALWAYS
        with contextlib.suppress(TypeError):
            self._limit = max(self._limit, _READS_PER_SAMPLE_MAX * len(dataset))  # type: ignore[arg-type]
        self._indices = iter(copy.deepcopy(sampler, memo))  # type: ignore[call-overload]

    # torch's samplers change none of their attributes, so that copies may share them: a million indices, for one.
    def _share(self, sampler: object, memo: Dict[int, Any]) -> None:
        is_torchs = type(sampler).__module__.startswith("torch.utils.data")
        for name, value in getattr(sampler, "__dict__", {}).items():
            if self._share_generator(value, memo):
                continue
            if name in ("sampler", "batch_sampler"):  # it may be an iterator, which a copy must not use up
                self._share(value, memo)
            elif is_torchs or name in ("dataset", "data_source"):
                memo[id(value)] = value

    def _share_generator(self, value: Any, memo: Dict[int, Any]) -> bool:
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(value, torch.Generator):
            return False
        if id(value) not in memo:
            memo[id(value)] = torch.Generator(device=value.device)
            memo[id(value)].set_state(value.get_state())
            self._generators.append((value, memo[id(value)]))
        return True

    def draw(self) -> Tuple[List[int], int]:
        """The epoch's indices, and the size of the largest batch. Raises ValueError where it does not end, TypeError
        where they are no integers."""
        for real, copied in self._generators:
            copied.set_state(real.get_state())
        told: List[int] = []
        batch = 1
        for each in self._indices:
            if isinstance(each, (list, tuple)):
                told.extend(map(operator.index, each))
                batch = max(batch, len(each))
            else:
                told.append(operator.index(each))
            if len(told) > self._limit:
                raise ValueError(f"an epoch of more than {self._limit} reads")
        return told, batch


@contextlib.contextmanager
def _same_random_states() -> Iterator[None]:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    python_state = random.getstate()
    torch_state = torch.get_rng_state() if torch is not None else None
    numpy_state = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        random.setstate(python_state)
        if torch is not None:
            torch.set_rng_state(torch_state)
        if numpy is not None:
            numpy.random.set_state(numpy_state)


class _Teller:
    """Tells one mount the epochs of one loader."""

    def __init__(self, mount: str, numbers: "array[int]", workers: int, prefetch_factor: int, ranks: Tuple[int, int]):
        self._mount, self._numbers = mount, numbers
        rank, count = ranks
        # id(): two loaders of one process are two tellers. The ranks of a node have one parent, which started them;
        # where they have not, the mount never hears of all and looks for their order.
        name = f"{os.getpid()}-{id(self):x}" if count == 1 else f"{os.getppid()}-{next(_attached)}"
        self._options = ["--name", name, "--workers", str(workers), "--prefetch-factor", str(prefetch_factor),
                         "--rank", str(rank), "--ranks", str(count)]

    def __call__(self, indices: List[int], batch: int) -> None:
        count = len(self._numbers)
        reads = (self._numbers[index] for index in indices if -count <= index < count)
        lines = "\n".join(str(number) for number in reads if number != _NOT_THERE)
        if lines:
            _command.run(["order", "tell", self._mount, "-", *self._options, "--batch", str(batch)], lines)


# This process's rank on this node, and how many there are. Without a launcher's LOCAL_RANK all ranks are of one node.
def _local_ranks(torch: Any) -> Tuple[int, int]:
    if "LOCAL_WORLD_SIZE" in os.environ:
        count = _abi.environment("LOCAL_WORLD_SIZE", 1)
        rank = _abi.environment("LOCAL_RANK", 0)
        if rank >= count:
            raise ValueError(f"LOCAL_RANK {rank} of LOCAL_WORLD_SIZE {count}: ranks count from 0")
        return rank, count
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    return 0, 1


def _mount_point_of(file: str) -> str:
    point = os.path.realpath(file)
    while not os.path.ismount(point):
        point = os.path.dirname(point)
    return point


# The mount's number of each file; _NOT_THERE for those that lie elsewhere.
def _numbers_of(files: Sequence[str], mount: str) -> "array[int]":
    listed = _command.run(["order", "number", mount, "--null"]).split(b"\0")[:-1]
    number_of = {path: number for number, path in enumerate(listed)}
    # Each folder is resolved once, not each file.
    folders: Dict[str, bytes] = {}
    numbers = array("I")
    prefix = os.fsencode(mount).rstrip(b"/") + b"/"
    for file in files:
        folder, name = os.path.split(file)
        if folder not in folders:
            folders[folder] = os.fsencode(os.path.realpath(folder)) + b"/"
        path = folders[folder] + os.fsencode(name)
        below = path[len(prefix):] if path.startswith(prefix) else b""
        numbers.append(number_of.get(below, _NOT_THERE))
    if all(number == _NOT_THERE for number in numbers):
        raise ValueError(f"no file of the data set is a sample of the mount {mount}, {files[0]} for instance")
    return numbers


# The file of each sample, as torchvision's data sets and torch's wrappers of them know it.
def _files_of(dataset: Any) -> List[str]:
    for name in ("samples", "imgs"):
        samples = getattr(dataset, name, None)
        if isinstance(samples, (list, tuple)) and samples:
            return [os.fspath(sample[0] if isinstance(sample, (list, tuple)) else sample) for sample in samples]
    parts = getattr(dataset, "datasets", None)
    if isinstance(parts, (list, tuple)):
        return [file for part in parts for file in _files_of(part)]
    below, indices = getattr(dataset, "dataset", None), getattr(dataset, "indices", None)
    if below is not None and indices is not None:
        files = _files_of(below)
        return [files[index] for index in indices]
    raise TypeError(f"the files of {type(dataset).__name__} are not known: it has no `samples`; give attach(paths=...)")
