"""The client for asyncio: awaitable calls that block no thread.

    async with verbena.AsyncClient("http://127.0.0.1:9000", access_key="...", secret_key="...") as client:
        data = await client.get("bucket", "key")
"""
import asyncio

from . import _native
from ._client import Client, ListedObject, connect
from .errors import BufferTooSmall, Closed

_GET, _PUT, _HEAD, _DELETE, _LIST, _APPEND = range(6)


class AsyncClient:
    """As Client. Belongs to the event loop that it is first used in."""

    def __init__(self, endpoint=None, *, client=None, **options):
        self.client = client if client is not None else connect(endpoint, **options)
        self._queue = _native.Queue()
        self._loop = None
        self._closed = False
        self._operations = set()  # in progress

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exception):
        await self.close()

    async def close(self):
        """Calls in progress end with Cancelled."""
        self._closed = True
        self.client.close()
        for operation in list(self._operations):
            operation.cancel()
        while self._queue.started:
            await asyncio.sleep(0.001)
            self._drain()
        if self._loop is not None:
            self._loop.remove_reader(self._queue.fileno())
            self._loop = None

    def _drain(self):
        for future, failed, value in self._queue.take():
            if future.done():
                continue
            if failed:
                future.set_exception(value)
            else:
                future.set_result(value)

    async def _call(self, kind, bucket, key, memory=None, **options):
        loop = asyncio.get_running_loop()
        if self._closed:
            raise Closed("the client is closed")
        if self._loop is None:
            self._loop = loop
            loop.add_reader(self._queue.fileno(), self._drain)
        elif self._loop is not loop:
            raise RuntimeError("the client belongs to another event loop")
        future = loop.create_future()
        operation = self._queue.start(self.client, future, kind, bucket, key, memory, **options)
        self._operations.add(operation)
        future.add_done_callback(lambda _: self._operations.discard(operation))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            # The memory may be reused once the call has ended.
            operation.cancel()
            while not future.done():
                try:
                    await asyncio.wait([future])
                except asyncio.CancelledError:  # once more: the transfer may still write there
                    pass
            if not future.cancelled():
                future.exception()
            raise

    async def get_into(self, bucket, key, into, **options):
        """Fills a Buffer or a writable array; returns the Reply."""
        if isinstance(into, _native.Buffer):
            return await self._call(_GET, bucket, key, into, **options)
        with self.client.register(into) as memory:
            return await self._call(_GET, bucket, key, memory, **options)

    async def get(self, bucket, key, *, size=None, **options):
        """The object as a Buffer. `size`: its expected size, if known."""
        for attempt in range(9):
            room = size if size is not None else await self._room_for(bucket, key, options)
            memory = self.client.allocate(max(room, 1))
            try:
                reply = await self._call(_GET, bucket, key, memory, **options)
            except BufferTooSmall:  # the object may have grown in between
                if size is not None or attempt == 8:
                    raise
                continue
            return memory if reply.bytes == len(memory) else memoryview(memory)[:reply.bytes]

    async def _room_for(self, bucket, key, options):
        """The number of bytes to make room for, as Client.get does: of the ranges, or of the object (or version) now."""
        asked = options.get("ranges") or ([options["range"]] if options.get("range") else [])
        room = sum(length for _, length in asked)
        if asked and all(length for _, length in asked) and room <= 64 << 20:
            return room
        there = (await self.head(bucket, key, version_id=options.get("version_id"))).size
        if not asked:
            return there
        return sum(min(length or there, max(there - offset, 0)) for offset, length in asked)

    async def _store(self, kind, store, bucket, key, data, **options):
        if isinstance(data, _native.Buffer):
            return await self._call(kind, bucket, key, data, **options)
        if memoryview(data).nbytes == 0:
            return await asyncio.to_thread(store, bucket, key, b"", **options)
        with self.client.register(data) as memory:
            return await self._call(kind, bucket, key, memory, **options)

    async def put(self, bucket, key, data, **options):
        return await self._store(_PUT, self.client.put, bucket, key, data, **options)

    async def append(self, bucket, key, data, at=None, *, content_type=None):
        """As Client.append. Concurrent appends to one key leave in the order in which they were begun; by the native
        door small adjacent ones share messages, each with its own Reply."""
        return await self._store(_APPEND, self.client.append, bucket, key, data, at=at, content_type=content_type)

    async def head(self, bucket, key, **options):
        return await self._call(_HEAD, bucket, key, **options)

    async def delete(self, bucket, key, **options):
        await self._call(_DELETE, bucket, key, **options)

    async def list(self, bucket, prefix="", *, delimiter=None):
        """As Client.list, with `async for`."""
        continuation = None
        while True:
            objects, prefixes, continuation = await self._call(_LIST, bucket, prefix, if_match=continuation, if_none_match=delimiter)
            for entry in objects:
                yield ListedObject(*entry)
            for level in prefixes:
                yield level
            if continuation is None:
                return


__all__ = ["AsyncClient", "Client"]
