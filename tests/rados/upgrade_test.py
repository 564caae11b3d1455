#!/usr/bin/python3
"""Servers of an older version beside newer ones over one cluster: three old servers are replaced one by one, and each
version reads, caches and changes what the other wrote; then an old one is started again. Run by hand: it needs an older
build.

usage: upgrade_test.py OLD_PROGRAM NEW_PROGRAM [TEST...]

Each is a `verbena` with its `verbena-rados` beside it.
"""
import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest
from unittest import mock

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "lib"), str(TESTS / "express")]
import boto3  # noqa: E402
import ceph_cluster  # noqa: E402
import keeps_test  # noqa: E402
import servers_test  # noqa: E402
import verbena_server  # noqa: E402
from express_case import ZONE, Express  # noqa: E402
from keeps_test import Reader, metric  # noqa: E402
from servers_test import code_of, policy, status_of  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, boto3_client  # noqa: E402

SERVERS = 3
OLD, NEW = "old", "new"
PROGRAMS = {}
PLAIN, VERSIONED, DIRECTORY = "plain", "versioned", f"logs--{ZONE}--x-s3"
SIZES = {"tiny": 20, "middle": 40_000, "large": 9 << 20}
PART = 5 << 20
KEEP_MAX_S = 30
CHANGE_MAX_S = 60
BUCKETS = int(os.environ.get("BUCKETS", 2000))
ALL = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]})


