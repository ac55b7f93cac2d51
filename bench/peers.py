# SPDX-License-Identifier: Apache-2.0
"""What others do for the same job: the same data, the same slow source, the same unmodified loader, five epochs.

Each peer is a context manager that gives the folder to load from; what it does before that counts as waiting time.
"""

import contextlib
import os
import shutil
import subprocess
import time

from harness import PYTHON, REPOSITORY, Mount, cpu_seconds_of_tree, peak_bytes, process_tree
from sources import CannotRun, SlowFs, end_process, unmount, wait_until_mounted

ORDER = "torch-distributed:seed=0"
EPOCHS = 5
RAM = "1G"


class Peer:
    """Where it shows the data set, the processes that do it, and the folder it fills."""

    def __init__(self, folder, pids=(), cache_folder=None):
        self.folder, self.pids, self.cache_folder = folder, list(pids), cache_folder


@contextlib.contextmanager
def plain(_bench, source):
    yield Peer(source)


def headrace(*options):
    @contextlib.contextmanager
    def peer(bench, source):
        with Mount(bench, source, "--ram", RAM, *options) as mount:
            yield Peer(mount.path, [mount.pid])
    return peer


@contextlib.contextmanager
def foreground_mount(bench, program, command):
    """Another FUSE file system, kept in the foreground."""
    if shutil.which(program) is None:
        raise CannotRun(f"{program} is not installed")
    mountpoint = bench.work / f"peer-{os.getpid()}"
    mountpoint.mkdir(exist_ok=True)
    log = open(bench.work / "peer.log", "ab")
    process = subprocess.Popen([str(word) for word in command(mountpoint)], stdout=log, stderr=log)
    try:
        wait_until_mounted(mountpoint, process)
        yield Peer(mountpoint, [process.pid])
    finally:
        unmount(mountpoint)
        end_process(process)
        log.close()
        mountpoint.rmdir()


@contextlib.contextmanager
def rclone(bench, source):
    cache = bench.work / "rclone-cache"
    shutil.rmtree(cache, ignore_errors=True)
    options = ["--read-only", "--vfs-cache-mode", "full", "--cache-dir", cache, "--dir-cache-time", "1h",
               "--config", "/dev/null"]
    with foreground_mount(bench, "rclone", lambda at: ["rclone", "mount", source, at, *options]) as peer:
        peer.cache_folder = cache
        yield peer
    shutil.rmtree(cache, ignore_errors=True)


@contextlib.contextmanager
def mergerfs(bench, source):
    options = "ro,cache.files=auto-full,category.create=ff"
    with foreground_mount(bench, "mergerfs", lambda at: ["mergerfs", "-f", "-o", options, source, at]) as peer:
        yield peer


@contextlib.contextmanager
def bindfs(bench, source):
    with foreground_mount(bench, "bindfs", lambda at: ["bindfs", "-f", "-r", source, at]) as peer:
        yield peer


@contextlib.contextmanager
def tmpfs_copy(bench, source):
    target = bench.work / f"tmpfs-{os.getpid()}"
    target.mkdir(exist_ok=True)
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={RAM}", "tmpfs", str(target)], check=True)
        shutil.copytree(source, target / "data", copy_function=shutil.copyfile)
        yield Peer(target / "data", cache_folder=target)
    finally:
        unmount(target)
        target.rmdir()


PEERS = {
    "the source directly": plain,
    "headrace, order given": headrace("--order", ORDER),
    "headrace, order learned": headrace("--order", "auto"),
    "headrace, no order": headrace(),
    "rclone mount, VFS cache": rclone,
    "mergerfs, page cache": mergerfs,
    "bindfs": bindfs,
    "copied to tmpfs first": tmpfs_copy,
}


def run_all(bench, report):
    """Figures by peer; those that are not installed say so."""
    folder = bench.data_set(bench.count(300, 60))
    samples = bench.file_list(folder)
    results = {}
    for name, peer in PEERS.items():
        report(f"  {name} ...")
        try:
            results[name] = run(bench, peer, folder, samples)
        except CannotRun as reason:
            results[name] = {"left_out": str(reason)}
    return results


def run(bench, peer, folder, samples):
    bench.drop_caches()
    bench.warm(folder, samples)  # below the latency everything is in RAM
    slow = SlowFs(bench.program("slow_fs"), folder, bench.work / f"slow-{os.getpid()}")
    with slow as source:
        start = time.perf_counter()
        with peer(bench, source) as place:
            waited = time.perf_counter() - start
            figures = bench.measure([PYTHON, REPOSITORY / "bench/loader.py", place.folder, "--epochs", EPOCHS])
            counts = slow.counts()
            result = {
                "first_batch": waited + figures.extra["first_batch_seconds"][0],
                "epoch_seconds": [waited + figures.extra["epoch_seconds"][0], *figures.extra["epoch_seconds"][1:]],
                "memory_bytes": sum(peak_bytes(pid) for root in place.pids for pid in process_tree(root)),
                "cpu_seconds": sum(cpu_seconds_of_tree(pid) for pid in place.pids),
                "disk_bytes": folder_bytes(place.cache_folder),
                "samples": figures.samples // EPOCHS,
                "equal": bench.sum_of(place.folder, samples) == bench.sum_of(folder, samples),
            }
    slow.mountpoint.rmdir()
    return result | {"source_opens": counts["opens"], "source_reads": counts["reads"]}


def folder_bytes(folder):
    if folder is None:
        return 0
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())
