#!/usr/bin/python3
"""verbena.accelerate: boto3 gives the same answers and raises the same exceptions with it as without."""
import base64
import datetime
import hashlib
import io
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

from python_case import PythonCase, skip

try:
    import boto3
    import botocore.exceptions
except ImportError:
    skip("no boto3")
from verbena_server import Server, boto3_client  # noqa: E402
import verbena  # noqa: E402

DATA = os.urandom(1 << 20) * 3
# Headers unique to each request.
OWN = {"x-amz-request-id", "x-amz-id-2", "date", "connection", "server"}


def _md5(data):
    return base64.b64encode(hashlib.md5(data).digest()).decode()


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


class Boto(PythonCase):
    def setUp(self):
        self.plain, self.fast = boto3_client(self.server.http), boto3_client(self.server.http)
        self.acceleration = verbena.accelerate(self.fast, native_endpoint=self.server.native, token_provider="tcp")

    def tearDown(self):
        self.acceleration.close()
        self.plain.close()
        self.fast.close()

    def same(self, operation, ignore=(), **arguments):
        """Calls both clients and compares their answers, bodies included; returns the answer without what `ignore`
        names."""
        said = []
        for client in (self.plain, self.fast):
            try:
                answer = getattr(client, operation)(**arguments)
                if "Body" in answer:
                    answer["Body"] = answer["Body"].read()
            except botocore.exceptions.ClientError as error:
                answer = {"Error": error.response["Error"], "ResponseMetadata": error.response["ResponseMetadata"], "is": type(error).__name__}
            meta = answer.pop("ResponseMetadata")
            answer["status"] = meta["HTTPStatusCode"]
            answer["headers"] = {name: value for name, value in meta["HTTPHeaders"].items() if name not in OWN and name not in ignore}
            said.append({name: value for name, value in answer.items() if name not in ignore})
        self.maxDiff = None
        self.assertEqual(said[0], said[1])
        return said[0]

    def test_answers_are_the_same(self):
        stored = {"ContentType": "text/x", "Metadata": {"colour": "green"}, "CacheControl": "no-cache", "ContentDisposition": "inline",
                  "ContentEncoding": "identity", "ContentLanguage": "de"}
        for key, client in (("by-plain", self.plain), ("by-fast", self.fast)):
            put = client.put_object(Bucket="bucket", Key=key, Body=DATA, **stored)
            self.assertEqual(put["ETag"], f'"{hashlib.md5(DATA).hexdigest()}"')
            self.assertEqual(self.same("get_object", Bucket="bucket", Key=key)["Body"], DATA)
            self.same("get_object", Bucket="bucket", Key=key, Range="bytes=5-99")
            self.same("get_object", Bucket="bucket", Key=key, Range="bytes=3000000-")
            self.same("get_object", Bucket="bucket", Key=key, Range="bytes=-7")
            self.same("get_object", Bucket="bucket", Key=key, Range="bytes=99999999-")
            self.same("get_object", Bucket="bucket", Key=key, IfMatch=put["ETag"])
            self.same("get_object", Bucket="bucket", Key=key, IfMatch='"other"')
            self.same("get_object", Bucket="bucket", Key=key, IfNoneMatch=put["ETag"])
            self.same("get_object", Bucket="bucket", Key=key, ChecksumMode="ENABLED")
            self.same("get_object", Bucket="bucket", Key=key, ResponseContentType="other/type")
            self.same("head_object", Bucket="bucket", Key=key)
        self.assertEqual(self.same("get_object", Bucket="bucket", Key="nothing")["Error"]["Code"], "NoSuchKey")
        self.assertEqual(self.same("get_object", Bucket="no-such-bucket", Key="k")["Error"]["Code"], "NoSuchBucket")
        with self.assertRaises(self.fast.exceptions.NoSuchKey):
            self.fast.get_object(Bucket="bucket", Key="nothing")
        self.assertGreaterEqual(self.acceleration.counts["native"], 10)
        self.assertGreaterEqual(self.acceleration.counts["http"], 5)

    def test_large_answers_and_their_parts_are_the_same(self):
        data = os.urandom(1 << 20) * 9
        for stored in ({}, {"ChecksumAlgorithm": "CRC32"}, {"ChecksumAlgorithm": "SHA256"}):
            self.fast.put_object(Bucket="bucket", Key="large", Body=data, ContentType="text/x", Metadata={"a": "b"}, **stored)
            for asked in ({}, {"ChecksumMode": "ENABLED"}, {"Range": "bytes=1-6000000"}, {"Range": "bytes=9437183-"}, {"Range": "bytes=9437184-"}):
                self.same("get_object", Bucket="bucket", Key="large", **asked)
        self.assertEqual(set(self.acceleration.reasons), {"GetObject: invalid_range"})
        body = self.fast.get_object(Bucket="bucket", Key="large")["Body"]
        self.assertEqual(body.read(5) + b"".join(body.iter_chunks(1 << 20)), data)

    def test_bodies_that_are_too_large_to_be_held_in_memory_go_by_botocore(self):
        held = verbena.boto._HELD_MAX
        verbena.boto._HELD_MAX = 1 << 20
        try:
            with tempfile.TemporaryFile() as file:
                file.write(DATA)
                file.seek(0)
                self.fast.put_object(Bucket="bucket", Key="streamed", Body=file)
            self.assertEqual(self.same("get_object", Bucket="bucket", Key="streamed")["Body"], DATA)
            large = b"x" * (9 << 20)  # which is fetched in pieces
            self.plain.put_object(Bucket="bucket", Key="large-streamed", Body=large)
            self.assertEqual(self.same("get_object", Bucket="bucket", Key="large-streamed")["Body"], large)
            self.same("get_object", Bucket="bucket", Key="streamed", Range="bytes=1-3000000")
            self.assertEqual(self.acceleration.counts, {"http": 4})
            self.same("get_object", Bucket="bucket", Key="streamed", Range="bytes=1-9")
            self.same("get_object", Bucket="bucket", Key="streamed", Range=f"bytes={len(DATA) - 5}-9000000")
            self.assertEqual(self.acceleration.counts, {"http": 4, "native": 2})
        finally:
            verbena.boto._HELD_MAX = held
        self.assertEqual(set(self.acceleration.reasons), {"GetObject: too_large", "PutObject of a body that is too large, or of unknown length"})

    def test_what_s3_works_out_is_said_by_both(self):
        rule = {"ID": "the rule", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 3}}
        kms = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "team-red"}, "BucketKeyEnabled": True}
        sse = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
        for name, encryption in (("plain", None), ("sse", sse), ("kms", kms)):
            bucket = f"worked-out-{name}"
            self.plain.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
            self.plain.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})
            expected = {"x-amz-expiration"}
            if encryption:
                self.plain.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [encryption]})
                expected.add("x-amz-server-side-encryption")
            if name == "kms":
                expected |= {f"x-amz-server-side-encryption-{one}" for one in ("aws-kms-key-id", "bucket-key-enabled")}
            for size in (5, 300_000, 9 << 20):  # in the reply, by a window, in pieces
                with self.subTest(bucket=bucket, size=size):
                    self.look_at_what_is_worked_out(bucket, size, expected)
            if encryption:
                upload = self.plain.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
                part = self.same("upload_part", Bucket=bucket, Key="parts", UploadId=upload, PartNumber=1, Body=b"part", ignore={"etag", "ETag"})
                self.assertIn("x-amz-server-side-encryption", part["headers"])
        self.assertEqual(self.acceleration.reasons, {})

    def look_at_what_is_worked_out(self, bucket, size, expected):
        own = {"x-amz-version-id", "VersionId"}  # unique to each version, and so to each PUT
        put = self.same("put_object", Bucket=bucket, Key="k", Body=bytes(size), ignore=own | {"etag", "ETag"})
        self.assertLessEqual(expected, put["headers"].keys())
        for _ in range(2):  # the second time from memory
            self.assertLessEqual(expected, self.same("get_object", Bucket=bucket, Key="k")["headers"].keys())
        self.plain.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]})
        self.plain.put_object_legal_hold(Bucket=bucket, Key="k", LegalHold={"Status": "ON"})
        until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        self.plain.put_object_retention(Bucket=bucket, Key="k", Retention={"Mode": "GOVERNANCE", "RetainUntilDate": until})
        for more in ({}, {"Range": "bytes=1-3"}, {}):
            said = self.same("get_object", Bucket=bucket, Key="k", **more)
            self.assertEqual(said["headers"]["x-amz-tagging-count"], "2")
            self.assertLessEqual(expected | {"x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date", "x-amz-object-lock-legal-hold"},
                                 said["headers"].keys())

    def test_hooks_are_called_and_see_the_request(self):
        self.plain.put_object(Bucket="bucket", Key="hooked", Body=b"1")
        for event in ("request-created", "before-sign", "before-send", "response-received", "needs-retry", "after-call"):
            with self.subTest(event):
                seen, before = [], self.acceleration.counts["native"]
                self.assertTrue(self.acceleration._early.possible("GetObject"))
                self.fast.meta.events.register(f"{event}.s3.GetObject", lambda **given: seen.append(sorted(given)), unique_id="test")
                self.assertEqual(self.fast.get_object(Bucket="bucket", Key="hooked")["Body"].read(), b"1")
                self.fast.meta.events.unregister(f"{event}.s3.GetObject", unique_id="test")
                self.assertEqual((len(seen), self.acceleration.counts["native"] - before), (1, 1))
        self.fast.meta.events.register("before-send.s3.GetObject", lambda request, **_: seen.append(request.headers["Authorization"]))
        self.fast.get_object(Bucket="bucket", Key="hooked")
        self.assertIn(b"SignedHeaders" if isinstance(seen[-1], bytes) else "SignedHeaders", seen[-1])

    def test_what_is_declined_early_is_not_tried_twice(self):
        with self.assertRaises(self.fast.exceptions.NoSuchKey):
            self.fast.get_object(Bucket="bucket", Key="nothing")
        self.assertEqual((self.acceleration.counts, self.acceleration.reasons), ({"http": 1}, {"GetObject: no_such_key": 1}))

    def test_times_are_read_as_botocore_reads_them(self):
        from botocore.utils import parse_timestamp
        from verbena._answers import timestamp
        for value in ("Fri, 02 Jan 2026 03:04:05 GMT", "Thu, 29 Feb 2024 23:59:59 GMT", "2026-01-02T03:04:05Z", "Fri, 02 Foo 2026 03:04:05 GMT", "1767323045"):
            try:
                expected = parse_timestamp(value)
            except ValueError:
                with self.assertRaises(ValueError):
                    timestamp(value)
                continue
            self.assertEqual((timestamp(value), timestamp(value).tzinfo), (expected, expected.tzinfo))

    def test_puts_of_the_simple_kind_travel_natively(self):
        for body in (DATA, b"", bytearray(b"array"), io.BytesIO(b"stream" * 1000)):
            put = self.fast.put_object(Bucket="bucket", Key="body", Body=body)
            expected = body.getvalue() if isinstance(body, io.BytesIO) else bytes(body)
            self.assertEqual(put["ETag"], f'"{hashlib.md5(expected).hexdigest()}"')
            self.assertEqual(self.plain.get_object(Bucket="bucket", Key="body")["Body"].read(), expected)
        for wanted in ("CRC32", "SHA256"):
            put = [client.put_object(Bucket="bucket", Key=f"sum-{i}", Body=b"summed", ChecksumAlgorithm=wanted)
                   for i, client in enumerate((self.plain, self.fast))]
            self.assertEqual(put[0][f"Checksum{wanted}"], put[1][f"Checksum{wanted}"])
        self.assertEqual(self.acceleration.reasons, {})
        with self.assertRaises(botocore.exceptions.ClientError) as caught:
            self.fast.put_object(Bucket="bucket", Key="bad", Body=b"x", ContentMD5="AAAAAAAAAAAAAAAAAAAAAA==")
        self.assertEqual(caught.exception.response["Error"]["Code"], "BadDigest")
        with self.assertRaises(botocore.exceptions.ClientError) as caught:
            self.fast.put_object(Bucket="no-such-bucket", Key="k", Body=b"x")
        self.assertEqual(caught.exception.response["Error"]["Code"], "NoSuchBucket")

    def test_files_travel(self):
        with tempfile.TemporaryDirectory() as folder:
            source, target = pathlib.Path(folder) / "source", pathlib.Path(folder) / "target"
            big = os.urandom(1 << 20) * 20
            source.write_bytes(big)
            progress = {"up": 0, "down": 0}

            def count(way):
                def add(n):
                    progress[way] += n
                return add
            self.fast.upload_file(str(source), "bucket", "file", Callback=count("up"))
            self.fast.download_file("bucket", "file", str(target), Callback=count("down"))
            self.assertEqual(target.read_bytes(), big)
            self.assertEqual(progress, {"up": len(big), "down": len(big)})
            self.plain.upload_file(str(source), "bucket", "plain-file")
            self.assertEqual(self.plain.head_object(Bucket="bucket", Key="file")["ETag"], self.plain.head_object(Bucket="bucket", Key="plain-file")["ETag"])
            self.fast.upload_fileobj(io.BytesIO(b"little"), "bucket", "little")
            into = io.BytesIO()
            self.fast.download_fileobj("bucket", "little", into)
            self.assertEqual(into.getvalue(), b"little")
        self.assertGreaterEqual(self.acceleration.counts["native"], 4)
        self.assertEqual(self.acceleration.counts["token"], 3)
        self.assertEqual(self.acceleration.reasons, {})

    def test_parts_of_uploads_travel_by_token_and_say_what_they_said(self):
        for algorithm in (None, "CRC32", "SHA256"):
            with self.subTest(algorithm):
                more = {"ChecksumAlgorithm": algorithm} if algorithm else {}
                begun = self.fast.create_multipart_upload(Bucket="bucket", Key="parts", **more)
                where = {"Bucket": "bucket", "Key": "parts", "UploadId": begun["UploadId"]}
                before = self.acceleration.counts["token"]
                bodies = [os.urandom(5 << 20), io.BytesIO(os.urandom(5 << 20)), b"last"]
                parts = []
                for number, body in enumerate(bodies, 1):
                    said = self.fast.upload_part(**where, PartNumber=number, Body=body, **more)
                    raw = body.getvalue() if isinstance(body, io.BytesIO) else body
                    self.assertEqual(said["ETag"], f'"{hashlib.md5(raw).hexdigest()}"')
                    parts.append({"PartNumber": number, "ETag": said["ETag"]})
                    if algorithm:
                        parts[-1][f"Checksum{algorithm}"] = said[f"Checksum{algorithm}"]
                again = self.plain.upload_part(**where, PartNumber=3, Body=b"last", **more)
                self.assertEqual(again["ETag"], said["ETag"])
                self.fast.complete_multipart_upload(**where, MultipartUpload={"Parts": parts})
                whole = b"".join(body.getvalue() if isinstance(body, io.BytesIO) else body for body in bodies)
                self.assertEqual(self.fast.get_object(Bucket="bucket", Key="parts")["Body"].read(), whole)
                self.assertEqual(self.acceleration.counts["token"] - before, 3, self.acceleration.reasons)
        self.assertEqual(self.same("upload_part", Bucket="bucket", Key="parts", UploadId="none", PartNumber=1, Body=b"x")["Error"]["Code"],
                         "NoSuchUpload")
        begun = self.fast.create_multipart_upload(Bucket="bucket", Key="bad", ChecksumAlgorithm="CRC32C")
        where = {"Bucket": "bucket", "Key": "bad", "UploadId": begun["UploadId"], "PartNumber": 1}
        self.assertEqual(self.same("upload_part", **where, Body=b"x", ChecksumCRC32="AAAAAA==")["status"], 400)
        where["UploadId"] = self.fast.create_multipart_upload(Bucket="bucket", Key="bad")["UploadId"]
        self.assertEqual(self.same("upload_part", **where, Body=b"x", ContentMD5="AAAAAAAAAAAAAAAAAAAAAA==")["Error"]["Code"], "BadDigest")

    def test_parts_go_by_http_where_there_is_no_token(self):
        with verbena.accelerate(self.plain, native_endpoint=self.server.native, token_provider=None) as without:
            upload = self.plain.create_multipart_upload(Bucket="bucket", Key="by-http")["UploadId"]
            self.plain.upload_part(Bucket="bucket", Key="by-http", UploadId=upload, PartNumber=1, Body=b"x")
            self.assertEqual(without.reasons, {"UploadPart: no token_provider": 1})

    def test_etags_are_no_md5s_where_nobody_wants_them(self):
        with verbena.accelerate(self.plain, native_endpoint=self.server.native, md5_etags=False) as acceleration:
            put = self.plain.put_object(Bucket="bucket", Key="etag", Body=DATA)
            self.assertNotEqual(put["ETag"], f'"{hashlib.md5(DATA).hexdigest()}"')
            got = self.plain.get_object(Bucket="bucket", Key="etag", IfMatch=put["ETag"])
            self.assertEqual((got["ETag"], got["Body"].read()), (put["ETag"], DATA))
            self.assertEqual(acceleration.counts, {"native": 2})

    def test_what_is_declined_is_hashed_and_signed_as_ever(self):
        sent = {}

        def look(request, **_):
            sent[len(sent)] = {name.lower(): value if isinstance(value, str) else value.decode() for name, value in request.headers.items()}
        self.acceleration.client.close()
        for client in (self.plain, self.fast):
            client.meta.events.register_last("before-send.s3.PutObject", look)
            for body in (b"bytes", io.BytesIO(b"stream")):
                client.put_object(Bucket="bucket", Key="hashed", Body=body, Metadata={"a": "b"})
        self.assertEqual(self.acceleration.reasons, {"PutObject: closed": 2})
        for plain, fast in ((0, 2), (1, 3)):
            for name in ("content-md5", "x-amz-content-sha256"):
                self.assertEqual(sent[plain].get(name), sent[fast].get(name), name)
            signed = [re.search("SignedHeaders=([^,]*)", sent[one]["authorization"])[1] for one in (plain, fast)]
            self.assertEqual(*signed)
        # The user's own hooks still run, and natively sent bodies were never hashed.
        own = []
        with verbena.accelerate(self.plain, native_endpoint=self.server.native) as acceleration:
            self.plain.meta.events.register("before-send.s3.PutObject", lambda request, **_: own.append(_text(request.headers.get("Content-MD5"))))
            self.plain.put_object(Bucket="bucket", Key="hashed", Body=b"x")
            self.plain.put_object(Bucket="bucket", Key="hashed", Body=b"x", ContentMD5=_md5(b"x"))
            self.assertEqual((own, acceleration.counts["native"]), ([None, _md5(b"x")], 2))

    def test_the_native_door_is_that_of_the_environment(self):
        s3 = boto3_client(self.server.http)
        before = os.environ.get("VERBENA_NATIVE")
        os.environ["VERBENA_NATIVE"] = self.server.native
        try:
            with verbena.accelerate(s3, token_provider=None) as acceleration:
                s3.put_object(Bucket="bucket", Key="environment", Body=b"x")
                self.assertEqual(s3.get_object(Bucket="bucket", Key="environment")["Body"].read(), b"x")
                self.assertEqual(acceleration.counts, {"native": 2})
        finally:
            del os.environ["VERBENA_NATIVE"]
            if before is not None:
                os.environ["VERBENA_NATIVE"] = before

    def test_where_no_native_door_answers_boto3_goes_on_and_the_log_says_so_once(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            nowhere = f"127.0.0.1:{taken.getsockname()[1]}"
        s3 = boto3_client(self.server.http)
        with self.assertLogs("verbena.boto", "WARNING") as said:
            for _ in range(2):
                with verbena.accelerate(s3, native_endpoint=nowhere) as acceleration:
                    s3.put_object(Bucket="bucket", Key="plain", Body=b"x")
                    self.assertEqual(s3.get_object(Bucket="bucket", Key="plain")["Body"].read(), b"x")
                    self.assertIsNone(acceleration.client)
        self.assertEqual(len(said.output), 1, said.output)
        self.assertIn(nowhere, said.output[0])
        with self.assertRaises(verbena.errors.InvalidArgument):
            verbena.accelerate(s3, native_endpoint="no port")

    def test_what_would_go_by_tls_is_not_sent_in_the_clear_unasked(self):
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = f"{folder}/cert.pem", f"{folder}/key.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "1",
                            "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
            tls = ["--set", f"tls.certificate={certificate}", "--set", f"tls.key={key}"]
            for encrypts, asked, native in (("off", {}, 0), ("off", {"cleartext_rdma": True}, 1), ("off", {"encryption": "preferred"}, 1),
                                            ("on", {}, 1)):
                for verify in (certificate, False):
                    with self.subTest(encrypts=encrypts, asked=asked, verify=verify), \
                            Server(memory=True, args=[*tls, "--set", f"rdma.tcp_encryption={encrypts}"]) as server:
                        s3 = boto3.client("s3", endpoint_url=server.http, verify=verify, aws_access_key_id=self.keys["access_key"],
                                          aws_secret_access_key=self.keys["secret_key"], region_name="us-east-1")
                        s3.create_bucket(Bucket="tls")
                        with verbena.accelerate(s3, native_endpoint=server.native, provider="tcp", token_provider=None, **asked) as fast:
                            s3.put_object(Bucket="tls", Key="k", Body=b"secret")
                            self.assertEqual(fast.counts["native"], native if verify or asked else 0)
                        s3.close()

    def test_a_native_door_that_closes_is_fallen_back_from(self):
        self.fast.put_object(Bucket="bucket", Key="k", Body=b"here")
        self.acceleration.client.close()
        self.assertEqual(self.fast.get_object(Bucket="bucket", Key="k")["Body"].read(), b"here")
        self.assertEqual(self.acceleration.reasons["GetObject: closed"], 1)
        self.acceleration.close()
        before = dict(self.acceleration.counts)
        self.fast.get_object(Bucket="bucket", Key="k")
        self.assertEqual(self.acceleration.counts, before)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
