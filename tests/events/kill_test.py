#!/usr/bin/python3
"""No event is lost and the order of each key is kept, even if the server or a target is killed with `kill -9`.

Writers put objects whose sizes count up, key by key, up to a given number of PUTs; killers end server and targets at
random moments and start them again. Then every acknowledged PUT must have been delivered to all targets, and for each
key in the order of the PUTs; duplicates are counted.

kill_test.py [TARGET]...: webhook and redis, or the named ones (nats, mqtt, amqp, kafka).
TEST_EVENTS_PUTS: how many PUTs (1000); TEST_EVENTS_SEED: of the moments.
"""
import os
import pathlib
import random
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lib"), str(HERE)]
import brokers  # noqa: E402
from targets import Process, Redis, wait_until  # noqa: E402
from verbena_server import Server, boto3_client  # noqa: E402

PUTS = int(os.environ.get("TEST_EVENTS_PUTS", "1000"))
WRITERS, KEYS = 4, 8
BUCKET = "told"
SKIP = 77


class Shared:
    """State shared by the threads: the server's address, and whether to continue."""

    def __init__(self):
        self.lock, self.endpoint, self.left, self.over = threading.Lock(), None, PUTS, threading.Event()
        self.acknowledged = {}  # by key: the sizes, in order
        self.unknown = {}       # in flight at a kill: their outcome is unknown

    def take(self):
        with self.lock:
            self.left -= 1
            return self.left >= 0


def write(shared, number):
    """The sizes of one key only grow, so the order of its events can be seen."""
    sizes = {}
    clients = (None, None)
    while shared.take():
        key = f"w{number}-k{random.randrange(KEYS)}"
        size = sizes[key] = sizes.get(key, 0) + 1
        while not shared.over.is_set():
            if clients[0] != shared.endpoint:
                if clients[1] is not None:
                    clients[1].close()
                clients = (shared.endpoint, boto3_client(shared.endpoint, connect_timeout=5, read_timeout=20,
                                                         retries={"total_max_attempts": 1}))
            try:
                reply = clients[1].put_object(Bucket=BUCKET, Key=key, Body=b"x" * size)
                if "x-amz-request-id" not in reply["ResponseMetadata"]["HTTPHeaders"]:
                    raise RuntimeError("an answer that the server did not give")
                shared.acknowledged.setdefault(key, []).append(size)
                break
            except Exception:  # noqa: BLE001  the server was killed: nobody knows; a larger one comes next
                shared.unknown.setdefault(key, set()).add(size)
                size = sizes[key] = sizes[key] + 1
                time.sleep(0.05)


def in_order(shared, messages, target):
    """Checks that every acknowledged size of each key was delivered, the first deliveries in order. Returns the
    number of duplicates."""
    told, seen, twice = {}, {}, 0
    for message in messages:
        for record in message.get("Records", []):
            key, size = record["s3"]["object"]["key"], record["s3"]["object"]["size"]
            sizes = told.setdefault(key, [])
            if size in seen.setdefault(key, set()):
                twice += 1
            else:
                seen[key].add(size)
                sizes.append(size)
    for key, sizes in shared.acknowledged.items():
        missing = set(sizes) - set(told.get(key, []))
        assert not missing, f"{target}: of {key} {len(missing)} events are lost: {sorted(missing)[:10]}"
    for key, sizes in told.items():
        assert sizes == sorted(sizes), f"{target}: the events of {key} are out of order"
        strangers = set(sizes) - set(shared.acknowledged.get(key, [])) - shared.unknown.get(key, set())
        assert not strangers, f"{target}: {key} has events of what was never put: {sorted(strangers)[:10]}"
    return twice


def complete(shared, messages):
    told = {(r["s3"]["object"]["key"], r["s3"]["object"]["size"]) for m in messages for r in m.get("Records", [])}
    return all((key, size) in told for key, sizes in shared.acknowledged.items() for size in sizes)


class RedisList(Redis):
    """A Redis list with the interface of the other targets."""

    kind = "redis"

    def messages(self):
        return super().messages("events")

    def url(self):
        return f"redis://127.0.0.1:{self.port}/0/events"


class Hook(Process):
    kind = "webhook"

    def url(self):
        return f"http://127.0.0.1:{self.port}/"

    def close(self):
        if self.process is not None:
            self.kill()


def make_targets(names, folder):
    makers = {"webhook": lambda: Hook(folder), "redis": RedisList, **brokers.KINDS}
    return {name: makers[name]() for name in names or ["webhook", "redis"]}


def main():
    if not sys.argv[1:] and not Redis.there():
        print("redis-server is not installed")
        return SKIP
    seed = int(os.environ.get("TEST_EVENTS_SEED", random.randrange(1 << 32)))
    print(f"seed {seed}, {PUTS} PUTs")
    random.seed(seed)
    chance = random.Random(seed)
    shared, started = Shared(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="verbena-events-") as folder:
        data = pathlib.Path(folder) / "data"
        data.mkdir()
        targets = make_targets(sys.argv[1:], folder)
        kills = dict.fromkeys(["server", *targets], 0)
        server = None
        try:
            for target in targets.values():
                target.start()
            server = Server(data, args=["--set", "events.targets=" + ",".join(f"{name}={t.url()}" for name, t in targets.items()),
                                        "--set", "events.allow_private=" + ",".join(targets), "--set", "events.timeout=5"])
            shared.endpoint = server.start().http
            s3 = boto3_client(server.http)
            s3.create_bucket(Bucket=BUCKET)
            rules = [{"QueueArn": f"arn:verbena:sqs::{name}:{target.kind}", "Events": ["s3:ObjectCreated:*"]}
                     for name, target in targets.items()]
            s3.put_bucket_notification_configuration(Bucket=BUCKET, NotificationConfiguration={"QueueConfigurations": rules})
            s3.close()
            writers = [threading.Thread(target=write, args=(shared, number), daemon=True) for number in range(WRITERS)]
            for writer in writers:
                writer.start()
            while any(writer.is_alive() for writer in writers) or not all(kills.values()):
                time.sleep(chance.uniform(0.2, 1.5))
                victim = min(kills, key=lambda name: (kills[name], chance.random()))
                kills[victim] += 1
                if victim == "server":
                    server.kill()
                    shared.endpoint = server.start().http
                else:
                    targets[victim].kill()
                    time.sleep(chance.uniform(0, 0.5))
                    targets[victim].start()
            print(f"{PUTS} PUTs in {time.monotonic() - started:.0f} s, killed: {kills}")
            return check(shared, targets)
        finally:
            shared.over.set()
            if server is not None:
                server.kill()
            for target in targets.values():
                target.close()


def check(shared, targets):
    for name, target in targets.items():
        try:
            wait_until(lambda: complete(shared, target.messages()), 60 + PUTS / 100, f"all events at {name}")  # noqa: B023
        except AssertionError as late:
            print(late)  # and the missing sizes
        told = target.messages()
        twice = in_order(shared, told, name)
        print(f"{name}: {len(told)} messages, none lost, in order, {twice} came twice")
    return 0


if __name__ == "__main__":
    sys.exit(main())
