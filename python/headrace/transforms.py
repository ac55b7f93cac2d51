# SPDX-License-Identifier: Apache-2.0
"""torchvision's transforms, by the same names and parameters, run by headrace's decoder threads.

A chain is one geometry (RandomResizedCrop, Resize, Resize + CenterCrop, or RandomCrop), then optionally
RandomHorizontalFlip, ColorJitter, TrivialAugmentWide or RandAugment, and Normalize, in this order. Sizes are pixels: an
int for a square, or (height, width). Anything else is a call on the batch.
"""
from dataclasses import dataclass
from typing import Any, Dict, Optional, Sequence, Tuple, Union

from . import _abi

Size = Union[int, Sequence[int]]


def _pair(size: Size, what: str) -> Tuple[int, int]:
    pair = (size, size) if _is_side(size) else tuple(size) if isinstance(size, (list, tuple)) else ()
    if len(pair) == 1:
        pair = pair * 2
    if len(pair) != 2 or not all(map(_is_side, pair)):
        raise ValueError(f"{what}: a size is a number of pixels or (height, width), not {size!r}")
    return _abi.uint(pair[0], 32, f"height of {what}", 1), _abi.uint(pair[1], 32, f"width of {what}", 1)


def _is_side(size: Size) -> bool:
    return hasattr(size, "__index__")


def _range(pair: Sequence[float], what: str) -> Tuple[float, float]:
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        raise ValueError(f"{what} is two numbers, not {pair!r}")
    return _abi.number(pair[0], what), _abi.number(pair[1], what)


@dataclass(frozen=True)
class RandomResizedCrop:
    """A part of random area (`scale`, of the image's) and shape (`ratio`, width / height), resized to `size`."""
    size: Size
    scale: Tuple[float, float] = (0.08, 1.0)
    ratio: Tuple[float, float] = (3 / 4, 4 / 3)
    antialias: bool = True
    interpolation: Any = "bilinear"  # or "bicubic", or torchvision's InterpolationMode of these


@dataclass(frozen=True)
class Resize:
    """(height, width): the whole image squeezed into that. An int: the shorter side; CenterCrop has to follow."""
    size: Size
    antialias: bool = True
    interpolation: Any = "bilinear"


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
class TrivialAugmentWide:
    """One of torchvision's 14 operations, of random strength, by the nearest neighbour and with black around: PIL's
    pixels. What it draws: the operation, one of the bins, and the sign."""
    num_magnitude_bins: int = 31


@dataclass(frozen=True)
class RandAugment:
    """`num_ops` of these operations, one after the other, each of the strength `magnitude` of the bins."""
    num_ops: int = 2
    magnitude: int = 9
    num_magnitude_bins: int = 31


@dataclass(frozen=True)
class Normalize:
    """(pixel / 255 - mean) / std per channel. Also takes one pair: Normalize(IMAGENET)."""
    mean: Sequence[Any]
    std: Optional[Sequence[float]] = None


IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

_GEOMETRIES = (RandomResizedCrop, Resize, CenterCrop, RandomCrop)
_ORDER = {RandomResizedCrop: 0, Resize: 0, RandomCrop: 0, CenterCrop: 1, RandomHorizontalFlip: 2, ColorJitter: 3,
          TrivialAugmentWide: 4, RandAugment: 4, Normalize: 5}


def fill(options: _abi.LoaderOptions, transform: Sequence[Any], dtype: str) -> None:
    """Writes a chain into the options of a loader. Raises ValueError or TypeError, naming the transform."""
    if not isinstance(transform, (list, tuple)):
        raise TypeError(f"transform must be a list of headrace's transforms, not {transform!r}")
    chain: Dict[type, Any] = {}
    last = -1
    for step in transform:
        kind = type(step)
        if kind not in _ORDER:
            raise TypeError(f"transform {step!r} is none of headrace's; apply it to the batch")
        name = kind.__name__
        if _ORDER[kind] <= last:
            raise ValueError(f"transform {name} cannot stand here; the order is a crop or resize, CenterCrop, "
                             "RandomHorizontalFlip, ColorJitter, TrivialAugmentWide or RandAugment, Normalize, each "
                             "once")
        last = _ORDER[kind]
        chain[kind] = step
    _fill_geometry(options, chain)
    if RandomHorizontalFlip in chain:
        options.flip_probability = _abi.number(chain[RandomHorizontalFlip].p, "p of RandomHorizontalFlip")
    if ColorJitter in chain:
        for field in ("brightness", "contrast", "saturation", "hue"):
            setattr(options, field, _abi.number(getattr(chain[ColorJitter], field), f"{field} of ColorJitter"))
    _fill_augment(options, chain)
    if Normalize in chain:
        if dtype == "uint8":
            raise ValueError("transform Normalize does not fit dtype uint8, which holds the pixels themselves; leave "
                             "it out, or choose float32, float16 or bfloat16")
        _fill_normalize(options, chain[Normalize])


