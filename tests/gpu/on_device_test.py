#!/usr/bin/python3
"""The script for a machine with a GPU, over the doubles of the driver and of an RDMA device: each row has its figures, and a
copy that brings one wrong byte fails the rows on whose way it is."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

from cuda_driver import Array, Locked
from hip_driver import driver, own
from speed import all_went

SCRIPT = pathlib.Path(__file__).resolve().parent / "on_device.py"
NIC = pathlib.Path(os.environ[own("TEST_VERBENA_CUDA_DRIVER", "TEST_VERBENA_HIP_DRIVER")]).with_name("libverbena_nic_double.so")
FIGURE = re.compile(r"\d+\.\d\d")
WAYS = [("native local", "direct"), ("native local, mapped memory", "direct"), ("native local", "shared"), ("native tcp", "staged"),
        ("http", "staged"), ("native verbs", "peer")]
SPEEDS = [("GET of a hot object of 1 MiB", "native local, direct"), ("40 hot objects", "native local, direct"), ("40 hot objects", "native local, direct"),
          ("ways taken", "native local, direct"), ("weights: 32 safetensors files", "native local, direct"),
          ("GET of a hot object of 1 MiB", "native local, shared"), ("GET of a hot object of 1 MiB", "native tcp, staged"),
          ("GET of a hot object of 1 MiB", "http, staged"), ("40 hot objects", "native local, shared"), ("40 hot objects", "native local, shared"),
          ("ways taken", "native local, shared")]


class Ran:
    """The script's tables of a run, each a list of rows of cells."""

    def __init__(self, weights="9", **environment):
        self.done = subprocess.run([sys.executable, SCRIPT, "--memory", own("cuda", "rocm"), "--size", "1", "--seconds", "0", "--batch", "40", "--weights", weights,
                                    "--rdma", "127.0.0.1"], capture_output=True, text=True, timeout=150,
                                   env={**os.environ, "LD_PRELOAD": str(NIC), "TEST_VERBENA_RDMA_DEVICE": "double", **environment})
        print(self.done.stdout, self.done.stderr, sep="", flush=True)
        self.tables = [[[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()[2:]]
                       for table in self.done.stdout.split("\n\n") if table.startswith("| ")]

    def failed(self):
        """(door, "") and (what, by) of the rows that have failed."""
        return {(row[1], "" if table == 0 else row[2]) for table, rows in enumerate(self.tables) for row in rows if "**failed**" in "".join(row)}


class OnDevice(unittest.TestCase):
    def test_each_way_and_each_speed_has_its_figures(self):
        ran = Ran(VERBENA_GPUDIRECT_ENABLED="true")  # which is for the server that is to have it alone
        self.assertEqual(ran.done.returncode, 0)
        ways, speeds = ran.tables
        self.assertEqual([(row[1], row[2]) for row in ways], WAYS)
        for row in ways:
            self.assertEqual(row[0], "Double 0")
            self.assertEqual(len([cell for cell in row[3:] if FIGURE.fullmatch(cell)]), 5, row)
        self.assertEqual([(row[1][:len(what)], row[2]) for row, (what, _) in zip(speeds, SPEEDS)], SPEEDS)
        self.assertEqual(len(speeds), len(SPEEDS))
        for row in speeds:
            ways = row[1].startswith("ways")
            self.assertEqual([bool(FIGURE.fullmatch(row[at])) for at in (3, 5, 6)], [not ways] * 3, row)
            if ways:
                self.assertRegex(row[3], rf"^\d+ {row[7]}$")
        self.assertIn(f"verify_device: right, by {own('kernel', 'read_back')};", ran.done.stdout)

    def test_both_yardsticks_of_a_batch_copy_each_piece_to_its_place(self):
        device, piece = driver(), 5000
        data, array = os.urandom(3 * piece), Array(device, 9 * piece)
        locked = Locked(device, len(data))
        locked.memory[:] = data
        ways = device.copies([array.address + at * piece for at in (7, 0, 4)], locked, piece, device.stream())
        self.assertEqual(ways[1] is None, own(False, True), "CUDA has one call for all")
        for work in filter(None, ways):
            array.set(bytes(array.size))
            work()
            got, gap = array.get(), bytes(3 * piece)
            self.assertEqual(got, data[piece:2 * piece] + gap + data[2 * piece:] + gap[:2 * piece] + data[:piece] + gap[:piece])
        locked.free()

    def test_a_server_that_does_not_start_leaves_the_others_rows(self):
        ran = Ran(weights=str(1 << 40))  # no machine has room for such an arena
        self.assertEqual(ran.done.returncode, 1)
        self.assertIn("a server with GPUs that copy for it: failed: ", ran.done.stdout)
        ways, speeds = ran.tables
        self.assertEqual([(row[1], row[2]) for row in ways], [(door, way) for door, way in WAYS if way != "direct"])
        self.assertEqual([row[2] for row in speeds], [by for _, by in SPEEDS if "direct" not in by])
        self.assertEqual(ran.failed(), set())

    def test_transfers_by_another_way_than_a_rows_are_noticed(self):
        names = ("staged", "shared", "direct", "peer", "not_direct", "direct_failed", "peer_failed", "failed")
        counted = {**dict.fromkeys(names, 0), "direct": 40}
        all_went("direct", counted)
        for way, changes in (("direct", {"shared": 1}), ("direct", {"staged": 1}), ("direct", {"failed": 1}), ("direct", {"direct_failed": 1}),
                             ("direct", {"direct": 0}), ("shared", {}), ("peer", {"direct": 0, "peer": 40, "peer_failed": 1})):
            with self.assertRaises(AssertionError, msg=(way, changes)):
                all_went(way, {**counted, **changes})

    def test_a_wrong_byte_in_what_is_read_back_fails_every_row(self):
        ran = Ran(TEST_VERBENA_CUDA_WRONG="cuMemcpyDtoH_v2")
        self.assertEqual(ran.done.returncode, 1)
        self.assertEqual({door for door, by in ran.failed() if not by}, {door for door, _ in WAYS})
        self.assertIn("verify_device: failed", ran.done.stdout)
        self.assertTrue(any(what.startswith("weights") for what, _ in ran.failed()))

    def test_a_wrong_byte_in_copies_to_the_device_fails_the_rows_that_have_them(self):
        ran = Ran(TEST_VERBENA_CUDA_WRONG="cuMemcpyHtoDAsync_v2")
        self.assertEqual(ran.done.returncode, 1)
        self.assertEqual({door for door, by in ran.failed() if not by}, {door for door, way in WAYS if way != "peer"})
        self.assertIn("verify_device: failed", ran.done.stdout)
        self.assertTrue(any(what.startswith("weights") for what, _ in ran.failed()))

    def test_a_wrong_byte_in_copies_from_the_device_fails_the_rows_that_have_them(self):
        ran = Ran(TEST_VERBENA_CUDA_WRONG="cuMemcpyDtoHAsync_v2")
        self.assertEqual(ran.done.returncode, 1)
        self.assertEqual({door for door, by in ran.failed() if not by}, {door for door, way in WAYS if way != "peer"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
