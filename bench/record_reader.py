#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Reads records of one file at random places, as programs do that keep their data set in one file.

    record_reader.py FILE memmap|pread RECORD_BYTES COUNT SEED

memmap: numpy.memmap, a row at a time. pread: os.pread, as libraries with a format of their own do. The checksum is over
all records in their order.
"""

import json
import os
import random
import resource
import sys
import time
import zlib

import numpy


def read_by_memmap(path, record_bytes, numbers):
    rows = numpy.memmap(path, dtype=numpy.uint8, mode="r").reshape(-1, record_bytes)
    return lambda: (bytes(rows[number]) for number in numbers)


def read_by_pread(path, record_bytes, numbers):
    descriptor = os.open(path, os.O_RDONLY)
    return lambda: (os.pread(descriptor, record_bytes, number * record_bytes) for number in numbers)


def main():
    path, how, record_bytes, count, seed = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    records = os.stat(path).st_size // record_bytes
    numbers = random.Random(seed).sample(range(records), count)
    read = {"memmap": read_by_memmap, "pread": read_by_pread}[how](path, record_bytes, numbers)
    checksum = 0
    start = time.perf_counter()
    for record in read():
        checksum = zlib.crc32(record, checksum)
    seconds = time.perf_counter() - start
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"samples": count, "bytes": count * record_bytes, "seconds": seconds, "xxh3": f"{checksum:08x}",
                      "cpu_seconds": usage.ru_utime + usage.ru_stime, "peak_bytes": usage.ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
