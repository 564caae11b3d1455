#!/usr/bin/env python3
"""What rivals.py makes of given figures: ratios, verdicts, the decision about a mount, the plot."""

import argparse
import json
import os
import pathlib
import tempfile
import unittest
import xml.etree.ElementTree

import plot
import rivals

ARGUMENTS = argparse.Namespace(files=10_000, created=1000, checkpoint=1 << 28, memory="6G")


def line(side, row, seconds, server=1.0):
    return json.dumps({"side": side, "row": row, "seconds": seconds, "operations": 10, "bytes": 40960, "p50_us": 3.0,
                       "client_cpu_s": 0.5, "server_cpu_s": server, "server_user_s": server, "machine_cpu_s": 2.0})


def a_round(ours_s, theirs_s, mount_s):
    """One round in which our rows take so many seconds, those of NFS and the others, and those of the mount."""
    lines = ["a line of the guest's own"]
    for row in rivals.titles(ARGUMENTS):
        for side in rivals.SIDES:
            lines.append(line(side, row, ours_s if side == rivals.VERBS else theirs_s, None if side == rivals.NVME else 1.0))
    lines += [line(side, row, mount_s) for row in rivals.READS for side in (rivals.FUSE, rivals.MOUNT)]
    return rivals.parsed("\n".join(lines))


