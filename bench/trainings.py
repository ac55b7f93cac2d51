# SPDX-License-Identifier: Apache-2.0
"""Trainings as users write them (bench/train.py), on a slow source and through headrace: losses and time spent waiting.

The source adds 20 ms to each open and each read. Both runs have the same seeds, so that every loss must be the same to
the last bit.
"""

import json

from harness import PYTHON, REPOSITORY, Mount, need_torchvision
from sources import Failed, SlowFs
from sweeper import temporary_folder

SCRIPTS = {  # options of train.py, and of the mount
    "two processes, DistributedSampler": (["--processes", 2], ["--order", "torch-distributed:seed=0,replicas=2"]),
    "one process, shuffle=True": (["--plain-shuffle"], []),
}


def items(bench, files=None, epochs=None):
    """Pairs of a script's name and a function that measures it."""
    files, epochs = files or bench.count(256, 48), epochs or bench.count(3, 2)
    return [(name, lambda name=name: measure(bench, name, files, epochs)) for name in SCRIPTS]


def measure(bench, name, files, epochs):
    """{"plain" and "mounted": {"losses", "seconds", "stall_share"}, "identical"}"""
    need_torchvision()
    options, order = SCRIPTS[name]
    folder = bench.data_set(files)
    options = [*options, "--epochs", epochs]
    with temporary_folder("slow-", bench.work) as place, SlowFs(bench.program("slow_fs"), folder, place) as source:
        plain = train(bench, source, options)
        with Mount(bench, source, "--ram", "256M", *order) as mount:
            mounted = train(bench, mount.path, options)
    if len(plain["losses"][0]) < 2:
        raise Failed("nothing was trained")
    return {"plain": plain, "mounted": mounted, "files": files, "epochs": epochs,
            "identical": plain["losses"] == mounted["losses"]}


def train(bench, folder, options):
    output = bench.execute([PYTHON, REPOSITORY / "bench/train.py", folder, *options])
    return json.loads(output.strip().splitlines()[-1])
