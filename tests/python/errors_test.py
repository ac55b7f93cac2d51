# SPDX-License-Identifier: Apache-2.0
"""Bad input is an exception of the fitting type with one line that names the thing; Ctrl-C and fork never hang."""
import copy
import os
import pickle
import select
import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

import support
import headrace as hr
from headrace.delivery import has_module

CHAIN = [hr.RandomResizedCrop(16)]
INF, NAN = float("inf"), float("nan")


class ErrorsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hr.set_log_level("error")
        cls.folder = support.synth("data", files=60)
        cls.data = hr.ImageFolder(cls.folder, ram="64M")

    def raises(self, kind, words, function, *arguments, **options):
        with self.assertRaisesRegex(kind, words) as caught:
            function(*arguments, **options)
        self.assertIs(type(caught.exception), kind)
        self.assertNotIn("\n", str(caught.exception))

    def test_data_sets(self):
        empty = support.WORK / "empty"
        (empty / "dogs").mkdir(parents=True)
        flat = support.WORK / "flat"
        shutil.copytree(self.folder / "n00000", flat)
        half = support.WORK / "half"
        shutil.copytree(self.folder, half)
        (half / "cats").mkdir()
        self.raises(FileNotFoundError, "/no/such/folder", hr.ImageFolder, "/no/such/folder")
        self.raises(NotADirectoryError, "headrace.so", hr.ImageFolder, os.environ["HEADRACE_LIBRARY"])
        self.raises(FileNotFoundError, str(empty), hr.ImageFolder, empty)
        self.raises(FileNotFoundError, f"{flat} has no folder per class", hr.ImageFolder, flat)
        self.raises(FileNotFoundError, "these classes: cats", hr.ImageFolder, half)
        self.raises(ValueError, "listing 'other' is unknown", hr.ImageFolder, self.folder, listing="other")
        self.raises(ValueError, "ram 'much' is no size", hr.ImageFolder, self.folder, ram="much")
        self.raises(ValueError, "PATH:SIZE", hr.ImageFolder, self.folder, ssd="/nvme")
        self.raises(ValueError, "lie in each other", hr.ImageFolder, self.folder, ssd=f"{self.folder}/tier:1G")
        self.raises(IndexError, "sample 60 is out of range", self.data.path, 60)

    def test_arguments_of_data_sets(self):
        for kind, words, options in (
                (TypeError, "listing must be a str, not None", {"listing": None}),
                (TypeError, "engine must be a str, not 5", {"engine": 5}),
                (ValueError, "engine .* NUL", {"engine": "auto\0"}),
                (ValueError, "PATH:SIZE", {"ssd": Path("/nvme")}),
                (TypeError, "ssd must be PATH:SIZE", {"ssd": 5}),
                (ValueError, "ssd .* NUL", {"ssd": "/nvme\0:1G"}),
                (TypeError, "ram must be an int", {"ram": 1.5}),
                (ValueError, "ram must be 0 to", {"ram": -1}),
                (ValueError, "ram must be 0 to", {"ram": 2**64 + 5}),
                (ValueError, "ram must be 0 to", {"ram": "99999999P"}),
                (ValueError, "sample_list .* NUL", {"sample_list": "list\0"}),
                (TypeError, "catalog must be a path", {"catalog": 5}),
                (ValueError, "root .* NUL", {"root": f"{self.folder}\0else"}),
                (TypeError, "root must be a path", {"root": 5.5})):
            with self.subTest(options):
                self.raises(kind, words, hr.ImageFolder, **{"root": self.folder, **options})
        with mock.patch.dict(os.environ, LOCAL_WORLD_SIZE="x"):
            self.raises(ValueError, "LOCAL_WORLD_SIZE", hr.ImageFolder, self.folder)
        with hr.ImageFolder(os.fsencode(self.folder), ram="64M") as data:
            self.assertEqual((data.root, len(data)), (str(self.folder), 60))
        self.raises(TypeError, "must be an int, not 1.5", self.data.path, 1.5)
        self.raises(ValueError, "three numbers", self.data.check_digest, [60])

    def test_states_and_epochs(self):
        loader = hr.DataLoader(self.data, 4, transform=CHAIN, output="buffer")
        state = loader.state_dict()
        for kind, words, wrong in ((TypeError, "not None", None), (ValueError, "has no epoch", {"version": 1}),
                                   (ValueError, "three numbers", {**state, "dataset": [60]}),
                                   (ValueError, "position of the state", {**state, "position": 2**64 + 4}),
                                   (ValueError, "position 61 lies behind", {**state, "position": 61}),
                                   (TypeError, "epoch of the state", {**state, "epoch": 1.5})):
            with self.subTest(wrong):
                self.raises(kind, words, loader.load_state_dict, wrong)
        self.raises(TypeError, "epoch must be an int, not 1.5", loader.set_epoch, 1.5)
        self.raises(ValueError, "epoch must be 0 to", loader.set_epoch, 2**64)
        self.raises(ValueError, "epoch must be 0 to", loader.set_epoch, -1)
        with mock.patch.dict(os.environ, RANK="x"):
            self.raises(ValueError, "RANK of the environment", hr.DataLoader, self.data, transform=CHAIN)
        images, labels = next(iter(loader))
        self.raises(TypeError, "tolist", images.tolist)
        self.assertEqual(len(labels.tolist()), 4)

    def test_whatever_counts_as_an_int_is_one(self):
        class Eight:
            def __index__(self):
                return 8

        loader = hr.DataLoader(self.data, Eight(), transform=[hr.RandomResizedCrop(Eight())], output="buffer",
                               sampler=[Eight()] * 16, threads=Eight(), dtype="uint8")
        self.assertEqual([images.shape for images, _ in loader], [(8, 3, 8, 8)] * 2)

    def test_a_tier_of_another_process(self):
        tier = support.WORK / "tier"
        with hr.ImageFolder(self.folder, ssd=f"{tier}:64M", ram="64M"):
            self.raises(hr.BusyError, str(tier), hr.ImageFolder, self.folder, ssd=[f"{tier}:64M"], ram="64M")

    def test_a_tier_leaves_free_what_is_to_stay_free(self):
        place = support.WORK / "free"
        place.mkdir()
        status = os.statvfs(place)
        nearly_all = status.f_blocks * status.f_frsize - 2**20  # more than is free: nothing is left for the tier
        for words, budget in (("free=1K", 2**26), (f"free={nearly_all}", 0), ("free=99.999%", 0)):
            with hr.ImageFolder(self.folder, ssd=f"{place}/tier:64M,{words}", ram="64M") as data:
                loader = hr.DataLoader(data, 8, transform=CHAIN)
                next(iter(loader))
                self.assertEqual([tier["budget_bytes"] for tier in loader.report()["tiers"] if tier["kind"] == "ssd"],
                                 [budget], words)
                del loader
        for words in ("fre=1G", "free", "", "free=1G,free=1G", "free=0", "free=100%", "free=much", "free=99999P"):
            self.raises(ValueError, f"ssd .?{place}/tier:64M,{words}", hr.ImageFolder, self.folder,
                        ssd=f"{place}/tier:64M,{words}")
        with mock.patch.dict(os.environ, LOCAL_WORLD_SIZE="2"), mock.patch("headrace.sharing.lease") as lease:
            lease.side_effect = OSError("not now")
            with self.assertWarns(UserWarning):
                hr.ImageFolder(self.folder, ssd=f"{place}/tier:64M,free=2G").close()
        self.assertIn(f"{place}/tier:{2**26}B,free={2**31}B", lease.call_args.args[1])

    def test_loaders(self):
        cases = [
            (TypeError, "dataset is a str", {"dataset": "/data"}),
            (ValueError, "batch_size must be 1", {"batch_size": 0}),
            (ValueError, "give a transform", {"transform": None}),
            (TypeError, "none of headrace's", {"transform": [len]}),
            (ValueError, "does not fit dtype uint8",
             {"transform": CHAIN + [hr.Normalize(hr.IMAGENET)], "dtype": "uint8"}),
            (ValueError, "CenterCrop", {"transform": [hr.Resize(16)]}),
            (ValueError, "cannot stand here", {"transform": [hr.RandomHorizontalFlip(), hr.RandomResizedCrop(16)]}),
            (ValueError, "a size is", {"transform": [hr.RandomResizedCrop("16")]}),
            (ValueError, "interpolation of Resize .* 'cubic'", {"transform": [hr.Resize((8, 8), True, "cubic")]}),
            (ValueError, "bicubic .* antialias", {"transform": [hr.RandomResizedCrop(8, antialias=False,
                                                                                     interpolation="bicubic")]}),
            (ValueError, "no std of 0", {"transform": CHAIN + [hr.Normalize((0, 0, 0), (1, 0, 1))]}),
            (ValueError, "dtype 'int4' is unknown", {"dtype": "int4"}),
            (ValueError, "needs torch_workers", {"draws": "torch"}),
            (ValueError, "bad_samples 'ignore'", {"bad_samples": "ignore"}),
            (ValueError, "output 'jax' is unknown", {"output": "jax"}),
            (ValueError, "one of shuffle", {"shuffle": True, "sampler": [1]}),
            (ValueError, "family|order", {"order": "no-such-order"}),
            (ValueError, "rank 2 of world_size 2", {"rank": 2, "world_size": 2}),
            (TypeError, "no iterable", {"sampler": 5}),
            (TypeError, "order must be a str, not 5", {"order": 5}),
            (ValueError, "order .* NUL", {"order": "sequential\0"}),
            (TypeError, "transform must be a list", {"transform": hr.RandomResizedCrop(8)}),
            (TypeError, "Normalize takes mean and std", {"transform": CHAIN + [hr.Normalize(0.5)]}),
            (ValueError, "Normalize must be a finite", {"transform": CHAIN + [hr.Normalize((0, 0, 0), (1, 1, INF))]}),
            (ValueError, "Normalize must be a finite", {"transform": CHAIN + [hr.Normalize((NAN, 0, 0), (1, 1, 1))]}),
            (ValueError, "ratio .* finite", {"transform": [hr.RandomResizedCrop(16, ratio=(1, INF))]}),
            (ValueError, "brightness .* finite", {"transform": CHAIN + [hr.ColorJitter(brightness=INF)]}),
            (TypeError, "hue .* number", {"transform": CHAIN + [hr.ColorJitter(hue="much")]}),
            (ValueError, "fill of RandomCrop must be 0 to 255", {"transform": [hr.RandomCrop(16, fill=256)]}),
            (ValueError, "padding of RandomCrop", {"transform": [hr.RandomCrop(16, padding=2**32)]}),
            (ValueError, "height of RandomResizedCrop", {"transform": [hr.RandomResizedCrop(2**32 + 16)]}),
            (ValueError, "num_magnitude_bins of TrivialAugmentWide must be 2 to",
             {"transform": CHAIN + [hr.TrivialAugmentWide(1)]}),
            (ValueError, "magnitude of RandAugment must be below its 10 bins, not 10",
             {"transform": CHAIN + [hr.RandAugment(magnitude=10, num_magnitude_bins=10)]}),
            (ValueError, "cannot stand here", {"transform": CHAIN + [hr.RandAugment(), hr.TrivialAugmentWide()]}),
            (ValueError, "batch_size must be 1 to", {"batch_size": 2**64 + 4}),
            (TypeError, "batch_size must be an int", {"batch_size": 4.0}),
            (ValueError, "threads must be 0 to", {"threads": 2**32 + 1}),
            (ValueError, "threads must be 0 to", {"threads": -1}),
            (ValueError, "window must be 0 to", {"window": 2**64}),
            (ValueError, "prefetch_batches must be 0 to", {"prefetch_batches": -1}),
            (ValueError, "prefetch_batches must be 0 to 64", {"prefetch_batches": 65}),
            (ValueError, "prefetch_batches must be 0 to", {"prefetch_batches": 2**40}),
            (ValueError, "seed must be 0 to", {"seed": -1}),
            (TypeError, "rank must be an int", {"rank": 0.5, "world_size": 2}),
        ]
        for kind, words, options in cases:
            with self.subTest(options):
                self.raises(kind, words, hr.DataLoader, **{"dataset": self.data, "transform": CHAIN, **options})

    def test_what_the_library_finds_when_it_starts(self):
        for kind, words, options in (
                (IndexError, "index 60 at position 1 is out of range: .* has 60 samples$", {"sampler": [3, 60]}),
                (IndexError, "index -1 at position 1 of the sampler", {"sampler": [3, -1]}),
                (IndexError, "index 4294967296 at position 0 of the sampler", {"sampler": [2**32]}),
                (TypeError, "sampler: an index must be an int, not 1.5", {"sampler": [3, 1.5]}),
                (ValueError, "batch_size must be 1 to 65536", {"batch_size": 65537}),
                (ValueError, "flip probability", {"transform": CHAIN + [hr.RandomHorizontalFlip(2)]}),
                (ValueError, "crop scale", {"transform": [hr.RandomResizedCrop(16, scale=(2, 1))]}),
                (ValueError, "2 to 1000 magnitude bins", {"transform": CHAIN + [hr.TrivialAugmentWide(1001)]}),
                (ValueError, "0 to 16 operations", {"transform": CHAIN + [hr.RandAugment(17)]}),
                (ValueError, "torch's draws",
                 {"transform": CHAIN + [hr.RandAugment()], "draws": "torch", "torch_workers": 1}),
                (ValueError, "torch's draws",
                 {"transform": [hr.Resize((4, 4))], "draws": "torch", "torch_workers": 1})):
            with self.subTest(options):
                if "draws" in options and not has_module("torch"):
                    continue
                loader = hr.DataLoader(self.data, **{"batch_size": 4, "transform": CHAIN, **options})
                self.raises(kind, words, lambda: list(loader))
        loader = hr.DataLoader(hr.Files(self.folder, ram="64M"), batch_size=65537)
        self.raises(ValueError, "batch_size must be", lambda: list(loader))

    def test_an_iterator_is_no_sampler_of_two_epochs(self):
        loader = hr.DataLoader(self.data, 4, transform=CHAIN, output="buffer", sampler=iter([5, 4, 3]))
        self.assertEqual([batch.indices.tolist() for batch in loader.batches()], [[5, 4, 3]])
        self.raises(ValueError, "sampler <list_iterator .* has given its one epoch", list, loader)

    def test_a_data_set_and_a_loader_are_not_copied(self):
        loader = hr.DataLoader(self.data, 4, transform=CHAIN, output="buffer")
        for function in (copy.copy, copy.deepcopy, pickle.dumps):
            self.raises(TypeError, f"cannot be copied or sent .*; open {self.folder} there", function, self.data)
            self.raises(TypeError, f"a loader of {self.folder} .* cannot be copied or sent", function, loader)

    def bad_copy(self):
        folder = support.WORK / "bad"
        if not folder.exists():
            shutil.copytree(self.folder, folder)
            samples = sorted(folder.glob("*/*.jpg"))
            samples[7].write_bytes(b"this is no image")
            samples[20].write_bytes(samples[20].read_bytes()[:200])
        return hr.ImageFolder(folder, ram="64M")

    def test_bad_samples_raise_are_skipped_or_zero(self):
        data = self.bad_copy()
        bad_paths = [data.path(7), data.path(20)]
        loader = hr.DataLoader(data, 4, transform=CHAIN, output="buffer")
        batches = loader.batches()
        first = next(batches)
        self.raises(hr.BadSampleError, os.path.relpath(bad_paths[0], data.root), next, batches)
        self.assertEqual(first.indices.tolist(), [0, 1, 2, 3])

        skipped = list(hr.DataLoader(data, 4, transform=CHAIN, output="buffer", bad_samples="skip").batches())
        indices = [index for batch in skipped for index in batch.indices.tolist()]
        self.assertEqual(indices, [index for index in range(60) if index not in (7, 20)])
        notes = [note for batch in skipped for note in batch.notes]
        self.assertEqual([(note.index, note.position, note.state) for note in notes], [(7, 7, "bad"), (20, 20, "bad")])

        zero = list(hr.DataLoader(data, 4, transform=CHAIN, output="buffer", bad_samples="zero").batches())
        self.assertEqual(zero[1].states, ["good", "good", "good", "bad"])
        image = zero[1].images.tobytes()[-3 * 16 * 16 * 4:]
        self.assertEqual(image, bytes(len(image)))

    def test_an_epoch_without_a_batch_ends(self):
        folder = support.WORK / "all-bad"
        shutil.copytree(self.folder / "n00000", folder / "n00000")
        for path in folder.glob("*/*"):
            path.write_bytes(b"this is no image")
        data = hr.ImageFolder(folder, ram="64M")
        for options in ({}, {"drop_last": True}, {"sampler": [1, 0]}):
            loader = hr.DataLoader(data, 2, transform=CHAIN, output="buffer", bad_samples="skip", **options)
            for epoch in range(3):
                self.assertEqual(list(loader), [])
                self.assertEqual(loader.state_dict()["epoch"], epoch + 1)
        few = hr.DataLoader(self.bad_copy(), 59, transform=CHAIN, output="buffer", bad_samples="skip", drop_last=True)
        self.assertEqual([list(few) for _ in range(3)], [[], [], []])

    def test_a_rank_without_a_sample_has_epochs_without_a_batch_and_can_be_closed(self):
        data = hr.Files(self.folder / "n00000", ram="64M")
        loader = hr.DataLoader(data, 2, order="sequential", rank=len(data), world_size=len(data) + 1)
        self.assertEqual([list(loader) for _ in range(3)], [[], [], []])
        loader.close()

    def test_an_epoch_of_files_without_a_batch_ends(self):
        folder = support.WORK / "unreadable"
        shutil.copytree(self.folder / "n00000", folder)
        data = hr.Files(folder, ram="64M")
        for path in folder.iterdir():
            path.unlink()
        loader = hr.DataLoader(data, 2, bad_samples="skip")
        self.assertEqual([list(loader) for _ in range(3)], [[], [], []])

    def decoded(self, files, **options):
        """[indices, samples, states, (index, position, state) of the notes] of each batch of two ranks' second."""
        loader = hr.DataLoader(files, 4, rank=1, world_size=2, **options)
        return [(batch.indices, batch.images, batch.states, batch.labels,
                 [(note.index, note.position, note.state) for note in batch.notes]) for batch in loader.batches()]

    def test_a_sample_that_the_function_of_files_raises_on_is_a_bad_one(self):
        folder = support.WORK / "numbered"
        folder.mkdir()
        for number in range(24):
            (folder / f"{number:02}").write_bytes(b"%d" % number)
        (folder / "09").write_bytes(b"no\nnumber")
        for number in (17, 19, 21, 23):
            (folder / f"{number:02}").write_bytes(b"none")
        files = hr.Files(folder, decode=int, ram="64M")
        batches = hr.DataLoader(files, 4, rank=1, world_size=2).batches()
        next(batches)
        self.raises(hr.BadSampleError, f"{folder}/09: decode raised ValueError: invalid literal .*no", next, batches)

        four = ["good"] * 4
        first = ([1, 3, 5, 7], [1, 3, 5, 7], four, [0] * 4, [])
        notes = [(number, number, "bad") for number in (17, 19, 21, 23)]
        self.assertEqual(self.decoded(files, bad_samples="zero"), [
            first, ([9, 11, 13, 15], [None, 11, 13, 15], ["bad", "good", "good", "good"], [0] * 4, [(9, 9, "bad")]),
            ([17, 19, 21, 23], [None] * 4, ["bad"] * 4, [0] * 4, notes)])
        files = hr.Files(folder, decode=int, ram="64M")
        (folder / "05").unlink()  # the library skips it, and 7 and those behind it move up
        self.assertEqual(self.decoded(files, bad_samples="skip"), [
            ([1, 3, 7], [1, 3, 7], ["good"] * 3, [0] * 3, [(5, 5, "bad"), (9, 9, "bad")]),
            ([11, 13, 15], [11, 13, 15], ["good"] * 3, [0] * 3, [(17, 17, "bad")])])  # and none of 19, 21 and 23

    def test_files_that_cannot_be_read_are_none_for_the_function(self):
        folder = support.WORK / "unreadable-ones"
        folder.mkdir()
        for number in range(3):
            (folder / f"{number}").write_bytes(b"%d" % number)
        with hr.Files(folder, decode=len, ram="64M") as lengths, hr.Files(folder, ram="64M") as plain:
            (folder / "1").unlink()
            self.assertEqual([list(samples) for samples, _ in hr.DataLoader(lengths, 3, bad_samples="zero")],
                             [[1, None, 1]])
            self.assertEqual([list(samples) for samples, _ in hr.DataLoader(plain, 3, bad_samples="zero")],
                             [[b"0", b"", b"2"]])

    def test_a_batch_may_be_larger_than_the_memory_of_its_data_set(self):
        folder = support.WORK / "large"
        folder.mkdir()
        for number in range(12):
            (folder / f"{number:02}").write_bytes(bytes([number]) * (1 << 20))
        for ram in (0, "2M"):
            [(samples, _)] = hr.DataLoader(hr.Files(folder, ram=ram), 12, window=1 << 20)
            self.assertEqual([(len(sample), sample[0]) for sample in samples],
                             [(1 << 20, number) for number in range(12)])

    def test_a_file_that_vanished(self):
        folder = support.WORK / "vanishing"
        shutil.copytree(self.folder, folder)
        data = hr.ImageFolder(folder, ram="64M")
        path = Path(data.path(30))
        path.unlink()
        loader = hr.DataLoader(data, 60, transform=CHAIN)
        with self.assertRaisesRegex((hr.StaleError, FileNotFoundError), path.name):
            list(loader)

    def test_a_loader_that_was_closed_meanwhile(self):
        loader = hr.DataLoader(self.data, 4, transform=CHAIN)
        batches = iter(loader)
        next(batches)
        loader.close()
        self.raises(RuntimeError, "this iteration is over", next, batches)
        self.assertEqual(len(list(loader)), 15)
        data = hr.ImageFolder(self.folder, ram="64M")
        data.close()
        self.raises(ValueError, "is closed", hr.DataLoader, data, transform=CHAIN)

    def test_the_child_of_a_fork_is_told(self):
        loader = hr.DataLoader(self.data, 4, transform=CHAIN, output="buffer")
        batches = loader.batches()
        kept = next(batches)
        process = os.fork()
        if process == 0:
            signal.alarm(support.WAIT_SECONDS)  # a child that hangs ends by then
            try:
                next(batches)
            except RuntimeError as error:
                del kept, batches, loader  # neither of these waits for threads that are not here
                os._exit(0 if "parent process" in str(error) else 1)
            os._exit(2)
        self.assertEqual(os.waitpid(process, 0)[1], 0)
        self.assertEqual(len(list(batches)), 14)

    def slow_source(self, name, *delays):
        slow = support.WORK / name
        slow.mkdir()
        source = subprocess.Popen([support.BUILD / "tests/support/slow_fs", self.folder, slow, *delays])
        self.addCleanup(source.wait)
        self.addCleanup(source.terminate)
        support.wait_until(lambda: os.path.ismount(slow), "the slow source is mounted", source)
        return slow, source

    def check_interrupt(self, source, body, thread):
        """Runs `body` in a program, which has to print "interrupted" after Ctrl-C while the thread is there.

        Another thread of the program gets the signal: as one that came just before the main one waits, it does not end
        that one's wait.
        """
        script = f"""
import threading
import headrace as hr
other = threading.Thread(target=threading.Event().wait, daemon=True)
other.start()
print(other.native_id, flush=True)
try:
    {body}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
        process = subprocess.Popen([sys.executable, "-B", "-c", script], stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "PYTHONPATH": str(support.ROOT / "python")})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(source.terminate)  # answers at once: the kernel lets nobody go who waits for an answer of FUSE
        self.addCleanup(process.kill)  # its end would wait for what is being read
        support.wait_until(lambda: thread in support.threads_of(process.pid), "a thread reads", process)
        os.kill(int(process.stdout.readline()), signal.SIGINT)
        self.assertTrue(select.select([process.stdout], [], [], 30)[0], "Ctrl-C waits for the source")
        self.assertEqual(process.stdout.readline(), "interrupted\n")

    @unittest.skipUnless(os.access("/dev/fuse", os.W_OK), "no FUSE here")
    def test_control_c_ends_a_wait_for_a_source_that_does_not_answer(self):
        slow, source = self.slow_source("slow", "--read-ms", "60000")
        self.check_interrupt(source, f"data = hr.ImageFolder({str(slow)!r}, ram='64M'); "
                             "next(iter(hr.DataLoader(data, 4, transform=[hr.Resize((4, 4))], output='buffer')))",
                             "hr-feed")

    @unittest.skipUnless(os.access("/dev/fuse", os.W_OK), "no FUSE here")
    def test_control_c_ends_the_opening_of_a_source_whose_listing_takes_long(self):
        slow, source = self.slow_source("slow-listing", "--list-ms", "60000")
        self.check_interrupt(source, f"hr.ImageFolder({str(slow)!r}, ram='64M')", "hr-scan")


if __name__ == "__main__":
    support.main()
