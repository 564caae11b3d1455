#!/usr/bin/python3
"""The HiCache backend under a host of our own: every call, in both layouts of host memory, pages compared bit by bit."""
import abc
import hashlib
import importlib
import logging
import signal
import sys
import time
import types
import unittest
import uuid
from unittest import mock

import kv_case

torch = kv_case.torch_or_skip()
import sglang_host  # noqa: E402
from sglang_host import Pool, PoolHitPolicy, PoolName, PoolTransfer, StatePool  # noqa: E402


def names(count, tag="k"):
    return [hashlib.sha256(f"{tag}{i}".encode()).hexdigest() for i in range(count)]


def indices(*firsts, page=4):
    return torch.tensor([first + i for first in firsts for i in range(page)])


class Loading(unittest.TestCase):
    def test_without_the_host_it_says_so(self):
        for name in [name for name in sys.modules if name.split(".")[0] == "sglang" or name == "verbena.kv.sglang"]:
            del sys.modules[name]
        with self.assertRaisesRegex(ImportError, "install sglang"):
            importlib.import_module("verbena.kv.sglang")

    def test_hosts_that_are_too_old_or_too_new(self):
        for base, words in ((abc.ABCMeta("Base", (), {}), "too old"),
                            (abc.ABCMeta("Base", (sglang_host.HiCacheStorage,), {"fly": abc.abstractmethod(lambda self: None)}), "too new.*fly")):
            sglang_host.install(base)
            with self.assertRaisesRegex(ImportError, words):
                importlib.import_module("verbena.kv.sglang")


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = kv_case.CacheServer()
        cls.server.start()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def create(self, pool=None, settings=None, **more):
        made = sglang_host.create(self.server.settings(**(settings or {"deadline_ms": 20_000, "lookup_ms": 20_000})), pool,
                                  **{"model": self.id(), **more})
        self.addCleanup(made.close)
        return made


