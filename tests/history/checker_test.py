#!/usr/bin/python3
"""The checker (tests/lib/history.py) and the model of a bucket (bucket.py) accept histories that are sound, and refuse
those that are not."""
import math
import pathlib
import random
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lib"), str(HERE.parent / "express")]
import bucket as model  # noqa: E402
import history  # noqa: E402
from bucket import Bucket, Listed, Seen  # noqa: E402
from cached import match_calls  # noqa: E402
from fading import Evicting, Lasting  # noqa: E402
from history import ABSENT, UNKNOWN, Call, pair, register, setting, versions  # noqa: E402

A, B, C = "a:20", "b:20", "c:20"


def made(*rows):
    """Calls of (kind, value, where, began, ended, answer)."""
    calls = []
    for kind, value, where, began, ended, answer in rows:
        call = Call(kind, value, where)
        call.began, call.ended, call.answer = began, math.inf if answer == UNKNOWN else ended, answer
        calls.append(call)
    return calls


def holds(start, after, *rows):
    return history.linearizable(made(*rows), start, after)


class Things(unittest.TestCase):
    put = ("put", "a", 0, 0, 1, 200)

    def test_a_read_sees_the_last_write(self):
        self.assertTrue(holds(ABSENT, register, self.put, ("get", None, 0, 2, 3, "a")))
        self.assertFalse(holds(ABSENT, register, self.put, ("get", None, 0, 2, 3, ABSENT)))

    def test_a_read_that_began_before_the_write_ended_sees_either(self):
        for seen in ("a", ABSENT):
            self.assertTrue(holds(ABSENT, register, self.put, ("get", None, 0, 0.5, 3, seen)))

    def test_a_write_without_an_answer_happens_late_or_never_but_once(self):
        lost = ("put", "b", 0, 2, 3, UNKNOWN)
        get_a, get_b = ("get", None, 0, 4, 5, "a"), ("get", None, 0, 6, 7, "b")
        self.assertTrue(holds(ABSENT, register, self.put, lost, get_a, get_b))
        self.assertTrue(holds(ABSENT, register, self.put, lost, get_a))
        self.assertFalse(holds(ABSENT, register, self.put, lost, ("get", None, 0, 4, 5, "b"), ("get", None, 0, 6, 7, "a")))

    def test_of_two_conditional_writes_one_succeeds(self):
        self.assertFalse(holds(ABSENT, register, ("create", "a", 0, 0, 2, 200), ("create", "b", 0, 1, 3, 200)))
        self.assertFalse(holds("x", register, ("swap", "a", "x", 0, 2, 200), ("swap", "b", "x", 1, 3, 200)))
        self.assertTrue(holds("x", register, ("swap", "a", "x", 0, 2, 200), ("swap", "b", "x", 1, 3, 412)))

    def test_no_version_is_lost(self):
        self.assertFalse(holds((), versions, self.put, ("put", "b", 0, 2, 3, 200), ("list", None, 0, 4, 5, ("b",))))
        self.assertTrue(holds((), versions, self.put, ("delete", None, 0, 2, 3, 204), ("list", None, 0, 4, 5, ("-", "a")),
                              ("drop", "a", 0, 6, 7, 204), ("get_version", "a", 0, 8, 9, ABSENT), ("list", None, 0, 8, 9, ("-",))))

    def test_a_renamed_object_has_one_name(self):
        sound = [self.put, ("rename", None, 0, 2, 3, 200), ("get", None, 1, 4, 5, "a"), ("get", None, 0, 4, 5, ABSENT)]
        self.assertTrue(holds((ABSENT, ABSENT), pair, *sound))
        self.assertFalse(holds((ABSENT, ABSENT), pair, *sound[:3], ("get", None, 0, 4, 5, "a")))
        neither = sound[:2] + [("get", None, 0, 4, 5, ABSENT), ("get", None, 1, 6, 7, ABSENT)]
        self.assertFalse(holds((ABSENT, ABSENT), pair, *neither))

    def test_denied_is_denied_at_once(self):
        self.assertFalse(holds("allow", setting, ("set", "deny", 0, 0, 1, 200), ("see", None, 0, 2, 3, "allow")))


def put(content, maker, where, began, ended, answer=200, condition=None, kind="put"):
    return (kind, (content, maker, condition), where, began, ended, answer)


def get(where, began, ended, content, etag, version="", asked=None):
    return ("get", asked, where, began, ended, content and Seen(content, etag, version, 20))


