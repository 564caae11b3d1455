#!/usr/bin/env python3
"""The RDMA doors between two devices, while clients and servers die, freeze and resume and the link loses packets,
delays them and breaks. Runs inside the virtual machine, in one boot: tools/vm.sh run tests/vm/faults_test.py
[CASE...] In CI each fault is tested on one door in turn; with LONG=1 on both, with larger objects and one more case."""
import os
import signal
import subprocess
import sys
import tempfile
import time

import guest
from guest import KIB, MIB, Mover, Server, until, verbena

LONG = os.environ.get("LONG") == "1"
DOORS = ("native", "token")
# Empty, inline, the first size above inline, an odd one of several blocks, many operations. A token's transfer is
# limited to 4 s and the CPU is emulated, so its largest object is sent in parts.
SIZES = {"native": (0, 1, 4 * KIB, 4 * KIB + 1, 1 * MIB + 1, (64 if LONG else 16) * MIB),
         "token": (0, 1, 4 * KIB, 4 * KIB + 1, 1 * MIB + 1, 8 * MIB)}
server = Server()


def start():
    server.start()
    verbena("mb", "s3://faults", "--durability", "memory")


def put_for_gets(*sizes):
    """Puts the objects for the GETs, by HTTP."""
    Mover(via="http", op="seed", size=",".join(map(str, sizes))).must_succeed()


def server_is_well():
    """A client of each door still reads the right bytes."""
    for door in DOORS:
        Mover(via=door, op="get", size=100 * KIB, count=2).must_succeed(door)


# Without faults.

def sizes_from_nothing_to_many_operations():
    """GET and PUT through both doors, from 0 B (no operation), 1 B (inline) to many MiB (many operations)."""
    for door in DOORS:
        sizes = ",".join(map(str, SIZES[door]))
        for op in ("get", "put"):
            mover = Mover(via=door, op=op, size=sizes, part_size=64 * MIB).must_succeed()
            # An empty payload lends nothing, so it needs no token.
            expected = len(SIZES[door]) - (door == "token")
            ways = [line for line in mover.said("ok") if f" {door} verbs;ofi_rxm" in line]
            assert len(ways) >= expected, mover.lines


def parts_by_token():
    """UploadPart: an object in parts of 5 MiB, each a token of its own."""
    parts = server.metric('verbena_fabric_windows_total')
    Mover(via="token", op="put", size=(64 if LONG else 15) * MIB, part_size=5 * MIB, seconds=100).must_succeed("token")
    assert server.metric('verbena_fabric_windows_total') - parts >= (13 if LONG else 3)


def many_clients_regions_and_endpoints():
    """Eight clients at once, each with its own endpoints and a region for every request, on both of the server's."""
    before = server.metrics()
    movers = [Mover(via=door, op=op, size=300 * KIB, threads=2, count=3) for door in DOORS for op in ("get", "put")]
    for mover in movers:
        mover.must_succeed(mover.via)
    after = server.metrics()
    windows = after["verbena_fabric_windows_total"] - before["verbena_fabric_windows_total"]
    assert windows >= 24, windows
    assert after["verbena_fabric_data_endpoints_opened_total"] - before["verbena_fabric_data_endpoints_opened_total"] >= 6


# Clients that disappear.

def killed(door, op, direction):
    size = 16 * MIB
    guest.shape("rate 80mbit")
    before = server.moved(direction)
    mover = Mover(via=door, op=op, size=size, part_size=64 * MIB)
    server.in_mid_transfer(direction, before, size)
    mover.signal(signal.SIGKILL)
    mover.end()
    guest.unshape()
    server_is_well()


def a_client_dies_while_the_server_writes():
    for door in DOORS if LONG else ("native",):
        killed(door, "get", "write")


def a_client_dies_while_the_server_reads():
    for door in DOORS if LONG else ("token",):
        killed(door, "put", "read")


def frozen(door, op, direction):
    """A stopped client's memory is still served by its device, as by a NIC: the transfer ends without the client,
    and when it resumes all bytes have arrived."""
    size = 12 * MIB
    guest.shape("rate 120mbit")
    before = server.moved(direction)
    mover = Mover(via=door, op=op, size=size, part_size=64 * MIB, timeout=30)
    server.in_mid_transfer(direction, before, size)
    mover.signal(signal.SIGSTOP)
    try:
        until(lambda: server.moved(direction) - before >= size, 30, "the rest of the transfer of a stopped client")
        guest.unshape()
        server_is_well()
        assert not mover.said("ok")
    finally:
        mover.signal(signal.SIGCONT)
    mover.must_succeed(door)


