#!/usr/bin/env python3
"""The cache of attention state beside memcpy, Redis and single requests, in one run.

    ./dev bench kv            about two minutes; writes its section of docs/kv-engines.md
    ./dev bench kv --quick    a short run, printed and not written

Client and server share the machine; CPU is that of both processes. Redis is Debian's, asked over one connection with pipelined
commands (MSET, MGET, EXISTS) from the same Python; where it is not installed, its rows are left out."""

import argparse
import asyncio
import concurrent.futures
import hashlib
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

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


class Redis:
    """One connection that speaks RESP, and its server."""

    def __init__(self, folder):
        path = f"{folder}/redis.sock"
        self.process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no", "--dir", folder],
                                        stdout=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while not os.path.exists(path):
            assert time.monotonic() < until
            time.sleep(0.05)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb", 1 << 20)

    @staticmethod
    def command(*words):
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)

    def send(self, data):
        self.socket.sendall(data)

    def answer(self):
        line = self.file.readline()
        if line[:1] == b"*":
            return [self.answer() for _ in range(int(line[1:]))]
        if line[:1] == b"$":
            return self.file.read(int(line[1:]) + 2)[:-2] if line[1:2] != b"-" else None
        return line[1:-2]

    def expect(self, answers):
        assert self.file.read(len(answers)) == answers

    def close(self):
        self.socket.close()
        self.process.terminate()
        self.process.wait()


class Bench:
    def __init__(self, server, quick):
        self.server, self.rounds, self.quick = server, 5 if quick else 15, quick

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
                calls = {"own": lambda: store.load(hashes, own, size).result(), "array": lambda: store.load(hashes, memory, size).result(),
                         "copy": lambda: numpy.copyto(array, source)}
                for _ in range(self.rounds):
                    for name, call in calls.items():
                        best[name] = min(best.get(name, 1e9), median_of(call, 1))
            store.clear()
        for name, what in (("own", "into the client's registered memory (`allocate`)"), ("array", "into an array of the caller's that was registered")):
            yield (f"load of {count} blocks x 2 MiB {what}, `local`, against memcpy, the best of {self.rounds} each", ">= 0.8x" if name == "own" else "",
                   f"{best['copy'] / best[name]:.2f}x: {moved / best[name] / 1e9:.2f} GB/s against {moved / best['copy'] / 1e9:.2f} GB/s")

    def layers(self):
        """Time to the first layer against time to the last."""
        blocks, layers, size = 16, 32, 64 * KIB
        with self.store("tcp", "layers") as store:
            hashes, memory = [i.to_bytes(16, "big") for i in range(blocks)], store.allocate(blocks * layers * size)
            assert all(store.save(hashes, memory, layers * size).result())
            shares, firsts, lasts = [], [], []
            for _ in range(self.rounds):
                began = time.perf_counter()
                load = store.load_layers(hashes, memory, range(0, blocks * layers * size, layers * size), [(i * size, size) for i in range(layers)])
                assert load.wait(blocks)
                first = time.perf_counter() - began
                assert all(load.result())
                last = time.perf_counter() - began
                shares.append(first / last)
                firsts.append(first)
                lasts.append(last)
        yield (f"time to the first layer against time to the last, {layers} layers of {blocks} blocks, `tcp`, p50", "<= 1/16",
               f"1/{1 / statistics.median(shares):.1f}: {statistics.median(firsts) * 1e3:.2f} ms against {statistics.median(lasts) * 1e3:.2f} ms")

    def trace(self):
        """The recorded trace: its GETs through the LMCache connector, and as single GETs over HTTP, eight at a time."""
        lines = [line.split() for line in (ROOT / "bench" / "kv_cache.trace").read_text().splitlines()][:100 if self.quick else 400]
        ours, theirs = asyncio.run(self._by_connector(lines)), self._by_http(lines)
        yield ("the recorded trace: time of its GETs to the last byte, through the LMCache connector (`local`), against single GETs over HTTP "
               "(C++ client, 8 threads)", "<= 1/5", f"1/{theirs / ours:.1f}: {ours * 1e3:.0f} ms against {theirs * 1e3:.0f} ms")

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

    def _by_http(self, lines):
        import verbena
        client = verbena.connect(f"http://{self.server.at[0]}", access_key=kv_case.ACCESS_KEY, secret_key=kv_case.SECRET_KEY, via="http")
        took, into = 0.0, bytearray(96 * MIB)
        with concurrent.futures.ThreadPoolExecutor(8) as pool, client.register(into) as memory, memoryview(memory) as view:
            for verb, *rest in lines:
                names, size = rest[::2], int(rest[1])
                began = time.perf_counter()
                if verb == "get":
                    list(pool.map(lambda pair: client.get_into(kv_case.BUCKET, f"http/{pair[1]}", view[pair[0] * size:(pair[0] + 1) * size]), enumerate(names)))
                    took += time.perf_counter() - began
                elif verb == "put":
                    list(pool.map(lambda name: client.put(kv_case.BUCKET, f"http/{name}", view[:size]), names))
        client.close()
        return took

    def small_blocks(self, redis):
        """Blocks of 64 KiB, put and got in batches of 64: objects a second of CPU, both processes."""
        count, size, seconds = 64, 64 * KIB, 0.7 if self.quick else 2.0
        hashes = [i.to_bytes(16, "big") for i in range(count)]
        found = {}
        for provider in ("local", "tcp"):
            with self.store(provider, f"small {provider}") as store:
                memory = store.allocate(count * size)
                items = [(store.bucket, store.key(one), i * size, size) for i, one in enumerate(hashes)]
                client, pid = store._client, self.server.process.pid
                found[provider, "put"] = self._rate(pid, seconds, lambda: client.put_many(items, memory).check(), count)
                found[provider, "get"] = self._rate(pid, seconds, lambda: client.get_many(items, memory).check(), count)
        if redis is not None:
            values = [os.urandom(size) for _ in hashes]
            put = Redis.command(b"MSET", *(word for pair in zip(hashes, values) for word in pair))
            get = Redis.command(b"MGET", *hashes)
            found["redis", "put"] = self._rate(redis.process.pid, seconds, lambda: (redis.send(put), redis.answer()), count)
            found["redis", "get"] = self._rate(redis.process.pid, seconds, lambda: (redis.send(get), redis.answer()), count)
        for verb in ("put", "get"):
            for provider, wanted in (("local", ">= 5x"), ("tcp", ">= 2x")):
                beside = f"{found[provider, verb] / found['redis', verb]:.1f}x: " if redis is not None else ""
                against = f" against {found['redis', verb]:,.0f}" if redis is not None else ""
                yield (f"64 KiB blocks, {verb}, `{provider}`: objects a second of CPU, against Redis", wanted,
                       f"{beside}{found[provider, verb]:,.0f}{against}")

    def full_buckets(self):
        """Blocks of 4 KiB under ever new keys, put in batches of 64 into a bucket that is full and into one without a bound."""
        import verbena
        count, size, kept = 64, 4 * KIB, 4096
        seconds, rates, number = 0.3 if self.quick else 1.0, {"full": [], "free": []}, 0
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
                    began, keys = time.perf_counter(), []
                    while time.perf_counter() - began < seconds:
                        keys.append(put(bucket))
                    found.append(len(keys) * count / (time.perf_counter() - began))
                    for some in keys if bucket == "free" else []:
                        client.remove_many([(bucket, f"{one:012}") for one in some]).check()
        ratio = statistics.median(full / free for full, free in zip(*rates.values()))
        yield ("blocks of 4 KiB under new keys, put into a bucket that is full, against one without a bound (`local`)", ">= 0.9x",
               f"{ratio:.2f}x: {statistics.median(rates['full']):,.0f}/s against {statistics.median(rates['free']):,.0f}/s")

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
        theirs = None
        if redis is not None:
            redis.send(b"".join(Redis.command(b"SET", one, b"x") for one in hashes))
            for _ in hashes:
                redis.answer()
            asked = b"".join(Redis.command(b"EXISTS", one) for one in hashes)
            present = b":1\r\n" * count  # read as a whole, which is faster than any client that parses
            theirs = median_of(lambda: (redis.send(asked), redis.expect(present)), self.rounds * 5)
        for provider, wanted in (("local", "<= 150 us"), ("tcp", "<= 250 us")):
            with self.store(provider, f"match {provider}") as store:
                assert all(store.save(hashes, bytearray(count), 1).result())
                packed, client = b"".join(hashes), store._client
                assert client.match(store.bucket, store.namespace, packed, width=16).leading == count
                took = median_of(lambda: client.match(store.bucket, store.namespace, packed, width=16), self.rounds * 20)
                whole = median_of(lambda: store.leading(hashes), self.rounds * 5)
                beside = f"; Redis EXISTS pipelined {theirs * 1e6:,.0f} us, {theirs / took:.0f}x" if theirs else ""
                yield (f"MATCH of 4,096 hashes, all there, `{provider}`, p50", wanted,
                       f"{took * 1e6:.0f} us; `KvStore.leading` of a list, with its thread {whole * 1e6:.0f} us{beside}")

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
        yield ("Python's share of a batch of 256 (`KvStore.load`, its names and its thread, beyond the extension's call), p50", "<= 100 us",
               f"{(whole - bare) * 1e6:.0f} us: {whole * 1e6:.0f} us against {bare * 1e6:.0f} us")


