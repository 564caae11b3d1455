"""The subjects of a history (history_test.py): things, each with its calls, and the bytes of its writes."""
import hashlib
import threading

import history
from history import ABSENT

SIZES = (20, 20, 500, 12_000, 40_000, 200_000)
SIZES_BATCHED = (20,) * 5 + (500, 500, 2000, 12_000)
LIVE = {"register": 6, "batched": 1000, "versions": 3, "pair": 3, "setting": 1}  # things at a time
BATCHED_LONG = 3000   # more in a long run: fewer concurrent changes of one key, for speed
STARTS = {"register": ABSENT, "versions": (), "pair": (ABSENT, ABSENT), "setting": "deny"}
CALLS = {"register": 60, "batched": 120, "versions": 40, "pair": 60, "setting": 80}
UNKNOWN_MAX = 6      # of one thing: each makes the check longer


def body_of(value):
    """Bytes with the write's name in every line; a value ends in its size."""
    size = int(value.rsplit(":", 1)[1])
    line = f"{value}\n".encode()
    return (line * (size // len(line) + 1))[:max(size, len(line))]


def value_of(body):
    value = body[:100].split(b"\n")[0].decode(errors="replace")
    try:
        return value if bytes(body) == body_of(value) else "bytes of no write"
    except (ValueError, IndexError):
        return "bytes of no write"


def md5(value):
    return hashlib.md5(body_of(value), usedforsecurity=False).hexdigest()


class Thing:
    """`group`: things that are chosen together. Batched things are registers, too; their keys are adjacent, in
    tablets that split under them, and the others anywhere."""

    def __init__(self, group, serial):
        self.group, self.serial = group, serial
        self.name = f"many/{serial:07d}" if group == "batched" else f"{serial * 7919 % 10007:05d}/{serial}"
        self.sizes = SIZES_BATCHED if group == "batched" else SIZES
        self.kind = "register" if group == "batched" else group
        self.start = STARTS[self.kind]
        self.lock = threading.Lock()
        self.calls, self.users, self.unknown, self.over = [], 0, 0, False
        self.values = []      # of all puts that were begun
        self.etags = {}       # value -> entity tag, if known
        self.version_ids = {}  # value -> id

    def is_full(self):
        return len(self.calls) >= CALLS[self.group] or self.unknown >= UNKNOWN_MAX


def check(kind, name, start, calls):
    """Runs in another process. None, or the violation."""
    try:
        if history.linearizable(calls, start, getattr(history, kind)):
            return None
    except history.Undecided:
        return "undecided"
    return "\n".join([f"{kind} {name} has no order that explains:", *map(repr, sorted(calls, key=lambda call: call.began))])
