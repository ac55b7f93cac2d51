# SPDX-License-Identifier: Apache-2.0
"""Loaders that end in any way leave no memory, thread or descriptor behind, and a program ends with loaders open."""
import ctypes
import gc
import os
import random
import resource
import unittest

import support
import headrace as hr

CYCLES = int(os.environ.get("HEADRACE_CYCLES") or 1000)


def run_to_the_end(loader):
    for _ in loader:
        pass


def break_off(loader):
    for _ in loader:
        break


def close_while_iterating(loader):
    batches = iter(loader)
    next(batches)
    loader.close()


def raise_inside(loader):
    try:
        for _ in loader:
            raise KeyError("the training failed")
    except KeyError:
        pass


def leave_to_the_collector(loader):
    loader.itself = loader
    next(iter(loader))


def never_iterate(loader):
    len(loader)


def keep_all_batches(loader):
    list(loader.batches())


WAYS = (run_to_the_end, break_off, close_while_iterating, raise_inside, leave_to_the_collector, never_iterate,
        keep_all_batches)


def held():
    return len(support.threads_of()), len(os.listdir("/proc/self/fd"))


def wait_for_no_more_than(before):
    """A thread that was joined is seen for a moment still."""
    gc.collect()
    support.wait_until(lambda: all(now <= then for now, then in zip(held(), before)),
                       f"no more than {before} threads and descriptors are open")


def resident_bytes():
    """What malloc keeps of freed memory depends on how many threads ran at once; it is given back before."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class LifetimeTest(unittest.TestCase):
    def test_loaders_that_end_in_any_way_leave_nothing_behind(self):
        data = hr.ImageFolder(support.synth("data", files=12, classes=2), ram="16M")
        files = hr.Files(support.synth("data"), ram="16M")
        choose = random.Random(1)

        def cycle():
            if choose.random() < 0.2:
                loader = hr.DataLoader(files, choose.randint(1, 5))
            else:
                loader = hr.DataLoader(data, choose.randint(1, 5), shuffle=True, transform=[hr.RandomResizedCrop(8)],
                                       bad_samples=choose.choice(("raise", "skip")), threads=choose.randint(1, 3),
                                       output="buffer")
            choose.choice(WAYS)(loader)

        for _ in range(CYCLES // 4):  # arenas and caches grow to what they need
            cycle()
        gc.collect()
        before, bytes_before = held(), resident_bytes()
        for _ in range(CYCLES):
            cycle()
        wait_for_no_more_than(before)
        # A loader has some 100 kB; a leak of one in ten would show.
        self.assertLess(resident_bytes() - bytes_before, 10_000 * CYCLES)

    def test_data_sets_leave_nothing_behind(self):
        folder = support.synth("data", files=12, classes=2)

        def cycle():
            with hr.ImageFolder(folder, ram="16M") as data:
                next(iter(hr.DataLoader(data, 2, transform=[hr.Resize((4, 4))], output="buffer")))

        cycle()
        gc.collect()
        before = held()
        for _ in range(20):
            cycle()
        wait_for_no_more_than(before)

    def test_a_program_ends_whatever_is_open(self):
        for ending in ("", "sys.exit(0)", "del loader", "data.close()", "loader.itself = loader; batches = None"):
            done = support.run_script(f"""
import sys
import headrace as hr
data = hr.ImageFolder({str(support.synth("data", files=12, classes=2))!r}, ram="16M")
loader = hr.DataLoader(data, 2, transform=[hr.Resize((4, 4))], shuffle=True)
batches = iter(loader)
kept = next(batches)
print("over", flush=True)
{ending}""")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "over\n", ""), ending)


if __name__ == "__main__":
    support.main()