def measure(quick):
    server = kv_case.CacheServer(args=["--set", "arena_size=1GiB"])
    folder = tempfile.mkdtemp(prefix="verbena-bench-kv-")
    redis = Redis(folder) if shutil.which("redis-server") else None
    try:
        with server:
            import verbena
            with verbena.connect(server.http, access_key=kv_case.ACCESS_KEY, secret_key=kv_case.SECRET_KEY, via="http") as client:
                client.make_bucket(kv_case.BUCKET)
            bench = Bench(server, quick)
            for rows in (bench.questions(redis), bench.large_blocks(), bench.layers(), bench.trace(), bench.small_blocks(redis), bench.full_buckets(), bench.overhead()):
                for row in rows:
                    print(" | ".join(row), flush=True)
                    yield row
    finally:
        if redis is not None:
            redis.close()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    info, rows = report.machine(), list(measure(arguments.quick))
    if arguments.quick:
        return
    text = "\n".join([MARKS[0], f"Written by `./dev bench kv`: {info['machine']}; {info['system']}; commit {info['commit']}; load average at the start "
                      f"{info['load']}, at the end {os.getloadavg()[0]:.1f}. Client and server share the machine.", "", "| what | wanted | measured |",
                      "| --- | --- | --- |", *(f"| {' | '.join(row)} |" for row in rows), MARKS[1]])
    path = ROOT / "docs" / "kv-engines.md"
    page = path.read_text()
    before, after = page.split(MARKS[0])[0], page.split(MARKS[1])[1]
    path.write_text(before + text + after)
    subprocess.run([sys.executable, str(ROOT / "tools" / "wrap_prose.py"), str(path)], check=True)


main()
