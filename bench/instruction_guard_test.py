#!/usr/bin/env python3
"""Tests of the instruction guard: it can fail on every toolchain."""
import contextlib
import io
import pathlib
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import instruction_guard as guard  # noqa: E402

HOME = {"compiler": "gcc 12.2.0, -O2", "libc": "glibc 2.36", "vectors": "avx2"}
ELSEWHERE = {"compiler": "gcc 14.2.0, -O2", "libc": "glibc 2.41", "vectors": "avx2"}
BASELINE = {"environment": HOME, "instructions": {"reference": 10_000, "get": 50_000, "put": 200_000}}


def failures(counts, exact):
    return [line for line, failed in guard.judge(counts, BASELINE, exact) if failed]


class GuardTest(unittest.TestCase):
    def test_what_costs_more_fails_where_the_toolchain_is_known(self):
        self.assertEqual(failures({"reference": 10_000, "get": 52_000, "put": 200_000}, exact=True), [])
        self.assertEqual(len(failures({"reference": 10_000, "get": 54_000, "put": 200_000}, exact=True)), 1)

    def test_what_costs_more_fails_where_the_toolchain_is_not_known(self):
        # This toolchain needs a tenth fewer instructions for everything.
        self.assertEqual(failures({"reference": 9_000, "get": 45_000, "put": 180_000}, exact=False), [])
        self.assertEqual(len(failures({"reference": 9_000, "get": 45_000 * 1.4, "put": 180_000}, exact=False)), 1)

    def test_a_case_without_a_baseline_fails(self):
        self.assertEqual(len(failures({"reference": 10_000, "get": 50_000, "put": 200_000, "new": 1}, exact=True)), 1)

    def test_no_environment_is_skipped(self):
        recorded = guard.json.loads(guard.BASELINE.read_text(encoding="utf-8"))["baselines"]
        twice = {case: 2 * count for case, count in recorded[0]["instructions"].items()}
        twice["reference"] //= 2
        for here in (recorded[0]["environment"], ELSEWHERE, {"compiler": "clang 19", "libc": "musl", "vectors": "sse"}):
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(guard.compare(twice, here), 1, here)

    def test_a_machine_without_valgrind_fails(self):
        with unittest.mock.patch.object(guard.shutil, "which", return_value=None), contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(guard.main(["/nowhere/request_cost"]), 1)

    def test_the_nearest_baseline_is_the_one_that_shares_most(self):
        other = {"environment": {**HOME, "vectors": "sse"}, "instructions": {}}
        self.assertIs(guard.nearest([other, BASELINE], ELSEWHERE), BASELINE)
        self.assertIs(guard.nearest([BASELINE, other], {**ELSEWHERE, "vectors": "sse"}), other)


if __name__ == "__main__":
    unittest.main()
