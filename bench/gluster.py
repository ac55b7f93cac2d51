# SPDX-License-Identifier: Apache-2.0
"""A distribute volume of Gluster over the nodes of a Lan: a brick and a mount on each.

    with Volume(lan.nodes, work) as volume:
        volume.fill(folder, names)
        read(volume.mounts[0] / name)

Each daemon has file systems of its own for what it keeps, so that several fit on one machine and nothing is left.
"""

import contextlib
import shutil
import subprocess
import time

from harness import process_tree
from nodes import in_node
from sources import CannotRun, Failed, end_process, unmount, wait_until_mounted
from sweeper import holding

NAME = "headrace"
PATIENCE_SECONDS = 60  # of its daemons, which take 5 s until all is there
PRIVATE = ("/run", "/var/lib/glusterd", "/var/log/glusterfs")
# As the first process of a PID namespace, so that the bricks' daemons end with it.
DAEMON = " && ".join([*(f"mount -t tmpfs none {path}" for path in PRIVATE), "exec glusterd --no-daemon"])


class Volume:
    def __init__(self, nodes, work):
        self.nodes = nodes
        self.work = work
        self.daemons = []
        self.clients = []
        self.mounts = []
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        for program in ("glusterd", "glusterfs", "unshare", "nsenter"):
            if shutil.which(program) is None:
                raise CannotRun(f"{program} is missing (the package glusterfs-server)")
        with contextlib.ExitStack() as stack:
            for node in self.nodes:
                self.daemons.append(self._start_daemon(stack, node))
            for node in self.nodes[1:]:
                self._gluster("peer", "probe", node.address)
            self._wait_for_peers()
            bricks = []
            for node in self.nodes:
                brick = self.work / f"brick{node.number}"
                brick.mkdir()
                stack.callback(shutil.rmtree, brick, ignore_errors=True)
                bricks.append(f"{node.address}:{brick}")
            self._gluster("volume", "create", NAME, "transport", "tcp", *bricks, "force")
            self._gluster("volume", "start", NAME)
            for node in self.nodes:
                self._mount(stack, node)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def fill(self, folder, names):
        for name in names:
            (self.mounts[0] / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / name, self.mounts[0] / name)

    def pids(self):
        """Whose processor time is the volume's."""
        return [process.pid for process in (*self.daemons, *self.clients)]

    @staticmethod
    def _start_daemon(stack, node):
        process = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                                    DAEMON], preexec_fn=node.enter, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        stack.enter_context(holding("process", process.pid))
        stack.callback(end_process, process)
        return process

    def _gluster(self, *words):
        """By the first node's daemon, which may not be ready yet."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            inner = [pid for pid in process_tree(self.daemons[0].pid) if pid != self.daemons[0].pid]
            command = ["nsenter", "--target", str(min(inner, default=0)), "--mount", "--net", "--pid", "gluster",
                       "--mode=script", *words]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode == 0:
                return done.stdout
            if time.monotonic() > deadline or self.daemons[0].poll() is not None:
                raise Failed(f"gluster {' '.join(words)}: {done.stdout.strip()}")
            time.sleep(0.5)

    def _wait_for_peers(self):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._gluster("peer", "status").count("Peer in Cluster (Connected)") < len(self.nodes) - 1:
            if time.monotonic() > deadline:
                raise Failed("Gluster's daemons do not find each other")
            time.sleep(0.5)

    def _mount(self, stack, node):
        path = self.work / f"gluster{node.number}"
        path.mkdir()
        stack.callback(path.rmdir)
        stack.enter_context(holding("mount", path))
        stack.callback(unmount, path)
        process = subprocess.Popen(["glusterfs", "--no-daemon", f"--volfile-server={node.address}",
                                    f"--volfile-id={NAME}", f"--log-file={self.work}/gluster{node.number}.log",
                                    str(path)], preexec_fn=node.enter, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        stack.enter_context(holding("process", process.pid))
        stack.callback(end_process, process)
        wait_until_mounted(path, process, "fuse")
        self.clients.append(process)
        self.mounts.append(path)
