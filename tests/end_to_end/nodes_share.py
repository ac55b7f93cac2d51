#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Three nodes in network namespaces share what they read, also while one goes wrong: nodes_share.py BUILD

What bench/cluster counts must hold, but for its times. Killed in the middle, it leaves no namespace behind.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True

from script_test import run  # noqa: E402, before the modules of bench, which it makes known
from sources import CannotRun  # noqa: E402

CLUSTER = Path(__file__).resolve().parents[2] / "bench" / "cluster"
NAMESPACES = Path("/run/netns")
COULD_NOT_RUN = 2
PATIENCE_SECONDS = 120


def namespaces_of(process):
    return [path.name for path in NAMESPACES.glob(f"headrace-{process.pid}-*")]


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def check_figures(build, work):
    figures_file = Path(work) / "figures.json"
    process = subprocess.Popen([CLUSTER, "once", "part", "in-step", "join", "faults", "--quick", "--build", build,
                                "--json", figures_file], stdout=subprocess.PIPE, text=True)
    output, _ = process.communicate()
    print(output)
    if process.returncode == COULD_NOT_RUN:
        raise CannotRun(output.strip().splitlines()[-1].removeprefix("could not run: "))
    assert figures_file.exists(), "it ended early"
    assert not namespaces_of(process), f"left behind: {namespaces_of(process)}"
    short = [figure for figure in json.loads(figures_file.read_text()) if not figure["met"]]
    short = [figure for figure in short if "seconds" not in figure["name"]]
    assert not short, f"short: {short}"


def check_that_nothing_is_left(build):
    process = subprocess.Popen([CLUSTER, "once", "--quick", "--build", build], stdout=subprocess.DEVNULL)
    wait_until(lambda: len(namespaces_of(process)) > 1, "no namespace was made")
    process.kill()
    process.wait()
    wait_until(lambda: not namespaces_of(process), "namespaces are left behind")


def check(build, work):
    check_figures(build, work)
    check_that_nothing_is_left(build)


if __name__ == "__main__":
    sys.exit(run(check))
