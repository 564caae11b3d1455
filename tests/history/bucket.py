"""The model of some keys of one bucket, for tests/lib/history.py: with or without versions, or a directory bucket.

A state is a tuple with an entry for each key: its versions, newest first, each (content, maker). A content is the names
of the writes whose bytes it has (bytes_of.py); a maker is the number of the call that made the version, "-" the content
of a delete marker. A key without versions has one version or none.

Calls (`where`: the number of the key):

    put, complete    value (content, maker, condition); a condition is None, "*" (if absent), or an entity tag
    append           value (content, maker, offset or None); answer ("size", N) or 400
    delete           value (maker, entity tag or None); maker: of the delete marker
    drop             value: a version id
    rename           value (number of the other key, whether it must be absent)
    get, head        value: a version id or None; answer a Seen, or None
    there            of a MATCH: answer a size, or None
    source           of a copy, with its content as answer; the copy itself is a put
    list             value (number of the first key, most keys); answer (Listed..., whether there is more)
    list_versions    answer (Listed..., whether there is more)
"""
import collections

import history
from bytes_of import NO_WRITE, md5_of, size_of
from history import NO, UNKNOWN, Call

Seen = collections.namedtuple("Seen", "content etag version size")  # content: None for a HEAD
Listed = collections.namedtuple("Listed", "key etag version size newest")  # etag: "-" for a delete marker
MARKER = "-"
NO_ETAG = ""
READS = {"get", "head", "there", "source", "list", "list_versions"}
STEPS_MAX = 60_000  # of a search: seconds
UNSEEN = "?:0"  # the content of a copy without an answer, if no call saw it
REFUSALS = {400, 404, 412, 507}


def is_read(call):
    return call.kind in READS or call.answer in REFUSALS


