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
import sys
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
DOORS = ("native", "token")  # sealed tokens travel over https
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
def over_https():
    """Clients call the server by https: what it needs as settings."""
    with tempfile.TemporaryDirectory() as folder:
        certificate, key, before = f"{folder}/cert.pem", f"{folder}/key.pem", guest.HTTP
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", key, "-out", certificate, "-days", "1", "-subj", "/CN=verbena", "-addext",
                        f"subjectAltName=IP:{guest.SERVER}"], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        guest.HTTP, guest.CA = before.replace("http:", "https:"), certificate
        try:
            yield f"tls.certificate={certificate}", f"tls.key={key}"
        finally:
            guest.HTTP, guest.CA = before, None


@contextlib.contextmanager
def running(*settings):
    """A server with objects to read, over https, which sealed tokens need."""
    with over_https() as certificate:
        server = Server(*certificate, *settings).start()
        try:
            verbena("mb", "s3://faults", "--durability", "memory", "--via", "http")
            Mover(via="http", op="seed", size=",".join(map(str, (1, *SIZES, OTHERS)))).must_succeed()
            yield server
        finally:
            server.stop()


shared, until_end = [], contextlib.ExitStack()


def server_of_all():
    """The server of the cases without settings of their own, for a start takes seconds."""
    if not shared:
        shared.append(until_end.enter_context(running()))
        until_end.callback(shared.clear)
    return shared[0]


@contextlib.contextmanager
def served(*settings):
    """Another one, alone."""
    the_end()
    with running(*settings) as server:
        yield server


def the_end():
    until_end.close()


def crossing(encryption, door="native"):
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
        Mover(via=door, op="get", size=SIZE, encryption=encryption).must_succeed(door)
    finally:
        stop.set()
        thread.join()
    return b"".join(frames)


def nothing_of_a_sealed_session_can_be_read():
    key, pieces = f"{SIZE}".encode(), pieces_of(SIZE)
    server = server_of_all()
    sealed_before = server.metric('verbena_sealed_bytes_total{direction="to_client"}')
    plain, sealed = crossing("off"), crossing("required")
    assert all(piece in plain for piece in pieces) and key in plain, "the tap sees what is not sealed"
    assert not any(piece in sealed for piece in pieces) and key not in sealed
    assert server.metric("verbena_sealed_connections_total") >= 1
    assert server.metric('verbena_sealed_bytes_total{direction="to_client"}') - sealed_before >= SIZE


def moved_by(dialect):
    return server_of_all().metric(f'verbena_rdma_dialect_tokens_total{{dialect="{dialect}",outcome="moved"}}')


def nothing_of_a_sealed_token_can_be_read():
    pieces, before = pieces_of(SIZE), moved_by("ofi1s")
    sealed = crossing("required", "token")
    assert moved_by("ofi1s") == before + 1
    assert not any(piece in sealed for piece in (*pieces, b"/faults/", b"x-verbena-rdma-sealing"))
    plain = crossing("off", "token")
    assert all(piece in plain for piece in pieces), "the tap sees what is not sealed"


def sealed_objects_of_every_size_are_right():
    sizes = "1,4096,5000,65536,1000000,5000000"
    server = server_of_all()
    Mover(via="http", op="seed", size=sizes).must_succeed()
    for door in DOORS:
        before = server.metric('verbena_sealed_bytes_total{direction="to_server"}')
        for op in ("get", "put"):
            Mover(via=door, op=op, size=sizes, encryption="required", seconds=200).must_succeed(door, limit_s=220)
        assert server.metric('verbena_sealed_bytes_total{direction="to_server"}') - before >= 6000000


def what_is_secret():
    """What is in no packet of a sealed session: the bucket's name, and pieces of the objects."""
    return [b"faults", *(piece for size in SIZES for piece in pieces_of(size)[::2])]


def in_the_middle(every, how, door, theirs=None):
    return Middle(every, how, theirs, what_is_secret(), everywhere=door == "token")


def read_and_changed(door):
    random.seed(41)
    server_of_all()
    with in_the_middle({WRITES: 7}, ("flip",), door) as middle:
        mover = Mover(via=door, op="get", size=SIZE, encryption="off", unverified=1, timeout=4, seconds=25)
        assert mover.end(120) == 1, f"the changed bytes were not taken: {mover.lines[-5:]}"
    assert middle.wrong_icrc == 0, "this test computes checksums as the devices do"
    assert middle.attacked["flip"] > 0 and middle.plain > 0, (middle.attacked, middle.plain)


