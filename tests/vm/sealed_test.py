#!/usr/bin/env python3
"""Sealed RDMA (docs/sealed-rdma.md) between two devices: what crosses the wire, and a machine in the middle that attacks
packets (attacker.py). Runs inside the virtual machine: tools/vm.sh run tests/vm/sealed_test.py [CASE...]

PACKETS_EACH, SECONDS_EACH: how many packets each attack of the long cases changes (200), if the time (60) suffices.
The short cases end when each attack was made once, at the latest after SECONDS_EACH (80)."""
import collections
import contextlib
import os
import pathlib
import random
import signal
import struct
import subprocess
import tempfile
import threading
import time

import guest
from attacker import ATTACKS, READ_RESPONSES, SENDS, WRITES, Middle, opened
from guest import KIB, MIB, Mover, Server, verbena

SIZE = 256 * KIB
# Keys and contents differ and everything is equally long, so that one's packets fit into the other's places. The last
# one is the other session's.
SIZES, OTHERS = (SIZE, SIZE - 8), SIZE - 16
NOTICED = ("flip", "replay", "splice")  # by what is sealed; the devices make up for the other attacks


def commit():
    """Of the tree that is tried; it may have changes that are not in it."""
    folder = pathlib.Path(__file__).resolve().parent
    found = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(folder), "rev-parse", "--short", "HEAD"],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return found.stdout.strip() or "(unknown)"


def content(size):
    """As client.cc makes it."""
    out, state = bytearray(), size
    while len(out) < size:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out += struct.pack("<Q", state ^ state >> 33)
    return bytes(out[:size])


def pieces_of(size):
    bytes_ = content(size)
    return [bytes_[at:at + 24] for at in range(100, size - 100, 20011)]


@contextlib.contextmanager
def served(*settings):
    server = Server(*settings).start()
    try:
        verbena("mb", "s3://faults", "--durability", "memory")
        Mover(via="http", op="seed", size=",".join(map(str, (1, *SIZES, OTHERS)))).must_succeed()
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
    key, pieces = f"{SIZE}".encode(), pieces_of(SIZE)
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


def what_is_secret():
    """What is in no packet of a sealed session: the bucket's name, and pieces of the objects."""
    return [b"faults", *(piece for size in SIZES for piece in pieces_of(size)[::2])]


def what_is_not_sealed_is_read_and_changed():
    """So the attacker can do what the other cases say it cannot."""
    random.seed(41)
    with served(), Middle({WRITES: 7}, pieces=what_is_secret()) as middle:
        mover = Mover(via="native", op="get", size=SIZE, encryption="off", unverified=1, timeout=4, seconds=25)
        assert mover.end(120) == 1, f"the changed bytes were not taken: {mover.lines[-5:]}"
    assert middle.wrong_icrc == 0, "this test computes checksums as the devices do"
    assert middle.attacked["flip"] > 0 and middle.plain > 0, (middle.attacked, middle.plain)


@contextlib.contextmanager
def another_session(op, kinds):
    """What crosses the wire for a client with a session of its own, which stays open and frozen meanwhile."""
    client = Mover(via="native", op=op, size=OTHERS, count=1000, encryption="required", seconds=100)
    try:
        with Middle(dict.fromkeys(kinds, 1), how=()) as middle:
            client.wait_for("ok", 3)
            client.signal(signal.SIGSTOP)
        yield middle.own
    finally:
        client.process.kill()
        client.process.wait()


def wrong_objects(writers):
    """How many of the objects that attacked clients have written are not what they wrote."""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in (f"{size}-native-{writer}" for size in SIZES for writer in range(writers)):
            path = pathlib.Path(folder) / name
            got = verbena("get", "--via", "http", f"s3://faults/{name}", str(path), check=False)
            assert got.returncode in (0, 3), got.stderr  # 3: there is none
            wrong += got.returncode == 0 and path.read_bytes() != content(int(name.split("-")[0]))
    return wrong


def failures(client):
    return [line for line in client.said("error") if not line.startswith("error 0 ")]  # 0: no transfer had begun


def reasons(client):
    return dict(collections.Counter(line.split()[2] for line in failures(client)))


