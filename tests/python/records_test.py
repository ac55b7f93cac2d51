# SPDX-License-Identifier: Apache-2.0
"""Records of packs as samples: the bytes that the library which wrote the pack would give, by number, in any order."""
import importlib
import os
import struct
import unittest
from unittest import mock

import support
import headrace as hr

ROW_BYTES = 300
PACKS = {"a.npy": 70, "b.npy": 133}  # rows


def row(number):
    return bytes((number * 7 + i) % 256 for i in range(ROW_BYTES))


def write_npy(path, first, count, rows=None):
    """Rows first .. first + count - 1 as numpy.save writes them; its header may say another number of `rows`."""
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({rows or count}, {ROW_BYTES}), }}"
    header = header.ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() +
                     b"".join(row(first + i) for i in range(count)))


def write_packs(folder):
    folder.mkdir()
    first = 0
    for name, count in PACKS.items():
        write_npy(folder / name, first, count)
        first += count
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\xff")  # no pack
    return folder


def library(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise unittest.SkipTest(f"{error}")


class RecordsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hr.set_log_level("error")
        cls.folder = write_packs(support.WORK / "packs")
        cls.count = sum(PACKS.values())

    def files(self, folder=None, **options):
        return hr.Files(folder or self.folder, **{"records": "auto", "ram": "64M", **options})

    def test_they_are_numbered_by_the_paths_of_their_packs(self):
        data = self.files()
        self.assertEqual((len(data), set(data.targets)), (self.count, {0}))
        self.assertEqual([os.path.basename(data.path(i)) for i in (0, 69, 70, 202)],
                         ["a.npy", "a.npy", "b.npy", "b.npy"])
        self.assertEqual([content for batch, _ in hr.DataLoader(data, 16) for content in batch],
                         [row(i) for i in range(self.count)])

    def test_each_epoch_has_all_of_them_in_its_order(self):
        loader = hr.DataLoader(self.files(ssd=f"{support.WORK}/tier:64M"), 16, shuffle=True, seed=3)
        orders = []
        for _ in range(3):
            batches = list(loader.batches())
            order = [index for batch in batches for index in batch.indices]
            self.assertEqual([content for batch in batches for content in batch.images], [row(i) for i in order])
            self.assertEqual(sorted(order), list(range(self.count)))
            orders.append(order)
        self.assertNotEqual(orders[0], orders[1])

    def test_ranks_and_samplers_share_them(self):
        seen = [index for rank in range(3) for batch in
                hr.DataLoader(self.files(), 8, shuffle=True, rank=rank, world_size=3).batches()
                for index in batch.indices]
        self.assertEqual(set(seen), set(range(self.count)))
        last = hr.DataLoader(self.files(), 2, sampler=[self.count - 1, 0])
        self.assertEqual(next(iter(last))[0], [row(self.count - 1), row(0)])
        with self.assertRaisesRegex(IndexError, f"index {self.count} at position 1 .* {self.count} samples"):
            next(iter(hr.DataLoader(self.files(), 2, sampler=[0, self.count])))

    def test_a_state_goes_on_with_the_same_records_alone(self):
        loader = hr.DataLoader(self.files(), 16, shuffle=True, seed=1)
        batches = loader.batches()
        next(batches)
        state, wanted = loader.state_dict(), next(batches).images
        again = hr.DataLoader(self.files(), 16, shuffle=True, seed=1)
        again.load_state_dict(state)
        self.assertEqual(next(again.batches()).images, wanted)

        def refuse(words, **options):
            with self.assertRaisesRegex(ValueError, words):
                hr.DataLoader(self.files(**options), 16, shuffle=True, seed=1).load_state_dict(state)
        other = write_packs(support.WORK / "other")
        (other / "b.npy").rename(other / "c.npy")
        refuse("other/c.npy is not what it was", folder=other)
        with open(other / "c.npy", "ab") as pack:
            pack.write(row(0))
        refuse("not what it was", folder=other)

    def test_a_state_of_other_records_of_the_same_file_is_refused(self):
        folder = support.WORK / "raw"
        folder.mkdir()
        (folder / "rows").write_bytes(b"".join(row(i) for i in range(11)))
        ten, other_ten = (hr.DataLoader(self.files(folder, records=spec), 2) for spec in
                          (f"stride={ROW_BYTES},offset={ROW_BYTES}", f"stride={ROW_BYTES * 11 // 10}"))
        self.assertEqual((len(ten.dataset), len(other_ten.dataset)), (10, 10))
        self.assertEqual(next(iter(ten))[0], [row(1), row(2)])
        with self.assertRaisesRegex(ValueError, "raw/rows is not what it was"):
            other_ten.load_state_dict(ten.state_dict())

    def test_what_is_no_pack_is_refused_by_name(self):
        bad = support.WORK / "bad"
        bad.mkdir()
        for kind, words, call in (
                (ValueError, "bytes, which Files reads", lambda: hr.ImageFolder(self.folder, records="auto")),
                (ValueError, "records lmdbx: .* known are", lambda: self.files(records="lmdbx")),
                (ValueError, "records lmdb: the folder has no such pack", lambda: self.files(records="lmdb")),
                (TypeError, "records must be a str, not 5", lambda: self.files(records=5)),
                (ValueError, "leave out the sample list", lambda: self.files(sample_list=self.folder / "photo.jpg")),
                (ValueError, "s3://bucket/prefix", lambda: self.files("s3://bucket/prefix"))):
            with self.subTest(words), self.assertRaisesRegex(kind, words) as caught:
                call()
            self.assertNotIn("\n", str(caught.exception))
        write_npy(bad / "short.npy", 0, 10, rows=1000)
        with self.assertRaisesRegex(hr.BadSampleError, "short.npy"):
            self.files(bad)
        (bad / "short.npy").unlink()
        write_npy(bad / "none.npy", 0, 0)
        with self.assertRaisesRegex(FileNotFoundError, "none.npy: this pack, and any other there, has no record"):
            self.files(bad)

    def test_a_pack_that_was_replaced_is_stale(self):
        folder = write_packs(support.WORK / "replaced")
        data = self.files(folder)
        write_npy(folder / "new", 5, PACKS["a.npy"])
        os.replace(folder / "new", folder / "a.npy")
        with self.assertRaisesRegex(hr.StaleError, "a.npy"):
            next(iter(hr.DataLoader(data, 16)))

    def test_a_pack_that_changes_ends_the_loader_whatever_is_bad(self):
        folder = write_packs(support.WORK / "changing")
        loader = hr.DataLoader(self.files(folder, ram=0), 1, bad_samples="skip", window=1, prefetch_batches=1)
        batches = loader.batches()
        next(batches)
        write_npy(folder / "new", 5, PACKS["b.npy"])
        os.replace(folder / "new", folder / "b.npy")
        with self.assertRaisesRegex(hr.StaleError, "b.npy"):
            list(batches)

    def test_ranks_of_a_node_and_a_mount_have_the_same_records(self):
        if not os.path.exists("/dev/fuse"):
            self.skipTest("no FUSE")
        with mock.patch.dict(os.environ, LOCAL_WORLD_SIZE="2",
                             PATH=f"{support.BUILD / 'cli'}:{os.environ['PATH']}"):
            data = self.files()
            with self.assertRaisesRegex(TypeError, "records must be a str, not 5"):
                self.files(records=5)
        self.assertIsNotNone(data.shared_mount)
        through = self.files(data.shared_mount, ram=None)
        self.assertTrue(through.is_mount)
        for one in (data, through):
            self.check_all(one, [row(i) for i in range(self.count)])
        one = through = None

    def test_what_decode_raises_on_is_named_with_its_number(self):
        def decode(content):
            return 1 // (content != row(71))
        data = self.files(decode=decode)
        with self.assertRaisesRegex(hr.BadSampleError, "b.npy, record 71: decode raised ZeroDivisionError"):
            list(hr.DataLoader(data, 16))
        self.assertEqual(sum(len(batch) for batch, _ in hr.DataLoader(data, 16, bad_samples="skip")), self.count - 1)

    def test_values_of_lmdb(self):
        lmdb = library("lmdb")
        folder = support.WORK / "lmdb"
        folder.mkdir()
        values = [bytes([i % 251]) * (1 + i * 37 % 9000) for i in range(500)]  # in leaves, and on pages of their own
        with lmdb.open(str(folder), map_size=1 << 26) as environment, environment.begin(write=True) as transaction:
            for i, value in enumerate(values):
                transaction.put(str(i).encode(), value)
        self.check_all(self.files(folder), values)

    def test_chunks_of_hdf5(self):
        h5py, numpy = library("h5py"), library("numpy")
        folder = support.WORK / "hdf5"
        folder.mkdir()
        array = numpy.arange(96 * 50, dtype="<u2").reshape(96, 50)
        with h5py.File(folder / "set.h5", "w") as file:
            file.create_dataset("rows", data=array, chunks=(8, 50))
        chunks = [array[i:i + 8].tobytes() for i in range(0, 96, 8)]
        self.check_all(self.files(folder, records="hdf5:rows"), chunks)

    def check_all(self, data, values):
        self.assertEqual(len(data), len(values))
        for batch in hr.DataLoader(data, 16, shuffle=True).batches():
            self.assertEqual(batch.images, [values[index] for index in batch.indices])


if __name__ == "__main__":
    support.main()
