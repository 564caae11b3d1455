#!/usr/bin/env python3
"""Durable PUTs beside fio on the same disk: prints tables, or writes a page into docs.

    ./dev bench durable                     about ten minutes, 4 GiB of disk
    ./dev bench durable --seconds 2         shorter
    ./dev bench durable --counts            counts for each PUT alone: a busy machine does not change them
    ./dev bench durable --page              writes the page (performance-durable.md): on a quiet machine

Each round starts a server and puts objects into a `sync` bucket, over HTTP signed and over the native door, after a
warm-up in which all keys are overwritten. In the same round fio writes blocks of that size past the page cache with
fdatasync after each: over files that are written already, and appending; and one core computes MD5s. Rates are medians
of the rounds, ratios are to the slower of fio overwriting and the MD5 in the same round."""

import argparse
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "lib"), str(ROOT / "bench")]

import durable_counts  # noqa: E402
import report  # noqa: E402
import verbena_server  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
# (row, door, size, callers, the least wanted of the yardstick)
PUTS = [("PUT 4 KiB", "http", 4 * KIB, 16, None),
        ("PUT 64 KiB", "http", 64 * KIB, 16, 0.6),
        ("PUT 1 MiB", "http", 1 * MIB, 4, 0.8),
        ("PUT 16 MiB", "http", 16 * MIB, 4, 0.8),
        ("native PUT 64 KiB", "native", 64 * KIB, 16, 0.8)]
COUNTED = [64 * KIB, 4 * KIB]
WAYS = {"kept": "4GiB", "given back": "0"}
CPU_WANTED_US = 80  # of a PUT of 64 KiB over HTTP, less its MD5
LATENCY_WANTED = 1.5  # of one caller's PUT of 4 KiB, of one write and flush
STEADY_WANTED = 0.95  # the last minute of overwriting, of the first


def fio(folder, size, callers, seconds, appending=False):
    """Writes per second, and the median time of a write and its fdatasync in us."""
    layout = folder / ("append" if appending else "over")
    layout.mkdir(exist_ok=True)
    common = ["fio", f"--directory={layout}", f"--name=put{size}", f"--bs={size}", f"--numjobs={callers}", "--direct=1",
              "--ioengine=psync", "--group_reporting", "--output-format=json"]
    file_size = max(64 * MIB, 4 * size)
    if appending:
        work = ["--rw=write", "--size=8g", "--fallocate=none", "--file_append=1", "--fdatasync=1", "--time_based=0",
                f"--runtime={seconds}", "--unlink=1", "--create_on_open=1"]
    else:
        subprocess.run([*common, "--rw=write", f"--size={file_size}", "--overwrite=1", "--create_only=1"], check=True,
                       capture_output=True, timeout=600)
        work = ["--rw=randwrite", f"--size={file_size}", "--overwrite=1", "--fdatasync=1", "--time_based",
                f"--runtime={seconds}"]
    run = subprocess.run([*common, *work], capture_output=True, text=True, timeout=600, check=False)
    if run.returncode != 0:
        raise SystemExit(f"fio: {run.stderr}{run.stdout}")
    job = json.loads(run.stdout[run.stdout.index("{"):])["jobs"][0]
    halves = [job["write"]["clat_ns"], job["sync"]["lat_ns"]]
    p50 = sum(half.get("percentile", {}).get("50.000000", half["mean"]) for half in halves) / 1000
    return job["write"]["iops"], p50


def md5_rate(size, seconds=1.0):
    """Bodies per second, by one core."""
    body, done, begun = os.urandom(size), 0, time.monotonic()
    while time.monotonic() - begun < seconds:
        hashlib.md5(body).digest()
        done += 1
    return done / (time.monotonic() - begun)


class Puts:
    """A server on a directory of its own; PUTs per second, and its CPU for each in us."""

    def __init__(self, folder, keep_free):
        folder.mkdir()
        self.folder = folder
        self.server = verbena_server.Server(folder, env={"VERBENA_DATA_KEEP_FREE": keep_free, "VERBENA_SCRUB_RATE": "0"})
        self.environment = dict(os.environ, AWS_ACCESS_KEY_ID=verbena_server.ACCESS_KEY,
                                AWS_SECRET_ACCESS_KEY=verbena_server.SECRET_KEY)

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.stop()

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.server.process.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1]
        return sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")

    def bench(self, size, seconds, door="http", callers=16):
        before = self.cpu_s()
        where = ["--providers", "local"] if door == "native" else []
        row = durable_counts.row_of(verbena_server.program(), self.server, self.environment, [
            "--doors", door, *where, "--ops", "put", "--sizes", str(size), "--concurrency", str(callers), "--duration",
            str(seconds)])
        puts = row["bytes_per_s"] / size
        return {"rate": puts, "p50": row["p50_us"], "cpu": (self.cpu_s() - before) / max(puts * seconds, 1) * 1e6}


def one_round(folder, seconds):
    """(row, what) -> figure."""
    found = {}
    for row, _, size, callers, _ in PUTS:
        found[row, "fio overwriting"], _ = fio(folder, size, callers, seconds)
        found[row, "MD5"] = md5_rate(size) if not row.startswith("native") else float("inf")
    found["PUT 64 KiB", "fio appending"], _ = fio(folder, 64 * KIB, 16, seconds, appending=True)
    _, found["one caller", "fio p50"] = fio(folder, 4 * KIB, 1, seconds)
    for way, keep_free in WAYS.items():
        with tempfile.TemporaryDirectory(dir=folder) as directory, Puts(pathlib.Path(directory) / "data", keep_free) as puts:
            for row, door, size, callers, _ in PUTS:
                puts.bench(size, seconds, door, callers)
                got = puts.bench(size, seconds, door, callers)
                found[row, way], found[row, f"{way}, CPU"] = got["rate"], got["cpu"]
            if way == "kept":
                found["one caller", "p50"] = puts.bench(4 * KIB, seconds, callers=1)["p50"]
    return found


