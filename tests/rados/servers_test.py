#!/usr/bin/python3
"""Three servers over one cluster: each serves every key, and a change that one has acknowledged holds on all of
them."""
import concurrent.futures
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import boto3  # noqa: E402
import ceph_cluster  # noqa: E402
import verbena_server  # noqa: E402
from botocore.exceptions import ClientError  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, boto3_client  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVERS = 3
ROUNDS = 30


def renamed():
    """The names of metrics that were renamed, old and new."""
    return set(re.findall(r'"(verbena_\w+)"', (ROOT / "src/base/renamed_metrics.h").read_text()))


class Server(verbena_server.Server):
    """A server of one store: the same namespace and master keys."""

    def __init__(self, name_space, key_file=None, clock_ahead_ms=0):
        super().__init__(clock_ahead_ms=clock_ahead_ms)
        self.args = [word if not word.startswith("rados.namespace=") else f"rados.namespace={name_space}" for word in self.args]
        self.args += ["--set", "bucket_log_interval=1"]
        if key_file:
            self.args += ["--set", f"encryption.key_file={key_file}"]


def status_of(url):
    try:
        with urllib.request.urlopen(url, timeout=60) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def code_of(call, **arguments):
    try:
        call(**arguments)
        return "ok"
    except ClientError as error:
        return error.response["Error"]["Code"]


def put_if(s3, name, value, **arguments):
    """A conditional PUT: an older boto3 has no argument for it."""
    def add(request, **_):
        request.headers.add_header(name, value)
    s3.meta.events.register("before-sign.s3.PutObject", add)
    try:
        return code_of(s3.put_object, **arguments)
    finally:
        s3.meta.events.unregister("before-sign.s3.PutObject", add)


def policy(effect, bucket):
    return json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": effect, "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}]})


