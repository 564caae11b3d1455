#!/usr/bin/env python3
"""Runs the fuzzers round-robin, and tells what they cover. Called by `./dev fuzz`; fuzz/README.md describes it.

  --target NAME   one of them (may be repeated); without it all
  --seconds S     for each target in each round (default 60)
  --rounds N      0: until interrupted (default 1)
  --jobs N        how many at once
  --coverage      of a build with source coverage: reads all corpora once, and writes a report for each target
"""
import argparse
import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SEEDS = ROOT / "fuzz/corpus"
PARSERS = ROOT / "fuzz/parsers.json"  # target -> the files that it is for
STATS = ("number_of_executed_units", "new_units_added")


def find_tool(name):
    versioned = pathlib.Path(f"/usr/bin/{name}-19")
    return str(versioned) if versioned.exists() else name


def environment(build, name):
    env = dict(os.environ)
    env.setdefault("ASAN_OPTIONS", "detect_stack_use_after_return=0")
    env.setdefault("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")
    symbolizer = "/usr/lib/llvm-19/bin/llvm-symbolizer"
    env.setdefault("ASAN_SYMBOLIZER_PATH", symbolizer)
    env["LLVM_PROFILE_FILE"] = os.devnull
    return env


class Runs:
    """Totals by target, kept from run to run in the build folder."""

    def __init__(self, build):
        self.path = build / "fuzz/executions.json"
        self.lock = threading.Lock()
        self.totals = json.loads(self.path.read_text()) if self.path.exists() else {}

    def add(self, name, executions, seconds):
        with self.lock:
            total = self.totals.setdefault(name, {"executions": 0, "seconds": 0.0})
            total["executions"] += executions
            total["seconds"] += round(seconds, 1)
            self.path.write_text(json.dumps(self.totals, indent=1, sort_keys=True))

    def all(self):
        return sum(total["executions"] for total in self.totals.values())


def fuzz_one(build, name, seconds, runs):
    folder = build / "fuzz"
    found, seeds = folder / "corpus" / name, SEEDS / name
    for each in (found, seeds):
        each.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.log"
    command = [build / "bin" / f"{name}_fuzz", f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048",
               "-print_final_stats=1", "-verbosity=1", "-reload=0", f"-artifact_prefix={folder}/", found, seeds]
    begun = time.monotonic()
    with log.open("wb") as out:
        code = subprocess.run(command, stdout=out, stderr=out, env=environment(build, name)).returncode
    took = time.monotonic() - begun
    text = log.read_text(errors="replace")
    stats = {stat: int((re.findall(rf"stat::{stat}: +(\d+)", text) or ["0"])[-1]) for stat in STATS}
    edges = (re.findall(r"cov: (\d+)", text) or ["0"])[-1]
    executions = stats["number_of_executed_units"]
    runs.add(name, executions, took)
    print(f"{name:20} {executions:12,} executions {executions / max(took, 0.001):10,.0f}/s "
          f"{stats['new_units_added']:6,} new units {edges:>7} edges" + ("" if code == 0 else "   FAILED"), flush=True)
    if code != 0:
        print("\n".join("    " + line[:300] for line in text.splitlines()[-40:]), flush=True)
    return code == 0


def fuzz(build, names, arguments):
    runs = Runs(build)
    good, over = True, threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    round_number = 0
    while not over.is_set() and (arguments.rounds == 0 or round_number < arguments.rounds):
        round_number += 1
        left, lock = collections.deque(names), threading.Lock()

        def work():
            nonlocal good
            while not over.is_set():
                with lock:
                    if not left:
                        return
                    name = left.popleft()
                if not fuzz_one(build, name, arguments.seconds, runs):
                    good = False

        threads = [threading.Thread(target=work) for _ in range(arguments.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"round {round_number}: {runs.all():,} executions in all", flush=True)
    return good


def cover_one(build, name, files):
    """Lines and functions of the target's files that its corpora reach; the names of the others."""
    folder = build / "coverage"
    folder.mkdir(exist_ok=True)
    program, raw, merged = build / "bin" / f"{name}_fuzz", folder / f"{name}.profraw", folder / f"{name}.profdata"
    corpora = [path for path in (SEEDS / name, build / "fuzz/corpus" / name, ROOT / "build-fuzz/fuzz/corpus" / name)
               if path.is_dir()]
    env = environment(build, name) | {"LLVM_PROFILE_FILE": str(raw)}
    ran = subprocess.run([program, "-runs=0", "-timeout=60", *corpora], capture_output=True, text=True, env=env)
    if ran.returncode != 0:
        print(f"{name}: FAILED\n{ran.stderr[-2000:]}")
        return None
    subprocess.run([find_tool("llvm-profdata"), "merge", "-sparse", raw, "-o", merged], check=True)
    raw.unlink()
    sources = [str(ROOT / file) for file in files]
    cov = find_tool("llvm-cov")
    exported = subprocess.run([cov, "export", program, f"-instr-profile={merged}", "-skip-expansions", *sources],
                              capture_output=True, text=True, check=True)
    data = json.loads(exported.stdout)["data"][0]
    ours = set(sources)
    seen = {}
    for function in data["functions"]:
        if set(function["filenames"]) & ours:
            line = (function["filenames"][0], function["regions"][0][0])
            seen[line] = max(seen.get(line, (0, ""))[0], function["count"]), function["name"]
    totals = [file["summary"]["lines"] for file in data["files"] if file["filename"] in ours]
    lines, reached = sum(t["count"] for t in totals), sum(t["covered"] for t in totals)
    shown = subprocess.run([cov, "show", program, f"-instr-profile={merged}", *sources], capture_output=True, text=True)
    (folder / f"{name}.txt").write_text(shown.stdout)
    missed = sorted(f"{pathlib.Path(at[0]).relative_to(ROOT)}:{at[1]}" for at, (count, _) in seen.items() if count == 0)
    reached_functions = sum(1 for count, _ in seen.values() if count)
    print(f"{name:20} lines {reached:5} of {lines:5} ({100 * reached / max(lines, 1):5.1f} %)   "
          f"functions {reached_functions:4} of {len(seen):4}", flush=True)
    return {"lines": lines, "lines_reached": reached, "functions": len(seen), "functions_reached": reached_functions,
            "missed": missed}


def cover(build, names):
    parsers = json.loads(PARSERS.read_text())
    table = {name: cover_one(build, name, parsers[name]) for name in names}
    (build / "coverage/summary.json").write_text(json.dumps(table, indent=1, sort_keys=True))
    print(f"reports, line by line: {build / 'coverage'}/TARGET.txt; functions without a call: summary.json")
    return all(table.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", help="as --target")
    parser.add_argument("time", nargs="?", type=int, help="as --seconds")
    parser.add_argument("--target", action="append", default=[])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-fuzz")
    arguments = parser.parse_args()
    if arguments.name is not None and arguments.name.isdigit():
        arguments.name, arguments.time = None, int(arguments.name)
    if arguments.name:
        arguments.target.append(arguments.name)
    if arguments.time is not None:
        arguments.seconds = arguments.time
    build = arguments.build.resolve()
    built = sorted(path.name.removesuffix("_fuzz") for path in (build / "bin").glob("*_fuzz"))
    names = arguments.target or built
    for name in names:
        if name not in built:
            sys.exit(f"fuzz: {name} is none of {' '.join(built)}")
    (build / "fuzz").mkdir(exist_ok=True)
    good = cover(build, names) if arguments.coverage else fuzz(build, names, arguments)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
