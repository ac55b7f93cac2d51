#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A mount whose memory cgroup allows 64 MiB: short_of_memory.py BUILD

The data is three times as much, the budget nearly all that is allowed, and another program of the group takes more
than half of it. The kernel drops pushed pages; every byte that is read is right all the same, and the budget shrinks.
Without a budget of its own a mount asks for less than is allowed.
"""

import contextlib
import hashlib
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True

from script_test import run  # noqa: E402, before the modules of bench, which it makes known
from harness import Bench, Mount  # noqa: E402
from sources import CannotRun, end_process, need_root  # noqa: E402
from sweeper import holding  # noqa: E402

FILES, FILE_BYTES = 192, 1 << 20
LIMIT_BYTES = 64 << 20
NEIGHBOUR_BYTES = 40 << 20  # beside half of the limit there is just room for what is pushed, and nobody falls short
PATIENCE_SECONDS = 60  # for the budget to shrink; it takes a second or two of reading


def remove_group(group):
    deadline = time.monotonic() + 10
    while True:  # a group can be removed a moment after its last process has ended
        try:
            return group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@contextlib.contextmanager
def memory_group():
    root = Path("/sys/fs/cgroup")
    unified = (root / "cgroup.controllers").exists()
    group = (root if unified else root / "memory") / f"headrace-{os.getpid()}"
    try:
        if unified:
            (root / "cgroup.subtree_control").write_text("+memory")
        group.mkdir()
    except OSError as error:
        raise CannotRun(f"no memory cgroup: {error}") from error
    with holding("group", group):
        try:
            (group / ("memory.max" if unified else "memory.limit_in_bytes")).write_text(str(LIMIT_BYTES))
            yield group
        finally:
            remove_group(group)


@contextlib.contextmanager
def neighbour(join_group):
    """Another program of the group, which holds memory that nobody can take from it."""
    code = f"taken = bytearray({NEIGHBOUR_BYTES}); print('ready', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          preexec_fn=join_group) as program:
        try:
            assert program.stdout.readline() == "ready\n"
            yield
        finally:
            end_process(program)


def write_source(folder):
    """What each file holds, by its path below the folder: the digest."""
    digests = {}
    for number in range(FILES):
        path = folder / f"class{number % 4}" / f"{number:04}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = os.urandom(FILE_BYTES)
        path.write_bytes(content)
        digests[path.relative_to(folder)] = hashlib.blake2b(content).digest()
    return digests


def read_all(mount, digests, join_group):
    """By a process of the group: the group pays for the pages that a reader brings as for those that are pushed."""
    def read():
        join_group()
        for path, digest in digests.items():
            content = (mount.path / path).read_bytes()
            assert hashlib.blake2b(content).digest() == digest, f"{path}: wrong bytes"

    reader = multiprocessing.get_context("fork").Process(target=read)
    reader.start()
    reader.join()
    assert reader.exitcode == 0, f"the reader ended with {reader.exitcode}"


def check_shrinking(mount, digests, join_group):
    """Epochs until the budget has shrunk, but two at least."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    epochs = 0
    while True:
        read_all(mount, digests, join_group)
        epochs += 1
        stat = mount.stat()["mount"]
        if epochs >= 2 and stat["budget_bytes"] < stat["ram_bytes"]:
            assert "this control group" in stat["shortage"], f"the budget shrinks, but for want of what? {stat}"
            break
        assert time.monotonic() < deadline, f"the budget does not shrink: {stat}"
    # Before the budget has shrunk the kernel may kill a worker: the readers wait for the next one.
    print(f"{epochs * FILES} files read right; the budget went from 60 to {stat['budget_bytes'] >> 20} MiB; "
          f"{stat['takeovers']} workers were killed for want of memory")


def check_default(mount, digests, join_group):
    read_all(mount, digests, join_group)
    stat = mount.stat()
    asked = stat["mount"]["ram_bytes"]
    assert asked <= LIMIT_BYTES // 2, f"{asked} bytes are asked for where {LIMIT_BYTES} are allowed"
    print(f"by itself a mount takes {asked >> 20} of {LIMIT_BYTES >> 20} MiB")


def check(build, work):
    need_root("make a memory cgroup")
    source = Path(work) / "source"
    digests = write_source(source)
    bench = Bench(work, build)
    with memory_group() as group:
        def join_group():
            (group / "cgroup.procs").write_text(str(os.getpid()))

        options = ("--ram", "60M", "--order", "sequential")
        with neighbour(join_group), Mount(bench, source, *options, preexec_fn=join_group) as mount:
            check_shrinking(mount, digests, join_group)
        with Mount(bench, source, preexec_fn=join_group) as mount:
            check_default(mount, digests, join_group)


if __name__ == "__main__":
    sys.exit(run(check))
