"""Worlds of a history (run.py): a few keys of one bucket that all clients work on at once, with the calls on them, and
the work of one client.

A world whose history is long enough is judged (bucket.judge) and replaced by another.
"""
import collections
import hashlib
import threading
import time

from bucket import Bucket, Listed, Seen
from bytes_of import body_of, etag_of_parts, md5_of
from doors import Lost, NotSent, Refused, Wrong
from express_case import ZONE
from cached import Cached
from fading import Evicting, Lasting
from history import UNKNOWN, Call

BUCKETS = {"plain": "plain", "versioned": "versioned", "directory": f"history--{ZONE}--x-s3", "memory": "memory", "cache": "cache",
           "lasting": "lasting"}
KEYS = 4
LIVE = {"plain": 1, "versioned": 1, "directory": 1, "memory": 1, "cache": 1, "lasting": 1}  # worlds at a time
CALLS = 400          # of a world
UNKNOWN_MAX = 8      # of a world: each makes its judgement longer
VERSIONS_MAX = 40    # puts into a world with versions: listings of more cost time
SIZES = (20, 20, 20, 300, 300, 5_000, 20_000, 20_000, 70_000, 300_000)
SIZE_LARGE, LARGE = 2_000_000, 0.02
PART = 5 << 20
CACHED_MAX = 60_000  # of an object in the bucket that evicts
TWO_PARTS = 0.02     # of the multipart uploads; the others have one part
PLACE = 300_200      # of an item of a batch
KINDS = {
    "get": 10, "head": 3, "put": 6, "create": 3, "swap": 6, "delete": 3, "list": 5, "append": 4, "rename": 5, "get_version": 4, "drop": 2,
    "list_versions": 4, "copy": 3, "complete": 4, "get_many": 4, "head_many": 2, "put_many": 3,
    "create_many": 3, "delete_many": 1, "match": 4, "lease": 6, "put_ttl": 12}
IN = {  # kinds of calls that only some buckets have
    "append": ("directory",), "rename": ("directory",), "get_version": ("versioned",), "drop": ("versioned",), "list_versions": ("versioned",),
    "copy": ("plain", "versioned"), "complete": ("plain", "versioned", "directory", "memory"), "lease": ("cache",), "put_ttl": ("lasting",)}
BY = {  # and only some doors
    "list_versions": ("http",), "copy": ("http",), "complete": ("http",), "get_version": ("http", "token"), "drop": ("http", "token"),
    "get_many": ("native", "token"), "head_many": ("native", "token"), "put_many": ("native", "token"),
    "create_many": ("native", "token"), "match": ("native", "token"), "lease": ("native",), "put_ttl": ("http", "native")}


class World:
    def __init__(self, group, serial, one_clock=True):
        self.group, self.bucket = group, BUCKETS[group]
        self.prefix = f"{serial * 7919 % 10007:05d}-{serial}/"
        self.keys = [f"{self.prefix}{key:032x}" for key in range(KEYS)]  # as MATCH asks for them
        if group == "lasting":
            self.model = Lasting(KEYS, one_clock)
        else:
            self.model = Evicting(KEYS) if group == "cache" else Bucket(KEYS, group == "versioned")
        self.lock = threading.Lock()
        self.calls, self.users, self.unknown, self.over = [], 0, 0, False
        self.cut = False  # by a kill, which a memory bucket does not survive whole
        self.contents = {}  # md5 -> content, of general purpose buckets
        self.names = collections.deque(maxlen=8)    # (key, entity tag) of the last writes
        self.versions = collections.deque(maxlen=12)  # (key, version id, whether it is a delete marker)
        self.puts = 0

    def number_of(self, key):
        return self.keys.index(key)

    def is_full(self):
        return len(self.calls) >= CALLS or self.unknown >= UNKNOWN_MAX or (self.group == "versioned" and self.puts >= VERSIONS_MAX)

    def named(self, maker, key, etag, version):
        """Notes what an answer calls a write. Returns what is wrong, or None."""
        with self.lock:
            if etag:
                self.names.append((key, etag))
            if version:
                self.versions.append((key, version, not etag))
            return self.model.note(maker, etag, version)


