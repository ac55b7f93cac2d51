# SPDX-License-Identifier: Apache-2.0
"""Measurements with a parameter, for bench/report: each returns {"title", "x", "y", "lines": {name: [[x, y], ...]}}.

Optional are "x_base" and "y_base", of a logarithmic axis, and "note", what a reader of the curve must know.

They show shapes (no collapse, no cliff); the ratios that have a bar are bench/compare's.
"""

import random
import shutil
import time

from harness import Mount, ram_for
from sources import SlowDisk, SlowFs, need_root
from sweeper import temporary_folder

ORDER = "torch-distributed:seed=0"
RAM_FOR_ALL = "4G"


def read(bench, folder, samples, *options, daemons=(), **process_options):
    return bench.measure([bench.program("read_files"), folder, samples, *options], daemons, **process_options)


def processes(bench):
    """Pushed files, read by 1 to 64 processes."""
    source = bench.data_set(bench.count(4000, 200))
    samples = bench.file_list(source)
    lines = {"headrace mount, pushed": [], "local file system, page cache": []}
    with Mount(bench, source, "--ram", RAM_FOR_ALL) as mount:
        for count in (1, 2, 4, 8, 16, 32, 64):
            mount.push_everything()
            bench.warm(source, samples)
            for name, folder in zip(lines, (mount.path, source)):
                figures = read(bench, folder, samples, "--processes", count, "--passes", 5)
                lines[name].append([count, figures.rate])
    return {"title": "Pushed files by number of reading processes", "x": "processes", "y": "samples/s", "x_base": 2,
            "lines": lines}


def file_size(bench):
    """The same by file size, 4 kB to 64 MB."""
    lines = {"headrace mount, pushed": [], "local file system, page cache": []}
    total = bench.count(256 << 20, 64 << 20)
    for power in range(12, 27, 2):
        folder = make_files(bench, 1 << power, max(1, min(4000, total >> power)))
        samples = bench.file_list(folder)
        with Mount(bench, folder, "--ram", RAM_FOR_ALL) as mount:
            mount.push_everything()
            bench.warm(folder, samples)
            for name, place in zip(lines, (mount.path, folder)):
                figures = read(bench, place, samples, "--passes", 3)
                lines[name].append([1 << power, figures.bytes / figures.seconds / 1e6])
        shutil.rmtree(folder)
    return {"title": "Throughput by file size", "x": "bytes per file", "y": "MB/s", "x_base": 2, "lines": lines}


def make_files(bench, size, count):
    folder = bench.work / f"files-{size}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "class").mkdir(parents=True)
    content = random.Random(size).randbytes(size)
    for number in range(count):
        (folder / "class" / f"{number:06}.jpg").write_bytes(content)
    bench.list_of(folder).unlink(missing_ok=True)  # of an earlier call, perhaps with another count
    return folder


