#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A training has bit-identical losses with and without headrace: training_is_identical.py BUILD

Two scripts: two processes with a DistributedSampler, and one with shuffle=True. Prints how long each waited for data
from a source that adds 20 ms to each open and read.
"""

import sys

sys.dont_write_bytecode = True

from script_test import run  # noqa: E402, before the modules of bench, which it makes known
import trainings  # noqa: E402
from harness import Bench  # noqa: E402


def check(build, work):
    for name, measure in trainings.items(Bench(work, build), files=48, epochs=2):
        result = measure()
        plain, mounted = result["plain"], result["mounted"]
        assert result["identical"], f"{name}: the losses differ"
        print(f"{name}: {len(plain['losses'][0])} steps, losses equal; waiting for data {plain['stall_share']:.0%} "
              f"of the time without headrace, {mounted['stall_share']:.0%} with it")


if __name__ == "__main__":
    sys.exit(run(check))
