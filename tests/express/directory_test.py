#!/usr/bin/python3
"""Directory buckets over HTTP, in sessions that are opened and signed by hand, and what strangers try with them."""
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from express_case import ZONE, Express  # noqa: E402
from verbena_server import Server, boto3_client  # noqa: E402

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
