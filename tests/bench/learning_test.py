#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""bench/learning.py's table counts what it says it counts."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import learning_table  # noqa: E402 (after the path is set)


def snapshot(**values):
    return {"source_opens": 0, "reads": 0, "hits": 0, "order_found_by": "", "order": "", "order_opens": 0,
            "orders_given_up": 0} | values


class LeastTest(unittest.TestCase):
    """What a cache fetches that knows all reads."""

    def least(self, reads, held):
        return len(learning_table.minimum_fetches(list(reads), dict.fromkeys(reads, 10), held * 10))

    def test_a_cache_that_holds_all_fetches_each_file_once(self):
        self.assertEqual(self.least("abcabcabc", 3), 3)

    def test_an_epoch_fetches_again_what_did_not_fit(self):
        self.assertEqual(self.least("abcdabcdabcd", 2), 4 + 2 + 2)

    def test_what_is_never_read_again_is_not_kept(self):
        self.assertEqual(self.least("aXbYaZb", 2), 5)

    def test_without_memory_each_read_is_a_fetch(self):
        self.assertEqual(self.least("aabb", 0), 4)


class FiguresTest(unittest.TestCase):
    ROW = learning_table.Row("a row", "distributed", right=r"torch-distributed:seed=0\b")

    def figures(self, snapshots, said=""):
        return learning_table.figures(self.ROW, snapshots, ["a", "b", "a", "b"], {"a": 1, "b": 1}, 1, said)

    def test_a_lock_on_another_order_is_false(self):
        said = ("the reader's order is torch-distributed:seed=0,batch=2, epoch 0, found by x\n"
                "the reader's order is torch-distributed:seed=01, epoch 0, found by x\n"
                "the reader's order is sequential, epoch 0, found by x\n")
        row = self.figures([snapshot(), snapshot(reads=2), snapshot(reads=4)], said)
        self.assertEqual((row["locks"], row["false_locks"]), (3, 2))

    def test_opens_of_the_source_are_compared_with_reads_and_with_the_least(self):
        row = self.figures([snapshot(source_opens=5), snapshot(reads=2), snapshot(reads=4, source_opens=11)])
        self.assertEqual((row["source_opens"], row["bare"], row["minimum"]), (6, 4, 3))
        self.assertEqual((row["of_bare"], row["of_minimum"]), (1.5, 2.0))

    def test_later_is_what_came_after_the_epoch_in_which_the_order_was_found(self):
        found = {"order_found_by": "small seed", "order": "torch-distributed:seed=0", "order_opens": 16}
        row = self.figures([snapshot(), snapshot(reads=2, source_opens=2, **found),
                            snapshot(reads=4, source_opens=5, **found)])
        self.assertEqual(row["of_minimum_later"], 3.0)

    def test_the_share_is_of_each_epoch(self):
        row = self.figures([snapshot(), snapshot(reads=2, hits=1), snapshot(reads=4, hits=3)])
        self.assertEqual(row["shares"], "0.50 1.00")

    def test_opens_until_found_count_from_the_first_epoch(self):
        found = {"order_found_by": "small seed", "order": "torch-distributed:seed=0", "order_opens": 16}
        row = self.figures([snapshot(), snapshot(reads=2), snapshot(reads=4, **found)])
        self.assertEqual((row["opens"], row["found_by"]), (18, "small seed: torch-distributed:seed=0"))


if __name__ == "__main__":
    unittest.main()
