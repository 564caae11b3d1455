#!/usr/bin/python3
"""Reads of large objects: any range of any size returns the bytes of the PUT; a transfer makes one call for each
stripe; damage to a stripe or its checksums is an error and never other bytes; a reader that disconnects in the
middle leaves nothing behind."""
import http.client
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import verbena_server  # noqa: E402
from botocore.exceptions import ClientError  # noqa: E402
from ceph_cluster import CephCluster, skip_without_ceph  # noqa: E402
from verbena_server import boto3_client  # noqa: E402

BLOCK, STRIPE = 64 << 10, 4 << 20


class Server(verbena_server.Server):
    def __init__(self, ceph):
        super().__init__()
        settings = {"rados.conf": ceph.conf, "rados.pool": "data", "rados.index_pool": "index", "cache.size": 0}
        self.args = ["--engine", "rados"] + [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]

    def metric(self, pattern):
        with urllib.request.urlopen(f"http://{self.native}/-/metrics", timeout=30) as reply:
            return sum(float(value) for value in re.findall(rf"^{pattern} (\S+)$", reply.read().decode(), re.M))

    def reads(self):
        return self.metric(r'verbena_rados_calls_total\{kind="read"\}')


class Stripes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ceph = cls.enterClassContext(CephCluster(osds=1))
        cls.ceph.pool("index")
        cls.ceph.pool("data")
        cls.server = cls.enterClassContext(Server(cls.ceph))
        cls.s3 = boto3_client(cls.server.http)
        cls.addClassCleanup(cls.s3.close)
        cls.s3.create_bucket(Bucket="bucket")

    def put(self, size):
        """Puts an object: key, bytes, and the names of its stripes in order."""
        before = self.stripes()
        key, body = f"{self.id()}/{size}", os.urandom(size)
        self.s3.put_object(Bucket="bucket", Key=key, Body=body)
        return key, body, sorted(self.stripes() - before, key=lambda name: int(name.rsplit(".", 1)[1], 16))

    def get(self, key, first=None, last=None):
        wanted = {} if first is None else {"Range": f"bytes={first}-{last}"}
        return self.s3.get_object(Bucket="bucket", Key=key, **wanted)["Body"].read()

    def rados(self, *arguments, data=None):
        return subprocess.run(["rados", "-c", self.ceph.conf, "-p", "data", *arguments], input=data, cwd="/", timeout=60, check=True,
                              stdout=subprocess.PIPE).stdout

    def stripes(self):
        return set(self.rados("ls").decode().split())

    def fails(self, key, **wanted):
        """A GET fails, at once or with a truncated body."""
        try:
            self.s3.get_object(Bucket="bucket", Key=key, **wanted)["Body"].read()
        except ClientError as error:
            return error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500
        except Exception as error:  # botocore's exception for a truncated body depends on its version
            return type(error).__name__ in ("IncompleteReadError", "ResponseStreamingError", "ProtocolError")
        return False

    def test_objects_of_all_sizes_and_ranges_over_the_borders_of_stripes(self):
        for size in (1, BLOCK, BLOCK + 1, STRIPE - 1, STRIPE, STRIPE + 1, 2 * STRIPE + 3 * BLOCK + 17):
            key, body, _ = self.put(size)
            self.assertTrue(self.get(key) == body, size)
            ranges = {(0, 0), (size - 1, size - 1), (size // 3, 2 * size // 3), (STRIPE - 1, STRIPE), (STRIPE - BLOCK - 1, STRIPE + BLOCK),
                      (STRIPE - 1, 2 * STRIPE), (STRIPE // 2 + 1, STRIPE // 2 + (2 << 20))}
            for first, last in ranges:
                if last < size:
                    self.assertTrue(self.get(key, first, last) == body[first:last + 1], (size, first, last))

    def test_one_call_for_each_stripe(self):
        """Plus one for the row. The minimum of several tries: the server makes calls of its own, too."""
        for size, stripes in ((1 << 20, 1), (STRIPE, 1), (STRIPE + 1, 2), (4 * STRIPE, 4)):
            key, body, names = self.put(size)
            self.assertEqual(len(names), stripes)
            counted = []
            for _ in range(10):
                before = self.server.reads()
                self.assertTrue(self.get(key) == body)
                counted.append(self.server.reads() - before)
            self.assertEqual(min(counted), 1 + stripes, size)

    def test_damage_is_an_error(self):
        def a_bit_in_the_middle(name):
            bytes_there = bytearray(self.rados("get", name, "-"))
            bytes_there[STRIPE // 2 + 12345] ^= 1
            self.rados("put", name, "-", data=bytes(bytes_there))

        def an_end_that_is_missing(name):
            self.rados("truncate", name, str(STRIPE - 1))

        def checksums_that_are_missing(name):
            self.rados("rmxattr", name, "c")

        def checksums_that_end_early(name):
            self.rados("setxattr", name, "c", "abcd")

        def a_stripe_that_is_missing(name):
            self.rados("rm", name)

        for damage in (a_bit_in_the_middle, an_end_that_is_missing, checksums_that_are_missing, checksums_that_end_early,
                       a_stripe_that_is_missing):
            for stripe in (0, 1):
                with self.subTest(damage=damage.__name__, stripe=stripe):
                    key, body, names = self.put(2 * STRIPE)
                    damage(names[stripe])
                    self.assertTrue(self.fails(key))
                    at = stripe * STRIPE + (STRIPE - BLOCK - 1 if damage is an_end_that_is_missing else STRIPE // 2)
                    self.assertTrue(self.fails(key, Range=f"bytes={at}-{at + BLOCK}"))
                    other = (1 - stripe) * STRIPE
                    self.assertTrue(self.get(key, other, other + STRIPE - 1) == body[other:other + STRIPE])
                    if damage is a_bit_in_the_middle:  # neighbouring blocks are intact
                        first = stripe * STRIPE
                        self.assertTrue(self.get(key, first, first + BLOCK) == body[first:first + BLOCK + 1])

    def test_readers_that_go_away_in_the_middle_leave_nothing_behind(self):
        key, body, _ = self.put(16 * STRIPE)
        url = urllib.parse.urlsplit(self.s3.generate_presigned_url("get_object", {"Bucket": "bucket", "Key": key}))
        for _ in range(20):
            connection = http.client.HTTPConnection(url.netloc, timeout=60)
            connection.request("GET", f"{url.path}?{url.query}")
            with connection.getresponse() as reply:
                self.assertTrue(reply.read(100_000) == body[:100_000])
            connection.close()
        leased, deadline = r"verbena_memory_leased_bytes", time.monotonic() + 30
        before = self.server.metric(leased)
        while self.server.metric(leased) > 8 << 20 and time.monotonic() < deadline:
            time.sleep(0.2)
        self.assertLessEqual(self.server.metric(leased), 8 << 20, before)
        self.assertTrue(self.get(key) == body)


if __name__ == "__main__":
    skip_without_ceph()
    unittest.main()
