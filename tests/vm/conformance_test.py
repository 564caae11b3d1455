#!/usr/bin/env python3
"""The conformance suite's dialects over reliable connections between real devices, by hand:
tools/vm.sh run env VERBENA=$PWD/build/verbena python3 tests/vm/conformance_test.py [hipobj-rc-v2|cuobj-rc ...] [--only N]"""
import pathlib
import subprocess
import sys

import guest
from guest import AS_CLIENT, DEVICE, Server

ROOT = pathlib.Path(__file__).resolve().parents[2]


def holds(dialect, arguments):
    server = Server("rdma.token_provider=rc").start()
    suite = [*AS_CLIENT, "env", *(f"{name}={value}" for name, value in guest.KEYS.items()), sys.executable, "-m", "s3rdma_conformance"]
    done = subprocess.run([*suite, "--endpoint", guest.HTTP, "--dialect", dialect, "--device", f"{DEVICE}1", *arguments],
                          cwd=ROOT / "conformance", check=False)
    server.stop()
    return done.returncode == 0


def main():
    guest.prepare()
    words = sys.argv[1:]
    options = words[words.index("--only"):] if "--only" in words else []
    wanted = words[:len(words) - len(options)] or ["hipobj-rc-v2", "cuobj-rc"]
    failed = [dialect for dialect in wanted if not holds(dialect, options)]
    sys.exit(f"cases do not hold: {failed}" if failed else 0)


main()
