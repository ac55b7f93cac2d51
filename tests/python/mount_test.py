# SPDX-License-Identifier: Apache-2.0
"""A folder in a mount of headrace is a data set without tiers of its own; several ranks share its memory."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

import support
import headrace as hr
from headrace import sharing

CHAIN = [hr.RandomResizedCrop(16), hr.RandomHorizontalFlip()]


def bytes_of(data, **options):
    loader = hr.DataLoader(data, 8, shuffle=True, seed=2, transform=CHAIN, dtype="uint8", output="buffer", **options)
    return [(batch.indices.tolist(), batch.images.tobytes()) for _ in range(2) for batch in loader.batches()]


@unittest.skipUnless(os.access("/dev/fuse", os.W_OK), "no FUSE here")
class MountTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = support.synth("data", files=60)
        cls.path = support.WORK / "mount"
        cls.path.mkdir()
        cls.headrace = support.BUILD / "cli/headrace"
        cls.environment = mock.patch.dict(os.environ, HEADRACE_RUNTIME_DIR=str(support.WORK / "run"),
                                          HEADRACE_CACHE_DIR=str(support.WORK / "cache"),
                                          HEADRACE_LOG_DIR=str(support.WORK / "log"))
        cls.environment.start()
        cls.addClassCleanup(cls.environment.stop)
        cls.addClassCleanup(cls.unmount_what_was_left)
        # Before mounting, which may fail half way.
        cls.addClassCleanup(subprocess.run, [cls.headrace, "unmount", "--force", cls.path], capture_output=True)
        subprocess.run([cls.headrace, "mount", cls.folder, cls.path, "--ram", "64M"], check=True, capture_output=True)

    @classmethod
    def unmount_what_was_left(cls):  # by a test that failed
        with open("/proc/self/mountinfo") as mounted:
            points = [line.split()[4] for line in mounted]
        for point in points:
            if point.startswith(str(support.WORK / "run")):
                subprocess.run([cls.headrace, "unmount", "--force", point], capture_output=True)

    def test_a_mount_gives_the_same_batches(self):
        plain = hr.ImageFolder(self.folder, ram="64M")
        mounted = hr.ImageFolder(self.path)
        self.assertTrue(mounted.is_mount)
        self.assertFalse(plain.is_mount)
        self.assertEqual(bytes_of(mounted), bytes_of(plain))
        mounted.check_digest(plain.digest())

    def test_a_mount_has_its_own_tiers(self):
        for options in ({"ram": "1G"}, {"ssd": f"{support.WORK}/tier:1G"}):
            with self.assertRaisesRegex(ValueError, "is a mount of headrace"):
                hr.ImageFolder(self.path, **options)

    def test_the_report_says_so(self):
        loader = hr.DataLoader(hr.ImageFolder(self.path), 8, transform=CHAIN)
        next(iter(loader))
        self.assertTrue(loader.report()["through_mount"])

    RANK = """
import os, sys
import headrace as hr
data = hr.ImageFolder(sys.argv[1], ram="64M", ssd=os.environ["TIER"] + ":64M")
loader = hr.DataLoader(data, 4, shuffle=True, transform=[hr.Resize((4, 4))], output="buffer")
batches = loader.batches()
seen = next(batches).indices.tolist()
print(loader.report()["through_mount"], loader.report()["shared_mount"], end=" ")
data.close()  # the loader reads on
seen += [index for batch in batches for index in batch.indices.tolist()]
print(seen, flush=True)
sys.stdin.read()
"""

    def start_rank(self, rank, ranks):
        paths = os.pathsep.join([str(self.headrace.parent), os.environ["PATH"]])
        process = subprocess.Popen([sys.executable, "-B", "-c", self.RANK, self.folder], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, bufsize=1,
                                   env={**os.environ, "PYTHONPATH": str(support.ROOT / "python"), "PATH": paths,
                                        "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks),
                                        "TIER": str(support.WORK / "shared-tier")})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def waiters_of(self, mount):
        users, found = os.path.join(os.path.dirname(mount), "users"), []
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{process}/cmdline") as command:
                    words = command.read().split("\0")
            except OSError:
                continue  # it has just ended
            if words[0] == "flock" and users in words:
                found.append(int(process))
        return sorted(found)

    def test_ranks_of_one_node_share_one_mount_that_ends_with_the_last(self):
        ranks = [self.start_rank(rank, 3) for rank in range(3)]
        said = [process.stdout.readline().split(" ", 2) for process in ranks]
        mounts = {mount for _, mount, _ in said}
        self.assertEqual(({through for through, _, _ in said}, len(mounts)), ({"True"}, 1))
        samples = sorted(sum((json.loads(seen) for _, _, seen in said), []))
        self.assertEqual(samples, list(range(60)))
        [mount] = mounts
        self.addCleanup(subprocess.run, [self.headrace, "unmount", "--force", mount], capture_output=True)
        with open("/proc/self/mountinfo") as mounted:
            self.assertEqual(mounted.read().count(f" {mount} "), 1)
        stat = subprocess.run([self.headrace, "stat", "--json", mount], check=True, capture_output=True, text=True)
        self.assertIn(str(support.WORK / "shared-tier"), stat.stdout)
        support.wait_until(lambda: len(self.waiters_of(mount)) == 3, "each rank has a waiter")
        waiters = self.waiters_of(mount)
        os.kill(waiters[0], signal.SIGKILL)  # as if the first rank had been killed before it began to wait
        ranks[0].kill()
        ranks[1].communicate()
        self.assertTrue(sharing.is_mount(mount))
        again = self.start_rank(0, 3)  # as a launcher does that starts a rank anew
        self.assertEqual(again.stdout.readline().split(" ", 2)[1], mount)
        again.kill()
        ranks[2].kill()
        support.wait_until(lambda: not os.path.ismount(mount), "the mount ends behind its ranks")

    @unittest.skipUnless(hr.delivery.has_module("torch"), "torch is not installed")
    def test_the_recipe_for_two_processes_trains_through_one_daemon(self):
        page = (support.ROOT / "python/FRAMEWORKS.md").read_text()
        recipe = re.search(r"## Several processes.*?```python\n(.*?)```", page, re.DOTALL)[1]
        script = f"FOLDER = {str(self.folder)!r}\n{recipe}" + """
