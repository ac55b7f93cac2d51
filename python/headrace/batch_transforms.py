# SPDX-License-Identifier: Apache-2.0
"""Transforms of a whole batch, on the CPU, by torchvision's names, definitions and parameters.

    loader = hr.DataLoader(data, 256, shuffle=True, transform=chain,
                           batch_transform=[hr.RandomErasing(0.25), hr.MixUp(num_classes=1000, alpha=0.2)])

They run in `next()`, after the images were normalised, on torch tensors and numpy arrays. What is drawn depends on the
loader's seed, the epoch and the samples, never on threads, so that a resumed loader draws the same.
"""
import math
import random
from dataclasses import dataclass
from typing import Any, List, Optional, Sequence, Tuple, Union

from . import _abi


@dataclass(frozen=True)
class Draws:
    """What a batch draws by, and how its images lie."""
    seed: int
    epoch: int
    position: int  # samples of the epoch that are done with this batch, over all ranks
    rank: int
    indices: Sequence[int]
    height_axis: int
    width_axis: int
    channel_axis: int

    def of_batch(self, purpose: str) -> random.Random:
        return random.Random(f"{purpose} {self.seed} {self.epoch} {self.position} {self.rank}")

    def of_sample(self, purpose: str, index: int) -> random.Random:
        return random.Random(f"{purpose} {self.seed} {self.epoch} {index}")


