# SPDX-License-Identifier: Apache-2.0
"""Reads files in the order of a list and compares each with the original: checked_reader.py FOLDER LIST ORIGINALS

ORIGINALS: the folder that the files come from, which is read before the time begins: comparing is then all that this
costs. With --wait it begins when a line comes on standard input. Prints one JSON line: samples, bytes, seconds, failed,
wrong, and the longest time that a read took. It knows nothing of headrace.
"""

import json
import sys
import time
from pathlib import Path


def main():
    folder, names, originals = Path(sys.argv[1]), Path(sys.argv[2]).read_text().split("\n"), Path(sys.argv[3])
    names = [name for name in names if name]
    expected = {name: (originals / name).read_bytes() for name in names}
    result = {"samples": 0, "bytes": 0, "failed": 0, "wrong": 0, "slowest_seconds": 0.0}
    if "--wait" in sys.argv:
        print("ready", flush=True)
        sys.stdin.readline()
    begun = time.monotonic()
    for name in names:
        before = time.monotonic()
        try:
            with open(f"{folder}/{name}", "rb", buffering=0) as file:
                content = file.readall()
        except OSError:
            result["failed"] += 1
            continue
        result["slowest_seconds"] = max(result["slowest_seconds"], time.monotonic() - before)
        result["samples"] += 1
        result["bytes"] += len(content)
        result["wrong"] += content != expected[name]
    result["seconds"] = time.monotonic() - begun
    print(json.dumps(result))


if __name__ == "__main__":
    main()
