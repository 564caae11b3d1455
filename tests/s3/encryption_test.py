#!/usr/bin/python3
"""Server-side encryption with boto3, aws-cli and Verbena's own client, and the bytes on the disk.

usage: encryption_test.py [unittest arguments]
"""
import base64
import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from s3_case import S3Case  # noqa: E402
from verbena_server import IN_MEMORY, ON_RADOS, Server, boto3_client, client_environment, program, tool  # noqa: E402

MIB = 1 << 20
KEY_A, KEY_B = b"a" * 32, b"b" * 32


def customer(key, prefix=""):
    return {f"{prefix}SSECustomerAlgorithm": "AES256", f"{prefix}SSECustomerKey": key}


def by_hand(args):
    """For a boto3 that does not encode the key itself."""
    if not args:
        return args
    key = args["SSECustomerKey"]
    return dict(args, SSECustomerKey=base64.b64encode(key).decode(),
                SSECustomerKeyMD5=base64.b64encode(hashlib.md5(key).digest()).decode())


S3 = {"ServerSideEncryption": "AES256"}
KMS = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "team-blue"}
C = customer(KEY_A)
METHODS = {"sse-s3": (S3, {}), "sse-kms": (KMS, {}), "sse-c": (C, C)}


class Objects(S3Case):
    def setUp(self):
        self.bucket = self.new_bucket()

    def read(self, key="k", **args):
        return self.s3.get_object(Bucket=self.bucket, Key=key, **args)["Body"].read()

    def test_every_method_reads_back_whole_and_in_ranges(self):
        body = os.urandom(3 * MIB + 123)
        for name, (put, get) in METHODS.items():
            with self.subTest(name):
                stored = self.s3.put_object(Bucket=self.bucket, Key="k", Body=body, **put)
                self.assertEqual(self.read(**get), body)
                for first, last in ((0, 0), (65535, 65536), (MIB, 2 * MIB), (len(body) - 1, len(body) + 5)):
                    got = self.s3.get_object(Bucket=self.bucket, Key="k", Range=f"bytes={first}-{last}", **get)
                    self.assertEqual(got["Body"].read(), body[first:last + 1])
                    self.assertEqual(got["ContentRange"], f"bytes {first}-{min(last, len(body) - 1)}/{len(body)}")
                head = self.s3.head_object(Bucket=self.bucket, Key="k", **get)
                self.assertEqual((head["ContentLength"], head["ETag"]), (len(body), stored["ETag"]))
                for reply in (stored, head):
                    self.assertEqual(reply.get("ServerSideEncryption"), put.get("ServerSideEncryption"))
                    self.assertEqual(reply.get("SSEKMSKeyId"), put.get("SSEKMSKeyId"))
                self.assertEqual(self.s3.list_objects_v2(Bucket=self.bucket)["Contents"][0]["Size"], len(body))
                is_md5 = stored["ETag"].strip('"') == hashlib.md5(body).hexdigest()
                self.assertEqual(is_md5, name == "sse-s3")

    def test_checksums_are_of_the_plain_bytes(self):
        for name, (put, get) in METHODS.items():
            with self.subTest(name):
                stored = self.s3.put_object(Bucket=self.bucket, Key="k", Body=b"hello", ChecksumAlgorithm="SHA256", **put)
                wanted = base64.b64encode(hashlib.sha256(b"hello").digest()).decode()
                self.assertEqual(stored["ChecksumSHA256"], wanted)
                head = self.s3.head_object(Bucket=self.bucket, Key="k", ChecksumMode="ENABLED", **get)
                self.assertEqual(head["ChecksumSHA256"], wanted)
                attributes = self.s3.get_object_attributes(Bucket=self.bucket, Key="k", ObjectAttributes=["ObjectSize"],
                                                              **by_hand(get))
                self.assertEqual(attributes["ObjectSize"], 5)

    def test_multipart(self):
        parts = [os.urandom(5 * MIB), os.urandom(5 * MIB + 1), os.urandom(77)]
        for name, (put, get) in METHODS.items():
            with self.subTest(name):
                upload = self.s3.create_multipart_upload(Bucket=self.bucket, Key="m", **put)["UploadId"]
                done = []
                for number, part in enumerate(parts, 1):
                    reply = self.s3.upload_part(Bucket=self.bucket, Key="m", UploadId=upload, PartNumber=number, Body=part, **get)
                    done.append({"PartNumber": number, "ETag": reply["ETag"]})
                listed = self.s3.list_parts(Bucket=self.bucket, Key="m", UploadId=upload)["Parts"]
                self.assertEqual([p["Size"] for p in listed], [len(p) for p in parts])
                self.s3.complete_multipart_upload(Bucket=self.bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": done})
                whole = b"".join(parts)
                self.assertEqual(self.read("m", **get), whole)
                self.assertEqual(self.read("m", PartNumber=2, **get), parts[1])
                edge = len(parts[0])
                self.assertEqual(self.read("m", Range=f"bytes={edge - 9}-{edge + 9}", **get), whole[edge - 9:edge + 10])

    def test_customers_keys(self):
        self.s3.put_object(Bucket=self.bucket, Key="k", Body=b"x", **C)
        read = dict(Bucket=self.bucket, Key="k")
        self.assert_error("InvalidRequest", 400, self.s3.get_object, **read)
        self.assert_error("400", 400, self.s3.head_object, **read)
        self.assert_error("InvalidRequest", 400, self.s3.get_object, **read, **customer(KEY_B))
        self.s3.put_object(Bucket=self.bucket, Key="plain", Body=b"x")
        self.assert_error("InvalidRequest", 400, self.s3.get_object, Bucket=self.bucket, Key="plain", **C)
        upload = self.s3.create_multipart_upload(Bucket=self.bucket, Key="m", **C)["UploadId"]
        part = dict(Bucket=self.bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"x")
        self.assert_error("InvalidRequest", 400, self.s3.upload_part, **part)
        self.assert_error("InvalidRequest", 400, self.s3.upload_part, **part, **customer(KEY_B))

    def test_headers_that_do_not_fit_are_refused(self):
        name = "x-amz-server-side-encryption"
        key, md5 = base64.b64encode(KEY_A).decode(), base64.b64encode(hashlib.md5(KEY_A).digest()).decode()
        algorithm = {f"{name}-customer-algorithm": "AES256"}
        for headers, code in (
            (algorithm, "InvalidArgument"),
            ({**algorithm, f"{name}-customer-key": key}, "InvalidArgument"),
            ({**algorithm, f"{name}-customer-key": key, f"{name}-customer-key-md5": "AAAAAAAAAAAAAAAAAAAAAA=="}, "InvalidArgument"),
            ({f"{name}-customer-key": key, f"{name}-customer-key-md5": md5}, "InvalidArgument"),
            ({name: "rot13"}, "InvalidArgument"),
            ({f"{name}-aws-kms-key-id": "team-blue"}, "InvalidArgument"),
            ({name: "aws:kms"}, "InvalidArgument"),
            ({name: "aws:kms", f"{name}-aws-kms-key-id": "arn:aws:kms:us-east-1:1:key/none"}, "KMS.NotFoundException"),
        ):
            reply = self.request("PUT", f"/{self.bucket}/bad", headers, b"x")
            self.assertEqual((reply.status, reply.code), (400, code), headers)
        self.s3.put_object(Bucket=self.bucket, Key="k", Body=b"x", **S3)
        self.assertEqual(self.request("GET", f"/{self.bucket}/k", {name: "AES256"}).code, "InvalidArgument")
        self.assertEqual(self.request("HEAD", f"/{self.bucket}/k", {name: "AES256"}).status, 400)

    def test_copies(self):
        body = os.urandom(MIB + 5)
        self.s3.put_object(Bucket=self.bucket, Key="from", Body=body, **C)
        source = dict(CopySource={"Bucket": self.bucket, "Key": "from"})
        self.assert_error("InvalidRequest", 400, self.s3.copy_object, Bucket=self.bucket, Key="to", **source)
        for name, (put, get) in {**METHODS, "plain": ({}, {})}.items():
            with self.subTest(name):
                self.s3.copy_object(Bucket=self.bucket, Key="to", **source, **customer(KEY_A, "CopySource"), **put)
                self.assertEqual(self.read("to", **get), body)
                upload = self.s3.create_multipart_upload(Bucket=self.bucket, Key="m", **put)["UploadId"]
                part = self.s3.upload_part_copy(Bucket=self.bucket, Key="m", UploadId=upload, PartNumber=1, **source,
                                                CopySourceRange="bytes=70000-900000", **customer(KEY_A, "CopySource"), **get)
                self.s3.complete_multipart_upload(Bucket=self.bucket, Key="m", UploadId=upload, MultipartUpload={
                    "Parts": [{"PartNumber": 1, "ETag": part["CopyPartResult"]["ETag"]}]})
                self.assertEqual(self.read("m", **get), body[70000:900001])

    def test_versions_keep_their_own_encryption(self):
        self.s3.put_bucket_versioning(Bucket=self.bucket, VersioningConfiguration={"Status": "Enabled"})
        ids = {}
        for name, (put, _) in METHODS.items():
            ids[name] = self.s3.put_object(Bucket=self.bucket, Key="v", Body=name.encode(), **put)["VersionId"]
        for name, (_, get) in METHODS.items():
            self.assertEqual(self.read("v", VersionId=ids[name], **get), name.encode())
        sizes = [v["Size"] for v in self.s3.list_object_versions(Bucket=self.bucket)["Versions"]]
        self.assertEqual(sorted(sizes), sorted(len(name) for name in METHODS))

    def test_a_buckets_default(self):
        self.assert_error("ServerSideEncryptionConfigurationNotFoundError", 404, self.s3.get_bucket_encryption, Bucket=self.bucket)
        rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "team-red"}, "BucketKeyEnabled": True}
        self.s3.put_bucket_encryption(Bucket=self.bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
        got = self.s3.get_bucket_encryption(Bucket=self.bucket)["ServerSideEncryptionConfiguration"]["Rules"]
        self.assertEqual(got, [rule])
        stored = self.s3.put_object(Bucket=self.bucket, Key="k", Body=b"x")
        self.assertEqual((stored["ServerSideEncryption"], stored["SSEKMSKeyId"], stored["BucketKeyEnabled"]), ("aws:kms", "team-red", True))
        self.assertEqual(self.s3.put_object(Bucket=self.bucket, Key="s", Body=b"x", **S3)["ServerSideEncryption"], "AES256")
        self.s3.delete_bucket_encryption(Bucket=self.bucket)
        self.assertNotIn("ServerSideEncryption", self.s3.put_object(Bucket=self.bucket, Key="k", Body=b"x"))

    def test_a_presigned_url_carries_it(self):
        signer = boto3_client(self.server.http, signature_version="s3v4")
        self.addCleanup(signer.close)
        url = signer.generate_presigned_url("put_object", Params={"Bucket": self.bucket, "Key": "p", **S3})
        request = urllib.request.Request(url, b"by url", {"x-amz-server-side-encryption": "AES256"}, method="PUT")
        self.assertEqual(urllib.request.urlopen(request).headers["x-amz-server-side-encryption"], "AES256")
        self.assertEqual(self.read("p"), b"by url")

    def test_aws_cli(self):
        with tempfile.TemporaryDirectory() as home:
            path, back = pathlib.Path(home) / "file", pathlib.Path(home) / "back"
            path.write_bytes(os.urandom(9 * MIB))  # in parts
            key = pathlib.Path(home) / "key"
            key.write_bytes(KEY_A)
            for more, get in ((["--sse", "AES256"], []), (["--sse", "aws:kms", "--sse-kms-key-id", "team-blue"], []),
                              (["--sse-c", "AES256", "--sse-c-key", f"fileb://{key}"],) * 2):
                run = [tool("aws"), "--endpoint-url", self.server.http, "s3", "cp", "--quiet"]
                there = f"s3://{self.bucket}/cli"
                subprocess.run([*run, *more, str(path), there], env=client_environment(home), check=True)
                subprocess.run([*run, *get, there, str(back)], env=client_environment(home), check=True)
                self.assertEqual(back.read_bytes(), path.read_bytes())

    def test_the_other_doors(self):
        def run(*args, **more):
            return subprocess.run([program(), *args, "--endpoint", self.server.http, "--native", self.server.native, "-v"],
                                  env=client_environment("/nonexistent"), capture_output=True, **more)
        for size in (100, 300_000):
            body = os.urandom(size)
            for name, (put, _) in METHODS.items():
                self.s3.put_object(Bucket=self.bucket, Key=name, Body=body, **put)
            for via in ("http", "token", "native"):
                for name in ("sse-s3", "sse-kms"):
                    for _ in range(2):  # the second time from memory
                        done = run("get", f"s3://{self.bucket}/{name}", "-", "--via", via)
                        self.assertEqual(done.stdout, body, (via, name, done.stderr))
                        self.assertIn(f"by {via}", done.stderr.decode())
                refused = run("get", f"s3://{self.bucket}/sse-c", "-", "--via", via)
                self.assertNotEqual(refused.returncode, 0, via)
                self.assertEqual(refused.stdout, b"")
            rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
            self.s3.put_bucket_encryption(Bucket=self.bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
            for via in ("http", "token", "native"):
                self.assertEqual(run("put", "-", f"s3://{self.bucket}/by-{via}", "--via", via, input=body).returncode, 0)
                got = self.s3.get_object(Bucket=self.bucket, Key=f"by-{via}")
                self.assertEqual((got["ServerSideEncryption"], got["Body"].read()), ("AES256", body), via)
            self.s3.delete_bucket_encryption(Bucket=self.bucket)


@unittest.skipIf(IN_MEMORY or ON_RADOS, "nothing is on a disk that this could look at")
class AtRest(unittest.TestCase):
    MARK = b"PLAINTEXT-THAT-MUST-NOT-LIE-ON-THE-DISK"

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.data = pathlib.Path(self.folder.name) / "data"
        self.data.mkdir(mode=0o700)

    def tearDown(self):
        self.folder.cleanup()

    def files_with(self, mark):
        return [path.name for path in self.data.rglob("*") if path.is_file() and mark in path.read_bytes()]

    def test_neither_plain_bytes_nor_keys_lie_on_the_disk(self):
        secret = os.urandom(32)
        with Server(self.data) as server:
            s3 = boto3_client(server.http)
            s3.create_bucket(Bucket="bkt")
            for name, put in (("s3", S3), ("kms", KMS), ("c", customer(secret))):
                for size in (1, 5000):
                    s3.put_object(Bucket="bkt", Key=f"{name}-{size}", Body=self.MARK * size, **put)
            self.assertEqual(self.files_with(self.MARK), [])
            s3.put_object(Bucket="bkt", Key="plain", Body=self.MARK * 5000)
            self.assertNotEqual(self.files_with(self.MARK), [], "the search finds what is there")
            for form in (secret, base64.b64encode(secret), base64.b64encode(hashlib.md5(secret).digest())):
                self.assertEqual(self.files_with(form), [])
                self.assertNotIn(form, pathlib.Path(server.log_path).read_bytes())

    def test_rotation_and_a_lost_key_file(self):
        keys = self.data / "master.keys"
        with Server(self.data) as server:
            s3 = boto3_client(server.http)
            s3.create_bucket(Bucket="bkt")
            s3.put_object(Bucket="bkt", Key="old", Body=b"old", **S3)
            self.assertEqual(keys.stat().st_mode & 0o777, 0o600)
            subprocess.run([program(), "master-key", "rotate", str(self.data)], check=True, capture_output=True)
            server.process.send_signal(signal.SIGHUP)
            deadline = time.monotonic() + 30
            while "2 master keys" not in server.log() and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertIn("2 master keys", server.log())
            s3.put_object(Bucket="bkt", Key="new", Body=b"new", **S3)
            self.assertEqual([s3.get_object(Bucket="bkt", Key=k)["Body"].read() for k in ("old", "new")], [b"old", b"new"])
        kept = keys.read_bytes()
        keys.unlink()
        with self.assertRaisesRegex(RuntimeError, "key file .* is missing"):
            Server(self.data).start()
        self.assertFalse(keys.exists())
        keys.write_bytes(b"\n".join(kept.splitlines()[:-1]) + b"\n")  # without the newest
        keys.chmod(0o600)
        with self.assertRaisesRegex(RuntimeError, "does not hold master key"):
            Server(self.data).start()
        keys.write_bytes(kept)
        keys.chmod(0o644)
        with self.assertRaisesRegex(RuntimeError, "chmod 600"):
            Server(self.data).start()
        keys.chmod(0o600)
        with Server(self.data) as server:
            s3 = boto3_client(server.http)
            self.assertEqual([s3.get_object(Bucket="bkt", Key=k)["Body"].read() for k in ("old", "new")], [b"old", b"new"])

    def test_the_servers_default_and_keys_that_need_tls(self):
        more = ["--set", "encryption.default=AES256", "--set", "encryption.customer_keys_need_tls=true",
                "--set", "encryption.kms_keys=one,two", "--set", "encryption.kms_default_key=two"]
        with Server(self.data, args=more) as server:
            s3 = boto3_client(server.http)
            s3.create_bucket(Bucket="bkt")
            self.assertEqual(s3.put_object(Bucket="bkt", Key="k", Body=self.MARK * 5000)["ServerSideEncryption"], "AES256")
            self.assertEqual(self.files_with(self.MARK), [])
            with self.assertRaisesRegex(Exception, "InvalidRequest"):
                s3.put_object(Bucket="bkt", Key="c", Body=b"x", **C)
            with self.assertRaisesRegex(Exception, "KMS.NotFoundException"):
                s3.put_object(Bucket="bkt", Key="c", Body=b"x", ServerSideEncryption="aws:kms", SSEKMSKeyId="three")
            self.assertEqual(s3.put_object(Bucket="bkt", Key="c", Body=b"x", ServerSideEncryption="aws:kms")["SSEKMSKeyId"], "two")


if __name__ == "__main__":
    unittest.main()
