#!/usr/bin/python3
"""The vLLM connector under a host of our own: loaded by name, every method in its order, and a simulated engine that compares every block.

    vllm_test.py            the part for CI: the server killed at every step of a small run
    vllm_test.py --long     killed, and frozen, at every step of larger ones, with each way of loading and with two ranks
"""
import abc
import importlib
import os
import signal
import sys
import time
import unittest

import kv_case

torch = kv_case.torch_or_skip()
import engine  # noqa: E402
import vllm_host  # noqa: E402
from engine import Request  # noqa: E402
from vllm_case import SHARED, Case, remove, requests  # noqa: E402

LONG = "--long" in sys.argv


class Loading(unittest.TestCase):
    """What the connector says to hosts that it does not fit."""

    def refused(self, words, **host):
        vllm_host.install(**host)
        with self.assertRaisesRegex(ImportError, words):
            importlib.import_module("verbena.kv.vllm")

    def test_without_the_host_it_says_so(self):
        for name in [name for name in sys.modules if name.split(".")[0] == "vllm" or name == "verbena.kv.vllm"]:
            del sys.modules[name]
        with self.assertRaisesRegex(ImportError, "install vllm"):
            importlib.import_module("verbena.kv.vllm")

    def test_a_host_without_load_errors_is_too_old(self):
        self.refused("too old", base=type("Base", (), {}))

    def test_a_host_with_a_method_that_it_does_not_know_is_too_new(self):
        self.refused("too new.*tell_the_future", base=type("Base", (vllm_host.KVConnectorBase_V1,),
                                                           {"tell_the_future": abc.abstractmethod(lambda self: None)}))

    def test_it_runs_without_the_hybrid_interface(self):
        vllm_host.install(without=("SupportsHMA",))
        importlib.import_module("verbena.kv.vllm")


