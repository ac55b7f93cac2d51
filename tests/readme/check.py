#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Does what README.md says, as it is written there: check.py BUILD CXX (install|commands|orders)

  install    the packages named are the ones that .ci/packages lists, and the configure command works
  link       the C++ and CMake snippets build against an installed headrace, and the program runs
  commands   the headrace commands run, one after the other, with the paths replaced by small real ones
  orders     each order spec of the table is understood
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SKIPPED = 77


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands(first_word):
    """The commands in shell blocks that begin with a word; continued lines are joined."""
    lines = [line.strip() for block in blocks("sh") if not is_batch_script(block)
             for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.split(maxsplit=1)[:1] == [first_word]]


def run(command, **options):
    print("+", command if isinstance(command, str) else " ".join(map(str, command)), flush=True)
    subprocess.run(command, check=True, **options)


def need(found, what):
    if not found:
        sys.exit(f"README.md has no {what} any more: change this test with it")


def check_install(_build, _compiler, work):
    listed = set(re.findall(r"^(?:build|package)\s+(\S+)", (ROOT / ".ci/packages").read_text(), re.MULTILINE))
    named = {word for line in commands("apt-get") for word in shlex.split(line, comments=True)[2:]
             if not word.startswith(("-", "./"))}  # what is built here is no package of Debian
    need(named, "apt-get command")
    if named - listed:
        sys.exit(f"not in .ci/packages: {sorted(named - listed)}")
    configure = [line for line in commands("cmake") if "-B " in line]
    need(configure, "configure command")
    run(configure[0].replace("-B build/release", f"-B {work}/build"), shell=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def check_link(build, compiler, work):
    need(blocks("cpp") and blocks("cmake"), "C++ and CMake snippets")
    run(["cmake", "--install", build, "--prefix", work / "prefix"], stdout=subprocess.DEVNULL)
    data = make_data(work)
    for number, (program, link) in enumerate(zip(blocks("cpp"), blocks("cmake"))):
        project = work / f"project-{number}"
        project.mkdir()
        (project / "trainer.cpp").write_text(program)
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(trainer LANGUAGES CXX)\n"
            "add_executable(trainer trainer.cpp)\n"
            "target_compile_options(trainer PRIVATE -Wall -Wextra -Werror -Wno-missing-field-initializers)\n" + link)
        run(["cmake", "-S", project, "-B", project / "build", "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={compiler}",
             f"-DCMAKE_PREFIX_PATH={work / 'prefix'}"], stdout=subprocess.DEVNULL)
        run(["cmake", "--build", project / "build"])
        run([project / "build/trainer", data])


def make_data(work):
    data = work / "imagenet"
    for label in ("cat", "dog"):
        (data / label).mkdir(parents=True)
        for number in range(4):
            (data / label / f"{number}.jpg").write_bytes(os.urandom(5000))
    return data


def check_commands(build, _compiler, work):
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        print("skipped: mounting needs root and /dev/fuse here")
        sys.exit(SKIPPED)
    need(commands("headrace"), "headrace commands")
    make_data(work)
    (work / "mnt").mkdir()
    environment = own_environment(build, work)
    places = own_places(work)
    mount = next(line for line in commands("headrace") if " mount " in line)
    try:
        mounted = False
        for line in commands("headrace"):
            needs_mount = "/mnt/imagenet" in line
            if mounted and " mount " in line:
                run(["headrace", "unmount", "--force", work / "mnt"], env=environment)
            if needs_mount and not mounted and " mount " not in line:
                run(replace(mount, places), shell=True, env=environment)
            run(replace(line, places), shell=True, env=environment)
            if needs_mount:
                mounted = " unmount " not in line
        run(["headrace", "unmount", "--force", work / "mnt"], env=environment)
        os.rmdir(work / "mnt")  # an emptyDir has no folder in it, and neither has a new node
        run(replace(pod_command(), places), shell=True, env=environment)
        run(["headrace", "unmount", "--force", work / "mnt"], env=environment)
        os.rmdir(work / "mnt")
        check_batch_script(build, work, places)
        source, point, options = fstab_line()
        run(replace(f"sh {build}/reference/mount.headrace {source} {point} -o {options}", places), shell=True,
            env=dict(environment, HEADRACE=str(build / "cli/headrace")))
        run(["headrace", "unmount", "--force", work / "mnt"], env=environment)
    finally:
        subprocess.run(["umount", "--lazy", work / "mnt"], check=False, stderr=subprocess.DEVNULL)


def own_environment(build, work):
    own = {f"HEADRACE_{name}_DIR": str(work / name.lower()) for name in ("RUNTIME", "CACHE", "LOG")}
    return dict(os.environ, **own, PATH=f"{build / 'cli'}:{os.environ['PATH']}", SLURM_NODEID="0")


def own_places(work):
    return {"/data/imagenet": work / "imagenet", "/mnt/imagenet": work / "mnt", "/nvme/headrace": work / "ssd",
            "200G": "64M", "16G": "64M", "25%": "64M", "-- torchrun train.py": "-- sh -c 'cat \"$0\"/*/* | wc -c'"}


def pod_command():
    """What the Kubernetes recipe starts, in the background here."""
    listed = re.search(r"command: \[sh, -c, (mkdir [^]]* headrace mount [^]]*)\]", "".join(blocks("yaml")))
    need(listed, "headrace command in a pod")
    return listed[1].replace(" --foreground", "").replace("exec ", "")


