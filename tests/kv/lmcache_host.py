"""A host of our own that loads remote connectors as LMCache does, in the forms of its newer and of its older releases.

Written from the interface's facts (docs/kv-engines.md says which commits). Its allocator hands out pieces of one tensor and counts references.
"""
import abc
import enum
import importlib
import sys
import types

import torch


class MemoryFormat(enum.Enum):
    KV_2LTD = 1
    KV_MLA_FMT = 2


class Chunk:
    """A memory object: bytes of the allocator's tensor, with a shape, counted."""

    def __init__(self, allocator, first, shape, dtype, fmt):
        self.allocator, self.first, self.dtype, self.fmt, self.references = allocator, first, dtype, fmt, 1
        self.meta = types.SimpleNamespace(shape=shape)
        self.raw_data = allocator.buffer[first:first + shape.numel() * torch.tensor([], dtype=dtype).element_size()]

    @property
    def byte_array(self):
        return memoryview(self.raw_data.numpy())

    @property
    def tensor(self):
        return self.raw_data.view(self.dtype).view(self.meta.shape)

    def get_size(self):
        return self.raw_data.numel()

    def get_shape(self):
        return self.meta.shape

    def get_dtype(self):
        return self.dtype

    def get_memory_format(self):
        return self.fmt

    def ref_count_up(self):
        assert self.references > 0, "used after it was freed"
        self.references += 1

    def ref_count_down(self):
        self.references -= 1
        assert self.references >= 0, "freed twice"
        if self.references == 0:
            self.allocator.live.discard(self)


class NewerChunk(Chunk):
    def get_shapes(self):
        return [self.meta.shape]

    def get_dtypes(self):
        return [self.dtype]


