#!/usr/bin/python3
"""Runs the examples of docs/client.md against a server.

usage: examples_test.py PROGRAM...
"""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from verbena_server import ACCESS_KEY, SECRET_KEY, Server  # noqa: E402


def main():
    with Server() as server:
        for program in sys.argv[1:]:
            done = subprocess.run([program], capture_output=True, text=True, timeout=60,
                                  env={"AWS_ENDPOINT_URL": server.http, "VERBENA_NATIVE": server.native,
                                       "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
                                       "HOME": "/nonexistent"})
            print(done.stdout, done.stderr, sep="")
            assert done.returncode == 0, f"{program} ended with {done.returncode}"
            assert "bytes by native" in done.stdout, "the native door is open and was not used"
    # The document quotes the program that was run.
    text = (ROOT / "docs" / "client.md").read_text()
    for name in ("example.cc", "example.c"):
        code = (ROOT / "tests" / "examples" / name).read_text()
        assert code.split("int main", 1)[1] in text, f"docs/client.md does not quote tests/examples/{name} as it is"


main()
