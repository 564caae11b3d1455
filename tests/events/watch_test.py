#!/usr/bin/python3
"""Watches and their endings: revoked rights, deleted keys, ended sessions, killed servers; and a lifecycle rule.

usage: watch_test.py PYTHON_PACKAGE   (the folder with the package `verbena`)
"""
import json
import pathlib
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "lib"), sys.argv.pop(1) if len(sys.argv) > 1 else str(ROOT / "build" / "python")]
from iam_case import IamCase, policy  # noqa: E402
from signed_call import call  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, program  # noqa: E402
import verbena  # noqa: E402

MAY_LIST_A = json.dumps({"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*", "Condition": {"StringLike": {"s3:prefix": "a/*"}}}]})


def connect(server, key=ACCESS_KEY, secret=SECRET_KEY, provider="tcp"):
    return verbena.connect(server.http, native_endpoint=server.native, access_key=key, secret_key=secret, via="native", provider=provider)


class Rights(IamCase):
    server_args = ("--set", "lifecycle_day=1")

    def setUp(self):
        self.bucket = self.new_bucket()

    def watch(self, user, prefix="a/"):
        client = connect(self.server, *user)
        self.addCleanup(client.close)
        watch = client.watch(self.bucket, prefix)
        self.addCleanup(watch.end)
        return watch

    def put(self, key):
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=b"x")

    def ended(self, watch, within=5):
        """A waiting watcher is notified although no key changes."""
        began = time.monotonic()
        with self.assertRaises(verbena.errors.AccessDenied):
            watch.next(timeout=30)
        self.assertLess(time.monotonic() - began, within)
        self.put("a/secret")
        with self.assertRaises(verbena.VerbenaError):
            watch.next(timeout=5)

    def test_the_right_to_list_is_the_right_to_watch(self):
        _, user = self.user_with_key(self.iam, MAY_LIST_A)
        watch = self.watch(user)
        for prefix in ("", "a", "b/", "A/", "../a/"):
            with self.assertRaises(verbena.errors.AccessDenied):
                self.watch(user, prefix)
        self.put("b/k")
        self.put("a/k")
        self.assertEqual(watch.next(timeout=10).key, "a/k")
        _, reader = self.user_with_key(self.iam, policy("s3:GetObject"))
        with self.assertRaises(verbena.errors.AccessDenied):
            self.watch(reader)

    def test_a_policy_that_is_taken_away_ends_it(self):
        name, user = self.user_with_key(self.iam, MAY_LIST_A)
        watch = self.watch(user)
        threading.Timer(0.3, lambda: self.iam.delete_user_policy(UserName=name, PolicyName="p0")).start()
        self.ended(watch)

    def test_what_makes_room_in_a_bounded_bucket_is_told(self):
        bound = b"<BoundConfiguration><MaxObjects>2</MaxObjects><Policy>lru</Policy></BoundConfiguration>"
        self.assertEqual(call(self.server, "PUT", f"/{self.bucket}?verbena-bound", bound)[0], 200)
        watch = self.watch((ACCESS_KEY, SECRET_KEY), "")
        for number in range(6):
            self.put(f"k{number}")
        told = []
        for _ in range(6 + 4):  # room is made before the object that needs it is there
            change = watch.next(timeout=10)
            self.assertIsNotNone(change, told)
            told.append((change.what, change.key))
        self.assertEqual([key for what, key in told if what == "created"], [f"k{number}" for number in range(6)])
        self.assertEqual(len({key for what, key in told if what == "evicted"}), 4, told)

    def test_a_bucket_policy_that_denies_ends_it(self):
        name, user = self.user_with_key(self.iam, policy("s3:*"))
        watch = self.watch(user)
        arn = self.iam.get_user(UserName=name)["User"]["Arn"]
        deny = json.dumps({"Version": "2012-10-17", "Statement": [
            {"Effect": "Deny", "Principal": {"AWS": arn}, "Action": "s3:ListBucket", "Resource": f"arn:aws:s3:::{self.bucket}"}]})
        threading.Timer(0.3, lambda: self.s3.put_bucket_policy(Bucket=self.bucket, Policy=deny)).start()
        self.ended(watch)

    def test_a_key_that_is_removed_ends_it(self):
        name, user = self.user_with_key(self.iam, MAY_LIST_A)
        watch = self.watch(user)
        threading.Timer(0.3, lambda: self.iam.delete_access_key(UserName=name, AccessKeyId=user[0])).start()
        with self.assertRaises(verbena.VerbenaError):
            watch.next(timeout=30)
        self.put("a/secret")
        with self.assertRaises(verbena.VerbenaError):
            watch.next(timeout=5)

    def test_a_session_that_the_operator_ends_is_a_gap(self):
        watch = self.watch((ACCESS_KEY, SECRET_KEY))
        sessions = json.loads(self.run_program("admin", "sessions", "--json"))["sessions"]
        self.put("a/before")
        self.assertEqual(watch.next(timeout=10).key, "a/before")
        for session in sessions:
            self.run_program("admin", "sessions", "end", session["id"])
        self.assertTrue(watch.next(timeout=30).is_gap)
        self.put("a/after")
        self.assertEqual(watch.next(timeout=10).key, "a/after")

    def test_a_bucket_that_goes_while_changes_wait_ends_it_and_one_of_its_name_is_another(self):
        watches = [self.watch((ACCESS_KEY, SECRET_KEY), "") for _ in range(2)]
        self.put("a/k")
        self.s3.delete_object(Bucket=self.bucket, Key="a/k")
        self.s3.delete_bucket(Bucket=self.bucket)
        with self.assertRaises(verbena.errors.NoSuchBucket):
            watches[0].next(timeout=10)
        self.s3.create_bucket(Bucket=self.bucket)
        self.put("a/of another")
        with self.assertRaises(verbena.errors.NoSuchBucket):
            watches[1].next(timeout=10)
        self.s3.head_bucket(Bucket=self.bucket)

    def test_what_a_form_stores_is_told(self):
        watch = self.watch((ACCESS_KEY, SECRET_KEY), "")
        fields = self.s3.generate_presigned_post(self.bucket, "form/k")["fields"]
        part = "--of-the-form\r\nContent-Disposition: form-data; name=\"{}\"{}\r\n\r\n{}\r\n"
        body = "".join([part.format(name, "", value) for name, value in fields.items()]
                       + [part.format("file", "; filename=\"f\"", "bytes"), "--of-the-form--\r\n"])
        request = urllib.request.Request(f"{self.server.http}/{self.bucket}", body.encode(),
                                         {"Content-Type": "multipart/form-data; boundary=of-the-form"})
        urllib.request.urlopen(request, timeout=30).close()
        change = watch.next(timeout=10)
        self.assertEqual((change.what, change.key, change.size), ("created", "form/k", 5))

    def test_what_a_lifecycle_rule_removes_is_told(self):
        watch = self.watch((ACCESS_KEY, SECRET_KEY), "")
        self.put("old/k")
        self.assertEqual(watch.next(timeout=10).what, "created")
        self.s3.put_bucket_lifecycle_configuration(Bucket=self.bucket, LifecycleConfiguration={"Rules": [
            {"ID": "r", "Status": "Enabled", "Filter": {"Prefix": "old/"}, "Expiration": {"Days": 1}}]})
        change = watch.next(timeout=60)
        self.assertEqual((change.what, change.key), ("removed", "old/k"))