def page(began, ended, entries, first=0, most=10, more=False):
    listed = tuple(Listed(key, etag, "", 20, True) for key, etag in entries)
    return ("list", (first, most), 0, began, ended, (listed, more))


class Buckets(unittest.TestCase):
    def judge(self, *rows, versioned=False, etags=None, ids=None):
        keys = Bucket(3, versioned)
        for maker, etag in (etags or {1: "e1-r", 2: "e2-r", 3: "e3-r"}).items():
            self.assertIsNone(keys.note(maker, etag, (ids or {}).get(maker, "")))
        calls = made(*rows)
        return model.judge("keys", keys, calls)

    def sound(self, *rows, **more):
        self.assertIsNone(self.judge(*rows, **more))

    def unsound(self, *rows, **more):
        self.assertIsNotNone(self.judge(*rows, **more))

    def test_bytes_and_entity_tag_are_of_one_write(self):
        writes = put(A, 1, 0, 0, 1), put(B, 2, 0, 2, 3)
        self.sound(*writes, get(0, 4, 5, B, "e2-r"))
        self.unsound(*writes, get(0, 4, 5, B, "e1-r"))
        self.unsound(*writes, get(0, 4, 5, A, "e2-r"))
        self.unsound(*writes, get(0, 4, 5, A, "e1-r"))

    def test_the_tag_of_a_write_without_an_answer_is_learnt_once(self):
        lost = put(C, 9, 0, 0, 1, UNKNOWN)
        self.sound(lost, get(0, 2, 3, C, "x-r"), get(0, 4, 5, C, "x-r"))
        self.unsound(lost, get(0, 2, 3, C, "x-r"), get(0, 4, 5, C, "y-r"))

    def test_a_condition_names_no_write_whose_tag_is_unknown(self):
        lost = put(C, 9, 0, 0, 1, UNKNOWN)
        self.sound(lost, page(2, 3, [(0, "x-r")]), put(B, 2, 0, 4, 5, 412, model.md5_of(A)), put(B, 2, 0, 6, 7, 412, "e1-r"))
        self.unsound(lost, page(2, 3, [(0, "x-r")]), put(B, 2, 0, 4, 5, 200, "e1-r"))

    def test_a_listing_has_every_acknowledged_put(self):
        self.sound(put(A, 1, 0, 0, 1), page(2, 3, [(0, "e1-r")]))
        self.unsound(put(A, 1, 0, 0, 1), page(2, 3, []))
        self.sound(put(A, 1, 0, 0, 5), page(2, 3, []))

    def test_a_page_is_one_moment_of_all_keys(self):
        writes = put(A, 1, 0, 0, 1), put(B, 2, 0, 2, 10), put(C, 3, 1, 12, 20)
        # The second key's new value with the first one's old.
        self.unsound(*writes, page(0.5, 30, [(0, "e1-r"), (1, "e3-r")]))
        self.sound(*writes, page(0.5, 30, [(0, "e2-r"), (1, "e3-r")]))
        self.sound(*writes, page(0.5, 30, [(0, "e1-r")]))

    def test_a_page_ends_where_it_is_full(self):
        writes = put(A, 1, 0, 0, 1), put(B, 2, 1, 0, 1), put(C, 3, 2, 0, 1)
        self.sound(*writes, page(2, 3, [(0, "e1-r"), (1, "e2-r")], most=2, more=True))
        self.unsound(*writes, page(2, 3, [(0, "e1-r"), (1, "e2-r")], most=2, more=False))
        self.unsound(*writes, page(2, 3, [(0, "e1-r"), (2, "e3-r")], most=2, more=True))
        self.sound(*writes, page(2, 3, [(1, "e2-r"), (2, "e3-r")], first=1, most=2))

    def test_a_rename_is_never_half_done(self):
        rename = ("rename", (1, False), 0, 2, 6, 200)
        self.sound(put(A, 1, 0, 0, 1), rename, page(3, 4, [(0, "e1-r")]), page(4.5, 5, [(1, "e1-r")]))
        self.unsound(put(A, 1, 0, 0, 1), rename, page(3, 4, [(0, "e1-r"), (1, "e1-r")]))
        self.unsound(put(A, 1, 0, 0, 1), rename, page(3, 4, []))
        self.unsound(put(A, 1, 0, 0, 1), rename, get(1, 3, 4, A, "e1-r"), get(0, 4.5, 5, A, "e1-r"))

    def test_a_rename_of_unknown_outcome_is_seen_whole_or_not(self):
        rename = ("rename", (1, False), 0, 2, 6, UNKNOWN)
        self.sound(put(A, 1, 0, 0, 1), rename, get(0, 7, 8, A, "e1-r"), get(1, 9, 10, A, "e1-r"), get(0, 11, 12, None, ""))
        self.unsound(put(A, 1, 0, 0, 1), rename, get(0, 7, 8, None, ""), get(1, 9, 10, None, ""))

    def test_a_rename_that_keeps_is_refused_by_an_object(self):
        writes = put(A, 1, 0, 0, 1), put(B, 2, 1, 0, 1)
        self.sound(*writes, ("rename", (1, True), 0, 2, 3, 412))
        self.unsound(*writes, ("rename", (1, True), 0, 2, 3, 200))
        self.unsound(*writes, ("rename", (1, False), 0, 2, 3, 404))

    def test_of_two_completes_for_one_state_one_succeeds(self):
        first = put(A, 1, 0, 0, 1)
        both = [put(B, 2, 0, 2, 4, 200, "e1-r", "complete"), put(C, 3, 0, 3, 5, 200, "e1-r", "complete")]
        self.unsound(first, *both)
        self.sound(first, both[0], put(C, 3, 0, 3, 5, 412, "e1-r", "complete"))
        self.unsound(put(B, 2, 0, 2, 4, 200, "*"), put(C, 3, 0, 3, 5, 200, "*", "complete"))

    def test_appends_follow_each_other(self):
        first, whole = put(A, 1, 0, 0, 1), f"{A}+{B}"
        append = ("append", (B, 2, 20), 0, 2, 3, ("size", 40))
        seen = ("get", None, 0, 4, 5, Seen(whole, "e2-r", "", 40))
        self.sound(first, append, seen)
        self.unsound(first, append, get(0, 4, 5, A, "e1-r"))
        self.unsound(first, append, ("append", (C, 3, 20), 0, 4, 5, ("size", 40)))
        self.sound(first, append, ("append", (C, 3, 20), 0, 4, 5, 400))

    def test_versions_are_listed_with_their_ids_and_order(self):
        ids = {1: "v1", 2: "v2", 3: "v3"}
        writes = put(A, 1, 0, 0, 1), put(B, 2, 0, 2, 3), ("delete", (3, None), 0, 4, 5, 204)
        rows = [Listed(0, "-", "v3", 0, True), Listed(0, "e2-r", "v2", 20, False), Listed(0, "e1-r", "v1", 20, False)]

        def listed(*some):
            return ("list_versions", None, 0, 6, 7, (some, False))
        etags = {1: "e1-r", 2: "e2-r", 3: ""}
        self.sound(*writes, listed(*rows), versioned=True, ids=ids, etags=etags)
        self.unsound(*writes, listed(rows[0], rows[2], rows[1]), versioned=True, ids=ids, etags=etags)
        self.unsound(*writes, listed(*rows[:2]), versioned=True, ids=ids, etags=etags)
        self.unsound(*writes, listed(rows[0], rows[1]._replace(version="v1"), rows[2]), versioned=True, ids=ids, etags=etags)
        self.sound(*writes, get(0, 6, 7, A, "e1-r", "v1", "v1"), get(0, 6, 7, None, ""), versioned=True, ids=ids, etags=etags)
        self.sound(*writes, ("drop", "v3", 0, 6, 7, 204), get(0, 8, 9, B, "e2-r", "v2"), versioned=True, ids=ids, etags=etags)

    def test_keys_that_no_call_connects_are_judged_by_themselves(self):
        calls = made(put(A, 1, 0, 0, 1), put(B, 2, 1, 0, 1), ("rename", (2, False), 1, 2, 3, 200))
        groups = history.parts(calls, lambda call: model.touched(call, 3))
        self.assertEqual(sorted(map(len, groups)), [1, 2])

    def test_a_copy_without_an_answer_has_what_its_source_had(self):
        copy = ("copy", (0, 9), 1, 2, 3, UNKNOWN)
        self.sound(put(A, 1, 0, 0, 1), copy, get(1, 4, 5, A, model.md5_of(A)))
        self.sound(put(A, 1, 0, 0, 1), copy, get(1, 4, 5, None, ""), put(B, 2, 1, 6, 7, 412, "*"))
        self.unsound(put(A, 1, 0, 0, 1), copy, get(1, 4, 5, B, "e2-r"))

    def test_memory_buckets_lose_only_the_last_moment(self):
        calls = made(put(A, 1, 0, 0, 1), put(B, 2, 0, 2, 3), put(C, 3, 0, 8, 9), ("delete", (4, None), 1, 2, 3, 204))
        for content, killed, sound in ((B, 10, True), (C, 10, True), (A, 10, False), (None, 10, False), (A, 4, True), ("x", 10, False)):
            self.assertEqual(model.weaker("keys", calls, {0: content}, killed, 3) is None, sound, content)
        self.assertIsNone(model.weaker("keys", calls, {1: None}, 10, 3))

    def test_a_page_by_keys_is_many_reads(self):
        call = made(page(2, 3, [(1, "e2-r")], most=1, more=True))[0]
        self.assertEqual([(one.where, one.answer and one.answer.etag) for one in model.by_key(call, 3)], [(0, None), (1, "e2-r")])


