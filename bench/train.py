#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A short training as scripts do it: ResNet-18 on small crops, on CPUs, one or several processes (gloo).

    train.py FOLDER [--epochs N] [--processes P] [--side 64] [--plain-shuffle]

Knows nothing of headrace. Prints one JSON line: the loss of every step, bit by bit comparable between runs, and the
share of the time that the training waited for data.
"""

import argparse
import json
import os
import random
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler
from torchvision import datasets, models, transforms


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--plain-shuffle", action="store_true", help="shuffle=True instead of a DistributedSampler")
    return parser.parse_args()


def make_loader(arguments, rank):
    dataset = datasets.ImageFolder(arguments.folder, transforms.Compose(
        [transforms.RandomResizedCrop(arguments.side), transforms.RandomHorizontalFlip(), transforms.ToTensor()]))
    sampler = None
    if not arguments.plain_shuffle:
        sampler = DistributedSampler(dataset, num_replicas=arguments.processes, rank=rank, seed=0)
    return DataLoader(dataset, batch_size=arguments.batch, sampler=sampler, shuffle=sampler is None, num_workers=1,
                      generator=torch.Generator().manual_seed(0))


def train(rank, arguments, results):
    torch.manual_seed(0)
    random.seed(0)
    torch.set_num_threads(1)
    loader = make_loader(arguments, rank)
    model = models.resnet18(weights=None, num_classes=len(loader.dataset.classes))
    if arguments.processes > 1:
        os.environ["USE_LIBUV"] = "0"  # Debian 13's torch asks for libuv and was built without it
        dist.init_process_group("gloo", rank=rank, world_size=arguments.processes)
        model = nn.parallel.DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    start = time.perf_counter()
    losses, waited = run_epochs(arguments, loader, model, optimiser)
    results[rank] = {"losses": losses, "seconds": time.perf_counter() - start, "waited": waited}


def run_epochs(arguments, loader, model, optimiser):
    """The losses as exact hexadecimal numbers, and the seconds spent waiting for batches."""
    losses, waited = [], 0
    for epoch in range(arguments.epochs):
        if isinstance(loader.sampler, DistributedSampler):
            loader.sampler.set_epoch(epoch)
        asked = time.perf_counter()
        for images, labels in loader:
            waited += time.perf_counter() - asked
            loss = nn.functional.cross_entropy(model(images), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item().hex())
            asked = time.perf_counter()
    return losses, waited


def main():
    arguments = parse_arguments()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(20_000 + os.getpid() % 20_000))
    if arguments.processes == 1:
        results = {}
        train(0, arguments, results)
    else:
        results = multiprocessing.Manager().dict()
        # Forked, as nothing here has a GPU: a spawned process takes seconds to import torch again.
        multiprocessing.start_processes(train, args=(arguments, results), nprocs=arguments.processes,
                                        start_method="fork")
    print(json.dumps({
        "losses": [results[rank]["losses"] for rank in range(arguments.processes)],
        "seconds": max(result["seconds"] for result in results.values()),
        "stall_share": sum(result["waited"] / result["seconds"] for result in results.values()) / arguments.processes,
    }))


if __name__ == "__main__":
    main()