def check_resizes_only(options: _abi.LoaderOptions) -> None:
    """Raises ValueError for what cannot be done by who only decodes and resizes."""
    colours = (options.brightness, options.contrast, options.saturation, options.hue)
    for name, is_there in (("ColorJitter", any(colours)), ("TrivialAugmentWide or RandAugment", bool(options.augment)),
                           ("RandomCrop", options.geometry == _abi.PAD_CROP)):
        if is_there:
            raise ValueError(f"decode=\"gpu\" decodes, resizes, mirrors and normalises; {name} needs decode=\"cpu\", "
                             "or a function for post")


def _fill_geometry(options: _abi.LoaderOptions, chain: Dict[type, Any]) -> None:
    if RandomResizedCrop in chain and CenterCrop not in chain:
        crop = chain[RandomResizedCrop]
        options.geometry = _abi.RANDOM_RESIZED_CROP
        options.height, options.width = _pair(crop.size, "RandomResizedCrop")
        options.scale_min, options.scale_max = _range(crop.scale, "scale of RandomResizedCrop")
        options.ratio_min, options.ratio_max = _range(crop.ratio, "ratio of RandomResizedCrop")
        _fill_filter(options, crop)
    elif RandomCrop in chain and CenterCrop not in chain:
        crop = chain[RandomCrop]
        options.geometry = _abi.PAD_CROP
        options.height, options.width = _pair(crop.size, "RandomCrop")
        options.padding = _abi.uint(crop.padding, 32, "padding of RandomCrop")
        options.fill = _abi.uint(crop.fill, 8, "fill of RandomCrop")
    elif Resize in chain and CenterCrop in chain:
        if not _is_side(chain[Resize].size):
            raise ValueError("Resize before CenterCrop takes the shorter side, one int")
        options.geometry = _abi.RESIZE_CENTER_CROP
        options.shorter_side = _abi.uint(chain[Resize].size, 32, "size of Resize", 1)
        options.height, options.width = _pair(chain[CenterCrop].size, "CenterCrop")
        _fill_filter(options, chain[Resize])
    elif Resize in chain and not _is_side(chain[Resize].size):
        options.geometry = _abi.RESIZE
        options.height, options.width = _pair(chain[Resize].size, "Resize")
        _fill_filter(options, chain[Resize])
    else:
        raise ValueError("a transform needs one of RandomResizedCrop(size), Resize((height, width)), Resize(side) with "
                         "CenterCrop(size), or RandomCrop(size), or a batch would have images of different sizes")


def _fill_filter(options: _abi.LoaderOptions, step: Union[RandomResizedCrop, Resize]) -> None:
    name = getattr(step.interpolation, "value", step.interpolation)
    if name not in _abi.INTERPOLATIONS:
        raise ValueError(f"interpolation of {type(step).__name__} is \"bilinear\" or \"bicubic\", not {name!r}")
    if name == "bicubic" and not step.antialias:
        raise ValueError(f"{type(step).__name__} with bicubic interpolation has antialias, as PIL's")
    options.interpolation, options.no_antialias = _abi.INTERPOLATIONS[name], not step.antialias


def _fill_augment(options: _abi.LoaderOptions, chain: Dict[type, Any]) -> None:
    step = chain.get(TrivialAugmentWide) or chain.get(RandAugment)
    if step is None:
        return
    name = type(step).__name__
    options.augment = _abi.TRIVIAL_AUGMENT_WIDE
    options.augment_bins = _abi.uint(step.num_magnitude_bins, 32, f"num_magnitude_bins of {name}", 2)
    if isinstance(step, RandAugment):
        options.augment = _abi.RAND_AUGMENT
        options.augment_ops = _abi.uint(step.num_ops, 32, f"num_ops of {name}")
        options.augment_magnitude = _abi.uint(step.magnitude, 32, f"magnitude of {name}")
        if options.augment_magnitude >= options.augment_bins:
            raise ValueError(f"magnitude of RandAugment must be below its {options.augment_bins} bins, not "
                             f"{options.augment_magnitude}")


def _fill_normalize(options: _abi.LoaderOptions, normalize: Normalize) -> None:
    pair = (normalize.mean, normalize.std) if normalize.std is not None else normalize.mean
    try:
        mean, std = ([_abi.number(value, "a number of Normalize") for value in values] for values in pair)
    except TypeError:
        raise TypeError(f"Normalize takes mean and std, three numbers each, not {pair!r}") from None
    if len(mean) != 3 or len(std) != 3 or not all(value > 0 for value in std):
        raise ValueError("Normalize takes mean and std, three numbers each, and no std of 0")
    options.mean[:] = mean
    options.standard_deviation[:] = std