class LocalCPUBackend:
    def __init__(self, size, newer):
        self.memory_allocator = types.SimpleNamespace(buffer=torch.zeros(size, dtype=torch.uint8))
        self.buffer, self.at, self.live, self.newer = self.memory_allocator.buffer, 0, set(), newer

    def allocate(self, shapes, dtypes, fmt):
        several = isinstance(shapes, list)
        assert several == self.newer
        shape, dtype = (shapes[0], dtypes[0]) if several else (shapes, dtypes)
        size = shape.numel() * torch.tensor([], dtype=dtype).element_size()
        if self.at + size > len(self.buffer):
            return None
        made = (NewerChunk if self.newer else Chunk)(self, self.at, shape, dtype, fmt)
        self.at += -(-size // 64) * 64
        self.live.add(made)
        return made


class Base(metaclass=abc.ABCMeta):
    """What both forms have. Methods that are not abstract do what the host's own do."""

    def support_ping(self):
        return False

    async def ping(self):
        raise NotImplementedError

    def support_batched_get(self):
        return False

    def support_batched_put(self):
        return False

    async def batched_put(self, keys, memory_objs):
        raise NotImplementedError

    def support_batched_contains(self):
        return False

    def support_batched_async_contains(self):
        return False

    async def batched_async_contains(self, lookup_id, keys, pin=False):
        raise NotImplementedError

    def support_batched_get_non_blocking(self):
        return False

    async def batched_get_non_blocking(self, lookup_id, keys):
        raise NotImplementedError

    def remove_sync(self, key):
        raise NotImplementedError

    @abc.abstractmethod
    async def exists(self, key): ...

    @abc.abstractmethod
    def exists_sync(self, key): ...

    @abc.abstractmethod
    async def get(self, key): ...

    @abc.abstractmethod
    async def put(self, key, memory_obj): ...

    @abc.abstractmethod
    async def list(self): ...

    @abc.abstractmethod
    async def close(self): ...

    async def batched_get(self, keys):
        raise NotImplementedError

    def reshape_partial_chunk(self, chunk, size):
        if size > self.full or size % self.single_token_size:
            raise ValueError("no whole tokens")
        if size < self.full:
            shape = list(chunk.meta.shape)
            shape[2] = size // self.single_token_size
            chunk.raw_data, chunk.meta.shape = chunk.raw_data[:size], torch.Size(shape)
        return chunk

    def _sizes(self, metadata):
        _, layers, tokens, width = metadata.shape
        self.full, self.single_token_size = 2 * 2 * layers * tokens * width, 2 * 2 * layers * width


class NewerConnector(Base):
    def __init__(self, config, metadata):
        self.save_chunk_meta = config.extra_config.get("save_chunk_meta", True)
        self.meta_shapes, self.meta_dtypes, self.meta_fmt = [metadata.shape], [metadata.kv_dtype], MemoryFormat.KV_2LTD
        self._sizes(metadata)
        self.full_chunk_size_bytes = self.full

    def batched_contains(self, keys):
        raise NotImplementedError


class OlderConnector(Base):
    save_chunk_meta = True

    def init_chunk_meta(self, config, metadata):
        self._sizes(metadata)
        if not config.extra_config.get("save_chunk_meta", True):
            self.save_chunk_meta, self.full_chunk_size = False, self.full
            self.meta_shape, self.meta_dtype, self.meta_fmt = metadata.shape, metadata.kv_dtype, MemoryFormat.KV_2LTD

    def post_init(self):
        return

    def batched_contains(self, keys, stop_after_first_not_exits=True):
        raise NotImplementedError


class ConnectorAdapter(abc.ABC):
    def __init__(self, schema=""):
        self.schema = schema

    @abc.abstractmethod
    def can_parse(self, url): ...

    @abc.abstractmethod
    def create_connector(self, context): ...


class Key:
    """A cache engine's key."""

    def __init__(self, chunk, worker=0):
        self.chunk, self.worker = chunk, worker

    def to_string(self):
        return f"vllm@model@2@{self.worker}@{self.chunk:x}@half"


def install(newer=True, **changes):
    names = "lmcache lmcache.v1 lmcache.v1.storage_backend lmcache.v1.storage_backend.connector".split()
    for name in names:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    memory, base = types.ModuleType("lmcache.v1.memory_management"), types.ModuleType(names[-1] + ".base_connector")
    memory.MemoryFormat = MemoryFormat
    base.RemoteConnector = changes.get("base", NewerConnector if newer else OlderConnector)
    sys.modules[memory.__name__], sys.modules[base.__name__] = memory, base
    sys.modules["lmcache.v1"].memory_management = memory
    sys.modules[names[-1]].ConnectorAdapter, sys.modules[names[-1]].base_connector = ConnectorAdapter, base
    sys.modules["lmcache.v1.storage_backend"].connector = sys.modules[names[-1]]
    sys.modules.pop("verbena.kv.lmcache", None)


PLUGIN = {"remote_storage_plugin.verbena.module_path": "verbena.kv.lmcache", "remote_storage_plugin.verbena.class_name": "VerbenaAdapter"}


def connect(url, loop, *, newer=True, plain=True, shape=(2, 2, 8, 16), size=1 << 20, model="model"):
    """A connector by the plugin that this URL is for."""
    return connect_as({"remote_url": url, "remote_serde": "naive", "remote_storage_plugins": ["verbena"],
                       "extra_config": {"save_chunk_meta": not plain, **PLUGIN}}, loop, newer=newer, shape=shape, size=size, model=model)


def connect_as(settings, loop, *, newer=True, shape=(2, 2, 8, 16), size=1 << 20, model="model"):
    """As the host's manager: the adapters of the plugins by module and class, the first that can parse the URL makes the connector."""
    install(newer)
    config = types.SimpleNamespace(use_layerwise=False, **settings)
    url, extra, adapters = config.remote_url, config.extra_config, []
    for plugin in config.remote_storage_plugins:
        module, name = (extra[f"remote_storage_plugin.{plugin}.{part}"] for part in ("module_path", "class_name"))
        adapters.append(getattr(importlib.import_module(module), name)())
    adapter = next(one for one in adapters if one.can_parse(url))
    assert isinstance(adapter, ConnectorAdapter) and not adapter.can_parse("redis://x:1")
    metadata = types.SimpleNamespace(model_name=model, world_size=2, kv_dtype=torch.float16, use_mla=False, shape=torch.Size(shape))
    backend = LocalCPUBackend(size, newer)
    made = adapter.create_connector(types.SimpleNamespace(url=url, loop=loop, local_cpu_backend=backend, config=config, metadata=metadata))
    if not newer:
        made.init_chunk_meta(config, metadata)
        made.post_init()
    return made, backend
