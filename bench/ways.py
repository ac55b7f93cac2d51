# SPDX-License-Identifier: Apache-2.0
"""The ways to read many small files, by file system: io_bench once on each, as a table for bench/report."""

import contextlib
import json
import os
import subprocess
from pathlib import Path

from sources import CannotRun, SlowDisk, need_root
from sweeper import temporary_folder

TRACING = Path("/sys/kernel/tracing")
WAYS = {  # io_bench's name: what it is
    "read_files/chain_direct": "io_uring: open, read, close in one chain, direct (0.1.0)",
    "read_files/chain_buffered": "the same through the page cache (0.1.0)",
    "read_files/uring_direct": "io_uring: open, compare, read, compare, close, direct",
    "read_files/uring_buffered": "the same through the page cache",
    "read_files/pool_direct": "pread pool, direct",
    "read_files/pool_buffered": "pread pool, page cache",
    "read_files/page_cache": "PageCacheReader",
    "read_files/baseline_pread": "1 thread: open, fstat, pread, close",
    "read_files/baseline_threads": "16 threads: the same",
    "read_files/baseline_mmap": "1 thread: open, fstat, mmap, copy",
    "read_packed/direct": "packed, io_uring, direct",
    "read_packed/pool_direct": "packed, pread pool, direct",
    "read_packed/baseline_pread": "packed, 1 thread: pread",
}


def measure(bench):
    """{file system: {way: {"cold" or "warm": {"rate", "cpu_us", "system_calls"}}}}"""
    need_root("drop the page cache")
    with system_call_counting():
        results = {f"{file_system_of(bench.work)} (work folder)": run(bench, bench.work)}
        # An empty folder still gives a disk of 512 MiB, which holds the 330 MB of 1500 files and their pack.
        with temporary_folder("empty-", bench.work) as empty, SlowDisk(bench.work, empty, file_system="xfs") as disk:
            results["xfs (loop device)"] = run(bench, disk.mountpoint)
        with temporary_folder("headrace-", "/dev/shm") as memory:
            results["tmpfs"] = run(bench, memory)
    return results


@contextlib.contextmanager
def system_call_counting():
    """io_bench counts system calls where tracefs is mounted."""
    mounted = (TRACING / "events").exists()
    if not mounted:
        subprocess.run(["mount", "-t", "tracefs", "none", str(TRACING)], check=False)
    try:
        yield
    finally:
        if not mounted:
            subprocess.run(["umount", str(TRACING)], check=False)


def file_system_of(folder):
    command = ["stat", "--file-system", "--format=%T", str(folder)]
    name = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return name.replace("ext2/ext3", "ext4")


def run(bench, folder):
    environment = os.environ | {"HEADRACE_BENCH_DIR": str(folder), "HEADRACE_BENCH_FILES": str(bench.count(1500, 150))}
    command = [str(bench.program("io_bench")), "--benchmark_format=json", "--benchmark_filter=" + "|".join(WAYS),
               f"--benchmark_min_time={bench.count(0.5, 0.01)}"]
    process = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if process.returncode != 0:
        raise CannotRun(f"io_bench ended with status {process.returncode}")
    figures = {}
    for case in json.loads(process.stdout[process.stdout.index("{"):])["benchmarks"]:
        name, _, cache = case["name"].removeprefix("io/").removesuffix("/real_time").partition("/cache:")
        if not case.get("error_occurred"):
            figures.setdefault(name, {})[cache] = {"rate": case["items_per_second"], "cpu_us": case["cpu_us"],
                                                   "system_calls": case.get("system_calls")}
    return figures


def cell(figures):
    if not figures:
        return ""
    calls = figures["system_calls"]
    return f"{figures['rate']:.0f}, {figures['cpu_us']:.1f} us" + (f", {calls:.2f}" if calls is not None else "")


def rows(results, cache):
    """One line per way: samples/s, processor time and system calls per sample, on each file system."""
    return [[text, *(cell(figures.get(way, {}).get(cache)) for figures in results.values())]
            for way, text in WAYS.items() if any(cache in figures.get(way, {}) for figures in results.values())]
