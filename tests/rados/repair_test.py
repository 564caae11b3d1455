#!/usr/bin/python3
"""`verbena rados fsck --repair`: removes the remains of dead servers and nothing else, under concurrent load."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "lib"), str(TESTS / "express")]
import verbena_server  # noqa: E402
from ceph_cluster import CephCluster, skip_without_ceph  # noqa: E402
from express_case import ZONE, Express  # noqa: E402
from verbena_server import boto3_client, program  # noqa: E402

STRIPE = 4 << 20
DIRECTORY = f"renames--{ZONE}--x-s3"


class Server(verbena_server.Server):
    def __init__(self, ceph, first=None):
        super().__init__()
        self.args = ["--engine", "rados", *settings(ceph)]
        if first:
            self.args += ["--set", f"encryption.key_file={first.directory}/master.keys"]


def settings(ceph):
    values = {"conf": ceph.conf, "pool": "data", "index_pool": "index", "split_rows": 40}
    return [word for key, value in values.items() for word in ("--set", f"rados.{key}={value}")]


class HalfPut:
    """A PUT with a part of its body sent."""

    def __init__(self, server, path, body, sent):
        self.s3 = Express(server.http, service="s3")
        self.s3.connection.timeout = 120
        self.body, self.sent = body, sent
        self.s3.connection.putrequest("PUT", path, skip_host=True, skip_accept_encoding=True)
        headers = self.s3.signed("PUT", path, body)
        headers.setdefault("host", self.s3.host)
        headers["content-length"] = str(len(body))
        for name, value in headers.items():
            self.s3.connection.putheader(name, value)
        self.s3.connection.endheaders()
        self.s3.connection.send(body[:sent])

    def finish(self):
        self.s3.connection.send(self.body[self.sent:])
        return self.s3.connection.getresponse().status


class Repair(unittest.TestCase):
    def setUp(self):
        self.ceph = self.enterContext(CephCluster(osds=1))
        self.ceph.pool("index")
        self.ceph.pool("data")
        self.servers = []
        self.addCleanup(lambda: [server.__exit__(ValueError, None, None) for server in self.servers])

    def start(self):
        server = Server(self.ceph, self.servers[0] if self.servers else None).start()
        self.servers.append(server)
        return server, boto3_client(server.http, read_timeout=90)

    def fsck(self, *args):
        done = subprocess.run([program(), "rados", "fsck", "--json", *args, *settings(self.ceph)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=240, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def stripes(self):
        said = subprocess.run(["rados", "-c", self.ceph.conf, "-p", "data", "ls"], stdout=subprocess.PIPE, text=True, timeout=60,
                              check=True).stdout
        return {name for name in said.split() if name.startswith("d.")}

    def half_put(self, server, key="half", stripes=3):
        """Starts a PUT and waits until that many of its stripes are in the pool."""
        before = self.stripes()
        body = os.urandom((stripes + 2) * STRIPE)
        put = HalfPut(server, f"/bucket/{key}", body, (stripes + 1) * STRIPE)
        deadline = time.monotonic() + 30
        while len(self.stripes() - before) < stripes:
            self.assertLess(time.monotonic(), deadline, "the server writes nothing before the body has ended")
            time.sleep(0.05)
        return put

    def test_what_a_killed_server_left_goes_and_the_second_run_finds_nothing(self):
        server, s3 = self.start()
        s3.create_bucket(Bucket="bucket")
        bodies = {f"k{i}": os.urandom(i * 3_000_000) for i in range(5)}
        for key, body in bodies.items():
            s3.put_object(Bucket="bucket", Key=key, Body=body)
        whole = len(self.stripes())
        self.half_put(server)
        server.kill()
        left = self.fsck()["unnamed_stripes"]
        self.assertGreaterEqual(left, 3)
        self.assertEqual(len(self.stripes()), whole + left)
        report = self.fsck("--repair")
        self.assertEqual(report["removed"], {"stripes": left, "bytes": left * STRIPE, "tablets": 0, "stripes_of_living": 0,
                                            "servers_given_up": 1})
        self.assertEqual(report["unnamed_stripes"], 0)
        self.assertEqual(len(self.stripes()), whole)
        again = self.fsck("--repair")
        self.assertEqual(again["removed"], {"stripes": 0, "bytes": 0, "tablets": 0, "stripes_of_living": 0, "servers_given_up": 0})
        _, s3 = self.start()
        for key, body in bodies.items():
            self.assertEqual(s3.get_object(Bucket="bucket", Key=key)["Body"].read(), body)

    def test_a_put_that_is_under_way_is_left_alone(self):
        server, s3 = self.start()
        s3.create_bucket(Bucket="bucket")
        put = self.half_put(server)
        report = self.fsck("--repair")
        self.assertEqual(report["removed"]["stripes"], 0)
        self.assertGreaterEqual(report["removed"]["stripes_of_living"], 3)
        self.assertEqual(put.finish(), 200)
        self.assertEqual(s3.get_object(Bucket="bucket", Key="half")["Body"].read(), put.body)
        self.assertEqual(self.fsck()["unnamed_stripes"], 0)

    def test_a_server_that_was_frozen_and_given_up_finishes_nothing_that_was_taken_from_it(self):
        server, s3 = self.start()
        s3.create_bucket(Bucket="bucket")
        put = self.half_put(server)
        server.process.send_signal(signal.SIGSTOP)
        report = self.fsck("--repair")
        self.assertEqual(report["removed"]["servers_given_up"], 1)
        self.assertGreaterEqual(report["removed"]["stripes"], 3)
        server.process.send_signal(signal.SIGCONT)
        self.assertEqual(put.finish(), 503)
        self.assertEqual(s3.list_objects_v2(Bucket="bucket")["KeyCount"], 0)
        # And the PUT completes as usual.
        body = os.urandom(3 * STRIPE)
        s3.put_object(Bucket="bucket", Key="after", Body=body)
        self.assertEqual(s3.get_object(Bucket="bucket", Key="after")["Body"].read(), body)
        self.assertEqual(self.fsck("--repair")["lost_count"], 0)

    def test_a_tablet_that_no_bucket_has_goes(self):
        server, s3 = self.start()
        s3.create_bucket(Bucket="bucket")
        for i in range(200):
            s3.put_object(Bucket="bucket", Key=f"k{i:03}", Body=b"x")
        bucket = next(name for name in self.rados("ls").split() if name.startswith("b."))[2:]
        self.rados("create", f"t.{bucket}.ffff")
        before = self.fsck()["tablets"]
        self.assertGreater(before, 1)
        self.assertEqual(self.fsck("--repair")["removed"]["tablets"], 1)
        self.assertEqual(self.fsck("--repair")["removed"]["tablets"], 0)
        self.assertNotIn(f"t.{bucket}.ffff", self.rados("ls"))
        self.assertEqual(s3.list_objects_v2(Bucket="bucket")["KeyCount"], 200)

    def test_a_bucket_whose_index_object_is_lost_keeps_its_bytes_and_its_name(self):
        """The bucket is not removed: taking it for empty would orphan its bytes."""
        server, s3 = self.start()
        s3.create_bucket(Bucket="bucket")
        for i in range(3):
            s3.put_object(Bucket="bucket", Key=f"k{i}", Body=os.urandom(2 * STRIPE))
        server.kill()
        lost = next(name for name in self.rados("ls").split() if name.startswith("b."))
        self.rados("rm", lost)
        before = self.stripes()
        for args in (("fsck",), ("fsck", "--repair"), ("export", str(self.servers[0].directory) + ".out")):
            self.assertIn(f"bucket bucket has a name, and its object {lost}", self.refused("is lost", *args))
        self.rados("create", lost)  # as an operator might do to repair it
        self.refused("is lost", "fsck", "--repair")
        self.rados("rm", lost)
        self.assertEqual(self.stripes(), before)
        self.assertEqual(len(before), 6)
        # A server checks for remains, too.
        server, s3 = self.start()
        deadline = time.monotonic() + 30
        while lost not in server.log():
            self.assertLess(time.monotonic(), deadline, "the server says what is lost")
            time.sleep(0.1)
        s3.create_bucket(Bucket="another")
        s3.put_object(Bucket="another", Key="k", Body=b"x")
        self.assertIn("bbucket", self.rados("listomapkeys", "root").split())
        self.assertEqual(self.stripes(), before)
        with self.assertRaises(s3.exceptions.ClientError):
            s3.create_bucket(Bucket="bucket")

    def test_the_object_that_names_all_buckets_is_not_made_anew(self):
        """A new empty object in its place would orphan all bytes and reuse ids."""
        server, s3 = self.start()
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="k", Body=os.urandom(2 * STRIPE))
        server.kill()
        before = self.stripes()
        self.rados("rm", "root")
        self.refused("there is no store", "fsck", "--repair")
        self.refused("has lost its object `root`", "export", str(self.servers[0].directory) + ".out")
        with self.assertRaises(Exception):
            Server(self.ceph, self.servers[0]).start()
        self.assertEqual(self.stripes(), before)
        self.assertNotIn("root", self.rados("ls").split())

    def refused(self, why, *args):
        """The output of `verbena rados ARGS`, which fails with an error that contains `why`."""
        done = subprocess.run([program(), "rados", *args, *settings(self.ceph)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=240, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(why, done.stderr)
        return done.stderr

    def rados(self, *args):
        return subprocess.run(["rados", "-c", self.ceph.conf, "-p", "index", *args], stdout=subprocess.PIPE, text=True, timeout=60,
                              check=True).stdout

    def test_objects_that_are_renamed_all_the_time_lose_nothing(self):
        """The dead server wrote both these objects and the remains: only rows show that the objects are in use."""
        server, s3 = self.start()
        s3.create_bucket(Bucket="bucket")
        express = Express(server.http)
        express.make_bucket(DIRECTORY)
        bodies = [os.urandom(100_000) for _ in range(24)]
        for i, body in enumerate(bodies):
            self.assertEqual(express.call("PUT", f"/{DIRECTORY}/a{i}", body).status, 200)
        for i in range(60):  # enough for some tablets
            express.call("PUT", f"/{DIRECTORY}/m{i}", "x")
        self.half_put(server)
        other, _ = self.start()
        server.kill()
        stop, names = threading.Event(), ["a"] * len(bodies)
        renames = []

        def rename(part):
            client = Express(other.http)
            while not stop.is_set():
                for i in part:
                    to = "z" if names[i] == "a" else "a"
                    done = client.call("PUT", f"/{DIRECTORY}/{to}{i}?renameObject", headers={"x-amz-rename-source": f"{names[i]}{i}"})
                    if done.status == 200:
                        names[i] = to
                        renames.append(i)
                    else:
                        self.assertEqual(done.status, 503)
        threads = [threading.Thread(target=rename, args=(range(part, len(bodies), 4),)) for part in range(4)]
        for thread in threads:
            thread.start()
        try:
            report = self.fsck("--repair")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertGreaterEqual(report["removed"]["stripes"], 3)
        self.assertGreater(report["tablets"], 2)
        self.assertGreater(len(renames), 20)
        client = Express(other.http)
        for i, body in enumerate(bodies):
            self.assertEqual(client.call("GET", f"/{DIRECTORY}/{names[i]}{i}").body, body)
        found = self.fsck()
        self.assertEqual((found["lost_count"], found["unnamed_stripes"]), (0, 0))


if __name__ == "__main__":
    skip_without_ceph()
    unittest.main()