def a_client_freezes_while_the_server_writes():
    for door in DOORS if LONG else ("token",):
        frozen(door, "get", "write")


def a_client_freezes_while_the_server_reads():
    for door in DOORS if LONG else ("native",):
        frozen(door, "put", "read")


# Servers that disappear.

def the_server_dies_and_clients_reconnect():
    """kill -9 in mid transfer, and another server on the same data: the same clients recover by themselves."""
    movers = [Mover(via=door, op=op, size=2 * MIB, count=6, seconds=150) for door in DOORS for op in ("get", "put")]
    for mover in movers:
        mover.wait_for("ok", 1)
    server.kill()
    server.start()
    for mover in movers:
        mover.must_succeed(mover.via, 160)
    assert any(mover.said("error") for mover in movers), "nobody noticed"


def the_server_restarts_under_the_command_line():
    """`verbena get` of 40 MiB continues over a restart without intervention."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
        with open(source, "wb") as file:
            file.write(os.urandom(40 * MIB))
        verbena("put", source, "s3://faults/cli")
        guest.shape("rate 120mbit")
        before = server.moved("write")
        command = [*guest.AS_CLIENT, guest.verbena_server.program(), "get", "s3://faults/cli", target, "--via", "native",
                   "--attempts", "40", "-v"]
        getting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=dict(os.environ, AWS_ENDPOINT_URL=guest.HTTP, **guest.KEYS))
        server.in_mid_transfer("write", before, 40 * MIB)
        server.kill()
        guest.unshape()
        server.start()
        output = getting.communicate(timeout=120)[0]
        assert getting.returncode == 0, output
        subprocess.run(["cmp", source, target], check=True)


# The link.

def the_link_goes_down_and_comes_back():
    movers = [Mover(via=door, op=op, size=1 * MIB, count=10, seconds=150) for door in DOORS for op in ("get", "put")]
    for mover in movers:
        mover.wait_for("ok", 2)
    guest.link_down()
    until(lambda: guest.port_state("rxe0") == "DOWN", 10, "the port to go down")
    done = [len(mover.said("ok")) for mover in movers]
    time.sleep(1.5)  # duration of the outage
    assert [len(mover.said("ok")) for mover in movers] <= [count + 1 for count in done], "bytes moved over a dead link"
    guest.link_up()
    for mover in movers:
        mover.must_succeed(mover.via, 160)


def packets_get_lost():
    guest.shape("loss 2%")
    retries = ("out_of_seq_request", "rcvd_seq_err", "duplicate_request", "completer_retry_err")
    before = sum(guest.counters(device, *retries) for device in ("rxe0", "rxe1"))
    movers = [Mover(via=door, op=op, size=256 * KIB, count=2, seconds=100)
              for door in DOORS for op in ("get", "put")]
    for mover in movers:
        mover.must_succeed(mover.via)
    after = sum(guest.counters(device, *retries) for device in ("rxe0", "rxe1"))
    assert after > before, "no packet of the device was lost"


def packets_are_late():
    guest.shape("delay 15ms")
    movers = [Mover(via=door, op=op, size=1 * MIB, count=2) for door in DOORS for op in ("get", "put")]
    for mover in movers:
        mover.must_succeed(mover.via)


def the_end():
    server_is_well()
    server.stop()


if __name__ == "__main__":
    guest.prepare()
    start()
    put_for_gets(*SIZES["native"], 8 * MIB, 100 * KIB, 256 * KIB, 300 * KIB, 1 * MIB, 2 * MIB, 12 * MIB, 16 * MIB)
    last = [the_server_restarts_under_the_command_line] if LONG or sys.argv[1:] else []
    guest.run([sizes_from_nothing_to_many_operations, parts_by_token, many_clients_regions_and_endpoints,
               a_client_dies_while_the_server_writes, a_client_dies_while_the_server_reads,
               a_client_freezes_while_the_server_writes, a_client_freezes_while_the_server_reads,
               packets_get_lost, packets_are_late, the_link_goes_down_and_comes_back,
               the_server_dies_and_clients_reconnect, *last, the_end])
