#!/usr/bin/env python3
"""repeats_test.py SIMULATOR: each seed leaves the same trace when it is run again, and another seed another one."""
import re
import subprocess
import sys


def trace(seed, engine):
    run = subprocess.run([sys.argv[1], '--engine', engine, '--seed', str(seed), '--operations', '1000'], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stdout + run.stderr)
    return re.search('trace ([0-9a-f]{16}), ([0-9]+) operations', run.stdout).groups()


seen = set()
for seed, engine in [(seed, 'local') for seed in range(1, 7)] + [(seed, 'rados') for seed in range(7, 11)]:
    first, again = trace(seed, engine), trace(seed, engine)
    if first != again:
        sys.exit(f'seed {seed}, {engine}: {first}, again {again}')
    seen.add(first)
if len(seen) != 10:
    sys.exit(f'of 10 seeds {len(seen)} differ')
