# SPDX-License-Identifier: Apache-2.0
"""What a store of values brings over a link, by one client for memcached and redis:
engines.py fill|get memcached|redis ADDRESS:PORT SIZES [CONNECTIONS DEPTH]

SIZES: a file with a number of bytes per line, one for each key. get: waits for a line on standard input, gets every key
once, DEPTH asked for ahead on each connection, and prints one JSON line: seconds, bytes.
"""

import json
import socket
import sys
import threading
import time
from pathlib import Path

PIECE = 1 << 20
LINE_END = b"\r\n"
# How a value is asked for and stored; its length is the number behind the first letters of the answer to a get.
ENGINES = {
    "memcached": (lambda key: b"mg %s v\r\n" % key, lambda key, size: b"ms %s %d\r\n" % (key, size), b"VA "),
    "redis": (lambda key: b"GET %s\r\n" % key,
              lambda key, size: b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n" % (len(key), key, size), b"$"),
}


def key_of(number):
    return b"h1abcdefghijkl%010d" % number  # as long as headrace's


def fill(engine, connection, sizes):
    _, stored, _ = ENGINES[engine]
    with connection.makefile("rb") as answers:
        for number, size in enumerate(sizes):
            connection.sendall(stored(key_of(number), size) + bytes(size) + LINE_END)
            answer = answers.readline()
            if not answer.startswith((b"HD", b"+OK")):
                raise ValueError(f"{engine} said {answer!r}")


def get(engine, connection, numbers, depth):
    """Asks for all of them, and counts the bytes of the values that come."""
    wanted, _, begins = ENGINES[engine]
    buffer = bytearray(PIECE)
    view = memoryview(buffer)
    rest = b""  # of a line that has not come whole
    skip = count = asked = answered = 0
    while answered < len(numbers):
        ahead = min(len(numbers), answered + depth)
        if asked < ahead:
            connection.sendall(b"".join(wanted(key_of(number)) for number in numbers[asked:ahead]))
            asked = ahead
        got = connection.recv_into(view)
        if got == 0:
            raise ConnectionError("it ended early")
        at = 0
        while at < got:
            if skip > 0:
                step = min(skip, got - at)
                at, skip = at + step, skip - step
                continue
            end = buffer.find(b"\n", at, got)
            if end < 0:
                rest += bytes(view[at:got])
                break
            line = rest + bytes(view[at : end + 1])
            rest, at = b"", end + 1
            if not line.startswith(begins):
                raise ValueError(f"{engine} said {line!r}")
            size = int(line[len(begins):].split()[0])
            skip = size + len(LINE_END)
            count += size
            answered += 1
    while skip > 0:
        skip -= connection.recv_into(view[: min(skip, PIECE)])
    return count


def connect(where):
    address, port = where.split(":")
    connection = socket.create_connection((address, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def get_all(engine, where, sizes, connections, depth):
    counts = []

    def work(part):
        with connect(where) as connection:
            counts.append(get(engine, connection, part, depth))

    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.monotonic()
    threads = [threading.Thread(target=work, args=(range(first, len(sizes), connections),))
               for first in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - begun
    if sum(counts) != sum(sizes):
        raise ValueError("not every value came")
    print(json.dumps({"seconds": seconds, "bytes": sum(counts)}))


def main():
    what, engine, where, sizes = sys.argv[1:5]
    sizes = [int(line) for line in Path(sizes).read_text().split()]
    if what == "get":
        get_all(engine, where, sizes, int(sys.argv[5]), int(sys.argv[6]))
        return
    with connect(where) as connection:
        fill(engine, connection, sizes)


if __name__ == "__main__":
    main()
