# SPDX-License-Identifier: Apache-2.0
"""Turns the figures of bench/report into RESULTS.md and its plots.

Figures are {part: {"items": {name: figures or {"left_out": reason}}, "command", "date", "machine"}}, each item with its
"revision"; parts that were not measured are not on the page.
"""

import statistics

import learning_table
import ways
from plot import Chart

NOTE = """Written by `bench/report`; do not edit. Every part has its command, date and revision beside it, and every
figure is in [results.json](results.json). Measured on a virtual machine: look at the spread. A ratio is throughput,
headrace over the other side.
"""


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def number(value):
    """Three figures, whatever the size."""
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return str(value)


def megabytes(value):
    return f"{value / 1e6:.0f} MB"


def good(items):
    return {name: figures for name, figures in items.items() if "left_out" not in figures}


def left_out(items):
    lines = [f"- {name}: {figures['left_out']}" for name, figures in items.items() if "left_out" in figures]
    return "\nLeft out here:\n\n" + "\n".join(lines) + "\n" if lines else ""


def spread(ratios):
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def rows_section(items, _folder):
    summary, details = [], []
    for name, row in good(items).items():
        summary.append([f"`{name}`", row["headrace_side"], row["other_side"],
                        "<br>".join(spread(variant["ratios"]) for variant in row["variants"]), f"{row['bar']:.2f}",
                        "met" if row["met"] else "**short**"])
        for variant in row["variants"]:
            for side, runs in variant["runs"].items():
                details.append([f"`{name}` {variant['variant']}", side, *side_cells(runs), len(runs)])
    return (table(["row", "headrace", "other", "ratio: median (spread)", "bar", ""], summary) + "\n### Cost\n\n" +
            table(["row", "side", "samples/s", "CPU s per 1000", "peak MB", "rounds"], details) + left_out(items))


def side_cells(runs):
    rate = statistics.median(run["samples"] / run["seconds"] for run in runs)
    per_1000 = statistics.median(1000 * run["cpu_seconds"] / run["samples"] for run in runs)
    peak = statistics.median(run["peak_bytes"] for run in runs)
    return f"{rate:.0f}", f"{per_1000:.3f}", f"{peak / 1e6:.0f}"


def curves_section(items, folder):
    return "\n".join(curve(name, figures, folder) for name, figures in good(items).items()) + left_out(items)


def curve(name, figures, folder):
    plot(name, figures, folder)
    values = {line: dict(map(tuple, points)) for line, points in figures["lines"].items()}
    positions = sorted({x for points in values.values() for x in points})
    cells = [[f"{x:.10g}", *(number(float(points[x])) if x in points else "" for points in values.values())]
             for x in positions]
    return (f"### {figures['title']}\n\n![{figures['title']}](plots/{name}.svg)\n\n" +
            table([figures["x"], *(f"{line}, {figures['y']}" for line in values)], cells) +
            (f"\n{figures['note']}\n" if "note" in figures else ""))


def plot(name, figures, folder):
    chart = Chart(figures["title"], figures["x"], figures["y"], figures.get("x_base", 0), figures.get("y_base", 0))
    for line, points in figures["lines"].items():
        chart.add(line, [tuple(point) for point in points])
    (folder / "plots").mkdir(exist_ok=True)
    chart.write(folder / "plots" / f"{name}.svg")


def latency_section(items, _folder):
    parts = good(items)
    text = ""
    if "one sample" in parts:
        keys = ("p50_us", "p99_us", "p999_us")
        text += "### One sample: open, fstat, read, close\n\n" + table(
            ["way", "median", "99 %", "99.9 %"],
            [[way, *(f"{figures[key]} us" for key in keys)] for way, figures in parts["one sample"]["ways"].items()])
    if "first batch" in parts:
        text += ("\n### The first batch of 32 after mounting, on a source that adds 20 ms to each open and read\n\n" +
                 table(["way", "mounted after", "32 samples read after"],
                       [[way, f"{figures['mounted_s']:.2f} s", f"{figures['first_batch_s']:.2f} s"]
                        for way, figures in parts["first batch"]["ways"].items()]))
    return text + left_out(items)


