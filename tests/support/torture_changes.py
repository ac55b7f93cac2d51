# SPDX-License-Identifier: Apache-2.0
"""tests/torture --kind changes: the source changes under the readers.

Every byte that a reader gets must belong to one version of its file, and to one that the source had at some time
between the last refresh that had ended before the open, and the end of the read. Readers may be refused; at the end,
after a refresh, they must not be.
"""

import contextlib
import errno
import multiprocessing
import os
import queue
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

from sources import is_mounted, unmount
from sweeper import holding
from torture_faults import daemons_of
from torture_versions import SECRET, History, content, read_whole

NOBODY = 65534
FOLDERS = 4
ROOT_READERS = 3
PATIENCE_SECONDS = 60  # until a mount serves again
SIZES = [0, 33, 4095, 4096, 4097, *[100_000] * 10, *[1_000_000] * 4, (8 << 20) + 1, 12 << 20, 40 << 20]
BADNESS = ("wrong", "mixed", "stale", "forbidden", "cut")
COLUMNS = ("rounds", "good", "refused", "remounts", *BADNESS)
SWEEP = "every file at the end"


def path_of(file):
    return f"class{file % FOLDERS}/{file:03}.jpg"


def read_for_ever(root, reader, seed, results):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if reader != "root":
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    rng = random.Random(seed)
    while True:
        file = rng.randrange(len(SIZES))
        seen = read_whole(root, path_of(file), file, reader, rng, 0.1)
        results.put(seen)
        if seen.error:
            time.sleep(0.02)  # a mount that is down refuses at once


