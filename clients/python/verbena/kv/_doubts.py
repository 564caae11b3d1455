"""Saves whose outcome is unknown: the server may carry them out after their caller has given up."""
import threading
import time

from .. import errors

_REFUSED = (errors.InvalidArgument, errors.NoSuchBucket, errors.PreconditionFailed, errors.AccessDenied, errors.ChecksumMismatch,
            errors.TooLarge, errors.SlowDown, errors.Unsupported, errors.ConnectionFailed, errors.Closed)


def is_doubt(error):
    """Whether a write that has failed so may still be done."""
    return error is not None and not isinstance(error, _REFUSED)


class Doubts:
    """Keys of such saves. A save is over `bound_s` seconds after the server has answered anything later: a server that stands still may
    hold a request for any time. Any thread."""

    def __init__(self, bound_s):
        self._bound_s, self._lock, self._entries = bound_s, threading.Lock(), []  # (when the server has answered since or None, keys)

    def add(self, keys):
        with self._lock:
            self._entries.append((None, keys))

    def answered(self):
        """The server has answered something: saves that are over are forgotten."""
        if self._entries:
            with self._lock:
                now = time.monotonic()
                self._entries = [(now if since is None else since, keys) for since, keys in self._entries
                                 if since is None or now < since + self._bound_s]

    def remove(self, remove, again_s, ended):
        """Calls `remove` with the keys every `again_s` seconds, the last time when all of the saves are over. The server has answered
        just now. Remembers them if that raises. Does nothing further once `ended()`."""
        with self._lock:
            entries, self._entries = self._entries, []
        keys, now = [key for _, some in entries for key in some], time.monotonic()
        over = max((now if since is None else since for since, _ in entries), default=0) + self._bound_s
        try:
            while keys and not ended():
                last = time.monotonic() >= over
                remove(keys)
                if last:
                    return
                time.sleep(max(min(over - time.monotonic(), again_s), 0))
            if keys:
                raise errors.Closed("closed before the saves of before were over")
        except BaseException:
            with self._lock:
                self._entries += entries
            raise
