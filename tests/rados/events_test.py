#!/usr/bin/python3
"""Events of two servers over one cluster with different clocks: each key's events are delivered in the order of its
changes. When a server is frozen in the middle of a batch, the other one delivers the batch, and the first sends none
of it when it resumes."""
import collections
import pathlib
import signal
import sys
import threading
import time
import unittest
import urllib.parse

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "lib"), str(TESTS / "events"), str(TESTS / "rados")]
import ceph_cluster  # noqa: E402
import verbena_server  # noqa: E402
from once_test import MORE_S, TAKEN_OVER_S, Server, wait_until  # noqa: E402
from targets import Webhook, free_port  # noqa: E402
from verbena_server import boto3_client  # noqa: E402

KEYS = 40
WRITERS = 3  # their events never stop, so that one with a greater id always exists


class Events(unittest.TestCase):
    def begin(self, clock_ahead_ms):
        """Two servers, of which the first holds the leader lease and has the machine's clock; a bucket with events
        to the webhook."""
        ceph_cluster.shared()
        self.hook = Webhook()
        self.addCleanup(self.hook.close)
        self.space = f"events-{free_port()}"
        self.servers = [Server(self.space, self.hook.port).start()]
        self.addCleanup(lambda: [server.__exit__(ValueError, None, None) for server in self.servers])
        wait_until(self.servers[0].on_duty, TAKEN_OVER_S + MORE_S, "the first server is on duty")
        self.servers.append(Server(self.space, self.hook.port, f"{self.servers[0].directory}/master.keys", clock_ahead_ms).start())
        self.s3 = [boto3_client(server.http, read_timeout=90) for server in self.servers]
        self.s3[0].create_bucket(Bucket="bucket")
        rule = {"QueueArn": "arn:verbena:sqs::hook:webhook", "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]}
        self.s3[0].put_bucket_notification_configuration(Bucket="bucket", NotificationConfiguration={"QueueConfigurations": [rule]})

    def told(self):
        """Key, kind, size and sequencer of each event, in the order of arrival."""
        records = [record for message in list(self.hook.messages) for record in message.get("Records", [])]
        return [(urllib.parse.unquote_plus(record["s3"]["object"]["key"]), record["eventName"].split(":")[0],
                 record["s3"]["object"].get("size"), int(record["s3"]["object"]["sequencer"], 16)) for record in records]

    def order(self, clock_ahead_ms):
        self.begin(clock_ahead_ms)
        stop = threading.Event()

        def write(number):
            s3 = boto3_client(self.servers[0].http, read_timeout=90)
            for i in range(100_000):
                if stop.wait(0.02):
                    return
                s3.put_object(Bucket="bucket", Key=f"others/{number}/{i}", Body=b"x")

        writers = [threading.Thread(target=write, args=(i,)) for i in range(WRITERS)]
        for writer in writers:
            writer.start()
        try:
            for i in range(KEYS):
                self.s3[1].put_object(Bucket="bucket", Key=f"key/gone{i}", Body=b"1")
                self.s3[0].delete_object(Bucket="bucket", Key=f"key/gone{i}")
                self.s3[0].put_object(Bucket="bucket", Key=f"key/back{i}", Body=b"1")
                self.s3[0].delete_object(Bucket="bucket", Key=f"key/back{i}")
                self.s3[1].put_object(Bucket="bucket", Key=f"key/back{i}", Body=b"22")
        finally:
            stop.set()
            for writer in writers:
                writer.join()

        def of_keys():
            found = collections.defaultdict(lambda: collections.defaultdict(list))
            for key, *what in self.told():
                if key.startswith("key/"):
                    found[key[:8]][key].append(tuple(what))
            return found

        def count():
            return sum(len(events) for keys in of_keys().values() for events in keys.values())

        wait_until(lambda: count() >= 5 * KEYS, 2 * MORE_S, "all events of the keys")
        made, gone = ("ObjectCreated", 1), ("ObjectRemoved", None)
        for kind, wanted in (("key/gone", [made, gone]), ("key/back", [made, gone, ("ObjectCreated", 2)])):
            with self.subTest(kind):
                wrong = {key: events for key, events in of_keys()[kind].items()
                         if [event[:2] for event in events] != wanted or events != sorted(events, key=lambda event: event[2])}
                self.assertFalse(wrong, f"{len(wrong)} of {KEYS} keys: told in another order, or with sequencers that go back")
        wait_until(lambda: not self.servers[0].metric('verbena_events_queued{target="hook"}'), MORE_S, "nothing waits any more")

    def test_each_keys_events_come_in_order_with_clocks_50_ms_apart(self):
        self.order(-50)

    def test_each_keys_events_come_in_order_with_clocks_2_s_apart(self):
        self.order(2000)

    def test_a_server_that_was_frozen_in_the_middle_of_a_batch_sends_nothing_of_it(self):
        self.begin(5)
        frozen, other = self.servers
        reached, go_on = threading.Event(), threading.Event()

        class Slow(list):  # confirmed by the webhook; the first ones slowly
            def append(self, message):
                super().append(message)
                if len(self) >= 12 and not reached.is_set():
                    reached.set()
                    go_on.wait(60)

        wait_until(lambda: self.hook.messages, MORE_S, "the test event")
        for i in range(1, 41):
            if i == 1:
                self.hook.messages = Slow(self.hook.messages)
            self.s3[1].put_object(Bucket="bucket", Key="k", Body=b"x" * i)
        self.assertTrue(reached.wait(60))
        frozen.process.send_signal(signal.SIGSTOP)
        go_on.set()  # the answer waits for the frozen server
        try:
            wait_until(lambda: self.told() and self.told()[-1][2] == 40, TAKEN_OVER_S + 2 * MORE_S, "the other server tells all")
            self.s3[1].put_object(Bucket="bucket", Key="k", Body=b"x" * 100)
            wait_until(lambda: self.told()[-1][2] == 100, MORE_S, "the newest event")
            before = len(self.told())
        finally:
            frozen.process.send_signal(signal.SIGCONT)
        wait_until(lambda: not frozen.on_duty(), MORE_S, "the server that was frozen says that it is not on duty")
        # If it resumes its batch, then at once; events written now are delivered by the other server.
        self.s3[0].put_object(Bucket="bucket", Key="awake", Body=b"x")
        wait_until(lambda: any(event[0] == "awake" for event in self.told()[before:]), MORE_S, "an event of the server that was frozen")
        self.assertEqual([event[0] for event in self.told()[before:]], ["awake"])
        self.assertTrue(other.on_duty())


if __name__ == "__main__":
    ceph_cluster.skip_without_ceph()
    verbena_server.ON_RADOS = True
    unittest.main()
