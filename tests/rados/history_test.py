#!/usr/bin/python3
"""What three servers over one cluster do through all doors, while servers and OSDs are killed and frozen and tablets are split, is linearizable.

Threads of clients, one for each server and door (S3 over HTTP, tokens, native), work on a few things at a time: keys that are put, created
(If-None-Match), swapped (If-Match) and deleted; keys with versions; pairs of keys that are renamed; a bucket whose policy lets a user in
and shuts him out, which is one thing for all servers. Others read, write and remove many keys in one message (history_batches.py): most operations are theirs. Each thing has its history, which tests/lib/history.py checks when it is long enough; then another thing takes its
place. What a killed or frozen server was asked has an unknown outcome. One more pair of threads reads large objects slowly while they are
overwritten.

Planted in a build and caught: see docs/cluster.md.

Found out besides: bytes that are of no write or of two, a 500, and a read that breaks although nothing was done to its server.

usage: history_test.py PYTHON_FOLDER [--operations N] [--seconds N] [--seed N] [--calm]

It goes on until both numbers are reached. --calm: nobody is harmed (else: history_harm.py). By hand: history_test.py build/python --operations 10000000
"""
import argparse
import collections
import hashlib
import http.client
import itertools
import json
import multiprocessing
import os
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time
import traceback
import urllib.parse
import xml.etree.ElementTree as tree

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "lib"), str(TESTS / "express")]
import history  # noqa: E402
from history import ABSENT, UNKNOWN, Call  # noqa: E402
import verbena_server  # noqa: E402
from ceph_cluster import CephCluster, skip_without_ceph  # noqa: E402
from history_batches import NOT_SENT, BatchClient  # noqa: E402
from history_harm import OSDS, Harm, Nemesis  # noqa: E402
from keeps_test import metric  # noqa: E402
from express_case import ZONE, Express, make_user  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, boto3_client  # noqa: E402

SERVERS = 3
DOORS = ("http", "token", "native")
THREADS = 1          # of each server and door
BATCH_THREADS = 2    # of each server
PLAIN, VERSIONED, DIRECTORY, LARGE = "plain", "versioned", f"pairs--{ZONE}--x-s3", "large"
SIZES = (20, 20, 500, 12_000, 40_000, 200_000)
SIZES_BATCHED = (20,) * 5 + (500, 500, 2000, 12_000)
LARGE_SIZE = 32 << 20
LIVE = {"register": 6, "batched": 800, "versions": 3, "pair": 3, "setting": 1}  # things at a time
STARTS = {"register": ABSENT, "versions": (), "pair": (ABSENT, ABSENT), "setting": "deny"}
CALLS = {"register": 60, "batched": 40, "versions": 40, "pair": 60, "setting": 80}
UNKNOWN_MAX = 6      # of one thing: each makes the search longer
TIMEOUT_MS = 4000
SPLIT_ROWS = 150
READS_TO_KEEP = 6    # a server keeps what it has found current four times
TOTALS = {"verbena_rados_keeps_total": "keys that were kept", "verbena_rados_keepers_told_total": "keepers that were told"}
OPERATIONS, SECONDS = 100_000, 60


class Server(verbena_server.Server):
    def __init__(self, ceph, first=None):
        super().__init__()
        settings = {"conf": ceph.conf, "pool": "data", "index_pool": "index", "timeout": 3, "split_rows": SPLIT_ROWS}
        self.args = ["--engine", "rados"] + [word for key, value in settings.items() for word in ("--set", f"rados.{key}={value}")]
        if first:
            self.args += ["--set", f"encryption.key_file={first.directory}/master.keys"]
        self.generation = self.late_calls = 0
        self.harm = Harm()
        self.totals = collections.Counter()  # of its lives before this one

    def start(self):
        for attempt in range(5):
            try:
                super().start()
                break
            except RuntimeError:  # the cluster may be harmed, too
                if attempt == 4:
                    raise
                time.sleep(2)
        self.generation += 1
        self.late_calls = 0
        return self

    def kill(self):
        if self.http is not None:
            for name in TOTALS:
                self.totals[name] += metric(self, name)
        super().kill()

    def cluster_was_late(self):
        """Whether calls to the cluster were not answered in time since this was asked last: the machine may have other things to do."""
        seen, self.late_calls = self.late_calls, metric(self, "verbena_rados_late_calls_total")
        return self.late_calls > seen


