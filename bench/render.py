# SPDX-License-Identifier: Apache-2.0
"""Turns the figures of bench/report into RESULTS.md, plots and history."""

import json
import statistics
import time
from pathlib import Path

import ways
from plot import Chart

NOTE = """Written by `bench/report`; do not edit. Every figure has its command beside it. The
machine is shared with nobody during a run, but it is a virtual one: look at the spread. A ratio is throughput, headrace
over the other side.
"""


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def median(runs, key):
    return statistics.median(run[key] for run in runs)


def rate(run):
    return run["samples"] / run["seconds"]


def side_cells(runs):
    per_1000 = statistics.median(1000 * run["cpu_seconds"] / run["samples"] for run in runs)
    return f"{statistics.median(map(rate, runs)):.0f}", f"{per_1000:.3f}", f"{median(runs, 'peak_bytes') / 1e6:.0f}"


def machine_section(machine):
    return (f"{machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB, Linux "
            f"{machine['kernel']}; headrace {machine['revision']}.\n")


def rows_section(rows):
    summary, details, left_out = [], [], []
    for name, row in rows.items():
        if "left_out" in row:
            left_out.append(f"- `{name}`: {row['left_out']}")
            continue
        ratios = [f"{statistics.median(variant['ratios']):.2f} ({min(variant['ratios']):.2f} to "
                  f"{max(variant['ratios']):.2f})" for variant in row["variants"]]
        summary.append([f"`{name}`", row["headrace_side"], row["other_side"], "<br>".join(ratios), f"{row['bar']:.2f}",
                        "met" if row["met"] else "**short**"])
        for variant in row["variants"]:
            for side, runs in variant["runs"].items():
                details.append([f"`{name}` {variant['variant']}", side, *side_cells(runs), len(runs)])
    text = "## The rows of bench/compare\n\n    bench/compare " + " ".join(rows) + "\n\n"
    text += table(["row", "headrace", "other", "ratio: median (spread)", "bar", ""], summary)
    text += "\n### Cost\n\n" + table(["row", "side", "samples/s", "CPU s per 1000", "peak MB", "rounds"], details)
    return text + ("\nLeft out here:\n\n" + "\n".join(left_out) + "\n" if left_out else "")


def ways_section(results):
    if "left_out" in results:
        return f"Left out here: {results['left_out']}\n"
    text = "Samples of 108 kB on average per second, processor time and system calls per sample.\n"
    for cache, title in (("cold", "Caches cold"), ("warm", "In the page cache")):
        text += f"\n### {title}\n\n" + table(["way", *results], ways.rows(results, cache))
    return text


def curve_section(name, curve, folder):
    if "left_out" in curve:
        return f"### {name}\n\nLeft out here: {curve['left_out']}\n"
    chart = Chart(curve["title"], curve["x"], curve["y"], curve.get("x_base", 0), curve.get("y_base", 0))
    for line, points in curve["lines"].items():
        chart.add(line, [tuple(point) for point in points])
    (folder / "plots").mkdir(exist_ok=True)
    chart.write(folder / "plots" / f"{name}.svg")
    values = {line: dict(map(tuple, points)) for line, points in curve["lines"].items()}
    positions = sorted({x for points in values.values() for x in points})
    cells = [[f"{x:.10g}", *(f"{points[x]:.0f}" if x in points else "" for points in values.values())]
             for x in positions]
    return (f"### {curve['title']}\n\n![{curve['title']}](plots/{name}.svg)\n\n" +
            table([curve["x"], *(f"{line}, {curve['y']}" for line in values)], cells))


def latency_section(latency):
    if "left_out" in latency:
        return f"Left out here: {latency['left_out']}\n"
    return table(["way", "median", "99 %", "99.9 %"],
                 [[way, *(f"{figures[key]} us" for key in ("p50_us", "p99_us", "p999_us"))]
                  for way, figures in latency.items()])