def peers_section(items, _folder):
    rows = []
    for name, peer in good(items).items():
        epochs = peer["epoch_seconds"]
        prepared = f" (after {peer['prepared_seconds']:.2f} s of packing)" if "prepared_seconds" in peer else ""
        rows.append([name, f"{peer['first_batch']:.2f} s{prepared}", *(f"{epochs[i]:.2f} s" for i in (0, 1, 4)),
                     megabytes(peer["memory_bytes"]), megabytes(peer["disk_bytes"]), f"{peer['cpu_seconds']:.2f} s",
                     peer["source_opens"], peer["source_reads"]])
    samples = next((peer["samples"] for peer in good(items).values()), 0)
    return (f"{samples} samples, five epochs of an unmodified torchvision loader (2 workers) over a source that adds "
            "20 ms to each open and each read. Waiting for a copy counts into the first batch and epoch; packing into "
            "tar files, which also shuffles less, does not. Memory and CPU are those of the file system's processes; "
            "a copy in the page cache is nobody's and not listed.\n\n" +
            table(["way", "first batch", "epoch 1", "epoch 2", "epoch 5", "memory", "disk or tmpfs", "CPU",
                   "source opens", "source reads"], rows) + "\n" + winners(good(items)) + left_out(items))


PEER_MEASURES = {
    "first batch": lambda peer: peer["first_batch"],
    "epoch 1": lambda peer: peer["epoch_seconds"][0],
    "epoch 2": lambda peer: peer["epoch_seconds"][1],
    "epoch 5": lambda peer: peer["epoch_seconds"][4],
}


def first(peers, measure):
    """The name of the peer with the smallest figure."""
    return min(peers, key=lambda name: PEER_MEASURES[measure](peers[name]))


def winners(peers):
    """Says who is first, whoever that is."""
    names = {measure: first(peers, measure) for measure in PEER_MEASURES} if peers else {}
    return "".join(f"- {measure}: {name} is first ({PEER_MEASURES[measure](peers[name]):.2f} s)\n"
                   for measure, name in names.items())


def file_systems_section(items, _folder):
    rows = [[name, *(cell for state in ("cold", "warm") for cell in
                     (f"{figures[state]['rate']:.0f}", f"{figures[state]['cpu_us']:.0f} us")),
             megabytes(figures["memory_bytes"])] for name, figures in good(items).items()]
    return ("Whole files in random order by one process, without a slow source: what the file system itself costs. "
            "Cold: after dropping the page cache; warm: once more.\n\n" +
            table(["file system", "cold, samples/s", "CPU per sample", "warm, samples/s", "CPU per sample", "memory"],
                  rows) + left_out(items))


def printed(items):
    """What a program of a part printed: one object per line."""
    return good(items).get("rows", {}).get("rows", [])


def script_section(items, _folder):
    """A table of it as it stands."""
    rows = printed(items)
    shown = [row for row in rows if "left_out" not in row]
    keys = list(dict.fromkeys(key for row in shown for key in row))
    text = table([key.replace("_", " ") for key in keys], [[number(row.get(key, "")) for key in keys] for row in shown])
    missing = {" ".join(str(row[key]) for key in row if key != "left_out"): row for row in rows if "left_out" in row}
    return text + left_out(missing) + left_out(items)


def cost_model_section(items, folder):
    """What bench/cost_model.py prints: rows of three tables."""
    titles = {"stages": "What a sample costs in each stage", "checks": "Predicted and measured here",
              "machines": "What the model says of larger machines"}
    text = ("The costs of the stages are measured here. From these follow the rates of other mixes, which are measured "
            "as well, and those of larger machines. Whole files of 108 kB; a reader that does nothing with them. "
            "\"off\": predicted / measured - 1. The memory's own rate, and what processors do to each other's caches, "
            "are not in it.\n")
    rows = printed(items)
    for table_name, title in titles.items():
        shown = [{key: value for key, value in row.items() if key != "table"} for row in rows
                 if row.get("table") == table_name]
        text += f"\n### {title}\n\n" + script_section({"rows": {"rows": shown}}, folder)
    return text + left_out(items)


PLAN_WAIT_MS = 5  # that a READ may wait for the plan


def plan_wait_section(items, folder):
    longest = max((row["longest_read_ms"] for row in printed(items)), default=None)
    verdict = "" if longest is None else (f" The longest took {longest:.2f} ms, of {PLAN_WAIT_MS} ms: "
                                          f"{'met' if longest <= PLAN_WAIT_MS else '**short**'}.")
    return ("What a READ has to do with the plan of 10 million samples and 128 lanes, while that is changed. Idle: the "
            f"same moments without the plan, which is what this machine itself makes of them.{verdict}\n\n" +
            script_section(items, folder))