def what_is_not_sealed_is_read_and_changed():
    """So the attacker can do what the other cases say it cannot."""
    read_and_changed("native")


def a_token_that_is_not_sealed_is_read_and_changed():
    read_and_changed("token")


@contextlib.contextmanager
def another_session(op, kinds, door):
    """What crosses the wire for a client with a session of its own, which stays open and frozen meanwhile."""
    client = Mover(via=door, op=op, size=OTHERS, count=1000, encryption="required", seconds=100)
    try:
        with Middle(dict.fromkeys(kinds, 1), how=()) as middle:
            client.wait_for("ok", 3)
            client.signal(signal.SIGSTOP)
        yield middle.own
    finally:
        client.process.kill()
        client.process.wait()


def wrong_objects(writers, door):
    """How many of the objects that attacked clients have written are not what they wrote."""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in (f"{size}-{door}-{writer}" for size in SIZES for writer in range(writers)):
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


def attacked(door, op, middle, clients, made, limit_s, timeout_s):
    """Clients that move objects under attack, each transfer in one attempt: counts of packets and transfers."""
    with middle:
        mover = Mover(via=door, op=op, size=",".join(map(str, SIZES)), count=100000, threads=clients, attempts=1,
                      encryption="required", unverified=1, timeout=timeout_s, seconds=limit_s + 120)
        status = lasts_until(lambda: made(middle.attacked, mover), mover, limit_s)
    counts = {"packets": sum(middle.attacked.values()), "right": len(mover.said("ok")), "failed": len(failures(mover)),
              "wrong": len(mover.said("WRONG")), "plain": middle.plain}
    counts["hung"] = len(mover.said("begin")) - counts["right"] - counts["failed"] - counts["wrong"]
    if status is None:
        counts["hung"] = max(counts["hung"], 1)
    if op == "put":
        counts["wrong"] += wrong_objects(clients, door)
    print(f"  transfers failed with {reasons(mover)}", flush=True)
    assert middle.wrong_icrc == 0, "this test computes checksums as the devices do"
    assert status in (0, 1, 3, None), f"the client ended with {status}: {mover.lines[-5:]}"
    return counts


def report(what, how, counts):
    """A line of the table in docs/sealed-rdma.md."""
    print(f"| {what} | {how} | {' | '.join(map(str, counts.values()))} |", flush=True)
    assert counts["wrong"] == counts["plain"] == counts["hung"] == 0, f"{what}, {how}: {counts}"


def each_attack(op, kind, every, clients, timeout_s, door="native"):
    """The long form: new clients for each attack."""
    random.seed(kind)
    packets, limit_s = (int(os.environ.get(name, value)) for name, value in
                        (("PACKETS_EACH", "200"), ("SECONDS_EACH", "60")))
    with served("rdma.operation_timeout_ms=30000"), another_session(op, [kind], door) as theirs:
        for how in ATTACKS:
            middle = in_the_middle({kind: every}, (how,), door, theirs)
            counts = attacked(door, op, middle, clients,
                              lambda made, mover, how=how: made[how] >= packets and mover.said("begin 3"), limit_s,
                              timeout_s)
            report(named(kind, door), how, counts)
            assert counts["packets"] > 0, f"{how}: nothing was attacked"
            assert counts["failed"] > 0 or how not in NOTICED, f"{how}: {counts}"
        # It goes on once the attacker has left.
        Mover(via=door, op=op, size=SIZE, encryption="required").must_succeed(door)


def named(kind, door):
    return kind + (" by token" if door == "token" else "")


def attacks_on_messages_give_no_wrong_byte():
    each_attack("get", SENDS, 3, clients=4, timeout_s=6)  # they mostly wait for answers that never come


def attacks_on_writes_give_no_wrong_byte():
    each_attack("get", WRITES, 9, clients=2, timeout_s=40)


def attacks_on_read_responses_give_no_wrong_byte():
    each_attack("put", READ_RESPONSES, 9, clients=2, timeout_s=40)


def attacks_on_writes_by_token_give_no_wrong_byte():
    each_attack("get", WRITES, 9, 2, 40, "token")


