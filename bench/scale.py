# SPDX-License-Identifier: Apache-2.0
"""Large trees, large data sets and many readers, for bench/report: seconds and bytes of memory."""

import contextlib
import os
import random
import shutil
import time
from pathlib import Path

from harness import Mount, memory_of_tree, ram_for
from sweeper import temporary_folder

ORDER = "torch-distributed:seed=0"
OPENS = 10_000       # random files of a tree that are opened through the mount
PER_CLASS = 1000
NOMINAL_BYTES = 10 ** 12
SPARSE_FILE_BYTES = 100 * 10 ** 6
READERS = 64


def items(bench, file_counts=None):
    counts = file_counts or bench.count([1_000_000], [5_000])
    trees = [(f"{count} files", lambda count=count: measure(bench, tree_of_links(bench, count))) for count in counts]
    return [*trees, ("1 TB nominal", lambda: measure_sparse(bench)),
            (f"{READERS} reader processes", lambda: measure_readers(bench))]


def tree_of_links(bench, files):
    """A data set of hard links to a few files: as many names and inodes to know as real samples, no space."""
    folder = bench.work / f"links-{files}"
    if folder.exists():
        return folder
    partial = Path(f"{folder}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for label in range((files + PER_CLASS - 1) // PER_CLASS):
        place = partial / f"class-{label:05}"
        place.mkdir(parents=True)
        original = place / "000.jpg"  # file systems limit the links to one inode
        original.write_bytes(random.Random(label).randbytes(100))
        for number in range(1, min(PER_CLASS, files - label * PER_CLASS)):
            os.link(original, place / f"{number:03}.jpg")
    partial.rename(folder)
    return folder


def sparse_tree(bench):
    """Files with holes instead of content: 1 TB to know of and to read from, no space."""
    files = NOMINAL_BYTES // SPARSE_FILE_BYTES // bench.count(1, 100)
    folder = bench.work / f"sparse-{files}"
    for number in range(files):
        file = folder / f"class-{number // PER_CLASS:05}" / f"{number % PER_CLASS:03}.jpg"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            with open(file, "wb") as sparse:
                sparse.truncate(SPARSE_FILE_BYTES)
    return folder


def measure(bench, folder):
    """Mounting, listing, opening and planning, with caches cold; and mounting once more, the catalog being kept."""
    with nothing_known():
        bench.drop_caches()
        figures = mounted_figures(bench, folder, "cold") | mounted_figures(bench, folder, "again")
        return figures | planning(bench, folder)


@contextlib.contextmanager
def nothing_known():
    """Keeps catalogs in a folder of its own: with one that an earlier report left, the first mount would not scan."""
    name = "HEADRACE_CACHE_DIR"
    before = os.environ.get(name)
    with temporary_folder("headrace-scale-") as folder:
        os.environ[name] = str(folder)
        try:
            yield
        finally:
            os.environ.pop(name)
            if before is not None:
                os.environ[name] = before


def mounted_figures(bench, folder, kind):
    start = time.perf_counter()
    with Mount(bench, folder, "--ram", "64M", "--order", ORDER) as mount:
        seconds = time.perf_counter() - start
        files = mount.stat()["data_set"]["entries"]
        memory = memory_of_tree(mount.pid, "VmRSS")
        start = time.perf_counter()
        bench.execute(["ls", "-U", mount.path / "class-00000"])
        listing = time.perf_counter() - start
        opens = open_some(folder, mount.path)
        return {"files": files, f"mount_s_{kind}": seconds, f"memory_bytes_{kind}": memory, f"ls_s_{kind}": listing,
                f"opens_per_s_{kind}": opens}


def open_some(folder, mounted):
    """Random files opened, read up to 100 bytes and closed, per second."""
    rng = random.Random(1)
    classes = sorted(os.listdir(folder))
    some = [rng.choice(classes) for _ in range(min(100, len(classes)))]
    names = [f"{label}/{name}" for label in some for name in os.listdir(folder / label)]
    chosen = rng.sample(names, min(OPENS, len(names)))
    start = time.perf_counter()
    for name in chosen:
        with open(mounted / name, "rb") as file:
            file.read(100)
    return len(chosen) / (time.perf_counter() - start)


def planning(bench, folder):
    """Seconds and memory to draw an epoch's order, the listing included."""
    start = time.perf_counter()
    command = [bench.program("headrace"), "order", folder, "--order", ORDER, "--epoch", "1", "-n", "10"]
    bench.run_program(command)
    return {"plan_s": time.perf_counter() - start, "plan_peak_bytes": bench.peak_bytes_of(command)}


def measure_sparse(bench):
    folder = sparse_tree(bench)
    return measure(bench, folder) | {"nominal_bytes": sum(file.stat().st_size for file in folder.rglob("*.jpg"))}


def measure_readers(bench):
    """Many processes read a cold data set through a mount that may hold half of it; their bytes are compared."""
    source = bench.data_set(bench.count(4000, 200))
    samples = bench.file_list(source)
    total = sum(file.stat().st_size for file in source.rglob("*.jpg"))
    bench.drop_caches()
    with Mount(bench, source, "--ram", ram_for(total // 2)) as mount:
        command = [bench.program("read_files"), mount.path, samples, "--processes", READERS, "--passes", 2]
        figures = bench.measure(command, [mount.pid])
        equal = bench.sum_of(mount.path, samples) == bench.sum_of(source, samples)
        memory = memory_of_tree(mount.pid, "VmRSS")
    return {"processes": READERS, "samples_per_s": figures.rate, "cpu_us": 1e6 * figures.cpu_seconds / figures.samples,
            "memory_bytes": memory, "equal": equal}
