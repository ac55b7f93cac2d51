# SPDX-License-Identifier: Apache-2.0
"""Signals, other threads, forks and the end of the program, in the middle of an epoch."""
import gc
import os
import random
import signal
import threading
import unittest
from unittest import mock

import support
import headrace as hr
from headrace import _abi, loader as loaders

CHAIN = [hr.RandomResizedCrop(16)]
CHILD_SECONDS = support.WAIT_SECONDS  # a child that hangs ends by then, and fails the test


class InterruptsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = support.synth("data", files=60)
        cls.data = hr.ImageFolder(cls.folder, ram="64M")

    def loader(self, **options):
        return hr.DataLoader(self.data, 4, **{"transform": CHAIN, "output": "buffer", **options})

    def in_child(self, body):
        """Runs `body` in the child of a fork; the test fails unless it returns True there, and soon."""
        process = os.fork()
        if process == 0:
            signal.alarm(CHILD_SECONDS)
            try:
                os._exit(0 if body() else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitpid(process, 0)[1], 0)

    def test_a_program_ends_while_a_daemon_thread_iterates(self):
        for _ in range(2):
            done = support.run_script(f"""
import threading
import headrace as hr
data = hr.ImageFolder({str(self.folder)!r}, ram="64M")
loader = hr.DataLoader(data, 60, transform=[hr.RandomResizedCrop(512)], output="buffer")  # always waits for a batch
iterates = threading.Event()
def run():
    while True:
        for _ in loader:
            iterates.set()
        loader.report()
threading.excepthook = lambda _: None  # the loader was closed below it
threading.Thread(target=run, daemon=True).start()
iterates.wait()
print("over", flush=True)""", MALLOC_PERTURB_="165")  # what was freed is no pointer any more
            self.assertEqual((done.returncode, done.stdout), (0, "over\n"), done.stderr)

    def test_closing_waits_for_the_calls_that_are_under_way(self):
        for lock in ("_busy", "_reporting"):
            loader = self.loader()
            next(iter(loader))
            running, real, stopped, closed = loader._running, _abi.lib.hr_loader_stop, threading.Event(), []
            handle = running.handle.value
            with mock.patch.object(_abi.lib, "hr_loader_stop", lambda handle: (real(handle), stopped.set())), \
                    mock.patch.object(_abi.lib, "hr_loader_close", closed.append):
                with getattr(running, lock):
                    thread = threading.Thread(target=running.close)  # as at the end of the program
                    thread.start()
                    self.assertTrue(stopped.wait(CHILD_SECONDS))
                    self.assertEqual(closed, [])
                thread.join()
            self.assertEqual(closed, [handle])
            _abi.lib.hr_loader_close(handle)

    def test_a_child_closes_a_loader_that_a_thread_of_the_parent_reads(self):
        loader = self.loader()
        batches = loader.batches()
        next(batches)
        with loader._running._busy, loader._running._reporting, loader._lock:  # as threads of the parent hold them
            def body():
                held = []
                thread = threading.Thread(target=lambda: (loader.close(), loader.__exit__(), held.append(True)))
                thread.start()
                thread.join()
                loader._running.close()
                return bool(held)

            self.in_child(body)
        self.assertEqual(len(list(batches)), 14)

    def test_a_child_makes_its_own_data_set(self):
        def body():
            try:
                next(iter(self.loader()))
                return False
            except RuntimeError as error:
                if "data set belongs to the parent process" not in str(error):
                    return False
            data = hr.ImageFolder(self.folder, ram="64M")
            return len(list(hr.DataLoader(data, 4, transform=CHAIN, output="buffer"))) == 15

        self.in_child(body)

    def test_a_report_of_the_parents_loader_is_refused(self):
        loader = self.loader()
        batches = loader.batches()
        next(batches)

        def body():
            try:
                loader.report()
            except RuntimeError:
                return _abi.lib.hr_loader_report(loader._running.handle, None, 0) == 0
            return False

        self.in_child(body)

    def test_a_batch_outlives_an_exception_of_a_signal_handler(self):
        wanted = [batch.indices.tolist() for batch in self.loader().batches()]
        loader = self.loader()
        batches, seen = loader.batches(), []
        real, calls = loaders.check, []

        def check(status):  # as a handler would that runs when the call has just returned
            calls.append(status)
            if status == _abi.OK and len(calls) % 2:
                raise KeyboardInterrupt
            return real(status)

        interrupts = 0
        with mock.patch.object(loaders, "check", check):
            while len(seen) < len(wanted):
                state = loader.state_dict()["position"]
                try:
                    seen.append(next(batches).indices.tolist())
                except KeyboardInterrupt:
                    interrupts += 1
                    self.assertEqual(loader.state_dict()["position"], state)
        self.assertGreater(interrupts, 0)
        self.assertEqual(seen, wanted)
        self.assertEqual(loader.report()["copied_batches"], 0)

    def test_ctrl_c_at_random_moments_loses_no_batch_and_leaves_no_thread(self):
        wanted = [batch.indices.tolist() for batch in self.loader(shuffle=True).batches()]
        moments, armed, interrupts = random.Random(1), [], 0

        def interrupt(*_):
            if armed:
                armed.clear()
                raise KeyboardInterrupt

        gc.collect()
        before = len(support.threads_of())
        previous = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, previous)
        for _ in range(80):
            loader = data = None
            armed.append(True)
            moment = moments.uniform(0.0001, 0.015)
            try:
                signal.setitimer(signal.ITIMER_REAL, moment)
                data = hr.ImageFolder(self.folder, ram="16M")
                loader = hr.DataLoader(data, 4, shuffle=True, transform=CHAIN, output="buffer", threads=2)
                for _ in loader:
                    pass
                loader.close()
                armed.clear()
            except KeyboardInterrupt:
                interrupts += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            if loader is not None and loader.state_dict()["epoch"] == 0:  # what is left, and nothing else
                done = loader.state_dict()["position"]
                loader.load_state_dict(loader.state_dict())
                self.assertEqual([batch.indices.tolist() for batch in loader.batches()], wanted[done // 4:])
        self.assertGreater(interrupts, 8)
        del loader, data
        gc.collect()
        # Fewer: one of a test before this one has ended, too.
        support.wait_until(lambda: len(support.threads_of()) <= before, "listings that were given up end by themselves")

    def test_ctrl_c_behind_a_call_that_opened_leaves_nothing_open(self):
        def all_closed():
            support.wait_until(lambda: "hr-feed" not in support.threads_of(), "no loader is open")

        gc.collect()
        all_closed()  # those of the tests before
        loader = self.loader()
        with mock.patch.object(loaders, "check", side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, next, loader.batches())
        all_closed()
        loader = self.loader()
        next(loader.batches())
        real, calls = _abi.lib.hr_loader_stop, []

        def stop(handle):
            real(handle)
            calls.append(handle)
            if len(calls) == 1:
                raise KeyboardInterrupt

        with mock.patch.object(_abi.lib, "hr_loader_stop", stop):
            self.assertRaises(KeyboardInterrupt, loader.close)
        self.assertEqual(len(calls), 2)
        all_closed()

    def test_a_state_does_not_count_a_batch_that_was_not_delivered(self):
        fail = [True]

        def decode(content):
            if fail:
                raise KeyError("the decode function failed")
            return len(content)

        loader = hr.DataLoader(hr.Files(self.folder, decode=decode, ram="64M"), 7)
        batches = loader.batches()
        self.assertRaisesRegex(hr.BadSampleError, "decode raised KeyError", next, batches)
        self.assertEqual(loader.state_dict()["position"], 0)
        fail.clear()
        self.assertEqual(next(batches).indices, list(range(7)))
        self.assertEqual(loader.state_dict()["position"], 7)

    def test_closing_from_another_thread_is_no_end_of_the_epoch(self):
        loader = self.loader()
        batches = loader.batches()
        next(batches)
        entered, real = threading.Event(), _abi.lib.hr_loader_next

        def stopped(*arguments):  # a wait that only closing ends
            entered.set()
            while True:
                status = real(*arguments)
                if status != _abi.OK:
                    return status
                loader._running.pending = loaders.delivery.Slot.empty()
                arguments = (*arguments[:2], loaders.ctypes.byref(loader._running.pending.batch))

        raised = []

        def iterate():
            try:
                next(batches)
            except Exception as error:
                raised.append(error)

        with mock.patch.object(_abi.lib, "hr_loader_next", stopped):
            thread = threading.Thread(target=iterate)
            thread.start()
            self.assertTrue(entered.wait(CHILD_SECONDS))
            loader.close()
            thread.join(CHILD_SECONDS)
        self.assertFalse(thread.is_alive())
        self.assertRegex(str(raised[0]), "closed while it was iterated")
        self.assertIs(type(raised[0]), RuntimeError)

    def test_a_handler_of_a_signal_may_close_the_loader(self):
        def body():
            loader = hr.DataLoader(hr.ImageFolder(self.folder, ram="64M"), 4, transform=CHAIN, output="buffer")
            batches, real = loader.batches(), _abi.lib.hr_loader_next
            next(batches)
            signal.signal(signal.SIGUSR1, lambda *_: loader.close())

            def receive(*arguments):  # the handler runs as soon as the call has returned
                status = real(*arguments)
                signal.raise_signal(signal.SIGUSR1)
                return status

            with mock.patch.object(_abi.lib, "hr_loader_next", receive):
                next(batches)  # which was there when the loader was closed
            self.assertRaisesRegex(RuntimeError, "this iteration is over", next, batches)
            return True

        self.in_child(body)

    def test_a_capsule_that_goes_with_an_exception_leaves_it(self):
        images, _ = next(iter(self.loader()))

        def capsules():
            yield images.__dlpack__()
            raise KeyError("the generator failed")

        with self.assertRaisesRegex(KeyError, "the generator failed"):
            list(capsules())  # the list goes, with what it has, while the exception is set

    def test_threads_that_cannot_be_made_are_an_exception(self):
        done = support.run_script(f"""
import resource
import headrace as hr
data = hr.ImageFolder({str(self.folder)!r}, ram="64M")
loader = hr.DataLoader(data, 4, transform=[hr.RandomResizedCrop(16)], output="buffer", threads=4000)
with open("/proc/self/statm") as file:
    pages = int(file.read().split()[0])
resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, resource.RLIM_INFINITY))
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 30), resource.RLIM_INFINITY))
try:
    next(iter(loader))
except Exception as error:
    print(type(error).__name__)
few = hr.DataLoader(data, 4, transform=[hr.RandomResizedCrop(16)], output="buffer", threads=2)
print(len(list(few)))""")
        self.assertEqual(done.returncode, 0, done.stderr)
        kind, batches = done.stdout.split()
        self.assertIn(kind, ("HeadraceError", "MemoryError", "OSError"))
        self.assertEqual(batches, "15")


if __name__ == "__main__":
    support.main()
