"""The cache that the connectors share: blocks by hash in a namespace of a bucket.

    store = KvStore("kv", {"model": "m", "dtype": "bfloat16", "block_bytes": 65536}, endpoint="http://127.0.0.1:9000")
    found = store.leading(hashes)                        # how many leading blocks are there
    load = store.load(hashes[:found], memory, 65536)     # into registered memory, one after the other
    load.result()                                        # of each block whether it arrived before the deadline
    store.save(hashes, memory, 65536).result()           # blocks that are there already are not sent again

A server that is lost, slow or wrong costs a call its deadline at most and counts as a miss; after a few failures in a
row no call waits for it until a probe has succeeded. One that refuses saves, since its disk or a quota is full, is not
lost: saves pause, loads go on.
"""
import collections
import concurrent.futures
import dataclasses
import hashlib
import logging
import threading
import time
from typing import Optional

from .. import errors
from .._client import connect
from .._match import DISK, MEMORY
from .._namespace import Mismatch, agree, canonical, namespace_id
from ._blocks import Blocks, bytes_of
from ._breaker import Breaker, Pause
from ._doubts import Doubts, is_doubt
from ._statistics import Statistics
from ._transfer import Load, Transfer, arrived, is_miss, is_refusal

log = logging.getLogger("verbena.kv")
_MATCH_MAX = 65536  # hashes of one question
_HELD_MAX = 64  # questions whose leases are remembered
_FLUSH_S = 10.0
_REMOVED_AGAIN_S = 1.0  # of blocks whose saves are in doubt
_LATE = 0.9     # the part of a deadline from which on a call that missed it is the server's: the rest of it may have been a wait for a thread


@dataclasses.dataclass
class Options:
    """How a cache is reached. Everything but the bucket has a default; endpoint and keys come from the environment as connect's do."""

    bucket: str
    endpoint: Optional[str] = None
    native_endpoint: Optional[str] = None
    access_key: Optional[str] = None
    secret_key: Optional[str] = None
    via: str = "auto"
    provider: Optional[str] = None
    deadline_ms: int = 1000      # of a load
    lookup_ms: int = 200         # of a question
    save_ms: int = 10_000        # of a save, which no request waits for
    doubt_ms: int = 30_000       # how long the server may go on with a save that got no answer, while it answers others
    ttl: int = 0                 # seconds after which a block that was saved ends; 0: it has no end
    lease_ms: int = 0            # how long a block that was found can be loaded although it is evicted or removed
    failures_max: int = 3
    retry_ms: int = 1000         # the breaker's first probe, and the first pause of saves that were refused; doubled up to 10 s
    threads: int = 4             # of loads and questions, and as many of saves
    saves_max: int = 16          # in flight; further ones are dropped
    label: str = ""              # part of the description: caches of other labels are others
    make_bucket: bool = True

    @classmethod
    def of(cls, settings):
        """Options from an engine's settings, which may be texts. An unknown name is a ValueError that says which there are."""
        kinds = {field.name: field.default for field in dataclasses.fields(cls)}
        unknown = sorted(set(settings) - set(kinds))
        if unknown:
            raise ValueError(f"verbena.kv has no option {', '.join(unknown)}; there are {', '.join(sorted(kinds))}")
        if not settings.get("bucket"):
            raise ValueError("verbena.kv needs the option bucket")
        return cls(**{name: _as(kinds[name], value) for name, value in settings.items()})

    def connect_options(self):
        chosen = {"native_endpoint": self.native_endpoint, "access_key": self.access_key, "secret_key": self.secret_key,
                  "provider": self.provider}
        return {**{name: value for name, value in chosen.items() if value is not None}, "via": self.via, "attempts_max": 1,
                "connect_timeout_ms": self.deadline_ms, "operation_timeout_ms": max(self.deadline_ms, self.lookup_ms)}


