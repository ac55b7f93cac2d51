# SPDX-License-Identifier: Apache-2.0
"""Puts away what a measuring program would leave behind when it is killed: mounts, loop devices, cgroups, network
namespaces, processes.

    with holding("mount", path):
        ...                        # whatever happens to this program, `path` is not mounted afterwards

Whoever holds something puts it away itself in the ordinary course. Only where the program ends before that, by SIGKILL
too, a process of its own does it: it was started at the first holding() and waits for the end of a pipe.
"""

import atexit
import contextlib
import functools
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PATIENCE_SECONDS = 10  # for one thing to go away: a daemon that flushes, a group that its last process leaves


class Sweeper:
    """The pipe to the sweeping process: a JSON list per line, [number, kind, value] or at its end [number]."""

    def __init__(self):
        self.numbers = itertools.count()
        self.owner = os.getpid()
        # A session of its own: what ends a whole process group or terminal leaves it alive.
        self.process = subprocess.Popen([sys.executable, "-B", __file__], stdin=subprocess.PIPE,
                                        start_new_session=True)
        # A fork that execs nothing keeps the pipe open, and the sweeper would wait for that one's end.
        os.register_at_fork(after_in_child=self.process.stdin.close)
        atexit.register(self.end)

    def end(self):
        """The sweeper sees the end of the pipe, and puts away what is still held."""
        if os.getpid() == self.owner:
            self.process.stdin.close()
            self.process.wait()

    def note(self, *words):
        if os.getpid() == self.owner:
            # One write, so that lines of several threads do not mix. Without a sweeper all is put away as before.
            with contextlib.suppress(BrokenPipeError):
                os.write(self.process.stdin.fileno(), json.dumps(words).encode() + b"\n")


@contextlib.contextmanager
def holding(kind, value):
    """`kind`: a name in PUT_AWAY; `value`: a path, or a process id."""
    sweeper = the_sweeper()
    number = next(sweeper.numbers)
    sweeper.note(number, kind, value if isinstance(value, int) else str(value))
    try:
        yield
    finally:
        sweeper.note(number)


@functools.cache
def the_sweeper():
    return Sweeper()


@contextlib.contextmanager
def temporary_folder(prefix, parent=None):
    """tempfile.TemporaryDirectory, but it goes away too where this program is killed."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as folder, holding("folder", folder):
        yield folder


def mounted_at(path):
    """The device number, "major:minor", and type of the topmost mount at `path`; None where there is none."""
    found = None
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            words = line.split()
            if words[4] == str(path).replace(" ", "\\040"):
                found = words[2], words[words.index("-") + 1]
    return found


def end_mount(path):
    """Forced: whoever waits for an answer of a FUSE daemon that is gone gets an error instead."""
    for _ in range(8):  # nobody stacks more
        found = mounted_at(path)
        if not found:
            return
        subprocess.run(["umount", "--force", "--lazy", path], check=False, stderr=subprocess.DEVNULL)
        if mounted_at(path) == found:
            subprocess.run(["fusermount3", "-u", "-z", path], check=False, stderr=subprocess.DEVNULL)


def end_process(descriptor):
    """`descriptor`: a pidfd, which never means another process that got the same number later."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        if not select.select([descriptor], [], [], PATIENCE_SECONDS)[0]:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)


def detach_loop(device):
    subprocess.run(["losetup", "--detach", device], check=False, stderr=subprocess.DEVNULL)


def end_group(path):
    """Kills what is left in a cgroup and removes it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while Path(path).is_dir() and time.monotonic() < deadline:
        with contextlib.suppress(OSError, ProcessLookupError):
            for pid in (Path(path) / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
            Path(path).rmdir()
        time.sleep(0.05)  # processes leave a group a moment after they were killed


def remove_folder(path):
    """Never what is mounted below it."""
    if not any(line.split()[4].startswith(path) for line in open("/proc/self/mountinfo", encoding="utf-8")):
        shutil.rmtree(path, ignore_errors=True)


def delete_namespace(name):
    """With it go its ends of virtual cables, and so the other ends."""
    subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)


PUT_AWAY = {
    "mount": end_mount,
    "process": end_process,
    "loop": detach_loop,
    "group": end_group,
    "namespace": delete_namespace,
    "folder": remove_folder,
    "file": lambda path: Path(path).unlink(missing_ok=True),
}


def main():
    """Reads until the other end is closed, then puts away what is still held, the last first."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    held = {}
    for line in sys.stdin:
        number, *what = json.loads(line)
        if not what:
            held.pop(number, None)
        else:
            kind, value = what
            with contextlib.suppress(ProcessLookupError):
                held[number] = (kind, os.pidfd_open(value) if kind == "process" else value)
    for kind, value in reversed(held.values()):
        PUT_AWAY[kind](value)


if __name__ == "__main__":
    main()
