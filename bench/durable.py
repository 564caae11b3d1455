#!/usr/bin/env python3
"""Durable PUTs beside fio on the same disk: prints tables, or writes a page into docs.

    ./dev bench durable                     about ten minutes, 4 GiB of disk
    ./dev bench durable --seconds 2         shorter
    ./dev bench durable --counts            counts for each PUT alone: a busy machine does not change them; as root on an ext4
                                            with a journal, made in a file
    ./dev bench durable --profile           by perf: calls for each PUT, and where the server's time goes
    ./dev bench durable --page              writes the page (performance-durable.md): on a quiet machine

Each round starts a server and puts objects into a `sync` bucket, over HTTP signed and over the native door, after a
warm-up in which all keys are overwritten. In the same round fio writes blocks of that size past the page cache with
fdatasync after each: over files that are written already and as long as a volume, and appending; and one core computes
MD5s. Rates are medians of the rounds, ratios are to the slower of fio overwriting and the MD5 in the same round."""

import argparse
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "lib"), str(ROOT / "bench")]

import durable_counts  # noqa: E402
import durable_profile  # noqa: E402
import report  # noqa: E402
import verbena_server  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
# (row, door, size, callers, the least wanted of the yardstick). The client of large bodies does not sign their bytes: it
# would hash each before it sends a byte, which is no work of the server's.
PUTS = [("PUT 4 KiB", "http", 4 * KIB, 16, None),
        ("PUT 64 KiB", "http", 64 * KIB, 16, 0.6),
        ("PUT 1 MiB, unsigned payload", "unsigned", 1 * MIB, 4, 0.8),
        ("PUT 16 MiB, unsigned payload", "unsigned", 16 * MIB, 4, 0.8),
        ("native PUT 64 KiB", "native", 64 * KIB, 16, 0.8)]
EARLIER_4K = (11_400, 13_700)  # PUTs of 4 KiB a second before free space was kept, of another hour: twice that is wanted
# A section that stays when the page is written anew: why rows are missed, of the commit that it names.
CAUSES = ("<!-- causes -->", "<!-- end of causes -->")
KEYS, STEADY_CALLERS = 1008, 16  # of the row that overwrites the same keys for minutes
FILES, FILE_SIZE = 4, 256 * MIB  # of fio: as long as the volumes that are made ahead
COUNTED_PUTS = 10_000
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
    if appending:
        work = ["--rw=write", "--size=8g", "--fallocate=none", "--file_append=1", "--fdatasync=1", "--time_based=0",
                f"--runtime={seconds}", "--unlink=1", "--create_on_open=1"]
    else:
        files = [f"--filename={':'.join(f'volume{i}' for i in range(FILES))}", f"--filesize={FILE_SIZE}",
                 f"--size={FILES * FILE_SIZE}"]
        if not (layout / "volume0").exists():
            subprocess.run(["fio", f"--directory={layout}", "--name=lay", "--bs=1m", "--direct=1", "--ioengine=psync", *files,
                            "--rw=write", "--end_fsync=1"], check=True, capture_output=True, timeout=600)
        work = [*files, "--rw=randwrite", "--overwrite=1", "--fdatasync=1", "--time_based", f"--runtime={seconds}"]
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

    def bench(self, size, seconds, door="http", callers=16, more=()):
        before = self.cpu_s()
        where = {"native": ["--providers", "local"], "unsigned": ["--unsigned-payload"]}.get(door, [])
        row = durable_counts.row_of(verbena_server.program(), self.server, self.environment, [
            "--doors", "native" if door == "native" else "http", *where, "--ops", "put", "--sizes", str(size), "--concurrency",
            str(callers), "--duration", str(seconds), *more])
        puts = row["bytes_per_s"] / size
        return {"rate": puts, "p50": row["p50_us"], "cpu": (self.cpu_s() - before) / max(puts * seconds, 1) * 1e6}

    def commits(self):
        return durable_counts.metrics(self.server).get("verbena_store_commits_total", 0)


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


