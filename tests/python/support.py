# SPDX-License-Identifier: Apache-2.0
"""What the tests of the package share: python3 TEST.py BUILD [unittest's arguments]. Ends with 77 if it cannot run."""
import atexit
import contextlib
import faulthandler
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("HEADRACE_BUILD") or sys.argv.pop(1)).resolve()
os.environ["HEADRACE_BUILD"] = str(BUILD)
os.environ.setdefault("HEADRACE_LIBRARY", str(BUILD / "capi/libheadrace.so.1"))
for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
    os.environ.pop(name, None)
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "python"))


def need(*modules):
    """Skips the whole file where a module is not installed."""
    for module in modules:
        try:
            __import__(module)
        except ImportError as error:
            print(f"skipped: {error}")
            sys.exit(77)


WAIT_SECONDS = 60
HANGS_AFTER_SECONDS = 280
PROGRAM_SECONDS = 240  # of a program that a test starts; on a busy machine torch alone takes a minute of that

WORK = Path(tempfile.mkdtemp(prefix="headrace-python-"))
os.environ["HEADRACE_CACHE_DIR"] = str(WORK / "cache")  # indexes of JPEGs and catalogs of this test alone


@atexit.register
def _remove_work(process=os.getpid()):
    if os.getpid() == process:
        shutil.rmtree(WORK, ignore_errors=True)


def synth(name, files=203, classes=7):
    """A folder of JPEG files of that name, made at the first call."""
    folder = WORK / name
    if not folder.exists():
        subprocess.run([BUILD / "cli/headrace", "synth", folder, "--files", str(files), "--classes", str(classes)],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder


def run_script(text, **environment):
    """A Python program of its own, with the package at hand."""
    return subprocess.run([sys.executable, "-B", "-c", text], capture_output=True, text=True, timeout=PROGRAM_SECONDS,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **environment})


def wait_until(is_so, what, process=None):
    """For what nothing tells: the end of a thread in /proc, or how far another process is, which then has to live."""
    for _ in range(WAIT_SECONDS * 100):
        if is_so():
            return
        assert process is None or process.poll() is None, f"the process has ended before: {what}"
        time.sleep(0.01)
    raise AssertionError(f"waited {WAIT_SECONDS} s for: {what}")


def threads_of(process="self"):
    """The names of its threads. One that was joined may be there for a moment still."""
    names = []
    for path in Path(f"/proc/{process}/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            names.append(path.read_text().strip())
    return names


def launched(rank, ranks):
    """The environment that torchrun gives a process of one node. Its port is none that a connection may get."""
    for port in random.sample(range(20_000, 30_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            break
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "USE_LIBUV": "0"}  # Debian 13's torch asks for libuv and was built without it


def main():
    faulthandler.dump_traceback_later(HANGS_AFTER_SECONDS)  # says where, before ctest ends it
    unittest.main(verbosity=1)
