# SPDX-License-Identifier: Apache-2.0
"""Records of one large file, read through the mount and from the source."""

import os
import random
import statistics

from harness import PYTHON, REPOSITORY, Mount, Row, judge
from sources import CannotRun, SlowFs, need_root

MIB = 1 << 20
SEED = 1  # both sides read the same records


class RecordsUnknown(Row):
    """Nothing to gain: no order is known, nothing is held, and each record is read once."""
    name = "records-unknown"
    bar = 0.97
    source_bytes_bar = 1.05  # most of the other side's bytes of the source that are allowed
    variants = ("memmap 8 KiB", "pread 24 KiB")
    headrace_side = "random records of one file through the mount, order unknown, RAM a quarter of the file"
    other_side = "the same reader on the source: 5 ms per open and per read; at most 1.05 of its bytes"

    def prepare(self):
        need_root("drop the page cache")
        try:
            self.bench.execute([PYTHON, "-c", "import numpy"])
        except Exception as error:
            raise CannotRun("the package python3-numpy is missing") from error
        self.file_mib = self.bench.count(512, 128)
        self.records = self.bench.count(600, 40)
        self.folder = self.make_pack()
        mountpoint = self.bench.work / f"slow-{os.getpid()}"
        self.stack.callback(lambda: mountpoint.is_dir() and mountpoint.rmdir())
        self.slow = SlowFs(self.bench.program("slow_fs"), self.folder, mountpoint, open_ms=5, read_ms=5)
        self.source = self.stack.enter_context(self.slow)

    def make_pack(self):
        """A file of bytes that differ everywhere."""
        folder = self.bench.data / f"pack-{self.file_mib}"
        pack = folder / "pack.bin"
        if not pack.exists() or pack.stat().st_size != self.file_mib * MIB:
            folder.mkdir(parents=True, exist_ok=True)
            numbers = random.Random(1)
            with open(pack, "wb") as file:
                for _ in range(self.file_mib):
                    file.write(numbers.randbytes(MIB))
        return folder

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
        figures = self.bench.measure([PYTHON, REPOSITORY / "bench/record_reader.py", folder / "pack.bin", how,
                                      int(kibibytes) << 10, self.records, SEED], daemons)
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
