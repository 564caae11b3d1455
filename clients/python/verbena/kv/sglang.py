"""VerbenaStorage: SGLang's HiCache pages in Verbena, by its dynamic backend.

    python -m sglang.launch_server ... --enable-hierarchical-cache --hicache-mem-layout page_first --hicache-storage-backend dynamic
      --hicache-storage-backend-extra-config '{"backend_name": "verbena", "module_path": "verbena.kv.sglang",
        "class_name": "VerbenaStorage", "interface_v1": 1, "verbena": {"bucket": "kvcache", "endpoint": "http://store:9000"}}'

Settings under "verbena" are those of verbena.kv.Options. No call raises once the backend was made: a failure is what it returns.
"""
import functools
import importlib
import logging

try:
    import torch
    from sglang.srt.mem_cache import hicache_storage as _host
except ImportError as error:
    raise ImportError(f"verbena.kv.sglang is loaded by SGLang, which cannot be imported here ({error}): install sglang") from error

try:
    from sglang.srt.mem_cache import pool_transfer as _pools
except ImportError:  # before these types had a module of their own
    _pools = _host

from ._arena import Arena, copy
from ._pages import Pages
from .store import KvStore, hash_of

log = logging.getLogger("verbena.kv")
_ARGUMENTS = ("revision", "dtype", "quantization", "quantization_param_path", "kv_cache_dtype", "json_model_override_args", "enable_lora",
              "lora_paths", "speculative_algorithm", "speculative_draft_model_path", "speculative_draft_model_revision")

if not hasattr(_host.HiCacheStorage, "batch_get_v1"):
    raise ImportError("this SGLang is too old for VerbenaStorage: its storage has no batch_get_v1")


def describe(config):
    """What the pages of this rank are. With MLA every rank has the same ones."""
    shared = bool(getattr(config, "is_mla_model", False))
    facts = {"engine": "sglang", "model": str(config.model_name), "mla": shared, "tp": 1 if shared else config.tp_size,
             "tp_rank": 0 if shared else config.tp_rank}
    for name in ("pp_size", "pp_rank", "attn_cp_size", "attn_cp_rank", "tp_lcm_size", "should_split_heads", "model_identity_hash"):
        facts[name] = getattr(config, name, None)
    facts.update(_engine_facts())
    return facts


def _engine_facts():
    """What the engine was started with and its storage configuration leaves out, where it tells it."""
    for module, name in (("sglang.srt.runtime_context", "get_server_args"), ("sglang.srt.server_args", "get_global_server_args")):
        try:
            arguments = getattr(importlib.import_module(module), name)()
        except Exception:  # an older host, or one that has not set them
            continue
        told = {name: getattr(arguments, name, None) for name in _ARGUMENTS}
        told["lora_paths"] = _adapters(told["lora_paths"])
        told["weights"] = "dummy" if "dummy" in str(getattr(arguments, "load_format", "")) else ""
        return {"arguments": {name: value if isinstance(value, (bool, int, float, type(None))) else str(value) for name, value in told.items()}}
    return {"arguments": None}


def _adapters(given):
    """Name and path of each adapter, sorted, from any form in which the host holds them: "path" or "name=path", a mapping, objects. Objects
    have an id of their own that is random at each start, so their text names nothing."""
    if given is None:
        return None
    pairs = given.items() if isinstance(given, dict) else map(_adapter, [given] if isinstance(given, str) else given)
    return str(sorted([str(name), str(path)] for name, path in pairs))


def _adapter(one):
    if isinstance(one, str):
        name, sign, path = one.partition("=")
        return (name, path) if sign else (one, one)
    name, path = (one.get(field) if isinstance(one, dict) else getattr(one, field, None) for field in ("lora_name", "lora_path"))
    if path is None:
        raise ValueError(f"this SGLang is too new for VerbenaStorage: an adapter is a {type(one).__name__} without lora_path")
    return name, path


def _never_raises(otherwise):
    """A storage thread of the host ends for good when a backend raises."""
    def wrap(call):
        @functools.wraps(call)
        def safe(self, *given, **named):
            try:
                return call(self, *given, **named)
            except Exception:
                log.exception("verbena.kv: %s failed", call.__name__)
                return otherwise(*given, **named)
        return safe
    return wrap


def _false_each(keys=(), *rest, **named):
    return [False] * len(keys)


