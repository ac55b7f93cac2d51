# SPDX-License-Identifier: Apache-2.0
"""The wheel is built without a network, and the same file works under every CPython from 3.9 on that is here."""
import glob
import os
import re
import shutil
import subprocess
import sys
import unittest
import zipfile

import support

support.need("setuptools", "wheel", "pip")

SMOKE = """
import sys, headrace as hr
assert hr.__file__.startswith(sys.argv[1]), hr.__file__
data = hr.ImageFolder(sys.argv[2], ram="64M")
loader = hr.DataLoader(data, 8, shuffle=True, transform=[hr.RandomResizedCrop(8)], dtype="uint8", output="buffer")
print(sum(len(labels.tolist()) for _, labels in loader))
import pyexpat, ssl, zlib  # what needs the system's libraries finds them
ours = [line.split()[-1] for line in open("/proc/self/maps") if sys.argv[1] in line]
assert any("libcrypto-headrace" in path for path in ours), ours
system = [line.split()[-1] for line in open("/proc/self/maps") if "libcrypto.so" in line or "libexpat.so" in line]
assert not [path for path in system if sys.argv[1] in path], system
"""


def version_of(python):
    done = subprocess.run([python, "-c", "import sys; print(sys.version_info[:2] >= (3, 9), sys.version.split()[0])"],
                          capture_output=True, text=True)
    works, version = (done.stdout.split() + ["", ""])[:2]
    return version if works == "True" else None


def pythons():
    """One interpreter per version."""
    places = ["/usr/bin/python3*", "/usr/local/bin/python3*", os.path.expanduser("~/.pyenv/versions/*/bin/python3")]
    found = {version_of(python): python for place in places for python in glob.glob(place) if "config" not in python}
    return {version: python for version, python in found.items() if version}


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tree = support.WORK / "tree"  # pip leaves its build folder where the package is
        shutil.copytree(support.ROOT / "python", tree / "python", ignore=shutil.ignore_patterns("build", "*.egg-info"))
        shutil.copy(support.ROOT / "CMakeLists.txt", tree)
        done = subprocess.run([sys.executable, "-m", "pip", "wheel", ".", "--no-build-isolation", "--no-deps",
                               "--no-index", "-w", support.WORK / "dist"], cwd=tree / "python", capture_output=True,
                              text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        [cls.wheel] = (support.WORK / "dist").glob("*.whl")
        cls.installed = support.WORK / "installed"
        with zipfile.ZipFile(cls.wheel) as content:
            cls.names = content.namelist()
            for name in cls.names:  # as pip does, which keeps the permissions
                path = content.extract(name, cls.installed)
                os.chmod(path, content.getinfo(name).external_attr >> 16 | 0o600)

    def test_its_name_and_content(self):
        self.assertRegex(self.wheel.name, r"^headrace-[\d.]+-py3-none-linux_x86_64\.whl$")
        package = {f"headrace/{path.name}" for path in (support.ROOT / "python/headrace").glob("*.py")}
        package |= {"headrace/py.typed", "headrace/_bin/headrace", "headrace/_include/headrace/headrace.h",
                    "headrace/_lib/libheadrace.so.1"}
        others = [name for name in self.names if name not in package]
        self.assertEqual(package - set(self.names), set())
        known = (r"headrace/_lib/lib[\w.+-]+-headrace\.so[.\d]*", r"headrace-[\d.]+\.dist-info/(licenses/)?"
                 r"(METADATA|WHEEL|RECORD|entry_points\.txt|top_level\.txt|LICENSE)")
        self.assertEqual([name for name in others if not re.fullmatch("|".join(known), name)], [])
        size = self.wheel.stat().st_size
        print(f"{self.wheel.name}: {size / 1e6:.1f} MB, {len(self.names)} files")
        self.assertFalse([name for name in self.names if re.search(r"lib(c|resolv|stdc\+\+)[.-]", name)])

    def test_its_libraries_have_names_of_their_own(self):
        libraries = [os.path.basename(name) for name in self.names if name.startswith("headrace/_lib/")]
        self.assertEqual([name for name in libraries if "-headrace.so" not in name], ["libheadrace.so.1"])

    def test_it_holds_each_library_once(self):
        with zipfile.ZipFile(self.wheel) as content:
            sums = [entry.CRC for entry in content.infolist() if entry.filename.startswith("headrace/_lib/")]
        self.assertGreater(len(sums), 5)
        self.assertEqual(len(sums), len(set(sums)))

    def test_it_works_under_each_python_here(self):
        environment = {name: value for name, value in os.environ.items() if name != "HEADRACE_LIBRARY"}
        environment["PYTHONPATH"] = str(self.installed)
        found = pythons()
        self.assertTrue(found)
        for version, python in found.items():
            with self.subTest(version):
                done = subprocess.run([python, "-B", "-c", SMOKE, str(self.installed), support.synth("data", files=60)],
                                      capture_output=True, text=True, env=environment, cwd=support.WORK)
                self.assertEqual((done.stdout, done.stderr), ("60\n", ""))
        print("works under", ", ".join(sorted(found)))

    def test_it_carries_the_command(self):
        done = subprocess.run([sys.executable, "-B", "-c", "from headrace._command import main; main()", "--version"],
                              capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(self.installed)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("headrace", done.stdout)


if __name__ == "__main__":
    support.main()
