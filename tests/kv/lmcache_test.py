#!/usr/bin/python3
"""The LMCache connector under a host of our own, in the forms of its newer and of its older releases: every call, chunks compared bit by bit."""
import abc
import asyncio
import contextlib
import importlib
import json
import signal
import sys
import threading
import time
import unittest
from unittest import mock

import kv_case

torch = kv_case.torch_or_skip()
import lmcache_host  # noqa: E402
import verbena  # noqa: E402
from lmcache_host import Key  # noqa: E402

FORMS = [(newer, plain) for newer in (True, False) for plain in (True, False)]


class Loading(unittest.TestCase):
    def test_without_the_host_it_says_so(self):
        for name in [name for name in sys.modules if name.split(".")[0] == "lmcache" or name == "verbena.kv.lmcache"]:
            del sys.modules[name]
        with self.assertRaisesRegex(ImportError, "install lmcache"):
            importlib.import_module("verbena.kv.lmcache")

    def test_a_host_without_batches_is_too_old(self):
        lmcache_host.install(base=abc.ABCMeta("Base", (), {}))
        with self.assertRaisesRegex(ImportError, "too old"):
            importlib.import_module("verbena.kv.lmcache")

    def test_a_host_with_a_method_that_it_does_not_know_is_too_new(self):
        lmcache_host.install(base=abc.ABCMeta("Base", (lmcache_host.NewerConnector,), {"fly": abc.abstractmethod(lambda self: None)}))
        with self.assertRaisesRegex(ImportError, "too new.*fly"):
            importlib.import_module("verbena.kv.lmcache")

    def test_urls(self):
        lmcache_host.install()
        parse = importlib.import_module("verbena.kv.lmcache").parse_url
        self.assertEqual(parse("verbena://host:9100/bucket"),
                         {"via": "native", "make_bucket": "false", "bucket": "bucket", "native_endpoint": "host:9100"})
        told = parse("verbena://key:se%2Fcret@host/b?endpoint=http://host:9000&deadline_ms=7")
        self.assertEqual(told, {"endpoint": "http://host:9000", "deadline_ms": "7", "bucket": "b", "native_endpoint": "host:9100",
                                "access_key": "key", "secret_key": "se/cret"})
        for wrong in ("verbena:///bucket", "verbena://host:9100", "verbena://host:9100/b?x"):
            with self.assertRaises(ValueError):
                parse(wrong)
        for wrong in ("verbena://AKEY:SECRET@store:9100", "verbena://AKEY:SECRET@/bucket", "verbena://AKEY:SEC/SECRET@store:9100",
                      "verbena://AKEY:SECRET@store:port/bucket", "verbena://AKEY:SEC?SECRET@store", "verbena://AKEY:SECRET@[x/bucket",
                      "verbena://AKEY:SECRET/x@store:9100/bucket"):
            with self.subTest(wrong), self.assertRaises(ValueError) as raised:
                parse(wrong)
            self.assertNotIn("SECRET", str(raised.exception))
            self.assertIsNone(raised.exception.__cause__)
            self.assertTrue(raised.exception.__suppress_context__ or raised.exception.__context__ is None)


