# SPDX-License-Identifier: Apache-2.0
"""Loading a saved catalog of a million files: no other side, two bounds."""

import json

from harness import Figures, Row

FILES = 1_000_000
SECONDS_BAR, BYTES_BAR = 1.0, 100


class Catalog(Row):
    """catalog_bench makes (once), saves and loads a catalog, and prints files, seconds, memory_bytes_per_file.

    The other side is the bar itself, so that the ratio says how far below it headrace is.
    """
    name = "catalog"
    bar = 1.0
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


ROWS = (Catalog,)
