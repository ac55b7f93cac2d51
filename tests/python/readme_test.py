# SPDX-License-Identifier: Apache-2.0
"""Every Python snippet of python/README.md and python/FRAMEWORKS.md runs as it stands, with FOLDER and OUTPUT set.

A framework that is not installed is stood in for by a stub (framework_stubs.py).
"""
import re
import unittest

import support
from headrace.delivery import has_module

import framework_stubs

PAGES = {name: (support.ROOT / "python" / name).read_text() for name in ("README.md", "FRAMEWORKS.md")}
SNIPPETS = [(name, number, text) for name, page in PAGES.items()
            for number, text in enumerate(re.findall(r"```python\n(.*?)```", page, re.DOTALL))]


class ReadmeTest(unittest.TestCase):
    def test_there_are_snippets(self):
        for name, page in PAGES.items():
            self.assertGreaterEqual(page.count("```python"), 5, name)
        for framework in framework_stubs.MAKERS:
            self.assertTrue([text for _, _, text in SNIPPETS if f"import {framework}" in text], framework)

    def test_the_pages_name_each_other(self):
        self.assertIn("(FRAMEWORKS.md)", PAGES["README.md"])


def make_test(snippet):
    def test(self):
        missing = [name for name in ("torch", "numpy", "torchvision")
                   if f"import {name}" in snippet and not has_module(name)]
        if missing:
            self.skipTest(f"not installed: {missing[0]}")
        lines = ["import sys", f"sys.path.append({str(support.ROOT / 'tests/python')!r})", "import framework_stubs",
                 f"FOLDER, OUTPUT = {str(support.synth('data'))!r}, {str(support.WORK / 'output')!r}"]
        lines += [f"framework_stubs.stand_in_for({name!r})" for name in framework_stubs.MAKERS
                  if f"import {name}" in snippet]
        alone = support.launched(0, 1) if "init_process_group" in snippet else {}
        done = support.run_script("\n".join([*lines, snippet]), **alone)
        self.assertEqual((done.returncode, done.stderr), (0, ""), snippet)

    return test


for page, number, text in SNIPPETS:
    setattr(ReadmeTest, f"test_snippet_{number}_of_{page.partition('.')[0].lower()}", make_test(text))

if __name__ == "__main__":
    support.main()