class Report(unittest.TestCase):
    named = rivals.titles(ARGUMENTS)

    def rows(self, table):
        return {cells[0]: cells[1:] for cells in ([cell.strip() for cell in row.strip("|").split("|")] for row in table)}

    def test_a_ratio_is_of_one_round_and_its_median_is_compared_with_what_is_wanted(self):
        table = self.rows(rivals.ratio_table([a_round(1, 2, 1), a_round(1, 4, 1), a_round(1, 3, 1)], self.named))
        self.assertEqual(table["4 KiB, random reads, one caller"][:3], [">= 1.5x", "3.00x (2.00 to 4.00)", "met"])
        self.assertEqual(table["10,000 x 4 KiB listed, with sizes"][:3], [">= 5x", "3.00x (2.00 to 4.00)", "not met"])

    def test_less_cpu_is_wanted(self):
        table = self.rows(rivals.cpu_table([a_round(1, 2, 1)], self.named))
        self.assertEqual(table["16 MiB, sequential reads"][:3], ["<= 0.7x", "1.00x", "not met"])

    def test_a_side_without_threads_of_its_own_has_no_server_cpu(self):
        rows = [row for row in rivals.figures_table([a_round(1, 2, 1)], self.named) if rivals.NVME in row]
        self.assertTrue(rows and all([cell.strip() for cell in row.split("|")[6:8]] == ["-", "-"] for row in rows))

    def test_a_figure_that_no_line_has_is_shown_as_such(self):
        found = a_round(1, 2, 1)
        for row in rivals.READS:
            del found["FUSE", row]["server_user_s"]
        rows = [row for row in rivals.figures_table([found], self.named) if "| FUSE |" in row]
        self.assertTrue(rows and all([cell.strip() for cell in row.split("|")[6:8]][1] == "-" for row in rows))

    def test_what_the_server_s_own_code_took_is_apart(self):
        found = a_round(1, 2, 1)
        found[rivals.VERBS, "random"]["server_user_s"] = 0.25
        row = next(row for row in rivals.figures_table([found], self.named) if rivals.VERBS in row)
        self.assertEqual([cell.strip() for cell in row.split("|")[6:8]], ["100,000", "25,000"])

    def test_own_code_is_told_where_the_server_takes_too_much(self):
        found = a_round(1, 2, 1)
        found[rivals.VERBS, "sequential_16m"] |= {"server_user_s": 0.25, "machine_cpu_s": 1.0}
        self.assertIn("own code is 25% of its process's time, 0.25x", " ".join(rivals.cpu_words([found], self.named)))
        del found[rivals.VERBS, "sequential_16m"]["server_user_s"]
        self.assertNotIn("own code", " ".join(rivals.cpu_words([found], self.named)))

    def test_a_ratio_to_a_side_that_waits_is_marked_and_judged_by_tcp(self):
        found = a_round(1, 2, 1)
        found[rivals.NFS, "random"] |= {"seconds": 100.0, "machine_cpu_s": 2.0}
        table = self.rows(rivals.ratio_table([found], self.named))
        self.assertEqual(table["4 KiB, random reads, one caller"][2], "no verdict: NFS stalls in 1 of 1 rounds; over TCP not met")
        self.assertEqual(table["16 MiB, sequential reads"][2], "met")
        self.assertNotIn("4 KiB, random reads, one caller", rivals.bars([found], self.named))
        self.assertIn("16 MiB, sequential reads", rivals.bars([found], self.named))

    def test_every_ratio_under_1_is_told_with_the_larger_of_its_costs(self):
        found = a_round(1, 0.5, 1)
        found[rivals.VERBS, "create"] |= {"server_cpu_s": 7.0, "machine_cpu_s": 9.0}
        lost = rivals.losses([found], self.named)
        self.assertEqual(len(lost) - 2, 2 * len(self.named))
        self.assertIn("most of it of the server", next(row for row in lost if "created" in row))
        self.assertEqual(rivals.losses([a_round(1, 2, 1)], self.named), ["Nowhere: no ratio of the table is under 1."])

    def test_a_mount_is_decided_by_what_it_and_the_native_door_take(self):
        for ours_s, mount_s, words in ((1, 1.5, "worth building"), (1, 3, "no mount for now"), (2.5, 3, "no mount.**"),
                                       (2.5, 3, "none would win in: 4 KiB")):
            self.assertIn(words, "\n".join(rivals.mount_section([a_round(ours_s, 2, mount_s)], self.named)))
        some = a_round(2.5, 2, 3)
        some[rivals.VERBS, "random"]["seconds"] = 1
        self.assertIn("none would win in: 1 MiB, sequential reads; 16 MiB", "\n".join(rivals.mount_section([some], self.named)))
        for lacking in (lambda side, row: side == rivals.MOUNT, lambda side, row: row.endswith("_buffered")):
            unknown = {key: row for key, row in a_round(1, 2, 1).items() if not lacking(*key)}
            self.assertEqual(rivals.mount_section([unknown], self.named), ["Not measured in this run."])

    def test_the_native_door_counts_with_the_reads_in_flight_that_are_best(self):
        found = a_round(4, 2, 3)
        for row in rivals.SEQUENTIAL:
            found[rivals.VERBS, row + "_ahead2"]["seconds"] = 1
        self.assertIn("as are best: 1 MiB, sequential reads; 16 MiB", "\n".join(rivals.mount_section([found], self.named)))

    def test_only_ours_is_expected_to_have_a_row_with_two_reads_in_flight(self):
        found = a_round(1, 2, 1)
        for side in (rivals.NFS, rivals.NFS_TCP, rivals.NVME):
            for row in rivals.SEQUENTIAL:
                del found[side, row + "_ahead2"]
        self.assertEqual(rivals.failures([found], self.named), [])
        del found[rivals.VERBS, "sequential_1m_ahead2"]
        self.assertEqual(rivals.failures([found], self.named), ["- Verbena, verbs, in no round of this run: 1 MiB, sequential, 2 in flight."])

    def test_a_process_that_has_a_cpu_waits_for_less_than_all_of_its_time(self):
        self.assertIn(os.getpid(), rivals.descendants(os.getppid()))
        self.assertTrue(0 <= rivals.waited_share(os.getpid()) < 1)

    def test_the_plot_is_xml_with_a_bar_for_each_side_but_the_one_compared_with(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "rivals.svg"
            plot.write_bars(path, "a < b", rivals.bars([a_round(1, 2, 1)], self.named))
            tree = xml.etree.ElementTree.parse(path)
        bars = [rect for rect in tree.iter("{http://www.w3.org/2000/svg}rect") if rect.get("height") == "11"]
        self.assertEqual(len(bars), len(self.named) * (len(rivals.SIDES) - 1))


if __name__ == "__main__":
    unittest.main()
