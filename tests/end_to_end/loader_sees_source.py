#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""An unmodified torchvision loader sees through the mount what it sees in the source: loader_sees_source.py BUILD

Names, classes and order of the samples, the bytes of every file in two shuffled epochs over worker processes, and the
decoded images of one batch.
"""

import sys

sys.dont_write_bytecode = True

from script_test import run  # noqa: E402, before the modules of bench, which it makes known
from harness import Bench, Mount  # noqa: E402
from sources import CannotRun  # noqa: E402


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def as_list(batch):
    return batch


def same_listing(source, mounted):
    def relative(dataset):
        return [(path[len(dataset.root):], label) for path, label in dataset.samples]

    return (relative(source) == relative(mounted) and source.classes == mounted.classes and
            source.class_to_idx == mounted.class_to_idx)


def epochs(torch_data, dataset):
    """Two shuffled epochs as lists of (bytes, label), read by two worker processes."""
    sampler = torch_data.DistributedSampler(dataset, num_replicas=1, rank=0, seed=3)
    loader = torch_data.DataLoader(dataset, batch_size=8, sampler=sampler, num_workers=2, collate_fn=as_list)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for batch in loader:
            yield from batch


def check(build, work):
    try:
        from torch.utils import data as torch_data
        from torchvision import datasets
    except ImportError as error:
        raise CannotRun(f"torchvision is missing ({error})") from error
    bench = Bench(work, build)
    folder = bench.data_set(120)
    with Mount(bench, folder, "--ram", "256M", "--order", "torch-distributed:seed=3") as mount:
        source, mounted = (datasets.ImageFolder(str(root), loader=read_bytes) for root in (folder, mount.path))
        assert same_listing(source, mounted), "the listings differ"
        pairs = list(zip(epochs(torch_data, source), epochs(torch_data, mounted)))
        assert len(pairs) == 240, f"{len(pairs)} samples instead of 240"
        assert all(ours == theirs for ours, theirs in pairs), "a sample differs"
        images = [datasets.ImageFolder(str(root)) for root in (folder, mount.path)]
        assert all(images[0][i][0].tobytes() == images[1][i][0].tobytes() for i in range(8)), "an image differs"
        hits = mount.stat()["mount"]["hits"]
    print(f"240 samples equal, {hits} of them in memory before they were opened")


if __name__ == "__main__":
    sys.exit(run(check))