def attacks_on_read_responses_by_token_give_no_wrong_byte():
    each_attack("put", READ_RESPONSES, 9, 2, 40, "token")


def attack_in_turn(op, every, door):
    """Until each attack was made."""
    random.seed(41)
    limit_s = int(os.environ.get("SECONDS_EACH", "80"))
    server_of_all()
    plain_before = moved_by("ofi1")
    with another_session(op, [*every], door) as theirs:
        middle = in_the_middle(every, ATTACKS, door, theirs)
        counts = attacked(door, op, middle, 2, lambda made, mover: failures(mover) and
                          all(made[how] > 0 for how in ATTACKS), limit_s, timeout_s=6)
        made = middle.attacked
        report(named(" and ".join(every), door), ", ".join(f"{made[how]} {how}" for how in ATTACKS), counts)
        assert all(made[how] > 0 for how in ATTACKS), f"not every attack was made: {made}"
        assert counts["failed"] > 0, counts
        # It goes on once the attacker has left.
        Mover(via=door, op=op, size=SIZE, encryption="required").must_succeed(door)
    assert moved_by("ofi1") == plain_before


# A native session's messages, and what moves the bytes; a token's messages are TLS.

def attacks_in_turn_on_a_get_give_no_wrong_byte():
    attack_in_turn("get", {SENDS: 7, WRITES: 23}, "native")


def attacks_in_turn_on_a_put_give_no_wrong_byte():
    attack_in_turn("put", {SENDS: 7, READ_RESPONSES: 23}, "native")


def attacks_in_turn_on_a_get_by_token_give_no_wrong_byte():
    attack_in_turn("get", {WRITES: 23}, "token")


def attacks_in_turn_on_a_put_by_token_give_no_wrong_byte():
    attack_in_turn("put", {READ_RESPONSES: 23}, "token")


def refused(encryption):
    client = Mover(via="native", op="get", size=SIZE, encryption=encryption, seconds=1)
    assert client.end() == 3 and not client.said("ok"), client.lines


def a_server_that_requires_it_serves_no_others():
    with served("rdma.encryption=required", "rdma.token_provider=none") as server:
        Mover(via="native", op="get", size=SIZE, encryption="required").must_succeed("native")
        refused("off")
        assert server.metric('verbena_sealed_refused_total{what="plain_message"}') == 0, "it was not even offered"


def a_server_that_never_seals_serves_no_one_who_requires_it():
    with served("rdma.encryption=off"):
        refused("required")
        Mover(via="native", op="get", size=SIZE, encryption="preferred").must_succeed("native")


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
        refused("required")
    with served("rdma.encryption=off", rule.format("required")):
        sealed = crossing("required")
        assert not any(piece in sealed for piece in pieces) and key not in sealed
        refused("off")


if __name__ == "__main__":
    guest.prepare()
    if sys.argv[1:]:
        sys.argv.append("the_end")
    print(f"attacks at commit {commit()}: packets | how | attacked | right | error | wrong | plain | hung", flush=True)
    guest.run([nothing_of_a_sealed_session_can_be_read, nothing_of_a_sealed_token_can_be_read,
               sealed_objects_of_every_size_are_right, what_is_not_sealed_is_read_and_changed,
               a_token_that_is_not_sealed_is_read_and_changed, attacks_in_turn_on_a_get_give_no_wrong_byte,
               attacks_in_turn_on_a_put_give_no_wrong_byte, attacks_in_turn_on_a_get_by_token_give_no_wrong_byte,
               attacks_in_turn_on_a_put_by_token_give_no_wrong_byte, attacks_on_messages_give_no_wrong_byte,
               attacks_on_writes_give_no_wrong_byte, attacks_on_read_responses_give_no_wrong_byte,
               attacks_on_writes_by_token_give_no_wrong_byte, attacks_on_read_responses_by_token_give_no_wrong_byte,
               a_server_that_requires_it_serves_no_others, a_server_that_never_seals_serves_no_one_who_requires_it,
               a_client_that_dies_in_a_sealed_transfer_leaves_the_server_well,
               a_server_that_dies_in_a_sealed_transfer_leaves_no_wrong_byte, a_side_without_aes_gets_another_cipher,
               a_storage_network_is_plain_and_everything_else_sealed, the_end])