def lasts_until(made, client, limit_s):
    """Lets the client go on until `made()`; then it ends with the transfers that it has begun."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and client.process.poll() is None and not made():
        time.sleep(0.05)
    client.signal(signal.SIGUSR1)
    with contextlib.suppress(AssertionError):  # it hung, and was killed
        return client.end(120)
    return None


def attacked(op, middle, clients, made, limit_s, timeout_s):
    """Clients that move objects under attack, each transfer in one attempt: counts of packets and transfers."""
    with middle:
        mover = Mover(via="native", op=op, size=",".join(map(str, SIZES)), count=100000, threads=clients, attempts=1,
                      encryption="required", unverified=1, timeout=timeout_s, seconds=limit_s + 120)
        status = lasts_until(lambda: made(middle.attacked, mover), mover, limit_s)
    counts = {"packets": sum(middle.attacked.values()), "right": len(mover.said("ok")), "failed": len(failures(mover)),
              "wrong": len(mover.said("WRONG")), "plain": middle.plain}
    counts["hung"] = len(mover.said("begin")) - counts["right"] - counts["failed"] - counts["wrong"]
    if status is None:
        counts["hung"] = max(counts["hung"], 1)
    if op == "put":
        counts["wrong"] += wrong_objects(clients)
    print(f"  transfers failed with {reasons(mover)}", flush=True)
    assert middle.wrong_icrc == 0, "this test computes checksums as the devices do"
    assert status in (0, 1, 3, None), f"the client ended with {status}: {mover.lines[-5:]}"
    return counts


def report(what, how, counts):
    """A line of the table in docs/sealed-rdma.md."""
    print(f"| {what} | {how} | {' | '.join(map(str, counts.values()))} |", flush=True)
    assert counts["wrong"] == counts["plain"] == counts["hung"] == 0, f"{what}, {how}: {counts}"


def each_attack(op, kind, every, clients, timeout_s):
    """The long form: new clients for each attack."""
    random.seed(kind)
    packets, limit_s = (int(os.environ.get(name, value)) for name, value in
                        (("PACKETS_EACH", "200"), ("SECONDS_EACH", "60")))
    with served("rdma.operation_timeout_ms=30000"), another_session(op, [kind]) as theirs:
        for how in ATTACKS:
            middle = Middle({kind: every}, (how,), theirs, what_is_secret())
            counts = attacked(op, middle, clients,
                              lambda made, mover, how=how: made[how] >= packets and mover.said("begin 3"), limit_s,
                              timeout_s)
            report(kind, how, counts)
            assert counts["packets"] > 0, f"{how}: nothing was attacked"
            assert counts["failed"] > 0 or how not in NOTICED, f"{how}: {counts}"
        # It goes on once the attacker has left.
        Mover(via="native", op=op, size=SIZE, encryption="required").must_succeed("native")


def attacks_on_messages_give_no_wrong_byte():
    each_attack("get", SENDS, 3, clients=4, timeout_s=6)  # they mostly wait for answers that never come


def attacks_on_writes_give_no_wrong_byte():
    each_attack("get", WRITES, 9, clients=2, timeout_s=40)


def attacks_on_read_responses_give_no_wrong_byte():
    each_attack("put", READ_RESPONSES, 9, clients=2, timeout_s=40)


def attack_in_turn(op, kind):
    """Until each attack was made on messages and on what moves the bytes."""
    random.seed(41)
    limit_s = int(os.environ.get("SECONDS_EACH", "80"))
    with served(), another_session(op, [SENDS, kind]) as theirs:
        middle = Middle({SENDS: 7, kind: 23}, ATTACKS, theirs, what_is_secret())
        counts = attacked(op, middle, 2, lambda made, mover: failures(mover) and
                          all(made[how] > 0 for how in ATTACKS), limit_s, timeout_s=6)
        made = middle.attacked
        report(f"messages and {kind}", ", ".join(f"{made[how]} {how}" for how in ATTACKS), counts)
        assert all(made[how] > 0 for how in ATTACKS), f"not every attack was made: {made}"
        assert counts["failed"] > 0, counts
        # It goes on once the attacker has left.
        Mover(via="native", op=op, size=SIZE, encryption="required").must_succeed("native")


def attacks_in_turn_on_a_get_give_no_wrong_byte():
    attack_in_turn("get", WRITES)


def attacks_in_turn_on_a_put_give_no_wrong_byte():
    attack_in_turn("put", READ_RESPONSES)


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
    said = Server("rdma.encryption=required", "rdma.tcp_encryption=off").refuses_to_start()
    assert "payload over tcp would not be encrypted" in said, said


BIG = 8 * MIB


def killed_in_mid_transfer(server, op, direction, victim):
    """Starts a sealed transfer on a slow link and calls `victim` with its client while bytes of it move."""
    guest.shape("rate 40mbit")
    before = server.moved(direction)
    client = Mover(via="native", op=op, size=BIG, encryption="required", part_size=64 * MIB, seconds=200)
    server.in_mid_transfer(direction, before, BIG)
    victim(client)
    guest.unshape()
    return client


def a_client_that_dies_in_a_sealed_transfer_leaves_the_server_well():
    with served() as server:
        Mover(via="http", op="seed", size=str(BIG)).must_succeed()
        for op, direction in (("get", "write"), ("put", "read")):
            killed_in_mid_transfer(server, op, direction, lambda client: client.signal(signal.SIGKILL)).end()
            Mover(via="native", op=op, size=SIZE, encryption="required").must_succeed("native")


def a_server_that_dies_in_a_sealed_transfer_leaves_no_wrong_byte():
    """kill -9, and another server on the same data: the client opens another sealed session by itself."""
    with served() as server:
        Mover(via="http", op="seed", size=str(BIG)).must_succeed()
        for op, direction in (("get", "write"), ("put", "read")):
            client = killed_in_mid_transfer(server, op, direction, lambda _: server.kill())
            server.start()
            client.must_succeed("native", 220)  # by the new server: the old one had not moved all of it
        assert server.metric('verbena_sealed_refused_total{what="plain_message"}') == 0


@contextlib.contextmanager
def without_aes():
    """What is started here believes that its processor has no AES instructions (OPENSSL_ia32cap(3))."""
    os.environ["OPENSSL_ia32cap"] = "~0x200000200000000:0x0"
    try:
        yield
    finally:
        del os.environ["OPENSSL_ia32cap"]


def a_side_without_aes_gets_another_cipher():
    def get():
        Mover(via="native", op="get", size=SIZE, encryption="required").must_succeed("native")

    with contextlib.ExitStack() as stack:
        with without_aes():
            server = stack.enter_context(served())
        get()
        assert " sealed=chacha20-poly1305" in server.log() and " sealed=aes-256-gcm" not in server.log(), server.log()
    with served() as server:
        get()
        assert " sealed=aes-256-gcm" in server.log() and " sealed=chacha20-poly1305" not in server.log(), server.log()
        with without_aes():
            get()
        assert " sealed=chacha20-poly1305" in server.log(), server.log()
        assert "encryption below rxe0: inline AES-XTS: absent; v0: " in server.log(), server.log()


def a_storage_network_is_plain_and_everything_else_sealed():
    """`listeners`: by the network of the client's session request."""
    key, pieces = f"{SIZE}".encode(), pieces_of(SIZE)
    rule = 'listeners=[{{networks: ["%s/32"], encryption: {}}}]' % guest.CLIENT
    with served("rdma.encryption=required", "rdma.token_provider=none", rule.format("off")):
        plain = crossing("preferred")
        assert all(piece in plain for piece in pieces) and key in plain, "its network is plain"
        refused = Mover(via="native", op="get", size=SIZE, encryption="required", seconds=3)
        assert refused.end() == 3 and not refused.said("ok"), refused.lines
    server = Server("rdma.encryption=off", rule.format("required")).start()
    try:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content(SIZE))
            file.flush()
            # From another network, for HTTP from the client's needs TLS.
            verbena("mb", "s3://faults", "--durability", "memory", "--via", "http", client=False)
            verbena("put", file.name, f"s3://faults/{SIZE}", "--via", "http", client=False)
        sealed = crossing("required")
        assert not any(piece in sealed for piece in pieces) and key not in sealed
        refused = Mover(via="native", op="get", size=SIZE, encryption="off", seconds=3)
        assert refused.end() == 3 and not refused.said("ok"), refused.lines
    finally:
        server.stop()


if __name__ == "__main__":
    guest.prepare()
    print(f"attacks at commit {commit()}: packets | how | attacked | right | error | wrong | plain | hung", flush=True)
    guest.run([nothing_of_a_sealed_session_can_be_read, sealed_objects_of_every_size_are_right,
               what_is_not_sealed_is_read_and_changed, attacks_in_turn_on_a_get_give_no_wrong_byte,
               attacks_in_turn_on_a_put_give_no_wrong_byte, attacks_on_messages_give_no_wrong_byte,
               attacks_on_writes_give_no_wrong_byte, attacks_on_read_responses_give_no_wrong_byte,
               a_server_that_requires_it_serves_no_others,
               a_client_that_dies_in_a_sealed_transfer_leaves_the_server_well,
               a_server_that_dies_in_a_sealed_transfer_leaves_no_wrong_byte, a_side_without_aes_gets_another_cipher,
               a_storage_network_is_plain_and_everything_else_sealed])
