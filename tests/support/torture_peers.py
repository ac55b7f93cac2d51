# SPDX-License-Identifier: Apache-2.0
"""What `tests/torture --peers` breaks besides: two memcacheds on this machine that the mount shares with.

    with Peers(bench) as peers:
        options = peers.options()            # of the mount
        PEER_FAULTS["kill -9 of a peer"](stage, rng)

One machine has one network here: links that fail are in bench/cluster.
"""

import contextlib
import shutil
import signal
import socket
import subprocess
import time

from sources import CannotRun, Failed, end_process
from sweeper import holding

COUNT = 2
MEGABYTES = 64
READY_SECONDS = 30
KEYS_MAX = 400  # that are spoilt: more than the small data set has


class Memcached:
    """One peer, which may be killed and started again at the same port."""

    def __init__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.stack = contextlib.ExitStack()
        self.process = None

    def start(self):
        self.stack.close()
        self.process = subprocess.Popen(
            ["memcached", "-u", "nobody", "-M", "-U", "0", "-l", "127.0.0.1", "-p", str(self.port), "-m",
             str(MEGABYTES), "-I", "9m", "-o", "slab_chunk_max=16384,no_slab_automove"], stderr=subprocess.DEVNULL)
        self.stack.enter_context(holding("process", self.process.pid))
        self.stack.callback(self.end)
        deadline = time.monotonic() + READY_SECONDS
        while True:
            with contextlib.suppress(OSError), self.connection():
                return
            if time.monotonic() > deadline:
                raise Failed("memcached does not listen")
            time.sleep(0.02)

    def connection(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=5)

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)  # one that is stopped would not end
        end_process(self.process)

    def keys(self):
        with self.connection() as peer, peer.makefile("rwb") as stream:
            stream.write(b"lru_crawler metadump all\r\n")
            stream.flush()
            lines = iter(stream.readline, b"END\r\n")
            return [line.split()[0].removeprefix(b"key=") for line in lines if line.startswith(b"key=")]

    def spoil(self, rng):
        """Every kind of wrong value under keys that are in use."""
        with self.connection() as peer, peer.makefile("rwb") as stream:
            for key in self.keys()[:KEYS_MAX]:
                stream.write(b"get %s\r\n" % key)
                stream.flush()
                head = stream.readline()
                if head == b"END\r\n":
                    continue
                value = bytearray(stream.read(int(head.split()[3])))
                stream.read(len(b"\r\nEND\r\n"))
                if not value:
                    continue
                wrong = self.wrong_value(value, rng)
                stream.write(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(wrong), wrong))
                stream.flush()
                stream.readline()

    @staticmethod
    def wrong_value(value, rng):
        kind = rng.randrange(4)
        if kind == 0:
            value[rng.randrange(len(value))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            value = value[:-1]
        elif kind == 2:
            value = rng.randbytes(len(value))
        else:
            value = b"of somebody else"
        return bytes(value)


class Peers:
    def __init__(self):
        self.all = []
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        if shutil.which("memcached") is None:
            raise CannotRun("the package memcached is missing")
        with contextlib.ExitStack() as stack:
            for _ in range(COUNT):
                peer = Memcached()
                stack.callback(peer.stack.close)
                peer.start()
                self.all.append(peer)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def options(self):
        names = ",".join(f"127.0.0.1:{peer.port}" for peer in self.all)
        return ["--peers", names, "--share", f"{MEGABYTES}M"]


def kill_peer(stage, rng):
    """It comes back empty."""
    peer = rng.choice(stage.peers.all)
    peer.process.kill()
    peer.process.wait()
    time.sleep(stage.fault_seconds)
    peer.start()


def stop_peer(stage, rng):
    peer = rng.choice(stage.peers.all)
    peer.process.send_signal(signal.SIGSTOP)
    time.sleep(stage.fault_seconds)
    peer.process.send_signal(signal.SIGCONT)


def all_peers_dead(stage, rng):
    for peer in stage.peers.all:
        peer.process.kill()
        peer.process.wait()
    time.sleep(stage.fault_seconds)
    for peer in stage.peers.all:
        peer.start()


def spoil_peers(stage, rng):
    """Flipped bits, cut ones, random and foreign ones, again and again while they are in use."""
    for peer in stage.peers.all:
        peer.spoil(rng)
    time.sleep(stage.fault_seconds)


PEER_FAULTS = {
    "kill -9 of a peer": kill_peer,
    "SIGSTOP of a peer": stop_peer,
    "all peers dead": all_peers_dead,
    "values spoilt": spoil_peers,
}
