#!/usr/bin/env python3
"""Python, Go and other clients beside the C++ client, and beside what was used before, on one server in one run.

    ./dev bench clients            about five minutes; writes its section of docs/performance.md
    ./dev bench clients --quick    one short round, printed and not written

Each round runs all candidates one after the other; a ratio is the median of the rounds', with the least and the
greatest. Client and server share the machine. CPU is that of the process, or processes, from the kernel's accounts."""

import argparse
import collections
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import report

ROOT = report.ROOT
sys.path.insert(0, str(ROOT / "tests" / "lib"))
sys.path.insert(0, os.environ.get("CLIENT_PYTHON") or str(ROOT / "build" / "python"))
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, boto3_client  # noqa: E402

PYTHON = "/usr/bin/python3"  # Debian's, with its numpy, fsspec, boto3 and torch
KIB, MIB = 1 << 10, 1 << 20
BUCKET, SAMPLES, SAMPLE_BYTES, WORKERS = "clients", 400, 100_000, 8


# ---- Measurements in a process of their own ----

def connect(**options):
    import verbena
    return verbena.connect(via="native", provider="local", **options)


def timed(call, seconds, moved):
    for _ in range(3 if moved > MIB else 20):
        call()
    took, cpu, began = [], time.process_time(), time.perf_counter()
    while time.perf_counter() - began < seconds or len(took) < 3:
        before = time.perf_counter()
        call()
        took.append(time.perf_counter() - before)
    elapsed = time.perf_counter() - began
    return {"p50_us": statistics.median(took) * 1e6, "bytes_per_s": moved * len(took) / elapsed, "calls": len(took),
            "cpu_us": (time.process_time() - cpu) / len(took) * 1e6}


def child_get_into(key, size, seconds):
    import numpy
    client = connect()
    into = numpy.zeros(size, dtype=numpy.uint8)
    with client.register(into) as memory:
        return timed(lambda: client.get_into(BUCKET, key, memory), seconds, size)


def child_get_into_array(key, size, seconds):
    import numpy
    client = connect()
    into = numpy.zeros(size, dtype=numpy.uint8)
    return timed(lambda: client.get_into(BUCKET, key, into), seconds, size)


def child_get_numpy(key, size, seconds):
    import numpy
    client = connect()
    return timed(lambda: numpy.frombuffer(client.get(BUCKET, key), dtype=numpy.uint8), seconds, size)


def child_get_many(key, size, seconds):
    client = connect()
    memory = client.allocate(size * 64)
    items = tuple((BUCKET, f"{key}{i}", i * size, size) for i in range(64))
    return timed(lambda: client.get_many(items, memory).check(), seconds, size * 64)