@dataclass(frozen=True)
class RandomErasing:
    """With probability `p` a rectangle of random area (`scale`, of the image's) and shape (`ratio`, height / width)
    gets `value`: a number, or one per channel. One that comes twice in an epoch loses the same part."""
    p: float = 0.5
    scale: Tuple[float, float] = (0.02, 0.33)
    ratio: Tuple[float, float] = (0.3, 3.3)
    value: Union[float, Sequence[float]] = 0.0

    def check(self, dtype: str) -> None:
        if not 0 <= _abi.number(self.p, "p of RandomErasing") <= 1:
            raise ValueError(f"p of RandomErasing is a probability, not {self.p!r}")
        for name, pair, most in (("scale", self.scale, 1.0), ("ratio", self.ratio, math.inf)):
            if len(pair) != 2 or not 0 < pair[0] <= pair[1] <= most:
                raise ValueError(f"{name} of RandomErasing is a range, not {pair!r}")
        for value in self._values():
            if isinstance(self.value, str):
                raise ValueError("value of RandomErasing is a number or three; 'random' is not supported")
            _abi.number(value, "value of RandomErasing")
        if len(self._values()) not in (1, 3):
            raise ValueError(f"value of RandomErasing is a number or three, not {self.value!r}")

    def _values(self) -> List[Any]:
        return list(self.value) if isinstance(self.value, (list, tuple)) else [self.value]

    # The rectangle of one image: top, left, height and width. None: it stays whole.
    def _rectangle(self, rng: random.Random, height: int, width: int) -> Optional[Tuple[int, int, int, int]]:
        if rng.random() >= self.p:
            return None
        for _ in range(10):  # as torchvision tries
            area = height * width * rng.uniform(*self.scale)
            shape = math.exp(rng.uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            h, w = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if h < height and w < width:
                return rng.randrange(height - h + 1), rng.randrange(width - w + 1), h, w
        return None

    def apply(self, images: Any, labels: Any, draws: Draws) -> Tuple[Any, Any]:
        values = self._values() * (3 // len(self._values()))
        for image, index in zip(images, draws.indices):
            found = self._rectangle(draws.of_sample("erase", index), images.shape[draws.height_axis],
                                    images.shape[draws.width_axis])
            if found is None:
                continue
            top, left, h, w = found
            where: List[Any] = [slice(None)] * 3
            where[draws.height_axis - 1], where[draws.width_axis - 1] = slice(top, top + h), slice(left, left + w)
            for channel, value in enumerate(values):
                where[draws.channel_axis - 1] = channel
                image[tuple(where)] = value
        return images, labels


@dataclass(frozen=True)
class MixUp:
    """Each image and label is mixed with those of the sample before it in the batch, by one factor that is drawn from
    Beta(alpha, alpha). Labels become float32, N x `num_classes`; each row sums up to 1."""
    num_classes: int
    alpha: float = 1.0

    def check(self, dtype: str) -> None:
        _check_mixing(self, dtype)

    def apply(self, images: Any, labels: Any, draws: Draws) -> Tuple[Any, Any]:
        share = draws.of_batch("mixup").betavariate(self.alpha, self.alpha)
        mixed = images * share + _rolled(images) * (1 - share)
        return mixed, _mixed_labels(labels, self.num_classes, share)


@dataclass(frozen=True)
class CutMix:
    """A rectangle of each image comes from the sample before it in the batch. Its share of the area is drawn from
    Beta(alpha, alpha), its middle anywhere; labels are mixed by the area that it has, as MixUp's are."""
    num_classes: int
    alpha: float = 1.0

    def check(self, dtype: str) -> None:
        _check_mixing(self, "float32")  # pixels are moved, not mixed

    def apply(self, images: Any, labels: Any, draws: Draws) -> Tuple[Any, Any]:
        rng = draws.of_batch("cutmix")
        share = rng.betavariate(self.alpha, self.alpha)
        height, width = images.shape[draws.height_axis], images.shape[draws.width_axis]
        x, y, half = rng.randrange(width), rng.randrange(height), 0.5 * math.sqrt(1 - share)
        half_width, half_height = int(half * width), int(half * height)
        left, right = max(x - half_width, 0), min(x + half_width, width)
        top, bottom = max(y - half_height, 0), min(y + half_height, height)
        where: List[Any] = [slice(None)] * 4
        where[draws.height_axis], where[draws.width_axis] = slice(top, bottom), slice(left, right)
        mixed = images.clone() if hasattr(images, "clone") else images.copy()
        mixed[tuple(where)] = _rolled(images[tuple(where)])
        return mixed, _mixed_labels(labels, self.num_classes, 1 - (right - left) * (bottom - top) / (width * height))


_KINDS = (RandomErasing, MixUp, CutMix)


def checked(steps: Sequence[Any], dtype: str, output: str) -> List[Any]:
    """The steps, if they fit. Raises TypeError or ValueError, naming the transform."""
    if not isinstance(steps, (list, tuple)):
        raise TypeError(f"batch_transform must be a list of headrace's transforms, not {steps!r}")
    for step in steps:
        if not isinstance(step, _KINDS):
            raise TypeError(f"batch transform {step!r} is none of headrace's; apply it to the batch")
        if output == "buffer" or (output == "numpy" and dtype == "bfloat16"):
            raise ValueError(f"batch transform {type(step).__name__} needs torch tensors or numpy arrays of numbers, "
                             f"not output {output!r} with dtype {dtype!r}")
        step.check(dtype)
    if sum(isinstance(step, (MixUp, CutMix)) for step in steps) > 1:
        raise ValueError("batch_transform: MixUp and CutMix cannot follow each other, their labels are mixed already")
    return list(steps)


def _check_mixing(step: Union[MixUp, CutMix], dtype: str) -> None:
    name = type(step).__name__
    _abi.uint(step.num_classes, 31, f"num_classes of {name}", 1)
    if not _abi.number(step.alpha, f"alpha of {name}") > 0:
        raise ValueError(f"alpha of {name} must be above 0, not {step.alpha!r}")
    if dtype == "uint8":
        raise ValueError(f"batch transform {name} does not fit dtype uint8, which has no fractions; choose float32, "
                         "float16 or bfloat16")


def _rolled(array: Any) -> Any:
    if hasattr(array, "roll"):
        return array.roll(1, 0)
    import numpy
    return numpy.roll(array, 1, 0)


def check_labels(steps: Sequence[Any], labels: Any) -> None:
    """Raises ValueError: a label that a step has no class for."""
    for step in steps:
        if isinstance(step, (MixUp, CutMix)) and len(labels) and max(labels) >= step.num_classes:
            raise ValueError(f"num_classes is {step.num_classes}, but there is a label {max(labels)}")


# The labels were checked where they lay in the CPU's memory: on a device that would be a wait for it.
def _mixed_labels(labels: Any, classes: int, share: float) -> Any:
    if hasattr(labels, "roll"):
        import torch
        hard = torch.nn.functional.one_hot(labels, classes).float()
    else:
        import numpy
        hard = numpy.eye(classes, dtype="float32")[labels]
    return hard * share + _rolled(hard) * (1 - share)
