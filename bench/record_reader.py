#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Reads records of one pack at random places, as programs do that keep their data set in one file.

    record_reader.py FOLDER KIND RECORD_BYTES COUNT SEED|LIST [CHECKED [BEFORE [WORKERS]]]
    record_reader.py FOLDER KIND RECORD_BYTES --make MIB     writes the pack of that kind

KIND is one of: memmap: numpy.memmap of a raw file, a row at a time. pread: os.pread of that file, as libraries with a
format of their own do. npy: numpy.load(mmap_mode="r"), whose rows lie across pages. h5py: a chunk of a data set. lmdb:
get() with readahead=False, as its users are told for random reads; lmdb-readahead: as it is opened by default. arrow: a
mapped stream file is opened, which takes the header of each record batch, as pyarrow does; a record is such a header.
weights: the tensors of a model in shards, which are mapped.
LIST: a file with a number per line, of which the first COUNT are read. The checksum is over the first CHECKED records
in their order, or all. The first BEFORE of the records are not measured. WORKERS: of a torch DataLoader, each with the
pack open; 0: this process reads by itself, and p50_seconds is the median of a record's time.
"""

import itertools
import json
import mmap
import os
import random
import resource
import statistics
import struct
import sys
import time
import warnings
import zlib

import numpy

MIB = 1 << 20


class Raw:
    """A file of bytes that differ everywhere. reader(): how many records there are, and what reads one."""
    file = "pack.bin"

    @staticmethod
    def make(path, record_bytes, mebibytes):
        numbers = random.Random(1)
        with open(path, "wb") as file:
            for _ in range(mebibytes):
                file.write(numbers.randbytes(MIB))


class Memmap(Raw):
    @staticmethod
    def reader(path, record_bytes):
        rows = numpy.memmap(path, dtype=numpy.uint8, mode="r").reshape(-1, record_bytes)
        return len(rows), lambda number: bytes(rows[number])


class Pread(Raw):
    @staticmethod
    def reader(path, record_bytes):
        descriptor = os.open(path, os.O_RDONLY)
        count = os.stat(path).st_size // record_bytes
        return count, lambda number: os.pread(descriptor, record_bytes, number * record_bytes)


class Npy(Raw):
    file = "pack.npy"

    @staticmethod
    def make(path, record_bytes, mebibytes):
        numbers = numpy.random.default_rng(1)
        numpy.save(path, numbers.integers(0, 256, (mebibytes * MIB // record_bytes, record_bytes), numpy.uint8))

    @staticmethod
    def reader(path, record_bytes):
        rows = numpy.load(path, mmap_mode="r")
        return len(rows), lambda number: bytes(rows[number])


class Hdf5(Raw):
    file = "pack.h5"

    @staticmethod
    def make(path, record_bytes, mebibytes):
        import h5py
        numbers = numpy.random.default_rng(1)
        count = mebibytes * MIB // record_bytes
        with h5py.File(path, "w") as file:
            rows = file.create_dataset("rows", (count, record_bytes), "u1", chunks=(1, record_bytes))
            for number in range(count):
                rows[number] = numbers.integers(0, 256, record_bytes, numpy.uint8)

    @staticmethod
    def reader(path, record_bytes):
        import h5py
        rows = h5py.File(path, "r")["rows"]
        return len(rows), lambda number: rows[number].tobytes()


class Lmdb(Raw):
    file = "data.mdb"
    readahead = False

    @staticmethod
    def make(path, record_bytes, mebibytes):
        import lmdb
        numbers = random.Random(1)
        with lmdb.open(str(path), subdir=False, lock=False, map_size=2 * mebibytes * MIB) as environment:
            with environment.begin(write=True) as transaction:
                for number in range(mebibytes * MIB // record_bytes):
                    transaction.put(f"{number:08}".encode(), numbers.randbytes(record_bytes))

    @classmethod
    def reader(cls, path, record_bytes):
        import lmdb
        environment = lmdb.open(str(path), subdir=False, readonly=True, lock=False, readahead=cls.readahead)
        transaction = environment.begin()
        count = environment.stat()["entries"]
        return count, lambda number: transaction.get(f"{number:08}".encode())


class LmdbReadahead(Lmdb):
    readahead = True


class Arrow:
    file = "train.arrow"

    @staticmethod
    def make(path, record_bytes, mebibytes):
        """Messages without columns: their bodies are holes of the file."""
        with open(path, "wb") as file:
            for number in range(mebibytes * MIB // record_bytes):
                body_bytes = record_bytes - 64
                # A flatbuffer: root, vtable, the table Message, and an empty table as its header.
                message = struct.pack("<I6H", 16, 12, 24, 4, 6, 8, 16)
                message += struct.pack("<ihBxI4xq", 12, 4, 3, 20, body_bytes) + struct.pack("<2Hi8x", 4, 4, 4)
                file.seek(number * record_bytes)
                file.write(struct.pack("<Ii", 0xFFFFFFFF, len(message)) + message)
            file.truncate(mebibytes * MIB // record_bytes * record_bytes)

    @staticmethod
    def reader(path, record_bytes):
        headers = []
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            place = 0
            while place < len(mapped):
                _, length = struct.unpack_from("<Ii", mapped, place)
                message = mapped[place + 8:place + 8 + length]
                table, = struct.unpack_from("<I", message)
                vtable = table - struct.unpack_from("<i", message, table)[0]
                field, = struct.unpack_from("<H", message, vtable + 10)  # bodyLength, the fourth
                headers.append(message)
                place += 8 + length + struct.unpack_from("<q", message, table + field)[0]
        return len(headers), headers.__getitem__


class Weights:
    """A model in shards, as its loader takes it: mapped, and copied tensor by tensor, shard by shard. A record is a
    tensor."""
    file = "model"
    shards = 8

    @staticmethod
    def make(path, record_bytes, mebibytes):
        os.mkdir(path)
        numbers = random.Random(1)
        for shard in range(1, Weights.shards + 1):
            with open(f"{path}/model-{shard:05}-of-{Weights.shards:05}.safetensors", "wb") as file:
                for _ in range(mebibytes // Weights.shards):
                    file.write(numbers.randbytes(MIB))

    @staticmethod
    def reader(path, record_bytes):
        mapped = [numpy.memmap(file, dtype=numpy.uint8, mode="r").reshape(-1, record_bytes)
                  for file in sorted(os.scandir(path), key=lambda entry: entry.name)]
        tensors = len(mapped[0])
        return tensors * len(mapped), lambda number: bytes(mapped[number // tensors][number % tensors])


KINDS = {"memmap": Memmap, "pread": Pread, "npy": Npy, "h5py": Hdf5, "lmdb": Lmdb, "lmdb-readahead": LmdbReadahead,
         "arrow": Arrow, "weights": Weights}


def listed(path, count):
    with open(path, encoding="utf-8") as lines:
        return [int(line) for line in itertools.islice(lines, count)]


def with_workers(kind, path, record_bytes, numbers, workers):
    """The records, from a torch DataLoader, which gives them in the order of its sampler."""
    import torch.utils.data
    warnings.filterwarnings("ignore", "This DataLoader will create")  # more workers than there are processors

    class Records(torch.utils.data.Dataset):
        read = None

        def __getitem__(self, number):
            if self.read is None:
                self.read = kind.reader(path, record_bytes)[1]
            return bytes(self.read(number))

    loader = torch.utils.data.DataLoader(Records(), batch_size=32, sampler=numbers, num_workers=workers,
                                         collate_fn=list)
    return itertools.chain.from_iterable(loader)


def timed(read, numbers, times):
    for number in numbers:
        begin = time.perf_counter()
        record = read(number)
        times.append(time.perf_counter() - begin)
        yield record


def main():
    folder, kind, record_bytes = sys.argv[1], KINDS[sys.argv[2]], int(sys.argv[3])
    path = os.path.join(folder, kind.file)
    if sys.argv[4] == "--make":
        kind.make(path, record_bytes, int(sys.argv[5]))
        return
    count, which = int(sys.argv[4]), sys.argv[5]
    checked = int(sys.argv[6]) if len(sys.argv) > 6 else count
    before = int(sys.argv[7]) if len(sys.argv) > 7 else 0
    workers = int(sys.argv[8]) if len(sys.argv) > 8 else 0
    times = []
    start = time.perf_counter()
    if workers:
        records = with_workers(kind, path, record_bytes, listed(which, count), workers)
    else:
        there, read = kind.reader(path, record_bytes)
        numbers = random.Random(int(which)).sample(range(there), count) if which.isdecimal() else listed(which, count)
        records = timed(read, numbers, times)
    checksum = 0
    for place, record in enumerate(records):
        if before and place == before:
            start = time.perf_counter()
        checksum = zlib.crc32(record, checksum)
        if place + 1 == checked:
            first = checksum
    seconds = time.perf_counter() - start
    cpu_seconds = sum(usage.ru_utime + usage.ru_stime
                      for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    measured = count - before
    p50 = statistics.median(times[before:]) if times else 0
    print(json.dumps({"samples": measured, "bytes": measured * record_bytes, "seconds": seconds,
                      "xxh3": f"{first:08x}", "all": f"{checksum:08x}", "cpu_seconds": cpu_seconds,
                      "p50_seconds": p50, "peak_bytes": peak_bytes}))


if __name__ == "__main__":
    main()
