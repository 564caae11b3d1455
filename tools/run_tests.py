#!/usr/bin/env python3
"""Runs CTest's tests of some labels; or once more, one at a time, those that failed, if they are at most three: one that
passes then is flaky (tools/failed_tests.py names it) and does not fail the run. Tests with the label `new_seeds` are not
run once more: they draw others each time, and a pass of other seeds says nothing of the one that failed.

usage: run_tests.py BUILD LABELS [CTEST-ARGUMENT...]
       run_tests.py --again BUILD
LABELS is a regular expression. Writes BUILD/tests.xml, and BUILD/again.xml where tests were repeated.
"""
import pathlib
import subprocess
import sys

from failed_tests import cases

AGAIN_MAX = 3


def ctest(build, report, *arguments):
    return subprocess.run(["ctest", "--output-on-failure", *arguments, "--output-junit", report], cwd=build, check=False).returncode


def first(build, labels, *arguments):
    (build / "again.xml").unlink(missing_ok=True)
    return ctest(build, "tests.xml", "--no-tests=error", "-L", labels, *arguments)


def again(build):
    report = build / "tests.xml"
    failed = [name for name, outcome, _ in cases(report) if outcome == "fail"] if report.exists() else []
    if not 0 < len(failed) <= AGAIN_MAX:
        return 1
    print(f"==> again, alone, what failed in {build}", file=sys.stderr, flush=True)
    return ctest(build, "again.xml", "--rerun-failed", "-LE", "^new_seeds$")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    if sys.argv[1] == "--again":
        sys.exit(again(pathlib.Path(sys.argv[2])))
    sys.exit(first(pathlib.Path(sys.argv[1]), *sys.argv[2:]))
