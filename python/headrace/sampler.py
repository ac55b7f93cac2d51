# SPDX-License-Identifier: Apache-2.0
"""What an epoch reads: the order of a spec, or the indices of a sampler; and what is left of an epoch for other ranks.

Positions are those of the whole epoch, over all ranks: rank r of w reads positions r, r + w, ... Random numbers are
drawn by position, so that a sample's crop does not depend on how many ranks there are.
"""
import ctypes
import operator
import sys
import zlib
from array import array
from dataclasses import dataclass
from typing import Any, Optional, Tuple

from . import _abi
from .dataset import Dataset


@dataclass
class Part:
    """What one rank reads of an epoch: its sample i stands at position `base + rank + i * stride`."""
    spec: Optional[str]  # or:
    indices: "Optional[ctypes.Array[ctypes.c_uint32]]"
    length: int          # samples of this rank, from `first` on, and those before it
    first: int           # samples to leave out at the beginning
    base: int
    rank: int
    stride: int
    check: int = 0       # of a sampler's indices: says whether it gives the same ones again


def ranks(rank: Optional[int], world_size: Optional[int]) -> Tuple[int, int]:
    """(rank, world size): as given, else torch.distributed's, else RANK and WORLD_SIZE, else (0, 1)."""
    if rank is None and world_size is None:
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            rank, world_size = distributed.get_rank(), distributed.get_world_size()
        else:
            rank, world_size = _abi.environment("RANK", 0), _abi.environment("WORLD_SIZE", 1)
    if rank is None or world_size is None:
        raise ValueError(f"rank {rank} of world_size {world_size}: give both")
    rank, world_size = _abi.uint(rank, 32, "rank"), _abi.uint(world_size, 32, "world_size", 1)
    if rank >= world_size:
        raise ValueError(f"rank {rank} of world_size {world_size}: ranks count from 0")
    return rank, world_size


# Families that know of no ranks: all behind the colon is a path, and "first" counts the samples of all ranks.
_WHOLE = ("file:", "recorded:", "first:")


# What the order of a spec is over, which takes all behind "of=": of "torch-subset:range=0:9,of=sequential" that word.
def _innermost(spec: str) -> str:
    while not spec.startswith(_WHOLE) and "of=" in spec:
        spec = spec.partition("of=")[2]
    return spec


class SpecEpochs:
    """The order of a spec, which the library draws. `spec`: without replicas and rank."""

    def __init__(self, dataset: Dataset, spec: str, rank: int, world: int):
        self.dataset, self.spec, self.rank, self.world = dataset, spec, rank, world
        self._is_dealt_here = world > 1 and _innermost(spec).startswith(_WHOLE)
        self.length(0)  # a wrong spec is found now

    def _spec_of(self, world: int) -> str:
        return f"{self.spec}{',' if ':' in _innermost(self.spec) else ':'}replicas={world}"

    def _spec_of_rank(self) -> str:
        return self.spec if self.world == 1 else f"{self._spec_of(self.world)},rank={self.rank}"

    def length(self, epoch: int) -> int:
        """Samples of this rank."""
        if self._is_dealt_here:
            return -(-self.end(epoch) // self.world)
        return self.dataset.order_length(self._spec_of_rank(), epoch)

    def check_ranks(self, world: int, epoch: int) -> None:
        """Raises ValueError: what `world` ranks have left of an epoch cannot be dealt out to these."""
        if world != self.world and not (self._deals_in_turn(world, epoch) and self._deals_in_turn(self.world, epoch)):
            raise ValueError(f"the state is of {world} ranks, this loader of {self.world}: order {self.spec} does not "
                             f"deal samples to ranks in turn, so that others cannot go on; go on with {world} ranks")

    # Whether sample i of the epoch is rank i % `world`'s.
    def _deals_in_turn(self, world: int, epoch: int) -> bool:
        if world == 1 or _innermost(self.spec).startswith(_WHOLE):
            return True
        dealt, whole = self.dataset.order(self._spec_of(world), epoch), self.dataset.order(self.spec, epoch)
        return all(mine == its for mine, its in zip(dealt, whole))

    def end(self, epoch: int) -> int:
        """Samples of all ranks."""
        return self.dataset.order_length(self.spec, epoch)

    def part(self, epoch: int, position: int) -> Part:
        """From a position of the whole epoch on."""
        if position % self.world == 0 and not self._is_dealt_here:
            length = self.length(epoch)
            first = min(position // self.world, length)
            return Part(self._spec_of_rank(), None, length, first, 0, self.rank, self.world)
        return self._rest(epoch, position)

    # The ranks that began this epoch were others. What they left is dealt out anew, padded from the epoch's beginning
    # as DistributedSampler pads.
    def _rest(self, epoch: int, position: int) -> Part:
        whole = self.dataset.order(self.spec, epoch)
        rest = array("I", whole[position:]) if position < len(whole) else array("I")
        missing = -len(rest) % self.world
        rest.extend(whole[i % len(whole)] for i in range(missing))
        mine = rest[self.rank::self.world]
        return Part(None, _c_array(mine), len(mine), 0, position, self.rank, self.world)


_UNKNOWN = 2**63  # behind every position


class SamplerEpochs:
    """The indices of any iterable, which are this rank's."""

    world = 1

    def __init__(self, sampler: Any):
        if not hasattr(sampler, "__iter__"):
            raise TypeError(f"sampler {sampler!r} is no iterable of sample numbers")
        self.sampler = sampler
        self._asked = False

    def length(self, epoch: int) -> int:
        return len(self.sampler)

    def end(self, epoch: int) -> int:
        """Unknown before the epoch is asked for; part() leaves out what lies behind it."""
        return _UNKNOWN

    def check_ranks(self, world: int, epoch: int) -> None:
        """Its indices are those of one rank, whichever that is."""

    def part(self, epoch: int, position: int) -> Part:
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)
        asked_before, self._asked = self._asked, True
        iterator = iter(self.sampler)
        if asked_before and iterator is self.sampler:
            raise ValueError(f"sampler {self.sampler!r} has given its one epoch; give a list, or an iterable that "
                             "begins anew for each")
        indices = array("I")
        for value in iterator:
            try:
                indices.append(_index(value))
            except OverflowError:
                raise IndexError(f"index {value!r} at position {len(indices)} of the sampler is no sample's: they "
                                 "count from 0") from None
        return Part(None, _c_array(indices), len(indices), min(position, len(indices)), 0, 0, 1,
                    zlib.crc32(memoryview(indices).cast("B")))


def _index(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"sampler: an index must be an int, not {value!r}") from None


def _c_array(indices: "array[int]") -> "ctypes.Array[ctypes.c_uint32]":
    copy = (ctypes.c_uint32 * len(indices))()
    ctypes.memmove(copy, indices.buffer_info()[0], len(indices) * indices.itemsize)
    return copy