def cached_share(bench):
    """A steady epoch with a source of 2000 reads per second, by the share of the data that the cache may hold."""
    need_root("set up a loop device")
    folder = bench.data_set(bench.count(4000, 1000))
    samples = bench.file_list(folder)
    total = sum(file.stat().st_size for file in folder.rglob("*.jpg"))
    lines = {"headrace mount": [], "bound: the rest at the source's rate": []}
    with SlowDisk(bench.work, folder, read_iops=2000) as disk:
        bench.drop_caches()
        source = read(bench, disk.path, samples, "--threads", 32, preexec_fn=disk.limit_me)
        for tenth in range(0, 11, bench.count(1, 5)):
            options = ["--ram", ram_for(total * tenth // 10 + total // 100) if tenth else 0, "--order", ORDER]
            figures = steady_epoch(bench, disk, options)
            lines["headrace mount"].append([tenth / 10, figures.rate])
            if tenth < 10:
                lines["bound: the rest at the source's rate"].append([tenth / 10, source.rate / (1 - tenth / 10)])
    return {"title": "Steady epoch by cached share, source of 2000 reads/s", "x": "share of the data in the cache",
            "y": "samples/s", "y_base": 10, "lines": lines,
            "note": "The bound is that of holding the same share of the samples; headrace holds the smaller files, "
                    "which are more. With share 0 nothing is pushed, and the kernel keeps what it reads."}


def steady_epoch(bench, disk, options, epoch_count=3):
    """The last of several epochs through a new mount, read in the order that it was given."""
    bench.drop_caches()
    with Mount(bench, disk.path, *options, preexec_fn=disk.limit_me) as mount:
        for epoch in range(epoch_count):
            listed = bench.work / "epoch.list"
            listed.write_text(bench.execute([bench.program("headrace"), "order", disk.path, "--order", ORDER, "--epoch",
                                             epoch, "--print", "path"]), encoding="utf-8")
            bench.forget(disk.path)
            figures = read(bench, mount.path, listed)
    return figures


def latency(bench):
    """Microseconds to open, fstat, read and close one sample: median, 99 % and 99.9 %."""
    source = bench.data_set(bench.count(4000, 200))
    samples = bench.file_list(source)
    rows = {}
    bench.warm(source, samples)
    rows["local file system, page cache"] = read(bench, source, samples, "--latency").extra
    bench.drop_caches()
    rows["local file system, cold"] = read(bench, source, samples, "--latency").extra
    with Mount(bench, source, "--ram", RAM_FOR_ALL) as mount:
        mount.push_everything()
        rows["headrace mount, pushed"] = read(bench, mount.path, samples, "--latency").extra
    with Mount(bench, source, "--ram", "0") as mount:
        bench.drop_caches()
        rows["headrace mount, nothing prefetched, cold"] = read(bench, mount.path, samples, "--latency").extra
    return {"ways": rows}


def first_batch(bench):
    """Seconds from nothing mounted to 32 samples read, on a source that adds 20 ms to each open and each read."""
    folder = bench.data_set(bench.count(1000, 200))
    samples = bench.file_list(folder)
    batch = bench.work / "first-batch.list"
    rows = {}
    with temporary_folder("slow-", bench.work) as place, SlowFs(bench.program("slow_fs"), folder, place) as source:
        command = [bench.program("headrace"), "order", source, "--order", ORDER, "-n", 32, "--print", "path"]
        batch.write_text(bench.execute(command), encoding="utf-8")
        for name, options in (("headrace, order given", ("--order", ORDER)), ("headrace, order learned", ())):
            bench.drop_caches()
            bench.warm(folder, samples)  # below the latency everything is in RAM
            start = time.perf_counter()
            with Mount(bench, source, "--ram", "1G", *options) as mount:
                mounted = time.perf_counter() - start
                read(bench, mount.path, batch)
                rows[name] = {"mounted_s": mounted, "first_batch_s": time.perf_counter() - start}
        start = time.perf_counter()
        read(bench, source, batch)
        rows["the source directly"] = {"mounted_s": 0, "first_batch_s": time.perf_counter() - start}
    return {"ways": rows}


def epoch(bench):
    """How fast the files of the first epoch come, on a source that adds 20 ms to each open and read.

    The caches are empty at the start. Two processes read what the order says, a tenth of the epoch after the other.
    """
    folder = bench.data_set(bench.count(1000, 200))
    bench.file_list(folder)
    lines = {}
    with temporary_folder("slow-", bench.work) as place, SlowFs(bench.program("slow_fs"), folder, place) as source:
        order = bench.execute([bench.program("headrace"), "order", source, "--order", ORDER, "--print", "path"])
        ways = {"headrace, order given": ("--order", ORDER), "headrace, order found by itself": (),
                "the source directly": None}
        for name, options in ways.items():
            bench.drop_caches()
            bench.warm(folder, bench.list_of(folder))  # below the latency everything is in RAM
            if options is None:
                lines[name] = rates_of_slices(bench, source, order.splitlines())
                continue
            with Mount(bench, source, "--ram", "1G", *options) as mount:
                lines[name] = rates_of_slices(bench, mount.path, order.splitlines())
    return {"title": "Files per second over the first epoch, source that adds 20 ms", "x": "files read",
            "y": "files/s", "y_base": 10, "lines": lines}


def rates_of_slices(bench, root, samples, slices=10):
    """[files read until the end of a slice, its files per second] for each slice of the list."""
    points, part = [], bench.work / "slice.list"
    for number in range(slices):
        begin, end = len(samples) * number // slices, len(samples) * (number + 1) // slices
        part.write_text("".join(name + "\n" for name in samples[begin:end]), encoding="utf-8")
        points.append([end, read(bench, root, part, "--processes", 2).rate])
    return points


CURVES = (processes, file_size, cached_share)
