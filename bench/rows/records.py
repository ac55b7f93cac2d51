# SPDX-License-Identifier: Apache-2.0
"""Records of one large file, read through the mount and from the source."""

import os
import random
import statistics
import tempfile
from pathlib import Path

from harness import PYTHON, REPOSITORY, Mount, Row, judge
from sources import CannotRun, Failed, SlowFs, need_root

READER = (PYTHON, REPOSITORY / "bench/record_reader.py")
FILES = {"memmap": "pack.bin", "pread": "pack.bin", "npy": "pack.npy", "h5py": "pack.h5", "lmdb": "data.mdb",
         "lmdb-readahead": "data.mdb", "arrow": "train.arrow", "weights": "model"}
SEED = 1  # both sides read the same records


def hold(folder):
    """In the page cache."""
    for pack in folder.iterdir():
        with open(pack, "rb", buffering=0) as file:
            while file.read(8 << 20):
                pass


class RecordsRow(Row):
    """Records of packs on a source that answers late."""
    variants = ()
    needs = {"memmap": "numpy", "pread": "numpy", "npy": "numpy", "h5py": "h5py", "lmdb": "lmdb",
             "lmdb-readahead": "lmdb", "arrow": "numpy", "weights": "numpy"}

    def prepare(self):
        need_root("drop the page cache")
        self.variants = tuple(variant for variant in self.variants if self.has_library(variant))
        if not self.variants:
            raise CannotRun("the package python3-numpy is missing")
        self.file_mib = self.bench.count(512, 128)
        self.records = self.bench.count(600, 40)
        self.mapped_records = self.bench.count(60, 10)  # of LMDB, each of which takes 27 reads of the source
        folder = self.bench.data / self.folder_name()
        for variant in self.variants:
            self.make_pack(folder, variant)
        mountpoint = self.bench.work / f"slow-{os.getpid()}"
        self.stack.callback(lambda: mountpoint.is_dir() and mountpoint.rmdir())
        self.slow = SlowFs(self.bench.program("slow_fs"), folder, mountpoint, open_ms=5, read_ms=5)
        self.source = self.stack.enter_context(self.slow)

    def folder_name(self):
        return f"packs-{self.file_mib}"

    def forget(self):
        """The reader's machine has nothing of the packs; the source has them in its memory, as a server that many read
        from: its own disk would be read by one thread (slow_fs), and be what all records wait for."""
        self.bench.drop_caches()
        hold(self.bench.data / self.folder_name())

    def has_library(self, variant):
        library = self.needs[variant.split()[0]]
        try:
            self.bench.execute([PYTHON, "-c", f"import {library}"])
        except Failed:
            print(f"{self.name}, {variant}: left out, the package python3-{library} is missing")
            return False
        return True

    def make_pack(self, folder, variant):
        how, kibibytes, _ = variant.split()
        file = FILES[how]
        if (folder / file).exists():
            return
        with tempfile.TemporaryDirectory(dir=self.bench.data) as partial:
            self.bench.execute([*READER, partial, how, int(kibibytes) << 10, "--make", self.file_mib])
            folder.mkdir(parents=True, exist_ok=True)
            (Path(partial) / file).rename(folder / file)


