"""The checker of linearizability for all tests with concurrent clients of real servers.

A history is the list of several clients' calls to one thing (a key, some keys of a bucket, a policy), each with its
begin, end and answer. It is linearizable when some order of the calls explains all answers, and in it no call comes
before one that had ended when it began.

The search is Porcupine's: Wing and Gong's, depth first, with a memory of the visited pairs of (calls done, state)
(Lowe). What is done is kept as a place in the history and the calls done beyond it, so a step costs as much as there
are calls at one time, however long the history is. A call that changes nothing is done as soon as its answer fits: that
takes nothing from any other order. Calls on things that no call connects are separate histories (parts()).

A call of unknown outcome (the server was killed, or it timed out) may have happened at any moment after it began,
even long after the client gave up, or never.
"""
import bisect
import collections
import math
import time

UNKNOWN = "unknown"
UNDECIDED = "undecided"
NO = object()  # result of after() when the answer does not fit
STEPS_MAX = 2_000_000
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
    """One search. `deepest`: of the orders tried the one that explained most: (number of calls done, state, calls that
    could not be next), for a report."""

    def __init__(self, calls, start, after, is_read=None, steps_max=STEPS_MAX):
        """`after(state, call)`: the state after the call, or NO if its answer does not fit. For an UNKNOWN answer: the
        state if the call happens. States must be hashable. `is_read(call)`: true if the call, with its answer, changes
        no state."""
        calls = sorted(calls, key=lambda call: call.began)
        self.known = [call for call in calls if call.answer != UNKNOWN]
        self.unknown = [call for call in calls if call.answer == UNKNOWN]
        self.began_unknown = [call.began for call in self.unknown]
        self.reads = [is_read is not None and is_read(call) for call in self.known]
        self.start, self.after, self.steps_max = start, after, steps_max
        self.deepest = (-1, start, [])

    def succeeds(self):
        tried = set()
        stack = [(0, 0, 0, self.start)]  # the first calls are done; bits of those done after them, and of the unknown
        while stack:
            node = stack.pop()
            if node in tried:
                continue
            tried.add(node)
            if len(tried) > self.steps_max:
                raise Undecided()
            first, mask, lost, state = node
            if first == len(self.known):
                return True
            waiting, first_end = self._candidates(first, mask)
            read = self._reads_done(waiting, first_end, state, mask, first)
            if read is not None:
                stack.append((*read, lost, state))
                continue
            nexts = self._nexts(waiting, first_end, first, mask, lost, state)
            if not nexts:
                self._note(first, mask, state, waiting)
            stack.extend(nexts)
        return False

    def _candidates(self, first, mask):
        """Calls that began before the first end of the others, with that end."""
        known, first_end, waiting, i = self.known, math.inf, [], first
        count = len(known)
        while i < count:
            call = known[i]
            if call.began > first_end:
                break
            if not mask >> (i - first) & 1:
                waiting.append(i)
                if call.ended < first_end:
                    first_end = call.ended
            i += 1
        return waiting, first_end

    def _reads_done(self, waiting, first_end, state, mask, first):
        """Place and bits when all fitting reads are done; None if there is none."""
        done = 0
        for i in waiting:
            if self.reads[i] and self.known[i].began <= first_end and self.after(state, self.known[i]) is not NO:
                done |= 1 << (i - first)
        return _moved(first, mask | done) if done else None

    def _nexts(self, waiting, first_end, first, mask, lost, state):
        """The nodes after this one; the one to try first is the last: of the call that ended first. Calls of unknown
        outcome come last: most never happened or had no visible effect."""
        after, nexts = self.after, []
        for i in range(bisect.bisect_right(self.began_unknown, first_end)):
            if not lost >> i & 1:
                then = after(state, self.unknown[i])
                if then is not NO and then != state:  # else it may as well never have happened
                    nexts.append((first, mask, lost | 1 << i, then))
        for i in sorted(waiting, key=lambda i: -self.known[i].ended):
            if not self.reads[i] and self.known[i].began <= first_end:
                then = after(state, self.known[i])
                if then is not NO:
                    nexts.append((*_moved(first, mask | 1 << (i - first)), lost, then))
        return nexts

    def _note(self, first, mask, state, waiting):
        done = first + bin(mask).count("1")
        if done > self.deepest[0]:
            self.deepest = (done, state, [self.known[i] for i in waiting])

    def told(self):
        """What was found, after a search without success."""
        done, state, stuck = self.deepest
        calls = sorted(self.known + self.unknown, key=lambda call: call.began)
        last = max((call.ended for call in stuck if call.ended < math.inf), default=math.inf)
        told = [call for call in calls if call.began <= last][-TOLD_MAX:]
        return "\n".join([f"no order explains {len(calls)} calls; the best one explained {done} and led to", f"  {state}",
                          "after which none of these could be next:", *(f"  {call!r}" for call in stuck), "the last calls until then:", *(f"  {call!r}" for call in told)])


def _moved(first, mask):
    """The place behind the calls done without a gap, and the bits behind it."""
    ones = (~mask & (mask + 1)).bit_length() - 1
    return first + ones, mask >> ones


def linearizable(calls, start, after, steps_max=STEPS_MAX, is_read=None):
    """Whether some order explains the calls; see Search."""
    return Search(calls, start, after, is_read, steps_max).succeeds()


def violation(calls, start, after, is_read=None, steps_max=STEPS_MAX):
    """None if some order explains the calls, else the report."""
    search = Search(calls, start, after, is_read, steps_max)
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
