# SPDX-License-Identifier: Apache-2.0
"""The C++ reader and the disk tier, compared with the device and with what a thread pool or cp gets out of it."""

import json
import os
import shutil
import subprocess
import time

from harness import SHORT_ROUNDS, Figures, Row
from sources import SlowDisk, SlowFs, need_root

ORDER = "torch-distributed:seed=0"
TIER_SIZE = "8G"  # more than any data set here
# What 128 reads in flight need. Each sample is read once, so that more would only be memory touched for the first time:
# on a virtual machine 15 to 70 ms for 56 MB, of an epoch that takes 220.
READ_AHEAD = "16M"


class ColdReading(Row):
    """Whole files in random order with cold caches."""
    rounds = SHORT_ROUNDS
    tier = ()   # options that put a disk tier before the source
    epochs = 1  # the figures are of the last one

    def prepare(self):
        need_root("drop the page cache")
        self.source = self.bench.data_set(self.bench.count(4000, 200))
        self.samples = self.bench.file_list(self.source)
        self.checksum = self.bench.sum_of(self.source, self.samples)
        self.reader_checksum = self.checksum_of_reader()

    def read(self):
        """headrace read; its figures are of the epoch, its memory of the whole process."""
        self.bench.drop_caches()
        output, usage = self.bench.run_program(self.read_command())
        epoch = json.loads(output)["epochs"][-1]
        of_process = usage.ru_utime + usage.ru_stime  # for an older revision (--against), which tells none
        return Figures(samples=epoch["samples"], seconds=epoch["seconds"], bytes=epoch["bytes"],
                       cpu_seconds=epoch.get("cpu_seconds", of_process), peak_bytes=usage.ru_maxrss * 1024,
                       checksum=self.reader_checksum)

    def checksum_of_reader(self):
        """What the reader delivers, byte for byte; a run of its own, because hashing takes time."""
        return self.bench.execute_json([*self.read_command(), "--checksum"])["epochs"][-1]["xxh3"]

    def read_command(self):
        return [self.bench.program("headrace"), "read", self.source, "--order", ORDER, "--ram", READ_AHEAD, "--json",
                "--epochs", self.epochs, *self.tier]


class ReaderSource(ColdReading):
    name = "reader-source"
    bar = 0.90
    other_is_bound = True
    headrace_side = "C++ reader, whole files in random order, caches cold"
    other_side = ("the device: io_uring random reads of the same sizes from one large file, O_DIRECT, registered "
                  "buffers, the best of 32, 64, 128 in flight")
    device_work = ()

    def prepare(self):
        super().prepare()
        self.large_file, self.sizes = self.make_large_file()
        self.depth = max((32, 64, 128), key=lambda depth: self.read_device(depth).rate)

    def make_large_file(self):
        large_file, sizes = (self.bench.work / f"{self.source.name}.{suffix}" for suffix in ("large", "sizes"))
        if not sizes.exists():
            listed = []
            with open(large_file, "wb") as output:
                for name in self.samples.read_text().splitlines():
                    content = (self.source / name).read_bytes()
                    output.write(content + bytes(-len(content) % 4096))
                    listed.append(len(content))
            sizes.write_text("".join(f"{size}\n" for size in listed))
        return large_file, sizes

    def run(self, side, variant):
        return self.read() if side == "headrace" else self.read_device(self.depth)

    def read_device(self, depth):
        self.bench.drop_caches()
        command = [self.bench.program("device_limit"), self.large_file, self.sizes, "--depth", depth, *self.device_work]
        figures = self.bench.measure(command)
        figures.checksum = self.checksum  # of the files that the large file was made of
        figures.extra["depth"] = depth
        return figures


class ReaderSsd(ReaderSource):
    name = "reader-ssd"
    bar = 0.95
    headrace_side = "C++ reader from a warmed disk tier, caches cold"

    def prepare(self):
        tier = self.bench.work / "tier-reader"
        shutil.rmtree(tier, ignore_errors=True)
        self.stack.callback(shutil.rmtree, tier, ignore_errors=True)
        self.tier = ("--ssd", f"{tier}:{TIER_SIZE}")
        source = self.bench.data_set(self.bench.count(4000, 200))
        self.bench.execute([self.bench.program("headrace"), "warm", source, *self.tier])
        super().prepare()


class ReaderSsdLater(ReaderSsd):
    """In the first epoch of a process each file is looked up in the source, whose names and attributes are cold."""
    name = "reader-ssd-later"
    headrace_side = "C++ reader from a warmed disk tier, the third epoch"
    epochs = 3


