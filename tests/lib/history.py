"""The checker of linearizability for all tests with concurrent clients of real servers.

A history is the list of several clients' calls to one thing (a key, some keys of a bucket, a policy), each with its
begin, end and answer. It is linearizable when some order of the calls explains all answers, and in it no call comes
before one that had ended when it began.

The search is Porcupine's: Wing and Gong's, depth first, with a memory of the visited pairs of (calls done, state)
(Lowe). A call gets its place when it ends, as late as possible: only then others that had begun are done before it, and
of these only such as have keys in common with it, or with each other. What is done is kept as a place in the history
and the calls done beyond it, so a step costs as much as there are calls at one time, however long the history is. A
call that changes nothing is done as soon as its answer fits: that takes nothing from any other order. Calls on things
that no call connects are separate histories (parts()).

A call of unknown outcome (the server was killed, or it timed out) may have happened at any moment after it began,
even long after the client gave up, or never.
"""
import bisect
import collections
import math
import time

UNKNOWN = "unknown"
UNDECIDED, BY_KEYS = "undecided", "by keys"
NO = object()  # result of after() when the answer does not fit
STEPS_MAX = 300_000
TOLD_MAX = 60  # calls in a report


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


class Search:
    """One search. `deepest`: of the orders tried the one that explained most: (number of calls that had ended, state,
    the call that could not be next), for a report."""

    def __init__(self, calls, start, after, is_read=None, touched=None, rank=None, steps_max=STEPS_MAX):
        """`after(state, call)`: the state after the call, or NO if its answer does not fit. For an UNKNOWN answer: the
        state if the call happens. States must be hashable. `is_read(call)`: true if the call, with its answer, changes
        no state. `touched(call)`: the keys that it is about; default: all calls are about one. `rank(call)`: of the
        order that is probably right; it only makes the search faster."""
        self.known = sorted((call for call in calls if call.answer != UNKNOWN), key=lambda call: call.ended)
        self.unknown = sorted((call for call in calls if call.answer == UNKNOWN), key=lambda call: call.began)
        self.began_unknown = [call.began for call in self.unknown]
        self.is_read = [is_read is not None and is_read(call) for call in self.known]
        self.keys, self.keys_unknown = ([_bits(touched, call) for call in some] for some in (self.known, self.unknown))
        self.rank = [rank(call) if rank else call.ended for call in self.known]
        self.begun = self._begun()
        self.start, self.after, self.steps_max = start, after, steps_max
        self.deepest = (-1, start, None)

    def _begun(self):
        """For each call: the calls that had begun when it ended, and end no earlier."""
        by_begin = sorted(range(len(self.known)), key=lambda i: self.known[i].began)
        begun, active, next_one = [], [], 0
        for place, call in enumerate(self.known):
            while next_one < len(by_begin) and self.known[by_begin[next_one]].began <= call.ended:
                active.append(by_begin[next_one])
                next_one += 1
            active = [i for i in active if i >= place]
            begun.append(sorted(active))
        return begun

    def succeeds(self):
        tried = set()
        stack = [(0, 0, 0, self.start)]  # calls that ended; bits of later ones that are done, and of the unknown
        while stack:
            node = stack.pop()
            if node in tried:
                continue
            tried.add(node)
            if len(tried) > self.steps_max:
                raise Undecided()
            place, early, lost, state = node
            if place == len(self.known):
                return True
            read = self._with_reads(place, early, state)
            if read != early:
                stack.append((*_moved(place, read), lost, state))
                continue
            nexts = self._nexts(place, early, lost, state)
            if place > self.deepest[0]:
                self.deepest = (place, state, self.known[place])
            stack.extend(nexts)
        return False

    def _with_reads(self, place, early, state):
        """The bits with all reads that fit now."""
        for i in self.begun[place]:
            if self.is_read[i] and not early >> (i - place) & 1 and self.after(state, self.known[i]) is not NO:
                early |= 1 << (i - place)
        return early

    def _nexts(self, place, early, lost, state):
        """The nodes after this one, that to try first the last: the call that ends; others that had begun and, by keys
        in common, must perhaps come before it; those of unknown outcome, of which most had no effect."""
        waiting = [i for i in self.begun[place] if not early >> (i - place) & 1]
        maybe = [i for i in range(bisect.bisect_right(self.began_unknown, self.known[place].ended)) if not lost >> i & 1]
        keys = self._connected(self.keys[place], [self.keys[i] for i in waiting] + [self.keys_unknown[i] for i in maybe])
        nexts = []
        for i in maybe:
            if self.keys_unknown[i] & keys:
                then = self.after(state, self.unknown[i])
                if then is not NO and then != state:  # else it may as well never have happened
                    nexts.append((place, early, lost | 1 << i, then))
        nexts.extend(self._nexts_known(place, early, lost, state, [i for i in waiting if self.keys[i] & keys and not self.is_read[i]]))
        return nexts

    def _nexts_known(self, place, early, lost, state, changes):
        """First those after which the call that ends fits, then those of its keys by their rank."""
        near, reads, found = self.keys[place], self.is_read[place], []
        for i in changes:
            then = self.after(state, self.known[i])
            if then is NO:
                continue
            fits = reads and self.after(then, self.known[place]) is not NO
            order = (0 if fits else 1 if self.keys[i] & near else 2, self.rank[i])
            found.append((order, (*_moved(place, early | 1 << (i - place)), lost, then)))
        found.sort(key=lambda one: one[0], reverse=True)
        return [node for _, node in found]

    @staticmethod
    def _connected(keys, others):
        """The keys that calls connect with these: other calls may as well come later."""
        while True:
            more = keys
            for one in others:
                if one & more:
                    more |= one
            if more == keys:
                return keys
            keys = more

    def told(self):
        """What was found, after a search without success."""
        done, state, stuck = self.deepest
        calls = sorted((call for call in self.known + self.unknown if stuck is None or call.began <= stuck.ended), key=lambda call: call.began)
        return "\n".join([f"no order explains {len(self.known) + len(self.unknown)} calls; the best one explained {done} and led to",
                          f"  {state}", "after which this could not be next:", f"  {stuck!r}",
                          "the last calls until then:", *(f"  {call!r}" for call in calls[-TOLD_MAX:])])


def _bits(touched, call):
    return 1 if touched is None else sum(1 << key for key in set(touched(call)))


def _moved(place, early):
    """The place behind the calls that are done without a gap, and the bits behind it."""
    ones = (~early & (early + 1)).bit_length() - 1
    return place + ones, early >> ones


def linearizable(calls, start, after, is_read=None, touched=None, rank=None, steps_max=STEPS_MAX):
    """True if some order explains the calls; see Search."""
    return Search(calls, start, after, is_read, touched, rank, steps_max).succeeds()


def violation(calls, start, after, is_read=None, touched=None, rank=None, steps_max=STEPS_MAX):
    """None if some order explains the calls, else the report."""
    search = Search(calls, start, after, is_read, touched, rank, steps_max)
    return None if search.succeeds() else search.told()


def parts(calls, touched):
    """The calls in groups that have no key in common. `touched(call)`: its keys."""
    root = {}

    def find(key):
        while root.setdefault(key, key) != key:
            root[key] = key = root[root[key]]
        return key

    for call in calls:
        first, *others = touched(call)
        for other in others:
            root[find(other)] = find(first)
    groups = collections.defaultdict(list)
    for call in calls:
        groups[find(next(iter(touched(call))))].append(call)
    return list(groups.values())


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
