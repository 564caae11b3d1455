"""A machine between the two soft-RoCE devices that sees every packet and attacks some, with the right checksums. It takes
the place of the switch (tools/vm.sh). Runs inside the virtual machine."""
import collections
import contextlib
import ctypes
import fcntl
import random
import socket
import struct
import threading
import zlib

import guest
from guest import MIB

ETH_P_ALL, ROCE_PORT, SIOCETHTOOL = 3, 4791, 0x8946
SENDS, WRITES, READ_RESPONSES = "messages", "writes of a GET", "read responses of a PUT"
ATTACKS = ("flip", "drop", "repeat", "reorder", "replay", "splice")
ENVELOPE = b"VNS\x01"  # the beginning of a sealed message


def opened(port):
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    raw.bind((port, 0))
    raw.setsockopt(socket.SOL_SOCKET, 33, 64 * MIB)  # SO_RCVBUFFORCE: past net.core.rmem_max
    raw.settimeout(0.1)
    # PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC
    raw.setsockopt(263, 1, struct.pack("iHH8s", socket.if_nametoindex(port), 1, 0, b""))
    return raw


def whole_packets(interface):
    """Turns off what would leave checksums and segmentation to the device: a program in the middle sees the packets as
    they are sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command in (0x17, 0x1f, 0x24, 0x2c):  # ETHTOOL_STXCSUM, STSO, SGSO, SGRO
            value = bytearray(struct.pack("II", command, 0))
            address = ctypes.addressof((ctypes.c_char * len(value)).from_buffer(value))
            with contextlib.suppress(OSError):
                fcntl.ioctl(any_socket, SIOCETHTOOL, struct.pack("16sQ16x", interface.encode(), address))


class Roce:
    """A RoCE packet over IPv4 in an Ethernet frame; None if it is none."""

    @staticmethod
    def of(frame):
        if len(frame) < 58 or frame[12:14] != b"\x08\x00" or frame[23] != 17:
            return None
        ip_end = 14 + (frame[14] & 15) * 4
        if struct.unpack_from(">H", frame, ip_end + 2)[0] != ROCE_PORT:
            return None
        return Roce(bytearray(frame), ip_end)

    def __init__(self, frame, ip_end):
        self.frame, self.udp, self.bth = frame, ip_end, ip_end + 8
        self.end = 14 + struct.unpack_from(">H", frame, 16)[0]  # of the IP packet
        self.opcode = frame[self.bth] & 0x1f
        self.is_reliable = frame[self.bth] >> 5 == 0  # not of the connection manager
        self.peer = bytes(frame[self.bth + 5:self.bth + 8])  # the queue pair that it is for
        self.payload = self.bth + 12 + (16 if self.opcode in (6, 10, 11) else 4 if self.opcode in (13, 15, 16) else 0)
        self.payload += 4 if self.opcode in (3, 5, 9, 11) else 0  # immediate data

    def kind(self):
        """What its payload is; None: it carries none that is attacked."""
        if not self.is_reliable or self.end - self.payload < 64:
            return None
        return (SENDS if self.opcode < 6 else WRITES if self.opcode < 12 else
                READ_RESPONSES if 13 <= self.opcode <= 16 else None)

    def content_at(self):
        """Where Verbena's bytes begin: before a message is a header of libfabric's rxm."""
        if self.opcode >= 6:
            return self.payload
        return max(self.frame.find(ENVELOPE, self.payload, self.payload + 128), self.payload)

    def content(self):
        return bytes(self.frame[self.content_at():self.end - 4])

    def carry(self, content):
        """Instead of its own, of the same length."""
        self.frame[self.content_at():self.end - 4] = content
        self.frame[self.end - 4:self.end] = self.icrc()

    def flip(self, at):
        self.frame[self.payload + at] ^= 1 << random.randrange(8)
        self.frame[self.end - 4:self.end] = self.icrc()

    def icrc(self):
        covered = bytearray(b"\xff" * 8) + self.frame[14:self.end - 4]
        for at in (9, 16, 18, 19, 8 + self.udp - 14 + 6, 8 + self.udp - 14 + 7, 8 + self.bth - 14 + 4):
            covered[at] = 0xff  # type of service, time to live, both checksums, the fields that switches may set
        return struct.pack("<I", zlib.crc32(covered))

    def has_right_icrc(self):
        return self.icrc() == self.frame[self.end - 4:self.end]


class Recorded:
    """Contents that crossed the wire, by what may take their place: the same way, the same kind, the same length."""

    def __init__(self):
        self.kept = {}

    @staticmethod
    def place(way, packet, content):
        return way, packet.kind(), len(content)

    def add(self, way, packet):
        content = packet.content()
        queues = self.kept.setdefault(self.place(way, packet, content), {})
        queues.setdefault(packet.peer, collections.deque(maxlen=16)).append(content)

    def other(self, way, packet, same_connection):
        """Another one for the packet's place; None: there is none yet."""
        content = packet.content()
        queues = self.kept.get(self.place(way, packet, content), {})
        chosen = [queues.get(packet.peer, ())] if same_connection else queues.values()
        others = [one for queue in chosen for one in queue if one != content]
        return random.choice(others) if others else None


