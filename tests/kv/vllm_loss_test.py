#!/usr/bin/python3
"""The vLLM connector where blocks are lost, or weights change: what was computed over wrong blocks is never stored, on any rank."""
import contextlib
import importlib
import random
import sys
import threading
import types
import unittest
from unittest import mock

import kv_case

torch = kv_case.torch_or_skip()
import engine  # noqa: E402
import vllm_host  # noqa: E402
from engine import Request  # noqa: E402
from vllm_case import SHARED, Case, before_loads, requests  # noqa: E402

from verbena.kv import _blocks, _removal  # noqa: E402
from verbena.kv._vllm_verdicts import Computed, Verdicts  # noqa: E402

OLDER = {"without": ("KVConnectorWorkerMetadata",)}  # a host whose workers cannot say which step an output is of
PROMPT = [*SHARED, *range(200, 231)]  # six blocks that are stored, seven that are computed in the step of the load, and a part


def remove_one(scheduling, moved, index, rank):
    key = f"{scheduling.namespaces[rank]}/{moved.hashes[0][index].hex()}"
    scheduling.store._client.remove_many([(kv_case.BUCKET, key)]).check()


@contextlib.contextmanager
def held_saves():
    """Saves begin, and their bytes leave when the event is set."""
    free, put = threading.Event(), _blocks.Blocks.put_absent

    def put_later(self, *given):
        free.wait(30)
        return put(self, *given)
    _blocks.Blocks.put_absent = put_later
    try:
        yield free
    finally:
        free.set()
        _blocks.Blocks.put_absent = put