class FadingObjects(unittest.TestCase):
    def judge(self, keys, *rows):
        for maker in (1, 2, 3):
            self.assertIsNone(keys.note(maker, f"e{maker}-r", ""))
        return model.judge("keys", keys, made(*rows))

    def evicting(self, *rows, pins=(), kills=()):
        keys = Evicting(3)
        keys.pins, keys.kills = {0: list(pins)}, list(kills)
        return self.judge(keys, *rows) is None

    def lasting(self, *rows, ends=(5, 7), one_clock=True):
        keys = Lasting(3, one_clock)
        keys.ends[1] = ends
        return self.judge(keys, *rows) is None

    def test_what_was_evicted_stays_away(self):
        there, gone = get(0, 4, 5, A, "e1-r"), get(0, 2, 3, None, "")
        self.assertTrue(self.evicting(put(A, 1, 0, 0, 1), gone))
        self.assertFalse(self.evicting(put(A, 1, 0, 0, 1), gone, there))
        self.assertTrue(self.evicting(put(A, 1, 0, 0, 1), put(B, 2, 0, 2, 3, 200, "*"), get(0, 4, 5, B, "e2-r")))
        self.assertFalse(self.evicting(put(A, 1, 0, 0, 1), put(B, 2, 0, 2, 3, 200, "*"), there))
        self.assertFalse(self.evicting(put(B, 2, 0, 0, 1, 412, "*")))
        self.assertTrue(self.evicting(put(A, 1, 0, 0, 1), put(B, 2, 0, 2, 3, 507), there))
        self.assertTrue(self.evicting(put(A, 1, 0, 0, 1), put(B, 2, 0, 2, 3, 404, "e1-r")))
        self.assertFalse(self.evicting(put(A, 1, 0, 0, 1), put(B, 2, 0, 2, 3, 404, "e1-r"), there))
        self.assertTrue(self.evicting(put(A, 1, 0, 0, 1), put(B, 2, 0, 2, 3, UNKNOWN, "*"), get(0, 4, 5, B, "e2-r")))

    def test_a_page_lacks_what_was_evicted(self):
        both = put(A, 1, 0, 0, 1), put(B, 2, 1, 0, 1)
        self.assertTrue(self.evicting(*both, page(2, 3, [(1, "e2-r")])))
        self.assertFalse(self.evicting(*both, page(2, 3, [(1, "e2-r")]), get(0, 4, 5, A, "e1-r")))
        self.assertTrue(self.evicting(*both, page(2, 3, [(0, "e1-r")], most=1, more=True), get(1, 4, 5, B, "e2-r")))
        self.assertFalse(self.evicting(*both, page(2, 3, [(0, "e2-r")])))

    def test_what_a_lease_pins_is_not_evicted(self):
        rows = put(A, 1, 0, 0, 1), get(0, 3, 4, None, "")
        self.assertFalse(self.evicting(*rows, pins=[(2, 5)]))
        self.assertTrue(self.evicting(*rows, pins=[(2, 3.5)]))
        self.assertTrue(self.evicting(*rows, pins=[(3.5, 5)]))
        self.assertTrue(self.evicting(*rows, pins=[(2, 5)], kills=[2.5]))
        self.assertTrue(self.evicting(*rows, pins=[(2, 5)], kills=[1.5]))
        self.assertFalse(self.evicting(*rows, pins=[(2, 5)], kills=[0.5]))
        self.assertTrue(self.evicting(put(A, 1, 0, 0, 1), ("delete", (2, None), 0, 2, 3, 204), rows[1], pins=[(2, 5)]))

    def test_an_object_is_there_until_its_end_and_not_after(self):
        write = put(A, 1, 0, 0, 1)
        self.assertTrue(self.lasting(write, get(0, 3, 4, A, "e1-r")))
        self.assertFalse(self.lasting(write, get(0, 3, 4, None, "")))
        self.assertTrue(self.lasting(write, get(0, 5, 6, None, "")))
        self.assertTrue(self.lasting(write, get(0, 5, 6, A, "e1-r"), put(B, 2, 0, 8, 9, 200, "*")))
        self.assertFalse(self.lasting(write, get(0, 5, 6, None, ""), get(0, 6.5, 6.8, A, "e1-r")))
        self.assertFalse(self.lasting(write, get(0, 8, 9, A, "e1-r")))
        self.assertFalse(self.lasting(write, put(B, 2, 0, 8, 9, 412, "*")))
        self.assertFalse(self.lasting(write, page(8, 9, [(0, "e1-r")])))

    def test_servers_whose_clocks_are_apart_may_differ_about_an_end_while_it_comes(self):
        write, gone, there = put(A, 1, 0, 0, 1), get(0, 5, 6, None, ""), get(0, 6.5, 6.8, A, "e1-r")
        self.assertTrue(self.lasting(write, gone, there, one_clock=False))
        self.assertTrue(self.lasting(write, page(5, 6, []), there, one_clock=False))
        self.assertFalse(self.lasting(write, get(0, 3, 4, None, ""), there, one_clock=False))
        self.assertFalse(self.lasting(write, gone, get(0, 8, 9, A, "e1-r"), one_clock=False))
        replaced = put(B, 2, 0, 5, 6, 200, "*")
        self.assertTrue(self.lasting(write, replaced, get(0, 6.5, 6.8, B, "e2-r"), one_clock=False))
        self.assertFalse(self.lasting(write, replaced, there, one_clock=False))
        self.assertFalse(self.lasting(write, ("delete", (2, None), 0, 5, 6, 204), there, one_clock=False))

    def test_a_match_tells_of_the_leading_keys_and_the_next(self):
        calls = made(*[("there", None, key, 0, 1, UNKNOWN) for key in range(3)])
        told = match_calls(calls, (1, "no_such_key", [20]))
        self.assertEqual([(call.where, call.answer) for call in told], [(0, 20), (1, None)])
        self.assertEqual(len(match_calls(calls, (1, "slow_down", [20]))), 1)
        self.assertTrue(self.evicting(put(A, 1, 0, 0, 1), ("there", None, 0, 2, 3, 20)))
        self.assertFalse(self.evicting(put(A, 1, 0, 0, 1), ("there", None, 0, 2, 3, 21)))
        self.assertFalse(self.evicting(("there", None, 0, 2, 3, 20)))


