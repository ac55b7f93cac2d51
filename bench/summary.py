# SPDX-License-Identifier: Apache-2.0
"""The README's table of results, and the history of key ratios: both from the figures that are published."""

import json
from pathlib import Path

from render import PEER_MEASURES, first, good, table

BEGIN, END = "<!-- results: written by bench/report -->", "<!-- end of results -->"
NOTHING = "No figures are published for this version; `bench/report` measures them on your machine.\n"


def write_into(readme, results):
    """Replaces what stands between the two marks."""
    text = Path(readme).read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN + "\n")
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{readme} has no marks for the table of results")
    Path(readme).write_text(f"{before}{BEGIN}\n{results_text(results)}{END}{after}", encoding="utf-8")


def in_readme(readme):
    """What stands there now."""
    return Path(readme).read_text(encoding="utf-8").partition(BEGIN + "\n")[2].partition(END)[0]


def results_text(results):
    if not results:
        return NOTHING
    rows = row_lines(results) + peer_lines(results) + other_lines(results)
    shown = table(["measured", "headrace", "compared with", "ratio"], rows) if rows else ""
    return shown + (
        "\nA ratio is throughput, headrace over the other; under 1 the other is faster. Commands, spread, machine and "
        "all other figures: [bench/RESULTS.md](bench/RESULTS.md).\n")


def row_lines(results):
    items = good(results.get("rows", {}).get("items", {}))
    return [[f"`bench/compare {name}`", row["headrace_side"], row["other_side"],
             f"{row['ratio']:.2f}" + (" of that bound" if row["bound"] else "")] for name, row in items.items()]


def peer_lines(results):
    """headrace with a given order against the best of the others, by time."""
    peers = good(results.get("peers", {}).get("items", {}))
    ours = peers.get("headrace, order given")
    others = {name: peer for name, peer in peers.items() if not name.startswith("headrace")}
    if not ours or not others:
        return []
    lines = []
    for measure, value in PEER_MEASURES.items():
        best = first(others, measure)
        lines.append([f"{measure}, 20 ms source", f"{value(ours):.2f} s", f"{best}: {value(others[best]):.2f} s",
                      f"{value(others[best]) / value(ours):.2f}"])
    return lines


def other_lines(results):
    lines = []
    trees = {name: figures for name, figures in good(results.get("scale", {}).get("items", {})).items()
             if name.endswith(" files")}
    for name, figures in trees.items():
        lines.append([f"mount of {name}, again", f"{figures['mount_s_again']:.2f} s, "
                      f"{figures['memory_bytes_again'] / 1e6:.0f} MB", "", ""])
    torture = good(results.get("faults", {}).get("items", {})).get("torture")
    if torture:
        faults = torture["faults"].values()
        wrong, good_ones = (sum(fault[kind] for fault in faults) for kind in ("wrong", "good"))
        lines.append([f"`tests/torture --minutes {torture['minutes']:g}`",
                      f"{wrong} of {wrong + good_ones} reads wrong", "digests of the source", ""])
    return lines


def add_to_history(results, path):
    """One entry per revision measured: the ratios that have a bar, of the rows that were measured at it."""
    if "rows" not in results:
        return
    machine = results["rows"]["machine"]
    ratios = {name: round(row["ratio"], 3) for name, row in good(results["rows"]["items"]).items()
              if row["revision"] == machine["revision"]}
    history = json.loads(Path(path).read_text()) if Path(path).exists() else []
    history = [entry for entry in history if entry["revision"] != machine["revision"]]
    history.append({"version": machine["version"], "revision": machine["revision"], "date": results["rows"]["date"],
                    "processor": machine["processor"], "kernel": machine["kernel"], "ratios": ratios})
    Path(path).write_text(json.dumps(history, indent=1) + "\n", encoding="utf-8")