class Losses(Case):
    def run_one(self, tokens, **options):
        one = self.engine(**options)
        one.add(Request("a request", tokens))
        one.run()
        one.shutdown()
        self.good(one)
        return one

    def run_over_a_loss(self, model, index=2, rank=0, **options):
        """Engines that store the prefix, lose a block of it, and load what the second one has stored."""
        options = {"tokens_max": 64, "model": model, **options}
        self.run_one(SHARED, **options)
        second = self.engine(**options)
        before_loads(second, lambda scheduling, moved: remove_one(scheduling, moved, index, rank))
        second.add(Request("second", PROMPT))
        second.run()
        second.shutdown()
        self.good(second)
        self.assertEqual(second.lost, 1)
        return self.run_one(PROMPT, **options)

    def test_what_was_computed_over_a_lost_block_is_not_stored(self):
        for load in ("layers", "async"):
            for index in (0, 2, 5):
                for host in ({}, OLDER):
                    with self.subTest(load=load, index=index, host=host):
                        third = self.run_over_a_loss(f"{self.id()} {load} {index} {host}", index, load=load, host=host)
                        self.assertEqual(third.loaded, 13)

    def test_steps_that_are_decided_ahead_are_not_stored_either(self):
        for host in ({}, OLDER):
            for late_start in (False, True):
                with self.subTest(host=host, late_start=late_start):
                    options = {"host": host, "late_start": late_start, "ahead": 1, "tokens_max": 8}
                    third = self.run_over_a_loss(f"{self.id()} {host} {late_start}", **options)
                    self.assertGreaterEqual(third.loaded, 11 if host else 13)  # the older one's last step is not known to have ended well

    def test_a_loss_of_one_rank_is_one_of_all(self):
        for rank in range(2):
            with self.subTest(rank=rank):
                self.assertEqual(self.run_over_a_loss(f"{self.id()} {rank}", rank=rank, tp=2, processes=True).loaded, 13)

    def step_over_a_loss(self):
        """An engine after the step that has computed over a lost block."""
        self.run_one(SHARED, tokens_max=64)
        one = self.engine(tokens_max=64)
        before_loads(one, lambda scheduling, moved: remove_one(scheduling, moved, 2, 0))
        one.add(Request("aborted", PROMPT, outputs=9))
        one.step()
        self.assertEqual(one.lost, 1)
        return one

    def only_the_prefix_is_stored(self):
        self.run_one(SHARED, tokens_max=64)  # stores the lost block anew: now what came after it would be found
        self.assertEqual(self.run_one(PROMPT, tokens_max=64).loaded, 6)

    def test_a_request_that_is_aborted_leaves_nothing_wrong(self):
        one = self.step_over_a_loss()
        one.abort(one.running[0])
        one.run()
        one.shutdown()
        self.only_the_prefix_is_stored()

    def test_an_engine_that_ends_after_the_loss_leaves_nothing_wrong(self):
        self.step_over_a_loss().shutdown()
        self.only_the_prefix_is_stored()

    def test_an_engine_without_a_next_step_stores_nothing_of_the_last_one(self):
        one = self.engine(tokens_max=64)
        one.add(Request("a request", PROMPT))
        one.step()
        one.shutdown()
        self.assertEqual(one.workers[0].connector._working.store.statistics.all()["saves"], 0)

    def test_other_requests_of_the_step_are_stored(self):
        self.run_one(SHARED, tokens_max=64)
        one = self.engine(tokens_max=64)
        before_loads(one, lambda scheduling, moved: remove_one(scheduling, moved, 2, 0))
        one.add(Request("lost", PROMPT, outputs=9))
        one.add(Request("alone", range(400, 423)))
        one.step()
        one.abort(next(request for request in one.running if request.request_id == "lost"))
        one.run()
        one.shutdown()
        self.assertEqual(self.run_one(range(400, 424), tokens_max=64).loaded, 5)
        self.only_the_prefix_is_stored()

    def test_many_losses(self):
        """Blocks that vanish at random, with preemptions, shared prefixes and both ways of loading; all engines share what they store."""
        for seed, options in enumerate(({}, {"load": "async"}, {"blocks": 14, "tokens_max": 8}, {"blocks": 14, "load": "async"},
                                        {"host": OLDER, "ahead": 1}, {"ahead": 1, "tokens_max": 8}, {"ahead": 1, "blocks": 14, "late_start": True},
                                        {"ahead": 1, "load": "async", "late_start": True}, {"tp": 2, "processes": True},
                                        {"tp": 2, "processes": True, "ahead": 1}, {"tp": 2, "processes": True, "load": "async"})):
            with self.subTest(options=options):
                chance, lost, loaded = random.Random(seed), 0, 0

                def sometimes(scheduling, moved, chance=chance):
                    if chance.random() < 0.6:
                        remove_one(scheduling, moved, chance.randrange(len(moved.hashes[0])), chance.randrange(len(scheduling.namespaces)))
                for turn in range(4):
                    one = self.engine(f"{self.id()} {seed}", **options)
                    before_loads(one, sometimes)
                    for request in requests(10 * seed + turn // 2, tag=f"{turn} "):  # the second time what the first has stored is there
                        one.add(request)
                    one.run()
                    one.shutdown()
                    self.good(one)
                    lost, loaded = lost + one.lost, loaded + one.loaded
                self.assertGreater(lost, 0)
                self.assertGreater(loaded, lost)

    def test_held_saves_are_bounded(self):
        worker = engine.Worker(self.server.settings(saves_max=3), 0, 1, 2, 64, model="bounded")
        moved, meta = importlib.import_module("verbena.kv._vllm_scheduler").Moved, importlib.import_module("verbena.kv.vllm").VerbenaMetadata
        held, named = worker.connector._working._held, [(bytes([i]) * 32, i) for i in range(1, 10)]
        for told, saved in (({step: frozenset({"r"} if step == 2 else ()) for step in range(1, 10)}, 2), ({19: frozenset()}, 0)):
            before, first = worker.connector._working.store.statistics.all(), max(told) - 8
            for step, (block_hash, block) in enumerate(named, first):  # no verdict on any of them
                worker.step(meta([], [moved("r", [[block_hash]], [[block]])], step), [([], [(block_hash, block)])], set(), True)
            self.assertEqual(sum(map(len, held.values())), 3)
            worker.step(meta(step=first + 9, verdicts=told), [], set(), False)
            self.assertTrue(worker.flush())
            after = worker.connector._working.store.statistics.all()
            self.assertEqual([after[name] - before[name] for name in ("blocks_saved", "blocks_dropped")], [saved, 9 - saved])
            self.assertEqual(held, {})
        worker.shutdown()


    def test_a_step_of_several_groups_is_held_whole_or_not_at_all(self):
        vllm_host.install()
        layers = ["a", "b"]
        worker = vllm_host.load(vllm_host.config(self.server.settings(saves_max=3, deadline_ms=20_000), model="groups"),
                                vllm_host.KVConnectorRole.WORKER, vllm_host.cache_config(layers, 16, groups=[["a"], ["b"]]))
        self.addCleanup(worker.shutdown)
        caches = {"a": torch.randint(99, (2, 16, 4, 2, 8), dtype=torch.int16), "b": torch.randint(99, (2, 16, 4, 1, 8), dtype=torch.int16)}
        worker.register_kv_caches(caches)
        moved, meta = importlib.import_module("verbena.kv._vllm_scheduler").Moved, importlib.import_module("verbena.kv.vllm").VerbenaMetadata
        store, hashes = worker._working.store, [[bytes([group, i]) * 16 for i in range(1, 6)] for group in range(2)]

        def step(plan):
            worker.bind_connector_metadata(plan)
            worker.start_load_kv(None)
            worker.wait_for_save()
        for i in range(5):
            step(meta([], [moved("r", [[hashes[0][i]], [hashes[1][i]]], [[i + 1], [i + 1]])], i + 1))
        step(meta(step=6, verdicts={i: frozenset() for i in range(1, 6)}))
        self.assertTrue(store.flush())
        self.assertEqual([store.present(some) for some in hashes], [[True] * 3 + [False] * 2] * 2)
        before = {name: one.clone() for name, one in caches.items()}
        for one in caches.values():
            one.fill_(-1)
        worker.bind_connector_metadata(meta([moved("r", [some[:3] for some in hashes], [[1, 2, 3]] * 2)], step=7))
        worker.start_load_kv(None)
        for name in layers:
            worker.wait_for_layer_load(name)
        self.assertEqual(worker.get_block_ids_with_load_errors(), set())
        self.assertTrue(all(torch.equal(caches[name][:, 1:4], before[name][:, 1:4]) for name in layers))


class Resets(Case):
    """After other weights were loaded nothing of before is found or stored."""

    def fresh(self, model, wanted):
        """An engine that begins with the new weights: what it loads is right, and it loads that many blocks."""
        one = self.engine(model, tokens_max=64)
        one._all("load_weights", 1)
        one.add(Request("fresh", PROMPT))
        one.run()
        one.shutdown()
        self.good(one)
        self.assertEqual(one.loaded, wanted)

    def old(self, **options):
        one = self.engine(tokens_max=64, **options)
        one.add(Request("old", PROMPT))
        one.run()
        return one

    def run_after_reset(self, one):
        """Steps to the end, with the removal over before the last ones: what was computed until then is stored with the next step."""
        one.step()
        self.until(lambda: one.workers[0].connector._working._removal.ended)
        one.run()

    def test_a_reset_removes_the_blocks(self):
        first = self.old()
        first.flush()
        self.assertGreater(first.connector.get_num_new_matched_tokens(Request("y", PROMPT), 0)[0], 0)
        self.assertTrue(first.load_weights(1))
        self.assertEqual(first.connector.get_num_new_matched_tokens(Request("z", PROMPT), 0), (0, False))
        first.shutdown()
        self.fresh(self.id(), 0)

    def test_an_answer_of_before_is_forgotten(self):
        one, again = self.old(), Request("again", PROMPT)
        one.flush()
        self.assertGreater(one.connector.get_num_new_matched_tokens(again, 0)[0], 0)
        one.load_weights(1)
        self.assertEqual(one.connector.get_num_new_matched_tokens(again, 0), (0, False))
        one.add(Request("new", range(400, 420)))
        self.run_after_reset(one)
        one.flush()
        self.assertEqual(one.connector.get_num_new_matched_tokens(again, 0), (0, False))  # by the server's answer now
        self.assertGreater(one.connector.get_num_new_matched_tokens(Request("other", range(400, 420)), 0)[0], 0)
        one.shutdown()

    def test_saves_in_flight_do_not_come_back(self):
        for landed in (True, False):
            with self.subTest(landed=landed), held_saves() as free:
                model = f"{self.id()} {landed}"
                one = self.old(model=model, threads=1)
                one.add(Request("queued", range(500, 530)))  # a second batch, which waits for the thread
                one.run()
                self.assertTrue(one.load_weights(1))
                if landed:  # between the removal and the next step
                    free.set()
                    one.flush()
                    scheduling, early = one.connector._scheduling, Request("early", PROMPT)
                    self.assertGreater(scheduling.store.leading(early.block_hashes), 0)
                    self.assertEqual(one.connector.get_num_new_matched_tokens(early, 0), (0, False))
                else:
                    threading.Timer(0.2, free.set).start()
                one.add(Request("new", PROMPT[:20]))
                self.run_after_reset(one)
                one.flush()
                one.shutdown()
                self.good(one)
                self.fresh(model, 5)

    def test_held_saves_are_dropped(self):
        one = self.engine(tokens_max=64)
        one.add(Request("old", PROMPT, outputs=5))
        one.step()
        one.load_weights(1)
        one.add(Request("new", range(400, 420)))
        self.run_after_reset(one)
        one.shutdown()
        self.good(one)
        self.fresh(self.id(), 13)  # the request that was preempted by the reset has computed them anew

    def test_what_is_computed_over_blocks_of_before_is_not_stored(self):
        for options in ({}, {"host": OLDER}):
            model = f"{self.id()} {options}"
            one = self.engine(model, tokens_max=16, **options)
            one.add(Request("old", PROMPT, outputs=5))
            one.step()
            one.load_weights(1, preempt=False)
            self.run_after_reset(one)
            one.shutdown()
            begins = self.engine(model, **options)  # with the first blocks stored, what came after them would be found
            begins._all("load_weights", 1)
            begins.add(Request("begins", PROMPT[:17]))
            begins.run()
            begins.shutdown()
            self.fresh(model, 4)

    def test_a_reset_that_the_server_does_not_hear_finds_nothing_until_it_does(self):
        one = self.old()
        one.flush()
        scheduling = one.connector._scheduling
        with mock.patch.object(_removal, "AGAIN_S", 0.05), mock.patch.object(scheduling.store, "_clear", lambda *given: self.fail("no answer")):
            self.assertFalse(one.load_weights(1))
            one.add(Request("other", range(400, 420)))
            one.run()
            self.assertEqual(one.connector.get_num_new_matched_tokens(Request("y", PROMPT), 0), (0, False))
        self.until(lambda: scheduling._removal.ended)
        self.assertEqual(one.connector.get_num_new_matched_tokens(Request("z", PROMPT), 0), (0, False))
        one.shutdown()

    def test_a_removal_that_takes_long_holds_no_question_and_no_step_up(self):
        one, free, over = self.old(), threading.Event(), []
        one.flush()
        scheduling, working = one.connector._scheduling, one.workers[0].connector._working
        for store in (scheduling.store, working.store):
            def long(*given, clear=store._clear, **named):
                free.wait(3)
                clear(*given, **named)
                over.append(store)
            store._clear, store.options.deadline_ms = long, 20
        self.assertFalse(one.load_weights(1))
        one.add(Request("new", PROMPT))
        one.step()
        one.step()
        self.assertEqual(one.connector.get_num_new_matched_tokens(Request("y", PROMPT), 0), (0, False))
        self.assertEqual(over, [])
        working.store.options.deadline_ms = scheduling.store.options.deadline_ms = 20_000
        free.set()
        self.until(lambda: scheduling._removal.ended and working._removal.ended)
        one.run()
        one.flush()
        one.shutdown()
        self.good(one)
        self.fresh(self.id(), 13)  # what was computed meanwhile was held

    def test_a_worker_that_cannot_remove_loads_and_saves_nothing(self):
        one = self.old()
        one.flush()
        one.load_weights(1)
        working = one.workers[0].connector._working
        saved = working.store.statistics.all()["saves"]
        with mock.patch.object(_removal, "AGAIN_S", 0.05), mock.patch.object(working.store, "_clear", lambda *given: self.fail("a reason")):
            one.add(Request("new", range(400, 420)))
            with self.assertLogs("verbena.kv", "ERROR"):
                one.run()
                working._removal.wait_tried(30)
            self.assertFalse(working._removal.ended)
            one.forget()
            one.add(Request("again", [*range(400, 420), 9]))
            one.run()
            self.assertEqual((one.loaded, one.wrong, working.store.statistics.all()["saves"]), (0, 0, saved))
        self.until(lambda: working._removal.ended)
        one.add(Request("stores", range(500, 504)))
        one.run()
        one.flush()
        for _ in range(2):
            one.forget()
            one.add(Request("later", range(400, 421)))
            one.run()
            one.flush()
        self.assertEqual(one.loaded, 10)
        one.shutdown()
        self.good(one)


class Judged(unittest.TestCase):
    """Verdicts by themselves: requests of 4 tokens a block."""

    def request(self, request_id):
        return types.SimpleNamespace(request_id=request_id, right=(0, 0))

    def test_steps_that_were_decided_before_the_loss_was_known_are_spoiled(self):
        judge, one, other = Verdicts(4, 3), self.request("one"), self.request("other")
        judge.decide([1, 2, 3], [Computed(one, [[1, 2, 3, 4]], 12, 16, True), Computed(other, [[8]], 0, 4, True)])
        judge.decide([], [Computed(one, [[1, 2, 3, 4, 5]], 16, 20, False), Computed(other, [[8, 9]], 4, 8, False)])
        self.assertEqual(judge.take(), {})
        judge.told({2}, 1)
        self.assertEqual(judge.take(), {1: {"one"}})
        judge.decide([], [Computed(one, [[1, 2, 3, 4, 5]], 4, 20, False)])  # begins anew at the lost block
        judge.told(set(), 2)
        judge.told(set(), 3)
        self.assertEqual(judge.take(), {2: {"one"}, 3: set()})

    def test_without_the_number_of_a_step_it_is_known_when_the_engine_must_know_it(self):
        judge, one = Verdicts(4, 2), self.request("one")
        judge.decide([1, 2], [Computed(one, [[1, 2, 3]], 8, 12, True)])
        judge.decide([], [Computed(one, [[1, 2, 3, 4]], 12, 16, False)])
        judge.told({1})
        self.assertEqual(judge.take(), {})
        judge.decide([], [])
        judge.decide([], [])
        self.assertEqual(judge.take(), {1: {"one"}, 2: {"one"}})

    def test_a_block_that_another_request_has_is_spoiled_for_it_too_until_it_is_computed_again(self):
        judge, one, other = Verdicts(4, 1), self.request("one"), self.request("other")
        judge.decide([1], [Computed(one, [[1, 2]], 4, 8, True)])
        judge.told({1}, 1)
        judge.decide([], [Computed(other, [[1, 2, 3]], 8, 12, True)])  # it has found both here
        judge.told(set(), 2)
        judge.decide([], [Computed(other, [[1, 2, 3, 4]], 12, 16, False), Computed(one, [[1, 2]], 0, 8, False)])
        judge.told(set(), 3)
        judge.decide([], [Computed(one, [[1, 2, 5]], 8, 10, False)])
        judge.told(set(), 4)
        self.assertEqual(judge.take(), {1: {"one"}, 2: {"other"}, 3: {"other"}, 4: set()})

    def test_a_part_of_a_block_does_not_mend_it(self):
        judge, one = Verdicts(4, 1), self.request("one")
        judge.decide([1], [Computed(one, [[1, 2]], 4, 6, True)])
        judge.told({1}, 1)
        for step, first, end, spoiled in ((2, 0, 4, set()), (3, 6, 8, {"one"}), (4, 4, 8, set()), (5, 8, 12, set())):
            judge.decide([], [Computed(one, [[1, 2, 3]], first, end, False)])
            judge.told(set(), step)
            self.assertEqual(judge.take()[step], spoiled, step)

    def test_blocks_that_a_request_has_anew_are_looked_at_anew(self):
        judge, one = Verdicts(4, 1), self.request("one")
        judge.decide([7], [Computed(one, [[1, 2]], 0, 8, True)])
        judge.told({7}, 1)
        judge.decide([], [Computed(one, [[7, 8, 3]], 8, 12, True)])
        judge.told(set(), 2)
        self.assertEqual(judge.take(), {1: set(), 2: {"one"}})

    def test_a_load_into_a_spoiled_block_mends_it(self):
        judge, one, other = Verdicts(4, 1), self.request("one"), self.request("other")
        judge.decide([1], [Computed(one, [[1, 2]], 4, 8, True)])
        judge.told({1}, 1)
        judge.decide([1], [Computed(other, [[1, 4]], 4, 8, True)])
        judge.told(set(), 2)
        self.assertEqual(judge.take(), {1: {"one"}, 2: set()})

    def test_groups_of_layers_and_the_block_that_stands_for_none(self):
        judge, one = Verdicts(4, 1), self.request("one")
        judge.decide([0, 5], [Computed(one, [[1, 2], [0, 5]], 4, 8, True)])
        judge.told({0}, 1)
        judge.decide([5], [Computed(one, [[1, 2, 3], [0, 5, 6]], 8, 12, False)])
        judge.told({5}, 2)
        self.assertEqual(judge.take(), {1: set(), 2: {"one"}})

    def test_what_is_known_of_a_request_does_not_outlast_a_loss(self):
        judge, one = Verdicts(4, 1), self.request("one")
        judge.decide([9], [Computed(one, [[1, 2]], 0, 8, True)])
        judge.told({9}, 1)
        judge.reset(range(1, 10))
        judge.decide([], [Computed(one, [[1, 2, 3]], 8, 12, False)])
        judge.told(set(), 2)
        self.assertEqual(judge.take(), {2: {"one"}})

    def test_a_reset_spoils_all_that_was_decided_before(self):
        judge, one, new = Verdicts(4, 2), self.request("one"), self.request("new")
        judge.decide([], [Computed(one, [[1]], 0, 4, True)])
        judge.reset(range(10))
        judge.decide([], [Computed(one, [[1, 2]], 4, 8, False), Computed(new, [[3]], 0, 4, True)])
        judge.told(set(), 2)
        judge.decide([], [Computed(new, [[3, 4]], 4, 8, False)])
        judge.told(set(), 3)
        self.assertEqual(judge.take(), {2: {"one"}, 3: set()})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
