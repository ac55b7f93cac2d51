# SPDX-License-Identifier: Apache-2.0
"""What a reader gets through the mount, compared with a local file system, with the source, and with the bound."""

import contextlib
import json
import os
import statistics
import subprocess
import tempfile
import time

from harness import (PYTHON, REPOSITORY, SHORT_ROUNDS, Figures, Mount, Row, finish, judge, need_torchvision,
                     peak_bytes_of_tree)
from sources import Failed, SlowDisk, SlowFs, need_root
from sweeper import holding

LOADER_ORDER = "torch-distributed:seed=0"  # what bench/loader.py draws: DistributedSampler(seed=0), one replica
RAM_LEAST = 20 << 20                       # a mount needs so much
RAM_FOR_ALL = "4G"                         # more than any data set here


class MountHot(Row):
    name = "mount-hot"
    rounds = SHORT_ROUNDS
    bar = 0.90
    variants = ("1 process", "2 processes", "8 processes", "64 processes")
    headrace_side = "open+fstat+read+close of pushed files through the mount"
    other_side = "the same on a local file system, in the page cache"
    options = ()
    passes = 20

    def prepare(self):
        need_root("drop the page cache")
        self.source = self.bench.data_set(self.bench.count(4000, 200))
        self.samples = self.bench.file_list(self.source)
        self.checksum = self.bench.sum_of(self.source, self.samples)
        self.mount = self.stack.enter_context(Mount(self.bench, self.source, "--ram", RAM_FOR_ALL, *self.options))

    def run(self, side, variant):
        if side == "headrace":
            self.mount.push_everything()
            folder, daemons = self.mount.path, [self.mount.pid]
        else:
            self.fill()
            folder, daemons = self.source, []
        figures = self.bench.measure(self.command(folder, variant), daemons)
        figures.checksum = self.bench.sum_of(folder, self.samples)
        return figures

    def fill(self):
        self.bench.warm(self.source, self.samples)

    def command(self, folder, variant):
        return [self.bench.program("read_files"), folder, self.samples, "--processes", variant.split()[0], "--passes",
                self.bench.count(self.passes, 2)]


class MountHotPages(MountHot):
    """What is left between the mount and a file system that holds its pages in the same way. Together with mount-hot it
    says what no FUSE file system can do better."""
    name = "mount-hot-pages"
    bar = 0.95
    other_is_bound = True
    other_side = "the same on a local file system whose page cache was filled page by page, as FUSE has it"

    def prepare(self):
        super().prepare()
        self.bench.warm_by_pages(self.source)  # which takes seconds, and they stay as they are

    def fill(self):
        pass


class MountPython(MountHot):
    name = "mount-python"
    bar = 0.70
    variants = ("1 process",)
    headrace_side = "Python's open(p, 'rb').read() of pushed files through the mount, --overlay"
    other_side = "the same on a local file system, in the page cache"
    options = ("--overlay",)

    def command(self, folder, variant):
        return [PYTHON, REPOSITORY / "bench/python_reader.py", folder, self.samples,
                self.bench.count(self.passes, 2)]


class PushThreads(Row):
    """Samples that lie in RAM go into the page cache of a mount."""
    name = "push-threads"
    rounds = SHORT_ROUNDS
    bar = 1.7
    variants = ("108 KiB",)
    headrace_side = "2 threads push"
    other_side = "1 thread does"

    def prepare(self):
        need_root("drop the page cache")
        self.source = self.bench.data_set(self.bench.count(8000, 200))

    def run(self, side, variant):
        with tempfile.TemporaryDirectory(dir=self.bench.work) as mountpoint:
            return self.bench.measure([self.bench.program("push_threads"), self.source, mountpoint, "--threads",
                                       2 if side == "headrace" else 1])


class PushBare(PushThreads):
    """The same by a file system of which nothing is left but the system calls."""
    name = "push-bare"
    bar = 0.90
    other_is_bound = True
    variants = ("1 thread", "2 threads")
    headrace_side = "samples that lie in RAM go into the page cache of a mount"
    other_side = ("the kernel alone: a look at each file, then FUSE_NOTIFY_STORE, in a file system that does nothing "
                  "else")

    def run(self, side, variant):
        program, options = ("push_threads", ()) if side == "headrace" else ("push_bare", ("--look",))
        with tempfile.TemporaryDirectory(dir=self.bench.work) as mountpoint:
            return self.bench.measure([self.bench.program(program), self.source, mountpoint, "--threads",
                                       variant.split()[0], *options])


