#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What jobs write beside their data goes to the scratch folder: writes_beside_data.py BUILD

An LMDB that is opened with its lock, an index that numpy saves and a file of labels, below a mount whose records are
pushed. They outlive the worker and the mount, and the source stays as it is.
"""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True

from script_test import run  # noqa: E402, before the modules of bench, which it makes known
from harness import Bench, Mount  # noqa: E402
from sources import CannotRun, Failed, need_root  # noqa: E402

PATIENCE_SECONDS = 60
RECORDS = 400
VALUES = [bytes([number % 251]) * 20_000 for number in range(RECORDS)]
NAMES = [f"{number:05}".encode() for number in range(RECORDS)]


def tree(folder):
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
            for path in sorted(folder.rglob("*")) if path.is_file()}


def need_overlay(work):
    """An overlay that can be written to, in the folder where the test works."""
    need_root("mount an overlay")
    for name in ("lower", "upper", "work", "merged"):
        (work / "tried" / name).mkdir(parents=True)
    tried = work / "tried"
    layers = f"lowerdir={tried}/lower,upperdir={tried}/upper,workdir={tried}/work"
    mounted = subprocess.run(["mount", "-t", "overlay", "none", "-o", layers, tried / "merged"], check=False,
                             capture_output=True, text=True)
    if mounted.returncode != 0:
        raise CannotRun(f"no overlay that writes to {work}: {mounted.stderr.strip()}")
    subprocess.run(["umount", tried / "merged"], check=True)


def read_records(lmdb, folder):
    """As a job does that knows nothing of the mount: with the lock, which is a file beside the data."""
    with lmdb.open(str(folder), readonly=True) as environment, environment.begin() as transaction:
        for name, value in zip(NAMES, VALUES):
            assert transaction.get(name) == value, f"record {name} differs"


def write_indexes(numpy, folder):
    numpy.save(folder / "shuffle_index.npy", numpy.arange(RECORDS))
    (folder / "labels.cache.partial").write_text("labels", encoding="utf-8")
    (folder / "labels.cache.partial").rename(folder / "labels.cache")


def check_indexes(numpy, folder):
    assert (numpy.load(folder / "shuffle_index.npy", mmap_mode="r") == numpy.arange(RECORDS)).all()
    assert (folder / "labels.cache").read_text(encoding="utf-8") == "labels"


def wait_for_pushes(mount):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while mount.stat()["mount"]["pushed_samples"] == 0:
        assert time.monotonic() < deadline, "no record was pushed"
        time.sleep(0.05)


def worker_of(mount):
    return int(mount.stat()["pid"])


def check(build, work):
    try:
        import lmdb
        import numpy
    except ImportError as missing:
        raise CannotRun(str(missing)) from missing
    work = Path(work)
    need_overlay(work)
    bench = Bench(work, build)
    source = work / "source"
    source.mkdir()
    with lmdb.open(str(source), map_size=1 << 26) as environment, environment.begin(write=True) as transaction:
        for name, value in zip(NAMES, VALUES):
            transaction.put(name, value)
    (source / "lock.mdb").unlink()
    before = tree(source)
    options = ["--ram", "64M", "--records", "auto", "--order", "sequential"]

    with Mount(bench, source, *options) as mount:
        try:
            write_indexes(numpy, mount.path)
            raise Failed("an index was written below a mount that is read-only")
        except OSError as refused:
            assert refused.errno == errno.EROFS, refused
    options += ["--scratch", work / "scratch"]
    with Mount(bench, source, *options) as mount:
        read_records(lmdb, mount.path)
        write_indexes(numpy, mount.path)
        check_indexes(numpy, mount.path)
        wait_for_pushes(mount)
        os.kill(worker_of(mount), signal.SIGKILL)
        read_records(lmdb, mount.path)
        check_indexes(numpy, mount.path)
    with Mount(bench, source, *options) as mount:
        check_indexes(numpy, mount.path)
        read_records(lmdb, mount.path)
    assert tree(source) == before, "the source was written to"
    written = sorted(path.name for path in (work / "scratch" / "upper").iterdir())
    assert written == ["labels.cache", "lock.mdb", "shuffle_index.npy"], written
    print(f"{RECORDS} records equal, written beside the data: {', '.join(written)}")


if __name__ == "__main__":
    sys.exit(run(check))
