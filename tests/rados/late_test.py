#!/usr/bin/python3
"""A server that cannot reach the OSD of one tablet, but reaches the others: a change there is answered 503, and does
not land when that OSD is reachable again, whatever happened to the key meanwhile. $TEST_VERBENA_WIRE: wire.cc,
compiled."""
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import ceph_cluster  # noqa: E402
import verbena_server  # noqa: E402

MARK = "LATEMARK"
NAME_SPACES = 200
BUCKETS = 24


class Server(verbena_server.Server):
    def __init__(self, ceph, name_space, key_file=None, env=None, timeout=10):
        super().__init__(env=env)
        settings = {"conf": ceph.conf, "pool": "data", "index_pool": "index", "namespace": name_space, "timeout": timeout}
        self.args = ["--engine", "rados"] + [word for key, value in settings.items() for word in ("--set", f"rados.{key}={value}")]
        if key_file:
            self.args += ["--set", f"encryption.key_file={key_file}"]


class Late(unittest.TestCase):
    def setUp(self):
        ceph_cluster.skip_without_ceph()
        self.ceph = ceph_cluster.CephCluster(osds=2, size=1)
        self.addCleanup(self.ceph.stop)
        self.ceph.start()
        self.ceph.pool("index")
        self.ceph.pool("data")
        # The cluster-wide objects are all on one OSD.
        self.space = next(name for name in (f"ns{i}" for i in range(NAME_SPACES))
                          if len({self.osd_of(one, name) for one in ("root", "servers", "accounts", "events")}) == 1)
        self.flag = self.ceph.folder / "wire"
        first = self.start()
        second = self.start(f"{first.directory}/master.keys", {"LD_PRELOAD": os.environ["TEST_VERBENA_WIRE"],
                                                               "WIRE_FLAG": str(self.flag)}, timeout=3)
        self.others, self.cut = (verbena_server.boto3_client(one.http, read_timeout=120) for one in (first, second))
        self.bucket = self.bucket_of_two_osds()

    def start(self, key_file=None, env=None, timeout=10):
        server = Server(self.ceph, self.space, key_file, env, timeout).start()
        self.addCleanup(lambda: server.__exit__(ValueError, None, None))
        return server

    def osd_of(self, name, name_space=None):
        return json.loads(self.ceph.ceph("osd", "map", "index", name, name_space or self.space, "-f", "json"))["acting_primary"]

    def row(self, row):
        command = ["rados", "-c", self.ceph.conf, "-p", "index", "-N", self.space, "getomapval", "root", row, "/dev/stdout"]
        return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout[-8:].hex()

    def bucket_of_two_osds(self):
        """A bucket whose object is on the OSD of `root`, and whose tablet is on another."""
        for i in range(BUCKETS):
            self.others.create_bucket(Bucket=f"bucket{i}")
            number = self.row(f"bbucket{i}")
            if self.osd_of(f"b.{number}") == self.osd_of("root") != self.osd_of(f"t.{number}.0"):
                return f"bucket{i}"
        self.skipTest("all buckets lie on one OSD")

    def fails_late(self, key):
        """A PUT through the server that is cut off fails; its call to the cluster is in flight."""
        with self.assertRaises(Exception) as failed:
            self.cut.put_object(Bucket=self.bucket, Key=key, Body=MARK.encode())
        self.assertEqual(failed.exception.response["ResponseMetadata"]["HTTPStatusCode"], 503)

    def wait_until(self, holds, seconds=60):
        deadline = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def exists(self, client, key):
        return "Contents" in client.list_objects_v2(Bucket=self.bucket, Prefix=key)

    def test_what_was_removed_after_a_503_stays_removed(self):
        self.cut.put_object(Bucket=self.bucket, Key="before", Body=b"x")  # so that it has the bucket cached
        self.flag.write_text(MARK)
        self.wait_until(pathlib.Path(f"{self.flag}.armed").exists)
        self.fails_late("nothing")
        self.others.delete_object(Bucket=self.bucket, Key="nothing")  # the key does not exist
        self.flag.unlink()
        deadline = time.monotonic() + 60
        while True:  # until the held calls have been made
            try:
                self.cut.put_object(Bucket=self.bucket, Key="after", Body=b"x")
                break
            except self.cut.exceptions.ClientError:
                self.assertLess(time.monotonic(), deadline)
        time.sleep(0.5)
        self.assertFalse(self.exists(self.others, "nothing"))
        self.assertTrue(self.exists(self.others, "after"))


if __name__ == "__main__":
    if "TEST_VERBENA_WIRE" not in os.environ:
        print("skipped: $TEST_VERBENA_WIRE is not set")
        sys.exit(77)
    unittest.main()
