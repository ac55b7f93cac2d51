#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A training has bit-identical losses with and without headrace: training_is_identical.py BUILD

Two scripts: two processes with a DistributedSampler, and one with shuffle=True. Prints how long each waited for data
from a source that adds 20 ms to each open and read.
"""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import trainings  # noqa: E402
from harness import Bench  # noqa: E402
from sources import CannotRun  # noqa: E402
from sweeper import temporary_folder  # noqa: E402

SKIPPED = 77


def check(build, work):
    for name, measure in trainings.items(Bench(work, build), files=48, epochs=2):
        result = measure()
        plain, mounted = result["plain"], result["mounted"]
        assert result["identical"], f"{name}: the losses differ"
        print(f"{name}: {len(plain['losses'][0])} steps, losses equal; waiting for data {plain['stall_share']:.0%} "
              f"of the time without headrace, {mounted['stall_share']:.0%} with it")


def main():
    with temporary_folder("headrace-training-") as work:
        try:
            check(Path(sys.argv[1]), work)
        except CannotRun as reason:
            print(f"skipped: {reason}")
            return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
