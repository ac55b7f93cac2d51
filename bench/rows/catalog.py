# SPDX-License-Identifier: Apache-2.0
"""The catalog: loading a saved one of a million files, and scanning a tree against find."""

import json
import time

from harness import Figures, Row
from sources import need_root

FILES = 1_000_000
SECONDS_BAR, BYTES_BAR = 1.0, 100


class Catalog(Row):
    """catalog_compare makes (once), saves and loads a catalog, and prints files, seconds, memory_bytes_per_file.

    The other side is the bar itself, so that the ratio says how far below it headrace is.
    """
    name = "catalog"
    bar = 1.0
    other_is_bound = True
    variants = ("load time", "memory")
    headrace_side = f"load a saved catalog of {FILES} files"
    other_side = f"the bounds: {SECONDS_BAR:g} s, {BYTES_BAR} bytes of memory per file"

    def run(self, side, variant):
        bound = SECONDS_BAR if variant == "load time" else BYTES_BAR
        if side == "other":
            return Figures(samples=FILES, seconds=bound, checksum="catalog")
        files = self.bench.count(FILES, FILES // 10)
        command = [self.bench.program("catalog_compare"), self.bench.work / f"catalog-{files}", "--files", files]
        result = json.loads(self.bench.execute(command).strip().splitlines()[-1])
        taken = result["seconds"] * FILES / files if variant == "load time" else result["memory_bytes_per_file"]
        return Figures(samples=FILES, seconds=taken, checksum="catalog", extra=result)


class Scan(Row):
    """Names and attributes of every file of a cold tree. find prints what a catalog keeps of each."""
    name = "scan"
    bar = 1.0
    headrace_side = "scan of a cold tree of 100 000 files"
    other_side = "find -printf of the same"

    def prepare(self):
        need_root("drop the page cache")
        self.files = self.bench.count(100_000, 2_000)
        self.tree = self.bench.work / f"tree-{self.files}"
        if not self.tree.exists():
            partial = self.tree.with_suffix(".partial")
            for i in range(self.files):
                folder = partial / f"n{i * 100 // self.files:08}"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{folder.name}_{i}.JPEG").touch()
            partial.rename(self.tree)

    def run(self, side, variant):
        self.bench.drop_caches()
        if side == "headrace":
            return self.bench.measure([self.bench.program("catalog_compare"), "--scan", self.tree])
        start = time.perf_counter()
        found = self.bench.execute(["find", self.tree, "-type", "f", "-printf", "%P %s %T@ %i %m %U %G\\n"])
        return Figures(samples=found.count("\n"), seconds=time.perf_counter() - start, checksum=str(found.count("\n")))


ROWS = (Catalog, Scan)
