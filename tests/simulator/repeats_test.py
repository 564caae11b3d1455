#!/usr/bin/env python3
"""repeats_test.py SIMULATOR: each seed leaves the same trace when it is run again, and another seed another one."""
import re
import subprocess
import sys


def trace(seed):
    run = subprocess.run([sys.argv[1], '--seed', str(seed), '--operations', '1500'], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stdout + run.stderr)
    return re.search('trace ([0-9a-f]{16}), ([0-9]+) operations', run.stdout).groups()


seen = set()
for seed in range(1, 9):
    first, again = trace(seed), trace(seed)
    if first != again:
        sys.exit(f'seed {seed}: {first}, again {again}')
    seen.add(first)
if len(seen) != 8:
    sys.exit(f'of 8 seeds {len(seen)} differ')
