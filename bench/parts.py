# SPDX-License-Identifier: Apache-2.0
"""What bench/report measures: each part is a list of items, and each item a function that returns its figures.

Items stand alone: one that cannot run or takes too long says so in its place, the others are measured all the same.
"""

import json
import subprocess

import harness
import learning_table
import peers
import scale
import series
import trainings
import ways
from rows import ROWS
from sources import Failed


def rows(bench, arguments):
    return [(name, lambda name=name: measure_row(bench, name, arguments.rounds)) for name in arguments.rows]


def measure_row(bench, name, rounds):
    row = ROWS[name](bench)
    try:
        row.prepare()
        result = harness.compare(row, rounds or (1 if bench.quick else row.rounds), lambda line: None)
    finally:
        row.close()
    figures = result.to_json()
    for variant in figures["variants"]:
        for run in (run for runs in variant["runs"].values() for run in runs):
            del run["extra"]  # the daemon's whole account: more than a page of figures needs
    return figures | {"headrace_side": row.headrace_side, "other_side": row.other_side, "bound": row.other_is_bound}


def curves(bench, _arguments):
    return [(curve.__name__, lambda curve=curve: curve(bench)) for curve in series.CURVES]


def epoch(bench, _arguments):
    return [("epoch", lambda: series.epoch(bench))]


def latency(bench, _arguments):
    return [("one sample", lambda: series.latency(bench)), ("first batch", lambda: series.first_batch(bench))]


def scale_items(bench, arguments):
    return scale.items(bench, arguments.scale_files)


def faults(bench, arguments):
    return [("torture", lambda: measure_faults(bench, arguments.fault_minutes))]


def measure_faults(bench, minutes):
    kept = bench.work / "faults.json"
    for program in ("headrace", "slow_fs", "jumping_clock"):
        bench.program(program)  # builds it where need be
    kept.unlink(missing_ok=True)
    try:
        bench.execute([harness.REPOSITORY / "tests/torture", "--minutes", bench.count(minutes, 0.1),
                       "--build", bench.build, "--json", kept])
    except Failed:
        if not kept.exists():  # what went wrong under a fault is on the page
            raise
    return json.loads(kept.read_text())


def cluster(bench, _arguments):
    return [(name, lambda name=name: measure_cluster(bench, name))
            for name in ("once", "part", "in-step", "join", "link", "cpu", "gluster", "redis", "faults")]


def measure_cluster(bench, name):
    kept = bench.work / "cluster.json"
    for program in ("headrace", "slow_fs"):
        bench.program(program)  # builds it where need be
    kept.unlink(missing_ok=True)
    try:
        bench.execute([harness.REPOSITORY / "bench/cluster", name, "--build", bench.build, "--json", kept,
                       *(["--quick"] if bench.quick else [])])
    except Failed:
        if not kept.exists():  # what is short of its bar is on the page
            raise
    return {"figures": json.loads(kept.read_text())}


def plan_wait(bench, _arguments):
    return [("rows", lambda: measure_plan_wait(bench))]


def measure_plan_wait(bench):
    printed = bench.execute([bench.program("plan_wait"), "--samples", bench.count(10_000_000, 100_000), "--lanes", 128])
    return {"rows": [json.loads(line) for line in printed.splitlines()]}


def script(name, *words):
    """A part that is a program of its own: bench/NAME.py prints one JSON object per line."""
    def items(bench, _arguments):
        return [("rows", lambda: run_script(bench, name, words))]
    return items


def run_script(bench, name, words=()):
    program = harness.REPOSITORY / "bench" / f"{name}.py"
    options = [*words, "--work", bench.work, *([] if bench.build_here else ["--build", bench.build])]
    options += ["--quick"] if bench.quick else []
    process = subprocess.run([str(word) for word in (harness.PYTHON, program, *options)], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    printed = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    reason = (process.stderr.strip().splitlines() or [f"ended with status {process.returncode}"])[-1]
    if not printed:
        raise Failed(f"bench/{name}.py printed no figures: {reason}")
    if process.returncode != 0:
        printed.append({"name": "the rest", "left_out": reason})  # what was measured before stays
    return {"rows": printed}


def learning_table_items(bench, arguments):
    """One item for each row, so that they can be measured a few at a time."""
    return [(row.name, lambda name=f"/{row.name}/": run_script(bench, "learning",
                                                               ("--parts", "table", "--loaders", name)))
            for row in learning_table.ROWS if row.quick or not bench.quick
            if not arguments.loaders or any(name in f"/{row.name}/" for name in arguments.loaders)]


PARTS = {
    "rows": rows,
    "epoch": epoch,
    "curves": curves,
    "latency": latency,
    "peers": lambda bench, _: peers.items(bench),
    "file-systems": lambda bench, _: peers.file_system_items(bench),
    "decoders": script("decoders"),
    "ways": lambda bench, _: [("ways", lambda: {"file_systems": ways.measure(bench)})],
    "trainings": lambda bench, _: trainings.items(bench),
    "scale": scale_items,
    "learning": script("learning", "--parts", "replay", "mount"),
    "learning-table": learning_table_items,
    "cost-model": script("cost_model"),
    "plan-wait": plan_wait,
    "cluster": cluster,
    "faults": faults,
}
