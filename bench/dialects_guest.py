#!/usr/bin/env python3
"""The part of dialects.py that runs in the virtual machine: one round of all rows, a JSON line each. The server is on rxe0,
in memory; clients are on rxe1 (tests/vm/guest.py)."""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "vm"))

import guest  # noqa: E402

WAYS = ("hipobj", "cuobj", "ofi1", "shim", "cushim", "http")


class InMemory(guest.Server):
    def command(self):
        out = super().command()
        return [*out[:2], "--memory", *out[3:]]


def gid_index(device, address):
    text = "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}".format(*map(int, address.split(".")))
    folder = pathlib.Path(f"/sys/class/infiniband/{device}/ports/1/gids")
    for index in range(16):
        if (folder / str(index)).read_text().strip() == text:
            return str(index)
    raise AssertionError(f"{device} has no GID of {address}")


def perftest(program, size, depth):
    """Bytes a second between the two devices; `depth`: operations in flight."""
    def command(device, address):
        return [program, "-d", device, "-x", gid_index(device, address), "-F", "-s", str(size), "-t", str(depth),
                "-n", str(max(8, (128 << 20) // size)), "-Q", "1"]
    server = subprocess.Popen(command(f"{guest.DEVICE}0", guest.SERVER), stdout=subprocess.DEVNULL)
    try:
        def ask():
            done = subprocess.run([*guest.AS_CLIENT, *command(f"{guest.DEVICE}1", guest.CLIENT), guest.SERVER], text=True,
                                  capture_output=True, timeout=120, check=False)
            rows = [line.split() for line in done.stdout.splitlines() if line.split()[:1] == [str(size)]]
            return float(rows[0][3]) * (1 << 20) if rows else None
        found = []
        guest.until(lambda: found.append(ask()) or found[-1] is not None, 60, f"{program} of {size}")
        return found[-1]
    finally:
        server.kill()
        server.wait()


def load(arguments, way, op, size, callers):
    command = [*guest.AS_CLIENT, arguments.load, way, op, guest.HTTP, "--native", guest.NATIVE, "--device", f"{guest.DEVICE}1",
               "--address", guest.CLIENT, "--size", str(size), "--callers", str(callers), "--seconds", str(arguments.seconds)]
    environment = dict(os.environ, S3RDMA_PROVIDER="verbs", S3RDMA_ADDRESS=guest.CLIENT, S3RDMA_DEVICE=f"{guest.DEVICE}1", **guest.KEYS)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{way} {op} {size}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    print(done.stdout, end="", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--load", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    arguments = parser.parse_args()
    guest.prepare()
    server = InMemory("rdma.token_provider=auto,rc", "rdma.operation_timeout_ms=20000", "arena_size=256MiB").start()
    subprocess.run([*guest.AS_CLIENT, os.environ["VERBENA"], "mb", "s3://bench", "--endpoint", guest.HTTP], check=True,
                   stdout=subprocess.DEVNULL, env=dict(os.environ, **guest.KEYS))
    for size in (1 << 20, 16 << 20):
        for program in ("ib_write_bw", "ib_read_bw"):
            for depth in (1, 16):
                print(json.dumps({"way": program, "op": "", "size": size, "callers": depth,
                                  "bytes_per_s": perftest(program, size, depth)}), flush=True)
        for callers in (1, 4):
            for op in ("get", "put"):
                for way in WAYS:
                    load(arguments, way, op, size, callers)
    load(arguments, "http", "get", 64, 1)
    load(arguments, "http", "put", 64, 1)
    server.stop()


main()
