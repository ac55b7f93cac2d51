# SPDX-License-Identifier: Apache-2.0
"""The headrace command of the wheel: runs the program that lies beside the package."""
import os
import sys
from pathlib import Path


def main() -> None:
    here = Path(__file__).resolve().parent
    libraries = [str(here / "_lib"), os.environ.get("LD_LIBRARY_PATH")]
    environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries))}
    program = here / "_bin/headrace"
    os.execve(program, [str(program), *sys.argv[1:]], environment)
