"""The Python client: _native's calls, with iterators, context managers and the environment's keys."""
import bisect
import collections.abc
import datetime
import itertools
import os
import time
from typing import NamedTuple, Optional

from . import _native, errors
from ._match import Matches
from ._namespace import Namespaces

_BATCH_MAX = 4096
_BATCH_BYTES_MAX = 64 << 20  # packed into one batch
_GET, _PUT, _HEAD, _REMOVE, _PUT_ABSENT = range(5)
_WATCH_SLICE = 0.25  # seconds


class ListedObject(NamedTuple):
    """One key of a listing."""

    key: str
    size: int
    modified_us: int
    etag: str

    @property
    def last_modified(self):
        return datetime.datetime.fromtimestamp(self.modified_us / 1e6, datetime.timezone.utc)


class Done(NamedTuple):
    """The result of one item of a batch. `bytes` were moved, the whole object has `size` (unknown for put and
    remove). `exists`: put_many with `if_absent` has found an object of that key, and left it as it is."""

    bytes: int
    size: int
    modified_us: int
    etag: str
    version_id: str
    error: Optional[errors.VerbenaError]
    exists: bool = False


class Outcomes(collections.abc.Sequence):
    """A Done for each item of a batch, in their order; created on access."""

    __slots__ = ("_items", "_parts", "_starts", "_if_absent")

    def __init__(self, items, parts, if_absent=False):
        self._items, self._parts, self._if_absent = items, parts, if_absent
        self._starts = (0,) if len(parts) == 1 else list(itertools.accumulate(map(len, parts), initial=0))

    def __len__(self):
        return len(self._items)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError("no such item")
        part = bisect.bisect_right(self._starts, at) - 1
        code, moved, size, modified_us, etag, version_id = self._parts[part][at - self._starts[part]]
        exists = self._if_absent and code == errors.PRECONDITION_FAILED
        error = errors.of_item(code, *self._items[at][:2]) if code and not exists else None
        return Done(moved, size, modified_us, etag, version_id, error, exists)

    @property
    def lease(self):
        """The lease of what was found, if one was asked for; else None."""
        return next((part.lease for part in reversed(self._parts) if part.lease), None)

    @property
    def failed(self):
        """The number of items with an error."""
        return self._parts[0].failed if len(self._parts) == 1 else sum(part.failed for part in self._parts)

    @property
    def present(self):
        """The number of objects that were there already (put_many with `if_absent`)."""
        return sum(part.present for part in self._parts)

    @property
    def shorter(self):
        """The number of objects that did not fill their place (get_many)."""
        return sum(part.shorter for part in self._parts)

    @property
    def device_verified(self):
        """What checked the bytes in a GPU's memory (get_many with `verify_device`): "kernel", "read_back"; "no_checksum": not
        all of them, the server told none of some."""
        return max((part.device_verified for part in self._parts), key=("", "kernel", "read_back", "no_checksum").index, default="")

    def check(self):
        """Raises the first item's error, if any has one; returns itself."""
        if self.failed:
            raise next(one.error for one in self if one.error is not None)
        return self


class Change(NamedTuple):
    """The change of a key: `what` is "created", "appended", "removed", "marked" (a delete marker was added),
    "changed" (tags, list, lock), "renamed_away", "renamed_here" or "evicted". "gap": changes were missed before this
    one, and state kept of keys under the prefix may be stale."""

    what: str
    key: str = ""
    size: int = 0
    time_us: int = 0
    etag: str = ""
    version_id: str = ""
    number: int = 0

    @property
    def is_gap(self) -> bool:
        return self.what == "gap"

    @property
    def time(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.time_us / 1e6, datetime.timezone.utc)