def wanted_of(row, puts, ratio, wanted):
    if row != "PUT 4 KiB":
        return verdict(ratio, wanted)
    least = 2 * EARLIER_4K[0]
    return f">= {least:,}/s, twice {EARLIER_4K[0]:,} to {EARLIER_4K[1]:,}: {'held' if puts >= least else 'missed'}"


def rates(rounds):
    lines = ["| PUT, `sync` | callers | PUTs/s | fio overwriting, writes/s | of the slower of fio and MD5 | wanted |",
             "| --- | --- | --- | --- | --- | --- |"]
    for row, _, _, callers, wanted in PUTS:
        ratios = [found[row, "kept"] / min(found[row, "fio overwriting"], found[row, "MD5"]) for found in rounds]
        middle = [statistics.median(found[row, what] for found in rounds) for what in ("kept", "fio overwriting")]
        ratio = statistics.median(ratios)
        lines.append(f"| {row} | {callers} | {middle[0]:,.0f} | {middle[1]:,.0f} | {ratio:.2f} "
                     f"({min(ratios):.2f} to {max(ratios):.2f}) | {wanted_of(row, middle[0], ratio, wanted)} |")
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
        lines.append(f"| PUT 64 KiB over the same {KEYS:,} keys for {steady[1]} minutes: the last minute, of the first | {steady[0]:.2f} | "
                     f"{verdict(steady[0], STEADY_WANTED)} |")
    lines += [f"| PUT 64 KiB with freed space given back, of kept | {back:.2f} | - |",
              f"| fio appending, of overwriting | {appending:.2f} | - |"]
    return "\n".join(lines)