class Bucket:
    """`etags`, `versions`: maker -> what its version is called, as far as it is known. Entity tags that no other maker
    may have are `own`."""

    def __init__(self, keys, versioned):
        self.keys, self.versioned = keys, versioned
        self.etags, self.versions, self.own, self.known_versions = {}, {}, {}, {}
        self.older = set()  # (maker, maker of a newer version of the key), as listings showed them
        self.start = ((),) * keys

    def note(self, maker, etag, version):
        """What an answer said of the version. Returns what is wrong with it, or None."""
        for name, of_maker, of_name in ((etag, self.etags, self.own), (version, self.versions, self.known_versions)):
            if not name:
                continue
            if of_maker.setdefault(maker, name) != name:
                return f"{maker} is called {name} and {of_maker[maker]}"
            if (of_name is self.known_versions or name.endswith("-r")) and of_name.setdefault(name, maker) != maker:
                return f"{maker} and {of_name[name]} are called {name}"
        return None

    def learn(self, calls):
        """Takes from reads the names of writes without an answer. Returns what is wrong, or None."""
        makers = {call.value[0]: call.value[1] for call in calls if call.kind in ("put", "append", "complete") and call.answer == UNKNOWN}
        for call in calls:
            if call.kind == "list_versions":
                self._learn_order(call.answer[0])
            if call.kind == "get" and isinstance(call.answer, Seen) and call.answer.etag.endswith("-r"):
                maker = makers.get(call.answer.content.rsplit("+", 1)[-1])
                wrong = maker is not None and call.answer.etag not in self.own and self.note(maker, call.answer.etag, "")
                if wrong:
                    return f"{call!r}: {wrong}"
        return None

    def _learn_order(self, listed):
        """Which of two versions is newer, so that the search need not try the other order."""
        makers = [(one.key, self.known_versions.get(one.version)) for one in listed]
        for number, (key, newer) in enumerate(makers):
            self.older.update((maker, newer) for other, maker in makers[number + 1:] if other == key and newer and maker)

    # What was seen of a version.

    def is_etag(self, entry, etag):
        """A tag that no answer told and that nothing computes is a random one, with this ending."""
        known = self.etags.get(entry[1])
        return known == etag if known is not None else etag.endswith("-r") and etag not in self.own

    def is_version(self, entry, version):
        if not version:
            return True
        known = self.versions.get(entry[1])
        return known == version if known is not None else version not in self.known_versions

    def is_seen(self, entry, seen):
        content = entry[0]
        return (content != MARKER and seen.content in (None, content) and seen.size == size_of(content)
                and self.is_etag(entry, seen.etag) and self.is_version(entry, seen.version))

    def is_listed(self, entry, listed):
        if entry[0] == MARKER or listed.etag == MARKER:
            return entry[0] == listed.etag and self.is_version(entry, listed.version)
        return self.is_seen(entry, Seen(None, listed.etag, listed.version, listed.size))

    # Calls.

    def is_read(self, call):
        return is_read(call)

    def after(self, state, call):
        return getattr(self, call.kind)(state, call, call.answer == UNKNOWN)

    def _newest(self, state, key):
        entries = state[key]
        return entries[0] if entries and entries[0][0] != MARKER else None

    def _with(self, state, key, entries):
        return state[:key] + (entries,) + state[key + 1:]

    def _made(self, state, key, entry):
        if self.older and any((entry[1], other) in self.older for _, other in state[key]):
            return NO
        return self._with(state, key, (entry,) + state[key] if self.versioned else (entry,))

    def _refusal(self, old, condition):
        if condition is None:
            return None
        if condition == "*":
            return None if old is None else 412
        return 404 if old is None else None if self.is_etag(old, condition) else 412

    def put(self, state, call, unknown):
        content, maker, condition = call.value
        refusal = self._refusal(self._newest(state, call.where), condition)
        if unknown and refusal is not None:
            return state
        if not unknown and call.answer != (refusal or 200):
            return NO
        return state if refusal else self._made(state, call.where, (content, maker))

    complete = put

    def append(self, state, call, unknown):
        piece, maker, offset = call.value
        old = self._newest(state, call.where)
        size = size_of(old[0]) if old else 0
        if offset is not None and offset != size:
            return state if unknown or call.answer == 400 else NO
        content = f"{old[0]}+{piece}" if old else piece
        if not unknown and call.answer != ("size", size_of(content)):
            return NO
        return self._made(state, call.where, (content, maker))

    def delete(self, state, call, unknown):
        """A condition on a key without versions is not an error, and makes no marker (docs/s3.md)."""
        maker, condition = call.value
        entries = state[call.where]
        if condition is not None:
            refused = bool(entries) and (entries[0][0] == MARKER or not self.is_etag(entries[0], condition))
            if refused or not entries:
                return state if unknown or call.answer == (412 if refused else 204) else NO
        if not unknown and call.answer != 204:
            return NO
        return self._made(state, call.where, (MARKER, maker)) if self.versioned else self._with(state, call.where, ())

    def drop(self, state, call, unknown):
        if not unknown and call.answer != 204:
            return NO
        return self._with(state, call.where, tuple(entry for entry in state[call.where] if self.versions.get(entry[1]) != call.value))

    def rename(self, state, call, unknown):
        target, keep = call.value
        old, other = self._newest(state, call.where), self._newest(state, target)
        refusal = 404 if old is None else 412 if keep and other is not None else None
        if unknown and refusal is not None:
            return state
        if not unknown and call.answer != (refusal or 200):
            return NO
        if refusal:
            return state
        return self._with(self._with(state, call.where, ()), target, (old,))

    def get(self, state, call, _):
        if call.value is None:
            entry = self._newest(state, call.where)
        else:
            entry = next((one for one in state[call.where] if self.versions.get(one[1]) == call.value), None)
        if call.answer is None or entry is None:
            return state if call.answer is None and entry is None else NO
        return state if self.is_seen(entry, call.answer) else NO

    head = get

    def there(self, state, call, _):
        entry = self._newest(state, call.where)
        return state if (entry and size_of(entry[0])) == call.answer else NO

    def source(self, state, call, _):
        entry = self._newest(state, call.where)
        return state if (entry and entry[0]) == call.answer else NO

    def list(self, state, call, _):
        first, most = call.value
        listed, more = call.answer
        there = [key for key in range(first, self.keys) if self._newest(state, key)]
        if more != (len(there) > most) or [one.key for one in listed] != there[:most]:
            return NO
        return state if all(self.is_listed(state[one.key][0], one) for one in listed) else NO

    def versions_of(self, state):
        return [(key, entry, number == 0) for key, entries in enumerate(state) for number, entry in enumerate(entries)]

    def list_versions(self, state, call, _):
        listed, more = call.answer
        there = self.versions_of(state)
        if len(listed) != len(there) and not (more and len(listed) < len(there)):
            return NO
        for (key, entry, newest), one in zip(there, listed):
            if key != one.key or newest != one.newest or not self.is_listed(entry, one):
                return NO
        return state


def touched(call, keys):
    """The keys that a call is about (history.parts)."""
    if call.kind == "list":
        return range(call.value[0], keys)
    if call.kind == "list_versions":
        return range(keys)
    return (call.where, call.value[0]) if call.kind == "rename" else (call.where,)


def by_key(call, keys):
    """A listing as calls of one key each, where a page need not be of one moment: gets of their properties."""
    listed, more = call.answer
    first = call.value[0]
    last = keys if not more else listed[-1].key + 1 if listed else first
    found = {one.key: one for one in listed}
    for key in range(first, last):
        one = Call("head", None, key, call.by)
        seen = found.get(key)
        one.answer = seen and Seen(None, seen.etag, seen.version, seen.size)
        one.began, one.ended = call.began, call.ended
        yield one


def _seen_at(calls, key):
    """Contents and entity tags that reads saw at a key."""
    found = set()
    for call in calls:
        if call.kind in ("get", "head", "source") and call.where == key and call.answer is not None:
            found.update(call.answer[:2] if isinstance(call.answer, Seen) else (call.answer,))
        elif call.kind in ("list", "list_versions"):
            found.update(one.etag for one in call.answer[0] if one.key == key)
    return found