class Case(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = kv_case.CacheServer()
        cls.server.start()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def connect(self, query="deadline_ms=20000&lookup_ms=20000", **form):
        key, secret = kv_case.ACCESS_KEY, kv_case.SECRET_KEY.replace("/", "%2F").replace("+", "%2B")
        url = f"verbena://{key}:{secret}@{self.server.at[1]}/kvcache?endpoint=http://{self.server.at[0]}&{query}"
        made, backend = lmcache_host.connect(url, asyncio.get_running_loop(), model=self.id(), **form)
        self.addAsyncCleanup(made.close)
        return made, backend

    def chunk(self, backend, tokens=8):
        shape = torch.Size((2, 2, tokens, 16))
        made = backend.allocate([shape] if backend.newer else shape, [torch.float16] if backend.newer else torch.float16,
                                lmcache_host.MemoryFormat.KV_2LTD)
        made.tensor.copy_(torch.randn(*shape).to(torch.float16))
        return made


class Chunks(Case):
    async def test_what_one_worker_put_another_one_gets(self):
        for newer, plain in FORMS:
            with self.subTest(newer=newer, plain=plain):
                form = {"newer": newer, "plain": plain}
                one, mine = self.connect(**form)
                keys = [Key(1000 * newer + 100 * plain + i) for i in range(5)]
                chunks = [self.chunk(mine) for _ in keys[:3]] + [self.chunk(mine, tokens=3)]
                await one.batched_put(keys[:4], chunks)
                one._store.flush()
                other, theirs = self.connect(**form)
                got = await other.batched_get(keys)
                self.assertIsNone(got[4])
                for chunk, wanted in zip(got[:4], chunks):
                    self.assertEqual(chunk.get_shape(), wanted.get_shape())
                    self.assertTrue(torch.equal(chunk.tensor, wanted.tensor))
                self.assertEqual(theirs.live, set(got[:4]))  # the missing one was let go of
                self.assertEqual([one.references for one in got[:4]], [1] * 4)
                single = await other.get(keys[0])
                self.assertTrue(torch.equal(single.tensor, chunks[0].tensor))
                prefix = await other.batched_get_non_blocking("lookup", [keys[0], keys[4], keys[1]])
                self.assertEqual(len(prefix), 1)
                self.assertEqual(theirs.live, {*got[:4], single, *prefix})
                self.assertEqual(bool(other._arenas), True)  # straight into the host's own memory

    async def test_questions(self):
        for newer in (True, False):
            one, mine = self.connect(newer=newer)
            keys = [Key(i, worker=newer) for i in range(4)]
            await one.put(keys[0], self.chunk(mine))
            await one.put(keys[1], self.chunk(mine))
            await one.put(keys[3], self.chunk(mine))
            self.assertEqual(one.batched_contains(keys), 2 if newer else [True, True, False, False])
            self.assertEqual(await one.batched_async_contains("id", keys, True), 2)
            self.assertEqual((await one.exists(keys[3]), one.exists_sync(keys[2])), (True, False))
            self.assertEqual((one.support_ping(), await one.ping()), (True, 0))
            self.assertEqual([one.support_batched_get(), one.support_batched_put(), one.support_batched_contains(),
                              one.support_batched_async_contains(), one.support_batched_get_non_blocking()], [True] * 5)
            self.assertGreaterEqual(len(await one.list()), 3)
            self.assertTrue(one.remove_sync(keys[0]))
            self.assertEqual(await one.batched_async_contains("id", keys), 0)
            self.assertEqual(one.statistics()["errors"], 0)

    async def test_the_host_calls_every_method_of_the_interface(self):
        for newer in (True, False):
            with self.subTest(newer=newer):
                lmcache_host.install(newer)
                kind, called = importlib.import_module("verbena.kv.lmcache").VerbenaRemoteConnector, set()
                interface = kv_case.methods_of(lmcache_host.NewerConnector if newer else lmcache_host.OlderConnector)
                kv_case.record_calls(kind, interface, called)
                with mock.patch.object(lmcache_host, "install"):
                    one, mine = self.connect(newer=newer)
                self.assertIs(type(one), kind)
                await self.live(one, mine)
                self.assertEqual(interface - called, set())

    async def live(self, one, mine):
        """What a host does with a connector, from its start to its end; arguments by the names that they have there."""
        keys, chunks = [Key(6000 + i, worker=mine.newer) for i in range(4)], [self.chunk(mine) for _ in range(4)]
        self.assertTrue(one.support_ping() and one.support_batched_get() and one.support_batched_put() and one.support_batched_contains()
                        and one.support_batched_async_contains() and one.support_batched_get_non_blocking())
        self.assertEqual(await one.ping(), 0)
        self.assertFalse(await one.exists(key=keys[0]) or one.exists_sync(key=keys[0]))
        await one.put(key=keys[0], memory_obj=chunks[0])
        await one.batched_put(keys=keys[1:], memory_objs=chunks[1:])
        one._store.flush()
        self.assertTrue(await one.exists(keys[3]) and one.exists_sync(keys[0]))
        self.assertIn(one.batched_contains(keys), (4, [True] * 4))
        self.assertEqual(await one.batched_async_contains(lookup_id="id", keys=keys, pin=False), 4)
        got = [await one.get(key=keys[0]), *await one.batched_get(keys=keys[1:3]), *await one.batched_get_non_blocking(lookup_id="id", keys=keys[3:])]
        for chunk, wanted in zip(got, chunks, strict=True):
            self.assertTrue(torch.equal(chunk.tensor, wanted.tensor))
        self.assertGreaterEqual(len(await one.list()), 4)
        self.assertTrue(one.remove_sync(keys[1]))
        self.assertFalse(one.exists_sync(keys[1]))
        await one.close()

    async def test_chunks_outside_of_one_tensor_are_copied(self):
        one, mine = self.connect()
        chunk = self.chunk(mine)
        chunk.raw_data = chunk.raw_data.clone()
        wanted = chunk.tensor.clone()
        await one.put(Key(77), chunk)
        one._store.flush()
        self.assertTrue(torch.equal((await one.get(Key(77))).tensor, wanted))

    async def test_chunks_of_equal_bytes_and_another_shape_are_an_error_at_the_start(self):
        from verbena.kv import Mismatch
        for newer in (True, False):
            with self.subTest(newer=newer):
                query = f"deadline_ms=20000&lookup_ms=20000&label={newer}"
                self.connect(query, newer=newer, shape=(2, 2, 8, 16))
                self.connect(query, newer=newer, shape=(2, 2, 8, 16))
                with self.assertRaises(Mismatch):
                    self.connect(query, newer=newer, shape=(2, 2, 16, 8))

    async def test_a_full_allocator_gives_fewer_chunks(self):
        one, mine = self.connect()
        keys = [Key(500 + i) for i in range(3)]
        await one.batched_put(keys, [self.chunk(mine) for _ in keys])
        other, _ = self.connect(size=2 * 2 * 2 * 2 * 8 * 16)
        got = await other.batched_get(keys)
        self.assertEqual([one is not None for one in got], [True, True, False])

    async def test_a_frozen_server_is_a_miss_at_the_deadline(self):
        one, mine = self.connect("deadline_ms=300&lookup_ms=200&retry_ms=50")
        await one.put(Key(900), self.chunk(mine))
        one._store.flush()
        held = set(mine.live)
        self.server.freeze()
        began = time.monotonic()
        self.assertEqual(await one.batched_get([Key(900)]), [None])
        self.assertLess(time.monotonic() - began, 2)
        self.assertFalse(one.exists_sync(Key(900)))
        self.server.process.send_signal(signal.SIGCONT)
        until = time.monotonic() + 30
        while mine.live != held:  # the chunk is let go of when the server cannot write into it any more
            self.assertLess(time.monotonic(), until)
            await asyncio.sleep(0.05)
        while not await one.exists(Key(900)):
            self.assertLess(time.monotonic(), until)
            await asyncio.sleep(0.05)


class Heads(Case):
    """Objects whose heads are not what this connector writes: misses, and no chunk is left behind."""

    async def get(self, head):
        one, mine = self.connect(newer=True, plain=False)
        one._agree()
        key = Key(len(self.seen))
        self.seen.append(head)
        body = head.ljust(512) + bytes(2 * 2 * 2 * 8 * 16)
        self.assertTrue(one._store.save(one._hashes([key]), bytearray(body), len(body)).result()[0])
        good = Key(10_000)
        await one.put(good, self.chunk(mine))
        one._store.flush()
        before = set(mine.live)
        got = await one.batched_get([good, key, good])
        self.assertTrue(got[0] is not None and got[2] is not None)
        self.assertEqual(mine.live, before | {chunk for chunk in got if chunk is not None})
        return got[1]

    async def test_heads_that_are_wrong_are_misses(self):
        self.seen = []
        good = {"bytes": 1024, "shapes": [[2, 2, 8, 16]], "dtypes": ["float16"], "format": "KV_2LTD"}
        self.assertIsNotNone(await self.get(json.dumps(good).encode()))
        wrong = [b"", b"null", b"5", b"[]", b"{}", b"[" * 500, b"\xff\xfe", b'{"bytes": NaN}']
        changes = [("bytes", "1024"), ("bytes", True), ("bytes", None), ("bytes", 1e3), ("bytes", 1023), ("bytes", -1), ("shapes", None), ("shapes", []),
                   ("shapes", 5), ("shapes", [5]), ("shapes", [None]), ("shapes", [["2", 2, 8, 16]]), ("shapes", [[2.0, 2, 8, 16]]), ("shapes", [[-2, -2, 8, 16]]),
                   ("shapes", [[2, 2, 8, 16], [1]]), ("shapes", [[True, 4, 8, 16]]), ("shapes", [[1 << 62, 1 << 62]]), ("shapes", {"a": 1}), ("dtypes", None),
                   ("dtypes", "float16"), ("dtypes", [5]), ("dtypes", ["Tensor"]), ("dtypes", ["no_such"]), ("dtypes", [["float16"]]), ("dtypes", []),
                   ("dtypes", [None]), ("format", None), ("format", 5), ("format", ["KV_2LTD"]), ("format", "NONE"), ("format", {})]
        wrong += [json.dumps({**good, name: value}).encode() for name, value in changes]
        wrong += [json.dumps({key: value for key, value in good.items() if key != name}).encode() for name in good]
        with self.assertLogs("verbena.kv", "ERROR") as logged:
            for head in wrong:
                with self.subTest(head=head):
                    self.assertIsNone(await self.get(head))
        self.assertEqual(len(logged.records), len(wrong))


class Cancelled(Case):
    """A host gives a call up while the server works on it."""

    @contextlib.contextmanager
    def held(self, call, which=lambda items: True):
        """Those calls of the client wait for the event once they have begun."""
        free, begun, original = threading.Event(), threading.Event(), getattr(verbena.Client, call)

        def later(client, items, *given, **named):
            if which(items):
                begun.set()
                free.wait(30)
            return original(client, items, *given, **named)
        with mock.patch.object(verbena.Client, call, later):
            try:
                yield free, begun
            finally:
                free.set()

    async def cancel(self, call, begun):
        task = asyncio.ensure_future(call)
        while not begun.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task

    async def until(self, condition):
        end = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), end)
            await asyncio.sleep(0.01)

    async def test_a_get_leaves_no_chunk_behind_and_frees_it_when_nothing_is_written_any_more(self):
        for newer, plain in FORMS:
            with self.subTest(newer=newer, plain=plain):
                one, mine = self.connect(newer=newer, plain=plain)
                keys = [Key(2000 + 10 * newer + 100 * plain + i) for i in range(2)]
                await one.batched_put(keys, [self.chunk(mine) for _ in keys])
                one._store.flush()
                held = set(mine.live)
                with self.held("get_many", lambda items: plain or items[0][4:5] == (512,)) as (free, begun):
                    await self.cancel(one.batched_get(keys), begun)
                    self.assertEqual(len(mine.live - held), 2)  # the server may write into them
                    free.set()
                    await self.until(lambda: mine.live == held)

    async def test_a_chunk_that_is_being_put_is_not_freed_before_it_was_read(self):
        one, mine = self.connect()
        chunk, key = self.chunk(mine), Key(3000)
        wanted = chunk.tensor.clone()
        with self.held("put_many") as (free, begun):
            await self.cancel(one.put(key, chunk), begun)
            chunk.ref_count_down()  # as the host does when its call has ended
            if chunk not in mine.live:
                chunk.tensor.zero_()  # its memory is another chunk's now
            free.set()
        await self.until(lambda: not mine.live)
        one._store.flush()
        self.assertTrue(torch.equal((await one.get(key)).tensor, wanted))

    async def test_an_allocator_that_raises_leaves_no_chunk_behind(self):
        for plain in (True, False):
            one, mine = self.connect(plain=plain)
            keys = [Key(4000 + 10 * plain + i) for i in range(3)]
            await one.batched_put(keys, [self.chunk(mine) for _ in keys])
            one._store.flush()
            held, allocate, calls = set(mine.live), mine.allocate, []

            def fails(*given):
                calls.append(given)
                if len(calls) == 3:
                    raise MemoryError("no memory")
                return allocate(*given)
            mine.allocate = fails
            with self.assertRaises(MemoryError):
                await one.batched_get(keys)
            self.assertEqual(mine.live, held)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
