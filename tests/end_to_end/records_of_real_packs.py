#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Records that lmdb, numpy and tarfile wrote lie where headrace says: records_of_real_packs.py BUILD

Libraries that are not installed are left out.
"""

import io
import os
import pathlib
import subprocess
import sys
import tempfile


def records(headrace, folder, cache):
    """The bytes of each record, in the order of their numbers."""
    command = [headrace, "order", folder, "--records", "auto", "--order", "sequential"]
    outcome = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60,
                             env=os.environ | {"HEADRACE_CACHE_DIR": cache})
    for line in outcome.stdout.splitlines():
        name, offset, length = line.split("\t")
        with open(folder / name, "rb") as file:
            file.seek(int(offset))
            yield file.read(int(length))


def write_lmdb(lmdb, folder):
    values = [bytes([i % 251]) * (1 + i * 37 % 9000) for i in range(3000)]  # in leaves, and on pages of their own
    with lmdb.open(str(folder), map_size=1 << 28) as environment, environment.begin(write=True) as transaction:
        for i, value in enumerate(values):
            transaction.put(str(i).encode(), value)
        transaction.put(b"length", b"3000")
    return values


def write_npy(numpy, folder):
    array = numpy.arange(1000 * 7 * 3, dtype="<i2").reshape(1000, 7, 3)
    numpy.save(folder / "rows.npy", array)
    return [row.tobytes() for row in array]


def write_tar(tarfile, folder):
    """Samples of two members, some with names that need a header of their own."""
    samples = []
    with tarfile.open(folder / "shard.tar", "w") as tar:
        for i in range(100):
            begin = tar.offset
            for extension, count in ((".jpg", i * 100), (".cls", 1)):
                member = tarfile.TarInfo(f"{'folder/' * (i % 40)}{i:04}{extension}")
                member.size = count
                tar.addfile(member, io.BytesIO(bytes([i]) * count))
            samples.append((begin, tar.offset))
    content = (folder / "shard.tar").read_bytes()
    return [content[begin:end] for begin, end in samples]


def main():
    headrace = pathlib.Path(sys.argv[1]) / "cli" / "headrace"
    for library, write in (("lmdb", write_lmdb), ("numpy", write_npy), ("tarfile", write_tar)):
        try:
            module = __import__(library)
        except ImportError:
            print(f"skipped: python3-{library} is not installed")
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary) / "set"
            folder.mkdir()
            expected = write(module, folder)
            if list(records(headrace, folder, f"{temporary}/cache")) != expected:
                sys.exit(f"{library}: records are not where headrace says")


main()
