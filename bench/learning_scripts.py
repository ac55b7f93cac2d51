#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Loaders in the shape of training scripts, which read files and decode nothing: the readers of bench/learning.py.

    learning_scripts.py SCRIPT FOLDER LOG [--epochs N] [--workers W] [--batch B]

Appends the path of each file that is read to LOG, one per line. After each epoch it prints "epoch", with the share of
the time that the accelerator was busy where the script has one, and goes on at the next line of stdin. Knows nothing of
headrace.
"""

import argparse
import csv
import hashlib
import itertools
import multiprocessing
import os
import random
import sys
import time
from pathlib import Path

import numpy
import torch
import torchvision
from torch.utils.data import (BatchSampler, DataLoader, Dataset, DistributedSampler, IterableDataset, RandomSampler,
                              Sampler, Subset, WeightedRandomSampler, get_worker_info, random_split)


class Script:
    """What all scripts share: the data set's folder, and how files are read."""

    def __init__(self, arguments):
        self.root = Path(arguments.folder)
        self.epochs = arguments.epochs
        self.batch = arguments.batch
        self.workers = arguments.workers
        self.log = os.open(arguments.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)  # one write for each line

    def read(self, path):
        os.write(self.log, (os.path.relpath(path, self.root) + "\n").encode())
        with open(path, "rb") as file:
            file.read()
        return torch.zeros(1)

    def folder(self, below="."):
        return torchvision.datasets.ImageFolder(self.root / below, loader=self.read)

    def loader(self, dataset, **options):
        options = {"batch_size": self.batch, "num_workers": self.workers} | options
        return DataLoader(dataset, **options)

    def run(self, *loaders, before=lambda epoch: None):
        """The loaders one after the other, each epoch."""
        for epoch in range(self.epochs):
            before(epoch)
            for loader in loaders:
                if isinstance(loader.sampler, DistributedSampler):
                    loader.sampler.set_epoch(epoch)
                for _ in loader:
                    pass
            self.end_epoch()

    @staticmethod
    def end_epoch(*figures):
        print("epoch", *figures, flush=True)
        sys.stdin.readline()

    def distributed(self, dataset, **options):
        options = {"num_replicas": 1, "rank": 0} | options
        return self.loader(dataset, sampler=DistributedSampler(dataset, **options))


class Paths(Dataset):
    """Files by path; an entry may be several that are read together."""

    def __init__(self, script, entries):
        self.script = script
        self.entries = [entry if isinstance(entry, tuple) else (entry,) for entry in entries]

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, index):
        for path in self.entries[index]:
            self.script.read(path)
        return torch.zeros(1)


class Listed(Sampler):
    """Whatever a function says for each epoch."""

    def __init__(self, length, order_of_epoch):
        super().__init__(None)
        self.length = length
        self.order_of_epoch = order_of_epoch
        self.epoch = -1

    def __len__(self):
        return self.length

    def __iter__(self):
        self.epoch += 1
        return iter(self.order_of_epoch(self.epoch))


class RepeatedAugmentation(Sampler):
    """Each sample three times in a row, dealt to the ranks in turn, and a third of that: DeiT's and torchvision's."""

    def __init__(self, length, replicas, rank):
        super().__init__(None)
        self.length, self.replicas, self.rank, self.epoch = length, replicas, rank, 0

    def __len__(self):
        return self.length // self.replicas

    def __iter__(self):
        generator = torch.Generator()
        generator.manual_seed(self.epoch)
        self.epoch += 1
        indices = [index for index in torch.randperm(self.length, generator=generator).tolist() for _ in range(3)]
        return iter(indices[self.rank::self.replicas][:len(self)])


class ShuffleBuffer(IterableDataset):
    """Files as listed, through a buffer from which one is taken at random."""

    def __init__(self, script, paths, buffer=100):
        self.script, self.paths, self.buffer = script, paths, buffer

    def __iter__(self):
        worker = get_worker_info()
        held, draw = [], random.Random()
        for path in self.paths[worker.id::worker.num_workers]:
            held.append(path)
            if len(held) == self.buffer:
                yield self.script.read(held.pop(draw.randrange(len(held))))
        draw.shuffle(held)
        yield from map(self.script.read, held)


def paths_of(folder):
    return [path for path, _ in folder.samples]


def by_digest(paths):
    """A fixed order that nobody can guess: as of a list that somebody shuffled once."""
    return sorted(paths, key=lambda path: hashlib.sha256(Path(path).name.encode()).digest())


def in_blocks(length, block, rng):
    """Blocks of neighbours in shuffled order, each from its first to its last."""
    starts = list(range(0, length, block))
    rng.shuffle(starts)
    return [index for start in starts for index in range(start, min(start + block, length))]


def distributed(script):
    script.run(script.distributed(script.folder()))


def train_and_val(script):
    script.run(script.distributed(script.folder("train")), script.loader(script.folder("val")))


def val_first(script):
    val = script.loader(script.folder("val"))
    for _ in val:
        pass
    script.run(script.distributed(script.folder("train")), val)


def train_alone(script):
    script.run(script.distributed(script.folder("train")))


