#!/usr/bin/env python3
"""Plants faults into the program, one at a time, and runs the test that must find each.

    tools/planted.py TABLE ... [--only TEXT] [--by KIND] [--sound] [--build FOLDER]
    tools/planted.py TABLE ... --count docs/reliability.md     what the page's tables say of these rows

TABLE: a TOML file of [[fault]] rows, for example tests/simulator/planted.toml:
    name            what is wrong then
    [[fault.edit]]  file, old, new: the text `old` stands exactly once in that file, and is replaced
    seeds           the simulator's seeds, with `engine` and `arguments` (a list) if they are not the simulator's own
    text            the filter of the unit tests of the program `target`; `model`: over the simulator's model of RADOS
    command         a test that starts the server, which is in $VERBENA; {python} in it is the build's Python package
    real            optional: the name of a fault that was once in the program
    endless         optional, true: the test has no end then, which is how the fault is found
A row may have more than one of `seeds`, `text` and `command`: they are tried in the row's order until one finds the
fault.

Nothing of the repository or the build changes: what the edits change is compiled and linked in a temporary folder, by
the commands of the build (default: build), which must be up to date with these sources, though it may be of another
checkout of them. A seed that finds a fault is run without it, too, and must pass: else the fault was not found. --sound
first runs everything without a fault, which must pass. Prints a row of a table for each
fault; exit 0: every fault was caught."""
import argparse
import collections
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIMEOUT_S = 900


def run(command, **options):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)


def without_ccache(command):
    return command[1:] if command[0].endswith("ccache") else command


class Build:
    def __init__(self, folder):
        self.folder = folder
        cache = (folder / "CMakeCache.txt").read_text()
        self.home = pathlib.Path(re.search(r"^CMAKE_HOME_DIRECTORY:\w+=(.*)$", cache, re.M)[1])
        self.commands = {}  # object: its compile command and source
        for unit in json.loads((folder / "compile_commands.json").read_text()):
            command = without_ccache(shlex.split(unit["command"]))
            self.commands[command[command.index("-o") + 1]] = command, self.here(unit["file"])
        self.included = {}  # object: the files that it was made of
        name = None
        for line in run(["ninja", "-C", folder, "-t", "deps"]).stdout.splitlines():
            if not line.startswith(" "):
                name = line.split(":")[0]
            elif name in self.commands:
                path = pathlib.Path(os.path.normpath(self.home / "build" / line.strip()))
                self.included.setdefault(name, set()).add(self.here(path))
        self.members = {}  # object: the sources of a unity build's
        for name, (_, source) in self.commands.items():
            if source.suffix == ".cxx":
                self.members[name] = [self.here(line) for line in re.findall(r'#include "(.*)"', source.read_text())]

    def here(self, path):
        """A path of the build's own checkout: the same in this one, or in the build's folder."""
        path = pathlib.Path(path)
        if path.is_relative_to(self.home / "build"):
            return self.folder / path.relative_to(self.home / "build")
        return ROOT / path.relative_to(self.home) if path.is_relative_to(self.home) else path

    def link_command(self, target):
        line = run(["ninja", "-C", self.folder, "-t", "commands", place_of(target)]).stdout.splitlines()[-1]
        link = next(part for part in line.split(" && ") if " -o " in part)  # what follows it lists the tests
        link = without_ccache(shlex.split(link))
        return link + ["-fuse-ld=lld"] if shutil.which("ld.lld") else link

    def objects_of(self, link):
        """The objects of a program: named in its link command, or in an archive of it."""
        found = {word for word in link if word.endswith(".o")}
        for archive in {word for word in link if word.endswith(".a") and not word.startswith("/")}:
            place = pathlib.Path(archive)
            room = place.name.removeprefix("lib").removesuffix(".a")
            found |= {name for name in self.commands if name.startswith(f"{place.parent}/CMakeFiles/{room}.dir/")}
        return found

    def compile(self, name, source, made, scratch):
        command = list(self.commands[name][0])
        command[command.index("-o") + 1] = str(made)
        command[command.index("-c") + 1] = str(source)
        command[1:1] = [f"-I{scratch}/src", f"-I{ROOT}/src", f"-I{ROOT}/include"]
        done = run(command, cwd=self.folder)
        if done.returncode != 0:
            raise Failed(f"{name} does not compile\n{done.stdout[-3000:]}")

    def planted(self, name, wanted, scratch):
        """What takes the place of an object that has a changed file: objects that were made once are kept."""
        made = scratch / name.replace("/", "_")
        alone = [file for file in self.members.get(name, []) if file in wanted]
        if alone and all(file.suffix == ".cc" for file in wanted):
            return [self.alone(name, file, scratch) for file in alone] + [self.weak(name, made)]
        if not made.exists():
            self.compile(name, self.whole(name, scratch), made, scratch)
        return [str(made)]

    def alone(self, name, file, scratch):
        """The changed source without the others of its unity build, which takes several times as long."""
        made = scratch / f"{file.name}.o"
        if not made.exists():
            self.compile(name, scratch / file.relative_to(ROOT), made, scratch)
        return str(made)

    def weak(self, name, made):
        """The unity build's object: its functions are taken only where the changed source has none of that name."""
        done = run(["objcopy", "--weaken", self.folder / name, made])
        if done.returncode != 0:
            raise Failed(done.stdout)
        return str(made)

    def whole(self, name, scratch):
        source = self.commands[name][1]
        if source.suffix != ".cxx":
            changed = scratch / source.relative_to(ROOT)
            return changed if changed.exists() else source
        lines = []
        for file in self.members[name]:
            changed = scratch / file.relative_to(ROOT)
            lines.append(f'#include "{changed if changed.exists() else file}"\n')
        unity = scratch / f"{name.replace('/', '_')}.cxx"
        unity.write_text("".join(lines))
        return unity

    def program(self, target, files, scratch):
        """The program with the changed files in place of those in the repository."""
        link = self.link_command(target)
        wanted = {ROOT / name for name in files}
        found = False
        for name in sorted(self.objects_of(link)):
            if name not in self.commands or not wanted & (self.included.get(name, set()) | {self.commands[name][1]}):
                continue
            found = True
            at = link.index(name) if name in link else link.index("-o")  # before the archive, whose member is not taken
            link[at:at + (name in link)] = self.planted(name, wanted, scratch)
        if not found:
            raise Failed(f"{target} has nothing of {', '.join(files)}")
        program = scratch / target
        link[link.index("-o") + 1] = str(program)
        done = run(link, cwd=self.folder)
        if done.returncode != 0:
            raise Failed(done.stdout[-3000:])
        return program


