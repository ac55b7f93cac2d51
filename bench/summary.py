# SPDX-License-Identifier: Apache-2.0
"""The figures on the first screen of the README, and the history of key ratios: both from what is published."""

import json
from pathlib import Path

from render import good, table

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


# The rows of bench/compare that tell most, and what to say of a ratio. All others are in RESULTS.md.
SENTENCES = {
    "mount-latency": "An unmodified torchvision loader reads **{ratio:.1f} times** as fast through a cold mount as "
                     "from a source that answers each open and each read 20 ms late.",
    "mount-learned": "headrace finds the order from the first opens. From the second epoch on that gives "
                     "**{percent:.0f} %** of the speed of an order that was given.",
    "reader-source": "The C++ reader takes small files in random order from a cold disk at **{percent:.0f} %** of what "
                     "the device can give at all.",
}


def results_text(results):
    items = good(results.get("rows", {}).get("items", {}))
    rows = [[sentence.format(ratio=items[name]["ratio"], percent=100 * items[name]["ratio"]),
             f"`bench/compare {name}`"]
            for name, sentence in SENTENCES.items() if name in items]
    if not rows:
        return NOTHING
    return table(["measured", "command"], rows) + (
        "\nSpread, machine, all other figures, and where another way is faster: "
        "[bench/RESULTS.md](bench/RESULTS.md).\n")


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
