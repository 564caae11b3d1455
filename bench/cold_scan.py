#!/usr/bin/env python3
"""Uncached reads, beside fio on the same files: writes docs/performance-cold.md.

    ./dev bench cold                        about six minutes, 10 GiB of disk
    ./dev bench cold --size 2GiB --quick    one short round

A server without a hot tier has one large object in its volume files. Random ranges of it are read through the native
door (one range a request from many callers, and many ranges in one request) and over HTTP, then whole objects one
after the other. In the same round fio reads the same volume files, past the page cache (O_DIRECT) by io_uring, as
the server does. Each ratio is the server's throughput over fio's in that round: the median of the rounds, the least,
the greatest."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import report  # noqa: E402
import verbena_server  # noqa: E402

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
BUCKET = "cold-scan"
DEPTHS = [1, 4, 16, 64]
WHOLE = [MIB, 4 * MIB, 16 * MIB]


def bytes_of(text):
    for suffix, unit in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if text.endswith(suffix):
            return int(text.removesuffix(suffix)) * unit
    return int(text)


class Colds:
    """The server on the scanned directory, with one way of reading; a second server continues with the same objects."""

    def __init__(self, directory, disk_io):
        self.server = verbena_server.Server(directory, env={
            "VERBENA_CACHE_SIZE": "0", "VERBENA_DISK_IO": disk_io, "VERBENA_SCRUB_RATE": "0"})

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.stop()

    def client(self, *command):
        environment = dict(os.environ, AWS_ACCESS_KEY_ID=verbena_server.ACCESS_KEY,
                           AWS_SECRET_ACCESS_KEY=verbena_server.SECRET_KEY)
        run = subprocess.run([verbena_server.program(), *command, "--endpoint", self.server.http, "--native",
                              self.server.native], env=environment, capture_output=True, text=True, timeout=1800,
                             check=False)
        if run.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: exit status {run.returncode}\n{run.stderr}{run.stdout}")
        return run.stdout

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.server.process.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1]
        user, system = fields.split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def bytes_moved(self):
        with urllib.request.urlopen(f"http://{self.server.native}/-/metrics", timeout=30) as reply:
            lines = reply.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("verbena_door_bytes_total{"))

    def bench(self, *arguments):
        """Bytes per second, p50 in us and the server's CPU seconds per GB of one measurement; numerator and
        denominator both include warm-up and verification."""
        before, bytes_before = self.cpu_seconds(), self.bytes_moved()
        rows = [json.loads(line) for line in self.client(
            "bench", "--json", "--bucket", BUCKET, "--providers", "local", *arguments).splitlines() if line.startswith("{")]
        row, moved = rows[0], (self.bytes_moved() - bytes_before) / 1e9
        return {"rate": row["bytes_per_s"], "p50": row["p50_us"], "cpu": (self.cpu_seconds() - before) / max(moved, 1e-9)}


def fio(files, seconds, block, depth, pattern):
    run = subprocess.run(
        ["fio", "--name=scan", f"--filename={':'.join(map(str, files))}", f"--rw={pattern}", f"--bs={block}",
         f"--iodepth={depth}", "--direct=1", "--ioengine=io_uring", "--readonly", "--time_based", f"--runtime={seconds}",
         "--randrepeat=0", "--norandommap", "--file_service_type=random", "--lat_percentiles=1", "--output-format=json"],
        capture_output=True, text=True, timeout=600, check=False)
    if run.returncode != 0:
        raise SystemExit(f"fio: {run.stderr}{run.stdout}")
    job = json.loads(run.stdout[run.stdout.index("{"):])["jobs"][0]
    read = job["read"]
    cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000
    return {"rate": read["bw_bytes"], "p50": read["lat_ns"]["percentile"]["50.000000"] / 1000,
            "cpu": cpu / max(read["io_bytes"] / 1e9, 1e-9)}


def scan(cold, depth, seconds, size):
    """Name -> measurement, of random 64 KiB ranges."""
    common = ["--duration", str(seconds), "--sizes", "65536", "--object-size", str(size), "--concurrency", str(depth)]
    out = {"native": cold.bench("--doors", "native", "--ops", "range", *common),
           "http": cold.bench("--doors", "http", "--ops", "range", *common)}
    if depth > 1:
        out["native, one request"] = cold.bench("--doors", "native", "--ops", "ranges", *common)
    return out


def whole(cold, size, seconds):
    common = ["--duration", str(seconds), "--sizes", str(size), "--ops", "get"]
    return {door: cold.bench("--doors", door, *common) for door in ("native", "http")}


def measure(options, directory):
    """(what, depth or size, way) -> one measurement a round; way "fio" is the yardstick."""
    found = {}

    def keep(what, number, measured, disk_io):
        for way, one in measured.items():
            found.setdefault((what, number, f"{way}, {disk_io}"), []).append(one)

    for turn in range(options.rounds):
        for disk_io in ("io_uring", "threads"):
            with Colds(directory, disk_io) as cold:
                if turn == 0 and disk_io == "io_uring":
                    cold.client("mb", f"s3://{BUCKET}")
                    cold.bench("--doors", "http", "--ops", "range", "--duration", "0.01", "--sizes", "65536",
                               "--object-size", str(options.size), "--concurrency", "1")
                files = sorted(f for f in pathlib.Path(directory, "volumes").iterdir()
                               if f.stat().st_blocks * 512 >= 256 * MIB)
                for depth in DEPTHS:
                    found.setdefault(("range", depth, f"fio, {disk_io}"), []).append(
                        fio(files, options.seconds, 64 * KIB, depth, "randread"))
                    keep("range", depth, scan(cold, depth, options.seconds, options.size), disk_io)
                for size in WHOLE:
                    found.setdefault(("whole", size, f"fio, {disk_io}"), []).append(
                        fio(files, options.seconds, size, 1, "read"))
                    keep("whole", size, whole(cold, size, options.seconds), disk_io)
        print(f"round {turn + 1} of {options.rounds} done", file=sys.stderr)
    return found


def ratio_cell(found, what, number, way, figure):
    disk_io = way.rsplit(", ", 1)[1]
    own, peer = found.get((what, number, way)), found[(what, number, f"fio, {disk_io}")]
    if own is None:
        return "-"
    ratios = [a[figure] / b[figure] for a, b in zip(own, peer)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def middle(found, key, figure, scale=1.0, decimals=0):
    known = [one[figure] / scale for one in found.get(key, []) if one[figure] is not None]
    return f"{statistics.median(known):,.{decimals}f}" if known else "-"


def table(found, what, numbers, ways, name, figure):
    out = [f"| {name} | " + " | ".join(ways) + " |", "| --- " * (len(ways) + 1) + "|"]
    for number, label in numbers:
        out.append(f"| {label} | " + " | ".join(ratio_cell(found, what, number, way, figure) for way in ways) + " |")
    return out


def figures(found, what, numbers, ways, name):
    out = [f"| {name} | way | p50 us | MiB/s | CPU s/GB |", "| --- " * 5 + "|"]
    for number, label in numbers:
        for way in ["fio, io_uring", *ways]:
            if (what, number, way) in found:
                key = (what, number, way)
                out.append(f"| {label} | {way} | {middle(found, key, 'p50')} | {middle(found, key, 'rate', MIB)} | "
                           f"{middle(found, key, 'cpu', 1, 2)} |")
    return out


def document(options, found, took):
    info = report.machine()
    fio_version = subprocess.run(["fio", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    depths = [(d, str(d)) for d in DEPTHS]
    sizes = [(s, f"{s // MIB} MiB") for s in WHOLE]
    ranges = ["native, io_uring", "native, one request, io_uring", "http, io_uring", "native, threads", "http, threads"]
    objects = ["native, io_uring", "http, io_uring", "native, threads", "http, threads"]
    lines = [
        "# Cold reads", "",
        "Written by `./dev bench cold`; no figure here was entered by hand.", "",
        f"- Machine: {info['machine']}; {info['system']}; load at the end {info['load']}",
        f"- Verbena at {info['commit']}, {fio_version}; {options.rounds} rounds of {options.seconds:g} s a row, "
        f"{took / 60:.0f} minutes in all",
        f"- One object of {options.size / GIB:g} GiB, no hot tier; callers, server and fio share the machine's cores", "",
        "The server reads past the page cache, and so does fio (O_DIRECT, io_uring) on the same volume files in the same round. A",
        "ratio is the median of the rounds' (least to greatest). `io_uring` and `threads` are the two kinds of `disk_io`; fio is",
        "measured again beside each. Every byte that the server sends has been verified by the CRC32C of its 64 KiB block and has gone",
        "on to another process, which fio does not do. CPU is the server's (without what other programs do while it waits), or fio's.", "",
        "A key's native requests are served by one core: with io_uring that core does all of the work on them, with threads the kernel's",
        "part of each read is done on any CPU. If CPUs are idle, or other programs compete for them, threads can therefore be ahead in",
        "throughput; CPU per GB shows the cost of a read. Under a load above the number of CPUs every other figure is a matter of luck:",
        "look at the spread.", "",
        "## Random ranges of 64 KiB", "",
        "`native` and `http`: as many callers as the depth, one range each. `one request`: one caller, as many ranges in one message.", "",
        "Throughput, relative to fio's (more is better):", "",
        *table(found, "range", depths, ranges, "depth", "rate"), "",
        "p50, relative to fio's (less is better; for `one request` until the last of its ranges has arrived):", "",
        *table(found, "range", depths, ranges, "depth", "p50"), "",
        *figures(found, "range", depths, ranges, "depth"), "",
        "A range is read in whole blocks of 64 KiB, because a checksum covers a block: the bytes read exceed the range by less than a",
        "block at either end, and by nothing if the range is aligned, as here.", "",
        "## Whole objects, one after the other", "",
        "One caller; fio reads as large blocks, one at a time.", "",
        "Throughput, relative to fio's:", "",
        *table(found, "whole", sizes, objects, "size", "rate"), "",
        "p50, relative to fio's:", "",
        *table(found, "whole", sizes, objects, "size", "p50"), "",
        *figures(found, "whole", sizes, objects, "size"), "",
    ]
    return report.wrap_prose.paragraphs("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=bytes_of, default=8 * GIB, help="of the object (8GiB)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="a row")
    parser.add_argument("--quick", action="store_true", help="one round of half a second a row")
    parser.add_argument("--dir", help="folder for the server's data, on the disk to measure (a temporary one)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs", help="folder of performance-cold.md")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.5
    if shutil.which("fio") is None:
        raise SystemExit("fio is not installed (`./dev setup` installs it)")
    directory = tempfile.mkdtemp(prefix="verbena-cold-", dir=options.dir)
    began = time.monotonic()
    data = pathlib.Path(directory, "data")
    data.mkdir(mode=0o700)
    try:
        found = measure(options, data)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    text = document(options, found, time.monotonic() - began)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "performance-cold.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