class Middle:
    """Forwards every packet, and attacks one in `every[kind]` of a kind, by each of `how` in turn.

    flip      one bit is changed
    drop      the packet is left out
    repeat    it is sent twice
    reorder   it and the next one of its connection exchange their contents; if the lengths differ, their places
    replay    it carries what an earlier packet of its connection carried
    splice    it carries what a packet of another session carried: `theirs`

    Devices drop a packet whose number they have seen and ask for one that is missing. So what must be noticed above
    them keeps the number of the packet that it replaces.

    `plain` counts packets with one of `pieces`: those of RDMA, or `everywhere` those of TCP, too."""

    def __init__(self, every, how=("flip",), theirs=None, pieces=(), everywhere=False):
        self.every, self.how, self.theirs, self.pieces = every, how, theirs or Recorded(), pieces
        self.everywhere = everywhere
        self.own = Recorded()
        self.seen = collections.Counter()  # by kind
        self.attacked = collections.Counter()  # by attack
        self.plain = self.wrong_icrc = 0  # packets with a piece that nothing may read, or with another checksum
        self.held = {}  # by way: the packet that waits for the next one
        self.lock = threading.Lock()
        self.stopping = False

    def __enter__(self):
        for interface in ("v0", "v1", "p0", "p1"):
            whole_packets(interface)
        guest.sh("ip link set p0 nomaster && ip link set p1 nomaster")
        self.ports = opened("p0"), opened("p1")
        self.threads = [threading.Thread(target=self.forward, args=(way, *pair))
                        for way, pair in enumerate((self.ports, self.ports[::-1]))]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        for thread in self.threads:
            thread.join()
        for port in self.ports:
            port.close()
        guest.sh("ip link set p0 master br0 && ip link set p1 master br0")

    def forward(self, way, source, to):
        while not self.stopping:
            try:
                frame, address = source.recvfrom(65536)
            except TimeoutError:
                frames = self.released(way)
            else:
                frames = [] if address[2] == socket.PACKET_OUTGOING else self.passed(way, frame)
            for one in frames:
                with contextlib.suppress(OSError):  # a frame that is too long for the other port
                    to.send(one)

    def released(self, way):
        """No other packet came."""
        with self.lock:
            held = self.held.pop(way, None)
        return [bytes(held.frame)] if held else []

    def passed(self, way, frame):
        """The frames that go on instead of this one."""
        packet = Roce.of(frame)
        with self.lock:
            if packet or self.everywhere:
                self.plain += any(piece in frame for piece in self.pieces)
            if packet is None:
                return [frame]
            held = self.held.get(way)
            if held and held.peer == packet.peer and packet.kind():
                del self.held[way]
                return self.exchanged(held, packet)
            kind = packet.kind()
            if kind not in self.every:
                return [frame]
            self.own.add(way, packet)
            self.seen[kind] += 1
            if self.seen[kind] <= 100:
                self.wrong_icrc += not packet.has_right_icrc()
            if not self.how or self.seen[kind] % self.every[kind]:
                return [frame]
            how = self.how[self.seen[kind] // self.every[kind] % len(self.how)]
            return self.by(how, way, packet)

    def by(self, how, way, packet):
        """The packet after this attack, if that can be done just now."""
        if how == "reorder":  # counted when the next packet is there
            if way in self.held:
                return [bytes(packet.frame)]
            self.held[way] = packet
            return []
        if how in ("replay", "splice"):
            source = self.own if how == "replay" else self.theirs
            other = source.other(way, packet, same_connection=how == "replay")
            if other is None:
                return [bytes(packet.frame)]
            packet.carry(other)
        if how == "flip":
            packet.flip(random.randrange(8, packet.end - packet.payload - 8))
        self.attacked[how] += 1
        return [bytes(packet.frame)] * {"drop": 0, "repeat": 2}.get(how, 1)

    def exchanged(self, first, second):
        self.attacked["reorder"] += 1
        one, other = first.content(), second.content()
        if first.kind() != second.kind() or len(one) != len(other):
            return [bytes(second.frame), bytes(first.frame)]
        first.carry(other)
        second.carry(one)
        return [bytes(first.frame), bytes(second.frame)]