def verdict(value, wanted, at_least=True):
    if wanted is None:
        return "-"
    good = value >= wanted if at_least else value <= wanted
    return f"{'>=' if at_least else '<='} {wanted:g}: {'held' if good else 'missed'}"


def rates(rounds):
    lines = ["| PUT, `sync` | callers | PUTs/s | fio overwriting, writes/s | of the slower of fio and MD5 | wanted |",
             "| --- | --- | --- | --- | --- | --- |"]
    for row, _, _, callers, wanted in PUTS:
        ratios = [found[row, "kept"] / min(found[row, "fio overwriting"], found[row, "MD5"]) for found in rounds]
        middle = [statistics.median(found[row, what] for found in rounds) for what in ("kept", "fio overwriting")]
        ratio = statistics.median(ratios)
        lines.append(f"| {row} | {callers} | {middle[0]:,.0f} | {middle[1]:,.0f} | {ratio:.2f} "
                     f"({min(ratios):.2f} to {max(ratios):.2f}) | {verdict(ratio, wanted)} |")
    return "\n".join(lines)


def others(rounds, steady):
    cpu = statistics.median(found["PUT 64 KiB", "kept, CPU"] - 1e6 / found["PUT 64 KiB", "MD5"] for found in rounds)
    latency = statistics.median(found["one caller", "p50"] / found["one caller", "fio p50"] for found in rounds)
    back = statistics.median(found["PUT 64 KiB", "given back"] / found["PUT 64 KiB", "kept"] for found in rounds)
    appending = statistics.median(found["PUT 64 KiB", "fio appending"] / found["PUT 64 KiB", "fio overwriting"]
                                  for found in rounds)
    lines = ["| what | measured | wanted |", "| --- | --- | --- |",
             f"| server CPU for a PUT of 64 KiB, less its MD5, us | {cpu:,.0f} | {verdict(cpu, CPU_WANTED_US, False)} |",
             f"| p50 of one caller's PUT of 4 KiB, of a write and flush of 4 KiB | {latency:.2f} | "
             f"{verdict(latency, LATENCY_WANTED, False)} |"]
    if steady is not None:
        lines.append(f"| PUT 64 KiB over the same keys: the last minute, of the first | {steady:.2f} | "
                     f"{verdict(steady, STEADY_WANTED)} |")
    lines += [f"| PUT 64 KiB with freed space given back, of kept | {back:.2f} | - |",
              f"| fio appending, of overwriting | {appending:.2f} | - |"]
    return "\n".join(lines)


def steadiness(folder, minutes, minute_s=60):
    """The rate of the last minute of overwriting, of that of the first."""
    with tempfile.TemporaryDirectory(dir=folder) as directory, Puts(pathlib.Path(directory) / "data", WAYS["kept"]) as puts:
        each = [puts.bench(64 * KIB, minute_s)["rate"] for _ in range(minutes)]
    return each[-1] / each[0]


def counted(folder, seconds):
    """Size -> counts for each PUT, in steady state."""
    found = {}
    with tempfile.TemporaryDirectory(dir=folder) as directory, Puts(pathlib.Path(directory) / "data", WAYS["kept"]) as puts:
        for size in COUNTED:
            durable_counts.settle(puts.server, size, lambda size=size: puts.bench(size, seconds))
            found[size] = durable_counts.count(puts.server, puts.folder, lambda size=size: puts.bench(size, seconds))
    return found


def document(options, tables, took):
    info = report.machine()
    fio_version = subprocess.run(["fio", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    lines = ["# Durable writes", "", "Written by `./dev bench durable --page`; no figure here was entered by hand.", "",
             f"- Machine: {info['machine']}; {info['system']}; load at the end {info['load']}",
             f"- Verbena at {info['commit']}, {fio_version}; {options.rounds} rounds of {options.seconds:g} s a row, "
             f"{took / 60:.0f} minutes in all",
             "- Callers, server and fio share the machine's cores", "",
             "HTTP requests are signed in their header. fio writes with O_DIRECT and calls fdatasync after each write. The MD5 is that of",
             "one core (OpenSSL, by Python), which is what the entity tag of a PUT over HTTP needs.", "",
             "## Rates", "", tables[0], "", "## Beside the rates", "", tables[1], "", "## Counts", "",
             "In steady state, 16 callers. System calls are counted in a run of their own, because strace slows the server.", "",
             tables[2], ""]
    return report.wrap_prose.paragraphs("\n".join(lines))


def measured(options, folder):
    rounds = []
    for number in range(options.rounds):
        rounds.append(one_round(folder, options.seconds))
        print(f"round {number + 1} of {options.rounds} done", file=sys.stderr)
    steady = steadiness(folder, options.minutes) if options.minutes > 1 else None
    return rates(rounds), others(rounds, steady)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=int, default=5, help="of overwriting the same keys; 0: none")
    parser.add_argument("--folder", help="on the disk to measure (default: the temporary folder)")
    parser.add_argument("--counts", action="store_true", help="counts for each PUT alone")
    parser.add_argument("--page", action="store_true", help="writes the page")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="verbena-durable-", dir=options.folder) as name:
        folder = pathlib.Path(name)
        tables = () if options.counts else measured(options, folder)
        tables = (*tables, durable_counts.table(COUNTED, counted(folder, options.seconds)))
    print("\n\n".join(tables))
    if options.page and not options.counts:
        text = document(options, tables, time.monotonic() - began)
        (ROOT / "docs" / "performance-durable.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
