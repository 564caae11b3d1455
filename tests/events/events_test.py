#!/usr/bin/python3
"""Bucket notifications with boto3 and operators' tools: to a webhook, a Redis server and a file, unreachable targets
included."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lib"), str(HERE)]
from s3_case import S3Case  # noqa: E402
from targets import Mute, Redis, Webhook, free_port, make_certificate, wait_until  # noqa: E402
from verbena_server import ACCESS_KEY, IN_MEMORY, SECRET_KEY, Server, boto3_client, client_environment, program, tool  # noqa: E402


def arn(name, kind="webhook"):
    return f"arn:verbena:sqs::{name}:{kind}"


def configuration(*queues):
    return {"QueueConfigurations": [dict(queue, Events=queue.get("Events", ["s3:ObjectCreated:*"])) for queue in queues]}


class Targets(S3Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="verbena-events-")
        folder = pathlib.Path(cls.folder.name)
        cls.file = folder / "events.jsonl"
        cls.hook, cls.private = Webhook(token="t0ken"), Webhook()
        cls.tls = make_certificate(folder)
        cls.secure = Webhook(tls=cls.tls)
        cls.redis = Redis(password="s3cr3t").start() if Redis.there() else None
        secrets = folder / "secrets"
        secrets.write_text("hook t0ken\n" + ("list s3cr3t\n" if cls.redis else ""))
        secrets.chmod(0o600)
        targets = [f"hook=http://127.0.0.1:{cls.hook.port}/in?x=1", f"private=http://localhost:{cls.private.port}/",
                   f"secure=https://localhost:{cls.secure.port}/s", f"wrong=https://127.0.0.1:{cls.secure.port}/",
                   f"file=file://{cls.file}", f"dead=http://127.0.0.1:{free_port()}/"]
        allowed = ["hook", "secure", "wrong", "dead"]
        if cls.redis:
            targets.append(f"list=redis://127.0.0.1:{cls.redis.port}/2/events")
            allowed.append("list")
        cls.server_args = ["--set", "events.targets=" + ",".join(targets), "--set", f"events.secrets={secrets}",
                           "--set", "events.allow_private=" + ",".join(allowed), "--set", f"events.ca_file={cls.tls[0]}",
                           "--set", "events.timeout=2", "--set", "events.queue_max=200", "--set", "admin.port=0"]
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        for target in (cls.hook, cls.private, cls.secure, cls.redis):
            if target is not None:
                target.close()
        cls.folder.cleanup()

    def notify(self, bucket, name, kind="webhook", **more):
        self.s3.put_bucket_notification_configuration(
            Bucket=bucket, NotificationConfiguration=configuration(dict(QueueArn=arn(name, kind), **more)))

    @staticmethod
    def of(messages, bucket):
        """The records of that bucket: tests share the targets."""
        records = [record for message in messages for record in message.get("Records", [])]
        return [record for record in records if record["s3"]["bucket"]["name"] == bucket]

    def wait_for(self, count, messages, bucket):
        wait_until(lambda: len(self.of(messages(), bucket)) >= count, what=f"{count} events of {bucket}")
        records = self.of(messages(), bucket)
        self.assertEqual(len(records), count)
        return records

    def test_a_configuration_comes_back(self):
        bucket = self.new_bucket()
        rules = {"QueueConfigurations": [{"Id": "q", "QueueArn": arn("hook"), "Events": ["s3:ObjectCreated:Put"],
                                          "Filter": {"Key": {"FilterRules": [{"Name": "Prefix", "Value": "a/"},
                                                                             {"Name": "Suffix", "Value": ".x"}]}}}],
                 "TopicConfigurations": [{"Id": "t", "TopicArn": "arn:verbena:sns:us-east-1:file:file",
                                          "Events": ["s3:ObjectRemoved:*"]}],
                 "LambdaFunctionConfigurations": [{"Id": "f", "LambdaFunctionArn": "arn:verbena:lambda::hook:webhook",
                                                   "Events": ["s3:ObjectTagging:*"]}]}
        self.s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=rules)
        got = self.s3.get_bucket_notification_configuration(Bucket=bucket)
        del got["ResponseMetadata"]
        self.assertEqual(got, rules)
        self.s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
        self.assertNotIn("QueueConfigurations", self.s3.get_bucket_notification_configuration(Bucket=bucket))
        unknown = configuration({"QueueArn": arn("nobody")})
        reply = self.assert_error("InvalidArgument", 400, self.s3.put_bucket_notification_configuration, Bucket=bucket,
                                  NotificationConfiguration=unknown)
        self.assertIn("destination", reply["Error"]["Message"])

    def test_aws_cli_configures_it_too(self):
        bucket = self.new_bucket()
        text = json.dumps(configuration({"Id": "cli", "QueueArn": arn("hook")}))
        base = [tool("aws"), "--endpoint-url", self.server.http, "s3api"]
        env = client_environment(self.folder.name)
        subprocess.run([*base, "put-bucket-notification-configuration", "--bucket", bucket, "--notification-configuration", text],
                       check=True, env=env, capture_output=True, timeout=60)
        got = subprocess.run([*base, "get-bucket-notification-configuration", "--bucket", bucket], check=True, env=env,
                             capture_output=True, timeout=60)
        self.assertEqual(json.loads(got.stdout)["QueueConfigurations"][0]["Id"], "cli")

    def test_events_reach_the_webhook(self):
        bucket = self.new_bucket()
        self.notify(bucket, "hook", Events=["s3:ObjectCreated:*", "s3:ObjectRemoved:*"])
        tag = self.s3.put_object(Bucket=bucket, Key="dir/ä b", Body=b"1234")["ETag"]
        self.s3.delete_object(Bucket=bucket, Key="dir/ä b")
        records = self.wait_for(2, lambda: self.hook.messages, bucket)
        self.assertEqual([record["eventName"] for record in records], ["ObjectCreated:Put", "ObjectRemoved:Delete"])
        self.assertEqual(records[0]["s3"]["object"]["key"], "dir/%C3%A4+b")
        self.assertEqual(records[0]["s3"]["object"]["size"], 4)
        self.assertEqual(f'"{records[0]["s3"]["object"]["eTag"]}"', tag)
        tests = [message for message in self.hook.messages if message.get("Event") == "s3:TestEvent"]
        self.assertIn(bucket, [message["Bucket"] for message in tests])
        path, head = self.hook.heads[-1]
        self.assertEqual((path, head["Content-Type"], head["Authorization"]), ("/in?x=1", "application/json", "Bearer t0ken"))

    def test_a_forms_object_is_posted(self):
        bucket = self.new_bucket()
        self.notify(bucket, "hook", Events=["s3:ObjectCreated:Post"])
        form = self.s3.generate_presigned_post(bucket, "from-a-form")
        lines = [f'--X\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in form["fields"].items()]
        body = "".join(lines) + '--X\r\nContent-Disposition: form-data; name="file"\r\n\r\nbytes\r\n--X--\r\n'
        reply = self.request("POST", f"/{bucket}", {"content-type": "multipart/form-data; boundary=X"}, body.encode(), signed=False)
        self.assertEqual(reply.status, 204)
        self.assertEqual(self.wait_for(1, lambda: self.hook.messages, bucket)[0]["eventName"], "ObjectCreated:Post")

    def test_a_webhook_that_fails_gets_everything_in_order(self):
        bucket = self.new_bucket()
        self.notify(bucket, "hook")
        wait_until(lambda: any(message.get("Bucket") == bucket for message in self.hook.messages), what="the test event")
        self.hook.answers = [500, "cut", 307, 404, "cut", 503]
        for number in range(30):
            self.s3.put_object(Bucket=bucket, Key=f"k{number % 3}", Body=b"x" * number)
        records = self.wait_for(30, lambda: self.hook.messages, bucket)
        self.assertEqual([record["s3"]["object"]["size"] for record in records], list(range(30)))
        self.assertFalse([path for path, _ in self.hook.heads if path == "/elsewhere"], "a redirection was followed")

    def test_https_with_a_certificate_that_fits(self):
        bucket = self.new_bucket()
        self.notify(bucket, "secure")
        self.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
        self.wait_for(1, lambda: self.secure.messages, bucket)
        other = self.new_bucket()
        self.notify(other, "wrong")
        self.s3.put_object(Bucket=other, Key="k", Body=b"x")
        wait_until(lambda: "TLS" in self.server.log(), what="a refused certificate in the log")
        self.assertFalse(self.of(self.secure.messages, other))
        self.assertNotIn("t0ken", self.server.log())

    def test_a_private_address_is_not_called(self):
        bucket = self.new_bucket()
        self.notify(bucket, "private")
        self.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
        wait_until(lambda: "private network" in self.server.log(), what="the refusal in the log")
        self.assertFalse(self.private.heads)

    def test_lines_of_a_file(self):
        bucket = self.new_bucket()
        self.notify(bucket, "file", "file")
        for number in range(5):
            self.s3.put_object(Bucket=bucket, Key=f"k{number}", Body=b"")
        def lines():
            return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []
        self.wait_for(5, lines, bucket)
        self.file.rename(self.file.with_suffix(".1"))
        self.s3.put_object(Bucket=bucket, Key="after it was moved aside", Body=b"")
        self.wait_for(1, lines, bucket)
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)

    @unittest.skipUnless(Redis.there(), "redis-server is not installed")
    def test_a_list_of_a_redis_server(self):
        bucket = self.new_bucket()
        self.notify(bucket, "list", "redis")
        for number in range(10):
            self.s3.put_object(Bucket=bucket, Key="k", Body=b"x" * number)
        records = self.wait_for(10, lambda: self.redis.messages("events", "2"), bucket)
        self.assertEqual([record["s3"]["object"]["size"] for record in records], list(range(10)))
        self.redis.kill()
        self.s3.put_object(Bucket=bucket, Key="while it was gone", Body=b"")
        self.redis.start()
        records = self.wait_for(11, lambda: self.redis.messages("events", "2"), bucket)
        self.assertEqual(records[-1]["s3"]["object"]["key"], "while+it+was+gone")

    def test_a_full_queue_refuses_until_it_is_drained(self):
        bucket = self.new_bucket()
        self.notify(bucket, "dead")
        patient = boto3_client(self.server.http, retries={"total_max_attempts": 1})
        for number in range(100 - self.state("dead")["queued"]):  # half of the queue: the limit of one account
            patient.put_object(Bucket=bucket, Key=f"k{number}", Body=b"")
        self.assert_error("SlowDown", 503, patient.put_object, Bucket=bucket, Key="one too many", Body=b"")
        other = self.new_bucket()
        self.assert_error("SlowDown", 503, self.notify, bucket=other, name="dead")
        self.assert_error("404", 404, self.s3.head_object, Bucket=bucket, Key="one too many")
        self.s3.delete_object(Bucket=bucket, Key="k0")  # matches no rule
        self.s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
        patient.put_object(Bucket=bucket, Key="one too many", Body=b"")
        patient.close()

    def test_operators_see_what_waits(self):
        bucket = self.new_bucket()
        quiet = configuration({"QueueArn": arn("dead")})
        self.s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=quiet,
                                                      SkipDestinationValidation=True)
        if self.state("dead")["queued"] == 0:
            self.s3.put_object(Bucket=bucket, Key="k", Body=b"")
        reply = self.request("POST", "/-/admin/events", {"content-type": "application/json"}, b"{}")
        states = {state["name"]: state for state in json.loads(reply.body)["targets"]}
        self.assertEqual(states["dead"]["type"], "webhook")
        self.assertGreaterEqual(states["dead"]["queued"], 1)
        self.assertGreater(states["dead"]["queued_bytes"], 100)
        self.assertGreaterEqual(states["dead"]["queued_buckets"], 1)
        wait_until(lambda: not self.state("dead")["up"], what="the dead target is known to be dead")
        self.assertIn("hook", states)
        self.assertEqual(self.request("POST", "/-/admin/events", {}, b"{}", signed=False).status, 403)
        told = subprocess.run([program(), "admin", "events", "--endpoint", self.server.http], capture_output=True, text=True, timeout=60,
                              env=client_environment(self.server.directory), check=True).stdout
        self.assertRegex(told, r"(?m)^dead +webhook +fails +[1-9]")
        with urllib.request.urlopen(f"http://{self.server.native}/-/metrics", timeout=30) as metrics:
            text = metrics.read().decode()
        self.assertRegex(text, r'verbena_events_queued\{target="dead"\} [1-9]')
        self.assertIn('verbena_events_target_up{target="dead"} 0', text)

    def state(self, name):
        reply = self.request("POST", "/-/admin/events", {"content-type": "application/json"}, b"{}")
        return next(state for state in json.loads(reply.body)["targets"] if state["name"] == name)

    def test_other_doors_and_batches_tell_as_well(self):
        bucket = self.new_bucket()
        self.notify(bucket, "hook", Events=["s3:ObjectCreated:*", "s3:ObjectRemoved:*"])
        env = client_environment(self.folder.name)
        source = pathlib.Path(self.folder.name) / "object"
        source.write_bytes(b"native")
        subprocess.run([program(), "put", "--endpoint", self.server.http, "--native", self.server.native, "--via", "native", str(source), f"s3://{bucket}/native"], check=True,
                       env=env, capture_output=True, timeout=60)
        records = self.wait_for(1, lambda: self.hook.messages, bucket)
        self.assertEqual((records[0]["eventName"], records[0]["s3"]["object"]["size"]), ("ObjectCreated:Put", 6))


class LettingGo(unittest.TestCase):
    """Operators discard events that a target never accepts, and events of targets that no longer exist."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="verbena-events-")
        self.addCleanup(self.folder.cleanup)
        self.data = pathlib.Path(self.folder.name) / "data"
        self.data.mkdir()
        self.log = pathlib.Path(self.folder.name) / "access.log"

    def start(self, *args):
        server = Server(self.data, args=["--set", f"access_log={self.log}", *args])
        self.addCleanup(server.kill)
        return server.start()

    @staticmethod
    def admin(server, *words, code=0):
        done = subprocess.run([program(), "admin", "events", *words, "--endpoint", server.http], capture_output=True, text=True, timeout=60,
                              env=client_environment(server.directory), stdin=subprocess.DEVNULL)
        if done.returncode != code:
            raise AssertionError(f"{words}: {done.returncode}, not {code}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def states(self, server):
        return {state["name"]: state for state in json.loads(self.admin(server, "--json"))["targets"]}

    def test_an_event_that_is_never_taken_is_shown_and_skipped(self):
        hook = Webhook(refuses=b"poison")
        self.addCleanup(hook.close)
        server = self.start("--set", f"events.targets=hook=http://127.0.0.1:{hook.port}/", "--set", "events.allow_private=hook")
        s3 = boto3_client(server.http)
        self.addCleanup(s3.close)
        s3.create_bucket(Bucket="photos")
        s3.put_bucket_notification_configuration(Bucket="photos", NotificationConfiguration=configuration({"QueueArn": arn("hook")}))
        for key in ("before", "poison", "behind it"):
            s3.put_object(Bucket="photos", Key=key, Body=b"")
        wait_until(lambda: self.states(server)["hook"]["stuck"], what="the stuck event")
        stuck = self.states(server)["hook"]["stuck"]
        self.assertEqual([(one["bucket"], one["key"], one["happened"]) for one in stuck], [("photos", "poison", "ObjectCreated:Put")])
        self.assertIn("status 413", stuck[0]["why"])
        told = self.admin(server)
        self.assertIn(f"event {stuck[0]['event']} (ObjectCreated:Put of photos/poison) is refused", told)
        self.assertIn("--yes", self.admin(server, "skip", "hook", stuck[0]["event"], code=2))
        self.admin(server, "skip", "hook", "1-1", "--yes", code=3)
        self.admin(server, "skip", "nobody", stuck[0]["event"], "--yes", code=3)
        self.admin(server, "skip", "hook", "nonsense", "--yes", code=2)
        skipped = self.admin(server, "skip", "hook", stuck[0]["event"], "--yes", "--json")
        record = json.loads(json.loads(skipped)["record"])
        self.assertEqual(record["Records"][0]["s3"]["object"]["key"], "poison")
        wait_until(lambda: len(hook.messages) == 3, what="what waited behind it")
        self.assertEqual(hook.messages[-1]["Records"][0]["s3"]["object"]["key"], "behind+it")
        wait_until(lambda: self.states(server)["hook"]["queued"] == 0, what="nothing waits")
        self.assertEqual(self.states(server)["hook"]["let_go"], 1)
        self.assertRegex(server.log(), r"hook: arn:aws:iam::000000000000:root drops an event.*poison")
        server.stop()
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        self.assertIn(("admin:events-skip", 200), [(line["action"], line["status"]) for line in lines])

    @unittest.skipIf(IN_MEMORY, "nothing outlives such a server")
    def test_what_waits_for_a_target_that_is_gone_is_seen_bounded_and_dropped(self):
        dead = ("--set", f"events.targets=old=http://127.0.0.1:{free_port()}/", "--set", "events.allow_private=old")
        server = self.start(*dead)
        s3 = boto3_client(server.http)
        s3.create_bucket(Bucket="photos")
        rules = configuration({"QueueArn": arn("old")})
        s3.put_bucket_notification_configuration(Bucket="photos", NotificationConfiguration=rules)
        for number in range(20):
            s3.put_object(Bucket="photos", Key=f"k{number}", Body=b"")
        self.assertIn("is in the configuration", self.admin(server, "drop", "old", "--yes", code=2))
        s3.close()
        server.stop()
        server = self.start("--set", "events.queue_max=50")
        s3 = boto3_client(server.http, retries={"total_max_attempts": 1})
        self.addCleanup(s3.close)
        state = self.states(server)["old"]
        self.assertEqual((state["configured"], state["queued"], state["queued_buckets"]), (False, 21, 1))
        self.assertGreater(state["queued_bytes"], 20 * 100)
        self.assertRegex(self.admin(server), r"(?m)^old +gone +21 ")
        with urllib.request.urlopen(f"http://{server.native}/-/metrics", timeout=30) as metrics:
            self.assertIn('verbena_events_queued{target="(gone)"} 21', metrics.read().decode())
        # The rules still exist: their events are limited as before.
        for number in range(100):
            try:
                s3.put_object(Bucket="photos", Key=f"more{number}", Body=b"")
            except s3.exceptions.ClientError as error:
                self.assertEqual(error.response["Error"]["Code"], "SlowDown")
                break
        self.assertLess(number, 30)
        self.assertIn("--yes", self.admin(server, "drop", "old", code=2))
        self.admin(server, "drop", "none", "--yes", code=3)
        waits = self.states(server)["old"]["queued"]
        self.assertIn(f"{waits} events dropped", self.admin(server, "drop", "old", "--yes"))
        self.assertNotIn("old", self.states(server))
        self.assertRegex(server.log(), rf"old: arn:aws:iam::000000000000:root drops {waits} events")
        s3.put_object(Bucket="photos", Key="there is room again", Body=b"")
        server.stop()
        server = self.start()
        self.assertEqual(self.states(server)["old"]["queued"], 1)


class Restarts(unittest.TestCase):
    @unittest.skipIf(IN_MEMORY, "nothing outlives such a server")
    def test_what_waits_outlives_kill_9_and_its_bucket(self):
        with tempfile.TemporaryDirectory(prefix="verbena-events-") as folder:
            data, port = pathlib.Path(folder) / "data", free_port()
            data.mkdir()
            server = Server(data, args=["--set", f"events.targets=hook=http://127.0.0.1:{port}/", "--set", "events.allow_private=hook"])
            server.start()
            s3 = boto3_client(server.http)
            s3.create_bucket(Bucket="gone")
            s3.put_bucket_notification_configuration(Bucket="gone", NotificationConfiguration=configuration(
                {"QueueArn": arn("hook"), "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]}))
            s3.put_object(Bucket="gone", Key="k", Body=b"x")
            s3.delete_object(Bucket="gone", Key="k")
            s3.delete_bucket(Bucket="gone")
            s3.close()
            server.kill()
            hook = Webhook(port=port)
            try:
                server.start()
                wait_until(lambda: len(hook.messages) >= 3, what="what waited")
                self.assertEqual([message.get("Event") or message["Records"][0]["eventName"] for message in hook.messages],
                                 ["s3:TestEvent", "ObjectCreated:Put", "ObjectRemoved:Delete"])
                server.stop()
                server.start()
                server.stop()
                self.assertEqual(len(hook.messages), 3, "what was confirmed came again")
            finally:
                hook.close()
                server.kill()

    def test_a_hanging_webhook_holds_up_neither_puts_nor_the_end(self):
        """It may take five minutes: neither a PUT nor the server's end may wait for it."""
        mute = Mute()
        server = Server(args=["--set", f"events.targets=hook=http://127.0.0.1:{mute.port}/", "--set", "events.allow_private=hook",
                              "--set", "events.timeout=300"])
        try:
            server.start()
            s3 = boto3_client(server.http, read_timeout=30, retries={"total_max_attempts": 1})
            s3.create_bucket(Bucket="hung")
            s3.put_bucket_notification_configuration(Bucket="hung", NotificationConfiguration=configuration({"QueueArn": arn("hook")}))
            wait_until(lambda: mute.links, what="the webhook is called")
            for number in range(20):
                s3.put_object(Bucket="hung", Key=f"k{number}", Body=b"")
            s3.close()
            self.assertEqual(server.stop(), 0)
        finally:
            server.kill()
            mute.close()

    def test_a_start_says_what_is_wrong_with_targets(self):
        for setting, said in (("events.targets=x=ftp://a/", "events.targets: x needs a URL"),
                              ("events.targets=x=http://user:hunter2@a/", "events.targets: x needs a URL"),
                              ("events.allow_private=x", "there is no target 'x'"), ("events.secrets=/nowhere", "No such file"),
                              ("events.when_full=explode", "not refuse or drop")):
            env = dict(os.environ, VERBENA_ROOT_ACCESS_KEY=ACCESS_KEY, VERBENA_ROOT_SECRET_KEY=SECRET_KEY)
            done = subprocess.run([program(), "server", "--memory", "--http", "127.0.0.1:0", "--rdma", "127.0.0.1:0", "--set", setting],
                                  capture_output=True, text=True, env=env, timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, done.stderr)
            self.assertNotIn("hunter2", done.stderr + done.stdout)


if __name__ == "__main__":
    unittest.main()
