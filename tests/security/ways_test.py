#!/usr/bin/python3
"""Whatever way a request takes, it is answered, charged and logged alike: HTTP from memory and not, and the native door's
messages and batches. What one way refuses no other answers, and what changed holds at once for each of them.

usage: ways_test.py [unittest arguments]
"""
import http.client
import json
import os
import pathlib
import random
import re
import socket
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import boto3
import botocore.config

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
sys.path.insert(0, os.environ.get("CLIENT_PYTHON") or str(HERE.parents[1] / "build" / "python"))
from s3_case import Reply, S3Case  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY  # noqa: E402
import verbena  # noqa: E402

SIZE = 1000
PUBLIC_ACCESS = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
CONDITIONS = [
    {"StringEquals": {"s3:ExistingObjectTag/class": "secret"}},
    {"Null": {"s3:ExistingObjectTag/class": "true"}},
    {"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}},
    {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}},
    {"Bool": {"aws:SecureTransport": "true"}},
    {"StringEquals": {"s3:signatureversion": "AWS4-HMAC-SHA256"}},
    {"StringEquals": {"s3:authType": "REST-HEADER"}},
    {"DateGreaterThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}},
    {"StringLike": {"aws:username": "read*"}},
    {"Null": {"s3:VersionId": "true"}},
    {"Null": {"s3:prefix": "true"}},
]
HOSTS = ["127.0.0.1", "hosted.localhost", "HOSTED.LOCALHOST:80", "x.hosted.localhost", "[::1]"]
# Behind "/hosted" or the host's name.
PATHS = ["/k", "/%6b", "/%6B", "//k", "/./k", "/a/../k", "/%2e/k", "/k/", "/secret/x", "/%73ecret/x", "/secret%2fx", "/a+b", "/a%20b",
         "/+", "/%", "/%zz", "/%00", "/%ff", "/", "", "/k;x", "/%C3%BC", "/%c3%bc", "/%2Fk", "/-/k", "/k\\x", "/%252e", "/%256b"]
HEADERS = ["range", "if-match", "if-none-match", "if-modified-since", "if-range", "origin", "expect", "content-type", "te", "x-other",
           "x-amz-checksum-mode", "x-amz-user-agent", "x-amz-expected-bucket-owner", "x-amz-request-payer", "x-amz-acl", "x-amz-foo",
           "x-amz-rdma-token", "x-amz-s3session-token", "x-amz-server-side-encryption", "x-amz-copy-source", "x-amz-meta-a",
           "x-verbena-etag", "x-verbena-append", "x-verbena-foo", "x-", "traceparent", "content-encoding"]
VALUES = ["", "a", "ENABLED", "*", "bytes=0-9", "bytes=9-0", "bytes=-5", "bytes=6000-", "bytes=0-1,3-4", "AES256", "100-continue", "0",
          "Sat, 29 Oct 2044 19:43:31 GMT", "Sat, 29 Oct 1994 19:43:31 GMT", "aws-chunked", "123456789012"]
RESOURCES = ["*", "pub/*", "*a", "tagged", "${aws:username}*"]


def document(*statements):
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def name_of(error):
    """As the HTTP status says it."""
    return {"NoneType": 200, "AccessDenied": 403, "NoSuchKey": 404, "NoSuchBucket": 404}.get(type(error).__name__, error)


def outcome(call):
    try:
        call()
    except verbena.VerbenaError as error:
        return name_of(error)
    return 200


class Ways(S3Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="verbena-ways-")
        cls.log = pathlib.Path(cls.folder.name) / "access.log"
        cls.server_args = ("--set", f"access_log={cls.log}", "--set", "bucket_log_interval=1")
        super().setUpClass()
        cls.iam = boto3.client("iam", endpoint_url=cls.server.http, region_name="us-east-1", aws_access_key_id=ACCESS_KEY,
                               aws_secret_access_key=SECRET_KEY, config=botocore.config.Config(retries={"max_attempts": 0}))
        cls.clients = []

    @classmethod
    def tearDownClass(cls):
        for client in cls.clients:
            client.close()
        cls.iam.close()
        super().tearDownClass()
        cls.folder.cleanup()

    def user(self, name, *statements):
        """The name, key and secret of a new user, and a native client in its name."""
        self.iam.create_user(UserName=name)
        if statements:
            self.iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=document(*statements))
        key = self.iam.create_access_key(UserName=name)["AccessKey"]
        keys = (key["AccessKeyId"], key["SecretAccessKey"])
        return (name, *keys, self.native(keys))

    def native(self, keys):
        client = verbena.connect(self.server.http, native_endpoint=self.server.native, access_key=keys[0], secret_key=keys[1],
                                 via="native")
        self.clients.append(client)
        return client

    def status(self, who, method, path, headers=None):
        headers = self.sign(method, path, headers, key=who[1], secret=who[2]) if who else dict(headers or {})
        return self.request(method, path, headers, signed=False).status

    def reads(self, who, bucket, key):
        """What each way to read this object answers."""
        path = f"/{bucket}/{key}"
        ranged = self.status(who, "GET", path, {"range": "bytes=0-9"})
        found = {"memory": self.status(who, "GET", path), "look-up": self.status(who, "GET", path + "?x-id=GetObject"),
                 "head": self.status(who, "HEAD", path), "head by look-up": self.status(who, "HEAD", path + "?x-id=HeadObject"),
                 "range": 200 if ranged == 206 else ranged}
        if who is None:
            return found
        client, into = who[3], bytearray(SIZE)
        found["native"] = outcome(lambda: client.get_into(bucket, key, into))
        found["native head"] = outcome(lambda: client.head(bucket, key))
        for name, many in (("batch", lambda: client.get_many([(bucket, key, 0, SIZE)], into)),
                           ("batch of heads", lambda: client.head_many([(bucket, key)]))):
            try:
                found[name] = name_of(many()[0].error)
            except verbena.VerbenaError as error:
                found[name] = name_of(error)
        return found

    def expect_reads(self, who, bucket, key, status, why):
        found = self.reads(who, bucket, key)
        self.assertEqual(set(found.values()), {status}, (why, found))

    def charged_bytes(self):
        admin = re.findall(r"admin=http://([\d.]+:\d+)", pathlib.Path(self.server.log_path).read_text())[-1]
        with urllib.request.urlopen(f"http://{admin}/-/metrics", timeout=30) as page:
            found = re.search(r"^verbena_quota_charged_bytes_total (\S+)$", page.read().decode(), re.M)
        return int(float(found.group(1))) if found else 0

    def public_bucket(self):
        bucket = self.new_bucket(ObjectOwnership="ObjectWriter")
        self.block(bucket)
        return bucket

    def block(self, bucket, only=None):
        self.s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration={
            name: name == only for name in PUBLIC_ACCESS})

    def keep(self, bucket, key, **arguments):
        """Where it is read from memory."""
        self.s3.put_object(Bucket=bucket, Key=key, Body=b"x" * SIZE, **arguments)
        self.s3.get_object(Bucket=bucket, Key=key)["Body"].read()

    def test_policies_answer_the_same_by_every_way(self):
        bucket = self.public_bucket()
        for key in ("pub/a", "reader-own", "tagged"):
            self.keep(bucket, key, **({"Tagging": "class=secret"} if key == "tagged" else {}))
        reader = self.user("reader")
        for number, condition in enumerate(CONDITIONS):
            resource = f"arn:aws:s3:::{bucket}/" + RESOURCES[number % len(RESOURCES)]
            everything = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
            alone = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": resource, "Condition": condition}
            for statements in ([alone], [everything, {**alone, "Effect": "Deny"}]):
                self.s3.put_bucket_policy(Bucket=bucket, Policy=document(*statements))
                for who in (reader, None):
                    for key in ("pub/a", "reader-own", "tagged", "none"):
                        found = self.reads(who, bucket, key)
                        self.assertEqual(len(set(found.values())), 1, (statements, who and who[0], key, found))

    def test_what_was_taken_away_no_way_gives(self):
        bucket = self.public_bucket()
        self.keep(bucket, "k")
        allow = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
        ann = self.user("ann", allow)
        self.expect_reads(ann, bucket, "k", 200, "allowed")
        for effect, status in (("Deny", 403), ("Allow", 200)):
            self.iam.put_user_policy(UserName="ann", PolicyName="p", PolicyDocument=document(
                allow, {"Effect": effect, "Action": "s3:GetObject", "Resource": "*"}))
            self.expect_reads(ann, bucket, "k", status, effect)
        self.iam.update_access_key(UserName="ann", AccessKeyId=ann[1], Status="Inactive")
        self.expect_reads(ann, bucket, "k", 403, "inactive key")

        self.expect_reads(None, bucket, "k", 403, "nothing for everybody")
        self.s3.put_bucket_policy(Bucket=bucket, Policy=document(
            {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}))
        for only, status in (("RestrictPublicBuckets", 403), ("IgnorePublicAcls", 200), (None, 200)):
            self.block(bucket, only)
            self.expect_reads(None, bucket, "k", status, only)
        self.s3.delete_bucket_policy(Bucket=bucket)
        self.expect_reads(None, bucket, "k", 403, "no policy")
        for acl, status in (("public-read", 200), ("private", 403)):
            self.s3.put_object_acl(Bucket=bucket, Key="k", ACL=acl)
            self.expect_reads(None, bucket, "k", status, acl)

    def answer(self, method, path, host, headers=None):
        """What an answer says, without what belongs to the one request."""
        connection = http.client.HTTPConnection(self.address, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in {"host": host, **(headers or {})}.items():
                connection.putheader(name, value)
            connection.endheaders()
            reply = Reply(connection.getresponse())
        finally:
            connection.close()
        own = ("date", "x-amz-request-id", "content-length")
        said = {name: value for name, value in reply.headers.items() if name not in own}
        return reply.status, said, re.sub(
            rb"<(RequestId|Resource|CanonicalRequest\w*|StringToSign\w*|SignatureProvided|ServerTime)>.*?</\1>", b"", reply.body, flags=re.S)

    def test_from_memory_a_request_is_read_as_by_look_up(self):
        bucket = "hosted"
        self.s3.create_bucket(Bucket=bucket)
        self.block(bucket)
        for key in ("k", "secret/x", "a b", "%6b", "\u00fc", "a/../k", "./k", "+", "k/", "/k"):
            self.keep(bucket, key)
        objects = f"arn:aws:s3:::{bucket}/"
        self.s3.put_bucket_policy(Bucket=bucket, Policy=document(
            {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": objects + "*"},
            {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": objects + "secret*"}))
        for host in HOSTS:
            for path in PATHS:
                path = path if "hosted" in host.lower() else "/hosted" + path
                for method in ("GET", "HEAD"):
                    self.assertEqual(self.answer(method, path or "/", host), self.answer(method, (path or "/") + "?x-id=1", host),
                                     (method, host, path))
        chosen = random.Random(1)
        for _ in range(300):
            headers = {chosen.choice(HEADERS): chosen.choice(VALUES) for _ in range(chosen.choice((1, 1, 2)))}
            method = chosen.choice(("GET", "HEAD"))
            answers = []
            for path in (f"/{bucket}/k", f"/{bucket}/k?x-id=1"):
                signed = self.sign(method, path, headers)
                answers.append(self.answer(method, path, self.address, {name.lower(): value for name, value in signed.items()}))
            self.assertEqual(*answers, (method, headers))

    def test_a_bucket_of_the_same_name_gives_nothing_to_readers_of_the_old_one(self):
        bucket = self.new_bucket()
        ben = self.user("ben")
        self.keep(bucket, "k")
        grant = document({"Effect": "Allow", "Principal": {"AWS": self.iam.get_user(UserName="ben")["User"]["Arn"]},
                          "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"})
        self.s3.put_bucket_policy(Bucket=bucket, Policy=grant)
        self.expect_reads(ben, bucket, "k", 200, "granted")
        self.s3.delete_object(Bucket=bucket, Key="k")
        self.s3.delete_bucket(Bucket=bucket)
        self.expect_reads(ben, bucket, "k", 404, "gone")
        self.s3.create_bucket(Bucket=bucket)
        self.keep(bucket, "k")
        self.expect_reads(ben, bucket, "k", 403, "another bucket")

    def test_who_may_not_read_learns_of_no_object_by_a_condition_or_a_version(self):
        bucket = self.new_bucket()
        self.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        version = self.s3.put_object(Bucket=bucket, Key="there", Body=b"x")["VersionId"]
        objects = f"arn:aws:s3:::{bucket}/*"
        writer = self.user("writer", {"Effect": "Allow", "Action": ["s3:PutObject", "s3:DeleteObject"], "Resource": objects})
        reader = self.user("reader-of-current", {"Effect": "Allow", "Action": "s3:GetObject", "Resource": objects})
        for key in ("there", "not-there"):
            path = f"/{bucket}/{key}"
            for method, headers in (("PUT", {"if-match": '"a"'}), ("PUT", {"if-none-match": '"a"'}), ("DELETE", {"if-match": "*"}),
                                    ("DELETE", {"x-amz-if-match-size": "1"})):
                self.assertEqual(self.status(writer, method, path, headers), 403, (key, method, headers))
            self.assertEqual(outcome(lambda: writer[3].put(bucket, key, b"", if_match="a")), 403, key)
            self.assertEqual(outcome(lambda: writer[3].delete(bucket, key, if_match="a")), 403, key)
            for query in ("?tagging", "?acl", "?retention", "?legal-hold", "?uploadId=x"):
                self.assertEqual(self.status(writer, "GET", path + query), 403, (key, query))
        other = version[:-1] + ("1" if version.endswith("0") else "0")
        for named in (version, other, "null"):
            for method in ("GET", "HEAD"):
                self.assertEqual(self.status(reader, method, f"/{bucket}/there?versionId={named}"), 403, (method, named))

    def send_body(self, who, path, size, declared, digest):
        """Sends `size` bytes of a body of `declared` ones, and closes the connection where that is not all."""
        headers = self.sign("PUT", path, {"x-amz-content-sha256": digest, "content-length": str(declared)}, key=who[1], secret=who[2])
        headers.setdefault("host", self.address)
        head = f"PUT {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
        with socket.create_connection(self.address.split(":"), timeout=30) as connection:
            connection.sendall(head.encode() + b"x" * size)
            if size == declared:
                connection.recv(4096)

    def test_a_body_that_fails_is_paid_for(self):
        bucket = self.new_bucket()
        payer = self.user("payer", {"Effect": "Allow", "Action": "s3:*", "Resource": "*"})
        quota = json.dumps({"bucket": bucket, "quota": {"requests_per_second": 1000000, "bytes_per_second": 1000000000000}})
        self.assertEqual(self.request("POST", "/-/admin/quota-set", {}, quota.encode()).status, 200)
        size = 300_000
        for why, declared, digest in (("cut off", 64 << 20, "UNSIGNED-PAYLOAD"), ("cut off near its end", size + 10, "UNSIGNED-PAYLOAD"),
                                      ("another digest", size, "0" * 64)):
            before = self.charged_bytes()
            self.send_body(payer, f"/{bucket}/k", size, declared, digest)
            deadline = time.monotonic() + 10
            while self.charged_bytes() == before and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertEqual(self.charged_bytes() - before, size, why)

    def test_names_break_no_line_of_any_log(self):
        bucket, logs = self.new_bucket(), self.new_bucket()
        self.s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={"LoggingEnabled": {"TargetBucket": logs, "TargetPrefix": ""}})
        root = ("root", ACCESS_KEY, SECRET_KEY, self.native((ACCESS_KEY, SECRET_KEY)))
        names = ['a"b', "a\\b", "a\nb", "a\r\nINJECTED", 'x" 200 - "', "\u2028", "a b", "\x1b[31m", "\x01", "\ufeff", "%0a", "}{"]
        for name in names:
            path = f"/{bucket}/" + urllib.parse.quote(name, safe="")
            self.assertEqual(self.status(root, "PUT", path, {"user-agent": 'x" \\ y', "referer": 'http://a/?X-Amz-Signature=proof&b=" c'}), 200)
            self.assertEqual(outcome(lambda: root[3].put(bucket, name, b"x")), 200, name)
            self.assertIsNone(root[3].head_many([(bucket, name)])[0].error)
        wanted, deadline = 3 * len(names), time.monotonic() + 30
        form = re.compile(rb'^\S+ \S+ \[[^\]]+\] \S+ \S+ \S+ \S+ \S+ "[^"\\]*" \S+ \S+ \S+ \S+ \S+ - "[^"\\]*" "[^"\\]*" \S+ \S+ \S+ - \S+ \S+ - - \S+$')
        records = []
        while len(records) < wanted and time.monotonic() < deadline:
            time.sleep(0.2)
            records = [record for one in self.s3.list_objects_v2(Bucket=logs).get("Contents", [])
                       for record in self.s3.get_object(Bucket=logs, Key=one["Key"])["Body"].read().split(b"\n")[:-1]]
        self.assertEqual(len(records), wanted)
        for record in records:
            self.assertRegex(record, form)
            self.assertNotIn(b"proof", record)
        lines = [json.loads(line) for line in self.log.read_bytes().decode().split("\n") if line]
        self.assertEqual(sorted(line["key"] for line in lines if line.get("bucket") == bucket and "key" in line), sorted(3 * names))


if __name__ == "__main__":
    unittest.main()
