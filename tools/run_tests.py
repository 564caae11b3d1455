#!/usr/bin/env python3
"""Runs CTest's tests of some labels. Up to three that failed are run once more, alone: one that passes then is flaky
(tools/failed_tests.py names it) and does not fail the run.

usage: run_tests.py BUILD LABELS [CTEST-ARGUMENT...]
LABELS is a regular expression. Writes BUILD/tests.xml, and BUILD/again.xml where tests were repeated.
"""
import pathlib
import subprocess
import sys

from failed_tests import cases

AGAIN_MAX = 3


def ctest(build, report, *arguments):
    return subprocess.run(["ctest", "--output-on-failure", *arguments, "--output-junit", report], cwd=build, check=False).returncode


def main():
    build, labels, arguments = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    (build / "again.xml").unlink(missing_ok=True)
    status = ctest(build, "tests.xml", "--no-tests=error", "-L", labels, *arguments)
    if status == 0:
        return 0
    report = build / "tests.xml"
    failed = [name for name, outcome, _ in cases(report) if outcome == "fail"] if report.exists() else []
    if not 0 < len(failed) <= AGAIN_MAX:
        return 1
    print(f"==> again, alone, what failed in {build}", file=sys.stderr, flush=True)
    return ctest(build, "again.xml", "--rerun-failed")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main())