def is_batch_script(block):
    return "#SBATCH" in block


def batch_script():
    scripts = [block for block in blocks("sh") if is_batch_script(block)]
    need(scripts, "Slurm script")
    return scripts[0]


def check_batch_script(build, work, places):
    """The Slurm script as printed, with nothing to mount at; srun runs its command once for each of two nodes."""
    stand_ins = {"scontrol": "echo node-1\necho node-2\n",
                 "srun": 'for SLURM_NODEID in 0 1; do export SLURM_NODEID; "$@"; done\n',
                 "torchrun": f'for path; do :; done\ncat "$path"/*/* | wc -c >>{work}/read\n'
                             f'echo "$@" >>{work}/torchrun\nheadrace order show "$path" >>{work}/orders\n'
                             f'headrace peers "$path" >{work}/peers\n'}
    for name, script in stand_ins.items():
        path = work / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh -e\n" + script)
        path.chmod(0o755)
    environment = own_environment(build, work)
    environment["PATH"] = f"{work / 'bin'}:{environment['PATH']}"
    environment["SLURM_JOB_NODELIST"] = "node-[1-2]"
    run(["bash", "-e"], input=replace(batch_script(), places), text=True, env=environment)
    read = [int(line) for line in (work / "read").read_text().split()]
    assert read == [40000, 40000], f"the two nodes read {read} bytes"
    orders = (work / "orders").read_text()
    assert "rank=0-7" in orders and "rank=8-15" in orders, orders
    assert "--rdzv-endpoint=node-1:29500" in (work / "torchrun").read_text()
    assert not os.path.ismount(work / "mnt"), "it is mounted still"
    # With what the README says to add, so that the nodes share. Nobody has their names here.
    adds = {"srun bash": f"headrace peers init {work}/job-17\nsrun bash",
            "/mnt/imagenet --ram": f"/mnt/imagenet --peers slurm --share 64G --peer-tls {work}/job-17 --ram"}
    for word in ("--peers slurm --share 64G", "headrace peers init ~/job-", "--peer-tls ~/job-"):
        need(word in README, f"{word} for Slurm")
    run(["bash", "-e"], input=replace(replace(batch_script(), adds), places), text=True, env=environment)
    peers = (work / "peers").read_text()
    assert "node-1:11311" in peers and "node-2:11311" in peers, peers


def fstab_line():
    line = re.search(r"`(\S+) (\S+) headrace (\S+) 0 0`", README)
    need(line, "line for /etc/fstab")
    return line.groups()


def replace(text, places):
    for old, new in places.items():
        text = text.replace(old, str(new))
    return text


def check_orders(build, _compiler, work):
    data = make_data(work)
    (work / "list").write_text("3\n1\n2\n")
    specs = re.findall(r"^\| `([^`]+)` \|", README.partition("## Orders")[2].partition("\n## ")[0], re.MULTILINE)
    need(specs, "table of orders")
    for spec in specs:
        plain = re.sub(r"\[[^\[\]]*\]", "", spec).replace("PATH", str(work / "list"))
        run([build / "cli/headrace", "order", data, "--order", plain], stdout=subprocess.DEVNULL)


def check_recipes(build, _compiler, work):
    """The table's options make an order of a data set; the pod and the config file are what they should be."""
    make_data(work)
    (work / "mnt").mkdir()
    environment = own_environment(build, work)
    table = README.partition("## Recipes")[2].partition("\n## ")[0]
    options = re.findall(r"^\| [^`|].*\| `((?:--listing|--order) [^`]+)` \|$", table, re.MULTILINE)
    need(len(options) >= 7, "table of recipes")
    for words in options:
        run(["headrace", "order", work / "imagenet", *words.split()], env=environment, stdout=subprocess.DEVNULL)
    for script in blocks("sh"):
        run(["bash", "-n"], input=script, text=True)
    need(blocks("toml"), "config file")
    (work / "train.toml").write_text(replace(blocks("toml")[0], own_places(work)))
    run(["headrace", "config", "check", work / "train.toml"], env=environment)
    try:
        import yaml
    except ImportError:
        print("not checked without python3-yaml: the pod's syntax")
    else:
        need(yaml.safe_load(blocks("yaml")[0])["kind"] == "Pod", "pod")


def check_mentions(build, _compiler, work):
    """Commands and options that the text names in passing exist."""
    environment = own_environment(build, work)
    mentions = re.findall(r"`headrace ([a-z][^`]*)`", README)
    need(mentions, "commands in its text")
    for mention in mentions:
        words = [word for word in mention.split() if not word.startswith(("/", "-")) and not word.isupper()]
        command = words[:2] if words[0] in ("order", "config", "tier", "cache") else words[:1]
        help_text = subprocess.run(["headrace", *command, "--help"], check=True, env=environment, text=True,
                                   stdout=subprocess.PIPE).stdout
        unknown = [option for option in re.findall(r"--[a-z-]+", mention) if option not in help_text]
        need(not unknown, f"option {unknown} of headrace {' '.join(command)}")


def main():
    build, compiler, what = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    checks = {"install": check_install, "link": check_link, "commands": check_commands, "orders": check_orders,
              "recipes": check_recipes, "mentions": check_mentions}
    with tempfile.TemporaryDirectory(prefix="headrace-readme-") as work:
        checks[what](build, compiler, Path(work))


if __name__ == "__main__":
    main()