def two_loaders(script):
    """Batches of both in turn, as trainings on labelled and unlabelled samples do."""
    torch.manual_seed(0)
    loaders = [script.distributed(script.folder(name), seed=seed) for name, seed in (("train", 0), ("val", 5))]
    for epoch in range(script.epochs):
        for loader in loaders:
            loader.sampler.set_epoch(epoch)
        second = iter(loaders[1])
        for number, _ in enumerate(loaders[0]):
            if number % 4 == 0:
                next(second, None)
        for _ in second:
            pass
        script.end_epoch()


def in_processes(script, count, job):
    """`job(rank, end_epoch)` in each process; all end their epochs together."""
    barrier = multiprocessing.Barrier(count + 1)
    ended = multiprocessing.Barrier(count + 1)

    def end_epoch():
        barrier.wait()
        ended.wait()

    processes = [multiprocessing.Process(target=job, args=(rank, end_epoch)) for rank in range(count)]
    for process in processes:
        process.start()
    for _ in range(script.epochs):
        barrier.wait()
        script.end_epoch()
        ended.wait()
    for process in processes:
        process.join()


def ranks(script, count, loader_of):
    def job(rank, end_epoch):
        torch.manual_seed(0)
        loader = loader_of(rank)
        for epoch in range(script.epochs):
            if isinstance(loader.sampler, DistributedSampler):
                loader.sampler.set_epoch(epoch)
            for _ in loader:
                pass
            end_epoch()

    in_processes(script, count, job)


def two_ranks(script):
    folder = script.folder()
    ranks(script, 2, lambda rank: script.distributed(folder, num_replicas=2, rank=rank))


def two_jobs(script):
    folder = script.folder()
    ranks(script, 2, lambda job: script.distributed(folder, seed=100 * job))


def repeated(script, replicas):
    folder = script.folder()
    ranks(script, replicas,
          lambda rank: script.loader(folder, sampler=RepeatedAugmentation(len(folder), replicas, rank)))


def triplets(script):
    paths, rng = paths_of(script.folder()), random.Random(3)
    entries = [(anchor, rng.choice(paths), rng.choice(paths)) for anchor in paths]
    script.run(script.distributed(Paths(script, entries)))


def k_fold(script):
    folder = script.folder()
    order = numpy.random.RandomState(0).permutation(len(folder)).tolist()
    folds = [order[fold::5] for fold in range(5)]
    for epoch in range(script.epochs):
        held_out = set(folds[epoch % 5])
        training = Subset(folder, [index for index in order if index not in held_out])
        for loader in (script.loader(training, shuffle=True), script.loader(Subset(folder, folds[epoch % 5]))):
            for _ in loader:
                pass
        script.end_epoch()


