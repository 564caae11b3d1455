#!/usr/bin/env python3
"""repeats_test.py SIMULATOR: each seed leaves the same trace when it is run again, and another seed another one."""
import re
import subprocess
import sys


def trace(seed, world):
    operations = '1000' if world == '--engine=local' else '300'
    command = [sys.argv[1], world, '--seed', str(seed), '--operations', operations]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stdout + run.stderr)
    return re.search('trace ([0-9a-f]{16}), ([0-9]+) operations', run.stdout).groups()


seen = set()
worlds = ['--engine=local'] * 6 + ['--engine=rados'] * 2 + ['--native'] * 4
for seed, world in enumerate(worlds, 1):
    first, again = trace(seed, world), trace(seed, world)
    if first != again:
        sys.exit(f'seed {seed}, {world}: {first}, again {again}')
    seen.add(first)
if len(seen) != len(worlds):
    sys.exit(f'of {len(worlds)} seeds {len(seen)} differ')
