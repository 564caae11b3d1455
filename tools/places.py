#!/usr/bin/env python3
"""Counts the places at which a rule of serving requests is written, in a commit: where a rule has one place, it cannot drift.

    places.py [COMMIT...]        a column for each commit; without one: the working tree
    places.py --where [COMMIT]   the lines, too

A place is a line of product code above the store that does what the rule is about, found by a pattern. So it is a measure
for comparing two commits, not a proof."""

import argparse
import re
import subprocess
import sys

ROOMS = ["src/s3", "src/s3_http", "src/native", "src/http", "src/call"]
RULES = [
    ("look up an object to read it", r"store\s*\.(open|stat|hot)\(|store\(\)\.(open|stat|hot)\("),
    ("ask whether it may be read", r"action = action::get_object\b|action::get_object,|action::get_object\)"),
    ("check its conditions", r"\bcheck_preconditions\("),
    ("may be sent as it lies", r"stored_size [!=]= 0|is_sent_as_it_lies\("),
    ("count bytes by door", r"\bcount_bytes\("),
    ("count for the bucket", r"\bcount_traffic\("),
    ("make a line of the log", r"\b(AccessLine|observe::Line|Line) line\b|call::line_of\(|\bline_of\("),
    ("end a request by an account", r"call::account\(|\bcall::account_item\(|\btell_deletions\(|note_refused_items\("),
    ("charge bytes to rates", r"charge_bytes\(|ByteCharge::make\("),
    ("judge a new object", r"\bauthorize_new_object\("),
    ("find a request's trace", r"\bway_of\(|\bWayOfRequest\b"),
    ("facts by the HTTP context", r"caller\.http\b|caller_\.http\b|\.http = (&|nullptr)"),
    ("clear a recycled request", r"op\.(get|put|rename)\.\w+(\.\w+)?\.(clear|reset)\(\)|request\.\w+(\.\w+)?\.(clear|reset)\(\)"),
]


def lines_of(commit: str, pattern: str) -> list[str]:
    """file:line:text of each place."""
    command = ["git", "grep", "-nE", pattern.replace(r"\s", "[[:space:]]").replace(r"\w", "[A-Za-z0-9_]")]
    command += [commit] if commit else []
    found = subprocess.run([*command, "--", *ROOMS], capture_output=True, text=True, check=False).stdout.splitlines()
    out = []
    for line in found:
        place = line.removeprefix(f"{commit}:") if commit else line
        file, number, text = place.split(":", 2)
        declares = file.endswith(".h") and re.match(r"^\s*(Task<.*> |[\w:<>]+ |std::\S+ )[\w:]+\(.*\)( const)?;", text)
        if re.search(r"_test\.|/test_|/conformance/|\.md$", file) or text.lstrip().startswith(("//", "#include")) or declares:
            continue
        if re.match(r"^(void|Result<|bool|Task<|observe::|std::)", text):  # a definition, not a use
            continue
        out.append(f"{file}:{number}:{text.strip()}")
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="*", metavar="COMMIT")
    parser.add_argument("--where", action="store_true", help="list the lines")
    arguments = parser.parse_args()
    commits = arguments.commits or [""]
    print(f"{'rule':<32}" + "".join(f"{commit or 'here':>12}" for commit in commits))
    for rule, pattern in RULES:
        found = [lines_of(commit, pattern) for commit in commits]
        print(f"{rule:<32}" + "".join(f"{len(lines):>12}" for lines in found))
        if arguments.where:
            for lines in found:
                print("".join(f"    {line}\n" for line in lines), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