class Steps(Case):
    def warm(self, **options):
        """Saves by one engine, loads by another one of the same model."""
        first = self.engine(**options)
        for request in requests(1):
            first.add(request)
        first.run()
        first.shutdown()
        second = self.engine(**options)
        for request in requests(1, tag="again"):
            second.add(request)
        second.run()
        second.shutdown()
        self.good(first)
        self.good(second)
        return first, second

    def test_what_one_engine_saved_another_one_loads(self):
        _, second = self.warm()
        self.assertGreater(second.loaded, 6)
        self.assertEqual(second.lost, 0)

    def test_requests_wait_outside_the_batch_when_loads_are_asynchronous(self):
        _, second = self.warm(load="async")
        self.assertGreater(second.loaded, 6)
        self.assertEqual(second.lost, 0)

    def test_blocks_removed_between_question_and_load_are_read_by_the_lease(self):
        for load in ("layers", "async"):
            for lease_ms in (0, 60_000):
                model = f"{self.id()}/{load}/{lease_ms}"
                first = self.engine(model)
                for request in requests(1):
                    first.add(request)
                first.run()
                first.shutdown()
                second = self.engine(model, load=load, lease_ms=lease_ms)
                scheduling, decide = second.connector._scheduling, second.connector.build_connector_meta

                def remove_first(output, scheduling=scheduling, decide=decide):
                    meta = decide(output)
                    if meta.loads:
                        remove(scheduling.store, scheduling.namespaces)
                    return meta
                second.connector.build_connector_meta = remove_first
                for request in requests(1, tag="again"):
                    second.add(request)
                second.run()
                second.shutdown()
                self.good(second)
                self.assertEqual(second.lost == 0, lease_ms != 0)

    def test_preempted_requests_find_their_blocks_again(self):
        first, second = self.warm(blocks=14, tokens_max=8)
        self.assertGreater(first.preempted + second.preempted, 0)

    def test_two_ranks_in_two_processes(self):
        _, second = self.warm(tp=2, processes=True)
        self.assertGreater(second.loaded, 6)

    def test_ranks_with_equal_bytes_share_them(self):
        vllm_host.install()
        from verbena.kv import _vllm_scheduler as scheduler
        self.assertEqual(scheduler.all_ranks(vllm_host.config({}, tp=4, mla=True)), [0])
        self.assertEqual(scheduler.all_ranks(vllm_host.config({}, tp=4)), [0, 1, 2, 3])

    def test_a_question_has_no_side_effects(self):
        one = self.engine()
        request = Request("q", SHARED)
        answers = [one.connector.get_num_new_matched_tokens(request, 0) for _ in range(3)]
        self.assertEqual(answers, [(0, False)] * 3)
        one.shutdown()

    def test_a_producer_loads_nothing_and_a_consumer_saves_nothing(self):
        loaded = []
        for role in ("kv_consumer", "kv_producer", "kv_producer", "kv_consumer"):
            one = self.engine(model="roles", kv_role=role)
            one.add(Request("x", SHARED + [1]))
            one.run()
            one.flush()
            loaded.append(one.loaded)
            self.good(one)
            one.shutdown()
        self.assertEqual(loaded, [0, 0, 0, 6])

    def test_another_model_shares_nothing(self):
        first, other = self.engine(model="a"), self.engine(model="b")
        for one in (first, other):
            one.add(Request("x", SHARED + [1]))
            one.run()
            one.flush()
        self.assertEqual(other.loaded, 0)
        first.shutdown()
        other.shutdown()

    def test_another_layout_under_the_same_name_is_an_error_at_the_start(self):
        self.engine(model="layout", layers=3).shutdown()
        from verbena.kv import Mismatch
        with self.assertRaises(Mismatch):
            self.engine(model="layout", layers=2)

    def test_an_unknown_setting_is_an_error_at_the_start(self):
        with self.assertRaisesRegex(ValueError, "no option colour"):
            self.engine(colour="green")

    def test_statistics_add_up(self):
        stats = vllm_host  # the host's class is the base of the connector's
        stats.install()
        connector = importlib.import_module("verbena.kv.vllm").VerbenaConnector
        one, two = connector.build_kv_connector_stats({"blocks_loaded": 2}), connector.build_kv_connector_stats({"blocks_loaded": 3, "saves": 1})
        self.assertEqual(one.aggregate(two).reduce(), {"blocks_loaded": 5, "saves": 1})
        self.assertFalse(one.is_empty())
        one.reset()
        self.assertTrue(one.is_empty())

    def test_one_tensor_for_all_layers(self):
        worker = engine.Worker(self.server.settings(), 0, 1, 2, 8, model="cross")
        connector = vllm_host.load(vllm_host.config(self.server.settings(cross_layers=True), model="one tensor"),
                                   vllm_host.KVConnectorRole.WORKER, vllm_host.cache_config(["a", "b"], 8))
        self.assertTrue(connector.prefer_cross_layer_blocks)
        tensor = torch.arange(8 * 2 * 32, dtype=torch.int16).reshape(8, 2, 32)
        connector.register_cross_layers_kv_cache(tensor, None)
        moved = importlib.import_module("verbena.kv._vllm_scheduler").Moved("r", [[b"0" * 32, b"1" * 32]], [[3, 5]])
        meta = importlib.import_module("verbena.kv.vllm").VerbenaMetadata
        for loads, saves, verdicts in (([], [moved], {}), ([], [], {1: frozenset()}), ([moved], [], {})):
            connector.bind_connector_metadata(meta(loads, saves, 1, verdicts=verdicts))
            connector.start_load_kv(None)
            connector.wait_for_layer_load("a")
            connector.wait_for_save()
            self.assertEqual(connector.get_block_ids_with_load_errors(), set())
            before = tensor.clone() if saves else before
            connector._working.store.flush()
            tensor[3], tensor[5] = (0, 0) if saves else (tensor[3], tensor[5])
        self.assertTrue(torch.equal(tensor, before))
        connector.shutdown()
        worker.shutdown()


class Hybrid(Case):
    def test_groups_of_layers_are_loaded_and_saved_each(self):
        names, blocks = ["full.0", "window.1", "full.2"], 8
        caches = {name: torch.zeros(blocks, engine.BLOCK, 16, dtype=torch.float32) for name in names}
        config, layout = vllm_host.config(self.server.settings(), model="hybrid"), vllm_host.cache_config(names, blocks, groups=[names[::2], names[1:2]])
        vllm_host.install()
        worker = vllm_host.load(config, vllm_host.KVConnectorRole.WORKER, layout)
        worker.register_kv_caches(caches)
        module, scheduler = importlib.import_module("verbena.kv.vllm"), importlib.import_module("verbena.kv._vllm_scheduler")
        hashes = [bytes([i]) * 32 for i in range(3)]
        wanted = {name: torch.rand_like(cache) for name, cache in caches.items()}
        for name, cache in caches.items():
            cache.copy_(wanted[name])
        keys = [[scheduler.group_hash(one, group) for one in hashes] for group in range(2)]
        self.step(worker, module.VerbenaMetadata([], [scheduler.Moved("r", keys, [[1, 2, 3], [0, 4, 5]])], 1), names)
        self.step(worker, module.VerbenaMetadata(verdicts={1: frozenset()}), names)
        worker._working.store.flush()
        for cache in caches.values():
            cache.zero_()
        lost = self.step(worker, module.VerbenaMetadata([scheduler.Moved("r", keys, [[5, 6, 7], [0, 2, 3]])], []), names)
        self.assertEqual(lost, set())
        self.assertTrue(torch.equal(caches["full.2"][5:8], wanted["full.2"][1:4]))
        self.assertTrue(torch.equal(caches["window.1"][2:4], wanted["window.1"][4:6]))
        self.assertEqual(float(caches["window.1"][0].abs().sum()), 0)
        worker.shutdown()

    @staticmethod
    def step(worker, meta, names):
        worker.bind_connector_metadata(meta)
        worker.start_load_kv(None)
        for name in names:
            worker.wait_for_layer_load(name)
            worker.save_kv_layer(name, None, None)
        worker.wait_for_save()
        worker.get_finished(set())
        worker.clear_connector_metadata()
        return worker.get_block_ids_with_load_errors()


