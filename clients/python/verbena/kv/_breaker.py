"""A breaker: after failures in a row calls are refused at once, until a probe in the background succeeds. And a pause, for what a server
that is well refuses."""
import threading
import time

_TOLD_S = 60.0

class Breaker:
    """Closed (calls pass), or open (calls are misses). While it is open, a thread calls `probe` from time to time: half
    open, it costs no caller any time. `probe` raises as long as the server is not usable."""

    def __init__(self, probe, *, failures_max=3, retry_s=1.0, retry_max_s=10.0):
        self._probe, self._failures_max = probe, failures_max
        self._retry_s, self._retry_max_s = retry_s, retry_max_s
        self._lock, self._end = threading.Lock(), threading.Event()
        self._failures, self._open, self.opened = 0, False, 0

    @property
    def closed(self):
        return not self._open

    def succeeded(self):
        self._failures = 0

    def failed(self):
        """A call failed for the server's sake. Returns True if that opened the breaker."""
        with self._lock:
            self._failures += 1
            if self._open or self._failures < self._failures_max or self._end.is_set():
                return False
            return self._opened()

    def open(self):
        """Opens it at once, as for a server that is not there at the start."""
        with self._lock:
            return not self._open and not self._end.is_set() and self._opened()

    def _opened(self):
        self._open, self.opened = True, self.opened + 1
        threading.Thread(target=self._until_usable, name="verbena-kv-probe", daemon=True).start()
        return True

    def _until_usable(self):
        wait, next_try = self._retry_s, time.monotonic() + self._retry_s
        while not self._end.wait(max(next_try - time.monotonic(), 0)):
            try:
                usable = self._probe()
            except Exception:  # whatever it was, the server is not usable
                usable = False
            if usable:
                with self._lock:
                    self._open, self._failures = False, 0
                return
            wait = min(wait * 2, self._retry_max_s)
            next_try = time.monotonic() + wait

    def close(self):
        self._end.set()


class Pause:
    """After a refusal nothing is tried for `first_s` seconds, after each further one in a row for twice as long, up to `most_s`. Any thread."""

    def __init__(self, first_s, most_s=10.0):
        self._first_s, self._most_s, self._lock = first_s, most_s, threading.Lock()
        self._next_s, self._until, self._last, self._tell = first_s, 0.0, 0.0, 0.0

    @property
    def over(self):
        return time.monotonic() >= self._until

    def refused(self):
        """Those that were under way in a pause make it no longer. Returns whether to tell: the first in a row, once in `_TOLD_S` seconds."""
        with self._lock:
            now = self._last = time.monotonic()
            if now < self._until:
                return False
            first, self._until = self._next_s == self._first_s, now + self._next_s
            self._next_s = min(2 * self._next_s, self._most_s)
            if not first or now < self._tell:
                return False
            self._tell = now + _TOLD_S
            return True

    def ended(self, began):
        """Something that began at this time (of time.monotonic) was accepted: the row of refusals ends, unless it began before the last."""
        with self._lock:
            if began > self._last and self.over:
                self._next_s = self._first_s
