# SPDX-License-Identifier: Apache-2.0
"""The headrace command: the program that lies beside the package of a wheel, or the one on the PATH."""
import os
import subprocess
from pathlib import Path
from shutil import which
from typing import Dict, List, Tuple

# A daemon answers within milliseconds. One that is stopped must not stop the training.
_PATIENCE_SECONDS = 60


def find() -> Tuple[str, Dict[str, str]]:
    """The program, and the environment that it needs. Raises FileNotFoundError."""
    here = Path(__file__).resolve().parent
    environment = dict(os.environ)
    bundled = here / "_bin/headrace"
    if bundled.exists():
        libraries = [str(here / "_lib"), environment.get("LD_LIBRARY_PATH", "")]
        return str(bundled), {**environment, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries))}
    program = which("headrace")
    if program is None:
        raise FileNotFoundError("there is no headrace command on the PATH; it speaks to the mount")
    return program, environment


def run(arguments: List[str], given: str = "", patience_seconds: float = _PATIENCE_SECONDS) -> bytes:
    """What the command prints. Raises FileNotFoundError, HeadraceError with what it says on failure."""
    from . import _abi  # main() needs no library
    program, environment = find()
    done = subprocess.run([program, *arguments], input=given.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment, timeout=patience_seconds, check=False)
    if done.returncode != 0:
        raise _abi.HeadraceError(done.stderr.decode(errors="replace").strip() or f"{program} ended with "
                                 f"{done.returncode}")
    return done.stdout


def main() -> None:
    """The console script of the wheel."""
    import sys
    program, environment = find()
    os.execve(program, [program, *sys.argv[1:]], environment)
