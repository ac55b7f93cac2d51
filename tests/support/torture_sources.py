# SPDX-License-Identifier: Apache-2.0
"""tests/torture --kind sources: no read fails that the source would have given, and no tier is lost.

On each file system that this machine can mount: epochs through a mount that has more data than memory, while the
kernel forgets the inodes below, while links to the files are made and removed and their modes change, and after the
source was mounted anew. No byte changes all the while. Files stay open half read from each step to the next.
"""

import contextlib
import itertools
import os
import random
import shutil
import subprocess
import threading
import time
from pathlib import Path

from sources import CannotRun, Failed, end_process, is_mounted, unmount, wait_until_mounted
from sweeper import holding
from torture_readers import digest

FILES = 120
FILE_BYTES = 60_000
LARGE_BYTES = 700_000  # more than the kernel asks for at once, so that its half can be read
HALF_READ = 6  # files that stay open
SFTP_SERVER = "/usr/lib/openssh/sftp-server"
COLUMNS = ("rounds", "good", "failed", "wrong", "tiers lost")


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            raise CannotRun(f"{program} is not installed")


def run(*words):
    done = subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise CannotRun(f"{words[0]}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")


class Source:
    """A file system over `below`, mounted at `path`. Changes are made in `changed`; None: it takes none."""

    def __init__(self, work, name):
        self.path, self.below = work / f"source-{name}", work / f"below-{name}"
        self.changed = self.below
        self.stack = contextlib.ExitStack()
        self.daemon = None

    def __enter__(self):
        self.path.mkdir()
        self.below.mkdir()
        self.stack.enter_context(holding("mount", self.path))
        self.stack.callback(self.unmount)
        try:
            self.prepare()
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *_):
        self.stack.close()

    def unmount(self):
        if self.daemon is not None:
            end_process(self.daemon)
        unmount(self.path)

    def remount(self):
        """The same files as another mount at the same place."""
        self.unmount()
        self.mount()


class Disk(Source):
    """A file system of the kernel in a file."""

    def __init__(self, work, name):
        super().__init__(work, name)
        self.kind, self.image, self.changed = name, work / f"image-{name}", self.path

    def prepare(self):
        need(f"mkfs.{self.kind}")
        with open(self.image, "wb") as image:
            image.truncate(400 << 20)  # XFS takes no less than 300 MiB
        self.stack.callback(self.image.unlink)
        run(f"mkfs.{self.kind}", "-q" if self.kind != "vfat" else "-v", self.image)
        self.mount()
        write_files(self.path)

    def mount(self):
        run("mount", "-o", "loop", self.image, self.path)


class Fat(Disk):
    """It has neither links nor modes."""

    def __init__(self, work, name):
        super().__init__(work, name)
        self.changed = None


class Tmpfs(Source):
    """It is gone once it is unmounted."""

    def __init__(self, work, name):
        super().__init__(work, name)
        self.changed = self.path

    def prepare(self):
        run("mount", "-t", "tmpfs", "-o", "size=200M", "none", self.path)
        write_files(self.path)

    def remount(self):
        pass


class Overlay(Source):
    """A change copies the file into the upper layer."""

    def __init__(self, work, name):
        super().__init__(work, name)
        self.layers, self.changed = work / "layers", self.path

    def prepare(self):
        write_files(self.below)
        self.layers.mkdir()
        self.stack.callback(shutil.rmtree, self.layers, True)
        self.stack.callback(unmount, self.layers)
        self.stack.enter_context(holding("mount", self.layers))
        run("mount", "-t", "tmpfs", "-o", "size=200M", "none", self.layers)  # an overlay takes no layer of an overlay
        for layer in ("upper", "work"):
            (self.layers / layer).mkdir()
        self.mount()

    def mount(self):
        run("mount", "-t", "overlay", "-o",
            f"lowerdir={self.below},upperdir={self.layers}/upper,workdir={self.layers}/work", "none", self.path)


class Fuse(Source):
    """A FUSE file system whose program stays in the foreground."""

    def __init__(self, work, name, program, *words):
        super().__init__(work, name)
        self.program, self.words = program, words

    def prepare(self):
        need(self.program)
        write_files(self.below)
        self.make_ready()
        self.mount()

    def make_ready(self):
        """Before it is mounted."""

    def command(self):
        places = {"below": self.below, "path": self.path}
        return [self.program, *(word.format(**places) for word in self.words)]

    def mount(self):
        self.daemon = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.stack.enter_context(holding("process", self.daemon.pid))
        wait_until_mounted(self.path, self.daemon, "fuse")


