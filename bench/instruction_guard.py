#!/usr/bin/env python3
"""Counts the server's instructions for a request (callgrind, bench/request_cost) and compares them with a recorded
baseline: a slowdown beyond the tolerance fails here, however noisy the machine.

    instruction_guard.py PROGRAM            compare; 0: within the tolerance, 1: not, or there is no valgrind
    instruction_guard.py PROGRAM --record   write this toolchain's baseline anew

A baseline is of one compiler, C library and kind of build. Without one for this toolchain, each count is divided by
that of a reference workload from the same run (bench/reference_work.cc) and compared with the same ratio of the
nearest recorded baseline, with a wider tolerance: an unknown toolchain is compared less exactly, but it is compared."""

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
TOLERANCE = 0.06  # of a count, upwards; downwards it requires a new baseline
TOLERANCE_OF_RATIO = 0.35  # the ratio of a request to the reference differs by up to that between toolchains
REFERENCE = "reference"
REQUESTS, REQUESTS_OF_1M = 100, 10  # of a case


def environment(program: str) -> dict:
    """The environment that the counts depend on besides the sources."""
    compiler = subprocess.run([program, "--compiler"], capture_output=True, text=True, check=True).stdout.strip()
    libc = " ".join(platform.libc_ver())
    flags = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    widest = "avx2" if re.search(r"^flags\s*:.*\bavx2\b", flags, re.M) else "sse"
    return {"compiler": compiler, "libc": libc, "vectors": widest}


def requests(case: str) -> int:
    """How many are counted: callgrind takes a second for some 20 million instructions."""
    return REQUESTS_OF_1M if case.endswith("_1m") else REQUESTS


def callgrind(program: str, case: str, out: str) -> int:
    """Runs requests of a case, writes their profile to the file `out`, and returns their instructions."""
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no",
               "--toggle-collect=counted_requests", program, "--case", case, "--requests", str(requests(case))]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not found or int(found.group(1)) == 0:
        sys.exit(f"callgrind could not run {case}:\n{run.stderr}")
    return int(found.group(1))


def count(program: str, case: str) -> float:
    """Instructions per request of one case."""
    with tempfile.TemporaryDirectory() as folder:
        return callgrind(program, case, f"{folder}/out") / requests(case)


def profile(program: str, case: str, lines: int = 12) -> list[tuple[str, float]]:
    """Our functions with the most instructions in a case, callees included: (name, percent)."""
    with tempfile.TemporaryDirectory() as folder:
        callgrind(program, case, f"{folder}/out")
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


def nearest(baselines: list[dict], here: dict) -> dict:
    """The baseline with most in common with this environment; the first of equals."""
    return max(baselines, key=lambda one: sum(one["environment"].get(key) == value for key, value in here.items()))


def judge(counts: dict, baseline: dict, exact: bool) -> list[tuple[str, bool]]:
    """A line for each case, and whether it fails."""
    then = baseline["instructions"]
    tolerance = TOLERANCE if exact else TOLERANCE_OF_RATIO
    scale = 1.0 if exact else counts[REFERENCE] / then[REFERENCE]
    lines = []
    for case, now in counts.items():
        if case == REFERENCE:
            continue
        if case not in then:
            lines.append((f"{case:<21} {now:>10.0f}  has no baseline: record one", True))
            continue
        expected = then[case] * scale
        change = now / expected - 1
        verdict, failed = "ok", False
        if change > tolerance:
            verdict, failed = "COSTS MORE: find out why, or record a new baseline and say why", True
        elif change < -tolerance:
            verdict = "costs less: record a new baseline, so that it stays so"
        lines.append((f"{case:<21} {now:>10.0f} instructions, {'was' if exact else 'expected'} {expected:.0f}: "
                      f"{change:+.1%}  {verdict}", failed))
    return lines


def record(counts: dict, here: dict) -> None:
    known = json.loads(BASELINE.read_text(encoding="utf-8"))["baselines"] if BASELINE.exists() else []
    entry = {"environment": here, "instructions": {case: round(count) for case, count in counts.items()}}
    places = [i for i, one in enumerate(known) if one["environment"] == here]
    if places:
        known[places[0]] = entry
    else:
        known.append(entry)
    BASELINE.write_text(json.dumps({"baselines": known}, indent=2) + "\n", encoding="utf-8")
    print(BASELINE.read_text(encoding="utf-8"), end="")


def compare(counts: dict, here: dict) -> int:
    baselines = json.loads(BASELINE.read_text(encoding="utf-8"))["baselines"]
    baseline = nearest(baselines, here)
    exact = baseline["environment"] == here
    if not exact:
        print(f"No baseline of {here}: compared by ratios to the reference workload with that of {baseline['environment']}.")
        print("--record adds one of this toolchain, which compares more finely.")
    lines = judge(counts, baseline, exact)
    for line, _ in lines:
        print(line)
    return 1 if any(failed for _, failed in lines) else 0


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="build/bin/request_cost")
    parser.add_argument("--record", action="store_true", help="write this toolchain's baseline anew")
    arguments = parser.parse_args(words)
    if not shutil.which("valgrind"):
        print("There is no valgrind here, without which nothing is counted: ./dev setup installs it.")
        return 1
    cases = subprocess.run([arguments.program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    counts = {case: count(arguments.program, case) for case in [REFERENCE, *cases]}
    here = environment(arguments.program)
    if arguments.record:
        record(counts, here)
        return 0
    return compare(counts, here)


if __name__ == "__main__":
    sys.exit(main())
