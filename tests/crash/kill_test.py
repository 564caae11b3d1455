#!/usr/bin/python3
"""kill -9 at any moment loses no acknowledged object and leaves no partial one.

Rounds: writers put, overwrite and delete objects of many sizes (multipart uploads among them) while the server is
killed at a random moment; after each restart every acknowledged state must be present and complete. Each object's bytes
identify the write, so that a mixture of two writes is detected, too.

After each kill the server's stored counts of each bucket must equal those of a recount (`verbena fsck`). A `memory`
bucket may lose its last moment: of each key it holds a body that was put there, none older than what was acknowledged
two seconds before the kill, and its counts match the remaining objects.

Meanwhile lifecycle rules run as fast as the server can, among them one that removes all but the two newest noncurrent
versions of a bucket whose keys are overwritten all the time, and pages of versions are listed. The versions that the
rule keeps are present after each kill, and each page is of one moment.

usage: kill_test.py [--rounds N] [--seed N] [--device DEVICE] [--pmem LIBRARY]
DEVICE is formatted, and without a store. LIBRARY (dax_stand_in.cc) lets a folder stand in for persistent memory.
"""
import argparse
import hashlib
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from verbena_server import Server, boto3_client, program  # noqa: E402

BUCKET, FAST, VERSIONED = "crash", "crash-fast", "crash-versions"
KEPT = 2  # noncurrent versions
SIZES = [0, 1, 100, 4096, 16_384, 16_385, 65_536, 65_537, 300_000, 1_500_000]
PART = 5 * 1024 * 1024
WRITERS = 4
KEYS_PER_WRITER = 12
ABSENT = None
FAST_LOSES_S = 2  # of acknowledged writes, by far: it is 100 ms
LONG_ROUNDS = 10  # one of so many lasts long enough for writes that may not be lost


