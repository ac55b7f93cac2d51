# SPDX-License-Identifier: Apache-2.0
"""torchvision's transforms, by the same names and parameters, run by headrace's decoder threads.

A chain is one geometry (RandomResizedCrop, Resize, Resize + CenterCrop, or RandomCrop), then optionally
RandomHorizontalFlip, ColorJitter and Normalize, in this order. Sizes are pixels: an int for a square, or
(height, width). Anything else is a call on the batch.
"""
from dataclasses import dataclass
from typing import Optional, Sequence, Tuple, Union

from . import _abi

Size = Union[int, Sequence[int]]


def _pair(size: Size, what: str) -> Tuple[int, int]:
    pair = (size, size) if isinstance(size, int) else tuple(size)
    if len(pair) == 1:
        pair = pair * 2
    if len(pair) != 2 or not all(isinstance(side, int) and side > 0 for side in pair):
        raise ValueError(f"{what}: a size is a number of pixels or (height, width), not {size!r}")
    return pair


@dataclass(frozen=True)
class RandomResizedCrop:
    """A part of random area (`scale`, of the image's) and shape (`ratio`, width / height), resized to `size`."""
    size: Size
    scale: Tuple[float, float] = (0.08, 1.0)
    ratio: Tuple[float, float] = (3 / 4, 4 / 3)
    antialias: bool = True


@dataclass(frozen=True)
class Resize:
    """(height, width): the whole image squeezed into that. An int: the shorter side; CenterCrop has to follow."""
    size: Size
    antialias: bool = True


@dataclass(frozen=True)
class CenterCrop:
    """`size` out of the middle. What lies outside of the image is black."""
    size: Size


@dataclass(frozen=True)
class RandomCrop:
    """A random `size` out of the image with `padding` pixels of value `fill` around it."""
    size: Size
    padding: int = 0
    fill: int = 0


@dataclass(frozen=True)
class RandomHorizontalFlip:
    """Left to right, with probability `p`."""
    p: float = 0.5


@dataclass(frozen=True)
class ColorJitter:
    """Factors drawn from [max(0, 1 - x), 1 + x]; the hue turns by [-hue, hue], at most 0.5."""
    brightness: float = 0
    contrast: float = 0
    saturation: float = 0
    hue: float = 0


@dataclass(frozen=True)
class Normalize:
    """(pixel / 255 - mean) / std per channel. Also takes one pair: Normalize(IMAGENET)."""
    mean: Sequence
    std: Optional[Sequence[float]] = None


IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

_GEOMETRIES = (RandomResizedCrop, Resize, CenterCrop, RandomCrop)
_ORDER = {RandomResizedCrop: 0, Resize: 0, RandomCrop: 0, CenterCrop: 1, RandomHorizontalFlip: 2, ColorJitter: 3,
          Normalize: 4}


def fill(options: _abi.LoaderOptions, transform: Sequence, dtype: str) -> None:
    """Writes a chain into the options of a loader. Raises ValueError or TypeError, naming the transform."""
    chain = {}
    last = -1
    for step in transform:
        kind = type(step)
        if kind not in _ORDER:
            raise TypeError(f"transform {step!r} is none of headrace's; apply it to the batch")
        name = kind.__name__
        if _ORDER[kind] <= last:
            raise ValueError(f"transform {name} cannot stand here; the order is a crop or resize, CenterCrop, "
                             "RandomHorizontalFlip, ColorJitter, Normalize, each once")
        last = _ORDER[kind]
        chain[kind] = step
    _fill_geometry(options, chain)
    if RandomHorizontalFlip in chain:
        options.flip_probability = chain[RandomHorizontalFlip].p
    if ColorJitter in chain:
        jitter = chain[ColorJitter]
        options.brightness, options.contrast = jitter.brightness, jitter.contrast
        options.saturation, options.hue = jitter.saturation, jitter.hue
    if Normalize in chain:
        if dtype == "uint8":
            raise ValueError("transform Normalize does not fit dtype uint8, which holds the pixels themselves; leave "
                             "it out, or choose float32, float16 or bfloat16")
        _fill_normalize(options, chain[Normalize])


def _fill_geometry(options, chain) -> None:
    if RandomResizedCrop in chain and CenterCrop not in chain:
        crop = chain[RandomResizedCrop]
        options.geometry = _abi.RANDOM_RESIZED_CROP
        options.height, options.width = _pair(crop.size, "RandomResizedCrop")
        (options.scale_min, options.scale_max), (options.ratio_min, options.ratio_max) = crop.scale, crop.ratio
        options.no_antialias = not crop.antialias
    elif RandomCrop in chain and CenterCrop not in chain:
        crop = chain[RandomCrop]
        options.geometry = _abi.PAD_CROP
        options.height, options.width = _pair(crop.size, "RandomCrop")
        options.padding, options.fill = crop.padding, crop.fill
    elif Resize in chain and CenterCrop in chain:
        if not isinstance(chain[Resize].size, int):
            raise ValueError("Resize before CenterCrop takes the shorter side, one int")
        options.geometry = _abi.RESIZE_CENTER_CROP
        options.shorter_side = chain[Resize].size
        options.height, options.width = _pair(chain[CenterCrop].size, "CenterCrop")
        options.no_antialias = not chain[Resize].antialias
    elif Resize in chain and not isinstance(chain[Resize].size, int):
        options.geometry = _abi.RESIZE
        options.height, options.width = _pair(chain[Resize].size, "Resize")
        options.no_antialias = not chain[Resize].antialias
    else:
        raise ValueError("a transform needs one of RandomResizedCrop(size), Resize((height, width)), Resize(side) with "
                         "CenterCrop(size), or RandomCrop(size), or a batch would have images of different sizes")


def _fill_normalize(options, normalize: Normalize) -> None:
    mean, std = normalize.mean, normalize.std
    if std is None:
        if len(mean) != 2:
            raise ValueError("Normalize takes mean and std, three numbers each")
        mean, std = mean
    if len(mean) != 3 or len(std) != 3 or not all(value > 0 for value in std):
        raise ValueError("Normalize takes mean and std, three numbers each, and no std of 0")
    options.mean[:] = list(mean)
    options.standard_deviation[:] = list(std)
