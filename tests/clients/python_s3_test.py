#!/usr/bin/python3
"""The S3 tests that use boto3, each run twice: with a plain client, and with one after verbena.accelerate.

usage: python_s3_test.py [AREA...]
"""
import json
import os
import pathlib
import re
import subprocess
import sys

from python_case import skip

try:
    import boto3  # noqa: F401
except ImportError:
    skip("no boto3")

TESTS = pathlib.Path(__file__).resolve().parents[1]
AREAS = ("objects", "versions", "errors", "listing", "buckets", "access", "encryption", "lifecycle")
FOLDERS = {"access": "iam"}  # the other areas are in tests/s3


def run(area, how):
    done = subprocess.run(["/usr/bin/python3", str(TESTS / FOLDERS.get(area, "s3") / f"{area}_test.py")], env=dict(os.environ, TEST_BOTO3=how), capture_output=True,
                          text=True, timeout=500)
    ran = re.search(r"^Ran (\d+) tests?", done.stderr, re.M)
    failed = set(re.findall(r"^(?:ERROR|FAIL): (\w+)", done.stderr, re.M))
    assert ran and not failed and done.returncode == 0, f"{area}, {how}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-6000:]}"
    said = re.search(r"^accelerated (.*)$", done.stdout, re.M)
    return int(ran[1]), json.loads(said[1]) if said else ({}, {})


def main():
    sums = {}
    print(f"{'area':12}{'tests plain':>12}{'accelerated':>12}{'native':>8}{'token':>7}{'http':>6}")
    for area in sys.argv[1:] or AREAS:
        plain, _ = run(area, "plain")
        fast, (counts, reasons) = run(area, "accelerated")
        assert plain == fast > 0, f"{area}: {plain} tests plain, {fast} accelerated"
        assert counts.get("clients"), f"{area}: nothing was accelerated"
        print(f"{area:12}{plain:12}{fast:12}" + "".join(f"{counts.get(way, 0):{width}}" for way, width in (("native", 8), ("token", 7), ("http", 6))))
        for reason, n in sorted(reasons.items(), key=lambda entry: -entry[1])[:6]:
            print(f"            by http {n:4}: {reason}")
        for way in ("native", "token", "http"):
            sums[way] = sums.get(way, 0) + counts.get(way, 0)
    if "objects" in (sys.argv[1:] or AREAS):
        assert sums["native"] > 0 and sums["token"] > 0, "nothing travelled natively, or nothing by token"


main()
