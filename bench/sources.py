# SPDX-License-Identifier: Apache-2.0
"""Slow sources for benchmarks and tests; each is a context manager that leaves nothing behind.

    with SlowFs(program, folder, mountpoint) as source:        # 20 ms per open and per read, any number at once
        ...
    with SlowDisk(work, folder, read_iops=200) as disk:        # a disk with 200 reads per second
        subprocess.run(reader, preexec_fn=disk.limit_me)
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from sweeper import holding, mounted_at

READY_SECONDS = 300  # a mount that takes longer has failed; looking at 10 M files takes minutes beside other work


class CannotRun(Exception):
    """What the machine lacks, in words."""


class Failed(Exception):
    """What went wrong although the machine has what is needed."""


def end_on_sigterm():
    """Makes SIGTERM an exception like SIGINT, so that context managers clean up."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def need_root(what):
    if os.geteuid() != 0:
        raise CannotRun(f"needs root to {what}")


def need_fuse():
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        raise CannotRun(f"/dev/fuse: {error.strerror}") from error


def is_mounted(path, kind=""):
    """Whether the topmost mount at `path` has a type that begins with `kind`."""
    found = mounted_at(path)
    return found is not None and found[1].startswith(kind)


def wait_until_mounted(path, process, kind=""):
    deadline = time.monotonic() + READY_SECONDS
    while not is_mounted(path, kind):
        if process.poll() is not None:
            raise Failed(f"{process.args[0]} ended with status {process.returncode} before {path} was mounted")
        if time.monotonic() > deadline:
            raise Failed(f"{path} was not mounted within {READY_SECONDS} s")
        time.sleep(0.01)


def end_process(process, patience=20):
    """Asks, then insists. A supervisor gives its worker 10 s before it insists, and is to end after it."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def unmount(path):
    for _ in range(8):  # nobody stacks more
        if not is_mounted(path):
            return
        subprocess.run(["umount", "--lazy", str(path)], check=False, stderr=subprocess.DEVNULL)
        if is_mounted(path):
            subprocess.run(["fusermount3", "-u", "-z", str(path)], check=False, stderr=subprocess.DEVNULL)


class SlowFs:
    """A read-only view of `folder` that adds latency to each open and each read (tests/support/slow_fs.cpp)."""

    def __init__(self, program, folder, mountpoint, open_ms=20, read_ms=20, options=()):
        self.mountpoint = Path(mountpoint)
        self.command = [str(program), str(folder), str(mountpoint)]
        self.command += ["--open-ms", str(open_ms), "--read-ms", str(read_ms)]
        self.command += [str(option) for option in options]
        self.process = None
        self.stack = contextlib.ExitStack()

    def counts(self):
        """How many opens and reads it has answered, and how many opens waited at once at most."""
        return json.loads(os.getxattr(self.mountpoint, "user.slow_fs"))

    def __enter__(self):
        need_fuse()
        self.mountpoint.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            stack.enter_context(holding("mount", self.mountpoint))
            stack.callback(unmount, self.mountpoint)
            self.process = subprocess.Popen(self.command)
            stack.enter_context(holding("process", self.process.pid))
            stack.callback(end_process, self.process)
            wait_until_mounted(self.mountpoint, self.process, "fuse")
            self.stack = stack.pop_all()
        return self.mountpoint

    def __exit__(self, *_):
        self.stack.close()


class SlowDisk:
    """A loop device with its own file system that holds a copy of `folder`, and a limit on the reads of processes.

    Only processes that entered the limit (limit_me) are slowed, so that the disk can be filled and checked quickly.
    """

    def __init__(self, work, folder, read_iops=0, read_bytes_per_second=0, file_system="ext4"):
        self.work = Path(work)
        self.folder = Path(folder)
        self.limits = {"iops": read_iops, "bps": read_bytes_per_second}
        self.file_system = file_system
        self.image = self.work / f"disk-{os.getpid()}.img"
        self.mountpoint = self.work / f"disk-{os.getpid()}"
        self.group = None
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        need_root("set up a loop device")
        with contextlib.ExitStack() as stack:
            self._make_disk(stack)
            self._make_group(stack)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    @property
    def path(self):
        return self.mountpoint / "data"

    def limit_me(self):
        """Puts the calling process and its children to come under the limit; fits preexec_fn."""
        (self.group / "cgroup.procs").write_text(str(os.getpid()))

    def _make_disk(self, stack):
        content_bytes = sum(entry.stat().st_size + 4096 for entry in self.folder.rglob("*") if entry.is_file())
        stack.enter_context(holding("file", self.image))
        stack.callback(self.image.unlink, missing_ok=True)
        with open(self.image, "wb") as image:
            image.truncate((int(content_bytes * 1.1) + (512 << 20)) // 4096 * 4096)
        subprocess.run([f"mkfs.{self.file_system}", "-q", str(self.image)], check=True)
        # Direct I/O on the image, so that its content is not cached a second time below the file system.
        self.device = subprocess.run(["losetup", "--find", "--show", "--direct-io=on", str(self.image)], check=True,
                                     stdout=subprocess.PIPE, text=True).stdout.strip()
        stack.enter_context(holding("loop", self.device))
        stack.callback(subprocess.run, ["losetup", "--detach", self.device], check=False)
        self.mountpoint.mkdir(parents=True, exist_ok=True)
        stack.enter_context(holding("folder", self.mountpoint))
        stack.callback(self.mountpoint.rmdir)
        stack.enter_context(holding("mount", self.mountpoint))
        subprocess.run(["mount", self.device, str(self.mountpoint)], check=True)
        stack.callback(unmount, self.mountpoint)
        shutil.copytree(self.folder, self.path)
        subprocess.run(["sync", "--file-system", str(self.mountpoint)], check=True)

    def _make_group(self, stack):
        number = os.stat(self.device).st_rdev
        device = f"{os.major(number)}:{os.minor(number)}"
        root = Path("/sys/fs/cgroup")
        unified = (root / "cgroup.controllers").exists()
        self.group = (root if unified else root / "blkio") / f"headrace-{os.getpid()}-{Path(self.device).name}"
        try:
            if unified:
                (root / "cgroup.subtree_control").write_text("+io")
            self.group.mkdir()
            stack.enter_context(holding("group", self.group))
            stack.callback(self._remove_group)
            for kind, limit in self.limits.items():
                if limit and unified:
                    (self.group / "io.max").write_text(f"{device} r{kind}={limit}")
                elif limit:
                    (self.group / f"blkio.throttle.read_{kind}_device").write_text(f"{device} {limit}")
        except OSError as error:
            raise CannotRun(f"no cgroup that limits block reads: {error}") from error

    def _remove_group(self):
        deadline = time.monotonic() + 5
        while True:  # a group can be removed a moment after its last process has ended
            try:
                self.group.rmdir()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
