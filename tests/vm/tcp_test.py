#!/usr/bin/env python3
"""The native door's own tcp between two interfaces, while clients and servers die, freeze and resume, the link loses
packets, delays them and breaks, and unauthenticated clients send arbitrary bytes to its ports. Runs inside the
virtual machine, in one boot: tools/vm.sh run tests/vm/tcp_test.py [CASE...] In CI the most informative cases; with
LONG=1 all of them, with larger objects."""
import os
import random
import signal
import socket
import struct
import sys
import threading

import guest
from guest import KIB, MIB, Mover, Server, until, verbena

LONG = os.environ.get("LONG") == "1"
SIZES = (0, 1, 4 * KIB, 4 * KIB + 1, 1 * MIB + 1, 8 * MIB)
WIRE = {"get": "tx", "put": "rx"}  # the server's direction
PORTS = range(9101, 9103)          # one for each core
server = Server("rdma.fabric_ports=9101-9102", "rdma.token_provider=none", device=None)


def mover(**flags):
    return Mover(via="native", provider="tcp", **flags)


def start():
    server.start()
    verbena("mb", "s3://faults", "--durability", "memory")


def server_is_well():
    mover(op="get", size=100 * KIB, count=2).must_succeed("native tcp")


def in_mid_transfer(op, before, size):
    until(lambda: guest.on_the_wire(WIRE[op]) - before > size // 8, 60, f"the first bytes of a {op}")
    assert guest.on_the_wire(WIRE[op]) - before < size, "the transfer was over before the fault"


# Without faults.

def sizes_from_nothing_to_8_mib():
    for op in ("get", "put"):
        # Encryption is slow on an emulated CPU under load.
        done = mover(op=op, size=",".join(map(str, SIZES)), part_size=64 * MIB, timeout=60,
                     seconds=150).must_succeed("native tcp", 200)
        assert len(done.said("ok")) == len(SIZES), done.lines


def many_clients():
    movers = [mover(op=op, size=300 * KIB, threads=4, count=2, timeout=30, seconds=150)
              for op in ("get", "put") for _ in range(2)]
    for one in movers:
        one.must_succeed("native tcp", 160)


# Clients that disappear.

def killed(op):
    size = 8 * MIB
    guest.shape("rate 40mbit")
    before = guest.on_the_wire(WIRE[op])
    one = mover(op=op, size=size, part_size=64 * MIB, timeout=30)
    in_mid_transfer(op, before, size)
    one.signal(signal.SIGKILL)
    one.end()
    guest.unshape()
    server_is_well()


def a_client_dies_while_the_server_writes():
    killed("get")


def a_client_dies_while_the_server_reads():
    killed("put")


def frozen(op):
    """A stopped client neither reads nor writes: its connection is closed at a deadline, other clients are not
    affected, and when it resumes it reconnects by itself."""
    size = 8 * MIB  # more than both kernels buffer
    guest.shape("rate 40mbit")
    before = guest.on_the_wire(WIRE[op])
    stalled = server.metric("verbena_tcp_stalled_total")
    one = mover(op=op, size=size, part_size=64 * MIB, timeout=30, seconds=150)
    in_mid_transfer(op, before, size)
    one.signal(signal.SIGSTOP)
    try:
        guest.unshape()
        server_is_well()
        until(lambda: server.metric("verbena_tcp_stalled_total") > stalled, 40, "a stopped client to be cut off")
        server_is_well()
        assert not one.said("ok")
    finally:
        one.signal(signal.SIGCONT)
    one.must_succeed("native tcp", 160)


def a_client_freezes_while_the_server_writes():
    frozen("get")


def a_client_freezes_while_the_server_reads():
    frozen("put")


def nothing_lands_in_memory_whose_request_was_given_up():
    """The cable is pulled in the middle of a GET; the client gives up and reuses the memory. When the cable is back,
    bytes buffered in both kernels arrive."""
    size = 8 * MIB
    guest.shape("rate 40mbit delay 40ms")
    before = guest.on_the_wire("tx")
    one = mover(op="abandon", size=size, part_size=64 * MIB, timeout=2, watch=8)
    in_mid_transfer("get", before, size)
    guest.link_down()
    try:
        one.wait_for("given up", 1, 40)
    finally:
        guest.link_up()
        guest.unshape()
    one.must_succeed()
    server_is_well()


# Servers that disappear.

def the_server_dies_and_clients_reconnect():
    movers = [mover(op=op, size=2 * MIB, count=6, seconds=150) for op in ("get", "put")]
    for one in movers:
        one.wait_for("ok", 1)
    server.kill()
    server.start()
    for one in movers:
        one.must_succeed("native tcp", 160)
    assert any(one.said("error") for one in movers), "nobody noticed"


# The link.

def the_link_goes_down_and_comes_back():
    movers = [mover(op=op, size=1 * MIB, count=10, seconds=150, timeout=3) for op in ("get", "put")]
    for one in movers:
        one.wait_for("ok", 2)
    guest.link_down()
    try:
        for one in movers:
            one.wait_for("error", 1, 100)
    finally:
        guest.link_up()
    for one in movers:
        one.must_succeed("native tcp", 160)


def packets_get_lost():
    guest.shape("loss 2%")
    movers = [mover(op=op, size=256 * KIB, count=4, seconds=100) for op in ("get", "put")]
    for one in movers:
        one.must_succeed("native tcp")


def packets_are_late():
    guest.shape("delay 15ms")
    movers = [mover(op=op, size=1 * MIB, count=2) for op in ("get", "put")]
    for one in movers:
        one.must_succeed("native tcp")


# Unauthenticated clients.

def openings(rng):
    """First bytes of an unauthenticated client: noise, half a hello, complete ones of unknown sessions, the bytes
    that crashed other transports."""
    hello = b"VTC\x01\x01\0\0\0" + struct.pack("<Q", rng.getrandbits(64)) + rng.randbytes(16)
    return [rng.randbytes(rng.randrange(1, 5000)), hello[:rng.randrange(1, 32)], hello, hello + rng.randbytes(32),
            bytes.fromhex("03000000000000080000000000000000000000000000000000000000000000000100000000000000"
                          "03070000000008000000000000000010"), b"\x16\x03\x01\x02\x00\x01" + rng.randbytes(500), b""]


def molest(stop, seed, said):
    rng = random.Random(seed)
    while not stop.is_set():
        for port in PORTS:
            for words in openings(rng):
                try:
                    with socket.create_connection((guest.SERVER, port), 5) as peer:
                        peer.sendall(words)
                        said[seed] += 1
                        if rng.random() < 0.3:  # a reset instead of a close
                            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                except OSError:
                    pass  # the server closed first


def strangers_at_its_ports_cost_nobody_else_anything():
    stop, said = threading.Event(), [0, 0]
    strangers = [threading.Thread(target=molest, args=(stop, seed, said)) for seed in range(2)]
    refused, pid = server.metric("verbena_tcp_refused_total"), server.process.pid
    guest.shape("loss 1%")
    for one in strangers:
        one.start()
    try:
        movers = [mover(op=op, size=f"1,{300 * KIB}", count=4, seconds=150, timeout=30) for op in ("get", "put")]
        for one in movers:
            one.must_succeed("native tcp", 160)
        until(lambda: min(said) > 30, 60, "strangers to have said something")
    finally:
        stop.set()
        for one in strangers:
            one.join()
    guest.unshape()
    assert server.metric("verbena_tcp_refused_total") - refused > 20
    assert server.process.poll() is None and server.process.pid == pid
    server_is_well()


def the_end():
    server_is_well()
    server.stop()


if __name__ == "__main__":
    guest.prepare()
    # The kernels buffer less than an object for a stopped client, although an object is encrypted quickly.
    guest.sh("sysctl -q -w net.ipv4.tcp_rmem='4096 131072 1048576' net.ipv4.tcp_wmem='4096 16384 1048576'")
    start()
    seeds = (*SIZES, 100 * KIB, 256 * KIB, 300 * KIB, 1 * MIB, 2 * MIB)
    Mover(via="http", op="seed", size=",".join(map(str, seeds)), seconds=240).must_succeed(limit_s=260)
    in_ci = [a_client_dies_while_the_server_reads, a_client_freezes_while_the_server_writes,
             nothing_lands_in_memory_whose_request_was_given_up, packets_get_lost, strangers_at_its_ports_cost_nobody_else_anything,
             the_server_dies_and_clients_reconnect]
    others = [sizes_from_nothing_to_8_mib, many_clients, a_client_dies_while_the_server_writes, a_client_freezes_while_the_server_reads,
              packets_are_late, the_link_goes_down_and_comes_back]
    guest.run([*(others if LONG or sys.argv[1:] else []), *in_ci, the_end])
