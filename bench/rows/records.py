# SPDX-License-Identifier: Apache-2.0
"""Records of one large file, read through the mount and from the source."""

import os
import statistics
import tempfile
from pathlib import Path

from harness import PYTHON, REPOSITORY, Mount, Row, judge
from sources import CannotRun, Failed, SlowFs, need_root

READER = (PYTHON, REPOSITORY / "bench/record_reader.py")
FILES = {"memmap": "pack.bin", "pread": "pack.bin", "npy": "pack.npy", "h5py": "pack.h5", "lmdb": "data.mdb"}
SEED = 1  # both sides read the same records


class RecordsUnknown(Row):
    """Nothing to gain: no order is known, nothing is held, and each record is read once."""
    name = "records-unknown"
    bar = 0.97
    source_bytes_bar = 1.05  # most of the other side's bytes of the source that are allowed
    variants = ("memmap 8 KiB", "pread 24 KiB", "npy 8 KiB", "h5py 24 KiB", "lmdb 105 KiB")
    needs = {"memmap": "numpy", "pread": "numpy", "npy": "numpy", "h5py": "h5py", "lmdb": "lmdb"}
    headrace_side = "random records of one file through the mount, order unknown, RAM a quarter of the file"
    other_side = "the same reader on the source: 5 ms per open and per read; at most 1.05 of its bytes"

    def prepare(self):
        need_root("drop the page cache")
        self.variants = tuple(variant for variant in self.variants if self.has_library(variant))
        if not self.variants:
            raise CannotRun("the package python3-numpy is missing")
        self.file_mib = self.bench.count(512, 128)
        self.records = self.bench.count(600, 40)
        self.mapped_records = self.bench.count(60, 10)  # of LMDB, each of which takes 27 reads of the source
        folder = self.bench.data / f"packs-{self.file_mib}"
        for variant in self.variants:
            self.make_pack(folder, variant)
        mountpoint = self.bench.work / f"slow-{os.getpid()}"
        self.stack.callback(lambda: mountpoint.is_dir() and mountpoint.rmdir())
        self.slow = SlowFs(self.bench.program("slow_fs"), folder, mountpoint, open_ms=5, read_ms=5)
        self.source = self.stack.enter_context(self.slow)

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

    def run(self, side, variant):
        if side == "other":
            self.bench.drop_caches()
            return self.read(self.source, variant, ())
        options = ["--ram", f"{self.file_mib // 4}M"]
        with Mount(self.bench, self.source, *options) as mount:
            self.bench.drop_caches()
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


ROWS = (RecordsUnknown,)
