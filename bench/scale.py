#!/usr/bin/env python3
"""The cost of requests, memory and start-up as objects, connections and listings grow.

    bench/scale.py                          1 to 10,000,000 objects, 1 to 10,000 connections and sessions, listings of
    1,000,000 keys
    bench/scale.py --only sessions          native sessions alone, of several client processes
    bench/scale.py --steps 1,1000,100000 --list-keys 50000 --check     small, with checks: a test
    bench/scale.py --json FILE --update docs/scaling.md                figures to FILE, tables into the document

Each request is measured in three ways: time on one kept-alive connection (median), CPU time of the server's process,
and the index's work (keys looked up, cursors placed, steps, blocks). The counts do not depend on the machine's load,
and --check uses only these. Needs about 10 GiB of disk for 10,000,000 objects, in the folder --work."""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import platform
import random
import re
import resource
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from first_byte import presign  # noqa: E402
import verbena_server  # noqa: E402
import wrap_prose  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
SIZE = 256          # bytes of an object
PAGE = 1000         # keys of a page
ROWS_AT_ONCE = 256  # of a page that are read on the core; again, from disk, if one of them is not in the index's memory
MASK = (1 << 64) - 1
WORK = ("gets", "seeks", "steps", "skipped", "blocks", "blocks_read")
FILES_BESIDE_SESSIONS = 5000  # of the server: its store, and connections of other kinds
FEW_SESSIONS = 100  # below, the fixed cost of the first sessions distorts the average
IDLE_WAKES_MAX = 400  # of all its threads, whatever the number of sessions: its own timers
HTTP_MAX = 1000  # connections; this program holds them all
BEGIN, END = "<!-- tables: bench/scale.py -->", "<!-- end of tables -->"


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


# --- Objects by number, as made by scale_load

def shuffled(number):
    value = number
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9 & MASK
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb & MASK
    return f"{value ^ (value >> 31):016x}"


