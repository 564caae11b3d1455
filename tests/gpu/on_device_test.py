#!/usr/bin/python3
"""The script for a machine with a GPU, over the double of the driver."""
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).resolve().parent / "on_device.py"
done = subprocess.run([sys.executable, SCRIPT, "--size", "5", "--seconds", "0"], capture_output=True, text=True, timeout=150)
print(done.stdout, done.stderr, sep="")
rows = [line for line in done.stdout.splitlines() if "Double 0" in line]
assert done.returncode == 0, done.returncode
assert [row.split("|")[2].strip() for row in rows] == ["native local, direct", "native local, direct, mapped", "native local, shared", "native tcp, staged", "http, staged"], rows
