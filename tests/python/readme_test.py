# SPDX-License-Identifier: Apache-2.0
"""Every Python snippet of python/README.md runs as it stands, with FOLDER set."""
import re
import unittest

import support
from headrace.delivery import has_module

SNIPPETS = re.findall(r"```python\n(.*?)```", (support.ROOT / "python/README.md").read_text(), re.DOTALL)


class ReadmeTest(unittest.TestCase):
    def test_there_are_snippets(self):
        self.assertGreaterEqual(len(SNIPPETS), 4)

    def test_the_change_to_a_training_is_small(self):
        diff = re.search(r"```diff\n(.*?)```", (support.ROOT / "python/README.md").read_text(), re.DOTALL).group(1)
        self.assertLessEqual(len(diff.splitlines()), 15)


def make_test(snippet):
    def test(self):
        missing = [name for name in ("torch", "numpy") if f"import {name}" in snippet and not has_module(name)]
        if missing:
            self.skipTest(f"not installed: {missing[0]}")
        done = support.run_script(f"FOLDER = {str(support.synth('data'))!r}\n{snippet}")
        self.assertEqual((done.returncode, done.stderr), (0, ""), snippet)

    return test


for number, text in enumerate(SNIPPETS):
    setattr(ReadmeTest, f"test_snippet_{number}", make_test(text))

if __name__ == "__main__":
    support.main()
