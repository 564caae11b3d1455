#!/usr/bin/python3
"""The vLLM connector and its host's whole interface: every method is called, and what is stored and removed is told as the host's events."""
import hashlib
import importlib
import sys
import types
import unittest
import weakref
from unittest import mock

import kv_case

kv_case.torch_or_skip()
import engine  # noqa: E402
import vllm_host  # noqa: E402
from engine import Request  # noqa: E402
from vllm_case import SHARED, Case, requests  # noqa: E402

from verbena import errors  # noqa: E402
from verbena.kv import _blocks  # noqa: E402

PROMPT = [*SHARED, *range(200, 231)]


class Interface(Case):
    def test_the_simulated_engine_calls_every_method_of_the_interface(self):
        called, load = set(), vllm_host.load

        def load_recorded(*given):
            made = load(*given)
            kv_case.record_calls(type(made), (*vllm_host.METHODS, "request_finished_all_groups"), called)
            return made
        with mock.patch.object(vllm_host, "load", load_recorded):
            one = self.engine(events=True)
            for request in requests(1):
                one.add(request)
            one.run()
            one.load_weights(1)
            one.shutdown()
        self.good(one)
        # One tensor for all layers has a test of its own (vllm_test.py).
        self.assertEqual({*vllm_host.METHODS, "request_finished_all_groups"} - called, {"register_cross_layers_kv_cache"})


class Events(Case):
    def run_and_tell(self, one, *wanted):
        for request in wanted:
            one.add(request)
        one.run()
        one.flush()
        one.add(Request(f"tells {len(one.events)}", [1]))  # a step more: its output has what was stored since the one before
        one.run()
        return [event for event in one.events if isinstance(event, vllm_host.BlockStored)]

    def true(self, event):
        """An event's hashes are those of its tokens after its parent."""
        self.assertEqual(len(event.token_ids), engine.BLOCK * len(event.block_hashes))
        before = event.parent_block_hash or b"root"
        for at, block_hash in enumerate(event.block_hashes):
            tokens = event.token_ids[at * engine.BLOCK:(at + 1) * engine.BLOCK]
            self.assertEqual(block_hash, hashlib.sha256(before + repr(tokens).encode()).digest())
            before = block_hash

    def test_each_block_that_is_stored_is_told_once_with_its_tokens_and_parent(self):
        for options in ({}, {"load": "async"}, {"blocks": 14, "tokens_max": 8}, {"tp": 2, "processes": True}, {"ahead": 1}):
            with self.subTest(options=options):
                one = self.engine(f"{self.id()} {options}", events=True, **options)
                stored = self.run_and_tell(one, *requests(1))
                told = [block_hash for event in stored for block_hash in event.block_hashes]
                self.assertEqual(len(told), len(set(told)))
                for event in stored:
                    self.true(event)
                    self.assertEqual((event.block_size, event.medium, event.group_idx), (engine.BLOCK, "STORAGE", 0))
                store = one.connector._scheduling.store
                self.assertEqual(sorted(told), sorted(bytes.fromhex(name) for name in store.names()))
                self.assertLess(len(stored), len(told), "blocks one after the other are one event")
                one.shutdown()
                self.good(one)

    def test_what_another_engine_has_stored_is_told_when_it_would_be_stored_again(self):
        first, second = (self.engine(self.id(), events=True, kv_role="kv_producer") for _ in range(2))
        told = [sorted(sum((event.block_hashes for event in self.run_and_tell(one, Request("a request", PROMPT))), [])) for one in (first, second)]
        self.assertEqual((len(told[0]), told[0]), (13, told[1]))
        first.shutdown()
        second.shutdown()

    def test_a_reset_tells_all_of_them_as_removed(self):
        one = self.engine(events=True)
        told = {block_hash for event in self.run_and_tell(one, Request("a request", PROMPT)) for block_hash in event.block_hashes}
        one.events.clear()
        self.assertTrue(one.load_weights(1))
        stored = self.run_and_tell(one, Request("other", range(400, 420)))
        removed, = [event for event in one.events if isinstance(event, vllm_host.BlockRemoved)]
        self.assertIs(one.events[0], removed)
        self.assertEqual((set(removed.block_hashes), removed.medium, len(told)), (told, "STORAGE", 13))
        self.until(lambda: one.workers[0].connector._working._removal.ended)
        stored += self.run_and_tell(one, Request("third", range(500, 504)))
        self.assertGreaterEqual(len({block_hash for event in stored for block_hash in event.block_hashes}), 5)
        one.shutdown()

    def test_what_the_server_did_not_store_is_not_told(self):
        one = self.engine(events=True)
        with mock.patch.object(_blocks.Blocks, "put_absent", side_effect=errors.ServerError("no room")):
            self.assertEqual(self.run_and_tell(one, Request("a request", PROMPT)), [])
        self.assertGreater(one.workers[0].connector._working.store.statistics.all()["blocks_dropped"], 0)
        one.shutdown()

    def test_an_engine_that_publishes_none_makes_none(self):
        one = self.engine()
        self.assertEqual(self.run_and_tell(one, Request("a request", PROMPT)), [])
        self.makes_none(one)
        one.shutdown()

    def makes_none(self, one):
        """Neither half of the connector remembers anything for events."""
        self.assertIsNone(one.connector._scheduling._events)
        self.assertIsNone(one.workers[0].connector._working._stored)

    def test_hosts_whose_events_have_fewer_fields_or_that_pass_nothing_of_workers_on(self):
        older = self.engine(events=True, host={"events": (vllm_host.OlderBlockStored, vllm_host.OlderBlockRemoved)})
        self.assertEqual(sum(len(event.block_hashes) for event in self.run_and_tell(older, Request("a request", PROMPT))), 13)
        older.shutdown()
        oldest = self.engine(f"{self.id()} 2", events=True, host={"without": ("KVConnectorWorkerMetadata",)})
        self.assertEqual(self.run_and_tell(oldest, Request("a request", PROMPT)), [])
        self.makes_none(oldest)
        oldest.shutdown()

    def test_an_engine_that_saves_nothing_makes_none(self):
        one = self.engine(events=True, kv_role="kv_consumer")
        self.assertEqual(self.run_and_tell(one, Request("a request", PROMPT)), [])
        self.makes_none(one)
        one.shutdown()

    def test_a_host_whose_events_it_does_not_know_gets_none_and_a_line_in_the_log(self):
        class Newer(vllm_host.BlockStored):
            def __init__(self, checksum, **known):
                super().__init__(**known)
        with self.assertLogs("verbena.kv", "WARNING") as logged:
            one = self.engine(events=True, host={"events": (Newer, vllm_host.BlockRemoved)})
        self.assertIn("checksum", "".join(logged.output))
        self.assertEqual(self.run_and_tell(one, Request("a request", PROMPT)), [])
        one.shutdown()
        self.good(one)


