#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What of a GPU's speed is left behind a data loader. Needs torch, torchvision and headrace's package; no compiler.

    bench/gpu.py [FOLDER]                    one JSON line per side, then one with the ratios
    bench/gpu.py --model resnet18 --json FILE --plot FILE.svg
    bench/gpu.py --slow                      and a source that answers 20 ms late

FOLDER holds JPEG files in class folders; without it 16 000 are made, of the photographs of --photos FOLDER if there is
one. The sides take turns within each round, with the
same model, batch and data; figures are medians over the rounds:

    synthetic      one batch that is on the device already, trained on again and again
    torchvision    its ImageFolder and DataLoader, page-locked batches, copied without waiting; the best of several
                   numbers of workers, unless --workers names one
    headrace       headrace.DataLoader(device=...), decoding on the CPU
    headrace-gpu   the same with decode="gpu"; alone, with four threads
    headrace-slow  headrace, from the second epoch on, from a bucket whose every answer comes 20 ms late (--slow)
    delivery       headrace on pictures that need no decoding (bitmaps of the final size)
    ...-alone      the loader without a training, of bytes where it is headrace's

A side has images_per_s, cpu_s_per_1000 (of this process and its children), the peak of the device's memory, the largest
size of this process so far, and the share of the time that the GPU was busy (as nvidia-smi says; null without it).
--device cpu tries the program itself where there is no GPU; its figures mean nothing.
"""

import argparse
import contextlib
import json
import os
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torchvision
from plot import write_bars
from torchvision import transforms

import headrace as hr
from headrace import _command

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from fault_store import ENVIRONMENT, FaultStore  # noqa: E402

MEAN, DEVIATION = hr.IMAGENET
SLOW_SECONDS = 0.02
TRANSFER_BYTES = 256 * 3 * 224 * 224  # a batch of bytes


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--side", type=int, default=224, help="of the square images, in pixels")
    parser.add_argument("--batches", type=int, default=60, help="that are timed, of each side in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=16000)
    parser.add_argument("--workers", type=int, help="of torchvision's loader; else the best of some numbers")
    parser.add_argument("--photos", type=Path, help="photographs to make the files of; they are made up without")
    parser.add_argument("--slow", action="store_true", help="also a source that answers late, which is kept in memory")
    parser.add_argument("--plot", type=Path, help="also draw images per second to this SVG file")
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    return parser.parse_args()


def synth(folder, files, photos=None):
    program, environment = _command.find()
    of = ["--from", str(photos)] if photos else []
    subprocess.run([program, "synth", str(folder), "--files", str(files), "--classes", "10", *of], check=True,
                   stdout=subprocess.DEVNULL, env=environment)
    return folder


def write_bitmaps(folder, side, files):
    """Pictures of the final size: what is left of a decoder's work is to copy them."""
    rows = os.urandom(side * ((3 * side + 3) // 4 * 4))
    header = struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 54 + len(rows), 0, 0, 54, 40, side, side, 1, 24, 0, len(rows), 0,
                         0, 0, 0)
    (folder / "a").mkdir(parents=True)
    for number in range(files):
        (folder / f"a/{number:06}.bmp").write_bytes(header + rows)
    return folder


class Training:
    """A step of a model on a batch; the same for all sides."""

    def __init__(self, arguments):
        self.device = torch.device(arguments.device)
        torch.backends.cudnn.benchmark = True
        model = getattr(torchvision.models, arguments.model)(num_classes=1000)
        self.model = model.to(self.device, memory_format=torch.channels_last)
        self.loss = torch.nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)

    def step(self, images, labels):
        with torch.autocast(self.device.type, torch.bfloat16):
            loss = self.loss(self.model(images), labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


# Each side is a function that yields batches on the device without end.

def synthetic(arguments, _data):
    images = torch.randn(arguments.batch, 3, arguments.side, arguments.side, device=arguments.device,
                         dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (arguments.batch,), device=arguments.device)
    while True:
        yield images, labels


def torchvision_loader(arguments, data):
    chain = transforms.Compose([transforms.RandomResizedCrop(arguments.side), transforms.RandomHorizontalFlip(),
                                transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)])
    on_gpu = arguments.device != "cpu"
    loader = torch.utils.data.DataLoader(
        torchvision.datasets.ImageFolder(str(data), chain), arguments.batch, shuffle=True, drop_last=True,
        num_workers=arguments.workers, pin_memory=on_gpu, persistent_workers=True, prefetch_factor=4)
    while True:
        for images, labels in loader:
            yield (images.to(arguments.device, memory_format=torch.channels_last, non_blocking=True),
                   labels.to(arguments.device, non_blocking=True))