def _as(default, value):
    if isinstance(default, bool):
        return value if isinstance(value, bool) else str(value).lower() in ("1", "true", "yes")
    return int(value) if isinstance(default, int) else value


def _document(name):
    """Its key ends as a description's does: a bounded bucket evicts neither."""
    return f"{name}/namespace.json"


def hash_of(value):
    """A block's hash as 16 or 32 bytes, from an engine's bytes, number or text."""
    if isinstance(value, (bytes, bytearray)) and len(value) in (16, 32):
        return bytes(value)
    if isinstance(value, str):
        if len(value) in (32, 64):
            try:
                return bytes.fromhex(value)
            except ValueError:
                pass
        value = value.encode()
    elif isinstance(value, int):
        value = b"%d" % value
    elif not isinstance(value, (bytes, bytearray)):
        raise TypeError(f"a block's hash is bytes, an int or a str, not {type(value).__name__}")
    return hashlib.blake2b(value, digest_size=16).digest()


class KvStore:
    """A cache of one namespace; any thread. Blocks are named by hashes of 16 or 32 bytes (hash_of)."""

    def __init__(self, bucket, description, *, documents=None, **options):
        """`documents` are further facts by name that all users of the namespace share, as `agree` stores them. If they are given, nothing waits for
        the server, and what it or another document refuses is logged: the cache is not usable until all is agreed on."""
        self.options = Options.of({"bucket": bucket, **options})
        self.bucket, self.description = bucket, {**description, **({"label": str(self.options.label)} if self.options.label else {})}
        self.namespace = namespace_id(self.description)
        self.statistics = Statistics()
        self._documents = {"namespace.json": canonical(self.description).encode(),
                           **{_document(name): canonical(facts).encode() for name, facts in (documents or {}).items()}}
        self._client, self._verified, self._mismatch = None, False, None
        self._saves, self._flushing = threading.BoundedSemaphore(self.options.saves_max), threading.Lock()
        self._doubts, self._clearing, self._clears = Doubts(self.options.doubt_ms / 1000), threading.Lock(), collections.deque()
        self.closed = False
        self._generation = 0  # how often it was cleared: saves and answers of before are dropped
        self._leased = {"lease_ms": self.options.lease_ms} if self.options.lease_ms else {}
        self._held = collections.deque(maxlen=_HELD_MAX)
        self._breaker = Breaker(self._probe, failures_max=self.options.failures_max, retry_s=self.options.retry_ms / 1000)
        self._refusals = Pause(self.options.retry_ms / 1000)
        self._pool = concurrent.futures.ThreadPoolExecutor(self.options.threads, thread_name_prefix="verbena-kv")
        self._save_pool = concurrent.futures.ThreadPoolExecutor(self.options.threads, thread_name_prefix="verbena-kv-save")
        if documents is None:
            self._agree_now()
        else:
            self._pool.submit(self._agree_later)

    # ---- The server ----

    def _agree_now(self):
        asked = self._pool.submit(self._verify)
        try:
            asked.result(self.options.deadline_ms / 1000)
        except (Mismatch, errors.InvalidArgument, errors.AccessDenied, errors.NoSuchBucket):  # waiting does not mend these
            self.close()
            raise
        except (errors.VerbenaError, concurrent.futures.TimeoutError) as error:
            log.warning("verbena.kv: %s is not usable (%s): everything is a miss until it is", self.options.endpoint or "the server",
                        str(error) or "no answer before the deadline")
            self._breaker.open()

    def _agree_later(self):
        try:
            self._verify()
        except Exception as error:
            if self._mismatch is None:  # else it has been logged
                log.error("verbena.kv: %s is not usable (%s): everything is a miss until it is", self.options.endpoint or "the server", error)
            self._breaker.open()

    def agree(self, name, facts):
        """Facts that all users of the namespace share, stored once by this name beside its description; others are a Mismatch."""
        self._documents[_document(name)], self._verified = canonical(facts).encode(), False
        self._agree_now()

    def _verify(self):
        """Connects, and stores the namespace's documents or compares them with what is stored."""
        if self._mismatch is not None:
            raise self._mismatch
        if self._client is None:
            self._client = connect(self.options.endpoint, **self.options.connect_options())
        for name, wanted in list(self._documents.items()):
            try:
                self._agree_on(name, wanted)
            except Mismatch as mismatch:
                self._mismatch = mismatch
                log.error("verbena.kv: %s", mismatch)
                raise
        self._verified = True
        return True

    def _agree_on(self, name, wanted):
        try:
            return agree(self._client, self.bucket, self.namespace, name, wanted)
        except errors.NoSuchBucket:
            if not self.options.make_bucket:
                raise
        self._make_bucket()
        agree(self._client, self.bucket, self.namespace, name, wanted)

    def _make_bucket(self):
        try:
            self._client.make_bucket(self.bucket)
        except errors.BucketExists:
            pass

    def _probe(self):
        return self._verify()  # what was found before may have been lost with the server

    @property
    def usable(self):
        """Whether calls go to the server: it was seen, the breaker is closed, and no blocks are being removed by `clear`."""
        return self._verified and self._breaker.closed and not self._clears

    @property
    def takes_saves(self):
        """Whether saves go to the server: it is usable, and has not refused one a moment ago."""
        return self.usable and self._refusals.over

    def _succeeded(self):
        self._breaker.succeeded()
        self._doubts.answered()

    def _failed(self, error):
        self.statistics.add(errors=1)
        if self._breaker.failed():
            log.warning("verbena.kv: the server is lost (%s): everything is a miss until it answers again", error)

    def _refused(self, error, doubted):
        """A save was refused, and of `doubted` of its blocks there was no answer: they are in doubt until the server has answered later."""
        self.statistics.add(errors=1)
        if not doubted:
            self._doubts.answered()
        if self._refusals.refused():
            log.warning("verbena.kv: the server refuses saves (%s): they pause, loads go on", error)

    def _missed_deadline(self):
        self.statistics.add(deadlines=1)
        self._failed("no answer before the deadline")

    def flush(self, timeout=_FLUSH_S):
        """Waits for the saves in flight. False if some are left."""
        until, mine = time.monotonic() + timeout, 0
        with self._flushing:  # two that each have a part would wait for each other
            while mine < self.options.saves_max and self._saves.acquire(timeout=max(until - time.monotonic(), 0)):
                mine += 1
            if mine:
                self._saves.release(mine)
        return mine == self.options.saves_max

    def close(self):
        """Ends what is in flight; later calls are misses."""
        self.closed = True
        self._breaker.open()
        self._breaker.close()
        if self._client is not None:
            self._client.close()
        self._pool.shutdown(wait=False)
        self._save_pool.shutdown(wait=False)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def clear(self, namespaces=None, *, timeout=_FLUSH_S):
        """Removes every block of the namespaces, as when a model's weights have changed; leases of this store's questions end. Saves of
        this store that have not begun are dropped, and those that have are waited for (`timeout` seconds), so that nothing of before is
        stored after this. If the server has not answered a save, this takes `doubt_ms` longer, while which its blocks are removed again and
        again. Until it is over, all is a miss. Raises what goes wrong."""
        self.outdate()
        if self._client is None:
            raise errors.VerbenaError("the server was never seen")
        self._clears.append(None)
        try:
            with self._clearing:
                self._clear(namespaces or (self.namespace,), timeout)
        finally:
            self._clears.pop()

    def _clear(self, namespaces, timeout):
        self._end_leases()
        if not self.flush(timeout):
            raise errors.VerbenaError(f"saves of before did not end within {timeout:g} s")
        for namespace in namespaces:
            self._remove_keys([entry.key for entry in self._client.list(self.bucket, f"{namespace}/") if not entry.key.endswith(".json")])
        self._doubts.remove(self._remove_keys, _REMOVED_AGAIN_S, lambda: self.closed)

    def _remove_keys(self, keys):
        if keys:
            self._client.remove_many([(self.bucket, key) for key in keys]).check()

    def outdate(self):
        """Saves that have not begun, and answers that are not there yet, are dropped."""
        self._generation += 1

    def _end_leases(self):
        held, self._held = self._held, collections.deque(maxlen=_HELD_MAX)
        for lease in {lease for _, lease, _ in held}:
            try:
                self._client.end_lease(lease)
            except errors.VerbenaError:  # it has ended, or ends by its time
                pass

    def remove(self, hashes):
        """Removes blocks. True if the server has done so, or had none."""
        try:
            return self._client is not None and self._client.remove_many([(self.bucket, self.key(one)) for one in hashes]).failed == 0
        except errors.VerbenaError as error:
            self._failed(error)
            return False

    def names(self):
        """The hashes of all blocks, as hexadecimal texts. Raises what goes wrong."""
        start = len(self.namespace) + 1
        return [entry.key[start:] for entry in self._client.list(self.bucket, f"{self.namespace}/") if not entry.key.endswith(".json")]

    # ---- Memory ----

    def allocate(self, size):
        """Memory that is cheapest to transfer; ordinary memory as long as the server was never seen."""
        return self._client.allocate(size) if self._client is not None else bytearray(size)

    def register(self, array):
        """The array's own memory, registered once for any number of transfers; the array as long as the server was never seen."""
        return self._client.register(array) if self._client is not None else array

    # ---- Questions ----

    def key(self, block_hash, namespace=None):
        return f"{namespace or self.namespace}/{block_hash.hex()}"

    def leading(self, hashes, namespaces=None):
        """How many leading blocks are there, in every one of the namespaces (its own if none is named)."""
        return self.find(hashes, namespaces)[0]

    def find(self, hashes, namespaces=None, join=None):
        """As leading, and with `lease_ms` the lease of what was found (or that of `join`, which takes it in): for `load`, of this store or
        of another process's. None: there is none."""
        if not hashes or not self.usable:
            self.statistics.add(refused=bool(hashes))
            return 0, join
        namespaces = namespaces or (self.namespace,)
        until, generation = time.monotonic() + self.options.lease_ms / 1000, self._generation
        found, lease = self._answer((0, join), self._find, hashes, namespaces, join)
        if generation != self._generation:
            found, lease = 0, join  # it was cleared meanwhile
        self.statistics.add(lookups=1, blocks_asked=len(hashes), blocks_found=found)
        if lease is not None and found and self.namespace in namespaces:
            self._held.append((until, lease, frozenset(hashes[:found])))
        return found, lease

    def _lease_of(self, items):
        """The lease that holds the first of the items, by a question that this store has asked."""
        if not self._held or not len(items):
            return None
        _, hexadecimal = items[0][1].rsplit("/", 1)
        try:
            block, now = bytes.fromhex(hexadecimal), time.monotonic()
        except ValueError:
            return None
        return next((lease for until, lease, hashes in reversed(tuple(self._held)) if until > now and block in hashes), None)

    def present(self, hashes):
        """Of each block whether it is there."""
        if not hashes or not self.usable:
            self.statistics.add(refused=bool(hashes))
            return [False] * len(hashes)
        found = self._answer([False] * len(hashes), self._heads, hashes, self.namespace)
        self.statistics.add(lookups=1, blocks_asked=len(hashes), blocks_found=sum(found))
        return found

    def _answer(self, otherwise, ask, *given):
        """The answer to a question, or `otherwise` after the deadline or a failure. Time that it has waited for a thread is not the
        server's."""
        began, limit = [], self.options.lookup_ms / 1000

        def begin():
            began.append(time.monotonic())
            return ask(*given)

        try:
            asked = self._pool.submit(begin)
            answer = asked.result(limit)
        except concurrent.futures.TimeoutError:
            if not asked.cancel() and began and time.monotonic() - began[0] >= _LATE * limit:
                self._missed_deadline()
            else:
                self.statistics.add(deadlines=1)
            return otherwise
        except (errors.VerbenaError, concurrent.futures.CancelledError, RuntimeError) as error:
            self._failed(error)
            return otherwise
        self._succeeded()
        return answer

    def _find(self, hashes, namespaces, lease):
        found = len(hashes)
        for namespace in namespaces:
            found, lease = self._find_in(hashes[:found], namespace, lease)
            if found == 0:
                break
        return found, lease

    def _find_in(self, hashes, namespace, lease):
        for first in range(0, len(hashes), _MATCH_MAX):
            some = hashes[first:first + _MATCH_MAX]
            found = self._match(namespace, some, lease)
            lease = found.lease or lease
            if found.ended not in (None, "no_such_key") and not (self._leased and found.ended == "slow_down"):
                raise errors.VerbenaError(f"{self.bucket}/{namespace}: {found.ended}")
            if found.places is not None:
                self.statistics.add(found_in_memory=found.places.count(MEMORY), found_on_disk=found.places.count(DISK))
            if found.leading < len(some):
                return first + found.leading, lease
        return len(hashes), lease

    def _match(self, namespace, hashes, join):
        """The question, with a lease on what it finds if there are any: then evictions pass over it, and loads by the lease read it. A
        list may end where a bound on leases does."""
        try:
            return self._client.match(self.bucket, namespace, hashes, places=True, join=join if self._leased else None, **self._leased)
        except errors.Unsupported:
            if not self._leased:
                raise
            log.warning("verbena.kv: no leases by this door: blocks that were found may be evicted before they are loaded, a miss then")
            self._leased = {}
            return self._client.match(self.bucket, namespace, hashes, places=True)

    def _heads(self, hashes, namespace):
        done = self._client.head_many([(self.bucket, self.key(one, namespace)) for one in hashes])
        if done.failed == 0:
            return [True] * len(hashes)
        for one in done:
            if one.error is not None and not is_miss(one.error):
                raise one.error
        return [one.error is None for one in done]

    # ---- Blocks ----

    def load(self, hashes, memory, size, *, offsets=None, deadline_ms=None, lease=None):
        """Loads blocks of `size` bytes into places of `memory`, one after the other unless `offsets` names them. Returns a Load."""
        return self.load_items(self.blocks(hashes, size, offsets), memory, deadline_ms=deadline_ms, lease=lease)

    def load_layers(self, hashes, memory, offsets, layers, *, deadline_ms=None, lease=None):
        """Loads blocks whose objects hold all layers one after the other, the first layer of all blocks first. `layers` are the
        (first byte, bytes) of each layer in an object, and likewise in a block's place in `memory`. Load.wait(blocks * n): n layers."""
        return self.load_items(self.blocks(hashes, 0, offsets, layers), memory, deadline_ms=deadline_ms, lease=lease)

    def blocks(self, hashes, size, offsets=None, layers=None):
        """Items for load_items and save_items, without an object for each."""
        return Blocks(self.bucket, f"{self.namespace}/", hashes, size, offsets, layers)

    def load_items(self, items, memory, *, deadline_ms=None, lease=None):
        """Loads get_many's items, or Blocks. Returns a Load, at once. Blocks that the `lease` of a question holds are read although they
        were removed since; the lease of a question that this store has asked need not be named. Others are read as they are."""
        load = Load(len(items), (deadline_ms or self.options.deadline_ms) / 1000)
        load.lease = lease or self._lease_of(items) or 0
        if not self.usable or not _begin(self._pool, self._run_load, load, items, memory):
            self.statistics.add(refused=1, blocks_missed=len(items))
            load.progress.end()
            load.ended([False] * len(items))
        return load

    def save(self, hashes, memory, size, *, offsets=None, release=None):
        """Saves blocks of `memory` that are not there yet. Returns a Transfer; `release` is called when the memory is free again."""
        return self.save_items(self.blocks(hashes, size, offsets), memory, release=release)

    def save_items(self, items, memory, *, release=None):
        save, generation = Transfer(len(items), self.options.save_ms / 1000, release), self._generation
        begun = bool(items) and self.takes_saves and self._saves.acquire(blocking=False)
        if begun and not _begin(self._save_pool, self._run_save, save, items, memory, generation):
            self._saves.release()
            begun = False
        if not begun:
            self.statistics.add(blocks_dropped=len(items))
            save.ended([False] * len(items))
        return save

    def _run_load(self, load, items, memory):
        if load.late:  # it waited for a thread that long: nothing against the server
            load.progress.end()
            load.ended(None)
            self.statistics.add(deadlines=1, blocks_missed=len(items))
            return
        began, there, error = time.monotonic(), None, None
        try:
            blocks = isinstance(items, Blocks)
            done = (items.get(self._client, memory, load.progress, load.lease) if blocks
                    else self._client.get_many(items, memory, load.progress, lease=load.lease))
            there, load.done = arrived(done, items), done
            error = _fault(done)
        except Exception as caught:
            error = caught
        load.progress.end()
        load.ended(there, error)
        self._account_load(load, items, there, error, began)

    def _account_load(self, load, items, there, error, began):
        loaded = 0 if there is None else there.count(True)
        moved = bytes_of(items) if loaded == len(items) else sum(item[3] for item, one in zip(items, there or ()) if one)
        took = time.monotonic() - began
        self.statistics.add(loads=1, blocks_loaded=loaded, blocks_missed=len(items) - loaded, bytes_loaded=moved, load_us=int(took * 1e6))
        if load.late and took >= _LATE * load.allowed:
            self._missed_deadline()
        elif error is not None:
            self._failed(error)
        else:
            self.statistics.add(deadlines=load.late)  # it has waited for a thread
            self._succeeded()

    def _run_save(self, save, items, memory, generation):
        if generation != self._generation:
            self._saves.release()
            self.statistics.add(blocks_dropped=len(items))
            return save.ended(None)
        began, error, outcome = time.monotonic(), None, None
        try:
            blocks, ttl = isinstance(items, Blocks), self.options.ttl
            done = items.put_absent(self._client, memory, ttl) if blocks else self._client.put_many(items, memory, if_absent=True, ttl=ttl)
            error, present = _fault(done), done.present
            outcome = [True] * len(items) if not done.failed else [one.error is None for one in done]
            doubted = [item[1] for item, one in zip(items, done) if is_doubt(one.error)] if done.failed else ()
        except Exception as caught:
            error, present = caught, 0
            doubted = [item[1] for item in items] if is_doubt(caught) else ()
        if doubted:
            self._doubts.add(doubted)  # before a flush sees that it has ended
        self._saves.release()
        save.ended(outcome, error)
        saved = outcome.count(True) - present if outcome else 0
        self.statistics.add(saves=1, blocks_saved=saved, blocks_present=present, blocks_dropped=len(items) - saved - present,
                            bytes_saved=saved * (bytes_of(items) // len(items)), save_us=int((time.monotonic() - began) * 1e6))
        if is_refusal(error):
            self._refused(error, doubted)
        elif error is not None:
            self._failed(error)
        else:
            self._refusals.ended(began)
            self._succeeded()


def _begin(pool, run, *given):
    try:
        pool.submit(run, *given)
    except RuntimeError:  # the pool has ended
        return False
    return True


def _fault(done):
    """The first error of a batch that is the server's, not a block's."""
    if done.failed == 0:
        return None
    return next((one.error for one in done if one.error is not None and not is_miss(one.error)), None)
