#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A bucket read through a mount has the bytes that were put there, whatever the store does: reads_a_bucket.py BUILD

The store is tests/cache/object/object_server.py. It compares signatures, counts requests and misbehaves as it is told.
"""

import array
import contextlib
import errno
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

sys.dont_write_bytecode = True

from script_test import run  # noqa: E402, before the modules of bench, which it makes known
from harness import Bench, Failed, Mount  # noqa: E402
from sources import unmount  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from fault_store import ENVIRONMENT, SECRET, FaultStore  # noqa: E402

SMALL_OBJECTS = 150
ODD_NAMES = ["a b.jpg", "plus+percent%.jpg", "ümläut 日本.jpg", "~tilde=&?#.jpg", "deep/er/and/deeper/x"]


def fill(store):
    """The objects of a data set below train/."""
    for number in range(SMALL_OBJECTS):
        store.put(f"class{number % 3}/{number}.jpg", os.urandom(1000 + 997 * number))
    for name in ODD_NAMES:
        store.put("odd/" + name, name.encode() * 1000)
    store.put("odd/empty", b"")
    store.put("odd/large.tar", os.urandom(20 << 20))


def digest(data):
    return hashlib.md5(data).hexdigest()


def files_below(root):
    return {str(path.relative_to(root)): path for path in Path(root).rglob("*") if path.is_file()}


def opened_anew(path):
    """As a loader does that opens a file again: who has opened the version before gets ESTALE, never a mix. The kernel
    is told of the new version a moment after that. 30 s: no machine is so busy."""
    until = time.monotonic() + 30
    while True:
        file = path.open("rb", buffering=0)
        try:
            os.pread(file.fileno(), 1, 0)
            return file
        except OSError as error:
            file.close()
            if error.errno != errno.ESTALE or time.monotonic() > until:
                raise
        time.sleep(0.01)


def read_anew(path):
    """A version that is replaced while it is read is read again."""
    until = time.monotonic() + 30
    while True:
        try:
            with opened_anew(path) as file:
                return file.read()
        except OSError as error:
            if error.errno != errno.ESTALE or time.monotonic() > until:
                raise


def compare(store, mount):
    """Every name and every byte."""
    files = files_below(mount.path)
    assert files.keys() == store.objects.keys(), sorted(files.keys() ^ store.objects.keys())[:5]
    for name, path in files.items():
        assert digest(read_anew(path)) == digest(store.objects[name]), f"{name} differs"


def mounted(bench, store, *options, ram="128M"):
    return Mount(bench, "s3://bucket/train/", "--endpoint", store.url, "--ram", ram, *options)


def shows_what_was_put(bench, store):
    with mounted(bench, store) as mount:
        compare(store, mount)
        counts = store.counts()
        assert counts.get("HEAD", 0) == 0, f"{counts['HEAD']} requests for the head of an object"
        stat = mount.stat()
        assert stat["source"] == "s3://bucket/train", stat["source"]
        bucket = stat["store"]["bucket"]
        assert bucket["requests"] >= len(store.objects) and bucket["errors"] == 0, bucket
        assert bucket["credentials"] == "environment", bucket["credentials"]
        assert SECRET not in json.dumps(stat)
        headrace = bench.program("headrace")
        for target in ([mount.path], ["s3://bucket/train", "--endpoint", store.url]):
            found = bench.execute([headrace, "doctor", *target])
            assert "keys from: environment, region us-east-1" in found and SECRET not in found, found


def shows_what_is_put_meanwhile(bench, store):
    with mounted(bench, store, ram="0") as mount:  # nothing is read ahead
        other = bytes(len(store.objects["class1/1.jpg"]))  # of the same size
        store.put("class1/1.jpg", other)
        assert read_anew(mount.path / "class1/1.jpg") == other, "a replaced object"
    with mounted(bench, store) as mount:
        compare(store, mount)
        store.put("class2/2.jpg", b"it was read before, and is shorter now")
        store.put("odd/large.tar", bytes(9 << 20))
        bench.execute([bench.program("headrace"), "refresh", mount.path])
        compare(store, mount)
        store.put("class0/new.jpg", b"new")
        refreshed = bench.execute([bench.program("headrace"), "refresh", mount.path])
        assert "1 names are new" in refreshed, refreshed
        assert (mount.path / "class0/new.jpg").read_bytes() == b"new"
        compare(store, mount)
        assert mount.stat()["mount"]["renewals"] == 1
    with mounted(bench, store) as mount:
        compare(store, mount)


def never_mixes_versions(bench, store):
    """Also where an ETag is no MD5, so that a GET cannot ask for it."""
    store.put("odd/large.tar", os.urandom(20 << 20))
    with mounted(bench, store, ram="0") as mount:
        store.set(wrong_etag=True)  # answers are of another version, all zeros, whose ETag is 0123
        path = mount.path / "odd/large.tar"
        with contextlib.suppress(OSError):
            path.open("rb").read(1)  # finds out
        with opened_anew(path) as file:
            assert os.pread(file.fileno(), 4096, 0) == bytes(4096), "the version that the store says it is"
            store.set(wrong_etag=False)
            with contextlib.suppress(OSError):
                assert os.pread(file.fileno(), 4096, 16 << 20) == bytes(4096), "bytes of two versions"
        compare(store, mount)


def reads_huge_objects(bench, store):
    """Of more bytes than 32 bits count, and than one GET may bring."""
    size = (5 << 30) + 12_345
    store.put_huge("huge/5.bin", size)
    with Mount(bench, "s3://bucket/huge/", "--endpoint", store.url, "--ram", "64M") as mount:
        path = mount.path / "5.bin"
        assert path.stat().st_size == size, path.stat().st_size
        with path.open("rb", buffering=0) as file:
            for place in (0, 2 << 30, 4 << 30, (4 << 30) + (4 << 20), 5 << 30, size - 5000, size):
                first = max(0, place - 70_000)
                words = array.array("Q", range(first // 8, (first + 140_007) // 8 + 1)).tobytes()
                wanted = words[first % 8:][:min(140_000, size - first)]
                assert os.pread(file.fileno(), 140_000, first) == wanted, f"bytes at {first}"
            assert os.pread(file.fileno(), 10, size) == b"", "bytes behind the end"
        received = mount.stat()["store"]["bucket"]["bytes"]
        assert received < 1 << 30, f"{received} bytes came for parts of it"


def serves_on_after_a_crash(bench, store):
    with mounted(bench, store) as mount:
        os.kill(mount.stat()["pid"], signal.SIGKILL)
        compare(store, mount)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with contextlib.suppress(Failed):
                if mount.stat()["mount"]["takeovers"] >= 1:
                    return
            time.sleep(0.05)
        raise AssertionError("nobody took over")


def once_quiet(mount):
    """The figures of its bucket while no request is under way: they are not read all at once."""
    until = time.monotonic() + 30
    while True:
        bucket = mount.stat()["store"]["bucket"]
        if bucket["in_flight"] == 0:
            return bucket
        assert time.monotonic() < until, bucket
        time.sleep(0.05)


def says_what_it_does(bench, store):
    """Requests by outcome, their latency and price; a mount knows how its bucket is reached."""
    headrace, port = bench.program("headrace"), free_port()
    with mounted(bench, store, "--metrics", port) as mount:
        compare(store, mount)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            page = answer.read().decode()
        figures = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in page.splitlines()
                   if line.startswith("headrace_bucket_")}
        label = f'{{mount="{mount.path}"'
        assert figures[f'headrace_bucket_requests_total{label},outcome="good"}}'] >= len(store.objects), page
        assert figures[f"headrace_bucket_read_seconds_count{label}}}"] >= len(store.objects), page
        assert figures[f"headrace_bucket_bytes_total{label}}}"] >= sum(map(len, store.objects.values())), page
        assert 0 < figures[f"headrace_bucket_dollars_total{label}}}"] < 1, page
        bucket = once_quiet(mount)
        outcomes = sum(bucket[name] for name in ("good", "refused", "throttles", "broken"))
        assert outcomes <= bucket["requests"] <= outcomes + bucket["hedges"], bucket
        told = bench.execute([headrace, "stat", mount.path])
        samples = mount.stat()["data_set"]["samples"]
        assert "an estimate" in told and f"takes {samples} requests" in told, told
        found = bench.execute_json([headrace, "diagnose", mount.path, "--seconds", 1, "--json"])
        assert found["requests_per_epoch"] == samples, found


def survives_a_bad_store(bench, store):
    store.set(busy=0.05, reset=0.03, short=0.03)
    with mounted(bench, store) as mount:
        compare(store, mount)
        assert mount.stat()["store"]["bucket"]["retries"] > 0
    store.set(busy=0.0, reset=0.0, short=0.0, all_busy=4)  # a store that is out of order for a moment
    with mounted(bench, store) as mount:
        compare(store, mount)
    store.set(all_busy=0)


def finds_its_way(bench, store):
    """A bucket of another region, a store whose clock is another, a place that sends elsewhere."""
    store.set(region="eu-central-1", clock=7200)
    with mounted(bench, store, ram="0") as mount:
        store.set(redirect=store.url, redirects=1)
        compare(store, mount)
        bucket = mount.stat()["store"]["bucket"]
        assert bucket["region"] == "eu-central-1" and bucket["errors"] == 0, bucket
    doctor = subprocess.run([str(bench.program("headrace")), "doctor", "s3://bucket/train", "--endpoint", store.url],
                            stdout=subprocess.PIPE, text=True, check=False)
    assert "clock" in doctor.stdout and "behind" in doctor.stdout, doctor.stdout
    store.set(region="us-east-1", clock=0)


def waits_for_a_store(bench, store):
    """One that answers 503 for half a minute: whoever reads waits, and no read fails."""
    with mounted(bench, store, ram="0") as mount:
        store.set(all_busy=1_000_000_000)
        path = mount.path / "class1/1.jpg"
        with subprocess.Popen(["md5sum", "--binary", path], stdout=subprocess.PIPE, text=True) as reader:
            try:
                time.sleep(30)
                assert reader.poll() is None, f"the read ended with {reader.poll()} while nobody served it"
            finally:
                store.set(all_busy=0)
            found = reader.communicate()[0].split()[0]
        assert reader.returncode == 0 and found == digest(store.objects["class1/1.jpg"]), (reader.returncode, found)
        assert mount.stat()["store"]["bucket"]["errors"] == 0, mount.stat()["store"]["bucket"]
        compare(store, mount)


def says_who_may_not_read(bench, store):
    """A right that is taken away under a mount is an error of the read, and no more once it is given back."""
    with mounted(bench, store, ram="0") as mount:
        path = mount.path / "class1/4.jpg"
        store.set(deny=True)
        try:
            path.read_bytes()
            raise AssertionError("a read that the store refused succeeded")
        except OSError as error:
            assert error.errno in (errno.EACCES, errno.EPERM), error
        doctor = subprocess.run([str(bench.program("headrace")), "doctor", str(mount.path)], stdout=subprocess.PIPE,
                                text=True, check=False)
        assert doctor.returncode == 1 and "missing source s3://bucket/train" in doctor.stdout, doctor.stdout
        log = bench.work / "mount.log"
        assert "AccessDenied" in log.read_text(errors="replace"), log.read_text(errors="replace")[-2000:]
        store.set(deny=False)
        assert path.read_bytes() == store.objects["class1/4.jpg"]


def fills_tiers(bench, store):
    headrace = bench.program("headrace")
    source = ["s3://bucket/train", "--endpoint", store.url, "--listing", "sorted"]
    tier = f"{bench.work / 'tier'}:1G"
    bench.execute([headrace, "warm", *source, "--ssd", tier])
    bench.execute([headrace, "warm", *source, "--ssd", tier, "--check"])
    before = store.counts()
    with mounted(bench, store, "--ssd", tier, "--listing", "sorted") as mount:
        compare(store, mount)
    after = store.counts()
    fetched = sum(after[name] - before.get(name, 0) for name in after if name.startswith("key "))
    assert fetched == 0, f"{fetched} objects were fetched that a tier holds"
    folder = bench.work / "folder"
    for name, data in store.objects.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    of_both = [bench.execute_json([headrace, "read", *where, "--checksum", "--json", "--ram", "128M"])
               for where in (source, [folder, "--listing", "sorted"])]
    assert of_both[0]["epochs"][0]["xxh3"] == of_both[1]["epochs"][0]["xxh3"], "the reader's bytes differ"


def says_how_far_its_listing_is(bench, store):
    """On a terminal, which it leaves clean."""
    mount_point = bench.work / "listed"
    mount_point.mkdir()
    ours, theirs = os.openpty()
    store.set(page=10, list_delay=0.1)
    mount = [bench.program("headrace"), "mount", "s3://bucket/train", mount_point, "--endpoint", store.url]
    try:
        process = subprocess.Popen([str(word) for word in mount], stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # EIO: nobody has the other end any more
            while chunk := os.read(ours, 4096):
                shown += chunk
        assert process.wait() == 0, shown
        bench.execute([bench.program("headrace"), "unmount", mount_point])
    finally:
        unmount(mount_point)
        os.close(ours)
        store.set(page=1000, list_delay=0.0)
    assert b"\rlisting s3://bucket/train: " in shown and b" objects" in shown, shown
    assert shown.endswith(b"\r\x1b[K"), shown


def says_what_it_leaves_out(bench, store):
    mount_point = bench.work / "left"
    mount_point.mkdir()
    store.fill(["left/a.jpg", "left/..", "left/b//c.jpg"])
    try:
        done = subprocess.run([bench.program("headrace"), "mount", "s3://bucket/left", mount_point, "--endpoint",
                               store.url, "--ram", "32M"], stderr=subprocess.PIPE, text=True, check=True)
        assert files_below(mount_point).keys() == {"a.jpg"}, files_below(mount_point)
        bench.execute([bench.program("headrace"), "unmount", mount_point])
    finally:
        unmount(mount_point)
    assert "2 objects are left out, because no file system can show their names" in done.stderr, done.stderr


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def refusal(bench, *words, **environment):
    """The line that a command ends with."""
    process = subprocess.run([str(word) for word in (bench.program("headrace"), *words)], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, check=False, env={**os.environ, **environment})
    assert process.returncode != 0, f"{words} succeeded: {process.stdout}"
    assert SECRET not in process.stdout
    lines = [line for line in process.stdout.splitlines() if line.startswith("headrace: ")]
    assert len(lines) == 1, process.stdout
    print(f"  {lines[0]}")
    return lines[0]


def says_what_is_wrong(bench, store):
    mount_point = bench.work / "refused"
    mount_point.mkdir()
    endpoint = ["--endpoint", store.url]
    good = ["mount", "s3://bucket/train", mount_point, *endpoint]
    assert "key" in refusal(bench, *good, AWS_ACCESS_KEY_ID="AKIDWRONG").lower()
    assert "secret" in refusal(bench, *good, AWS_SECRET_ACCESS_KEY="wrong").lower()
    assert "nosuch" in refusal(bench, "mount", "s3://nosuch/train", mount_point, *endpoint)
    assert "no objects" in refusal(bench, "mount", "s3://bucket/tra", mount_point, *endpoint)
    assert "s3://" in refusal(bench, "mount", "s3://", mount_point, *endpoint)
    assert "bucket" in refusal(bench, "mount", bench.work, mount_point, *endpoint)
    store.set(expired=["AKIDEXAMPLE"])
    assert "has expired" in refusal(bench, *good)
    store.set(expired=[], deny_list=True)
    assert "ListBucket" in refusal(bench, *good)
    store.set(deny_list=False)
    found = subprocess.run([str(bench.program("headrace")), "doctor", "s3://nosuch", *endpoint], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True, check=False)
    assert found.returncode == 1 and "missing source s3://nosuch" in found.stdout, found
    assert "ftp://" in refusal(bench, "read", "s3://bucket/train", "--endpoint", "ftp://127.0.0.1")


def check(build, work):
    bench = Bench(work, build)
    os.environ.update(ENVIRONMENT)
    with FaultStore() as store:
        fill(store)
        started = time.monotonic()
        for each in (shows_what_was_put, shows_what_is_put_meanwhile, never_mixes_versions, reads_huge_objects,
                     serves_on_after_a_crash, says_what_it_does, survives_a_bad_store, finds_its_way,
                     waits_for_a_store, says_who_may_not_read, fills_tiers, says_how_far_its_listing_is,
                     says_what_it_leaves_out, says_what_is_wrong):
            print(f"{time.monotonic() - started:5.1f} s: {each.__name__.replace('_', ' ')}", flush=True)
            try:
                each(bench, store)
            except Exception:
                with contextlib.suppress(OSError):
                    print((bench.work / "mount.log").read_text(errors="replace")[-2000:])
                raise


if __name__ == "__main__":
    sys.exit(run(check))