class Client(Cached):
    """One client thread: a door, and random calls."""

    def __init__(self, run, door, by, choose):
        self.run, self.door, self.by, self.choose = run, door, by, choose

    def step(self, world):
        """One call, or the calls of one batch. Returns False if the door should be opened anew."""
        kinds = [kind for kind in KINDS if world.group in IN.get(kind, BUCKETS) and self.door.name in BY.get(kind, (self.door.name,))]
        kind = self.choose.choices(kinds, [KINDS[kind] for kind in kinds])[0]
        key = min(self.choose.randrange(KEYS), self.choose.randrange(KEYS))  # most clients meet at the first
        if kind.endswith("_many"):
            calls = self.batch(world, kind)
        else:
            calls = getattr(self, kind)(world, key)
        calls = calls if isinstance(calls, list) else [calls] if calls else []
        self.run.record(world, calls)
        if not calls:
            time.sleep(0.01)  # the server may be down
        return not any(call.answer == UNKNOWN for call in calls)

    def outcome(self, call, act):
        """Makes the call. None if it was not sent."""
        call.by = self.by
        call.begin()
        try:
            call.end(act())
        except Refused as refused:
            call.end(None if call.kind in ("get", "head") and refused.status == 404 else refused.status)
        except Lost as lost:
            call.end(UNKNOWN)
            self.run.lost(lost)
        except NotSent:
            self.run.counts["calls that were not sent"] += 1
            return None
        except Wrong as wrong:
            call.end(UNKNOWN)
            self.run.fail(f"{call!r}: {wrong}")
        return call

    # Writes.

    def content(self, world, key, size=None):
        large = self.door.name != "token" and world.group != "cache" and self.choose.random() < LARGE
        size = size or (SIZE_LARGE if large else self.choose.choice(SIZES))
        size = min(size, CACHED_MAX) if world.group == "cache" else size
        world.puts += 1
        content = f"{world.prefix}{key}.{self.run.serial()}.{self.by}:{size}"
        if world.group != "directory":
            with world.lock:
                world.contents[md5_of(content)] = content
        return content

    def written(self, world, call, act):
        """A call that makes a version: act() returns its entity tag and id."""
        maker = call.value[1]

        def do():
            etag, version = act()
            self.named(world, call, maker, etag, version)
            return 200
        return self.outcome(call, do)

    def named(self, world, call, maker, etag, version):
        wrong = world.named(maker, call.where, etag, version)
        if wrong:
            self.run.fail(f"{world.prefix} {call!r}: {wrong}")

    def name_of_put(self, world, key, content, maker):
        """A PUT by HTTP has an MD5 for its name, also if it gets no answer."""
        if self.door.name == "http" and world.group != "directory":
            world.named(maker, key, md5_of(content), "")

    def put(self, world, key, condition=None):
        content, maker = self.content(world, key), self.run.serial()
        self.name_of_put(world, key, content, maker)
        call = Call("put", (content, maker, condition), key)
        return self.written(world, call, lambda: self.door.put(world.bucket, world.keys[key], body_of(content), condition))

    def create(self, world, key):
        return self.put(world, key, "*")

    def swap(self, world, _):
        if not world.names:
            return None
        key, etag = self.choose.choice(list(world.names)[-3:])
        return self.put(world, key, etag)

    def complete(self, world, key):
        """A multipart upload, completed with or without a condition."""
        condition = self.choose.choice((None, "*", "etag", "etag"))
        if condition == "etag":
            if not world.names:
                return None
            key, condition = self.choose.choice(list(world.names)[-3:])
        two = self.choose.random() < TWO_PARTS
        content, maker = self.content(world, key, PART + 1000 if two else 20_000), self.run.serial()
        body = body_of(content)
        bodies = [body[:PART], body[PART:]] if two else [body]
        try:
            upload = self.door.upload(world.bucket, world.keys[key], bodies)
        except (Lost, NotSent) as lost:
            self.run.lost(lost)
            return None
        except (Refused, Wrong) as wrong:
            self.run.fail(f"{world.prefix} upload: {wrong}")
            return None
        if world.group != "directory" and upload[2] != [hashlib.md5(one, usedforsecurity=False).hexdigest() for one in bodies]:
            self.run.fail(f"{world.prefix} upload: entity tags of parts are not their MD5s: {upload[2]}")
        world.named(maker, key, etag_of_parts(upload[2]), "")
        call = Call("complete", (content, maker, condition), key)
        return self.written(world, call, lambda: self.door.complete(world.bucket, world.keys[key], upload, condition))

    def append(self, world, key):
        """At a size that was right a moment ago, or at the end."""
        piece, maker = self.content(world, key, self.choose.choice((20, 20, 300, 20_000))), self.run.serial()
        call = Call("append", (piece, maker, None), key)

        def do():
            etag, size = self.door.append(world.bucket, world.keys[key], body_of(piece), call.value[2])
            self.named(world, call, maker, etag, "")
            return ("size", size)
        if self.door.name != "native" or self.choose.random() < 0.6:
            seen = self.outcome(Call("head", None, key), lambda: self.door.head(world.bucket, world.keys[key]))
            if seen is None or seen.answer == UNKNOWN:
                return seen
            call.value = (piece, maker, seen.answer.size if seen.answer else 0)
            done = self.outcome(call, do)
            return [seen, done] if done else [seen]
        return self.outcome(call, do)

    def copy(self, world, key):
        source, maker = self.choose.choice([other for other in range(KEYS) if other != key]), self.run.serial()
        read, call = Call("source", None, source), Call("copy", (source, maker), key)
        made = []

        def do():
            made.extend(self.door.copy(world.bucket, world.keys[source], world.keys[key]))
            return 200
        if self.outcome(call, do) is None:
            return None
        if call.answer == UNKNOWN:
            return call
        if call.answer == 200:
            content = world.contents.get(made[0])
            if content is None:
                self.run.fail(f"{world.prefix} {call!r}: a copy of bytes of no write, {made}")
                return None
            call.kind, call.value, read.answer = "put", (content, maker, None), content
            self.named(world, call, maker, *made)
        read.began, read.ended, read.by = call.began, call.ended, call.by
        return [read, call] if call.answer == 200 else [read]

    def delete(self, world, key):
        maker, condition = self.run.serial(), None
        if world.names and self.choose.random() < 0.3:
            key, condition = self.choose.choice(list(world.names)[-3:])
        call = Call("delete", (maker, condition), key)

        def do():
            self.named(world, call, maker, "", self.door.delete(world.bucket, world.keys[key], None, condition))
            return 204
        return self.outcome(call, do)

    def drop(self, world, _):
        if not world.versions:
            return None
        key, version, _ = self.choose.choice(world.versions)

        def do():
            self.door.delete(world.bucket, world.keys[key], version)
            return 204
        return self.outcome(Call("drop", version, key), do)

    def rename(self, world, key):
        target, keep = self.choose.choice([other for other in range(KEYS) if other != key]), self.choose.random() < 0.3

        def do():
            self.door.rename(world.bucket, world.keys[key], world.keys[target], keep)
            return 200
        return self.outcome(Call("rename", (target, keep), key), do)

    # Reads.

    def get(self, world, key):
        return self.outcome(Call("get", None, key), lambda: self.door.get(world.bucket, world.keys[key]))

    def head(self, world, key):
        return self.outcome(Call("head", None, key), lambda: self.door.head(world.bucket, world.keys[key]))

    def get_version(self, world, _):
        objects = [one for one in list(world.versions) if not one[2]]
        if not objects:
            return None
        key, version, _ = self.choose.choice(objects)
        return self.outcome(Call("get", version, key), lambda: self.door.get(world.bucket, world.keys[key], version))

    def list(self, world, key):
        """A page that begins at some key; in a directory bucket at the first."""
        first = 0 if world.group == "directory" or self.choose.random() < 0.5 else key
        most = self.choose.choice((1, 2, 3, 100, 100, 100))

        def do():
            after = world.keys[first - 1] if first else ""
            rows, more = self.door.list(world.bucket, world.prefix, after, most)
            listed = tuple(Listed(world.number_of(name), etag, "", size, True) for name, etag, size in rows)
            return listed, more
        return self.outcome(Call("list", (first, most)), do)

    def list_versions(self, world, _):
        return self.outcome(Call("list_versions"), lambda: self.door.list_versions(world.bucket, world.prefix, world.number_of))

    # Batches.

    def batch(self, world, kind):
        """Each item is a call of its own, with the batch's begin and end."""
        numbers = self.choose.sample(range(KEYS), self.choose.choice((2, 2, 3, KEYS)))
        names = [world.keys[key] for key in numbers]
        one, absent = kind.removesuffix("_many"), kind == "create_many"
        one = "put" if absent else one
        calls = []
        for key in numbers:
            content = one == "put" and self.content(world, key, self.choose.choice(SIZES[:8]))
            value = {"put": (content, self.run.serial(), "*" if absent else None), "delete": (self.run.serial(), None)}.get(one)
            calls.append(Call(one, value, key, self.by))
        ask = getattr(self.door, f"{one}_many")
        more = {"get": (PLACE,), "put": ([body_of(call.value[0]) for call in calls if one == "put"], absent)}.get(one, ())
        began = time.monotonic()
        whole = self.outcome(Call(kind), lambda: ask(world.bucket, names, *more))
        if whole is None:
            return []
        items = whole.answer if isinstance(whole.answer, list) else [Lost("the batch")] * len(calls)
        now = time.monotonic()
        for call, item in zip(calls, items):
            call.began = began
            call.end(self.item(world, call, item), now)
        return [call for call, item in zip(calls, items) if not isinstance(item, NotSent)]

    def item(self, world, call, item):
        if isinstance(item, (Lost, NotSent)):
            return UNKNOWN
        if isinstance(item, Refused):
            return None if call.kind in ("get", "head") and item.status == 404 else item.status
        if isinstance(item, Exception):
            self.run.fail(f"{call!r}: item {item}")
            return UNKNOWN
        if isinstance(item, Seen):
            return item
        etag, version = item if call.kind == "put" else ("", item)
        self.named(world, call, call.value[1] if call.kind == "put" else call.value[0], etag, version)
        return 200 if call.kind == "put" else 204
