#!/usr/bin/python3
"""`verbena rados import` and `export`: a single server becomes one of a cluster, and back, without a change for its
users."""
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import boto3  # noqa: E402
import verbena_server  # noqa: E402
from ceph_cluster import CephCluster, skip_without_ceph  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, boto3_client, program  # noqa: E402

POLICY = json.dumps({"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::plain/open/*"}]})


def settings(ceph):
    values = {"conf": ceph.conf, "pool": "data", "index_pool": "index"}
    return [word for key, value in values.items() for word in ("--set", f"rados.{key}={value}")]


def fill(server):
    s3 = boto3_client(server.http)
    s3.create_bucket(Bucket="plain")
    s3.put_bucket_policy(Bucket="plain", Policy=POLICY)
    s3.put_bucket_cors(Bucket="plain", CORSConfiguration={"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}]})
    for i, size in enumerate((0, 1, 4096, 16_384, 16_385, 300_000, 9_000_000)):
        s3.put_object(Bucket="plain", Key=f"open/{i}", Body=os.urandom(size), ContentType="text/x-test", Metadata={"n": str(i)},
                      Tagging=f"n={i}", ChecksumAlgorithm="SHA256")
    s3.put_object(Bucket="plain", Key="sealed", Body=os.urandom(200_000), ServerSideEncryption="AES256")
    upload = s3.create_multipart_upload(Bucket="plain", Key="parts")["UploadId"]
    parts = [{"PartNumber": n, "ETag": s3.upload_part(Bucket="plain", Key="parts", UploadId=upload, PartNumber=n,
                                                       Body=os.urandom(5 << 20))["ETag"]} for n in (1, 2, 3)]
    s3.complete_multipart_upload(Bucket="plain", Key="parts", UploadId=upload, MultipartUpload={"Parts": parts})
    under_way = s3.create_multipart_upload(Bucket="plain", Key="under way")["UploadId"]
    s3.upload_part(Bucket="plain", Key="under way", UploadId=under_way, PartNumber=1, Body=os.urandom(5 << 20))
    s3.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    for i in range(4):
        s3.put_object(Bucket="locked", Key="k", Body=os.urandom(i * 40_000))
    s3.delete_object(Bucket="locked", Key="k")
    s3.put_object(Bucket="locked", Key="held", Body=b"held", ObjectLockLegalHoldStatus="ON")
    s3.create_bucket(Bucket="empty")
    iam = boto3.client("iam", endpoint_url=server.http, region_name="us-east-1", aws_access_key_id=ACCESS_KEY,
                       aws_secret_access_key=SECRET_KEY)
    iam.create_user(UserName="reader")
    iam.put_user_policy(UserName="reader", PolicyName="p", PolicyDocument=json.dumps(
        {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}))
    return iam.create_access_key(UserName="reader")["AccessKey"]


def all_of(s3):
    """All of a server's content as S3 shows it."""
    told = {}
    for bucket in s3.list_buckets()["Buckets"]:
        name = bucket["Name"]
        told[name] = [bucket["CreationDate"], s3.get_bucket_versioning(Bucket=name).get("Status")]
        for what, call in (("policy", s3.get_bucket_policy), ("cors", s3.get_bucket_cors), ("lock", s3.get_object_lock_configuration)):
            try:
                told[name].append((what, {k: v for k, v in call(Bucket=name).items() if k != "ResponseMetadata"}))
            except s3.exceptions.ClientError as error:
                told[name].append((what, error.response["Error"]["Code"]))
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=name):
            for version in page.get("Versions", []):
                told[name].append(one_version(s3, name, version))
            for marker in page.get("DeleteMarkers", []):
                told[name].append((marker["Key"], marker["VersionId"], marker["IsLatest"], marker["LastModified"]))
        for upload in s3.list_multipart_uploads(Bucket=name).get("Uploads", []):
            parts = s3.list_parts(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])["Parts"]
            told[name].append((upload["Key"], upload["UploadId"], parts))
    return told


