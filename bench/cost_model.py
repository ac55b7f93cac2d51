#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a sample costs in each stage of a mount, and what that says of larger machines.

    bench/cost_model.py             JSON lines: the stages, runs that were predicted, and larger machines
    bench/cost_model.py --quick     few files: only shows that it runs

Some runs tell what each stage costs: the processor time of its threads / what passed through it. A run of another mix
then has this rate, which is compared with what is measured:

    the least of   cores / the sum of all stages       processors
                   threads of a stage / its cost       a stage whose threads are all busy
                   1 / time under the plan's lock      planning, by whichever thread
                   bytes per second / bytes            the device or the network

The reader's open, fstat, read and close count too, but not what it makes of the bytes. Of the memory's own rate, and
of processors that wait for each other's caches, the model knows nothing: it is an upper bound for many cores. The data
set is larger than the RAM of each mount but the one that is filled. Needs root.
"""

import argparse
import contextlib
import json
import os
import shutil
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness import TICKS_PER_SECOND, Bench, Mount, process_tree, ram_for, stat_fields  # noqa: E402
from sources import CannotRun, Failed, end_on_sigterm, need_root  # noqa: E402

READERS = 2
LANES = (8, 16)                          # ranks of a node with eight GPUs, workers of each
BATCH = 8
NVME_BYTES, NETWORK_BYTES = 7e9, 12.5e9  # a second: one fast NVMe; 100 Gb/s
RAM_FOR_ALL = "4G"
EPOCHS = 3                               # of each mix that is measured; all of them count
RAM_LEAST, TIER_LEAST = 40 << 20, 64 << 20


@dataclass(frozen=True)
class Stage:
    """One step of a sample's way, and the threads that take it."""
    name: str
    thread: str   # as in /proc/PID/task/*/comm, without its number
    counted: str  # what passes through it
    threads: str
    locks: str


ONE, WRITERS, HALF, ALL = "one", "one per tier", "one for two processors, 2 to 8", "as many as there are processors"
READERS_OF_TIER = "one for four processors per tier, 1 to 4"


