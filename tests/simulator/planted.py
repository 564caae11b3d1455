#!/usr/bin/env python3
"""planted.py [--only TEXT] [--folder FOLDER]: plants each fault of planted.toml in a copy of the
sources, builds what must find it there, and runs it. Without a fault the same must pass: --sound runs that first.

The copy and its build stay in FOLDER (build-planted) for the next time. Exit 0: every fault was caught."""
import argparse
import filecmp
import pathlib
import re
import shutil
import subprocess
import sys
import time
import tomllib

here = pathlib.Path(__file__).resolve().parent
root = here.parent.parent


def run(command, **options):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)


class Copy:
    """The sources and their build in a folder of their own."""

    def __init__(self, folder):
        self.folder, self.build = folder / 'source', folder / 'source/build'
        self.folder.mkdir(parents=True, exist_ok=True)
        tracked = subprocess.run(['git', 'ls-files', '-z', '-co', '--exclude-standard'], cwd=root, check=True,
                                 stdout=subprocess.PIPE).stdout
        for name in filter(None, tracked.decode().split('\0')):
            source, target = root / name, self.folder / name
            if not source.is_file() or (target.is_file() and filecmp.cmp(source, target, shallow=False)):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        if not (self.build / 'build.ninja').exists():
            made = run(['cmake', '--preset', 'release', '-DVERBENA_UNITY=6'], cwd=self.folder)
            if made.returncode != 0:
                sys.exit(made.stdout)

    def make(self, target):
        built = run(['ninja', '-C', str(self.build), target])
        if built.returncode != 0:
            sys.exit(built.stdout[-4000:])
        return self.build / 'bin' / target

    def edit(self, edits, back=False):
        for edit in edits:
            path = self.folder / edit['file']
            text = path.read_text()
            if back:
                path.write_text((root / edit['file']).read_text())
                continue
            if text.count(edit['old']) != 1:
                sys.exit(f"{edit['file']} has {text.count(edit['old'])} times: {edit['old']}")
            path.write_text(text.replace(edit['old'], edit['new']))


def look_for(copy, fault):
    """Runs what must fail. How it failed, and after how many seconds; None: it passed."""
    program = copy.make(fault.get('target', 'verbena_simulator'))
    if 'seeds' in fault:
        command = [program, '--seeds', fault['seeds'], '--whole']
    else:
        command = [program, f"--gtest_filter={fault['text']}"]
    began = time.monotonic()
    done = run(command, cwd=copy.build, timeout=1800)
    seconds = time.monotonic() - began
    if done.returncode == 0:
        return None, seconds
    failed = re.search(r'^seed (\d+): FAILED: (.*)', done.stdout, re.M)
    if failed:
        return f'seed {failed[1]}: {failed[2][:100]}', seconds
    failed = re.search(r'\[  FAILED  \] (\S+)', done.stdout)
    return failed[1] if failed else done.stdout[-200:], seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--only', default='', help='faults whose name has this text')
    parser.add_argument('--folder', type=pathlib.Path, default=root / 'build-planted')
    parser.add_argument('--sound', action='store_true', help='first without any fault: all must pass')
    options = parser.parse_args()
    faults = [f for f in tomllib.loads((here / 'planted.toml').read_text())['fault'] if options.only in f['name']]
    copy = Copy(options.folder)
    if options.sound:
        for fault in {(f.get('target'), f.get('seeds', f.get('text'))): f for f in faults}.values():
            how, _ = look_for(copy, fault)
            if how:
                sys.exit(f'without a fault: {how}')
    missed = 0
    for fault in faults:
        copy.edit(fault['edit'])
        try:
            how, seconds = look_for(copy, fault)
        finally:
            copy.edit(fault['edit'], back=True)
        missed += how is None
        print(f"| {fault['name']} | {fault.get('real', '')} | {how or 'NOT CAUGHT'} | {seconds:.1f} |", flush=True)
    print(f'{len(faults) - missed} of {len(faults)} caught')
    return 1 if missed else 0


if __name__ == '__main__':
    sys.exit(main())
