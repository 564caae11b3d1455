#!/usr/bin/env python3
"""repeats_test.py SIMULATOR: each seed leaves the same trace when it is run again, and another seed another one."""
import re
import subprocess
import sys


def trace(seed, engine):
    operations = '1000' if engine == 'local' else '300'
    command = [sys.argv[1], '--engine', engine, '--seed', str(seed), '--operations', operations]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stdout + run.stderr)
    return re.search('trace ([0-9a-f]{16}), ([0-9]+) operations', run.stdout).groups()


seen = set()
for seed, engine in [(seed, 'local') for seed in range(1, 7)] + [(seed, 'rados') for seed in range(7, 9)]:
    first, again = trace(seed, engine), trace(seed, engine)
    if first != again:
        sys.exit(f'seed {seed}, {engine}: {first}, again {again}')
    seen.add(first)
if len(seen) != 8:
    sys.exit(f'of 8 seeds {len(seen)} differ')
