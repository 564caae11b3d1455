#!/usr/bin/python3
"""Three servers over one cluster are linearizable through all doors, while servers and OSDs are killed and frozen and
tablets are split.

Client threads, one for each server and door (S3 over HTTP, tokens, native), work on a few things at a time: keys that
are put, created (If-None-Match), swapped (If-Match) and deleted; keys with versions; pairs of keys that are renamed; a
bucket whose policy admits or denies a user, which is one thing for all servers. Other threads read, write and remove
many keys in one message (history_batches.py): most operations are theirs. Each thing has a history, which
tests/lib/history.py checks when it is long enough; then another thing replaces it. A request to a killed or frozen
server has an unknown outcome. One more pair of threads reads large objects slowly while they are overwritten.

Planted in a build and caught: see docs/cluster.md.

Also reported: bytes of no write or of two writes, a 500, and a read that breaks without a fault at its server.

usage: history_test.py PYTHON_FOLDER [--operations N] [--seconds N] [--seed N] [--calm] [--then PROGRAM] [--logs FOLDER]

It runs until both numbers are reached. --calm: without faults (else: history_harm.py). --then: an upgrade under load
(history_upgrade.py).
--logs: the folder for the logs of servers and OSDs after a failure.
By hand: history_test.py build/python --operations 10000000
"""
import argparse
import collections
import http.client
import itertools
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import sys
import threading
import time
import traceback
import urllib.parse
import xml.etree.ElementTree as tree

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "lib"), str(TESTS / "express")]
from history import ABSENT, UNKNOWN, Call  # noqa: E402
from ceph_cluster import CephCluster, skip_without_ceph  # noqa: E402
from history_batches import NOT_SENT, SHARE_LASTS_S, batch_clients  # noqa: E402
from history_harm import OSDS, Harm, Nemesis  # noqa: E402
from history_large import LargeObjects  # noqa: E402
from history_servers import SPLIT_ROWS, SPLIT_ROWS_LONG, TOTALS, Server, memory_of, tablets_of  # noqa: E402
from history_sweep import Sweep  # noqa: E402
from history_things import BATCHED_LONG, LIVE, Thing, body_of, check, md5, value_of  # noqa: E402
from history_upgrade import Upgrade  # noqa: E402
from express_case import ZONE, Express, make_user  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, boto3_client  # noqa: E402

SERVERS = 3
DOORS = ("http", "token", "native")
THREADS = 1          # of each server and door
PLAIN, VERSIONED, DIRECTORY, LARGE = "plain", "versioned", f"pairs--{ZONE}--x-s3", "large"
TIMEOUT_MS = 4000
CHECKS_MAX = 2000    # waiting histories; above this, threads pause until the checker catches up
READS_TO_KEEP = 6    # a server takes a read lease after finding a key current four times
# An OSD that missed more than a hundred changes accepts writes while it recovers, unless this option is set
# (docs/cluster.md).
CEPH = ("osd async recovery min cost = 1000000000",)
OPERATIONS, SECONDS, LONG = 100_000, 100, 1_000_000


