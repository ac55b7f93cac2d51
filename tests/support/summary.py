#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tells of a run of tests/run what was skipped and why, what was retried, and what took how long.

    tests/support/summary.py LastTest.log PARTS

LastTest.log is ctest's; PARTS has a line for each build: its seconds, and its name.
"""

import collections
import os
import re
import sys

SLOWEST = 10


def main(log, parts):
    skipped, retries, seconds = read(log)
    if skipped:
        print(f"Skipped, and why ({sum(map(len, skipped.values()))}):")
    for reason, tests in sorted(skipped.items()):
        print("\n    ".join([f"  {reason}", *tests]))
    if "HEADRACE_TEST_RETRIES" in os.environ:
        print(f"Retries of end-to-end tests: {len(retries)}")
    for retry in retries:
        print(f"    {retry}")

    print("Minutes by the clock:")
    with open(parts, encoding="utf-8") as lines:
        for line in lines:
            taken, name = line.rstrip().split(" ", 1)
            print(f"  {int(taken) / 60:6.1f}  {name}")
    print("Minutes that tests took, added up (several run at a time):")
    groups = collections.Counter()
    for name, taken in seconds.items():
        groups[name.split(":")[0]] += taken
    for group, taken in groups.most_common():
        print(f"  {taken / 60:6.1f}  {group}")
    print("Seconds of the slowest tests:")
    for name, taken in sorted(seconds.items(), key=lambda item: -item[1])[:SLOWEST]:
        print(f"  {taken:6.1f}  {name}")


def read(log):
    """What was skipped as {reason: [tests]}, retries as texts, and {test: seconds}."""
    skipped, retries, seconds = collections.defaultdict(list), [], {}
    name = ""
    with open(log, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if found := re.match(r"\d+/\d+ Testing: (.*)", line):
                name = found[1]
            elif found := re.match(r"(?:skipped|[a-z-]+ could not run): (.*)", line):
                if name not in skipped[found[1]]:
                    skipped[found[1]].append(name)
            elif found := re.match(r"retried: (.*)", line):
                retries.append(f"{name}: {found[1]}")
            elif found := re.match(r"Test time = +([\d.]+) sec", line):
                seconds[name] = float(found[1])
    return skipped, retries, seconds


if __name__ == "__main__":
    main(*sys.argv[1:])