class RecordsUnknown(RecordsRow):
    """Nothing to gain: no order is known, nothing is held, and each record is read once."""
    name = "records-unknown"
    bar = 0.97
    source_bytes_bar = 1.05  # most of the other side's bytes of the source that are allowed
    variants = ("memmap 8 KiB", "pread 24 KiB", "npy 8 KiB", "h5py 24 KiB", "lmdb 105 KiB")
    headrace_side = "random records of one file through the mount, order unknown, RAM a quarter of the file"
    other_side = "the same reader on the source: 5 ms per open and per read; at most 1.05 of its bytes"

    def run(self, side, variant):
        if side == "other":
            self.forget()
            return self.read(self.source, variant, ())
        options = ["--ram", f"{self.file_mib // 4}M"]
        with Mount(self.bench, self.source, *options) as mount:
            self.forget()
            return self.read(mount.path, variant, [mount.pid])

    def read(self, folder, variant, daemons):
        how, kibibytes, _ = variant.split()
        before = self.slow.counts()["read_bytes"]
        count = self.mapped_records if how == "lmdb" else self.records
        figures = self.bench.measure([*READER, folder, how, int(kibibytes) << 10, count, SEED], daemons)
        figures.extra["source_bytes"] = self.slow.counts()["read_bytes"] - before
        return figures

    def judge(self, variant, runs):
        result = judge(self, variant, runs)
        ours, theirs = (runs[side] for side in self.sides)
        ratio = statistics.median(mine.extra["source_bytes"] / other.extra["source_bytes"]
                                  for mine, other in zip(ours, theirs))
        print(f"  bytes of the source, {variant}: {ratio:.3f} of the other side's (at most {self.source_bytes_bar})")
        result.met = result.met and ratio <= self.source_bytes_bar
        return result