def _copies(keys, calls):
    """Copies without an answer ("copy", value (source, makers)): each as puts of unknown outcome, of what was seen at
    the target and had once been written at the source, and of what no call saw."""
    for call in calls:
        if call.kind != "copy":
            yield call
            continue
        source, maker = call.value
        seen = _seen_at(calls, call.where)
        written = [one.value[0] for one in calls if one.kind in ("put", "complete") and one.where == source]
        contents = {content for content in written if content in seen or md5_of(content) in seen}
        for number, content in enumerate([UNSEEN, *sorted(contents)]):
            one = Call("put", (content, (maker, number), None), call.where, call.by)
            one.began, one.ended = call.began, call.ended
            if content != UNSEEN:
                keys.etags[one.value[1]] = md5_of(content)
            yield one


def ranks(keys, calls):
    """For each change about when it was seen last: of changes of a key at one time it probably comes before those that
    were seen later (history.Search)."""
    seen, nothing_seen = collections.defaultdict(float), collections.defaultdict(list)
    by_name = {name: maker for maker, name in keys.etags.items()}
    for call in calls:
        if call.kind in ("get", "head") and isinstance(call.answer, Seen):
            maker = by_name.get(call.answer.etag)
            seen[maker] = max(seen[maker], call.began)
        elif call.kind in ("get", "head") and call.answer is None and call.value is None:
            nothing_seen[call.where].append(call)
        elif call.kind == "list":
            for one in call.answer[0]:
                seen[by_name.get(one.etag)] = max(seen[by_name.get(one.etag)], call.began)
    begins = collections.defaultdict(list)
    for call in calls:
        if call.kind in ("put", "complete", "append"):
            begins[call.where].append(call.began)

    def rank(call):
        if call.kind in ("put", "complete", "append"):
            return max(call.began, seen.get(call.value[1], 0))
        if call.kind == "delete":
            then = min((began for began in begins[call.where] if began > call.ended), default=float("inf"))
            return max((one.began for one in nothing_seen[call.where] if one.ended > call.began and one.began < then), default=call.began)
        return call.began
    ranked = {id(call): rank(call) for call in calls if not keys.is_read(call)}
    return lambda call: ranked.get(id(call), call.ended)


def _without_unseen(keys, calls):
    """The calls without those of unknown outcome of which no read shows that they happened: mostly they did not."""
    seen = set()
    for call in calls:
        if call.kind == "get" and isinstance(call.answer, Seen):
            seen.update((call.answer.etag, *call.answer.content.split("+")))
        elif call.kind in ("list", "list_versions"):
            seen.update(one.etag for one in call.answer[0])
        elif call.kind == "head" and call.answer is not None:
            seen.add(call.answer.etag)
    writes = ("put", "complete", "append")
    return [call for call in calls
            if call.answer != UNKNOWN or (call.kind in writes and (call.value[0] in seen or keys.etags.get(call.value[1], "") in seen))]


def _violation(keys, calls):
    rank = ranks(keys, calls)
    for group in history.parts(calls, lambda call: touched(call, keys.keys)):
        wrong = history.violation(group, keys.start, keys.after, keys.is_read, lambda call: touched(call, keys.keys), rank, STEPS_MAX)
        if wrong:
            return wrong
    return None


def _judge_parts(keys, calls):
    fewer = _without_unseen(keys, calls)
    if len(fewer) < len(calls):
        try:
            if _violation(keys, fewer) is None:
                return None
        except history.Undecided:
            pass
    return _violation(keys, calls)


def _split_pages(keys, calls):
    return [one for call in calls for one in (by_key(call, keys.keys) if call.kind == "list" else (call,))]


def judge(name, keys, calls, pages_are_moments=True):
    """None, or what is wrong with the calls on the keys of a Bucket. Runs in another process. Where the search for an
    order of all keys takes too long, each page is judged as reads of single keys (BY_KEYS if they are right)."""
    for call in calls:
        if call.kind == "get" and isinstance(call.answer, Seen) and call.answer.content == NO_WRITE:
            return f"{name}: {call!r}"
    wrong = keys.learn(calls)
    if wrong:
        return f"{name}: {wrong}"
    calls = list(_copies(keys, calls))
    for split in (False, True):
        if split or not pages_are_moments:
            calls = _split_pages(keys, calls)
        try:
            wrong = _judge_parts(keys, calls)
            return f"{name}: {wrong}" if wrong else history.BY_KEYS if split else None
        except history.Undecided:
            pass
    return history.UNDECIDED


def weaker(name, calls, found, killed, settles_s):
    """What a `memory` bucket promises when its server is killed: each key has a state that was not replaced before the
    last moment. `found`: key -> content, or None. Returns None, or what is wrong."""
    for key, content in found.items():
        states = [(None, -1.0)]
        changes = [call for call in calls if call.where == key and not is_read(call) and call.kind in ("put", "complete", "delete")]
        states += [(call.value[0] if call.kind != "delete" else None, call.ended) for call in changes]
        certain = [call for call in changes if call.answer in (200, 204) and call.ended < killed - settles_s]
        possible = [state for state, ended in states if not any(call.began > ended for call in certain)]
        if content not in possible:
            return "\n".join([f"{name}: after the kill at {killed:.6f} key {key} has {content}; possible: {possible}",
                              *(f"  {call!r}" for call in changes)])
    return None
