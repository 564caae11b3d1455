#!/usr/bin/env python3
"""Counts the instructions that a request costs the server (callgrind, bench/request_cost) and holds them against the
recorded baseline: what a change makes slower by more than the tolerance fails here, on a machine however noisy.

    instruction_guard.py PROGRAM            compare; 0: within the tolerance, 1: not, 77: nothing to compare with
    instruction_guard.py PROGRAM --record   write the baseline anew

The baseline is of one compiler, C library and kind of build; under others the counts say nothing and the comparison is
skipped, saying so."""

import argparse
import json
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

BASELINE = pathlib.Path(__file__).resolve().parent / "instructions.json"
TOLERANCE = 0.06  # of a count, upwards; downwards it asks for a new baseline
REQUESTS = 100
SKIPPED = 77


def environment(program: str) -> dict:
    """What the counts depend on beside the sources."""
    compiler = subprocess.run([program, "--compiler"], capture_output=True, text=True, check=True).stdout.strip()
    libc = " ".join(platform.libc_ver())
    flags = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    widest = "avx2" if re.search(r"^flags\s*:.*\bavx2\b", flags, re.M) else "sse"
    return {"compiler": compiler, "libc": libc, "vectors": widest}


def count(program: str, case: str) -> float:
    """Instructions per request of one case."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "--collect-atstart=no",
                   "--toggle-collect=counted_requests", program, "--case", case, "--requests", str(REQUESTS)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not found or int(found.group(1)) == 0:
        sys.exit(f"callgrind could not run {case}:\n{run.stderr}")
    return int(found.group(1)) / REQUESTS


def profile(program: str, case: str, lines: int = 12) -> list[tuple[str, float]]:
    """The functions of ours that a case's instructions are spent in, callees included: (name, percent)."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "--collect-atstart=no",
                        "--toggle-collect=counted_requests", program, "--case", case, "--requests", str(REQUESTS)],
                       capture_output=True, timeout=240, check=True)
        text = subprocess.run(["callgrind_annotate", "--inclusive=yes", f"{folder}/out"], capture_output=True,
                              text=True, timeout=120, check=True).stdout
    found: dict[str, float] = {}
    for percent, name in re.findall(r"\(\s*([\d.]+)%\)\s+\S+?:(verbena::[^\n]*)", text):
        name = re.sub(r"\(anonymous namespace\)::", "", name)
        name = re.sub(r"\[abi:\w+\]", "", name)
        name = re.split(r"[(\[<]", name)[0].strip().removeprefix("verbena::")
        if not name.startswith("bench::") and float(percent) < 99.5:
            found[name] = max(found.get(name, 0.0), float(percent))
    return sorted(found.items(), key=lambda item: -item[1])[:lines]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="build/bin/request_cost")
    parser.add_argument("--record", action="store_true", help="write the baseline anew")
    arguments = parser.parse_args()
    if not shutil.which("valgrind"):
        print("SKIPPED: there is no valgrind here")
        return SKIPPED
    here = environment(arguments.program)
    cases = subprocess.run([arguments.program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    if arguments.record:
        counts = {case: round(count(arguments.program, case)) for case in cases}
        BASELINE.write_text(json.dumps({"environment": here, "instructions": counts}, indent=2) + "\n",
                            encoding="utf-8")
        print(BASELINE.read_text(encoding="utf-8"), end="")
        return 0
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    if baseline["environment"] != here:
        print(f"SKIPPED, not compared: the baseline is of {baseline['environment']}, this is {here}")
        return SKIPPED
    failed = False
    for case in cases:
        now, then = count(arguments.program, case), baseline["instructions"].get(case)
        if then is None:
            print(f"{case:<21} {now:>10.0f}  has no baseline: record one")
            failed = True
            continue
        change = now / then - 1
        verdict = "ok"
        if change > TOLERANCE:
            verdict, failed = "COSTS MORE: find out why, or record a new baseline and say why", True
        elif change < -TOLERANCE:
            verdict = "costs less: record a new baseline, so that it stays so"
        print(f"{case:<21} {now:>10.0f} instructions, was {then}: {change:+.1%}  {verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