def invented(count, clients, choose, flaw=None):
    """A linearizable history of one key, by clients at the same time; `flaw`: a call whose answer is made stale."""
    rows, value, at, free = [], ABSENT, 0.0, [0.0] * clients
    for serial in range(count):
        client = min(range(clients), key=lambda i: free[i])
        at = max(at, free[client]) + choose.random()
        began, ended = at - choose.random() * 2, at + choose.random() * clients
        began = max(began, free[client])
        free[client] = ended + 0.01
        if choose.random() < 0.5:
            rows.append(("get", None, 0, began, ended, "stale" if serial == flaw else value))
        else:
            value = str(serial)
            rows.append(("put", value, 0, began, ended, 200 if choose.random() > 0.0001 else UNKNOWN))
    return rows


class Speed(unittest.TestCase):
    def test_a_hundred_thousand_calls_take_seconds(self):
        calls = made(*invented(100_000, 8, random.Random(1)))
        began = time.process_time()
        self.assertTrue(history.linearizable(calls, ABSENT, register, is_read=lambda call: call.kind == "get"))
        seconds = time.process_time() - began
        print(f"100,000 calls of 8 clients: {seconds:.1f} s")
        self.assertLess(seconds, 60)

    def test_random_histories_are_accepted_and_one_stale_answer_is_not(self):
        for seed in range(200):
            flaw = seed % 50 if seed % 2 else None
            rows = invented(60, 5, random.Random(seed), flaw)
            flawed = any(row[0] == "get" and row[5] == "stale" for row in rows)
            for reads in (None, lambda call: call.kind == "get"):
                self.assertEqual(history.linearizable(made(*rows), ABSENT, register, is_read=reads), not flawed, seed)


if __name__ == "__main__":
    unittest.main()
