#!/usr/bin/python3
"""The cache that the connectors share: namespaces, leading blocks, layer order, deadlines, the breaker."""
import contextlib
import os
import signal
import sys
import threading
import time
import types
import unittest
from unittest import mock

import kv_case

import verbena  # noqa: E402
from verbena import kv  # noqa: E402
from verbena.kv import _blocks, _breaker, _doubts  # noqa: E402
from verbena.kv.store import hash_of  # noqa: E402

SIZE = 16384


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = kv_case.CacheServer()
        cls.server.start()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def store(self, description=None, **options):
        settings = self.server.settings(**{"deadline_ms": 20_000, "lookup_ms": 20_000, **options})
        made = kv.KvStore(description=description or {"test": self.id()}, **settings)
        self.addCleanup(made.close)
        return made

    def until(self, condition):
        end = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)


class Blocks(Case):
    def filled(self, store, count):
        memory = store.allocate(count * SIZE)
        with memoryview(memory) as view:
            view[:] = os.urandom(count * SIZE)
        return [os.urandom(16) for _ in range(count)], memory

    def test_what_is_saved_is_found_and_loaded(self):
        store = self.store()
        hashes, memory = self.filled(store, 6)
        self.assertEqual(store.leading(hashes), 0)
        self.assertEqual(store.save(hashes[:4], memory, SIZE).result(), [True] * 4)
        self.assertEqual(store.leading(hashes), 4)
        self.assertEqual(store.present(hashes), [True] * 4 + [False] * 2)
        into = store.allocate(6 * SIZE)
        self.assertEqual(store.load(hashes, into, SIZE).result(), [True] * 4 + [False] * 2)
        self.assertEqual(bytes(into)[:4 * SIZE], bytes(memory)[:4 * SIZE])

    def test_a_question_with_a_lease_finds_the_same_by_each_door(self):
        store = self.store()
        hashes, memory = self.filled(store, 4)
        store.save(hashes[:3], memory, SIZE).result()
        for via in ("native", "http"):
            leased = self.store(lease_ms=2000, via=via)
            self.assertEqual([leased.leading(hashes), leased.leading(hashes[:2])], [3, 2])
            self.assertTrue(leased.usable)

    def test_a_load_by_a_lease_finds_what_was_removed_since(self):
        for asker_lease, loads in ((60_000, True), (1, False), (0, False)):
            asker, loader = self.store({"lease": asker_lease}, lease_ms=asker_lease), self.store({"lease": asker_lease})
            hashes, memory = self.filled(loader, 4)
            loader.save(hashes, memory, SIZE).result()
            found, lease = asker.find(hashes)
            self.assertEqual((found, lease is None), (4, asker_lease == 0))
            loader.clear()
            time.sleep(0.01)
            for store, named in ((asker, None), (loader, lease)):  # its own question's, and another session's
                into = store.allocate(4 * SIZE)
                self.assertEqual(store.load(hashes, into, SIZE, lease=named).result(), [loads] * 4)
                self.assertEqual(bytes(into) == bytes(memory), loads)
                layers = [(0, SIZE // 2), (SIZE // 2, SIZE // 2)]
                self.assertEqual(store.load_layers(hashes, into, range(0, 4 * SIZE, SIZE), layers, lease=named).result(), [loads] * 8)
            self.assertEqual(asker.find(hashes), (0, None))
            self.assertTrue(asker.usable and loader.usable)

    def test_blocks_end_with_their_ttl_and_the_description_does_not(self):
        store = self.store(ttl="3600")
        hashes, memory = self.filled(store, 1)
        store.save(hashes, memory, SIZE).result()
        with verbena.connect(self.server.http, access_key=kv_case.ACCESS_KEY, secret_key=kv_case.SECRET_KEY) as client:
            self.assertEqual(client.head(kv_case.BUCKET, store.key(hashes[0])).headers["x-verbena-ttl"], "3600")
            self.assertNotIn("x-verbena-ttl", client.head(kv_case.BUCKET, f"{store.namespace}/namespace.json").headers)

    def test_a_hole_ends_the_leading_blocks(self):
        store = self.store()
        hashes, memory = self.filled(store, 5)
        store.save(hashes[:2] + hashes[3:], memory, SIZE).result()
        self.assertEqual(store.leading(hashes), 2)

    def test_many_hashes_are_one_question(self):
        store = self.store()
        hashes = [i.to_bytes(16, "big") for i in range(1500)]
        memory = store.allocate(1500 * 16)
        self.assertEqual(store.save(hashes[:1200], memory, 16).result(), [True] * 1200)
        self.assertEqual(store.leading(hashes), 1200)
        self.assertEqual(store.leading(hashes[:1100]), 1100)

    def test_a_block_that_is_there_is_not_stored_again(self):
        store = self.store()
        hashes, memory = self.filled(store, 3)
        before = bytes(memory)
        store.save(hashes, memory, SIZE).result()
        with memoryview(memory) as view:
            view[:] = bytes(3 * SIZE)
        self.assertEqual(store.save(hashes, memory, SIZE).result(), [True] * 3)
        self.assertEqual(store.statistics.all()["blocks_present"], 3)
        into = store.allocate(3 * SIZE)
        store.load(hashes, into, SIZE).result()
        self.assertEqual(bytes(into), before)

    def test_blocks_of_another_size_are_misses(self):
        store = self.store()
        hashes, memory = self.filled(store, 2)
        store.save(hashes[:1], memory, SIZE // 2).result()
        store.save(hashes[1:], memory, 2 * SIZE).result()
        self.assertEqual(store.load(hashes, store.allocate(2 * SIZE), SIZE).result(), [False, False])
        self.assertTrue(store.usable)

    def test_layers_arrive_in_their_order(self):
        store = self.store()
        hashes, memory = self.filled(store, 8)
        store.save(hashes, memory, SIZE).result()
        into, layers = store.allocate(8 * SIZE), [(at, SIZE // 4) for at in range(0, SIZE, SIZE // 4)]
        load = store.load_layers(hashes, into, range(0, 8 * SIZE, SIZE), layers)
        for layer in range(4):
            self.assertTrue(load.wait(8 * (layer + 1)))
            with memoryview(into) as got, memoryview(memory) as wanted:
                for block in range(8):
                    at = block * SIZE + layers[layer][0]
                    self.assertEqual(got[at:at + SIZE // 4], wanted[at:at + SIZE // 4])
        self.assertEqual(load.result(), [True] * 32)

    def test_registered_memory_and_release(self):
        store, released = self.store(), threading.Event()
        own = bytearray(os.urandom(4 * SIZE))
        hashes = [os.urandom(32) for _ in range(4)]
        with store.register(own) as memory:
            store.save(hashes, memory, SIZE, release=released.set).result()
            self.assertTrue(released.wait(10))
            own_before = bytes(own)
            own[:] = bytes(4 * SIZE)
            load = store.load(hashes, memory, SIZE)
            self.assertEqual(load.result(), [True] * 4)
            self.assertEqual(own, own_before)

    def test_clear_removes_the_blocks_and_keeps_the_description(self):
        store = self.store()
        hashes, memory = self.filled(store, 3)
        store.save(hashes, memory, SIZE).result()
        store.clear()
        self.assertEqual(store.leading(hashes), 0)
        self.store().close()

    def test_hashes_of_engines(self):
        self.assertEqual(hash_of(b"x" * 32), b"x" * 32)
        self.assertEqual(hash_of("ab" * 16), b"\xab" * 16)
        for value in (12345678901234567890, "a name", b"seven b"):
            self.assertEqual(len(hash_of(value)), 16)
        self.assertEqual(len({hash_of(1), hash_of(2), hash_of("a"), hash_of("b")}), 4)
        with self.assertRaises(TypeError):
            hash_of(1.5)


class Waiting(Case):
    """Calls that wait for threads, while the server is well."""

    def filled(self, store, count):
        hashes = [os.urandom(16) for _ in range(count)]
        store.save(hashes, bytearray(count * SIZE), SIZE).result()
        return hashes

    @contextlib.contextmanager
    def held(self, call):
        """Calls of Blocks, get or put_absent, begin, tell so, and wait for the event."""
        free, began, original = threading.Event(), threading.Event(), getattr(_blocks.Blocks, call)

        def later(blocks, *given):
            began.set()
            free.wait(30)
            return original(blocks, *given)
        setattr(_blocks.Blocks, call, later)
        try:
            yield free, began
        finally:
            free.set()
            setattr(_blocks.Blocks, call, original)

    def test_loads_and_questions_do_not_wait_for_saves(self):
        store = self.store(threads=2)
        hashes, into = self.filled(store, 2), store.allocate(2 * SIZE)
        with self.held("put_absent") as (free, _):
            saves = [store.save([os.urandom(16)], bytearray(SIZE), SIZE) for _ in range(6)]
            self.assertEqual(store.leading(hashes), 2)
            self.assertEqual(store.present(hashes), [True, True])
            self.assertEqual(store.load(hashes, into, SIZE).result(), [True, True])
            self.assertFalse(any(one.drained for one in saves))
            free.set()
            self.assertEqual([one.result() for one in saves], [[True]] * 6)

    def test_a_wait_for_a_thread_says_nothing_against_the_server(self):
        store = self.store(threads=1, failures_max=1, deadline_ms=20_000, lookup_ms=50)
        hashes, into = self.filled(store, 1), store.allocate(SIZE)
        with self.held("get") as (free, _):
            first = store.load(hashes, into, SIZE)
            late = [store.load(hashes, store.allocate(SIZE), SIZE, deadline_ms=20) for _ in range(3)]
            self.assertEqual(store.leading(hashes), 0)
            self.assertEqual(store.present(hashes), [False])
            self.assertEqual([one.result() for one in late], [[False]] * 3)
            free.set()
            self.assertEqual(first.result(), [True])
            self.assertTrue(late[-1].wait_drained(30))
        self.assertEqual((store.usable, store._breaker.opened, store.statistics.all()["errors"]), (True, 0, 0))
        self.assertEqual(store.statistics.all()["deadlines"], 5)
        self.assertEqual(self.store({"test": self.id()}).leading(hashes), 1)

    def test_a_load_that_had_waited_for_its_thread_counts_its_own_time(self):
        store = self.store(threads=1, failures_max=1, deadline_ms=20_000)
        hashes = self.filled(store, 1)
        with self.held("get") as (free, began):
            load = store.load(hashes, store.allocate(SIZE), SIZE)
            self.assertTrue(began.wait(30))
            load.deadline = 0  # as after a wait of almost 20 s
            free.set()
            self.assertTrue(load.wait_drained(30))
        self.assertEqual(store.leading(hashes), 1)
        self.assertEqual((store.usable, store.statistics.all()["deadlines"]), (True, 1))

    def test_a_server_that_misses_a_deadline_by_itself_is_lost(self):
        store = self.store(threads=1, failures_max=1, deadline_ms=50, retry_ms=60_000)
        with self.held("get") as (free, _):
            load = store.load([b"h" * 16], store.allocate(SIZE), SIZE)
            self.assertEqual(load.result(), [False])
            free.set()
            self.assertTrue(load.wait_drained(30))
        self.until(lambda: not store.usable)

    def test_clear_drops_saves_that_wait_and_waits_for_those_that_have_begun(self):
        store = self.store(threads=1)
        begun, queued = [[os.urandom(16)] for _ in range(2)]
        with self.held("put_absent") as (free, _):
            saves = [store.save(one, bytearray(SIZE), SIZE) for one in (begun, queued)]
            with self.assertRaisesRegex(verbena.errors.VerbenaError, "did not end"):
                store.clear(timeout=0.05)
            threading.Timer(0.2, free.set).start()
            store.clear()
            self.assertEqual([one.drained for one in saves], [True, True])
        self.assertEqual((saves[0].outcome(), saves[1].outcome()), ([True], [False]))
        self.assertEqual(store.present(begun + queued), [False, False])
        self.assertEqual(store.save(queued, bytearray(SIZE), SIZE).result(), [True])
        self.assertEqual(store.present(queued), [True])

    @contextlib.contextmanager
    def unanswered(self):
        """Saves raise, and are carried out when what this yields is called."""
        original, late = _blocks.Blocks.put_absent, []

        def fails(blocks, *given):
            late.append(lambda: original(blocks, *given))
            raise verbena.errors.TimedOut("no answer")
        with mock.patch.object(_blocks.Blocks, "put_absent", fails):
            yield lambda: [late.pop()() for _ in list(late)]

    def test_a_save_without_an_answer_that_lands_after_a_clear_is_removed(self):
        store, passes = self.store(doubt_ms=2000), []
        hashes, remove = [os.urandom(16), os.urandom(16)], store._remove_keys
        with self.unanswered() as land:
            self.assertEqual(store.save(hashes, bytearray(2 * SIZE), SIZE).result(), [False, False])

            def remove_and_land(keys):
                remove(keys)
                if keys:
                    passes.append((keys, store.leading(hashes)))
                    land()
            store._remove_keys = remove_and_land
            store.clear()
            land()
        self.assertEqual(store.present(hashes), [False, False])
        self.assertEqual(passes, [([store.key(one) for one in hashes], 0)] * len(passes))  # no question is answered meanwhile
        self.assertGreater(len(passes), 1)
        self.assertTrue(store.usable)
        self.assertEqual(store.save(hashes, bytearray(2 * SIZE), SIZE).result(), [True, True])

    def test_a_refusal_in_a_batch_does_not_answer_for_another_block_of_it(self):
        class Some(list):
            failed, present = 2, 0

        store, hashes = self.store(), [os.urandom(16), os.urandom(16)]
        done = Some(types.SimpleNamespace(error=error) for error in (verbena.errors.SlowDown("later"), verbena.errors.TimedOut("no answer")))
        with mock.patch.object(_blocks.Blocks, "put_absent", lambda *given: done):
            store.save(hashes, bytearray(2 * SIZE), SIZE).result()
        self.until(lambda: store.statistics.all()["errors"] == 1)
        self.assertEqual(store._doubts._entries, [(None, [store.key(hashes[1])])])
        store.flush()
        self.assertEqual(store.leading([os.urandom(16)]), 0)  # an answer that came later
        self.assertIsNotNone(store._doubts._entries[0][0])

    def test_a_clear_that_fails_remembers_what_is_in_doubt(self):
        store = self.store(doubt_ms=100)
        with self.unanswered():
            store.save([b"h" * 16], bytearray(SIZE), SIZE).result()
        remove, store._remove_keys = store._remove_keys, lambda keys: keys and self.fail("no answer")
        for _ in range(2):
            with self.assertRaisesRegex(AssertionError, "no answer"):
                store.clear()
        store._remove_keys = remove
        store.clear()
        self.assertEqual(store._doubts._entries, [])

    def test_clear_ends_the_leases_of_its_questions(self):
        store = self.store(lease_ms=60_000)
        hashes = self.filled(store, 2)
        found, lease = store.find(hashes)
        self.assertEqual(found, 2)
        store.clear()
        for named in (None, lease):
            self.assertEqual(store.load(hashes, store.allocate(2 * SIZE), SIZE, lease=named).result(), [False, False])

    def test_an_answer_of_before_a_clear_finds_nothing(self):
        store = self.store()
        hashes, match = self.filled(store, 2), store._match

        def match_and_clear(*given):
            answer = match(*given)
            store._match = match
            store.clear()
            return answer
        store._match = match_and_clear
        self.assertEqual(store.leading(hashes), 0)


class Doubted(unittest.TestCase):
    def test_the_bound_begins_when_the_server_has_answered(self):
        doubts = _doubts.Doubts(100)
        with mock.patch.object(_doubts.time, "monotonic", lambda: now):
            for now, since in ((0, None), (5000, 5000), (5099, 5000)):
                if now == 0:
                    doubts.add(["k"])
                else:
                    doubts.answered()
                self.assertEqual(doubts._entries, [(since, ["k"])])
            now = 5100
            doubts.answered()
            self.assertEqual(doubts._entries, [])

    def test_what_the_server_has_refused_is_no_doubt(self):
        errors = verbena.errors
        self.assertEqual([_doubts.is_doubt(one) for one in (None, errors.SlowDown(), errors.AccessDenied(), errors.ConnectionFailed())], [False] * 4)
        self.assertEqual([_doubts.is_doubt(one) for one in (errors.TimedOut(), errors.OutcomeUnknown(), errors.ServerError(), errors.Cancelled(),
                                                            errors.MalformedReply())], [True] * 5)


class Namespaces(Case):
    def test_two_descriptions_share_nothing(self):
        one, other, hashes = self.store({"model": "a"}), self.store({"model": "b"}), [b"h" * 16]
        one.save(hashes, bytearray(SIZE), SIZE).result()
        self.assertEqual((one.leading(hashes), other.leading(hashes)), (1, 0))
        self.assertEqual(one.leading(hashes, [one.namespace, other.namespace]), 0)

    def test_caches_of_two_labels_share_nothing(self):
        one, other, hashes = self.store({"model": "labels"}), self.store({"model": "labels"}, label="tuned"), [b"h" * 16]
        one.save(hashes, bytearray(SIZE), SIZE).result()
        self.assertEqual((one.leading(hashes), other.leading(hashes)), (1, 0))
        self.assertEqual(self.store({"model": "labels"}, label="").leading(hashes), 1)

    def test_the_order_of_a_description_does_not_matter(self):
        self.assertEqual(kv.namespace_id({"a": 1, "b": 2}), kv.namespace_id({"b": 2, "a": 1}))
        self.assertNotEqual(kv.namespace_id({"a": 1}), kv.namespace_id({"a": "1"}))

    def test_another_description_under_the_same_name_is_an_error_at_connect(self):
        description = {"model": "mismatch"}
        with verbena.connect(self.server.http, native_endpoint=self.server.native, access_key=kv_case.ACCESS_KEY,
                             secret_key=kv_case.SECRET_KEY) as client:
            self.store({"model": "first"})
            client.put(kv_case.BUCKET, f"{kv.namespace_id(description)}/namespace.json", b'{"model":"other"}')
        with self.assertRaisesRegex(kv.Mismatch, "other"):
            self.store(description)

    def test_wrong_keys_and_names_are_errors_at_connect(self):
        with self.assertRaises(verbena.errors.AccessDenied):
            self.store(secret_key="wrong")
        with self.assertRaises(verbena.errors.InvalidArgument):
            self.store(bucket="x")
        with self.assertRaises(verbena.errors.NoSuchBucket):
            self.store(bucket="nowhere", make_bucket=False)

    def test_options_are_checked(self):
        with self.assertRaisesRegex(ValueError, "no option colour; there are access_key"):
            kv.Options.of({"bucket": "b", "colour": 1})
        with self.assertRaisesRegex(ValueError, "needs the option bucket"):
            kv.Options.of({})
        options = kv.Options.of({"bucket": "b", "deadline_ms": "5", "make_bucket": "no"})
        self.assertEqual((options.deadline_ms, options.make_bucket), (5, False))


class Faults(Case):
    def setUp(self):
        self.server.kill()
        self.server.start()

    def hasty(self, **options):
        return self.store(deadline_ms=300, lookup_ms=100, retry_ms=50, **options)

    def test_a_frozen_server_costs_the_deadline_and_then_nothing(self):
        store = self.hasty()
        hashes, into = [b"h" * 16, b"i" * 16], store.allocate(2 * SIZE)
        store.save(hashes, bytearray(2 * SIZE), SIZE).result()
        self.server.freeze()
        began = time.monotonic()
        load = store.load(hashes, into, SIZE)
        load.wait(2)
        self.assertEqual(load.result(), [False, False])
        self.assertLess(time.monotonic() - began, 1.5)
        self.until(lambda: store.leading(hashes) == 0 and not store.usable)
        began = time.monotonic()
        for _ in range(50):
            self.assertEqual(store.leading(hashes), 0)
            self.assertEqual(store.load(hashes, into, SIZE).result(), [False, False])
            store.save(hashes, into, SIZE)
        self.assertLess(time.monotonic() - began, 0.5)
        self.server.process.send_signal(signal.SIGCONT)
        self.until(lambda: store.usable)
        self.until(lambda: store.leading(hashes) == 2)
        self.assertTrue(load.wait_drained(30))

    def test_memory_of_a_late_load_is_free_when_it_is_drained(self):
        store, freed = self.hasty(), threading.Event()
        hashes = [b"h" * 16]
        store.save(hashes, bytearray(SIZE), SIZE).result()
        self.server.freeze()
        load = store.load(hashes, store.allocate(SIZE), SIZE)
        load.when_drained(freed.set)
        self.assertEqual(load.result(), [False])
        self.server.process.send_signal(signal.SIGCONT)
        self.assertTrue(freed.wait(30))

    def test_a_server_that_was_emptied_is_described_again(self):
        store = self.hasty()
        store.save([b"h" * 16], bytearray(SIZE), SIZE).result()
        self.server.kill()
        self.until(lambda: store.leading([b"h" * 16]) == 0 and not store.usable)
        self.server.start()
        self.until(lambda: store.usable)
        self.assertEqual(store.leading([b"h" * 16]), 0)
        self.assertEqual(store.save([b"h" * 16], bytearray(SIZE), SIZE).result(), [True])

    def test_a_store_begins_without_a_server(self):
        self.server.kill()
        store = self.hasty()
        self.assertFalse(store.usable)
        self.assertEqual(store.leading([b"h" * 16]), 0)
        self.server.start()
        self.until(lambda: store.usable)

    def test_saves_beyond_the_bound_are_dropped(self):
        store = self.hasty(saves_max=2)
        self.server.freeze()
        saves = [store.save([bytes([i]) * 16], bytearray(SIZE), SIZE) for i in range(5)]
        self.assertEqual([one.drained for one in saves], [False, False, True, True, True])
        self.server.process.send_signal(signal.SIGCONT)
        self.assertTrue(store.flush(30))


class Breakers(unittest.TestCase):
    def test_it_opens_after_failures_in_a_row_and_closes_after_a_probe(self):
        alive = threading.Event()
        breaker = _breaker.Breaker(alive.is_set, failures_max=3, retry_s=0.01)
        breaker.failed()
        breaker.failed()
        breaker.succeeded()
        self.assertEqual([breaker.failed(), breaker.failed(), breaker.failed(), breaker.failed()], [False, False, True, False])
        time.sleep(0.1)
        self.assertFalse(breaker.closed)
        alive.set()
        end = time.monotonic() + 10
        while not breaker.closed:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        self.assertEqual(breaker.opened, 1)
        breaker.close()

    def test_a_probe_that_raises_is_a_failure(self):
        tried = threading.Event()

        def probe():
            tried.set()
            raise OSError
        breaker = _breaker.Breaker(probe, failures_max=1, retry_s=0.01)
        breaker.failed()
        self.assertTrue(tried.wait(10))
        self.assertFalse(breaker.closed)
        breaker.close()


class Pauses(unittest.TestCase):
    def test_it_is_longer_after_each_refusal_and_short_again_when_something_was_accepted(self):
        with mock.patch.object(_breaker.time, "monotonic", lambda: now):
            now = 100.0
            pause = _breaker.Pause(1.0, most_s=3.0)
            self.assertTrue(pause.over)
            for at, lasts, first in ((100.0, 1, True), (101.0, 2, False), (103.0, 3, False), (106.0, 3, False), (200.0, 1, True)):
                now = at
                if at == 200.0:
                    pause.ended(150.0)
                self.assertEqual(pause.refused(), first)
                now = at + lasts - 0.1
                self.assertFalse(pause.over or pause.refused())  # one that was under way makes it no longer
                now = at + lasts
                self.assertTrue(pause.over)

    def test_what_began_before_the_last_refusal_or_ends_in_a_pause_ends_no_row_of_them(self):
        with mock.patch.object(_breaker.time, "monotonic", lambda: now):
            now = 100.0
            pause = _breaker.Pause(1.0)
            pause.refused()
            now = 101.0
            pause.ended(99.0)  # accepted, but tried before the refusal
            pause.refused()
            now = 102.0
            pause.ended(101.5)  # the pause is not over
            now = 102.9
            self.assertFalse(pause.over, "the second pause is longer")
            now = 103.0
            pause.refused()
            now = 106.9
            self.assertFalse(pause.over)

    def test_rows_of_refusals_are_told_once_a_minute(self):
        with mock.patch.object(_breaker.time, "monotonic", lambda: now):
            pause, told = _breaker.Pause(1.0), []
            for now in range(100, 400, 2):
                pause.ended(now - 0.5)
                if pause.refused():
                    told.append(now)
        self.assertEqual(told, [100, 160, 220, 280, 340])


class Batches(Case):
    """What get_many and put_many have for caches."""

    def test_ranges_progress_and_if_absent(self):
        with verbena.connect(self.server.http, native_endpoint=self.server.native, access_key=kv_case.ACCESS_KEY,
                             secret_key=kv_case.SECRET_KEY) as client:
            client.make_bucket("batches")
            done = client.put_many([("batches", "a", b"0123456789"), ("batches", "b", b"abcdefghij")], if_absent=True).check()
            self.assertEqual(done.failed, 0)
            again = client.put_many([("batches", "a", b"other"), ("batches", "c", b"new")], if_absent=True)
            self.assertEqual([one.exists for one in again], [True, False])
            progress, into = verbena.Progress(), bytearray(12)
            done = client.get_many([("batches", "a", 0, 3, 2, 3), ("batches", "b", 3, 3, 0, 3), ("batches", "a", 6, 6, 7, 0)], into, progress)
            self.assertEqual(bytes(into[:9]), b"234abc789")
            self.assertEqual((done.failed, done.shorter, progress.leading, progress.wait(3, 0)), (0, 1, 3, 3))
            for bad in ([("batches", "a", 0, 3, -1, 3)], [("batches", "a", 0, 3, 1)]):
                with self.assertRaises((ValueError, TypeError)):
                    client.get_many(bad, into)
            with self.assertRaises(ValueError):
                progress.wait(-1, 0)
            self.assertEqual(progress.wait(9, 60_000), 3)  # ended: no wait
            with self.assertRaises(TypeError):
                client.batch(0, [("batches", "a", 0, 3)], into, object())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
