#!/usr/bin/env python3
"""Sealed RDMA (docs/sealed-rdma.md) between two devices: what crosses the wire, and a program in the middle that changes
packets. Runs inside the virtual machine: tools/vm.sh run tests/vm/sealed_test.py [CASE...]"""
import contextlib
import ctypes
import fcntl
import random
import socket
import struct
import threading
import zlib

import guest
from guest import KIB, MIB, Mover, Server, verbena

ETH_P_ALL, ROCE_PORT, SIOCETHTOOL = 3, 4791, 0x8946
SENDS, WRITES, READ_RESPONSES = range(0, 6), range(6, 12), range(13, 17)
SIZE = 256 * KIB


def content(size):
    """As client.cc makes it."""
    out, state = bytearray(), size
    while len(out) < size:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out += struct.pack("<Q", state ^ state >> 33)
    return bytes(out[:size])


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
        self.payload = self.bth + 12 + (16 if self.opcode in (6, 10, 11) else 4 if self.opcode in (13, 15, 16) else 0)

    def icrc(self):
        covered = bytearray(b"\xff" * 8) + self.frame[14:self.end - 4]
        for at in (9, 16, 18, 19, 8 + self.udp - 14 + 6, 8 + self.udp - 14 + 7, 8 + self.bth - 14 + 4):
            covered[at] = 0xff  # type of service, time to live, both checksums, the fields that switches may set
        return struct.pack("<I", zlib.crc32(covered))

    def has_right_icrc(self):
        return self.icrc() == self.frame[self.end - 4:self.end]

    def change(self, at):
        self.frame[self.payload + at] ^= 1 << random.randrange(8)
        self.frame[self.end - 4:self.end] = self.icrc()


class Middle:
    """Takes the place of the switch between both devices: forwards every packet, and changes those with these opcodes,
    one in `every`."""

    def __init__(self, opcodes, every=1):
        self.opcodes, self.every = opcodes, every
        self.seen = self.changed = self.wrong_icrc = 0
        self.stopping = False

    def __enter__(self):
        for interface in ("v0", "v1", "p0", "p1"):
            whole_packets(interface)
        guest.sh("ip link set p0 nomaster && ip link set p1 nomaster")
        sockets = opened("p0"), opened("p1")
        self.threads = [threading.Thread(target=self.forward, args=pair) for pair in (sockets, sockets[::-1])]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        for thread in self.threads:
            thread.join()
        guest.sh("ip link set p0 master br0 && ip link set p1 master br0")

    def forward(self, source, to):
        while not self.stopping:
            try:
                frame, address = source.recvfrom(65536)
            except TimeoutError:
                continue
            if address[2] == socket.PACKET_OUTGOING:
                continue
            with contextlib.suppress(OSError):  # a frame that is too long for the other port
                to.send(self.passed(frame))

    def passed(self, frame):
        packet = Roce.of(frame)
        if packet is None or packet.opcode not in self.opcodes or packet.end - packet.payload < 64:
            return frame
        self.seen += 1
        self.wrong_icrc += not packet.has_right_icrc()
        if self.seen % self.every:
            return frame
        packet.change(random.randrange(8, packet.end - packet.payload - 8))
        self.changed += 1
        return bytes(packet.frame)


@contextlib.contextmanager
def served(*settings):
    server = Server(*settings).start()
    try:
        verbena("mb", "s3://faults", "--durability", "memory")
        Mover(via="http", op="seed", size=f"1,{SIZE}").must_succeed()
        yield server
    finally:
        server.stop()


def crossing(encryption):
    """The bytes of all frames that cross the switch while a client reads an object. (What it writes it reads back by
    HTTP.)"""
    frames, stop = [], threading.Event()
    tap = opened("p0")

    def collect():
        while True:  # until the last frame that waits is taken: this thread may be late
            try:
                frames.append(tap.recv(65536))
            except TimeoutError:
                if stop.is_set():
                    return

    thread = threading.Thread(target=collect)
    thread.start()
    try:
        Mover(via="native", op="get", size=SIZE, encryption=encryption).must_succeed("native")
    finally:
        stop.set()
        thread.join()
    return b"".join(frames)


