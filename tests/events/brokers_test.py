#!/usr/bin/python3
"""Bucket notifications to message brokers, each a real server: brokers_test.py nats

A broker that is missing is a failure: ./dev setup installs it.
"""
import json
import pathlib
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lib"), str(HERE)]
import brokers  # noqa: E402
from s3_case import S3Case  # noqa: E402
from sasl import Sasl  # noqa: E402
from targets import Mute, Webhook, free_port, make_certificate, wait_until  # noqa: E402
from verbena_server import Server, boto3_client  # noqa: E402

PASSWORD = "hunter2-and-longer"
BROKER = brokers.KINDS.get(sys.argv[1]) if len(sys.argv) > 1 else None


def scheme(tls):
    return BROKER.kind + (("s" if BROKER.kind in ("mqtt", "amqp") else "+tls") if tls else "")


def url(port, tls=False, host="127.0.0.1", place=None):
    return f"{scheme(tls)}://{host}:{port}/{place or BROKER.place}"


class Brokers(S3Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="verbena-brokers-")
        cls.tls = make_certificate(cls.folder.name)
        cls.addClassCleanup(cls.folder.cleanup)  # runs even if the server does not start
        cls.hook = Webhook()
        cls.addClassCleanup(cls.hook.close)
        cls.plain = BROKER(secret=f"events:{PASSWORD}" if BROKER.passwords else None).start()
        cls.addClassCleanup(cls.plain.close)
        cls.secure = BROKER(tls=cls.tls).start()
        cls.addClassCleanup(cls.secure.close)
        secrets = pathlib.Path(cls.folder.name) / "secrets"
        secrets.write_text(f"plain events:{PASSWORD}\nrefused events:{PASSWORD}\nintruder events:{PASSWORD}x\n"
                           f"private events:{PASSWORD}\n" if BROKER.passwords else "# none\n")
        secrets.chmod(0o600)
        targets = [f"plain={url(cls.plain.port)}", f"private={url(cls.plain.port, host='localhost')}",
                   f"secure={url(cls.secure.port, True, 'localhost')}", f"wrong={url(cls.secure.port, True)}",
                   f"bare={url(cls.secure.port)}", f"refused={url(cls.plain.port, place=BROKER.refused_place)}",
                   f"intruder={url(cls.plain.port)}", f"dead={url(free_port())}", f"hook=http://127.0.0.1:{cls.hook.port}/"]
        allowed = ["plain", "secure", "wrong", "bare", "refused", "intruder", "dead", "hook"]
        cls.server_args = ["--set", "events.targets=" + ",".join(targets), "--set", f"events.secrets={secrets}",
                           "--set", "events.allow_private=" + ",".join(allowed), "--set", f"events.ca_file={cls.tls[0]}",
                           "--set", "events.timeout=5"]
        super().setUpClass()

    def notify(self, bucket, *names):
        queues = [{"QueueArn": f"arn:verbena:sqs::{name}:{'webhook' if name == 'hook' else BROKER.kind}",
                   "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]} for name in names]
        self.s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={"QueueConfigurations": queues})

    def of(self, messages, bucket):
        records = [record for message in messages for record in message.get("Records", [])]
        return [record for record in records if record["s3"]["bucket"]["name"] == bucket]

    def wait_for(self, count, broker, bucket):
        wait_until(lambda: len(self.of(broker.messages(), bucket)) >= count, what=f"{count} events of {bucket}")
        return self.of(broker.messages(), bucket)

    def test_events_come_in_order_and_once(self):
        bucket = self.new_bucket()
        self.notify(bucket, "plain")
        for number in range(100):
            self.s3.put_object(Bucket=bucket, Key=f"k{number % 3}", Body=b"x" * number)
        self.s3.delete_object(Bucket=bucket, Key="k0")
        records = self.wait_for(101, self.plain, bucket)
        self.assertEqual(len(records), 101)
        for key in ("k0", "k1", "k2"):
            sizes = [r["s3"]["object"]["size"] for r in records if r["s3"]["object"]["key"] == key and "size" in r["s3"]["object"]]
            self.assertEqual(sizes, sorted(sizes))
            self.assertGreater(len(sizes), 30)
        self.assertEqual([record["eventName"] for record in records].count("ObjectRemoved:Delete"), 1)
        tests = [message for message in self.plain.messages() if message.get("Event") == "s3:TestEvent"]
        self.assertIn(bucket, [message["Bucket"] for message in tests])

    def test_what_came_while_the_broker_was_dead_comes_later(self):
        bucket = self.new_bucket()
        self.notify(bucket, "plain")
        self.s3.put_object(Bucket=bucket, Key="before", Body=b"")
        self.wait_for(1, self.plain, bucket)
        self.plain.kill()
        for number in range(10):
            self.s3.put_object(Bucket=bucket, Key=f"k{number}", Body=b"")
        self.plain.start()
        records = self.wait_for(11, self.plain, bucket)
        seen = list(dict.fromkeys(record["s3"]["object"]["key"] for record in records))
        self.assertEqual(sorted(seen), sorted(["before"] + [f"k{number}" for number in range(10)]))

    def test_tls_with_a_certificate_that_fits(self):
        bucket, other = self.new_bucket(), self.new_bucket()
        self.notify(bucket, "secure")
        self.notify(other, "wrong")
        self.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
        self.s3.put_object(Bucket=other, Key="k", Body=b"x")
        self.wait_for(1, self.secure, bucket)
        self.wait_for_failure("wrong")
        self.assertFalse(self.of(self.secure.messages(), other))

    def test_a_server_that_wants_tls_gets_nothing_in_the_clear(self):
        bucket = self.new_bucket()
        self.notify(bucket, "bare")
        self.wait_for_failure("bare")
        self.assertFalse(self.of(self.secure.messages(), bucket))

    def test_a_private_address_is_not_called(self):
        bucket = self.new_bucket()
        self.notify(bucket, "private")
        wait_until(lambda: "private network" in self.server.log(), what="the refusal in the log")

    @unittest.skipUnless(BROKER and BROKER.passwords, "it has none")
    def test_a_wrong_password_and_none_in_the_log(self):
        bucket = self.new_bucket()
        self.notify(bucket, "intruder")
        self.wait_for_failure("intruder")
        self.assertNotIn(PASSWORD, pathlib.Path(self.server.log_path).read_text(errors="replace"))

    def test_what_the_broker_has_no_place_for_waits(self):
        bucket = self.new_bucket()
        self.notify(bucket, "refused", "plain")
        self.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
        self.wait_for(1, self.plain, bucket)
        self.wait_for_failure("refused")
        self.assertGreaterEqual(self.state("refused")["queued"], 1)

    def test_a_dead_broker_holds_nobody_up(self):
        bucket = self.new_bucket()
        self.notify(bucket, "dead", "hook")
        for number in range(20):
            self.s3.put_object(Bucket=bucket, Key=f"k{number}", Body=b"")
        wait_until(lambda: len(self.of(self.hook.messages, bucket)) == 20, what="the other target's events")
        self.wait_for_failure("dead")

    def wait_for_failure(self, name):
        wait_until(lambda: not self.state(name)["up"], what=f"{name} is known to take nothing")

    def state(self, name):
        reply = self.request("POST", "/-/admin/events", {"content-type": "application/json"}, b"{}")
        return next(state for state in json.loads(reply.body)["targets"] if state["name"] == name)


@unittest.skipUnless(BROKER is brokers.Kafka, "the others' passwords are looked at above")
class Passwords(S3Case):
    """Kafka brokers with SASL passwords."""

    mechanisms = {"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"}

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="verbena-brokers-")
        cls.addClassCleanup(cls.folder.cleanup)
        tls = make_certificate(cls.folder.name)
        cls.brokers, targets, secrets = {}, [], ""
        for name, mechanism in cls.mechanisms.items():
            broker = BROKER(tls=tls, sasl=Sasl(mechanism, "events", PASSWORD)).start()
            cls.addClassCleanup(broker.close)
            cls.brokers[name] = broker
            targets += [f"{name}={url(broker.port, True, 'localhost')}?sasl={name}", f"{name}-wrong={url(broker.port, True, 'localhost')}?sasl={name}"]
            secrets += f"{name} events:{PASSWORD}\n{name}-wrong events:{PASSWORD}x\n"
        targets += [f"none={url(cls.brokers['plain'].port, True, 'localhost')}", f"other={url(cls.brokers['plain'].port, True, 'localhost')}?sasl=scram-sha-256"]
        secrets += f"other events:{PASSWORD}\n"
        cls.names = [target.partition("=")[0] for target in targets]
        path = pathlib.Path(cls.folder.name) / "secrets"
        path.write_text(secrets)
        path.chmod(0o600)
        cls.server_args = ["--set", "events.targets=" + ",".join(targets), "--set", f"events.secrets={path}", "--set", "events.allow_private=" + ",".join(cls.names),
                           "--set", f"events.ca_file={tls[0]}", "--set", "events.timeout=5"]
        super().setUpClass()

    notify, of, wait_for, wait_for_failure, state = Brokers.notify, Brokers.of, Brokers.wait_for, Brokers.wait_for_failure, Brokers.state

    def test_who_has_the_password_is_heard_by_each_mechanism(self):
        for name in self.mechanisms:
            with self.subTest(mechanism=name):
                bucket = self.new_bucket()
                self.notify(bucket, name)
                for number in range(20):
                    self.s3.put_object(Bucket=bucket, Key=f"k{number}", Body=b"")
                self.assertEqual(len(self.wait_for(20, self.brokers[name], bucket)), 20)

    def test_a_wrong_password_and_none_and_another_mechanism_are_refused_and_nobody_sees_the_password(self):
        bucket = self.new_bucket()
        wrong = [name for name in self.names if name not in self.mechanisms]
        self.notify(bucket, *wrong)
        for name in wrong:
            self.wait_for_failure(name)
        for name, broker in self.brokers.items():
            wait_until(lambda: broker.sasl.refused, what=f"a wrong password by {name}")
            self.assertFalse(self.of(broker.messages(), bucket))
        log = pathlib.Path(self.server.log_path).read_text(errors="replace")
        self.assertIn("uthentication", log)
        self.assertNotIn(PASSWORD, log)


