# SPDX-License-Identifier: Apache-2.0
"""A run that is resumed gives the same bytes as one that was not, whatever the number of ranks and threads."""
import json
import shutil
import unittest
import zlib
from unittest import mock

import support
import headrace as hr
from headrace import dataset as datasets, loader as loaders

CHAIN = [hr.RandomResizedCrop(16), hr.RandomHorizontalFlip()]


def traces(loader, epochs):
    """(epoch, indices, checksum of the pixels) of each batch, and the state behind it."""
    for _ in range(epochs):
        for batch in loader.batches():
            trace = (batch.epoch, batch.indices.tolist(), zlib.crc32(batch.images.tobytes()))
            yield trace, loader.state_dict()


class Counted:
    """The library, which notes what is called."""

    def __init__(self, library):
        self._library, self.calls = library, []

    def __getattr__(self, name):
        self.calls.append(name)
        return getattr(self._library, name)


class Rotated:
    """A sampler whose list is another one in each epoch."""
    orders = [list(range(start, 131, 3)) for start in (2, 0, 1)]

    def set_epoch(self, epoch):
        self.indices = self.orders[epoch]

    def __iter__(self):
        return iter(self.indices)

    def __len__(self):
        return len(self.orders[0])


class ResumeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = hr.ImageFolder(support.synth("data", files=131), ram="64M")

    def loader(self, batch_size=13, **options):
        return hr.DataLoader(self.data, batch_size, **{"shuffle": True, "seed": 7, "transform": CHAIN, "dtype": "uint8",
                                                       "output": "buffer", **options})

    def check_every_batch(self, make):
        whole = list(traces(make(), 3))
        epochs = {trace[0] for trace, _ in whole}
        self.assertEqual(epochs, {0, 1, 2})
        resumed = make()
        for done, (_, state) in enumerate(whole, 1):
            self.assertLess(len(json.dumps(state)), 1024)
            resumed.load_state_dict(json.loads(json.dumps(state)))
            left = list(traces(resumed, 3 - state["epoch"]))
            self.assertEqual([trace for trace, _ in left], [trace for trace, _ in whole[done:]])
            self.assertEqual([state for _, state in left], [state for _, state in whole[done:]])

    def test_after_every_batch_of_three_epochs(self):
        self.check_every_batch(self.loader)

    def test_after_every_batch_with_drop_last_and_ranks(self):
        self.check_every_batch(lambda: self.loader(batch_size=8, drop_last=True, rank=1, world_size=3))

    def test_after_every_batch_of_a_sampler(self):
        self.check_every_batch(lambda: self.loader(shuffle=False, sampler=Rotated()))

    def test_whoever_counts_batches_gets_the_epochs_in_turn(self):
        for options in ({}, {"drop_last": True}, {"shuffle": False, "sampler": Rotated()}):
            with self.subTest(options):
                whole, counting = self.loader(**options), self.loader(**options)
                for epoch in range(3):
                    wanted = [batch.indices.tolist() for batch in whole.batches()]
                    batches = counting.batches()
                    self.assertEqual([next(batches).indices.tolist() for _ in range(len(counting))], wanted, epoch)
                    self.assertEqual(counting.state_dict()["epoch"], epoch)
                counting.set_epoch(2)
                again = counting.batches()
                self.assertEqual(next(again).indices.tolist(), wanted[0])
                with self.assertRaisesRegex(RuntimeError, "this iteration is over"):
                    next(batches)

    def test_an_epoch_that_is_set_meanwhile_is_the_next_one_from_its_beginning(self):
        loader = self.loader(shuffle=False, sampler=Rotated())
        batches = loader.batches()
        next(batches)
        loader.set_epoch(1)
        self.assertEqual(len(list(batches)), len(loader) - 1)
        state = loader.state_dict()
        self.assertEqual((state["epoch"], state["position"], state["check"]), (1, 0, 0))
        fresh = self.loader(shuffle=False, sampler=Rotated())
        fresh.load_state_dict(state)
        self.assertEqual([batch.indices.tolist() for batch in fresh.batches()],
                         [batch.indices.tolist() for batch in loader.batches()])

    def test_a_state_of_a_state_is_the_same(self):
        loader = self.loader(shuffle=False, sampler=Rotated())
        next(loader.batches())
        state = loader.state_dict()
        self.assertNotEqual(state["check"], 0)
        loader.close()
        self.assertEqual(loader.state_dict(), state)
        other = self.loader(shuffle=False, sampler=Rotated())
        other.load_state_dict(state)
        self.assertEqual(other.state_dict(), state)

    def test_twice_in_one_epoch(self):
        whole = [trace for trace, _ in traces(self.loader(), 1)]
        state, seen = None, []
        for stop_after in (3, 2, 100):
            loader = self.loader()
            if state:
                loader.load_state_dict(state)
            for trace, state in traces(loader, 1):
                seen.append(trace)
                stop_after -= 1
                if stop_after == 0:
                    break
        self.assertEqual(seen, whole)

    def samples_of(self, ranks, state=None, batches=None):
        """{sample: checksum of its pixels} of all ranks for one epoch, or its first batches; and the last state."""
        found, last = {}, None
        for rank in range(ranks):
            loader = self.loader(batch_size=4, rank=rank, world_size=ranks)
            if state:
                loader.load_state_dict(state)
            for number, batch in enumerate(loader.batches(), 1):
                bytes_of = batch.images.tobytes()
                each = len(bytes_of) // len(batch.states)
                for place, index in enumerate(batch.indices.tolist()):
                    found.setdefault(index, zlib.crc32(bytes_of[place * each:(place + 1) * each]))
                last = loader.state_dict()
                if number == batches:
                    break
        return found, last

    def test_from_eight_ranks_to_six_and_one(self):
        whole, _ = self.samples_of(1)
        first, state = self.samples_of(8, batches=3)
        self.assertEqual(len(first), 8 * 4 * 3)
        for ranks in (6, 5, 1):
            rest, _ = self.samples_of(ranks, state=state)
            seen = {**rest, **first}
            self.assertEqual(seen, whole, ranks)
            # Padding repeats a few samples from the front; nothing else comes twice.
            self.assertLess(len(set(rest) & set(first)), ranks)

    def sequence_of(self, ranks, state=None, batches=None):
        """[(sample, checksum of its pixels)] in the order of the epoch, which the ranks take in turn; and the state."""
        lanes, last = [], None
        for rank in range(ranks):
            loader, lane = self.loader(batch_size=4, rank=rank, world_size=ranks), []
            if state:
                loader.load_state_dict(state)
            for number, batch in enumerate(loader.batches(), 1):
                pixels = batch.images.tobytes()
                each = len(pixels) // len(batch.states)
                lane += [(index, zlib.crc32(pixels[place * each:(place + 1) * each]))
                         for place, index in enumerate(batch.indices.tolist())]
                last = loader.state_dict()
                if number == batches:
                    break
            lanes.append(lane)
        return [sample for turn in zip(*lanes) for sample in turn], last

    def test_from_eight_ranks_to_six_to_five_the_rest_is_the_same_in_the_same_order(self):
        whole, _ = self.sequence_of(1)
        for batches in (1, 3):
            first, state = self.sequence_of(8, batches=batches)
            self.assertEqual((state["position"], first), (len(first), whole[:8 * 4 * batches]))
            for ranks, then in ((6, 5), (5, 6)):
                rest, _ = self.sequence_of(ranks, state=state)
                self.check_rest(rest, whole, len(first), ranks)
                second, between = self.sequence_of(ranks, state=state, batches=1)  # and again in the same epoch
                rest, _ = self.sequence_of(then, state=between)
                self.assertEqual(first + second, whole[:between["position"]])
                self.check_rest(rest, whole, between["position"], then)

    def check_rest(self, rest, whole, position, ranks):
        left = whole[position:]
        self.assertEqual(rest[:len(left)], left)
        padded = [index for index, _ in rest[len(left):]]  # from the epoch's beginning, as DistributedSampler pads
        self.assertEqual(padded, [index for index, _ in whole[:-len(left) % ranks]])

    def test_loading_a_state_costs_the_same_at_any_position(self):
        found = set()
        for epoch, position in ((0, 0), (0, 13), (0, 117), (10**6, 26), (10**12, 104)):
            loader = self.loader()
            state = {**loader.state_dict(), "epoch": epoch, "position": position}
            counted = Counted(loaders.lib)
            with mock.patch.object(loaders, "lib", counted), mock.patch.object(datasets, "lib", counted):
                loader.load_state_dict(state)
                loading = tuple(counted.calls)
                batch = next(loader.batches())
            self.assertEqual((batch.epoch, batch.position), (epoch, position + len(batch.states)))
            # Neither the samples before the position nor an order of their numbers.
            self.assertFalse({"hr_loader_open", "hr_loader_next"} & set(loading))
            found.add(loading + tuple(name for name in counted.calls[len(loading):] if name != "hr_loader_next"))
            self.assertLessEqual(loader.report()["samples"], 13 * 8, position)  # what is made ahead, at most
        self.assertEqual(len(found), 1)

    def test_loading_a_state_leaves_the_sampler_alone(self):
        asked = []

        class Sampler:
            def __iter__(self):
                asked.append(True)
                return iter(range(131))

            def __len__(self):
                return 131

        loader = self.loader(shuffle=False, sampler=Sampler())
        loader.load_state_dict({**loader.state_dict(), "position": 117})
        self.assertEqual(asked, [])
        self.assertEqual(next(loader.batches()).indices.tolist(), list(range(117, 130)))
        self.assertEqual(asked, [True])

    def test_the_next_epoch_is_whole_for_the_new_ranks(self):
        _, state = self.samples_of(8, batches=3)
        loader = self.loader(batch_size=4, rank=0, world_size=6)
        loader.load_state_dict(state)
        for _ in loader.batches():
            pass
        following = [index for batch in loader.batches() for index in batch.indices.tolist()]
        fresh = self.loader(batch_size=4, rank=0, world_size=6)
        fresh.set_epoch(1)
        self.assertEqual(following, [index for batch in fresh.batches() for index in batch.indices.tolist()])

    def test_bytes_do_not_depend_on_the_number_of_threads(self):
        colour = [hr.ColorJitter(0.4, 0.4, 0.4, 0.1)]
        for options in ({}, {"bad_samples": "skip"}, {"batch_size": 1, "damage": "salvage"},
                        {"transform": CHAIN + [hr.TrivialAugmentWide()]}, {"transform": CHAIN + [hr.RandAugment()]},
                        {"transform": CHAIN + colour + [hr.Normalize(hr.IMAGENET)], "dtype": "float16"}):
            one, two, many = [[trace for trace, _ in traces(self.loader(threads=threads, prefetch_batches=ahead,
                                                                        **options), 2)]
                              for threads, ahead in ((1, 1), (2, 2), (7, 5))]
            self.assertEqual(one, two)
            self.assertEqual(one, many)
        for order in ({"shuffle": True}, {"sampler": range(130, 0, -2)}):
            bytes_of = [[batch.images for batch in hr.DataLoader(hr.Files(support.synth("data"), ram="64M"), 7,
                                                                 threads=threads, **order).batches()]
                        for threads in (1, 7)]
            self.assertEqual(*bytes_of)

    def test_a_state_of_another_data_set_names_the_file(self):
        state = self.loader().state_dict()
        copy = support.WORK / "copy"
        shutil.copytree(support.synth("data"), copy)
        same = hr.DataLoader(hr.ImageFolder(copy), 16, shuffle=True, seed=7, transform=CHAIN)
        same.load_state_dict(state)  # elsewhere, but the same files
        path = self.data.samples[77][0].replace(self.data.root, str(copy))
        with open(path, "ab") as file:
            file.write(b"x")
        other = hr.DataLoader(hr.ImageFolder(copy), 16, shuffle=True, seed=7, transform=CHAIN)
        with self.assertRaisesRegex(ValueError, f"{path} is not what it was"):
            other.load_state_dict(state)
        with open(self.data.samples[5][0].replace(self.data.root, str(copy)), "ab") as file:
            file.write(b"x")
        other = hr.DataLoader(hr.ImageFolder(copy), 16, shuffle=True, seed=7, transform=CHAIN)
        with self.assertRaisesRegex(ValueError, "several files"):
            other.load_state_dict(state)

    def test_other_ranks_go_on_only_where_ranks_are_dealt_to_in_turn(self):
        def half(order, world, **options):
            loader = self.loader(shuffle=False, order=order, batch_size=4, rank=0, world_size=world, **options)
            next(loader.batches())
            return loader.state_dict()
        for order in ("sequential", "torch-distributed:seed=3", "torch-distributed:seed=3,drop_last=1"):
            self.loader(shuffle=False, order=order, rank=0, world_size=3).load_state_dict(half(order, 2))
        for world, other in ((2, 1), (1, 2), (2, 3)):
            with self.assertRaisesRegex(ValueError, f"go on with {world} ranks"):
                self.loader(shuffle=False, order="dali", rank=0, world_size=other).load_state_dict(half("dali", world))
        self.loader(shuffle=False, order="dali", rank=1, world_size=2).load_state_dict(half("dali", 2))

    def test_a_state_of_another_order_or_seed_is_refused(self):
        state = self.loader().state_dict()
        with self.assertRaisesRegex(ValueError, "order"):
            self.loader(shuffle=False).load_state_dict(state)
        with self.assertRaisesRegex(ValueError, "version"):
            self.loader().load_state_dict({**state, "version": 99})
        with self.assertRaisesRegex(ValueError, "another list"):
            given = [3, 1, 2]
            loader = self.loader(shuffle=False, sampler=given, batch_size=1)
            next(loader.batches())
            saved = loader.state_dict()
            given.reverse()
            loader.load_state_dict(saved)
            list(loader)


if __name__ == "__main__":
    support.main()