class Pages(Case):
    def test_pages_travel_between_pools_of_each_layout(self):
        for layout in ("page_first", "layer_first"):
            with self.subTest(layout):
                mine, theirs, keys = Pool(layout), Pool(layout), names(5)
                mine.kv_buffer.copy_(torch.randn(mine.kv_buffer.shape))
                one, other = self.create(mine, model=layout), self.create(theirs, model=layout, apart=False)
                self.assertEqual(one.batch_exists(keys), 0)
                self.assertEqual(one.batch_set_v1(keys[:4], indices(0, 8, 16, 24)), [True] * 4)
                self.assertEqual(one.batch_set_v1(keys[:4], indices(0, 8, 16, 24)), [True] * 4)  # they are there already
                self.assertEqual((other.batch_exists(keys), other.exists(keys[3]), other.exists(keys[4])), (4, True, False))
                before = theirs.kv_buffer.clone()
                self.assertEqual(other.batch_get_v1(keys, indices(40, 32, 4, 0, 60)), [True] * 4 + [False])
                for at, origin in zip((40, 32, 4, 0), (0, 8, 16, 24)):
                    self.assertTrue(torch.equal(theirs.page(at), mine.page(origin)))
                self.assertEqual(float(theirs.page(20).abs().sum() - before.abs().sum()), 0)  # other pages are as they were

    def test_tensors(self):
        pool, keys = Pool(), names(3, "t")
        one = self.create(pool)
        data = [torch.randn(2, 4, 3, 16).half().flatten() for _ in keys]
        self.assertTrue(one.batch_set(keys[:2], data[:2]))
        self.assertTrue(one.set(keys[1], data[1]))
        into = [torch.zeros_like(one) for one in data]
        got = one.batch_get(keys, into)
        self.assertIsNone(got[2])
        self.assertTrue(torch.equal(got[0], data[0]) and torch.equal(got[1], data[1]))
        self.assertTrue(torch.equal(one.get(keys[0], torch.zeros_like(data[0])), data[0]))

    def test_no_call_raises(self):
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        one = self.create()
        keys = names(2)
        self.assertEqual(one.batch_get_v1(keys, indices(0, 4)), [False, False])
        self.assertEqual(one.batch_set_v1(keys, indices(0, 4)), [False, False])
        self.assertEqual(one.batch_get_v2([PoolTransfer(PoolName.MAMBA, indices(0), ["a"])]), {PoolName.MAMBA: [False]})
        self.assertEqual(one.batch_set_v2([PoolTransfer(PoolName.MAMBA, indices(0), ["a"])]), {PoolName.MAMBA: [False]})
        self.assertEqual(one.batch_exists_v2(keys, [PoolTransfer(PoolName.MAMBA)]).kv_hit_pages, 0)
        self.assertEqual((one.batch_get(keys), one.set("a", "no tensor"), one.exists("a"), one.get_stats()), ([None, None], False, False, None))

    def test_ranks_of_mla_share_their_pages_and_others_do_not(self):
        keys, pool = names(1), Pool()
        for mla, found in ((True, 1), (False, 0)):
            first, second = (self.create(pool, model=f"mla {mla}", mla=mla, tp=2, rank=rank) for rank in range(2))
            self.assertEqual(first.batch_set_v1(keys, indices(0)), [True])
            self.assertEqual(second.batch_exists(keys), found)

    def test_another_layout_under_the_same_model_is_an_error_at_the_start(self):
        self.create(Pool("page_first"), model="one layout")
        from verbena.kv import Mismatch
        with self.assertRaises(Mismatch):
            self.create(Pool("layer_first"), model="one layout")

    def test_pools_of_equal_bytes_and_other_heads_share_nothing(self):
        self.create(types.SimpleNamespace(**vars(Pool()), head_num=2, head_dim=8, get_page_buffer_meta=Pool().get_page_buffer_meta), model="heads")
        from verbena.kv import Mismatch
        with self.assertRaises(Mismatch):
            self.create(types.SimpleNamespace(**vars(Pool()), head_num=4, head_dim=4, get_page_buffer_meta=Pool().get_page_buffer_meta), model="heads")

    def test_what_the_engine_was_started_with_names_the_cache(self):
        found, pool, keys = [], Pool(), names(1, "arguments")
        for given in ({}, {"quantization": "fp8"}, {"json_model_override_args": '{"rope_theta": 5e5}'}, {"load_format": "dummy"}, {"lora_paths": ["/a"]},
                      {"quantization": "fp8"}):
            arguments = types.ModuleType("sglang.srt.server_args")
            arguments.get_global_server_args = lambda given=given: types.SimpleNamespace(**given)
            with mock.patch.dict(sys.modules, {arguments.__name__: arguments}):
                one = self.create(pool)
            found.append(one.batch_exists(keys))
            one.batch_set_v1(keys, indices(0))
        newer = types.ModuleType("sglang.srt.runtime_context")
        newer.get_server_args = lambda: types.SimpleNamespace(quantization="fp8")
        with mock.patch.dict(sys.modules, {newer.__name__: newer}):
            found += [self.create(pool).batch_exists(keys), self.create(pool, model_identity_hash="h").batch_exists(keys)]
        self.assertEqual(found, [0, 0, 0, 0, 0, 1, 1, 0])

    def test_adapters_name_the_cache_by_name_and_path_and_not_by_the_id_of_a_start(self):
        class Reference:
            def __init__(self, lora_name, lora_path):
                self.lora_id, self.lora_name, self.lora_path = uuid.uuid4().hex, lora_name, lora_path

            def __repr__(self):
                return f"Reference({self.lora_id}, {self.lora_name}, {self.lora_path})"

        sglang_host.install()
        described = importlib.import_module("verbena.kv.sglang").describe
        arguments, named = types.ModuleType("sglang.srt.server_args"), []
        for given in ([Reference("a", "/a"), Reference("b", "/b")], [Reference("b", "/b"), Reference("a", "/a")], ["b=/b", "a=/a"],
                      {"a": "/a", "b": "/b"}, [{"lora_name": "a", "lora_path": "/a"}, {"lora_name": "b", "lora_path": "/b"}],
                      [Reference("a", "/a"), Reference("b", "/c")], ["/a"], "/a", None):
            arguments.get_global_server_args = lambda given=given: types.SimpleNamespace(lora_paths=given)
            with mock.patch.dict(sys.modules, {arguments.__name__: arguments}):
                named.append(str(described(types.SimpleNamespace(model_name="m", tp_size=1, tp_rank=0))))
        self.assertEqual(named[:5], named[:1] * 5)
        self.assertEqual(named[6], named[7])
        self.assertEqual(len({named[0], named[5], named[6], named[8]}), 4)

    def test_heads_that_are_split_are_refused(self):
        with self.assertRaisesRegex(ValueError, "tp_lcm_size"):
            self.create(should_split_heads=True)

    def test_clear(self):
        one, keys = self.create(Pool()), names(2)
        one.batch_set_v1(keys, indices(0, 4))
        one.clear()
        self.assertEqual(one.batch_exists(keys), 0)


