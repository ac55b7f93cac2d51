# SPDX-License-Identifier: Apache-2.0
"""What sockets alone bring over the links between nodes:
bare_sockets.py serve ADDRESS | fetch ADDRESS=BYTES... [--keep FOLDER BYTES]

serve: whoever connects sends a number of eight bytes and gets so many bytes. fetch: says that it is ready, waits for a
line on standard input, gets them all at once, and prints one JSON line: seconds, bytes, and the processor time in
between. --keep: what comes is not thrown away but lies in the page cache in the end, as files of so many bytes in a
FOLDER of memory, of which the last few are kept.
"""

import itertools
import json
import os
import socket
import struct
import sys
import threading
import time

PORT = 11312
PIECE = bytes(256 << 10)  # as much as a value of memcached's is sent at once


def give(connection):
    with connection:
        left = struct.unpack("<Q", connection.recv(8, socket.MSG_WAITALL))[0]
        while left > 0:
            left -= connection.send(PIECE[: min(left, len(PIECE))])


def serve(address):
    with socket.create_server((address, PORT)) as listener:
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=give, args=(connection,), daemon=True).start()


class Files:
    """In a folder of memory; the last KEPT of them. As many as a mount of `cluster` has room for."""

    KEPT = 200

    def __init__(self, folder, size, name):
        self.folder, self.size, self.name = folder, size, name
        self.numbers = itertools.count()
        self.file, self.left = None, 0

    def add(self, piece):
        while len(piece) > 0:
            if self.left == 0:
                self._begin(next(self.numbers))
            step = min(self.left, len(piece))
            os.write(self.file, piece[:step])
            piece, self.left = piece[step:], self.left - step

    def _begin(self, number):
        if self.file is not None:
            os.close(self.file)
        if number >= self.KEPT:
            os.unlink(self._path(number - self.KEPT))
        self.file, self.left = os.open(self._path(number), os.O_CREAT | os.O_WRONLY), self.size

    def _path(self, number):
        return f"{self.folder}/{self.name}-{number}"


def fetch_from(address, count, files):
    buffer = bytearray(files.size if files else len(PIECE))
    view = memoryview(buffer)
    with socket.create_connection((address, PORT)) as connection:
        connection.sendall(struct.pack("<Q", count))
        while count > 0:
            got = connection.recv_into(buffer)
            if got == 0:
                raise ConnectionError("it ended early")
            count -= got
            if files:
                files.add(view[:got])


def fetch(words):
    keep = None
    if "--keep" in words:
        at = words.index("--keep")
        keep, words = (words[at + 1], int(words[at + 2])), words[:at]
    wanted = [(address, int(count)) for address, count in (word.split("=") for word in words)]
    threads = [threading.Thread(target=fetch_from, args=(address, count, Files(*keep, address) if keep else None))
               for address, count in wanted]
    print("ready", flush=True)
    sys.stdin.readline()
    begun, spent = time.monotonic(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"seconds": time.monotonic() - begun, "cpu_seconds": time.process_time() - spent,
                      "bytes": sum(count for _, count in wanted)}))


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1] == "serve" else fetch(sys.argv[2:])
