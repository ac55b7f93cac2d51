#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""bench/report: figures are kept and merged, what could not be measured says why, the pages say what was measured."""

import argparse
import contextlib
import importlib.machinery
import importlib.util
import io
import json
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
import parts  # noqa: E402
import render  # noqa: E402
import summary  # noqa: E402
from sources import CannotRun, Failed  # noqa: E402


def load_report():
    loader = importlib.machinery.SourceFileLoader("report", str(ROOT / "bench/report"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("report", loader))
    loader.exec_module(module)
    return module


report = load_report()
report.say = lambda line: None
MACHINE = {"processor": "abacus", "cores": 2, "memory_bytes": 2 ** 30, "kernel": "1.0", "version": "0.1",
           "revision": "r"}


def row(ratio, bound=False):
    run = {"samples": 100, "seconds": 1.0, "cpu_seconds": 0.5, "peak_bytes": 10 ** 6}
    variant = {"variant": "", "ratios": [ratio], "met": True, "runs": {"headrace": [run], "other": [run]}}
    return {"ratio": ratio, "bar": 1.0, "met": True, "bound": bound, "headrace_side": "ours", "other_side": "theirs",
            "variants": [variant]}


def peer(seconds):
    return {"first_batch": seconds, "epoch_seconds": [seconds] * 5, "memory_bytes": 0, "disk_bytes": 0,
            "cpu_seconds": 0, "samples": 10, "source_opens": 1, "source_reads": 1}


def part(**items):
    items = {name: {"revision": "r"} | figures for name, figures in items.items()}
    return {"items": items, "command": "bench/report --parts x", "date": "2026-01-01", "machine": MACHINE}


class MeasuringTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.kept = Path(folder.name) / "results.json"

    def measure(self, results, limit_minutes=1, **parts):
        """Runs report on planned parts: {part: {item: function}}."""
        planned = {name: lambda bench, arguments, items=items: list(items.items()) for name, items in parts.items()}
        arguments = argparse.Namespace(parts=list(parts), rounds=None, fault_minutes=1, scale_files=None,
                                       limit_minutes=limit_minutes)
        with mock.patch.object(report, "PARTS", planned), mock.patch.object(harness, "revision", lambda: "r"):
            report.measure_parts(None, arguments, results, self.kept)
        return json.loads(self.kept.read_text())

    def test_parts_that_are_not_measured_keep_their_figures(self):
        results = self.measure({}, scale={"one": lambda: {"n": 1}})
        results = self.measure(results, latency={"two": lambda: {"n": 2}})
        self.assertEqual(results["scale"]["items"], {"one": {"n": 1, "revision": "r"}})
        self.assertEqual(results["latency"]["items"], {"two": {"n": 2, "revision": "r"}})

    def test_rows_are_replaced_one_by_one_and_other_items_together(self):
        results = self.measure({}, rows={"a": lambda: {"n": 1}}, scale={"a": lambda: {"n": 1}})
        results = self.measure(results, rows={"b": lambda: {"n": 2}}, scale={"b": lambda: {"n": 2}})
        self.assertEqual(list(results["rows"]["items"]), ["a", "b"])
        self.assertEqual(list(results["scale"]["items"]), ["b"])

    def test_an_item_that_cannot_run_says_why_and_ends_no_other(self):
        def cannot():
            raise CannotRun("no such thing here")

        results = self.measure({}, scale={"one": cannot, "two": lambda: {"n": 2}})
        self.assertEqual(results["scale"]["items"], {"one": {"left_out": "no such thing here", "revision": "r"},
                                                     "two": {"n": 2, "revision": "r"}})

    def test_an_error_of_the_program_itself_costs_one_item(self):
        with contextlib.redirect_stderr(io.StringIO()) as printed:
            results = self.measure({}, scale={"one": lambda: [][0], "two": lambda: {"n": 2}})
        self.assertIn("IndexError", results["scale"]["items"]["one"]["left_out"])
        self.assertIn("Traceback", printed.getvalue())
        self.assertEqual(results["scale"]["items"]["two"]["n"], 2)

    def test_an_item_that_takes_too_long_is_left_out(self):
        results = self.measure({}, limit_minutes=0.001, scale={"one": lambda: time.sleep(1000)})
        self.assertIn("took longer", results["scale"]["items"]["one"]["left_out"])
        self.assertTrue(results["scale"]["items"]["one"]["failed"])

    def test_faults_are_given_the_minutes_that_were_asked_for(self):
        with mock.patch.object(sys, "argv", ["report", "--fault-minutes", "30"]):
            self.assertGreater(report.parse_arguments().limit_minutes, 30)

    def test_a_part_has_the_command_that_measures_it_again(self):
        results = self.measure({}, faults={"torture": lambda: {}})
        self.assertEqual(results["faults"]["command"], "bench/report --parts faults --fault-minutes 1")


class ScriptPartTest(unittest.TestCase):
    def rows_of(self, program):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "bench").mkdir()
            (Path(folder) / "bench/tool.py").write_text(program)
            bench = harness.Bench(Path(folder) / "work")
            with mock.patch.object(harness, "REPOSITORY", Path(folder)):
                return parts.run_script(bench, "tool")["rows"]

    def test_each_line_that_is_an_object_is_a_row(self):
        self.assertEqual(self.rows_of("print('said'); print('{\"n\": 1}'); print('{\"n\": 2}')"), [{"n": 1}, {"n": 2}])

    def test_what_was_printed_before_a_failure_stays_and_the_reason_is_a_row(self):
        rows = self.rows_of("import sys; print('{\"n\": 1}'); sys.exit('too hot')")
        self.assertEqual(rows, [{"n": 1}, {"name": "the rest", "left_out": "too hot"}])

    def test_a_program_that_prints_nothing_has_failed(self):
        with self.assertRaises(Failed):
            self.rows_of("")


