#!/usr/bin/env python3
"""Many small objects put into a `sync` bucket by PUT_MANY, by one client: the rate at the end beside the first million,
memory, the start after kill -9, and listings of ten keys from anywhere.

    bench/scale_many.py                          20,000,000 objects of 1 KiB: 50 GiB of disk, an hour
    bench/scale_many.py --objects 2000000        fewer: 5 GiB, a few minutes
    bench/scale_many.py --work DIR --reuse       the starts and listings alone, of the store that an earlier run left

The server is killed as soon as the last object is acknowledged. Then it is started, and listings, each after a random
key, follow when the index is at rest. Prints Markdown."""

import argparse
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import tempfile
import threading

import scale
import verbena_server

SIZE = 1024
RATE_WANTED, RSS_WANTED_GB, START_WANTED_S, LIST_WANTED_US = 0.9, 0.5, 1.0, 300
LISTINGS = 2000


class Rss(threading.Thread):
    """The most resident memory of a server, looked at ten times a second."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.most, self.done = server, 0, threading.Event()

    def run(self):
        while not self.done.wait(0.1):
            self.most = max(self.most, self.server.rss())


def fill(server, objects, tell):
    """A row for each `tell` objects: objects a second, and the server's CPU for each in us."""
    program = pathlib.Path(verbena_server.program()).parent / "bin" / "scale_load"
    command = [program, "put-many", server.native, "--endpoint", server.http, "--to", objects, "--size", SIZE, "--tell", tell]
    rows, cpu = [], server.cpu_s()
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, env=server.env) as load:
        for line in load.stdout:
            told, now = json.loads(line), server.cpu_s()
            rows.append({"upto": told["upto"], "rate": told["objects"] / told["seconds"],
                         "cpu_us": (now - cpu) / told["objects"] * 1e6})
            scale.say(f"{told['upto']:,} objects: {rows[-1]['rate']:,.0f}/s, {rows[-1]['cpu_us']:.1f} us of CPU each")
            cpu = now
    if load.returncode != 0:
        raise RuntimeError(f"scale_load: exit status {load.returncode}")
    return rows


def waited_for_processor(server):
    """Seconds that its first thread, which makes the start, was ready to run while others did."""
    return int(pathlib.Path(f"/proc/{server.process.pid}/task/{server.process.pid}/schedstat").read_text(encoding="utf-8").split()[1]) / 1e9


def start(directory, objects):
    """Of a server on a store that was killed: the time until it is ready and what it was spent on, then listings."""
    log = scale.disk_bytes(directory)[1]
    with scale.Watched(directory) as server:
        waited = waited_for_processor(server)
        scale.say(f"ready after {server.start_s:.2f} s and {server.start_cpu_s:.2f} s of CPU, {waited:.2f} s of waiting for a processor; log of {log >> 20} MiB")
        known = random.Random(objects)
        scale.check_objects(server, lambda: scale.shuffled(known.randrange(objects)), size=SIZE)
        found = {"start_s": server.start_s, "start_cpu_s": server.start_cpu_s, "waited_s": waited, "log": log, "rss": server.rss()}
        server.rest()
        found["list_us"], found["list_cpu_us"] = listings(server)
        server.kill()
    return found


def listings(server):
    connection, chance = scale.Connection(server.host), random.Random(1)
    times, cpu = [], server.cpu_s()
    for _ in range(LISTINGS):
        after = scale.shuffled(chance.randrange(1 << 40))[:8]
        status, _, us = connection.ask(connection.message(
            "GET", "/scale", [("list-type", "2"), ("max-keys", "10"), ("start-after", after)]))
        if status != 200:
            raise RuntimeError(f"LIST: status {status}")
        times.append(us)
    connection.close()
    return statistics.median(times), (server.cpu_s() - cpu) / LISTINGS * 1e6


def verdict(value, wanted, at_least=False):
    held = value >= wanted if at_least else value <= wanted
    return f"{'>=' if at_least else '<='} {wanted:g}: {'held' if held else 'missed'}"


def report(objects, rows, most, starts):
    lines = [f"{objects:,} objects of {SIZE:,} bytes", "", "| what | measured | wanted |", "| --- | --- | --- |"]
    if rows:
        ratio = rows[-1]["rate"] / rows[0]["rate"]
        lines += [f"| objects a second at the end, of those in the beginning | {rows[-1]['rate']:,.0f} of {rows[0]['rate']:,.0f}: "
                  f"{ratio:.2f} | {verdict(ratio, RATE_WANTED, at_least=True)} |",
                  f"| server CPU an object at the end, in the beginning, us | {rows[-1]['cpu_us']:.1f}, {rows[0]['cpu_us']:.1f} | - |",
                  f"| most memory (RSS) of the server, GB | {most / 1e9:.2f} | {verdict(most / 1e9, RSS_WANTED_GB)} |"]
    seconds, cpu, waited, log, rss, took, list_cpu = (statistics.median(one[name] for one in starts) for name in (
        "start_s", "start_cpu_s", "waited_s", "log", "rss", "list_us", "list_cpu_us"))
    lines += [f"| ready after kill -9, s | {seconds:.2f} | {verdict(seconds, START_WANTED_S)} |",
              f"| its CPU, s; of the time, waiting for a processor that other programs had, s | {cpu:.2f}; {waited:.2f} | - |",
              f"| the log that it read, MiB | {log / (1 << 20):.0f} | - |",
              f"| memory (RSS) when started, GB | {rss / 1e9:.2f} | - |",
              f"| LIST of 10 keys from anywhere, p50, us | {took:,.0f} | {verdict(took, LIST_WANTED_US)} |",
              f"| its server CPU, us | {list_cpu:,.0f} | - |"]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=20_000_000)
    parser.add_argument("--tell", type=int, default=1_000_000, help="objects for each figure of the rate")
    parser.add_argument("--starts", type=int, default=3, help="each after a kill -9")
    parser.add_argument("--work", type=pathlib.Path, help="folder for the store (default: a temporary one, which is removed)")
    parser.add_argument("--reuse", action="store_true", help="the store is there already")
    arguments = parser.parse_args()
    work = arguments.work or pathlib.Path(tempfile.mkdtemp(prefix="verbena-many-"))
    directory, rows, most = work / "objects", [], 0
    try:
        if not arguments.reuse:
            work.mkdir(exist_ok=True)
            with scale.Watched(directory) as server:
                connection = scale.Connection(server.host)
                connection.must("PUT", "/scale")
                connection.close()
                watch = Rss(server)
                watch.start()
                rows = fill(server, arguments.objects, arguments.tell)
                watch.done.set()
                watch.join()
                most = watch.most
                server.kill()
        starts = [start(directory, arguments.objects) for _ in range(arguments.starts)]
        print(report(arguments.objects, rows, most, starts))
    finally:
        if arguments.work is None:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
