#!/usr/bin/python3
"""`verbena rados init, status, fsck`, and the server's errors without a cluster."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from ceph_cluster import CephCluster, skip_without_ceph  # noqa: E402
from verbena_server import boto3_client, program  # noqa: E402
import verbena_server  # noqa: E402


def verbena(*args):
    return subprocess.run([program(), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)


def settings(ceph, **more):
    values = {"conf": ceph.conf, "pool": "bytes", "index_pool": "rows", **more}
    return [word for key, value in values.items() for word in ("--set", f"rados.{key}={value}")]


class Server(verbena_server.Server):
    """A server on pools of the test's own."""

    def __init__(self, ceph):
        super().__init__()
        self.args = ["--engine", "rados", *settings(ceph)]


class Commands(unittest.TestCase):
    def test_pools_are_made_used_and_looked_at(self):
        with CephCluster(osds=3) as ceph:
            missing = verbena("rados", "status", *settings(ceph))
            self.assertNotEqual(missing.returncode, 0)
            self.assertIn("verbena rados init", missing.stderr)
            made = verbena("rados", "init", "--erasure", "2+1", "--failure-domain", "osd", "--pg", "8", *settings(ceph))
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertIn("erasure-coded 2+1", made.stdout)
            again = verbena("rados", "init", *settings(ceph))
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertEqual(again.stdout.count("is there already"), 2)
            with Server(ceph) as server:
                s3 = boto3_client(server.http)
                s3.create_bucket(Bucket="bucket")
                for key, size in (("small", 100), ("large", 9 << 20)):
                    s3.put_object(Bucket="bucket", Key=key, Body=b"x" * size)
                self.assertEqual(s3.get_object(Bucket="bucket", Key="large")["Body"].read(), b"x" * (9 << 20))
                status = json.loads(verbena("rados", "status", "--json", *settings(ceph)).stdout)
                self.assertEqual((status["watchers"], status["buckets"], status["tablets"]), (1, 1, 1))
                deadline = time.monotonic() + 60
                while not status["kept_objects"] and time.monotonic() < deadline:
                    s3.get_object(Bucket="bucket", Key="small")["Body"].read()
                    status = json.loads(verbena("rados", "status", "--json", *settings(ceph)).stdout)
                self.assertEqual((status["keepers"], status["kept_objects"]), (1, 1))
                self.assertIn("1 servers hold read leases on hot objects and answer for them from memory: 1 objects", verbena("rados", "status", *settings(ceph)).stdout)
            report = verbena("rados", "fsck", "--json", *settings(ceph))
            self.assertEqual(report.returncode, 0, report.stderr)
            found = json.loads(report.stdout)
            self.assertEqual((found["objects"], found["stripes"], found["small_blobs"], found["unnamed_stripes"]), (2, 3, 1, 0))
            lost = next(name for name in self.rados(ceph, "ls").split() if name.startswith("d."))
            self.rados(ceph, "rm", lost)
            report = verbena("rados", "fsck", *settings(ceph))
            self.assertEqual(report.returncode, 7, report.stdout)
            self.assertIn("lost: bucket/large", report.stdout)

    def rados(self, ceph, *args):
        return subprocess.run(["rados", "-c", ceph.conf, "-p", "bytes", *args], stdout=subprocess.PIPE, text=True, timeout=60,
                              check=True).stdout

    def test_an_index_pool_that_is_erasure_coded_is_refused(self):
        with CephCluster(osds=3) as ceph:
            verbena("rados", "init", "--erasure", "2+1", "--failure-domain", "osd", "--pg", "8", *settings(ceph))
            refused = verbena("rados", "status", *settings(ceph, index_pool="bytes"))
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("must be replicated", refused.stderr)

    def test_a_server_without_a_cluster_says_so_and_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            conf = pathlib.Path(folder) / "ceph.conf"
            conf.write_text("[global]\nmon host = [v2:127.0.0.1:1]\nauth client required = none\n")
            said = verbena("server", f"{folder}/data", "--engine", "rados", "--set", f"rados.conf={conf}", "--set",
                           "rados.timeout=3", "--http", "127.0.0.1:0", "--rdma", "127.0.0.1:0")
            self.assertEqual(said.returncode, 1, said.stdout)
            self.assertIn("Ceph cluster", said.stderr)


if __name__ == "__main__":
    skip_without_ceph()
    unittest.main()
