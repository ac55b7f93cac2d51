#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The readers and the judge of tests/torture: they must notice what is wrong, or a quiet run would say nothing."""

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
from torture_versions import SECRET, History, Seen, content, look_at  # noqa: E402

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


class JudgeTest(unittest.TestCase):
    """One file that was version 1, then 2; each is 10 000 bytes."""

    def setUp(self):
        self.history = History()
        for version in (1, 2):
            self.history.change(0, version, 10_000, 0, lambda: time.sleep(0.01))
        self.begin, self.end = (it.begin for it in self.history.files[0])

    def verdict(self, data, opened=None, ended=None, reader="root", error=0):
        now = time.monotonic()
        seen = Seen(0, now if opened is None else opened, now if ended is None else ended, reader=reader, error=error)
        look_at(seen, data)
        found = self.history.judge(seen)
        return found and found[0]

    def test_what_the_source_had_since_the_last_refresh_is_good(self):
        self.assertIsNone(self.verdict(content(0, 1, 10_000)))  # nobody refreshed
        self.history.refresh(lambda: None)
        self.assertIsNone(self.verdict(content(0, 2, 10_000)))

    def test_what_was_gone_before_the_last_refresh_is_stale(self):
        self.history.refresh(lambda: None)
        self.assertEqual(self.verdict(content(0, 1, 10_000)), "stale")

    def test_what_was_opened_before_a_refresh_had_ended_may_be_older(self):
        opened = time.monotonic()
        self.history.refresh(lambda: time.sleep(0.01))
        self.assertIsNone(self.verdict(content(0, 1, 10_000), opened=opened))

    def test_two_versions_in_one_read_are_a_mix_even_where_the_rest_was_refused(self):
        mixed = content(0, 1, 4096) + content(0, 2, 10_000)[4096:]
        self.assertEqual(self.verdict(mixed), "mixed")
        self.assertEqual(self.verdict(mixed[:9000], error=5), "mixed")

    def test_a_mix_while_the_file_was_written_in_place_is_nobodys_fault(self):
        self.history.written.append((0, 0, time.monotonic() + 60))
        self.assertIsNone(self.verdict(content(0, 1, 4096) + content(0, 2, 10_000)[4096:]))

    def test_bytes_of_another_file_page_or_of_none_are_wrong(self):
        good = content(0, 2, 10_000)
        self.assertEqual(self.verdict(content(1, 2, 10_000)), "wrong")
        self.assertEqual(self.verdict(good[4096:] + good[:4096]), "wrong")
        self.assertEqual(self.verdict(good[:5000] + bytes([good[5000] ^ 1]) + good[5001:]), "wrong")
        self.assertEqual(self.verdict(good[:8200] + bytes([good[8200] ^ 1])), "wrong")

    def test_a_length_that_the_file_never_had_is_cut_unless_the_read_was_refused(self):
        self.assertEqual(self.verdict(content(0, 2, 9_000)), "cut")
        self.assertIsNone(self.verdict(content(0, 2, 9_000), error=5))

    def test_while_a_file_grows_every_length_on_the_way_is_good(self):
        self.history.change(0, 2, 12_000, 0, lambda: None)
        self.assertIsNone(self.verdict(content(0, 2, 11_000)))
        self.assertEqual(self.verdict(content(0, 2, 13_000)), "cut")

    def test_what_others_must_not_see_is_forbidden_to_them_alone(self):
        secret = content(0, 3, 10_000, SECRET)
        self.history.change(0, 3, 10_000, SECRET, lambda: None)
        self.assertIsNone(self.verdict(secret))
        self.assertEqual(self.verdict(secret, reader="nobody"), "forbidden")
        self.history.closed.append((0, 0, time.monotonic() + 60))
        self.assertEqual(self.verdict(content(0, 2, 10_000), reader="nobody"), "forbidden")
        self.assertIsNone(self.verdict(b"", reader="nobody", error=13))


if __name__ == "__main__":
    unittest.main()
