#!/usr/bin/python3
"""Limits on what a caller can make the server write or hold, without displacing other callers' data: delete markers,
log objects, the audit log, connections. Each is an attack that succeeded once.

usage: bounds_test.py [unittest arguments]
"""
import base64
import hashlib
import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from s3_case import Reply, S3Case  # noqa: E402
from verbena_server import Server, boto3_client, client_environment, program  # noqa: E402

VERSIONED = {"Status": "Enabled"}
QUOTES = '"' * 4000


def delete_body(names):
    return ("<Delete>" + "".join(f"<Object><Key>{name}</Key></Object>" for name in names) + "</Delete>").encode()


class Quotas(S3Case):
    server_args = ("--set", "bucket_log_interval=1")

    def quota(self, bucket, **limits):
        body = json.dumps({"bucket": bucket, "quota": limits}).encode()
        self.assertEqual(self.request("POST", "/-/admin/quota-set", {}, body).status, 200)

    def delete_many(self, bucket, names, **headers):
        body = delete_body(names)
        headers["content-md5"] = base64.b64encode(hashlib.md5(body).digest()).decode()
        return self.request("POST", f"/{bucket}?delete=", headers, body)

    def test_markers_of_names_that_never_were_take_room(self):
        bucket = self.new_bucket()
        self.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=VERSIONED)
        self.s3.put_object(Bucket=bucket, Key="there", Body=b"x")
        self.quota(bucket, objects=1)
        for first in range(0, 2000, 1000):
            reply = self.delete_many(bucket, [f"never-{n}" for n in range(first, first + 1000)])
            self.assertEqual((reply.status, reply.body.count(b"<Code>QuotaExceeded</Code>")), (200, 1000))
        self.assertNotIn("DeleteMarkers", self.s3.list_object_versions(Bucket=bucket))
        self.assertTrue(self.s3.delete_object(Bucket=bucket, Key="there")["DeleteMarker"], "removing is never refused")
        with self.assertRaises(self.s3.exceptions.ClientError):
            self.s3.delete_object(Bucket=bucket, Key="there")

    def test_log_objects_take_room_of_the_targets_quota(self):
        bucket, logs = self.new_bucket(), self.new_bucket()
        self.s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={
            "LoggingEnabled": {"TargetBucket": logs, "TargetPrefix": ""}})
        self.quota(logs, bytes=1000)
        headers = {"user-agent": QUOTES, "referer": QUOTES}
        for _ in range(3):
            self.assertEqual(self.delete_many(bucket, [f"k{n}" for n in range(900)], **headers).status, 200)
        time.sleep(4)
        listed = self.s3.list_objects_v2(Bucket=logs).get("Contents", [])
        self.assertLessEqual(sum(one["Size"] for one in listed), 1000)
        self.quota(logs, bytes=1 << 30)
        self.assertEqual(self.delete_many(bucket, [f"k{n}" for n in range(900)], **headers).status, 200)
        deadline = time.monotonic() + 30
        while not listed and time.monotonic() < deadline:
            time.sleep(0.2)
            listed = self.s3.list_objects_v2(Bucket=logs).get("Contents", [])
        self.assertLess(sum(one["Size"] for one in listed), 900 * 400, "long texts are not there for each key")


class AuditLog(unittest.TestCase):
    def test_a_strangers_flood_leaves_others_lines(self):
        """Its own lines are short, whatever paths it sends."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "access.log"
            args = ["--set", f"access_log={path}", "--set", "access_log_size_max=200000", "--set", "access_log_files=2"]
            with Server(args=args) as server:
                s3 = boto3_client(server.http)
                s3.create_bucket(Bucket="precious")
                host, port = urllib.parse.urlsplit(server.http).netloc.split(":")
                stranger = http.client.HTTPConnection(host, int(port), timeout=30)
                for n in range(4000):
                    stranger.request("GET", "/precious/" + "%01" * 300 + str(n))
                    stranger.getresponse().read()
                stranger.close()
                s3.delete_bucket(Bucket="precious")
                s3.close()
            files = [name for name in os.listdir(folder) if name.startswith("access.log")]
            lines = [line for name in files for line in (pathlib.Path(folder) / name).read_text().splitlines()]
            refused = [line for line in lines if '"status":403' in line]
            self.assertLess(max(map(len, refused)), 1500)
            did = [json.loads(line)["action"] for line in lines if '"principal"' in line]
            self.assertIn("PUT bucket", did, "what was done before the flood is kept")
            self.assertIn("DELETE bucket", did)


class Connections(unittest.TestCase):
    LIMIT = 200

    def hold(self, port, count, first, sends):
        """Connections from as many addresses, each with the start of a request."""
        held = []
        for n in range(first, first + count):
            one = socket.socket()
            one.settimeout(10)
            one.bind((f"127.{1 + n // 60000}.{n // 250 % 240 + 1}.{n % 250 + 1}", 0))
            try:
                one.connect(("127.0.0.1", port))
                one.sendall(sends)
            except OSError:
                pass  # refused or displaced already
            held.append(one)
        return held

    def test_a_signed_client_gets_in_while_strangers_hold_all_places(self):
        limits = ["http.connections_max", "rdma.connections_max"]
        args = [word for name in limits for word in ("--set", f"{name}={self.LIMIT}")]
        with Server(args=args) as server:
            first = boto3_client(server.http)
            first.create_bucket(Bucket="bkt")
            first.put_object(Bucket="bkt", Key="key", Body=b"x" * 5000)
            http_port = urllib.parse.urlsplit(server.http).port
            native_port = int(server.native.split(":")[1])
            begins = [b"GET /bkt/key HTTP/1.1\r\nHo", b"", b"GET /-/health HTTP/1.1\r\nHost: h\r\n\r\n",
                      b"POST /bkt?delete HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nx"]
            for begin in begins:
                with self.subTest(begin=begin):
                    held = self.hold(http_port, 2 * self.LIMIT, 0, begin)
                    held += self.hold(native_port, 2 * self.LIMIT, 1000, begin)
                    for _ in range(20):
                        began = time.monotonic()
                        client = boto3_client(server.http)
                        self.assertEqual(client.get_object(Bucket="bkt", Key="key")["Body"].read(), b"x" * 5000)
                        client.close()
                        self.assertLess(time.monotonic() - began, 10)
                    got = subprocess.run([program(), "get", "s3://bkt/key", "-", "--via", "native", "--endpoint", server.http,
                                          "--native", server.native], env=client_environment("/nonexistent"),
                                         capture_output=True, timeout=30)
                    self.assertEqual((got.returncode, len(got.stdout)), (0, 5000), got.stderr)
                    self.assertEqual(first.get_object(Bucket="bkt", Key="key")["ContentLength"], 5000)
                    for one in held:
                        one.close()
            first.close()


if __name__ == "__main__":
    unittest.main()
