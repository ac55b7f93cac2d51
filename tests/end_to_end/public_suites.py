#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Readers of public suites on a mount: public_suites.py BUILD

fio writes blocks that carry their checksums into the source and verifies them through the mount: in sequence, at
random, mapped, spliced, past the page cache, many at a time. stress-ng takes processor and memory away meanwhile.
"""

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True

from script_test import run  # noqa: E402, before the modules of bench, which it makes known
from harness import Bench, Mount, end_process  # noqa: E402
from sources import CannotRun, Failed  # noqa: E402
from sweeper import holding  # noqa: E402

FILES = ["--nrfiles=4", "--size=8m", "--bs=4k", "--filename_format=class/$filenum.bin", "--verify=crc32c"]
READERS = {
    "in sequence": ["--ioengine=psync", "--rw=read"],
    "at random": ["--ioengine=pvsync2", "--rw=randread"],
    "mapped": ["--ioengine=mmap", "--rw=randread"],
    "spliced": ["--ioengine=splice", "--rw=read"],
    "past the page cache": ["--ioengine=psync", "--rw=randread", "--direct=1"],
    "many at a time": ["--ioengine=libaio", "--rw=randread", "--iodepth=16", "--numjobs=4"],
}


def need(program):
    if not shutil.which(program):
        raise CannotRun(f"the package {program} is missing")


def write_source(bench, source):
    (source / "class").mkdir(parents=True)
    bench.execute(["fio", "--name=write", f"--directory={source}", "--rw=write", "--do_verify=0", *FILES],
                  cwd=bench.work)


def verify(bench, folder, options):
    bench.execute(["fio", "--name=verify", f"--directory={folder}", "--readonly", "--allow_file_create=0",
                   "--verify_fatal=1", *FILES, *options], cwd=bench.work)


@contextlib.contextmanager
def stress(bench):
    command = ["stress-ng", "--cpu", "1", "--vm", "1", "--vm-bytes", "64m", "--timeout", "120"]
    command += ["--temp-path", bench.work]
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with holding("process", process.pid):
        try:
            yield
        finally:
            end_process(process)


def check(build, work):
    need("fio")
    need("stress-ng")
    bench = Bench(work, build)
    source = Path(work) / "source"
    write_source(bench, source)
    with Mount(bench, source, "--ram", "20M") as mount, stress(bench):  # a part is pushed, the rest asked for
        for name, options in READERS.items():
            try:
                verify(bench, mount.path, options)
            except Failed as failure:
                raise Failed(f"{name}: {failure}") from failure
    print(f"verified {', '.join(READERS)}")
    broken = source / "class/0.bin"
    with open(broken, "r+b") as file:
        file.seek(5000)
        file.write(b"wrong")
    with Mount(bench, source, "--ram", "0") as mount, contextlib.suppress(Failed):
        verify(bench, mount.path, READERS["in sequence"])
        raise AssertionError("a wrong block went unnoticed: this test tests nothing")


if __name__ == "__main__":
    sys.exit(run(check))
