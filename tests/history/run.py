#!/usr/bin/python3
"""Real servers are linearizable through all doors at once, also over kill -9.

Clients of every door (doors.py) work on the same few keys at the same time: a world (worlds.py) of a plain, versioned,
directory or `memory` bucket, one that evicts, or one of objects with an end. They put, create, swap, copy, append, rename, remove, complete uploads with and without
conditions, read, read versions, list pages and versions, and read, write and remove several keys in one message, match and lease, while
the server is killed and started again. Every answer is judged with its bytes, entity tag, version id, size, condition
and place in a page by the one checker (tests/lib/history.py with the model of bucket.py): batches item by item, renames
whole, a page as one moment of all its keys (over Ceph, of each key: docs/s3.md). The last read of each world comes
after the last kill. A `memory` bucket's world ends with the kill, and what is there afterwards is judged by that
bucket's weaker promise.

usage: run.py PYTHON_FOLDER [--engine local|heap|rados] [--doors http,native,token] [--seed N] [--seconds S] [--crashes]
              [--device DEVICE] [--pmem LIBRARY]

--engine heap: a server in memory, which a crash would empty. rados: two servers over a Ceph cluster of its own.
DEVICE is formatted, and without a store. LIBRARY (dax_stand_in.cc) lets a folder stand in for persistent memory.
"""
import argparse
import collections
import contextlib
import itertools
import multiprocessing
import os
import pathlib
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lib"), str(HERE.parent / "express"), str(HERE.parent / "rados")]
import bucket  # noqa: E402
import doors  # noqa: E402
import verbena_server  # noqa: E402
from doors import Http, Lost, NotSent, Refused, Wrong  # noqa: E402
from express_case import Express  # noqa: E402
from history import BY_KEYS, UNDECIDED, UNKNOWN  # noqa: E402
from worlds import BUCKETS, KEYS, LIVE, Client, World  # noqa: E402

DOORS = ("http", "native", "token")
THREADS = 2        # of each door
TOGETHER, TURN_S = 0.7, 0.05  # most clients work on one bucket's keys at a time, each bucket in turn
ENGINES = ("local", "heap", "rados")
CRASH_EVERY_S = (1.5, 5)
BOUND = "<BoundConfiguration><MaxBytes>150000</MaxBytes></BoundConfiguration>"
SETTLES_S = 5      # a memory bucket's last moment, for a busy machine
CHECKS_MAX = 20    # worlds that wait for judgement; above this, clients pause
OPERATIONS_MIN = 200  # also on a machine that does ten things at once
# A hot tier of a few objects, so that reads come from it and from the disk.
SETTINGS = ("--set", "arena_size=64MiB", "--set", "cache.size=4MiB")