class RecordsKnown(RecordsRow):
    """Each record lies in the page cache when its turn comes. Every byte is compared with the pack itself."""
    headrace_side = "records of one file through the mount, order known, RAM a quarter of the file"
    other_side = "the same reader on the source: 5 ms per open and per read"
    all_records = 0  # how many headrace reads of a pack of 512 MiB: the other side would take minutes for these

    def folder_name(self):
        return f"pack-{self.file_mib}-{self.variants[0].split()[0].removesuffix('-readahead')}"

    def prepare(self):
        super().prepare()
        how, kibibytes, _ = self.variants[0].split()
        count = (self.file_mib << 10) // int(kibibytes)
        self.list = self.bench.work / f"{self.name}.list"
        numbers = random.Random(SEED).sample(range(count), count)
        self.list.write_text("".join(f"{number}\n" for number in numbers), encoding="utf-8")
        self.count = self.bench.count(self.all_records, self.all_records // 8)
        pack = self.bench.data / self.folder_name()
        self.truth = self.read(pack, self.variants[0], self.count, ()).extra["all"]

    def run(self, side, variant):
        checked = self.mapped_records if variant.startswith("lmdb ") else self.records
        if side == "other":
            self.forget()
            return self.read(self.source, variant, checked, ())
        how, kibibytes, _ = variant.split()
        records = f"stride={int(kibibytes) << 10}" if how == "memmap" else "auto"
        options = ["--ram", f"{self.file_mib // 4}M", "--records", records, "--order", f"file:{self.list}"]
        self.forget()  # before: what was pushed would go, too
        with Mount(self.bench, self.source, *options) as mount:
            figures = self.read(mount.path, variant, self.count, [mount.pid], checked)
        if figures.extra["all"] != self.truth:
            raise Failed(f"{self.name}: records through the mount differ from those of the pack")
        return figures

    def read(self, folder, variant, count, daemons, checked=None):
        how, kibibytes, _ = variant.split()
        command = [*READER, folder, how, int(kibibytes) << 10, count, self.list, checked or count]
        return self.bench.measure(command, daemons)


class RecordsMemmap(RecordsKnown):
    name = "records-memmap"
    bar = 100
    variants = ("memmap 8 KiB",)
    all_records = 48_000


class RecordsLmdb(RecordsKnown):
    name = "records-lmdb"
    bar = 500
    variants = ("lmdb 105 KiB",)
    all_records = 4_000


class RecordsHdf5(RecordsKnown):
    name = "records-hdf5"
    bar = 50
    variants = ("h5py 24 KiB",)
    all_records = 16_000


class RecordsLmdbDefault(RecordsKnown):
    name = "records-lmdb-default"
    bar = 50
    variants = ("lmdb-readahead 105 KiB",)
    all_records = 4_000


class RecordsLearned(RecordsRow):
    """The second and the third epoch of an order that the mount was told, or has found out during the first."""
    name = "records-learned"
    bar = 0.9
    variants = ("memmap 8 KiB",)
    order = "torch-distributed:seed=1234"
    epochs = 3
    headrace_side = "records of one file through the mount, order found out, RAM a quarter of the file; from epoch 2 on"
    other_side = "the same with the order told"

    def prepare(self):
        super().prepare()
        self.list = self.bench.work / f"{self.name}.list"
        numbers = [self.bench.execute([self.bench.program("headrace"), "order", self.bench.data / self.folder_name(),
                                       "--records", "stride=8192", "--order", self.order, "--epoch", epoch,
                                       "--print", "index"]) for epoch in range(self.epochs)]
        self.list.write_text("".join(numbers), encoding="utf-8")
        self.epoch_records = len(numbers[0].split())

    def folder_name(self):
        self.file_mib = self.bench.count(128, 32)
        return f"pack-{self.file_mib}-memmap"

    def run(self, side, variant):
        options = ["--ram", f"{self.file_mib // 4}M", "--records", "stride=8192"]
        options += ["--order", self.order] if side == "other" else []
        self.forget()
        with Mount(self.bench, self.source, *options) as mount:
            count = self.epochs * self.epoch_records
            command = [*READER, mount.path, "memmap", 8192, count, self.list, count, self.epoch_records]
            figures = self.bench.measure(command, [mount.pid])
            figures.extra["order"] = mount.stat()["mount"]["order"]
        return figures


class ArrowOpen(RecordsRow):
    """Opening a file that takes a small read for each of its parts, once more."""
    name = "arrow-open"
    bar = 10
    variants = ("arrow 256 KiB",)
    headrace_side = "opening an Arrow stream file, whose 10 000 batches have a header each, in the second mount"
    other_side = "the same in the first mount; the source answers after 5 ms"
    rounds = 3

    def folder_name(self):
        self.file_mib = self.bench.count(2500, 100)
        return f"pack-{self.file_mib}-arrow"

    def prepare(self):
        super().prepare()
        self.forget_openings()  # of a source of before

    def profiles(self):
        return list((self.bench.work / "cache").glob("*.opening"))

    def forget_openings(self):
        for profile in self.profiles():
            profile.unlink()

    def run(self, side, variant):
        if side == "other":
            self.forget_openings()
        elif not self.profiles():
            self.open_once(variant)
        return self.open_once(variant)

    def open_once(self, variant):
        self.forget()
        with Mount(self.bench, self.source, "--ram", "128M") as mount:
            count = (self.file_mib << 20) // (256 << 10)
            figures = self.bench.measure([*READER, mount.path, "arrow", 256 << 10, count, SEED], [mount.pid])
            figures.extra["opening_reads"] = mount.stat()["mount"]["opening_reads"]
        return figures


class RecordsHeld(RecordsRow):
    """All records lie in the page cache. The seconds are the median of a record's time, once for each record."""
    name = "records-held"
    bar = 1 / 1.4
    other_is_bound = True
    variants = ("memmap 8 KiB", "pread 24 KiB", "h5py 24 KiB", "lmdb 105 KiB")
    headrace_side = "random records through the mount, all of them held, order known"
    other_side = "the same on a file system whose page cache holds all"

    def prepare(self):
        need_root("drop the page cache")
        self.variants = tuple(variant for variant in self.variants if self.has_library(variant))
        if not self.variants:
            raise CannotRun("the package python3-numpy is missing")
        self.file_mib = self.bench.count(512, 128)
        for variant in self.variants:
            self.make_pack(self.folder(variant), variant)
            count = (self.file_mib << 10) // int(variant.split()[1]) - 1  # LMDB has none of the last one
            numbers = random.Random(SEED).sample(range(count), min(count, self.bench.count(20_000, 1000)))
            self.list(variant).write_text("".join(f"{number}\n" for number in numbers), encoding="utf-8")

    def folder(self, variant):
        return self.bench.data / f"pack-{self.file_mib}-{variant.split()[0]}"

    def list(self, variant):
        return self.bench.work / f"{self.name}-{variant.split()[0]}.list"

    def run(self, side, variant):
        how, kibibytes, _ = variant.split()
        count = len(self.list(variant).read_text(encoding="utf-8").split())
        command = [how, int(kibibytes) << 10, count, self.list(variant)]
        folder = self.folder(variant)
        if side == "other":
            self.fill(folder)
            figures = self.bench.measure([*READER, folder, *command])
        else:
            records = f"stride={int(kibibytes) << 10}" if how in ("memmap", "pread") else "auto"
            options = ["--ram", f"{2 * self.file_mib}M", "--records", records, "--order", f"file:{self.list(variant)}"]
            self.bench.drop_caches()
            with Mount(self.bench, folder, *options) as mount:
                mount.push_everything()
                before = reads_of(mount)
                figures = self.bench.measure([*READER, mount.path, *command], [mount.pid])
                figures.extra["reads"] = reads_of(mount) - before
        figures.seconds = figures.extra["p50_seconds"] * figures.samples
        return figures

    def judge(self, variant, runs):
        reads = statistics.median(run.extra["reads"] for run in runs["headrace"])
        print(f"  {variant}: {reads:.0f} READs for {runs['headrace'][0].samples} records")
        return judge(self, variant, runs)


    def fill(self, folder):
        hold(folder)


class RecordsHeldPages(RecordsHeld):
    """What is left where both hold their pages in the same way: no FUSE file system has larger folios."""
    name = "records-held-pages"
    bar = 0.95
    rounds = 3
    other_side = "the same on a file system whose page cache was filled page by page, as FUSE has it"

    def fill(self, folder):
        self.bench.warm_by_pages(folder)


def reads_of(mount):
    return sum(wait["count"] for wait in mount.stat()["mount"]["read_waits"])


class RecordsWorkers(RecordsKnown):
    """Workers of a torch DataLoader. What they can do at most is what they do where all records are held: that is less
    than the source and the pusher can do."""
    name = "records-workers"
    bar = 0.75
    workers = 4
    other_is_bound = True
    variants = ("lmdb 105 KiB",)
    all_records = 4_000
    headrace_side = "records of one file through the mount by 4 workers, order known, RAM a quarter of the file, 5 ms"
    other_side = "the same on a file system whose page cache holds all"

    def prepare(self):
        super().prepare()
        try:
            self.bench.execute([PYTHON, "-c", "import torch.utils.data"])
        except Failed as error:
            raise CannotRun("the package python3-torch is missing") from error

    def run(self, side, variant):
        if side == "headrace":
            return super().run(side, variant)
        pack = self.bench.data / self.folder_name()
        hold(pack)
        return self.read(pack, variant, self.count, ())

    def read(self, folder, variant, count, daemons, checked=None):
        how, kibibytes, _ = variant.split()
        command = [*READER, folder, how, int(kibibytes) << 10, count, self.list, count, 0, self.workers]
        return self.bench.measure(command, daemons)


class Weights(RecordsRow):
    """A model that is loaded once, when nothing is known of it."""
    name = "weights"
    bar = 10
    variants = ("weights 16384 KiB",)
    headrace_side = "tensors of 8 mapped shards, copied one after the other, through the mount"
    other_side = "the same on the source: 5 ms per open and per read"
    rounds = 3

    def folder_name(self):
        self.file_mib = self.bench.count(1024, 128)
        return f"weights-{self.file_mib}"

    def prepare(self):
        super().prepare()
        self.count = self.file_mib // 16
        self.list = self.bench.work / f"{self.name}.list"
        self.list.write_text("".join(f"{number}\n" for number in range(self.count)), encoding="utf-8")

    def forget(self):
        self.bench.drop_caches()

    def run(self, side, variant):
        self.forget()
        command = ["weights", 16 << 20, self.count, self.list]
        if side == "other":
            return self.bench.measure([*READER, self.source, *command])
        with Mount(self.bench, self.source, "--ram", f"{2 * self.file_mib}M") as mount:
            return self.bench.measure([*READER, mount.path, *command], [mount.pid])


ROWS = (RecordsUnknown, RecordsMemmap, RecordsLmdb, RecordsLmdbDefault, RecordsHdf5, RecordsLearned,
        RecordsWorkers, RecordsHeld, RecordsHeldPages, ArrowOpen, Weights)
