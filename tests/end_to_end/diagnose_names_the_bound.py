#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""headrace diagnose names the right bound on cases that are made so: diagnose_names_the_bound.py BUILD

Each case is far from the next bound, so that a busy machine does not change it.
"""

import json
import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True

from script_test import run  # noqa: E402, before the modules of bench, which it makes known
from harness import Bench, Mount  # noqa: E402
from sources import CannotRun, SlowFs, need_fuse  # noqa: E402

SECONDS = 6
# What a worker does with each file of `folder`, again and again: WORK is put in its place.
WORKER = """
import os, sys, time
folder = sys.argv[1]
files = [os.path.join(top, name) for top, _, names in sorted(os.walk(folder)) for name in sorted(names)]
workers = int(sys.argv[2])
number = next((n for n in range(1, workers) if os.fork() == 0), 0)
while True:
    for path in files[number::workers]:
        with open(path, "rb") as file:
            data = file.read()
            WORK
"""
DECODE = "from PIL import Image; Image.open(path).convert('RGB').load()"
COMPUTE = "sum(i * i for i in range(200_000))"
SLEEP = "time.sleep(0.05)"
NOTHING = "pass"


def found(bench, target, *options, work=None, workers=2):
    """What diagnose says; `work`: of a worker of a loader that it starts."""
    command = [bench.program("headrace"), "diagnose", target, "--seconds", SECONDS, "--json", *options]
    if work:
        command += ["--", sys.executable, "-c", WORKER.replace("WORK", work), target, workers]
    output = bench.execute(command)
    result = json.loads(output[output.index("{"):])
    print(f"{result['bound']}: {result['verdict']}", flush=True)
    return result


def expect(result, bound):
    assert result["bound"] == bound, f"{bound} is the bound, but diagnose says: {json.dumps(result, indent=1)}"


def make_small_images(bench, files):
    """So small that decoding takes next to no time: beside it, each answer of a slow source is long."""
    from PIL import Image

    for number in range(files):
        path = bench.work / "small" / str(number % 4) / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.effect_noise((48, 48), 50).convert("RGB").save(path)
    return bench.work / "small"


def make_large_images(bench, files):
    folder = bench.work / "large"
    bench.execute([bench.program("headrace"), "synth", folder, "--files", files, "--classes", 4])
    return folder


def slow_source(bench, small):
    """A source that answers after 20 ms, before a loader with few workers and with many."""
    with SlowFs(bench.program("slow_fs"), small, bench.work / "slow", open_ms=20, read_ms=20) as source:
        for workers in (2, 16):
            result = found(bench, source, "--workers", workers)
            expect(result, "source")
            ahead, direct = result["source_samples_per_second"], result["direct_samples_per_second"]
            assert ahead > direct, f"nothing is read ahead: {json.dumps(result, indent=1)}"


def decoding(bench, large):
    result = found(bench, large)
    expect(result, "decoding")
    with Mount(bench, large, "--ram", "256M", "--order", "sequential") as mount:
        mount.push_everything()
        expect(found(bench, mount.path, work=DECODE), "decoding")


def loader_and_consumer(bench, small):
    with Mount(bench, small, "--ram", "256M", "--order", "sequential") as mount:
        mount.push_everything()
        expect(found(bench, mount.path, work=COMPUTE), "loader")
        expect(found(bench, mount.path, work=SLEEP), "consumer")


def memory(bench):
    """3 MiB of a slow source are read ahead, so that three files are on their way at once."""
    folder = bench.work / "files"
    for number in range(150):
        path = folder / "class" / f"{number:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(1 << 20))
    with SlowFs(bench.program("slow_fs"), folder, bench.work / "slow", open_ms=20, read_ms=20) as source:
        with Mount(bench, source, "--ram", "20M", "--order", "sequential") as mount:
            expect(found(bench, mount.path, work=NOTHING, workers=1), "memory")


def exit_status(bench, small):
    """It is the command's where that fails, and says so."""
    with Mount(bench, small, "--ram", "64M") as mount:
        process = bench.program("headrace")
        status = os.spawnv(os.P_WAIT, str(process), [str(process), "diagnose", str(mount.path), "--seconds", "60", "--",
                                                     "sh", "-c", "exit 7"])
        assert status == 7, f"exit status {status}"


def check(build, work):
    need_fuse()
    try:
        import PIL  # noqa: F401
    except ImportError as reason:
        raise CannotRun("Pillow is missing: nothing to decode with") from reason
    bench = Bench(Path(work), build)
    small = make_small_images(bench, 3000)
    large = make_large_images(bench, 60)
    exit_status(bench, small)
    slow_source(bench, small)
    decoding(bench, large)
    loader_and_consumer(bench, small)
    memory(bench)


if __name__ == "__main__":
    sys.exit(run(check))
