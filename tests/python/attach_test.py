# SPDX-License-Identifier: Apache-2.0
"""attach(): a torch DataLoader gives what it gave, and the mount knows what it reads."""
import json
import multiprocessing
import os
import random
import subprocess
import time
import unittest
import warnings
from unittest import mock

import support
support.need("torch", "numpy")
import headrace as hr
import numpy
import torch
from torch.utils.data import (BatchSampler, ConcatDataset, DataLoader, Dataset, IterableDataset, RandomSampler,
                              SequentialSampler, Subset, SubsetRandomSampler, WeightedRandomSampler)
from torch.utils.data.distributed import DistributedSampler

FILES = 400
CHILD_SECONDS = 120  # a process that hangs fails the test by then


class Bytes(Dataset):
    """The files of a folder, as their first bytes and their length."""

    def __init__(self, folder):
        self.samples = sorted((str(path), 0) for path in folder.rglob("*.jpg"))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        with open(self.samples[index][0], "rb") as file:
            content = file.read()
        return index, len(content), sum(content[:64]), random.random()


class Numbers(Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        # What a transform draws in the main process, between two indices of the sampler.
        return index, random.random(), torch.rand(()).item(), numpy.random.rand()


class ShufflesItself:
    """A sampler of a user's: it shuffles its own list, counts, and draws as it goes."""

    def __init__(self, count):
        self.indices, self.epochs, self.rng = list(range(count)), 0, random.Random(4)

    def __len__(self):
        return len(self.indices)

    def __iter__(self):
        self.epochs += 1
        random.shuffle(self.indices)
        for index in self.indices:
            numpy.random.rand()
            yield index if self.rng.random() < 0.9 else random.randrange(len(self.indices))


def seeded():
    return torch.Generator().manual_seed(3)


# Loaders of everything that DataLoader takes.
LOADERS = {
    "sequential": lambda data: DataLoader(data, 7),
    "shuffle": lambda data: DataLoader(data, 7, shuffle=True),
    "shuffle, drop_last": lambda data: DataLoader(data, 7, shuffle=True, drop_last=True),
    "a generator of the loader": lambda data: DataLoader(data, 7, shuffle=True, generator=seeded()),
    "a generator of the sampler": lambda data: DataLoader(data, 7, sampler=RandomSampler(data, generator=seeded())),
    "replacement": lambda data: DataLoader(data, 7, sampler=RandomSampler(data, replacement=True, num_samples=90)),
    "subset": lambda data: DataLoader(data, 7, sampler=SubsetRandomSampler(range(5, 40))),
    "weights": lambda data: DataLoader(data, 7, sampler=WeightedRandomSampler([1.0] * len(data), 50)),
    "distributed": lambda data: DataLoader(data, 7, sampler=DistributedSampler(data, 2, 1, seed=5)),
    "a user's": lambda data: DataLoader(data, 7, sampler=ShufflesItself(len(data))),
    "a list": lambda data: DataLoader(data, 7, sampler=[3, 1, 4, 1, 5, 9, 2, 6]),
    "an iterator": lambda data: DataLoader(data, 7, sampler=iter([3, 1, 4, 1, 5, 9, 2, 6])),
    "batches": lambda data: DataLoader(data, batch_sampler=BatchSampler(ShufflesItself(len(data)), 5, True)),
    "a list of batches": lambda data: DataLoader(data, batch_sampler=[[1, 2], [3], [4, 5, 6]]),
    "no batches": lambda data: DataLoader(data, batch_size=None, shuffle=True),
}


def start_generators():
    torch.manual_seed(1)
    random.seed(1)
    numpy.random.seed(1)


def run(loader, stop_after=10**9):
    """What three epochs give, and what the generators give after each. `stop_after`: batches of the second epoch."""
    seen = []
    for epoch in range(3):
        if hasattr(loader.sampler, "set_epoch"):
            loader.sampler.set_epoch(epoch)
        for number, batch in enumerate(loader):
            seen.append([value.tolist() if torch.is_tensor(value) else value for value in batch])
            if epoch == 1 and number == stop_after:
                break
        seen.append((random.random(), torch.rand(()).item(), numpy.random.rand()))
        if loader.generator is not None:
            seen.append(loader.generator.get_state().tolist())
    return seen


class NothingChangesTest(unittest.TestCase):
    def told_by(self, loader):
        """The loader with a sampler that tells a list."""
        told = []
        name = "sampler" if loader.batch_sampler is None else "batch_sampler"
        telling = hr.TellingSampler(getattr(loader, name), lambda epoch, batch: told.append(epoch), loader.dataset,
                                    loader.generator)
        object.__setattr__(loader, name, telling)
        return loader, told

    def test_batches_and_generators_are_what_they_were_and_what_is_told_is_what_is_read(self):
        for name, make in LOADERS.items():
            for stop_after in (10**9, 2):
                with self.subTest(loader=name, stop_after=stop_after):
                    start_generators()
                    wanted = run(make(Numbers()), stop_after)
                    start_generators()
                    loader, told = self.told_by(make(Numbers()))
                    self.assertEqual(run(loader, stop_after), wanted)
                    batches = [batch[0] for batch in wanted if not isinstance(batch, tuple) and len(batch) == 4]
                    if stop_after > 2 and name not in ("a user's", "batches", "an iterator"):
                        flat = [index for batch in batches for index in (batch if isinstance(batch, list) else [batch])]
                        self.assertEqual([index for epoch in told for index in epoch], flat)
                    self.assertGreaterEqual(len(told), 1)

    def test_the_length_and_the_attributes_are_the_samplers(self):
        plain = DataLoader(Numbers(), 7, shuffle=True)
        loader, _ = self.told_by(DataLoader(Numbers(), 7, shuffle=True))
        self.assertEqual(len(loader), len(plain))
        self.assertEqual(loader.batch_sampler.batch_size, 7)
        self.assertIs(loader.batch_sampler.sampler, loader.sampler)

    def test_a_sampler_that_cannot_be_copied_is_not_told_and_read_once(self):
        indices = (index for index in range(20))
        loader, told = self.told_by(DataLoader(Numbers(), 5, sampler=indices))
        with self.assertWarnsRegex(UserWarning, "is not told the order of BatchSampler"):
            batches = [batch[0].tolist() for batch in loader]
        self.assertEqual([index for batch in batches for index in batch], list(range(20)))
        self.assertEqual(told, [])

    def test_a_sampler_without_end_is_not_told(self):
        class Endless:
            def __iter__(self):
                while True:
                    yield 3
        loader, told = self.told_by(DataLoader(Numbers(), 5, sampler=Endless()))
        with self.assertWarnsRegex(UserWarning, "more than 1048576 reads"):
            self.assertEqual(next(iter(loader))[0].tolist(), [3] * 5)
        self.assertEqual(told, [])

    def test_what_fails_to_be_told_is_a_warning_once(self):
        def refuse(epoch, batch):
            raise OSError("nobody listens")
        sampler = hr.TellingSampler(SequentialSampler(range(4)), refuse)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            self.assertEqual([list(sampler), list(sampler)], [[0, 1, 2, 3]] * 2)
        self.assertEqual([str(one.message) for one in seen],
                         ["headrace is not told the order of SequentialSampler: OSError: nobody listens"])


@unittest.skipUnless(os.access("/dev/fuse", os.W_OK), "no FUSE here")
class AttachTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = support.synth("data", files=FILES)
        cls.path = support.WORK / "mount"
        cls.path.mkdir()
        cls.headrace = support.BUILD / "cli/headrace"
        paths = os.pathsep.join([str(cls.headrace.parent), os.environ["PATH"]])
        cls.environment = mock.patch.dict(os.environ, HEADRACE_RUNTIME_DIR=str(support.WORK / "run"),
                                          HEADRACE_CACHE_DIR=str(support.WORK / "cache"),
                                          HEADRACE_LOG_DIR=str(support.WORK / "log"), PATH=paths)
        cls.environment.start()
        cls.addClassCleanup(cls.environment.stop)

    def setUp(self):
        self.addCleanup(subprocess.run, [self.headrace, "unmount", "--force", self.path], capture_output=True)
        size = sum(path.stat().st_blocks * 512 for path in self.folder.rglob("*.jpg"))
        # Half of the samples, beside what is on its way.
        self.call("mount", self.folder, self.path, "--ram", str((40 << 20) + size // 2))

    def call(self, *arguments, **options):
        done = subprocess.run([self.headrace, *map(str, arguments)], capture_output=True, text=True, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def stat(self):
        return json.loads(self.call("stat", self.path, "--json"))

    def wait_for(self, condition, what):
        for _ in range(300):
            if condition():
                return
            time.sleep(0.1)
        self.fail(f"waited 30 s for: {what}")

    def test_each_loader_reads_what_was_told_and_the_source_gives_the_least(self):
        for workers in (0, 2):
            with self.subTest(workers=workers):
                loader = hr.attach(DataLoader(Bytes(self.path), 8, shuffle=True, num_workers=workers,
                                              persistent_workers=workers > 0))
                for epoch in range(3):
                    before = self.stat()["mount"]
                    self.assertEqual(sorted(index for batch in loader for index in batch[0].tolist()),
                                     list(range(FILES)))
                    self.wait_for(lambda: self.stat()["mount"]["position"] == FILES, "the mount has seen all opens")
                    after, reads = self.stat()["mount"], self.stat()["store"]["epoch_reads"]
                    self.assertRegex(after["order"], "^told:")
                    self.assertEqual((after["orders_given_up"], after["epoch"], reads["epoch"]), (0, epoch, epoch))
                    self.assertLess(after["strays"] - before["strays"], FILES // 20)
                    # What is held is not read again, and what is not is read once; of what is held a window of 64
                    # samples only passes through. A plan that begins anew at each epoch reads 80 more.
                    lost = after["lost_samples"] - before["lost_samples"]
                    if epoch > 0:
                        self.assertGreater(before["held_samples"], FILES // 4)
                        self.assertLessEqual(reads["source_reads"],
                                             FILES - before["held_samples"] + 64 + lost)

    def test_told_orders_that_are_not_read_are_given_up_and_the_order_is_looked_for(self):
        loader = hr.attach(DataLoader(Bytes(self.path), 8, shuffle=True))
        next(iter(loader))
        self.assertRegex(self.stat()["mount"]["order"], "^told:")
        for _ in DataLoader(Bytes(self.path), 8, shuffle=True):
            pass
        self.wait_for(lambda: self.stat()["mount"]["orders_given_up"] == 1, "the order is given up")
        self.assertNotRegex(self.stat()["mount"]["order"], "^told:")
        self.assertTrue(self.stat()["mount"]["learns_order"])
        self.assertIn("given up", self.call("stat", self.path))
        next(iter(loader))  # the next epoch is told again
        self.assertRegex(self.stat()["mount"]["order"], "^told:")

    def run_ranks(self, ranks, workers, barrier, seen):
        """Starts processes that read the mount as the ranks of one job do: a step ends when all have made it. They wait
        for the barrier before each epoch and behind it."""
        step = multiprocessing.get_context("fork").Barrier(ranks)

        def run(rank):
            os.environ.update(LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(ranks))
            data = Bytes(self.path)
            sampler = DistributedSampler(data, ranks, rank, seed=2**40 + 11)  # no seed that is looked for
            # Ranks that have told open up to three batches each before the last one has. Forty opens where others are
            # expected would contradict what was told.
            loader = hr.attach(DataLoader(data, 4, sampler=sampler, num_workers=workers))
            for epoch in range(3):
                sampler.set_epoch(epoch)
                barrier.wait(CHILD_SECONDS)
                read = []
                for batch in loader:
                    read += batch[0].tolist()
                    step.wait(CHILD_SECONDS)
                seen.put(read)
                barrier.wait(CHILD_SECONDS)

        started = [multiprocessing.get_context("fork").Process(target=run, args=(rank,)) for rank in range(ranks)]
        for process in started:
            process.start()
            self.addCleanup(process.join)
            self.addCleanup(process.kill)
        return started

    def test_ranks_of_one_mount_are_told_each_and_followed_together(self):
        for ranks, workers in ((2, 0), (3, 1)):
            with self.subTest(ranks=ranks, workers=workers):
                context = multiprocessing.get_context("fork")
                barrier, seen = context.Barrier(ranks + 1), context.Queue()
                started = self.run_ranks(ranks, workers, barrier, seen)
                for epoch in range(3):
                    before = self.stat()["mount"]
                    barrier.wait(CHILD_SECONDS)
                    read = [index for _ in range(ranks) for index in seen.get(timeout=CHILD_SECONDS)]
                    length = -(-FILES // ranks) * ranks
                    self.assertEqual((len(read), set(read)), (length, set(range(FILES))))
                    self.wait_for(lambda: self.stat()["mount"]["position"] == length, "the mount has seen all opens")
                    after = self.stat()["mount"]
                    self.assertRegex(after["order"], "^told:")
                    self.assertEqual((after["orders_given_up"], after["epoch"]), (0, epoch))
                    # Who begins first opens a few before the last has told.
                    self.assertLess(after["strays"] - before["strays"], FILES // 5)
                    barrier.wait(CHILD_SECONDS)
                for process in started:
                    process.join(CHILD_SECONDS)
                    self.assertEqual(process.exitcode, 0)

    def tell(self, numbers, *options):
        text = "".join(f"{number}\n" for number in numbers)
        self.call("order", "tell", self.path, "-", *options, input=text)
        return self.stat()["mount"]["order"]

    def test_an_epoch_of_ranks_is_followed_once_all_have_told(self):
        def of(rank, name="job"):
            return "--name", name, "--rank", rank, "--ranks", 2

        self.assertNotRegex(self.tell(range(100), *of(0)), "^told:")
        self.assertNotRegex(self.tell(range(0, 5), *of(0)), "^told:")  # it looked at a batch, and begins anew
        self.assertEqual(self.tell(range(200, 400), *of(1)), "told:job")
        # Validation of rank 0 alone comes between the epochs.
        self.assertEqual(self.tell(range(10), *of(1)), "told:job")
        self.assertEqual(self.tell(range(10), *of(0, "validation")), "told:job")
        self.tell(range(10, 20), *of(0))
        self.assertEqual((self.stat()["mount"]["order"], self.stat()["mount"]["epoch"]), ("told:job", 1))

    def test_subsets_and_lists_of_paths_are_found(self):
        data = Bytes(self.path)
        some = Subset(data, [5, 3, 8])
        self.assertEqual([len(batch[0]) for batch in hr.attach(DataLoader(ConcatDataset([some, some]), 4))], [4, 2])
        self.assertEqual(self.stat()["mount"]["order"][:5], "told:")
        paths = [path for path, _ in data.samples]
        numbers = hr.attach(DataLoader(range(FILES), 4), paths=paths)
        self.assertEqual(next(iter(numbers)).tolist(), [0, 1, 2, 3])

    def test_what_cannot_be_attached_is_refused(self):
        class Stream(IterableDataset):
            def __iter__(self):
                return iter(range(3))
        data = Bytes(self.path)
        for error, text, make in (
                (TypeError, "needs a torch DataLoader", lambda: hr.attach([1, 2])),
                (TypeError, "is iterated", lambda: hr.attach(DataLoader(Stream()))),
                (TypeError, "has no `samples`", lambda: hr.attach(DataLoader(range(3)))),
                (ValueError, "no file of the data set", lambda: hr.attach(DataLoader(Bytes(self.folder)), self.path)),
                (hr.HeadraceError, "no running headrace mount", lambda: hr.attach(DataLoader(data), "/proc"))):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                make()
        begun = DataLoader(data, 8, num_workers=1, persistent_workers=True)
        next(iter(begun))
        with self.assertRaisesRegex(ValueError, "has begun"):
            hr.attach(begun)
        with mock.patch.dict(os.environ, PATH="/nowhere"), self.assertRaisesRegex(FileNotFoundError, "no headrace"):
            hr.attach(DataLoader(data))
        with mock.patch.dict(os.environ, LOCAL_WORLD_SIZE="2", LOCAL_RANK="2"), \
                self.assertRaisesRegex(ValueError, "LOCAL_RANK 2 of LOCAL_WORLD_SIZE 2"):
            hr.attach(DataLoader(data, 8))

    def test_attaching_twice_is_attaching_once(self):
        loader = hr.attach(DataLoader(Bytes(self.path), 8))
        sampler = loader.batch_sampler
        self.assertIs(hr.attach(loader).batch_sampler, sampler)

    def test_the_command_tells_and_numbers(self):
        numbers = self.call("order", "number", self.path).splitlines()
        self.assertEqual(len(numbers), FILES)
        self.assertTrue((self.path / numbers[17]).is_file())
        self.assertEqual(self.call("order", "number", self.path, "--null").split("\0")[:-1], numbers)
        file = support.WORK / "epoch"
        file.write_text("7\n3\n" * 5000)  # several requests
        self.call("order", "tell", self.path, file, "--name", "me", "--batch", "4", "--workers", "2")
        self.assertEqual(self.stat()["mount"]["order"], "told:me")
        self.call("order", "tell", self.path, "-", "--name", "me", "--batch", "4", "--workers", "2", input="1\n2\n")
        self.assertEqual(self.stat()["mount"]["epoch"], 1)

    def test_wrong_orders_are_refused_in_one_line(self):
        for text, options, reason in (
                (f"{FILES}\n", (), f"{FILES} is no sample: the data set has {FILES}"), ("", (), "epoch of 0 reads"),
                ("1\n-2\n", (), "line 2: '-2' is no sample number"), ("1\n", ("--name", ""), "name of who tells"),
                ("1\n", ("--rank", "2", "--ranks", "2"), "rank 2 of 2 cannot tell"),
                ("1\n", ("--ranks", "65"), "1 to 64 ranks"),
                ("x\n", (), "line 1: 'x'"), ("1\n", ("--batch", "0"), "are no loader's"),
                ("1\n" * (2**20 + 1), (), "an epoch of 1048577 reads cannot be told")):
            done = subprocess.run([self.headrace, "order", "tell", self.path, "-", *options], input=text, text=True,
                                  capture_output=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(reason, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
        self.assertNotRegex(self.stat()["mount"]["order"], "^told:")


if __name__ == "__main__":
    support.main()
