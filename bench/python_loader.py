#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A loop over headrace's Python loader, timed: what loader.py does with torchvision's.

    python_loader.py FOLDER [--threads N] [--batch B] [--dtype D] [--ram SIZE] [--warm-epochs N] [--epochs N]
                     [--delivered FILE] [--wait]

Prints one JSON line over `epochs`, which follow `warm-epochs` in the same loader. --delivered lists the files that an
epoch of its own delivered, in its order, before the clock starts. With --wait it says "ready" once its imports are done
and starts at the next line on stdin.
"""

import argparse
import json
import os
import resource
import sys
import time

import torch  # noqa: F401 (what a training has imported anyway)

import headrace as hr


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--ram", default="0")
    parser.add_argument("--warm-epochs", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--delivered")
    parser.add_argument("--wait", action="store_true")
    return parser.parse_args()


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def run_epoch(loader):
    """Samples of an epoch, the sum of their labels, and the moment of its first batch."""
    samples, label_sum, first = 0, 0, None
    for images, labels in loader:
        first = first or time.perf_counter()
        samples += len(images)
        label_sum += int(labels.sum())
    return samples, label_sum, first


def write_delivered(loader, path):
    """The files of the samples that an epoch delivers, one a line, relative to the data set."""
    data = loader.dataset
    indices = [index for batch in loader.batches() for index in batch.indices.tolist()]
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(os.path.relpath(data.path(index), data.root) + "\n" for index in indices)


def main():
    arguments = parse_arguments()
    if arguments.wait:
        print("ready", flush=True)
        sys.stdin.readline()
    start, cpu_before = time.perf_counter(), cpu_seconds()
    data = hr.ImageFolder(arguments.folder, ram=arguments.ram)
    chain = [hr.RandomResizedCrop(224), hr.RandomHorizontalFlip()]
    if arguments.dtype != "uint8":
        chain.append(hr.Normalize(hr.IMAGENET))
    loader = hr.DataLoader(data, arguments.batch, order="torch-distributed:seed=0", seed=1, dtype=arguments.dtype,
                           threads=arguments.threads, transform=chain)
    if arguments.delivered:
        write_delivered(loader, arguments.delivered)
    for _ in range(arguments.warm_epochs):
        run_epoch(loader)
    if arguments.warm_epochs or arguments.delivered:
        start, cpu_before = time.perf_counter(), cpu_seconds()
    epochs = [run_epoch(loader) for _ in range(arguments.epochs)]
    print(json.dumps({"samples": sum(epoch[0] for epoch in epochs), "seconds": time.perf_counter() - start,
                      "cpu_seconds": cpu_seconds() - cpu_before,
                      "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
                      "first_batch_seconds": epochs[0][2] - start, "label_sum": sum(epoch[1] for epoch in epochs)}))


if __name__ == "__main__":
    main()