class Failed(Exception):
    """A fault that could not be planted, or a test that did not run."""


def place_of(target):
    return target if target == "verbena" else f"bin/{target}"


class Finder:
    """One way to find a fault: what is run, of which program."""

    def __init__(self, method, target, words, in_root=False, environment=None):
        self.method, self.target, self.words, self.in_root = method, target, words, in_root
        self.environment = environment or {}

    def look(self, program):
        """How the test failed, or None if it passed; after how many seconds."""
        began = time.monotonic()
        command = self.words if self.in_root else [program, *self.words]
        with tempfile.TemporaryDirectory() as place:
            try:
                done = run(command, cwd=ROOT if self.in_root else place, timeout=TIMEOUT_S,
                           env=dict(os.environ, VERBENA=str(program), **self.environment))
            except subprocess.TimeoutExpired:
                return "no end", TIMEOUT_S
        return self.judged(done), time.monotonic() - began

    def judged(self, done):
        if done.returncode == 0:
            return None
        if failed := re.search(r"^seed (\d+): FAILED: (.*)", done.stdout, re.M):
            return f"seed {failed[1]}: {failed[2][:100]}"
        if crashed := re.search(r"^seed (\d+): FAILED \(status (\d+)\)", done.stdout, re.M):
            signal, status = int(crashed[2]) & 127, int(crashed[2]) >> 8  # as waitpid() tells them
            return f"seed {crashed[1]}: " + (f"ended by signal {signal}" if signal else f"ended with status {status}")
        if failed := re.search(r"\[  FAILED  \] (\S+?),? ", done.stdout):
            return failed[1]
        if failed := re.search(r"^WRONG:\s*(.*)", done.stdout, re.M):
            return f"seed {re.search('seed ([0-9]+)', done.stdout)[1]}: {failed[1][:100]}"
        if failed := re.search(r"^(?:FAIL|ERROR): (\w+)", done.stdout, re.M):
            return failed[1]
        if done.returncode < 0:
            return f"ended by signal {-done.returncode}"
        raise Failed(f"the program did not run as a test:\n{done.stdout[-2000:]}")


def model_of_rados(build):
    return {"LD_PRELOAD": str(build.folder / "tests/simulator/libverbena_rados_model_preload.so"),
            "VERBENA_TEST_CEPH_CONF": "none", "VERBENA_TEST_CEPH_POOL": "data", "VERBENA_TEST_CEPH_INDEX_POOL": "index"}


def simulator(fault):
    engine = fault.get("engine", "local")
    words = ["--seeds", fault["seeds"], "--whole", "--engine", engine, *fault.get("arguments", [])]
    return Finder("simulator" if engine == "local" else f"simulator, {engine}", "verbena_simulator", words)


def unit_tests(build, fault):
    environment = model_of_rados(build) if fault.get("model") else None
    name = fault["target"].removeprefix("verbena_")
    return Finder(name, fault["target"], [f"--gtest_filter={fault['text']}"], environment=environment)


def finders(build, fault, by):
    for key in fault:  # in the row's order
        if by and key != by:
            continue
        if key == "seeds":
            yield simulator(fault)
        if key == "text":
            yield unit_tests(build, fault)
        if key == "command":
            words = shlex.split(fault["command"].replace("{python}", str(build.folder / "python")))
            yield Finder(words[0].removesuffix(".py"), "verbena", words, in_root=True)


