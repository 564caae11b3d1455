#!/usr/bin/env python3
"""The server's CPU for a PUT over HTTP into a bucket with MD5s as entity tags, and into one without (x-verbena-etag: fast).

    ./dev bench etags     half a minute, prints a table

By boto3, one connection, `sync`, signed with the body's SHA-256 and a CRC32, which both buckets verify; by turns on one server."""

import os
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import verbena_server  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
SIZES = {64 * KIB: 300, 1 * MIB: 100, 16 * MIB: 15}  # PUTs of a turn
TURNS = 3


def cpu_s(server):
    fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def make_fast(request, **_):
    request.headers.add_header("x-verbena-etag", "fast")


def measure(server, client, bucket, size, count):
    """us of the server's CPU for each PUT."""
    body = os.urandom(size)
    before = cpu_s(server)
    for number in range(count):
        client.put_object(Bucket=bucket, Key=str(number % 4), Body=body, ChecksumAlgorithm="CRC32")
    return (cpu_s(server) - before) / count * 1e6


def main():
    print("| PUT | CPU with an MD5, us | without, us | ratio |\n| --- | --- | --- | --- |")
    with verbena_server.Server() as server:
        client = verbena_server.boto3_client(server.http)
        client.create_bucket(Bucket="plain")
        client.meta.events.register("before-sign.s3.CreateBucket", make_fast)
        client.create_bucket(Bucket="quick")
        for size, count in SIZES.items():
            took = {bucket: [] for bucket in ("plain", "quick")}
            for _ in range(TURNS):
                for bucket, found in took.items():
                    found.append(measure(server, client, bucket, size, count))
            ratio = statistics.median(plain / quick for plain, quick in zip(*took.values()))
            plain, quick = (statistics.median(found) for found in took.values())
            print(f"| {size // KIB} KiB | {plain:,.0f} | {quick:,.0f} | {ratio:.2f}x |", flush=True)


if __name__ == "__main__":
    main()