class Hanging(unittest.TestCase):
    def test_a_broker_that_hangs_holds_up_neither_requests_nor_the_end(self):
        """It may take five minutes to answer; the server must not wait for that when it ends."""
        mute, veiled = Mute(), Mute(BROKER.greeting)
        targets = f"mute={url(mute.port)},veiled={url(veiled.port, True)}"
        server = Server(args=["--set", f"events.targets={targets}", "--set", "events.allow_private=mute,veiled",
                              "--set", "events.timeout=300"])
        try:
            server.start()
            s3 = boto3_client(server.http)
            s3.create_bucket(Bucket="hung")
            rules = [{"QueueArn": f"arn:verbena:sqs::{name}:{BROKER.kind}", "Events": ["s3:ObjectCreated:*"]} for name in ("mute", "veiled")]
            s3.put_bucket_notification_configuration(Bucket="hung", NotificationConfiguration={"QueueConfigurations": rules})
            wait_until(lambda: mute.links and veiled.links, what="both are called")
            for number in range(20):
                s3.put_object(Bucket="hung", Key=f"k{number}", Body=b"")
            s3.close()
            begun = time.monotonic()
            server.stop()
            self.assertLess(time.monotonic() - begun, 60)
        finally:
            server.kill()
            mute.close()
            veiled.close()


if __name__ == "__main__":
    if BROKER is None:
        sys.exit("usage: brokers_test.py " + "|".join(brokers.KINDS))
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