class MountMany(Row):
    """Eight trainings of one machine that read one data set: what eight mounts take is what one takes."""
    name = "mount-many"
    bar = 0.90
    most = 1.10  # of the memory, and of the reads of the source, that one mount takes
    mounts = 8
    headrace_side = "8 mounts of one data set, a process reads each: all files, from cold caches on"
    other_side = "one mount, 8 processes read it"

    def prepare(self):
        need_root("show a mount at a second place")
        self.source = self.bench.data_set(self.bench.count(4000, 200))
        self.samples = self.bench.file_list(self.source)

    def run(self, side, variant):
        with contextlib.ExitStack() as stack:
            self.bench.drop_caches()
            points = [self.mount(stack, number) for number in range(self.mounts if side == "headrace" else 1)]
            figures = self.read([points[number % len(points)] for number in range(self.mounts)])
            stats = {}
            for point in points:
                stat = self.stat(point)
                stats[stat["supervisor_pid"]] = stat  # of each daemon once
            figures.extra["daemons"] = len(stats)
            figures.extra["source_bytes"] = sum(stat["store"]["tiers"][-1]["hit_bytes"] for stat in stats.values())
            figures.peak_bytes = sum(peak_bytes_of_tree(pid) for pid in stats)
            figures.extra["memory_bytes"] = figures.peak_bytes + sum(
                stat["mount"]["held_bytes"] + stat["mount"]["read_in_bytes"] for stat in stats.values())
            figures.checksum = self.bench.sum_of(points[-1], self.samples)
        return figures

    def mount(self, stack, number):
        point = self.bench.work / f"many-{os.getpid()}-{number}"
        point.mkdir(exist_ok=True)
        stack.callback(point.rmdir)
        stack.enter_context(holding("mount", point))
        command = [self.bench.program("headrace"), "mount", self.source, point, "--ram", RAM_FOR_ALL]
        self.bench.execute(command)
        stack.callback(self.bench.execute, [self.bench.program("headrace"), "unmount", "--force", point])
        return point

    def stat(self, point):
        return self.bench.execute_json([self.bench.program("headrace"), "stat", point, "--json"])

    def read(self, points):
        command = [str(self.bench.program("read_files"))]
        begin = time.monotonic()
        readers = [subprocess.Popen([*command, point, self.samples], stdout=subprocess.PIPE, text=True)
                   for point in points]
        told = [json.loads(finish(reader)[0].strip().splitlines()[-1]) for reader in readers]
        return Figures(samples=sum(each["samples"] for each in told), seconds=time.monotonic() - begin)

    def judge(self, variant, runs):
        result = judge(self, variant, runs)
        ours, theirs = (runs[side] for side in self.sides)
        for what in ("memory_bytes", "source_bytes"):
            ratio = statistics.median(mine.extra[what] / other.extra[what] for mine, other in zip(ours, theirs))
            print(f"  {what} of {self.mounts} mounts: {ratio:.3f} of those of one (at most {self.most})")
            result.met = result.met and ratio <= self.most
        return result


class MountCold(Row):
    name = "mount-cold"
    rounds = SHORT_ROUNDS
    bar = 0.90
    variants = ("2 processes",)
    headrace_side = "2 processes through the mount, nothing prefetched, caches cold"
    other_side = "the same on the source directly"

    def prepare(self):
        need_root("drop the page cache")
        self.source = self.bench.data_set(self.bench.count(4000, 200))
        self.samples = self.bench.file_list(self.source)

    def run(self, side, variant):
        if side == "other":
            self.bench.drop_caches()
            return self.read(self.source, [])
        with Mount(self.bench, self.source, "--ram", "0") as mount:
            self.bench.drop_caches()
            return self.read(mount.path, [mount.pid])

    def read(self, folder, daemons):
        command = [self.bench.program("read_files"), folder, self.samples, "--processes", 2]
        figures = self.bench.measure(command, daemons)
        figures.checksum = self.bench.sum_of(folder, self.samples)
        return figures


class LoaderRow(Row):
    """An unmodified torchvision loader over a source with 20 ms per open and per read."""
    epochs = 1
    files = 1000

    def prepare(self):
        need_root("drop the page cache")
        need_torchvision()
        self.epochs = min(self.epochs, self.bench.count(self.epochs, 2))
        self.folder = self.bench.data_set(self.bench.count(self.files, 32))
        self.samples = self.bench.file_list(self.folder)
        mountpoint = self.bench.work / f"slow-{os.getpid()}"
        self.stack.callback(lambda: mountpoint.is_dir() and mountpoint.rmdir())
        slow_fs = SlowFs(self.bench.program("slow_fs"), self.folder, mountpoint)
        self.source = self.stack.enter_context(slow_fs)

    def load(self, folder, wait_for_go):
        command = [PYTHON, REPOSITORY / "bench/loader.py", folder, "--epochs", self.epochs, "--wait"]
        return self.bench.measure(command, wait_for_go=wait_for_go)

    def reset(self):
        """The source cold, what lies below its latency in RAM."""
        self.bench.drop_caches()
        self.bench.warm(self.folder, self.samples)

    def load_from_source(self):
        return self.load(self.source, lambda: self.reset() or ())

    def load_from_mount(self, *options):
        mount = Mount(self.bench, self.source, "--ram", RAM_FOR_ALL, *options)

        def start():
            self.reset()
            mount.__enter__()
            return [mount.pid]

        try:
            figures = self.load(mount.path, start)
            figures.extra["stat"] = mount.stat()
            figures.checksum = self.bench.sum_of(mount.path, self.samples)
        finally:
            if mount.process:
                mount.__exit__()
        return figures