def body_of(value):
    """Bytes that name their write in every line; a value ends in its size."""
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


def small_socket(connection):
    """One that takes little before it is read."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    made.settimeout(connection.timeout)
    made.connect((connection.host, connection.port))
    return made


class Thing:
    """`group`: those that are chosen from together. What is batched is a register, too; such keys lie side by side, in tablets that split under
    them, the others anywhere."""

    def __init__(self, group, serial):
        self.group = group
        self.name = f"many/{serial:07d}" if group == "batched" else f"{serial * 7919 % 10007:05d}/{serial}"
        self.sizes = SIZES_BATCHED if group == "batched" else SIZES
        self.kind = "register" if group == "batched" else group
        self.start = STARTS[self.kind]
        self.lock = threading.Lock()
        self.calls, self.users, self.unknown, self.over = [], 0, 0, False
        self.values = []      # that a put was begun of
        self.etags = {}       # value -> entity tag, where it is known
        self.version_ids = {}  # value -> id

    def is_full(self):
        return len(self.calls) >= CALLS[self.group] or self.unknown >= UNKNOWN_MAX


def check(kind, name, start, calls):
    """In another process. None, or what is wrong."""
    try:
        if history.linearizable(calls, start, getattr(history, kind)):
            return None
    except history.Undecided:
        return "undecided"
    return "\n".join([f"{kind} {name} has no order that explains:", *map(repr, sorted(calls, key=lambda call: call.began))])


class Run:
    def __init__(self, arguments, verbena, pool):
        self.arguments, self.verbena, self.pool = arguments, verbena, pool
        self.choose = random.Random(arguments.seed)
        self.lock = threading.Lock()
        self.things = collections.defaultdict(list)
        self.osds = Harm()
        self.serial, self.value_serial = 0, itertools.count()
        self.counts = collections.Counter()
        self.wrong, self.checks = [], []
        self.stop = threading.Event()
        self.servers = []
        self.failures = (verbena.errors.VerbenaError, OSError, http.client.HTTPException)

    def random(self, name):
        return random.Random(f"{self.arguments.seed}.{name}")

    # Things.

    def live(self, group):
        live = self.things[group]
        while len(live) < LIVE[group]:
            self.serial += 1
            live.append(Thing(group, self.serial))
        return live

    def thing(self, group, choose):
        """One to work on; whoever has it says done()."""
        with self.lock:
            found = choose.choice(self.live(group))
            found.users += 1
            return found

    def many_things(self, choose, count, others):
        """Likewise: registers, `others` of them of those that other threads work on all the time."""
        with self.lock:
            found = choose.sample(self.live("register"), others) + choose.sample(self.live("batched"), count - others)
            for thing in found:
                thing.users += 1
            return found

    def done(self, things_and_calls):
        with self.lock:
            for thing, call in things_and_calls:
                thing.users -= 1
                read_nothing = call is not None and call.answer == UNKNOWN and call.kind in ("get", "get_version", "list", "see")
                if call is not None and call.answer != NOT_SENT and not read_nothing:
                    thing.calls.append(call)
                    thing.unknown += call.answer == UNKNOWN
                    self.counts["operations"] += 1
                if not thing.over and thing.is_full():
                    self.things[thing.group].remove(thing)
                    thing.over = True
                if thing.over and thing.users == 0:
                    self.submit(thing)

    def submit(self, thing):
        self.counts["histories"] += 1
        self.checks.append(self.pool.apply_async(check, (thing.kind, thing.name, thing.start, thing.calls)))

    def fail(self, what):
        with self.lock:
            self.wrong.append(what)
        self.stop.set()

    # Clients.

    def connect(self, server, door, keys=(ACCESS_KEY, SECRET_KEY)):
        http_address, native = server.http, server.native
        if http_address is None or native is None:
            raise TypeError("the server has no address now")
        options = {"endpoint": http_address, "native_endpoint": native, "access_key": keys[0], "secret_key": keys[1],
                   "via": door, "attempts_max": 1, "operation_timeout_ms": TIMEOUT_MS, "connect_timeout_ms": 1000}
        if door == "token":
            options["provider"] = "tcp"
        return self.verbena.Client(**options)

    def connect_or_none(self, server, door):
        try:
            return self.connect(server, door)
        except (self.verbena.errors.VerbenaError, TypeError):  # it is dead, or frozen; TypeError: it has no address now
            return None

    def outcome(self, server, call, act):
        """Does it and notes the answer: what act() gives, a status, or UNKNOWN."""
        call.begin()
        try:
            answer = act()
        except self.failures as error:
            answer = self.answer_to(server, call, error)
        call.end(answer)
        return answer

    def answer_to(self, server, call, error):
        """Which answer an exception is: a status, UNKNOWN, or NOT_SENT."""
        errors = self.verbena.errors
        for kind, answer in ((errors.NoSuchKey, 404), (errors.PreconditionFailed, 412), (errors.AccessDenied, 403)):
            if isinstance(error, kind):
                return answer
        if isinstance(error, errors.ConnectionFailed):  # nothing of it has reached the server
            self.look_at(server, call, error)
            return NOT_SENT
        if isinstance(error, errors.ChecksumMismatch):
            self.fail(f"{call!r}: {error}")
            return UNKNOWN
        answer = getattr(error, "http_status", 0)
        if answer not in (403, 404, 412):
            answer = UNKNOWN
            self.look_at(server, call, error)
        return answer

    def look_at(self, server, call, error):
        """Nothing may break without a reason, and nothing may be found damaged."""
        status, code = getattr(error, "http_status", 0), getattr(error, "s3_code", "")
        self.counts[f"unknown: {type(error).__name__} {code}".strip()] += 1
        if status == 500 or code == "InternalError":
            self.fail(f"{call!r}: {type(error).__name__} {code} {error}\n{server.log()[-3000:]}")
        broken = not status and not isinstance(error, (self.verbena.errors.TimedOut, TimeoutError)) and not code
        broken = broken and not isinstance(error, self.verbena.errors.SlowDown)
        if broken and not server.harm.was_harmed(call.began) and not self.osds.was_harmed(call.began, lasts=10):
            if server.cluster_was_late():
                self.counts["broken by a late cluster"] += 1
                return
            self.fail(f"{call!r}: nothing was done to the server, and yet: {type(error).__name__} {error}")

    # Work.

    def worker(self, number, server, door):
        choose = self.random(number)
        by = f"{self.servers.index(server)}.{door}"
        groups = ["register"] * 5 + ["batched"] * 2 + ["versions"] * 3 + ["pair"] * 3 + ["setting"] * 5
        client = user = s3 = None
        generation = 0
        while not self.stop.is_set():
            try:
                if generation != server.generation or client is None:
                    generation, client = server.generation, None
                    client, user = self.connect(server, door), self.connect(server, door, self.user_keys)
                    s3 = Express(server.http, service="s3")
                    s3.connection.timeout = TIMEOUT_MS / 1000
            except (self.verbena.errors.VerbenaError, TypeError):  # it is dead, or frozen; TypeError: it has no address now
                time.sleep(0.2)
                continue
            thing, call = self.thing(choose.choice(groups), choose), None
            try:
                call = getattr(self, f"on_{thing.kind}")(thing, choose, (server, client, user, s3), by)
            finally:
                self.done([(thing, call)])
            if call is not None and call.answer in (UNKNOWN, NOT_SENT):
                client = None
                time.sleep(0.3)

    def guarded(self, work, *arguments):
        """A thread's work: what it does not expect ends the run."""
        try:
            work(*arguments)
        except Exception:  # noqa: BLE001
            self.fail(traceback.format_exc())

    body_of, value_of = staticmethod(body_of), staticmethod(value_of)

    def new_value(self, thing, choose, by):
        value = f"{thing.name}.{next(self.value_serial)}.{by}:{choose.choice(thing.sizes)}"
        thing.values.append(value)
        return value

    @staticmethod
    def read(client, bucket, key, **options):
        body, reply = client.get_bytes(bucket, key, **options)
        return value_of(body), reply

    def on_register(self, thing, choose, door, by):
        server, client, _, _ = door
        kind = choose.choices(("get", "put", "create", "swap", "delete"), (8, 4, 2, 4, 2))[0]
        key = thing.name
        call = Call(kind, by=by)
        if kind == "get":
            # Often enough now and then that the server begins to keep the key. The last one is the history's.
            for _ in range(choose.choice((0, 0, 0, READS_TO_KEEP))):
                if self.outcome(server, Call(kind, by=by), lambda: self.read(client, PLAIN, key)[0]) in (UNKNOWN, NOT_SENT):
                    return None
            call = Call(kind, by=by)
            answer = self.outcome(server, call, lambda: self.read(client, PLAIN, key)[0])
            call.answer = ABSENT if answer == 404 else answer
        elif kind == "delete":
            self.outcome(server, call, lambda: client.delete(PLAIN, key) or 204)
        else:
            options = {"md5_etag": True}
            if kind == "create":
                options["if_none_match"] = "*"
            if kind == "swap":
                known = list(thing.etags.items())[-4:]
                if not known:
                    return None
                call.where, options["if_match"] = choose.choice(known)
            call.value = self.new_value(thing, choose, by)
            thing.etags[call.value] = md5(call.value)
            self.outcome(server, call, lambda: client.put(PLAIN, key, body_of(call.value), **options) and 200)
        return call

    def on_versions(self, thing, choose, door, by):
        server, client, _, s3 = door
        kind = choose.choices(("put", "delete", "get", "get_version", "drop", "list"), (5, 2, 5, 3, 3, 3))[0]
        key = thing.name
        call = Call(kind, by=by)
        if kind in ("get_version", "drop"):
            if not thing.version_ids or "native" in by:  # there only batches name versions
                return None
            call.value = choose.choice(list(thing.version_ids))
            named = {"version_id": thing.version_ids[call.value]}
            if kind == "drop":
                self.outcome(server, call, lambda: client.delete(VERSIONED, key, **named) or 204)
            else:
                answer = self.outcome(server, call, lambda: self.read(client, VERSIONED, key, **named)[0])
                call.answer = ABSENT if answer == 404 else answer
        elif kind == "put":
            call.value = self.new_value(thing, choose, by)

            def put():
                reply = client.put(VERSIONED, key, body_of(call.value), md5_etag=True)
                thing.version_ids[call.value] = reply.version_id
                return 200
            self.outcome(server, call, put)
        elif kind == "delete":
            self.outcome(server, call, lambda: client.delete(VERSIONED, key) or 204)
        elif kind == "get":
            answer = self.outcome(server, call, lambda: self.read(client, VERSIONED, key)[0])
            call.answer = ABSENT if answer == 404 else answer
        else:
            call.by += "(http)"
            answer = self.outcome(server, call, lambda: self.list_versions(s3, key))
            if isinstance(answer, tuple):
                with self.lock:
                    by_etag = {md5(value): value for value in thing.values}
                call.answer = tuple("-" if etag is None else by_etag.get(etag, etag) for etag in answer)
        return call

    def list_versions(self, s3, key):
        """Entity tags of the key's versions, newest first; None for a delete marker."""
        reply = s3.call("GET", f"/{VERSIONED}?versions=&prefix={urllib.parse.quote(key, safe='')}")
        if reply.status != 200:
            raise self.error(reply)
        found = []
        for one in tree.fromstring(reply.body):
            kind = one.tag.rsplit("}", 1)[-1]
            fields = {child.tag.rsplit("}", 1)[-1]: child.text for child in one}
            if kind in ("Version", "DeleteMarker") and fields["Key"] == key:
                found.append(None if kind == "DeleteMarker" else fields["ETag"].strip('"'))
        return tuple(found)

    def error(self, reply):
        return self.verbena.errors.ServerError(f"status {reply.status}", reply.code or "", "", reply.status)

    def on_pair(self, thing, choose, door, by):
        server, client, _, _ = door
        kind = choose.choices(("rename", "keep", "put", "delete", "get"), (5, 2, 4, 2, 6))[0]
        # Far from each other, so that they lie in different tablets before long.
        names = (f"a{thing.name}", f"z{thing.name}")
        call = Call(kind, where=choose.randrange(2), by=by)
        mine, other = names[call.where], names[1 - call.where]
        if kind == "put":
            call.value = self.new_value(thing, choose, by)
            self.outcome(server, call, lambda: client.put(DIRECTORY, mine, body_of(call.value)) and 200)
        elif kind == "delete":
            self.outcome(server, call, lambda: client.delete(DIRECTORY, mine) or 204)
        elif kind == "get":
            answer = self.outcome(server, call, lambda: self.read(client, DIRECTORY, mine)[0])
            call.answer = ABSENT if answer == 404 else answer
        else:
            options = {"if_none_match": "*"} if kind == "keep" else {}
            self.outcome(server, call, lambda: client.rename(DIRECTORY, mine, other, **options) or 200)
        return call

    def on_setting(self, thing, choose, door, by):
        server, _, user, s3 = door
        bucket = "policy-" + thing.name.replace("/", "-")
        if not self.is_made(thing, s3, bucket):
            return None
        if choose.random() > 0.12:
            call = Call("see", by=by)
            answer = self.outcome(server, call, lambda: user.get_bytes(bucket, "k") and "allow")
            call.answer = "deny" if answer == 403 else answer
            return call
        call = Call("set", choose.choice(("allow", "deny")), by=f"{by}(http)")
        policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
                                                         "Resource": f"arn:aws:s3:::{bucket}/*"}]}

        def change():
            if call.value == "allow":
                reply = s3.call("PUT", f"/{bucket}?policy", json.dumps(policy))
            else:
                reply = s3.call("DELETE", f"/{bucket}?policy")
            if reply.status not in (200, 204):
                raise self.error(reply)
            return 200
        self.outcome(server, call, change)
        return call

    @staticmethod
    def is_made(thing, s3, bucket):
        """Each history of a policy has a bucket of its own; whoever comes first makes it, until that was acknowledged."""
        with thing.lock:
            if not thing.values:
                try:
                    if s3.call("PUT", f"/{bucket}").status in (200, 409) and s3.call("PUT", f"/{bucket}/k", "secret").status == 200:
                        thing.values.append(bucket)
                except (OSError, http.client.HTTPException):
                    s3.connection.close()
            return bool(thing.values)

    # Large objects.

    def large_writer(self):
        serial = 0
        while not self.stop.is_set():
            server = self.choose.choice(self.servers)
            serial += 1
            call = Call("put", f"large.{serial}:{LARGE_SIZE}", by=str(self.servers.index(server)))
            try:
                client = self.connect(server, "http")
            except (self.verbena.errors.VerbenaError, TypeError):
                time.sleep(0.2)
                continue
            self.outcome(server, call, lambda: client.put(LARGE, "k", body_of(call.value)) and 200)
            self.counts["large puts"] += call.answer == 200
            client.close()
            self.stop.wait(1.5)

    def slow_reader(self):
        """Reads the beginning, waits until it was overwritten and what nobody reads was removed, and reads the rest."""
        turn = 0
        while not self.stop.is_set():
            turn += 1
            server = self.servers[turn % SERVERS]
            call = Call("get", by=str(self.servers.index(server)))
            try:
                s3 = Express(server.http, service="s3")
                s3.connection.timeout = 30
                headers = s3.signed("GET", f"/{LARGE}/k")
            except Exception:  # noqa: BLE001  it has no address now
                time.sleep(0.2)
                continue

            def read():
                s3.connection.sock = small_socket(s3.connection)  # noqa: B023
                s3.connection.request("GET", f"/{LARGE}/k", headers=headers)  # noqa: B023
                reply = s3.connection.getresponse()  # noqa: B023
                if reply.status == 404:
                    return 404
                if reply.status != 200:
                    raise self.verbena.errors.ServerError("large", "", "", reply.status)
                first = reply.read(64 << 10)
                time.sleep(3.5)
                body = first + reply.read()
                if len(body) != int(reply.headers["content-length"]):
                    raise http.client.IncompleteRead(body[:20])
                return value_of(body)
            answer = self.outcome(server, call, read)
            if answer == "bytes of no write":
                self.fail(f"{call!r}: a large object's bytes")
            self.counts["slow reads"] += isinstance(answer, str) and answer != UNKNOWN
            s3.connection.close()

    # All of it.

    def prepare(self, ceph):
        self.servers.append(Server(ceph).start())
        while len(self.servers) < SERVERS:
            self.servers.append(Server(ceph, self.servers[0]).start())
        s3 = boto3_client(self.servers[0].http)
        for bucket in (PLAIN, VERSIONED, LARGE):
            s3.create_bucket(Bucket=bucket)
        s3.put_bucket_versioning(Bucket=VERSIONED, VersioningConfiguration={"Status": "Enabled"})
        Express(self.servers[0].http).make_bucket(DIRECTORY)
        self.user_keys = make_user(self.servers[0].http, "reader", {"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "s3:ListAllMyBuckets", "Resource": "*"}]})

    def go(self, ceph):
        self.prepare(ceph)
        threads = []
        for i in range(THREADS * SERVERS * len(DOORS)):
            server, door = self.servers[i % SERVERS], DOORS[i // SERVERS % len(DOORS)]
            threads.append(threading.Thread(target=self.guarded, args=(self.worker, i, server, door)))
        for i in range(BATCH_THREADS * SERVERS):
            client = BatchClient(self, self.servers[i % SERVERS], i, PLAIN)
            threads.append(threading.Thread(target=self.guarded, args=(client.work,)))
        threads += [threading.Thread(target=self.guarded, args=(work,)) for work in (self.large_writer, self.slow_reader)]
        if not self.arguments.calm:
            threads += Nemesis(self, ceph).threads()
        began = told = time.monotonic()
        for thread in threads:
            thread.start()
        while not self.stop.wait(0.5):
            self.take_checks(wait=False)
            if time.monotonic() > told + 30:
                told = time.monotonic()
                print(f"{told - began:6.0f} s: {self.counts['operations']} operations, {self.counts['histories']} histories", flush=True)
            enough = self.counts["operations"] >= self.arguments.operations
            if enough and time.monotonic() - began >= self.arguments.seconds:
                break
        self.stop.set()
        for thread in threads:
            thread.join()
        for name, what in TOTALS.items():
            self.counts[what] = round(sum(server.totals[name] + metric(server, name) for server in self.servers))
        self.note_processor_time(ceph)
        self.counts["seconds"] = round(time.monotonic() - began)
        for things in self.things.values():
            for thing in things:
                self.submit(thing)
        self.take_checks(wait=True)

    def note_processor_time(self, ceph):
        """What is told of a busy machine, too."""
        for who, pids in (("this test", [os.getpid()]), ("servers (those that were killed: from their last start)", [server.process.pid for server in self.servers]),
                          ("Ceph's daemons", ceph.pids())):
            ticks = sum(sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])) for pid in pids)
            self.counts[f"processor seconds of {who}"] = round(ticks / os.sysconf("SC_CLK_TCK"))

    def take_checks(self, wait):
        for one in list(self.checks):
            if not wait and not one.ready():
                continue
            self.checks.remove(one)
            said = one.get(600)
            if said == "undecided":
                self.counts["undecided histories"] += 1
            elif said is not None:
                self.fail(said)

    def report(self):
        for what, count in sorted(self.counts.items()):
            print(f"{count:8d}  {what}")


