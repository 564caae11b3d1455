"""A checker of linearizability for all tests with concurrent clients.

A history is the list of several clients' calls to one thing (a key, a few keys that are changed together, a policy),
each with its begin, end and answer. It is linearizable when some order of the calls explains all answers, and in it no
call comes before one that had ended when it began. The search is Wing and Gong's, with a memory of visited states
(Lowe).

A call of unknown outcome (the server was killed, or it timed out) may have happened at any moment after it began,
even long after the client gave up, or never.
"""
import math
import time

UNKNOWN = "unknown"
NO = object()  # result of after() when the answer does not fit
STEPS_MAX = 2_000_000


class Call:
    """One call. `answer`: as defined by the thing's model, or UNKNOWN."""

    __slots__ = ("kind", "where", "value", "began", "ended", "answer", "by")

    def __init__(self, kind, value=None, where=0, by=""):
        self.kind, self.where, self.value, self.by = kind, where, value, by
        self.began = self.ended = 0.0
        self.answer = UNKNOWN

    def begin(self):
        self.began = time.monotonic()

    def end(self, answer, now=None):
        self.answer = answer
        self.ended = math.inf if answer == UNKNOWN else now or time.monotonic()

    def __getstate__(self):
        return [getattr(self, name) for name in self.__slots__]

    def __setstate__(self, values):
        for name, value in zip(self.__slots__, values):
            setattr(self, name, value)

    def __repr__(self):
        return f"[{self.began:.6f} {self.ended:.6f}] {self.by} {self.kind} {self.where} {self.value} -> {self.answer}"


class Undecided(Exception):
    """The search took too long."""


def linearizable(calls, start, after, steps_max=STEPS_MAX):
    """`after(state, call)`: the state after the call, or NO if its answer does not fit. For an UNKNOWN answer: the
    state if the call happens. States must be hashable."""
    calls = sorted(calls, key=lambda call: call.began)
    known = sum(1 << i for i, call in enumerate(calls) if call.answer != UNKNOWN)
    tried, stack = set(), [(0, start)]
    while stack:
        done, state = stack.pop()
        if done & known == known:
            return True
        if (done, state) in tried:
            continue
        tried.add((done, state))
        if len(tried) > steps_max:
            raise Undecided()
        # Candidates: calls that began before the first end of the others.
        first_end, next_calls = math.inf, []
        first_left = (~done & (done + 1)).bit_length() - 1
        for i in range(first_left, len(calls)):
            if done >> i & 1:
                continue
            call = calls[i]
            if call.began > first_end:
                break
            first_end = min(first_end, call.ended)
            next_calls.append((i, call))
        # Unknown outcomes last: most of them never happened or had no visible effect.
        next_calls.sort(key=lambda one: one[1].answer != UNKNOWN)
        for i, call in next_calls:
            if call.began <= first_end:
                then = after(state, call)
                if then is not NO:
                    stack.append((done | 1 << i, then))
    return False


# Models of things.

ABSENT = None


def register(state, call):
    """A key without versions: put, create (if absent), swap (if the value is `where`), delete, get."""
    unknown = call.answer == UNKNOWN
    if call.kind == "get":
        return state if call.answer == state else NO
    if call.kind == "create" and state is not ABSENT:
        return state if unknown or call.answer == 412 else NO
    if call.kind == "swap" and state != call.where:
        return state if unknown or call.answer == (404 if state is ABSENT else 412) else NO
    if call.kind == "delete":
        return ABSENT if unknown or call.answer == 204 else NO
    return call.value if unknown or call.answer == 200 else NO


def versions(state, call):
    """A key that keeps its versions; a state lists them newest first, delete markers as "-". Values are distinct.

        put, delete (which adds a marker), get, get_version and drop (removes the version with that value), list (all
        of them).
    """
    unknown = call.answer == UNKNOWN
    if call.kind == "put":
        return (call.value,) + state if unknown or call.answer == 200 else NO
    if call.kind == "delete":
        return ("-",) + state if unknown or call.answer == 204 else NO
    if call.kind == "drop":
        return tuple(v for v in state if v != call.value) if unknown or call.answer == 204 else NO
    if call.kind == "get":
        newest = state[0] if state and state[0] != "-" else ABSENT
        return state if call.answer == newest else NO
    if call.kind == "get_version":
        there = call.value if call.value in state else ABSENT
        return state if call.answer == there else NO
    return state if call.answer == state else NO  # list