def headrace_loader(arguments, data, geometry=None, dtype="bfloat16", **options):
    chain = geometry or [hr.RandomResizedCrop(arguments.side), hr.RandomHorizontalFlip()]
    if dtype != "uint8":
        chain = [*chain, hr.Normalize(hr.IMAGENET)]
    opened = contextlib.nullcontext(data) if isinstance(data, hr.ImageFolder) else hr.ImageFolder(data, ram="8G")
    with opened as folder, hr.DataLoader(
            folder, arguments.batch, shuffle=True, drop_last=True, transform=chain, device=arguments.device,
            dtype=dtype, channels_last=True, prefetch_batches=4, **options) as loader:
        while True:
            yield from loader


def headrace_bytes(arguments, data):
    return headrace_loader(arguments, data, dtype="uint8")


def headrace_gpu(arguments, data):
    return headrace_loader(arguments, data, decode="gpu")


def headrace_gpu_bytes(arguments, data):
    return headrace_loader(arguments, data, dtype="uint8", decode="gpu", threads=4)


def delivery(arguments, bitmaps):
    return headrace_loader(arguments, bitmaps, geometry=[hr.Resize((arguments.side, arguments.side))])


def cpu_seconds():
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


# Of the workers that run still, which RUSAGE_CHILDREN does not know.
def cpu_seconds_of_workers():
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