def one_version(s3, bucket, version):
    which = {"Bucket": bucket, "Key": version["Key"]}
    if version["VersionId"] != "null":
        which["VersionId"] = version["VersionId"]
    reply = s3.get_object(**which)
    body = hashlib.sha256(reply.pop("Body").read()).hexdigest()
    reply.pop("ResponseMetadata")
    return (version["Key"], version["VersionId"], version["IsLatest"], body, sorted((k, str(v)) for k, v in reply.items()),
            s3.get_object_tagging(**which)["TagSet"])


class Copy(unittest.TestCase):
    maxDiff = 4000

    def setUp(self):
        self.ceph = self.enterContext(CephCluster(osds=1))
        self.ceph.pool("index")
        self.ceph.pool("data")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="verbena-copy-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def rados(self, *args, code=0, seconds=120):
        done = subprocess.run([program(), "rados", *map(str, args), *settings(self.ceph)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=seconds, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def in_cluster(self, keys):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        return Server(str(folder), ["--engine", "rados", *settings(self.ceph), "--set", f"encryption.key_file={keys}"])

    def test_a_directory_goes_into_the_cluster_and_comes_out_again(self):
        local = self.folder / "local"
        local.mkdir()
        with Server(str(local)) as server:
            key = fill(server)
            before = all_of(boto3_client(server.http))
            self.assertIn("server", self.rados("import", local, code=1))  # the server still runs
        said = self.rados("import", local)
        self.assertIn("copied 3 buckets", said)
        with self.in_cluster(local / "master.keys") as server:
            s3 = boto3_client(server.http)
            self.assertEqual(all_of(s3), before)
            mine = boto3.client("s3", endpoint_url=server.http, region_name="us-east-1", aws_access_key_id=key["AccessKeyId"],
                                aws_secret_access_key=key["SecretAccessKey"])
            self.assertEqual(len(mine.list_objects_v2(Bucket="plain")["Contents"]), 9)
            upload = s3.list_multipart_uploads(Bucket="plain")["Uploads"][0]
            parts = s3.list_parts(Bucket="plain", Key="under way", UploadId=upload["UploadId"])["Parts"]
            s3.complete_multipart_upload(Bucket="plain", Key="under way", UploadId=upload["UploadId"], MultipartUpload={
                "Parts": [{"PartNumber": part["PartNumber"], "ETag": part["ETag"]} for part in parts]})
            version = s3.put_object(Bucket="locked", Key="k", Body=b"in the cluster")["VersionId"]
            self.assertEqual(s3.list_object_versions(Bucket="locked", Prefix="k")["Versions"][0]["VersionId"], version)
            with self.assertRaises(s3.exceptions.ClientError):
                held = s3.list_object_versions(Bucket="locked", Prefix="held")["Versions"][0]["VersionId"]
                s3.delete_object(Bucket="locked", Key="held", VersionId=held)
            before = all_of(s3)
            self.assertIn("Stop them first", self.rados("import", local, code=1))
            self.assertIn("Stop them first", self.rados("export", self.folder / "out", code=1))
        self.assertIn("3 buckets were copied earlier", self.rados("import", local))
        self.rados("fsck")
        out = self.folder / "out"
        self.assertIn("copied 3 buckets", self.rados("export", out))
        self.assertIn("not empty", self.rados("export", out, code=1))
        shutil.copy(local / "master.keys", out / "master.keys")
        with Server(str(out)) as server:
            s3 = boto3_client(server.http)
            self.assertEqual(all_of(s3), before)
            version = s3.put_object(Bucket="locked", Key="k", Body=b"alone again")["VersionId"]
            self.assertEqual(s3.list_object_versions(Bucket="locked", Prefix="k")["Versions"][0]["VersionId"], version)
            mine = boto3.client("s3", endpoint_url=server.http, region_name="us-east-1", aws_access_key_id=key["AccessKeyId"],
                                aws_secret_access_key=key["SecretAccessKey"])
            self.assertEqual(len(mine.list_objects_v2(Bucket="plain")["Contents"]), 10)
        fsck = subprocess.run([program(), "fsck", str(out)], stdout=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual(fsck.returncode, 0, fsck.stdout)

    def again(self, *args):
        """Repeats a command: a killed one counts as a running server for some time."""
        deadline = time.monotonic() + 60
        while True:
            done = subprocess.run([program(), "rados", *map(str, args), *settings(self.ceph)], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, timeout=120, check=False)
            if "Stop them first" not in done.stderr or time.monotonic() > deadline:
                return done
            time.sleep(1)

    def again_until_done(self, *args):
        done = self.again(*args)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def kill_midway(self, *args):
        copying = subprocess.Popen([program(), "rados", *map(str, args), *settings(self.ceph)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        while args[0] == "import" and not self.has_begun() and copying.poll() is None:
            time.sleep(0.05)
        self.assertIsNone(self.ended_within(copying, 0 if args[0] == "import" else 0.5), "it ended before it could be killed")
        copying.send_signal(signal.SIGKILL)
        copying.wait()

    def has_begun(self):
        """True if some bucket is incomplete."""
        def index(*args):
            return subprocess.run(["rados", "-c", self.ceph.conf, "-p", "index", *args], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True, timeout=60, check=False).stdout.split()
        return any("cunfinished-copy" in index("listomapkeys", name) for name in index("ls") if name.startswith("b."))

    @staticmethod
    def ended_within(process, seconds):
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def test_killed_in_the_middle_it_goes_on_where_it_was(self):
        local = self.folder / "local"
        local.mkdir()
        with Server(str(local)) as server:
            s3 = boto3_client(server.http)
            s3.create_bucket(Bucket="many")
            for i in range(120):
                s3.put_object(Bucket="many", Key=f"k{i}", Body=os.urandom(8_000_000 if i % 2 else 30_000))
            before = all_of(s3)
        self.kill_midway("import", local)
        refused = self.again("export", self.folder / "half")
        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertIn("many: conditional_conflict: it is incomplete", refused.stderr)
        self.assertFalse((self.folder / "half").exists())
        self.again_until_done("import", local)
        self.rados("fsck", "--repair")
        with self.in_cluster(local / "master.keys") as server:
            self.assertEqual(all_of(boto3_client(server.http)), before)
        out = self.folder / "out"
        self.kill_midway("export", out)
        self.assertFalse(out.exists())
        self.again_until_done("export", out)
        shutil.copy(local / "master.keys", out / "master.keys")
        with Server(str(out)) as server:
            self.assertEqual(all_of(boto3_client(server.http)), before)

    def test_damaged_bytes_do_not_get_in(self):
        local = self.folder / "local"
        local.mkdir()
        with Server(str(local)) as server:
            s3 = boto3_client(server.http)
            s3.create_bucket(Bucket="bucket")
            s3.put_object(Bucket="bucket", Key="whole", Body=b"w" * 100_000)
            s3.put_object(Bucket="bucket", Key="damaged", Body=b"d" * 1_000_000)
        for volume in (local / "volumes").iterdir():
            data = volume.read_bytes()
            at = data.find(b"d" * 4096)
            if at >= 0:
                with open(volume, "r+b") as file:
                    file.seek(at + 2000)
                    file.write(b"x")
        said = self.rados("import", local, code=1)
        self.assertIn("bucket/damaged", said)

    def test_what_is_no_store_and_a_bucket_of_somebody_else_are_refused(self):
        empty = self.folder / "empty"
        empty.mkdir()
        self.assertIn("there is no store", self.rados("import", empty, code=3))
        local = self.folder / "local"
        local.mkdir()
        with Server(str(local)) as server:
            s3 = boto3_client(server.http)
            for bucket in ("another", "same"):
                s3.create_bucket(Bucket=bucket)
            keys = self.folder / "master.keys"
            shutil.copy(local / "master.keys", keys)
        with self.in_cluster(keys) as server:
            boto3_client(server.http).create_bucket(Bucket="same")
        said = self.rados("import", local, code=1)
        self.assertIn("same", said)
        with self.in_cluster(keys) as server:
            self.assertEqual([b["Name"] for b in boto3_client(server.http).list_buckets()["Buckets"]], ["same"])


if __name__ == "__main__":
    skip_without_ceph()
    verbena_server.ON_RADOS = False
    unittest.main()
