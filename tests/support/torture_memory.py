# SPDX-License-Identifier: Apache-2.0
"""tests/torture --kind memory: many readers of small and large files with next to no memory.

No read may wait for longer than the source makes it, and none may end with EBUSY. A budget that headrace refuses must
be refused with the least that works.
"""

import contextlib
import errno
import multiprocessing
import os
import random
import re
import time

from sources import Failed, SlowFs, is_mounted, unmount
from sweeper import holding
from torture_versions import History, content, read_whole

READERS = 24
READ_SECONDS_MAX = 5
MIB = 1 << 20
BUDGETS = (0, 1, MIB, 8 * MIB, 20 * MIB, 26 * MIB, 42 * MIB, 64 * MIB, 200 * MIB)
LATENCY_MS = 20  # of each open and read of the source, in every other round
# Most are of the sizes at which chunks begin to count: 8 MiB are whole, 12 and 20 MiB are three and five chunks.
SIZES = [0, 1, 4096, *[100_000] * 20, *[MIB] * 8, 8 * MIB, 8 * MIB + 1, *[12 * MIB] * 4, *[20 * MIB] * 4, 64 * MIB]
ROUND_SECONDS = 8
COLUMNS = ("rounds", "good", "refused", "busy", "wrong", "late", "not mounted")


def path_of(file):
    return f"class{file % 3}/{file:03}.jpg"


def read_for(root, seconds, seed, results):
    rng = random.Random(seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        file = rng.randrange(len(SIZES))
        results.put(read_whole(root, path_of(file), file, "root", rng, 0))


def run_readers(root, count, seconds, seed):
    """What `count` processes see in so many seconds. A reader that does not come back fails the round."""
    results = multiprocessing.Queue()
    processes = [multiprocessing.Process(target=read_for, args=(root, seconds, seed + number, results), daemon=True)
                 for number in range(count)]
    seen = []
    with contextlib.ExitStack() as stack:
        for process in processes:
            process.start()
            stack.callback(process.kill)
        deadline = time.monotonic() + seconds + 90
        while any(process.is_alive() for process in processes) or not results.empty():
            if time.monotonic() > deadline:
                raise Failed("a reader did not come back for 90 s")
            with contextlib.suppress(Exception):
                seen.append(results.get(timeout=0.1))
    return seen


def history_of_files(folder):
    history = History()
    for file, length in enumerate(SIZES):
        path = folder / path_of(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content(file, 1, length)
        history.change(file, 1, length, 0, lambda path=path, data=data: path.write_bytes(data))
    return history


def figures_of(history, seen, slow_source):
    row = dict.fromkeys(COLUMNS, 0) | {"rounds": 1, "longest": max((it.longest_call for it in seen), default=0)}
    for it in seen:
        verdict = history.judge(it)
        row["wrong" if verdict else "busy" if it.error == errno.EBUSY else "refused" if it.error else "good"] += 1
        row["late"] += it.longest_call > READ_SECONDS_MAX + slow_source
        if verdict:
            print(f"{verdict[0].upper()}: {verdict[1]}", flush=True)
        elif it.error:
            print(f"{errno.errorcode[it.error]} after {it.ended - it.opened:.1f} s: file of {SIZES[it.file]} bytes",
                  flush=True)
    return row


@contextlib.contextmanager
def source_of(bench, folder, slow):
    if slow:
        with SlowFs(bench.program("slow_fs"), folder, bench.work / "slow", LATENCY_MS, LATENCY_MS) as source:
            yield source
    else:
        yield folder


def one_round(bench, folder, history, budget, options, seed):
    mountpoint = bench.work / "mount"
    mountpoint.mkdir(exist_ok=True)
    headrace = bench.program("headrace")
    # What a busy machine takes anyway.
    slow_source = max(it.longest_call for it in run_readers(folder, READERS, 1, seed))
    try:
        bench.execute([headrace, "mount", folder, mountpoint, "--ram", budget, *options])
    except Failed as reason:
        told = re.search(r"\d", str(reason)) is not None
        print(f"--ram {budget}: {reason}", flush=True)
        return dict.fromkeys(COLUMNS, 0) | {"rounds": 1, "not mounted": 0 if told else 1, "longest": 0}
    with holding("mount", mountpoint):
        try:
            seen = run_readers(mountpoint, READERS, bench.count(ROUND_SECONDS, 3), seed)
        finally:
            with contextlib.suppress(Failed):
                bench.execute([headrace, "unmount", "--force", mountpoint])
            if is_mounted(mountpoint):
                unmount(mountpoint)
    return figures_of(history, seen, slow_source)


def of_both(first, again):
    """Of a round that was run twice. A busy machine is late once; a mount that lets readers wait is late again."""
    return {column: first[column] + again[column] for column in COLUMNS} | {
        "late": min(first["late"], again["late"]), "longest": max(first["longest"], again["longest"])}


def torture_memory(bench, arguments):
    """Figures by budget and tier, each with COLUMNS and the longest read."""
    rng, rows = random.Random(arguments.seed), {}
    folder = bench.work / "source"
    history = history_of_files(folder)
    deadline = time.monotonic() + 60 * arguments.minutes
    number = 0
    while number < 2 * len(BUDGETS) or time.monotonic() < deadline:
        budget = BUDGETS[number // 2] if number < 2 * len(BUDGETS) else rng.randrange(64 * MIB)
        with_tier, slow = rng.random() < 0.5, number % 2 == 1
        options = ["--ssd", f"{bench.work / 'tier'}:64M"] if with_tier else []
        options += rng.choice(([], ["--order", "torch-distributed:seed=0"]))
        with source_of(bench, folder, slow) as source:
            figures = one_round(bench, source, history, budget, options, arguments.seed + number)
            if figures["late"]:
                print("a read was late; the same round once more", flush=True)
                again = one_round(bench, source, history, budget, options, arguments.seed + number)
                figures = of_both(figures, again)
        name = f"{budget / MIB:.1f} MiB{', slow source' if slow else ''}{', a tier' if with_tier else ''}"
        row = rows.setdefault(name, dict.fromkeys(COLUMNS, 0) | {"longest": 0})
        for column in COLUMNS:
            row[column] += figures[column]
        row["longest"] = max(row["longest"], figures["longest"])
        print(f"{name:32} {figures['good']} reads good, longest {figures['longest']:.1f} s", flush=True)
        number += 1
    return rows


def print_memory(rows):
    print(f"\n{'RAM':32}" + "".join(f"{column:>12}" for column in (*COLUMNS, "longest")))
    for name, row in rows.items():
        print(f"{name:32}" + "".join(f"{row[column]:>12}" for column in COLUMNS) + f"{row['longest']:>10.1f} s")


def memory_good(rows):
    return not any(row[kind] for row in rows.values() for kind in ("refused", "busy", "wrong", "late", "not mounted"))
