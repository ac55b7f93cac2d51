# SPDX-License-Identifier: Apache-2.0
"""What tests/torture breaks: a stage with a source, a tier and a mount, and one function per fault.

A fault function breaks something, lets it be broken for some seconds, and mends it again.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from harness import process_tree, stat_fields
from sources import CannotRun, Failed, SlowDisk, SlowFs, is_mounted, unmount
from sweeper import holding


class Stage:
    """A data set behind a file system that can fail, a tier on a small disk of its own, and a mount over both."""

    def __init__(self, bench, peers=None):
        self.bench = bench
        self.peers = peers  # with whom the mount shares (torture_peers.py)
        self.fault_seconds = bench.count(3, 0.5)  # how long a fault lasts
        # Less than the data, so that all is used.
        self.ram, self.tier_bytes = bench.count(("33M", "32M"), ("21M", "8M"))
        self.squeezed_bytes = bench.count(96, 32) << 20  # the daemon and what it pushes: less than it would take
        self.stack = contextlib.ExitStack()
        self.clock_offset = bench.work / "clock-offset"
        self.faults = bench.work / "faults"
        self.mountpoint = bench.work / "mount"

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.folder = self.bench.data_set(self.bench.count(600, 200))
            empty = self.bench.work / "empty"
            empty.mkdir(exist_ok=True)
            disk = stack.enter_context(SlowDisk(self.bench.work, empty))
            self.tier_disk = disk.mountpoint
            self.source_point = self.bench.work / "source"
            self.source = self._slow_fs()
            stack.callback(lambda: self.source.__exit__())
            self.source.__enter__()
            self.mountpoint.mkdir()
            stack.enter_context(holding("mount", self.mountpoint))
            stack.callback(self.unmount)
            self.mount()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def _slow_fs(self):
        return SlowFs(self.bench.program("slow_fs"), self.folder, self.source_point, 1, 1, ["--faults", self.faults])

    def mount(self):
        tier = self.tier_disk / "tier"
        environment = os.environ | {"LD_PRELOAD": str(self.bench.program("jumping_clock")),
                                    "JUMPING_CLOCK": str(self.clock_offset)}
        self.bench.execute([self.bench.program("headrace"), "mount", self.source_point, self.mountpoint, "--ram",
                            self.ram, "--ssd", f"{tier}:{self.tier_bytes}", "--order", "torch-distributed:seed=0",
                            *(self.peers.options() if self.peers else [])], env=environment)

    def unmount(self):
        self.bench.execute([self.bench.program("headrace"), "unmount", "--force", self.mountpoint])
        if is_mounted(self.mountpoint):
            unmount(self.mountpoint)
            raise Failed("headrace unmount left the mount behind")

    def remount(self):
        """As a user would: the mount does not recover by itself."""
        self.bench.execute([self.bench.program("headrace"), "unmount", "--force", self.mountpoint])
        self.mount()

    def daemons(self):
        return daemons_of(self.mountpoint)

    @contextlib.contextmanager
    def source_fault(self, word):
        self.faults.write_text(word)
        try:
            yield
        finally:
            self.faults.unlink()

    def segments(self):
        return [file for file in (self.tier_disk / "tier").rglob("*") if file.is_file() and file.stat().st_size > 4096]

    @staticmethod
    def cycle(bench, count):
        """Mounts and unmounts again and again; seconds."""
        folder = bench.data_set(20)
        mountpoint = bench.work / "cycles"
        mountpoint.mkdir()
        start = time.monotonic()
        with holding("mount", mountpoint):
            for _ in range(count):
                bench.execute([bench.program("headrace"), "mount", folder, mountpoint, "--ram", "20M"])
                next(mountpoint.rglob("*.jpg")).read_bytes()
                bench.execute([bench.program("headrace"), "unmount", "--force", mountpoint])
        if is_mounted(mountpoint):
            raise Failed("a mount was left behind")
        return time.monotonic() - start


def daemons_of(mountpoint):
    """The processes that serve a mount: those whose command line names it. The youngest, the worker, comes last."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if b"mount" in words and str(mountpoint).encode() in words:
                found.append(int(entry.name))
    # By when they began, parents first: process numbers begin anew at 32 768, in minutes on a busy machine.
    trees = sorted(map(process_tree, found), key=len, reverse=True)
    members = dict.fromkeys(member for tree in trees for member in tree)
    began = {}
    for member in members:
        with contextlib.suppress(OSError):
            began[member] = int(stat_fields(member)[19])
    return sorted(began, key=began.get)