class VerbenaStorage(_host.HiCacheStorage):
    def __init__(self, storage_config, kwargs=None):
        extra = dict(storage_config.extra_config or {})
        if getattr(storage_config, "should_split_heads", False):
            raise ValueError("VerbenaStorage stores the pages of one tensor-parallel size: tp_lcm_size is not served")
        self._store = KvStore(description=describe(storage_config), **extra.get("verbena", {}))
        self._pages, self.registered_pools = {}, {}
        self._saves_here = not getattr(storage_config, "is_mla_model", False) or storage_config.tp_rank == 0

    # ---- Pools of host memory ----

    def register_mem_pool_host(self, mem_pool_host):
        super().register_mem_pool_host(mem_pool_host)
        self._register("kv", mem_pool_host)

    def register_mem_host_pool_v2(self, host_pool, host_pool_name):
        self.registered_pools[host_pool_name] = host_pool
        self._register(str(host_pool_name), host_pool)

    def _register(self, name, pool):
        if name in self._pages:
            return
        buffers = pool.get_hybrid_pool_buffer() if hasattr(pool, "get_hybrid_pool_buffer") else getattr(pool, "kv_buffer", None)
        if buffers is None:
            return  # the pool only numbers pages that others hold
        buffers = buffers if isinstance(buffers, (list, tuple)) else [buffers]
        pages = Pages(self._store, name, pool, [Arena(self._store, one) for one in buffers])
        self._store.agree(name, pages.layout())
        self._pages[name] = pages

    # ---- Pages of the pool ----

    @_never_raises(_false_each)
    def batch_get_v1(self, keys, host_indices, extra_info=None):
        return self._pages["kv"].get(keys, host_indices)

    @_never_raises(_false_each)
    def batch_set_v1(self, keys, host_indices, extra_info=None):
        return self._pages["kv"].set(keys, host_indices) if self._saves_here else [True] * len(keys)

    @_never_raises(lambda keys=(), *rest, **named: 0)
    def batch_exists(self, keys, extra_info=None):
        return self._pages["kv"].leading(keys) if "kv" in self._pages else self._store.leading([hash_of(key) for key in keys])

    @_never_raises(lambda key, *rest, **named: False)
    def exists(self, key):
        return self.batch_exists([key]) == 1

    # ---- Several pools ----

    @_never_raises(lambda *given, **named: _pools.PoolTransferResult(0, {}))
    def batch_exists_v2(self, keys, pool_transfers=None, extra_info=None):
        usable = found = self.batch_exists(keys)
        hits = {"kv": found} if found else {}
        for transfer in pool_transfers or ():
            if usable == 0:
                break
            hit = self._hit(transfer, keys[:found])
            if hit:
                hits[transfer.name] = hit
            usable = min(usable, hit)
        return _pools.PoolTransferResult(usable, hits)

    def _hit(self, transfer, keys):
        """The longest prefix that a further pool can serve: all of its pages, or the last ones."""
        pages = self._pages[str(transfer.name)]
        if getattr(transfer.hit_policy, "value", transfer.hit_policy) == "all_pages":
            return pages.leading(keys)
        tail, there = max(len(transfer.keys or ()), 1), pages.present(keys)
        run = 0
        longest = 0
        for i, one in enumerate(there):
            run = run + 1 if one else 0
            if run >= min(tail, i + 1):
                longest = i + 1
        return longest

    @_never_raises(lambda transfers=(), *rest, **named: {one.name: _false_each(one.keys or ()) for one in transfers})
    def batch_get_v2(self, transfers, extra_info=None):
        return {one.name: self._pages[str(one.name)].get(one.keys or [], one.host_indices) for one in transfers}

    @_never_raises(lambda transfers=(), *rest, **named: {one.name: _false_each(one.keys or ()) for one in transfers})
    def batch_set_v2(self, transfers, extra_info=None):
        if not self._saves_here:
            return {one.name: [True] * len(one.keys or ()) for one in transfers}
        return {one.name: self._pages[str(one.name)].set(one.keys or [], one.host_indices) for one in transfers}

    # ---- Single pages, as tensors ----

    @_never_raises(lambda *given, **named: None)
    def get(self, key, target_location=None, target_sizes=None):
        return self.batch_get([key], [target_location], target_sizes)[0]

    @_never_raises(lambda keys=(), *rest, **named: [None] * len(keys))
    def batch_get(self, keys, target_locations=None, target_sizes=None):
        """Fills the tensors that are given."""
        if target_locations is None or any(one is None for one in target_locations):
            raise ValueError("VerbenaStorage fills tensors that it is given: target_locations is needed")
        sizes = [one.numel() * one.element_size() for one in target_locations]
        memory, offsets = self._store.allocate(max(sum(sizes), 1)), [sum(sizes[:i]) for i in range(len(sizes))]
        load = self._store.load_items([(self._store.bucket, self._flat(key), at, size) for key, at, size in zip(keys, offsets, sizes)], memory)
        there = load.result()
        for tensor, one, at, size in zip(target_locations, there, offsets, sizes):
            if one:
                got = torch.frombuffer(memoryview(memory), dtype=torch.uint8, count=size, offset=at)
                tensor.copy_(got.clone().view(tensor.dtype).view(tensor.shape))
        return [tensor if one else None for tensor, one in zip(target_locations, there)]

    @_never_raises(lambda *given, **named: False)
    def set(self, key, value=None, target_location=None, target_sizes=None):
        return self.batch_set([key], [value])

    @_never_raises(lambda *given, **named: False)
    def batch_set(self, keys, values=None, target_locations=None, target_sizes=None):
        if not self._saves_here:
            return True
        values = [one.detach().contiguous().cpu() for one in values]
        sizes = [one.numel() * one.element_size() for one in values]
        memory, items, at = self._store.allocate(max(sum(sizes), 1)), [], 0
        start = torch.frombuffer(memoryview(memory), dtype=torch.uint8).data_ptr()
        for key, value, size in zip(keys, values, sizes):
            copy(start + at, value.data_ptr(), size)
            items.append((self._store.bucket, self._flat(key), at, size))
            at += size
        return all(self._store.save_items(items, memory).result())

    def _flat(self, key):
        """Pages as flat tensors may have another order of bytes than the pool's."""
        return self._store.key(hash_of(f"{key}.flat"))

    # ---- The rest ----

    @_never_raises(lambda *given, **named: None)
    def clear(self):
        self._store.clear()

    def get_stats(self):
        return None  # the host wants its own type; statistics() has the numbers

    def statistics(self):
        return self._store.statistics.all()

    def close(self):
        self._store.flush(5.0)
        self._store.close()


if VerbenaStorage.__abstractmethods__:
    raise ImportError(f"this SGLang is too new for VerbenaStorage: it asks for {', '.join(sorted(VerbenaStorage.__abstractmethods__))}")