class Told(unittest.TestCase):
    """The scheduler's half by itself."""

    def setUp(self):
        vllm_host.install()
        self.module = importlib.import_module("verbena.kv._vllm_events")

    def request(self, tag="r", blocks=6):
        return types.SimpleNamespace(request_id=tag, block_hashes=[f"{tag}{i}".encode() for i in range(blocks)], all_token_ids=list(range(4 * blocks)))

    def test_a_block_is_told_when_every_rank_has_stored_it(self):
        events, one = self.module.Events.of(4, [0, 1]), self.request()
        events.saving(one, 1, [[b"k1", b"k2", b"k3"]], [[7, 8, 9]])
        events.stored({b"k1": 0b11, b"k2": 0b01, b"k3": 0b11})
        told = events.take()
        self.assertEqual([(event.block_hashes, event.parent_block_hash, event.token_ids) for event in told],
                         [([b"r1"], b"r0", [4, 5, 6, 7]), ([b"r3"], b"r2", [12, 13, 14, 15])])
        events.stored({b"k2": 0b10, b"unknown": 0b11})
        self.assertEqual([event.block_hashes for event in events.take()], [[b"r2"]])
        events.saving(one, 1, [[b"k1"]], [[7]])  # it was told
        events.stored({b"k1": 0b11})
        self.assertEqual(events.take(), [])

    def test_one_rank_that_tells_twice_is_not_two_ranks(self):
        vllm = importlib.import_module("verbena.kv.vllm")
        events, some = self.module.Events.of(4, [0, 1]), [self.request("r"), self.request("s")]
        for one in some:  # of one prefix
            events.saving(one, 0, [[b"k"]], [[7]])
        events.stored({b"k": 0b01})
        events.stored(vllm.VerbenaReached(2, 0, {b"k": 0b01}).aggregate(vllm.VerbenaReached(2, 0, {b"other": 0b10})).stored)
        self.assertEqual(events.take(), [])
        events.stored(vllm.VerbenaReached(3, 0, {b"k": 0b01}).aggregate(vllm.VerbenaReached(3, 0, {b"k": 0b10})).stored)
        self.assertEqual([event.block_hashes for event in events.take()], [[b"s0"]])

    def test_groups_of_layers_are_told_each(self):
        events, one = self.module.Events.of(4, [0]), self.request()
        events.saving(one, 0, [[b"a0", b"a1"], [b"b0", b"b1"]], [[1, 2], [3, 4]])
        events.stored({b"b1": 1, b"a0": 1, b"a1": 1})
        self.assertEqual([(event.group_idx, event.block_hashes) for event in events.take()], [(0, [b"r0", b"r1"]), (1, [b"r1"])])
        events.cleared()
        self.assertEqual([(event.group_idx, event.block_hashes) for event in events.take()], [(0, [b"r0", b"r1"]), (1, [b"r1"])])
        events.stored({b"b0": 1})
        self.assertEqual(events.take(), [])

    def test_what_waits_and_what_was_told_is_bounded(self):
        with mock.patch.object(self.module, "_WAITING_MAX", 3), mock.patch.object(self.module, "_TOLD_MAX", 2):
            events, one = self.module.Events.of(4, [0]), self.request()
            events.saving(one, 0, [[b"k%d" % i for i in range(6)]], [range(1, 7)])
            events.stored({b"k%d" % i: 1 for i in range(6)})
            self.assertEqual([event.block_hashes for event in events.take()], [[b"r3", b"r4", b"r5"]])
            events.cleared()
            self.assertEqual([event.block_hashes for event in events.take()], [[b"r4", b"r5"]])

    def test_what_waits_keeps_no_request_and_no_block_that_is_never_saved(self):
        class Weak(types.SimpleNamespace):  # unlike its base
            pass
        events, one = self.module.Events.of(4, [0]), Weak(**vars(self.request()))
        events.saving(one, 0, [[b"a0", b"a1"], [b"b0", b"b1"]], [[1, 2], [0, 3]])
        self.assertEqual(list(events._waiting), [b"a0", b"a1", b"b1"])
        gone = weakref.ref(one)
        del one
        self.assertIsNone(gone())
        events.stored({b"b1": 1})
        self.assertEqual([(event.block_hashes, event.token_ids, event.parent_block_hash) for event in events.take()], [([b"r1"], [4, 5, 6, 7], b"r0")])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
