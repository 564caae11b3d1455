#!/usr/bin/python3
"""The dialects over reliable connections under attack: storms of connections, handshakes that stop half-way, packet sequence numbers that change
on a live connection, queue pairs and sessions of others. Each time the attacker gets no byte and no more than its places, and others are served.
Over a double of an RDMA device (tests/conformance/verbs_double.cc) that this process and the server share.

usage: rc_test.py [unittest arguments]
"""
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "lib"), str(ROOT / "conformance")]
from s3rdma_conformance import dialects, wire  # noqa: E402
from s3rdma_conformance.case import Failed  # noqa: E402
from s3rdma_conformance.target import Target  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, client_environment, program  # noqa: E402

HIPOBJ, CUOBJ = "hipobj-rc-v2", "cuobj-rc"
ACCOUNT_MAX, UNSIGNED_CLIENT_MAX = 64, 8  # docs/dialects.md
DEVICE_ADDRESS = "127.0.0.1"              # the double's


class BoundConnection(wire.Connection):
    """From that address of this host."""

    def __init__(self, endpoint, address):
        url = urllib.request.urlparse(endpoint)
        self.socket = socket.create_connection((url.hostname, url.port), 60, (address, 0))
        self.file = self.socket.makefile("rb")


class Caller(Target):
    """An account's keys at an address, with a bucket of its own. `keys` None: unsigned calls."""

    def __init__(self, server, dialect, keys, address="127.0.0.1"):
        self.from_address = address
        credentials = wire.Credentials(*keys) if keys else None
        super().__init__(server.http, credentials, dialects.by_name(dialect), None)
        self.dialect.address = DEVICE_ADDRESS

    def connection(self, fresh=False):
        if fresh or getattr(self.local, "connection", None) is None:
            self.local.connection = BoundConnection(self.endpoint_url, self.from_address)
        return self.local.connection


