#!/usr/bin/python3
"""The script for a machine with a GPU, over the double of the driver."""
import pathlib
import subprocess
import sys

from hip_driver import is_hip, own

SCRIPT = pathlib.Path(__file__).resolve().parent / "on_device.py"
done = subprocess.run([sys.executable, SCRIPT, "--memory", own("cuda", "rocm"), "--size", "5", "--seconds", "0"], capture_output=True, text=True, timeout=150)
print(done.stdout, done.stderr, sep="")
rows = [line for line in done.stdout.splitlines() if "Double 0" in line]
assert done.returncode == 0, done.returncode
ways = ["native local, direct", "native local, direct, mapped", "native local, shared", "native tcp, staged", "http, staged"]
if is_hip():
    ways.remove("native local, direct, mapped")  # HIP shares no memory by descriptors
assert [row.split("|")[2].strip() for row in rows] == ways, rows
