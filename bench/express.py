#!/usr/bin/python3
"""Directory buckets: the cost of sessions, appends and renames, in one run. Prints rows and ratios.

  GET of 4 KiB, signed in a session against signed with long-term keys, the root's and those of users with policies of
  two
      and of twelve statements: requests per second of the server's own CPU time
  append of 200 bytes by the native door, 64 in flight, against PutObject of 200 bytes over HTTP, one and 64 in flight;
  and
      with a message for each append
  rename against a PUT of an empty object, over HTTP and natively

usage: bench/express.py [--build build] [--seconds N]
"""
import argparse
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "express"))
from express_case import ZONE, Express, make_user  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, Server  # noqa: E402

BUCKET, GENERAL = f"bench--{ZONE}--x-s3", "bench-general"
BATCH = 64


# The policy of a user with several buckets: for each a statement for listing and one for its objects.
OTHERS = [statement for i in range(5) for statement in (
    {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": f"arn:aws:s3:::team-{i}-data"},
    {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": f"arn:aws:s3:::team-{i}-data/*"})]
POLICY = {"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject", "s3:ListBucket"],
     "Resource": [f"arn:aws:s3:::{GENERAL}", f"arn:aws:s3:::{GENERAL}/*"]},
    {"Effect": "Allow", "Action": "s3express:CreateSession", "Resource": "*"}]}


def cpu_seconds(pid):
    """CPU seconds of all its threads, to the nanosecond."""
    return sum(int(one.read_text().split()[0]) for one in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def raw_request(client, path):
    headers = client.signed("GET", path)
    lines = [f"GET {path} HTTP/1.1"] + [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Stream:
    """The same request repeatedly on one connection, several at a time."""

    def __init__(self, endpoint, request):
        url = urllib.parse.urlsplit(endpoint)
        self.socket = socket.create_connection((url.hostname, url.port))
        self.request = request
        self.socket.sendall(request)
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.socket.recv(65536)
        assert head.startswith(b"HTTP/1.1 200"), head
        top, _, body = head.partition(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in top.lower().split(b"\r\n") if line.startswith(b"content-length"))
        self.answer_size = len(top) + 4 + length
        self.receive(self.answer_size - len(head))

    def receive(self, size):
        while size > 0:
            got = len(self.socket.recv(min(size, 1 << 20)))
            assert got, "the connection ended"
            size -= got

    def run(self, batch):
        self.socket.sendall(self.request * batch)
        self.receive(self.answer_size * batch)


def requests_per_cpu_second(server, streams, seconds):
    """Measured in alternating short turns, so that other load on the machine affects all of them; the median turn of
    each."""
    turns = [[] for _ in streams]
    until = time.monotonic() + seconds * len(streams)
    while time.monotonic() < until:
        for i, stream in enumerate(streams):
            before = cpu_seconds(server.process.pid)
            for _ in range(4):
                stream.run(BATCH)
            turns[i].append(4 * BATCH / (cpu_seconds(server.process.pid) - before))
    return [statistics.median(one) for one in turns]


def rate(program, server, *args):
    env = dict(os.environ, VERBENA_ENDPOINT=server.http, VERBENA_NATIVE=server.native, AWS_ACCESS_KEY_ID=ACCESS_KEY,
               AWS_SECRET_ACCESS_KEY=SECRET_KEY)
    done = subprocess.run([program, *map(str, args)], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{args}: {done.stderr}")
    return float(done.stdout.split()[-1])


def row(what, value, unit):
    print(f"{what:<58} {value:>12,.0f} {unit}", flush=True)


def ratio(what, value, wanted):
    print(f"  {what:<56} {value:>12.2f} x (wanted: {wanted})", flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--build", default=str(ROOT / "build"))
    arguments.add_argument("--seconds", type=float, default=4)
    given = arguments.parse_args()
    program = str(pathlib.Path(given.build) / "tests" / "express" / "verbena_append_log")
    if not os.path.exists(program):
        program = str(next(pathlib.Path(given.build).rglob("verbena_append_log")))
    with Server() as server:
        root = Express(server.http)
        root.make_bucket(BUCKET)
        plain = Express(server.http, service="s3")
        assert plain.call("PUT", f"/{GENERAL}").status == 200
        for bucket, client in ((BUCKET, root), (GENERAL, plain)):
            assert client.call("PUT", f"/{bucket}/4k", os.urandom(4096)).status == 200
        keys = make_user(server.http, "bench", POLICY)
        of_many = make_user(server.http, "bench-many", {**POLICY, "Statement": OTHERS + POLICY["Statement"]})
        streams = []
        for who in ({}, {"keys": keys}, {"keys": of_many}):
            session = Express(server.http, **who).open_session(BUCKET)
            streams.append(Stream(server.http, raw_request(session, f"/{BUCKET}/4k")))
            streams.append(Stream(server.http, raw_request(Express(server.http, service="s3", **who), f"/{GENERAL}/4k")))
        rates = requests_per_cpu_second(server, streams, given.seconds)
        for whose, in_session, signed in (("the root", *rates[:2]), ("a user", *rates[2:4]),
                                          ("a user of many buckets", *rates[4:])):
            row(f"GET 4 KiB in a session of {whose}", in_session, "requests per core and second")
            row(f"GET 4 KiB signed with lasting keys of {whose}", signed, "requests per core and second")
            ratio("in a session / with lasting keys", in_session / signed, ">= 1.1")

        one = rate(program, server, "put", "http", BUCKET, "put-1", 1_000, 1)
        many = rate(program, server, "put", "http", BUCKET, "put-64", 5_000, 64)
        appends = rate(program, server, "write", "native", BUCKET, "log", 100_000, 64)
        each = rate(program, server, "write_each", "native", BUCKET, "log-each", 40_000, 64)
        row("PutObject of 200 bytes over HTTP, one in flight", one, "per second")
        row("PutObject of 200 bytes over HTTP, 64 in flight", many, "per second")
        row("native APPEND of 200 bytes, 64 in flight", appends, "per second")
        row("likewise, each a message of its own", each, "per second")
        ratio("append / PutObject, one in flight", appends / one, ">= 20")
        ratio("append / PutObject, 64 in flight", appends / many, "told beside it")

        for door in ("http", "native"):
            touches, renames = (rate(program, server, what, door, BUCKET, what, 2_000, 1) for what in ("touch", "rename"))
            row(f"PUT of an empty object, {door}", touches, "per second")
            row(f"rename, {door}", renames, "per second")
            ratio("time of a rename / of an empty PUT", touches / renames, "about 1")
    return 0


if __name__ == "__main__":
    sys.exit(main())