def nothing_of_a_sealed_session_can_be_read():
    bytes_, key = content(SIZE), f"{SIZE}".encode()
    pieces = [bytes_[at:at + 24] for at in range(100, SIZE - 100, 20011)]
    with served() as server:
        plain, sealed = crossing("off"), crossing("required")
        assert all(piece in plain for piece in pieces) and key in plain, "the tap sees what is not sealed"
        assert not any(piece in sealed for piece in pieces) and key not in sealed
        assert server.metric("verbena_sealed_connections_total") >= 1
        assert server.metric('verbena_sealed_bytes_total{direction="to_client"}') >= SIZE


def sealed_objects_of_every_size_are_right():
    with served() as server:
        sizes = "1,4096,5000,65536,1000000,5000000"
        Mover(via="http", op="seed", size=sizes).must_succeed()
        for op in ("get", "put"):
            Mover(via="native", op=op, size=sizes, encryption="required", seconds=200).must_succeed("native", limit_s=220)
        assert server.metric('verbena_sealed_bytes_total{direction="to_server"}') >= 6000000


def attack(name, opcodes, op, every):
    """Changes packets under a client. Returns how often, and what the client said."""
    random.seed(name)
    report = {}
    for encryption in ("off", "required"):
        with served() as server, Middle(opcodes, every) as middle:
            mover = Mover(via="native", op=op, size=SIZE, count=3, encryption=encryption, unverified=1, timeout=4,
                          seconds=25)
            status = mover.end(120)
            report[encryption] = (middle.changed, status, len(mover.said("ok")), len(mover.said("error")))
            assert middle.wrong_icrc == 0, "this test computes checksums as the devices do"
            assert middle.changed > 0, f"{name} {encryption}: no packet was changed"
            if encryption == "required":
                assert status != 1, f"{name}: a wrong byte was taken: {mover.lines[-5:]}"
                assert status == 3, f"{name}: every transfer was attacked, and {report}"
        # It goes on once the attacker has left.
        if encryption == "required":
            with served():
                Mover(via="native", op=op, size=SIZE, encryption="required").must_succeed("native")
    print(f"  {name}: changed packets, exit status, right, failed: {report}", flush=True)
    return report


def changed_writes_are_never_taken():
    report = attack("writes of a GET", WRITES, "get", 7)
    assert report["off"][1] == 1, "without sealing the changed bytes are taken: so the attack works"


def changed_read_responses_are_never_stored():
    attack("read responses of a PUT", READ_RESPONSES, "put", 7)


def changed_messages_are_never_obeyed():
    attack("messages", SENDS, "get", 2)


def a_server_that_requires_it_serves_no_others():
    with served("rdma.encryption=required", "rdma.token_provider=none") as server:
        Mover(via="native", op="get", size=SIZE, encryption="required").must_succeed("native")
        refused = Mover(via="native", op="get", size=SIZE, encryption="off", seconds=3)
        assert refused.end() == 3 and not refused.said("ok"), refused.lines
        assert server.metric('verbena_sealed_refused_total{what="plain_message"}') == 0, "it was not even offered"
    with served("rdma.encryption=off"):
        refused = Mover(via="native", op="get", size=SIZE, encryption="required", seconds=3)
        assert refused.end() == 3 and not refused.said("ok"), refused.lines
        Mover(via="native", op="get", size=SIZE, encryption="preferred").must_succeed("native")
    said = Server("rdma.encryption=required", "rdma.token_provider=verbs").refuses_to_start()
    assert "tokens are sealed over https alone" in said, said


if __name__ == "__main__":
    guest.prepare()
    guest.run([nothing_of_a_sealed_session_can_be_read, sealed_objects_of_every_size_are_right,
               changed_writes_are_never_taken, changed_read_responses_are_never_stored, changed_messages_are_never_obeyed,
               a_server_that_requires_it_serves_no_others])