def tablets_of(ceph):
    """How many there are: that some were split is part of what is tested."""
    said = subprocess.run([verbena_server.program(), "rados", "status", "--json", "--set", f"rados.conf={ceph.conf}", "--set",
                           "rados.pool=data", "--set", "rados.index_pool=index"], stdout=subprocess.PIPE, timeout=60, check=True)
    return json.loads(said.stdout)["tablets"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("python_folder")
    parser.add_argument("--operations", type=int, default=OPERATIONS)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--calm", action="store_true")
    arguments = parser.parse_args()
    history.check_the_checker()
    print(f"seed {arguments.seed}", flush=True)
    sys.path.insert(0, arguments.python_folder)
    with multiprocessing.Pool(1) as pool:  # before there are threads
        import verbena
        run = Run(arguments, verbena, pool)
        with CephCluster(osds=OSDS) as ceph:
            ceph.pool("index")
            ceph.pool("data")
            try:
                run.go(ceph)
                tablets = tablets_of(ceph)
            finally:
                run.stop.set()
                for server in run.servers:
                    server.__exit__(ValueError, None, None)
        run.report()
        print(f"{tablets:8d}  tablets at the end")
        if run.wrong:
            print("WRONG:", *run.wrong[:5], sep="\n\n")
            return 1
        assert tablets > 10, "no tablet was split"
        assert run.counts["keys that were kept"] and run.counts["keepers that were told"], "no key was kept, or none was changed"
        assert run.counts["slow reads"] and run.counts["large puts"], "large objects were neither read nor written"
        if run.counts["undecided histories"]:
            print("some histories were too long to be decided")
        return 0


if __name__ == "__main__":
    skip_without_ceph()
    sys.exit(main())