def split_at_random(script):
    torch.manual_seed(0)
    folder = script.folder()
    parts = [len(folder) * 8 // 10, len(folder) - len(folder) * 8 // 10]
    training, validation = random_split(folder, parts, generator=torch.Generator().manual_seed(42))
    script.run(script.distributed(training), script.loader(validation))


def subset(script):
    folder = script.folder()
    chosen = sorted(random.Random(7).sample(range(len(folder)), len(folder) * 6 // 10))
    script.run(script.distributed(Subset(folder, chosen)))


def subset_unseeded(script):
    folder = script.folder()
    chosen = random.Random(7).sample(range(len(folder)), len(folder) * 6 // 10)
    script.run(script.loader(Subset(folder, chosen), shuffle=True))


def csv_list(script):
    """A csv beside the images, as pandas reads it."""
    with open(script.root / "train.csv", newline="", encoding="utf-8") as file:
        entries = [script.root / line["image"] for line in csv.DictReader(file)]
    script.run(script.distributed(Paths(script, entries)))


def hidden_list(script):
    script.run(script.distributed(Paths(script, by_digest(paths_of(script.folder())))))


def images_and_masks(script):
    """As torchvision's VOCSegmentation has them."""
    names = sorted(path.stem for path in (script.root / "JPEGImages").iterdir())
    return Paths(script, [(script.root / "JPEGImages" / f"{name}.jpg",
                           script.root / "SegmentationClass" / f"{name}.png") for name in names])


def pairs(script):
    script.run(script.distributed(images_and_masks(script)))


def pairs_of_ranks(script):
    data = images_and_masks(script)
    ranks(script, 2, lambda rank: script.distributed(data, num_replicas=2, rank=rank))


def json_beside(script):
    entries = [(path, Path(path).with_suffix(".json")) for path in paths_of(script.folder())]
    script.run(script.distributed(Paths(script, entries)))


def fixed_list(script):
    script.run(script.loader(Paths(script, by_digest(paths_of(script.folder())))))


def persistent(script):
    torch.manual_seed(0)
    script.run(script.loader(script.folder(), shuffle=True, persistent_workers=True))


def evaluation(script):
    script.run(script.loader(script.folder()))


def clips(script):
    folder = script.folder()
    rng = random.Random()
    script.run(script.loader(folder, sampler=Listed(len(folder), lambda _: in_blocks(len(folder), 8, rng))))


def class_blocks(script):
    folder = script.folder()
    rng = random.Random()
    block = len(folder) // len(folder.classes)
    script.run(script.loader(folder, sampler=Listed(len(folder), lambda _: in_blocks(len(folder), block, rng))))


def shuffle_buffer(script):
    script.run(script.loader(ShuffleBuffer(script, paths_of(script.folder()))))


def main_py(script):
    """pytorch/examples main.py --seed 0 on one process: the model draws before the loader does."""
    random.seed(0)
    torch.manual_seed(0)
    torchvision.models.resnet18(weights=None)
    script.run(script.loader(script.folder("train"), shuffle=True), script.loader(script.folder("val")))


def references(script):
    """torchvision's references on one process: no seed."""
    folder = script.folder()
    script.run(script.loader(folder, sampler=RandomSampler(folder)))


def told_seed(script):
    folder = script.folder()
    script.run(script.loader(folder, shuffle=True, generator=torch.Generator().manual_seed(0)))


def unknowable(script):
    folder = script.folder()
    rng, indices = random.SystemRandom(), range(len(folder))
    script.run(script.loader(folder, sampler=Listed(len(indices), lambda _: rng.sample(indices, len(indices)))))


def with_replacement(script):
    folder = script.folder()
    script.run(script.loader(folder, sampler=RandomSampler(folder, replacement=True)))


def weighted(script):
    folder = script.folder()
    weights = [1 + 4 * (label % 2) for _, label in folder.samples]
    script.run(script.loader(folder, sampler=WeightedRandomSampler(weights, len(folder))))


def cut_short(script):
    """A given number of batches per epoch."""
    loader = script.distributed(script.folder())
    for epoch in range(script.epochs):
        loader.sampler.set_epoch(epoch)
        for number, _ in enumerate(loader):
            if number == len(loader) // 2:
                break
        script.end_epoch()


def batch_of_class(script):
    """Batches of one class each, in shuffled order, as metric learning has them."""
    folder = script.folder()
    rng = random.SystemRandom()

    def order(_):
        batches = []
        for label in range(len(folder.classes)):
            members = [index for index, (_, other) in enumerate(folder.samples) if other == label]
            rng.shuffle(members)
            batches += [members[at:at + 8] for at in range(0, len(members), 8)]
        rng.shuffle(batches)
        return [index for batch in batches for index in batch]

    sampler = BatchSampler(Listed(len(folder), order), 8, drop_last=False)
    script.run(DataLoader(folder, batch_sampler=sampler, num_workers=script.workers))


STEP_SECONDS = 0.1  # of the accelerator, per batch of 4: what UNet3D has, by the byte, at a sixth of its scale


def unet3d(script, order_of_epoch):
    """DLIO's benchmark of UNet3D: whole files in batches, and an accelerator that is a sleep."""
    files = Paths(script, sorted(str(path) for path in script.root.iterdir()))
    loader = DataLoader(files, batch_size=4, num_workers=4, sampler=Listed(len(files), order_of_epoch), drop_last=True)
    for _ in range(script.epochs):
        batches = iter(loader)
        next(batches)  # until the first batch is there nothing is measured, as DLIO does it
        began, steps = time.monotonic(), 0
        for _ in itertools.chain((None,), batches):
            time.sleep(STEP_SECONDS)
            steps += 1
        script.end_epoch(round(steps * STEP_SECONDS / (time.monotonic() - began), 4))


def unet3d_listed(script):
    unet3d(script, lambda _: range(len(list(script.root.iterdir()))))


def unet3d_shuffled(script):
    """DLIO 1.0: numpy's generator, seeded alike in each epoch, shuffles the list as it left it."""
    order = list(range(len(list(script.root.iterdir()))))

    def shuffled(_):
        numpy.random.RandomState(123).shuffle(order)
        return list(order)

    unet3d(script, shuffled)


SCRIPTS = {
    "distributed": distributed, "two-ranks": two_ranks, "generator": told_seed,
    "train-val": train_and_val, "val-first": val_first, "train-alone": train_alone,
    "two-loaders": two_loaders, "two-jobs": two_jobs, "k-fold": k_fold,
    "repeated-1": lambda script: repeated(script, 1), "repeated-2": lambda script: repeated(script, 2),
    "triplets": triplets, "random-split": split_at_random, "subset": subset, "subset-unseeded": subset_unseeded,
    "csv-list": csv_list, "hidden-list": hidden_list, "pairs": pairs, "pairs-of-ranks": pairs_of_ranks,
    "json-beside": json_beside, "fixed-list": fixed_list,
    "persistent": persistent, "evaluation": evaluation, "cut-short": cut_short, "main.py": main_py,
    "references": references, "clips": clips, "class-blocks": class_blocks, "class-batches": batch_of_class,
    "shuffle-buffer": shuffle_buffer, "unknowable": unknowable, "replacement": with_replacement,
    "weighted": weighted, "unet3d": unet3d_listed, "unet3d-shuffled": unet3d_shuffled,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", choices=SCRIPTS)
    parser.add_argument("folder")
    parser.add_argument("log")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    SCRIPTS[arguments.script](Script(arguments))


if __name__ == "__main__":
    main()
