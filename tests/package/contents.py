#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages hold what they should, each file once, and work from where they are unpacked: contents.py BUILD

Needs neither root nor a network. tests/package/run installs them in a clean system.
"""
import gzip
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which

SOURCE = Path(__file__).resolve().parents[2]
MODULES = "/usr/lib/python3/dist-packages/headrace"
# Of each package: some of what it has, and what all of it looks like.
HOLDS = {
    "headrace": (["/usr/bin/headrace", "/usr/sbin/mount.headrace", "/usr/share/man/man1/headrace.1",
                  "/usr/share/man/man5/headrace.toml.5", "/usr/share/man/man8/mount.headrace.8",
                  "/usr/share/fish/vendor_completions.d/headrace.fish",
                  "/usr/lib/systemd/system/headrace@.service",
                  "/usr/lib/systemd/system/headrace-metrics.service",
                  "/usr/lib/systemd/user/headrace@.service", "/etc/logrotate.d/headrace",
                  "/usr/share/doc/headrace/examples/train.toml"],
                 r"/(usr/(s?bin|share|lib/systemd/(system|user))/.*|etc/logrotate.d/headrace)"),
    "libheadrace1": (["/usr/lib/libheadrace.so.1"], r"/usr/lib/libheadrace\.so\.1(\.[0-9.]+)?"),
    "libheadrace-dev": (["/usr/lib/libheadrace.so", "/usr/include/headrace/headrace.h", "/usr/lib/libheadrace_io.a",
                         "/usr/lib/pkgconfig/headrace.pc"],
                        r"/usr/(include/headrace/.*\.h|lib/(libheadrace.*\.(a|so)|cmake/headrace/.*|pkgconfig/.*))"),
    "python3-headrace": ([f"{MODULES}/{path.name}" for path in (SOURCE / "python/headrace").iterdir()
                          if path.suffix in (".py", ".typed")], MODULES + r"/(\w+\.py|py\.typed)"),
}
SMOKE = """
import sys, headrace as hr
from headrace import _command
assert hr.__file__.startswith(sys.argv[1]), hr.__file__
with open("/proc/self/maps") as maps:
    assert sys.argv[1] + "/usr/lib/libheadrace.so.1" in maps.read()