def peers_section(peers):
    if "left_out" in peers:
        return f"Left out here: {peers['left_out']}\n"
    rows = []
    for name, peer in peers.items():
        if "left_out" in peer:
            rows.append([name, f"left out: {peer['left_out']}", *[""] * 8])
            continue
        epochs = peer["epoch_seconds"]
        rows.append([name, f"{peer['first_batch']:.2f} s", *(f"{epochs[i]:.2f} s" for i in (0, 1, 4)),
                     f"{peer['memory_bytes'] / 1e6:.0f} MB", f"{peer['disk_bytes'] / 1e6:.0f} MB",
                     f"{peer['cpu_seconds']:.2f} s", peer["source_opens"], peer["source_reads"]])
    samples = next(peer["samples"] for peer in peers.values() if "samples" in peer)
    return (f"{samples} samples, five epochs of an unmodified torchvision loader (2 workers) over a source that adds "
            "20 ms to each open and each read. Waiting for a copy counts into the first batch and epoch. Memory and "
            "CPU are those of the file system's processes; a copy in the page cache is nobody's and not listed.\n\n" +
            table(["way", "first batch", "epoch 1", "epoch 2", "epoch 5", "memory", "disk", "CPU", "source opens",
                   "source reads"], rows) + "\n" + verdict(peers))


def verdict(peers):
    """Says who is first, whoever that is."""
    good = {name: peer for name, peer in peers.items() if "epoch_seconds" in peer}
    lines = []
    for title, value in (("first batch", lambda peer: peer["first_batch"]),
                         ("epoch 1", lambda peer: peer["epoch_seconds"][0]),
                         ("epoch 5", lambda peer: peer["epoch_seconds"][4])):
        best = min(good, key=lambda name: value(good[name]))
        lines.append(f"- {title}: {best} is first ({value(good[best]):.2f} s).")
    return "\n".join(lines) + "\n"


def scale_section(scale):
    if "left_out" in scale:
        return f"Left out here: {scale['left_out']}\n"
    rows = []
    for files, figures in scale.items():
        per_file = figures["memory_bytes_again"] / int(files)
        rows.append([files, f"{figures['mount_seconds_cold']:.2f} s", f"{figures['mount_seconds_again']:.2f} s",
                     f"{figures['memory_bytes_again'] / 1e6:.0f} MB ({per_file:.0f} bytes)",
                     f"{figures['ls_seconds_again'] * 1000:.0f} ms"])
    return table(["files (hard links)", "mount, caches cold", "mount again", "daemon's memory (per file)",
                  "ls of one class"], rows)


def faults_section(faults):
    if "left_out" in faults:
        return f"Left out here: {faults['left_out']}\n"
    rows = [[name, fault["rounds"], fault["good"] + fault["wrong"], fault["refused"], fault["wrong"],
             f"{fault['longest_pause']:.1f} s", "yes" if fault["recovered"] else "**no**"]
            for name, fault in faults["faults"].items()]
    return (f"Three readers compare every byte with digests of the source while one fault follows the other (seed "
            f"{faults['seed']}), then {faults['cycles']} mounts and unmounts in {faults['cycle_seconds']:.0f} s. By "
            "hand: `tests/torture --minutes 10`.\n\n" +
            table(["fault", "rounds", "reads checked", "refused", "wrong", "longest pause", "recovered"], rows))


def write_page(results, folder):
    sections = ["# Results\n", NOTE, machine_section(results["machine"])]
    if "rows" in results:
        sections.append(rows_section(results["rows"]))
    if "ways" in results:
        sections.append("## Ways to read files\n\n    bench/report --parts ways\n\n" + ways_section(results["ways"]))
    if "curves" in results:
        sections.append("## Shapes\n\n    bench/report --parts curves\n")
        sections += [curve_section(name, curve, folder) for name, curve in results["curves"].items()]
    for title, part, section in (("Latency of one sample", "latency", latency_section),
                                 ("Other ways to the same end", "peers", peers_section),
                                 ("Large trees", "scale", scale_section),
                                 ("Faults", "faults", faults_section)):
        if part in results:
            sections.append(f"## {title}\n\n    bench/report --parts {part}\n\n{section(results[part])}")
    (folder / "RESULTS.md").write_text("\n".join(sections), encoding="utf-8")


def add_to_history(results, path):
    """One entry per revision measured: the ratios that have a bar."""
    ratios = {name: round(row["ratio"], 3) for name, row in results.get("rows", {}).items() if "ratio" in row}
    history = json.loads(Path(path).read_text()) if Path(path).exists() else []
    machine = results["machine"]
    history = [entry for entry in history if entry["revision"] != machine["revision"]]
    history.append({"revision": machine["revision"], "date": time.strftime("%Y-%m-%d"),
                    "processor": machine["processor"], "kernel": machine["kernel"], "ratios": ratios})
    Path(path).write_text(json.dumps(history, indent=1) + "\n", encoding="utf-8")
