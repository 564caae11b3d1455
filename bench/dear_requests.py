#!/usr/bin/env python3
"""The most expensive request of each kind: how long it holds a core, and its CPU time: writes its section of
docs/security.md. A run in which one holds a core for longer than HELD_MAX_MS writes nothing and fails.

    ./dev bench requests            a minute
    ./dev bench requests NAME...    prints only these

Each is sent several times, one after the other, to a whole server whose core's work is done on one thread; the
thread's CPU time is read between any two handlers of the core (bench/dear_requests.cc). The figures are medians of
the runs."""

import json
import pathlib
import subprocess
import sys

import report

ROOT = pathlib.Path(__file__).resolve().parents[1]
MARKS = ("<!-- dearest requests: ./dev bench requests -->", "<!-- end of dearest requests -->")
HELD_MAX_MS = 2


def section(rows, where):
    lines = [MARKS[0], "", "## The most expensive requests", "",
             f"Written by `./dev bench requests` ({where}). For the most expensive request of each kind: how long at a time it",
             "holds the core that serves it (nothing else runs on that core meanwhile), and the CPU that the core spends on it in",
             f"all, in milliseconds; medians of five. Nothing may hold a core for more than {HELD_MAX_MS} ms. Documents above 64 KiB are read",
             "on a separate thread (`src/s3/document_reading.h`).", "",
             "| request | status | held at a time | CPU of the core |", "| --- | --- | --- | --- |"]
    lines += [f"| {row['what']} | {row['status']} | {row['held_ms']:.2f} | {row['cpu_ms']:.2f} |" for row in rows]
    return "\n".join([*lines, "", MARKS[1], ""])


def main():
    names = sys.argv[1:]
    program = ROOT / "build/bin/dear_requests"
    if names:
        sys.exit(subprocess.run([program, *names]).returncode)
    rows = json.loads(subprocess.run([program, "--json"], check=True, capture_output=True, text=True).stdout)
    for row in rows:
        over = "  over" if row["held_ms"] > HELD_MAX_MS else ""
        print(f"{row['name']:<18} {row['status']} {row['held_ms']:9.3f} {row['cpu_ms']:9.3f}{over}")
    if any(row["held_ms"] > HELD_MAX_MS for row in rows):
        sys.exit(f"a request held a core for more than {HELD_MAX_MS} ms: the page is not written")
    path = ROOT / "docs/security.md"
    where = report.machine()
    text = section(rows, f"{where['machine']}; load {where['load']}; commit {where['commit']}, `release` preset")
    path.write_text(report.merged(path.read_text(encoding="utf-8"), text, MARKS), encoding="utf-8")


if __name__ == "__main__":
    main()
