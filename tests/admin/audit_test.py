#!/usr/bin/python3
"""The access log: a line for every request of every door, and no secret in any of them.

usage: audit_test.py [unittest arguments]
"""
import base64
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, boto3_client, client_environment, program  # noqa: E402

CUSTOMER_KEY = b"k" * 32


class Audit(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.path = pathlib.Path(self.folder) / "access.log"
        (pathlib.Path(self.folder) / "data").mkdir(mode=0o700)

    def serve(self, *more):
        return Server(pathlib.Path(self.folder) / "data", args=["--set", f"access_log={self.path}", *more])

    def lines(self, path=None):
        return [json.loads(line) for line in (path or self.path).read_text().splitlines()]

    def run_program(self, server, *args, **more):
        return subprocess.run([program(), *args, "--endpoint", server.http, "--native", server.native],
                              env=client_environment("/nonexistent"), capture_output=True, **more)

    def test_every_door_and_every_outcome(self):
        with self.serve() as server:
            s3 = boto3_client(server.http)
            s3.create_bucket(Bucket="bkt")
            s3.put_object(Bucket="bkt", Key="dir/k\u00e9y", Body=b"x" * 1000)
            s3.get_object(Bucket="bkt", Key="dir/k\u00e9y")["Body"].read()
            s3.put_object_tagging(Bucket="bkt", Key="dir/k\u00e9y", Tagging={"TagSet": [{"Key": "a", "Value": "1"}]})
            with self.assertRaises(Exception):
                s3.get_object(Bucket="bkt", Key="none")
            for via in ("token", "native"):
                self.assertEqual(self.run_program(server, "put", "-", f"s3://bkt/{via}", "--via", via, input=b"y" * 50_000).returncode, 0)
                for _ in range(3):
                    self.assertEqual(len(self.run_program(server, "get", f"s3://bkt/{via}", "-", "--via", via).stdout), 50_000)
                self.run_program(server, "get", f"s3://bkt/no-{via}", "-", "--via", via)
        log = self.lines()

        def having(**fields):
            return [line for line in log if all(line.get(name) == value for name, value in fields.items())]
        self.assertEqual(len(having(action="PUT bucket", bucket="bkt", status=200, door="http")), 1)
        got, = having(action="GET object", key="dir/k\u00e9y")
        self.assertEqual((got["status"], got["bytes_out"], got["access_key"], got["peer"]), (200, 1000, ACCESS_KEY, "127.0.0.1"))
        self.assertGreaterEqual(got["duration_us"], 0)
        self.assertRegex(got["id"], "^[0-9A-F]{16}$")
        self.assertRegex(got["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual(len(having(action="PUT object?tagging", key="dir/k\u00e9y", status=200)), 1)
        self.assertEqual(having(key="none")[0]["error"], "NoSuchKey")
        for via in ("token", "native"):
            self.assertEqual(sum(line["bytes_out"] for line in having(door=via, key=via, action="GET object", status=200)), 150_000, via)
            self.assertEqual([line["bytes_in"] for line in having(door=via, key=via, action="PUT object", status=200)], [50_000], via)
        carried = {line["transport"] for line in having(door="native", key="native")}
        self.assertTrue(carried and carried <= {"shared_memory", "tcp"}, carried)
        self.assertEqual({line["transport"] for line in having(door="token", key="token")}, {"tcp"})
        self.assertEqual({line["rdma_bytes"] for line in log}, {0}, "there is no RDMA device under local and tcp")
        missing, = having(door="native", key="no-native")
        self.assertEqual((missing["status"], missing["error"], missing["access_key"]), (404, "NoSuchKey", ACCESS_KEY))
        self.assertTrue(having(door="native", action="POST session", status=200, access_key=ACCESS_KEY))

    def test_no_secret_is_in_it(self):
        with self.serve() as server:
            s3 = boto3_client(server.http)
            s3.create_bucket(Bucket="bkt")
            customer = dict(SSECustomerAlgorithm="AES256", SSECustomerKey=CUSTOMER_KEY)
            s3.put_object(Bucket="bkt", Key="k", Body=b"x", **customer)
            s3.get_object(Bucket="bkt", Key="k", **customer)
            s3.put_object(Bucket="bkt", Key="plain", Body=b"x")
            for version in ("s3v4", "s3"):
                from botocore.config import Config
                import boto3
                signer = boto3.client("s3", endpoint_url=server.http, aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY,
                                      region_name="us-east-1", config=Config(signature_version=version, s3={"addressing_style": "path"}))
                url = signer.generate_presigned_url("get_object", Params={"Bucket": "bkt", "Key": "plain"})
                self.assertEqual(urllib.request.urlopen(url).read(), b"x")
                with self.assertRaises(urllib.error.HTTPError):
                    urllib.request.urlopen(url[:-1] + ("0" if url[-1] != "0" else "1"))
            self.run_program(server, "get", "s3://bkt/plain", "-", "--via", "token")
            self.run_program(server, "get", "s3://bkt/plain", "-", "--via", "native")
        text = self.path.read_text()
        self.assertIn({"status": 403, "error": "SignatureDoesNotMatch", "path": "/bkt/plain"}, [
            {name: line.get(name) for name in ("status", "error", "path")} for line in self.lines()])
        self.assertGreater(len(text.splitlines()), 8)
        for secret in (SECRET_KEY, base64.b64encode(CUSTOMER_KEY).decode(), "Signature=", "X-Amz", "AWS4-HMAC", "ofi1", "rdma-token", "?X", "Expires"):
            self.assertNotIn(secret, text)

    def test_rotation_and_reopening(self):
        with self.serve("--set", "access_log_size_max=10000", "--set", "access_log_files=2") as server:
            s3 = boto3_client(server.http)
            for _ in range(150):
                s3.list_buckets()
            server.process.send_signal(signal.SIGHUP)
        names = sorted(os.listdir(self.folder))
        self.assertEqual([n for n in names if n.startswith("access")], ["access.log", "access.log.1", "access.log.2", "access.log.kept"])
        for end in (".1", ".2"):
            aside = self.path.with_name(self.path.name + end)
            self.assertTrue(self.lines(aside))
            self.assertLess(aside.stat().st_size, 11_000)
        self.path.unlink()
        with self.serve() as server:
            s3 = boto3_client(server.http)
            s3.list_buckets()
            deadline = time.monotonic() + 30
            while self.path.stat().st_size == 0 and time.monotonic() < deadline:
                time.sleep(0.02)
            self.path.rename(self.path.with_name("moved"))
            server.process.send_signal(signal.SIGHUP)
            while not self.path.exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            s3.list_buckets()
        self.assertEqual((len(self.lines()), len(self.lines(self.path.with_name("moved")))), (1, 1))


if __name__ == "__main__":
    unittest.main()
