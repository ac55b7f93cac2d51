# SPDX-License-Identifier: Apache-2.0
"""One daemon for all ranks of a node: the first rank that opens a data set with tiers mounts it, all read the mount.

A rank holds a shared lock on a file beside the mount point for as long as it reads. A process that waits for the
exclusive lock ends the mount: it gets it when the last rank has closed the data set, ended, or been killed.
"""
import fcntl
import hashlib
import os
import subprocess
import tempfile
from typing import List, Sequence

from . import _command

# Mounting lists the data set first, which takes minutes on a slow source with millions of files.
_MOUNT_SECONDS = 3600


class Lease:
    """A mount that stays while one of these lives. `mount`: its path."""

    def __init__(self, mount: str, lock: int):
        self.mount, self._lock = mount, lock

    def __del__(self) -> None:
        os.close(self._lock)


def is_mount(path: str) -> bool:
    """Whether it lies in a mount of headrace. See mountinfo(5)."""
    try:
        device = os.stat(path).st_dev
        with open("/proc/self/mountinfo", errors="replace") as mounts:
            lines = mounts.readlines()
    except OSError:
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    return any(line.split()[2] == number and (" - fuse.headrace " in line or " headrace-overlay " in line)
               for line in lines)


def lease(root: str, options: Sequence[str]) -> Lease:
    """Mounts a data set, or finds it mounted by another rank with the same options of `headrace mount`.

    Raises OSError (no command, no folder for the mount point), HeadraceError (what the command said).
    """
    root = os.path.realpath(root)
    digest = hashlib.sha256("\0".join([root, *options]).encode(errors="surrogateescape")).hexdigest()[:16]
    folder = os.path.join(_own_folder(), f"shared-{digest}")
    os.makedirs(folder, 0o700, exist_ok=True)
    point, users = os.path.join(folder, "mount"), os.path.join(folder, "users")
    lock = os.open(users, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)  # waits for a mount that is being ended
        _mount_once(root, point, folder, users, list(options))
    except BaseException:
        os.close(lock)
        raise
    return Lease(point, lock)


def _mount_once(root: str, point: str, folder: str, users: str, options: List[str]) -> None:
    turn = os.open(os.path.join(folder, "turn"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)  # another rank may be mounting it
        # Each rank has a waiter, and before it mounts: one that is killed in between leaves nothing behind for ever.
        _unmount_behind_the_last(users, point)
        if is_mount(point):
            return
        try:
            os.mkdir(point, 0o700)
        except FileExistsError:
            _command.run(["unmount", "--force", point])  # its daemon may have died
        try:
            _command.run(["mount", root, point, *options], patience_seconds=_MOUNT_SECONDS)
        except BaseException:
            _command.run(["unmount", "--force", point])  # nobody else would end it
            raise
    finally:
        os.close(turn)


# The process has a session of its own, so that neither Ctrl-C nor the end of this rank ends it.
def _unmount_behind_the_last(users: str, point: str) -> None:
    program, environment = _command.find()
    subprocess.run(["setsid", "--fork", "flock", "--exclusive", users, program, "unmount", "--force", point],
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
                   check=True)


# Who we are outside of a user namespace: the root of a rootless container is the user who made it. user_namespaces(7).
def _user_outside() -> int:
    with open("/proc/self/uid_map") as lines:
        for within, outside, count in (map(int, line.split()) for line in lines):
            if within <= os.getuid() < within + count:
                return outside + os.getuid() - within
    return os.getuid()


# For this user alone, where control sockets lie as well.
def _own_folder() -> str:
    user, session = _user_outside(), os.environ.get("XDG_RUNTIME_DIR")
    folder = os.environ.get("HEADRACE_RUNTIME_DIR") or (
        "/run/headrace" if user == 0 else os.path.join(session, "headrace") if session
        else os.path.join(tempfile.gettempdir(), f"headrace-{user}"))
    os.makedirs(folder, 0o700, exist_ok=True)
    if os.stat(folder).st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user; set HEADRACE_RUNTIME_DIR to a folder of yours")
    return folder
