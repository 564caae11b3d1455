"""Loads and saves in flight: what a caller waits for, up to a deadline."""
import threading
import time

from .. import errors
from .._native import Progress


class Transfer:
    """A batch that a thread carries out. After the deadline its items are misses for the caller, while the transfer may
    still touch its memory until it is `drained`."""

    def __init__(self, count, allowed, release=None):
        """`allowed` seconds, from now on."""
        self.count, self.allowed, self.deadline = count, allowed, time.monotonic() + allowed
        self._drained, self._release = threading.Event(), release
        self._lock, self._outcome, self.error = threading.Lock(), None, None

    @property
    def drained(self):
        """Nothing reads or writes its memory any more."""
        return self._drained.is_set()

    @property
    def late(self):
        return time.monotonic() >= self.deadline

    def wait_drained(self, timeout=None):
        return self._drained.wait(timeout)

    def when_drained(self, release):
        """Calls `release` when the memory is free again: now, or from the thread of the transfer."""
        with self._lock:
            if not self._drained.is_set():
                before = self._release
                self._release = release if before is None else lambda: (before(), release())
                return
        release()

    def result(self):
        """For each item whether it is there, as a list; after the deadline all are missing."""
        if not self._drained.wait(max(self.deadline - time.monotonic(), 0)) or self._outcome is None:
            return [False] * self.count
        return self._outcome

    def outcome(self):
        """As result, of a transfer that is drained, however late that was."""
        return self._outcome if self._outcome is not None else [False] * self.count

    def ended(self, outcome, error=None):
        self._outcome, self.error = outcome, error
        with self._lock:
            self._drained.set()
            release, self._release = self._release, None
        if release is not None:
            release()


class Load(Transfer):
    """A load of blocks, whose items arrive in their order."""

    def __init__(self, count, allowed, release=None):
        super().__init__(count, allowed, release)
        self.progress, self.done, self.lease = Progress(), None, 0

    def wait(self, leading):
        """Until that many leading items have arrived or failed. False: the deadline was earlier, or the transfer broke."""
        left = self.deadline - time.monotonic()
        return self.progress.wait(leading, max(int(left * 1000) + 1, 0)) >= leading

    def sizes(self):
        """Of each item how many bytes it has, 0 if it is missing: of a load that is drained."""
        return [0 if one.error is not None else one.bytes for one in self.done] if self.done is not None else [0] * self.count


def arrived(done, items):
    """For each item of get_many's Outcomes whether all of its bytes are there."""
    if done.failed == 0 and done.shorter == 0:
        return [True] * len(items)
    return [one.error is None and one.bytes == item[3] for one, item in zip(done, items)]


def is_miss(error):
    """Errors of an item that say nothing against the server: the block is not there, or has another size."""
    return isinstance(error, (errors.NoSuchKey, errors.InvalidRange, errors.BufferTooSmall))


def is_refusal(error):
    """Errors of a save by which a server that is well refuses it: no room, a quota, rights, load. What is there can be loaded all the
    same."""
    return isinstance(error, (errors.AccessDenied, errors.ServerError, errors.SlowDown, errors.TooLarge, errors.Unsupported))