class ReaderSsdHash(ReaderSsd):
    name = "reader-ssd-hash"
    other_side = "the device as in reader-ssd, and XXH3 of what came, by the same thread"
    device_work = ("--hash",)


class ReaderThreads(ColdReading):
    name = "reader-threads"
    bar = 1.0
    cpu_bar = 0.6
    headrace_side = "C++ reader, whole files in random order, caches cold"
    other_side = "thread pool of open+fstat+read+close, the best of 4, 8, 16, 32 threads"

    def prepare(self):
        super().prepare()
        self.threads = max((4, 8, 16, 32), key=lambda threads: self.read_with(threads).rate)

    def read_with(self, threads):
        self.bench.drop_caches()
        command = [self.bench.program("read_files"), self.source, self.samples, "--threads", threads]
        figures = self.bench.measure(command)
        figures.checksum = self.checksum
        figures.extra["threads"] = threads
        return figures

    def run(self, side, variant):
        return self.read() if side == "headrace" else self.read_with(self.threads)


class Warm(Row):
    name = "warm"
    bar = 2.0
    headrace_side = "headrace warm from the source to a disk tier, caches cold, ending in sync"
    other_side = "cp -r to the same file system, ending in sync"

    def prepare(self):
        need_root("drop the page cache")
        self.source = self.bench.data_set(self.bench.count(4000, 200))
        self.samples = self.bench.file_list(self.source)
        self.checksum = self.bench.sum_of(self.source, self.samples)
        self.target = self.bench.work / "warm-target"
        self.stack.callback(shutil.rmtree, self.target, ignore_errors=True)
        self.bytes = sum(file.stat().st_size for file in self.source.rglob("*.jpg"))
        self.count = len(self.samples.read_text().splitlines())

    def run(self, side, variant):
        shutil.rmtree(self.target, ignore_errors=True)
        self.bench.drop_caches()
        tier = ("--ssd", f"{self.target}:{TIER_SIZE}")
        command = ([self.bench.program("headrace"), "warm", self.source, *tier] if side == "headrace" else
                   ["cp", "-r", self.source, self.target])
        start = time.perf_counter()
        _, usage = self.bench.run_program(command)
        subprocess.run(["sync", "--file-system", str(self.target)], check=True)
        seconds = time.perf_counter() - start
        return Figures(samples=self.count, seconds=seconds, bytes=self.bytes,
                       cpu_seconds=usage.ru_utime + usage.ru_stime, peak_bytes=usage.ru_maxrss * 1024,
                       checksum=self.sum_of_tier(tier) if side == "headrace" else self.sum_of_copy())

    def sum_of_copy(self):
        return self.bench.sum_of(self.target, self.samples)

    def sum_of_tier(self, tier):
        """Read back from the tier: the source is told to be used for nothing."""
        command = [self.bench.program("headrace"), "read", self.source, "--order", "sequential", "--ram", READ_AHEAD,
                   *tier, "--json", "--checksum"]
        result = self.bench.execute_json(command)
        from_source = next(t["hits"] for t in result["store"]["tiers"] if t["kind"] == "source")
        return result["epochs"][0]["xxh3"] if from_source == 0 else f"{from_source} samples were not in the tier"


class DemandLatency(Row):
    """The seconds are the 99th percentile of a read that somebody waits for, so the ratio is alone / behind others."""
    name = "demand-latency"
    bar = 0.67
    other_is_bound = True
    variants = ("a source 20 ms late", "a hard disk")
    headrace_side = "p99 of a read that somebody waits for, behind 128 reads ahead"
    other_side = "alone"
    rounds = SHORT_ROUNDS

    def prepare(self):
        need_root("drop the page cache")
        self.folder = self.bench.data_set(self.bench.count(4000, 200))
        disk = self.stack.enter_context(SlowDisk(self.bench.work, self.folder, read_iops=200))
        slow = self.stack.enter_context(SlowFs(self.bench.program("slow_fs"), self.folder,
                                               self.bench.work / f"slow-{os.getpid()}"))
        self.sources = {"a source 20 ms late": (slow, [], None), "a hard disk": (disk.path, ["--hard-disk"],
                                                                                disk.limit_me)}

    def run(self, side, variant):
        source, options, enter = self.sources[variant]
        self.bench.drop_caches()
        command = [self.bench.program("demand_latency"), source, "--ahead", 128 if side == "headrace" else 0, "--reads",
                   self.bench.count(200, 10), *options]
        return self.bench.measure(command, preexec_fn=enter)


ROWS = (ReaderSource, ReaderThreads, ReaderSsd, ReaderSsdLater, ReaderSsdHash, Warm, DemandLatency)
