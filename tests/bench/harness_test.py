#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The harness itself: what a comparison must notice and how it judges."""

import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import harness  # noqa: E402
import sweeper  # noqa: E402
from plot import Chart  # noqa: E402
from sources import Failed, is_mounted  # noqa: E402


class PlannedRow(harness.Row):
    """Takes the seconds that a test planned."""
    name = "planned"

    def __init__(self, headrace, other, checksums=("same", "same"), cpu=(1, 1)):
        super().__init__(None)
        self.seconds = {"headrace": iter(headrace), "other": iter(other)}
        self.checksums = dict(zip(self.sides, checksums))
        self.cpu = dict(zip(self.sides, cpu))
        self.calls = []

    def run(self, side, variant):
        self.calls.append(side)
        return harness.Figures(samples=100, seconds=next(self.seconds[side]), checksum=self.checksums[side],
                               cpu_seconds=self.cpu[side])


def compare(row, rounds):
    return harness.compare(row, rounds, lambda line: None)


class HarnessTest(unittest.TestCase):
    def test_the_ratio_is_the_median_of_the_rounds(self):
        result = compare(PlannedRow([1, 2, 4], [2, 2, 2]), 3)
        self.assertEqual(result.last_line(), "planned ratio=1.00 min=0.50 max=2.00 bar=1.00 met")

    def test_a_median_under_the_bar_is_short(self):
        result = compare(PlannedRow([2.2], [2]), 1)
        self.assertFalse(result.met)
        self.assertTrue(result.last_line().endswith(" short"))

    def test_too_much_cpu_is_short_whatever_the_speed(self):
        row = PlannedRow([1], [2], cpu=(0.7, 1))
        row.cpu_bar = 0.6
        self.assertFalse(compare(row, 1).met)

    def test_sides_that_read_different_bytes_are_a_failure(self):
        with self.assertRaises(Failed):
            compare(PlannedRow([1], [1], checksums=("one", "another")), 1)

    def test_a_side_that_does_not_say_what_it_read_is_a_failure(self):
        with self.assertRaises(Failed):
            compare(PlannedRow([1], [1], checksums=(None, None)), 1)

    def test_the_side_that_goes_first_alternates(self):
        row = PlannedRow([1, 1], [1, 1])
        compare(row, 2)
        self.assertEqual(row.calls, ["headrace", "other", "other", "headrace"])

    def test_an_unknown_name_is_a_usage_error(self):
        command = [ROOT / "bench/compare", "no-such-row"]
        self.assertEqual(subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode, 2)

    def test_peak_memory_is_that_of_the_program_alone(self):
        ballast = b"x" * (200 << 20)
        with tempfile.TemporaryDirectory() as work:
            self.assertLess(harness.Bench(work).peak_bytes_of(["true"]), len(ballast) // 4)

    def test_cpu_time_of_children_counts(self):
        process = subprocess.Popen(["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 5"])
        try:
            while harness.cpu_seconds_of_tree(process.pid) < 0.02:
                self.assertIsNone(process.poll())
        finally:
            process.kill()
            process.wait()

    def test_a_chart_is_written_with_all_its_points(self):
        with tempfile.TemporaryDirectory() as work:
            path = Path(work) / "chart.svg"
            Chart("a < b", "x", "y", x_base=2).add("line", [(1, 5), (2, 9), (64, 3)]).write(path)
            content = path.read_text()
        self.assertEqual(content.count("<circle"), 3)
        self.assertIn("a &lt; b", content)


class AgainstTest(unittest.TestCase):
    @unittest.skipUnless(shutil.which("git"), "git is not installed")
    def test_another_revision_has_programs_of_its_own_and_the_same_data(self):
        with tempfile.TemporaryDirectory() as folder:
            repository = self.repository_of_two_commits(Path(folder) / "repository")
            bench = harness.Bench(Path(folder) / "work")
            with mock.patch.object(harness, "REPOSITORY", repository):
                other = harness.bench_of_revision(bench, "HEAD~1")
                with self.assertRaises(Failed):
                    harness.bench_of_revision(bench, "no-such-revision")
            self.assertEqual((other.tree / "version").read_text(), "1")
            self.assertNotEqual((other.work, other.build), (bench.work, bench.build))
            self.assertEqual(other.data, bench.data)

    @staticmethod
    def repository_of_two_commits(folder):
        folder.mkdir()
        git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
        subprocess.run([*git, "init", "--quiet"], cwd=folder, check=True)
        for version in "12":
            (folder / "version").write_text(version)
            subprocess.run([*git, "add", "version"], cwd=folder, check=True)
            subprocess.run([*git, "commit", "--quiet", "--no-verify", "-m", version], cwd=folder, check=True)
        return folder


# Holds what a comparison holds, says so, and waits to be killed.
HOLDER = """
import subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from sweeper import holding
folder, mountpoint = sys.argv[2:]
process = subprocess.Popen(["sleep", "1000"])
with holding("folder", folder), holding("mount", mountpoint), holding("process", process.pid):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "none", mountpoint], stderr=subprocess.DEVNULL).returncode == 0
    print(process.pid, mounted, flush=True)
    time.sleep(1000)
"""


class SweeperTest(unittest.TestCase):
    def test_a_killed_comparison_leaves_nothing_behind(self):
        with tempfile.TemporaryDirectory() as work:
            folder, mountpoint = Path(work) / "folder", Path(work) / "mount"
            folder.mkdir()
            mountpoint.mkdir()
            holder = subprocess.Popen([sys.executable, "-B", "-c", HOLDER, ROOT / "bench", folder, mountpoint],
                                      stdout=subprocess.PIPE, text=True)
            sleeper, mounted = holder.stdout.readline().split()
            self.assertEqual(is_mounted(mountpoint), mounted == "True")  # not where this test may not mount
            holder.kill()
            holder.communicate()
            self.wait_until(lambda: not is_mounted(mountpoint))
            self.wait_until(lambda: not folder.exists())
            self.wait_until(lambda: not Path(f"/proc/{sleeper}").exists())

    def test_what_was_put_away_in_time_is_left_alone(self):
        with tempfile.TemporaryDirectory() as work:
            with sweeper.holding("folder", work):
                pass
            self.assertEqual(self.end_sweeper(), 0)
            self.assertTrue(Path(work).exists())

    @staticmethod
    def end_sweeper():
        """As the end of this program does it; the next holding() starts another."""
        ended = sweeper.the_sweeper()
        ended.end()
        sweeper.the_sweeper.cache_clear()
        return ended.process.returncode

    def wait_until(self, condition):
        deadline = time.monotonic() + 60  # a machine that is busy, not an expectation
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)


if __name__ == "__main__":
    unittest.main()