def pair(state, call):
    """Two keys, of which one may be renamed to the other: put, delete, get, rename, keep (a rename that does not
    overwrite) at `where`."""
    mine, other = state[call.where], state[1 - call.where]
    unknown = call.answer == UNKNOWN

    def with_mine(value):
        return (value, other) if call.where == 0 else (other, value)

    if call.kind == "put":
        return with_mine(call.value) if unknown or call.answer == 200 else NO
    if call.kind == "delete":
        return with_mine(ABSENT) if unknown or call.answer == 204 else NO
    if call.kind == "get":
        return state if call.answer == mine else NO
    if mine is ABSENT:
        return state if unknown or call.answer == 404 else NO
    if call.kind == "keep" and other is not ABSENT:
        return state if unknown or call.answer == 412 else NO
    if not unknown and call.answer != 200:
        return NO
    return (ABSENT, mine) if call.where == 0 else (mine, ABSENT)


def setting(state, call):
    """A setting that applies to all clients: set, and see."""
    if call.kind == "set":
        return call.value if call.answer in (200, UNKNOWN) else NO
    return state if call.answer == state else NO


def made(*rows):
    """Calls of (kind, value, where, began, ended, answer), for checks of the checker."""
    calls = []
    for kind, value, where, began, ended, answer in rows:
        call = Call(kind, value, where)
        call.began, call.ended, call.answer = began, math.inf if answer == UNKNOWN else ended, answer
        calls.append(call)
    return calls


def check_the_checker():
    """Invalid histories must be rejected, and valid ones accepted."""
    def holds(start, after, *rows):
        return linearizable(made(*rows), start, after)

    put = ("put", "a", 0, 0, 1, 200)
    assert holds(ABSENT, register, put, ("get", None, 0, 2, 3, "a"))
    assert not holds(ABSENT, register, put, ("get", None, 0, 2, 3, ABSENT)), "a stale read"
    assert holds(ABSENT, register, put, ("get", None, 0, 0.5, 3, ABSENT)), "it began before the put had ended"
    lost = ("put", "b", 0, 2, 3, UNKNOWN)
    assert holds(ABSENT, register, put, lost, ("get", None, 0, 4, 5, "a"), ("get", None, 0, 6, 7, "b")), "it may happen late"
    assert not holds(ABSENT, register, put, lost, ("get", None, 0, 4, 5, "b"), ("get", None, 0, 6, 7, "a")), "and only once"
    assert not holds(ABSENT, register, ("create", "a", 0, 0, 2, 200), ("create", "b", 0, 1, 3, 200)), "two created it"
    assert not holds("x", register, ("swap", "a", "x", 0, 2, 200), ("swap", "b", "x", 1, 3, 200)), "a lost update"
    assert not holds((), versions, put, ("put", "b", 0, 2, 3, 200), ("list", None, 0, 4, 5, ("b",))), "a version was lost"
    assert holds((), versions, put, ("delete", None, 0, 2, 3, 204), ("list", None, 0, 4, 5, ("-", "a")), ("drop", "a", 0, 6, 7, 204),
                 ("get_version", "a", 0, 8, 9, ABSENT), ("list", None, 0, 8, 9, ("-",)))
    sound = [("put", "a", 0, 0, 1, 200), ("rename", None, 0, 2, 3, 200), ("get", None, 1, 4, 5, "a"), ("get", None, 0, 4, 5, ABSENT)]
    assert holds((ABSENT, ABSENT), pair, *sound)
    assert not holds((ABSENT, ABSENT), pair, *sound[:3], ("get", None, 0, 4, 5, "a")), "an object under both names"
    neither = sound[:2] + [("get", None, 0, 4, 5, ABSENT), ("get", None, 1, 6, 7, ABSENT)]
    assert not holds((ABSENT, ABSENT), pair, *neither), "an object under no name"
    forbid = ("set", "deny", 0, 0, 1, 200)
    assert not holds("allow", setting, forbid, ("see", None, 0, 2, 3, "allow")), "denied is denied at once"