class PageTest(unittest.TestCase):
    def page(self, **results):
        with tempfile.TemporaryDirectory() as folder:
            render.write_page(results, Path(folder))
            return (Path(folder) / "RESULTS.md").read_text()

    def test_where_another_way_is_faster_the_page_says_so(self):
        page = self.page(rows=part(lost=row(0.5), won=row(2.0), limit=row(0.9, bound=True)),
                         peers=part(**{"headrace, order given": peer(2), "sledge": peer(1)}))
        section = page.partition("## Where another way is faster")[2].partition("\n## ")[0]
        self.assertIn("`lost`", section)
        self.assertIn("sledge", section)
        self.assertNotIn("won", section)
        self.assertNotIn("limit", section)

    def test_every_file_system_that_is_faster_is_named(self):
        def system(cold, warm):
            return {state: {"rate": rate, "cpu_us": 1} for state, rate in (("cold", cold), ("warm", warm))} | {
                "memory_bytes": 0}

        items = {"headrace": system(2, 9), "plough": system(3, 1), "sledge": system(4, 1), "cart": system(1, 1)}
        section = self.page(**{"file-systems": part(**items)}).partition("## File systems")[0]
        self.assertIn("cold: sledge, plough.", section)
        self.assertNotIn("warm:", section)

    def test_latencies_are_in_a_table(self):
        items = {"one sample": {"ways": {"sledge": {"p50_us": 1, "p99_us": 2, "p999_us": 3}}},
                 "first batch": {"ways": {"sledge": {"mounted_s": 0.5, "first_batch_s": 1.5}}}}
        page = self.page(latency=part(**items))
        self.assertIn("| sledge | 1 us | 2 us | 3 us |", page)
        self.assertIn("| sledge | 0.50 s | 1.50 s |", page)

    def test_a_faster_decoder_is_named(self):
        rates = [{"name": name, "work": work, "threads": 1, "images_per_s": rate}
                 for name, work, rate in (("headrace", "full", 2.0), ("anvil", "full", 3.0), ("headrace", "crop", 2.0),
                                          ("anvil", "crop", 1.0))]
        section = self.page(decoders=part(rows={"rows": rates})).partition("## Image decoders")[0]
        self.assertEqual(section.count("anvil"), 1)
        self.assertIn("full", section)

    def test_what_was_left_out_is_on_the_page_with_its_reason(self):
        self.assertIn("- lost: no root", self.page(rows=part(lost={"left_out": "no root"}, won=row(2.0))))

    def test_a_printed_table_has_all_keys_and_names_what_is_missing(self):
        printed = [{"name": "a", "rate_s": 1234.5}, {"name": "b", "left_out": "none"}]
        page = self.page(learning=part(rows={"rows": printed}))
        self.assertIn("| a | 1234 |", page)
        self.assertIn("- b: none", page)

    def test_a_curve_is_on_the_page_with_its_plot(self):
        figures = {"title": "Shape", "x": "files", "y": "MB/s", "lines": {"ours": [[1, 5.0], [2, 9.0]]}}
        with tempfile.TemporaryDirectory() as folder:
            render.write_page({"curves": part(shape=figures)}, Path(folder))
            self.assertIn("plots/shape.svg", (Path(folder) / "RESULTS.md").read_text())
            self.assertIn("Shape", (Path(folder) / "plots/shape.svg").read_text())


class PublishedTest(unittest.TestCase):
    """The README and bench/RESULTS.md say what bench/results.json says."""

    def setUp(self):
        published = ROOT / "bench/results.json"
        self.results = json.loads(published.read_text()) if published.exists() else {}

    def test_the_readme_says_what_the_published_figures_say(self):
        self.assertEqual(summary.in_readme(ROOT / "README.md"), summary.results_text(self.results))

    def test_the_page_says_what_the_published_figures_say(self):
        page = ROOT / "bench/RESULTS.md"
        self.assertEqual(page.exists(), bool(self.results))
        with tempfile.TemporaryDirectory() as folder:
            if self.results:
                render.write_page(self.results, Path(folder))
                self.assertEqual(page.read_text(), (Path(folder) / "RESULTS.md").read_text())

    def test_the_figures_of_the_readme_are_replaced_and_nothing_else(self):
        results = {"rows": part(**{"mount-latency": row(2.0), "reader-source": row(0.9, bound=True), "scan": row(3.0)})}
        with tempfile.TemporaryDirectory() as folder:
            readme = Path(folder) / "README.md"
            readme.write_text((ROOT / "README.md").read_text())
            summary.write_into(readme, results)
            text = readme.read_text()
            self.assertIn("**2.0 times**", text)
            self.assertIn("**90 %**", text)
            self.assertIn("`bench/compare reader-source`", text)
            self.assertNotIn("bench/compare scan", text)
            self.assertNotIn("bench/compare mount-learned", text)
            summary.write_into(readme, self.results)
            self.assertEqual(readme.read_text(), (ROOT / "README.md").read_text())

    def test_without_figures_the_readme_says_how_to_get_them(self):
        self.assertIn("bench/report", summary.results_text({}))

    def test_a_revision_has_one_entry_in_the_history(self):
        with tempfile.TemporaryDirectory() as folder:
            history = Path(folder) / "history.json"
            for ratio in (1.0, 2.0):
                results = {"rows": part(won=row(ratio), old=row(3.0) | {"revision": "another"})}
                summary.add_to_history(results, history)
            self.assertEqual([entry["ratios"] for entry in json.loads(history.read_text())], [{"won": 2.0}])


if __name__ == "__main__":
    unittest.main()
