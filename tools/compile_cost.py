#!/usr/bin/env python3
"""What a build costs, in seconds of CPU: compiles a sample of its units without ccache and extrapolates by kind. Seconds of CPU and
not of the clock, so that a machine with other work on it gives nearly the same answer.

usage: compile_cost.py BUILD [--every N] [--header FILE | --built TARGET]
  --every N      of each kind compile each Nth unit (default 6)
  --header FILE  only what is compiled again when this file has changed (the build must have been made once)
  --built TARGET nothing is compiled: what Ninja's log says that this target and all it is made of took, job by job
                 (seconds of the clock: of a machine that did nothing else, and only where ccache had none of it)
"""
import argparse
import collections
import json
import os
import pathlib
import resource
import shlex
import subprocess
import tempfile

COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++")


def kind_of(output):
    if "_pch.dir" in output:
        return "precompiled"
    if output.startswith("fuzz/"):
        return "fuzzers"
    return "tests" if "_test.dir" in output or output.startswith("tests/") else "libraries and programs"


def compiler_of(command):
    """The command without its launcher (ccache)."""
    words = shlex.split(command)
    for at, word in enumerate(words):
        if pathlib.Path(word).name.rstrip("-0123456789") in COMPILERS:
            return words[at:]
    raise SystemExit(f"no compiler in: {command}")


def units_of(build):
    entries = json.loads((build / "compile_commands.json").read_text())
    return {entry["output"]: entry for entry in entries if "output" in entry} or {
        shlex.split(entry["command"])[shlex.split(entry["command"]).index("-o") + 1]: entry for entry in entries}


def readers_of(build, header):
    """Outputs made from this file, by the compiler's dependency lists in Ninja's log."""
    said = subprocess.run(["ninja", "-C", build, "-t", "deps"], stdout=subprocess.PIPE, text=True, check=True).stdout
    readers, output = set(), None
    for line in said.splitlines():
        if line and not line.startswith(" "):
            output = line.split(":")[0]
        elif (build / line.strip()).resolve() == header:
            readers.add(output)
    return readers


def built_seconds(build, target):
    """Of all jobs that the target needed, by Ninja's log."""
    needed = subprocess.run(["ninja", "-C", build, "-t", "inputs", target], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    took = {}
    for line in (build / ".ninja_log").read_text().splitlines()[1:]:
        start, end, _, output, _ = line.split("\t")
        took[output] = (int(end) - int(start)) / 1000
    return sum(took.get(output, 0) for output in {*needed, target})


def cpu_seconds(unit, scratch):
    words = compiler_of(unit["command"])
    words[words.index("-o") + 1] = str(scratch / "out")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, cwd=unit["directory"], check=True, stderr=subprocess.DEVNULL, env={**os.environ, "CCACHE_DISABLE": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    options = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1])
    options.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    options.add_argument("--every", type=int, default=6)
    options.add_argument("--header", type=lambda text: pathlib.Path(text).resolve())
    options.add_argument("--built")
    options = options.parse_args()
    if options.built:
        seconds = built_seconds(options.build, options.built)
        print(f"{options.built}: {seconds / 60:.1f} minutes of jobs; with two at a time {seconds / 120:.1f}")
        return
    units = units_of(options.build)
    if options.header:
        readers = readers_of(options.build, options.header)
        units = {output: unit for output, unit in units.items() if output in readers}
    kinds = collections.defaultdict(list)
    for output in sorted(units):
        kinds[kind_of(output)].append(output)
    whole = 0
    with tempfile.TemporaryDirectory() as scratch:
        for kind, outputs in kinds.items():
            sample = outputs[options.every // 2::options.every] or outputs[:1]
            mean = sum(cpu_seconds(units[output], pathlib.Path(scratch)) for output in sample) / len(sample)
            whole += mean * len(outputs)
            print(f"{kind}: {len(outputs)} units, {mean:.1f} s each ({len(sample)} were compiled), {mean * len(outputs) / 60:.1f} minutes",
                  flush=True)
    print(f"all: {whole / 60:.1f} minutes of CPU; on two cores {whole / 120:.1f} at best")


if __name__ == "__main__":
    main()
