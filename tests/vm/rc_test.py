#!/usr/bin/env python3
"""Dialects over reliable connections on real devices, with a client of libibverbs alone (rc_peer.cc): hipobj-rc-v2 and
cuObject over RC. Runs inside the virtual machine: tools/vm.sh run tests/vm/rc_test.py"""
import array
import os
import pathlib
import subprocess
import sys
import threading
import zlib

import guest
from guest import AS_CLIENT, CLIENT, DEVICE, KIB, MIB, Server, until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import s3_case  # noqa: E402

COOKIE = "01020304"


class Http(s3_case.S3Case):
    """Its signing and requests, without a server of its own."""

    class server:
        http = guest.HTTP

    def runTest(self):
        pass


def ask(method, path, headers=None, body=b""):
    return Http().request(method, path, headers, body)


def crc(data):
    return f"{zlib.crc32(data):08x}"


def pattern(seed, size):
    """As rc_peer fills its memory."""
    return array.array("I", range(seed, seed + size // 4 + 1)).tobytes()[:size]


class Peer:
    def __init__(self, size):
        self.process = subprocess.Popen([*AS_CLIENT, os.environ["RC_PEER"], f"{DEVICE}1", CLIENT, str(size)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.size = size
        self.queue_pair, self.sequence, self.gid, self.address, self.key = self.process.stdout.readline().split()

    def token(self):
        number = int(self.queue_pair, 16).to_bytes(4, "little").hex()
        return f"01{number}{self.gid}" + "00" * 20 + "01" + "0000"

    def ask(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def connect(self, reply):
        token = reply.headers["x-amz-rdma-reply"].removeprefix("200:")
        number = int.from_bytes(bytes.fromhex(token[2:10]), "little")
        assert self.ask("connect", f"{number:x}", reply.headers["x-amz-rdma-psn"], token[10:42]) == "ok"

    def end(self):
        self.process.stdin.close()
        self.process.wait(20)


def prepare(peer, op, target, size, **more):
    headers = {"x-amz-rdma-protocol": "hipobj-rc-v2", "x-amz-rdma-token": peer.token(), "x-amz-rdma-psn": peer.sequence.zfill(6),
               "x-amz-rdma-cookie": COOKIE, "x-amz-rdma-op": op, "x-amz-rdma-target": target, "x-amz-rdma-size": str(size)}
    return ask("POST", "/.hipobj-rc/prepare", {**headers, **more})


def ready(peer, prepared, **more):
    headers = {"x-amz-rdma-protocol": "hipobj-rc-v2", "x-amz-rdma-session": prepared.headers["x-amz-rdma-session"],
               "x-amz-rdma-cookie": COOKIE, "x-amz-rdma-qpn": peer.queue_pair, "x-amz-rdma-mr-addr": peer.address,
               "x-amz-rdma-mr-rkey": peer.key}
    return ask("POST", "/.hipobj-rc/ready", {**headers, **more})


class Later(threading.Thread):
    def __init__(self, what):
        super().__init__(daemon=True)
        self.what, self.result = what, None
        self.start()

    def run(self):
        self.result = self.what()

    def get(self):
        self.join(60)
        assert self.result is not None, "no answer"
        return self.result


def served():
    server = Server("rdma.token_provider=auto,rc").start()
    assert ask("PUT", "/pairs").status == 200
    return server


def gets_land():
    server = served()
    for size in (1, 4 * KIB, 1 * MIB + 7):
        data = pattern(size, size)
        assert ask("PUT", "/pairs/k", body=data).status == 200
        peer = Peer(size)
        prepared = prepare(peer, "GET", "/pairs/k", size)
        assert prepared.status == 200, (prepared.status, prepared.body)
        peer.connect(prepared)
        moved = ready(peer, prepared)
        assert moved.status == 200, (moved.status, moved.body)
        assert moved.headers["x-amz-rdma-bytes-transferred"] == str(size)
        assert peer.ask("await") == COOKIE
        assert peer.ask("sum") == crc(data)
        peer.end()
    assert server.metric('verbena_rdma_dialect_tokens_total{dialect="hipobj",outcome="moved"}') == 3
    until(lambda: server.metric("verbena_rdma_rc_sessions") == 0, 10, "sessions to end")
    server.stop()


def puts_are_stored():
    server = served()
    for size in (1, 4 * KIB, 1 * MIB + 7):
        peer = Peer(size)
        prepared = prepare(peer, "PUT", "/pairs/p", size)
        assert prepared.status == 200, (prepared.status, prepared.body)
        peer.connect(prepared)
        peer.ask("fill", "9")
        stored = Later(lambda: ready(peer, prepared))
        place = prepared.headers["x-amz-rdma-mr-addr"], prepared.headers["x-amz-rdma-mr-rkey"]
        assert peer.ask("write", *place, COOKIE, size) == "ok"
        moved = stored.get()
        assert moved.status == 200, (moved.status, moved.body)
        assert ask("GET", "/pairs/p").body == pattern(9, size)
        if size > MIB:  # its memory is gone, and so is the connection; the device takes its time to say so
            assert peer.ask("write", *place, COOKIE, size) != "ok"
        peer.end()
    until(lambda: server.metric("verbena_rdma_rc_sessions") == 0, 10, "sessions to end")
    server.stop()


def clients_that_lie_get_nothing():
    server = served()
    data = pattern(1, 64 * KIB)
    assert ask("PUT", "/pairs/k", body=data).status == 200
    peer = Peer(len(data))
    prepared = prepare(peer, "GET", "/pairs/k", len(data))
    peer.connect(prepared)
    failed = ready(peer, prepared, **{"x-amz-rdma-mr-rkey": f"{int(peer.key, 16) ^ 0xff00:x}"})
    assert (failed.status, failed.code) == (500, "RDMATransferFailed"), (failed.status, failed.body)
    peer.end()
    # One client's queue pair does not reach another session's memory.
    victim, thief = Peer(4 * KIB), Peer(4 * KIB)
    prepared = prepare(victim, "PUT", "/pairs/v", victim.size)
    own = prepare(thief, "PUT", "/pairs/t", thief.size)
    thief.connect(own)
    stolen = Later(lambda: ready(thief, own))
    thief.ask("fill", "5")
    place = prepared.headers["x-amz-rdma-mr-addr"], prepared.headers["x-amz-rdma-mr-rkey"]
    assert thief.ask("write", *place, COOKIE, thief.size) != "ok"
    assert stolen.get().status in (408, 500)
    victim.connect(prepared)
    victim.ask("fill", "6")
    stored = Later(lambda: ready(victim, prepared))
    assert victim.ask("write", *place, COOKIE, victim.size) == "ok"
    assert stored.get().status == 200
    assert ask("GET", "/pairs/v").body == pattern(6, victim.size)
    assert ask("GET", "/pairs/t").status == 404
    for one in (victim, thief):
        one.end()
    # A session that is never used ends by itself.
    abandoned = Peer(4 * KIB)
    assert prepare(abandoned, "PUT", "/pairs/a", 4 * KIB).status == 200
    assert server.metric("verbena_rdma_rc_sessions") == 1
    until(lambda: server.metric("verbena_rdma_rc_sessions") == 0, 20, "an abandoned session to end")
    abandoned.end()
    server.stop()


def cuobjects_tokens_move_both_ways():
    server = served()
    size = 1 * MIB + 7
    peer = Peer(size)
    peer.ask("fill", "7")
    connected = ask("POST", "/.s3rdma-rc/connect", {"x-amz-rdma-token": peer.token(), "x-amz-rdma-psn": peer.sequence.zfill(6)})
    assert connected.status == 200, (connected.status, connected.body)
    peer.connect(connected)
    session = connected.headers["x-amz-rdma-session"]
    token = {"x-amz-rdma-token": f"rc:{session}:{peer.address}:{size:x}:{peer.key}", "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
    stored = ask("PUT", "/pairs/c", token)
    assert stored.status == 200 and stored.headers.get("x-amz-rdma-reply") == "200", (stored.status, stored.headers, stored.body)
    assert ask("GET", "/pairs/c").body == pattern(7, size)
    peer.ask("fill", "8")
    moved = ask("GET", "/pairs/c", token)
    assert moved.headers.get("x-amz-rdma-reply") == "200" and moved.body == b"", moved.headers
    assert peer.ask("sum") == crc(pattern(7, size))
    assert ask("POST", "/.s3rdma-rc/disconnect", {"x-amz-rdma-session": session}).status == 204
    declined = ask("GET", "/pairs/c", token)
    assert declined.headers.get("x-amz-rdma-reply") == "501" and declined.body == pattern(7, size)
    peer.end()
    server.stop()


if __name__ == "__main__":
    guest.prepare()
    guest.run([gets_land, puts_are_stored, clients_that_lie_get_nothing, cuobjects_tokens_move_both_ways])
