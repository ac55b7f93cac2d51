# SPDX-License-Identifier: Apache-2.0
"""tests/torture --kind permissions: three users see through a mount what they see in its source, no more and no less.

Between two refreshes modes, owners and ACLs of files and folders change, files are replaced, folders change places,
names come and go, and the worker dies. Meanwhile users keep files open and stand in folders. After each refresh every
user looks at every name, in the source and through the mount: plain, below an overlay, and with a scratch folder.
"""

import contextlib
import errno
import json
import os
import pickle
import random
import struct
import time

from sources import Failed, is_mounted, unmount

USERS = (60001, 60002, 60003)  # user and group of one number each
GROUP = 60100  # of the first two
LAYERS = {"plain": (), "overlay": ("--overlay",), "scratch": ("--scratch",)}
FOLDERS = tuple(f"d{number}" for number in range(4))
FILES = tuple(f"f{number}" for number in range(5))
MODES = (0o755, 0o755, 0o750, 0o700, 0o705, 0o711, 0o644, 0o640, 0o600, 0o604, 0o000)
FOLDER_MODES = (0o755, 0o755, 0o755, 0o750, 0o700, 0o711, 0o705)
ACL = "system.posix_acl_access"
NO_ID = 0xffffffff
CHANGES_PER_ROUND = 4
PATIENCE_SECONDS = 60  # until what was kept open is found anew
COLUMNS = ("rounds", "looks", "stale", "wrong")


def acl_for(user, permissions):
    """As setfacl -m u:USER:PERMISSIONS writes it for a file of mode 0755 (linux/posix_acl_xattr.h)."""
    entries = ((0x01, 7, NO_ID), (0x02, permissions, user), (0x04, 5, NO_ID), (0x10, 7, NO_ID), (0x20, 5, NO_ID))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def asked(question):
    try:
        return question()
    except OSError as refused:
        return errno.errorcode[refused.errno]


def look_at(root, name):
    path = os.path.join(root, name)

    def status():
        found = os.stat(path)
        is_folder = os.path.isdir(path)
        return (found.st_mode, found.st_uid, found.st_gid, None if is_folder else found.st_size)

    def content():
        try:
            with open(path, "rb") as file:
                return file.read()
        except IsADirectoryError:
            return sorted(each for each in os.listdir(path) if not each.startswith("beside"))
    return asked(status), asked(content)


