#!/usr/bin/python3
"""Appends that share messages and commits, while their preconditions disappear: a quota is reached, a right is revoked,
the object is renamed or removed. Each record has its own answer: an acknowledged record is stored once, at the offset
in its answer; a refused one is not.

usage: append_burst_test.py APPEND_LOG
"""
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from express_case import ZONE, Express, iam_call, make_user  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, client_environment, program as verbena  # noqa: E402

RECORD, IN_FLIGHT = 200, 64
ALLOWED = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3express:*", "Resource": "*"}]}


class Burst:
    def __init__(self, program, server, bucket, key, count, keys=(ACCESS_KEY, SECRET_KEY), what="burst"):
        env = dict(os.environ, VERBENA_ENDPOINT=server.http, VERBENA_NATIVE=server.native, AWS_ACCESS_KEY_ID=keys[0],
                   AWS_SECRET_ACCESS_KEY=keys[1], AWS_SESSION_TOKEN="")
        self.process = subprocess.Popen([program, what, "native", bucket, key, str(count), str(IN_FLIGHT)], env=env,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.sizes, self.codes = {}, {}
        self.said = ("", "")
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        self.said = self.process.communicate()

    def runs(self):
        return self.reader.is_alive()

    def wait(self):
        self.reader.join(240)
        assert not self.runs() and self.process.returncode == 0, self.said[1]
        for line in self.said[0].splitlines():
            if line.startswith("record "):
                _, number, answer = line.split()
                if answer.isdigit():
                    self.sizes[int(number)] = int(answer)
                else:
                    self.codes[int(number)] = answer
        return self


def records_of(body, where):
    """The numbers of the records, in their order; each is complete."""
    assert len(body) % RECORD == 0, f"{where}: {len(body)} bytes are no whole records"
    numbers = []
    for at in range(0, len(body), RECORD):
        text = body[at:at + RECORD]
        number = int(text[:12])
        assert text == b"%012d " % number + bytes([97 + number % 26]) * (RECORD - 14) + b"\n", f"{where}: {text!r} at {at}"
        numbers.append(number)
    return numbers


def read(root, bucket, key):
    answer = root.call("GET", f"/{bucket}/{key}")
    return answer.body if answer.status == 200 else b""


def quota(home, server, *args):
    env = dict(client_environment(home), AWS_ENDPOINT_URL=server.http)
    done = subprocess.run([verbena(), "quota", *args], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def a_quota_is_reached(program, server, root, bucket):
    """Records are accepted as long as there is room for them, however many share a message."""
    home = pathlib.Path(server.directory)
    quota(home, server, "set", f"s3://{bucket}", "--bytes", str(500 * RECORD))
    burst = Burst(program, server, bucket, "log", 2_000).wait()
    kept = len(burst.sizes)
    assert burst.sizes == {number: (number + 1) * RECORD for number in range(kept)}, "a prefix of them, each at its place"
    assert 0 < kept <= 500, kept
    assert set(burst.codes.values()) <= {"QuotaExceeded", "InvalidWriteOffset"}, set(burst.codes.values())
    assert "QuotaExceeded" in burst.codes.values()
    assert records_of(read(root, bucket, "log"), "log") == list(range(kept))
    assert json.loads(quota(home, server, "show", f"s3://{bucket}", "--json"))["usage"]["bytes"] == kept * RECORD
    more = 0
    while root.call("PUT", f"/{bucket}/log", b"x" * RECORD, {"x-amz-write-offset-bytes": str((kept + more) * RECORD)}).status == 200:
        more += 1
    assert kept + more == 500, f"{kept} and {more}: room was lost or made up"


def a_right_is_taken_back(program, server, root, bucket):
    keys = make_user(server.http, "writer", ALLOWED)
    burst = Burst(program, server, bucket, "log", 1_000_000 // 4, keys)
    until = time.monotonic() + 60
    while int(root.call("HEAD", f"/{bucket}/log").headers.get("content-length", 0)) < 1_000 * RECORD:
        assert time.monotonic() < until and burst.runs(), "the records do not come"
    iam_call(server.http, "DeleteUserPolicy", UserName="writer", PolicyName="p")
    at_most = int(root.call("HEAD", f"/{bucket}/log").headers["content-length"]) // RECORD
    burst.wait()
    kept = len(burst.sizes)
    assert burst.sizes == {number: (number + 1) * RECORD for number in range(kept)}
    # Appends in flight had been authorized before.
    assert 1_000 <= kept <= at_most + IN_FLIGHT, f"{kept} records are there, {at_most} when the right was gone"
    assert set(burst.codes.values()) <= {"AccessDenied", "InvalidWriteOffset"}, set(burst.codes.values())
    assert burst.codes[len(burst.codes) + kept - 1] == "AccessDenied", "the last"
    assert records_of(read(root, bucket, "log"), "log") == list(range(kept))


def the_object_is_renamed(program, server, root, bucket):
    """A rename loses no acknowledged record."""
    burst = Burst(program, server, bucket, "log", 40_000, what="burst_at_end")
    names = []
    while burst.runs() and len(names) < 200:
        name = f"log.{len(names)}"
        if root.call("PUT", f"/{bucket}/{name}?renameObject", headers={"x-amz-rename-source": "log"}).status == 200:
            names.append(name)
    burst.wait()
    assert not burst.codes, burst.codes
    assert names, "no rename came in between"
    places, found = {}, []
    for name in [*names, "log"]:
        numbers = records_of(read(root, bucket, name), name)
        found += numbers
        places.update({number: (at + 1) * RECORD for at, number in enumerate(numbers)})
    assert len(found) == 40_000 and places == burst.sizes, f"{len(found)} records, {len(places)} different ones"


def the_object_is_removed_and_replaced(program, server, root, bucket):
    burst = Burst(program, server, bucket, "log", 20_000, what="burst_at_end")
    changes, other = 0, b"%012d " % 5_000_000 + bytes([97 + 5_000_000 % 26]) * (RECORD - 14) + b"\n"
    while burst.runs():
        if changes % 2 == 0:
            assert root.call("DELETE", f"/{bucket}/log").status == 204
        else:
            assert root.call("PUT", f"/{bucket}/log", other).status == 200
        changes += 1
        time.sleep(0.002)
    burst.wait()
    assert not burst.codes, burst.codes
    numbers = records_of(read(root, bucket, "log"), "log")
    own = [number for number in numbers if number != 5_000_000]
    assert len(set(own)) == len(own), "a record twice"
    for at, number in enumerate(numbers):
        assert number == 5_000_000 or burst.sizes[number] == (at + 1) * RECORD, f"{number} is not where its answer says"


def several_writers(program, server, root, bucket):
    """Several sessions, one log: all records of each, in its order."""
    bursts = [Burst(program, server, bucket, "log", 10_000, what="burst_at_end") for _ in range(3)]
    for one in bursts:
        one.wait()
    numbers = records_of(read(root, bucket, "log"), "log")
    assert len(numbers) == 30_000, len(numbers)
    ends = sorted(end for one in bursts for end in one.sizes.values())
    assert ends == [(i + 1) * RECORD for i in range(30_000)], "each place is one record's"
    for one in bursts:
        assert all(numbers[end // RECORD - 1] == number for number, end in one.sizes.items())
        assert list(one.sizes.values()) == sorted(one.sizes.values()), "in the order in which they were asked for"


def main():
    program = sys.argv[1]
    with Server() as server:
        root = Express(server.http)
        for case in (a_quota_is_reached, a_right_is_taken_back, the_object_is_renamed, the_object_is_removed_and_replaced,
                     several_writers):
            bucket = f"{case.__name__.replace('_', '-')[:40]}--{ZONE}--x-s3"
            root.make_bucket(bucket)
            case(program, server, root, bucket)
            print(case.__name__.replace("_", " "))
    return 0


if __name__ == "__main__":
    sys.exit(main())