_command.run(["synth", sys.argv[1] + "/photos", "--files", "10", "--classes", "2"])
data = hr.ImageFolder(sys.argv[1] + "/photos", ram="64M")
loader = hr.DataLoader(data, 4, shuffle=True, transform=[hr.RandomResizedCrop(8)], dtype="uint8", output="buffer")
print(sum(len(labels.tolist()) for _, labels in loader))
"""


def output_of(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def files_of(package):
    """The paths of what is no folder; a link without what it leads to."""
    lines = output_of("dpkg-deb", "--contents", package).splitlines()
    return [line.split(None, 5)[5].split(" -> ")[0][1:] for line in lines if not line.startswith("d")]


def check_contents(packages):
    owners = {}
    for name, path in packages.items():
        files = files_of(path)
        some, all_of_them = HOLDS[name]
        documents = [f"/usr/share/doc/{name}/{file}" for file in ("copyright", "changelog.gz")]
        missing = [file for file in some + documents if file not in files]
        strange = [file for file in files if file not in documents and not re.fullmatch(all_of_them, file)]
        assert not missing and not strange, f"{name}: missing {missing}, strange {strange}"
        for file in files:
            assert file not in owners, f"{file} is in {owners[file]} and in {name}"
            owners[file] = name
        print(f"{name}: {len(files)} files, {os.path.getsize(path)} bytes")


def check_dependencies(packages):
    for name in ("libheadrace-dev", "python3-headrace"):
        depends = output_of("dpkg-deb", "--field", packages[name], "Depends")
        assert "libheadrace1 (= " in depends, depends
    check_release(packages)
    assert "libheadrace 1 libheadrace1" in output_of("dpkg-deb", "--info", packages["libheadrace1"], "shlibs")
    assert output_of("dpkg-deb", "--field", packages["python3-headrace"], "Architecture") == "all\n"


def check_release(packages):
    """The packages are for the release that they are built on: their names of libraries are those of this machine."""
    system = dict(re.findall(r'(?m)^(\w+)="?([^"\n]*)"?$', Path("/etc/os-release").read_text()))
    release = system["ID"] + system.get("VERSION_ID", "")
    for name, package in packages.items():
        version = output_of("dpkg-deb", "--field", package, "Version").strip()
        depends = output_of("dpkg-deb", "--field", package, "Depends").strip()
        assert version.endswith("-1~" + release), version
        others = [word.split()[0] for word in depends.split(", ") if not word.startswith("libheadrace1 ")]
        output_of("dpkg-query", "--show", *others)  # fails where one of them is not installed
        if name == "headrace":
            assert any(word.startswith("libfuse3-") for word in others), depends


def check_documents(root):
    doc = f"{root}/usr/share/doc/headrace"
    with gzip.open(f"{doc}/changelog.gz", "rt") as log:
        assert "[Unreleased]" in log.read()
    with open(f"{doc}/copyright") as text:
        assert "Apache-2.0" in text.read()
    # All but its paths, which this machine does not have, is right.
    with open(f"{doc}/examples/train.toml") as example:
        text = re.sub("(?m)^# (?=ssd|order)", "", example.read()).replace("/nvme/headrace:200G", f"{root}/tier:64M")
    for path in ("/data/imagenet", "/mnt/imagenet"):
        os.makedirs(root + path, exist_ok=True)
        text = text.replace(path, root + path)
    Path(f"{root}/train.toml").write_text(text)
    Path(f"{root}/data/imagenet/1.jpg").write_text("x")
    output_of(f"{root}/usr/bin/headrace", "config", "check", f"{root}/train.toml")


def check_rotation(packages, root):
    """A log that is rotated while a daemon adds to it loses nothing, and goes on from its start."""
    conffiles = output_of("dpkg-deb", "--info", packages["headrace"], "conffiles")
    assert conffiles == "/etc/logrotate.d/headrace\n", conffiles
    if which("logrotate") is None:
        return print("logrotate is not installed: the log was not rotated")
    folder = Path(root, "var/log/headrace")
    folder.mkdir(parents=True)
    rules = Path(root, "logrotate")
    rules.write_text(Path(root, "etc/logrotate.d/headrace").read_text().replace("/var/log", f"{root}/var/log"))
    log = folder / "mnt.log"
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w") as daemon:
        print("before", file=daemon, flush=True)
        subprocess.run(["logrotate", "--force", "--state", f"{root}/state", rules], check=True)
        print("after", file=daemon, flush=True)
    assert log.read_text() == "after\n", log.read_text()
    with gzip.open(f"{log}.1.gz", "rt") as old:
        assert old.read() == "before\n"


def check_python(packages, root):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    environment.update(PYTHONPATH=f"{root}/usr/lib/python3/dist-packages", LD_LIBRARY_PATH=f"{root}/usr/lib",
                       PATH=f"{root}/usr/bin:{os.environ['PATH']}", HEADRACE_CACHE_DIR=f"{root}/cache")
    said = output_of("/usr/bin/python3", "-B", "-c", SMOKE, root, env=environment)
    assert said == "10\n", said


def packing(build, work):
    """README.md's command, for another build and into another folder."""
    command = re.search("(?m)^cpack .*$", (SOURCE / "README.md").read_text())[0]
    command = command.replace("build/release/packages", work).replace("build/release", str(build))
    return [*command.split(), "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip"]  # quicker than xz


def main():
    for program in ("cpack", "dpkg-deb", "dpkg-shlibdeps"):
        if which(program) is None:
            print(f"skipped: no {program}")
            return 77
    with tempfile.TemporaryDirectory(prefix="headrace-packages-") as work:
        subprocess.run(packing(Path(sys.argv[1]).resolve(), work), cwd=work, check=True, stdout=subprocess.DEVNULL)
        packages = {path.name.split("_")[0]: str(path) for path in Path(work).glob("*.deb")}
        assert sorted(packages) == sorted(HOLDS), packages
        check_contents(packages)
        check_dependencies(packages)
        root = os.path.realpath(work) + "/root"
        for name in ("headrace", "libheadrace1", "python3-headrace"):
            subprocess.run(["dpkg-deb", "--extract", packages[name], root], check=True)
        check_documents(root)
        check_rotation(packages, root)
        check_python(packages, root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
