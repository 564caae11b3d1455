"""VerbenaAdapter: LMCache's remote chunks in Verbena, by URL.

    remote_url: "verbena://store:9100/bucket?deadline_ms=500"
    remote_storage_plugins: ["verbena"]
    extra_config:
      remote_storage_plugin.verbena.module_path: verbena.kv.lmcache
      remote_storage_plugin.verbena.class_name: VerbenaAdapter
      save_chunk_meta: false

Host and port are those of the native door; `endpoint=http://store:9000` in the query adds the HTTP one. Further options are those of
verbena.kv.Options. With save_chunk_meta false chunks travel between the server and LMCache's own pinned memory without a copy.
"""
import asyncio
import contextlib
import inspect
import json
import logging
import math
import time
import urllib.parse

try:
    import torch
    from lmcache.v1.memory_management import MemoryFormat
    from lmcache.v1.storage_backend import connector as _host
    from lmcache.v1.storage_backend.connector.base_connector import RemoteConnector
except ImportError as error:
    raise ImportError(f"verbena.kv.lmcache is loaded by LMCache, which cannot be imported here ({error}): install lmcache") from error

from ._arena import Arena, address_of, tensors_in
from .store import KvStore, hash_of

log = logging.getLogger("verbena.kv")
_HEAD = 512  # bytes before a chunk that say its shape, with save_chunk_meta

if not hasattr(_host, "ConnectorAdapter") or not hasattr(RemoteConnector, "batched_get"):
    raise ImportError("this LMCache is too old for VerbenaAdapter: its connectors have no adapters by URL, or no batches")


def parse_url(url):
    """Options out of verbena://[key:secret@]host:port/bucket?option=value."""
    before, _, shown = url.removeprefix("verbena://").rpartition("@")  # without keys: it ends up in logs
    shown = "..." if "?" in before else shown.partition("?")[0]
    wrong = ValueError(f"verbena://{shown}: a URL is verbena://host:port/bucket?option=value")
    try:
        parts = urllib.parse.urlsplit(url)
        host, port, bucket = parts.hostname, parts.port or 9100, parts.path.strip("/")
        given = urllib.parse.parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError:  # whose text has parts of the URL
        raise wrong from None
    if not host or not bucket:
        raise wrong
    options = {name: values[-1] for name, values in given.items()}
    options.update(bucket=bucket, native_endpoint=f"{host}:{port}")
    if parts.username:
        options.update(access_key=urllib.parse.unquote(parts.username), secret_key=urllib.parse.unquote(parts.password or ""))
    if "endpoint" not in options:  # buckets are made over HTTP
        options = {"via": "native", "make_bucket": "false", **options}
    return options


def describe(config, metadata):
    """What the chunks are. Rank and chunk are in each key."""
    facts = {"engine": "lmcache", "serde": str(getattr(config, "remote_serde", None)), "layerwise": bool(getattr(config, "use_layerwise", False))}
    facts["chunk_meta"] = bool((getattr(config, "extra_config", None) or {}).get("save_chunk_meta", True))
    facts["hash"] = str(getattr(config, "pre_caching_hash_algorithm", ""))
    for name in ("model_name", "world_size", "kv_dtype", "kv_shape", "use_mla", "fmt", "chunk_size"):
        if hasattr(metadata, name):
            value = getattr(metadata, name)
            facts[name] = list(value) if isinstance(value, tuple) else value if isinstance(value, (int, bool)) else str(value)
    return facts


def _read_head(head):
    """What a head says: (bytes, shapes, dtypes, format) of a chunk. Others are a ValueError, or a RecursionError."""
    told = json.loads(bytes(head))
    size, shapes, dtypes, form = (told.get(name) if isinstance(told, dict) else None for name in ("bytes", "shapes", "dtypes", "format"))
    if not isinstance(size, int) or not isinstance(shapes, list) or not isinstance(dtypes, list) or not isinstance(form, str):
        raise ValueError("a head has bytes, shapes, dtypes and format")
    kinds = [getattr(torch, one, None) if isinstance(one, str) else None for one in dtypes]
    if form not in MemoryFormat.__members__ or not kinds or not all(isinstance(one, torch.dtype) for one in kinds):
        raise ValueError("no such format or type")
    if len(shapes) != len(kinds) or not all(isinstance(one, list) and all(type(n) is int and 0 < n < 1 << 40 for n in one) for one in shapes):
        raise ValueError("a shape is a list of numbers, one for each type")
    if sum(math.prod(shape) * torch.empty(0, dtype=kind).element_size() for shape, kind in zip(shapes, kinds)) != size:
        raise ValueError("the shapes have another number of bytes")
    return size, [torch.Size(one) for one in shapes], kinds, MemoryFormat[form]