def kill_worker(stage, rng):
    """kill -9 of the youngest process of the daemon: the worker where there is a supervisor."""
    os.kill(stage.daemons()[-1], signal.SIGKILL)
    time.sleep(1)
    come_back(stage)


def kill_all(stage, rng):
    """kill -9 of everything; mounting again has to clean up."""
    for pid in stage.daemons():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    time.sleep(0.2)
    stage.mount()


def come_back(stage):
    """Mounts again unless the mount serves already."""
    try:
        os.listdir(stage.mountpoint)
    except OSError:
        stage.mount()
    else:
        if not is_mounted(stage.mountpoint):
            stage.mount()


def tier_full(stage, rng):
    ballast = stage.tier_disk / "ballast"
    room = shutil.disk_usage(stage.tier_disk).free
    with open(ballast, "wb") as file:
        with contextlib.suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(4096, room - (1 << 20)))
    time.sleep(stage.fault_seconds)
    ballast.unlink()


def tier_read_only(stage, rng):
    # A read-only remount is refused while a file is open for writing; an immutable folder takes no new file either.
    tier = str(stage.tier_disk / "tier")
    subprocess.run(["chattr", "+i", tier], check=True)
    try:
        time.sleep(stage.fault_seconds)
    finally:
        subprocess.run(["chattr", "-i", tier], check=True)


def tier_corrupted(stage, rng):
    """Random bytes at random places of the tier's files, while they are in use."""
    for file in stage.segments():
        with contextlib.suppress(FileNotFoundError), open(file, "r+b") as output:  # one may be given up meanwhile
            for _ in range(20):
                output.seek(rng.randrange(file.stat().st_size))
                output.write(rng.randbytes(rng.choice((1, 64, 4096))))
    time.sleep(stage.fault_seconds)


def tier_removed(stage, rng):
    """Somebody deletes the tier's files under the daemon."""
    for file in stage.segments():
        file.unlink(missing_ok=True)
    time.sleep(stage.fault_seconds)


def source_stalls(stage, rng):
    with stage.source_fault("stall"):
        time.sleep(stage.fault_seconds)


def source_errors(stage, rng):
    with stage.source_fault("eio"):
        time.sleep(stage.fault_seconds)


def source_lost(stage, rng):
    """The source is unmounted by force and comes back at the same place."""
    stage.source.__exit__()
    time.sleep(stage.fault_seconds)
    stage.source = stage._slow_fs()
    stage.source.__enter__()


def memory_squeezed(stage, rng):
    group = Path("/sys/fs/cgroup/memory") / f"headrace-torture-{os.getpid()}"
    if not group.parent.is_dir():
        raise CannotRun("a unified cgroup hierarchy, where the daemon's group may not be ours to divide")
    group.mkdir()
    with holding("group", group):
        try:
            (group / "memory.limit_in_bytes").write_text(str(stage.squeezed_bytes))
            pids = stage.daemons()
            move(pids, group)
            time.sleep(stage.fault_seconds)
        finally:
            # All that are there by now: a worker that was killed for its memory has a successor.
            move((group / "cgroup.procs").read_text().split(), group.parent)
            group.rmdir()


def move(pids, group):
    for pid in pids:
        with contextlib.suppress(OSError):
            (group / "cgroup.procs").write_text(str(pid))


def clock_jumps(stage, rng):
    """The daemon's wall clock is set forwards and backwards, by a second and by years; this machine's stays."""
    for seconds in rng.sample((1, -1, 3600, -3600, 86400, -86400, 300_000_000, -300_000_000), 8):
        stage.clock_offset.write_text(str(seconds))
        time.sleep(stage.fault_seconds / 8)
    stage.clock_offset.unlink()


def caches_dropped(stage, rng):
    for _ in range(round(stage.fault_seconds * 4)):
        stage.bench.drop_caches()
        time.sleep(0.25)


def unmounted(stage, rng):
    """An ordinary unmount while readers are active, and a new mount."""
    stage.unmount()
    stage.mount()


FAULTS = {
    "kill -9 worker": kill_worker,
    "kill -9 all": kill_all,
    "tier full": tier_full,
    "tier read-only": tier_read_only,
    "tier corrupted": tier_corrupted,
    "tier files removed": tier_removed,
    "source stalls 5 s": source_stalls,
    "source returns EIO": source_errors,
    "source lost and back": source_lost,
    "memory squeezed": memory_squeezed,
    "clock jumps": clock_jumps,
    "page cache dropped": caches_dropped,
    "unmounted and back": unmounted,
}