def body_of(name, size):
    """Bytes with the writer's name in every line."""
    line = f"{name}\n".encode()
    return (line * (size // len(line) + 1))[:size]


def settings(name_space):
    values = {"conf": ceph_cluster.shared().conf, "pool": "data", "index_pool": "index", "namespace": name_space}
    return [word for key, value in values.items() for word in ("--set", f"rados.{key}={value}")]


def fsck(version, name_space):
    done = subprocess.run([PROGRAMS[version], "rados", "fsck", "--json", *settings(name_space)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=240, check=False)
    return done.returncode, done.stdout + done.stderr


class Server(servers_test.Server):
    """A server that can be restarted as another version in the same directory."""

    def __init__(self, name_space, version, key_file=None, clock_ahead_ms=0):
        super().__init__(name_space, key_file, clock_ahead_ms)
        self.version = version

    def start(self):
        self.program = PROGRAMS[self.version]
        super().start()
        self.s3 = boto3_client(self.http, read_timeout=CHANGE_MAX_S, retries={"max_attempts": 0})
        self.directory_door = Express(self.http, service="s3")
        return self

    def become(self, version):
        assert self.stop() == 0, self.log()
        self.version = version
        return self.start()

    def client(self, service, access=ACCESS_KEY, secret=SECRET_KEY):
        return boto3.client(service, endpoint_url=self.http, region_name="us-east-1", aws_access_key_id=access, aws_secret_access_key=secret)


class World:
    """The expected content, written by all servers."""

    def __init__(self):
        self.objects = {}   # of PLAIN: key -> (body, writer)
        self.versions = {}  # of VERSIONED: key -> (id, body or None), the newest first
        self.log, self.renamed = b"", None
        self.uploads = []   # (key, id, parts, body)
        self.users, self.buckets = {}, []

    def begin(self, server):
        for bucket in (PLAIN, VERSIONED):
            server.s3.create_bucket(Bucket=bucket)
        server.s3.put_bucket_policy(Bucket=PLAIN, Policy=policy("Allow", PLAIN))
        server.s3.put_bucket_versioning(Bucket=VERSIONED, VersioningConfiguration={"Status": "Enabled"})
        server.directory_door.make_bucket(DIRECTORY)

    def put(self, server, key, body, by, **more):
        server.s3.put_object(Bucket=PLAIN, Key=key, Body=body, Metadata={"by": by}, Tagging=f"by={by}", **more)
        self.objects[key] = (body, by)

    def write(self, server, by):
        """Writes through this server, some of each kind; `by` is its name."""
        s3, before = server.s3, list(self.objects)
        for name, size in SIZES.items():
            self.put(server, f"{by}/{name}", body_of(f"{by}/{name}", size), by)
        self.put(server, f"{by}/sealed", body_of(f"{by}/sealed", 100_000), by, ServerSideEncryption="AES256")
        self.put(server, "everybody's", body_of(by, 30_000), by)
        self.put(server, f"{by}/passing", b"x", by)
        if before:
            # Objects of other writers: copied, tagged anew, removed.
            source = next(key for key in reversed(before) if key.endswith("/large"))
            s3.copy_object(Bucket=PLAIN, Key=f"{by}/copy", CopySource={"Bucket": PLAIN, "Key": source})
            self.objects[f"{by}/copy"] = self.objects[source]
            passing = next(key for key in before if key.endswith("/passing"))
            s3.delete_object(Bucket=PLAIN, Key=passing)
            del self.objects[passing]
            tagged = next(key for key in reversed(before) if key.endswith("/middle"))
            s3.put_object_tagging(Bucket=PLAIN, Key=tagged, Tagging={"TagSet": [{"Key": "by", "Value": by}]})
            self.objects[tagged] = (self.objects[tagged][0], self.objects[tagged][1], by)
        for key, body in (("k", body_of(by, 50_000)), ("gone", b"x"), ("gone", None)):
            done = s3.put_object(Bucket=VERSIONED, Key=key, Body=body) if body else s3.delete_object(Bucket=VERSIONED, Key=key)
            self.versions.setdefault(key, []).insert(0, (done["VersionId"], body))
        if len(self.versions["k"]) > 3:
            removed = self.versions["k"].pop(2)[0]
            s3.delete_object(Bucket=VERSIONED, Key="k", VersionId=removed)
        self.append(server, by)
        self.go_on_with_uploads(server, by)
        self.make_user(server, by)

    def append(self, server, by):
        for record in (f"{by}\n".encode(), body_of(by, 20_000)):
            done = server.directory_door.call("PUT", f"/{DIRECTORY}/log", record, {"x-amz-write-offset-bytes": str(len(self.log))})
            assert done.status == 200, done.body
            self.log += record
        if self.renamed is None:
            done = server.directory_door.call("PUT", f"/{DIRECTORY}/name-0", b"renamed")
        else:
            done = server.directory_door.call("PUT", f"/{DIRECTORY}/{by}?renameObject", headers={"x-amz-rename-source": self.renamed})
        assert done.status == 200, done.body
        self.renamed = "name-0" if self.renamed is None else by

    def go_on_with_uploads(self, server, by):
        """Each upload gets a part from each of the next two servers, of which the second completes it; one upload is
        begun, and one aborted."""
        s3, left = server.s3, []
        for key, upload, parts, body in self.uploads:
            part = body_of(f"{by} {key}", PART if len(parts) < 2 else 1000)
            number = len(parts) + 1
            etag = s3.upload_part(Bucket=PLAIN, Key=key, UploadId=upload, PartNumber=number, Body=part)["ETag"]
            parts, body = [*parts, {"PartNumber": number, "ETag": etag}], body + part
            if number < 3:
                left.append((key, upload, parts, body))
                continue
            listed = s3.list_parts(Bucket=PLAIN, Key=key, UploadId=upload)["Parts"]
            assert [p["ETag"] for p in listed] == [p["ETag"] for p in parts], listed
            s3.complete_multipart_upload(Bucket=PLAIN, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})
            self.objects[key] = (body, key.split("/")[0])
        for name in ("upload", "back"):
            key = f"{by}/{name}"
            begun = s3.create_multipart_upload(Bucket=PLAIN, Key=key, Metadata={"by": by}, Tagging=f"by={by}")["UploadId"]
            part = body_of(f"{by} {key}", PART)
            etag = s3.upload_part(Bucket=PLAIN, Key=key, UploadId=begun, PartNumber=1, Body=part)["ETag"]
            left.append((key, begun, [{"PartNumber": 1, "ETag": etag}], part))
        self.uploads = left
        for one in [one for one in left if one[0].endswith("/back") and one[0] != f"{by}/back"]:
            s3.abort_multipart_upload(Bucket=PLAIN, Key=one[0], UploadId=one[1])
            left.remove(one)

    def make_user(self, server, by):
        iam = server.client("iam")
        iam.create_user(UserName=by)
        iam.put_user_policy(UserName=by, PolicyName="all", PolicyDocument=ALL)
        key = iam.create_access_key(UserName=by)["AccessKey"]
        self.users[by] = (key["AccessKeyId"], key["SecretAccessKey"])
        if len(self.users) > 4:
            gone = next(iter(self.users))
            iam.delete_user_policy(UserName=gone, PolicyName="all")
            iam.delete_access_key(UserName=gone, AccessKeyId=self.users[gone][0])
            iam.delete_user(UserName=gone)
            del self.users[gone]

    def look(self, test, server):
        """Compares everything with this server's answers."""
        s3 = server.s3
        for key, (body, by, *tagged) in self.objects.items():
            got = s3.get_object(Bucket=PLAIN, Key=key)
            test.assertEqual(got["Body"].read(), body, key)
            test.assertEqual(got["Metadata"], {"by": by}, key)
            tags = s3.get_object_tagging(Bucket=PLAIN, Key=key)["TagSet"]
            test.assertEqual(tags, [{"Key": "by", "Value": tagged[0] if tagged else by}], key)
            if len(body) > 1000:
                part = s3.get_object(Bucket=PLAIN, Key=key, Range=f"bytes={len(body) // 2}-{len(body) // 2 + 700}")["Body"].read()
                test.assertEqual(part, body[len(body) // 2:len(body) // 2 + 701], key)
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=PLAIN, PaginationConfig={"PageSize": 7})
        listed = [(entry["Key"], entry["Size"]) for page in pages for entry in page.get("Contents", [])]
        test.assertEqual(listed, sorted((key, len(one[0])) for key, one in self.objects.items()))
        folders = [entry["Prefix"] for entry in s3.list_objects_v2(Bucket=PLAIN, Delimiter="/").get("CommonPrefixes", [])]
        test.assertEqual(folders, sorted({key.split("/")[0] + "/" for key in self.objects if "/" in key}))
        uploads = s3.list_multipart_uploads(Bucket=PLAIN).get("Uploads", [])
        test.assertEqual(sorted((one["Key"], one["UploadId"]) for one in uploads), sorted(one[:2] for one in self.uploads))
        versions = s3.list_object_versions(Bucket=VERSIONED)
        for key, mine in self.versions.items():
            for field, is_marker in (("Versions", False), ("DeleteMarkers", True)):
                found = [one["VersionId"] for one in versions.get(field, []) if one["Key"] == key]
                test.assertEqual(found, [name for name, body in mine if (body is None) == is_marker], key)
            for name, body in mine:
                if body is not None:
                    test.assertEqual(s3.get_object(Bucket=VERSIONED, Key=key, VersionId=name)["Body"].read(), body, key)
        test.assertEqual(code_of(s3.get_object, Bucket=VERSIONED, Key="gone"), "NoSuchKey")
        for key, body in (("log", self.log), (self.renamed, b"renamed")):
            got = server.directory_door.call("GET", f"/{DIRECTORY}/{key}")
            test.assertEqual((got.status, got.body), (200, body), key)
        for name, keys in self.users.items():
            test.assertEqual(code_of(server.client("s3", *keys).list_objects_v2, Bucket=PLAIN), "ok", name)
        test.assertEqual(sorted(user["UserName"] for user in server.client("iam").list_users()["Users"]), sorted(self.users))
        for bucket in self.buckets:
            test.assertEqual(json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"]), json.loads(policy("Allow", bucket)))
            test.assertEqual(s3.get_bucket_tagging(Bucket=bucket)["TagSet"], [{"Key": "of", "Value": bucket}])
            test.assertEqual(s3.get_bucket_versioning(Bucket=bucket).get("Status"), "Enabled")
        test.assertLessEqual({PLAIN, VERSIONED, *self.buckets}, {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]})


class Rolling(unittest.TestCase):
    NAME_SPACE = "rolling"

    @classmethod
    def setUpClass(cls):
        ceph_cluster.shared()

    def setUp(self):
        self.world = World()
        self.servers = [Server(self.NAME_SPACE, OLD).start()]
        self.addCleanup(lambda: [server.__exit__(ValueError, None, None) for server in self.servers])
        self.key_file = f"{self.servers[0].directory}/master.keys"
        while len(self.servers) < SERVERS:
            self.servers.append(Server(self.NAME_SPACE, OLD, self.key_file).start())

    def look(self):
        for server in self.servers:
            self.world.look(self, server)

    def keep(self, server, path):
        """Reads until the server reports one more read lease."""
        before, reader = metric(server, "verbena_rados_keeps_total"), Reader(server)
        deadline = time.monotonic() + KEEP_MAX_S
        while metric(server, "verbena_rados_keeps_total") == before:
            self.assertLess(time.monotonic(), deadline, "the server keeps it")
            self.assertEqual(reader.get(path)[0], 200)
        return reader

    def change_what_others_keep(self):
        """For each pair of servers: one has read leases on keys that the other changes, in each way."""
        changes = {
            "put": lambda s3, key: s3.put_object(Bucket=PLAIN, Key=key, Body=b"new"),
            "delete": lambda s3, key: s3.delete_object(Bucket=PLAIN, Key=key),
            "copy": lambda s3, key: s3.copy_object(Bucket=PLAIN, Key=key, CopySource={"Bucket": PLAIN, "Key": "new"}),
            "upload": self.upload_new,
        }
        self.servers[0].s3.put_object(Bucket=PLAIN, Key="new", Body=b"new")
        for keeper, changer in itertools.permutations(self.servers, 2):
            for word, change in changes.items():
                key = "kept"
                changer.s3.put_object(Bucket=PLAIN, Key=key, Body=b"old")
                reader = self.keep(keeper, f"/{PLAIN}/{key}")
                self.assertEqual(reader.get(f"/{PLAIN}/{key}"), (200, b"old"))
                change(changer.s3, key)
                status, body = reader.get(f"/{PLAIN}/{key}")
                expected = (403, None) if word == "delete" else (200, b"new")  # 403: no right to list
                self.assertEqual((status, None if status == 403 else body), expected, f"{word}: {keeper.version} keeps, {changer.version} changes")
        for key in ("kept", "new"):
            self.servers[0].s3.delete_object(Bucket=PLAIN, Key=key)

    @staticmethod
    def upload_new(s3, key):
        upload = s3.create_multipart_upload(Bucket=PLAIN, Key=key)["UploadId"]
        etag = s3.upload_part(Bucket=PLAIN, Key=key, UploadId=upload, PartNumber=1, Body=b"new")["ETag"]
        s3.complete_multipart_upload(Bucket=PLAIN, Key=key, UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})

    def change_buckets(self, server, by):
        """Once acknowledged, a change of a bucket holds on all servers, whichever version they have. Returns the
        times."""
        bucket, s3, took = f"of-{by}", server.s3, []

        def timed(call, **arguments):
            began = time.monotonic()
            call(**arguments)
            took.append(time.monotonic() - began)
        timed(s3.create_bucket, Bucket=bucket)
        for other in self.servers:
            other.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
        urls = [f"{other.http}/{bucket}/k" for other in self.servers]
        self.assertEqual([status_of(url) for url in urls], [403] * SERVERS)
        for _ in range(3):
            timed(s3.put_bucket_policy, Bucket=bucket, Policy=policy("Allow", bucket))
            self.assertEqual([status_of(url) for url in urls], [200] * SERVERS)
            timed(s3.delete_bucket_policy, Bucket=bucket)
            self.assertEqual([status_of(url) for url in urls], [403] * SERVERS)
        timed(s3.put_bucket_policy, Bucket=bucket, Policy=policy("Allow", bucket))
        timed(s3.put_bucket_tagging, Bucket=bucket, Tagging={"TagSet": [{"Key": "of", "Value": bucket}]})
        timed(s3.put_bucket_versioning, Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        ids = {other.s3.put_object(Bucket=bucket, Key="k", Body=b"x").get("VersionId") for other in self.servers}
        self.assertEqual(len(ids - {None}), SERVERS)
        timed(s3.create_bucket, Bucket=f"{bucket}-gone")
        timed(s3.delete_bucket, Bucket=f"{bucket}-gone")
        self.assertEqual([code_of(other.s3.list_objects_v2, Bucket=f"{bucket}-gone") for other in self.servers], ["NoSuchBucket"] * SERVERS)
        self.world.buckets.append(bucket)
        return took

    def work(self, step):
        began, took = time.monotonic(), {}
        for i, server in enumerate(self.servers):
            by = f"{step}-{server.version}{i}"
            self.world.write(server, by)
            took.setdefault(server.version, []).extend(self.change_buckets(server, by))
        self.look()
        self.change_what_others_keep()
        times = ", ".join(f"{version} {sorted(all_)[len(all_) // 2] * 1000:.0f} ms (at most {max(all_) * 1000:.0f})" for version, all_ in took.items())
        print(f"{step}: {'+'.join(server.version for server in self.servers)}, {time.monotonic() - began:.0f} s; a change of a bucket: {times}", flush=True)

    def check_store(self, version):
        status, said = fsck(version, self.NAME_SPACE)
        self.assertEqual(status, 0, said)
        report = json.loads(said)
        self.assertEqual(report["unnamed_stripes"], 0, said)

    def test_old_servers_are_replaced_one_by_one_and_an_old_one_comes_back(self):
        self.world.begin(self.servers[0])
        self.work("step0")
        for i, server in enumerate(self.servers):
            server.become(NEW)
            self.look()
            self.work(f"step{i + 1}")
        self.check_store(NEW)
        # Downgrade: an old one beside new ones, then old ones alone, then new ones again.
        self.servers[1].become(OLD)
        self.look()
        self.work("back1")
        for server in self.servers:
            if server.version == NEW:
                server.become(OLD)
        self.work("back2")
        self.check_store(OLD)
        for server in self.servers:
            server.become(NEW)
        self.work("again")
        for server in self.servers:
            self.assertEqual(server.stop(), 0)
        self.check_store(NEW)


class Mixed:
    """The guarantees of several servers hold for servers of both versions, too."""
    ORDER, MODULE = (), servers_test  # of the first server, then of each after it

    @classmethod
    def setUpClass(cls):
        versions = itertools.chain(cls.ORDER[:1], itertools.cycle(cls.ORDER[1:]))

        def make(name_space, key_file=None, clock_ahead_ms=0):
            return Server(name_space, next(versions), key_file, clock_ahead_ms)
        cls.NAME_SPACE = cls.__name__
        cls.enterClassContext(mock.patch.object(cls.MODULE, "Server", make))
        super().setUpClass()


class ServersNewFirst(Mixed, servers_test.Cluster):
    ORDER = (NEW, OLD, NEW)
    test_a_server_with_other_master_keys_does_not_start_and_says_what_to_copy = None  # an older one starts


class ServersOldFirst(Mixed, servers_test.Cluster):
    ORDER = (OLD, NEW, OLD)
    test_metrics_of_the_engine_that_documents_name_are_told = None  # the documents describe the new version
    test_a_server_with_other_master_keys_does_not_start_and_says_what_to_copy = None


class KeepsNewFirst(Mixed, keeps_test.Keeps):
    ORDER, MODULE = (NEW, OLD, NEW), keeps_test


class KeepsOldFirst(Mixed, keeps_test.Keeps):
    ORDER, MODULE = (OLD, NEW, OLD), keeps_test


class ManyBuckets(unittest.TestCase):
    """BUCKETS=N: how many. A change of a bucket is slow or refused while an old server runs; other requests go on."""

    def test_changes_of_buckets_wait_for_old_servers(self):
        ceph_cluster.shared()
        servers = [Server("many", OLD).start()]
        self.addCleanup(lambda: [server.__exit__(ValueError, None, None) for server in servers])
        servers.append(Server("many", OLD, f"{servers[0].directory}/master.keys").start())
        old, other = servers
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for call in [pool.submit(old.s3.create_bucket, Bucket=f"bucket-{i}") for i in range(BUCKETS)]:
                call.result()
        old.s3.put_object(Bucket="bucket-0", Key="k", Body=b"0")
        new = other.become(NEW)
        for changer, step in itertools.product((new, old), range(2)):
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                change, puts = pool.submit(self.change, changer, step), collections.Counter()
                while not change.done() or not puts:
                    for server in servers:
                        puts[server.version, code_of(server.s3.put_object, Bucket="bucket-0", Key="k", Body=b"%d" % step)] += 1
                took, code = change.result()
            self.assertIn(code, ("ok", "ServiceUnavailable"))
            self.assertLess(took, CHANGE_MAX_S)
            self.assertLessEqual({done for _, done in puts}, {"ok", "ServiceUnavailable"})
            meanwhile = ", ".join(f"{version} {done}: {count}" for (version, done), count in sorted(puts.items()))
            print(f"{BUCKETS} buckets, an old server and a new one: a change of a bucket by the {changer.version} one: {code}, {took:.1f} s; "
                  f"PUTs meanwhile: {meanwhile}", flush=True)
        try:
            old.stop()
        except RuntimeError:  # it was still reading; stop() has killed it
            print("the old server did not stop within 30 s", flush=True)
        for step in range(3):
            took, code = self.change(new, step)
            self.assertEqual(code, "ok")
            print(f"the new one alone: {took:.2f} s", flush=True)
        self.assertEqual(new.stop(), 0)

    @staticmethod
    def change(server, step):
        began = time.monotonic()
        code = code_of(server.s3.put_bucket_policy, Bucket="bucket-0", Policy=policy("Allow" if step % 2 else "Deny", "bucket-0"))
        return time.monotonic() - began, code


if __name__ == "__main__":
    ceph_cluster.skip_without_ceph()
    verbena_server.ON_RADOS = True
    PROGRAMS.update({OLD: sys.argv[1], NEW: sys.argv[2]})
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], warnings="ignore")
