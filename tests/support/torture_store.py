# SPDX-License-Identifier: Apache-2.0
"""tests/torture --kind store: readers of a bucket whose store misbehaves.

Where only some requests go wrong, no read may be refused: trying again has to save each.
"""

import contextlib
import os
import signal
import time

from fault_store import ENVIRONMENT, FaultStore
from harness import Mount
from sources import Failed
from torture_faults import daemons_of

RAM = "21M"  # less than the data, so that the store is asked again and again


class StoreStage:
    """A bucket with the files of a data set, and a mount of it."""

    def __init__(self, bench):
        self.bench = bench
        self.fault_seconds = bench.count(4, 1)
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        os.environ.update(ENVIRONMENT)
        with contextlib.ExitStack() as stack:
            self.folder = self.bench.data_set(self.bench.count(400, 250))
            self.store = stack.enter_context(FaultStore())
            for file in self.folder.rglob("*.jpg"):
                self.store.put(str(file.relative_to(self.folder)), file.read_bytes())
            self.mount = stack.enter_context(Mount(self.bench, "s3://bucket/train", "--endpoint", self.store.url,
                                                   "--ram", RAM, "--order", "torch-distributed:seed=0"))
            self.mountpoint = self.mount.path
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def remount(self):
        raise Failed("the mount of the bucket does not come back")

    @contextlib.contextmanager
    def misbehaving(self, **faults):
        """Well again after it."""
        self.store.set(**faults)
        try:
            yield
        finally:
            self.store.set(**{name: type(value)() for name, value in faults.items()})


def some_requests_fail(stage, rng):
    with stage.misbehaving(busy=0.01, stall=0.01, reset=0.005, short=0.005):
        time.sleep(2 * stage.fault_seconds)


def many_requests_fail(stage, rng):
    with stage.misbehaving(busy=0.1, stall=0.02, reset=0.1, short=0.1):
        time.sleep(stage.fault_seconds)


def answers_are_late(stage, rng):
    with stage.misbehaving(delay=rng.choice((0.1, 0.5))):
        time.sleep(stage.fault_seconds)


def store_is_busy(stage, rng):
    with stage.misbehaving(all_busy=1_000_000_000):
        time.sleep(stage.fault_seconds)


def store_stands_still(stage, rng):
    process = stage.store.process
    process.send_signal(signal.SIGSTOP)
    time.sleep(stage.fault_seconds)
    process.send_signal(signal.SIGCONT)


def store_is_killed(stage, rng):
    stage.store.process.kill()
    time.sleep(stage.fault_seconds)
    stage.store.restart()


def keys_are_refused(stage, rng):
    with stage.misbehaving(expired=[ENVIRONMENT["AWS_ACCESS_KEY_ID"]]):
        time.sleep(stage.fault_seconds)


def clock_of_store_jumps(stage, rng):
    with stage.misbehaving(clock=rng.choice((-1, 1)) * 7200):
        time.sleep(stage.fault_seconds)


def listing_is_denied(stage, rng):
    with stage.misbehaving(deny_list=True):
        with contextlib.suppress(Failed):
            stage.bench.execute([stage.bench.program("headrace"), "refresh", stage.mountpoint])
        time.sleep(stage.fault_seconds / 2)


def worker_is_killed(stage, rng):
    os.kill(daemons_of(stage.mountpoint)[-1], signal.SIGKILL)
    time.sleep(1)


STORE_FAULTS = {
    "1 of 30 fails": some_requests_fail,
    "1 of 3 fails": many_requests_fail,
    "answers late": answers_are_late,
    "store busy": store_is_busy,
    "store stands still": store_stands_still,
    "store killed": store_is_killed,
    "keys refused": keys_are_refused,
    "store's clock jumps": clock_of_store_jumps,
    "listing denied": listing_is_denied,
    "kill -9 worker": worker_is_killed,
}
# What trying again has to save.
NONE_REFUSED = ("1 of 30 fails", "answers late", "store's clock jumps", "listing denied")
