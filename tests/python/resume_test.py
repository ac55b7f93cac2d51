# SPDX-License-Identifier: Apache-2.0
"""A run that is resumed gives the same bytes as one that was not, whatever the number of ranks and threads."""
import json
import shutil
import unittest
import zlib

import support
import headrace as hr

CHAIN = [hr.RandomResizedCrop(16), hr.RandomHorizontalFlip()]


def traces(loader, epochs):
    """(epoch, indices, checksum of the pixels) of each batch, and the state behind it."""
    for _ in range(epochs):
        for batch in loader.batches():
            trace = (batch.epoch, batch.indices.tolist(), zlib.crc32(batch.images.tobytes()))
            yield trace, loader.state_dict()


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
        orders = [list(range(start, 131, 3)) for start in (2, 0, 1)]

        class Sampler:
            def set_epoch(self, epoch):
                self.indices = orders[epoch]

            def __iter__(self):
                return iter(self.indices)

            def __len__(self):
                return len(orders[0])

        self.check_every_batch(lambda: self.loader(shuffle=False, sampler=Sampler()))

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
        for options in ({}, {"bad_samples": "skip"}):
            one, two, many = [[trace for trace, _ in traces(self.loader(threads=threads, prefetch_batches=ahead,
                                                                        **options), 2)]
                              for threads, ahead in ((1, 1), (2, 2), (7, 5))]
            self.assertEqual(one, two)
            self.assertEqual(one, many)

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
