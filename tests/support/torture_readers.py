# SPDX-License-Identifier: Apache-2.0
"""Processes that read through a mount without end and compare every byte with digests taken from the files below."""

import contextlib
import hashlib
import multiprocessing
import os
import random
import time
from pathlib import Path

from sweeper import end_mount, holding

READERS = 3
PATIENCE_SECONDS = 10  # for a reader that was killed to be gone
GOOD_IN_A_ROW = 30  # reads of a reader after a fault; one could be of what the kernel still holds
FORK_EVERY = 200  # reads; a fork in the midst of reading must disturb nothing


def digest(content):
    return hashlib.blake2b(content, digest_size=16).digest()


class Counters:
    """What one reader saw; written by it, read and reset by the main process. A lost update would only miscount."""

    def __init__(self):
        self.good = multiprocessing.Value("Q", 0)
        self.refused = multiprocessing.Value("Q", 0)
        self.wrong = multiprocessing.Value("Q", 0)
        self.in_a_row = multiprocessing.Value("Q", 0)  # good reads since something was refused or wrong
        self.last_good = multiprocessing.Value("d", time.monotonic())
        self.longest_pause = multiprocessing.Value("d", 0)

    def note_good(self):
        now = time.monotonic()
        with self.longest_pause.get_lock():
            self.longest_pause.value = max(self.longest_pause.value, now - self.last_good.value)
        self.last_good.value = now
        for value in (self.good, self.in_a_row):
            with value.get_lock():
                value.value += 1

    def note_bad(self, kind):
        take(self.in_a_row)
        with kind.get_lock():
            kind.value += 1


def take(value):
    with value.get_lock():
        taken, value.value = value.value, 0
    return taken


def read_for_ever(root, digests, seed, counters, pause_seconds):
    rng = random.Random(seed)
    names = list(digests)
    reads = 0
    while True:
        rng.shuffle(names)
        for name in names:
            read_one(root / name, digests[name], counters)
            reads += 1
            if reads % FORK_EVERY == 0:
                other = rng.choice(names)
                in_a_fork(read_one, root / other, digests[other], counters)
            if pause_seconds > 0:
                time.sleep(pause_seconds)


def read_one(path, expected, counters):
    try:
        content = path.read_bytes()
    except OSError:
        counters.note_bad(counters.refused)
        time.sleep(0.02)  # a mount that is down refuses at once, thousands of times a second
        return
    if digest(content) == expected:
        counters.note_good()
    else:
        counters.note_bad(counters.wrong)
        print(f"WRONG BYTES: {path}: {len(content)} bytes", flush=True)


def in_a_fork(work, *arguments):
    """Runs it in a child that has this process's open files and memory, as a loader's worker has its trainer's."""
    child = os.fork()
    if child == 0:
        try:
            work(*arguments)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


class Readers:
    """`with Readers(mountpoint, folder, seed)`: several at once; folder holds the true bytes.

    `pause_seconds`: between two reads of each, to leave the machine to others.
    """

    def __init__(self, mountpoint, folder, seed, pause_seconds=0):
        digests = {file.relative_to(folder): digest(file.read_bytes()) for file in Path(folder).rglob("*.jpg")}
        self.mountpoint = mountpoint
        self.counters = [Counters() for _ in range(READERS)]
        self.processes = [multiprocessing.Process(target=read_for_ever, daemon=True,
                                                  args=(Path(mountpoint), digests, seed + number, counters,
                                                        pause_seconds))
                          for number, counters in enumerate(self.counters)]

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            for process in self.processes:
                process.start()
                stack.callback(self.end, process)
                stack.enter_context(holding("process", process.pid))
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def end(self, process):
        process.kill()
        process.join(PATIENCE_SECONDS)
        if process.is_alive():  # in a read that nobody answers any more
            end_mount(self.mountpoint)
            process.join()

    def take(self):
        """Counts since the last call."""
        return {"good": sum(take(counters.good) for counters in self.counters),
                "refused": sum(take(counters.refused) for counters in self.counters),
                "wrong": sum(take(counters.wrong) for counters in self.counters),
                "longest_pause": max(take(counters.longest_pause) for counters in self.counters)}

    def wait_for_progress(self, patience):
        """Whether every reader gets GOOD_IN_A_ROW good reads, one after the other, within `patience` seconds."""
        for counters in self.counters:
            take(counters.in_a_row)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if all(counters.in_a_row.value >= GOOD_IN_A_ROW for counters in self.counters):
                return True
            time.sleep(0.05)
        return False
