#!/usr/bin/python3
"""Which vLLM engines share blocks: those whose configuration and layout give equal bytes for equal tokens, and no others."""
import importlib
import os
import sys
import types
import unittest
from unittest import mock

import kv_case

torch = kv_case.torch_or_skip()
import engine  # noqa: E402
import vllm_host  # noqa: E402
from engine import Request  # noqa: E402
from vllm_case import SHARED, Case  # noqa: E402

from verbena.kv import Mismatch, namespace_id  # noqa: E402
from verbena.kv import _vllm_namespace as names  # noqa: E402
from verbena.kv import _vllm_scheduler  # noqa: E402, F401: before a test changes what it imports


class Described(unittest.TestCase):
    """Each setting that changes what is computed makes another namespace."""

    def config(self, change=lambda config: None):
        config = vllm_host.config({})
        config.load_config = types.SimpleNamespace(load_format="auto")
        config.speculative_config = config.attention_config = None
        change(config)
        return config

    def described(self, change=lambda config: None):
        return namespace_id(names.describe(self.config(change), 0))

    def test_settings_of_the_model(self):
        changes = [lambda config, part=part, name=name, value=value: setattr(getattr(config, part), name, value) for part, name, value in (
            ("model_config", "hf_overrides", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}),
            ("model_config", "hf_overrides", {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}),
            ("model_config", "rope_theta", 5e5), ("model_config", "quantization", "fp8"), ("model_config", "revision", "other"),
            ("model_config", "code_revision", "other"), ("model_config", "compute_hash", lambda: "one"),
            ("model_config", "compute_hash", lambda: "other"), ("cache_config", "calculate_kv_scales", True),
            ("cache_config", "cache_dtype", "fp8"), ("load_config", "load_format", "dummy"))]
        changes += [lambda config: setattr(config, "attention_config", types.SimpleNamespace(backend=types.SimpleNamespace(name="FLASHINFER"))),
                    lambda config: setattr(config, "speculative_config", types.SimpleNamespace(method="eagle", model="draft"))]
        self.assertEqual(len({self.described(), *map(self.described, changes)}), 1 + len(changes))
        self.assertEqual(self.described(), self.described())

    def test_variables_that_choose_the_attention(self):
        for name in ("VLLM_KV_CACHE_LAYOUT", "VLLM_ATTENTION_BACKEND"):
            plain = self.described()
            with mock.patch.dict(os.environ, {name: "X"}):
                self.assertNotEqual(self.described(), plain)

    def test_a_function_is_described_equally_in_every_process(self):
        told = names.describe(self.config(lambda config: setattr(config.model_config, "hf_overrides", engine.read)), 0)
        self.assertEqual(told["hf_overrides"], "engine.read")

    def test_a_hash_of_the_engine_that_fails_is_no_fault(self):
        def fails():
            raise RuntimeError("no configuration")
        with self.assertLogs("verbena.kv", "WARNING"):
            self.assertIsNone(names.describe(self.config(lambda config: setattr(config.model_config, "compute_hash", fails)), 0)["model_hash"])


class Layouts(unittest.TestCase):
    def told(self, tensor, dim=1, tokens=16, backend="A"):
        return names.layout_of(tensor, dim, tokens, backend)

    def test_shape_order_and_type(self):
        wanted = self.told(torch.zeros(2, 5, 16, 4, 8, dtype=torch.float16))
        self.assertEqual(wanted, [[2, 16, 4, 8], [0, 1, 2, 3], "float16", ""])
        for other in (torch.zeros(2, 5, 4, 16, 8, dtype=torch.float16), torch.zeros(2, 5, 16, 4, 8, dtype=torch.bfloat16),
                      torch.zeros(2, 5, 4, 16, 8, dtype=torch.float16).permute(0, 1, 3, 2, 4)):
            self.assertNotEqual(self.told(other), wanted)
        self.assertEqual(self.told(torch.zeros(5, 2, 16, 4, 8, dtype=torch.float16), dim=0), wanted)  # its blocks have the same bytes
        self.assertEqual(self.told(torch.zeros(2, 9, 16, 4, 8, dtype=torch.float16)), wanted)

    def test_a_shape_that_reads_two_ways_names_its_attention(self):
        square = torch.zeros(2, 5, 16, 16, 8)
        self.assertNotEqual(self.told(square, backend="A"), self.told(square, backend="B"))

    def test_the_attention_s_name_out_of_the_engine(self):
        def config(layer):
            return types.SimpleNamespace(compilation_config=types.SimpleNamespace(static_forward_context={"l": layer}))
        backend = types.SimpleNamespace(get_name=lambda: "FLASH")
        self.assertEqual(names.backend_of(config(types.SimpleNamespace(attn_backend=backend)), "l"), "FLASH")
        self.assertEqual(names.backend_of(config(types.SimpleNamespace(get_attn_backend=lambda: backend)), "l"), "FLASH")
        self.assertEqual(names.backend_of(config(None), "all layers", backend), "FLASH")
        self.assertEqual((names.backend_of(config(None), "l"), names.backend_of(config(None), "x"), names.backend_of(None, "l")), ("", "", ""))