class Interface(Case):
    def test_the_host_calls_every_method_of_the_interface(self):
        sglang_host.install()
        kind, interface, called = importlib.import_module("verbena.kv.sglang").VerbenaStorage, kv_case.methods_of(sglang_host.HiCacheStorage), set()
        kv_case.record_calls(kind, interface, called)
        pool = Pool()
        with mock.patch.object(sglang_host, "install"):
            one = self.create(pool)
        self.assertIs(type(one), kind)
        self.live(one, pool)
        self.assertEqual(interface - called, set())

    def live(self, one, pool):
        """What a host does with a backend, from its start to its end; arguments by the names that they have there."""
        pool.kv_buffer.copy_(torch.randn(pool.kv_buffer.shape))
        states, keys, told = StatePool(), names(3, "i"), types.SimpleNamespace(prefix_keys=None, extra_info=None)
        one.register_mem_host_pool_v2(host_pool=states, host_pool_name=PoolName.MAMBA)
        self.assertEqual(one.batch_exists(keys=keys, extra_info=told), 0)
        self.assertEqual(one.batch_set_v1(keys=keys, host_indices=indices(0, 4, 8), extra_info=told), [True] * 3)
        transfer = PoolTransfer(PoolName.MAMBA, torch.tensor([0, 1, 2]), keys)
        self.assertEqual(one.batch_set_v2(transfers=[transfer], extra_info=told), {PoolName.MAMBA: [True] * 3})
        self.assertEqual(one.batch_exists_v2(keys=keys, pool_transfers=[transfer], extra_info=told).kv_hit_pages, 3)
        self.assertEqual(one.batch_get_v1(keys=keys, host_indices=indices(20, 24, 28), extra_info=told), [True] * 3)
        self.assertTrue(all(torch.equal(pool.page(20 + at), pool.page(at)) for at in (0, 4, 8)))
        self.assertEqual(one.batch_get_v2(transfers=[transfer], extra_info=told), {PoolName.MAMBA: [True] * 3})
        self.assertTrue(one.exists(key=keys[2]))
        flat = [pool.get_data_page(at) for at in (0, 4)]
        self.assertTrue(one.set(key="a", value=flat[0]) and one.batch_set(keys=["b"], values=flat[1:]))
        self.assertTrue(torch.equal(one.get(key="a", target_location=torch.zeros_like(flat[0])), flat[0]))
        self.assertTrue(torch.equal(one.batch_get(keys=["b"], target_locations=[torch.zeros_like(flat[1])])[0], flat[1]))
        self.assertIsNone(one.get_stats())
        one.clear()
        self.assertEqual(one.batch_exists(keys), 0)


class Pools(Case):
    def test_hits_of_several_pools(self):
        pool, states, keys = Pool(), StatePool(), names(6)
        states.states.copy_(torch.randn(states.states.shape))
        one = self.create(pool)
        one.register_mem_host_pool_v2(states, PoolName.MAMBA)
        one.register_mem_host_pool_v2(StatePool(width=8), PoolName.INDEXER)
        one.batch_set_v1(keys[:5], indices(0, 4, 8, 12, 16))
        done = one.batch_set_v2([PoolTransfer(PoolName.MAMBA, torch.tensor([2, 3]), [keys[2], keys[3]]),
                                 PoolTransfer(PoolName.INDEXER, torch.tensor([0, 1, 2]), keys[:3])])
        self.assertEqual(done, {PoolName.MAMBA: [True, True], PoolName.INDEXER: [True] * 3})
        tail, every = PoolTransfer(PoolName.MAMBA, None, ["x"], PoolHitPolicy.TRAILING_PAGES), PoolTransfer(PoolName.INDEXER)
        self.assertEqual(one.batch_exists_v2(keys).kv_hit_pages, 5)
        told = one.batch_exists_v2(keys, [tail])
        self.assertEqual((told.kv_hit_pages, told.extra_pool_hit_pages), (4, {"kv": 5, PoolName.MAMBA: 4}))
        self.assertEqual(one.batch_exists_v2(keys, [every]).kv_hit_pages, 3)
        self.assertEqual(one.batch_exists_v2(keys, [every, tail]).kv_hit_pages, 3)
        two = PoolTransfer(PoolName.MAMBA, None, ["x", "y"], PoolHitPolicy.TRAILING_PAGES)
        self.assertEqual(one.batch_exists_v2(keys, [two]).kv_hit_pages, 4)
        self.assertEqual(one.batch_exists_v2(keys[:3], [two]).kv_hit_pages, 0)
        wanted = states.states[3].clone()
        got = one.batch_get_v2([PoolTransfer(PoolName.MAMBA, torch.tensor([9, 10]), [keys[3], keys[4]])])
        self.assertEqual(got, {PoolName.MAMBA: [True, False]})
        self.assertTrue(torch.equal(states.states[9], wanted))


class Faults(Case):
    def test_a_frozen_server_is_a_miss_and_comes_back(self):
        pool, keys = Pool(), names(2)
        one = self.create(pool, {"deadline_ms": 300, "lookup_ms": 200, "retry_ms": 50})
        pool.kv_buffer.copy_(torch.randn(pool.kv_buffer.shape))
        one.batch_set_v1(keys, indices(0, 4))
        self.server.freeze()
        began = time.monotonic()
        self.assertEqual(one.batch_get_v1(keys, indices(8, 12)), [False, False])
        self.assertEqual(one.batch_exists(keys), 0)
        self.assertEqual(one.batch_set_v1(names(1, "n"), indices(0)), [False])
        self.assertLess(time.monotonic() - began, 5)
        self.server.process.send_signal(signal.SIGCONT)
        until = time.monotonic() + 30
        while one.batch_exists(keys) != 2:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        self.assertEqual(one.batch_get_v1(keys, indices(8, 12)), [True, True])
        self.assertTrue(torch.equal(pool.page(8), pool.page(0)))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