class Run:
    nemesis = Nemesis
    first_program = None  # with which the servers begin; None: the program under test

    def __init__(self, arguments, verbena, pool):
        self.arguments, self.verbena, self.pool = arguments, verbena, pool
        self.choose = random.Random(arguments.seed)
        self.lock = threading.Lock()
        self.things = collections.defaultdict(list)
        self.osds = Harm("OSD")
        self.serial, self.value_serial = 0, itertools.count()
        self.counts = collections.Counter()
        self.wrong, self.checks = [], []
        self.is_long = arguments.operations > LONG
        self.began = time.monotonic()
        self.upgrade = Upgrade(self, arguments.then)
        self.stop = threading.Event()
        self.servers = []
        self.failures = (verbena.errors.VerbenaError, OSError, http.client.HTTPException)

    def random(self, name):
        return random.Random(f"{self.arguments.seed}.{name}")

    def progress(self):
        """The fraction of the run that is over."""
        return min(self.counts["operations"] / self.arguments.operations, (time.monotonic() - self.began) / max(1, self.arguments.seconds))

    # Things.

    def live(self, group):
        live = self.things[group]
        while len(live) < (BATCHED_LONG if self.is_long and group == "batched" else LIVE[group]):
            self.serial += 1
            live.append(Thing(group, self.serial))
        return live

    def thing(self, group, choose):
        """A thing to work on; the thread calls done() with it afterwards."""
        with self.lock:
            found = choose.choice(self.live(group))
            found.users += 1
            return found

    def many_things(self, choose, count, others, share):
        """Several registers; `others` of them are shared with threads that never stop; `share`: of one server's
        share, or None."""
        with self.lock:
            found = self.live("batched")
            if share is not None:
                turn = share + int(time.monotonic() / SHARE_LASTS_S)
                found = [thing for thing in found if (thing.serial + turn) % SERVERS == 0]
                first = choose.randrange(max(1, len(found) - 2 * count))
                found = found[first:first + 2 * count]
            found = choose.sample(self.live("register"), others) + choose.sample(found, min(count - others, len(found)))
            for thing in found:
                thing.users += 1
            return found

    def done(self, things_and_calls, what="calls by themselves"):
        noted = 0
        with self.lock:
            for thing, call in things_and_calls:
                thing.users -= 1
                read_nothing = call is not None and call.answer == UNKNOWN and call.kind in ("get", "get_version", "list", "see")
                if call is not None and call.answer != NOT_SENT and not read_nothing:
                    thing.calls.append(call)
                    thing.unknown += call.answer == UNKNOWN
                    noted += 1
                if not thing.over and thing.is_full():
                    self.things[thing.group].remove(thing)
                    thing.over = True
                if thing.over and thing.users == 0:
                    self.submit(thing)
            self.counts["operations"] += noted
            self.counts[what] += noted

    def submit(self, thing):
        self.counts["histories"] += 1
        self.checks.append(self.pool.apply_async(check, (thing.kind, thing.name, thing.start, thing.calls)))
        self.sweep.take(thing)

    def wait_for_checks(self):
        while len(self.checks) > CHECKS_MAX and not self.stop.wait(0.1):
            pass

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
        except (self.verbena.errors.VerbenaError, TypeError):  # dead or frozen; TypeError: no address now
            return None

    def outcome(self, server, call, act):
        """Makes a call and records its answer: the result of act(), a status, or UNKNOWN."""
        call.begin()
        try:
            answer = act()
        except self.failures as error:
            answer = self.answer_to(server, call, error)
        call.end(answer)
        return answer

    def answer_to(self, server, call, error):
        """The answer that an exception stands for: a status, UNKNOWN, or NOT_SENT."""
        errors = self.verbena.errors
        for kind, answer in ((errors.NoSuchKey, 404), (errors.PreconditionFailed, 412), (errors.AccessDenied, 403)):
            if isinstance(error, kind):
                return answer
        if isinstance(error, errors.ConnectionFailed):  # nothing reached the server
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
        """Reads must not break without a fault, and no damage may be found."""
        status, code = getattr(error, "http_status", 0), getattr(error, "s3_code", "")
        self.counts[f"unknown: {type(error).__name__} {code}".strip()] += 1
        if status == 500 or code == "InternalError":
            self.fail(f"{call!r}: {type(error).__name__} {code} {error}\n{server.log()[-3000:]}")
        broken = not status and not isinstance(error, (self.verbena.errors.TimedOut, TimeoutError)) and not code
        broken = broken and not isinstance(error, self.verbena.errors.SlowDown)
        if broken and not server.harm.was_harmed(call.began) and not self.osds.was_harmed(call.began, lasts=10):
            if server.cluster_was_late(call.began):
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
            except (self.verbena.errors.VerbenaError, TypeError):  # dead or frozen; TypeError: no address now
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
        """Runs a thread's work: an unexpected exception ends the run."""
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
            # Sometimes often enough that the server takes a read lease on the key. The last read counts in the history.
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
            if not thing.version_ids or "native" in by:  # over native only batches have version ids
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
        # Far apart in the order of keys, so that they soon are in different tablets.
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
        """Each policy history has a bucket of its own, created by the first thread that needs it, until that is
        acknowledged."""
        with thing.lock:
            if not thing.values:
                try:
                    if s3.call("PUT", f"/{bucket}").status in (200, 409) and s3.call("PUT", f"/{bucket}/k", "secret").status == 200:
                        thing.values.append(bucket)
                except (OSError, http.client.HTTPException):
                    s3.connection.close()
            return bool(thing.values)

    # All of it.

    def split_rows_of(self, _):
        return SPLIT_ROWS_LONG if self.is_long else SPLIT_ROWS

    def prepare(self, ceph):
        self.sweep = Sweep(self, ceph, {"register": PLAIN, "versions": VERSIONED, "pair": DIRECTORY})
        while len(self.servers) < SERVERS:
            number = len(self.servers)
            self.servers.append(Server(ceph, number, self.split_rows_of(number), *self.servers[:1]))
            self.servers[-1].program = self.first_program
            self.servers[-1].start()
        s3 = boto3_client(self.servers[0].http)
        for bucket in (PLAIN, VERSIONED, LARGE):
            s3.create_bucket(Bucket=bucket)
        s3.put_bucket_versioning(Bucket=VERSIONED, VersioningConfiguration={"Status": "Enabled"})
        # The rule runs all the time over all objects; no object has the tag.
        s3.put_bucket_lifecycle_configuration(Bucket=VERSIONED, LifecycleConfiguration={"Rules": [
            {"ID": "nothing", "Status": "Enabled", "Filter": {"Tag": {"Key": "no", "Value": "object"}}, "Expiration": {"Days": 1},
             "NoncurrentVersionExpiration": {"NoncurrentDays": 1}}]})
        Express(self.servers[0].http).make_bucket(DIRECTORY)
        self.user_keys = make_user(self.servers[0].http, "reader", {"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "s3:ListAllMyBuckets", "Resource": "*"}]})

    def go(self, ceph):
        self.prepare(ceph)
        threads = []
        for i in range(THREADS * SERVERS * len(DOORS)):
            server, door = self.servers[i % SERVERS], DOORS[i // SERVERS % len(DOORS)]
            threads.append(threading.Thread(target=self.guarded, args=(self.worker, i, server, door)))
        for client in batch_clients(self, PLAIN):
            threads.append(threading.Thread(target=self.guarded, args=(client.work,)))
        large = LargeObjects(self, LARGE)
        works = [large.write, large.read_slowly, self.sweep.remove_keys, self.sweep.repair, self.sweep.watch_pages]
        if self.arguments.calm:
            works.append(self.upgrade.work)
        threads += [threading.Thread(target=self.guarded, args=(work,)) for work in works]
        if not self.arguments.calm:
            threads += self.nemesis(self, ceph).threads()
        self.began = told = time.monotonic()
        operations = 0
        for thread in threads:
            thread.start()
        while not self.stop.wait(0.5):
            self.take_checks(wait=False)
            now = time.monotonic()
            if now > told + 30:
                self.tell((self.counts["operations"] - operations) / (now - told), ceph)
                told, operations = now, self.counts["operations"]
            if self.counts["operations"] >= self.arguments.operations and now - self.began >= self.arguments.seconds:
                break
        self.stop.set()
        for thread in threads:
            thread.join()
        for name, what in TOTALS.items():
            self.counts[what] = round(sum(server.total(name) for server in self.servers))
        self.note_processor_time(ceph)
        self.counts["seconds"] = round(time.monotonic() - self.began)
        for things in self.things.values():
            for thing in things:
                self.submit(thing)
        self.take_checks(wait=True)

    def pids_of_servers(self):
        return [process.pid for process in [server.process for server in self.servers] if process]

    def tell(self, rate, ceph):
        """Wakes the waiting threads."""
        counts = self.counts
        print(f"{time.monotonic() - self.began:6.0f} s: {counts['operations']} operations ({rate:.0f}/s; {counts['changes in batches']} changes"
              f" to {counts['reads in batches']} reads in batches), {counts['histories']} histories"
              f" ({len(self.checks)} to check); servers killed {counts['servers killed']}, frozen {counts['servers frozen']},"
              f" OSDs frozen {counts['osds frozen']}; MB here {memory_of([os.getpid()])}, in servers {memory_of(self.pids_of_servers())},"
              f" in Ceph {memory_of(ceph.pids())}", flush=True)

    def note_processor_time(self, ceph):
        """CPU time, reported when the machine is busy."""
        for who, pids in (("this test", [os.getpid()]), ("servers (those that were killed: from their last start)", self.pids_of_servers()),
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

    def keep_logs(self, ceph):
        """Keeps the logs for an investigation."""
        folder = pathlib.Path(self.arguments.logs)
        shutil.copytree(ceph.folder / "log", folder / "ceph", dirs_exist_ok=True)
        for i, server in enumerate(self.servers):
            shutil.copy(server.log_path, folder / f"server{i}.log")
        (folder / "wrong").write_text("\n\n".join(self.wrong))

    def report(self):
        for what, count in sorted(self.counts.items()):
            print(f"{count:8d}  {what}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("python_folder")
    parser.add_argument("--operations", type=int, default=OPERATIONS)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--calm", action="store_true")
    parser.add_argument("--logs", metavar="FOLDER")
    parser.add_argument("--then", metavar="PROGRAM", type=os.path.abspath)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    sys.path.insert(0, arguments.python_folder)
    with multiprocessing.Pool(1) as pool:  # before any thread is started
        import verbena
        run = Run(arguments, verbena, pool)
        with CephCluster(osds=OSDS, more=CEPH) as ceph:
            ceph.pool("index")
            ceph.pool("data")
            try:
                run.go(ceph)
                tablets = 0 if run.wrong else tablets_of(ceph)
            finally:
                run.stop.set()
                if run.wrong and arguments.logs:
                    run.keep_logs(ceph)
                for server in run.servers:
                    server.__exit__(ValueError, None, None)
        run.report()
        print(f"{tablets:8d}  tablets at the end")
        if run.wrong:
            print("WRONG:", *run.wrong[:5], sep="\n\n")
            print("\nWhat was done last:", *run.osds.told(), *(line for server in run.servers for line in server.harm.told()), sep="\n")
            return 1
        assert tablets > 10, "no tablet was split"
        assert run.counts["read leases that were taken"] and run.counts["read leases that were recalled"], "no read lease was taken, or none was recalled"
        assert run.counts["slow reads"] and run.counts["large puts"], "large objects were neither read nor written"
        if run.counts["undecided histories"]:
            print("some histories were too long to be decided")
        return 0


if __name__ == "__main__":
    skip_without_ceph()
    sys.exit(main())
