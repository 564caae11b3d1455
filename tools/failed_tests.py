#!/usr/bin/env python3
"""Prints which tests of JUnit files failed, each with the end of what it printed.

usage: failed_tests.py [--at-most N] FILE...

A test of BUILD/tests.xml that passed in BUILD/again.xml, where it was run a second time, is flaky: named, and no failure.
Exit status 1 if any failed; with --at-most, which prints nothing: if none or more than N failed.
"""
import argparse
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

LINES = 40


def cases(path):
    """(name, status, what it printed) of each test."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        yield case.get("name"), case.get("status"), (case.findtext("system-out") or "").splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at-most", type=int)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    files = [path for path in options.files if path.exists()]

    passed_again = {(path.parent, name) for path in files if path.stem == "again"
                    for name, status, _ in cases(path) if status == "run"}
    failed = [(path, name, lines) for path in files for name, status, lines in cases(path) if status == "fail"]
    if options.at_most is not None:
        return 0 if 0 < len(failed) <= options.at_most else 1

    flaky = {(path.parent, name) for path, name, _ in failed} & passed_again
    for path, name, lines in failed:
        print(f"---- {name} ({path.parent.name}), the end of its output:", *lines[-LINES:], sep="\n")
    lost = sorted({(path.parent, name) for path, name, _ in failed} - flaky)
    for folder, name in sorted(flaky):
        print(f"flaky: {name} ({folder.name}): failed, then passed alone; find the cause")
    for folder, name in lost:
        print(f"failed: {name} ({folder.name})")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
