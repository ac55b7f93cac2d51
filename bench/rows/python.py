# SPDX-License-Identifier: Apache-2.0
"""The Python package, compared with the C++ pipeline that it stands on, and with torchvision's loader."""

import os

from harness import PYTHON, REPOSITORY, Row, need_torchvision
from rows.decode import Pipeline
from sources import SlowFs

WORKERS = 2


def run_package(bench, folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python"), "PYTHONDONTWRITEBYTECODE": "1",
                   "HEADRACE_LIBRARY": str(bench.program("headrace_capi"))}
    return bench.measure([PYTHON, REPOSITORY / "bench/python_loader.py", folder, "--threads", WORKERS, *arguments],
                         env=environment)


class PythonPipeline(Pipeline):
    name = "python-pipeline"
    bar = 0.97
    other_is_bound = True
    headrace_side = f"the Python loader, {WORKERS} threads, batches of 256, float16, data in RAM"
    other_side = "the C++ pipeline, the same samples and crops"

    def run(self, side, variant):
        if side != "headrace":
            return super().run("headrace", variant)
        delivered = self.bench.work / "delivered"
        figures = run_package(self.bench, self.folder, "--dtype", "float16", "--ram", "4G", "--delivered", delivered,
                              "--epochs", 3)
        # Of the files whose samples came; tests/python holds the batches to the C++ ones.
        figures.checksum = self.bench.sum_of(self.folder, delivered)
        return figures


class PythonTorch(Row):
    name = "python-torch"
    bar = 2.2
    cpu_bar = 0.5
    headrace_side = f"the Python loader, {WORKERS} threads, RRC + flip + normalise, batches of 256, page cache"
    other_side = f"torchvision's ImageFolder + DataLoader, {WORKERS} workers, the same"
    files = 2000
    rounds = 5

    def prepare(self):
        need_torchvision()
        self.folder = self.bench.data_set(self.bench.count(self.files, 50), photos=True)
        self.bench.warm(self.folder, self.bench.file_list(self.folder))

    def run(self, side, variant):
        return self.run_on(self.folder, side)

    def run_on(self, folder, side):
        if side == "headrace":
            figures = run_package(self.bench, folder)
        else:
            figures = self.bench.measure([PYTHON, REPOSITORY / "bench/loader.py", folder, "--workers", WORKERS,
                                          "--batch", 256])
        figures.checksum = f"{figures.samples} samples, labels {figures.extra['label_sum']}"
        return figures


class PythonLatency(PythonTorch):
    name = "python-latency"
    bar = 15
    cpu_bar = None
    headrace_side = "the Python loader on a source that answers each open and read 20 ms late"
    other_side = f"torchvision's ImageFolder + DataLoader, {WORKERS} workers, on the same source"
    rounds = 3

    def run(self, side, variant):
        source = SlowFs(self.bench.program("slow_fs"), self.folder, self.bench.work / f"slow-{os.getpid()}")
        with source as slow:
            return self.run_on(slow, side)


ROWS = (PythonPipeline, PythonTorch, PythonLatency)
