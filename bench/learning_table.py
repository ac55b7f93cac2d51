# SPDX-License-Identifier: Apache-2.0
"""Real torch loaders, each through a mount over a slow source that counts its opens: what bench/learning.py prints as
`how: table`.

A row has a script of learning_scripts.py, the shape of its data set, and what the mount is told. `right` says which
orders describe the script; a lock on any other is false. RAM holds 40 % of the data set, and half of that of DLIO.
"""

import contextlib
import hashlib
import heapq
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from harness import PYTHON, REPOSITORY, Mount, ram_for
from scale import nothing_known
from sources import Failed, SlowFs, end_process
from sweeper import holding, temporary_folder

EPOCHS = 3
# Fewer files, and what is read ahead of a reader is more than 5 % of what has to be fetched: 64 samples at least.
FILES = 4000
CLASSES = 10
FILE_BYTES = 128 << 10  # of holes: no space, and the data set is far larger than what is on its way
SHARE_OF_RAM = 0.4
SETTLE_SECONDS = 0.3    # opens are told to the mount a little later
NOTHING = r"$^"         # no order is right: it cannot be known


@dataclass
class Row:
    name: str
    script: str
    layout: str = "flat"
    options: tuple = ()
    right: str = r"torch-distributed:seed=0\b"
    again: bool = False  # measured is the second mount of the same job
    quick: bool = False  # part of the short form
    share_of_ram: float = SHARE_OF_RAM
    epochs: int = EPOCHS
    source: tuple = (1, 1)  # ms that an open and a read of it take; then MiB/s that it has


DLIO = {"layout": "dlio", "share_of_ram": 0.5, "epochs": 4}
DISK = (1, 1, 40)
NUMPY_123 = r"dlio|numpy:seed=123\b"  # the same shuffles


