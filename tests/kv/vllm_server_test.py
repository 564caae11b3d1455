#!/usr/bin/python3
"""The vLLM connector while its server restarts, evicts, or has no room: an engine sees misses and dropped saves, and every block is compared."""
import os
import pathlib
import subprocess
import sys
import time
import unittest

import kv_case

kv_case.torch_or_skip()
from engine import Request  # noqa: E402
from vllm_case import SHARED, Case, before_loads, remove, requests  # noqa: E402

import verbena  # noqa: E402
from verbena.errors import InsufficientStorage  # noqa: E402
from verbena.kv import Mismatch  # noqa: E402

PROMPT = [*SHARED, *range(200, 231)]


class Server(Case):
    def client(self):
        made = verbena.connect(f"http://{self.server.at[0]}", native_endpoint=self.server.at[1], access_key=kv_case.ACCESS_KEY,
                               secret_key=kv_case.SECRET_KEY, via="native")
        self.addCleanup(made.close)
        return made

    def run_one(self, *wanted, **options):
        """An engine that runs these requests, and what its stores have counted."""
        one = self.engine(**options)
        for request in wanted:
            one.add(request)
        one.run()
        one.flush()
        counted = one.workers[0].connector._working.store.statistics.all()
        one.shutdown()
        self.good(one)
        return one, counted


class Restarts(Server):
    server_class = kv_case.DurableServer

    def kill_and_start(self):
        self.server.kill()
        self.server.start()

    def test_what_was_saved_before_a_kill_9_is_loaded_by_the_next_engine(self):
        for load in ("layers", "async"):
            with self.subTest(load=load):
                options = {"model": f"{self.id()} {load}", "load": load}
                self.run_one(*requests(1), **options)
                self.kill_and_start()
                after, counted = self.run_one(*requests(1, tag="after "), **options)
                self.assertGreater(after.loaded, 30)
                self.assertEqual((after.lost, counted["blocks_missed"], counted["errors"]), (0, 0, 0))

    def test_each_save_that_was_answered_survives_a_kill_9_during_further_ones(self):
        """Of those without an answer each is there whole or not at all."""
        size, answered, bodies = 70_000, [], {}
        from verbena import kv
        with kv.KvStore(description={"test": self.id()}, **self.server.settings(deadline_ms=20_000, lookup_ms=20_000, retry_ms=50)) as store:
            saves = []
            for turn in range(40):
                hashes, body = [os.urandom(16) for _ in range(8)], os.urandom(8 * size)
                bodies.update((one, body[i * size:(i + 1) * size]) for i, one in enumerate(hashes))
                saves.append((hashes, store.save(hashes, bytearray(body), size)))
                if turn == 30:
                    answered = [one for some, save in saves[:20] if all(save.result()) for one in some]
                if turn >= 10:
                    saves[turn - 8][1].wait_drained(30)
            answered += [one for some, save in saves if save.drained and all(save.outcome()) for one in some]
            self.kill_and_start()
        with kv.KvStore(description={"test": self.id()}, **self.server.settings(deadline_ms=20_000, lookup_ms=20_000)) as store:
            self.assertGreater(len(set(answered)), 100)
            self.assertEqual(store.present(answered), [True] * len(answered))
            hashes = list(bodies)
            into = store.allocate(len(hashes) * size)
            there = store.load(hashes, into, size).result()
            for i, (one, arrived) in enumerate(zip(hashes, there)):
                if arrived:
                    self.assertEqual(bytes(memoryview(into)[i * size:(i + 1) * size]), bodies[one])
            self.assertTrue({one for one, arrived in zip(hashes, there) if arrived}.issuperset(answered))

    def test_an_engine_goes_on_through_a_restart_and_then_finds_what_survived(self):
        options = {"model": self.id(), "deadline_ms": 2000, "lookup_ms": 1000, "retry_ms": 50}
        self.run_one(*requests(1), **options)
        one = self.engine(**options)
        for request in requests(1, tag="first "):
            one.add(request)
        one.step()
        self.server.kill()
        one.run()
        self.server.start()
        self.until(lambda: all(store.usable for store in (one.connector._scheduling.store, one.workers[0].connector._working.store)))
        one.forget()
        before = one.loaded
        for request in requests(1, tag="then "):
            one.add(request)
        one.run()
        one.shutdown()
        self.good(one)
        self.assertGreater(one.loaded - before, 30)


class Leases(Server):
    def test_blocks_whose_lease_ended_before_they_were_loaded_are_misses(self):
        for load in ("layers", "async"):
            with self.subTest(load=load):
                options = {"model": f"{self.id()} {load}", "load": load, "tokens_max": 64}
                self.run_one(Request("first", SHARED), **options)
                one = self.engine(lease_ms=1, **options)
                leases = []

                def end(scheduling, moved):
                    leases.append(moved.lease)
                    time.sleep(0.05)  # it ends
                    remove(scheduling.store, scheduling.namespaces)
                before_loads(one, end)
                one.add(Request("late", PROMPT))
                one.run()
                one.flush()
                counted = one.workers[0].connector._working.store.statistics.all()
                one.shutdown()
                self.good(one)
                self.assertTrue(leases and leases[0])
                self.assertEqual((one.lost, counted["deadlines"], counted["errors"]), (6, 0, 0))
                last, _ = self.run_one(Request("last", PROMPT), **options)  # what was computed instead was stored, and is right
                self.assertEqual(last.loaded, 13)