def content(key, size=SIZE):
    return (key.encode() * (size // len(key) + 1))[:size]


def load(verb, directory, *arguments, killed=False):
    """Runs scale_load; its line of JSON."""
    program = pathlib.Path(verbena_server.program()).parent / "bin" / "scale_load"
    command = [str(program), verb, str(directory), *map(str, arguments)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode != (-9 if killed else 0):
        raise RuntimeError(f"{' '.join(command)}: exit status {run.returncode}")
    return json.loads(run.stdout)


# --- The server, observed from outside

def rss_of(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024


def wakes_of(pid):
    """The number of times that its threads have gone to sleep."""
    total = 0
    for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            total += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read_text(encoding="utf-8"), re.M).group(1))
    return total


class Watched(verbena_server.Server):
    """A server with its start-up time and resource use."""

    def __init__(self, directory, *settings):
        pathlib.Path(directory).mkdir(exist_ok=True)
        args = ["--set", "scrub_rate=0"]
        for setting in settings:
            args += ["--set", setting]
        super().__init__(directory, args, {"VERBENA_LOG_LEVEL": "warn"})
        self.start_s = self.start_cpu_s = None

    def start(self):
        began = time.perf_counter()
        super().start()
        self.start_s, self.start_cpu_s = time.perf_counter() - began, self.cpu_s()
        return self

    @property
    def host(self):
        return self.http.split("//")[1]

    def cpu_s(self):
        return time.clock_gettime(~self.process.pid << 3 | 2)  # the process's own CPU clock

    def rss(self):
        return rss_of(self.process.pid)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def wakes(self):
        return wakes_of(self.process.pid)

    def index_work(self):
        text = urllib.request.urlopen(f"http://{self.native}/-/metrics", timeout=60).read().decode()
        found = dict(re.findall(r"^verbena_index_(\w+)_total (\d+)", text, re.M))
        return {name: int(found[name]) for name in WORK}

    def rest(self, longest_s=300):
        """Waits until the index's background work is done."""
        for _ in range(int(longest_s / 0.5)):
            before = self.cpu_s()
            time.sleep(0.5)
            if self.cpu_s() - before < 0.02:
                return
        say("  the server does not come to rest; measured all the same")


class Connection:
    """One kept-alive connection."""

    def __init__(self, host):
        name, port = host.rsplit(":", 1)
        self.host = host
        self.socket = socket.create_connection((name, int(port)), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def message(self, method, path, parameters=(), body=b""):
        target = presign(self.host, method, path, parameters)
        return f"{method} {target} HTTP/1.1\r\nHost: {self.host}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    def send(self, message):
        self.socket.sendall(message)

    def receive(self, head_only=False):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = self.socket.recv(1 << 18)
            if not piece:
                raise RuntimeError("the server closed the connection")
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.I)
        while not head_only and len(body) < int(length.group(1) if length else 0):
            body += self.socket.recv(1 << 18)
        return int(head.split()[1]), body

    def ask(self, message):
        """Status, body, microseconds."""
        began = time.perf_counter()
        self.send(message)
        status, body = self.receive(message.startswith(b"HEAD"))
        return status, body, (time.perf_counter() - began) * 1e6

    def must(self, method, path, parameters=(), body=b""):
        status, answer, _ = self.ask(self.message(method, path, parameters, body))
        if status not in (200, 204):
            raise RuntimeError(f"{method} {path}: status {status}: {answer[:300]}")
        return answer

    def close(self):
        self.socket.close()


Kind = collections.namedtuple("Kind", "name status request settles", defaults=(False,))


def measure(server, kinds, count, rounds=3):
    """{kind: figures per request}; kinds alternate, so that a busy moment of the machine affects all of them."""
    connection = Connection(server.host)
    samples = {kind.name: collections.defaultdict(list) for kind in kinds}
    for _ in range(rounds):
        for kind in kinds:
            messages = [kind.request(connection) for _ in range(max(1, count // rounds))]
            for message in messages[:5]:
                connection.ask(message)
            work, cpu, times = server.index_work(), server.cpu_s(), []
            for message in messages:
                status, body, us = connection.ask(message)
                if status != kind.status:
                    raise RuntimeError(f"{kind.name}: status {status}: {body[:300]}")
                times.append(us)
            if kind.settles:
                time.sleep(0.4)  # acknowledged changes in memory are written to the index
            cpu, after = server.cpu_s() - cpu, server.index_work()
            sample = samples[kind.name]
            sample["p50_us"].append(statistics.median(times))
            sample["cpu_us"].append(cpu / len(times) * 1e6)
            for name in WORK:
                sample[name].append((after[name] - work[name]) / len(times))
    connection.close()
    return {kind: {name: statistics.median(values) for name, values in sample.items()} for kind, sample in samples.items()}


# --- Objects

def hot_kinds(known):
    hot = known()
    made = iter(range(1 << 40, 1 << 41))  # numbers beyond those of any step
    return [
        Kind("nothing", 404, lambda c: c.message("GET", "/no-such-bucket/key")),
        Kind("GET hot", 200, lambda c: c.message("GET", f"/scale/{hot}")),
        Kind("PUT memory", 200, lambda c: put_message(c, "scale-memory", shuffled(next(made))), True),
        Kind("PUT sync", 200, lambda c: put_message(c, "scale-sync", shuffled(next(made)))),
    ]


def cold_kinds(known):
    def list_page(keys):
        return lambda c: c.message("GET", "/scale", [("list-type", "2"), ("max-keys", str(keys)), ("start-after", known()[:6])])
    return [
        Kind("GET cold", 200, lambda c: c.message("GET", f"/scale/{known()}")),
        Kind("HEAD", 200, lambda c: c.message("HEAD", f"/scale/{known()}")),
        Kind("GET absent", 404, lambda c: c.message("GET", f"/scale/{known()}.not")),
        Kind("LIST 1", 200, list_page(1)),
        Kind("LIST 1000", 200, list_page(PAGE)),
    ]


def put_message(connection, bucket, key):
    return connection.message("PUT", f"/{bucket}/{key}", (), content(key))


def check_objects(server, known, count=100, size=SIZE):
    connection = Connection(server.host)
    for _ in range(count):
        key = known()
        if connection.must("GET", f"/scale/{key}") != content(key, size):
            raise RuntimeError(f"{key}: other bytes came back")
    connection.close()


def disk_bytes(directory):
    """The disk space of index and volumes, without RocksDB's own log, which is bounded."""
    data = log = 0
    for path in pathlib.Path(directory).rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if not path.is_file():
                continue
            used = path.stat().st_blocks * 512
            if path.parent.name == "index" and path.suffix == ".log":
                log += used
            else:
                data += used
    return data, log


def measure_step(directory, before, number, requests):
    """Measures one number of objects."""
    row = {"objects": number}
    say(f"{number:,} objects")
    row["fill"] = load("fill", directory, "--from", before, "--to", number, "--size", SIZE)
    load("fill", directory, "--bucket", "scale-memory", "--to", 1)
    chance = random.Random(number)
    known = lambda: shuffled(chance.randrange(number))  # noqa: E731
    with Watched(directory) as server:
        row["start_after_stop_s"], row["rss_started"] = server.start_s, server.rss()
        row["start_after_stop_cpu_s"] = server.start_cpu_s
        server.rest()
        connection = Connection(server.host)
        connection.ask(connection.message("PUT", "/scale-sync"))
        connection.close()
        row["requests"] = measure(server, hot_kinds(known), requests)
    # Overwrites, which keep the number; then the process is killed.
    rewritten = min(number, 200_000)
    load("fill", directory, "--from", number - rewritten, "--to", number, "--size", SIZE, "--versions",
         max(1, min(200_000, requests * 100) // rewritten), "--kill", killed=True)
    row["log_at_kill"] = disk_bytes(directory)[1]
    with Watched(directory, "cache.size=0") as server:
        row["start_after_kill_s"], row["start_after_kill_cpu_s"] = server.start_s, server.start_cpu_s
        check_objects(server, known)
        server.rest()
        row["disk"], _ = disk_bytes(directory)
        row["requests"] |= measure(server, cold_kinds(known), requests)
        row["rss_worked"] = server.rss()
    return row


def measure_objects(work, steps, requests):
    directory = work / "objects"
    rows, before = [], 0
    for number in steps:
        rows.append(measure_step(directory, before, number, requests))
        before = number
    shutil.rmtree(directory)
    return rows


# --- Connections

def one_object(server):
    connection = Connection(server.host)
    connection.must("PUT", "/scale")
    connection.must("PUT", "/scale/hot", (), content("hot"))
    connection.must("GET", "/scale/hot")
    connection.close()


def ask_all_at_once(connections, message, requests):
    """Sends on every connection, in waves until `requests` are done. Returns their number."""
    poller = select.epoll()
    by_fd = {connection.socket.fileno(): connection for connection in connections}
    for fd in by_fd:
        poller.register(fd, select.EPOLLIN)
    asked = 0
    while asked < requests:
        for connection in connections:
            connection.send(message)
        left = set(by_fd)
        while left:
            for fd, _ in poller.poll(60):
                if fd in left and by_fd[fd].receive()[0] == 200:
                    left.remove(fd)
        asked += len(connections)
    poller.close()
    return asked


def measure_http(work, steps, requests):
    rows, connections = [], []
    with Watched(work / "connections") as server:
        one_object(server)
        server.rest()
        before = server.rss()
        for step in steps:
            say(f"{step:,} HTTP connections")
            while len(connections) < step:
                connections.append(Connection(server.host))
            message = connections[0].message("GET", "/scale/hot")
            ask_all_at_once(connections, message, step)
            row = {"door": "HTTP", "open": step, "bytes_each": (server.rss() - before) / step}
            cpu, times = server.cpu_s(), []
            for i in range(requests):
                times.append(connections[i % step].ask(message)[2])
            row["p50_us"], row["cpu_us"] = statistics.median(times), (server.cpu_s() - cpu) / requests * 1e6
            cpu = server.cpu_s()
            asked = ask_all_at_once(connections, message, requests)
            row["cpu_at_once_us"] = (server.cpu_s() - cpu) / asked * 1e6
            rows.append(row)
        for connection in connections:
            connection.close()
    shutil.rmtree(work / "connections")
    return rows


class SessionHolder:
    """A process of scale_load that holds sessions and takes commands."""

    def __init__(self, server, provider, env=None, bucket="scale"):
        program = pathlib.Path(verbena_server.program()).parent / "bin" / "scale_load"
        self.process = subprocess.Popen([str(program), "sessions", server.native, "--provider", provider, "--bucket",
                                         bucket, "--key", "hot"],
                                        env=server.env | (env or {}), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def told(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a client with sessions ended: exit status {self.process.wait()}")
        return json.loads(line)

    def hold(self, count):
        """Opens or closes sessions up to a number; returns how many there are, and the error that stopped it."""
        self.tell("hold", count)
        return self.told()

    def get(self, requests, among=1):
        """GETs by the first sessions in turn: their number, and their median in microseconds."""
        self.tell("get", requests, among)
        return self.told()

    def rss(self):
        return rss_of(self.process.pid)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def hold_in_all(holders, step, each):
    """All holders at the same time, each its share of `step`. Returns the first refusal."""
    shares = [max(0, min(step - at * each, each)) for at in range(len(holders))]
    for holder, share in zip(holders, shares):
        holder.tell("hold", share)
    told = [holder.told() for holder in holders]
    refused = [words["refused"] for words in told if "refused" in words]
    if not refused and sum(words["sessions"] for words in told) != step:
        raise RuntimeError(f"{step} sessions wanted, the clients have {told}")
    return refused[0] if refused else None, shares


def idle_cost(server, seconds):
    """The idle server's CPU time, and the wake-ups of its threads, per second."""
    cpu, wakes = server.cpu_s(), server.wakes()
    began = time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    return {"idle_cpu_ms": (server.cpu_s() - cpu) / took * 1e3, "idle_wakes": (server.wakes() - wakes) / took}


def costs_of(server, holders, shares, requests):
    """GETs by one session while all others are open, and by all in turn."""
    cpu, one = server.cpu_s(), holders[0].get(requests)
    row = {"one_p50_us": one["p50_us"], "one_cpu_us": (server.cpu_s() - cpu) / requests * 1e6}
    cpu, times, asked = server.cpu_s(), [], 0
    for holder, share in zip(holders, shares):
        told = holder.get(max(requests // len(holders), share), share)
        times.append(told["p50_us"])
        asked += told["requests"]
    return row | {"p50_us": statistics.median(times), "cpu_us": (server.cpu_s() - cpu) / asked * 1e6}


def sessions_at(server, holders, step, before, options):
    """The resources of that many sessions, and the cost of a request."""
    refused, shares = hold_in_all(holders, step, options.sessions_per_client)
    if refused:
        return {"open": step, "refused": refused}
    row = {"open": step, "clients": len(holders), "bytes_each": (server.rss() - before["rss"]) / step,
           "files_each": (server.descriptors() - before["files"]) / step,
           "client_bytes_each": sum(holder.rss() for holder in holders) / step}
    time.sleep(options.idle_s / 2)  # until the last ones are idle
    row |= idle_cost(server, options.idle_s)
    return row | costs_of(server, holders, shares, options.requests)


def cores_for(sessions):
    """The number of cores: a session has a link to each core, and each link is an open file of the server."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1] - FILES_BESIDE_SESSIONS
    return max(1, min(os.cpu_count(), files // sessions))


def session_settings(sessions, cores):
    """Settings for a server whose open files are mainly for sessions."""
    return [f"rdma.sessions_max={sessions + 100}", f"cores={cores}", "http.connections_max=512", "rdma.connections_max=512"]


def measure_sessions(work, provider, options):
    steps, each = options.connections, options.sessions_per_client
    cores = options.cores or cores_for(max(steps))
    rows, holders = [], []
    with Watched(work / "sessions", *session_settings(max(steps), cores)) as server:
        one_object(server)
        server.rest()
        idle = idle_cost(server, options.idle_s)
        rows.append({"door": provider, "cores": cores, "open": 0} | idle)
        before = {"rss": server.rss(), "files": server.descriptors()}
        try:
            for step in steps:
                while len(holders) * each < step:
                    holders.append(SessionHolder(server, provider))
                row = sessions_at(server, holders, step, before, options)
                say(f"{step:,} native sessions on {provider}")
                rows.append({"door": provider, "cores": cores} | row)
                if "refused" in row:
                    break
        finally:
            for holder in holders:
                holder.end()
    shutil.rmtree(work / "sessions")
    return rows


# --- Listings

def page_cost(server, connection, parameters, bucket):
    """One page: (figures, answer)."""
    work, cpu = server.index_work(), server.cpu_s()
    status, body, us = connection.ask(connection.message("GET", f"/{bucket}", parameters))
    cpu, after = server.cpu_s() - cpu, server.index_work()
    if status != 200:
        raise RuntimeError(f"list {parameters}: status {status}: {body[:300]}")
    return {"us": us, "cpu_us": cpu * 1e6, **{name: after[name] - work[name] for name in WORK}}, body.decode()


def text_of(body, element):
    found = re.search(f"<{element}>(.*?)</{element}>", body)
    return found.group(1) if found else None


def next_parameters(version, body):
    """The query parameters of the next page; None: this was the last."""
    if text_of(body, "IsTruncated") != "true":
        return None
    if version == "v2":
        return [("continuation-token", text_of(body, "NextContinuationToken"))]
    if version == "versions":
        return [("key-marker", text_of(body, "NextKeyMarker")), ("version-id-marker", text_of(body, "NextVersionIdMarker"))]
    marker = text_of(body, "NextMarker")
    return [("marker", marker or re.findall("<Key>(.*?)</Key>", body)[-1])]


def walk(server, version, bucket, parameters=()):
    """All pages of one listing: their figures, and the number of names."""
    fixed = {"v1": [], "v2": [("list-type", "2")], "versions": [("versions", "")]}[version] + list(parameters)
    connection, pages, names, more = Connection(server.host), [], 0, []
    while more is not None:
        cost, body = page_cost(server, connection, fixed + more, bucket)
        cost["names"] = len(re.findall("<(?:Key|Prefix)>", body)) - len(re.findall("</MaxKeys>", body))
        names += cost["names"]
        pages.append(cost)
        more = next_parameters(version, body)
    connection.close()
    return pages, names


def summary(title, pages, names):
    tenth = max(1, len(pages) // 10)
    middle = len(pages) // 2
    full = pages[:-1] or pages
    row = {"listing": title, "pages": len(pages), "names": names}
    for part, some in (("first", pages[:tenth]), ("middle", pages[middle:middle + tenth]), ("last", full[-tenth:])):
        row[f"{part}_us"] = statistics.median(page["us"] for page in some)
        row[f"{part}_cpu_us"] = statistics.median(page["cpu_us"] for page in some)
    for name in WORK:
        row[name] = max(page[name] for page in pages)
    return row


def measure_listings(work, keys):
    directory = work / "listing"
    say(f"listings of {keys:,} keys")
    load("fill", directory, "--bucket", "flat", "--names", "flat", "--to", keys, "--size", 16)
    load("fill", directory, "--bucket", "deep", "--names", "deep", "--to", keys, "--size", 16)
    load("fill", directory, "--bucket", "folders", "--names", "folders", "--to", keys, "--size", 16)
    load("fill", directory, "--bucket", "versions", "--names", "flat", "--to", keys // 2, "--versions", 2, "--versioned",
         "--size", 16)
    load("fill", directory, "--bucket", "removed", "--names", "flat", "--to", keys, "--size", 16)
    load("erase", directory, "--bucket", "removed", "--names", "flat", "--from", 0, "--to", keys - 10)
    rows = []
    with Watched(directory) as server:
        server.rest()
        slash = [("delimiter", "/")]
        for title, version, bucket, parameters in (
                ("flat, V2", "v2", "flat", ()), ("flat, V1", "v1", "flat", ()),
                ("versions, two of each key", "versions", "versions", ()),
                ("one prefix for each key, delimiter, V2", "v2", "folders", slash),
                ("one prefix for each key, delimiter, V1", "v1", "folders", slash),
                ("100 prefixes over all keys, delimiter", "v2", "deep", slash),
                ("100 prefixes one level below, delimiter", "v2", "deep", [*slash, ("prefix", "07/")]),
                ("the keys two levels below, delimiter", "v2", "deep", [*slash, ("prefix", "07/42/")]),
                ("the last 10 keys, all others removed", "v2", "removed", ())):
            say(f"  {title}")
            rows.append(summary(title, *walk(server, version, bucket, parameters)))
    shutil.rmtree(directory)
    return rows


# --- Results

def size_text(number):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(number) < 1024 or unit == "GiB":
            return f"{number:.0f} {unit}" if unit in ("B", "KiB") else f"{number:.1f} {unit}"
        number /= 1024
    return ""


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def objects_tables(rows):
    head = ["", *(f"{row['objects']:,}" for row in rows)]
    kinds = list(rows[0]["requests"])
    cost = [[kind, *(f"{row['requests'][kind]['cpu_us']:.0f} / {row['requests'][kind]['p50_us']:.0f}" for row in rows)]
            for kind in kinds]
    work = [[kind, *("{gets:.1f} / {seeks:.1f} / {steps:.1f} / {blocks:.1f} / {blocks_read:.1f}".format(
        **row["requests"][kind]) for row in rows)] for kind in kinds]
    first = rows[0]
    each = lambda row, what: (row[what] - first[what]) / max(1, row["objects"] - first["objects"])  # noqa: E731
    starts = lambda what: lambda r: f"{r[f'start_after_{what}_cpu_s']:.2f} / {r[f'start_after_{what}_s']:.2f}"  # noqa: E731
    cells = lambda what, text: [text(row) for row in rows]  # noqa: E731
    other = [
        ["filled, objects/s", *cells("", lambda r: f"{r['fill']['objects'] / r['fill']['seconds']:,.0f}")],
        ["start after an orderly stop: CPU / time, s", *cells("", starts("stop"))],
        ["start after kill -9: CPU / time, s", *cells("", starts("kill"))],
        ["log that it replays", *cells("", lambda r: size_text(r["log_at_kill"]))],
        ["memory (RSS) when started", *cells("", lambda r: size_text(r["rss_started"]))],
        ["memory (RSS) after the requests, no hot tier", *cells("", lambda r: size_text(r["rss_worked"]))],
        ["disk", *cells("", lambda r: size_text(r["disk"]))],
        ["memory per object when started, bytes", "", *(f"{each(r, 'rss_started'):.1f}" for r in rows[1:])],
        ["disk per object, bytes", "", *(f"{each(r, 'disk'):.0f}" for r in rows[1:])],
    ]
    return (f"Cost of a request, by number of objects of {SIZE} bytes: server CPU / time on one connection, microseconds.\n\n"
            + table(head, cost)
            + "\n\nWhat the index does for it: keys looked up / cursors placed / steps / blocks looked into / of those not in "
            "the index's memory.\n\n" + table(head, work) + "\n\nOther costs.\n\n" + table(head, other))


def connections_table(rows):
    head = ["door", "open", "clients", "server: memory each", "in 1 GiB", "descriptors each", "client: memory each",
            "idle: CPU, ms/s; wake-ups/s", "one GET: CPU / time, us", "in turn: CPU / time, us", "all at once: CPU, us"]
    pair = lambda row, part: f"{row[part + 'cpu_us']:.0f} / {row[part + 'p50_us']:.0f}" if part + "cpu_us" in row else ""  # noqa: E731
    lines = []
    for row in rows:
        if "refused" in row:
            lines.append([row["door"], f"{row['open']:,}: refused: {row['refused']}"] + [""] * (len(head) - 2))
            continue
        at_once = f"{row['cpu_at_once_us']:.0f}" if "cpu_at_once_us" in row else ""
        idle = f"{row['idle_cpu_ms']:.1f}; {row['idle_wakes']:.0f}" if "idle_wakes" in row else ""
        if row["open"] == 0:
            lines.append([row["door"], 0] + [""] * 5 + [idle] + [""] * 3)
            continue
        many = row["open"] >= FEW_SESSIONS
        lines.append([row["door"], f"{row['open']:,}", row.get("clients", 1), size_text(row["bytes_each"]),
                      f"{2**30 / row['bytes_each']:,.0f}" if many else "", f"{row.get('files_each', 1):.2f}",
                      size_text(row["client_bytes_each"]) if "client_bytes_each" in row else "", idle,
                      pair(row, "one_"), pair(row, ""), at_once])
    return ("Open HTTP connections, and native sessions of several client processes. Memory is the resident one of the process. Idle is the whole "
            "server without requests. A hot GET: by one session beside all the others, by all in turn (each once at least), and by "
            "all connections at once.\n\n" + table(head, lines))


def listings_table(rows, keys):
    head = ["listing", "pages", "first: CPU / time, us", "middle", "last", "cursors", "steps", "skipped", "blocks"]
    pair = lambda row, part: f"{row[part + '_cpu_us']:.0f} / {row[part + '_us']:.0f}"  # noqa: E731
    lines = [[row["listing"], row["pages"], pair(row, "first"), pair(row, "middle"), pair(row, "last"), row["seeks"],
              row["steps"], row["skipped"], row["blocks"]] for row in rows]
    return (f"Listings of {keys:,} keys in pages of {PAGE}: medians of the first, middle and last tenth of the pages; what the "
            "index did, at most, for one page.\n\n" + table(head, lines))


def machine():
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{model.group(1) if model else platform.processor()}, {os.cpu_count()} CPUs, {size_text(memory)}, Linux {platform.release()}"


def document(result):
    parts = [f"Machine: {result['machine']}. {result['date']}. Command: `bench/scale.py {' '.join(result['command'])}`".rstrip()]
    if result.get("objects"):
        parts.append("## Objects\n\n" + objects_tables(result["objects"]))
    if result.get("connections"):
        parts.append("## Connections and sessions\n\n" + connections_table(result["connections"]))
    if result.get("listings"):
        parts.append("## Listings\n\n" + listings_table(result["listings"], result["list_keys"]))
    return "\n\n".join(parts) + "\n"


def update(path, text):
    """Replaces the tables between the marks of a document."""
    old = path.read_text(encoding="utf-8")
    head, mark, rest = old.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not mark or not end:
        raise RuntimeError(f"{path}: no {BEGIN} ... {END}")
    path.write_text(f"{head}{BEGIN}\n{wrap_prose.paragraphs(text)}{END}{tail}", encoding="utf-8")


# --- Checks of --check: counts alone

def check(result):
    wrong = []

    def at_most(what, value, limit):
        if value > limit:
            wrong.append(f"{what}: {value:.2f}, at most {limit:.2f} expected")
    objects = result.get("objects") or []
    for kind in objects[0]["requests"] if objects else ():
        few = next(row for row in objects if row["objects"] >= PAGE)["requests"][kind]
        many = objects[-1]["requests"][kind]
        limits = {
            "gets": 2 * few["gets"],  # uncached objects are looked up again, from disk
            "seeks": 2 * few["seeks"],  # likewise pages
            # Pages of more objects are fuller.
            "steps": PAGE + ROWS_AT_ONCE if kind == f"LIST {PAGE}" else 2 * few["steps"],
            "skipped": max(few["skipped"], many["steps"])}  # a recently replaced key is stored twice
        for name, limit in limits.items():
            at_most(f"{kind}: {name} of a request, {objects[-1]['objects']:,} objects", many[name], limit + 0.5)
        # A key is in one block, whatever the number of blocks; a cursor reads one of each level, and of each new file.
        at_most(f"{kind}: blocks of a request", many["blocks"],
                1.2 * many["gets"] + 16 * many["seeks"] + many["steps"] / 8 + 0.5)
    for row in result.get("listings") or ():
        at_most(f"{row['listing']}: cursors of a page", row["seeks"], PAGE + ROWS_AT_ONCE + 8)  # a cursor for each prefix
        at_most(f"{row['listing']}: steps of a page", row["steps"], PAGE + ROWS_AT_ONCE + 8)
        if "removed" not in row["listing"]:
            at_most(f"{row['listing']}: skipped by a page", row["skipped"], PAGE + ROWS_AT_ONCE + 8)
        if "100 prefixes" in row["listing"]:
            at_most(f"{row['listing']}: cursors of the page", row["seeks"], 2 * 100 + 10)
            at_most(f"{row['listing']}: steps of the page", row["steps"], 8)
    for row in result.get("connections") or ():
        what = f"{row['open']:,} sessions on {row['door']}"
        if "refused" in row:
            wrong.append(f"{what}: refused: {row['refused']}")
        elif row["open"] >= FEW_SESSIONS and row["door"] != "HTTP":
            at_most(f"{what}: wake-ups of the idle server, per second", row["idle_wakes"], IDLE_WAKES_MAX)
            at_most(f"{what}: descriptors of one link", row["files_each"] / row["cores"], 1.1)
            at_most(f"{what}: KiB of one link at the server", row["bytes_each"] / row["cores"] / 1024, 64)
            at_most(f"{what}: MiB of one at its client", row["client_bytes_each"] / 2**20, 2)
    for line in wrong:
        print(f"scale: {line}", file=sys.stderr)
    return not wrong


def numbers(text):
    return [int(part) for part in text.split(",") if part]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=numbers, default=[1, 1000, 100_000, 1_000_000, 10_000_000], metavar="N,N",
                        help="numbers of objects, growing (default 1 to 10,000,000)")
    parser.add_argument("--requests", type=int, default=1500, help="requests of each kind at each step (default %(default)s)")
    parser.add_argument("--connections", type=numbers, default=[1, 10, 100, 1000, 10_000], metavar="N,N",
                        help="numbers of connections and sessions (default 1 to 10,000)")
    parser.add_argument("--cores", type=int, help="of the server with the sessions, which have a link to each (default: as many as the "
                        "open files are enough for)")
    parser.add_argument("--sessions-per-client", type=int, default=2500, metavar="N", help="of one process (default %(default)s)")
    parser.add_argument("--idle-s", type=float, default=5, metavar="S", help="how long idle sessions are looked at (default %(default)s)")
    parser.add_argument("--list-keys", type=int, default=1_000_000, help="keys of each listing (default %(default)s)")
    parser.add_argument("--only", choices=["objects", "connections", "sessions", "listings"], action="append",
                        help="one part; may be given again")
    parser.add_argument("--work", type=pathlib.Path, help="folder for the data, which is removed (default: a temporary one)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="all figures")
    parser.add_argument("--update", type=pathlib.Path, metavar="FILE", help="put the tables into this document")
    parser.add_argument("--check", action="store_true", help="fail when counts of the index's work grow")
    return parser.parse_args()


def main():
    options = arguments()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    del soft
    parts = options.only or ["objects", "connections", "sessions", "listings"]
    work = pathlib.Path(tempfile.mkdtemp(prefix="verbena-scale-", dir=options.work))
    result = {"machine": machine(), "date": time.strftime("%Y-%m-%d"), "command": sys.argv[1:], "list_keys": options.list_keys,
              "connections": []}
    try:
        if "objects" in parts:
            result["objects"] = measure_objects(work, options.steps, options.requests)
        if "connections" in parts:
            result["connections"] += measure_http(work, [n for n in options.connections if n <= HTTP_MAX], options.requests)
        if "sessions" in parts:
            for provider in ("local", "tcp"):
                result["connections"] += measure_sessions(work, provider, options)
        if "listings" in parts:
            result["listings"] = measure_listings(work, options.list_keys)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if options.json:
            options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(document(result))
    if options.update:
        update(options.update, document(result))
    return 0 if not options.check or check(result) else 1


if __name__ == "__main__":
    sys.exit(main())
