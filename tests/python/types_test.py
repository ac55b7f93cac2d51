# SPDX-License-Identifier: Apache-2.0
"""The package's types hold for mypy --strict, and so do those of a program that uses it."""
import subprocess
import sys
import unittest

import support
support.need("mypy")

PROGRAM = '''
from typing import Dict, List
import headrace as hr

data = hr.ImageFolder("/data", ram="1G")
with hr.DataLoader(data, 8, shuffle=True, transform=[hr.RandomResizedCrop(32)]) as loader:
    names: List[str] = data.classes
    for batch in loader.batches():
        states: List[str] = batch.states
    state: Dict[str, object] = loader.state_dict()
'''


def mypy(*arguments):
    # Without torch and numpy, whose own types take minutes to read.
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-site-packages", "--ignore-missing-imports",
                           "--cache-dir", str(support.WORK / "types"), *arguments], capture_output=True, text=True,
                          cwd=support.ROOT / "python")


class TypesTest(unittest.TestCase):
    def test_the_package_holds(self):
        for version in ("3.9", "3.13"):  # the oldest that the wheel is for, and that of Debian 13
            with self.subTest(version):
                done = mypy("--python-version", version, "headrace")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_program_sees_the_types(self):
        program = support.WORK / "program.py"
        program.write_text(PROGRAM)
        done = mypy(str(program))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        program.write_text(PROGRAM.replace("names: List[str]", "names: int"))
        done = mypy(str(program))
        self.assertIn('variable has type "int"', done.stdout)
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    support.main()