class VerbenaAdapter(_host.ConnectorAdapter):
    def __init__(self):
        super().__init__("verbena://")

    def can_parse(self, url):
        return url.startswith("verbena://")

    def create_connector(self, context):
        return VerbenaRemoteConnector(context)


class VerbenaRemoteConnector(RemoteConnector):
    def __init__(self, context):
        if "metadata" in inspect.signature(RemoteConnector.__init__).parameters:
            super().__init__(context.config, context.metadata)
        self._loop, self._backend = context.loop, context.local_cpu_backend
        self._store = KvStore(description=describe(context.config, context.metadata), **parse_url(context.url))
        self._arenas, self._agreed = [], False
        if hasattr(self, "meta_shapes"):
            self._agree()

    def post_init(self):
        self._agree()

    # ---- Shapes ----

    @property
    def _plain(self):
        """Chunks of a known shape, as their bytes alone."""
        return not getattr(self, "save_chunk_meta", True)

    def _agree(self):
        if not self._agreed:  # older hosts tell the shape after the connector was made
            self._agreed = True
            self._store.agree("chunks", {"head": 0 if self._plain else _HEAD, "bytes": self._full_bytes(), **self._forms()})

    def _full_bytes(self):
        size = getattr(self, "full_chunk_size_bytes", None) or getattr(self, "full_chunk_size", None)
        return int(size) if size and self._plain else 0

    def _forms(self):
        """How chunks of a known shape are made up."""
        several = hasattr(self, "meta_shapes")
        shapes = self.meta_shapes if several else [getattr(self, "meta_shape", None)]
        dtypes = self.meta_dtypes if several else [getattr(self, "meta_dtype", None)]
        if not self._plain or not shapes or shapes[0] is None:
            return {}
        return {"shapes": [list(one) for one in shapes], "dtypes": [str(one).replace("torch.", "") for one in dtypes],
                "format": getattr(self.meta_fmt, "name", str(self.meta_fmt))}

    def _new_chunk(self):
        if hasattr(self, "meta_shapes"):
            return self._backend.allocate(self.meta_shapes, self.meta_dtypes, self.meta_fmt)
        return self._backend.allocate(self.meta_shape, self.meta_dtype, self.meta_fmt)

    @staticmethod
    def _head_of(chunk):
        several = hasattr(chunk, "get_shapes")
        shapes = chunk.get_shapes() if several else [chunk.get_shape()]
        dtypes = chunk.get_dtypes() if several else [chunk.get_dtype()]
        text = json.dumps({"bytes": len(chunk.byte_array), "shapes": [list(one) for one in shapes],
                           "dtypes": [str(one).replace("torch.", "") for one in dtypes], "format": chunk.get_memory_format().name})
        if len(text) > _HEAD:
            raise ValueError("the chunk's shape is too long")
        return text.ljust(_HEAD).encode()

    def _chunk_of(self, head):
        """A chunk for what a head describes, or None."""
        try:
            size, shapes, dtypes, form = _read_head(head)
        except (ValueError, RecursionError) as error:
            log.error("verbena.kv: a chunk's head cannot be read: %s", error)
            return None
        several = hasattr(self, "meta_shapes")
        chunk = self._backend.allocate(shapes if several else shapes[0], dtypes if several else dtypes[0], form)
        if chunk is not None and len(chunk.byte_array) != size:
            chunk.ref_count_down()
            return None
        return chunk

    # ---- Memory ----

    def _arena(self, chunks):
        """The host's memory that all of the chunks lie in, if it is one tensor."""
        spans = [(address_of(chunk.byte_array), len(chunk.byte_array)) for chunk in chunks]
        for arena in self._arenas:
            if all(arena.holds(*span) for span in spans):
                return arena, spans
        for tensor in tensors_in(self._backend):
            if tensor.device.type == "cpu" and tensor.is_contiguous():
                arena = Arena(self._store, tensor)
                if all(arena.holds(*span) for span in spans):
                    self._arenas.append(arena)
                    return arena, spans
        return None, spans

    @staticmethod
    def _free(chunks):
        for chunk in chunks:
            if chunk is not None:
                chunk.ref_count_down()

    @contextlib.contextmanager
    def _freed_if_it_fails(self, chunks, load=None):
        """Lets go of the chunks if what is done with them raises, as it does when a coroutine is cancelled: after the load into them."""
        try:
            yield
        except BaseException:
            if load is None:
                self._free(chunks)
            else:
                load.when_drained(lambda: self._free(chunks))
            raise

    async def _ended(self, transfer, deadline=True):
        """Waits without holding the loop. With a deadline, until that at most."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def tell():
            try:
                loop.call_soon_threadsafe(lambda: done.done() or done.set_result(None))
            except RuntimeError:  # the loop has ended
                pass
        transfer.when_drained(tell)
        try:
            await asyncio.wait_for(done, max(transfer.deadline - time.monotonic(), 0) if deadline else None)
        except asyncio.TimeoutError:
            pass
        return transfer.result()

    # ---- Questions ----

    def _hashes(self, keys):
        return [hash_of(key.to_string()) for key in keys]

    def exists_sync(self, key):
        self._agree()
        return self._store.leading(self._hashes([key])) == 1

    async def exists(self, key):
        return await asyncio.get_running_loop().run_in_executor(None, self.exists_sync, key)

    def support_batched_contains(self):
        return True

    def batched_contains(self, keys, *stop):
        """How many leading keys are there; for hosts that ask for a list, of each whether it is one of these."""
        self._agree()
        found = self._store.leading(self._hashes(keys))
        takes = inspect.signature(RemoteConnector.batched_contains).parameters if hasattr(RemoteConnector, "batched_contains") else ()
        return [i < found for i in range(len(keys))] if len(takes) > 2 else found

    def support_batched_async_contains(self):
        return True

    async def batched_async_contains(self, lookup_id, keys, pin=False):
        self._agree()
        return await asyncio.get_running_loop().run_in_executor(None, self._store.leading, self._hashes(keys))

    # ---- Loads ----

    def support_batched_get(self):
        return True

    def support_batched_get_non_blocking(self):
        return True

    async def get(self, key):
        return (await self.batched_get([key]))[0]

    async def batched_get(self, keys):
        self._agree()
        if not keys or not self._store.usable:
            return [None] * len(keys)
        return await (self._get_plain(keys) if self._plain else self._get_headed(keys))

    async def batched_get_non_blocking(self, lookup_id, keys):
        """The leading chunks."""
        chunks = await self.batched_get(keys)
        end = next((i for i, one in enumerate(chunks) if one is None), len(chunks))
        self._free(chunks[end:])
        return chunks[:end]

    async def _get_plain(self, keys):
        chunks = []
        with self._freed_if_it_fails(chunks):
            for _ in keys:
                chunk = self._new_chunk()
                if chunk is None:
                    break
                chunks.append(chunk)
        names = [self._store.key(one) for one in self._hashes(keys)]
        sizes = await self._fill(chunks, [(name, 0, 0) for name in names[:len(chunks)]])
        return [self._sized(chunk, size) for chunk, size in zip(chunks, sizes)] + [None] * (len(keys) - len(chunks))

    def _sized(self, chunk, size):
        """A chunk with that many bytes: the last one of a prompt may be shorter."""
        if size:
            try:
                return self.reshape_partial_chunk(chunk, size)
            except Exception as error:  # the host's own code
                log.error("verbena.kv: a chunk has another size than its model's: %s", error)
                chunk.ref_count_down()
        return None

    async def _get_headed(self, keys):
        names = [self._store.key(one) for one in self._hashes(keys)]
        heads = self._store.allocate(_HEAD * len(keys))
        load = self._store.load_items([(self._store.bucket, name, i * _HEAD, _HEAD, 0, _HEAD) for i, name in enumerate(names)], heads)
        there = await self._ended(load)
        chunks = []
        with memoryview(heads) as view, self._freed_if_it_fails(chunks):
            for i, one in enumerate(there):
                chunks.append(self._chunk_of(view[i * _HEAD:(i + 1) * _HEAD]) if one else None)
        made = [i for i, chunk in enumerate(chunks) if chunk is not None]
        items = [(names[i], _HEAD, len(chunks[i].byte_array)) for i in made]
        for i, size in zip(made, await self._fill([chunks[i] for i in made], items)):
            if size != len(chunks[i].byte_array):
                if size:
                    chunks[i].ref_count_down()
                chunks[i] = None
        return chunks

    async def _fill(self, chunks, wanted):
        """Loads (key, first, length) into the chunks: how many bytes each has, 0 for those that are missing, which are freed. All are, if
        this does not return: not before the load has ended, since the server may write into them until then."""
        if not chunks:
            return []
        with self._freed_if_it_fails(chunks):
            arena, spans = self._arena(chunks)
            memory, places, at = (arena.memory, [address - arena.first for address, _ in spans], 0) if arena else (None, [], 0)
            if arena is None:
                for _, size in spans:
                    places.append(at)
                    at += size
                memory = self._store.allocate(max(at, 1))
            items = [(self._store.bucket, name, place, size, first, length) if first else (self._store.bucket, name, place, size)
                     for (name, first, length), place, (_, size) in zip(wanted, places, spans)]
            load = self._store.load_items(items, memory)
        with self._freed_if_it_fails(chunks, load):
            await self._ended(load)
            sizes = load.sizes() if load.drained else [0] * len(chunks)
            if arena is None and any(sizes):
                with memoryview(memory) as view:
                    for chunk, size, place in zip(chunks, sizes, places):
                        if size:
                            chunk.byte_array[:size] = view[place:place + size]
        missing = [chunk for chunk, size in zip(chunks, sizes) if not size]
        load.when_drained(lambda: self._free(missing))
        return sizes

    # ---- Saves ----

    def support_batched_put(self):
        return True

    async def put(self, key, memory_obj):
        await self.batched_put([key], [memory_obj])

    async def batched_put(self, keys, memory_objs):
        """Returns when the chunks' memory is free again: the host lets go of it then."""
        self._agree()
        pairs = [(key, chunk) for key, chunk in zip(self._hashes(keys), memory_objs) if chunk is not None]
        if not pairs or not self._store.takes_saves:
            return
        arena, spans = self._arena([chunk for _, chunk in pairs])
        if self._plain and arena is not None:
            items = [(self._store.bucket, self._store.key(name), address - arena.first, size) for (name, _), (address, size) in zip(pairs, spans)]
            held = [chunk for _, chunk in pairs]
            for chunk in held:  # the host lets go of them when this is cancelled, and the save goes on
                chunk.ref_count_up()
            with self._freed_if_it_fails(held):
                memory = arena.memory
            await self._ended(self._store.save_items(items, memory, release=lambda: self._free(held)), deadline=False)
            return
        heads = [b"" if self._plain else self._head_of(chunk) for _, chunk in pairs]
        memory, items, at = self._store.allocate(sum(len(head) + size for head, (_, size) in zip(heads, spans))), [], 0
        with memoryview(memory) as view:
            for (name, chunk), head, (_, size) in zip(pairs, heads, spans):
                view[at:at + len(head)] = head
                view[at + len(head):at + len(head) + size] = chunk.byte_array
                items.append((self._store.bucket, self._store.key(name), at, len(head) + size))
                at += len(head) + size
        self._store.save_items(items, memory)

    # ---- The rest ----

    def support_ping(self):
        return True

    async def ping(self):
        return 0 if self._store.usable else 1

    def remove_sync(self, key):
        return self._store.remove(self._hashes([key]))

    async def list(self):
        """The names under which the chunks are stored."""
        return await asyncio.get_running_loop().run_in_executor(None, self._store.names)

    async def close(self):
        await asyncio.get_running_loop().run_in_executor(None, self._store.flush, 5.0)
        self._store.close()

    def statistics(self):
        return self._store.statistics.all()

    def __repr__(self):
        return f"<VerbenaRemoteConnector {self._store.bucket}/{self._store.namespace}>"


if VerbenaRemoteConnector.__abstractmethods__ or VerbenaAdapter.__abstractmethods__:
    missing = sorted(VerbenaRemoteConnector.__abstractmethods__ | VerbenaAdapter.__abstractmethods__)
    raise ImportError(f"this LMCache is too new for VerbenaAdapter: it asks for {', '.join(missing)}")
