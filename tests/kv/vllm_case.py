"""What the tests of the vLLM connector share: a server, and engines on it whose blocks are all compared."""
import random
import time
import unittest

import kv_case
from engine import Engine, Request

SHARED = list(range(100, 124))  # a prefix of six blocks


def requests(seed, count=8, tag="r"):
    chance = random.Random(seed)
    return [Request(f"{tag}{seed}-{i}", SHARED[:chance.choice((0, 8, 24))] + [chance.randrange(50) for _ in range(chance.randrange(1, 20))],
                    outputs=chance.randrange(6)) for i in range(count)]


def remove(store, namespaces):
    """Removes all blocks, as evictions do."""
    for namespace in namespaces:
        keys = [entry.key for entry in store._client.list(store.bucket, f"{namespace}/") if not entry.key.endswith(".json")]
        if keys:
            store._client.remove_many([(store.bucket, key) for key in keys]).check()


def before_loads(one, call):
    """Calls with a step's loads, after the question and before the workers load."""
    scheduling, decide = one.connector._scheduling, one.connector.build_connector_meta

    def wrapped(output):
        meta = decide(output)
        for moved in meta.loads:
            call(scheduling, moved)
        return meta
    one.connector.build_connector_meta = wrapped


class Case(unittest.TestCase):
    server_class = kv_case.CacheServer

    @classmethod
    def setUpClass(cls):
        cls.server = cls.server_class()
        cls.server.start()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def engine(self, model=None, **options):
        names = {"blocks", "layers", "tp", "tokens_max", "processes", "mla", "kv_role", "host", "ahead", "late_start", "events"}
        patient = {"deadline_ms": 20_000, "lookup_ms": 20_000}  # a busy machine is no lost server
        settings = self.server.settings(**{**patient, **{name: value for name, value in options.items() if name not in names}})
        return Engine(settings, model=model or self.id(), **{name: value for name, value in options.items() if name in names})

    def until(self, condition):
        end = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def good(self, one):
        self.assertEqual(one.wrong, 0, "blocks differ from what computing them gives")
        self.assertGreater(one.compared, 0)
