#!/usr/bin/python3
"""libverbena.so: its exports and structure layouts equal the record, and a C program uses every call.

usage: abi_test.py LIBRARY SIZES_PROGRAM CLIENT_PROGRAM RDMA_PROGRAM [--record]
"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from verbena_server import ACCESS_KEY, SECRET_KEY, Server  # noqa: E402


def exported(library):
    text = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    # The C++ API is exported, too, for programs of the same compiler: its names may change.
    names = [line.split()[2] for line in text.splitlines() if line.split()[2].startswith("verbena_")]
    return sorted(f"symbol {name}" for name in names)


def soname(library):
    text = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    return re.search(r"SONAME.*\[(.*)\]", text).group(1)


def main():
    library, sizes, client, rdma = sys.argv[1:5]
    now = [f"soname {soname(library)}", *exported(library),
           *subprocess.run([sizes], check=True, capture_output=True, text=True).stdout.splitlines()]
    recorded = HERE / "recorded.txt"
    if "--record" in sys.argv:
        recorded.write_text("\n".join(now) + "\n")
        return
    then = recorded.read_text().splitlines()
    gone = [line for line in then if line not in now]
    new = [line for line in now if line not in then]
    assert not gone, f"callers of the recorded ABI would break: {gone} (now: {new})"
    assert not new, f"new in the ABI: run this with --record, and let a release's record only grow: {new}"

    with Server() as server:
        env = {"AWS_ENDPOINT_URL": server.http, "VERBENA_NATIVE": server.native, "AWS_ACCESS_KEY_ID": ACCESS_KEY,
               "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "HOME": "/nonexistent"}
        for via in ("native", "http", "auto"):
            done = subprocess.run([client, via, str(server.process.pid)], env=env, capture_output=True, text=True, timeout=200)
            print(done.stdout, done.stderr, sep="")
            assert done.returncode == 0, f"{client} {via} ended with {done.returncode}"
        host, port = server.native.rsplit(":", 1)
        done = subprocess.run([rdma, host, port, "abi-native"], env=env, capture_output=True, text=True, timeout=60)
        print(done.stdout, done.stderr, sep="")
        assert done.returncode == 0 and "by native" in done.stdout, done.returncode


main()
