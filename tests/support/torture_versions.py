# SPDX-License-Identifier: Apache-2.0
"""Files whose every page says which version of which file it belongs to, and the judge of what readers saw of them.

A page is 4096 bytes: file, version, number of the page, then a filler that belongs to the version. So one look at what
was read tells whether it is one version, a mix, or bytes of another place.
"""

import hashlib
import os
import struct
import time
from dataclasses import dataclass, field

PAGE = 4096
HEAD = struct.Struct("<4sIIIQQ")  # magic, file, version, flags, page, a copy of the version
MAGIC = b"HRV1"
SECRET = 1  # flag: a version that is only ever shown with mode 0600


def filler(file, version, flags):
    return hashlib.shake_128(struct.pack("<III", file, version, flags)).digest(PAGE - HEAD.size)


def page(file, version, flags, number):
    return HEAD.pack(MAGIC, file, version, flags, number, version) + filler(file, version, flags)


def content(file, version, length, flags=0):
    rest = filler(file, version, flags)
    heads = (HEAD.pack(MAGIC, file, version, flags, number, version) for number in range(-(-length // PAGE)))
    return b"".join(head + rest for head in heads)[:length]


@dataclass
class Seen:
    """What one reader got of one open file: bytes of which versions, where it began, how much of it."""

    file: int
    opened: float
    ended: float
    length: int = 0
    versions: set = field(default_factory=set)
    flags: int = 0
    error: int = 0  # errno; 0: read to the end
    wrong: str = ""  # bytes that are no version's, or of another place
    reader: str = "root"
    longest_call: float = 0


def look_at(seen, data):
    """Fills in versions, flags and wrong from the bytes of a whole file. Files of 1 to 31 bytes say nothing."""
    seen.length = len(data)
    view, fillers = memoryview(data), {}
    for number in range(-(-len(data) // PAGE)):
        part = view[number * PAGE:(number + 1) * PAGE]
        if len(part) < HEAD.size:
            # A tail without a whole head is compared with the versions that the pages before it named.
            if seen.versions and not any(part == page(seen.file, version, flags, number)[:len(part)]
                                         for version, flags in seen.versions):
                seen.wrong = f"tail of page {number}"
            continue
        magic, file, version, flags, at, again = HEAD.unpack_from(part)
        if (magic, file, at, again) != (MAGIC, seen.file, number, version):
            seen.wrong = f"page {number}: {bytes(part[:HEAD.size]).hex()}"
            return
        key = (version, flags)
        if key not in fillers:
            fillers[key] = filler(file, version, flags)
        if part[HEAD.size:] != fillers[key][:len(part) - HEAD.size]:
            seen.wrong = f"filler of page {number}"
            return
        seen.versions.add(key)
        seen.flags |= flags


@dataclass
class Version:
    version: int
    length: int
    flags: int
    begin: float
    end: float = float("inf")


class History:
    """What each file was, and when; when the mount was made or refreshed; when what was closed to others."""

    def __init__(self):
        self.files = {}  # file: [Version]
        self.refreshes = []  # (begin, end): from `end` on, nothing that was gone before `begin` may be seen
        self.closed = []  # (file, begin, end): known to the mount as closed to others, from begin to end
        self.written = []  # (file, begin, end): written in place

    def current(self, file):
        return self.files[file][-1]

    def change(self, file, version, length, flags, apply):
        """apply() puts it there: it exists from before that on, the one before it until after."""
        entry = Version(version, length, flags, time.monotonic())
        apply()
        if file in self.files:
            self.current(file).end = time.monotonic()
        self.files.setdefault(file, []).append(entry)

    def refresh(self, do):
        begin = time.monotonic()
        do()
        self.refreshes.append((begin, time.monotonic()))

    def window_begin(self, opened):
        return max((begin for begin, end in self.refreshes if end <= opened), default=float("-inf"))

    def judge(self, seen):
        """What is wrong with what was seen, in a word and a sentence; None: nothing. Being refused is not wrong."""
        where = f"file {seen.file}, opened {seen.opened:.3f}, read until {seen.ended:.3f}, as {seen.reader}"
        numbers = sorted(version for version, _ in seen.versions)
        if seen.wrong:
            return "wrong", f"{where}: {seen.wrong}"
        if seen.reader != "root" and (seen.flags & SECRET or (not seen.error and self.was_closed(seen))):
            return "forbidden", f"{where}: versions {numbers}"
        if len(seen.versions) > 1:
            # Whoever reads while a file is written in place gets some of each without headrace, too.
            overlaps = any(file == seen.file and begin <= seen.ended and seen.opened <= end
                           for file, begin, end in self.written)
            return None if overlaps else ("mixed", f"{where}: versions {numbers}")
        if seen.error and not seen.versions:
            return None
        return self.judge_one(seen, f"{where}: versions {numbers}")

    def was_closed(self, seen):
        return any(file == seen.file and begin <= seen.opened and seen.ended <= end for file, begin, end in self.closed)

    def judge_one(self, seen, where):
        since = self.window_begin(seen.opened)
        alive = [it for it in self.files[seen.file] if it.end >= since and it.begin <= seen.ended]
        same = [it for it in alive if not seen.versions or (it.version, it.flags) in seen.versions]
        if not same:
            return "stale", f"{where}, could be {[it.version for it in alive]}"
        # A file that grows or shrinks in place keeps its version: any length on the way is one that it had.
        lengths = sorted(it.length for it in same)
        if seen.error or lengths[0] <= seen.length <= lengths[-1]:
            return None
        return "cut", f"{where}, {seen.length} bytes of {lengths}"


def pieces_of(length, rng):
    """Offsets and lengths that cover a file, from front to back or in any order, and what may lie behind its end."""
    pieces, offset = [], 0
    while offset < length:
        piece = rng.choice((4096, 65536, 1_000_000, 1 << 20))
        pieces.append((offset, min(piece, length - offset)))
        offset += piece
    if rng.random() < 0.3:
        rng.shuffle(pieces)
    return [*pieces, (length, 1 << 20)]


def read_whole(root, path, file, reader, rng, pause_seconds):
    """Opens, reads in parts of random size, closes."""
    seen = Seen(file, time.monotonic(), 0, reader=reader)
    parts = {}
    try:
        descriptor = os.open(os.path.join(root, path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            for offset, length in pieces_of(os.fstat(descriptor).st_size, rng):
                parts[offset] = read_piece(seen, descriptor, length, offset)
                if rng.random() < 0.02:
                    time.sleep(rng.random() * pause_seconds)
        finally:
            os.close(descriptor)
    except OSError as error:
        seen.error = error.errno
    seen.ended = time.monotonic()
    look_at(seen, from_the_front(parts))
    return seen


def read_piece(seen, descriptor, length, offset):
    """Where an error comes after some bytes, pread(2) gives these; the next call tells the error, or the end."""
    piece = b""
    while len(piece) < length:
        before = time.monotonic()
        more = os.pread(descriptor, length - len(piece), offset + len(piece))
        seen.longest_call = max(seen.longest_call, time.monotonic() - before)
        if not more:
            break
        piece += more
    return piece


def from_the_front(parts):
    """The bytes up to the first that is missing."""
    whole = []
    end = 0
    for offset in sorted(parts):
        if offset != end:
            break
        whole.append(parts[offset])
        end += len(parts[offset])
    return b"".join(whole)
