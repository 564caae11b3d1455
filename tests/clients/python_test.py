#!/usr/bin/python3
"""The Python client: bytes in and out of all kinds of memory, by each door, with asyncio too; and the calls of other
RDMA clients."""
import asyncio
import io
import mmap
import os
import re
import signal
import sys
import threading
import time
import unittest
import unittest.mock
import urllib.request

from python_case import ACCESS_KEY, SECRET_KEY, PythonCase
from verbena_server import boto3_client
import verbena
from verbena.rdma import RDMAClient

BIG = bytes(range(256)) * 8192  # 2 MiB


class Doors(PythonCase):
    def test_objects_travel_by_each_door_and_say_so(self):
        for via in ("native", "http", "auto"):
            with self.connect(via=via) as client:
                put = client.put("bucket", f"by/{via}", BIG, content_type="text/x", metadata={"colour": "green"})
                got = client.get("bucket", f"by/{via}", metadata=True)
                self.assertEqual((bytes(got), len(got), got.reply.size), (BIG, len(BIG), len(BIG)))
                self.assertEqual(got.reply.etag, put.etag)
                self.assertEqual((got.reply.content_type, got.reply.metadata), ("text/x", {"colour": "green"}))
                self.assertEqual(got.reply.door, "http" if via == "http" else "native")

    def test_conditions_ranges_checksums(self):
        put = self.client.put("bucket", "k", b"0123456789")
        self.assertEqual(bytes(self.client.get("bucket", "k", range=(2, 3))), b"234")
        self.assertEqual(bytes(self.client.get("bucket", "k", range=(7, 0))), b"789")
        self.assertEqual(bytes(self.client.get("bucket", "k", ranges=[(1, 2), (8, 100), (0, 1)])), b"12890")
        self.assertEqual(bytes(self.client.get("bucket", "k", if_match=put.etag)), b"0123456789")
        with self.assertRaises(verbena.errors.NotModified):
            self.client.get("bucket", "k", if_none_match=put.etag)
        with self.assertRaises(verbena.errors.PreconditionFailed):
            self.client.put("bucket", "k", b"x", if_none_match="*")
        with self.assertRaises(verbena.errors.ChecksumMismatch):
            self.client.put("bucket", "wrong", b"abce", checksum="CRC32:7YLNEQ==")
        self.assertFalse(self.client.exists("bucket", "wrong"))
        with self.assertRaises(verbena.errors.InvalidRange):
            self.client.get("bucket", "k", range=(10, 5))

    def test_a_bound_is_set_told_and_removed(self):
        self.client.make_bucket("bounded")
        self.assertIsNone(self.client.bound("bounded"))
        self.client.set_bound("bounded", bytes_max=1 << 40, policy="ttl", renew_on_read=True)
        told = {"bytes_max": 1 << 40, "objects_max": 0, "policy": "ttl", "renew_on_read": True, "keep_suffix": "/namespace.json"}
        self.assertEqual(self.client.bound("bounded"), told)
        self.client.set_bound("bounded", objects_max=3, keep_suffix="")
        self.assertEqual(self.client.bound("bounded")["keep_suffix"], "")
        for key in range(9):
            self.client.put("bounded", str(key), b"x")
        self.assertLessEqual(len(list(self.client.list("bounded"))), 3)
        self.client.remove_bound("bounded")
        self.assertIsNone(self.client.bound("bounded"))
        for wrong in ({}, {"objects_max": 1 << 40}, {"objects_max": 3, "policy": "best"}):
            with self.assertRaises(verbena.errors.InvalidArgument):
                self.client.set_bound("bounded", **wrong)
        for wrong in ({"policy": "x" * 16}, {"keep_suffix": "x" * 132}, {"bytes_max": -1}, {"bytes_max": "1"}):
            with self.assertRaises((ValueError, TypeError, OverflowError)):
                self.client.set_bound("bounded", **wrong)
        with self.assertRaises(verbena.errors.NoSuchBucket):
            self.client.bound("no-such-bucket")

    def test_what_is_there_is_not_stored_again(self):
        for via in ("native", "http"):
            with self.connect(via=via) as client:
                client.put("bucket", f"dup/{via}/1", b"old")
                done = client.put_many([("bucket", f"dup/{via}/{i}", b"new") for i in range(3)], if_absent=True).check()
                self.assertEqual([(one.exists, one.error) for one in done], [(False, None), (True, None), (False, None)])
                self.assertEqual(done.failed, 0)
                self.assertEqual([bytes(client.get("bucket", f"dup/{via}/{i}")) for i in range(3)], [b"new", b"old", b"new"])

    def test_what_a_batch_stores_ends_with_its_ttl(self):
        for via in ("native", "http"):
            with self.connect(via=via) as client:
                client.put_many([("bucket", f"ends/{via}/a", b"x"), ("bucket", f"ends/{via}/b", b"y")], ttl=3600).check()
                memory = bytearray(b"xy")
                client.put_many([("bucket", f"ends/{via}/c", 0, 1), ("bucket", f"ends/{via}/d", 1, 1)], memory, ttl=3600, if_absent=True).check()
                for name in "abcd":
                    self.assertEqual(client.head("bucket", f"ends/{via}/{name}").headers["x-verbena-ttl"], "3600")
                client.put_many([("bucket", f"ends/{via}/a", b"x")]).check()
                self.assertNotIn("x-verbena-ttl", client.head("bucket", f"ends/{via}/a").headers)
                self.assertEqual(client.put_many([("bucket", f"ends/{via}/e", b"x")], ttl=400_000_000).failed, 1)
                for wrong, error in ((-1, OverflowError), ("an hour", TypeError), (2**63, verbena.errors.InvalidArgument)):
                    with self.assertRaises(error):
                        client.put_many([("bucket", "ends", b"x")], ttl=wrong)

    def test_a_namespace_is_described_once(self):
        description = {"model": "m", "dtype": "bfloat16", "tp": [0, 2]}
        for via in ("native", "http"):
            with self.connect(via=via) as client:
                namespace = client.namespace("bucket", description)
                self.assertRegex(namespace, "^[0-9a-f]{32}$")
                self.assertEqual(client.namespace("bucket", dict(reversed(description.items()))), namespace)
                self.assertNotEqual(client.namespace("bucket", {**description, "dtype": "float8"}), namespace)
                self.assertEqual(client.namespace("bucket", description, name=f"mine-{via}"), f"mine-{via}")
                with self.assertRaisesRegex(verbena.Mismatch, "float8"):
                    client.namespace("bucket", {**description, "dtype": "float8"}, name=f"mine-{via}")
                for name in ("", "mine/"):
                    with self.assertRaises(ValueError):
                        client.namespace("bucket", description, name=name)
                with self.assertRaises(verbena.errors.NoSuchBucket):
                    client.namespace("nothing-there", description)

    def test_a_lease_keeps_what_a_match_found(self):
        hashes = [bytes([i]) * 16 for i in range(5)]
        keys = [f"leased/{one.hex()}" for one in hashes]
        self.client.put_many([("bucket", key, b"block") for key in keys]).check()
        with self.connect(via="native") as client:
            found = client.match("bucket", "leased", hashes, lease_ms=60_000)
            self.assertEqual(found.leading, 5)
            client.remove_many([("bucket", key) for key in keys])
            into = bytearray(25)
            items = [("bucket", key, 5 * i, 5) for i, key in enumerate(keys)]
            client.get_many(items, into, lease=found.lease).check()
            self.assertEqual(into, b"block" * 5)
            client.end_lease(found.lease)
            self.assertEqual(client.get_many(items, into, lease=found.lease).failed, 5)
        with self.connect(via="http") as client:
            with self.assertRaises(verbena.errors.Unsupported):
                client.match("bucket", "leased", hashes, lease_ms=60_000)

    def test_batches_take_leases_and_other_clients_read_by_them(self):
        patched = unittest.mock.patch.object(verbena._client, "_BATCH_MAX", 150)
        self.addCleanup(patched.stop)
        patched.start()
        names = [("bucket", f"held/{i:04}") for i in range(400)]  # three calls
        self.client.put_many([(*name, b"block") for name in names]).check()
        places = [(*name, 5 * i, 5) for i, name in enumerate(names)]
        for provider in ("local", "tcp"):
            with self.connect(via="native", provider=provider) as client, self.connect(via="native", provider="tcp") as other:
                into, more = bytearray(5 * len(names)), bytearray(5 * len(names))
                first = client.head_many(names[:100], lease_ms=60_000).check()
                found = client.get_many(places, into, lease_ms=60_000, join=first.lease).check()
                self.assertEqual((found.lease, into), (first.lease, b"block" * len(names)))
                hashes = [bytes([i]) * 16 for i in range(3)]
                self.client.put_many([("bucket", f"held/{one.hex()}", b"block") for one in hashes]).check()
                self.assertEqual(client.match("bucket", "held", hashes, lease_ms=60_000, join=found.lease).lease, found.lease)
                self.client.remove_many(names + [("bucket", f"held/{one.hex()}") for one in hashes]).check()
                for reader in (client, other):
                    more[:] = bytes(len(more))
                    reader.get_many(places, more, lease=found.lease).check()
                    self.assertEqual(more, into)
                    reader.get_many([("bucket", f"held/{one.hex()}", 5 * i, 5) for i, one in enumerate(hashes)], more, lease=found.lease).check()
                other.end_lease(found.lease)  # another client's: nothing
                other.get_many(places[:9], more, lease=found.lease).check()
                nothing = client.head_many(names[:3], lease_ms=60_000)
                self.assertEqual((nothing.failed, nothing.lease), (3, None))
                client.close()
                until = time.monotonic() + 30  # its streams' ends reach the server by themselves
                while other.get_many(places[:9], more, lease=found.lease).failed != 9 and time.monotonic() < until:
                    time.sleep(0.01)
                self.assertEqual(other.get_many(places[:9], more, lease=found.lease).failed, 9)
            self.client.put_many([(*name, b"block") for name in names]).check()
        with self.connect(via="http") as client:
            for call in (lambda: client.head_many(names[:1], lease_ms=1), lambda: client.get_many(places[:1], bytearray(5), lease_ms=1)):
                with self.assertRaises(verbena.errors.Unsupported):
                    call()

    def test_match_counts_leading_keys_by_each_door(self):
        hashes = [bytes([i]) * 16 for i in range(20)]
        self.client.put_many([("bucket", f"model/{one.hex()}", b"x" * 7) for one in hashes[:12]]).check()
        for via in ("native", "http", "auto"):
            with self.connect(via=via) as client:
                found = client.match("bucket", "model", hashes, sizes=True, places=True)
                self.assertEqual((found.leading, found.ended, list(found.sizes)), (12, "no_such_key", [7] * 12))
                self.assertEqual(len(found.places), 12)
                packed = b"".join(hashes)
                for form in (packed, bytearray(packed), memoryview(packed)):
                    self.assertEqual(client.match("bucket", "model", form, width=16).leading, 12)
                lists = client.match_lists("bucket", "model", [hashes[:3], [], hashes[5:], hashes[12:]])
                self.assertEqual([(one.leading, one.ended) for one in lists],
                                 [(3, None), (0, None), (7, "no_such_key"), (0, "no_such_key")])
                self.assertEqual(client.match("bucket", "other", hashes).leading, 0)
                self.assertEqual(client.match("bucket", "model", []).leading, 0)
                for wrong in ((packed, None), (packed[:-1], 16), ([b"short"], None), ([b"x" * 16, b"x" * 32], None)):
                    with self.assertRaises(ValueError):
                        client.match("bucket", "model", wrong[0], width=wrong[1])
                if via != "http":  # the answer to a HEAD over HTTP does not say what is missing
                    with self.assertRaises(verbena.errors.NoSuchBucket):
                        client.match("nothing-there", "model", hashes)

    def test_logs_grow_and_objects_get_other_names(self):
        bucket = "py-logs--local1-az1--x-s3"
        self.connect(via="http").make_bucket(bucket)
        for via in ("native", "http", "auto"):
            client = self.connect(via=via)
            self.assertEqual(client.append(bucket, via, b"one ", at=0).size, 4)
            self.assertEqual(client.append(bucket, via, bytearray(b"two")).size, 7)
            with self.assertRaises(verbena.VerbenaError):
                client.append(bucket, via, b"x", 6)
            client.rename(bucket, via, via + "-2", if_none_match="*")
            with self.assertRaises(FileNotFoundError):
                client.rename(bucket, via, via + "-2")
            self.assertEqual(bytes(client.get(bucket, via + "-2")), b"one two")
        for wrong in ((bucket,), (bucket, "k", 7), (bucket, "k", b"x", -1), (bucket, "k", b"x", 2**64), (bucket, "k", b"x", 2**64 - 1)):
            with self.assertRaises((TypeError, ValueError, OverflowError)):
                client.append(*wrong)

    def test_missing_things_are_typed(self):
        for missing in (lambda: self.client.get("bucket", "nothing"), lambda: self.client.head("bucket", "nothing"),
                        lambda: self.client.get_into("bucket", "nothing", bytearray(9))):
            with self.assertRaises(verbena.errors.NoSuchKey) as caught:
                missing()
            self.assertIsInstance(caught.exception, FileNotFoundError)
            self.assertEqual(caught.exception.code, "no_such_key")
        with self.assertRaises(verbena.errors.NoSuchBucket):
            list(self.client.list("no-such-bucket"))
        with self.assertRaises(verbena.errors.AccessDenied):
            self.connect(secret_key="wrong")

    def test_memory_of_every_kind(self):
        self.client.put("bucket", "memory", BIG)
        array = bytearray(len(BIG))
        self.assertEqual(self.client.get_into("bucket", "memory", array).bytes, len(BIG))
        self.assertEqual(array, BIG)
        with mmap.mmap(-1, len(BIG)) as mapped:
            self.client.get_into("bucket", "memory", mapped)
            self.assertEqual(mapped[:], BIG)
        buffer = self.client.allocate(len(BIG))
        self.client.get_into("bucket", "memory", buffer)
        self.assertEqual(bytes(buffer), BIG)
        self.client.put("bucket", "from-buffer", buffer)
        with self.client.register(array) as registered:
            array[:4] = b"gone"
            self.client.get_into("bucket", "from-buffer", registered)
        self.assertEqual(array, BIG)
        self.client.put("bucket", "empty", b"")
        self.assertEqual(bytes(self.client.get("bucket", "empty")), b"")
        self.assertEqual(buffer[1:4], memoryview(BIG)[1:4])

    def test_large_objects_arrive_whole_in_memory_of_ones_own(self):
        whole = os.urandom(9 << 20) + b"end"
        for size in (4 << 20, (4 << 20) - 1, (6 << 20) + 1, len(whole)):
            self.client.put("bucket", "large", memoryview(whole)[:size], content_type="text/x", metadata={"colour": "green"})
            for via in ("native", "http"):
                with self.connect(via=via) as client:
                    got, reply = client.get_bytes("bucket", "large", metadata=True)
                    self.assertTrue(type(got) is bytes and got == whole[:size], size)
                    self.assertEqual((reply.bytes, reply.size, reply.door, reply.content_type, reply.metadata), (size, size, via, "text/x", {"colour": "green"}))
                    self.assertEqual((reply.etag, reply.checksum), (client.get("bucket", "large").reply.etag, client.get("bucket", "large", metadata=True).reply.checksum))
                    into = bytearray(size + 5)
                    self.assertEqual(client.get_into("bucket", "large", into).bytes, size)
                    self.assertEqual((into[:size] == whole[:size], into[size:]), (True, bytes(5)))
                    with self.assertRaises(verbena.errors.BufferTooSmall):
                        client.get_into("bucket", "large", bytearray(size - 1))
        for wanted in ((1, 5 << 20), (3, 0), (1 << 20, 100 << 20), (len(whole) - 3, 0), (len(whole) - 3, 9)):
            expected = whole[wanted[0]:wanted[0] + wanted[1] if wanted[1] else None]
            got, reply = self.client.get_bytes("bucket", "large", range=wanted)
            self.assertTrue(got == expected, wanted)
            self.assertEqual((reply.bytes, reply.size), (len(expected), len(whole)))
        self.assertEqual(self.client.get_bytes("bucket", "large", ranges=[(0, 2), (len(whole) - 3, 3)])[0], whole[:2] + b"end")
        for etag in (reply.etag, "*"):
            self.assertTrue(self.client.get_bytes("bucket", "large", if_match=etag)[0] == whole)
        for call, error in ((lambda: self.client.get_bytes("bucket", "large", if_match="other"), verbena.errors.PreconditionFailed),
                            (lambda: self.client.get_bytes("bucket", "large", if_none_match=reply.etag), verbena.errors.NotModified),
                            (lambda: self.client.get_bytes("bucket", "nothing"), verbena.errors.NoSuchKey),
                            (lambda: self.client.get_into("bucket", "nothing", bytearray(5 << 20)), verbena.errors.NoSuchKey),
                            (lambda: self.client.get_bytes("bucket", "large", range=(10 << 20, 1)), verbena.errors.InvalidRange)):
            with self.assertRaises(error):
                call()
        self.client.put("bucket", "large", b"")
        self.assertEqual(self.client.get_bytes("bucket", "large")[0], b"")

    def test_large_bytes_are_nobody_elses(self):
        bodies = [os.urandom(1 << 20) * 5 for _ in range(3)]
        for i, body in enumerate(bodies):
            self.client.put("bucket", f"again/{i}", body)
        kept = []
        for number in range(40):
            i = number % 3
            got = self.client.get_bytes("bucket", f"again/{i}")[0] if number % 2 else bytes(self.client.get("bucket", f"again/{i}"))
            if number % 5 == 0:
                kept.append((i, got))
            elif number % 5 == 1:
                kept.append((i, memoryview(got)))
            elif number % 5 == 2:
                hash(got)  # the hash is cached
        del got
        for i, held in kept:
            self.assertTrue(held == bodies[i])
        first = self.client.get_bytes("bucket", "again/0")[0]
        known = hash(first)
        del first
        others = [self.client.get_bytes("bucket", f"again/{i}")[0] for i in (1, 2, 1)]
        self.assertEqual([hash(one) for one in others], [hash(bodies[i]) for i in (1, 2, 1)])
        self.assertEqual(known, hash(bodies[0]))
        with self.assertRaises(verbena.errors.NoSuchKey):
            self.client.get_bytes("bucket", "again/none")
        with self.connect() as other:
            got = other.get_bytes("bucket", "again/1")[0]
        self.assertTrue(got == bodies[1])  # bytes outlive their client

    def test_large_bytes_that_nobody_holds_are_filled_again(self):
        self.client.put("bucket", "filled", bytes(6 << 20))
        client = self.connect()
        for how in (lambda: client.get_bytes("bucket", "filled")[0], lambda: bytes(client.get("bucket", "filled"))):
            got = how()
            self.assertEqual(sys.getrefcount(got), 3, "its client remembers it, so that no other bytes can be where it is")
            where = id(got)
            del got
            got = how()
            self.assertEqual(id(got), where)
            hash(got)
            self.assertNotEqual(id(how()), where)
            held = [how() for _ in range(30)]
            self.assertEqual(len({id(one) for one in held}), 30)
        client.close()
        self.assertEqual([sys.getrefcount(one) for one in held], [3] * 30)  # `held`, `one`, the argument

    def test_a_large_object_that_changes_meanwhile_is_one_of_the_two(self):
        bodies, done = [bytes([i]) * ((8 << 20) + i) for i in (1, 2)], threading.Event()

        def change():
            with self.connect() as client:
                while not done.is_set():
                    for body in bodies:
                        client.put("bucket", "changing", body)
        self.client.put("bucket", "changing", bodies[0])
        changing = threading.Thread(target=change)
        changing.start()
        try:
            for _ in range(30):
                self.assertIn(self.client.get_bytes("bucket", "changing")[0], bodies)
                into = bytearray(9 << 20)
                n = self.client.get_into("bucket", "changing", into).bytes
                self.assertIn(into[:n], bodies)
        finally:
            done.set()
            changing.join()

    def test_many_objects_at_once_each_into_its_place(self):
        for i in range(5):
            self.client.put("bucket", f"many/{i}", bytes([65 + i]) * 10)
        items = [("bucket", f"many/{i % 5}", i * 10, 10) for i in range(5000)]  # more than one batch holds
        for via in ("native", "http"):
            with self.connect(via=via) as client:
                for into in (bytearray(50_000), client.allocate(50_000)):
                    some = items if via == "native" else items[:50]
                    fetched = client.get_many(some, into)
                    self.assertEqual([one.error for one in fetched], [None] * len(some))
                    self.assertEqual(bytes(into)[:len(some) * 10], (b"".join(bytes([65 + i]) * 10 for i in range(5)) * 1000)[:len(some) * 10])
                    self.assertEqual({one.size for one in fetched}, {10})
        into = bytearray(b"-" * 30)
        here, none, short = self.client.get_many([("bucket", "many/0", 0, 10), ("bucket", "nothing", 10, 10), ("bucket", "many/1", 20, 9)], into)
        self.assertEqual((here.bytes, here.error, len(here.etag) > 0), (10, None, True))
        self.assertIsInstance(none.error, verbena.errors.NoSuchKey)
        self.assertIn("bucket/nothing", str(none.error))
        self.assertIsInstance(short.error, verbena.errors.BufferTooSmall)
        self.assertEqual(into[:10], b"A" * 10)
        self.assertEqual(list(self.client.get_many([], into)), [])
        some = self.client.get_many([("bucket", "nothing", 0, 10), ("bucket", "many/0", 10, 10)], into)
        self.assertEqual((len(some), some.failed, some[-1].bytes, [one.bytes for one in some[1:]]), (2, 1, 10, [10]))
        with self.assertRaises(verbena.errors.NoSuchKey):
            some.check()
        with self.assertRaises(IndexError):
            some[2]
        for wrong, exception in (([("bucket", "many/0", 0, 31)], ValueError), ([("bucket", "many/0", -1, 3)], ValueError),
                                 ([("bucket", "many/0", 0)], TypeError), ([("bucket", b"x", 0, 1)], TypeError), (["text"], TypeError),
                                 ([("bucket", "many/0", 0, 10), ("bucket", "many/1", 5, 10)], verbena.errors.InvalidArgument)):
            with self.assertRaises(exception):
                self.client.get_many(wrong, into)
        with self.assertRaises(BufferError):
            self.client.get_many([("bucket", "many/0", 0, 10)], b"read-only!")

    def test_many_objects_are_stored_looked_at_and_removed_at_once(self):
        for via in ("native", "http"):
            with self.connect(via=via) as client:
                n = 5000 if via == "native" else 20  # more than one batch holds
                bodies = [b"%d" % i * (i % 5) for i in range(n)]
                stored = client.put_many(("bucket", f"stored/{via}/{i}", body) for i, body in enumerate(bodies)).check()
                self.assertEqual((len(stored), {len(one.etag) > 0 for one in stored}), (n, {True}))
                self.assertEqual(bytes(self.client.get("bucket", f"stored/{via}/{n - 1}")), bodies[-1])
                names = [("bucket", f"stored/{via}/{i}") for i in range(n)]
                known = client.head_many(names).check()
                self.assertEqual([one.size for one in known], [len(body) for body in bodies])
                self.assertEqual([one.etag for one in known], [one.etag for one in stored])
                self.assertGreater(known[0].modified_us, 1_600_000_000_000_000)
                gone = client.remove_many(names[1:] + [("bucket", "never was")]).check()
                self.assertEqual(len(gone), n)
                left = client.head_many(names[:3])
                self.assertEqual([type(one.error) for one in left], [type(None), verbena.errors.NoSuchKey, verbena.errors.NoSuchKey])
        memory = self.client.allocate(30)
        memoryview(memory)[:] = b"a" * 10 + b"b" * 20
        for data in (memory, bytes(memory), bytearray(memory)):
            self.client.put_many([("bucket", "a", 0, 10), ("bucket", "b", 10, 20)], data).check()
            self.assertEqual((bytes(self.client.get("bucket", "a")), bytes(self.client.get("bucket", "b"))), (b"a" * 10, b"b" * 20))
        for call, exception in ((lambda: self.client.put_many([("bucket", "a", 0, 31)], memory), ValueError),
                                (lambda: self.client.put_many([("bucket", "a", 0)], memory), TypeError),
                                (lambda: self.client.put_many([("bucket", "a", "text")]), TypeError),
                                (lambda: self.client.put_many([("bucket", "a")]), TypeError),
                                (lambda: self.client.put_many([("bucket", "a", b"1"), ("bucket", "a", b"2")]), verbena.errors.InvalidArgument),
                                (lambda: self.client.head_many([("bucket",)]), TypeError),
                                (lambda: self.client.remove_many(["bucket"]), TypeError),
                                (lambda: self.client.batch(4, [("bucket", "a")], None), TypeError)):
            with self.assertRaises(exception):
                call()
        denied = self.client.put_many([("no-such-bucket", "k", b"x"), ("bucket", "k", b"y")])
        self.assertEqual([type(one.error) for one in denied], [verbena.errors.NoSuchBucket, type(None)])

    def test_other_threads_run_while_bytes_are_awaited(self):
        client, into = self.connect(operation_timeout_ms=60_000, attempts_max=1), bytearray(len(BIG))
        self.client.put("bucket", "awaited", BIG)
        self.client.put("bucket", "awaited-large", BIG * 3)
        calls = [lambda: client.get("bucket", "awaited"), lambda: client.get_into("bucket", "awaited", into), lambda: client.get_bytes("bucket", "awaited-large"),
                 lambda: client.put("bucket", "stored", BIG), lambda: client.put_stream("bucket", "streamed", io.BytesIO(BIG).read),
                 lambda: client.get_many([("bucket", "awaited", 0, len(BIG))], bytearray(len(BIG))).check(), lambda: client.put_many([("bucket", "many", BIG)]).check(),
                 lambda: client.head("bucket", "awaited"), lambda: client.delete("bucket", "not there"), lambda: list(client.list("bucket", "awaited"))]
        done, wrong = [], []

        def work(call):
            try:
                done.append(call())
            except Exception as error:
                wrong.append(error)
        threads = [threading.Thread(target=work, args=(call,)) for call in calls]
        self.server.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.server.process.pid, os.WSTOPPED)
        try:
            for thread in threads:  # if a thread held the interpreter while it waits, this would time out
                thread.start()
            for _ in range(100):
                time.sleep(0.001)
            self.assertEqual((done, [repr(one) for one in wrong], [thread.is_alive() for thread in threads]), ([], [], [True] * len(calls)))
        finally:
            self.server.process.send_signal(signal.SIGCONT)
        for thread in threads:
            thread.join(120)
        self.assertEqual(([repr(one) for one in wrong], len(done)), ([], len(calls)))

    def test_arrays_of_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy")
        values = numpy.arange(100_000, dtype=numpy.float64)
        self.client.put("bucket", "array", values)
        into = numpy.zeros_like(values)
        self.client.get_into("bucket", "array", into)
        self.assertTrue((into == values).all())
        got = self.client.get("bucket", "array")
        self.assertTrue((numpy.frombuffer(got, dtype=numpy.float64) == values).all())
        shared = numpy.from_dlpack(got)
        del got  # the memory stays as long as an array refers to it
        self.assertTrue((shared.view(numpy.float64) == values).all())
        for _ in range(50):  # memory is not reused while it is referred to
            self.client.get("bucket", "array")
        self.assertTrue((shared.view(numpy.float64) == values).all())

    def test_listings(self):
        for i in range(25):
            self.client.put("bucket", f"list/{i % 3}/{i:02}", b"x" * i)
        found = list(self.client.list("bucket", "list/", page_size=7))
        self.assertEqual([one.key for one in found], sorted(f"list/{i % 3}/{i:02}" for i in range(25)))
        self.assertEqual({one.key[-2:]: one.size for one in found}["24"], 24)
        self.assertGreater(found[0].last_modified.timestamp(), 1.6e9)
        self.assertEqual(list(self.client.list("bucket", "list/", delimiter="/")), ["list/0/", "list/1/", "list/2/"])
        self.assertIn("bucket", self.client.buckets())

    def test_a_watch_tells_what_happens_until_it_is_ended(self):
        for provider in ("local", "tcp"):
            with self.connect(via="native", provider=provider) as client, client.watch("bucket", f"w/{provider}/") as watch:
                self.assertIsNone(watch.next(timeout=0.01))
                put = self.client.put("bucket", f"w/{provider}/a", b"body")
                self.client.put("bucket", "elsewhere", b"body")
                self.client.delete("bucket", f"w/{provider}/a")
                first, second = next(watch), watch.next(timeout=10)
                self.assertEqual((first.what, first.key, first.size, first.etag), ("created", f"w/{provider}/a", 4, put.etag))
                self.assertEqual((second.what, second.is_gap), ("removed", False))
                self.assertGreater(second.number, first.number)
                self.assertLess(abs(first.time.timestamp() - time.time()), 600)
                ender = threading.Timer(0.2, watch.end)
                ender.start()
                self.assertEqual(list(watch), [])
                ender.join()
                with self.assertRaises(ValueError):
                    watch.next()

    def test_two_threads_that_ask_of_one_watch_are_told_so(self):
        with self.connect(via="native", provider="local") as client, client.watch("bucket", "two/") as watch:
            told = []

            def ask():
                while not told:
                    try:
                        told.append(watch.next(timeout=30))
                    except RuntimeError:
                        pass

            first = threading.Thread(target=ask)
            first.start()
            refused, until = None, time.monotonic() + 20
            while refused is None and time.monotonic() < until:
                try:
                    watch.next(timeout=0)
                except RuntimeError as error:
                    refused = error
            self.assertIsNotNone(refused)
            client.put("bucket", "two/k", b"x")
            first.join(30)
            self.assertEqual([change.key for change in told], ["two/k"])
            self.assertIsNone(watch.next(timeout=0))

    def test_a_watch_needs_the_native_door_and_the_bucket(self):
        with self.connect(via="http") as client, self.assertRaisesRegex(verbena.VerbenaError, "native door"):
            client.watch("bucket")
        with self.connect(via="native") as client:
            with self.assertRaises(verbena.errors.NoSuchBucket):
                client.watch("no-such-bucket")
            for wrong in ((7,), ("bucket", b"x"), ()):
                with self.assertRaises(TypeError):
                    client.watch(*wrong)
            watch = client.watch("bucket")
        with self.assertRaises(verbena.VerbenaError):
            watch.next(timeout=1)
        watch.end()
        watch.end()

    def test_streams(self):
        with open(os.devnull, "rb") as nothing:
            self.client.put_stream("bucket", "stream", nothing.read)
        self.assertEqual(self.client.head("bucket", "stream").size, 0)
        pieces = iter([BIG, b"tail"])
        self.client.put_stream("bucket", "stream", _pieces(pieces))
        self.assertEqual(bytes(self.client.get("bucket", "stream")), BIG + b"tail")