def become(user):
    os.setgroups([GROUP] if user in USERS[:2] else [])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def as_user(user, question):
    """What a process of that user answers."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException), open(writing, "wb") as answer:
            become(user)
            pickle.dump(question(), answer)
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        data = answer.read()
    os.waitpid(child, 0)
    if not data:
        raise Failed(f"a look by user {user} ended without an answer")
    return pickle.loads(data)


class Holder:
    """A user who keeps files open and stands in a folder, until he is told to go."""

    def __init__(self, user, root, names, folder):
        until, self.go = os.pipe()
        is_ready, ready = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            with contextlib.suppress(BaseException):
                become(user)
                os.close(self.go)
                kept = [asked(lambda name=name: os.open(os.path.join(root, name), os.O_RDONLY)) for name in names]
                asked(lambda: os.chdir(os.path.join(root, folder)))
                os.write(ready, b"r")
                os.read(until, len(kept) or 1)
            os._exit(0)
        os.close(until)
        os.close(ready)
        os.read(is_ready, 1)
        os.close(is_ready)

    def end(self):
        os.write(self.go, b"g")  # holders that were forked later have its descriptor, so to close it says nothing
        os.close(self.go)
        os.waitpid(self.child, 0)


class Shared:
    """A source that is mounted for all users, and what happens to it."""

    def __init__(self, bench, layer, seed):
        self.bench, self.layer, self.rng = bench, layer, random.Random(seed)
        self.source, self.mountpoint = bench.work / "shared", bench.work / "mount"
        self.version = 0
        os.chmod(bench.work, 0o711)
        for folder in (self.source, self.mountpoint):
            folder.mkdir(exist_ok=True)
            os.chmod(folder, 0o755)
        for folder in FOLDERS:
            (self.source / folder).mkdir(exist_ok=True)
            for file in FILES:
                self.write(f"{folder}/{file}")
        self.mount()

    def mount(self):
        words = LAYERS[self.layer]
        if self.layer == "scratch":
            words = (*words, self.bench.work / "scratch")
        self.call("mount", self.source, self.mountpoint, "--ram", "24M", "--allow-other", *words)

    def call(self, *words):
        return self.bench.execute([self.bench.program("headrace"), *words])

    def write(self, name):
        """As a new file."""
        self.version += 1
        partial = self.source.parent / "partial"
        partial.write_text(f"{name} {self.version} " + "x" * self.rng.randrange(9000))
        partial.rename(self.source / name)

    def names(self):
        return [".", *(str(path.relative_to(self.source)) for path in sorted(self.source.rglob("*")))]

    def files(self):
        return [name for name in self.names() if (self.source / name).is_file()]

    def any_name(self):
        return self.rng.choice(self.names())

    def chmod(self):
        path = self.source / self.any_name()
        path.chmod(self.rng.choice(FOLDER_MODES if path.is_dir() else MODES))

    def chown(self):
        os.chown(self.source / self.any_name(), self.rng.choice((0, *USERS)), self.rng.choice((0, GROUP, *USERS)))

    def set_acl(self):
        name = self.any_name()
        os.setxattr(self.source / name, ACL, acl_for(self.rng.choice(USERS), self.rng.choice((0, 4, 5, 7))))

    def remove_acl(self):
        with contextlib.suppress(OSError):  # it has none
            os.removexattr(self.source / self.any_name(), ACL)

    def replace(self):
        name = self.rng.choice(self.files())
        self.write(name)
        (self.source / name).chmod(self.rng.choice(MODES))

    def swap_folders(self):
        first, second = self.rng.sample(FOLDERS, 2)
        aside = self.source.parent / "aside"
        (self.source / first).rename(aside)
        (self.source / second).rename(self.source / first)
        aside.rename(self.source / second)

    def come(self):
        self.write(f"{self.rng.choice(FOLDERS)}/new{self.rng.randrange(3)}")

    def go(self):
        for name in self.files():
            if "new" in name:
                return (self.source / name).unlink()
        return None

    def write_beside(self):
        """By root, below the mount: the overlay copies the folder."""
        if self.layer == "scratch":
            path = self.mountpoint / self.rng.choice(FOLDERS) / f"beside{self.rng.randrange(100)}"
            path.write_text("beside")

    def mount_anew(self):
        self.call("unmount", "--force", self.mountpoint)
        self.mount()

    def kill_worker(self):
        pid = json.loads(self.call("stat", self.mountpoint, "--json"))["pid"]
        os.kill(pid, 9)

    def has_acl_above(self, name):
        parts = name.split("/")
        paths = [self.source, *(self.source.joinpath(*parts[:count]) for count in range(1, len(parts) + 1))]
        return any(isinstance(asked(lambda path=path: os.getxattr(path, ACL)), bytes) for path in paths)

    def compare(self, row, may_be_stale):
        """How many answers are to be asked for again; what is wrong for good is told."""
        stale = 0
        names = self.names()
        for user in USERS:
            true = as_user(user, lambda: {name: look_at(self.source, name) for name in names})
            shown = as_user(user, lambda: {name: look_at(self.mountpoint, name) for name in names})
            for name in names:
                row["looks"] += 1
                is_hidden = self.has_acl_above(name)
                for expected, seen in zip(true[name], shown[name]):
                    if seen == expected or (is_hidden and is_less(expected, seen)):
                        continue
                    if seen == "ESTALE":
                        stale += 1
                        continue
                    row["wrong"] += 1
                    print(f"WRONG: {self.layer}, user {user}, {name}: {short(seen)}, in the source {short(expected)}",
                          flush=True)
        if stale and not may_be_stale:
            print(f"{self.layer}: {stale} names are stale for good", flush=True)
            row["wrong"] += stale
        return stale

    def round(self, row):
        folder = self.rng.choice(FOLDERS)
        holders = [Holder(user, self.mountpoint, self.rng.sample(self.files(), 3), folder) for user in USERS]
        try:
            for _ in range(CHANGES_PER_ROUND):
                self.rng.choice(CHANGES)(self)
            if self.rng.random() < 0.2:
                self.kill_worker()
            self.call("refresh", self.mountpoint)
            row["stale"] += self.compare(row, True)
        finally:
            for holder in holders:
                holder.end()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.compare(row, time.monotonic() < deadline):
            time.sleep(0.05)
        if self.rng.random() < 0.2:
            self.mount_anew()
            self.compare(row, False)
        row["rounds"] += 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Failed):
            self.call("unmount", "--force", self.mountpoint)
        while is_mounted(self.mountpoint):
            unmount(self.mountpoint)


def is_less(expected, seen):
    """Whether a name with an ACL shows less than the source, and nothing else."""
    if seen == "EACCES":
        return True
    if not isinstance(expected, tuple) or not isinstance(seen, tuple):
        return False
    return seen[1:] == expected[1:] and seen[0] & ~expected[0] == 0


def short(answer):
    return answer[:40] if isinstance(answer, bytes) else answer


CHANGES = (Shared.chmod, Shared.chmod, Shared.chmod, Shared.chown, Shared.set_acl, Shared.remove_acl, Shared.replace,
           Shared.swap_folders, Shared.come, Shared.go, Shared.write_beside)


def torture_permissions(bench, arguments):
    """A row for each layer, which has its part of the time and two rounds at least."""
    rows = {}
    for number, layer in enumerate(LAYERS):
        row = rows[layer] = dict.fromkeys(COLUMNS, 0)
        end = time.monotonic() + 60 * arguments.minutes / len(LAYERS)
        with Shared(bench, layer, arguments.seed + number) as shared:
            while row["rounds"] < 2 or time.monotonic() < end:
                shared.round(row)
        print(f"{layer}: {row}", flush=True)
    return rows


def print_permissions(rows):
    print(f"\n{'mounted':12}" + "".join(f"{column:>10}" for column in COLUMNS))
    for layer, row in rows.items():
        print(f"{layer:12}" + "".join(f"{row[column]:>10}" for column in COLUMNS))


def permissions_good(rows):
    return all(row["wrong"] == 0 for row in rows.values())
