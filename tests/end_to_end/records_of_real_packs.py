#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Records that lmdb, numpy, h5py and tarfile wrote lie where headrace says: records_of_real_packs.py BUILD

Libraries that are not installed are left out.
"""

import io
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from script_test import run  # noqa: E402, before the modules of bench, which it makes known
from harness import Bench, Mount  # noqa: E402
from sources import CannotRun  # noqa: E402


def records(headrace, folder, cache, spec="auto"):
    """The bytes of each record, in the order of their numbers."""
    command = [headrace, "order", folder, "--records", spec, "--order", "sequential"]
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


def write_hdf5(h5py, folder):
    """The images are the largest data set, two groups down, beside smaller ones that are larger in the file."""
    values = [bytes([i % 251]) * 5000 for i in range(700)]
    with h5py.File(folder / "set.h5", "w") as file:
        file.attrs["about"] = "x" * 60000
        file["labels"] = list(range(700))
        images = file.create_group("train/deep").create_dataset("images", (700, 50, 100), "u1", chunks=(1, 50, 100))
        for i in reversed(range(700)):  # written in another order than that of their numbers
            images[i] = i % 251
    return values


def check_kinds_of_hdf5(h5py, headrace, temporary):
    """What HDF5 lets a data set be: each has a map that is right, or a clear error."""
    import numpy
    import zlib
    folder = pathlib.Path(temporary) / "kinds"
    folder.mkdir()
    array = numpy.arange(1000 * 3 * 40, dtype="<u2").reshape(1000, 3, 40)
    rows = [row.tobytes() for row in array]
    grouped = [b"".join(rows[i:i + 8]) for i in range(0, 1000, 8)]

    def check(spec, expected, change=lambda stored: stored, **options):
        with h5py.File(folder / "a.h5", "w", **options.pop("file", {})) as file:
            file.create_dataset("first/rows", data=array, **options)
            file["small"] = array[:10]
        found = [change(stored) for stored in records(headrace, folder, f"{temporary}/cache", spec)]
        if found != expected:
            sys.exit(f"h5py, {options}, --records {spec}: records are not where headrace says")

    def write_columns(file, **options):
        rows = file.create_dataset("first/rows", array.shape, array.dtype, **options)
        for column in range(array.shape[1]):
            rows[:, column] = array[:, column]
            file.flush()

    def write_rows(file, **options):
        file.create_dataset("first/rows", data=array, **options)

    def refuse(why, spec="auto", write=write_rows, **options):
        with h5py.File(folder / "a.h5", "w", **options.pop("file", {})) as file:
            write(file, **options)
        outcome = subprocess.run([headrace, "order", folder, "--records", spec, "--order", "sequential"], check=False,
                                 capture_output=True, text=True, timeout=60,
                                 env=os.environ | {"HEADRACE_CACHE_DIR": f"{temporary}/cache"})
        if outcome.returncode == 0 or why not in outcome.stderr or outcome.stderr.count("\n") != 1:
            sys.exit(f"h5py, {options}: not refused for {why}, but {outcome}")

    check("auto", rows)
    check("hdf5:first/rows", rows)
    check("hdf5:/small", rows[:10])
    check("auto", rows, file={"libver": "latest"})  # contiguous, with the new kind of groups
    check("auto", rows, file={"userblock_size": 512})  # as MATLAB does
    check("auto", rows, chunks=(1, 3, 40), maxshape=(None, 3, 40))
    check("auto", rows, zlib.decompress, chunks=(1, 3, 40), compression="gzip")
    check("auto", grouped, chunks=(8, 3, 40))
    refuse("libver='earliest'", chunks=(8, 3, 40), file={"libver": "latest"})
    refuse("libver='earliest'", chunks=(8, 3, 40), maxshape=(None, 3, 40), file={"libver": "latest"})
    refuse("no data set elsewhere", spec="hdf5:elsewhere")
    refuse("several chunks far apart", write=write_columns, chunks=(10, 1, 40))
    with h5py.File(folder / "a.h5", "w") as file:
        for i in range(3000):
            file[f"group{i % 7}/{i:05}"] = i
        file["rows"] = array
        file["group0/rows"] = array[:10]
    if list(records(headrace, folder, f"{temporary}/cache")) != rows:
        sys.exit("h5py, many groups: records are not where headrace says")
    with h5py.File(folder / "a.h5", "a") as file:
        for i in range(2000):
            file[f"group7/{i:05}"] = i
    if list(records(headrace, folder, f"{temporary}/cache", "hdf5:group0/rows")) != rows[:10]:
        sys.exit("h5py, more groups than are looked through: records are not where headrace says")


def check_shared_chunks(h5py, build, work):
    """Rows of which eight share a chunk, shuffled, through a mount whose budget is a quarter of the file."""
    import numpy
    bench = Bench(work, build)
    folder = bench.work / "shared-chunks"
    folder.mkdir()
    rows, row_bytes, epochs = 10_000, 8192, 2
    array = numpy.random.default_rng(1).integers(0, 256, (rows, row_bytes), numpy.uint8)
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("rows", data=array, chunks=(8, row_bytes))
    orders = [random.Random(epoch).sample(range(rows), rows // 8) for epoch in range(epochs)]
    order = bench.work / "shared-chunks.order"
    order.write_text("".join(f"{row}\n" for row in orders[0]), encoding="utf-8")
    with Mount(bench, folder, "--ram", "20M", "--records", "auto", "--order", f"file:{order}") as mount:
        with h5py.File(mount.path / "a.h5", "r") as file:
            for wanted in (orders[0], orders[0], orders[1]):  # as told, again, and not as told
                for row in wanted:
                    if not numpy.array_equal(file["rows"][row], array[row]):
                        sys.exit(f"h5py through the mount: row {row} differs")
        pushed = mount.stat()["mount"]["pushed_samples"]
    print(f"{3 * rows // 8} rows equal through the mount, {pushed} chunks pushed")


def check(build, work):
    headrace = build / "cli" / "headrace"
    for library, write in (("lmdb", write_lmdb), ("numpy", write_npy), ("h5py", write_hdf5),
                           ("tarfile", write_tar)):
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
            if library == "h5py":
                check_kinds_of_hdf5(module, headrace, temporary)
                try:
                    check_shared_chunks(module, build, work)
                except CannotRun as reason:  # no FUSE
                    print(f"skipped: {reason}")


if __name__ == "__main__":
    sys.exit(run(check))
