# SPDX-License-Identifier: Apache-2.0
"""What others do for the same job: the same data, the same slow source, the same budget, an unmodified loader.

Each peer is a context manager that gives the folder to load from; what it does before that counts as waiting time.
Those that are file systems are compared as such too, without a slow source and a loader.
"""

import contextlib
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

from harness import PYTHON, REPOSITORY, Mount, cpu_seconds_of_tree, need_torchvision, peak_bytes_of_tree
from sources import CannotRun, Failed, SlowFs, end_process, need_fuse, unmount, wait_until_mounted
from sweeper import holding, temporary_folder

ORDER = "torch-distributed:seed=0"
EPOCHS = 5
RAM = "1G"  # more than the data: who holds it all must be allowed to
SHARD_SAMPLES = 100


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
    """Another FUSE file system, kept in the foreground. `command` gives its words, from the mount point on."""
    if shutil.which(program) is None:
        raise CannotRun(f"{program} is not installed (.ci/install peers)")
    need_fuse()
    with contextlib.ExitStack() as stack:
        mountpoint = stack.enter_context(temporary_folder("peer-", bench.work))
        stack.enter_context(holding("mount", mountpoint))
        log = stack.enter_context(open(bench.work / "peer.log", "ab"))
        process = subprocess.Popen([str(word) for word in command(mountpoint)], stdout=log, stderr=log)
        stack.enter_context(holding("process", process.pid))
        stack.callback(end_process, process)
        stack.callback(unmount, mountpoint)
        wait_until_mounted(mountpoint, process)
        yield Peer(mountpoint, [process.pid])


def fuse_peer(program, *options):
    """A program that is called PROGRAM OPTIONS SOURCE MOUNTPOINT."""
    @contextlib.contextmanager
    def peer(bench, source):
        with foreground_mount(bench, program, lambda at: [program, *options, source, at]) as mounted:
            yield mounted
    return peer


@contextlib.contextmanager
def rclone(bench, source):
    with temporary_folder("rclone-cache-", bench.work) as cache:
        options = ["--read-only", "--vfs-cache-mode", "full", "--vfs-cache-max-size", RAM, "--cache-dir", cache,
                   "--dir-cache-time", "1h", "--config", "/dev/null"]
        with foreground_mount(bench, "rclone", lambda at: ["rclone", "mount", source, at, *options]) as peer:
            peer.cache_folder = cache
            yield peer


@contextlib.contextmanager
def tmpfs_copy(bench, source):
    with temporary_folder("tmpfs-", bench.work) as target, holding("mount", target):
        try:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={RAM}", "tmpfs", target], check=True)
            shutil.copytree(source, f"{target}/data", copy_function=shutil.copyfile)
            yield Peer(f"{target}/data", cache_folder=target)
        finally:
            unmount(target)


mergerfs = fuse_peer("mergerfs", "-f", "-o", "ro,cache.files=auto-full,category.create=ff")
bindfs = fuse_peer("bindfs", "-f", "-r")
unionfs = fuse_peer("unionfs", "-f", "-o", "ro")

PEERS = {
    "the source directly": plain,
    "headrace, order given": headrace("--order", ORDER),
    "headrace, order learned": headrace("--order", "auto"),
    "rclone mount, VFS cache": rclone,
    "mergerfs, page cache": mergerfs,
    "bindfs": bindfs,
    "copied to tmpfs first": tmpfs_copy,
}


def items(bench):
    """Pairs of a peer's name and a function that measures it."""
    pairs = [(name, lambda peer=peer: run(bench, peer)) for name, peer in PEERS.items()]
    return [*pairs, ("tar shards, sequential", lambda: run_shards(bench))]