def thread_count(stage, cores, tiers):
    return {ONE: 1, WRITERS: tiers, HALF: min(max(cores // 2, 2), 8),  # HALF: fuse/mount.cpp
            READERS_OF_TIER: tiers * min(max(cores // 4, 1), 4),  # cache/disk/tier_threads.cpp
            ALL: cores}[stage.threads]


STAGES = (
    Stage("reader: open, fstat, read, close", "reader", "reads", ALL, "the kernel's, of the file"),
    Stage("push while filling", "hr-push", "filled", HALF, "plan 12, pusher 6, changed files 4, RAM shard 2"),
    Stage("push when one goes for each that comes", "hr-push", "replaced", HALF,
          "plan 14, pusher 6, changed files 4, RAM shard 2"),
    Stage("opens seen by inotify", "hr-follow", "reads", ONE, "the plan's queue, once for all of 2 ms"),
    Stage("opens told to the plan", "hr-plan", "reads", ONE, "plan, once for all of 2 ms"),
    Stage("source's ring", "hr-source", "from_source", ONE, "its queue, once for all that wait; a RAM shard 1"),
    Stage("tier: read with its hash", "hr-ssd", "from_tier", READERS_OF_TIER, "its queue, an index shard, a RAM shard"),
    Stage("tier: write with its hash", "hr-ssd", "to_tier", WRITERS, "its queue, the segments, an index shard"),
    Stage("READs of what is not there, timers, the rest", "rest", "reads", ALL, "inodes 1 per READ"),
)
THREADS = {stage.thread for stage in STAGES}
PLANNING = "planning, whichever thread holds the plan's lock"


def thread_seconds(pid):
    """Processor time of a mount's threads by stage; the kernel's own that work for one count as that."""
    names, seconds = {}, Counter()
    for task in sorted((task for member in process_tree(pid) for task in Path(f"/proc/{member}/task").iterdir()),
                       key=lambda task: int(task.name)):
        with contextlib.suppress(OSError):
            comm = (task / "comm").read_text().strip()
            if comm.startswith("iou-wrk-"):
                comm = names.get(comm.removeprefix("iou-wrk-"), comm)
            names[task.name] = comm
            name = comm.rstrip("0123456789").rstrip("-")
            ticks = stat_fields(f"{task.parent.parent.name}/task/{task.name}")[11:13]
            seconds[name if name in THREADS else "rest"] += sum(map(int, ticks)) / TICKS_PER_SECOND
    return seconds


class Passed:
    """What passed through each stage of a mount since the last look, what its threads took, and how long it was."""

    def __init__(self, mount):
        self.mount, self.before = mount, Counter()

    def look(self):
        stat = self.mount.stat()
        now = Counter({f"cpu {name}": seconds for name, seconds in thread_seconds(self.mount.pid).items()})
        now["replaced"] = stat["mount"]["evicted_samples"]
        now["filled"] = stat["mount"]["pushed_samples"] - now["replaced"]
        tiers = {tier["kind"]: tier for tier in stat["store"]["tiers"]}
        now["from_source"] = tiers["source"]["hits"]
        if "ssd" in tiers:
            now["from_tier"], now["to_tier"] = tiers["ssd"]["hits"], tiers["ssd"]["writes"]
        since = {key: value - self.before[key] for key, value in now.items()}
        self.before = now
        return Counter(since)


class Experiment:
    def __init__(self, bench):
        need_root("drop the page cache")
        self.bench = bench
        self.folder = bench.data_set(bench.count(12_000, 800))
        sizes = [file.stat().st_size for file in self.folder.rglob("*.jpg")]
        self.samples, self.bytes = len(sizes), sum(sizes)
        ranks, workers = bench.count(LANES, (2, 2))
        self.order = f"torch-distributed:seed=0,replicas={ranks},workers={workers},batch={BATCH}"
        self.lanes = (ranks, workers)

    @contextlib.contextmanager
    def mounted(self, ram_share, tier_share):
        """`ram_share`, `tier_share`: of the data set; a mount needs some, however few files there are."""
        tier = self.bench.work / "cost-model-tier"
        shutil.rmtree(tier, ignore_errors=True)
        ram = max(ram_for(int(self.bytes * ram_share)), RAM_LEAST)
        # An eighth of a tier is for cleaning, and a record fills whole blocks.
        tier_bytes = max(int(self.bytes * tier_share * 1.2), TIER_LEAST)
        self.bench.drop_caches()
        try:
            with Mount(self.bench, self.folder, "--ram", ram if ram_share < 1 else RAM_FOR_ALL, "--order", self.order,
                       *(["--ssd", f"{tier}:{tier_bytes}"] if tier_share else [])) as mount:
                yield mount
        finally:
            shutil.rmtree(tier, ignore_errors=True)

    def epoch(self, mount, passed, number):
        names = self.bench.work / "cost-model.list"
        command = [self.bench.program("headrace"), "order", self.folder, "--order", self.order, "--epoch", number]
        opened = in_lanes(self.bench.execute(command).splitlines(), *self.lanes)
        names.write_text("".join(line + "\n" for line in opened))
        self.bench.forget(self.folder)  # what the kernel has kept of the source is no part of this
        passed.look()
        figures = self.bench.measure([self.bench.program("read_files"), mount.path, names, "--processes", READERS])
        since = passed.look()
        since["reads"], since["cpu reader"], since["seconds"] = figures.samples, figures.cpu_seconds, figures.seconds
        return since

    def filling(self):
        """Everything goes into the page cache, and nobody reads."""
        with self.mounted(1, 0) as mount:
            mount.push_everything()
            return Passed(mount).look()

    def epochs(self, ram_share, tier_share):
        """The first epoch, in which a tier is filled, and some later ones together."""
        with self.mounted(ram_share, tier_share) as mount:
            passed = Passed(mount)
            first = self.epoch(mount, passed, 0)
            self.epoch(mount, passed, 1)  # in which the tier takes what it has not yet
            return first, sum((self.epoch(mount, passed, 2 + number) for number in range(EPOCHS)), Counter())

    def planning_seconds(self):
        command = [self.bench.program("read_ahead_bench"), "--benchmark_format=json",
                   f"--benchmark_filter=ranks:{LANES[0]}/lanes:{LANES[0] * LANES[1]}/"]
        return json.loads(self.bench.run_program(command)[0])["benchmarks"][0]["cpu_time"] * 1e-9

    def pages_seconds(self):
        """What a push cannot do without: the pages of one sample go, another is written into new ones."""
        size, files = self.bytes // self.samples, [os.memfd_create("pages") for _ in range(100)]
        content = memoryview(b"x" * (64 << 20))  # so much that no processor's cache holds it
        begin = time.process_time()
        for number in range(4000):
            os.ftruncate(files[number % len(files)], 0)
            os.pwrite(files[number % len(files)], content[(start := number % 500 * size):start + size], 0)
        return (time.process_time() - begin) / 4000

    def device_bytes(self):
        """A second, read at random by a program that does nothing else."""
        large, sizes = (self.bench.work / f"cost-model.{suffix}" for suffix in ("large", "sizes"))
        files = list(self.folder.rglob("*.jpg"))[:4000]
        with large.open("wb") as output:
            for file in files:
                content = file.read_bytes()
                output.write(content + bytes(-len(content) % 4096))
        sizes.write_text("".join(f"{file.stat().st_size}\n" for file in files))
        self.bench.drop_caches()
        figures = self.bench.measure([self.bench.program("device_limit"), large, sizes, "--depth", 64])
        large.unlink()
        return figures.bytes / figures.seconds


def in_lanes(names, ranks, workers):
    """As workers that are equally fast open them: the first sample of each worker's batch, then the second ones."""
    group = ranks * workers * BATCH
    for start in range(0, len(names), group):
        part = names[start:start + group]
        places = ((lane * BATCH + k) * ranks + rank for k in range(BATCH) for lane in range(workers)
                  for rank in range(ranks))
        yield from (part[place] for place in places if place < len(part))


def cost(stage, run):
    return run[f"cpu {stage.thread}"] / max(run[stage.counted], 1)


def costs_of(filling, first, later):
    """Seconds of a processor for each that passes. `first` fills a tier, `later` reads from it."""
    run_of = {"filled": filling, "from_source": first, "to_tier": first}
    return {stage: cost(stage, run_of.get(stage.counted, later)) for stage in STAGES}


def predict(costs, planning, mix, cores, tiers=1, device=None):
    """(samples a second, what bounds them, processors at that rate). `mix`: what passes each stage for a sample that
    is read; `device`: samples a second."""
    bounds = {stage.name: thread_count(stage, cores, tiers) / (cost * mix[stage.counted])
              for stage, cost in costs.items() if cost * mix[stage.counted] > 0}
    total = sum(cost * mix[stage.counted] for stage, cost in costs.items())
    bounds["processors"] = cores / max(total, 1e-9)  # the kernel counts in 10 ms, which few files may not take
    if mix["filled"] + mix["replaced"] > 0:
        bounds[PLANNING] = 1 / planning
    if device:
        bounds["device or network"] = device
    bound = min(bounds, key=bounds.get)
    return bounds[bound], bound, bounds[bound] * total


def checked(experiment, costs, planning, device_bytes, name, run):
    """A run that was measured beside what the model says of it."""
    mix = Counter({key: run[key] / run["reads"] for key in {stage.counted for stage in STAGES}})
    from_device = (mix["from_source"] + mix["from_tier"]) * experiment.bytes / experiment.samples
    rate, bound, _ = predict(costs, planning, mix, Bench.cores(), 1, from_device and device_bytes / from_device)
    measured = run["reads"] / run["seconds"]
    return {"table": "checks", "run": name, "read from the source": mix["from_source"], "from the tier":
            mix["from_tier"], "pushed": mix["filled"] + mix["replaced"], "predicted samples/s": rate, "bound": bound,
            "measured samples/s": measured, "off": rate / measured - 1}


def machines(costs, planning, mean_bytes):
    """All samples come from one place in each epoch."""
    steady = {"reads": 1, "replaced": 1}
    places = (("RAM", Counter(reads=1), 1, None),
              ("one NVMe, a tier", Counter(**steady, from_tier=1), 1, NVME_BYTES),
              ("eight NVMe, a tier each", Counter(**steady, from_tier=1), 8, 8 * NVME_BYTES),
              ("100 Gb/s network", Counter(**steady, from_source=1), 1, NETWORK_BYTES))
    for cores in (2, 16, 64, 128):
        for place, mix, tiers, device in places:
            rate, bound, busy = predict(costs, planning, mix, cores, tiers, device and device / mean_bytes)
            yield {"table": "machines", "cores": cores, "samples from": place, "samples/s": rate,
                   "GB/s": rate * mean_bytes / 1e9, "bound": bound, "processors busy": busy}


def model(bench):
    """Rows of three tables."""
    experiment = Experiment(bench)
    device_bytes, planning = experiment.device_bytes(), experiment.planning_seconds()
    filling = experiment.filling()
    first, later = experiment.epochs(ram_share=0.25, tier_share=1)
    costs = costs_of(filling, first, later)
    stages = [(stage.name, seconds, stage.threads, stage.locks) for stage, seconds in costs.items()]
    stages += [(PLANNING, planning, "one at a time", "within the push and what is told, not added to these"),
               ("to compare with: a file in memory is cut off and written anew", experiment.pages_seconds(), "", "")]
    for name, seconds, threads, locks in stages:
        yield {"table": "stages", "stage": name, "us per sample": seconds * 1e6, "threads": threads,
               "locks, times per sample": locks}
    yield from (checked(experiment, costs, planning, device_bytes, name, run) for name, run in (
        ("RAM a quarter, tier filled (told the costs)", first), ("RAM a quarter, tier all (told the costs)", later),
        ("RAM a quarter, no tier", experiment.epochs(0.25, 0)[1]), ("RAM half, no tier", experiment.epochs(0.5, 0)[1]),
        ("RAM a quarter, tier half", experiment.epochs(0.25, 0.5)[1])))
    yield from machines(costs, planning, experiment.bytes / experiment.samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", default="/var/tmp/headrace-bench", help="keeps the data for the next call")
    parser.add_argument("--build", help="a build folder to measure (default: builds the release preset)")
    parser.add_argument("--quick", action="store_true", help="few files: only shows that it runs")
    arguments = parser.parse_args()
    end_on_sigterm()
    try:
        for row in model(Bench(arguments.work, arguments.build, arguments.quick)):
            print(json.dumps(row), flush=True)
    except CannotRun as reason:
        print(json.dumps({"left_out": str(reason)}))
        return 2
    except Failed as failure:
        print(f"cost_model.py: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
