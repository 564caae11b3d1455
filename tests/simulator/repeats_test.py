#!/usr/bin/env python3
"""repeats_test.py SIMULATOR: each seed leaves the same trace when it is run again, and another seed another one."""
import re
import subprocess
import sys


def trace(seed, arguments):
    command = [sys.argv[1], *arguments.split(), '--seed', str(seed)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stdout + run.stderr)
    return re.search('trace ([0-9a-f]{16}), ([0-9]+) operations', run.stdout).groups()


seen = set()
worlds = [(seed, '--operations 1000') for seed in range(1, 7)]
worlds += [(seed, '--engine rados --operations 300') for seed in range(7, 9)]
worlds += [(1, '--native --operations 1000')]
for world in worlds:
    first, again = trace(*world), trace(*world)
    if first != again:
        sys.exit(f'seed {world[0]} {world[1]}: {first}, again {again}')
    seen.add(first)
if len(seen) != len(worlds):
    sys.exit(f'of {len(worlds)} worlds {len(seen)} differ')
