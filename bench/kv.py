#!/usr/bin/env python3
"""The cache of attention state beside memcpy, Redis and single requests, in one run.

    ./dev bench kv            about two minutes; writes its section of docs/kv-engines.md
    ./dev bench kv --quick    a short run, printed and not written

Client and server share the machine; CPU is that of both processes. Redis is Debian's, asked over one connection with pipelined
commands (MSET, MGET, EXISTS) from the same Python, by the faster of the clients of kv_redis.py: over a Unix socket beside rows of `local`,
over TCP on loopback, which is not encrypted, beside rows of `tcp`, which is. Where it is not installed, its part is left out."""

import argparse
import asyncio
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import kv_redis
import report

ROOT = report.ROOT
sys.path.insert(0, str(ROOT / "tests" / "kv"))
import kv_case  # noqa: E402
from signed_call import call as signed_call  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
MARKS = ("<!-- ./dev bench kv -->", "<!-- end of ./dev bench kv -->")


def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def median_of(call, rounds):
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


@dataclasses.dataclass
class Row:
    """A line of the table. `met`: whether what was wanted is; None: nothing was."""

    what: str
    wanted: str
    measured: str
    met: object = None

    def cells(self):
        return self.what, self.wanted, self.measured, "" if self.met is None else "yes" if self.met else "**no**"


def encryption_rate():
    """Bytes a second that a core encrypts with AES-128-GCM in records of 16 KiB, and whose figure that is."""
    done = subprocess.run(["openssl", "speed", "-mr", "-seconds", "1", "-evp", "aes-128-gcm", "-bytes", "16384"], capture_output=True, text=True, check=True)
    return float(re.search(r"^\+F:\d+:AES-128-GCM:([\d.]+)", done.stdout, re.M | re.I).group(1))