TRAIN = r"torch-subset:range=\d+:\d+,of=torch-distributed:seed=0\b"
TRAIN_OR_VAL = TRAIN + r"|torch-subset:range=\d+:\d+,of=sequential"
ROWS = (
    Row("DistributedSampler", "distributed", quick=True),
    Row("two ranks", "two-ranks"),
    Row("generator=manual_seed(0)", "generator", right=r"torch-random:generator=explicit,seed=0\b"),
    Row("train/ and val/, unnamed order told", "train-alone", "split", ("--order", "torch-distributed:seed=0"),
        right=TRAIN_OR_VAL),
    Row("train, then val: orders told", "train-val", "split",
        ("--order", "train=torch-distributed:seed=0", "--order", "val=sequential"), right=TRAIN_OR_VAL),
    Row("train, then val: learned", "train-val", "split", right=TRAIN_OR_VAL, quick=True),
    Row("val once, then train and val", "val-first", "split", right=TRAIN_OR_VAL),
    Row("two loaders in turn", "two-loaders", "split", right=TRAIN_OR_VAL + r"|of=torch-distributed:seed=5\b"),
    Row("two jobs on one mount", "two-jobs", right=r"torch-distributed:seed=(0|100)\b"),
    Row("k-fold", "k-fold", right=NOTHING),
    Row("repeated augmentation, 1 rank", "repeated-1", right=r"ra-sampler|torch-distributed:seed=0\b"),
    Row("repeated augmentation, 2 ranks", "repeated-2", right=r"ra-sampler|torch-distributed:seed=0\b"),
    Row("triplets", "triplets"),
    Row("random_split", "random-split", right=NOTHING),
    Row("Subset of 60 %", "subset", right=r"seed=0\b"),
    Row("Subset of 60 %, no seed", "subset-unseeded", right=NOTHING),
    Row("list in a csv", "csv-list", "csv", right=r"seed=0\b"),
    Row("list elsewhere", "hidden-list", right=r"seed=0\b"),
    Row("VOC: image and mask", "pairs", "voc", right=r"together:JPEGImages\+SegmentationClass,of=.*seed=0\b"),
    Row("VOC: two ranks", "pairs-of-ranks", "voc", right=r"together:.*seed=0\b"),
    Row("json beside each image", "json-beside", "json"),
    Row("the same list each epoch", "fixed-list", right=r"recorded|replay", quick=True),
    Row("persistent_workers, default generator", "persistent", right=r"torch-(random:seed=0|distributed:seed=)"),
    Row("evaluation over class folders", "evaluation", right=r"sequential"),
    Row("half of each epoch", "cut-short"),
    Row("pytorch/examples main.py --seed 0", "main.py", "split", right=r"torch-(random:seed=0|distributed:seed=)"),
    Row("torchvision references, no seed", "references", right=r"torch-distributed:seed="),
    Row("clips of 8 neighbours", "clips", right=NOTHING),
    Row("class blocks", "class-blocks", right=NOTHING),
    Row("batches of one class", "class-batches", right=NOTHING),
    Row("shuffle buffer", "shuffle-buffer", right=NOTHING),
    Row("shuffles from urandom", "unknowable", right=NOTHING, quick=True),
    Row("with replacement", "replacement", right=NOTHING),
    Row("WeightedRandomSampler", "weighted", right=NOTHING),
    Row("a wrong order told", "distributed", options=("--order", "torch-distributed:seed=77")),
    Row("the next mount of the same list", "fixed-list", right=r"recorded|replay", again=True),
    Row("DLIO unet3d, 20 ms", "unet3d", right="sequential", source=(20, 20), **DLIO),
    Row("DLIO unet3d, 20 ms, told", "unet3d", options=("--order", "sequential:batch=4,workers=4"), right="sequential",
        source=(20, 20), **DLIO),
    Row("DLIO 1.0 unet3d, 20 ms", "unet3d-shuffled", right=NUMPY_123, source=(20, 20), **DLIO),
    Row("DLIO 1.0 unet3d, 20 ms, told", "unet3d-shuffled",
        options=("--order", "dlio:seed_change_epoch=0,batch=4,workers=4"), right=NUMPY_123, source=(20, 20), **DLIO),
    Row("DLIO unet3d, 40 MiB/s", "unet3d", right="sequential", source=DISK, **DLIO),
    Row("DLIO unet3d, 40 MiB/s, told", "unet3d", options=("--order", "sequential:batch=4,workers=4"),
        right="sequential", source=DISK, **DLIO),
    Row("DLIO 1.0 unet3d, 40 MiB/s", "unet3d-shuffled", right=NUMPY_123, source=DISK, **DLIO),
    Row("DLIO 1.0 unet3d, 40 MiB/s, told", "unet3d-shuffled",
        options=("--order", "dlio:seed_change_epoch=0,batch=4,workers=4"), right=NUMPY_123, source=DISK, **DLIO),
)


def rows(bench, names=()):
    """A dict for each row, as they are measured. `names`: parts of the names of those that are wanted, or whole ones
    between slashes."""
    for row in ROWS:
        if (row.quick or not bench.quick) and (not names or any(name in f"/{row.name}/" for name in names)):
            yield measure(bench, row)


def data_set(bench, layout, files):
    """Holes of FILE_BYTES each, and of DLIO's files; masks and json files are small."""
    folder = bench.work / f"learning-{layout}-{files}"
    if folder.exists():
        return folder
    partial = Path(f"{folder}.partial")
    for number in range(files):
        for name, size in names_of(layout, number, files):
            path = partial / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "wb") as file:
                file.truncate(size)
    if layout == "csv":
        write_csv(partial)
    partial.rename(folder)
    return folder


def write_csv(folder):
    """In an order that somebody shuffled once."""
    paths = [path.relative_to(folder) for path in folder.glob("*/*")]
    lines = [f"{path},{path.parent}\n" for path in sorted(paths, key=digest)]
    (folder / "train.csv").write_text("image,label\n" + "".join(lines), encoding="utf-8")


