#!/usr/bin/env python3
"""The cost of a PUT into a `sync` bucket on a store of many objects beside an empty one, alternating: right after the
store was filled, while the index still compacts, and when it is idle.

    bench/scale_puts.py                        10,000,000 objects of 256 bytes; 3 GiB of disk, a quarter of an hour
    bench/scale_puts.py --work DIR --reuse     with the store that an earlier run has left in DIR

Prints, for each turn: requests, median and 99th percentile of their time, server CPU a request (its background
threads included), and bytes written."""

import argparse
import pathlib
import re
import shutil
import statistics
import tempfile
import time

import scale

SECONDS = 15


class Turn:
    """PUTs of new keys on one connection for a while."""

    def __init__(self, server, seconds):
        connection = scale.Connection(server.host)
        connection.ask(connection.message("PUT", "/scale-sync"))
        keys = iter(range(time.time_ns(), 1 << 63))  # numbers beyond those of any fill
        cpu, written, times, began = server.cpu_s(), written_by(server), [], time.perf_counter()
        while time.perf_counter() - began < seconds:
            status, body, us = connection.ask(scale.put_message(connection, "scale-sync", scale.shuffled(next(keys))))
            if status != 200:
                raise RuntimeError(f"PUT: status {status}: {body[:300]}")
            times.append(us)
        connection.close()
        self.count, self.p50 = len(times), statistics.median(times)
        self.p99 = sorted(times)[len(times) * 99 // 100]
        self.cpu_us = (server.cpu_s() - cpu) / len(times) * 1e6
        self.written = (written_by(server) - written) / seconds / (1 << 20)

    def __str__(self):
        return (f"{self.count:>6} requests, p50 {self.p50:>5.0f} us, p99 {self.p99:>6.0f} us, CPU {self.cpu_us:>5.0f} us, "
                f"{self.written:>6.1f} MiB/s written")


def written_by(server):
    text = pathlib.Path(f"/proc/{server.process.pid}/io").read_text(encoding="utf-8")
    return int(re.search(r"^write_bytes: (\d+)", text, re.M).group(1))


def at_rest(directory, rest=True):
    with scale.Watched(directory) as server:
        if rest:
            server.rest()
        return Turn(server, SECONDS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=pathlib.Path, help="folder for the stores (default: a temporary one, which is removed)")
    parser.add_argument("--reuse", action="store_true", help="the store of many objects is there, and at rest")
    arguments = parser.parse_args()
    work = arguments.work or pathlib.Path(tempfile.mkdtemp(prefix="verbena-puts-"))
    many, empty = work / "objects", work / "small"
    try:
        if not arguments.reuse:
            scale.load("fill", many, "--from", 0, "--to", arguments.objects, "--size", scale.SIZE)
            print(f"after the fill  {at_rest(many, rest=False)}", flush=True)
        ratios = []
        for _ in range(arguments.rounds):
            one, other = at_rest(empty), at_rest(many)
            ratios.append(other.p50 / one.p50)
            print(f"empty           {one}\n{arguments.objects:<15,} {other}", flush=True)
        print(f"ratio of p50: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    finally:
        if arguments.work is None:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
