#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What it takes to learn the order of loaders that tell nothing: by replayed opens, and real loaders through a mount.

    bench/learning.py [--parts replay mount table] [--loaders PART...] [--all-seeds] [--build DIR] [--work DIR]
                      [--quick]

Prints a JSON object per loader: `how` (replay or mount), `loader`, `opens` of the epoch by which the order was found,
`cpu_s` of the search until then, `wall_s` from the first open until the order was known,
`epochs_predicted` of `epochs_later`, and `share_pushed`: of the opens from then on, how many found their sample there.
Through a mount the RAM budget is half of the data set, and times are to a tenth of a second.

The table has a row for each of the scripts that people have (learning_table.py): `source_opens` of all epochs,
`of_bare` (each read opens its file at the source) and `of_minimum` (what a cache of that size would fetch that knew
all reads before), `opens_by_epoch` of the source (the first epoch has what the mount read before it; a known order is
read ahead into the epoch after the last), `shares` of each epoch's reads that found their file in memory,
`false_locks`, the `opens` by which the order was found, and `wall_of_bare`: the time of all epochs over that of the
same script on the source. --loaders takes parts of their names.
"""

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import learning_table  # noqa: E402 (after the path is set)
from harness import PYTHON, REPOSITORY, Bench, Mount, need_torchvision, ram_for  # noqa: E402 (after the path is set)
from scale import nothing_known  # noqa: E402
from sources import CannotRun, Failed, end_on_sigterm  # noqa: E402

EPOCHS = 3
POLL_SECONDS = 0.1  # each look starts a process
PLAIN = ["bench/loader.py", "--workers", 2, "--shuffle", "plain"]
LOADERS = {
    "DistributedSampler, 2 workers": ["bench/loader.py", "--workers", 2],
    "DataLoader(shuffle=True), manual_seed(0), 2 workers": PLAIN,
    "DistributedDataParallel, 2 ranks, 1 worker each": ["bench/train.py", "--processes", 2, "--side", 32],
}
# All 2^32 seeds take a core one to two minutes: the epoch has to last so long, as it does in a training.
UNSEEDED = "DataLoader(shuffle=True), no seed, 2 workers, 1 s per step"
UNSEEDED_COMMAND = [*PLAIN, "--unseeded", "--step-seconds", 1]


def replay(bench, all_seeds=False):
    """Rows of loaders whose opens are replayed; `all_seeds`: also those whose seed is one of 2^32 (minutes each)."""
    command = [bench.program("lock_on"), "--json", "--samples", bench.count(50_000, 4000)]
    command += ["--epochs", bench.count(EPOCHS, 2)]
    command += ["--all-seeds"] if all_seeds else []
    return [{"how": "replay"} | json.loads(line) for line in bench.execute(command).splitlines()]


def mount(bench):
    """Rows of real loaders, each through a fresh mount with --order auto."""
    need_torchvision()
    loaders = list(LOADERS.items())[:bench.count(len(LOADERS), 1)]
    files = bench.count(2000, 1000)  # fewer fit beside the staging, and nothing is left to be learned
    for name, command in loaders:
        yield load_through_mount(bench, bench.data_set(files), name, command, bench.count(EPOCHS, 2))
    if not bench.quick:
        yield load_through_mount(bench, bench.data_set(), UNSEEDED, UNSEEDED_COMMAND, 1)


def load_through_mount(bench, folder, name, command, epochs):
    data_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    with nothing_known(), Mount(bench, folder, "--ram", ram_for(data_bytes // 2), "--order", "auto") as mounted:
        words = [PYTHON, REPOSITORY / command[0], mounted.path, "--epochs", epochs, *command[1:]]
        with ThreadPoolExecutor(max_workers=1) as pool:
            loading = pool.submit(bench.execute, words)
            known, seconds = wait_until_known(mounted, loading)
            loading.result()
        end = mounted.stat()["mount"]
    cpu = (known or end)["order_search_cpu_seconds"]
    row = {"how": "mount", "loader": name, "cpu_s": cpu, "epochs_predicted": 0, "epochs_later": epochs - 1,
           "found_by": "not found"}
    if not known:
        return row
    read_to_the_end = 1 if end["position"] == 0 else 0  # of the last epoch: the mount is at the next one
    return row | {"opens": known["order_opens"], "wall_s": round(seconds, 1),
                  "epochs_predicted": end["epoch"] - known["epoch"] - read_to_the_end,
                  "share_pushed": (end["hits"] - known["hits"]) / max(end["opens"] - known["opens"], 1),
                  "found_by": f"{end['order_found_by']}: {end['order']}"}


def wait_until_known(mounted, loading):
    """The mount's figures when its order was known, and the seconds since its first open; None: the loader ended."""
    first_open = None
    while not loading.done():
        figures = mounted.stat()["mount"]
        if figures["opens"] > 0:
            first_open = first_open or time.monotonic()
        if figures["order_found_by"]:
            return figures, time.monotonic() - (first_open or time.monotonic())
        time.sleep(POLL_SECONDS)
    return None, None


def table(bench, names):
    need_torchvision()
    return learning_table.rows(bench, names)


PARTS = ("replay", "mount", "table")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--loaders", nargs="+", default=(), help="rows of the table")
    parser.add_argument("--all-seeds", action="store_true", help="also loaders whose seed is one of 2^32: minutes each")
    parser.add_argument("--work", default="/var/tmp/headrace-bench", help="keeps the data for the next call")
    parser.add_argument("--build", help="a build folder to measure (default: builds the release preset)")
    parser.add_argument("--quick", action="store_true", help="few files and epochs: only shows that it runs")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    end_on_sigterm()
    bench = Bench(arguments.work, arguments.build, arguments.quick)
    measured = {"replay": lambda: replay(bench, arguments.all_seeds), "mount": lambda: mount(bench),
                "table": lambda: table(bench, arguments.loaders)}
    status = 0
    for part in arguments.parts:
        try:
            for row in measured[part]():
                print(json.dumps(row), flush=True)
        except (CannotRun, Failed) as reason:
            print(f"{part}: {reason}", file=sys.stderr)
            status = 2 if isinstance(reason, CannotRun) else 1
    return status


if __name__ == "__main__":
    sys.exit(main())