class Faults(Case):
    """A server that is lost never gives a wrong block, and never holds a step up beyond the deadline."""

    def setUp(self):
        self.server.kill()
        self.server.start()

    def run_with(self, when, what, after, within=False, **options):
        """A run with a fault at one step, before it or, `within`, after the scheduler has asked and before the workers load."""
        options = {"deadline_ms": 300, "lookup_ms": 100, "retry_ms": 100, "model": "faults", **options}
        count = options.pop("count", 8)
        warm = self.engine(**options)
        for request in requests(2, count):
            warm.add(request)
        warm.run()
        warm.shutdown()
        one, slowest = self.engine(**options), 0.0
        for request in requests(2, count, tag="f"):
            one.add(request)
        decide, steps, more, spent = one.connector.build_connector_meta, 0, True, 0.0
        until = time.monotonic() + 120

        def decided(output):
            nonlocal spent
            meta, began = decide(output), time.monotonic()
            if steps == when:
                what()
            spent = time.monotonic() - began
            return meta
        if within:
            one.connector.build_connector_meta = decided
        while more:
            if steps == when and not within:
                what()
            began, spent = time.monotonic(), 0.0
            more = one.step()
            slowest = max(slowest, time.monotonic() - began - spent)
            steps += 1
            if steps == when + 3:
                after()
            self.assertLess(time.monotonic(), until, "it does not end")  # steps are empty while it waits for its server
        if when < steps < when + 3:
            after()
        one.shutdown()
        self.good(one)
        last = self.engine(**options)  # loads what was stored around the fault
        for request in requests(2, count, tag="last"):
            last.add(request)
        last.run()
        last.shutdown()
        self.good(last)
        # Each request's question may take its time until the breaker is open, then a load its deadline.
        self.assertLess(slowest, 8 * 0.1 + 0.3 + 2.0)
        return steps

    def killed(self, when, **options):
        return self.run_with(when, self.server.kill, self.server.start, **options)

    def frozen(self, when, **options):
        return self.run_with(when, lambda: self.server.freeze(),
                             lambda: self.server.process.send_signal(signal.SIGCONT), **options)

    def test_a_server_killed_in_the_middle(self):
        self.killed(2)

    def test_a_server_frozen_in_the_middle(self):
        self.frozen(1)
        self.frozen(1, load="async")

    def test_an_engine_starts_without_a_server_and_finds_it_later(self):
        self.server.kill()
        one = self.engine(model="late", deadline_ms=2000, retry_ms=50)
        one.add(Request("x", SHARED + [1]))
        one.run()
        self.server.start()
        until = time.monotonic() + 20
        while not one.connector._scheduling.store.usable or not one.workers[0].connector._working.store.usable:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        one.forget()
        one.add(Request("y", SHARED + [2]))
        one.run()
        one.flush()
        one.forget()
        one.add(Request("z", SHARED + [3]))
        one.run()
        self.assertEqual(one.loaded, 6)
        self.good(one)
        one.shutdown()

    def at_every_step(self, fault, **options):
        """The same run again and again, with the fault one step later each time, until it has come after the last step."""
        when = steps = 0
        while when <= steps:
            self.setUp()
            steps = fault(when, **options)
            when += 1
        print(options, fault.__name__, "at each of", when - 1, "steps", flush=True)  # the last run had ended before its fault
        return when - 1

    def test_a_server_killed_at_every_step_of_a_small_run(self):
        for options in ({}, {"within": True}, {"within": True, "load": "async"}):
            self.assertGreater(self.at_every_step(self.killed, count=3, tokens_max=64, **options), 4)

    @unittest.skipUnless(LONG, "by hand")
    def test_at_every_step(self):
        for options in ({}, {"load": "async"}, {"blocks": 14, "tokens_max": 8}, {"tp": 2, "processes": True}):
            for fault in (self.killed, self.frozen):
                for within in (False, True):
                    self.at_every_step(fault, within=within, **options)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *[one for one in sys.argv[1:] if one != "--long"]])
