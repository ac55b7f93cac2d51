# SPDX-License-Identifier: Apache-2.0
"""Decoding, compared with plain libjpeg-turbo, with torchvision, and with its own rate on one thread.

All in C++ is bench/decode_compare.cpp, which holds the files in memory before the clock starts. Its checksum is over
the files, as read_files --sum has it; with `full` over the pixels, so that both sides are held to the same images.
"""

import json
import shutil

from harness import PYTHON, REPOSITORY, Row, figures_of
from sources import CannotRun

WORKERS = 2
MAKE_PROGRESSIVE = """
import sys
from pathlib import Path
from PIL import Image
source, target = map(Path, sys.argv[1:])
for file in source.rglob("*.jpg"):
    made = target / file.relative_to(source)
    made.parent.mkdir(parents=True, exist_ok=True)
    Image.open(file).save(made, quality="keep", progressive=True)
"""


class DecodeRow(Row):
    def prepare(self):
        self.folder = self.bench.data_set(self.bench.count(2000, 50), photos=True)
        self.samples = self.bench.file_list(self.folder)

    def command(self, work, *arguments):
        return [self.bench.program("decode_compare"), self.folder, self.samples, work, *arguments]

    def native(self, work, *arguments):
        return self.bench.measure(self.command(work, *arguments))


class DecodeFull(DecodeRow):
    name = "decode-full"
    bar = 0.97
    headrace_side = "the decoder, JPEG bytes in memory to RGB, 1 thread"
    other_side = "a plain libjpeg-turbo loop over the same bytes, 1 thread"

    def run(self, side, variant):
        return self.native("full", "--side", "headrace" if side == "headrace" else "plain")

    def run_round(self, number, variant):
        """Both sides in one program, which lets them take turns at each file: they do the same work in nearly the same
        time, and a machine that is not at rest would show more of a difference between two runs than they do."""
        output, usage = self.bench.run_program(self.command("full", "--side", "both", "--passes", 1))
        return {side: figures_of(json.loads(line), usage) for side, line in zip(self.sides, output.splitlines())}


class DecodeCrop(DecodeRow):
    name = "decode-crop"
    bar = 1.7
    headrace_side = "crops of RandomResizedCrop with an index, JPEG bytes in memory to RGB, 1 thread, CPU time"
    other_side = "libjpeg-turbo's skipping and cropping, the same crops, 1 thread, CPU time"
    work = ("crop", "--against", "skip")

    def prepare(self):
        super().prepare()
        self.crops = self.bench.work / f"{self.folder.name}.crops"
        self.bench.execute(self.command("draw", "--crops", self.crops))

    def run_round(self, number, variant):
        """As in decode-full."""
        command = self.command(*self.work, "--crops", self.crops, "--passes", 1)
        output, usage = self.bench.run_program(command)
        return {side: figures_of(json.loads(line), usage) for side, line in zip(self.sides, output.splitlines())}


class DecodeCropFull(DecodeCrop):
    name = "decode-crop-full"
    bar = 2.3
    other_side = "whole images through plain libjpeg-turbo, 1 thread, CPU time"
    work = ("crop", "--against", "full")


class DecodeCropFirst(DecodeCrop):
    name = "decode-crop-first"
    bar = 0.98
    headrace_side = "crops of RandomResizedCrop as the first decode of each file, which makes its index, CPU time"
    other_side = "the same without any index, CPU time"
    work = ("crop-first",)


class DecodeCropProgressive(DecodeCrop):
    name = "decode-crop-progressive"
    bar = 1.7
    headrace_side = "crops of RandomResizedCrop of progressive files, from the baseline files kept of them, CPU time"
    other_side = "libjpeg-turbo's skipping and cropping of the progressive files, the same crops, CPU time"

    def prepare(self):
        super().prepare()
        self.folder = self.progressive(self.folder)
        self.samples = self.bench.file_list(self.folder)
        kept = self.bench.work / "baselines"
        shutil.rmtree(kept, ignore_errors=True)
        self.work = (*DecodeCrop.work, "--index-folder", kept)
        self.crops = self.bench.work / f"{self.folder.name}.crops"
        self.bench.execute(self.command("draw", "--crops", self.crops))

    def progressive(self, folder):
        """The same pictures, whose coefficients are the same, in progressive files."""
        made = folder.with_name(folder.name + "-progressive")
        if not made.exists():
            partial = made.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            self.bench.execute([PYTHON, "-c", MAKE_PROGRESSIVE, folder, partial])
            partial.rename(made)
        return made


class DecodeRrc(DecodeRow):
    name = "decode-rrc"
    bar = 3.3
    headrace_side = "RandomResizedCrop(224) with an index, flip, normalise, float16 NCHW, 1 thread"
    other_side = "torchvision's transforms on PIL, the same crops, 1 thread"
    work = "rrc"

    def prepare(self):
        super().prepare()
        self.checksum = self.bench.sum_of(self.folder, self.samples)
        self.crops = self.bench.work / f"{self.folder.name}.crops"
        self.bench.execute(self.command("draw", "--crops", self.crops))

    def torchvision(self):
        program = REPOSITORY / "bench/torch_transform.py"
        return self.bench.measure([PYTHON, program, self.folder, self.samples, self.crops])

    def run(self, side, variant):
        if side == "headrace":
            return self.native(self.work, "--crops", self.crops)
        figures = self.torchvision()
        # The two resize with filters that differ in the last bits, so that only the input can be the same; the tests of
        # decode bound the difference of the output.
        figures.checksum = self.checksum
        return figures


class DecodeRrcFirst(DecodeRrc):
    name = "decode-rrc-first"
    bar = 2.5
    headrace_side = "as decode-rrc, but the first decode of each file, which makes its index"
    work = "rrc-first"


class Pipeline(DecodeRrc):
    name = "pipeline"
    bar = 0.95
    other_is_bound = True
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


ROWS = (DecodeFull, DecodeCrop, DecodeCropFull, DecodeCropFirst, DecodeCropProgressive, DecodeRrc, DecodeRrcFirst,
        Pipeline)
