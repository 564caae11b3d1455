"""The removal of blocks after a reset, in a thread: no step of an engine waits for it."""
import logging
import threading
import time

log = logging.getLogger("verbena.kv")
AGAIN_S = 1.0  # between tries
_LOOKED_S = 0.02


class Removal:
    """Clears a store, again until it has succeeded or the store is closed. Makes nothing wait: `ended` is asked. Any thread."""

    def __init__(self, store, namespaces=None):
        self._store, self._namespaces = store, namespaces
        self._ended, self._tried, self._stopped = threading.Event(), threading.Event(), False
        store.outdate()  # now: what is asked or saved from here on is not of before
        threading.Thread(target=self._until_removed, name="verbena-kv-removal", daemon=True).start()

    @property
    def ended(self):
        """Whether the blocks are removed."""
        return self._ended.is_set()

    def stop(self):
        """Does not try again: another one has begun."""
        self._stopped = True

    def wait_tried(self, timeout):
        """Until the first try is over. Whether the blocks are removed."""
        self._tried.wait(timeout)
        return self.ended

    def _until_removed(self):
        while not self._over():
            try:
                self._store.clear(self._namespaces)
            except Exception as error:
                log.error("verbena.kv: after a reset, nothing is found, loaded or saved until the blocks of before it are removed: %s", error)
            else:
                self._ended.set()
                self._tried.set()
                return
            self._tried.set()
            self._pause()

    def _over(self):
        return self._stopped or self._store.closed

    def _pause(self):
        until = time.monotonic() + AGAIN_S
        while not self._over() and (time.monotonic() < until or not self._store.usable):
            time.sleep(_LOOKED_S)
