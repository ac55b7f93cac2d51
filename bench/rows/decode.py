# SPDX-License-Identifier: Apache-2.0
"""Decoding, compared with plain libjpeg-turbo, with torchvision, and with its own rate on one thread.

The sides in C++ are one program, bench/decode_compare.cpp:

    decode_compare FOLDER LIST full --side headrace|plain
    decode_compare FOLDER LIST rrc --crops CROPS
    decode_compare FOLDER LIST pipeline --workers 2 --batch 256

It reads the listed files into memory first, works on them on one thread (pipeline: --workers), and prints a JSON line
with samples, bytes, seconds, cpu_seconds and xxh3 (over the files, as read_files --sum).
"""

from harness import PYTHON, REPOSITORY, Row
from sources import CannotRun

WORKERS = 2


class DecodeRow(Row):
    def prepare(self):
        self.folder = self.bench.data_set(self.bench.count(2000, 200), photos=True)
        self.samples = self.bench.file_list(self.folder)
        self.checksum = self.bench.sum_of(self.folder, self.samples)

    def native(self, *arguments):
        return self.bench.measure([self.bench.program("decode_compare"), self.folder, self.samples, *arguments])


class DecodeFull(DecodeRow):
    name = "decode-full"
    bar = 0.97
    headrace_side = "the decoder, JPEG bytes in memory to RGB, 1 thread"
    other_side = "a plain libjpeg-turbo loop over the same bytes, 1 thread"

    def run(self, side, variant):
        return self.native("full", "--side", "headrace" if side == "headrace" else "plain")


class DecodeRrc(DecodeRow):
    name = "decode-rrc"
    bar = 2.2
    headrace_side = "RandomResizedCrop(224), flip, normalise, float16 NCHW, 1 thread"
    other_side = "torchvision's transforms on PIL, the same crops, 1 thread"

    def prepare(self):
        super().prepare()
        self.crops = self.bench.work / f"{self.folder.name}.crops"
        if not self.crops.exists():
            self.torch("draw")

    def torch(self, action):
        command = [PYTHON, REPOSITORY / "bench/torch_transform.py", action, self.folder, self.samples, self.crops]
        return self.bench.execute(command) if action == "draw" else self.bench.measure(command)

    def run(self, side, variant):
        if side == "headrace":
            return self.native("rrc", "--crops", self.crops)
        figures = self.torch("run")
        figures.checksum = self.checksum
        return figures


class Pipeline(DecodeRrc):
    name = "pipeline"
    bar = 0.95
    headrace_side = f"reader, decode queue, {WORKERS} workers, batches of 256, data in RAM"
    other_side = f"{WORKERS} x the 1-thread rate of decode-rrc"

    def prepare(self):
        super().prepare()
        if self.bench.cores() < WORKERS:
            raise CannotRun(f"needs {WORKERS} cores")

    def run(self, side, variant):
        if side == "headrace":
            return self.native("pipeline", "--workers", WORKERS, "--batch", 256)
        figures = self.native("rrc", "--crops", self.crops)
        figures.seconds /= WORKERS
        return figures


ROWS = (DecodeFull, DecodeRrc, Pipeline)
