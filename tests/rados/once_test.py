#!/usr/bin/python3
"""Three servers over one cluster: lifecycle rules and the delivery of events run on one server at a time, whichever
servers are alive."""
import pathlib
import re
import signal
import sys
import time
import unittest
import urllib.request

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "lib"), str(TESTS / "events")]
import ceph_cluster  # noqa: E402
import verbena_server  # noqa: E402
from targets import Webhook, free_port  # noqa: E402
from verbena_server import boto3_client  # noqa: E402

SERVERS = 3
TAKEN_OVER_S = 20  # docs/cluster.md
MORE_S = 25        # extra time for busy machines


class Server(verbena_server.Server):
    def __init__(self, name_space, port, key_file=None, clock_ahead_ms=0):
        super().__init__(clock_ahead_ms=clock_ahead_ms, args=["--set", f"events.targets=hook=http://127.0.0.1:{port}/", "--set", "events.allow_private=hook",
                               "--set", "events.timeout=3", "--set", "lifecycle_day=1"])
        self.args = [word if not word.startswith("rados.namespace=") else f"rados.namespace={name_space}" for word in self.args]
        if key_file:
            self.args += ["--set", f"encryption.key_file={key_file}"]

    def metric(self, name):
        with urllib.request.urlopen(f"http://{self.native}/-/metrics", timeout=30) as reply:
            found = re.search(rf"^{re.escape(name)} (\S+)$", reply.read().decode(), re.M)
        return float(found.group(1)) if found else 0

    def on_duty(self):
        return self.metric("verbena_rados_leader") == 1


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.2)
    return value