def _pieces(pieces):
    held = b""

    def read(size):
        nonlocal held
        held = held or next(pieces, b"")
        piece, held = held[:size], held[size:]
        return piece
    return read


class Awaited(PythonCase):
    def test_many_at_once(self):
        async def main():
            async with verbena.AsyncClient(client=self.connect()) as client:
                await asyncio.gather(*(client.put("bucket", f"a/{i}", bytes([i]) * 50_000) for i in range(60)))
                got = await asyncio.gather(*(client.get("bucket", f"a/{i}") for i in range(60)))
                self.assertEqual([bytes(one) for one in got], [bytes([i]) * 50_000 for i in range(60)])
                into = bytearray(50_000)
                reply = await client.get_into("bucket", "a/7", into)
                self.assertEqual((reply.bytes, into), (50_000, bytes([7]) * 50_000))
                self.assertEqual(bytes(await client.get("bucket", "a/7", range=(49_990, 0))), bytes([7]) * 10)
                await client.put("bucket", "a/empty", b"")
                self.assertEqual((await client.head("bucket", "a/empty")).size, 0)
                await client.put("bucket", "a/typed", b"x", content_type="text/x", metadata={"colour": "green"})
                for known in (await client.head("bucket", "a/typed"), await client.get_into("bucket", "a/typed", bytearray(1), metadata=True)):
                    self.assertEqual((known.content_type, known.metadata), ("text/x", {"colour": "green"}))
                await client.delete("bucket", "a/typed")
                self.assertEqual(len([one async for one in client.list("bucket", "a/")]), 61)
                self.assertEqual([one async for one in client.list("bucket", "", delimiter="/")], ["a/"])
                await client.delete("bucket", "a/7")
                with self.assertRaises(verbena.errors.NoSuchKey):
                    await client.get("bucket", "a/7")
                with self.assertRaises(verbena.errors.NoSuchKey):
                    await client.get_into("bucket", "a/7", into)
        asyncio.run(main())

    def test_a_version_has_its_own_size(self):
        try:
            s3 = boto3_client(self.server.http)
        except ImportError as error:
            self.skipTest(str(error))
        self.client.make_bucket("versions")
        s3.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
        ids = [s3.put_object(Bucket="versions", Key="k", Body=body)["VersionId"] for body in (b"the first", b"new")]
        s3.delete_object(Bucket="versions", Key="k")

        async def main():
            async with verbena.AsyncClient(client=self.connect()) as client:
                got = [bytes(await client.get("versions", "k", version_id=version)) for version in ids]
                self.assertEqual(got, [b"the first", b"new"])
                # A range has no more bytes than the object.
                got = await client.get("versions", "k", version_id=ids[0], range=(4, 1 << 40))
                self.assertEqual(bytes(got), b"first")
                self.assertEqual(bytes(await client.get("versions", "k", version_id=ids[0], ranges=[(4, 0), (0, 3)])), b"firstthe")
        asyncio.run(main())

    def append_messages(self):
        with urllib.request.urlopen(f"http://{self.server.native}/-/metrics") as page:
            found = re.search(rb'^verbena_native_requests_total{type="append"} (\d+)', page.read(), re.M)
        return int(found.group(1)) if found else 0

    def test_appends_that_are_not_waited_for_share_messages(self):
        bucket, count = "py-async-logs--local1-az1--x-s3", 500
        self.connect(via="http").make_bucket(bucket)
        records = [f"{i:06}".encode() * 20 for i in range(count)]

        async def main():
            async with verbena.AsyncClient(client=self.connect(via="native")) as client:
                before = self.append_messages()
                replies = await asyncio.gather(*(client.append(bucket, "log", one, at=i * 120) for i, one in enumerate(records)))
                self.assertEqual([one.size for one in replies], [(i + 1) * 120 for i in range(count)])
                self.assertEqual({(one.bytes, one.door) for one in replies}, {(120, "native")})
                self.assertLess(self.append_messages() - before, count // 4)
                self.assertEqual(bytes(await client.get(bucket, "log")), b"".join(records))
                with self.assertRaises(verbena.VerbenaError) as caught:
                    await client.append(bucket, "log", b"x", at=1)
                self.assertEqual(caught.exception.s3_code, "InvalidWriteOffset")
                with client.client.allocate(4) as memory:
                    memoryview(memory)[:] = b"more"
                    self.assertEqual((await client.append(bucket, "log", memory)).size, count * 120 + 4)
                await client.append(bucket, "typed", bytearray(b"x"), content_type="text/x")
                self.assertEqual((await client.head(bucket, "typed")).content_type, "text/x")
                for wrong in ({"at": -1}, {"at": 2**64 - 1}, {"at": "1"}):
                    with self.assertRaises((TypeError, ValueError, OverflowError)):
                        await client.append(bucket, "log", b"x", **wrong)
                with self.assertRaises(TypeError):
                    await client.put(bucket, "log", b"x", at=0)
                with self.assertRaises(verbena.VerbenaError):
                    await client.append(bucket, "log", b"")
                # A cancelled append does not affect the others.
                tasks = [asyncio.ensure_future(client.append(bucket, "cancelled", records[i])) for i in range(100)]
                await asyncio.sleep(0)
                tasks[50].cancel()
                done = await asyncio.gather(*tasks, return_exceptions=True)
                self.assertEqual([i for i, one in enumerate(done) if isinstance(one, BaseException) and i != 50], [])
                whole = bytes(await client.get(bucket, "cancelled"))
                for i, one in enumerate(done):
                    if not isinstance(one, BaseException):
                        self.assertEqual(whole[one.size - 120:one.size], records[i])
            async with verbena.AsyncClient(client=self.connect(via="http")) as client:
                for i in range(3):
                    self.assertEqual((await client.append(bucket, "http", b"abc")).size, 3 * (i + 1))
        asyncio.run(main())


class Page(PythonCase):
    def test_the_calls_that_others_know(self):
        client = RDMAClient(endpoint=self.server.native, access_key=ACCESS_KEY, secret_key=SECRET_KEY)
        client.put_object(bucket="bucket", key="my-key", body=b"Hello, RDMA!")
        data = client.get_object(bucket="bucket", key="my-key")
        self.assertEqual(bytes(data), b"Hello, RDMA!")
        self.assertEqual(data.reply.door, "native")
        self.assertEqual([one.key for one in client.list_objects("bucket", "my-")], ["my-key"])
        client.delete_object(bucket="bucket", key="my-key")
        self.assertEqual(client.list_objects("bucket", "my-"), [])
        client.close()
        other = RDMAClient(access_key=ACCESS_KEY, secret_key=SECRET_KEY)
        with self.assertRaises(verbena.errors.Closed):
            other.get_object(bucket="bucket", key="k")
        host, port = self.server.native.rsplit(":", 1)
        other.connect(host, int(port))
        other.put_object(bucket="bucket", key="k", body=b"1")
        other.close()


if __name__ == "__main__":
    unittest.main()
