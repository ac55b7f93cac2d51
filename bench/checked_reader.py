# SPDX-License-Identifier: Apache-2.0
"""Reads files in the order of a list and compares each with its digest: checked_reader.py FOLDER LIST DIGESTS

DIGESTS: a JSON object of path to BLAKE2. Prints one JSON line: samples, bytes, seconds, failed, wrong, and the longest
time that a read took. It knows nothing of headrace.
"""

import hashlib
import json
import sys
import time
from pathlib import Path


def main():
    folder, names, digests = Path(sys.argv[1]), Path(sys.argv[2]).read_text().split("\n"), json.load(open(sys.argv[3]))
    result = {"samples": 0, "bytes": 0, "failed": 0, "wrong": 0, "slowest_seconds": 0.0}
    begun = time.monotonic()
    for name in filter(None, names):
        before = time.monotonic()
        try:
            content = (folder / name).read_bytes()
        except OSError:
            result["failed"] += 1
            continue
        result["slowest_seconds"] = max(result["slowest_seconds"], time.monotonic() - before)
        result["samples"] += 1
        result["bytes"] += len(content)
        result["wrong"] += hashlib.blake2b(content, digest_size=16).hexdigest() != digests[name]
    result["seconds"] = time.monotonic() - begun
    print(json.dumps(result))


if __name__ == "__main__":
    main()
