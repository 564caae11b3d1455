"""The client as Python has it: what _native does, with iterators, context managers and the environment's keys."""
import datetime
import os
from typing import NamedTuple, Optional

from . import _native, errors

_BATCH_MAX = 4096


class ListedObject(NamedTuple):
    """One key of a listing."""

    key: str
    size: int
    modified_us: int
    etag: str

    @property
    def last_modified(self):
        return datetime.datetime.fromtimestamp(self.modified_us / 1e6, datetime.timezone.utc)


class Fetched(NamedTuple):
    """What became of one item of get_many."""

    bytes: int
    size: int
    etag: str
    error: Optional[errors.VerbenaError]


class Client(_native.Client):
    """A client of one server. Cheap calls, any thread; `with` or close() ends it. Make one in each process.

    Options by keyword, as in docs/python.md: endpoint, native_endpoint, access_key, secret_key, session_token, region, via, provider,
    ca_file, insecure, cleartext_rdma, operation_timeout_ms, attempts_max, ...
    """

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def get_many(self, items, into):
        """Many objects in few messages: items are (bucket, key, offset, size), and each object goes into that place of `into`.

        Gives a Fetched for each item, in their order: one that is not there, or longer than its place, has an `error` and leaves the
        others alone. Places must not overlap.
        """
        items, fetched = tuple(items), []
        for first in range(0, len(items), _BATCH_MAX):
            some = items[first:first + _BATCH_MAX]
            for (bucket, key, _, _), (code, count, size, _, etag, _) in zip(some, self.get_batch(some, into)):
                error = errors.of_item(code, bucket, key) if code else None
                fetched.append(Fetched(count, size, etag, error))
        return fetched

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

    def buckets(self):
        """The names of all buckets."""
        return [entry[0] for entry in self.buckets_page()[0]]

    def exists(self, bucket, key):
        try:
            self.head(bucket, key)
        except errors.NoSuchKey:
            return False
        return True


def connect(endpoint=None, **options):
    """A Client. Without an endpoint or keys: those of AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, VERBENA_NATIVE."""
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