class SamePlace(Server):
    """A server that restarts on the same ports."""

    def start(self):
        at = getattr(self, "at", ("127.0.0.1:0", "127.0.0.1:0"))
        self.process = subprocess.Popen([program(), "server", self.directory, "--http", at[0], "--rdma", at[1]], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.env)
        self._read_endpoints()
        self.at = (self.http.split("//")[1], self.native)
        return self


class Crashes(unittest.TestCase):
    def test_a_server_that_dies_is_an_error_and_then_a_gap(self):
        with SamePlace() as server, connect(server) as client:
            maker = verbena.connect(server.http, access_key=ACCESS_KEY, secret_key=SECRET_KEY, via="http")
            maker.make_bucket("bucket")
            watch = client.watch("bucket")
            maker.put("bucket", "k", b"one")
            self.assertEqual(watch.next(timeout=10).key, "k")
            server.kill()
            with self.assertRaises(ConnectionError):
                watch.next(timeout=20)
            server.start()
            change, until = None, time.monotonic() + 60
            while change is None and time.monotonic() < until:
                try:
                    change = watch.next(timeout=5)
                except ConnectionError:
                    time.sleep(0.5)
            self.assertTrue(change.is_gap, change)
            maker.put("bucket", "k", b"two!")
            change = watch.next(timeout=10)
            self.assertEqual((change.key, change.size), ("k", 4))
            watch.end()
            maker.close()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
