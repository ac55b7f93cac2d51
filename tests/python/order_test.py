# SPDX-License-Identifier: Apache-2.0
"""Order and labels are torch's, for its samplers and for any other."""
import os
import random
import unittest
from unittest import mock

import support

support.need("numpy", "torch")
import torch
from torch.utils.data import DataLoader as TorchLoader, DistributedSampler, RandomSampler, TensorDataset

import headrace as hr
from headrace.delivery import has_module

RESIZE = [hr.Resize((8, 8))]


def indices_of(loader):
    return [index for batch in loader.batches() for index in batch.indices.tolist()]


class OrderTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = hr.ImageFolder(support.synth("data", files=91), ram="64M")
        cls.size = len(cls.data)

    def test_shuffle_is_the_order_of_DistributedSampler(self):
        for ranks in (1, 2, 8):
            for rank in range(ranks):
                sampler = DistributedSampler(range(self.size), num_replicas=ranks, rank=rank, seed=3)
                for drop_last in (False, True):
                    loader = hr.DataLoader(self.data, 16, shuffle=True, seed=3, drop_last=drop_last, transform=RESIZE,
                                           rank=rank, world_size=ranks)
                    for epoch in range(3):
                        sampler.set_epoch(epoch)
                        wanted = list(sampler)
                        self.assertEqual(len(loader), len(TorchLoader(range(self.size), 16, sampler=sampler,
                                                                      drop_last=drop_last)))
                        if drop_last:
                            wanted = wanted[:len(wanted) // 16 * 16]
                        self.assertEqual(indices_of(loader), wanted, (ranks, rank, drop_last, epoch))

    def test_batches_and_labels_are_those_of_a_torch_loader(self):
        targets = torch.tensor(self.data.targets)
        for drop_last in (False, True):
            generator = torch.Generator().manual_seed(9)
            reference = TorchLoader(TensorDataset(targets), 10, sampler=RandomSampler(targets, generator=generator),
                                    drop_last=drop_last)
            wanted = [[labels.tolist() for labels, in reference] for _ in range(3)]
            sampler = RandomSampler(targets, generator=torch.Generator().manual_seed(9))
            loader = hr.DataLoader(self.data, 10, sampler=sampler, transform=RESIZE, drop_last=drop_last)
            self.assertEqual([[labels.tolist() for _, labels in loader] for _ in range(3)], wanted)

    def test_any_list_of_indices_is_an_order(self):
        chosen = random.Random(1).choices(range(self.size), k=50)
        loader = hr.DataLoader(self.data, 7, sampler=chosen, transform=RESIZE)
        self.assertEqual(indices_of(loader), chosen)
        self.assertEqual(len(loader), 8)
        self.assertEqual(indices_of(hr.DataLoader(self.data, 7, sampler=[], transform=RESIZE)), [])

    def test_a_sampler_hears_of_the_epoch(self):
        sampler = DistributedSampler(range(self.size), num_replicas=2, rank=1, seed=5)
        loader = hr.DataLoader(self.data, 16, sampler=sampler, transform=RESIZE)
        first = indices_of(loader)
        second = indices_of(loader)
        sampler.set_epoch(1)
        self.assertEqual(second, list(sampler))
        self.assertNotEqual(first, second)

    def test_any_spec_is_an_order(self):
        loader = hr.DataLoader(self.data, 16, order="torch-random:seed=4", transform=RESIZE)
        torch.manual_seed(4)
        reference = TorchLoader(range(self.size), 16, shuffle=True)
        for _ in range(2):
            self.assertEqual(indices_of(loader), [int(index) for batch in reference for index in batch])

    def test_orders_of_files_and_over_others_are_dealt_to_ranks(self):
        listed = list(range(self.size))[::-1]
        file = support.WORK / "reversed"
        file.write_text("\n".join(map(str, listed)), encoding="utf-8")
        for order, whole in ((f"file:{file}", listed), ("first:samples=40,of=sequential", list(range(40))),
                             (f"first:samples=40,of=file:{file}", listed[:40]),
                             ("torch-subset:range=10:50,of=sequential", list(range(10, 50)))):
            of_ranks = [indices_of(hr.DataLoader(self.data, 16, order=order, rank=rank, world_size=2, transform=RESIZE))
                        for rank in range(2)]
            self.assertEqual(of_ranks[0], whole[::2], order)
            self.assertEqual(of_ranks[1][:len(whole) // 2], whole[1::2], order)
            self.assertEqual(len(of_ranks[1]), len(of_ranks[0]))

    def test_a_listing_that_makes_no_classes_is_refused(self):
        folder = support.synth("data")
        with self.assertRaisesRegex(FileNotFoundError, "listed as 'sorted' its samples have no classes"):
            hr.ImageFolder(folder, ram="64M", listing="sorted")

    def test_the_classes_of_a_listing_are_numbered_as_its_labels(self):
        folder = support.WORK / "named"
        images = sorted(support.synth("data").glob("*/*"))
        for name in ("n10", "N9", "n2", ".hidden"):
            (folder / name).mkdir(parents=True)
            (folder / name / "a.jpg").write_bytes(images[0].read_bytes())
        for listing in ("timm", "keras"):
            data = hr.ImageFolder(folder, ram="64M", listing=listing)
            for path, number in data.samples:
                self.assertEqual(data.classes[number], os.path.basename(os.path.dirname(path)), listing)
            self.assertEqual(len(data.classes), 3 + (listing == "timm"))

    def test_epochs_follow_each_other_unless_one_is_set(self):
        loader = hr.DataLoader(self.data, 16, shuffle=True, transform=RESIZE)
        epochs = [indices_of(loader) for _ in range(3)]
        loader.set_epoch(1)
        self.assertEqual(indices_of(loader), epochs[1])
        self.assertEqual(indices_of(loader), epochs[2])
        loader.set_epoch(0)
        next(iter(loader))  # a look at the first batch does not use up the epoch
        self.assertEqual(indices_of(loader), epochs[0])
        self.assertEqual(sorted(epochs[0]), list(range(self.size)))

    def test_rank_and_world_size_come_from_the_environment(self):
        with mock.patch.dict(os.environ, RANK="3", WORLD_SIZE="4"):
            loader = hr.DataLoader(self.data, 16, transform=RESIZE)
        self.assertEqual((loader.rank, loader.world_size), (3, 4))
        self.assertEqual(indices_of(loader)[:3], [3, 7, 11])

    def test_the_classes_are_those_of_torchvision(self):
        if not has_module("torchvision"):
            self.skipTest("torchvision is not installed")
        from torchvision.datasets import ImageFolder
        reference = ImageFolder(support.synth("data"))
        self.assertEqual(self.data.samples, reference.samples)
        self.assertEqual(self.data.classes, reference.classes)
        self.assertEqual(self.data.class_to_idx, reference.class_to_idx)
        self.assertEqual(self.data.targets, reference.targets)


if __name__ == "__main__":
    support.main()
