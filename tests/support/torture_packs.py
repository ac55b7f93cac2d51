# SPDX-License-Identifier: Apache-2.0
"""tests/torture --kind packs: readers of the records of packs, which are evicted, replaced and cut under them.

Each page of a pack says which page it is, of which version, and nothing else. A record that is read must be of one
version, and of one that the pack had between the open and the end of the read. Readers may be refused (ESTALE, a bus
error of a mapped file) where the pack is another one by now, and open it anew.
"""

import contextlib
import io
import json
import mmap
import multiprocessing
import os
import random
import threading
import time
from dataclasses import dataclass

from sources import Failed, is_mounted, unmount
from sweeper import holding

PAGE = 4096
SHARDS = ("a.bin", "b.bin")
READERS = 6  # every other one maps the file
STEP_SECONDS = 2
COLUMNS = ("rounds", "good", "refused", "wrong")
ORDERS = ("torch-random:seed=7", "torch-distributed:seed=3", "auto")


@dataclass(frozen=True)
class Shape:
    """Of the packs, 24 MB in each of two shards, and of the mount."""
    record_pages: int
    records: int
    tier: str = ""  # the budget of an SSD tier, which keeps large records by themselves; empty: there is none


SHAPES = (Shape(3, 2000), Shape(12, 500, "32M"))


