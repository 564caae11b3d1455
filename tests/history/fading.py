"""The models of keys whose objects go by themselves: in a bucket that evicts, or at an end of their own (TTL).

An object may then be absent for a call though no call removed it; it stays absent from there on. So a call that finds
it absent changes the state: the object has gone before it. (Not so where servers with clocks of their own share the
store: Lasting.)
"""
from bucket import MARKER, READS, Bucket, is_read
from history import NO, UNKNOWN

ROUNDED_S = 1.0   # an end is a whole second of the server's clock, at or after the TTL
UNDER_WAY_S = 1.0  # an eviction that began before a lease
LATE_S = 0.25     # of a clock that is adjusted, and of a thread that waits between its clock and its call


class Fading(Bucket):
    """Without versions."""

    def __init__(self, keys):
        super().__init__(keys, versioned=False)

    def may_go(self, key, entry, call):
        """Whether the object may have gone by the time of the call's effect."""
        raise NotImplementedError

    def is_over(self, entry, call):
        """Whether it must have."""
        return False

    def is_read(self, call):
        if call.kind in ("get", "head", "there", "source"):
            return call.answer is not None
        return call.kind not in READS and call.answer != 404 and is_read(call)

    def after(self, state, call):
        """First without what is over; then, if the answer does not fit, without what may have gone."""
        keys = range(self.keys) if call.kind == "list" else (call.where,)
        for key in keys:
            if state[key] and self.is_over(state[key][0], call):
                state = self._with(state, key, ())
        then = super().after(state, call)
        going = [key for key in keys if state[key] and self.may_go(key, state[key][0], call)]
        refused = call.answer == UNKNOWN and then == state  # had it been carried out
        if not going or (then is not NO and not refused):
            return then
        gone = self._without_unlisted(state, call, going) if call.kind == "list" else self._with(state, call.where, ())
        then = super().after(gone, call)
        return then if then is NO else self.found_gone(state, then, going)

    def found_gone(self, state, then, going):
        """What the call leaves that found some of these keys' objects gone."""
        return then

    def _without_unlisted(self, state, call, going):
        listed, more = call.answer
        there = {one.key for one in listed}
        last = self.keys if not more else max(there, default=-1) + 1
        for key in going:
            if call.value[0] <= key < last and key not in there:
                state = self._with(state, key, ())
        return state


class Evicting(Fading):
    """Of a bounded bucket: an object may go at any time, unless a lease pins its key. `pins`: key -> (from, to) in which
    one did for certain, UNDER_WAY_S after it was taken; a kill of the server (`kills`: their times) ends it."""

    def __init__(self, keys):
        super().__init__(keys)
        self.pins, self.kills = {}, []

    def may_go(self, key, entry, call):
        return not any(since <= call.began and call.ended <= until and not self.is_cut(since, call)
                       for since, until in self.pins.get(key, ()))

    def is_cut(self, since, call):
        return any(since - UNDER_WAY_S <= killed <= call.ended for killed in self.kills)

    def after(self, state, call):
        if call.answer == 507:  # all of the bucket was pinned for a moment
            return state
        return super().after(state, call)


class Lasting(Fading):
    """Of objects with an end. `ends`: maker -> (from, to), the time of its end lies between. `one_clock`: else several
    servers judge, each by its own clock, and what is gone at one of them may be found at another one until `to`."""

    def __init__(self, keys, one_clock=True):
        super().__init__(keys)
        self.ends, self.one_clock = {}, one_clock

    def lasts(self, call, ttl_s):
        """Notes the end of what a call that is over has made; one without an answer may be carried out late."""
        self.ends[call.value[1]] = (call.began + ttl_s - LATE_S, call.ended + ttl_s + ROUNDED_S + LATE_S)

    def may_go(self, key, entry, call):
        ends = self.ends.get(entry[1])
        return ends is not None and entry[0] != MARKER and call.ended >= ends[0]

    def is_over(self, entry, call):
        ends = self.ends.get(entry[1])
        return ends is not None and call.began > ends[1]

    def found_gone(self, state, then, going):
        """What another object has replaced does not come back."""
        for key in [] if self.one_clock else going:
            if not then[key]:
                then = self._with(then, key, state[key])
        return then
