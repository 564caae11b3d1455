"""What clients of a cache do in a history (run.py, worlds.py): MATCH, batches of PUTs of what is not there, objects with
an end, and leases."""
import time

from bucket import Seen
from bytes_of import body_of, size_of
from doors import Lost, NotSent, Refused, Wrong
from fading import UNDER_WAY_S
from history import UNKNOWN, Call

TTLS_S = (1, 1, 2, 3)
LEASES_MS = (300, 1500, 3000)
PLACE = 70_200
PAUSES_S = (0, 0.02, 0.1, 0.9)


def match_calls(calls, found):
    """Takes the answer of a MATCH, (number of leading keys, why the next one does not count, sizes), into a call of each
    key that it tells of. It is no moment of all of them."""
    leading, ended, sizes = found
    for call, size in zip(calls, sizes):
        call.answer = size
    told = calls[:leading]
    if leading < len(calls) and ended == "no_such_key":
        calls[leading].answer = None
        told.append(calls[leading])
    return told


class Cached:
    """Of a Client (worlds.py)."""

    def match(self, world, _):
        numbers = self.choose.sample(range(len(world.keys)), self.choose.choice((2, 3, len(world.keys))))
        whole = self.outcome(Call("match", tuple(numbers)), lambda: self.door.match(world.bucket, [world.keys[key] for key in numbers]))
        return self.matched(whole, numbers)

    def matched(self, whole, numbers):
        if whole is None or not isinstance(whole.answer, tuple):
            return [whole] if whole is not None and whole.answer == UNKNOWN else []
        calls = match_calls([Call("there", None, key, self.by) for key in numbers], whole.answer[:3])
        for call in calls:
            call.began, call.ended = whole.began, whole.ended
        return calls

    def put_ttl(self, world, key):
        content, maker, ttl_s = self.content(world, key), self.run.serial(), self.choose.choice(TTLS_S)
        self.name_of_put(world, key, content, maker)
        call = Call("put", (content, maker, self.choose.choice((None, None, "*"))), key)
        body = body_of(content)
        done = self.written(world, call, lambda: self.door.put(world.bucket, world.keys[key], body, call.value[2], ttl_s))
        if done is not None:
            world.model.lasts(call, ttl_s)
        return done

    # Leases.

    def lease(self, world, _):
        """Takes a lease, reads by it, and ends it or lets it end. The first answer is judged with all others, what is read
        by the lease here: the versions that were found, until it ends."""
        numbers = self.choose.sample(range(len(world.keys)), self.choose.choice((1, 2, len(world.keys))))
        names, ms = [world.keys[key] for key in numbers], self.choose.choice(LEASES_MS)
        kills, calls = self.run.kills, []
        until = time.monotonic() + ms / 1000
        held = self.take_lease(world, numbers, names, ms, calls)
        if not held:
            return calls
        lease, found = held
        since, released = time.monotonic() + UNDER_WAY_S, until
        for _ in range(self.choose.choice((1, 2))):
            time.sleep(self.choose.choice(PAUSES_S))
            if not self.read_leased(world, lease, found, until, kills):
                return calls  # the session may have ended
        if self.choose.random() < 0.6:
            released = min(until, time.monotonic())
            try:
                self.door.end_lease(lease)
            except (Lost, NotSent, Refused):
                pass
        if kills == self.run.kills:
            for key in found:
                world.model.pins.setdefault(key, []).append((since, released))
        return calls

    def take_lease(self, world, numbers, names, ms, calls):
        """The lease and key -> Seen of what it holds (by MATCH: a size), or None; the answer's calls are added to `calls`."""
        kind = self.choose.choice(("match", "get_many", "head_many"))
        asks = {"match": lambda: self.door.match(world.bucket, names, ms),
                "get_many": lambda: self.door.leased(self.door.get_many, world.bucket, names, PLACE, lease_ms=ms),
                "head_many": lambda: self.door.leased(self.door.head_many, world.bucket, names, lease_ms=ms)}
        whole = self.outcome(Call(kind, f"lease of {ms} ms"), asks[kind])
        if whole is None or not isinstance(whole.answer, tuple):
            return None
        if kind == "match":
            calls.extend(self.matched(whole, numbers))
            found = {call.where: call.answer for call in calls if call.answer is not None}
        else:
            found = {key: item for key, item in zip(numbers, whole.answer[0]) if isinstance(item, Seen)}
            for key, item in zip(numbers, whole.answer[0]):
                call = Call(kind.removesuffix("_many"), None, key, self.by)
                call.began = whole.began
                call.end(self.item(world, call, item), whole.ended)
                calls.append(call)
        lease = whole.answer[-1]
        if found and not lease:
            self.run.fail(f"{world.prefix} {whole!r}: found, and not leased")
        return (lease, found) if found and lease else None

    def read_leased(self, world, lease, found, until, kills):
        """False: nothing may be said of the session any more."""
        keys = list(found)
        try:
            items = self.door.get_many(world.bucket, [world.keys[key] for key in keys], PLACE, lease=lease)
        except (Lost, NotSent, Refused) as error:
            self.run.lost(error)
            return False
        except Wrong as wrong:
            self.run.fail(f"{world.prefix} by a lease: {wrong}")
            return False
        if time.monotonic() > until or kills != self.run.kills:
            return kills == self.run.kills
        for key, item in zip(keys, items):
            if isinstance(item, (Lost, NotSent)):
                return False
            if not self.is_held(found, key, item):
                self.run.fail(f"{world.prefix} key {key} by lease {lease}: {item}; it holds {found[key]}")
            found[key] = item if isinstance(item, Seen) else found[key]
        self.run.counts["reads by a lease"] += len(keys)
        return True

    @staticmethod
    def is_held(found, key, item):
        if not isinstance(item, Seen) or item.size != size_of(item.content):
            return False
        was = found[key]
        if not isinstance(was, Seen):
            return item.size == was
        return (item.etag, item.size) == (was.etag, was.size) and was.content in (None, item.content)
