#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A bucket of a store that others wrote has the bytes that were put there: reads_real_stores.py BUILD STORE [KEYS]

STORE is one of tests/support/real_stores.py. KEYS random keys are put beside the data set, of all that a name may hold.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True

from script_test import run  # noqa: E402, before the modules of bench, which it makes known
from harness import Bench  # noqa: E402
from reads_a_bucket import compare, fill, mounted, read_anew, refusal  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from real_stores import STORES  # noqa: E402

KEYS = 200
SEED = 22
# Of each kind that is encoded in a way of its own: in a path, in a query, in XML.
LETTERS = "abcXYZ019-_.~ !*'();:@&=+$,?%#[]<>\"{}|\\^`äß日本🜁"


def random_names(count):
    """No name is '.', '..' or empty, which no file system can show, and none is a folder of another."""
    rng = random.Random(SEED)
    for number in range(count):
        name = "".join(rng.choice(LETTERS) for _ in range(rng.randrange(1, 24)))
        yield f"keys/{number % 7}/{name}{number}"


def shows_what_was_put(bench, store):
    with mounted(bench, store) as mount:
        compare(store, mount)
        bucket = mount.stat()["store"]["bucket"]
        assert bucket["errors"] == 0 and bucket["refused"] == 0, bucket
        print(f"  {bucket['requests']} requests, {bucket['lists']} of them listings, {bucket['retries']} again")


def shows_what_is_put_meanwhile(bench, store):
    with mounted(bench, store, ram="0") as mount:
        other = bytes(len(store.objects["class1/1.jpg"]))  # of the same size
        store.put("class1/1.jpg", other)
        assert read_anew(mount.path / "class1/1.jpg") == other, "a replaced object"
        store.put("odd/large.tar", os.urandom(9 << 20))
        bench.execute([bench.program("headrace"), "refresh", mount.path])
        compare(store, mount)
    store.delete("class2/2.jpg")
    with mounted(bench, store) as mount:
        compare(store, mount)


def reads_in_ranges(bench, store):
    data = store.objects["odd/large.tar"]
    with mounted(bench, store, ram="0") as mount, open(mount.path / "odd/large.tar", "rb", buffering=0) as file:
        for offset in (0, 1, 4095, 4 << 20, len(data) - 5000, len(data) - 1):
            assert os.pread(file.fileno(), 5000, offset) == data[offset:offset + 5000], f"at {offset}"


def says_what_is_wrong(bench, store):
    endpoint = ["--endpoint", store.url]
    assert "nosuch" in refusal(bench, "read", "s3://nosuch-bucket/train", *endpoint)
    if not store.is_complete:
        return
    refusal(bench, "read", "s3://bucket/train", *endpoint, AWS_SECRET_ACCESS_KEY="wrong")
    found = subprocess.run([str(bench.program("headrace")), "doctor", "s3://bucket/train", *endpoint],
                           stdout=subprocess.PIPE, text=True, check=False)
    assert "reached, keys from: environment" in found.stdout, found.stdout


def check(build, work):
    os.environ.update(AWS_SHARED_CREDENTIALS_FILE="/nonexistent", AWS_CONFIG_FILE="/nonexistent",
                      AWS_EC2_METADATA_DISABLED="true")
    with STORES[sys.argv[2]](work) as store:
        os.environ.update(store.environment())
        bench = Bench(work, build)
        fill(store)
        for name in random_names(int(sys.argv[3]) if len(sys.argv) > 3 else KEYS):
            store.put(name, name.encode())
        for each in (shows_what_was_put, shows_what_is_put_meanwhile, reads_in_ranges, says_what_is_wrong):
            print(each.__name__.replace("_", " "), flush=True)
            each(bench, store)


if __name__ == "__main__":
    sys.exit(run(check))
