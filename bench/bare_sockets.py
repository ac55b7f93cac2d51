# SPDX-License-Identifier: Apache-2.0
"""What sockets alone bring over the links between nodes: bare_sockets.py serve ADDRESS | fetch ADDRESS=BYTES...

serve: whoever connects sends a number of eight bytes and gets so many bytes. fetch: waits for a line on standard input,
gets them all at once, and prints one JSON line: seconds, bytes.
"""

import json
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


def fetch_from(address, count):
    buffer = bytearray(len(PIECE))
    with socket.create_connection((address, PORT)) as connection:
        connection.sendall(struct.pack("<Q", count))
        while count > 0:
            got = connection.recv_into(buffer)
            if got == 0:
                raise ConnectionError("it ended early")
            count -= got


def fetch(words):
    wanted = [(address, int(count)) for address, count in (word.split("=") for word in words)]
    sys.stdin.readline()
    begun = time.monotonic()
    threads = [threading.Thread(target=fetch_from, args=each) for each in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"seconds": time.monotonic() - begun, "bytes": sum(count for _, count in wanted)}))


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1] == "serve" else fetch(sys.argv[2:])
