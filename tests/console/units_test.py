#!/usr/bin/python3
"""The console's modules that need no browser, by node's own test runner."""
import pathlib
import shutil
import subprocess
import sys

SKIPPED = 77

if __name__ == "__main__":
    if not shutil.which("node"):
        print("there is no node", file=sys.stderr)
        sys.exit(SKIPPED)
    files = sorted(pathlib.Path(__file__).resolve().parent.glob("units/*.test.mjs"))
    assert files, "there are no tests"
    sys.exit(subprocess.run(["node", "--test", *sys.argv[1:], *files], timeout=240, stdin=subprocess.DEVNULL).returncode)
