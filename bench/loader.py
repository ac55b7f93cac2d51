#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""An ordinary torchvision loader, timed: it knows nothing of headrace.

    loader.py FOLDER [--epochs N] [--workers W] [--batch B] [--seed S | --unseeded] [--shuffle distributed|plain]
              [--step-seconds S] [--tar] [--wait]

Prints one JSON line. With --wait it says "ready" once its imports are done and starts at the next line on stdin. With
--tar FOLDER holds tar files of LABEL/NAME, which are read from end to end, as WebDataset does: the shards are shuffled
and divided among the workers, the samples of a shard come as they lie in it.
"""

import argparse
import io
import json
import random
import resource
import sys
import tarfile
import time
from pathlib import Path

import torch
from PIL import Image
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, get_worker_info
from torchvision import datasets, transforms


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unseeded", action="store_true", help="torch draws the seed")
    parser.add_argument("--step-seconds", type=float, default=0, help="how long the training takes for each batch")
    parser.add_argument("--shuffle", choices=["distributed", "plain"], default="distributed")
    parser.add_argument("--tar", action="store_true")
    parser.add_argument("--wait", action="store_true")
    return parser.parse_args()


class TarSamples(IterableDataset):
    def __init__(self, folder, transform):
        self.shards = sorted(Path(folder).glob("*.tar"))
        self.transform = transform
        self.epoch = 0

    def __iter__(self):
        worker = get_worker_info()
        shards = random.Random(self.epoch).sample(self.shards, len(self.shards))
        for shard in shards[worker.id::worker.num_workers]:
            with tarfile.open(shard, "r|") as members:
                for member in members:
                    image = Image.open(io.BytesIO(members.extractfile(member).read())).convert("RGB")
                    yield self.transform(image), int(member.name.partition("/")[0])


def make_loader(arguments):
    transform = transforms.Compose([
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
    ])
    if arguments.tar:
        return DataLoader(TarSamples(arguments.folder, transform), batch_size=arguments.batch,
                          num_workers=arguments.workers)
    dataset = datasets.ImageFolder(arguments.folder, transform)
    sampler = None
    if arguments.shuffle == "distributed":
        sampler = DistributedSampler(dataset, num_replicas=1, rank=0, seed=arguments.seed)
    return DataLoader(dataset, batch_size=arguments.batch, sampler=sampler, shuffle=sampler is None,
                      num_workers=arguments.workers)


def run_epoch(loader, epoch, step_seconds):
    """Seconds of the epoch, seconds to its first batch, samples, and a number that depends on every sample."""
    if isinstance(loader.sampler, DistributedSampler):
        loader.sampler.set_epoch(epoch)
    if isinstance(loader.dataset, TarSamples):
        loader.dataset.epoch = epoch
    start = time.perf_counter()
    first_batch = 0
    samples = 0
    label_sum = 0
    for images, labels in loader:
        first_batch = first_batch or time.perf_counter() - start
        samples += len(images)
        label_sum += int(labels.sum())
        time.sleep(step_seconds)
    return time.perf_counter() - start, first_batch, samples, label_sum


def cpu_seconds():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def peak_bytes(workers):
    return 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss +
                   workers * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


def main():
    arguments = parse_arguments()
    if arguments.wait:
        print("ready", flush=True)
        sys.stdin.readline()
    if not arguments.unseeded:
        torch.manual_seed(arguments.seed)
    cpu_before = cpu_seconds()
    start = time.perf_counter()
    loader = make_loader(arguments)
    listing = time.perf_counter() - start
    epochs = [run_epoch(loader, epoch, arguments.step_seconds) for epoch in range(arguments.epochs)]
    print(json.dumps({
        "samples": sum(epoch[2] for epoch in epochs),
        "seconds": time.perf_counter() - start,
        "cpu_seconds": cpu_seconds() - cpu_before,
        "peak_bytes": peak_bytes(arguments.workers),
        "listing_seconds": listing,
        "epoch_seconds": [epoch[0] for epoch in epochs],
        "first_batch_seconds": [epoch[1] for epoch in epochs],
        "label_sum": sum(epoch[3] for epoch in epochs),
    }))


if __name__ == "__main__":
    main()