class Cluster(unittest.TestCase):
    NAME_SPACE = "shared"

    @classmethod
    def setUpClass(cls):
        ceph_cluster.shared()
        first = Server(cls.NAME_SPACE).start()
        cls.key_file = f"{first.directory}/master.keys"
        cls.servers = [first, *(Server(cls.NAME_SPACE, cls.key_file, verbena_server.CLOCKS_AHEAD_MS[i]).start() for i in range(1, SERVERS))]
        cls.s3 = [boto3_client(server.http, read_timeout=60) for server in cls.servers]

    @classmethod
    def tearDownClass(cls):
        for server in cls.servers:
            server.__exit__(None, None, None)

    def test_what_one_server_has_acknowledged_every_other_one_serves(self):
        a, b, c = self.s3
        for i in range(ROUNDS):
            bucket = f"everywhere-{i}"
            a.create_bucket(Bucket=bucket)
            b.put_object(Bucket=bucket, Key="k", Body=b"%d" % i)
            self.assertEqual(c.get_object(Bucket=bucket, Key="k")["Body"].read(), b"%d" % i)
            c.put_object(Bucket=bucket, Key="k", Body=b"again")
            self.assertEqual(a.get_object(Bucket=bucket, Key="k")["Body"].read(), b"again")
            self.assertEqual([o["Key"] for o in b.list_objects_v2(Bucket=bucket)["Contents"]], ["k"])
            self.assertEqual(code_of(b.delete_bucket, Bucket=bucket), "BucketNotEmpty")
            a.delete_object(Bucket=bucket, Key="k")
            self.assertEqual(code_of(c.get_object, Bucket=bucket, Key="k"), "NoSuchKey")
            c.delete_bucket(Bucket=bucket)
            self.assertEqual(code_of(b.put_object, Bucket=bucket, Key="k", Body=b""), "NoSuchBucket")

    def test_of_those_who_create_a_key_at_once_on_different_servers_one_does(self):
        self.s3[0].create_bucket(Bucket="race")
        with concurrent.futures.ThreadPoolExecutor(SERVERS) as pool:
            for i in range(ROUNDS):
                calls = [pool.submit(put_if, s3, "If-None-Match", "*", Bucket="race", Key=f"k{i}", Body=b"%d" % n)
                         for n, s3 in enumerate(self.s3)]
                codes = [call.result() for call in calls]
                self.assertEqual(sorted(codes), ["PreconditionFailed"] * (SERVERS - 1) + ["ok"], codes)
                winner = b"%d" % codes.index("ok")
                for s3 in self.s3:
                    self.assertEqual(s3.get_object(Bucket="race", Key=f"k{i}")["Body"].read(), winner)

    def test_no_increment_of_a_counter_is_lost(self):
        self.s3[0].create_bucket(Bucket="count")
        self.s3[0].put_object(Bucket="count", Key="n", Body=b"0")

        def increment(s3, times):
            done = 0
            while done < times:
                seen = s3.get_object(Bucket="count", Key="n")
                text = b"%d" % (int(seen["Body"].read()) + 1)
                done += put_if(s3, "If-Match", seen["ETag"], Bucket="count", Key="n", Body=text) == "ok"

        with concurrent.futures.ThreadPoolExecutor(SERVERS) as pool:
            for call in [pool.submit(increment, s3, ROUNDS) for s3 in self.s3]:
                call.result()
        self.assertEqual(self.s3[1].get_object(Bucket="count", Key="n")["Body"].read(), b"%d" % (SERVERS * ROUNDS))

    def test_denied_is_denied_at_once_on_every_server(self):
        self.s3[0].create_bucket(Bucket="secret")
        self.s3[0].put_object(Bucket="secret", Key="k", Body=b"x")
        urls = [f"{server.http}/secret/k" for server in self.servers]
        for i in range(ROUNDS):
            self.s3[i % SERVERS].put_bucket_policy(Bucket="secret", Policy=policy("Allow", "secret"))
            self.assertEqual([status_of(url) for url in urls], [200] * SERVERS)
            self.s3[(i + 1) % SERVERS].delete_bucket_policy(Bucket="secret")
            self.assertEqual([status_of(url) for url in urls], [403] * SERVERS)

    def test_a_bucket_whose_logging_one_server_was_told_of_is_logged_by_every_server(self):
        a, *others = self.s3
        a.create_bucket(Bucket="logged")
        a.create_bucket(Bucket="logs")
        for s3 in self.s3:
            s3.list_objects_v2(Bucket="logged")  # each has its access record
        a.put_bucket_logging(Bucket="logged", BucketLoggingStatus={
            "LoggingEnabled": {"TargetBucket": "logs", "TargetPrefix": ""}})
        for i, s3 in enumerate(others):
            for n in range(2):  # the first finds that there is a log
                s3.put_object(Bucket="logged", Key=f"by-{i}-{n}", Body=b"")
        wanted = {f"by-{i}-1" for i in range(len(others))}
        logged = ""
        for _ in range(300):
            keys = [o["Key"] for o in a.list_objects_v2(Bucket="logs").get("Contents", [])]
            logged = "".join(a.get_object(Bucket="logs", Key=key)["Body"].read().decode() for key in keys)
            if all(key in logged for key in wanted):
                return
            time.sleep(0.2)
        self.fail(f"not all of {wanted} is in {logged}")

    def test_a_user_and_a_key_are_everywhere_at_once_and_nowhere_when_they_are_gone(self):
        self.s3[0].create_bucket(Bucket="users")
        iam = [boto3.client("iam", endpoint_url=server.http, region_name="us-east-1", aws_access_key_id=ACCESS_KEY,
                            aws_secret_access_key=SECRET_KEY) for server in self.servers]
        allow = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]})
        for i in range(ROUNDS // 3):
            name = f"user-{i}"
            iam[0].create_user(UserName=name)
            iam[1].put_user_policy(UserName=name, PolicyName="all", PolicyDocument=allow)
            key = iam[2].create_access_key(UserName=name)["AccessKey"]
            mine = [boto3.client("s3", endpoint_url=server.http, region_name="us-east-1", aws_access_key_id=key["AccessKeyId"],
                                 aws_secret_access_key=key["SecretAccessKey"]) for server in self.servers]
            self.assertEqual([code_of(s3.list_objects_v2, Bucket="users") for s3 in mine], ["ok"] * SERVERS)
            iam[i % SERVERS].delete_user_policy(UserName=name, PolicyName="all")
            self.assertEqual([code_of(s3.list_objects_v2, Bucket="users") for s3 in mine], ["AccessDenied"] * SERVERS)
            iam[(i + 1) % SERVERS].delete_access_key(UserName=name, AccessKeyId=key["AccessKeyId"])
            self.assertEqual([code_of(s3.list_objects_v2, Bucket="users") for s3 in mine], ["InvalidAccessKeyId"] * SERVERS)

    def test_versioning_holds_on_every_server_when_it_is_acknowledged(self):
        for i in range(ROUNDS // 3):
            bucket = f"versions-{i}"
            self.s3[0].create_bucket(Bucket=bucket)
            self.s3[1].put_object(Bucket=bucket, Key="k", Body=b"null")
            self.s3[2].put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
            ids = [s3.put_object(Bucket=bucket, Key="k", Body=b"x").get("VersionId") for s3 in self.s3]
            self.assertEqual(len(set(ids) - {None}), SERVERS)
            listed = self.s3[i % SERVERS].list_object_versions(Bucket=bucket)["Versions"]
            self.assertEqual([v["VersionId"] for v in listed], [*reversed(ids), "null"])

    def test_the_parts_of_an_upload_may_go_to_different_servers(self):
        self.s3[0].create_bucket(Bucket="parts")
        upload = self.s3[0].create_multipart_upload(Bucket="parts", Key="k")["UploadId"]
        bodies = [bytes([n]) * (5 << 20) for n in range(6)]
        with concurrent.futures.ThreadPoolExecutor(SERVERS) as pool:
            def put(n):
                return self.s3[n % SERVERS].upload_part(Bucket="parts", Key="k", UploadId=upload, PartNumber=n + 1, Body=bodies[n])
            etags = [reply["ETag"] for reply in pool.map(put, range(len(bodies)))]
        parts = [{"PartNumber": n + 1, "ETag": etag} for n, etag in enumerate(etags)]
        self.s3[1].complete_multipart_upload(Bucket="parts", Key="k", UploadId=upload, MultipartUpload={"Parts": parts})
        self.assertEqual(self.s3[2].get_object(Bucket="parts", Key="k")["Body"].read(), b"".join(bodies))

    def test_a_reader_keeps_its_object_while_another_server_overwrites_it(self):
        self.s3[0].create_bucket(Bucket="reader")
        whole = b"".join(bytes([n]) * (1 << 20) for n in range(64))
        self.s3[0].put_object(Bucket="reader", Key="k", Body=whole)
        body = self.s3[1].get_object(Bucket="reader", Key="k")["Body"]
        read = [body.read(1 << 20)]
        for _ in range(3):
            self.s3[2].put_object(Bucket="reader", Key="k", Body=b"new" * (2 << 20))
        time.sleep(5)  # two heartbeats of each server: unused bytes are removed by now
        while piece := body.read(1 << 20):
            read.append(piece)
        self.assertEqual(b"".join(read), whole)

    def test_metrics_of_the_engine_that_documents_name_are_told(self):
        named = {name for path in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
                 for name in re.findall(r"\bverbena_rados_\w+[a-z]\b", path.read_text())}
        self.assertIn("verbena_rados_calls_total", named)
        with urllib.request.urlopen(f"http://{self.servers[0].native}/-/metrics", timeout=60) as reply:
            told = set(re.findall(r"^# TYPE (\w+) ", reply.read().decode(), re.M))
        # Some of those that were renamed are told only after an event; the one that is always there has both names.
        self.assertLessEqual(named - renamed(), told)
        self.assertLessEqual({"verbena_rados_leader", "verbena_rados_on_duty"}, told)

    def test_a_server_with_other_master_keys_does_not_start_and_says_what_to_copy(self):
        """With nothing encrypted yet, an access key created by one server was unknown to the other."""
        space = f"keys-{time.monotonic_ns()}"
        first, other = Server(space), Server(space)
        self.addCleanup(lambda: [server.__exit__(ValueError, None, None) for server in (first, other)])
        first.start()
        with self.assertRaisesRegex(RuntimeError, "copy the key file of one of them"):
            other.start()
        keys = pathlib.Path(first.directory) / "master.keys"
        self.assertNotIn(keys.read_text().split()[-1], other.log())
        self.assertFalse((pathlib.Path(other.directory) / "master.keys").exists())
        shutil.copy(keys, other.directory)
        other.start()

        def client(server, service, access=ACCESS_KEY, secret=SECRET_KEY):
            return boto3.client(service, endpoint_url=server.http, region_name="us-east-1", aws_access_key_id=access, aws_secret_access_key=secret)
        client(first, "iam").create_user(UserName="sealed")
        made = client(first, "iam").create_access_key(UserName="sealed")["AccessKey"]
        seen = client(other, "sts", made["AccessKeyId"], made["SecretAccessKey"]).get_caller_identity()
        self.assertTrue(seen["Arn"].endswith("user/sealed"), seen)

    def test_a_new_master_key_reaches_all_servers_by_itself(self):
        """It was to be copied to each, and until then a server could not read what the new key had encrypted."""
        space = f"rotated-{time.monotonic_ns()}"
        first, other, away, stranger = servers = [Server(space) for _ in range(4)]
        self.addCleanup(lambda: [server.__exit__(ValueError, None, None) for server in servers])
        keys = [pathlib.Path(server.directory) / "master.keys" for server in servers]
        first.start()
        for server in (other, away):
            shutil.copy(keys[0], server.directory)
            server.start()
        keys[1].chmod(0o400)
        away.stop()

        def rotate():
            done = subprocess.run([verbena_server.program(), "master-key", "rotate", first.directory], stdout=subprocess.PIPE, text=True, check=True)
            self.assertIn("added", done.stdout)
            first.process.send_signal(signal.SIGHUP)

        def wait_for(what, server):
            deadline = time.monotonic() + 30
            while what not in server.log():
                self.assertLess(time.monotonic(), deadline, server.log())
                time.sleep(0.1)

        def seen_by(server, made):
            client = boto3.client("sts", endpoint_url=server.http, region_name="us-east-1", aws_access_key_id=made["AccessKeyId"],
                                  aws_secret_access_key=made["SecretAccessKey"])
            return client.get_caller_identity()["Arn"]
        rotate()
        wait_for("2 master keys", first)
        wait_for("2 master keys", other)
        self.assertEqual(keys[1].read_text(), keys[0].read_text())
        self.assertEqual(keys[1].stat().st_mode & 0o777, 0o400)
        iam = boto3.client("iam", endpoint_url=first.http, region_name="us-east-1", aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY)
        iam.create_user(UserName="later")
        made = iam.create_access_key(UserName="later")["AccessKey"]
        self.assertTrue(seen_by(other, made).endswith("user/later"))
        rotate()
        wait_for("3 master keys", other)
        away.start()  # it missed two rotations
        self.assertEqual(keys[2].read_text(), keys[0].read_text())
        self.assertTrue(seen_by(away, made).endswith("user/later"))
        with self.assertRaisesRegex(RuntimeError, "copy the key file of one of them"):
            stranger.start()
        # Without the old key nothing can be put into the row that a server takes.
        sealed = ceph_cluster.shared().rados("-N", space, "getomapval", "servers", "master-keys", "/dev/stdout")
        self.assertNotIn(keys[0].read_text().split()[-1].encode(), sealed)
        other.stop()
        keys[1].chmod(0o600)
        keys[1].write_text("".join(line + "\n" for line in keys[1].read_text().splitlines()[:2]))
        (pathlib.Path(other.directory) / "master.ids").unlink()
        ceph_cluster.shared().rados("-N", space, "setomapval", "servers", "master-keys", "no key\n")
        with self.assertRaisesRegex(RuntimeError, "copy the key file of one of them"):
            other.start()
        self.assertIn("are damaged", other.log())
        first.process.send_signal(signal.SIGHUP)  # writes the row anew
        deadline = time.monotonic() + 30
        while "no key" in ceph_cluster.shared().rados("-N", space, "getomapval", "servers", "master-keys", "/dev/stdout").decode("latin-1"):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        other.start()
        self.assertEqual(keys[1].read_text(), keys[0].read_text())

    def test_a_server_that_does_not_know_the_clusters_format_does_not_start(self):
        space = f"formats-{time.monotonic_ns()}"
        first, other = servers = [Server(space) for _ in range(2)]
        self.addCleanup(lambda: [server.__exit__(ValueError, None, None) for server in servers])
        first.start()
        shutil.copy(pathlib.Path(first.directory) / "master.keys", other.directory)
        ceph_cluster.shared().rados("-N", space, "setomapval", "servers", "format", "99 0")
        with self.assertRaisesRegex(RuntimeError, "too old for the cluster: it knows the formats up to [0-9]+, and the servers of the cluster write format 99"):
            other.start()
        ceph_cluster.shared().rados("-N", space, "setomapval", "servers", "format", "2 0")
        other.start()

    def test_a_killed_server_holds_up_no_other_for_long(self):
        killed = Server(self.NAME_SPACE, self.key_file).start()
        s3 = boto3_client(killed.http)
        s3.create_bucket(Bucket="killed")
        s3.put_object(Bucket="killed", Key="k", Body=b"acknowledged")
        killed.kill()
        began = time.monotonic()
        self.s3[0].put_bucket_policy(Bucket="killed", Policy=policy("Allow", "killed"))
        self.assertLess(time.monotonic() - began, 45)
        self.assertEqual([status_of(f"{server.http}/killed/k") for server in self.servers], [200] * SERVERS)
        killed.start()
        self.assertEqual(status_of(f"{killed.http}/killed/k"), 200)
        killed.__exit__(None, None, None)


if __name__ == "__main__":
    ceph_cluster.skip_without_ceph()
    verbena_server.ON_RADOS = True
    unittest.main()