class ChangingSource:
    """An ext4 image with the files, mounted; a mount of headrace over it; the readers."""

    def __init__(self, bench, seed):
        self.bench, self.rng = bench, random.Random(seed)
        self.seed = seed
        self.image = bench.work / "image-0"
        self.images = 1
        self.source, self.mountpoint = bench.work / "source", bench.work / "mount"
        self.history, self.versions = History(), 0
        self.results = multiprocessing.Queue()
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.bench.work.chmod(0o755)  # the reader that is not root comes this way
            for folder in (self.source, self.mountpoint):
                folder.mkdir()
            with open(self.image, "wb") as image:
                image.truncate(512 << 20)
            subprocess.run(["mkfs.ext4", "-q", "-F", self.image], check=True)
            stack.enter_context(holding("mount", self.source))
            stack.callback(unmount, self.source)
            self.mount_image(self.image, self.source)
            for number in range(FOLDERS):
                (self.source / f"class{number}").mkdir()
            for file, length in enumerate(SIZES):
                self.put_new(file, length)
            stack.enter_context(holding("mount", self.mountpoint))
            stack.callback(self.unmount)
            self.mount()
            for number in range(ROOT_READERS + 1):
                reader = "root" if number < ROOT_READERS else "nobody"
                process = multiprocessing.Process(target=read_for_ever, daemon=True, args=(
                    self.mountpoint, reader, self.seed + number, self.results))
                process.start()
                stack.callback(process.join, 10)
                stack.callback(process.kill)
                stack.enter_context(holding("process", process.pid))
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    @staticmethod
    def mount_image(image, place):
        subprocess.run(["mount", "-o", "loop", image, place], check=True)

    def headrace(self, *words):
        return self.bench.execute([self.bench.program("headrace"), *words])

    def mount(self):
        self.history.refresh(lambda: self.headrace(
            "mount", self.source, self.mountpoint, "--allow-other", "--ram", "48M", "--ssd",
            f"{self.bench.work / 'tier'}:128M", "--order", "torch-distributed:seed=0"))

    def unmount(self):
        with contextlib.suppress(Exception):
            self.headrace("unmount", "--force", self.mountpoint)  # waits until the tier is free
        if is_mounted(self.mountpoint):
            unmount(self.mountpoint)

    def come_back(self):
        """Mounts again unless the mount serves already."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                os.listdir(self.mountpoint)
                if is_mounted(self.mountpoint):
                    return 0
            time.sleep(0.2)
        self.unmount()
        self.mount()
        return 1

    def refresh(self):
        self.history.refresh(lambda: self.headrace("refresh", self.mountpoint))

    # The changes to one file.

    def any_file(self):
        return self.rng.randrange(len(SIZES))

    def place(self, file):
        return self.source / path_of(file)

    def made(self, file, length, flags=0, mode=0o644):
        """A new version beside its place, whole; its number and its path."""
        self.versions += 1
        path = self.place(file).with_suffix(".new")
        path.touch(mode=mode)
        path.chmod(mode)
        path.write_bytes(content(file, self.versions, length, flags))
        return self.versions, path

    def put_new(self, file, length, flags=0, mode=0o644, keep_mtime=False):
        version, path = self.made(file, length, flags, mode)
        if keep_mtime:
            status = self.place(file).stat()
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        self.history.change(file, version, length, flags, lambda: path.rename(self.place(file)))

    def pause(self):
        time.sleep(self.rng.random() * 0.6)


def replaced(stage):
    file = stage.any_file()
    stage.put_new(file, stage.rng.choice((SIZES[file], stage.rng.randrange(200_000))))


def swapped_and_back(stage):
    file = stage.any_file()
    before, aside = stage.history.current(file), stage.place(file).with_suffix(".bak")
    version, path = stage.made(file, before.length)

    def swap():
        stage.place(file).rename(aside)
        path.rename(stage.place(file))

    def back():
        stage.place(file).unlink()
        aside.rename(stage.place(file))

    stage.history.change(file, version, before.length, 0, swap)
    stage.pause()
    stage.history.change(file, before.version, before.length, before.flags, back)


def grown(stage):
    file = stage.any_file()
    before = stage.history.current(file)
    length = before.length + stage.rng.randrange(1, 300_000)

    def grow():
        with open(stage.place(file), "r+b") as output:
            output.seek(before.length)
            output.write(content(file, before.version, length, before.flags)[before.length:])

    stage.history.change(file, before.version, length, before.flags, grow)


def shrunk(stage):
    file = stage.any_file()
    before = stage.history.current(file)
    length = stage.rng.randrange(before.length + 1)
    stage.history.change(file, before.version, length, before.flags, lambda: os.truncate(stage.place(file), length))


def same_size_and_mtime(stage):
    file = stage.any_file()
    stage.put_new(file, stage.history.current(file).length, keep_mtime=True)


def written_in_place(stage):
    """As rsync --inplace --times does it."""
    file = stage.any_file()
    before, status = stage.history.current(file), stage.place(file).stat()
    stage.versions += 1

    def write():
        with open(stage.place(file), "r+b") as output:
            output.write(content(file, stage.versions, before.length))
        os.utime(stage.place(file), ns=(status.st_atime_ns, status.st_mtime_ns))

    begin = time.monotonic()
    stage.history.change(file, stage.versions, before.length, 0, write)
    stage.history.written.append((file, begin, time.monotonic()))


def secret_for_a_while(stage):
    file = stage.any_file()
    length = stage.history.current(file).length
    stage.put_new(file, length, SECRET, 0o600)
    stage.pause()
    if stage.rng.random() < 0.5:
        stage.refresh()
        stage.pause()
    stage.put_new(file, length)


def folder_closed_for_a_while(stage):
    number = stage.rng.randrange(FOLDERS)
    folder = stage.source / f"class{number}"
    folder.chmod(0o700)
    stage.refresh()
    begin = time.monotonic()
    time.sleep(0.5)
    end = time.monotonic()
    stage.history.closed += [(file, begin, end) for file in range(len(SIZES)) if file % FOLDERS == number]
    folder.chmod(0o755)
    stage.refresh()


def other_image(stage):
    """Another file system at the same path: the same names, sizes, times and inode numbers, other bytes."""
    stage.images += 1
    image, place = stage.bench.work / f"image-{stage.images}", stage.bench.work / "other"
    place.mkdir(exist_ok=True)
    subprocess.run(["sync", "-f", stage.source], check=True)
    stage.unmount()
    unmount(stage.source)
    shutil.copyfile(stage.image, image)
    with holding("mount", place):
        stage.mount_image(image, place)
        try:
            for file in range(len(SIZES)):
                before, path = stage.history.current(file), place / path_of(file)
                status = path.stat()
                stage.versions += 1
                path.write_bytes(content(file, stage.versions, before.length))
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
                stage.history.change(file, stage.versions, before.length, 0, lambda: None)
        finally:
            unmount(place)
    subprocess.run(["e2fsck", "-fy", image], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run(["tune2fs", "-U", "random", image], check=True, stdout=subprocess.DEVNULL)
    stage.image.unlink()
    stage.image = image
    stage.mount_image(image, stage.source)
    stage.mount()


def worker_killed(stage):
    os.kill(daemons_of(stage.mountpoint)[-1], signal.SIGKILL)
    time.sleep(0.5)
    return stage.come_back()


def refreshed(stage):
    stage.refresh()


CHANGES = {
    "replaced": replaced,
    "swapped and back": swapped_and_back,
    "grown": grown,
    "shrunk": shrunk,
    "same size and mtime": same_size_and_mtime,
    "written in place": written_in_place,
    "secret for a while": secret_for_a_while,
    "folder closed for a while": folder_closed_for_a_while,
    "other image": other_image,
    "worker killed": worker_killed,
    "refreshed": refreshed,
}


class Account:
    def __init__(self):
        self.rows, self.told = {}, {}

    def take(self, name, stage):
        """Judges what the readers have seen until now, under the name of what happened last."""
        row = self.rows.setdefault(name, dict.fromkeys(COLUMNS, 0))
        with contextlib.suppress(queue.Empty):
            while True:
                seen = stage.results.get_nowait()
                verdict = stage.history.judge(seen)
                row[verdict[0] if verdict else "refused" if seen.error else "good"] += 1
                if verdict:
                    self.tell(name, verdict)
        return row

    def tell(self, name, verdict):
        self.told[verdict[0]] = self.told.get(verdict[0], 0) + 1
        if self.told[verdict[0]] <= 10:  # of each kind; more would hide the others
            print(f"{verdict[0].upper()} after '{name}': {verdict[1]}", flush=True)


def names(chosen, rng):
    """Each change in random order, again and again; another image is rare, because it takes seconds."""
    while True:
        round_of = [name for name in chosen for _ in range(1 if name == "other image" else 3)]
        rng.shuffle(round_of)
        yield from round_of


def torture_changes(bench, arguments):
    """Rows of figures by change, each with the counts of BADNESS."""
    account = Account()
    with ChangingSource(bench, arguments.seed) as stage:
        deadline = time.monotonic() + 60 * arguments.minutes
        for name in names(arguments.changes, random.Random(arguments.seed)):
            remounts = CHANGES[name](stage)
            stage.pause()
            row = account.take(name, stage)
            row["rounds"] += 1
            row["remounts"] += remounts or 0
            if time.monotonic() > deadline:
                break
        stage.refresh()
        account.take("the last refresh", stage)
        sweep(stage, account)
    return account.rows


def sweep(stage, account):
    """Reads every file once more: after a refresh none may be refused either."""
    row = account.rows.setdefault(SWEEP, dict.fromkeys(COLUMNS, 0))
    for file in range(len(SIZES)):
        seen = read_whole(stage.mountpoint, path_of(file), file, "root", stage.rng, 0)
        verdict = stage.history.judge(seen)
        row[verdict[0] if verdict else "refused" if seen.error else "good"] += 1
        if verdict or seen.error:
            account.tell(SWEEP, verdict or ("refused", f"file {file}: {errno.errorcode[seen.error]}"))


def print_changes(rows):
    print(f"\n{'change':28}" + "".join(f"{column:>11}" for column in COLUMNS))
    for name, row in rows.items():
        print(f"{name:28}" + "".join(f"{row[column]:>11}" for column in COLUMNS))


def changes_good(rows):
    """Nothing wrong anywhere, no mount made anew by hand, and every file to be had after the last refresh."""
    return rows[SWEEP]["refused"] == 0 and all(
        row["remounts"] == 0 and not any(row[kind] for kind in BADNESS) for row in rows.values())
