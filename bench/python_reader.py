#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Reads listed files as Python programs do: open(path, 'rb').read(). Usage: python_reader.py ROOT LIST [PASSES]"""

import json
import resource
import sys
import time


def main():
    root, listing = sys.argv[1:3]
    passes = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    with open(listing, encoding="utf-8") as lines:
        paths = [f"{root}/{line.rstrip()}" for line in lines]
    total = 0
    start = time.perf_counter()
    for _ in range(passes):
        for path in paths:
            with open(path, "rb") as file:
                total += len(file.read())
    seconds = time.perf_counter() - start
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"samples": passes * len(paths), "bytes": total, "seconds": seconds,
                      "cpu_seconds": usage.ru_utime + usage.ru_stime, "peak_bytes": usage.ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