import json
weights = [float(weight) for weight in model.module[1].weight.flatten()[:500]]
print(json.dumps([loader.rank, len(loader), loader.report()["shared_mount"], weights]))
"""
        paths = os.pathsep.join([str(self.headrace.parent), os.environ["PATH"]])
        common = {**os.environ, "PYTHONPATH": str(support.ROOT / "python"), "PATH": paths, **support.launched(0, 2)}
        both = [subprocess.Popen([sys.executable, "-B", "-c", script], stdout=subprocess.PIPE, text=True,
                                 env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(2)]
        for process in both:
            self.addCleanup(process.kill)
        said = [json.loads(process.communicate(timeout=support.PROGRAM_SECONDS)[0]) for process in both]
        self.assertEqual([(rank, batches) for rank, batches, _, _ in said], [(0, 1), (1, 1)])
        self.assertEqual(said[0][2:], said[1][2:])  # one mount; and the gradients of both went into the weights of both
        support.wait_until(lambda: not os.path.ismount(said[0][2]), "the mount ends behind its ranks")

    def test_ranks_that_cannot_share_hold_no_tier_and_say_so(self):
        with mock.patch.dict(os.environ, LOCAL_WORLD_SIZE="2", PATH="/nowhere"):
            with self.assertWarnsRegex(UserWarning, "cannot share .*no headrace command"):
                data = hr.ImageFolder(self.folder, ram="64M", ssd=f"{support.WORK}/no-tier:64M")
            self.assertIsNone(data.shared_mount)
            self.raises_of_a_mount()
        loader = hr.DataLoader(data, 8, transform=CHAIN)
        next(iter(loader))
        self.assertEqual([(tier["kind"], tier["budget_bytes"]) for tier in loader.report()["tiers"]][:1], [("ram", 0)])
        self.assertFalse((support.WORK / "no-tier").exists())

    def test_a_mount_that_nobody_would_end_is_ended_at_once(self):
        programs = support.WORK / "programs"  # of all that is needed, flock and setsid are missing
        programs.mkdir()
        for name in (self.headrace, shutil.which("fusermount3")):
            (programs / Path(name).name).symlink_to(name)
        with mock.patch.dict(os.environ, LOCAL_WORLD_SIZE="2", PATH=str(programs)):
            with self.assertWarnsRegex(UserWarning, "cannot share .*setsid"):
                data = hr.ImageFolder(self.folder, ram="32M")
        self.assertIsNone(data.shared_mount)
        with open("/proc/self/mountinfo") as mounted:
            self.assertNotIn(str(support.WORK / "run"), mounted.read())

    def raises_of_a_mount(self):  # which has its tiers, for any number of ranks
        with self.assertRaisesRegex(ValueError, "is a mount of headrace"):
            hr.ImageFolder(self.path, ram="1G")

    @staticmethod
    def daemons_of(mount):
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:  # it has ended
                continue
            if words[0].endswith(b"headrace") and os.fsencode(mount) in words:
                found.append(int(path.parent.name))
        return found

    def test_a_mount_whose_daemon_died_is_an_exception(self):
        mount = support.WORK / "dying"
        mount.mkdir()
        self.addCleanup(subprocess.run, [self.headrace, "unmount", "--force", mount], capture_output=True)
        subprocess.run([self.headrace, "mount", self.folder, mount, "--ram", "0"], check=True, capture_output=True)
        loader = hr.DataLoader(hr.ImageFolder(mount), 8, transform=CHAIN, output="buffer")

        def kill():  # each process of the mount replaces the other, so both have to go at once
            for process in self.daemons_of(mount):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            return not self.daemons_of(mount)

        support.wait_until(kill, "the daemon is dead")
        hr.set_log_level("error")
        self.addCleanup(hr.set_log_level, "warning")
        self.assertRaisesRegex(OSError, r"^n00000/\S+\.jpg: .*not connected$", list, loader)

    def test_ranks_of_one_node_hold_no_tier_each(self):
        with mock.patch.dict(os.environ, LOCAL_WORLD_SIZE="2"):
            data = hr.ImageFolder(self.folder)
        loader = hr.DataLoader(data, 8, transform=CHAIN)
        next(iter(loader))
        [ram] = [tier for tier in loader.report()["tiers"] if tier["kind"] == "ram"]
        self.assertEqual(ram["budget_bytes"], 0)


if __name__ == "__main__":
    support.main()
