"""What the dialects over reliable connections share: how a queue pair is described, and windows that are one.

A description is 44 bytes as 88 hexadecimal digits, numbers in little-endian order: transport (1, a reliable connection), queue pair (4), GID (16),
remote key (4), address (8), length (8), port (1), LID (2).
"""
import contextlib
import struct

from .. import verbs
from ..wire import ConnectionLost
from . import Dialect

LAYOUT = struct.Struct("<BI16sIQQBH")
ACCESS = {"write": verbs.REMOTE_WRITE, "read": verbs.REMOTE_READ, "both": verbs.REMOTE_WRITE | verbs.REMOTE_READ, "none": 0}


def describe(number, gid, key=0, address=0, length=0):
    return LAYOUT.pack(1, number, gid, key, address, length, 1, 0).hex()


def parse(text):
    """Queue pair, GID, remote key, address, length."""
    raw = bytes.fromhex(text.split(":")[0])
    if len(raw) != LAYOUT.size or raw[0] != 1:
        raise ValueError(f"no description of a queue pair: {text}")
    return LAYOUT.unpack(raw)[1:6]


class Window(verbs.Pair):
    """A client's memory and the queue pair through which a server reaches it."""

    def __init__(self, device, size, access, data=None):
        super().__init__(device, size, ACCESS[access], data)
        self.session, self.leave = None, lambda: None

    def close(self):
        """`leave` tells the server first, where the dialect can."""
        leave, self.leave = self.leave, lambda: None
        with contextlib.suppress(OSError, ConnectionLost):
            leave()
        super().close()

    def bytes(self):
        return self.memory.raw[:self.size]

    def settle(self):
        """What a server has written is there: the device completes an operation without calls of this program."""

    def description(self):
        return describe(self.number, self.device.gid)


class OverConnections(Dialect):
    """`provider` is libfabric's and says nothing here."""

    def __init__(self, provider, device, address):
        super().__init__(provider, device, address)
        self.opened = None

    def about(self):
        return f"RDMA device {self.device or 'with the address ' + self.address}"

    def endpoint(self):
        if self.opened is None:
            self.opened = verbs.Device(self.device, self.address)
        return Endpoint(self.opened)

    def window(self, endpoint, size, access, data=None):
        return endpoint.add(Window(endpoint.device, size, access, data))


class Endpoint:
    """Windows that end together."""

    def __init__(self, device):
        self.device, self.windows = device, []

    def add(self, window):
        self.windows.append(window)
        return window

    def close(self):
        for window in self.windows:
            window.close()
        self.windows = []