class Bench:
    def __init__(self, server, quick):
        self.server, self.rounds, self.quick = server, 5 if quick else 15, quick
        self.facts = {}  # what the sums after the table are made of

    def store(self, provider, name):
        import verbena.kv as kv
        settings = self.server.settings(via="native", provider=provider, make_bucket=False, deadline_ms=60_000, lookup_ms=60_000, save_ms=60_000)
        return kv.KvStore(description={"bench": name}, **settings)

    # ---- Rows ----

    def large_blocks(self):
        """256 blocks of 2 MiB into the client's registered memory, and into an array that was registered, against a copy of as many bytes."""
        import numpy
        count, size = (64, 2 * MIB) if self.quick else (256, 2 * MIB)
        moved, best = count * size, {}
        with self.store("local", "large") as store:
            hashes = [i.to_bytes(16, "big") for i in range(count)]
            source, array = numpy.random.default_rng(1).integers(0, 255, moved, dtype=numpy.uint8), numpy.zeros(moved, dtype=numpy.uint8)
            own = store.allocate(moved)
            with store.register(source) as memory:
                assert all(store.save(hashes, memory, size).result())
            with store.register(array) as memory:
                for into in (own, memory):
                    assert all(store.load(hashes, into, size).result())
                    assert (numpy.frombuffer(into, dtype=numpy.uint8) == source).all()
                self.facts["copy"] = moved / min(self._cpu(lambda: numpy.copyto(array, source)) for _ in range(self.rounds))
                calls = {"own": lambda: store.load(hashes, own, size).result(), "array": lambda: store.load(hashes, memory, size).result(),
                         "copy": lambda: numpy.copyto(array, source)}
                for _ in range(self.rounds):
                    for name, call in calls.items():
                        best[name] = min(best.get(name, 1e9), median_of(call, 1))
            store.clear()
        for name, what in (("own", "into the client's registered memory (`allocate`)"), ("array", "into an array of the caller's that was registered")):
            share = best["copy"] / best[name]
            yield Row(f"load of {count} blocks x 2 MiB {what}, `local`, against memcpy, the best of {self.rounds} each", ">= 0.8x" if name == "own" else "",
                      f"{share:.2f}x: {moved / best[name] / 1e9:.2f} GB/s against {moved / best['copy'] / 1e9:.2f} GB/s", share >= 0.8 if name == "own" else None)

    def layers(self):
        """Time to the first layer against time to the last."""
        blocks, layers, size = 16, 32, 64 * KIB
        with self.store("tcp", "layers") as store:
            hashes, memory = [i.to_bytes(16, "big") for i in range(blocks)], store.allocate(blocks * layers * size)
            assert all(store.save(hashes, memory, layers * size).result())
            shares, firsts, lasts, alone, places = [], [], [], [], range(0, blocks * layers * size, layers * size)
            for _ in range(self.rounds):
                began = time.perf_counter()
                assert all(store.load_layers(hashes, memory, places, [(0, size)]).result())
                alone.append(time.perf_counter() - began)
                began = time.perf_counter()
                load = store.load_layers(hashes, memory, places, [(i * size, size) for i in range(layers)])
                assert load.wait(blocks)
                first = time.perf_counter() - began
                assert all(load.result())
                last = time.perf_counter() - began
                shares.append(first / last)
                firsts.append(first)
                lasts.append(last)
        share, first, last, alone = map(statistics.median, (shares, firsts, lasts, alone))
        self.facts.update(first=first, last=last, alone=alone, layers=layers)
        yield Row(f"time to the first layer against time to the last, {layers} layers of {blocks} blocks of 64 KiB, `tcp`, p50", "<= 1/16",
                  f"1/{1 / share:.1f}: {first * 1e3:.2f} ms against {last * 1e3:.2f} ms; a load of the first layer alone {alone * 1e3:.2f} ms", share <= 1 / 16)

    def trace(self):
        """The trace that bench/kv_trace.py makes: its GETs through the LMCache connector, and as single GETs by either door, eight at a
        time."""
        lines = [line.split() for line in (ROOT / "bench" / "kv_cache.trace").read_text().splitlines()][:100 if self.quick else 400]
        ours = asyncio.run(self._by_connector(lines))
        http, native = self._one_by_one(lines, "http"), self._one_by_one(lines, "native", provider="local")
        self.facts.update(trace_bytes=sum(int(size) for verb, *rest in lines if verb == "get" for size in rest[1::2]), trace_wanted=http / 5)
        what = "the generated trace (`bench/kv_trace.py`): time of its GETs to the last byte, through the LMCache connector (`local`), against "
        for door, theirs, wanted in (("single GETs over HTTP (C++ client, 8 threads)", http, "<= 1/5"),
                                     ("single GETs by the native door (`local`, C++ client, one request for a block, 8 threads)", native, "")):
            yield Row(what + door, wanted, f"1/{theirs / ours:.1f}: {ours * 1e3:.0f} ms against {theirs * 1e3:.0f} ms", theirs / ours >= 5 if wanted else None)

    async def _by_connector(self, lines):
        import lmcache_host
        made, took = {}, 0.0
        url = (f"verbena://{kv_case.ACCESS_KEY}:{kv_case.SECRET_KEY.replace('/', '%2F').replace('+', '%2B')}@{self.server.at[1]}/{kv_case.BUCKET}"
               "?provider=local&deadline_ms=60000&lookup_ms=60000")

        def of(size):
            if size not in made:  # a model for each size of blocks
                made[size] = lmcache_host.connect(url, asyncio.get_running_loop(), shape=(2, 2, size // 128, 16), size=96 * MIB, model=f"trace {size}")
            return made[size]
        for verb, *rest in lines:
            names, size = [lmcache_host.Key(int(hashlib.sha256(name.encode()).hexdigest()[:15], 16)) for name in rest[::2]], int(rest[1])
            connector, backend = of(size)
            if verb == "put":
                backend.at = 0
                chunks = [connector._new_chunk() for _ in names]
                await connector.batched_put(names, chunks)
            elif verb == "get":
                backend.at = 0
                began = time.perf_counter()
                got = await connector.batched_get(names)
                took += time.perf_counter() - began
                assert all(one is not None for one in got)
            else:
                for name in names:
                    connector.remove_sync(name)
        for connector, _ in made.values():
            await connector.close()
        return took

    def _one_by_one(self, lines, via, **options):
        import verbena
        client = verbena.connect(f"http://{self.server.at[0]}", native_endpoint=self.server.at[1], access_key=kv_case.ACCESS_KEY,
                                 secret_key=kv_case.SECRET_KEY, via=via, **options)
        took = 0.0
        with concurrent.futures.ThreadPoolExecutor(8) as pool, memoryview(client.allocate(96 * MIB)) as view:
            for verb, *rest in lines:
                names, size = rest[::2], int(rest[1])
                began = time.perf_counter()
                if verb == "get":
                    list(pool.map(lambda pair: client.get_into(kv_case.BUCKET, f"{via}/{pair[1]}", view[pair[0] * size:(pair[0] + 1) * size]), enumerate(names)))
                    took += time.perf_counter() - began
                elif verb == "put":
                    list(pool.map(lambda name: client.put(kv_case.BUCKET, f"{via}/{name}", view[:size]), names))
        client.close()
        return took

    def small_blocks(self, redis):
        """Blocks of 64 KiB, put and got in batches of 64: objects a second of CPU, both processes."""
        count, size, seconds = 64, 64 * KIB, 0.7 if self.quick else 2.0
        hashes = [i.to_bytes(16, "big") for i in range(count)]
        found, beside = {}, {}
        for provider in ("local", "tcp"):
            with self.store(provider, f"small {provider}") as store:
                memory = store.allocate(count * size)
                items = [(store.bucket, store.key(one), i * size, size) for i, one in enumerate(hashes)]
                client, pid = store._client, self.server.process.pid
                found[provider, "put"] = self._rate(pid, seconds, lambda: client.put_many(items, memory).check(), count)
                found[provider, "get"] = self._rate(pid, seconds, lambda: client.get_many(items, memory).check(), count)
        for transport, clients in redis.clients.items() if redis is not None else ():
            pairs = [(one, os.urandom(size)) for one in hashes]
            for client in clients:
                for verb, call in (("put", lambda client=client: client.set(pairs)), ("get", lambda client=client: client.get(hashes))):
                    rate = self._rate(redis.process.pid, seconds, call, count)
                    beside[transport, verb] = max(beside.get((transport, verb), (0, "")), (rate, client.name))
        for verb in ("put", "get"):
            for provider, transport, wanted in (("local", "unix", 5), ("tcp", "tcp", 2)):
                rate, what = found[provider, verb], f"64 KiB blocks, {verb}, `{provider}`: objects a second of CPU"
                if redis is None:
                    yield Row(what, "", f"{rate:,.0f}")
                    continue
                theirs, client = beside[transport, verb]
                self.facts[provider, verb] = theirs
                yield Row(f"{what}, against Redis over {'a Unix socket' if transport == 'unix' else 'TCP'}", f">= {wanted}x",
                          f"{rate / theirs:.1f}x: {rate:,.0f} against {theirs:,.0f} ({client})", rate / theirs >= wanted)

    def full_buckets(self):
        """Blocks of 4 KiB under ever new keys, put in batches of 64 into a bucket that is full and into one without a bound."""
        import verbena
        count, size, kept = 64, 4 * KIB, 4096
        seconds, rates, number = 0.3 if self.quick else 1.0, {"full": [], "free": []}, 0
        spent, pid = {"full": [], "free": []}, self.server.process.pid
        made = dict(access_key=kv_case.ACCESS_KEY, secret_key=kv_case.SECRET_KEY, via="native", provider="local",
                    native_endpoint=self.server.native)
        with verbena.connect(self.server.http, **made) as client:
            for bucket in rates:
                client.make_bucket(bucket)
            bound = f"<BoundConfiguration><MaxBytes>{kept * size}</MaxBytes></BoundConfiguration>"
            assert signed_call(self.server, "PUT", "/full?verbena-bound", bound.encode())[0] == 200
            memory = client.allocate(count * size)

            def put(bucket):
                nonlocal number
                keys = range(number, number := number + count)
                client.put_many([(bucket, f"{one:012}", i * size, size) for i, one in enumerate(keys)], memory).check()
                return keys

            for _ in range(kept // count):
                put("full")
            for _ in range(5):  # by turns, so that both meet the same machine
                for bucket, found in rates.items():
                    began, keys, cpu = time.perf_counter(), [], cpu_of(pid)
                    while time.perf_counter() - began < seconds:
                        keys.append(put(bucket))
                    found.append(len(keys) * count / (time.perf_counter() - began))
                    spent[bucket].append((cpu_of(pid) - cpu) / (len(keys) * count))
                    for some in keys if bucket == "free" else []:
                        client.remove_many([(bucket, f"{one:012}") for one in some]).check()
        ratio = statistics.median(full / free for full, free in zip(*rates.values()))
        cpu = {bucket: statistics.median(some) for bucket, some in spent.items()}
        yield Row("blocks of 4 KiB under new keys, put into a bucket that is full, against one without a bound (`local`)", ">= 0.9x",
                  f"{ratio:.2f}x: {statistics.median(rates['full']):,.0f}/s against {statistics.median(rates['free']):,.0f}/s; the server's CPU for a PUT "
                  f"{cpu['full'] * 1e6:.1f} us against {cpu['free'] * 1e6:.1f} us", ratio >= 0.9)

    @staticmethod
    def _cpu(call):
        """Seconds of this process's CPU for a call."""
        began = time.process_time()
        call()
        return time.process_time() - began

    @staticmethod
    def _rate(pid, seconds, call, count):
        call()
        before, calls, began = cpu_of(pid) + time.process_time(), 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            call()
            calls += 1
        return calls * count / max(cpu_of(pid) + time.process_time() - before, 0.01)

    def questions(self, redis):
        """MATCH of 4,096 hashes that are all there."""
        count = 4096
        hashes = [hashlib.md5(i.to_bytes(4, "big")).digest() for i in range(count)]
        theirs = {}
        for transport, clients in redis.clients.items() if redis is not None else ():
            for client in clients:
                client.set([(one, b"x") for one in hashes])
                took = median_of(lambda: client.exist(hashes), self.rounds * 5), client.name
                theirs[transport] = min(theirs.get(transport, took), took)
        for provider, transport, wanted in (("local", "unix", 150), ("tcp", "tcp", 250)):
            with self.store(provider, f"match {provider}") as store:
                assert all(store.save(hashes, bytearray(count), 1).result())
                packed, client = b"".join(hashes), store._client
                assert client.match(store.bucket, store.namespace, packed, width=16).leading == count
                took = median_of(lambda: client.match(store.bucket, store.namespace, packed, width=16), self.rounds * 20)
                whole = median_of(lambda: store.leading(hashes), self.rounds * 5)
            what = f"MATCH of {count:,} hashes, all there, `{provider}`, p50"
            yield Row(what, f"<= {wanted} us", f"{took * 1e6:.0f} us; `KvStore.leading` of a list, with its thread {whole * 1e6:.0f} us", took * 1e6 <= wanted)
            if transport in theirs:
                other, name = theirs[transport]
                self.facts["match", provider] = took, other, count
                yield Row(f"{what}: against Redis, EXISTS pipelined over {'a Unix socket' if transport == 'unix' else 'TCP'}", ">= 20x",
                          f"{other / took:.1f}x: {took * 1e6:.0f} us against {other * 1e6:,.0f} us ({name})", other / took >= 20)

    def overhead(self):
        """What the connector's Python adds to a batch of 256."""
        count, size = 256, 256
        with self.store("local", "overhead") as store:
            hashes, memory = [hashlib.md5(i.to_bytes(4, "big")).digest() for i in range(count)], store.allocate(count * size)
            assert all(store.save(hashes, memory, size).result())
            call = (0, store.bucket, f"{store.namespace}/", tuple(hashes), memory, size, None, None, 0, count, None, 0, 0)
            client, bare, whole = store._client, [], []
            for _ in range(self.rounds * 4):  # by turns, so that both meet the same machine
                bare.append(median_of(lambda: client.batch_of_blocks(*call), 10))
                whole.append(median_of(lambda: store.load(hashes, memory, size).result(), 10))
            bare, whole = statistics.median(bare), statistics.median(whole)
        yield Row("Python's share of a batch of 256 (`KvStore.load`, its names and its thread, beyond the extension's call), p50", "<= 100 us",
                  f"{(whole - bare) * 1e6:.0f} us: {whole * 1e6:.0f} us against {bare * 1e6:.0f} us", whole - bare <= 1e-4)

    # ---- What the figures mean ----

    def sums(self, encryption):
        """Sentences of the wanted figures that were missed, with what a core would need for them, from this run."""
        block, facts = 64 * KIB, self.facts
        copy, seal = block / facts["copy"], block / encryption
        yield (f"A core copies {facts['copy'] / 1e9:.1f} GB/s here (the memcpy above, by its CPU) and encrypts {encryption / 1e9:.1f} GB/s "
               f"(`openssl speed -evp aes-128-gcm -bytes 16384`): {copy * 1e6:.1f} us and {seal * 1e6:.1f} us for 64 KiB.")
        for provider, times, verb, least, why in (
                ("local", 5, "put", 2 * copy, "Two copies, into registered memory and into the store,"),
                ("local", 5, "get", copy, "One copy"),
                ("tcp", 2, "put", 2 * copy + 2 * seal, "Two copies and encryption on both sides"),
                ("tcp", 2, "get", copy + 2 * seal, "One copy and encryption on both sides")):
            if (provider, verb) in facts:
                room = 1 / facts[provider, verb] / times
                yield (f"{times}x Redis, `{provider}`, {verb}: a block would have {room * 1e6:.1f} us of CPU. {why} alone: {least * 1e6:.1f} us"
                       f"{', so it is out of reach' if least > room else ''}.")
        if ("match", "local") in facts:
            took, other, count = facts["match", "local"]
            clock = re.search(r"^cpu MHz\s*: ([\d.]+)", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
            cycles = f" ({other / 20 / count * float(clock.group(1)) * 1e6:.0f} cycles)" if clock else ""
            known = json.loads((ROOT / "bench" / "instructions.json").read_text())["baselines"][0]["instructions"]["native_match"]
            yield (f"20x Redis, MATCH, `local`: a key would have {other / 20 / count * 1e9:.1f} ns{cycles}; it takes {took / count * 1e9:.1f} ns, and "
                   f"{other / count * 1e9:.0f} ns of Redis. A key in a message of a hundred takes {known} instructions of the server "
                   "(`bench/instructions.json`).")
        yield (f"The first of {facts['layers']} layers is there after {facts['first'] * 1e3:.2f} ms, and after {facts['alone'] * 1e3:.2f} ms if no other is "
               f"asked for, while the whole takes {facts['last'] / facts['layers'] * 1e3:.2f} ms for a layer: server and client work on the first layer's bytes one "
               "after the other, and on those of later layers at the same time.")
        yield (f"The trace's GETs are {facts['trace_bytes'] / 1e9:.2f} GB: a fifth of the time over HTTP would be "
               f"{facts['trace_bytes'] / facts['trace_wanted'] / 1e9:.1f} GB/s, and its chunks are copied twice.")


def measure(quick):
    """The rows, the sums after them, and Redis in words."""
    server = kv_case.CacheServer(args=["--set", "arena_size=1GiB"])
    folder = tempfile.mkdtemp(prefix="verbena-bench-kv-")
    redis = kv_redis.Redis(folder) if shutil.which("redis-server") else None
    try:
        with server:
            import verbena
            with verbena.connect(server.http, access_key=kv_case.ACCESS_KEY, secret_key=kv_case.SECRET_KEY, via="http") as client:
                client.make_bucket(kv_case.BUCKET)
            bench, rows = Bench(server, quick), []
            for some in (bench.questions(redis), bench.large_blocks(), bench.layers(), bench.trace(), bench.small_blocks(redis), bench.full_buckets(),
                         bench.overhead()):
                for row in some:
                    print(" | ".join(row.cells()), flush=True)
                    rows.append(row)
            sums = list(bench.sums(encryption_rate()))
            print("\n".join(sums), flush=True)
        beside = (f"Redis {redis.version()} is asked over one connection by {redis.names()}, the faster of them in each row; over TCP it encrypts nothing, "
                  "while `tcp` rows are encrypted." if redis is not None else "Redis is not installed.")
        return rows, sums, beside
    finally:
        if redis is not None:
            redis.close()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    info = report.machine()
    rows, sums, beside = measure(arguments.quick)
    met = [row.met for row in rows if row.met is not None]
    text = "\n".join([MARKS[0], f"Written by `./dev bench kv`: {info['machine']}; {info['system']}; commit {info['commit']}; load average at the start "
                      f"{info['load']}, at the end {os.getloadavg()[0]:.1f}. Client and server share the machine; CPU is that of both processes. {beside} Of "
                      f"{len(met)} wanted figures {sum(met)} were met in this run.", "", "| what | wanted | measured | met |", "| --- | --- | --- | --- |",
                      *(f"| {' | '.join(row.cells())} |" for row in rows), "", *(f"- {one}" for one in sums), MARKS[1]])
    path = ROOT / "docs" / "kv-engines.md"
    page = path.read_text()
    before, after = page.split(MARKS[0])[0], page.split(MARKS[1])[1]
    if arguments.quick:
        print(text)
        return
    path.write_text(before + text + after)
    subprocess.run([sys.executable, str(ROOT / "tools" / "wrap_prose.py"), str(path)], check=True)


main()