class Busy:
    """The share of the time that the GPU is busy, as nvidia-smi sees it five times a second."""

    def __init__(self, device):
        self.process, self.share = None, None
        if device.type == "cuda" and shutil.which("nvidia-smi"):
            # nvidia-smi does not count as CUDA_VISIBLE_DEVICES says.
            uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
            which = f"GPU-{uuid}" if uuid else str(device.index or 0)
            self.process = subprocess.Popen(
                ["nvidia-smi", "-i", which, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms",
                 "200"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process is None:
            return
        self.process.terminate()
        seen = [float(line) for line in self.process.communicate()[0].split() if line.isdigit()]
        self.share = statistics.fmean(seen) / 100 if seen else None


def measure(arguments, training, side, data, trains):
    """One round of a side: a tenth of the batches to warm up, then the clock runs."""
    batches = side(arguments, data)
    if training.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(training.device)
    try:
        for count in (max(2, arguments.batches // 10), arguments.batches):
            training.wait()
            with Busy(training.device) as busy:
                began, cpu = time.perf_counter(), cpu_seconds() + cpu_seconds_of_workers()
                for _ in range(count):
                    images, labels = next(batches)
                    if trains:
                        training.step(images, labels)
                training.wait()
                seconds, cpu = time.perf_counter() - began, cpu_seconds() + cpu_seconds_of_workers() - cpu
    finally:
        batches.close()
    samples = arguments.batches * arguments.batch
    memory = torch.cuda.max_memory_reserved(training.device) if training.device.type == "cuda" else 0
    return {"images_per_s": samples / seconds, "cpu_s_per_1000": 1000 * cpu / samples, "device_memory_bytes": memory,
            "memory_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "gpu_busy": busy.share}


def transfer_rate(device):
    """Bytes a second from page-locked memory, as the loader's slots are; None without a GPU."""
    if device.type != "cuda":
        return None
    host = torch.empty(TRANSFER_BYTES, dtype=torch.uint8)
    assert int(torch.cuda.cudart().cudaHostRegister(host.data_ptr(), TRANSFER_BYTES, 0)) == 0
    there = torch.empty_like(host, device=device)
    there.copy_(host, non_blocking=True)
    torch.cuda.synchronize(device)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(50):
        there.copy_(host, non_blocking=True)
    end.record()
    end.synchronize()
    torch.cuda.cudart().cudaHostUnregister(host.data_ptr())
    return 50 * TRANSFER_BYTES / (begin.elapsed_time(end) / 1000)


def best_workers(arguments, training, data, tell):
    """Of torchvision's loader alone."""
    cores = len(os.sched_getaffinity(0))
    rates = {}
    for arguments.workers in sorted({max(1, cores // 2), cores, cores + cores // 2}):
        rates[arguments.workers] = measure(arguments, training, torchvision_loader, data, False)["images_per_s"]
    tell({"torchvision_images_per_s_by_workers": rates})
    return max(rates, key=rates.get)


@contextlib.contextmanager
def slow_data(data):
    """The files in a bucket whose answers come late, read once; what a training sees from its second epoch on."""
    with FaultStore() as store:
        for path in data.rglob("*.jpg"):
            store.put(str(path.relative_to(data)), path.read_bytes())
        store.set(delay=SLOW_SECONDS)
        os.environ.update(ENVIRONMENT, AWS_ENDPOINT_URL=store.url)
        with hr.ImageFolder("s3://bucket/train", ram="8G") as folder:
            for _ in hr.DataLoader(folder, 256, transform=[hr.Resize((8, 8))]):
                pass
            yield folder


def median_of(figures):
    return None if None in figures else statistics.median(figures)


def run(arguments, data, bitmaps, slow, tell):
    training = Training(arguments)
    for path in data.rglob("*.jpg"):  # hot for all
        path.read_bytes()
    if arguments.workers is None:
        arguments.workers = best_workers(arguments, training, data, tell)
    sides = {"synthetic": (synthetic, data, True), "torchvision": (torchvision_loader, data, True),
             "headrace": (headrace_loader, data, True), "headrace-gpu": (headrace_gpu, data, True),
             "delivery": (delivery, bitmaps, True), "torchvision-alone": (torchvision_loader, data, False),
             "headrace-alone": (headrace_bytes, data, False), "headrace-gpu-alone": (headrace_gpu_bytes, data, False)}
    if slow is not None:
        sides["headrace-slow"] = (headrace_loader, slow, True)
    rounds = {name: [] for name in sides}
    for _ in range(arguments.rounds):
        for name, (side, folder, trains) in sides.items():
            rounds[name].append(measure(arguments, training, side, folder, trains))
    figures = {name: {key: median_of([one[key] for one in all_rounds]) for key in all_rounds[0]}
               for name, all_rounds in rounds.items()}
    for name, one in figures.items():
        tell({"side": name, **one, "rounds_images_per_s": [each["images_per_s"] for each in rounds[name]]})

    def ratio(mine, other):
        return statistics.median(a["images_per_s"] / b["images_per_s"] for a, b in zip(rounds[mine], rounds[other]))

    pairs = [("headrace", "synthetic"), ("headrace-gpu", "synthetic"), ("torchvision", "synthetic"),
             ("delivery", "synthetic"), ("headrace-alone", "torchvision-alone")]
    pairs += [("headrace-slow", "headrace")] if slow is not None else []
    tell({"workers": arguments.workers, "ratios": {f"{mine} / {other}": ratio(mine, other) for mine, other in pairs},
          "transfer_bytes_per_s": transfer_rate(training.device)})
    if arguments.plot:
        write_bars(arguments.plot, f"{arguments.model}, batches of {arguments.batch}", "images per second",
                   {name: one["images_per_s"] for name, one in figures.items()})


def main():
    arguments = parse_arguments()
    if arguments.device.startswith("cuda") and not torch.cuda.is_available():
        print(f"skipped: torch {torch.__version__} sees no CUDA device", file=sys.stderr)
        return 77
    lines = []

    def tell(line):
        lines.append(line)
        print(json.dumps(line), flush=True)

    on_gpu = arguments.device != "cpu"
    tell({"machine": torch.cuda.get_device_name() if on_gpu else "cpu", "cores": len(os.sched_getaffinity(0)),
          "torch": torch.__version__, "cuda": torch.version.cuda, "torchvision": torchvision.__version__,
          "model": arguments.model, "batch": arguments.batch, "batches": arguments.batches,
          "rounds": arguments.rounds, "date": time.strftime("%Y-%m-%d")})
    with tempfile.TemporaryDirectory(prefix="headrace-gpu-") as work:
        data = arguments.folder or synth(Path(work) / "photos", arguments.files, arguments.photos)
        bitmaps = write_bitmaps(Path(work) / "bitmaps", arguments.side, min(arguments.files, 20 * arguments.batch))
        with slow_data(data) if arguments.slow else contextlib.nullcontext() as slow:
            run(arguments, data, bitmaps, slow, tell)
    if arguments.json:
        arguments.json.write_text(json.dumps(lines, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
