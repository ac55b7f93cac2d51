# SPDX-License-Identifier: Apache-2.0
"""Whether a loader gives what a torch DataLoader gives, on this machine and with these versions."""
from itertools import zip_longest
from typing import Any, Dict, Iterable, Optional


def check(loader: Iterable[Any], torch_loader: Iterable[Any], *, batches: Optional[int] = None,
          tolerance: Optional[float] = None) -> Dict[str, Any]:
    """Compares one epoch of both, batch by batch: labels and sizes, and with `tolerance` also the pixels.

    Parameters:
        loader, torch_loader: each is iterated once and yields (images, labels).
        batches: looks at so many only.
        tolerance: the largest difference of a pixel that counts as equal, in the units of the images. PIL and headrace
            resize with differences of 1/255 at most, where `dct_scaling=False`. None: pixels are not compared; so it is
            right where crops are drawn by position.
    Returns {"batches": ..., "samples": ..., "difference": the largest one of a pixel, or None}.
    Raises AssertionError, which names the first batch that differs, and how.
    """
    ours_at, theirs_at = iter(loader), iter(torch_loader)
    samples, largest, number = 0, None, 0
    for number, (ours, theirs) in enumerate(zip_longest(ours_at, theirs_at), 1):
        if ours is None or theirs is None:
            raise AssertionError(f"batch {number}: only {'torch' if ours is None else 'headrace'} has it")
        mine, wanted = ours[1].tolist(), theirs[1].tolist()
        if mine != wanted:
            place = next((i for i, pair in enumerate(zip_longest(mine, wanted)) if pair[0] != pair[1]))
            raise AssertionError(f"batch {number}: the labels differ from sample {place} on: "
                                 f"{mine[place:place + 3]} and {wanted[place:place + 3]}")
        if tolerance is not None:
            if ours[0].shape != theirs[0].shape:
                raise AssertionError(f"batch {number}: shapes {tuple(ours[0].shape)} and {tuple(theirs[0].shape)}")
            difference = (ours[0].double() - theirs[0].double()).abs().max().item()
            largest = max(largest or 0.0, difference)
            if not difference <= tolerance:  # not a number, too
                raise AssertionError(f"batch {number}: pixels differ by {difference:.4g}, more than {tolerance}")
        samples += len(mine)
        if number == batches:
            break
    return {"batches": number, "samples": samples, "difference": largest}
