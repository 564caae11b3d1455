#!/usr/bin/env python3
"""Prints the failed tests of JUnit files, each with the end of its output.

usage: failed_tests.py FILE...

A test of BUILD/tests.xml that passed in BUILD/again.xml, its second run, is flaky: named and counted, but no
failure. Exit status 1 if any failed.
"""
import argparse
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

LINES = 40


def cases(path):
    """(name, status, output) of each test."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        yield case.get("name"), case.get("status"), (case.findtext("system-out") or "").splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    files = [path for path in options.files if path.exists()]

    passed_again = {(path.parent, name) for path in files if path.stem == "again"
                    for name, status, _ in cases(path) if status == "run"}
    failed = [(path, name, lines) for path in files for name, status, lines in cases(path) if status == "fail"]

    flaky = {(path.parent, name) for path, name, _ in failed} & passed_again
    for path, name, lines in failed:
        print(f"---- {name} ({path.parent.name}), the end of its output:", *lines[-LINES:], sep="\n")
    lost = sorted({(path.parent, name) for path, name, _ in failed} - flaky)
    for folder, name in sorted(flaky):
        print(f"flaky: {name} ({folder.name}): failed, then passed alone; find the cause")
    for folder, name in lost:
        print(f"failed: {name} ({folder.name})")
    if failed:
        print(f"{len(lost)} failed, {len(flaky)} flaky")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