class Watch:
    """Changes of the keys under a prefix, as they happen: an iterator without end, until end() or the end of a `with`.

    One thread at a time may wait (a second one gets a RuntimeError); any thread may end it. After a ConnectionError it goes on: the next
    call returns a gap, then further changes.
    """

    def __init__(self, native: _native.Watch) -> None:
        self._native = native

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    def __iter__(self) -> "Watch":
        return self

    def __next__(self) -> Change:
        try:
            change = self.next()
        except (ValueError, errors.Cancelled):
            if not self._native.ended:
                raise
            change = None
        if change is None:
            raise StopIteration
        return change

    def next(self, timeout: Optional[float] = None) -> Optional[Change]:
        """The next change; None when there is none within `timeout` seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _WATCH_SLICE if until is None else min(_WATCH_SLICE, max(until - time.monotonic(), 0))
            told = self._native.take(int(left * 1000))  # in slices, so that signals are handled
            if told is not None:
                return Change(*told)
            if until is not None and time.monotonic() >= until:
                return None

    def end(self) -> None:
        self._native.end()


class Client(Matches, Namespaces, _native.Client):
    """A client of one server. Cheap calls, any thread; `with` or close() ends it. Make one in each process.

    Options by keyword, as in docs/python.md: endpoint, native_endpoint, access_key, secret_key, session_token, region, via, provider,
    ca_file, insecure, encryption, cleartext_rdma, operation_timeout_ms, attempts_max, ...
    """

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def _many(self, kind, items, memory, progress=None, lease=0, ttl=0, verify_device=False):
        items = tuple(items)
        if 0 < len(items) <= _BATCH_MAX:
            return Outcomes(items, (self.batch(kind, items, memory, progress, lease, ttl, 0, 0, verify_device),), kind == _PUT_ABSENT)
        return Outcomes(items, [self.batch(kind, items[first:first + _BATCH_MAX], memory, progress, lease, ttl, 0, 0, verify_device)
                                for first in range(0, len(items), _BATCH_MAX)], kind == _PUT_ABSENT)

    def _taking(self, kind, items, memory, progress, lease, lease_ms, join, verify_device=False):
        """As _many, with a lease of what is found; messages after the first join it."""
        items, parts, joins = tuple(items), [], join or 0
        for first in range(0, len(items), _BATCH_MAX):
            parts.append(self.batch(kind, items[first:first + _BATCH_MAX], memory, progress, lease, 0, lease_ms, joins, verify_device))
            joins = parts[-1].lease or joins
        return Outcomes(items, parts)

    def get_many(self, items, into, progress=None, *, lease=None, lease_ms=0, join=None, verify_device=False):
        """Many objects in few messages: items are (bucket, key, offset, size), and each object goes into that place of `into`; or (bucket,
        key, offset, size, first, length): that range of the object.

        Returns Outcomes: a Done for each item, in their order. A missing object, or one longer than its place, has an `error`; the others
        are independent of it. Places must not overlap. With a Progress other threads see how many leading items have arrived; at the end
        of the call every wait for it returns. With a `lease`, the versions that it holds are read. With `lease_ms` the call takes one on
        what it finds (`lease` of the result; of None, nothing was found or the server gives none), or adds to that of `join`. With `verify_device` items in a GPU's memory are checked there at the end of the call.
        """
        try:
            if lease_ms:
                return self._taking(_GET, items, into, progress, lease or 0, lease_ms, join, verify_device)
            return self._many(_GET, items, into, progress, lease or 0, 0, verify_device)
        finally:
            if progress is not None:
                progress.end()

    def put_many(self, items, data=None, *, if_absent=False, ttl=None):
        """Stores many objects in few messages, each as atomically and durably as put does. Items are (bucket, key,
        bytes), or with `data` (bucket, key, offset, size): those bytes of it. Returns Outcomes. A key may be named
        once in 4096 items. With `if_absent` an object that is there stays, and its item's outcome says `exists`; by the
        native door its bytes are not transferred. With `ttl` each object ends that many seconds after it was stored."""
        kind = _PUT_ABSENT if if_absent else _PUT
        if data is not None:
            return self._many(kind, items, data, ttl=ttl or 0)
        items, parts = tuple(items), []
        for some, size in _batches_of_bytes(items):
            with self.allocate(max(size, 1)) as memory:
                parts.append(self.batch(kind, _packed(some, memory), memory, None, 0, ttl or 0))
        return Outcomes(items, parts, if_absent)

    def head_many(self, items, *, lease_ms=0, join=None):
        """Properties of many objects, (bucket, key) each. Returns Outcomes. Leases as in get_many."""
        if lease_ms:
            return self._taking(_HEAD, items, None, None, 0, lease_ms, join)
        return self._many(_HEAD, items, None)

    def remove_many(self, items):
        """Removes many objects, (bucket, key) each; a missing one is not an error. Returns Outcomes."""
        return self._many(_REMOVE, items, None)

    def list(self, bucket, prefix="", *, delimiter=None, after=None, page_size=1000):
        """Yields ListedObject for each key, in order; with a delimiter also the common prefixes, as str."""
        continuation = None
        while True:
            objects, prefixes, continuation = self.list_page(bucket, prefix, delimiter, after, continuation, page_size)
            for entry in objects:
                yield ListedObject(*entry)
            yield from prefixes
            if continuation is None:
                return

    def watch(self, bucket: str, prefix: str = "") -> Watch:
        """Changes of the keys that begin with `prefix`, from now on: by the native door alone."""
        return Watch(self.watch_begin(bucket, prefix))

    def buckets(self):
        """The names of all buckets."""
        return [entry[0] for entry in self.buckets_page()[0]]

    def exists(self, bucket, key):
        try:
            self.head(bucket, key)
        except errors.NoSuchKey:
            return False
        return True


def _batches_of_bytes(items):
    """Groups items (bucket, key, bytes) into batches, with the bytes of each."""
    some, size = [], 0
    for item in items:
        if not isinstance(item, tuple) or len(item) != 3:
            raise TypeError("an item is a tuple (bucket, key, bytes)")
        more = memoryview(item[2]).nbytes
        if some and (len(some) == _BATCH_MAX or size + more > _BATCH_BYTES_MAX):
            yield some, size
            some, size = [], 0
        some.append(item)
        size += more
    if some:
        yield some, size


def _packed(items, memory):
    """Copies the items' bytes one after the other into `memory`: (bucket, key, offset, size) of each."""
    placed, at = [], 0
    with memoryview(memory) as view:
        for bucket, key, body in items:
            with memoryview(body) as source:
                size = source.nbytes
                if size:
                    view[at:at + size] = source.cast("B") if source.format != "B" or source.ndim != 1 else source
            placed.append((bucket, key, at, size))
            at += size
    return placed


def connect(endpoint=None, **options):
    """A Client. Endpoint and keys default to AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
    VERBENA_NATIVE."""
    return Client(**with_environment(endpoint, options))


def with_environment(endpoint, options):
    options = dict(options)
    options["endpoint"] = endpoint or os.environ.get("AWS_ENDPOINT_URL") or "http://127.0.0.1:9000"
    if options.get("native_endpoint") is None:
        options["native_endpoint"] = os.environ.get("VERBENA_NATIVE") or None
    if options.get("access_key") is None:
        options["access_key"] = os.environ.get("AWS_ACCESS_KEY_ID") or None
        options["secret_key"] = os.environ.get("AWS_SECRET_ACCESS_KEY") or None
        options["session_token"] = os.environ.get("AWS_SESSION_TOKEN") or None
    return options
