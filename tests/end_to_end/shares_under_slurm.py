#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A job of Slurm shares what its three nodes read, by srun and `--peers slurm`, with TLS: shares_under_slurm.py BUILD

Slurm itself (slurmctld, slurmd, munged) runs in three network namespaces, each of which has a host name of its own.
Where it is not installed this is skipped; no list of packages has it, because it starts services.
"""

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True

from script_test import run  # noqa: E402, before the modules of bench, which it makes known
from harness import PYTHON, Bench  # noqa: E402
from nodes import SUBNET, Lan  # noqa: E402
from sources import CannotRun, end_process, unmount  # noqa: E402
from sweeper import holding  # noqa: E402

NODES, EPOCHS, FILES = 3, 3, 300
READER = Path(__file__).resolve().parents[2] / "bench" / "checked_reader.py"
PATIENCE_SECONDS = 200
ORDER = "torch-distributed:seed=0,replicas=3,rank=$SLURM_NODEID"

CONFIGURATION = """ClusterName=headrace
SlurmctldHost=n1({subnet}.1)
AuthType=auth/munge
AuthInfo=socket={work}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmUser=root
StateSaveLocation={work}/state
SlurmdSpoolDir={work}/spool-%n
SlurmdPidFile={work}/slurmd-%n.pid
SlurmctldPidFile={work}/slurmctld.pid
SlurmctldLogFile={work}/slurmctld.log
SlurmdLogFile={work}/slurmd-%n.log
SelectType=select/linear
MpiDefault=none
NodeName=n[1-3] CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""

# What the README says for Slurm, with a reader that compares each byte for the training. A node waits for the others
# before it unmounts: its memcached ends with its mount.
JOB = """#!/bin/bash
#SBATCH --nodes=3 --ntasks-per-node=1 --output={work}/job.out
{headrace} peers init {work}/job-$SLURM_JOB_ID
srun bash -ec '
  mkdir -p {work}/mnt-$SLURM_NODEID
  {headrace} mount {data} {work}/mnt-$SLURM_NODEID --ram 24M --order {order} \\
    --peers slurm --share 64M --peer-tls {work}/job-$SLURM_JOB_ID
  trap "{headrace} unmount --force {work}/mnt-$SLURM_NODEID" EXIT
  for epoch in $(seq 0 {last_epoch}); do
    {headrace} order {data} --order {order} --epoch $epoch >{work}/list-$SLURM_NODEID
    {python} {reader} {work}/mnt-$SLURM_NODEID {work}/list-$SLURM_NODEID {data} >{work}/read-$SLURM_NODEID-$epoch
    touch {work}/done-$SLURM_NODEID-$epoch
    for node in 0 1 2; do until [ -e {work}/done-$node-$epoch ]; do sleep 0.1; done; done
  done
  {headrace} stat {work}/mnt-$SLURM_NODEID --json >{work}/stat-$SLURM_NODEID'
"""


class Slurm:
    def __init__(self, stack, work):
        self.stack, self.work = stack, work
        for program in ("slurmctld", "slurmd", "srun", "munged", "memcached", "unshare"):
            if shutil.which(program) is None:
                raise CannotRun(f"{program} is missing")
        (work / "hosts").write_text("127.0.0.1 localhost\n" +
                                    "".join(f"{SUBNET}.{number} n{number}\n" for number in range(1, NODES + 1)))
        (work / "state").mkdir()
        (work / "slurm.conf").write_text(CONFIGURATION.format(work=work, subnet=SUBNET))
        (work / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # which is not used, but looked for
        key = work / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self._keep(subprocess.Popen(["munged", "--foreground", "--force", "--key-file", key, "--socket",
                                     work / "munge.socket", "--pid-file", work / "munge.pid", "--log-file",
                                     work / "munged.log", "--seed-file", work / "munge.seed"]))
        self.lan = stack.enter_context(Lan(NODES))
        wait_until((work / "munge.socket").exists, "munged does not listen")
        self._keep(self._on(self.lan.nodes[0], "slurmctld", "-D"))
        for node in self.lan.nodes:
            self._keep(self._on(node, "slurmd", "-D"))
        wait_until(lambda: self.ask("sinfo", "--noheader", "--format=%T %D").split() == ["idle", str(NODES)],
                   "Slurm's nodes are not ready")

    def ask(self, *words):
        """What a command of Slurm's prints on the first node."""
        return self._on(self.lan.nodes[0], *words, stdout=subprocess.PIPE, text=True).communicate()[0]

    def _on(self, node, *words, **options):
        script = (f"hostname n{node.number} && mount --bind {self.work}/hosts /etc/hosts && "
                  f"SLURM_CONF={self.work}/slurm.conf exec \"$@\"")
        command = ["unshare", "--uts", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *words]
        return subprocess.Popen([str(word) for word in command], preexec_fn=node.enter, **options)

    def _keep(self, process):
        self.stack.enter_context(holding("process", process.pid))
        self.stack.callback(end_process, process)


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def fill(data):
    generator = random.Random(1)
    for number in range(FILES):
        file = data / f"class{number % 10}" / f"{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(generator.randbytes(generator.randint(50_000, 150_000)))


def check(build, work):
    work = Path(work)
    work.chmod(0o755)  # munged wants to be found by all
    bench = Bench(work / "bench", build)
    fill(work / "data")
    with contextlib.ExitStack() as stack:
        slurm = Slurm(stack, work)
        for number in range(NODES):
            stack.callback(unmount, work / f"mnt-{number}")
        job = work / "job"
        job.write_text(JOB.format(work=work, data=work / "data", headrace=bench.program("headrace").resolve(),
                                  order=ORDER, python=PYTHON, reader=READER, last_epoch=EPOCHS - 1))
        slurm.ask("sbatch", job)
        wait_until(lambda: (work / "job.out").exists() and not slurm.ask("squeue", "--noheader").strip(),
                   "the job does not end")
        print((work / "job.out").read_text())
    reads = [json.loads(file.read_text()) for file in work.glob("read-*")]
    assert len(reads) == NODES * EPOCHS, "not every node has read every epoch"
    assert sum(read["samples"] for read in reads) == FILES * EPOCHS
    assert not any(read["failed"] or read["wrong"] for read in reads), reads
    stats = [json.loads((work / f"stat-{node}").read_text())["store"] for node in range(NODES)]
    hits = [{tier["kind"]: tier["hits"] for tier in stat["tiers"]} for stat in stats]
    assert all({peer["name"] for peer in stat["peers"]} == {f"n{n}:11311" for n in (1, 2, 3)} for stat in stats), stats
    assert all(hit["shared"] > 0 for hit in hits), hits
    # Each epoch anew would be three times; a busy machine makes a peer late, and the source is read.
    assert sum(hit["source"] for hit in hits) < 1.5 * FILES, hits


if __name__ == "__main__":
    sys.exit(run(check))