class Squashfuse(Fuse):
    """An image, which nobody changes."""

    def __init__(self, work, name):
        super().__init__(work, name, "squashfuse", "-f", "{below}.squashfs", "{path}")
        self.changed = None

    def make_ready(self):
        need("mksquashfs")
        image = Path(f"{self.below}.squashfs")
        run("mksquashfs", self.below, image, "-quiet", "-no-progress", "-noappend")
        self.stack.callback(image.unlink)


class Sshfs(Fuse):
    """Without a server: what stands for ssh speaks the protocol for files itself."""

    def __init__(self, work, name):
        super().__init__(work, name, "sshfs", "-f", "host:{below}", "{path}", "-o", f"ssh_command={work}/ssh")
        self.ssh = work / "ssh"

    def make_ready(self):
        if not os.access(SFTP_SERVER, os.X_OK):
            raise CannotRun("openssh-sftp-server is not installed")
        self.ssh.write_text(f"#!/bin/sh\nexec {SFTP_SERVER}\n")
        self.ssh.chmod(0o755)


SOURCES = {
    "ext4": Disk, "xfs": Disk, "btrfs": Disk, "vfat": Fat, "tmpfs": Tmpfs, "overlay": Overlay,
    "mergerfs": lambda work, name: Fuse(work, name, "mergerfs", "-f", "{below}", "{path}"),
    "unionfs": lambda work, name: Fuse(work, name, "unionfs", "-f", "{below}=RW", "{path}"),
    "bindfs": lambda work, name: Fuse(work, name, "bindfs", "-f", "{below}", "{path}"),
    "fuse-overlayfs": lambda work, name: Fuse(work, name, "fuse-overlayfs", "-f", "-o", "lowerdir={below}", "{path}"),
    "squashfuse": Squashfuse, "sshfs": Sshfs,
}


def content_of(number):
    length = LARGE_BYTES if number % 10 == 0 else FILE_BYTES
    return random.Random(number).randbytes(length)


def name_of(number):
    return f"class{number % 4}/{number:04}.jpg"


def write_files(folder):
    for number in range(FILES):
        path = folder / name_of(number)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content_of(number))


DIGESTS = {}  # by number, as they are needed


