"""A host of our own that loads a storage backend as SGLang's dynamic loading does, with host pools of its layouts.

Written from the interface's facts (docs/kv-engines.md says which commits).
"""
import abc
import dataclasses
import enum
import importlib
import sys
import types
from typing import Any, Optional

import torch


class PoolName(str, enum.Enum):
    KV = "kv"
    MAMBA = "mamba"
    INDEXER = "indexer"

    def __str__(self):
        return self.value


class PoolHitPolicy(str, enum.Enum):
    ALL_PAGES = "all_pages"
    TRAILING_PAGES = "trailing_pages"


@dataclasses.dataclass
class PoolTransfer:
    name: Any
    host_indices: Any = None
    keys: Optional[list] = None
    hit_policy: Any = PoolHitPolicy.ALL_PAGES


@dataclasses.dataclass
class PoolTransferResult:
    kv_hit_pages: int
    extra_pool_hit_pages: dict


class HiCacheStorage(abc.ABC):
    """Methods that are not abstract do what the host's own do."""

    def register_mem_pool_host(self, mem_pool_host):
        self.mem_pool_host = mem_pool_host

    def register_mem_host_pool_v2(self, host_pool, host_pool_name):
        raise NotImplementedError

    def batch_exists_v2(self, keys, pool_transfers=None, extra_info=None):
        raise NotImplementedError

    def batch_get_v2(self, transfers, extra_info=None):
        raise NotImplementedError

    def batch_set_v2(self, transfers, extra_info=None):
        raise NotImplementedError

    def batch_get_v1(self, keys, host_indices, extra_info=None):
        raise NotImplementedError

    def batch_set_v1(self, keys, host_indices, extra_info=None):
        raise NotImplementedError

    @abc.abstractmethod
    def get(self, key, target_location=None, target_sizes=None): ...

    @abc.abstractmethod
    def batch_get(self, keys, target_locations=None, target_sizes=None): ...

    @abc.abstractmethod
    def set(self, key, value=None, target_location=None, target_sizes=None): ...

    @abc.abstractmethod
    def batch_set(self, keys, values=None, target_locations=None, target_sizes=None): ...

    @abc.abstractmethod
    def exists(self, key): ...

    def batch_exists(self, keys, extra_info=None):
        raise NotImplementedError

    def clear(self):
        return

    def get_stats(self):
        return None


class Pool:
    """A host pool of keys and values: "page_first" has a page in two places, "layer_first" one for each layer and half."""

    def __init__(self, layout="page_first", tokens=64, page_size=4, layers=3, width=16):
        self.layout, self.page_size, self.size, self.layers, self.width, self.dtype = layout, page_size, tokens, layers, width, torch.float16
        shape = (2, tokens, layers, width) if layout == "page_first" else (2, layers, tokens, width)
        self.kv_buffer = torch.zeros(shape, dtype=self.dtype)

    def get_page_buffer_meta(self, indices):
        addresses, start, item = [], self.kv_buffer.data_ptr(), self.kv_buffer.element_size()
        for first in indices.tolist()[::self.page_size]:
            if self.layout == "page_first":
                row = self.layers * self.width
                addresses += [start + item * row * (half * self.size + first) for half in range(2)]
            else:
                addresses += [start + item * self.width * ((half * self.layers + layer) * self.size + first)
                              for layer in range(self.layers) for half in range(2)]
        each = self.page_size * self.width * item * (self.layers if self.layout == "page_first" else 1)
        return addresses, [each] * len(addresses)

    def page(self, first):
        """The bytes of a page, whatever the layout."""
        part = self.kv_buffer[:, first:first + self.page_size] if self.layout == "page_first" else self.kv_buffer[:, :, first:first + self.page_size]
        return part

    def get_data_page(self, first):
        return self.page(first).flatten().clone()

    def set_from_flat_data_page(self, first, flat):
        self.page(first).copy_(flat.view(self.page(first).shape))


class StatePool:
    """A pool of states, one piece a page, whose sizes come as a number."""

    layout, page_size, dtype = "page_first", 1, torch.float32

    def __init__(self, pages=16, width=40):
        self.states = torch.zeros(pages, width)

    def get_hybrid_pool_buffer(self):
        return [self.states]

    def get_page_buffer_meta(self, indices):
        return [self.states[i].data_ptr() for i in indices.tolist()], self.states.shape[1] * 4


def install(base=HiCacheStorage, apart=True):
    for name in ("sglang", "sglang.srt", "sglang.srt.mem_cache"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    storage, pools = types.ModuleType("sglang.srt.mem_cache.hicache_storage"), types.ModuleType("sglang.srt.mem_cache.pool_transfer")
    storage.HiCacheStorage = base
    for module in (pools,) if apart else (storage,):
        module.PoolTransfer, module.PoolTransferResult, module.PoolName, module.PoolHitPolicy = PoolTransfer, PoolTransferResult, PoolName, PoolHitPolicy
    parent = sys.modules["sglang.srt.mem_cache"]
    sys.modules[storage.__name__], parent.hicache_storage = storage, storage
    sys.modules.pop(pools.__name__, None)
    if apart:
        sys.modules[pools.__name__], parent.pool_transfer = pools, pools
    sys.modules.pop("verbena.kv.sglang", None)


def create(settings, pool=None, **more):
    """A backend with these settings."""
    return create_as({"backend_name": "verbena", "module_path": "verbena.kv.sglang", "class_name": "VerbenaStorage", "interface_v1": 1,
                      "verbena": settings}, pool, **more)


def create_as(extra, pool=None, *, model="model", mla=False, tp=1, rank=0, apart=True, **more):
    """As the host's factory for the backend "dynamic", by the extra configuration; the pool is registered after it."""
    install(apart=apart)
    config = types.SimpleNamespace(tp_rank=rank, tp_size=tp, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1, is_mla_model=mla,
                                   enable_storage_metrics=False, is_page_first_layout=True, model_name=model, extra_config=extra,
                                   tp_lcm_size=None, **{"should_split_heads": False, **more})
    made = getattr(importlib.import_module(extra["module_path"]), extra["class_name"])
    assert issubclass(made, sys.modules["sglang.srt.mem_cache.hicache_storage"].HiCacheStorage)
    backend = made(config, {})
    if pool is not None:
        backend.register_mem_pool_host(pool)
    return backend