def change(fault, scratch):
    for edit in fault["edit"]:
        changed = scratch / edit["file"]
        text = (changed if changed.exists() else ROOT / edit["file"]).read_text()
        if text.count(edit["old"]) != 1:
            raise Failed(f"{edit['file']} has {text.count(edit['old'])} times: {edit['old']}")
        changed.parent.mkdir(parents=True, exist_ok=True)
        changed.write_text(text.replace(edit["old"], edit["new"]))


def other_failure(build, fault, finder, how):
    """Why it is not the fault that was found, but another failure of the same seed; None: it is."""
    if how == "no end" and not fault.get("endless"):
        return f"no end after {TIMEOUT_S} s, and the row does not say that this is how it is found"
    seed = re.match(r"seed (\d+):", how)
    if finder.target != "verbena_simulator" or not seed:
        return None
    alone = Finder(finder.method, finder.target, ["--seeds", f"{seed[1]}..{seed[1]}", *finder.words[2:]], environment=finder.environment)
    without, _ = alone.look(build.folder / place_of(finder.target))
    return f"the same seed fails without the fault: {without}" if without else None


def plant(build, fault, by):
    """The method that found the fault, or None; how; after how many seconds."""
    tried_s = 0
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        scratch = pathlib.Path(folder)
        change(fault, scratch)
        for finder in finders(build, fault, by):
            how, seconds = finder.look(build.program(finder.target, [edit["file"] for edit in fault["edit"]], scratch))
            other = other_failure(build, fault, finder, how) if how else None
            if how and not other:
                return finder.method, how, seconds
            if other:
                print(f"planted: {fault['name']}: not found by {finder.method}: {other}", file=sys.stderr, flush=True)
            tried_s += seconds
    return None, None, tried_s


def run_all(build, faults, by):
    missed, failed = [], []
    print("| fault | of the list | found by | seed or test | seconds |\n| --- | --- | --- | --- | --- |", flush=True)
    for fault in faults:
        try:
            method, how, seconds = plant(build, fault, by)
        except Failed as error:
            failed.append(fault["name"])
            print(f"planted: {fault['name']}: {error}", file=sys.stderr, flush=True)
            continue
        if method is None:
            missed.append(fault["name"])
        cells = (fault["name"], fault.get("real", ""), method or "NOTHING", how or "", f"{seconds:.1f}")
        print(f"| {' | '.join(cells)} |", flush=True)
    caught = len(faults) - len(missed) - len(failed)
    print(f"{caught} of {len(faults)} caught" + (f", {len(failed)} not run" if failed else ""))
    return 1 if missed or failed else 0


def result(cells):
    """What a row of the page's tables says after the fault's name: found, not found, or not run."""
    text = " ".join(cells)
    if re.search(r"\bnot run\b", text):
        return "not run"
    return "not found" if re.search(r"\b(none (of|in)|NOTHING|nothing)\b", text) else "found"


def count(tables, page):
    """By table how many faults were found, and the names of the others."""
    shown, heading = {}, ""  # name: results
    for line in page.read_text().splitlines():
        heading = line if line.startswith("#") else heading
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if line.startswith("|") and len(cells) > 1:
            name = re.sub(r" \([^()]*\)$", "", cells[0].replace("`", ""))
            shown.setdefault(name, set()).add("not found" if "nothing found" in heading else result(cells[1:]))
    total, others = collections.Counter(), []
    for table in tables:
        here = collections.Counter()
        for fault in tomllib.loads(table.read_text())["fault"]:
            results = shown.get(fault["name"].replace("`", ""), {"not run"})
            best = next(one for one in ("found", "not found", "not run") if one in results)
            here[best] += 1
            if best != "found":
                others.append(f"{best}: {table.parent.name}/{table.name}: {fault['name']}")
        total += here
        print(f"{table.parent.name}/{table.name}: " + ", ".join(f"{number} {what}" for what, number in here.items()))
    print(f"{sum(total.values())} faults: " + ", ".join(f"{number} {what}" for what, number in total.items()))
    print(*sorted(others), sep="\n")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", type=pathlib.Path, nargs="+")
    parser.add_argument("--only", default="", help="faults whose name has this text")
    parser.add_argument("--by", choices=["seeds", "text", "command"], help="rows that have it, and nothing else of them")
    parser.add_argument("--sound", action="store_true", help="first without a fault: all must pass")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--count", type=pathlib.Path, metavar="PAGE", help="only counts what the page says of the rows")
    options = parser.parse_args()
    if options.count:
        return count(options.tables, options.count)
    tables = [tomllib.loads(table.read_text())["fault"] for table in options.tables]
    faults = [fault for table in tables for fault in table if options.only in fault["name"]]
    faults = [fault for fault in faults if not options.by or options.by in fault]
    build = Build(options.build.resolve())
    if options.sound:
        for finder in {(f.target, *f.words): f for fault in faults for f in finders(build, fault, options.by)}.values():
            how, _ = finder.look(build.folder / place_of(finder.target))
            if how:
                sys.exit(f"without a fault: {finder.target} {' '.join(finder.words)}: {how}")
    return run_all(build, faults, options.by)


if __name__ == "__main__":
    sys.exit(main())
