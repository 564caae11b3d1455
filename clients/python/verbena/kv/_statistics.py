"""Counters of a cache, by what was asked and by where it was found."""
import threading

NAMES = ("lookups", "blocks_asked", "blocks_found", "found_in_memory", "found_on_disk", "loads", "blocks_loaded", "blocks_missed",
         "bytes_loaded", "load_us", "saves", "blocks_saved", "blocks_present", "blocks_dropped", "bytes_saved", "save_us", "deadlines",
         "refused", "errors")


class Statistics:
    """Sums since the start; `take` returns what was added since its last call."""

    def __init__(self):
        self._lock, self._now, self._taken = threading.Lock(), dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0)

    def add(self, **amounts):
        with self._lock:
            for name, amount in amounts.items():
                self._now[name] += amount

    def all(self):
        with self._lock:
            return dict(self._now)

    def take(self):
        with self._lock:
            new = {name: amount - self._taken[name] for name, amount in self._now.items() if amount != self._taken[name]}
            self._taken = dict(self._now)
            return new
