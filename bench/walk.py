#!/usr/bin/env python3
"""Counts the source files and functions of the server that one request walks through (callgrind, bench/request_cost).

    walk.py PROGRAM [CASE..]       a line for each case: files, functions, rooms
    walk.py PROGRAM CASE --names   the functions, by file

What counts is a function of `src/` that the program executed for the request and that the compiler kept as a function
of its own: a build with the same flags on both sides compares two versions. A coroutine's parts count as one."""

import argparse
import collections
import pathlib
import re
import sys
import tempfile

import instruction_guard

CASES = ["http_get_4k", "http_head", "native_get_4k", "http_put_4k"]
# Names of a file or function come once with their number, "fn=(12) name", then as the number alone.
NAMED = re.compile(r"^(fn|fl|fi|fe|cfn|cfl|cfi)=\((\d+)\)(?: (.*))?$")


def profile(program: str, case: str) -> str:
    """The profile of a case, as callgrind writes it."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        instruction_guard.callgrind(program, case, str(out))
        return out.read_text(encoding="utf-8", errors="replace")


def plain_name(name: str) -> str:
    """A function without its arguments, template arguments, clones and parts of a coroutine."""
    name = name.replace("(anonymous namespace)::", "").replace("operator()", "operator_call")
    name = re.sub(r"\[clone [^\]]*\]|\[abi:\w+\]|'\d+$", "", name)
    while (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
        name = shorter
    name = name.split("(")[0].strip().split(" ")[-1]
    return re.sub(r"(::\{lambda|::operator_call|\.actor|\.destroy|\.constprop|\.part|\.isra|\.cold).*", "", name)


def walked(text_of_profile: str) -> dict[str, set[str]]:
    """Functions by file below src/, of a profile. Cost lines of inlined code name their file by fi= or fe=: the function's
    own file, fl=, is what counts."""
    names: dict[tuple[str, str], str] = {}
    found: dict[str, set[str]] = collections.defaultdict(set)
    file = ""
    for line in text_of_profile.splitlines():
        match = NAMED.match(line)
        if not match:
            continue
        kind, number, name = match.groups()
        table = "function" if kind in ("fn", "cfn") else "file"
        if name is not None:
            names[table, number] = name
        text = names.get((table, number), "")
        if kind == "fl":
            file = text
        elif kind == "fn" and "/src/" in file and "/usr/" not in file and "verbena" in text:
            found[file.split("/src/", 1)[1]].add(plain_name(text))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="build/bin/request_cost")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of `PROGRAM --list`; without one: {' '.join(CASES)}")
    parser.add_argument("--names", action="store_true", help="list the functions")
    arguments = parser.parse_args()
    for case in arguments.cases or CASES:
        found = walked(profile(arguments.program, case))
        rooms = sorted({file.split("/")[0] for file in found})
        print(f"{case:<16} {len(found):>4} files {sum(map(len, found.values())):>4} functions in {len(rooms)} rooms: {' '.join(rooms)}")
        if arguments.names:
            for file in sorted(found):
                print(f"  {file}: {', '.join(sorted(found[file]))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