class Run:
    def __init__(self, arguments, verbena, pool):
        self.arguments, self.verbena, self.pool = arguments, verbena, pool
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.worlds, self.serials, self.number = collections.defaultdict(list), itertools.count(1), itertools.count(1)
        self.counts, self.by_door, self.why_lost = collections.Counter(), collections.Counter(), collections.Counter()
        self.wrong, self.checks, self.servers = [], [], []
        self.generation, self.kills, self.kill_times = {}, 0, []
        self.groups = [group for group in LIVE if arguments.engine != "rados" or group != "cache"]
        self.began = time.monotonic()

    def serial(self):
        return next(self.serials)

    def random(self, name):
        return random.Random(f"{self.arguments.seed}.{name}")

    def fail(self, what):
        with self.lock:
            self.wrong.append(what)
        self.stop.set()

    def lost(self, error):
        with self.lock:
            self.why_lost[str(error)[:60]] += 1

    # Worlds.

    def take(self, choose):
        """A world to work on, until record()."""
        with self.lock:
            turn = int(time.monotonic() / TURN_S) % len(self.groups)
            group = self.groups[turn] if choose.random() < TOGETHER else choose.choice(self.groups)
            live = self.worlds[group]
            while len(live) < LIVE[group]:
                live.append(World(group, next(self.number), one_clock=self.arguments.engine != "rados"))
            world = choose.choice(live)
            world.users += 1
            return world

    def record(self, world, calls):
        with self.lock:
            world.users -= 1
            for call in calls:
                if call.answer == UNKNOWN and (call.kind in bucket.READS):
                    continue
                world.calls.append(call)
                world.unknown += call.answer == UNKNOWN
                self.counts["operations"] += 1
                self.by_door[f"{call.by.split('.')[0]} {call.kind}"] += 1
            if not world.over and world.is_full():
                self.worlds[world.group].remove(world)
                world.over = True
            over = world.over and world.users == 0 and not world.cut
        if over:
            self.submit(world)

    def submit(self, world):
        self.counts["worlds"] += 1
        moments = self.arguments.engine != "rados"
        name = f"{world.group} {world.prefix}"
        world.model.kills = list(self.kill_times)
        self.checks.append(self.pool.apply_async(bucket.judge, (name, world.model, world.calls, moments)))

    def take_checks(self, wait):
        for one in list(self.checks):
            if wait or one.ready():
                self.checks.remove(one)
                said = one.get(600)
                if said in (UNDECIDED, BY_KEYS):
                    self.counts[f"worlds that took too long to judge: {said}"] += 1
                elif said is not None:
                    self.fail(said)

    # Clients.

    def open(self, server, door, provider=None):
        if door == "http":
            return Http(server, BUCKETS["directory"])
        return doors.Client(self.verbena, server, door, provider)

    def work(self, name, server, door_name):
        choose, door, generation = self.random(name), None, 0
        while not self.stop.is_set():
            while len(self.checks) > CHECKS_MAX and not self.stop.wait(0.1):
                pass
            if door is None or generation != self.generation[server]:
                generation, door = self.generation[server], None
                try:
                    door = self.open(server, door_name, choose.choice(("local", "tcp")))
                except (NotSent, Lost, Refused):
                    time.sleep(0.1)
                    continue
            world = self.take(choose)
            if not Client(self, door, name, choose).step(world):
                door.close()
                door = None

    def guarded(self, work, *arguments):
        try:
            work(*arguments)
        except Exception:  # noqa: BLE001
            self.fail(traceback.format_exc())

    # Crashes.

    def note_kill(self):
        """Before it and after it: what begins in between knows of it."""
        self.kills += 1
        self.kill_times.append(time.monotonic())

    def crash(self):
        choose = self.random("crashes")
        while not self.stop.wait(choose.uniform(*CRASH_EVERY_S)):
            server = choose.choice(self.servers)
            killed = time.monotonic()
            self.note_kill()
            server.kill()
            self.note_kill()
            with self.lock:
                cut, self.worlds["memory"] = self.worlds["memory"], []
                for world in cut:
                    world.over = world.cut = True
            self.stop.wait(choose.choice((0, 0, 0.5)))
            server.start()
            self.generation[server] += 1
            self.counts["kills"] += 1
            for world in cut:
                self.look_after_kill(world, killed)

    def look_after_kill(self, world, killed):
        """What a memory bucket still has."""
        while world.users:
            time.sleep(0.01)
        found, door = {}, self.open(self.servers[0], "http")
        for key, name in enumerate(world.keys):
            try:
                found[key] = door.get(world.bucket, name).content
            except Refused:
                found[key] = None
            except Wrong as wrong:  # the bytes of the last moment may be gone: 500
                if not str(wrong).startswith("500"):
                    self.fail(f"{world.prefix} after a kill: {wrong}")
        door.close()
        wrong = bucket.weaker(world.prefix, world.calls, found, killed, SETTLES_S)
        if wrong:
            self.fail(wrong)
        self.counts["keys of memory buckets after a kill"] += len(found)
        self.submit(world)

    # All of it.

    def make_buckets(self):
        root = Express(self.servers[0].http, service="s3")
        for name in ("plain", "versioned"):
            assert root.call("PUT", f"/{BUCKETS[name]}").status == 200
        assert root.call("PUT", f"/{BUCKETS['memory']}", headers={"x-verbena-durability": "memory"}).status == 200
        enabled = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        assert root.call("PUT", f"/{BUCKETS['versioned']}?versioning", enabled).status == 200
        Express(self.servers[0].http).make_bucket(BUCKETS["directory"])
        assert root.call("PUT", f"/{BUCKETS['lasting']}").status == 200
        if "cache" in self.groups:
            assert root.call("PUT", f"/{BUCKETS['cache']}").status == 200
            assert root.call("PUT", f"/{BUCKETS['cache']}?verbena-bound", BOUND).status == 200

    def go(self):
        for server in self.servers:
            server.start()
            self.generation[server] = 1
        self.make_buckets()
        works = [(self.work, f"{door}.{i}.{number}", server, door) for i, server in enumerate(self.servers)
                 for door in self.arguments.doors for number in range(THREADS)]
        if self.arguments.crashes:
            works.append((self.crash,))
        threads = [threading.Thread(target=self.guarded, args=work) for work in works]
        self.began = told = time.monotonic()
        for thread in threads:
            thread.start()
        while time.monotonic() < self.began + self.arguments.seconds and not self.stop.wait(0.2):
            self.take_checks(wait=False)
            if time.monotonic() > told + 60:
                told = time.monotonic()
                print(f"{told - self.began:6.0f} s: {dict(self.counts)}", flush=True)
        self.stop.set()
        for thread in threads:
            thread.join()
        self.counts["seconds"] = round(time.monotonic() - self.began)
        if not self.wrong:
            self.look_at_the_end()
        self.take_checks(wait=True)

    def look_at_the_end(self):
        """Everything that is left is read once more, at rest."""
        choose = self.random("end")
        for worlds in self.worlds.values():
            for world in list(worlds):
                for key, door_name in itertools.product(range(KEYS), self.arguments.doors):
                    door = self.open(choose.choice(self.servers), door_name)
                    client = Client(self, door, f"{door_name}.end", choose)
                    world.users += 1
                    self.record(world, [call for call in (client.get(world, key), client.list(world, 0)) if call])
                    door.close()
                if not world.over:
                    self.submit(world)

    def report(self):
        for what, count in sorted(self.counts.items()):
            print(f"{count:8d}  {what}")
        for what, count in sorted(self.by_door.items()):
            print(f"{count:8d}  {what}")
        for what, count in self.why_lost.most_common(8):
            print(f"{count:8d}  unknown: {what}")