def learning_table_section(items, folder):
    text = ("Real torch loaders in the shape of scripts that people have, through a mount over a slow source; RAM for "
            "40 % of the data set, three epochs. Bare: each read opens its file at the source. Minimum: what a cache "
            "of that size would fetch that knew all reads before; later: from the end of the epoch on in which the "
            "order was found. An order that is known is read ahead into the epoch after the last. Shares: of each "
            "epoch's reads that found their file in memory. Busy: the accelerator of DLIO's rows, by epoch; their RAM "
            "is for half of the data set. Seconds, and what is busy, are rough: builds and tests ran beside. One run "
            "each: where locks come and go (two jobs, repeated augmentation) it differs by up to a half from the "
            "next.\n\n")
    wanted = [row.name for row in learning_table.ROWS]  # in the table's order, however they were measured
    ordered = sorted(good(items), key=lambda name: wanted.index(name) if name in wanted else -1)
    rows = [row for name in ordered for row in items[name]["rows"]]
    return text + script_section({"rows": {"rows": rows}}, folder) + left_out(items)


def ways_section(items, _folder):
    results = good(items).get("ways", {}).get("file_systems", {})
    text = "Samples of 108 kB on average per second, processor time and system calls per sample.\n"
    for cache, title in (("cold", "Caches cold"), ("warm", "In the page cache")):
        if results:
            text += f"\n### {title}\n\n" + table(["way", *results], ways.rows(results, cache))
    return text + left_out(items)


def trainings_section(items, folder):
    rows = []
    lines = {}
    for name, figures in good(items).items():
        plain, mounted = figures["plain"], figures["mounted"]
        rows.append([name, sum(map(len, plain["losses"])), "yes" if figures["identical"] else "**no**",
                     *(f"{run['seconds']:.1f} s, {run['stall_share']:.0%} waiting" for run in (plain, mounted))])
        for side, run in (("without", plain), ("with", mounted)):
            lines[f"{name}, {side}"] = [[step, float.fromhex(loss)] for step, loss in enumerate(run["losses"][0])]
    text = ("ResNet-18 on crops of 64 x 64, on CPUs, from a source that adds 20 ms to each open and each read "
            "(`bench/train.py`). Losses are compared to the last bit.\n\n" +
            table(["script", "losses", "identical", "without headrace", "with headrace"], rows))
    if lines:
        plot("losses", {"title": "Loss by step", "x": "step", "y": "loss", "lines": lines}, folder)
        text += "\n![Loss by step](plots/losses.svg)\n"
    return text + left_out(items)


def scale_section(items, _folder):
    rows, lines = [], []
    for name, figures in good(items).items():
        if "processes" in figures:
            lines.append(f"{figures['processes']} processes read a cold data set of which half may be held: "
                         f"{figures['samples_per_s']:.0f} samples/s, {figures['cpu_us']:.0f} us of CPU per sample, "
                         f"bytes {'equal' if figures['equal'] else '**differ**'}.\n")
            continue
        memory = megabytes(figures["memory_bytes_again"])
        if figures["files"] > 100_000:  # of fewer it is the program itself; bytes per file are MB per million files
            memory += f" ({figures['memory_bytes_again'] / figures['files']:.0f})"
        rows.append([name, f"{figures['mount_s_cold']:.2f} s", f"{figures['mount_s_again']:.2f} s",
                     memory, f"{figures['ls_s_cold'] * 1000:.0f} ms", f"{figures['opens_per_s_cold']:.0f}",
                     f"{figures['opens_per_s_again']:.0f}",
                     f"{figures['plan_s']:.2f} s, {megabytes(figures['plan_peak_bytes'])}"])
    return ("Hard links and sparse files: names and inodes as of real samples, no space.\n\n" +
            table(["data set", "mount, caches cold", "mount again", "daemon's memory (MB per million files)",
                   "ls of one class", "random opens/s", "again", "an epoch's order"], rows) + "\n" + "\n".join(lines) +
            left_out(items))


def faults_section(items, _folder):
    figures = good(items).get("torture")
    if not figures:
        return left_out(items)
    rows = [[name, fault["rounds"], fault["good"] + fault["wrong"], fault["refused"], fault["wrong"],
             f"{fault['longest_pause']:.1f} s", fault["remounts"], "yes" if fault["recovered"] else "**no**"]
            for name, fault in figures["faults"].items()]
    return (f"Three readers compare every byte with digests of the source while one fault follows the other for "
            f"{figures['minutes']:g} minutes (seed {figures['seed']}); recovered is who gets 30 good reads in a row "
            f"afterwards. Then {figures['cycles']} mounts and unmounts, in {figures['cycle_seconds']:.0f} s. By hand: "
            "`tests/torture --minutes 60`.\n\n" +
            table(["fault", "rounds", "reads checked", "refused", "wrong", "longest pause", "mounted anew by hand",
                   "recovered"], rows) +
            left_out({name: {"left_out": reason} for name, reason in figures["faults_left_out"].items()}))