class Refusals(Server):
    """Each test has a bucket of its own."""

    def bucket(self):
        return "of-" + self.id().rsplit(".", 1)[1].replace("_", "-")[:40].strip("-")

    def refused_saves(self, model, refuse, allow, server_refuses=True):
        """An engine whose saves are refused from some moment on: it loads what is there, and saves again when there is room."""
        options = {"model": model, "bucket": self.bucket(), "tokens_max": 64, "retry_ms": 50, "failures_max": 1}
        self.run_one(Request("first", SHARED), **options)
        refuse()
        one = self.engine(**options)
        working = one.workers[0].connector._working.store
        for turn in range(4):
            one.forget()
            one.add(Request(f"refused {turn}", [*SHARED, *range(1000 * turn, 1000 * turn + 20)]))
            one.run()
            one.flush()
            self.assertEqual(one.loaded, 6 * (turn + 1), "blocks that are there are loaded although saves are refused")
            self.assertTrue(working.usable and one.connector._scheduling.store.usable)
            self.until(lambda: working.takes_saves)
        counted = working.statistics.all()
        self.assertEqual((counted["blocks_saved"], counted["blocks_dropped"], counted["blocks_missed"], counted["deadlines"]), (0, 20, 0, 0))
        self.assertEqual(counted["errors"], 4)
        allow()
        one.forget()
        one.add(Request("allowed", PROMPT))
        one.run()
        one.flush()
        one.shutdown()
        self.good(one)
        self.assertEqual((one.lost, working.statistics.all()["blocks_saved"]), (0, 7))
        last, _ = self.run_one(Request("last", PROMPT), **options)
        self.assertEqual(last.loaded, 13)


class Full(Refusals):
    def test_a_bucket_that_evicts_under_a_running_engine(self):
        client = self.client()
        client.make_bucket(self.bucket())
        for load, lease_ms, policy in (("layers", 0, "s3-fifo"), ("async", 0, "ttl"), ("layers", 2000, "lru")):
            client.set_bound(self.bucket(), bytes_max=48 << 10, policy=policy)  # some 55 blocks of 768 bytes, and the descriptions
            with self.subTest(load=load, lease_ms=lease_ms, policy=policy):
                options = {"model": f"{self.id()} {load} {lease_ms}", "bucket": self.bucket(), "load": load, "lease_ms": lease_ms}
                saved = loaded = 0
                for turn in range(8):
                    one, counted = self.run_one(*requests(turn // 2, tag=f"{turn} "), **options)
                    saved, loaded = saved + counted["blocks_saved"], loaded + one.loaded
                    self.assertEqual((counted["deadlines"], counted["errors"]), (0, 0))
                entries, mine = list(client.list(self.bucket())), one.connector._scheduling.namespaces[0]
                self.assertGreater(saved, sum(entry.key.startswith(mine) for entry in entries) + 20, "evicted")
                self.assertLessEqual(sum(entry.size for entry in entries), 48 << 10)
                self.assertGreater(loaded, 30)
                for first in range(0, 400, 50):
                    client.put_many([(self.bucket(), f"other/{i}", bytes(768)) for i in range(first, first + 50)]).check()
                with self.assertRaises(Mismatch):  # what the blocks are has not been evicted
                    self.engine(layers=2, **options)

    def test_a_bucket_whose_keys_are_all_pinned_refuses_saves_and_loads_go_on(self):
        client, model = self.client(), self.id()
        client.make_bucket(self.bucket())

        def refuse():
            keys = [(self.bucket(), one.key) for one in client.list(self.bucket())]
            held.append(client.head_many(keys, lease_ms=60_000).lease)
            client.set_bound(self.bucket(), objects_max=len(keys))
            refused = list(client.put_many([(self.bucket(), "one more", b"block")]))
            self.assertIsInstance(refused[0].error, InsufficientStorage)

        def allow():
            client.end_lease(held.pop())
            client.remove_bound(self.bucket())
        held = []
        self.refused_saves(model, refuse, allow)

    def test_a_quota_that_is_used_up_refuses_saves_and_loads_go_on(self):
        env = {**os.environ, "AWS_ACCESS_KEY_ID": kv_case.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": kv_case.SECRET_KEY,
               "AWS_ENDPOINT_URL": f"http://{self.server.at[0]}"}

        def quota(*words):
            subprocess.run([kv_case.program(), "quota", *words], env=env, check=True, stdout=subprocess.DEVNULL, timeout=60)
        self.refused_saves(self.id(), lambda: quota("set", f"s3://{self.bucket()}", "--bytes", "1KiB"), lambda: quota("clear", f"s3://{self.bucket()}"))


@unittest.skipUnless(os.geteuid() == 0, "needs root: it mounts a file system of its own")
class FullDisk(Refusals):
    """A data directory on a small file system, which a file of another program fills."""

    @staticmethod
    def server_class():
        made = kv_case.DurableServer()
        made.prefix = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=256m,mode=0700 none "$1" && shift && exec "$@"', "sh", made.directory]
        return made

    def test_a_full_disk_refuses_saves_and_loads_go_on(self):
        fill = pathlib.Path(f"/proc/{self.server.process.pid}/root{self.server.directory}/fill")

        def refuse():
            with open(fill, "wb", buffering=0) as file:
                try:
                    while file.write(bytes(4096)):
                        pass
                except OSError:
                    pass
        self.refused_saves(self.id(), refuse, fill.unlink)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