class Epochs:
    """Reads through a mount and compares; what the kernel has of a file goes first, so that the mount is asked."""

    def __init__(self, mountpoint, row, rng):
        self.mountpoint, self.row, self.rng = mountpoint, row, rng
        self.half_read = {}

    def read(self):
        for number in self.rng.sample(range(FILES), FILES):
            with self.counting(number):
                fd = os.open(self.mountpoint / name_of(number), os.O_RDONLY)
                try:
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                    self.compare(number, b"".join(iter(lambda fd=fd: os.read(fd, 1 << 20), b"")))
                finally:
                    os.close(fd)

    def read_half(self):
        """Opens some files anew and reads the first half of each."""
        for number in self.rng.sample(range(0, FILES, 10), HALF_READ):
            with self.counting(number):
                fd = os.open(self.mountpoint / name_of(number), os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
                self.half_read[number] = fd, os.pread(fd, LARGE_BYTES // 2, 0)

    def read_rest(self):
        for number, (fd, first) in self.half_read.items():
            with self.counting(number):
                os.posix_fadvise(fd, LARGE_BYTES // 2, 0, os.POSIX_FADV_DONTNEED)
                self.compare(number, first + os.pread(fd, LARGE_BYTES, LARGE_BYTES // 2))
        self.close()

    def close(self):
        for fd, _ in self.half_read.values():
            os.close(fd)
        self.half_read = {}

    def compare(self, number, got):
        is_good = digest(got) == DIGESTS.setdefault(number, digest(content_of(number)))
        self.row["good" if is_good else "wrong"] += 1
        if not is_good:
            print(f"WRONG BYTES: {name_of(number)}", flush=True)

    @contextlib.contextmanager
    def counting(self, number):
        try:
            yield
        except OSError as error:
            self.row["failed"] += 1
            print(f"{name_of(number)}: {error.strerror}", flush=True)


def forget_inodes():
    try:
        Path("/proc/sys/vm/drop_caches").write_text("2")
    except OSError as error:
        raise CannotRun(f"/proc/sys/vm/drop_caches: {error.strerror}") from error


def make_links(source):
    for number in range(FILES):
        os.link(source.changed / name_of(number), source.changed / f"{name_of(number)}.link")


def remove_links(source):
    for number in range(FILES):
        (source.changed / f"{name_of(number)}.link").unlink()


def set_modes(source):
    for number in range(FILES):
        (source.changed / name_of(number)).chmod(0o664)


# Each beside an epoch. Those after the first need a source that can be changed.
CHANGES = {"a link to each file": make_links, "links removed": remove_links, "modes set": set_modes}


@contextlib.contextmanager
def mounted(bench, source):
    mountpoint = bench.work / "mount"
    mountpoint.mkdir(exist_ok=True)
    headrace = bench.program("headrace")
    with holding("mount", mountpoint):
        bench.execute([headrace, "mount", source.path, mountpoint, "--ram", "4M", "--ssd",
                       f"{bench.work / 'tier'}:256M", "--order", "torch-distributed:seed=0"])
        try:
            yield mountpoint
        finally:
            with contextlib.suppress(Failed):
                bench.execute([headrace, "unmount", "--force", mountpoint])
            if is_mounted(mountpoint):
                unmount(mountpoint)


def epoch_beside(epochs, change):
    beside = threading.Thread(target=change, daemon=True)
    beside.start()
    epochs.read()
    beside.join()


def source_reads(bench, mountpoint):
    tiers = bench.execute_json([bench.program("headrace"), "stat", mountpoint, "--json"])["store"]["tiers"]
    return next(tier["hits"] for tier in tiers if tier["kind"] == "source")


def torture_one(bench, source, rng):
    row = dict.fromkeys(COLUMNS, 0) | {"rounds": 1}
    with mounted(bench, source) as mountpoint, contextlib.closing(Epochs(mountpoint, row, rng)) as epochs:
        epochs.read()
        steps = [lambda: None, forget_inodes, source.remount]
        if source.changed is not None:
            steps[2:2] = [lambda change=change: change(source) for change in CHANGES.values()]
        for step in steps:
            epochs.read_half()
            epoch_beside(epochs, step)
            epochs.read_rest()
            epochs.read()
        # What the tier lacks of the last changes it is given.
        bench.execute([bench.program("headrace"), "warm", mountpoint])
    source.remount()
    forget_inodes()
    with mounted(bench, source) as mountpoint:
        Epochs(mountpoint, row, rng).read()
        reads = source_reads(bench, mountpoint)
    row["tiers lost"] = int(reads > 0)
    if reads:
        print(f"{reads} reads came from the source, though the tier had all", flush=True)
    return row


def torture_sources(bench, arguments):
    """Figures by file system, each with COLUMNS; where the machine cannot mount one, why."""
    rng, rows, left_out = random.Random(arguments.seed), {}, {}
    deadline = time.monotonic() + 60 * arguments.minutes
    for name in itertools.cycle(SOURCES):
        if time.monotonic() > deadline and len(rows) + len(left_out) == len(SOURCES):
            return {"sources": rows, "sources_left_out": left_out}
        if name in left_out:
            continue
        try:
            with SOURCES[name](bench.work, name) as source:
                figures = torture_one(bench, source, rng)
        except CannotRun as reason:
            left_out[name] = str(reason)
            continue
        finally:
            for folder in ("source", "below"):
                shutil.rmtree(bench.work / f"{folder}-{name}", ignore_errors=True)
            shutil.rmtree(bench.work / "tier", ignore_errors=True)
        row = rows.setdefault(name, dict.fromkeys(COLUMNS, 0))
        for column in COLUMNS:
            row[column] += figures[column]
        print(f"{name:16} {figures['good']} reads good, {figures['failed']} failed", flush=True)


def print_sources(result):
    print(f"\n{'source':16}" + "".join(f"{column:>12}" for column in COLUMNS))
    for name, row in result["sources"].items():
        print(f"{name:16}" + "".join(f"{row[column]:>12}" for column in COLUMNS))
    for name, reason in result["sources_left_out"].items():
        print(f"{name}: left out, {reason}")


def sources_good(result):
    return not any(row[kind] for row in result["sources"].values() for kind in ("failed", "wrong", "tiers lost"))
