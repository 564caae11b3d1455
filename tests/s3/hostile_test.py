#!/usr/bin/python3
"""A running server attacked by an unauthenticated client, and by tenants with one right each: they neither get nor
learn what they have no right to, and the server's memory that they hold is bounded.

usage: hostile_test.py [unittest arguments]
"""
import base64
import hashlib
import http.client
import json
import pathlib
import re
import socket
import subprocess
import sys
import time
import unittest

import boto3
import botocore.config
import botocore.exceptions

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from s3_case import Reply, S3Case  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, boto3_client, client_environment, program  # noqa: E402

MIB = 1 << 20
ARENA = 64 * MIB
PATIENCE_S = 30   # for an answer that must come; a server that waits for more of the request never sends it


def statement(*actions, resource="*", effect="Allow", **more):
    return {"Effect": effect, "Action": list(actions), "Resource": resource, **more}


def document(*statements):
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def md5(body):
    return base64.b64encode(hashlib.md5(body).digest()).decode()


class Hostile(S3Case):
    server_args = ("--set", f"arena_size={ARENA}", "--set", "index_cache=16 MiB")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.env = dict(client_environment("/nonexistent"), AWS_ENDPOINT_URL=cls.server.http)
        cls.clients, cls.names = [], 0
        cls.iam = cls.client("iam", ACCESS_KEY, SECRET_KEY)

    @classmethod
    def tearDownClass(cls):
        for client in cls.clients:
            client.close()
        super().tearDownClass()

    @classmethod
    def client(cls, service, key, secret, token=None):
        made = boto3.client(service, endpoint_url=cls.server.http, region_name="us-east-1", aws_access_key_id=key,
                            aws_secret_access_key=secret, aws_session_token=token,
                            config=botocore.config.Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"}))
        cls.clients.append(made)
        return made

    @classmethod
    def user(cls, *statements):
        """A new user of the root account with only these rights: name, key, secret."""
        cls.names += 1
        name = f"tenant{cls.names}"
        cls.iam.create_user(UserName=name)
        if statements:
            cls.iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=document(*statements))
        key = cls.iam.create_access_key(UserName=name)["AccessKey"]
        return name, key["AccessKeyId"], key["SecretAccessKey"]

    def resident(self):
        """The server's resident memory in bytes."""
        text = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", text).group(1)) * 1024

    def connect(self):
        host, port = self.address.split(":")
        return socket.create_connection((host, int(port)), timeout=PATIENCE_S)

    def head(self, method, path, length, headers):
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if not any(name.lower() == "host" for name in headers):
            lines.append(f"Host: {self.address}")
        return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()

    def unfinished(self, method, path, length, sent, who=None, extra=None):
        """A connection with an unfinished request: `length` bytes of body declared, `sent` of them sent."""
        headers = dict(extra or {})
        if who:
            headers["x-amz-content-sha256"] = "UNSIGNED-PAYLOAD"
            headers = self.sign(method, path, headers, key=who[1], secret=who[2])
        connection = self.connect()
        try:
            connection.sendall(self.head(method, path, length, headers) + b"<" * sent)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused already
        return connection

    def first_answer(self, connection):
        response = http.client.HTTPResponse(connection)
        response.begin()
        return Reply(response)

    def request_of(self, who, method, path, headers=None, body=b""):
        """One request that this user signs."""
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE_S)
        try:
            connection.request(method, path, body or None, self.sign(method, path, headers, body, key=who[1], secret=who[2]))
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def bucket_with(self, *keys):
        bucket = self.new_bucket()
        for key in keys:
            self.s3.put_object(Bucket=bucket, Key=key, Body=b"text")
        return bucket

    def keys(self, bucket):
        return [entry["Key"] for entry in self.s3.list_objects_v2(Bucket=bucket).get("Contents", [])]

    # Documents before authorization.

    def test_the_document_of_who_may_do_nothing_is_not_waited_for(self):
        bucket = self.bucket_with("key")
        upload = self.s3.create_multipart_upload(Bucket=bucket, Key="key")["UploadId"]
        reader = self.user(statement("s3:GetObject"))
        bucket_verbs = ["policy", "acl", "cors", "lifecycle", "logging", "tagging", "versioning", "encryption", "object-lock",
                        "ownershipControls", "publicAccessBlock", "notification", "accelerate", "requestPayment"]
        verbs = [("POST", f"/{bucket}?delete"), ("POST", f"/{bucket}/key?uploadId={upload}"), ("PUT", "/fresh-bucket"),
                 *(("PUT", f"/{bucket}?{name}") for name in bucket_verbs),
                 *(("PUT", f"/{bucket}/{key}?{name}") for key in ("key", "none") for name in ("tagging", "acl", "retention", "legal-hold"))]
        for who in (None, reader):
            for method, path in verbs:
                with self.subTest(who=who and who[0], verb=f"{method} {path}"):
                    with self.unfinished(method, path, 60_000, 100, who) as connection:
                        reply = self.first_answer(connection)
                    self.assertEqual((reply.status, reply.code), (403, "AccessDenied"))

    def test_a_call_without_a_key_that_there_is_is_not_waited_for(self):
        for path in ("/", "/-/admin/list-users"):
            for authorization in ({}, {"Authorization": "AWS4-HMAC-SHA256 Credential=NOBODY/20260101/us-east-1/iam/aws4_request, "
                                                        "SignedHeaders=host, Signature=" + "0" * 64}):
                headers = {"Content-Type": "application/x-www-form-urlencoded", **authorization}
                with self.subTest(path=path, signed=bool(authorization)):
                    with self.unfinished("POST", path, 60_000, 100, extra=headers) as connection:
                        self.assertIn(self.first_answer(connection).status, (400, 403, 405))

    def test_a_form_for_no_bucket_is_not_waited_for(self):
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        with self.unfinished("POST", "/no-such-bucket", 60_000, 10, extra=headers) as connection:
            self.assertEqual(self.first_answer(connection).status, 404)

    def test_documents_of_strangers_hold_no_memory(self):
        bucket = self.bucket_with("key")
        before = self.resident()
        open_ones = [self.unfinished("POST", f"/{bucket}?delete", 4 * MIB - 1, MIB) for _ in range(100)]
        time.sleep(1)
        grown = self.resident() - before
        for connection in open_ones:
            connection.close()
        self.assertLess(grown, 50 * MIB, "100 connections that sent 1 MiB each")

    def test_documents_of_a_tenant_hold_no_more_than_its_share(self):
        bucket = self.bucket_with("key")
        deleter = self.user(statement("s3:DeleteObject"))
        before = self.resident()
        open_ones = [self.unfinished("POST", f"/{bucket}?delete", 4 * MIB - 1, 0, deleter) for _ in range(100)]
        for connection in open_ones:
            connection.setblocking(False)
        block, deadline = b"<" * 65536, time.monotonic() + 4
        while time.monotonic() < deadline:
            for connection in open_ones:
                try:
                    connection.send(block)
                except OSError:
                    pass
            time.sleep(0.01)
        grown = self.resident() - before
        for connection in open_ones:
            connection.close()
        self.assertLess(grown, 2 * ARENA, "100 connections with up to 4 MiB each")
        self.assertEqual(self.request("GET", f"/{bucket}/key").status, 200)

    def test_configurations_of_one_account_are_bounded(self):
        rules = "".join(f"<Rule><ID>{number}</ID><Status>Enabled</Status><Filter><Prefix>{'p' * 1000}{number}</Prefix></Filter>"
                        "<Expiration><Days>1</Days></Expiration></Rule>" for number in range(400))
        body = f"<LifecycleConfiguration>{rules}</LifecycleConfiguration>".encode()
        buckets, refused = [self.new_bucket() for _ in range(60)], None
        before = self.resident()
        for bucket in buckets:
            reply = self.request("PUT", f"/{bucket}?lifecycle", {"Content-MD5": md5(body)}, body)
            if reply.status != 200:
                refused = reply
                break
        self.assertIsNotNone(refused, "60 buckets with 0.4 MB each")
        self.assertEqual((refused.status, refused.code), (409, "LimitExceeded"))
        self.assertLess(self.resident() - before, 100 * MIB)
        kept = self.s3.get_bucket_lifecycle_configuration(Bucket=buckets[0])["Rules"]
        self.assertEqual((len(kept), kept[399]["Filter"]["Prefix"]), (400, "p" * 1000 + "399"))
        for bucket in buckets:
            self.s3.delete_bucket(Bucket=bucket)
        self.s3.put_bucket_lifecycle_configuration(Bucket=self.new_bucket(), LifecycleConfiguration={"Rules": kept})

    # Answers that are not read.

    def silent(self, path):
        """A connection that has requested `path` and reads nothing."""
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = self.address.split(":")
        connection.connect((host, int(port)))
        connection.settimeout(PATIENCE_S)
        connection.sendall(self.head("GET", path, 0, self.sign("GET", path)))
        return connection

    def hold(self, path, count):
        """Opens `count` such connections; returns how much the server has grown, and the statuses of the last ones."""
        before = self.resident()
        connections = [self.silent(path) for _ in range(count)]
        try:
            statuses = [self.first_answer(connection).status for connection in connections[-3:]]
            return self.resident() - before, statuses
        finally:
            for connection in connections:
                connection.close()

    def test_listings_that_nobody_takes_hold_no_more_than_their_clients_share(self):
        bucket = self.new_bucket()
        for i in range(1000):
            self.assertEqual(self.request("PUT", f"/{bucket}/{i:03d}" + "%22" * 1000, body=b"x").status, 200)
        page = f"/{bucket}?list-type=2&encoding-type=url"
        self.assertGreater(len(self.request("GET", page).body), 3_000_000, "more than a socket takes")
        grown, statuses = self.hold(page, 60)
        self.assertLess(grown, ARENA, "answers of one client")
        self.assertEqual(set(statuses), {503}, "who asks for more waits, and then hears so")
        self.assertEqual(self.request("GET", page).status, 200, "and when they have gone, there is room again")

    # Two readers of one request.

    def form(self, bucket, fields):
        parts = [f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields]
        parts.append('--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nbytes\r\n--b--\r\n')
        return self.request("POST", f"/{bucket}", {"Content-Type": "multipart/form-data; boundary=b"}, "".join(parts).encode(), signed=False)

    def test_a_forms_field_that_is_there_twice_is_refused(self):
        bucket = self.new_bucket(ACL="public-read-write")
        for one, other in (("Content-Type", "Content-Type"), ("Content-Type", "content-type"), ("key", "Key"), ("acl", "x-amz-acl"),
                           ("x-amz-meta-a", "X-AMZ-META-A")):
            with self.subTest(one=one, other=other):
                fields = [("key", "stored")] if one != "key" else []
                reply = self.form(bucket, [*fields, (one, "private"), (other, "private")])
                self.assertEqual((reply.status, reply.code), (400, "InvalidArgument"))
        self.assertEqual(self.keys(bucket), [])
        self.assertEqual(self.form(bucket, [("key", "stored"), ("Content-Type", "image/png")]).status, 204)
        self.assertEqual(self.s3.head_object(Bucket=bucket, Key="stored")["ContentType"], "image/png")

    def test_a_character_that_xml_forbids_names_nothing_else(self):
        bucket = self.bucket_with("a", "b")
        for reference in ("&#0;", "&#x0;", "&#x00;", "&#1;", "\x01"):
            with self.subTest(reference=reference):
                body = f"<Delete><Object><Key>a{reference}b</Key></Object></Delete>".encode()
                reply = self.request("POST", f"/{bucket}?delete", {"Content-MD5": md5(body)}, body)
                self.assertEqual((reply.status, reply.code), (400, "MalformedXML"))
                body = (f"<LifecycleConfiguration><Rule><Status>Enabled</Status><Filter><Prefix>{reference}</Prefix></Filter>"
                        "<Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>").encode()
                reply = self.request("PUT", f"/{bucket}?lifecycle", {"Content-MD5": md5(body)}, body)
                self.assertEqual((reply.status, reply.code), (400, "MalformedXML"))
        self.assertEqual(self.keys(bucket), ["a", "b"])
        self.assertEqual(self.request("GET", f"/{bucket}?lifecycle").status, 404)

    def test_a_key_with_a_nul_is_not_made_and_is_no_other_key(self):
        bucket = self.bucket_with("a")
        for method, path, headers in (("PUT", f"/{bucket}/a%00b", {}), ("POST", f"/{bucket}/a%00b?uploads", {}),
                                      ("PUT", f"/{bucket}/a%00b", {"x-amz-copy-source": f"/{bucket}/a"})):
            self.assertEqual(self.request(method, path, headers).code, "InvalidArgument", method)
        self.assertEqual(self.request("PUT", f"/{bucket}/copy", {"x-amz-copy-source": f"/{bucket}/a%00b"}).code, "NoSuchKey")
        self.assertEqual(self.request("GET", f"/{bucket}/a%00b").code, "NoSuchKey")  # in XML that can be read
        self.assertEqual(self.request("DELETE", f"/{bucket}/a%00b").status, 204)
        self.assertEqual(self.keys(bucket), ["a"])

    def test_a_nul_in_a_policy_is_refused(self):
        bucket = self.new_bucket()
        text = document(statement("s3:GetObject", resource=f"arn:aws:s3:::{bucket}/a\0*", Principal="*")).encode()
        self.assertEqual(self.request("PUT", f"/{bucket}?policy", body=text).code, "MalformedPolicy")
        name = self.user()[0]
        with self.assertRaises(botocore.exceptions.ClientError):
            self.iam.put_user_policy(UserName=name, PolicyName="q", PolicyDocument=document(statement("s3:*", resource="arn:aws:s3:::b\0/*")))

    def test_a_signed_header_that_is_split_at_its_comma_is_refused(self):
        bucket = self.bucket_with("k", "k,v")
        path, source = f"/{bucket}/copy", f"/{bucket}/k,v"
        headers = self.sign("PUT", path, {"x-amz-copy-source": source})
        whole, (first, rest) = headers.pop("x-amz-copy-source"), source.split(",")
        lines = self.head("PUT", path, 0, headers)[:-2]
        for split in (f"x-amz-copy-source: {first}\r\nx-amz-copy-source: {rest}", f"X-Amz-Copy-Source: {first}\r\nx-amz-COPY-source: {rest}"):
            with self.connect() as connection:
                connection.sendall(lines + split.encode() + b"\r\n\r\n")
                reply = self.first_answer(connection)
            self.assertEqual((reply.status, reply.text("Message")), (400, "A single-value header is repeated."))
        self.assertEqual(self.keys(bucket), ["k", "k,v"])
        with self.connect() as connection:
            connection.sendall(lines + f"x-amz-copy-source: {whole}\r\n\r\n".encode())
            self.assertEqual(self.first_answer(connection).status, 200)

    def test_other_headers_of_one_value_are_not_taken_twice(self):
        bucket = self.bucket_with("k")
        for name, values in {"Range": ("bytes=0-0", "bytes=1-1"), "If-Match": ('"x"', "*"), "If-None-Match": ("*", '"x"'),
                             "If-Modified-Since": ("Thu, 01 Jan 1970 00:00:00 GMT",) * 2, "Authorization": ("AWS a:b", "AWS c:d"),
                             "x-amz-date": ("20260101T000000Z",) * 2, "Content-Type": ("a/b", "c/d")}.items():
            with self.subTest(name=name), self.connect() as connection:
                lines = "".join(f"{name}: {value}\r\n" for value in values)
                connection.sendall(f"GET /{bucket}/k HTTP/1.1\r\nHost: {self.address}\r\n{lines}\r\n".encode())
                self.assertEqual(self.first_answer(connection).status, 400)

    # Rights that cover too much, or last too long.

    def test_an_arn_with_an_account_is_no_other_account(self):
        made = {}
        for name in ("alice", "bob"):
            added = subprocess.run([program(), "user", "add", name, "--id", name, "--json"], env=self.env, capture_output=True, timeout=60, check=True)
            made[name] = json.loads(added.stdout)
        alice, bob = (self.client("s3", made[name]["access_key"], made[name]["secret_key"]) for name in ("alice", "bob"))
        alice.create_bucket(Bucket="of-alice")
        alice.put_object(Bucket="of-alice", Key="k", Body=b"text")

        def allow(principal):
            alice.put_bucket_policy(Bucket="of-alice", Policy=document(statement("s3:GetObject", resource="arn:aws:s3:::of-alice/*",
                                                                                 Principal={"AWS": principal})))
        for principal in ("arn:aws:iam::alice:user/bob", f"arn:aws:iam::{made['alice']['account_id']}:user/bob", "arn:aws:iam::elsewhere:user/bob"):
            with self.subTest(principal=principal):
                allow(principal)
                self.assert_error("AccessDenied", 403, bob.get_object, Bucket="of-alice", Key="k")
        allow("arn:aws:iam:::user/bob")
        self.assertEqual(bob.get_object(Bucket="of-alice", Key="k")["Body"].read(), b"text")

    def test_sessions_end_with_the_key_that_made_them(self):
        bucket = self.bucket_with("k")
        name, key, secret = self.user(statement("s3:*", "sts:*"))
        self.iam.create_role(RoleName="ends", AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "000000000000"}}]}))
        self.iam.put_role_policy(RoleName="ends", PolicyName="p", PolicyDocument=document(statement("s3:*", "sts:*")))
        sts = self.client("sts", key, secret)

        def session(answer):
            made = answer["Credentials"]
            return self.client("s3", made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"])
        first = sts.assume_role(RoleArn="arn:aws:iam::000000000000:role/ends", RoleSessionName="one")
        sessions = [session(sts.get_session_token()), session(first)]
        chained = self.client("sts", *(first["Credentials"][field] for field in ("AccessKeyId", "SecretAccessKey", "SessionToken")))
        sessions.append(session(chained.assume_role(RoleArn="arn:aws:iam::000000000000:role/ends", RoleSessionName="two")))
        for s3 in sessions:
            s3.head_object(Bucket=bucket, Key="k")
        self.iam.delete_access_key(UserName=name, AccessKeyId=key)
        for s3 in sessions:
            self.assert_error("InvalidAccessKeyId", 403, s3.list_objects_v2, Bucket=bucket)

    def test_older_sessions_are_revoked_by_the_time_of_their_token(self):
        bucket = self.bucket_with("k")
        name, key, secret = self.user(statement("s3:*", "sts:*"))
        made = self.client("sts", key, secret).get_session_token()["Credentials"]
        s3 = self.client("s3", made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"])
        s3.head_object(Bucket=bucket, Key="k")

        def revoke(before):
            self.iam.put_user_policy(UserName=name, PolicyName="AWSRevokeOlderSessions", PolicyDocument=document(statement(
                "*", effect="Deny", Condition={"DateLessThan": {"aws:TokenIssueTime": before}})))
        revoke("2020-01-01T00:00:00Z")
        s3.head_object(Bucket=bucket, Key="k")
        revoke(time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + 60)))
        self.assert_error("AccessDenied", 403, s3.list_objects_v2, Bucket=bucket)
        self.client("s3", key, secret).head_object(Bucket=bucket, Key="k")

    def test_who_may_only_write_learns_of_no_key(self):
        bucket = self.bucket_with("there")
        tag = self.s3.head_object(Bucket=bucket, Key="there")["ETag"]
        writer = self.user(statement("s3:PutObject", "s3:DeleteObject"))
        answers = {}
        for key in ("there", "absent"):
            path = f"/{bucket}/{key}"
            upload = self.request_of(writer, "POST", path + "?uploads").text("UploadId")
            self.assertEqual(self.request_of(writer, "PUT", f"{path}?partNumber=1&uploadId={upload}", body=b"x").status, 200)
            deletion = f"<Delete><Object><Key>{key}</Key><ETag>x</ETag></Object></Delete>".encode()
            asked = [*(("PUT", path, {"If-Match": value}, b"x") for value in (tag, "*", '"x"')),
                     ("PUT", path, {"If-None-Match": tag}, b"x"),
                     ("PUT", path, {"If-Match": "*", "x-amz-copy-source": f"/{bucket}/another"}, b""),
                     ("PUT", f"/{bucket}/copy", {"x-amz-copy-source-if-match": '"x"', "x-amz-copy-source": path}, b""),
                     ("POST", f"{path}?uploadId={upload}", {"If-Match": "*"}, b"<x/>"),
                     ("DELETE", path, {"If-Match": '"x"'}, b""), ("DELETE", path, {"x-amz-if-match-size": "1"}, b""),
                     ("POST", f"/{bucket}?delete", {"Content-MD5": md5(deletion)}, deletion),
                     ("GET", path, {}, b""), ("GET", path, {"If-None-Match": tag}, b""), ("GET", path + "?tagging", {}, b""),
                     ("GET", path + "?acl", {}, b""), ("GET", path + "?attributes", {"x-amz-object-attributes": "ETag"}, b""),
                     ("PUT", path + "?tagging", {}, b"<x/>"), ("PUT", path + "?retention", {}, b"<x/>")]
            for number, (method, target, headers, body) in enumerate(asked):
                reply = self.request_of(writer, method, target, headers, body)
                answers.setdefault(number, []).append((method, reply.status, reply.code))
        for number, told in answers.items():
            with self.subTest(number=number):
                self.assertEqual(told[0], told[1], "tells the two keys apart")
                self.assertEqual(told[0][2], "AccessDenied")
        self.assertEqual(self.keys(bucket), ["there"])
        self.assertEqual(self.s3.head_object(Bucket=bucket, Key="there")["ETag"], tag)

    def test_a_bucket_that_is_removed_with_its_uploads_leaves_none(self):
        bucket = self.new_bucket()
        for number in range(300):
            self.s3.create_multipart_upload(Bucket=bucket, Key=f"k{number % 7}")
        self.s3.delete_bucket(Bucket=bucket)
        self.s3.create_bucket(Bucket=bucket)
        self.assertEqual(self.s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []), [])



class FewDescriptors(S3Case):
    """A server with few file descriptors, as in some containers: they are shared fairly, too."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(files=1024)
        cls.server.start()
        cls.s3 = boto3_client(cls.server.http)
        cls.buckets = 0

    def test_one_address_that_connects_for_ever_keeps_nobody_else_out(self):
        bucket = self.new_bucket()
        self.s3.put_object(Bucket=bucket, Key="k", Body=b"text")
        host, port = self.address.split(":")
        held = []
        try:
            for _ in range(1500):
                held.append(socket.create_connection((host, int(port)), timeout=5, source_address=("127.0.0.2", 0)))
            for _ in range(20):
                other = http.client.HTTPConnection(self.address, timeout=10, source_address=("127.0.0.3", 0))
                path = f"/{bucket}/k"
                other.request("GET", path, headers=self.sign("GET", path))
                self.assertEqual(Reply(other.getresponse()).body, b"text")
                other.close()
        finally:
            for connection in held:
                connection.close()


if __name__ == "__main__":
    unittest.main()