class Engines(Case):
    def worker(self, tensor, model, blocks=8):
        made = vllm_host.load(vllm_host.config(self.server.settings(), model=model), vllm_host.KVConnectorRole.WORKER,
                              vllm_host.cache_config(["l"], blocks))
        self.addCleanup(made.shutdown)
        made.register_kv_caches({"l": tensor})

    def test_equal_sizes_with_other_byte_order_are_an_error_at_the_start(self):
        vllm_host.install()
        self.worker(torch.zeros(2, 8, 4, 2, 8, dtype=torch.int16), "order")
        self.worker(torch.zeros(8, 2, 4, 2, 8, dtype=torch.int16), "order")  # the same bytes of a block
        for other in (torch.zeros(2, 8, 2, 4, 8, dtype=torch.int16), torch.zeros(2, 8, 4, 2, 8, dtype=torch.float16),
                      torch.zeros(2, 8, 2, 4, 8, dtype=torch.int16).transpose(2, 3)):
            with self.assertRaises(Mismatch):
                self.worker(other, "order")

    def run_one(self, one, request_id="r", adapter=None):
        request = Request(request_id, [*SHARED, 1])
        if adapter:
            request.lora_request = types.SimpleNamespace(lora_name="a", lora_path=adapter)
        one.add(request)
        one.run()
        one.flush()
        one.forget()
        loaded, one.loaded = one.loaded, 0
        return loaded

    def test_adapters_of_one_name_share_nothing(self):
        one = self.engine()
        loaded = [self.run_one(one, f"{i}", adapter) for i, adapter in enumerate(("/a", "/b", None, "/a", "/b", None))]
        self.assertEqual(loaded, [0, 0, 0, 6, 6, 6])
        self.good(one)
        one.shutdown()

    def test_a_worker_follows_the_scheduler_s_view(self):
        """As after loading a model that changed the worker's copy of the configuration."""
        original = names.describe

        def describe(config, rank):
            vllm_host.hashes += 1
            return {**original(config, rank), "model_hash": f"process {vllm_host.hashes}"}
        vllm_host.hashes = 0
        with mock.patch.object(names, "describe", describe):
            one = self.engine()
        working, scheduling = one.workers[0].connector._working, one.connector._scheduling
        one.add(Request("begins", [1]))
        one.run()
        self.until(lambda: working.store.usable)
        self.assertEqual(self.run_one(one, "first"), 0)
        self.assertEqual(working.store.namespace, scheduling.namespaces[0])
        self.assertEqual(self.run_one(one, "second"), 6)
        self.good(one)
        one.shutdown()

    def test_a_worker_that_follows_to_another_layout_goes_on_without_a_cache(self):
        vllm_host.install()
        tensor, plan = torch.zeros(2, 8, 4, 2, 8, dtype=torch.int16), importlib.import_module("verbena.kv.vllm").VerbenaMetadata
        config = vllm_host.config(self.server.settings(deadline_ms=20_000, retry_ms=10), model="follows")
        self.worker(tensor, "follows")
        worker = vllm_host.load(vllm_host.config(self.server.settings(), model="own"), vllm_host.KVConnectorRole.WORKER,
                                vllm_host.cache_config(["l"], 8))
        self.addCleanup(worker.shutdown)
        worker.register_kv_caches({"l": torch.zeros(2, 8, 2, 4, 8, dtype=torch.int16)})
        worker.bind_connector_metadata(plan(step=1, description=names.describe(config, 0)))
        with self.assertLogs("verbena.kv", "ERROR") as logged:
            worker.start_load_kv(None)
            self.until(lambda: worker._working.store._mismatch is not None)
        worker.wait_for_save()
        self.until(lambda: not worker._working.store._breaker.closed)
        self.assertEqual([worker._working.store.usable, len(logged.records)], [False, 1])
        self.assertEqual(worker._working.store.leading([bytes(16)]), 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