class Once(unittest.TestCase):
    """Each test begins with three servers, of which one holds the leader lease, and a bucket with events to the
    webhook."""

    def setUp(self):
        ceph_cluster.shared()
        self.hook = Webhook()
        self.addCleanup(self.hook.close)
        self.space = f"once-{free_port()}"
        first = Server(self.space, self.hook.port).start()
        self.servers = [first]
        self.addCleanup(lambda: [server.__exit__(ValueError, None, None) for server in self.servers])
        while len(self.servers) < SERVERS:
            ahead = verbena_server.CLOCKS_AHEAD_MS[len(self.servers)]
            self.servers.append(Server(self.space, self.hook.port, f"{first.directory}/master.keys", ahead).start())
        self.s3 = {server: boto3_client(server.http, read_timeout=90) for server in self.servers}
        self.s3[first].create_bucket(Bucket="bucket")
        rule = {"QueueArn": "arn:verbena:sqs::hook:webhook", "Events": ["s3:ObjectCreated:*"]}
        self.s3[first].put_bucket_notification_configuration(Bucket="bucket", NotificationConfiguration={"QueueConfigurations": [rule]})
        self.holder = wait_until(self.one_on_duty, TAKEN_OVER_S + MORE_S, "somebody is on duty")

    def one_on_duty(self, among=None):
        on_duty = [server for server in among or self.servers if server.on_duty()]
        self.assertLessEqual(len(on_duty), 1)
        return on_duty[0] if on_duty else None

    def others(self):
        return [server for server in self.servers if server is not self.holder]

    def told(self):
        records = [record for message in list(self.hook.messages) for record in message.get("Records", [])]
        return [record["s3"]["object"]["key"] for record in records]

    def expect_told(self, keys, seconds=MORE_S):
        wait_until(lambda: set(keys) <= set(self.told()), seconds, f"events of {keys}")

    def test_events_of_all_servers_are_delivered_by_one_in_the_order_of_each_key(self):
        keys = []
        for i in range(12):
            keys.append(f"k{i}")
            self.s3[self.servers[i % SERVERS]].put_object(Bucket="bucket", Key=keys[-1], Body=b"x" * (i * 5000))
        self.expect_told(keys)
        for i in range(9):
            self.s3[self.servers[i % SERVERS]].put_object(Bucket="bucket", Key="same", Body=b"x" * i)
        wait_until(lambda: self.told().count("same") == 9, MORE_S, "nine events of one key")
        sizes = [r["s3"]["object"]["size"] for m in self.hook.messages for r in m.get("Records", [])
                 if r["s3"]["object"]["key"] == "same"]
        self.assertEqual(sizes, list(range(9)))
        self.assertEqual(sorted(self.told()), sorted(keys + ["same"] * 9))
        delivered = {server: server.metric('verbena_events_delivered_total{target="hook"}') for server in self.servers}
        self.assertEqual([server for server, count in delivered.items() if count], [self.holder])

    def test_after_kill_9_of_who_is_on_duty_another_one_is(self):
        self.hook.answers += [500] * 1000  # its undelivered events remain for the next leader
        self.s3[self.holder].put_object(Bucket="bucket", Key="left", Body=b"x")
        self.holder.kill()
        began = time.monotonic()
        others = self.others()
        taker = wait_until(lambda: self.one_on_duty(others), TAKEN_OVER_S + MORE_S, "another one is on duty")
        print(f"taken over after {time.monotonic() - began:.1f} s")
        self.hook.answers.clear()
        self.s3[others[0]].put_object(Bucket="bucket", Key="later", Body=b"x")
        self.expect_told(["left", "later"], 90)
        self.servers.remove(self.holder)
        self.holder = taker

    def test_who_was_frozen_is_not_on_duty_when_he_wakes(self):
        self.holder.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        others = self.others()
        try:
            taker = wait_until(lambda: self.one_on_duty(others), TAKEN_OVER_S + MORE_S, "another one is on duty")
            print(f"taken over after {time.monotonic() - began:.1f} s")
            self.s3[others[0]].put_object(Bucket="bucket", Key="meanwhile", Body=b"x")
            self.expect_told(["meanwhile"])
        finally:
            self.holder.process.send_signal(signal.SIGCONT)
        # The metric is updated a moment after the server resumes.
        wait_until(lambda: not self.holder.on_duty(), 5, "who was frozen says that he is not on duty")
        for i in range(20):
            self.assertIs(self.one_on_duty(), taker)
            self.s3[others[i % 2]].put_object(Bucket="bucket", Key=f"after{i}", Body=b"x")
        self.expect_told([f"after{i}" for i in range(20)])
        self.assertEqual(len(self.told()), len(set(self.told())), "nothing was told twice")
        self.s3[self.holder].put_object(Bucket="bucket", Key="awake", Body=b"x")
        self.expect_told(["awake"])

    def test_lifecycle_rules_are_carried_out_by_one_and_then_by_another(self):
        rule = {"ID": "r", "Status": "Enabled", "Filter": {"Prefix": "old/"}, "Expiration": {"Days": 1}}
        self.s3[self.servers[0]].put_bucket_lifecycle_configuration(Bucket="bucket", LifecycleConfiguration={"Rules": [rule]})

        def expire(name, servers):
            s3 = self.s3[servers[0]]
            for i in range(10):
                self.s3[servers[i % len(servers)]].put_object(Bucket="bucket", Key=f"old/{name}{i}", Body=b"x")
            gone = lambda: s3.list_objects_v2(Bucket="bucket", Prefix="old/")["KeyCount"] == 0  # noqa: E731
            wait_until(gone, TAKEN_OVER_S + MORE_S, f"what {name} says is gone")
            return {server: server.metric("verbena_lifecycle_removals_total") for server in servers}

        removed = expire("first", self.servers)
        self.assertEqual([server for server, count in removed.items() if count], [self.holder])
        self.assertEqual(removed[self.holder], 10)
        self.holder.kill()
        self.servers.remove(self.holder)
        removed = expire("second", self.servers)
        self.assertEqual(sorted(removed.values()), [0, 10])

    def test_a_server_that_ends_hands_the_duty_over_at_once(self):
        self.holder.stop()
        self.servers.remove(self.holder)
        began = time.monotonic()
        wait_until(self.one_on_duty, MORE_S, "another one is on duty")
        print(f"handed over after {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    ceph_cluster.skip_without_ceph()
    verbena_server.ON_RADOS = True
    unittest.main()
