# SPDX-License-Identifier: Apache-2.0
"""headrace: training samples are in memory, decoded and in order, before the loop asks for them.

    import headrace as hr

    data = hr.ImageFolder("/data/imagenet/train", ram="16G")
    loader = hr.DataLoader(data, batch_size=256, shuffle=True, drop_last=True,
                           transform=[hr.RandomResizedCrop(224), hr.RandomHorizontalFlip(), hr.Normalize(hr.IMAGENET)])
    for images, labels in loader:
        ...
"""
from ._abi import BadSampleError, BusyError, HeadraceError, StaleError, lib as _lib
from .batch_transforms import CutMix, MixUp, RandomErasing
from .comparison import check
from .dataset import Dataset, Files, ImageFolder
from .delivery import Array
from .loader import Batch, Crop, DataLoader, Note
from .telling import TellingSampler, attach
from .transforms import (IMAGENET, CenterCrop, ColorJitter, Normalize, RandAugment, RandomCrop, RandomHorizontalFlip,
                         RandomResizedCrop, Resize, TrivialAugmentWide)

__version__ = _lib.hr_version().decode()
_LEVELS = {"debug": 0, "info": 1, "warning": 2, "error": 3}


def set_log_level(level: str) -> None:
    """Which lines the library writes to stderr: "debug", "info", "warning" (the default) or "error", and above."""
    if level not in _LEVELS:
        raise ValueError(f"log level {level!r} is unknown; there are: {', '.join(_LEVELS)}")
    _lib.hr_set_log_level(_LEVELS[level])


__all__ = ["Array", "BadSampleError", "Batch", "BusyError", "CenterCrop", "ColorJitter", "Crop", "CutMix",
           "DataLoader", "Dataset", "Files", "HeadraceError", "IMAGENET", "ImageFolder", "MixUp", "Normalize", "Note",
           "RandAugment", "RandomCrop", "RandomErasing", "RandomHorizontalFlip", "RandomResizedCrop", "Resize",
           "StaleError", "TellingSampler", "TrivialAugmentWide", "attach", "check", "set_log_level"]