def digest(path):
    return hashlib.sha256(path.name.encode()).digest()


def names_of(layout, number, files):
    label, name = f"c{number % CLASSES:02}", f"{number:05}"
    if layout == "dlio":
        return ((f"img_{name}_of_{files}.npz", 3 << 19),)
    if layout == "voc":
        return (f"JPEGImages/{name}.jpg", FILE_BYTES), (f"SegmentationClass/{name}.png", FILE_BYTES // 8)
    if layout == "json":
        return (f"{label}/{name}.jpg", FILE_BYTES), (f"{label}/{name}.json", 2000)
    if layout == "split":
        return ((f"{'val' if number * 5 >= files * 4 else 'train'}/{label}/{name}.jpg", FILE_BYTES),)
    return ((f"{label}/{name}.jpg", FILE_BYTES),)


def measure(bench, row):
    files = 168 if row.layout == "dlio" else bench.count(FILES, 300)
    folder = data_set(bench, row.layout, files)
    with nothing_known(), temporary_folder("headrace-learning-", bench.work) as place:
        place = Path(place)
        with slow_source(bench, row, folder, place / "source") as source:
            if row.again:
                one_mount(bench, row, source, place / "first")
            result = one_mount(bench, row, source, place / "log")
        with slow_source(bench, row, folder, place / "source") as bare:
            _, seconds, busy = run_script(bench, row, bare.mountpoint, place / "bare", dict)
    if busy:
        result["busy_bare"] = busy
    return result | {"bare_s": round(seconds, 1), "wall_of_bare": round(result["wall_s"] / seconds, 2)}


@contextlib.contextmanager
def slow_source(bench, row, folder, place):
    open_ms, read_ms, *speed = row.source
    disk = ["--disk-mib-s", *speed] if speed else []
    source = SlowFs(bench.program("slow_fs"), folder, place, open_ms, read_ms, disk)
    with source:
        yield source


def one_mount(bench, row, source, log):
    sizes = {str(file.relative_to(source.mountpoint)): file.stat().st_size
             for file in source.mountpoint.rglob("*") if file.is_file()}
    ram = ram_for(int(sum(sizes.values()) * row.share_of_ram))
    daemon_log = bench.work / "mount.log"
    log_began = daemon_log.stat().st_size if daemon_log.exists() else 0
    before = source.counts()  # a mount fills its memory before anybody reads
    with Mount(bench, source.mountpoint, "--ram", ram, *row.options) as mounted:
        epochs, seconds, busy = run_script(bench, row, mounted.path, log, lambda: snapshot(mounted, source, log))
        capacity = ram - mounted.stat()["mount"]["staging_bytes"]
    epochs[0] |= {"source_opens": before["opens"], "source_bytes": before["read_bytes"]}
    said = daemon_log.read_text(errors="replace")[log_began:] if daemon_log.exists() else ""
    result = figures(row, epochs, log.read_text().splitlines(), sizes, capacity, said)
    if busy:
        result["busy"] = busy
    return result | {"wall_s": round(seconds, 1)}


def run_script(bench, row, folder, log, look):
    """What `look` gives before the first epoch and after each; the seconds of all epochs; the accelerator's share of
    each epoch's time, where the script has one."""
    epochs = bench.count(row.epochs, 2)
    command = [PYTHON, REPOSITORY / "bench/learning_scripts.py", row.script, folder, log, "--epochs", epochs]
    snapshots, busy = [look()], []
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
    with holding("process", process.pid):
        try:
            began = time.monotonic()
            for _ in range(epochs):
                said, *share_busy = process.stdout.readline().split() or [""]
                if said != "epoch":
                    raise Failed(f"{row.script} ended early")
                busy += share_busy
                time.sleep(SETTLE_SECONDS)
                snapshots.append(look())
                process.stdin.write("\n")
                process.stdin.flush()
            process.wait()
            seconds = time.monotonic() - began - epochs * SETTLE_SECONDS
            return snapshots, seconds, " ".join(f"{float(share):.2f}" for share in busy)
        finally:
            end_process(process)
            process.stdin.close()
            process.stdout.close()


def snapshot(mounted, source, log):
    reads = log.read_text().count("\n") if log.exists() else 0
    counts = source.counts()
    return mounted.stat()["mount"] | {"source_opens": counts["opens"], "source_bytes": counts["read_bytes"],
                                      "reads": reads}


def figures(row, snapshots, reads, sizes, capacity, said):
    """`bare`: each read opens its file at the source. `minimum`: what a cache of the same size would fetch that knew
    all reads before."""
    fetched = snapshots[-1]["source_opens"] - snapshots[0]["source_opens"]
    fetches = minimum_fetches(reads, sizes, capacity)
    least = len(fetches)
    locks = re.findall(r"the reader's order is (\S+), epoch", said)
    found = next((number for number, each in enumerate(snapshots) if each["order_found_by"]), None)
    result = {"how": "table", "loader": row.name, "source_opens": fetched, "bare": len(reads), "minimum": least,
              "of_bare": round(fetched / len(reads), 3), "of_minimum": round(fetched / least, 3),
              "opens_by_epoch": " ".join(str(after["source_opens"] - before["source_opens"])
                                         for before, after in zip(snapshots, snapshots[1:])),
              "shares": " ".join(f"{share(*pair):.2f}" for pair in zip(snapshots, snapshots[1:])),
              "locks": len(locks), "false_locks": sum(re.search(row.right, lock) is None for lock in locks),
              "found_by": "not found"}
    known_since = 1 if row.options else found
    if known_since and known_since + 1 < len(snapshots):
        result["of_minimum_later"] = later(snapshots[known_since:], fetches)
    if row.layout == "dlio":
        read_bytes = snapshots[-1]["source_bytes"] - snapshots[0]["source_bytes"]
        least_bytes = sum(sizes[reads[at]] for at in fetches)
        result |= {"MB": round(read_bytes / 1e6), "of_minimum_bytes": round(read_bytes / least_bytes, 3)}
    if row.options:
        result["found_by"] = "told" + (", given up" if snapshots[-1]["orders_given_up"] else "")
    if found:
        now = snapshots[found]
        result |= {"found_by": f"{now['order_found_by']}: {without_folder(now['order'])}",
                   "opens": snapshots[found - 1]["reads"] + now["order_opens"]}
    return result


def later(snapshots, fetches):
    """The same from the end of the first of these epochs on: the second one since the order is known."""
    first = snapshots[0]["reads"]
    fetched = snapshots[-1]["source_opens"] - snapshots[0]["source_opens"]
    return round(fetched / max(sum(at >= first for at in fetches), 1), 3)


def without_folder(order):
    """Records of orders lie in a temporary folder."""
    return re.sub(r"(recorded:)\S*/", r"\1", order)


def share(before, after):
    """Of an epoch's reads that found their file in memory."""
    return (after["hits"] - before["hits"]) / max(after["reads"] - before["reads"], 1)


def minimum_fetches(reads, sizes, capacity):
    """Belady's: which of the reads have to be fetched. A file is not kept, or makes way, when its next read is the last
    of all."""
    next_read, later = {}, [0] * len(reads)
    for at in range(len(reads) - 1, -1, -1):
        later[at] = next_read.get(reads[at], len(reads))
        next_read[reads[at]] = at
    held, heap, used, fetches = {}, [], 0, []
    for at, path in enumerate(reads):
        if path not in held:
            fetches.append(at)
            used += sizes[path]
        held[path] = later[at]
        heapq.heappush(heap, (-later[at], path))
        while used > capacity:
            when, victim = heapq.heappop(heap)
            if held.get(victim) == -when:
                del held[victim]
                used -= sizes[victim]
    return fetches
