# SPDX-License-Identifier: Apache-2.0
"""The part of bench/demo that runs once everything is built."""

import argparse
import os
import sys

sys.dont_write_bytecode = True

from harness import PYTHON, REPOSITORY, Bench, Mount  # noqa: E402 (bytecode is turned off first)
from sources import CannotRun, SlowFs, end_on_sigterm  # noqa: E402
from sweeper import temporary_folder  # noqa: E402

sys.path.append(str(REPOSITORY / "tests/support"))

from fault_store import ENVIRONMENT, FaultStore  # noqa: E402

ORDER = "torch-distributed:seed=0"  # what DistributedSampler(seed=0) draws
EPOCHS = 2
BUILD = REPOSITORY / "build/release"
LATENCY_MS = 20
WORKERS = 2  # of the loader


def say(text=""):
    print(text, flush=True)


def describe_set(folder):
    sizes = [file.stat().st_size for file in folder.rglob("*.jpg")]
    return f"{len(sizes)} JPEG photographs, {sum(sizes) / 1e6:.0f} MB, in {len(list(folder.iterdir()))} class folders"


def load(bench, folder):
    return bench.measure([PYTHON, REPOSITORY / "bench/loader.py", folder, "--epochs", EPOCHS])


def print_side_by_side(source, mounted):
    say(f"{'':28}{'source directly':>18}{'through headrace':>18}{'faster':>10}")

    def line(name, ours, theirs, samples=None):
        def text(seconds):
            return f"{seconds:.2f} s" + (f" ({samples / seconds:.0f}/s)" if samples else "")

        say(f"  {name:26}{text(theirs):>18}{text(ours):>18}{theirs / ours:9.1f}x")

    samples = source.samples // EPOCHS
    line("first batch of 32", mounted.extra["first_batch_seconds"][0], source.extra["first_batch_seconds"][0])
    for epoch in range(EPOCHS):
        line(f"epoch {epoch + 1}", mounted.extra["epoch_seconds"][epoch], source.extra["epoch_seconds"][epoch], samples)
    say(f"  {'CPU seconds per 1000':26}{source.cpu_per_1000:>18.2f}{mounted.cpu_per_1000:>18.2f}")


def print_cache(stat, samples):
    mount = stat["mount"]
    tiers = {tier["kind"]: tier for tier in stat["store"]["tiers"]}
    say("What the cache did (headrace stat MOUNTPOINT --json):")
    say(f"  pushed ahead of the loader    {mount['pushed_samples']} samples, {mount['pushed_bytes'] / 1e6:.0f} MB")
    say(f"  opens by the loader           {mount['opens']}, of them in memory already: {mount['hits']}, "
        f"on their way: {mount['late']}")
    say(f"  reads the kernel asked for    {mount['requests'].get('READ', 0)} (a pushed file needs none)")
    say(f"  read from the source          {tiers['source']['hits']} times for {EPOCHS * samples} samples used")
    engine = stat["store"]["engine"]
    say(f"  I/O engine                    {engine['name']} {engine['fallback_reason']}")
    for fallback in mount["fallbacks"]:
        say(f"  could not be had              {fallback}")


def demo_mount(bench, folder, samples):
    mountpoint = bench.work / "source"
    with SlowFs(bench.program("slow_fs"), folder, mountpoint, LATENCY_MS, LATENCY_MS) as source:
        say(f"source     a file system that answers each open and read {LATENCY_MS} ms late, as a network share does")
        say("loader     torchvision ImageFolder + DataLoader (2 workers, DistributedSampler), unmodified")
        say(f"command    headrace mount SOURCE MOUNTPOINT --ram 1G --order {ORDER}")
        say()
        say("loading from the source ...")
        direct = load(bench, source)
        say("loading through headrace ...")
        with Mount(bench, source, "--ram", "1G", "--order", ORDER) as mount:
            mounted = load(bench, mount.path)
            stat = mount.stat()
            equal = bench.sum_of(mount.path, samples) == bench.sum_of(folder, samples)
    say()
    print_side_by_side(direct, mounted)
    say()
    print_cache(stat, direct.samples // EPOCHS)
    say(f"  bytes seen through the mount  {'equal to the source' if equal else 'DIFFER from the source'} "
        "(XXH3 of every file)")
    return 0 if equal else 1


def demo_bucket(bench, folder, samples):
    os.environ.update(ENVIRONMENT)
    headrace = bench.program("headrace")
    with FaultStore() as store:
        for file in folder.rglob("*.jpg"):
            store.put(str(file.relative_to(folder)), file.read_bytes())
        store.set(delay=LATENCY_MS / 1000)
        source = ["s3://bucket/train", "--endpoint", store.url]
        say(f"source     a bucket; its store, on this machine, answers each request {LATENCY_MS} ms late")
        say(f"readers    {WORKERS} processes, as the workers of a loader; nothing is decoded")
        say("command    headrace mount s3://bucket/train MOUNTPOINT --endpoint URL --ram 1G --order sequential")
        say()
        say("reading from the bucket, one object after the other ...")
        found = bench.execute_json([headrace, "diagnose", *source, "--workers", WORKERS, "--seconds", 6, "--json"])
        say("reading through headrace ...")
        with Mount(bench, *source, "--ram", "1G", "--order", "sequential") as mount:
            command = [bench.program("read_files"), mount.path, samples, "--processes", WORKERS]
            epochs = [bench.measure(command) for _ in range(EPOCHS)]
            stat = mount.stat()
            equal = bench.sum_of(mount.path, samples) == bench.sum_of(folder, samples)
    count = epochs[0].samples
    direct = found["direct_samples_per_second"]
    say()
    say(f"{'':28}{'bucket directly':>18}{'through headrace':>18}{'faster':>10}")
    for number, epoch in enumerate(epochs, 1):
        say(f"  {f'epoch {number}':26}{direct:>16.0f}/s{epoch.rate:>16.0f}/s{epoch.rate / direct:9.1f}x")
    bucket = stat["store"]["bucket"]
    say()
    say(f"  requests to the store         {bucket['requests']} for {EPOCHS * count} samples used, {bucket['lists']} of "
        "them listings")
    say(f"  bytes seen through the mount  {'equal to the objects' if equal else 'DIFFER from the objects'} "
        "(XXH3 of every file)")
    return 0 if equal else 1


def demo_reader(bench, folder, reason):
    say(f"left out   the mount and the Python loader: {reason}")
    say("instead    the C++ reader on the same data set, two epochs: headrace read --decode")
    say()
    options = ["--ram", "1G", "--order", ORDER, "--epochs", EPOCHS, "--decode"]
    say(bench.execute([bench.program("headrace"), "read", folder, *options]))
    return 0


DEMOS = {"folder": demo_mount, "s3": demo_bucket}


def main():
    parser = argparse.ArgumentParser(description="bench/demo: the main job, side by side with plain loading.")
    parser.add_argument("--files", type=int, default=600)
    parser.add_argument("--source", choices=list(DEMOS), default="folder", help="s3: the data set lies in a bucket")
    arguments = parser.parse_args()
    end_on_sigterm()
    with temporary_folder("headrace-demo-") as work:
        bench = Bench(work, BUILD)
        folder = bench.data_set(arguments.files)
        samples = bench.file_list(folder)
        say()
        say("headrace: an unmodified training loader, without and with it")
        say()
        say(f"data set   {describe_set(folder)}")
        try:
            return DEMOS[arguments.source](bench, folder, samples)
        except CannotRun as reason:
            return demo_reader(bench, folder, reason)


if __name__ == "__main__":
    sys.exit(main())
