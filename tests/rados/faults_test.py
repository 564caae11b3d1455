#!/usr/bin/python3
"""A cluster that is frozen, has lost an OSD, or is full: requests get an answer with the reason, and succeed again
afterwards."""
import os
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import verbena_server  # noqa: E402
from botocore.exceptions import ClientError  # noqa: E402
from ceph_cluster import CephCluster, skip_without_ceph  # noqa: E402
from verbena_server import boto3_client  # noqa: E402


class Server(verbena_server.Server):
    def __init__(self, ceph):
        super().__init__()
        settings = {"conf": ceph.conf, "pool": "data", "index_pool": "index", "timeout": 3}
        self.args = ["--engine", "rados"] + [word for key, value in settings.items() for word in ("--set", f"rados.{key}={value}")]


def outcome(call, **arguments):
    try:
        return call(**arguments)["ResponseMetadata"]["HTTPStatusCode"], ""
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]


def eventually(call, wanted, seconds=60):
    deadline = time.monotonic() + seconds
    while True:
        got = call()
        if got == wanted or time.monotonic() > deadline:
            return got
        time.sleep(0.2)


class Faults(unittest.TestCase):
    def start(self, osds):
        ceph = self.enterContext(CephCluster(osds=osds))
        ceph.pool("index")
        ceph.pool("data")
        server = self.enterContext(Server(ceph))
        s3 = boto3_client(server.http, read_timeout=120)
        s3.create_bucket(Bucket="bucket")
        return ceph, s3

    def test_a_frozen_cluster_gives_503_in_time_and_serves_again(self):
        ceph, s3 = self.start(1)
        s3.put_object(Bucket="bucket", Key="k", Body=b"before")
        ceph.signal_osd(0, signal.SIGSTOP)
        try:
            for call, arguments in ((s3.get_object, {}), (s3.put_object, {"Body": b"meanwhile"}), (s3.delete_object, {})):
                began = time.monotonic()
                self.assertEqual(outcome(call, Bucket="bucket", Key="k", **arguments), (503, "ServiceUnavailable"))
                self.assertLess(time.monotonic() - began, 60)
        finally:
            ceph.signal_osd(0, signal.SIGCONT)
        put = lambda: outcome(s3.put_object, Bucket="bucket", Key="k", Body=b"after")  # noqa: E731
        self.assertEqual(eventually(put, (200, "")), (200, ""))
        self.assertEqual(s3.get_object(Bucket="bucket", Key="k")["Body"].read(), b"after")

    def test_an_osd_that_dies_costs_no_acknowledged_object(self):
        ceph, s3 = self.start(3)
        bodies = {f"k{i}": os.urandom(1 + i * 400_000) for i in range(12)}
        for i, (key, body) in enumerate(bodies.items()):
            if i == 6:
                ceph.signal_osd(0, signal.SIGKILL)
            put = lambda: outcome(s3.put_object, Bucket="bucket", Key=key, Body=body)  # noqa: B023, E731
            self.assertEqual(eventually(put, (200, "")), (200, ""))
        for key, body in bodies.items():
            self.assertEqual(s3.get_object(Bucket="bucket", Key=key)["Body"].read(), body)

    def test_a_full_cluster_takes_nothing_new_and_lets_go_of_what_it_has(self):
        ceph, s3 = self.start(1)
        s3.put_object(Bucket="bucket", Key="small", Body=b"x")
        s3.put_object(Bucket="bucket", Key="large", Body=b"x" * (8 << 20))
        ratios = {"nearfull": "0.00001", "backfillfull": "0.00002", "full": "0.00003"}
        for name, ratio in ratios.items():
            ceph.ceph("osd", f"set-{name}-ratio", ratio)
        full = (507, "InsufficientStorage")
        for size in (1, 8 << 20):
            put = lambda: outcome(s3.put_object, Bucket="bucket", Key="new", Body=b"x" * size)  # noqa: B023, E731
            self.assertEqual(eventually(put, full), full)
        self.assertEqual(s3.get_object(Bucket="bucket", Key="small")["Body"].read(), b"x")
        for key in ("small", "large", "new"):
            self.assertEqual(outcome(s3.delete_object, Bucket="bucket", Key=key), (204, ""))
        for name, ratio in reversed({"nearfull": "0.85", "backfillfull": "0.9", "full": "0.95"}.items()):
            ceph.ceph("osd", f"set-{name}-ratio", ratio)
        put = lambda: outcome(s3.put_object, Bucket="bucket", Key="new", Body=b"x")  # noqa: E731
        self.assertEqual(eventually(put, (200, "")), (200, ""))


if __name__ == "__main__":
    skip_without_ceph()
    unittest.main()