def page_of(number, version):
    return (number << 32 | version).to_bytes(8, "little") * (PAGE // 8)


def write_pack(folder, shard, version, pages):
    """As a new file: who has the one before open goes on with that."""
    partial = folder / f".{shard}.partial"
    partial.write_bytes(b"".join(page_of(page, version) for page in range(pages)))
    partial.rename(folder / shard)


def verdict_of(data, record, pages, versions):
    """What is wrong with a record of so many pages; None: nothing."""
    version = int.from_bytes(data[:8], "little") & 0xffffffff
    expected = b"".join(page_of(record * pages + page, version) for page in range(pages))
    if data != expected[:len(data)]:
        return f"record {record} is a mixture, or another one"
    return None if versions[0] <= version <= versions[1] else f"record {record} is of version {version} of {versions}"


def read_records(root, shape, seconds, seed, versions, results):
    """In an order of its own, for so long. `versions`: of each shard the oldest and the newest that may be seen.

    `results`: a pipe that takes a line for each record. No queue: a bus error would leave its lock held for ever.
    """
    def tell(line):
        os.write(results, f"{line}\n".encode())

    rng = random.Random(seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        shard = rng.randrange(len(SHARDS))
        oldest = versions[2 * shard]
        try:
            with open(root / SHARDS[shard], "rb") as file:
                with contextlib.ExitStack() as stack:
                    mapped = None
                    if seed % 2 == 1:
                        mapped = stack.enter_context(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
                    for record in rng.sample(range(shape.records), 200):
                        length = shape.record_pages * PAGE
                        at = record * length
                        data = mapped[at:at + length] if mapped else os.pread(file.fileno(), length, at)
                        seen = (oldest, versions[2 * shard + 1])
                        wrong = verdict_of(data, record, shape.record_pages, seen) if data else None
                        tell(wrong or ("good" if data else "refused"))
                        if time.monotonic() > end:
                            break
        except (OSError, ValueError):  # ValueError: an empty file cannot be mapped
            tell("refused")


class Readers:
    def __init__(self, root, shape, seed):
        self.root, self.shape, self.seed = root, shape, seed
        self.versions = multiprocessing.Array("L", 2 * len(SHARDS))

    def run(self, seconds, meanwhile):
        """What the readers saw while `meanwhile` broke things."""
        row = dict.fromkeys(COLUMNS, 0) | {"rounds": 1}
        reading, writing = os.pipe()
        processes = [multiprocessing.Process(target=read_records, daemon=True,
                                             args=(self.root, self.shape, seconds, self.seed + number, self.versions,
                                                   writing))
                     for number in range(READERS)]
        with contextlib.ExitStack() as stack:
            lines = stack.enter_context(open(reading, "rb", buffering=0))
            for process in processes:
                process.start()
                stack.callback(process.kill)
            os.close(writing)
            counting = threading.Thread(target=self.count, args=(row, lines))
            counting.start()
            stack.callback(counting.join)
            meanwhile()
            deadline = time.monotonic() + seconds + 90
            for process in processes:
                process.join(max(0, deadline - time.monotonic()))
            if any(process.is_alive() for process in processes):
                for process in processes:
                    process.kill()
                raise Failed("a reader did not come back for 90 s")
        row["refused"] += sum(process.exitcode != 0 for process in processes)  # by a bus error
        return row

    @staticmethod
    def count(row, lines):
        """Until the last reader has ended."""
        for line in io.BufferedReader(lines):
            seen = line.decode().rstrip("\n")
            row[seen if seen in row else "wrong"] += 1
            if seen not in row:
                print(f"WRONG: {seen}", flush=True)


class Packs:
    """Two shards that are mounted, and what happens to them."""

    def __init__(self, bench, order, shape, seed):
        self.bench, self.shape, self.rng = bench, shape, random.Random(seed)
        self.folder, self.mountpoint = bench.work / "packs", bench.work / "mount"
        self.folder.mkdir(exist_ok=True)
        self.mountpoint.mkdir(exist_ok=True)
        for shard in SHARDS:
            write_pack(self.folder, shard, 0, shape.records * shape.record_pages)
        self.readers = Readers(self.mountpoint, shape, seed)
        options = ["--ssd", f"{bench.work / 'tier'}:{shape.tier}"] if shape.tier else []
        self.bench.execute([bench.program("headrace"), "mount", self.folder, self.mountpoint, "--ram", "24M",
                            "--records", f"stride={shape.record_pages * PAGE}", "--order", order, *options])

    def call(self, *words):
        return self.bench.execute([self.bench.program("headrace"), *words])

    def nothing(self):
        time.sleep(STEP_SECONDS / 2)

    def drop_pages(self):
        for shard in SHARDS:
            with open(self.mountpoint / shard, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def shrink_budget(self):
        for size in ("20M", "200M", "24M"):
            self.call("set", self.mountpoint, f"ram={size}")

    def kill_worker(self):
        pid = json.loads(self.call("stat", self.mountpoint, "--json"))["pid"]
        os.kill(pid, 9)

    def replace(self, size=1):
        """`size`: of the new version, in those of the first."""
        shard = self.rng.randrange(len(SHARDS))
        versions = self.readers.versions
        versions[2 * shard + 1] += 1  # before: it may be seen from now on
        pages = int(size * self.shape.records) * self.shape.record_pages
        write_pack(self.folder, SHARDS[shard], versions[2 * shard + 1], pages)
        self.call("refresh", self.mountpoint)
        versions[2 * shard] = versions[2 * shard + 1]

    def cut(self):
        self.replace(0.5)

    def grow(self):
        self.replace(1.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Failed):
            self.call("unmount", "--force", self.mountpoint)
        if is_mounted(self.mountpoint):
            unmount(self.mountpoint)


STEPS = {"nothing": Packs.nothing, "pages dropped": Packs.drop_pages, "budget set": Packs.shrink_budget,
         "worker killed": Packs.kill_worker, "pack replaced": Packs.replace, "pack cut": Packs.cut,
         "pack grown": Packs.grow}


def torture_packs(bench, arguments):
    """Figures by step, each with COLUMNS. A new mount after each round of all steps, with the next order."""
    rng, rows = random.Random(arguments.seed), {}
    deadline = time.monotonic() + 60 * arguments.minutes
    number = 0
    while number == 0 or time.monotonic() < deadline:
        with holding("mount", bench.work / "mount"), \
                Packs(bench, ORDERS[number % len(ORDERS)], SHAPES[number % len(SHAPES)],
                      arguments.seed + number) as packs:
            for name in ["nothing", *rng.sample(list(STEPS), len(STEPS))]:
                figures = packs.readers.run(STEP_SECONDS, lambda name=name, packs=packs: STEPS[name](packs))
                row = rows.setdefault(name, dict.fromkeys(COLUMNS, 0))
                for column in COLUMNS:
                    row[column] += figures[column]
                print(f"{name:16} {figures['good']} records good, {figures['refused']} refused", flush=True)
        number += 1
    return rows


def print_packs(rows):
    print(f"\n{'packs':16}" + "".join(f"{column:>12}" for column in COLUMNS))
    for name, row in rows.items():
        print(f"{name:16}" + "".join(f"{row[column]:>12}" for column in COLUMNS))


def packs_good(rows):
    """No wrong byte, and readers get on whatever happens."""
    return all(row["wrong"] == 0 and row["good"] > 0 for row in rows.values())