def cluster_section(items, _folder):
    rows = [[figure["name"], number(figure["value"]), figure["bar"], "met" if figure["met"] else "**short**"]
            for part in good(items).values() for figure in part["figures"]]
    return ("Three nodes on one machine, each with a network namespace, a memcached and a mount; what left the source "
            "is counted there. `part`: the nodes hold 0.6 of the data together. Of the rounds of a fault the worst "
            "counts. Why `link` and `cpu` cannot reach their bars here: [README.md](README.md#rules).\n\n" +
            table(["what", "figure", "bar", ""], rows) + left_out(items))


SECTIONS = {
    "rows": ("The rows of bench/compare", rows_section),
    "epoch": ("One epoch", curves_section),
    "curves": ("Shapes", curves_section),
    "latency": ("Latency", latency_section),
    "peers": ("Other ways to the same end", peers_section),
    "file-systems": ("File systems", file_systems_section),
    "decoders": ("Image decoders", script_section),
    "ways": ("Ways to read files", ways_section),
    "trainings": ("Trainings", trainings_section),
    "scale": ("Large trees, many readers", scale_section),
    "learning": ("Orders found out from the opens of loaders", script_section),
    "learning-table": ("Orders of scripts as people have them", learning_table_section),
    "cost-model": ("Cost model", cost_model_section),
    "plan-wait": ("How long READs wait for the plan", plan_wait_section),
    "cluster": ("Nodes that share", cluster_section),
    "faults": ("Faults", faults_section),
}


def where_others_win(results):
    """One line for each comparison that another way wins. A bound is no other way."""
    lines = []
    for name, row in good(results.get("rows", {}).get("items", {})).items():
        if row["ratio"] < 1 and not row["bound"]:
            lines.append(f"- `{name}`: {row['other_side']}; headrace gets {row['ratio']:.2f} of its throughput.")
    peers = good(results.get("peers", {}).get("items", {}))
    for measure in PEER_MEASURES if peers else ():
        name = first(peers, measure)
        if not name.startswith("headrace"):
            lines.append(f"- {measure} on a source that adds 20 ms: {name}.")
    file_systems = good(results.get("file-systems", {}).get("items", {}))
    for state in ("cold", "warm") if "headrace" in file_systems else ():
        rates = {name: figures[state]["rate"] for name, figures in file_systems.items()}
        faster = [name for name in sorted(rates, key=rates.get, reverse=True) if rates[name] > rates["headrace"]]
        if faster:
            lines.append(f"- as a file system without anything to hide, {state}: {', '.join(faster)}.")
    return lines + faster_decoders(printed(results.get("decoders", {}).get("items", {})))


def faster_decoders(rows):
    """One line per work and number of threads at which another decoder is first."""
    lines = []
    for kind in dict.fromkeys((row["work"], row["threads"]) for row in rows if "left_out" not in row):
        rates = {row["name"]: row["images_per_s"] for row in rows
                 if "left_out" not in row and (row["work"], row["threads"]) == kind}
        best = max(rates, key=rates.get)
        if best != "headrace":
            lines.append(f"- decoding, {kind[0]}, threads: {kind[1]}: {best}, {rates[best]:.0f} images/s.")
    return lines


def machine_line(machine):
    return (f"{machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB, Linux "
            f"{machine['kernel']}")


def write_page(results, folder):
    machines = list(dict.fromkeys(machine_line(results[part]["machine"]) for part in SECTIONS if part in results))
    text = ["# Results\n", NOTE, "\n".join(f"{line}.\n" for line in machines)]
    wins = where_others_win(results)
    if wins:
        text.append("## Where another way is faster\n\n" + "\n".join(wins) + "\n")
    for part, (title, section) in SECTIONS.items():
        if part in results:
            entry = results[part]
            revisions = dict.fromkeys(figures["revision"] for figures in entry["items"].values())
            text.append(f"## {title}\n\n    {entry['command']}\n\n{entry['date']}, revision {', '.join(revisions)}."
                        f"\n\n{section(entry['items'], folder)}")
    (folder / "RESULTS.md").write_text("\n".join(text), encoding="utf-8")