class MountLatency(LoaderRow):
    name = "mount-latency"
    bar = 8.0
    rounds = 3  # the other side takes half a minute each time
    headrace_side = "ImageFolder + DataLoader (2 workers) through a cold mount that was given the order"
    other_side = "the same loader on the source: 20 ms per open and per read"

    def run(self, side, variant):
        if side == "headrace":
            return self.load_from_mount("--order", LOADER_ORDER)
        figures = self.load_from_source()
        figures.checksum = self.bench.sum_of(self.folder, self.samples)
        return figures


class MountLearned(LoaderRow):
    name = "mount-learned"
    bar = 0.95
    other_is_bound = True
    epochs = 3
    rounds = 3
    headrace_side = "the loader through a mount with --order auto, from the second epoch on"
    other_side = "the same with the order given"

    def run(self, side, variant):
        figures = self.load_from_mount("--order", "auto" if side == "headrace" else LOADER_ORDER)
        later = figures.extra["epoch_seconds"][1:]
        figures.samples = figures.samples // self.epochs * len(later)
        figures.seconds = sum(later)
        return figures


class EpochHalf(Row):
    name = "epoch-half"
    bar = 0.95
    other_is_bound = True
    rounds = 3
    headrace_side = "steady epoch through the mount: cache = half the data, source limited to 200 IOPS"
    other_side = ("the bound with half of the samples held: the others at the rate of the source; headrace holds the "
                  "smaller files, which are more than half")
    order = "torch-distributed:seed=0"
    steady_epoch = 2

    def prepare(self):
        need_root("set up a loop device")
        folder = self.bench.data_set(self.bench.count(4000, 200))
        self.disk = self.stack.enter_context(SlowDisk(self.bench.work, folder, read_iops=200))
        self.samples = self.bench.file_list(folder)
        self.cache_bytes = sum(file.stat().st_size for file in folder.rglob("*.jpg")) // 2
        self.cache_bytes = max(self.cache_bytes, RAM_LEAST)  # the few files of a quick run are less than that

    def run(self, side, variant):
        return self.run_mount() if side == "headrace" else self.run_bound()

    def run_bound(self):
        """The whole source once at its limit; half of that time is what no cache of this size can save."""
        self.bench.drop_caches()
        command = [self.bench.program("read_files"), self.disk.path, self.samples, "--threads", 32]
        figures = self.bench.measure(command, preexec_fn=self.disk.limit_me)
        return Figures(samples=figures.samples, seconds=figures.seconds / 2, bytes=figures.bytes,
                       cpu_seconds=figures.cpu_seconds, peak_bytes=figures.peak_bytes,
                       checksum=self.bench.sum_of(self.disk.path, self.samples))

    def run_mount(self):
        self.bench.drop_caches()
        options = ["--ram", self.cache_bytes, "--order", self.order]
        with Mount(self.bench, self.disk.path, *options, preexec_fn=self.disk.limit_me) as mount:
            figures = None
            for epoch in range(self.steady_epoch + 1):
                # What the kernel has kept of the source by itself is not the cache whose size is given.
                self.bench.forget(self.disk.path)
                command = [self.bench.program("read_files"), mount.path, self.epoch_list(epoch)]
                figures = self.bench.measure(command, [mount.pid])
            figures.extra["stat"] = mount.stat()
            figures.checksum = self.bench.sum_of(mount.path, self.samples)
        return figures

    def epoch_list(self, epoch):
        command = [self.bench.program("headrace"), "order", self.disk.path, "--order", self.order, "--epoch", epoch,
                   "--print", "path"]
        path = self.bench.work / f"epoch-{epoch}.list"
        path.write_text(self.bench.execute(command), encoding="utf-8")
        if path.stat().st_size == 0:
            raise Failed("headrace order printed nothing")
        return path


ROWS = (MountHot, MountHotPages, MountPython, PushThreads, PushBare, MountMany, MountCold, MountLatency, MountLearned,
        EpochHalf)
