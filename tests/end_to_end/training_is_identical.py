#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A training has bit-identical losses with and without headrace: training_is_identical.py BUILD

Two scripts: two processes with a DistributedSampler, and one with shuffle=True. Prints how long each waited for data
from a source that adds 20 ms to each open and read.
"""

import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from harness import PYTHON, REPOSITORY, Bench, Mount  # noqa: E402
from sources import CannotRun, Failed, SlowFs  # noqa: E402
from sweeper import temporary_folder  # noqa: E402

SKIPPED = 77
SCRIPTS = {
    "two processes, DistributedSampler": (["--processes", 2], ["--order", "torch-distributed:seed=0,replicas=2"]),
    "one process, shuffle=True": (["--plain-shuffle"], []),
}


def train(bench, folder, options):
    output = bench.execute([PYTHON, REPOSITORY / "bench/train.py", folder, *options])
    return json.loads(output.strip().splitlines()[-1])


def check(build, work):
    bench = Bench(work, build)
    try:
        bench.execute([PYTHON, "-c", "import torchvision"])
    except Failed as failure:
        raise CannotRun("the package python3-torchvision is missing") from failure
    folder = bench.data_set(64)
    with SlowFs(bench.program("slow_fs"), folder, bench.work / "source") as source:
        for name, (options, order) in SCRIPTS.items():
            plain = train(bench, source, options)
            with Mount(bench, source, "--ram", "256M", *order) as mount:
                mounted = train(bench, mount.path, options)
            assert len(plain["losses"][0]) > 1, "nothing was trained"
            assert plain["losses"] == mounted["losses"], f"{name}: the losses differ"
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
