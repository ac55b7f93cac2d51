#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Image decoders side by side, on one thread and on two: JPEG files in memory to RGB, and to training tensors.

    bench/decoders.py                     one JSON line per decoder, work and number of threads
    bench/decoders.py --rounds 5 --work DIR

"full" decodes whole images. "crop" is RandomResizedCrop(224) with the same crops for all, flip and normalise, to
float16 in planes; each peer does it with what it has (peer_decoders.py, sharp_decoder.js say how). A line has name,
work, threads, images_per_s and cpu_s_per_1000: medians over the rounds, in which the decoders take turns. A peer that
is not installed is a line with `left_out`, the reason. sharp comes from npm into the work folder.
"""

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import harness  # noqa: E402 (after the path is set)
from sources import CannotRun, Failed, end_on_sigterm  # noqa: E402

HERE = Path(__file__).resolve().parent
THREADS = (1, 2)
WORKS = ("full", "crop")
SHARP_VERSION = "0.35.5"  # of 2026-11; brings its own libvips and mozjpeg
PACKAGES = {"PIL": "pil", "torchvision": "torchvision", "cv2": "opencv"}
NPM_SECONDS_MAX = 180     # a 20 MB download; without a network npm would try for longer


class Decoder:
    """A way to decode.

    `command(bench, data, work, threads)`: a program that prints one JSON line as bench/compare's sides do.
    `need(bench)` raises CannotRun where something is missing; `environment(threads)`: variables for the program.
    """

    def __init__(self, name, works, command, need=None, environment=None):
        self.name, self.works, self.command, self.need = name, works, command, need
        self.environment = environment or (lambda threads: {})

    def run(self, bench, data, work, threads):
        environment = os.environ | self.environment(threads)
        return bench.measure(self.command(bench, data, work, threads), env=environment)

    def missing(self, bench):
        """Why it cannot run; None if it can."""
        try:
            if self.need:
                self.need(bench)
        except CannotRun as reason:
            return str(reason)
        return None


class Data:
    """The files, and the crop of each."""

    def __init__(self, bench):
        self.folder = bench.data_set(bench.count(2000, 200), photos=True)
        names = bench.file_list(self.folder).read_text(encoding="utf-8").splitlines()
        self.samples = bench.work / "decoders.list"
        self.samples.write_text("".join(name + "\n" for name in names[:bench.count(1000, 50)]), encoding="utf-8")
        self.crops = bench.work / "decoders.crops"
        bench.execute([bench.program("decode_compare"), self.folder, self.samples, "draw", "--crops", self.crops])

    def arguments(self):
        return [self.folder, self.samples]


def native(side):
    def command(bench, data, work, threads):
        chosen = ["full", "--side", side] if work == "full" else ["rrc", "--crops", data.crops]
        return [bench.program("decode_compare"), *data.arguments(), *chosen, "--threads", threads, "--passes", 1]
    return command


def python(peer):
    def command(_bench, data, work, threads):
        return [harness.PYTHON, HERE / "peer_decoders.py", peer, work, *data.arguments(), data.crops, threads]
    return command


def sharp(full, crop):
    def command(bench, data, work, threads):
        chosen = full if work == "full" else crop
        return ["node", HERE / "sharp_decoder.js", bench.work / "sharp", chosen, *data.arguments(), data.crops, threads]
    return command


def need_sharp(bench):
    """Installs sharp below the work folder, once. Raises CannotRun."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise CannotRun(f"{program} is not installed")
    folder = bench.work / "sharp"
    if (folder / "node_modules/sharp").is_dir():
        return
    if bench.quick:
        raise CannotRun("sharp is not in the work folder yet, and --quick downloads nothing")
    folder.mkdir(exist_ok=True)
    package = {"private": True, "dependencies": {"sharp": SHARP_VERSION}}
    (folder / "package.json").write_text(json.dumps(package), encoding="utf-8")
    print(f"installing sharp {SHARP_VERSION} in {folder}", file=sys.stderr, flush=True)
    try:
        subprocess.run(["npm", "install", "--no-fund", "--no-audit"], cwd=folder, timeout=NPM_SECONDS_MAX, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise CannotRun("npm cannot install sharp") from error


def need_modules(*names):
    def need(_bench):
        for name in names:
            if importlib.util.find_spec(name) is None:
                raise CannotRun(f"Debian's Python has no {name}: python3-{PACKAGES[name]}")
    return need


DECODERS = (
    Decoder("headrace", WORKS, native("headrace")),
    Decoder("libjpeg-turbo", ("full",), native("plain")),
    Decoder("PIL, torchvision", WORKS, python("pil"), need_modules("PIL", "torchvision")),
    Decoder("PIL, draft mode", ("crop",), python("pil-draft"), need_modules("PIL", "torchvision")),
    Decoder("torchvision decode_jpeg", WORKS, python("torchvision"), need_modules("torchvision")),
    # Also what FFCV does: the whole image, then the crop, by these libraries.
    Decoder("OpenCV imdecode", WORKS, python("opencv"), need_modules("cv2")),
    Decoder("OpenCV, reduced", ("crop",), python("opencv-reduced"), need_modules("cv2")),
    # libuv's threads are what sharp runs on; it reads their number at the start.
    Decoder("sharp", WORKS, sharp("full", "crop"), need_sharp, lambda threads: {"UV_THREADPOOL_SIZE": str(threads)}),
    Decoder("sharp, shrink on load", ("crop",), sharp("full", "shrink"), need_sharp,
            lambda threads: {"UV_THREADPOOL_SIZE": str(threads)}),
)


def check_same_pixels(name, runs, expected):
    """Every decoder has to come to the same number of pixels, or it did something else."""
    for run in runs:
        pixels = run.extra.get("pixels")
        if pixels is not None and pixels != expected:
            raise Failed(f"{name} made {pixels} pixels, headrace {expected}")


def row(decoder, work, threads, runs):
    return {"name": decoder.name, "work": work, "threads": threads,
            "images_per_s": round(harness.median_of(runs, "rate"), 1),
            "cpu_s_per_1000": round(statistics.median(run.cpu_per_1000 for run in runs), 3)}


def measure(bench, rounds=3):
    """[{"name", "work", "threads", "images_per_s", "cpu_s_per_1000"} or {"name", "left_out"}]

    Raises CannotRun (no photographs), Failed.
    """
    data = Data(bench)
    left_out = {decoder.name: decoder.missing(bench) for decoder in DECODERS}
    rows = [{"name": name, "left_out": reason} for name, reason in left_out.items() if reason]
    ready = [decoder for decoder in DECODERS if not left_out[decoder.name]]
    for work in WORKS:
        for threads in bench.count(THREADS, THREADS[-1:]):
            chosen = [decoder for decoder in ready if work in decoder.works]
            runs = {decoder.name: [] for decoder in chosen}
            for _ in range(1 if bench.quick else rounds):
                for decoder in chosen:
                    runs[decoder.name].append(decoder.run(bench, data, work, threads))
            for decoder in chosen:
                check_same_pixels(decoder.name, runs[decoder.name], runs["headrace"][0].extra.get("pixels"))
                rows.append(row(decoder, work, threads, runs[decoder.name]))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", default="/var/tmp/headrace-bench", help="keeps the data for the next call")
    parser.add_argument("--build", help="a build folder to measure (default: builds the release preset)")
    parser.add_argument("--quick", action="store_true", help="few files and one round: only shows that it runs")
    arguments = parser.parse_args()
    end_on_sigterm()
    try:
        for line in measure(harness.Bench(arguments.work, arguments.build, arguments.quick), arguments.rounds):
            print(json.dumps(line), flush=True)
    except CannotRun as reason:
        print(f"decoders could not run: {reason}")
        return 2
    except Failed as failure:
        print(f"decoders failed: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
