#!/usr/bin/env python3
"""What `./dev test LABEL` builds contains each program and library that CTest's tests of that label run.

usage: targets_test.py SOURCE BUILD

A program that is missing there is found in a build folder that holds it from before, and fails in a new clone alone."""
import json
import os
import pathlib
import re
import subprocess
import sys

SOURCE, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def tests():
    """(label, name, paths in the build folder that its command names), of each test."""
    listed = json.loads(run("ctest", "--test-dir", str(BUILD), "--show-only=json-v1"))
    for test in listed["tests"]:
        labels = [label for each in test.get("properties", []) if each["name"] == "LABELS" for label in each["value"]]
        words = [word for argument in test.get("command", []) for word in re.split("[=:]", argument)]
        inside = {os.path.relpath(word, BUILD) for word in words if word.startswith(f"{BUILD}/")}
        for label in labels:
            yield label, test["name"], inside


def built_for(label, function):
    """Programs and shared libraries, relative to the build folder."""
    targets = run("bash", "-c", f'{function}\nrelease_targets {label}').split()
    commands = run("ninja", "-C", str(BUILD), "-t", "commands", *targets)
    return set(re.findall(r" -o ((?!\S+\.o )\S+)", commands))


def main():
    function = re.search(r"^release_targets\(\) \{\n.*?^\}", (SOURCE / "dev").read_text(encoding="utf-8"), re.M | re.S).group()
    every = set(re.findall(r"^(\S+): \w+_LINKER__", run("ninja", "-C", str(BUILD), "-t", "targets", "all"), re.M))
    built, missing, looked_at = {}, [], 0
    for label, name, paths in tests():
        if label in ("hand", "new_seeds"):  # the latter stands beside one by which it is built
            continue
        if label not in built:
            built[label] = built_for(label, function)
        looked_at += len(paths & every)
        missing += [f"{name} (label {label}) runs {path}" for path in sorted((paths & every) - built[label])]
    if not looked_at:
        missing.append("no test was found that runs a program of this build")
    for line in missing:
        print(f"{line}: release_targets in ./dev does not build it")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
