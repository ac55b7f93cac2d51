# SPDX-License-Identifier: Apache-2.0
"""Several nodes on one machine: network namespaces that a bridge joins, a memcached and a mount in each.

    with Lan(3, rate="1gbit") as lan:
        with Peer(lan.nodes[0], megabytes=64) as peer:           # memcached at 10.91.0.1:11311
            with Mount(bench, source, "--peers", ..., preexec_fn=lan.nodes[0].enter):
                ...
        lan.nodes[0].unplug()

Files are those of the machine: what the nodes have of their own is the network.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from sources import READY_SECONDS, CannotRun, Failed, end_process, need_root
from sweeper import delete_namespace, holding

NET_OF = Path("/run/netns")
CLONE_NEWNET = 0x40000000  # linux/sched.h
SUBNET = "10.91.0"
PORT = 11311
# What a switch's queue would hold of a shaped link: 10 ms of 1 Gb/s.
BURST, LATENCY = "256kb", "50ms"
# Linux's own default. What this machine was told to use may be another one: six streams of bbr beside each other fill
# 0.84 to 0.95 of these links, six of cubic 0.93 to 0.95.
CONGESTION_CONTROL = "cubic"


def ip(*words, namespace=None):
    command = ["ip", *(["-n", namespace] if namespace else []), *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: {done.stdout.strip()}")
    return done.stdout


class Node:
    """One namespace with a cable to the bridge."""

    def __init__(self, number, namespace, bridge):
        self.number = number
        self.namespace = namespace
        self.bridge = bridge
        self.address = f"{SUBNET}.{number}"
        self.peer = f"{self.address}:{PORT}"

    def enter(self):
        """Puts the calling process, which must have one thread, into the node; fits preexec_fn."""
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = os.open(NET_OF / self.namespace, os.O_RDONLY | os.O_CLOEXEC)
        if libc.setns(descriptor, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        os.close(descriptor)

    def unplug(self):
        """Packets vanish from now on, and nobody is told."""
        ip("link", "set", f"to{self.number}", "nomaster", namespace=self.bridge)

    def plug(self):
        ip("link", "set", f"to{self.number}", "master", "lan", namespace=self.bridge)


class Lan:
    """`count` nodes and the bridge, which has a namespace of its own. `rate`: of each node's link, in both directions;
    none: as fast as the processors are. `mtu`: bytes of a packet; none: 1500."""

    def __init__(self, count, rate=None, mtu=None):
        self.count = count
        self.rate = rate
        self.mtu = mtu or 1500
        self.nodes = []
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        need_root("make network namespaces")
        if shutil.which("ip") is None:
            raise CannotRun("the package iproute2 is missing")
        with contextlib.ExitStack() as stack:
            bridge = self._namespace(stack, "lan")
            ip("link", "add", "lan", "type", "bridge", "stp_state", 0, "forward_delay", 0, namespace=bridge)
            ip("link", "set", "lan", "up", namespace=bridge)
            for number in range(1, self.count + 1):
                self.nodes.append(self._node(stack, number, bridge))
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    @staticmethod
    def _namespace(stack, name):
        full = f"headrace-{os.getpid()}-{name}"
        stack.enter_context(holding("namespace", full))
        try:
            ip("netns", "add", full)
        except Failed as error:
            raise CannotRun(f"no network namespaces here: {error}") from error
        stack.callback(delete_namespace, full)
        return full

    def _node(self, stack, number, bridge):
        node = Node(number, self._namespace(stack, f"n{number}"), bridge)
        ip("link", "add", f"to{number}", "mtu", self.mtu, "type", "veth", "peer", "name", "eth0", "mtu", self.mtu,
           "netns", node.namespace, namespace=bridge)
        node.plug()
        ip("link", "set", f"to{number}", "up", namespace=bridge)
        ip("addr", "add", f"{node.address}/24", "dev", "eth0", namespace=node.namespace)
        for device in ("lo", "eth0"):
            ip("link", "set", device, "up", namespace=node.namespace)
        with contextlib.suppress(Failed):  # a kernel that does not have it
            ip("route", "replace", f"{SUBNET}.0/24", "dev", "eth0", "src", node.address, "congctl", CONGESTION_CONTROL,
               namespace=node.namespace)
        if self.rate:
            self._shape(node.namespace, "eth0")
            self._shape(bridge, f"to{number}")
        return node

    def _shape(self, namespace, device):
        command = ["tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate", self.rate, "burst",
                   BURST, "latency", LATENCY]
        if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0:
            raise CannotRun("this kernel cannot shape a link (tc qdisc tbf)")


class Peer:
    """A memcached in a node, with the options that the README names."""

    def __init__(self, node, megabytes):
        self.node = node
        self.megabytes = megabytes
        self.process = None
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        if shutil.which("memcached") is None:
            raise CannotRun("the package memcached is missing")
        self.start()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def start(self):
        """Also after kill(): it is empty then."""
        self.stack.close()
        command = ["memcached", "-u", "nobody", "-m", str(self.megabytes), "-M", "-I", "9m", "-U", "0", "-l",
                   self.node.address, "-p", str(PORT), "-c", "4096", "-o", "slab_chunk_max=16384,no_slab_automove"]
        with contextlib.ExitStack() as stack:
            self.process = subprocess.Popen(command, preexec_fn=self.node.enter, stderr=subprocess.DEVNULL)
            stack.enter_context(holding("process", self.process.pid))
            stack.callback(self.end)
            wait_for(self._listens, self.process)
            self.stack = stack.pop_all()

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)  # one that is stopped would not end
        end_process(self.process)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def stats(self):
        """memcached's own counts, by `stats`."""
        return in_node(self.node, self._ask)

    def _ask(self):
        with socket.create_connection((self.node.address, PORT), timeout=5) as peer, peer.makefile("rwb") as stream:
            stream.write(b"stats\r\n")
            stream.flush()
            words = [line.decode().split() for line in iter(stream.readline, b"END\r\n")]
        return {word[1]: word[2] for word in words if len(word) == 3}

    def _listens(self):
        try:
            return bool(self.stats())
        except OSError:
            return False


class Redis:
    """A redis in a node that keeps nothing on a disk."""

    PORT = 11313

    def __init__(self, node, work):
        self.node = node
        self.work = work
        self.peer = f"{node.address}:{self.PORT}"
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        if shutil.which("redis-server") is None:
            raise CannotRun("the package redis-server is missing")
        command = ["redis-server", "--port", str(self.PORT), "--bind", self.node.address, "--protected-mode", "no",
                   "--save", "", "--appendonly", "no", "--dir", str(self.work)]
        with contextlib.ExitStack() as stack:
            process = subprocess.Popen(command, preexec_fn=self.node.enter, stdout=subprocess.DEVNULL)
            stack.enter_context(holding("process", process.pid))
            stack.callback(end_process, process)
            wait_for(lambda: in_node(self.node, self._answers), process)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def _answers(self):
        with contextlib.suppress(OSError), socket.create_connection((self.node.address, self.PORT), timeout=5):
            return True
        return False


def wait_for(listens, process):
    deadline = time.monotonic() + READY_SECONDS
    while not listens():
        if process.poll() is not None or time.monotonic() > deadline:
            raise Failed(f"{process.args[0]} does not listen")
        time.sleep(0.02)


def in_node(node, function):
    """What `function` returns in the node. This process has one thread, which goes there and comes back."""
    here = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        node.enter()
        return function()
    finally:
        ctypes.CDLL(None).setns(here, CLONE_NEWNET)
        os.close(here)