@contextlib.contextmanager
def servers_of(arguments, folder):
    """The servers of an engine, not started yet."""
    if arguments.engine == "heap":
        yield [verbena_server.Server(None, SETTINGS, memory=True)]
        return
    if arguments.engine == "local":
        os.mkdir(folder)
        settings, environment = list(SETTINGS), None
        if arguments.device:
            settings += ["--set", f"data.device={arguments.device}"]
        if arguments.pmem:
            os.mkdir(folder + "-pmem")
            settings += ["--set", f"data.pmem={folder}-pmem"]
            environment = {"LD_PRELOAD": arguments.pmem}
        yield [verbena_server.Server(folder, settings, environment)]
        return
    from ceph_cluster import CephCluster, skip_without_ceph
    skip_without_ceph()
    with CephCluster(osds=3) as ceph:
        ceph.pool("index")
        ceph.pool("data")
        place = [word for key, value in {"conf": ceph.conf, "pool": "data", "index_pool": "index"}.items()
                 for word in ("--set", f"rados.{key}={value}")]
        first = verbena_server.Server(args=["--engine", "rados", *place, *SETTINGS])
        second = verbena_server.Server(args=[*first.args, "--set", f"encryption.key_file={first.directory}/master.keys"], clock_ahead_ms=-50)
        yield [first, second]


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("python_folder")
    parser.add_argument("--engine", choices=ENGINES, default="local")
    parser.add_argument("--doors", type=lambda text: text.split(","), default=list(DOORS))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--crashes", action="store_true")
    parser.add_argument("--device", help="keeps the objects' bytes (data.device)")
    parser.add_argument("--pmem", help="the library that stands in for persistent memory (data.pmem)")
    arguments = parser.parse_args()
    if not set(arguments.doors) <= set(DOORS):
        parser.error(f"doors: {DOORS}")
    if arguments.crashes and arguments.engine == "heap":
        parser.error("a crash empties a server in memory")
    if arguments.engine != "local" and (arguments.device or arguments.pmem):
        parser.error("--device and --pmem are for the local engine")
    return arguments


def main():
    arguments = parsed()
    print(f"seed {arguments.seed}", flush=True)
    sys.path.insert(0, arguments.python_folder)
    with multiprocessing.Pool(1) as pool:  # before any thread is started
        import verbena
        run = Run(arguments, verbena, pool)
        folder = tempfile.mkdtemp(prefix="verbena-history-")
        try:
            with servers_of(arguments, os.path.join(folder, "data")) as run.servers:
                try:
                    run.go()
                finally:
                    run.stop.set()
                    if run.wrong:
                        print("\n".join(server.log()[-3000:] for server in run.servers))
                    for server in run.servers:
                        server.__exit__(ValueError, None, None)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    run.report()
    if run.wrong:
        print("WRONG:", *run.wrong[:3], sep="\n\n")
        return 1
    assert run.counts["operations"] > OPERATIONS_MIN, "too few operations for the test to mean anything"
    assert not arguments.crashes or run.counts["kills"], "no server was killed"
    print(f"{run.counts['operations']} operations, {run.counts['kills']} kills: linearizable")
    return 0


if __name__ == "__main__":
    sys.exit(main())
