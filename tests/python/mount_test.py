# SPDX-License-Identifier: Apache-2.0
"""A folder in a mount of headrace is a data set without tiers of its own; several ranks share its memory."""
import os
import subprocess
import unittest
from unittest import mock

import support
import headrace as hr

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
        # Before mounting, which may fail half way.
        cls.addClassCleanup(subprocess.run, [cls.headrace, "unmount", "--force", cls.path], capture_output=True)
        subprocess.run([cls.headrace, "mount", cls.folder, cls.path, "--ram", "64M"], check=True, capture_output=True)

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

    def test_ranks_of_one_node_hold_no_tier_each(self):
        with mock.patch.dict(os.environ, LOCAL_WORLD_SIZE="2"):
            data = hr.ImageFolder(self.folder)
        loader = hr.DataLoader(data, 8, transform=CHAIN)
        next(iter(loader))
        [ram] = [tier for tier in loader.report()["tiers"] if tier["kind"] == "ram"]
        self.assertEqual(ram["budget_bytes"], 0)


if __name__ == "__main__":
    support.main()