def child_botocore(size, seconds):
    """botocore's own part of a GetObject, with a prepared answer: no transport, no copy of the bytes."""
    import verbena._answers as answers
    s3, body = boto3_client(os.environ["AWS_ENDPOINT_URL"]), os.urandom(MIB) * (size // MIB)
    headers = {"ETag": '"0"', "Content-Length": str(size), "Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT", "Content-Type": "text/x"}
    s3.meta.events.register_last("before-send.s3.GetObject", lambda request, **_: answers.response(request.url, 200, headers, body))
    return timed(lambda: s3.get_object(Bucket=BUCKET, Key="any")["Body"].read(), seconds, size)


def child_copy(size, seconds):
    """Another copy of the bytes into new memory."""
    source = bytearray(os.urandom(MIB) * (size // MIB))
    return timed(lambda: bytes(source), seconds, size)


def child_boto(how, verb, size, seconds):
    s3 = boto3_client(os.environ["AWS_ENDPOINT_URL"])
    if how != "plain":
        import verbena
        acceleration = verbena.accelerate(s3, native_endpoint=os.environ["VERBENA_NATIVE"], provider="local", md5_etags=how != "no md5")
    body, key = os.urandom(MIB) * (size // MIB), f"boto-{size}"
    if verb == "GET":
        # Held references: so many that no memory can be reused.
        held = collections.deque(maxlen=3 if how == "held" else 0)
        done = timed(lambda: held.append(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()), seconds, size)
    else:
        done = timed(lambda: s3.put_object(Bucket=BUCKET, Key=key + "-put", Body=body), seconds, size)
    if how != "plain":
        assert acceleration.counts["http"] == 0, acceleration.reasons
    return done


def child_ranges(how, key, count, size, seconds):
    starts = [i * size * 3 for i in range(count)]
    if how == "fsspec":
        from verbena.fs import VerbenaFileSystem
        files = VerbenaFileSystem(endpoint=os.environ["AWS_ENDPOINT_URL"], native_endpoint=os.environ["VERBENA_NATIVE"], access_key=ACCESS_KEY,
                                  secret_key=SECRET_KEY, provider="local")
        path = f"{BUCKET}/{key}"
        return timed(lambda: files.cat_ranges([path] * count, starts, [at + size for at in starts]), seconds, count * size)
    s3 = boto3_client(os.environ["AWS_ENDPOINT_URL"])

    def singles():
        return [s3.get_object(Bucket=BUCKET, Key=key, Range=f"bytes={at}-{at + size - 1}")["Body"].read() for at in starts]
    return timed(singles, seconds, count * size)


def child_loader(how, batch):
    import torch
    from torch.utils.data import DataLoader, Dataset
    keys = [f"sample/{i:04}" for i in range(SAMPLES)]

    class Plain(Dataset):
        client = None

        def __len__(self):
            return SAMPLES

        def __getitem__(self, index):
            if self.client is None:
                self.client = boto3_client(os.environ["AWS_ENDPOINT_URL"])
            return torch.frombuffer(bytearray(self.client.get_object(Bucket=BUCKET, Key=keys[index])["Body"].read()), dtype=torch.uint8)

    if how == "boto3":
        dataset = Plain()
    else:
        from verbena.torch import ObjectDataset
        dataset = ObjectDataset({"endpoint": os.environ["AWS_ENDPOINT_URL"], "native_endpoint": os.environ["VERBENA_NATIVE"],
                                 "access_key": ACCESS_KEY, "secret_key": SECRET_KEY, "provider": "local"}, BUCKET, keys=keys)
    torch.set_num_threads(1)
    loader = DataLoader(dataset, batch_size=batch, num_workers=WORKERS, persistent_workers=True)
    for _ in loader:  # starts and connects the workers
        pass
    workers = [worker.pid for worker in loader._iterator._workers]
    begin_cpu, began, samples, epochs = sum(map(cpu_of, workers)) + time.process_time(), time.perf_counter(), 0, 5
    for _ in range(epochs):
        for found in loader:
            samples += len(found)
    elapsed = time.perf_counter() - began
    cpu = sum(map(cpu_of, workers)) + time.process_time() - begin_cpu
    return {"samples_per_s": samples / elapsed, "samples_per_cpu_s": samples / max(cpu, 0.01), "cpu_us": cpu / samples * 1e6,
            "p50_us": elapsed / samples * 1e6, "bytes_per_s": samples * SAMPLE_BYTES / elapsed, "calls": samples}


# ---- The rounds ----

def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Round:
    def __init__(self, server, seconds):
        self.server, self.seconds = server, seconds
        self.env = dict(os.environ, AWS_ENDPOINT_URL=server.http, VERBENA_NATIVE=server.native, AWS_ACCESS_KEY_ID=ACCESS_KEY,
                        AWS_SECRET_ACCESS_KEY=SECRET_KEY, AWS_EC2_METADATA_DISABLED="true")

    def run(self, *command):
        before = cpu_of(self.server.process.pid)
        done = subprocess.run([str(one) for one in command], env=self.env, capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            raise RuntimeError(f"{command}: {done.returncode}\n{done.stderr[-3000:]}")
        row = json.loads(done.stdout.splitlines()[-1])
        # The three warm-up calls included: clock ticks are too coarse to leave them out.
        row["server_cpu_us"] = (cpu_of(self.server.process.pid) - before) / (row["calls"] + 3) * 1e6
        return row

    def python(self, name, *arguments):
        return self.run(PYTHON, __file__, "--child", json.dumps([name, *arguments]))


def measure(server, seconds, programs):
    """One round: name -> row."""
    one, rows = Round(server, seconds), {}
    rows["cpp 4K"] = one.run(programs["cpp"], "get", BUCKET, "small", 4 * KIB, seconds)
    rows["python 4K"] = one.python("get_into", "small", 4 * KIB, seconds)
    rows["python 4K array"] = one.python("get_into_array", "small", 4 * KIB, seconds)
    if programs["go"]:
        rows["go 4K"] = one.run(programs["go"], BUCKET, "small", 4 * KIB, seconds)
    rows["cpp many"] = one.run(programs["cpp"], "many", BUCKET, "many", 4 * KIB, seconds)
    rows["python many"] = one.python("get_many", "many", 4 * KIB, seconds)
    rows["cpp 16M"] = one.run(programs["cpp"], "get", BUCKET, "large", 16 * MIB, seconds)
    rows["python 16M"] = one.python("get_numpy", "large", 16 * MIB, seconds)
    rows["python 16M array"] = one.python("get_into_array", "large", 16 * MIB, seconds)
    for verb in ("GET", "PUT"):
        for size in (MIB, 64 * MIB):
            for how in ("plain", "accelerated"):
                rows[f"boto {verb} {size // MIB} {how}"] = one.python("boto", how, verb, size, seconds * (2 if size > MIB else 1))
    rows["boto GET 64 held"] = one.python("boto", "held", "GET", 64 * MIB, seconds * 2)
    rows["boto PUT 64 no md5"] = one.python("boto", "no md5", "PUT", 64 * MIB, seconds * 2)
    rows["botocore 1"] = one.python("botocore", MIB, seconds)
    rows["copy 64"] = one.python("copy", 64 * MIB, seconds)
    for how in ("fsspec", "boto3"):
        rows[f"ranges {how}"] = one.python("ranges", how, "ranged", 64, 64 * KIB, seconds)
    if programs["torch"]:
        for how in ("verbena", "boto3"):
            rows[f"loader {how}"] = one.python("loader", how, 50)
    return rows


def fill(server):
    import verbena
    with verbena.connect(server.http, native_endpoint=server.native, access_key=ACCESS_KEY, secret_key=SECRET_KEY) as client:
        client.make_bucket(BUCKET, memory=True)
        client.put(BUCKET, "small", os.urandom(4 * KIB))
        client.put_many([(BUCKET, f"many{i}", os.urandom(4 * KIB)) for i in range(64)]).check()
        client.put(BUCKET, "large", os.urandom(16 * MIB))
        client.put(BUCKET, "ranged", os.urandom(64 * 64 * KIB * 3))
        for size in (MIB, 64 * MIB):
            client.put(BUCKET, f"boto-{size}", os.urandom(size))
        client.put_many([(BUCKET, f"sample/{i:04}", os.urandom(SAMPLE_BYTES)) for i in range(SAMPLES)]).check()


def build_go(folder):
    """The Go program, or None without Go."""
    go = shutil.which("go")
    if go is None:
        return None
    path = pathlib.Path(folder) / "go"
    (path / "src").mkdir(parents=True)
    (path / "src" / "verbena").symlink_to(ROOT / "clients" / "go")
    cache = pathlib.Path(os.environ.get("VERBENA_CACHE") or pathlib.Path.home() / ".cache" / "verbena") / "go" / "cache"
    libraries = ROOT / "build" / "lib"
    env = dict(os.environ, GO111MODULE="off", GOFLAGS="", GOPATH=str(path), GOCACHE=str(cache), CGO_CFLAGS=f"-O2 -I{ROOT / 'include'}",
               CGO_LDFLAGS=f"-L{libraries} -Wl,-rpath,{libraries}")
    subprocess.run([go, "build", "-o", str(path / "client_calls"), str(ROOT / "bench" / "client_calls.go")], env=env, check=True)
    return path / "client_calls"


# ---- The table ----

def ratio(rounds, over, under, field, decimals=2):
    values = sorted(found[over][field] / max(found[under][field], 1e-9) for found in rounds if over in found and under in found)
    if not values:
        return "not measured"
    text = f"{statistics.median(values):.{decimals}f}x"
    return text if len(values) == 1 else f"{text} ({values[0]:.{decimals}f} to {values[-1]:.{decimals}f})"


def value(rounds, name, field="p50_us", scale=1.0, decimals=1):
    values = [found[name][field] * scale for found in rounds if name in found]
    return f"{statistics.median(values):.{decimals}f}" if values else "-"


def rows_of(rounds):
    us = lambda name: value(rounds, name) + " us"  # noqa: E731
    gbs = lambda name: value(rounds, name, "bytes_per_s", 1e-9, 2) + " GB/s"  # noqa: E731
    yield ("Python `get_into` 4 KiB into registered memory, `local`, p50, against C++", "<= 2x",
           f"{ratio(rounds, 'python 4K', 'cpp 4K', 'p50_us')}: {us('python 4K')} against {us('cpp 4K')}")
    yield ("the same into a numpy array", "", f"{ratio(rounds, 'python 4K array', 'cpp 4K', 'p50_us')}: {us('python 4K array')}")
    yield ("Python, 64 x 4 KiB as one batch, per object, against C++", "<= 1.2x",
           f"{ratio(rounds, 'python many', 'cpp many', 'p50_us')}: {value(rounds, 'python many', scale=1 / 64, decimals=2)} us against "
           f"{value(rounds, 'cpp many', scale=1 / 64, decimals=2)} us")
    yield ("Python `get` 16 MiB seen as a numpy array, `local`, throughput against C++", ">= 0.9x",
           f"{ratio(rounds, 'python 16M', 'cpp 16M', 'bytes_per_s')}: {gbs('python 16M')} against {gbs('cpp 16M')}")
    yield ("Python `get_into` 16 MiB into the caller's numpy array", "",
           f"{ratio(rounds, 'python 16M array', 'cpp 16M', 'bytes_per_s')}: {gbs('python 16M array')}")
    yield ("Go `GetInto` a slice, 4 KiB, `local`, p50, against C++", "<= 1.5x",
           f"{ratio(rounds, 'go 4K', 'cpp 4K', 'p50_us')}: {us('go 4K')}")
    wanted = {1: ">= 3x", 64: ">= 8x"}
    for verb in ("GET", "PUT"):
        for size in (1, 64):
            plain, fast = f"boto {verb} {size} plain", f"boto {verb} {size} accelerated"
            yield (f"boto3 {verb} {size} MiB, plain against accelerated, p50", wanted[size],
                   f"{ratio(rounds, plain, fast, 'p50_us', 1)}: {value(rounds, plain, scale=1e-3)} ms against {value(rounds, fast, scale=1e-3)} ms; "
                   f"CPU of the client {ratio(rounds, plain, fast, 'cpu_us', 1)}, of the server {ratio(rounds, plain, fast, 'server_cpu_us', 1)}")
    yield ("boto3 GET 64 MiB, plain against accelerated where the caller holds the last three, so that each comes into fresh memory", "",
           f"{ratio(rounds, 'boto GET 64 plain', 'boto GET 64 held', 'p50_us', 1)}: {value(rounds, 'boto GET 64 held', scale=1e-3)} ms")
    yield ("boto3 PUT 64 MiB, plain against accelerated with `md5_etags=False`", "",
           f"{ratio(rounds, 'boto PUT 64 plain', 'boto PUT 64 no md5', 'p50_us', 1)}: {value(rounds, 'boto PUT 64 no md5', scale=1e-3)} ms")
    yield ("for comparison: botocore's own work for a GET of 1 MiB, without any transport", "", f"{value(rounds, 'botocore 1', scale=1e-3)} ms")
    yield ("for comparison: 64 MiB copied into a new `bytes`", "", f"{value(rounds, 'copy 64', scale=1e-3)} ms")
    yield ("64 ranges of 64 KiB by fsspec's `cat_ranges`, against single GETs over HTTP", ">= 5x",
           f"{ratio(rounds, 'ranges boto3', 'ranges fsspec', 'p50_us', 1)}: {value(rounds, 'ranges boto3', scale=1e-3)} ms against "
           f"{value(rounds, 'ranges fsspec', scale=1e-3, decimals=2)} ms")
    yield (f"torch DataLoader, {WORKERS} workers, samples of 100 KB: samples a second of CPU, against boto3", ">= 5x",
           f"{ratio(rounds, 'loader verbena', 'loader boto3', 'samples_per_cpu_s', 1)}: {value(rounds, 'loader verbena', 'samples_per_cpu_s', 1, 0)} "
           f"against {value(rounds, 'loader boto3', 'samples_per_cpu_s', 1, 0)}; a second of time "
           f"{ratio(rounds, 'loader verbena', 'loader boto3', 'samples_per_s', 1)}")


def section(info, rounds, seconds):
    out = [report.CLIENTS[0], "## Clients in other languages", "",
           f"Written by `./dev bench clients`: {info['machine']}; {info['system']}; commit {info['commit']}; load average at "
           f"the start {info['load']}, at the end {os.getloadavg()[0]:.1f}; {len(rounds)} rounds, {seconds} s a row. Client and server share the machine.", "",
           "| what | wanted | measured |", "| --- | --- | --- |"]
    out += [f"| {' | '.join(row)} |" for row in rows_of(rounds)]
    return "\n".join([*out, "", report.CLIENTS[1], ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round, printed and not written")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        name, *more = json.loads(arguments.child)
        print(json.dumps(globals()[f"child_{name}"](*more)))
        return
    seconds, count = (0.3, 1) if arguments.quick else (arguments.seconds, arguments.rounds)
    info, rounds = report.machine(), []
    has_torch = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode == 0
    with Server() as server:
        fill(server)
        folder = pathlib.Path(server.directory).parent / f"verbena-bench-clients-{os.getpid()}"
        try:
            programs = {"cpp": ROOT / "build" / "bin" / "client_calls", "go": build_go(folder), "torch": has_torch}
            for number in range(count):
                print(f"round {number + 1} of {count}", file=sys.stderr)
                rounds.append(measure(server, seconds, programs))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    text = section(info, rounds, seconds)
    print(text)
    if not arguments.quick:
        path = ROOT / "docs" / "performance.md"
        path.write_text(report.merged(path.read_text(encoding="utf-8"), text, report.CLIENTS), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
