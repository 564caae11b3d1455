#!/usr/bin/env python3
"""Durable PUTs beside fio on the same disk: prints a table.

    ./dev bench durable                     about four minutes, 3 GiB of disk
    ./dev bench durable --seconds 2         shorter

Each round starts a server that keeps its freed space (data.keep_free) and one that gives it back at once, and puts objects
into a `sync` bucket over HTTP, signed, from 16 connections, after a warm-up in which all keys are overwritten. In the
same round fio writes as many jobs' blocks of that size past the page cache with fdatasync after each: over a file that is
written already, and appending. Rates are medians of the rounds, ratios are to fio overwriting in the same round."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import verbena_server  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
CALLERS = 16
SIZES = [4 * KIB, 64 * KIB]
WAYS = {"kept": "4GiB", "given back": "0"}


def fio(folder, size, seconds, appending):
    """Writes per second."""
    layout = folder / ("append" if appending else "over")
    layout.mkdir(exist_ok=True)
    common = ["fio", f"--directory={layout}", "--name=put", f"--bs={size}", f"--numjobs={CALLERS}", "--direct=1",
              "--ioengine=psync", "--group_reporting", "--output-format=json"]
    if appending:
        work = ["--rw=write", "--size=8g", "--fallocate=none", "--file_append=1", "--fdatasync=1", "--time_based=0",
                f"--runtime={seconds}", "--unlink=1", "--create_on_open=1"]
    else:
        subprocess.run([*common, "--rw=write", "--size=64m", "--overwrite=1", "--create_only=1"], check=True,
                       capture_output=True, timeout=600)
        work = ["--rw=randwrite", "--size=64m", "--overwrite=1", "--fdatasync=1", "--time_based", f"--runtime={seconds}"]
    run = subprocess.run([*common, *work], capture_output=True, text=True, timeout=600, check=False)
    if run.returncode != 0:
        raise SystemExit(f"fio: {run.stderr}{run.stdout}")
    return json.loads(run.stdout[run.stdout.index("{"):])["jobs"][0]["write"]["iops"]


class Puts:
    """A server on a directory of its own; PUTs per second, and its CPU for each in us."""

    def __init__(self, folder, keep_free):
        folder.mkdir()
        self.server = verbena_server.Server(folder, env={"VERBENA_DATA_KEEP_FREE": keep_free, "VERBENA_SCRUB_RATE": "0"})

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.server.process.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1]
        return sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")

    def bench(self, size, seconds):
        environment = dict(os.environ, AWS_ACCESS_KEY_ID=verbena_server.ACCESS_KEY,
                           AWS_SECRET_ACCESS_KEY=verbena_server.SECRET_KEY)
        before = self.cpu_s()
        run = subprocess.run(
            [verbena_server.program(), "bench", "--json", "--doors", "http", "--ops", "put", "--sizes", str(size),
             "--concurrency", str(CALLERS), "--duration", str(seconds), "--durability", "sync", "--endpoint",
             self.server.http, "--native", self.server.native],
            env=environment, capture_output=True, text=True, timeout=600, check=False)
        if run.returncode != 0:
            raise SystemExit(f"verbena bench: {run.stderr}{run.stdout}")
        row = next(json.loads(line) for line in run.stdout.splitlines() if line.startswith("{"))
        puts = row["bytes_per_s"] / size
        return puts, (self.cpu_s() - before) / max(puts * seconds, 1) * 1e6


def one_round(folder, seconds):
    """(size, what) -> rate, and CPU of the servers."""
    found = {}
    for size in SIZES:
        found[size, "fio overwriting"] = (fio(folder, size, seconds, False), None)
        found[size, "fio appending"] = (fio(folder, size, seconds, True), None)
    for way, keep_free in WAYS.items():
        with tempfile.TemporaryDirectory(dir=folder) as directory:
            puts = Puts(pathlib.Path(directory) / "data", keep_free)
            puts.server.start()
            try:
                for size in SIZES:
                    puts.bench(size, seconds)
                    found[size, way] = puts.bench(size, seconds)
            finally:
                puts.server.stop()
    return found


def table(rounds):
    lines = ["| PUT, `sync`, 16 connections | writes/s | of fio overwriting | server CPU each, us |", "| --- | --- | --- | --- |"]
    for size in SIZES:
        for what in ["fio overwriting", "fio appending", *WAYS]:
            rates = [found[size, what][0] for found in rounds]
            ratios = [found[size, what][0] / found[size, "fio overwriting"][0] for found in rounds]
            cpus = [found[size, what][1] for found in rounds if found[size, what][1] is not None]
            name = what if what.startswith("fio") else f"freed space {what}"
            cpu = f"{statistics.median(cpus):,.0f}" if cpus else "-"
            lines.append(f"| {size // KIB} KiB, {name} | {statistics.median(rates):,.0f} | "
                         f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | {cpu} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="on the disk to measure (default: the temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="verbena-durable-", dir=options.folder) as folder:
        rounds = []
        for number in range(options.rounds):
            rounds.append(one_round(pathlib.Path(folder), options.seconds))
            print(f"round {number + 1} of {options.rounds} done", file=sys.stderr)
    print(table(rounds))


if __name__ == "__main__":
    main()
