#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Opens that wait for a server wait together, with each engine: opens_at_once.py BUILD

Told by how many opens the file system has before it at once, not by the time that they take.
"""

import sys
from pathlib import Path

sys.dont_write_bytecode = True

from script_test import run  # noqa: E402, before the modules of bench, which it makes known
from harness import Bench  # noqa: E402
from sources import SlowFs  # noqa: E402

FILES = 64
AT_ONCE_MIN = 8  # one after the other is 1; all that the reader has under way would be 32 or more


def make_files(folder):
    (folder / "class").mkdir(parents=True)
    for number in range(FILES):
        (folder / "class" / f"{number}.jpg").write_bytes(bytes([number]) * 1000)


def opens_at_once(bench, folder, environment):
    slow = SlowFs(bench.program("slow_fs"), folder, bench.work / "source", open_ms=20, read_ms=1)
    with slow as source:
        # Into the kernel's cache of names: only then would it try to open a file on the thread that asks.
        names = [entry.stat().st_size for entry in (source / "class").iterdir()]
        assert len(names) == FILES
        bench.execute(["env", *environment, bench.program("headrace"), "read", source,
                       "--order", "sequential", "--ram", "64M"])
        counts = slow.counts()
    assert counts["opens"] == FILES, f"{counts['opens']} opens of {FILES} files"
    return counts["opens_waiting_max"]


def check(build, work):
    bench = Bench(work, build)
    folder = Path(work) / "files"
    make_files(folder)
    for engine, environment in (("io_uring where it is allowed", []), ("pread", ["HEADRACE_ENGINE=pread"])):
        count = opens_at_once(bench, folder, environment)
        assert count > AT_ONCE_MIN, f"{engine}: at most {count} opens at once"
        print(f"{engine}: up to {count} opens at once")


if __name__ == "__main__":
    sys.exit(run(check))
