# SPDX-License-Identifier: Apache-2.0
"""What the tests here have in common: each is a program that is given a build folder.

    sys.exit(run(check))    # check(build, work) raises AssertionError, or CannotRun where the machine lacks something
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from sources import CannotRun  # noqa: E402
from sweeper import temporary_folder  # noqa: E402

SKIPPED = 77  # as ctest is told in tests/CMakeLists.txt


def run(check):
    """The exit status of check(build, work), whose work folder goes whatever happens."""
    with temporary_folder("headrace-end-to-end-") as work:
        try:
            check(Path(sys.argv[1]), work)
        except CannotRun as reason:
            print(f"skipped: {reason}")
            return SKIPPED
    return 0
