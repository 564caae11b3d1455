"""Compares a server that recovered from a cut with the ledger (load.py).

An operation that was answered before the cut is there whole. One that had begun and was not answered is there whole, in
all its effects, or not at all. One that had not begun is not there. A `memory` bucket may lose what was answered in the last
moment (`MEMORY_WINDOW_S`): then its key has an older state, none, or answers 500; never other bytes.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

import load

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import kept_calls  # noqa: E402
import verbena_server  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, boto3_client, program  # noqa: E402

# docs/concepts.md says about a second; the rest is for a busy machine.
MEMORY_WINDOW_S = 3
AFTER = "power-after"  # written to after the cut
# Less to set up at each start; and a reader that gets no processor for minutes keeps its connection.
SMALL = ["--set", "arena_size=64MiB", "--set", "http.idle_timeout=900"], {"VERBENA_RDMA_TOKEN_PROVIDER": "none"}
# Cuts by the thousand run behind everything else on a machine, where a start may take minutes.
verbena_server.START_TIMEOUT_S, verbena_server.STOP_TIMEOUT_S = 900, 300
FSCK_TIMEOUT_S = 900
BROKEN = "broken"  # the state of an object that answers 500


class Wrong(Exception):
    """What a cut must not do."""


class Expected:
    """The ledger at a cut: for each thing the states that it may have."""

    def __init__(self, entries, cut, cut_s):
        self.certain, self.in_flight, self.older = {}, [], collections.defaultdict(list)
        self.things = set()
        for entry in sorted(entries, key=lambda entry: entry.begin):
            self.things.update(entry.effects)
            if entry.ack <= cut:
                for thing, state in entry.effects.items():
                    if entry.ack_s > cut_s - MEMORY_WINDOW_S:
                        self.older[thing].append(self.certain.get(thing))
                    self.certain[thing] = state
            elif entry.begin < cut:
                self.in_flight.append(entry)

    def may_be(self, thing):
        return [self.certain.get(thing)] + [e.effects[thing] for e in self.in_flight if thing in e.effects]


def equal(thing, found, state):
    if thing[0] != "kept" or state is None or found is None:
        return found == state
    # Lifecycle keeps the newest ones; of those before it may have removed any.
    sure = 1 + load.NEWER_KEPT
    rest = iter(state[sure:])
    return found[:sure] == state[:sure] and all(version in rest for version in found[sure:])


def compare(expected, found):
    """Raises Wrong for the first thing whose state no legal outcome explains."""
    for thing in sorted(expected.things | set(found)):
        there = found.get(thing)
        if any(equal(thing, there, state) for state in expected.may_be(thing)):
            continue
        if thing[1] == load.MEMORY and expected.older[thing] and (there in (None, BROKEN) or there in expected.older[thing]):
            continue
        raise Wrong(f"{thing} is {there}; may be {expected.may_be(thing)}")
    for entry in expected.in_flight:
        whole(entry, expected, found)


def whole(entry, expected, found):
    """An operation in flight has all its effects or none."""
    seen = set()
    for thing, new in entry.effects.items():
        old, there = expected.certain.get(thing), found.get(thing)
        if equal(thing, there, old) != equal(thing, there, new):
            seen.add(equal(thing, there, new))
    if len(seen) > 1:
        raise Wrong(f"{entry.what} is half there: {entry.effects}")


class Reader:
    """Reads everything that a server has into `found`: thing -> state."""

    def __init__(self, server):
        self.server, self.s3, self.found = server, boto3_client(server.http), {}
        self.gets = kept_calls.Calls(server.http)

    def everything(self):
        names = [bucket["Name"] for bucket in self.s3.list_buckets()["Buckets"] if bucket["Name"] != AFTER]
        native = load.native_client()
        if native and self.directory():
            names.append(load.DIRECTORY)
        for name in names:
            self.found["bucket", name, ""] = "there"
        for name in names:
            if name in (load.VERSIONED, load.KEPT):
                self.versions(name)
            elif name != load.DIRECTORY:
                self.objects(name)
                self.uploads(name)
        return self.found

    def directory(self):
        import verbena
        client = verbena.connect(self.server.http, native_endpoint=self.server.native, access_key=ACCESS_KEY, secret_key=SECRET_KEY)
        try:
            listed = list(client.list(load.DIRECTORY))
        except verbena.errors.NoSuchBucket:
            return False
        for item in listed:
            body = bytes(client.get(load.DIRECTORY, item.key))
            if len(body) != item.size:
                raise Wrong(f"{item.key} is listed with {item.size} bytes and has {len(body)}")
            self.found["object", load.DIRECTORY, item.key] = load.state_of(body)
        client.close()
        return True

    def read(self, bucket, item, version=None):
        status, tag, body = self.gets.get(bucket, item["Key"], version)
        if bucket == load.MEMORY and status == 500:
            return BROKEN
        if status != 200:
            raise Wrong(f"GET {bucket}/{item['Key']}: {status} {body[:300]}")
        if (len(body), tag) != (item["Size"], item["ETag"]):
            raise Wrong(f"{bucket}/{item['Key']} is listed as {item['Size']} bytes, {item['ETag']}")
        return load.state_of(body)

    def objects(self, bucket):
        sizes = []
        for page in self.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for item in page.get("Contents", []):
                sizes.append(item["Size"])
                self.found["object", bucket, item["Key"]] = self.read(bucket, item)
        head = self.s3.head_bucket(Bucket=bucket)["ResponseMetadata"]["HTTPHeaders"]
        said = int(head["x-verbena-objects"]), int(head["x-verbena-bytes"])
        if said != (len(sizes), sum(sizes)):
            raise Wrong(f"{bucket} is said to hold {said}, and holds {(len(sizes), sum(sizes))}")

    def versions(self, bucket):
        kind = "versions" if bucket == load.VERSIONED else "kept"
        listed = collections.defaultdict(list)
        for page in self.s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            for item in page.get("Versions", []):
                state = self.read(bucket, item, item["VersionId"])
                listed[item["Key"]].append((item["VersionId"], state, item["LastModified"], item["IsLatest"]))
            for item in page.get("DeleteMarkers", []):
                listed[item["Key"]].append((item["VersionId"], None, item["LastModified"], item["IsLatest"]))
        for key, versions in listed.items():
            self.found[kind, bucket, key] = self.in_order(bucket, key, versions)

    def in_order(self, bucket, key, versions):
        """Versions and markers come in two lists: merged here by their ids, which descend as listed."""
        if [latest for *_, latest in versions].count(True) != 1:
            raise Wrong(f"{bucket}/{key} has not one latest version: {versions}")
        return tuple((name, state) for name, state, *_ in sorted(versions, key=lambda v: (v[3], v[2], v[0]), reverse=True))

    def uploads(self, bucket):
        for item in self.s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []):
            thing = "upload", bucket, item["Key"]
            if thing in self.found:
                raise Wrong(f"two uploads of {thing}")
            parts = self.s3.list_parts(Bucket=bucket, Key=item["Key"], UploadId=item["UploadId"]).get("Parts", [])
            self.found[thing] = item["UploadId"], tuple((p["PartNumber"], p["ETag"].strip('"')) for p in parts)


def fsck(data, lost_allowed, *options):
    """`lost_allowed(name)`: whether this object may be broken."""
    done = subprocess.run([program(), "fsck", "--json", *options, str(data)], capture_output=True, text=True, timeout=FSCK_TIMEOUT_S)
    if done.returncode == 3:
        return None
    if done.returncode not in (0, 7):
        raise Wrong(f"fsck: {done.returncode} {done.stdout}{done.stderr}")
    report = json.loads(done.stdout)
    lost = [loss for loss in report["lost"] if not lost_allowed(loss if isinstance(loss, str) else loss.get("name", str(loss)))]
    if report["index"] or lost:
        raise Wrong(f"fsck: {report['index']} {lost}")
    return report


def server_on(data, device):
    arguments, environment = SMALL
    return Server(data, [*arguments, *on_device(device)], environment)


def on_device(device):
    return ["--set", f"data.device={device}"] if device else []


def judge(data, device, entries, cut, cut_s, look_first, log):
    """The server on `data` and, if it is not None, this device, as they were after a cut before event `cut`."""
    where = ("--device", device) if device else ()
    expected = Expected(entries, cut, cut_s)
    late = {f"{bucket}/{key}" for kind, bucket, key in expected.older if bucket == load.MEMORY}
    late |= {f"{bucket}/{key}" for e in expected.in_flight for kind, bucket, key in e.effects if bucket == load.MEMORY}

    def lost_allowed(name):
        return name in late

    if look_first and data.exists():
        fsck(data, lost_allowed, *where)
    server = server_on(data, device)
    server.log_path = str(log)
    try:
        server.start()
    except RuntimeError as error:
        raise Wrong(f"no start: {error}") from None
    try:
        compare(expected, Reader(server).everything())
        write_again(server)
        status = server.stop()
        if status != 0:
            raise Wrong(f"exit status {status}: {server.log()}")
    except Wrong:
        raise
    except Exception as error:  # noqa: BLE001
        raise Wrong(f"{error!r}; {state_of(server)}") from error
    finally:
        server.kill()
    report = fsck(data, lost_allowed, *where)
    if report["device"]:
        raise Wrong(f"fsck after a start: {report['device']}")
    if report["orphan_extents"]:
        raise Wrong(f"{report['orphan_bytes']} bytes without an owner after recovery")
    for line in pathlib.Path(log).read_text(errors="replace").splitlines():
        if re.search(r"\b(critical|ERROR|fatal)\b", line):
            raise Wrong(line)


def state_of(server):
    status = server.process.poll()
    return f"the server {'runs' if status is None else f'has ended with {status}'}: {server.log()[-1000:]}"


def write_again(server):
    s3 = boto3_client(server.http)
    s3.create_bucket(Bucket=AFTER)
    for size in (10, 100_000):
        body = b"after" * size
        s3.put_object(Bucket=AFTER, Key="key", Body=body)
        if s3.get_object(Bucket=AFTER, Key="key")["Body"].read() != body:
            raise Wrong("a write after the cut is not read back")
