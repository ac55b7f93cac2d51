#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What of a GPU's speed is left behind a data loader. Needs torch, torchvision and headrace's package; no compiler.

    bench/gpu.py [FOLDER]                    one JSON line per side, then one with the ratios
    bench/gpu.py --model resnet18 --json FILE

FOLDER holds JPEG files in class folders; without it 16 000 are made. The sides take turns within each round, with the
same model, batch and data; figures are medians over the rounds:

    synthetic      one batch that is on the device already, trained on again and again
    torchvision    its ImageFolder and DataLoader with --workers, page-locked batches, copied without waiting
    headrace       headrace.DataLoader(device=...), decoding on the CPU
    delivery       the same on pictures that need no decoding (bitmaps of the final size)
    ...-alone      the loader without a training

A side has images_per_s, cpu_s_per_1000 (of this process and its children), and the peak of the device's memory.
--device cpu tries the program itself where there is no GPU; its figures mean nothing.
"""

import argparse
import contextlib
import json
import os
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torchvision
from torchvision import transforms

import headrace as hr
from headrace import _command

MEAN, DEVIATION = hr.IMAGENET
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
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    return parser.parse_args()


def synth(folder, files):
    program, environment = _command.find()
    subprocess.run([program, "synth", str(folder), "--files", str(files), "--classes", "10"], check=True,
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


def headrace_loader(arguments, data, geometry=None, dtype="bfloat16"):
    chain = geometry or [hr.RandomResizedCrop(arguments.side), hr.RandomHorizontalFlip()]
    if dtype != "uint8":
        chain = [*chain, hr.Normalize(hr.IMAGENET)]
    with hr.ImageFolder(data, ram="8G") as folder, hr.DataLoader(
            folder, arguments.batch, shuffle=True, drop_last=True, transform=chain, device=arguments.device,
            dtype=dtype, channels_last=True, prefetch_batches=4) as loader:
        while True:
            yield from loader


def headrace_bytes(arguments, data):
    return headrace_loader(arguments, data, dtype="uint8")


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


def measure(arguments, training, side, data, trains):
    """One round of a side: a tenth of the batches to warm up, then the clock runs."""
    batches = side(arguments, data)
    if training.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(training.device)
    try:
        for timed, count in ((False, max(2, arguments.batches // 10)), (True, arguments.batches)):
            training.wait()
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
    return {"images_per_s": samples / seconds, "cpu_s_per_1000": 1000 * cpu / samples, "device_memory_bytes": memory}


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


def run(arguments, data, bitmaps, tell):
    training = Training(arguments)
    sides = {"synthetic": (synthetic, data, True), "torchvision": (torchvision_loader, data, True),
             "headrace": (headrace_loader, data, True), "delivery": (delivery, bitmaps, True),
             "torchvision-alone": (torchvision_loader, data, False), "headrace-alone": (headrace_bytes, data, False)}
    for path in data.rglob("*.jpg"):  # hot for all
        path.read_bytes()
    rounds = {name: [] for name in sides}
    for _ in range(arguments.rounds):
        for name, (side, folder, trains) in sides.items():
            rounds[name].append(measure(arguments, training, side, folder, trains))
    figures = {name: {key: statistics.median(one[key] for one in all_rounds) for key in all_rounds[0]}
               for name, all_rounds in rounds.items()}
    for name, one in figures.items():
        tell({"side": name, **one, "rounds_images_per_s": [each["images_per_s"] for each in rounds[name]]})

    def ratio(mine, other):
        return statistics.median(a["images_per_s"] / b["images_per_s"] for a, b in zip(rounds[mine], rounds[other]))

    tell({"ratios": {"headrace / synthetic": ratio("headrace", "synthetic"),
                     "torchvision / synthetic": ratio("torchvision", "synthetic"),
                     "delivery / synthetic": ratio("delivery", "synthetic"),
                     "headrace-alone / torchvision-alone": ratio("headrace-alone", "torchvision-alone")},
          "transfer_bytes_per_s": transfer_rate(training.device)})


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
          "rounds": arguments.rounds, "workers": arguments.workers, "date": time.strftime("%Y-%m-%d")})
    with tempfile.TemporaryDirectory(prefix="headrace-gpu-") as work:
        data = arguments.folder or synth(Path(work) / "photos", arguments.files)
        bitmaps = write_bitmaps(Path(work) / "bitmaps", arguments.side, min(arguments.files, 20 * arguments.batch))
        run(arguments, data, bitmaps, tell)
    if arguments.json:
        arguments.json.write_text(json.dumps(lines, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