def steadiness(folder, minutes, minute_s=60):
    """One run that overwrites the same keys: the rate of its last minute, of that of its first; and the minutes."""
    with tempfile.TemporaryDirectory(dir=folder) as directory, Puts(pathlib.Path(directory) / "data", WAYS["kept"]) as puts:
        thread = threading.Thread(target=puts.bench, args=(64 * KIB, minutes * minute_s), kwargs={
            "callers": STEADY_CALLERS, "more": ["--keys", str(KEYS // STEADY_CALLERS)]})
        thread.start()
        while puts.commits() < KEYS + 11 * STEADY_CALLERS and thread.is_alive():  # all keys are there, and warmed up
            time.sleep(0.2)
        marks = [puts.commits()]
        for _ in range(minutes):
            time.sleep(minute_s if thread.is_alive() else 0)
            if not thread.is_alive() and len(marks) < minutes:
                sys.exit("durable: the load that overwrites the same keys ended early")
            marks.append(puts.commits())
        thread.join()
    each = [after - before for before, after in zip(marks, marks[1:])]
    return each[-1] / each[0], minutes


def counted(folder, seconds):
    """(way, size) -> counts for each PUT, in steady state."""
    found = {}
    more = ["--count", str(COUNTED_PUTS // 16)]
    for way, keep_free in WAYS.items():
        with tempfile.TemporaryDirectory(dir=folder) as directory, Puts(pathlib.Path(directory) / "data", keep_free) as puts:
            for size in COUNTED:
                if way == "kept":
                    durable_counts.settle(puts.server, size, lambda size=size: puts.bench(size, seconds))
                else:
                    puts.bench(size, seconds)
                found[way, size] = durable_counts.count(puts.server, puts.folder, lambda size=size: puts.bench(size, 60, more=more))
    return found


def counts_table(folder, seconds):
    """On an ext4 with a journal where this user may mount one. The table, and where it was counted."""
    with durable_counts.journalled(folder) as (where, named):
        found = counted(where, seconds)
    return durable_counts.table([(f"{size // KIB} KiB, {way}", found[way, size]) for size in COUNTED for way in WAYS]), named


def profiled(folder, seconds):
    """Of PUTs of 64 KiB by 16 callers, and of 4 KiB by one, in steady state."""
    lines = []
    for size, callers in ((64 * KIB, 16), (4 * KIB, 1)):
        with tempfile.TemporaryDirectory(dir=folder) as directory, Puts(pathlib.Path(directory) / "data", WAYS["kept"]) as puts:
            def load(size=size, callers=callers, puts=puts):
                puts.bench(size, seconds, callers=callers)
            durable_counts.settle(puts.server, size, load)
            lines += [f"PUT {size // KIB} KiB, callers: {callers}", "", *durable_profile.profile(puts.server, puts.commits, load), ""]
    return "\n".join(lines)


def document(options, tables, took):
    info = report.machine()
    fio_version = subprocess.run(["fio", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    lines = ["# Durable writes", "", "Written by `./dev bench durable --page`, but for the causes, which name their commit.", "",
             f"- Machine: {info['machine']}; {info['system']}; load at the end {info['load']}, "
             f"{options.load} while the rates were measured",
             f"- Verbena at {info['commit']}, {fio_version}; {options.rounds} rounds of {options.seconds:g} s a row, "
             f"{took / 60:.0f} minutes in all",
             f"- Files, the server's and fio's, on {durable_counts.file_system_of(options.folder or tempfile.gettempdir())}",
             "- Callers, server and fio share the machine's cores", "",
             "HTTP requests are signed in their header, by plain HTTP; unsigned payload: without the SHA-256 of their bytes, which the",
             f"client would compute before it sends any. fio writes with O_DIRECT and calls fdatasync after each write, to {FILES} files of",
             f"{FILE_SIZE // MIB} MiB, as long as the volumes that the server makes ahead. The MD5 is that of one core (OpenSSL, by Python),",
             "which is what the entity tag of a PUT over HTTP needs. The figures that PUTs of 4 KiB are held against are of an earlier",
             "commit, machine and hour, as the goal names them; the other wanted figures are ratios within a round.", "",
             "## Rates", "", tables[0], "", "## Beside the rates", "", tables[1], "", "## Counts", "",
             f"Of {COUNTED_PUTS:,} PUTs of 16 callers, on {tables[3]}. *Kept*: in steady state, freed space is used again in place. *Given",
             "back*: `data.keep_free: 0`, the way before, in which freed space is punched and each PUT appends. System calls are counted in",
             "a run of their own, because strace slows the server.", "",
             tables[2], ""]
    return report.wrap_prose.paragraphs("\n".join(lines))


def measured(options, folder):
    rounds = []
    loads = []
    for number in range(options.rounds):
        rounds.append(one_round(folder, options.seconds))
        loads.append(os.getloadavg()[0])
        print(f"round {number + 1} of {options.rounds} done", file=sys.stderr)
    options.load = f"{min(loads):.0f} to {max(loads):.0f}"
    return rounds


def tables_of(options, folder):
    """Rates and what is beside them, the counts, and where these were counted. What takes longest comes last."""
    if options.profile:
        return (profiled(folder, options.seconds),)
    rounds = [] if options.counts else measured(options, folder)
    table, where = counts_table(folder, options.seconds)
    print("counted", file=sys.stderr)
    if options.counts:
        return (table,)
    steady = steadiness(folder, options.minutes) if options.minutes > 1 else None
    return rates(rounds), others(rounds, steady), table, where


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=int, default=5, help="of overwriting the same keys; 0: none")
    parser.add_argument("--folder", help="on the disk to measure (default: the temporary folder)")
    parser.add_argument("--counts", action="store_true", help="counts for each PUT alone")
    parser.add_argument("--profile", action="store_true", help="what perf counts and samples, alone")
    parser.add_argument("--page", action="store_true", help="writes the page")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="verbena-durable-", dir=options.folder) as name:
        folder = pathlib.Path(name)
        tables = tables_of(options, folder)
    print("\n\n".join(tables))
    if options.page and not options.counts and not options.profile:
        page = ROOT / "docs" / "performance-durable.md"
        before = page.read_text(encoding="utf-8") if page.exists() else ""
        text = document(options, tables, time.monotonic() - began)
        if section := report.section_of(before, CAUSES):
            text = report.merged(text, section, CAUSES)
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
