#!/usr/bin/env python3
"""Prints which tests of JUnit files failed, each with the end of what it printed.

usage: failed_tests.py FILE...      exit status 1 if any failed
"""
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

LINES = 40


def failed_in(path):
    root = ElementTree.parse(path).getroot()
    for case in root.iter("testcase"):
        if case.get("status") == "fail":
            yield case.get("name"), (case.findtext("system-out") or "").splitlines()


def main():
    names = []
    for path in map(pathlib.Path, sys.argv[1:]):
        if not path.exists():
            continue
        for name, lines in failed_in(path):
            names.append(f"{name} ({path.parent.name})")
            print(f"---- {names[-1]}, the end of its output:", *lines[-LINES:], sep="\n")
    for name in names:
        print("failed:", name)
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
