#!/usr/bin/env python3
"""Plants faults into the program, one at a time, and runs the test that must find each.

    tools/planted.py TABLE [--only TEXT] [--sound] [--build FOLDER]

TABLE: a TOML file of [[fault]] rows, for example tests/simulator/planted.toml:
    name            what is wrong then
    [[fault.edit]]  file, old, new: the text `old` stands exactly once in that file, and is replaced
    target          the program of the build that must find it; default: verbena_simulator
    seeds           the simulator's seeds, or
    text            the filter of the program's unit tests, or
    command         a test that starts the program; {python} in it is the build's Python package
    real            optional: the number of a fault that was once in the program

Nothing of the repository or the build changes: the changed files, their objects and the program are made in a temporary
folder, by the compile and link commands of the build (default: build), which must be up to date. --sound first runs
everything without a fault, which must pass. Prints a row of a table for each fault; exit 0: every fault was caught."""
import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIMEOUT_S = 1800


def run(command, **options):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)


def without_ccache(command):
    return command[1:] if command[0].endswith("ccache") else command


class Build:
    def __init__(self, folder):
        self.folder = folder
        self.commands = {}  # object: its compile command and source
        for unit in json.loads((folder / "compile_commands.json").read_text()):
            command = without_ccache(shlex.split(unit["command"]))
            self.commands[command[command.index("-o") + 1]] = command, pathlib.Path(unit["file"])
        self.included = {}  # object: the files that it was made of
        name = None
        for line in run(["ninja", "-C", folder, "-t", "deps"]).stdout.splitlines():
            if not line.startswith(" "):
                name = line.split(":")[0]
            elif name in self.commands:
                self.included.setdefault(name, set()).add((folder / line.strip()).resolve())

    @staticmethod
    def place_of(target):
        return target if target == "verbena" else f"bin/{target}"

    def link_command(self, target):
        line = run(["ninja", "-C", self.folder, "-t", "commands", self.place_of(target)]).stdout.splitlines()[-1]
        link = next(part for part in line.split(" && ") if " -o " in part)  # what follows it lists the tests
        return without_ccache(shlex.split(link))

    def objects_of(self, link):
        """The objects of a program: named in its link command, or in an archive of it."""
        found = {word for word in link if word.endswith(".o")}
        for archive in {word for word in link if word.endswith(".a") and not word.startswith("/")}:
            place = pathlib.Path(archive)
            room = place.name.removeprefix("lib").removesuffix(".a")
            found |= {name for name in self.commands if name.startswith(f"{place.parent}/CMakeFiles/{room}.dir/")}
        return found

    def compile(self, name, number, scratch):
        """An object with the changed files in place of those in the repository."""
        command, source = self.commands[name]
        command = list(command)
        changed = scratch / source.relative_to(ROOT) if source.is_relative_to(ROOT) else source
        if source.suffix == ".cxx":
            text = source.read_text()
            for line in re.findall(r'#include "(.*)"', text):
                moved = scratch / pathlib.Path(line).relative_to(ROOT)
                text = text.replace(f'"{line}"', f'"{moved}"') if moved.exists() else text
            changed = scratch / f"unity{number}.cxx"
            changed.write_text(text)
        elif not changed.exists():
            changed = source
        made = scratch / f"planted{number}.o"
        command[command.index("-o") + 1] = str(made)
        command[command.index("-c") + 1] = str(changed)
        command.insert(1, f"-I{scratch}/src")
        done = run(command, cwd=self.folder)
        if done.returncode != 0:
            sys.exit(f"planted: {name} does not compile\n{done.stdout[-3000:]}")
        return str(made)

    def program(self, target, files, scratch):
        """The program with these files changed, in the temporary folder."""
        link = self.link_command(target)
        wanted = {ROOT / name for name in files}
        made = 0
        for name in sorted(self.objects_of(link)):
            if not wanted & (self.included.get(name, set()) | {self.commands[name][1]}):
                continue
            planted = self.compile(name, made, scratch)
            made += 1
            if name in link:
                link[link.index(name)] = planted
            else:
                link.insert(link.index("-o"), planted)  # before the archive, whose member then is not taken
        if made == 0:
            sys.exit(f"planted: {target} has nothing of {', '.join(files)}")
        program = scratch / target
        link[link.index("-o") + 1] = str(program)
        done = run(link, cwd=self.folder)
        if done.returncode != 0:
            sys.exit(done.stdout[-3000:])
        return program


def command_of(fault, program, build):
    """What must fail, and its environment."""
    if "command" in fault:
        words = shlex.split(fault["command"].replace("{python}", str(build / "python")))
        return [ROOT / words[0], *words[1:]], {**os.environ, "VERBENA": str(program)}
    return [program, *(["--seeds", fault["seeds"], "--whole"] if "seeds" in fault else [f"--gtest_filter={fault['text']}"])], None


def look_for(fault, program, build):
    """Runs what must fail. How it failed, or None if it passed; after how many seconds."""
    command, environment = command_of(fault, program, build)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        try:
            done = run(command, cwd=place, timeout=TIMEOUT_S, env=environment)
        except subprocess.TimeoutExpired:
            return "no end", TIMEOUT_S
    seconds = time.monotonic() - began
    if done.returncode == 0:
        return None, seconds
    if failed := re.search(r"^seed (\d+): FAILED: (.*)", done.stdout, re.M):
        return f"seed {failed[1]}: {failed[2][:100]}", seconds
    if failed := re.search(r"\[  FAILED  \] (\S+?),? ", done.stdout):
        return failed[1], seconds
    if failed := re.search(r"^WRONG:\s*(.*)", done.stdout, re.M):
        return f"seed {re.search('seed ([0-9]+)', done.stdout)[1]}: {failed[1][:100]}", seconds
    if done.returncode < 0:
        return f"ended by signal {-done.returncode}", seconds
    sys.exit(f"planted: {fault['name']}: the program did not run as a test:\n{done.stdout[-2000:]}")


def plant(build, fault):
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        scratch = pathlib.Path(folder)
        for edit in fault["edit"]:
            changed = scratch / edit["file"]
            text = (changed if changed.exists() else ROOT / edit["file"]).read_text()
            if text.count(edit["old"]) != 1:
                sys.exit(f"planted: {edit['file']} has {text.count(edit['old'])} times: {edit['old']}")
            changed.parent.mkdir(parents=True, exist_ok=True)
            changed.write_text(text.replace(edit["old"], edit["new"]))
        program = build.program(target_of(fault), [edit["file"] for edit in fault["edit"]], scratch)
        return look_for(fault, program, build.folder)


def target_of(fault):
    return fault.get("target", "verbena_simulator")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("--only", default="", help="faults whose name has this text")
    parser.add_argument("--sound", action="store_true", help="first without a fault: all must pass")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options = parser.parse_args()
    faults = [fault for fault in tomllib.loads(options.table.read_text())["fault"] if options.only in fault["name"]]
    build = Build(options.build.resolve())
    if options.sound:
        for fault in {(target_of(f), f.get("seeds", f.get("text", f.get("command")))): f for f in faults}.values():
            how, _ = look_for(fault, build.folder / build.place_of(target_of(fault)), build.folder)
            if how:
                sys.exit(f"without a fault: {how}")
    missed = 0
    for fault in faults:
        how, seconds = plant(build, fault)
        missed += how is None
        print(f"| {fault['name']} | {fault.get('real', '')} | {how or 'NOT CAUGHT'} | {seconds:.1f} |", flush=True)
    print(f"{len(faults) - missed} of {len(faults)} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