def run(bench, peer):
    need_torchvision()
    folder = bench.data_set(bench.count(200, 60))
    samples = bench.file_list(folder)
    bench.drop_caches()
    bench.warm(folder, samples)  # below the latency everything is in RAM
    with temporary_folder("slow-", bench.work) as place:
        slow = SlowFs(bench.program("slow_fs"), folder, place)
        with slow as source:
            start = time.perf_counter()
            with peer(bench, source) as shown:
                result = load(bench, shown, slow, waited=time.perf_counter() - start)
                check_bytes(bench, shown.folder, folder, samples)
                return result


def run_shards(bench):
    """As WebDataset does it: the data set packed once into tar files, which are read from end to end."""
    need_torchvision()
    folder = bench.data_set(bench.count(200, 60))
    with temporary_folder("shards-", bench.work) as shards, temporary_folder("slow-", bench.work) as place:
        start = time.perf_counter()
        pack(bench, folder, shards)
        packed = time.perf_counter() - start
        slow = SlowFs(bench.program("slow_fs"), shards, place)
        with slow as source:
            return load(bench, Peer(source), slow, "--tar") | {"prepared_seconds": packed}


def pack(bench, folder, shards):
    """In shuffled order, so that a shard is not one class."""
    names = bench.file_list(folder).read_text().splitlines()
    classes = sorted({name.partition("/")[0] for name in names})
    for start in range(0, len(names), SHARD_SAMPLES):
        with tarfile.open(f"{shards}/{start // SHARD_SAMPLES:05}.tar", "w") as shard:
            for name in names[start:start + SHARD_SAMPLES]:
                label = classes.index(name.partition("/")[0])
                shard.add(folder / name, f"{label}/{name.rpartition('/')[2]}")


def load(bench, peer, slow, *options, waited=0):
    """Five epochs of a loader; `waited`: seconds until there was something to load from."""
    program = REPOSITORY / "bench/loader.py"
    figures = bench.measure([PYTHON, program, peer.folder, "--epochs", EPOCHS, *options])
    counts = slow.counts()
    epochs = figures.extra["epoch_seconds"]
    return {
        "first_batch": waited + figures.extra["first_batch_seconds"][0],
        "epoch_seconds": [waited + epochs[0], *epochs[1:]],
        "memory_bytes": sum(peak_bytes_of_tree(pid) for pid in peer.pids),
        "cpu_seconds": sum(cpu_seconds_of_tree(pid) for pid in peer.pids),
        "disk_bytes": folder_bytes(peer.cache_folder),
        "samples": figures.samples // EPOCHS,
        "source_opens": counts["opens"],
        "source_reads": counts["reads"],
    }


FILE_SYSTEMS = {
    "the files directly": plain,
    "headrace": headrace(),
    "mergerfs": mergerfs,
    "bindfs": bindfs,
    "unionfs-fuse": unionfs,
    "rclone mount, VFS cache": rclone,
}


def file_system_items(bench):
    return [(name, lambda peer=peer: run_file_system(bench, peer)) for name, peer in FILE_SYSTEMS.items()]


def run_file_system(bench, peer):
    """The same files through a mount, whole, in random order, by one process: first with cold caches, then again."""
    source = bench.data_set(bench.count(4000, 200))
    samples = bench.file_list(source)
    result = {}
    with peer(bench, source) as shown:
        bench.drop_caches()
        for state in ("cold", "warm"):
            figures = bench.measure([bench.program("read_files"), shown.folder, samples], shown.pids)
            result[state] = {"rate": figures.rate, "cpu_us": 1e6 * figures.cpu_seconds / figures.samples}
        check_bytes(bench, shown.folder, source, samples)
        return result | {"memory_bytes": sum(peak_bytes_of_tree(pid) for pid in shown.pids)}


def check_bytes(bench, shown, folder, samples):
    if bench.sum_of(shown, samples) != bench.sum_of(folder, samples):
        raise Failed("what it shows has other bytes than the source")


def folder_bytes(folder):
    if folder is None:
        return 0
    return sum(file.stat().st_blocks * 512 for file in Path(folder).rglob("*") if file.is_file())