class RcAttacks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        double = os.environ["VERBS_DOUBLE_LIBRARY"]
        cls.stack = contextlib.ExitStack()
        cls.folder = cls.stack.enter_context(tempfile.TemporaryDirectory(prefix="verbena-rc-"))
        os.environ.update(S3RDMA_LIBIBVERBS=double, VERBS_DOUBLE=f"{cls.folder}/table")
        env = {"LD_PRELOAD": double, "VERBS_DOUBLE": f"{cls.folder}/table", "VERBENA_RDMA_TOKEN_PROVIDER": "rc"}
        cls.server = cls.stack.enter_context(Server(memory=True, env=env))
        cls.root = (ACCESS_KEY, SECRET_KEY)
        cls.mallory = cls.account("mallory")

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    @classmethod
    def account(cls, name):
        env = dict(client_environment(cls.folder), AWS_ENDPOINT_URL=cls.server.http)
        made = json.loads(subprocess.run([program(), "user", "add", name, "--json"], env=env, check=True, stdout=subprocess.PIPE, timeout=60).stdout)
        return made["access_key"], made["secret_key"]

    def caller(self, dialect, keys, address="127.0.0.1"):
        made = Caller(self.server, dialect, keys, address)
        if keys:
            made.open()
            self.addCleanup(made.close)
        else:
            made.fabric = made.dialect.endpoint()
            self.addCleanup(made.fabric.close)
        return made

    def gauge(self, name):
        text = urllib.request.urlopen(f"http://{self.server.native}/-/metrics", timeout=30).read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))

    def moves(self, caller, size=50_000, times=3):
        """PUT and GET by RDMA, every byte compared."""
        for number in range(times):
            data = wire.random_bytes(size)
            source, into = caller.source(data), caller.window(size)
            stored = caller.put(source, f"moves-{number}")
            self.assertTrue(caller.dialect.moved(stored), str(stored))
            got = caller.get(into, f"moves-{number}")
            self.assertTrue(caller.dialect.moved(got), str(got))
            self.assertEqual(into.bytes(), data)
            caller.end_case()

    def prepared(self, caller, window, op, key, **options):
        transfer = caller.dialect.prepare(caller, window, op, caller.path(key), **options)
        self.assertEqual(transfer.reply.status, 200, str(transfer.reply))
        return transfer

    def storm(self, attack, gauge, bound, others, threads=4, times=50):
        """`attack(n)` in several threads: a status. The gauge stays within its bound meanwhile, and `others` are served."""
        statuses, problems, highest = [], [], 0

        def run(first):
            try:
                statuses.extend(attack(first + number) for number in range(times))
            except Exception as error:  # noqa: BLE001: told to the test
                problems.append(error)
        running = [threading.Thread(target=run, args=(first * times,)) for first in range(threads)]
        for one in running:
            one.start()
        while any(one.is_alive() for one in running):
            highest = max(highest, self.gauge(gauge))
            for other in others:
                self.moves(other, times=1)
        for one in running:
            one.join()
        self.assertEqual(problems, [])
        self.assertEqual(set(statuses) - {200, 503}, set())
        highest = max(highest, self.gauge(gauge))
        self.assertLessEqual(highest, bound)
        return statuses

    def test_a_storm_of_sessions_of_one_account_leaves_others_their_places(self):
        thief, other = self.caller(HIPOBJ, self.mallory), self.caller(HIPOBJ, self.root)
        thief.store("object", b"x" * 100)
        window, sessions = thief.window(100), []

        def attack(_):
            reply = thief.dialect.prepare(thief, window, "GET", thief.path("object"), connect=False).reply
            if reply.status == 200:
                sessions.append(reply.header("x-amz-rdma-session"))
            return reply.status
        statuses = self.storm(attack, "verbena_rdma_rc_sessions", ACCOUNT_MAX + 1, [other])  # and the other's own
        for session in sessions:
            thief.dialect.cancel(thief, session)
        self.assertIn(503, statuses)
        self.moves(thief)

    def test_a_storm_of_connections_of_one_account_leaves_others_their_places(self):
        thief, other = self.caller(CUOBJ, self.mallory), self.caller(CUOBJ, self.root)

        def attack(number):
            """Every fourth connection is ended again."""
            window = thief.window(16)
            reply = thief.dialect.connect(thief, window)
            if number % 4 == 0:
                window.close()
            return reply.status
        statuses = self.storm(attack, "verbena_rdma_rc_connections", ACCOUNT_MAX + 2, [other])
        thief.end_case()
        self.assertIn(503, statuses)
        self.moves(thief)

    def test_a_storm_of_unsigned_connections_of_one_address_leaves_others_their_places(self):
        thief, neighbour = self.caller(CUOBJ, None, "127.0.0.3"), self.caller(CUOBJ, None, "127.0.0.4")
        other = self.caller(CUOBJ, self.root, "127.0.0.3")

        def attack(_):
            return thief.dialect.connect(thief, thief.window(16)).status
        statuses = self.storm(attack, "verbena_rdma_rc_connections", UNSIGNED_CLIENT_MAX + 2, [other])
        self.assertIn(503, statuses)
        self.assertEqual(neighbour.dialect.connect(neighbour, neighbour.window(16)).status, 200, "another address has places of its own")
        for one in (thief, neighbour):
            one.end_case()

    def test_handshakes_that_stop_half_way_hold_up_no_others_and_end(self):
        thief, other = self.caller(HIPOBJ, self.mallory, "127.0.0.5"), self.caller(HIPOBJ, self.root)
        quick = self.caller(CUOBJ, self.root)
        halves = []
        for number in range(60):
            window = thief.window(4096)
            thief.dialect.prepare(thief, window, "PUT", thief.path(f"never-{number}"), connect=number % 2 == 0)
            head = wire.request(thief.credentials, thief.host, "POST", "/.hipobj-rc/prepare", headers=thief.dialect.headers({"op": "PUT"}))
            half = BoundConnection(thief.endpoint_url, "127.0.0.5")
            half.send(head[:len(head) // 2])
            halves.append(half)
        self.moves(other, 200_000, times=5)
        self.moves(quick, 200_000, times=5)
        for half in halves:
            half.close(abruptly=True)
        self.moves(other)
        deadline = time.monotonic() + 100  # READY must come within 10 s
        while self.gauge("verbena_rdma_rc_sessions") and time.monotonic() < deadline:
            time.sleep(0.3)
        self.assertEqual(self.gauge("verbena_rdma_rc_sessions"), 0)
        self.assertFalse(thief.exists("never-0"))
        self.moves(thief)

    def test_other_sequence_numbers_on_a_live_connection_move_nothing(self):
        caller = self.caller(CUOBJ, self.root)
        data = wire.random_bytes(5000)
        caller.store("object", data)

        def expect_body(window, before):
            reply = caller.get(window, "object")
            self.assertTrue(caller.dialect.declined(reply), str(reply))
            self.assertEqual(reply.body, data)
            self.assertEqual(window.bytes(), before)
        # The client expects another number of the server's packets than was told.
        wrong = caller.window(5000)
        untouched, connect = wrong.bytes(), wrong.connect
        wrong.connect = lambda number, sequence, gid: connect(number, sequence % 0xFFFFFF + 1, gid)
        expect_body(wrong, untouched)
        expect_body(wrong, untouched)  # the connection has ended
        # A live connection's client begins anew: another queue pair and number, the old session.
        window = caller.window(5000)
        self.assertTrue(caller.dialect.moved(caller.get(window, "object")))
        self.assertEqual(window.bytes(), data)
        server = caller.dialect.connect(caller, other := caller.window(16))
        window.renew()
        number, gid, _, _, _ = dialects.rc.parse(server.header("x-amz-rdma-reply")[4:])
        window.connect(number, 1, gid)  # to a server's queue pair that is another's
        caller.store("object", data := wire.random_bytes(5000))
        expect_body(window, window.bytes())
        other.close()
        self.moves(caller)
        hip = self.caller(HIPOBJ, self.root)
        hip.store("object", data)
        window = hip.window(5000)
        transfer = self.prepared(hip, window, "GET", "object", connect=False)
        number, gid, _, _, _ = dialects.rc.parse(transfer.reply.header("x-amz-rdma-reply")[4:])
        window.connect(number, int(transfer.reply.header("x-amz-rdma-psn"), 16) % 0xFFFFFF + 1, gid)
        before = window.bytes()
        self.assertIn(hip.dialect.ready(hip, transfer).status, (408, 500))
        self.assertEqual(window.bytes(), before)
        self.moves(hip)

    def test_a_queue_pair_of_another_is_neither_written_nor_ended(self):
        victim, thief = self.caller(CUOBJ, self.root), self.caller(CUOBJ, self.mallory)
        data, loot = wire.random_bytes(5000), wire.random_bytes(5000)
        victim.store("object", data)
        thief.store("loot", loot)
        lent = victim.window(5000, "both")
        self.assertTrue(victim.dialect.moved(victim.get(lent, "object")))
        # A connection that names the other's queue pair, and a token that names its memory.
        own = thief.window(5000)
        reply = thief.dialect.connect(thief, own, **{"x-amz-rdma-token": lent.description()})
        self.assertEqual(reply.status, 200, str(reply))
        stolen = {"base": lent.address, "key": lent.key}
        for token in (thief.dialect.token(own, **stolen), thief.dialect.token(lent), thief.dialect.token(lent, base=own.address, key=own.key)):
            reply = thief.get(own, "loot", token=token)
            self.assertTrue(thief.dialect.declined(reply), str(reply))
            self.assertEqual(reply.body, loot)
            reply = thief.put(own, "taken", token=token)
            self.assertTrue(thief.dialect.declined(reply) or reply.status == 500, str(reply))
            self.assertFalse(thief.exists("taken"))
            self.assertEqual(lent.bytes(), data)
        self.assertEqual(thief.dialect.disconnect(thief, lent.session).status, 204)
        session, later = lent.session, wire.random_bytes(5000)
        victim.store("object", later)
        self.assertTrue(victim.dialect.moved(victim.get(lent, "object")), "its connection goes on")
        self.assertEqual((lent.session, lent.bytes()), (session, later))

    def test_a_session_of_another_is_neither_used_nor_ended(self):
        victim, thief = self.caller(HIPOBJ, self.root), self.caller(HIPOBJ, self.mallory)
        data = wire.random_bytes(5000)
        victim.store("object", data)
        window, own = victim.window(5000), thief.window(5000)
        theirs = self.prepared(victim, window, "GET", "object")
        before = own.bytes()
        self.assertEqual(thief.dialect.ready(thief, theirs, mr_addr=f"{own.address:x}", mr_rkey=f"{own.key:x}", qpn=f"{own.number:x}").status, 404)
        self.assertEqual(thief.dialect.cancel(thief, theirs.session).status, 204)
        self.assertEqual(own.bytes(), before)
        self.assertTrue(victim.dialect.moved(victim.dialect.ready(victim, theirs)), "its session is there")
        self.assertEqual(window.bytes(), data)
        # READY names another's queue pair than PREPARE's token.
        thief.store("loot", wire.random_bytes(5000))
        lent = victim.window(5000)
        before, transfer = lent.bytes(), self.prepared(thief, own, "GET", "loot")
        reply = thief.dialect.ready(thief, transfer, qpn=f"{lent.number:x}", mr_addr=f"{lent.address:x}", mr_rkey=f"{lent.key:x}")
        self.assertEqual(reply.status, 400, str(reply))
        transfer = self.prepared(thief, own, "GET", "loot", fields={"token": lent.description()})
        with contextlib.suppress(Failed):
            reply = thief.dialect.ready(thief, transfer, qpn=f"{lent.number:x}", mr_addr=f"{lent.address:x}", mr_rkey=f"{lent.key:x}")
            self.assertFalse(thief.dialect.moved(reply), str(reply))
        self.assertEqual(lent.bytes(), before)
        self.moves(victim)


if __name__ == "__main__":
    unittest.main(verbosity=2, warnings="ignore")
