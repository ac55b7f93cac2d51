# SPDX-License-Identifier: Apache-2.0
"""The wheel: the package, libheadrace.so with the libraries that it needs, and the headrace command.

    /usr/bin/python3 -m pip wheel . --no-build-isolation --no-deps -w dist     # touches no network; needs patchelf

Nothing is compiled against Python, so one wheel serves every CPython from 3.9 on. HEADRACE_BUILD names a CMake build
folder to take the library from; without it the release preset is built.
"""
import os
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution
from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent.parent


def version():
    return re.search(r"project\(headrace VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        build = Path(os.environ.get("HEADRACE_BUILD") or ROOT / "build/release").resolve()
        if "HEADRACE_BUILD" not in os.environ:
            subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True)
            subprocess.run(["cmake", "--build", build, "--target", "headrace_capi", "headrace"], cwd=ROOT, check=True)
        subprocess.run(["cmake", "--install", build, "--component", "python", "--strip", "--prefix",
                        Path(self.build_lib).resolve()], check=True)
        libraries = Path(self.build_lib) / "headrace/_lib"
        keep_one_of_each(libraries)
        give_own_names(libraries, Path(self.build_lib) / "headrace/_bin/headrace")


def keep_one_of_each(folder):
    """The libraries under the names that programs look for; a wheel has no links, and would hold each one twice."""
    for link in [path for path in folder.iterdir() if path.is_symlink()]:
        library = link.resolve()
        link.unlink()
        library.rename(link)


def give_own_names(folder, program):
    """A process has one library of each name. With the system's names, an older libexpat or libcrypto of ours would be
    what Python's own pyexpat and ssl get, or the other way round."""
    if shutil.which("patchelf") is None:
        raise SystemExit("patchelf is missing, which a wheel needs: apt-get install patchelf")
    names = {path.name: path.name.replace(".so", "-headrace.so", 1) for path in folder.iterdir()
             if not path.name.startswith("libheadrace.so")}
    replaced = [word for old, new in sorted(names.items()) for word in ("--replace-needed", old, new)]
    for path in [*folder.iterdir(), program]:
        subprocess.run(["patchelf", *replaced, path], check=True)
        if path.name in names:  # each finds those that it needs beside itself
            own = folder / names[path.name]
            path.rename(own)
            subprocess.run(["patchelf", "--set-soname", own.name, "--set-rpath", "$ORIGIN", own], check=True)


class AnyPython(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False  # it has a library

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return True


setup(
    name="headrace",
    version=version(),
    description="Training samples are in memory, decoded and in order, before the loop asks for them",
    long_description=(ROOT / "python/README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.9",
    packages=["headrace"],
    package_data={"headrace": ["py.typed"]},
    entry_points={"console_scripts": ["headrace = headrace._command:main"]},
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": AnyPython},
    distclass=WithLibrary,
    zip_safe=False,
)
