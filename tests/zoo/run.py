#!/usr/bin/python3
"""Runs the zoo: every application, or the named ones. Each installs its packages.

usage: run.py [NAME...]
"""
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PARTS = {"run", "zoo", "postgres", "proxy"}


def main():
    names = sys.argv[1:] or sorted(path.stem for path in HERE.glob("*.py") if path.stem not in PARTS)
    failed = []
    for name in names:
        began = time.monotonic()
        status = subprocess.run(["/usr/bin/python3", HERE / f"{name}.py"], stdin=subprocess.DEVNULL).returncode
        print(f"{name}: {'ok' if status == 0 else 'FAILED'} ({time.monotonic() - began:.0f} s)", flush=True)
        if status != 0:
            failed.append(name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
