#!/usr/bin/python3
"""Directory buckets over HTTP, in sessions that are opened and signed by hand, and attacks by unauthenticated
clients."""
import base64
import json
import os
import pathlib
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from express_case import ZONE, Express, iam_call, make_user  # noqa: E402
from verbena_server import ACCESS_KEY, Server, boto3_client  # noqa: E402

BUCKET = f"by-hand--{ZONE}--x-s3"
OTHER = f"other--{ZONE}--x-s3"


class Directory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(env={"VERBENA_DOMAIN": "s3.test"}).start()
        cls.root = Express(cls.server.http)
        cls.root.make_bucket(BUCKET)
        cls.root.make_bucket(OTHER)
        cls.session = cls.root.open_session(BUCKET)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_objects_in_a_session(self):
        s = self.session
        self.assertEqual(s.call("PUT", f"/{BUCKET}/a/b", "data", {"x-amz-meta-a": "1"}).status, 200)
        got = s.call("GET", f"/{BUCKET}/a/b")
        self.assertEqual((got.status, got.body, got.headers["x-amz-meta-a"]), (200, b"data", "1"))
        self.assertEqual(got.headers["x-amz-storage-class"], "EXPRESS_ONEZONE")
        self.assertEqual(s.call("GET", f"/{BUCKET}?list-type=2&prefix=a%2F").element("Key"), "a/b")
        self.assertEqual(s.call("DELETE", f"/{BUCKET}/a/b").status, 204)

    def test_virtual_hosts(self):
        s = self.session
        for host in (f"{BUCKET}.s3express-{ZONE}.s3.test", f"{BUCKET}.s3.test"):
            self.assertEqual(s.call("PUT", "/in-host", "x", host=host).status, 200, host)
            self.assertEqual(s.call("GET", f"/{BUCKET}/in-host").body, b"x")
        listed = self.root.call("GET", "/", host="s3express-control.s3.test")
        self.assertIn(BUCKET.encode(), listed.body)

    def test_append_and_rename(self):
        s = self.session
        for at, text in ((0, "one "), (4, "two")):
            put = s.call("PUT", f"/{BUCKET}/log", text, {"x-amz-write-offset-bytes": str(at)})
            self.assertEqual((put.status, put.headers["x-amz-object-size"]), (200, str(at + len(text))))
        wrong = s.call("PUT", f"/{BUCKET}/log", "x", {"x-amz-write-offset-bytes": "1"})
        self.assertEqual((wrong.status, wrong.code), (400, "InvalidWriteOffset"))
        self.assertEqual(s.call("PUT", f"/{BUCKET}/log2?renameObject", headers={"x-amz-rename-source": "log"}).status, 200)
        self.assertEqual(s.call("GET", f"/{BUCKET}/log2").body, b"one two")
        self.assertEqual(s.call("GET", f"/{BUCKET}/log").code, "NoSuchKey")

    def test_the_lasting_keys_do_without_a_session(self):
        s3 = boto3_client(self.server.http)
        s3.put_object(Bucket=BUCKET, Key="plain", Body=b"x")
        self.assertEqual(s3.get_object(Bucket=BUCKET, Key="plain")["Body"].read(), b"x")
        names = [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
        self.assertNotIn(BUCKET, names)

    def test_a_session_is_good_for_nothing_else(self):
        s = self.session
        self.assertEqual(s.call("GET", f"/{OTHER}?list-type=2").code, "AccessDenied")
        self.assertEqual(s.call("GET", f"/{BUCKET}?session").code, "AccessDenied")
        self.assertEqual(s.call("DELETE", f"/{BUCKET}").code, "AccessDenied")
        self.assertEqual(s.call("GET", "/").code, "AccessDenied")
        copied = s.call("PUT", f"/{BUCKET}/stolen", headers={"x-amz-copy-source": f"{OTHER}/x"})
        self.assertEqual(copied.code, "AccessDenied")
        reader = self.root.open_session(BUCKET, "ReadOnly")
        self.assertEqual(reader.call("GET", f"/{BUCKET}?list-type=2").status, 200)
        self.assertEqual(reader.call("PUT", f"/{BUCKET}/x", "x").code, "AccessDenied")

    def test_its_token_is_taken_nowhere_else(self):
        access, secret, token = self.session.session
        as_s3 = Express(self.server.http, service="s3", keys=(access, secret))
        denied = as_s3.call("GET", f"/{BUCKET}/plain", headers={"x-amz-security-token": token})
        self.assertEqual(denied.code, "InvalidToken", "as STS's token it would have no limits")
        as_s3.session = self.session.session
        self.assertEqual(as_s3.call("GET", f"/{BUCKET}?list-type=2").code, "InvalidToken")
        for service in ("iam", "sts"):
            call = Express(self.server.http, service=service, keys=(access, secret)).call(
                "POST", "/", "Action=GetSessionToken&Version=2011-06-15",
                {"x-amz-security-token": token, "content-type": "application/x-www-form-urlencoded"})
            self.assertGreaterEqual(call.status, 400)
            self.assertNotIn(b"SessionToken", call.body)

    def test_forged_tokens(self):
        access, secret, token = self.session.session
        for forged in (token[:-8], token[:40], "A" * len(token), "", "!", token + "AAAA", "A" * 20_000,
                       token[:50] + ("A" if token[50] != "A" else "B") + token[51:]):
            answer = Express(self.server.http, (access, secret, forged)).call("GET", f"/{BUCKET}?list-type=2")
            self.assertGreaterEqual(answer.status, 400, forged[:20])
            self.assertIn(answer.code, ("InvalidToken", "InvalidAccessKeyId", "RequestHeaderSectionTooLarge"), forged[:20])
        for keys in (("ASIAFORGED", secret), (access, secret + "x")):
            answer = Express(self.server.http, (*keys, token)).call("GET", f"/{BUCKET}?list-type=2")
            self.assertIn(answer.code, ("InvalidToken", "SignatureDoesNotMatch"))
        two = Express(self.server.http, (access, secret, token))
        both = two.call("GET", f"/{BUCKET}?list-type=2", headers={"x-amz-security-token": token})
        self.assertEqual(both.code, "InvalidToken")

    def test_the_log_holds_no_token(self):
        self.session.call("GET", f"/{BUCKET}/plain")
        self.assertNotIn(self.session.session[2][:40], self.server.log())

    def test_a_native_session_is_opened_in_a_session(self):
        body = json.dumps({"version": 1, "version_max": 3, "client_nonce": os.urandom(16).hex()}).encode()
        native = Express(f"http://{self.server.native}", self.session.session)
        answer = native.call("POST", "/-/session", body, {"content-type": "application/json"})
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(json.loads(answer.body)["version"], 3)
        forged = Express(f"http://{self.server.native}", (*self.session.session[:2], "AAAA"))
        self.assertEqual(forged.call("POST", "/-/session", body).status, 400)

    def test_offsets_at_limits(self):
        s = self.session
        s.call("PUT", f"/{BUCKET}/limits", "x")
        for offset in ("18446744073709551615", "9223372036854775808", "5497558138881"):
            answer = s.call("PUT", f"/{BUCKET}/limits", "y", {"x-amz-write-offset-bytes": offset})
            self.assertEqual(answer.code, "InvalidWriteOffset", offset)
        for offset in ("18446744073709551616", "-1", "0x1", "1.0", "1,1", ""):
            answer = s.call("PUT", f"/{BUCKET}/limits", "y", {"x-amz-write-offset-bytes": offset})
            self.assertEqual(answer.code, "InvalidArgument", offset)
        self.assertEqual(s.call("GET", f"/{BUCKET}/limits").body, b"x")


class ATenantWithOneRight(unittest.TestCase):
    """A tenant that may read one bucket, in sessions, and nothing else."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server().start()
        cls.root = Express(cls.server.http)
        for bucket in (BUCKET, OTHER):
            cls.root.make_bucket(bucket)
            assert cls.root.call("PUT", f"/{bucket}/k", "data").status == 200
        cls.keys = make_user(cls.server.http, "reader", cls.policy())
        cls.tenant = Express(cls.server.http, keys=cls.keys)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    @staticmethod
    def policy(effect="Allow"):
        return {"Version": "2012-10-17", "Statement": {
            "Effect": effect, "Action": "s3express:CreateSession", "Resource": f"arn:aws:s3express:us-east-1:000000000000:bucket/{BUCKET}",
            "Condition": {"StringEquals": {"s3express:SessionMode": "ReadOnly"}}}}

    def refused(self, session, code="AccessDenied", bucket=BUCKET):
        for method, path, headers in (("PUT", "/k", {}), ("PUT", "/k", {"x-amz-write-offset-bytes": "4"}), ("DELETE", "/k", {}),
                                      ("PUT", "/k2?renameObject", {"x-amz-rename-source": "k"}), ("POST", "/k?uploads", {})):
            answer = session.call(method, f"/{bucket}{path}", "x" if method == "PUT" and "?" not in path else b"", headers)
            self.assertEqual(answer.code, code, f"{method} {path}")

    def test_reads_and_does_nothing_else(self):
        session = self.tenant.open_session(BUCKET, "ReadOnly")
        self.assertEqual(session.call("GET", f"/{BUCKET}/k").body, b"data")
        self.refused(session)
        self.refused(session, bucket=OTHER)
        for bucket, mode in ((BUCKET, "ReadWrite"), (OTHER, "ReadOnly")):
            refused = self.tenant.call("GET", f"/{bucket}?session", headers={"x-amz-create-session-mode": mode})
            self.assertEqual(refused.code, "AccessDenied", f"{bucket} {mode}")

    def test_what_stands_open_in_a_token_cannot_be_written_anew(self):
        session = self.tenant.open_session(BUCKET, "ReadOnly")
        access, secret, token = session.session
        body = base64.b64decode(token)
        self.assertIn(BUCKET.encode(), body)
        longer = bytearray(body)
        longer[11:16] = (2**40 - 1).to_bytes(5, "big")
        writer = bytearray(body)
        self.assertEqual(writer[16], 1, "read-only")
        writer[16] = 0
        other_bucket = body.replace(BUCKET.encode(), OTHER.encode().ljust(len(BUCKET), b"-"))
        roots = body.replace(self.keys[0].encode(), ACCESS_KEY.encode().ljust(len(self.keys[0]), b"A"))
        for forged in (bytes(longer), bytes(writer), other_bucket, roots, body[:-16] + bytes(16), body + b"\0", body[1:], b"\2" * 200):
            answer = Express(self.server.http, (access, secret, base64.b64encode(forged).decode())).call("GET", f"/{BUCKET}/k")
            self.assertEqual(answer.code, "InvalidToken", forged)
        own = Express(self.server.http, (*self.keys, token)).call("GET", f"/{BUCKET}/k")
        self.assertEqual(own.code, "InvalidToken", "the lasting key takes no token")
        theirs = self.root.open_session(BUCKET).session
        for mixed in ((access, secret, theirs[2]), (theirs[0], secret, theirs[2])):
            answer = Express(self.server.http, mixed).call("GET", f"/{BUCKET}/k")
            self.assertIn(answer.code, ("InvalidToken", "SignatureDoesNotMatch"))

    def test_very_many_sessions_end_with_the_right(self):
        sessions = [self.tenant.open_session(BUCKET, "ReadOnly") for _ in range(60)]
        for session in sessions:
            self.assertEqual(session.call("GET", f"/{BUCKET}/k").status, 200)
        roots = self.root.open_session(BUCKET)
        iam_call(self.server.http, "PutUserPolicy", UserName="reader", PolicyName="p", PolicyDocument=json.dumps(self.policy("Deny")))
        try:
            for session in sessions:
                self.assertEqual(session.call("GET", f"/{BUCKET}/k").code, "AccessDenied")
            self.assertEqual(roots.call("GET", f"/{BUCKET}/k").status, 200)
        finally:
            for session in sessions:
                session.connection.close()
            iam_call(self.server.http, "PutUserPolicy", UserName="reader", PolicyName="p", PolicyDocument=json.dumps(self.policy()))


class SealedAppends(unittest.TestCase):
    """Appends to encrypted objects: in a session signed by hand, and by a boto3 without offsets, with long-term
    keys."""
    KEY = "of-logs"
    WAYS = {"s3": {"ServerSideEncryption": "AES256"}, "kms": {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": KEY},
            "kms, the bucket's key": {"ServerSideEncryption": "aws:kms"}}

    @classmethod
    def setUpClass(cls):
        cls.server = Server(args=["--set", "encryption.kms_keys=of-logs,another"]).start()
        cls.root = Express(cls.server.http)
        cls.root.make_bucket(BUCKET)
        cls.root.make_bucket(OTHER)
        rule = ("<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm>"
                f"<KMSMasterKeyID>{cls.KEY}</KMSMasterKeyID></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>")
        assert cls.root.call("PUT", f"/{BUCKET}?encryption", rule).status == 200

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_in_a_session(self):
        session = self.root.open_session(BUCKET)
        names = {"ServerSideEncryption": "x-amz-server-side-encryption", "SSEKMSKeyId": "x-amz-server-side-encryption-aws-kms-key-id"}
        for number, how in enumerate(self.WAYS.values()):
            headers = {names[name]: value for name, value in how.items()}
            path, size = f"/{BUCKET}/by-hand-{number}", 0
            for text in ("one ", "two ", "three"):
                put = session.call("PUT", path, text, {**headers, "x-amz-write-offset-bytes": str(size)})
                size += len(text)
                self.assertEqual((put.status, put.headers.get("x-amz-object-size")), (200, str(size)), put.body)
                self.assertEqual(put.headers["x-amz-server-side-encryption"], how["ServerSideEncryption"])
            self.assertEqual(session.call("GET", path).body, b"one two three")
            wrong = {"x-amz-server-side-encryption": "aws:kms", "x-amz-server-side-encryption-aws-kms-key-id": "another"}
            refused = session.call("PUT", path, "x", {**wrong, "x-amz-write-offset-bytes": str(size)})
            self.assertEqual((refused.status, refused.code), (400, "EncryptionTypeMismatch"))

    def test_by_boto3(self):
        s3 = boto3_client(self.server.http)
        offset = []
        s3.meta.events.register("before-call.s3.PutObject", lambda params, **_: params["headers"].update({"x-amz-write-offset-bytes": str(offset[-1])}))
        for name, how in self.WAYS.items():
            whole = b""
            for text in (b"one ", b"two ", b"three" * 100_000):
                offset.append(len(whole))
                stored = s3.put_object(Bucket=BUCKET, Key=name, Body=text, **how)
                whole += text
                self.assertEqual(stored["ServerSideEncryption"], how["ServerSideEncryption"])
                self.assertEqual(stored.get("SSEKMSKeyId"), None if name == "s3" else self.KEY)
            got = s3.get_object(Bucket=BUCKET, Key=name)
            self.assertEqual(got["Body"].read(), whole)
            self.assertEqual(s3.get_object(Bucket=BUCKET, Key=name, Range="bytes=2-9")["Body"].read(), whole[2:10])

    def test_without_a_configuration_no_key_is_meant(self):
        answer = self.root.open_session(OTHER).call("PUT", f"/{OTHER}/k", "x", {"x-amz-server-side-encryption": "aws:kms"})
        self.assertEqual((answer.status, answer.code), (400, "InvalidArgument"))


class AppendsRace(unittest.TestCase):
    """Concurrent appends of several writers, while the log is removed and renamed: a reader sees whole records, in
    the order of each writer's acknowledgements, none twice."""
    RECORD, WRITERS, ROUNDS = 50, 3, 60
    ENCRYPTION = None

    def write(self, session, number, acknowledged):
        for serial in range(self.ROUNDS):
            head = session.call("HEAD", f"/{BUCKET}/log")
            size = int(head.headers["content-length"]) if head.status == 200 else 0
            answer = session.call("PUT", f"/{BUCKET}/log", f"{number} {serial}".ljust(self.RECORD - 1) + "\n",
                                  {"x-amz-write-offset-bytes": str(size)})
            if answer.status == 200:
                acknowledged.append((number, serial, int(answer.headers["x-amz-object-size"])))
            else:
                self.refusals.add(answer.code)

    def disturb(self, session, done):
        while not done.is_set():
            session.call("DELETE", f"/{BUCKET}/log")
            session.call("PUT", f"/{BUCKET}/log", headers={"x-amz-write-offset-bytes": "0"})  # no body: refused
            session.call("PUT", f"/{BUCKET}/kept?renameObject", headers={"x-amz-rename-source": "log"})
            for key in ("log", "kept"):
                self.check(session.call("GET", f"/{BUCKET}/{key}"))

    def check(self, answer):
        if answer.status == 404:
            return
        assert answer.status == 200, answer.body
        assert len(answer.body) % self.RECORD == 0, len(answer.body)
        records = [tuple(map(int, line.split())) for line in answer.body.decode().splitlines()]
        assert len(set(records)) == len(records), records
        for number in range(self.WRITERS):
            mine = [serial for writer, serial in records if writer == number]
            assert mine == sorted(mine), records

    def test_with_removals_and_renames(self):
        with Server() as server:
            self.root, self.refusals = Express(server.http), set()
            self.root.make_bucket(BUCKET)
            if self.ENCRYPTION:
                self.assertEqual(self.root.call("PUT", f"/{BUCKET}?encryption", self.ENCRYPTION).status, 200)
            acknowledged, done, failures = [], threading.Event(), []

            def guarded(work, *args):
                try:
                    work(*args)
                except Exception as error:  # reported by the test's own thread
                    failures.append(error)
            writers = [threading.Thread(target=guarded, args=(self.write, self.root.open_session(BUCKET), n, acknowledged)) for n in range(self.WRITERS)]
            others = threading.Thread(target=guarded, args=(self.disturb, self.root.open_session(BUCKET), done))
            for thread in (*writers, others):
                thread.start()
            for thread in writers:
                thread.join()
            done.set()
            others.join()
            self.assertEqual(failures, [])
            self.assertGreater(len(acknowledged), 0)
            self.assertTrue(all(size % self.RECORD == 0 for _, _, size in acknowledged))
            self.assertLessEqual(self.refusals, {"InvalidWriteOffset"})


class EncryptedAppendsRace(AppendsRace):
    """The same with encryption, where each rename binds the object's key to another name."""
    ENCRYPTION = ("<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256"
                  "</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>")


class TurnedOff(unittest.TestCase):
    def test_there_are_none(self):
        with Server(env={"VERBENA_S3_EXPRESS_ENABLED": "false"}) as server:
            self.assertEqual(Express(server.http, service="s3").call("GET", f"/{BUCKET}?list-type=2").code,
                             "InvalidBucketName")
            self.assertEqual(Express(server.http).call("GET", "/").code, "AuthorizationHeaderMalformed")
            plain = Express(server.http, service="s3")
            self.assertEqual(plain.call("PUT", "/general").status, 200)
            self.assertEqual(plain.call("PUT", "/general/k", "x", {"x-amz-write-offset-bytes": "0"}).status, 501)


if __name__ == "__main__":
    unittest.main()
