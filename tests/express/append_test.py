#!/usr/bin/python3
"""A log that is written record by record while it is read and the server is killed: every acknowledged record is
present, in order, once. Over all three doors, in a bucket without encryption or with it.

usage: append_test.py APPEND_LOG [--records N] [--doors http,token,native] [--encrypted]
"""
import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from express_case import ZONE, Express  # noqa: E402
from verbena_server import ACCESS_KEY, IN_MEMORY, ON_RADOS, SECRET_KEY, Server, program as verbena  # noqa: E402

BUCKET = f"logs--{ZONE}--x-s3"
RECORD = 200
KILLS = 3
ENCRYPTION = ("<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm>"
              "</ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>")
# Concurrent appends: HTTP and tokens wait for each answer, because the next offset depends on it.
IN_FLIGHT = {"http": 1, "token": 1, "native": 64}


def environment(server, keys=(ACCESS_KEY, SECRET_KEY, "")):
    access, secret, token = keys
    return dict(os.environ, VERBENA_ENDPOINT=server.http, VERBENA_NATIVE=server.native, AWS_ACCESS_KEY_ID=access,
                AWS_SECRET_ACCESS_KEY=secret, AWS_SESSION_TOKEN=token)


class Program:
    def __init__(self, program, server, *args, **keys):
        self.process = subprocess.Popen([program, *map(str, args)], env=environment(server, **keys), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.acknowledged, self.lines = 0, []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if line.startswith("acknowledged "):
                self.acknowledged = int(line.split()[1])

    def wait(self, timeout):
        status = self.process.wait(timeout)
        self.reader.join(10)
        return status, self.process.stderr.read()


def check_log(server, door, acknowledged):
    """After a kill: no acknowledged record is missing, and all records are complete."""
    root = Express(server.http)
    answer = root.call("HEAD", f"/{BUCKET}/{door}")
    size = int(answer.headers["content-length"]) if answer.status == 200 else 0
    assert size % RECORD == 0, f"{door}: {size} bytes are no whole records"
    assert size // RECORD >= acknowledged, f"{door}: {acknowledged} records were acknowledged, {size // RECORD} are there"


def write_and_kill(program, server, door, records, seed):
    """Restarts the writer until the log has all its records; the server is killed in between."""
    choose, kills, acknowledged = random.Random(seed), 0, 0
    while True:
        writer = Program(program, server, "write", door, BUCKET, door, records, IN_FLIGHT[door])
        if kills < KILLS:
            until = min(records - 1, acknowledged + records // (KILLS + 2))
            while writer.process.poll() is None and writer.acknowledged < until:
                time.sleep(0.01)
            time.sleep(choose.random() * 0.05)
            server.kill()
            kills += 1
            writer.wait(60)
            acknowledged = max(acknowledged, writer.acknowledged)
            server.start()
            check_log(server, door, acknowledged)
            continue
        status, errors = writer.wait(900)
        assert status == 0, f"{door}: the writer ended with {status}: {errors}\n{server.log()}"
        return kills


def follow(program, server, door, records):
    """A reader beside a writer, on a server that is not killed."""
    key = f"{door}-tailed"
    reader = Program(program, server, "tail", door if door != "token" else "http", BUCKET, key, records)
    writer = Program(program, server, "write", door, BUCKET, key, records, IN_FLIGHT[door])
    for one, name in ((writer, "writer"), (reader, "reader")):
        status, errors = one.wait(900)
        assert status == 0, f"{door}: the {name} ended with {status}: {errors}\n{server.log()}"


def in_a_session(program, server):
    """A client with only one session's credentials writes and reads by the doors that sign with them."""
    session = Express(server.http).open_session(BUCKET).session
    for door in ("http", "native"):
        for what in ("write", "tail"):
            one = Program(program, server, what, door, BUCKET, f"{door}-in-session", 200,
                          *([IN_FLIGHT[door]] if what == "write" else []), keys=session)
            status, errors = one.wait(120)
            assert status == 0, f"{door}, {what}, in a session: {status}: {errors}"
    other = Program(program, server, "write", "native", BUCKET + "-none", "k", 1, 1, keys=session)
    assert other.wait(60)[0] != 0, "a session of one bucket wrote into another"


def plain_records(directory, count):
    """Records that are stored unencrypted on the disk."""
    wanted = b"%012d " % (count // 2)
    return [str(path) for path in pathlib.Path(directory).rglob("*") if path.is_file() and wanted in path.read_bytes()]


def check_disk(data, records, encrypted):
    if ON_RADOS:
        return
    checked = subprocess.run([verbena(), "fsck", str(data)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             timeout=120)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    found = plain_records(data, records)
    assert not found if encrypted else found, f"encrypted: {encrypted}, as it was written in {found}"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program")
    arguments.add_argument("--records", type=int, default=1_500)
    arguments.add_argument("--doors", default="http,token,native")
    arguments.add_argument("--encrypted", action="store_true", help="the bucket encrypts what is put in it")
    given = arguments.parse_args()
    if IN_MEMORY:
        print("SKIPPED: an engine that keeps nothing")
        return 0
    with tempfile.TemporaryDirectory(prefix="verbena-append-") as folder:
        data = pathlib.Path(folder) / "data"
        data.mkdir()
        server = Server(data).start()
        try:
            root = Express(server.http)
            root.make_bucket(BUCKET)
            if given.encrypted:
                assert root.call("PUT", f"/{BUCKET}?encryption", ENCRYPTION).status == 200
            in_a_session(given.program, server)
            for door in given.doors.split(","):
                follow(given.program, server, door, given.records)
                kills = write_and_kill(given.program, server, door, given.records, door)
                # Read from start to end: each record once, in order.
                reader = Program(given.program, server, "tail", "http", BUCKET, door, given.records)
                status, errors = reader.wait(300)
                assert status == 0, f"{door}: {errors}"
                answer = Express(server.http).call("HEAD", f"/{BUCKET}/{door}")
                assert int(answer.headers["content-length"]) == given.records * RECORD
                print(f"{door}: {given.records} records, {kills} kills")
                assert answer.headers.get("x-amz-server-side-encryption") == ("AES256" if given.encrypted else None)
        finally:
            server.stop()
        check_disk(data, given.records, given.encrypted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