def content(key, serial, size):
    """Bytes that identify their write: every 32-byte line is a digest of key, serial and offset."""
    seed = hashlib.sha256(f"{key}:{serial}".encode()).digest()
    body = bytearray((seed * (size // 32 + 1))[:size])
    for at in range(0, size - 16, 65_536):
        body[at:at + 8] = at.to_bytes(8, "little")
    return bytes(body)


class Writer(threading.Thread):
    """Owns its keys. `states[key]` is the acknowledged state; `maybe` the write in flight at the kill; `fast[key]` what
    was put into the `memory` bucket, in order: [when it was acknowledged, or None, serial, size]."""

    def __init__(self, number, seed, states, fast):
        super().__init__(daemon=True)
        self.random = random.Random(seed)
        self.number, self.states, self.fast = number, states, fast
        self.maybe = None
        self.endpoint = None
        self.acknowledged = 0

    def run(self):
        s3 = boto3_client(self.endpoint, connect_timeout=5, read_timeout=20, retries={"total_max_attempts": 1})
        while True:
            key = f"w{self.number}/key-{self.random.randrange(KEYS_PER_WRITER)}"
            serial = self.random.getrandbits(48)
            kind = self.random.random()
            size = self.random.choice(SIZES) if kind < 0.97 else PART + 70_000
            new = ABSENT if kind < 0.15 else (serial, size)
            self.maybe = (key, new)
            try:
                if new is ABSENT:
                    reply = s3.delete_object(Bucket=BUCKET, Key=key)
                elif size > PART:
                    reply = self.put_multipart(s3, key, content(key, serial, size))
                else:
                    reply = s3.put_object(Bucket=BUCKET, Key=key, Body=content(key, serial, size))
                    if kind > 0.7:
                        put = [None, serial, size]
                        self.fast.setdefault(key, []).append(put)
                        s3.put_object(Bucket=FAST, Key=key, Body=content(key, serial, size))
                        put[0] = time.monotonic()
                # botocore may take the end of a connection for a success (an old status line, no headers).
                if "x-amz-request-id" not in reply["ResponseMetadata"]["HTTPHeaders"]:
                    raise RuntimeError("an answer that the server did not give")
            except Exception:  # the server was killed: not acknowledged  # noqa: BLE001
                return
            self.states[key] = new
            self.acknowledged += 1
            self.maybe = None

    @staticmethod
    def put_multipart(s3, key, body):
        upload = s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
        parts = []
        for number, at in enumerate(range(0, len(body), PART), 1):
            tag = s3.upload_part(Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=number, Body=body[at:at + PART])["ETag"]
            parts.append({"PartNumber": number, "ETag": tag})
        return s3.complete_multipart_upload(Bucket=BUCKET, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})


class VersionWriter(threading.Thread):
    """Overwrites its keys. `history[key]`: entity tags of acknowledged writes, the newest last; `maybe` as above."""

    def __init__(self, endpoint, seed, history):
        super().__init__(daemon=True)
        self.endpoint, self.random, self.history = endpoint, random.Random(seed), history
        self.maybe = None

    def run(self):
        s3 = boto3_client(self.endpoint, connect_timeout=5, read_timeout=20, retries={"total_max_attempts": 1})
        while True:
            key, body = f"k{self.random.randrange(6)}", self.random.randbytes(20)
            self.maybe = (key, hashlib.md5(body).hexdigest())
            try:
                reply = s3.put_object(Bucket=VERSIONED, Key=key, Body=body)
                if "x-amz-request-id" not in reply["ResponseMetadata"]["HTTPHeaders"]:
                    raise RuntimeError("an answer that the server did not give")
            except Exception:  # the server was killed: not acknowledged  # noqa: BLE001
                return
            self.history.setdefault(key, []).append(self.maybe[1])
            self.maybe = None


def check_page(page):
    """Checks that the page is of one moment: no version twice, and the first of each key is its newest."""
    versions = page.get("Versions", [])
    names = [version["VersionId"] for version in versions]
    assert len(set(names)) == len(names), f"a version is listed twice: {versions}"
    for before, version in zip([None, *versions], versions):
        first = before is None or before["Key"] != version["Key"]
        if before is None and page.get("KeyMarker"):
            continue
        assert version["IsLatest"] == first, f"not one moment: {versions}"


class Lister(threading.Thread):
    """Pages of versions, one after the other."""

    def __init__(self, endpoint):
        super().__init__(daemon=True)
        self.endpoint, self.wrong, self.pages = endpoint, None, 0

    def run(self):
        s3 = boto3_client(self.endpoint, connect_timeout=5, read_timeout=20, retries={"total_max_attempts": 1})
        while True:
            try:
                page = s3.list_object_versions(Bucket=VERSIONED)
            except Exception:  # the server was killed  # noqa: BLE001
                return
            try:
                check_page(page)
            except AssertionError as e:
                self.wrong = e
                return
            self.pages += 1


def check_versions(s3, history, maybe, round_number):
    """Of each key the newest version and as many noncurrent ones as the rule keeps are present."""
    listed = []
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=VERSIONED):
        check_page(page)
        listed += page.get("Versions", [])
    for key in set(history) | ({maybe[0]} if maybe else set()):
        there = [v["ETag"].strip('"') for v in listed if v["Key"] == key]
        known = history.setdefault(key, [])
        if maybe and maybe[0] == key and there[:1] == [maybe[1]]:
            known.append(maybe[1])
        wanted = known[::-1][:1 + KEPT]
        assert there[:len(wanted)] == wanted, f"round {round_number}: {key} has {there}, acknowledged {known[-5:]}"
    if listed:
        one = listed[round_number % len(listed)]
        body = s3.get_object(Bucket=VERSIONED, Key=one["Key"], VersionId=one["VersionId"])["Body"].read()
        assert hashlib.md5(body).hexdigest() == one["ETag"].strip('"'), f"round {round_number}: the bytes of {one} are others"


def read(s3, key, bucket=BUCKET):
    try:
        return s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    except s3.exceptions.NoSuchKey:
        return ABSENT


def check(s3, key, states, maybe, round_number):
    """The key holds its acknowledged state, or that of the write in flight. Returns its state."""
    body = read(s3, key)
    for state in [states.get(key)] + ([maybe[1]] if maybe and maybe[0] == key else []):
        if state is ABSENT and body is ABSENT:
            return state
        if state is not ABSENT and body is not ABSENT and body == content(key, *state):
            return state
    have = "nothing" if body is ABSENT else f"{len(body)} bytes"
    raise AssertionError(f"round {round_number}: {key} holds {have}; acknowledged {states.get(key)}, in flight {maybe}")


def check_fast(s3, fast, killed, round_number):
    """Of each key a body that was put there, and none older than what was acknowledged long before the kill: how many
    of those there were."""
    long_kept = 0
    for key, puts in fast.items():
        body = read(s3, key, FAST)
        known = [at for at, (_, serial, size) in enumerate(puts) if body is not ABSENT and body == content(key, serial, size)]
        assert known or body is ABSENT, f"round {round_number}: {FAST}/{key} holds {len(body)} bytes that were never put"
        found = known[-1] if known else -1
        kept = [at for at, put in enumerate(puts) if put[0] is not None and put[0] < killed - FAST_LOSES_S]
        long_kept += sum(puts[at][0] > 0 for at in kept)
        assert not kept or found >= kept[-1], f"round {round_number}: {FAST}/{key} has lost what was acknowledged long before"
        fast[key] = [[0, *puts[found][1:]]] if found >= 0 else []
    return long_kept


def make_buckets(s3):
    s3.create_bucket(Bucket=BUCKET)
    s3.meta.events.register("before-sign.s3.CreateBucket",
                            lambda request, **_: request.headers.add_header("x-verbena-durability", "memory"))
    s3.create_bucket(Bucket=FAST)


def make_rules(s3):
    s3.create_bucket(Bucket=VERSIONED)
    s3.put_bucket_versioning(Bucket=VERSIONED, VersioningConfiguration={"Status": "Enabled"})
    # The first rule always has work; the second scans everything and matches nothing.
    noncurrent = {"ID": "noncurrent", "Status": "Enabled", "Filter": {"Prefix": ""},
                  "NoncurrentVersionExpiration": {"NoncurrentDays": 1, "NewerNoncurrentVersions": KEPT}}
    nothing = {"ID": "nothing", "Status": "Enabled", "Filter": {"Tag": {"Key": "no", "Value": "object"}},
               "Expiration": {"Days": 1}}
    s3.put_bucket_lifecycle_configuration(Bucket=VERSIONED, LifecycleConfiguration={"Rules": [noncurrent]})
    s3.put_bucket_lifecycle_configuration(Bucket=BUCKET, LifecycleConfiguration={"Rules": [nothing]})


def recount(data, round_number, device):
    """Compares every stored count in the dead server's directory with a recount."""
    where = ["--device", device] if device else []
    done = subprocess.run([program(), "fsck", "--index-only", str(data), *where], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"round {round_number}: fsck: {done.stdout}{done.stderr}"


def check_numbers(s3, states, round_number):
    """Compares the server's bucket counts with the acknowledged writes and with listings."""
    alive = [state for state in states.values() if state is not ABSENT]
    listed = [o["Size"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket=FAST) for o in page.get("Contents", [])]
    for bucket, sizes in ((BUCKET, [size for _, size in alive]), (FAST, listed)):
        head = s3.head_bucket(Bucket=bucket)["ResponseMetadata"]["HTTPHeaders"]
        said = int(head["x-verbena-objects"]), int(head["x-verbena-bytes"])
        assert said == (len(sizes), sum(sizes)), f"round {round_number}: {bucket} is said to hold {said}"


def until_busy(writers, lister):
    """On an emulated machine the first write takes longer than a round: the random moment counts from there."""
    deadline = time.monotonic() + 60
    while sum(w.acknowledged for w in writers) < 2 or lister.pages < 2:
        if time.monotonic() > deadline:
            return  # What was too little is said at the end.
        time.sleep(0.01)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--device", help="keeps the objects' bytes (data.device)")
    parser.add_argument("--pmem", help="the library that stands in for persistent memory (data.pmem)")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    chance = random.Random(options.seed)
    states, fast, acknowledged, long_kept, started = {}, {}, 0, 0, time.monotonic()
    history, pages = {}, 0
    passes = ("--set", "lifecycle_day=1", *(("--set", f"data.device={options.device}") if options.device else ()))
    with tempfile.TemporaryDirectory(prefix="verbena-crash-") as folder:
        data = pathlib.Path(folder) / "data"
        data.mkdir()
        environment = None
        if options.pmem:
            memory = pathlib.Path(folder) / "pmem"
            memory.mkdir()
            passes += ("--set", f"data.pmem={memory}")
            environment = {"LD_PRELOAD": options.pmem}
        server = Server(data, passes, environment).start()
        make_buckets(boto3_client(server.http))
        make_rules(boto3_client(server.http))
        try:
            for round_number in range(1, options.rounds + 1):
                writers = [Writer(n, chance.getrandbits(32), states, fast) for n in range(WRITERS)]
                for writer in writers:
                    writer.endpoint = server.http
                    writer.start()
                versions, lister = VersionWriter(server.http, chance.getrandbits(32), history), Lister(server.http)
                versions.start()
                lister.start()
                until_busy(writers, lister)
                time.sleep(chance.uniform(0.05, 0.7) + (FAST_LOSES_S + 1 if round_number % LONG_ROUNDS == 0 else 0))
                killed = time.monotonic()
                server.kill()
                for thread in (versions, lister):
                    thread.join(60)
                    assert not thread.is_alive(), "a call hangs after the server's death"
                assert lister.wrong is None, f"round {round_number}: {lister.wrong}"
                pages += lister.pages
                for writer in writers:
                    writer.join(60)
                    assert not writer.is_alive(), "a writer hangs after the server's death"
                    acknowledged += writer.acknowledged
                recount(data, round_number, options.device)
                server = Server(data, passes, environment).start()
                s3 = boto3_client(server.http)
                check_versions(s3, history, versions.maybe, round_number)
                for writer in writers:
                    own = [key for key in states if key.startswith(f"w{writer.number}/")]
                    if writer.maybe and writer.maybe[0] not in own:
                        own.append(writer.maybe[0])
                    for key in own:
                        states[key] = check(s3, key, states, writer.maybe, round_number)
                listed = {o["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
                          for o in page.get("Contents", [])}
                alive = {key for key, state in states.items() if state is not ABSENT}
                assert listed == alive, f"round {round_number}: listing differs: {listed ^ alive}"
                long_kept += check_fast(s3, fast, killed, round_number)
                check_numbers(s3, states, round_number)
            text = pathlib.Path(server.log_path).read_text(errors="replace")  # of all starts
            from_log = sum(map(int, re.findall(r"(\d+) objects come from the log on persistent memory", text)))
            status = server.stop()
            assert status == 0, f"exit status {status}"
        finally:
            if server.process is not None:
                print(server.log())
                server.kill()
    assert acknowledged > options.rounds, "too few acknowledged writes for the test to mean anything"
    assert long_kept or options.rounds < LONG_ROUNDS, "no write to the memory bucket was old enough to be missed"
    assert from_log > 0 or not options.pmem, "persistent memory had nothing that the index had not"
    assert pages > options.rounds, "too few pages of versions for the test to mean anything"
    print(f"{options.rounds} rounds of kill -9, {acknowledged} acknowledged writes, none lost, none partial, "
          f"{pages} pages of versions, each of one moment, "
          + (f"{from_log} objects came from persistent memory, " if options.pmem else "") + f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
