#!/usr/bin/python3
"""Plants faults into the program, one at a time, and runs the test that must find each.

    tools/planted.py [--build FOLDER] [--list] TABLE [NAME ...]

TABLE: a TOML file of [[fault]] rows:
    name    what is named on the command line and in documents
    file    a source (.cc) of this repository
    old     a text that stands there exactly once
    new     what stands there instead
    target  the program of the build that is linked with the fault in it
    run     the command that must fail then; {program} is that program
    row     optional: the fault's number in a document

Nothing of the repository or of the build changes: the changed source and the program are made in a temporary folder,
from the compile and link commands of the build (default: build), whose programs must be up to date. Prints a line for
each fault, and exits with 1 if one was not caught. A row's command is also run against the program without the fault,
which it must pass (--no-control leaves that out).
"""
import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIMEOUT_S = 900


class Build:
    def __init__(self, folder):
        self.folder = folder
        self.units = json.loads((folder / "compile_commands.json").read_text())

    def unit_of(self, source):
        """The compile command whose file is the source, or a unity file that includes it."""
        for unit in self.units:
            file = pathlib.Path(unit["file"])
            if file == source or file.suffix == ".cxx" and f'#include "{source}"' in file.read_text():
                return unit
        raise SystemExit(f"planted: no compile command for {source}")

    def compile(self, source, text, scratch):
        """The object of the unit that holds the source, with this text in its place."""
        unit = self.unit_of(source)
        changed = scratch / source.name
        changed.write_text(text)
        unit_file = pathlib.Path(unit["file"])
        if unit_file != source:
            unity = scratch / "unity.cxx"
            unity.write_text(unit_file.read_text().replace(f'"{source}"', f'"{changed}"'))
            changed = unity
        command = shlex.split(unit["command"])
        if command[0].endswith("ccache"):
            command = command[1:]
        at = command.index("-o")
        original, command[at + 1] = command[at + 1], str(scratch / "planted.o")
        command[command.index("-c") + 1] = str(changed)
        command.append(f"-I{source.parent}")
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"planted: the changed {source.name} does not compile\n{done.stderr[-3000:]}")
        return original

    def link(self, target, original, scratch):
        """The program, with the planted object before, or instead of, the one without it."""
        output = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", target], capture_output=True, text=True, check=True)
        line = output.stdout.splitlines()[-1].removeprefix(": && ").removesuffix(" && :")
        command = shlex.split(line)
        if command[0].endswith("ccache"):
            command = command[1:]
        planted = str(scratch / "planted.o")
        if original in command:
            command[command.index(original)] = planted
        else:
            command.insert(command.index("-o"), planted)
        program = scratch / pathlib.Path(command[command.index("-o") + 1]).name
        command[command.index("-o") + 1] = str(program)
        subprocess.run(command, cwd=self.folder, check=True)
        return program

    def program(self, target):
        return self.folder / target


def run(row, program):
    """Whether the command failed, for how long it ran, and its last lines."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        try:
            done = subprocess.run(["sh", "-c", row["run"].format(program=program)], cwd=place, capture_output=True, text=True, timeout=TIMEOUT_S)
            failed, text = done.returncode != 0, done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            failed, text = True, "no end"
    return failed, time.monotonic() - began, text


def said(text):
    """The line by which a person recognizes what was found: a failed check, or the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if re.search(r"seed \d+.*(fail|wrong|lost)|^\[  FAILED  \]|AssertionError|: Failure$", line):
            return line[:140]
    return lines[-1][:140] if lines else ""


def plant(build, row):
    source = ROOT / row["file"]
    text = source.read_text()
    if text.count(row["old"]) != 1:
        raise SystemExit(f"planted: {row['name']}: its text stands {text.count(row['old'])} times in {row['file']}")
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        scratch = pathlib.Path(folder)
        original = build.compile(source, text.replace(row["old"], row["new"]), scratch)
        return run(row, build.link(row["target"], original, scratch))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--list", action="store_true", help="name the faults and end")
    parser.add_argument("--no-control", action="store_true", help="do not run the commands without the faults first")
    arguments = parser.parse_args()
    rows = tomllib.loads(arguments.table.read_text())["fault"]
    unknown = set(arguments.names) - {row["name"] for row in rows}
    if unknown:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    rows = [row for row in rows if not arguments.names or row["name"] in arguments.names]
    if arguments.list:
        print(*(row["name"] for row in rows), sep="\n")
        return 0
    build = Build(arguments.build.resolve())
    missed, passed = 0, set()
    for row in rows:
        control = (row["target"], row["run"])
        if not arguments.no_control and control not in passed:
            failed, _, text = run(row, build.program(row["target"]))
            if failed:
                print(f"{row['name']}: the test fails without it, too: {said(text)}", flush=True)
                missed += 1
                continue
            passed.add(control)
        caught, seconds, text = plant(build, row)
        missed += not caught
        print(f"{'caught    ' if caught else 'NOT CAUGHT'} {row['name']} ({seconds:.0f} s): {said(text) if caught else ''}", flush=True)
    print(f"{len(rows) - missed} of {len(rows)} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
