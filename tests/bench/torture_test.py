#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The readers of tests/torture: they must notice what is wrong, or a quiet run would say nothing."""

import shutil
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests/support")]

from torture_readers import GOOD_IN_A_ROW, Counters, Readers, digest, in_a_fork, read_one  # noqa: E402

PATIENCE_SECONDS = 60  # for a machine that is busy


class ReadersTest(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.truth, self.shown = Path(work.name) / "truth", Path(work.name) / "shown"
        self.truth.mkdir()
        for number in range(4):
            (self.truth / f"{number}.jpg").write_bytes(bytes([number]) * 1000)
        shutil.copytree(self.truth, self.shown)

    def seen(self, kind):
        """Whether readers of what is shown count one of `kind` sooner or later."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        with Readers(self.shown, self.truth, seed=1) as readers:
            while readers.take()[kind] == 0:
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.01)
        return True

    def test_equal_files_are_good_reads_in_a_row(self):
        with Readers(self.shown, self.truth, seed=1) as readers:
            self.assertTrue(readers.wait_for_progress(PATIENCE_SECONDS))
            self.assertEqual(readers.take()["wrong"], 0)

    def test_one_flipped_bit_is_a_wrong_read(self):
        content = bytearray((self.shown / "2.jpg").read_bytes())
        content[999] ^= 1
        (self.shown / "2.jpg").write_bytes(content)
        self.assertTrue(self.seen("wrong"))

    def test_a_file_that_ends_early_is_a_wrong_read(self):
        (self.shown / "2.jpg").write_bytes(bytes([2]) * 999)
        self.assertTrue(self.seen("wrong"))

    def test_a_file_that_is_not_there_is_a_refused_read(self):
        (self.shown / "2.jpg").unlink()
        self.assertTrue(self.seen("refused"))

    def test_what_a_forked_reader_sees_counts(self):
        counters = Counters()
        in_a_fork(read_one, self.shown / "1.jpg", digest(b"something else"), counters)
        in_a_fork(read_one, self.shown / "1.jpg", digest((self.truth / "1.jpg").read_bytes()), counters)
        self.assertEqual((counters.wrong.value, counters.good.value), (1, 1))

    def test_a_refused_read_starts_the_row_anew(self):
        counters = Counters()
        for _ in range(GOOD_IN_A_ROW - 1):
            counters.note_good()
        counters.note_bad(counters.refused)
        counters.note_good()
        self.assertEqual(counters.in_a_row.value, 1)

    def test_where_every_fourth_read_is_refused_there_is_no_progress(self):
        (self.shown / "2.jpg").unlink()
        with Readers(self.shown, self.truth, seed=1) as readers:
            self.assertFalse(readers.wait_for_progress(0.5))


if __name__ == "__main__":
    unittest.main()
