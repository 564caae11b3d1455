#!/usr/bin/env python3
"""The native door over Verbena's tcp, with and without encryption, beside libfabric's tcp, in one run.

  bench/tcp_compare.py [--program build/verbena] [--before PROGRAM] [--duration SECONDS] [--rounds N]

libfabric's side is PROGRAM, a build of a commit in which the native door's `tcp` was libfabric's, if given; and its
own fi_rma_bw (writes, 64 in flight) and fi_rdm_pingpong (one way), from the libfabric that `./dev setup` builds. The
sides alternate; each figure is the median of the rounds. Prints Markdown.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

SIZES = ["4KiB", "64KiB", "1MiB", "16MiB"]
KIB, MIB = 1024, 1024 * 1024
LATENCY = [4 * KIB, 64 * KIB]
THROUGHPUT = [MIB, 16 * MIB]


def bench(program, seconds, encryption, fabtests):
    environment = dict(os.environ)
    if encryption:
        environment["VERBENA_RDMA_TCP_ENCRYPTION"] = encryption
    command = [program, "bench", "--json", "--duration", str(seconds), "--providers", "tcp", "--doors", "native",
               "--sizes", ",".join(SIZES)]
    rows = rows_of(command, environment)
    if fabtests:
        yardsticks = pathlib.Path(program).resolve().parent / "bin" / "yardsticks"
        rows += rows_of([yardsticks, "--json", "--no-memcpy", "--nginx", "off", "--sizes", ",".join(SIZES)], environment)
    return rows


def rows_of(command, environment):
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def value(rows, field, **wanted):
    found = [row[field] for row in rows if all(row[key] == what for key, what in wanted.items()) and row[field] is not None]
    return statistics.median(found) if found else None


def cell(number, form):
    return "-" if number is None else form.format(number)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--program", default="build/verbena")
    options.add_argument("--before", help="a build in which the native door's tcp was libfabric's")
    options.add_argument("--duration", type=float, default=1)
    options.add_argument("--rounds", type=int, default=3)
    options = options.parse_args()
    ways = {"encryption off": (options.program, "off"), "encryption on": (options.program, "on")}
    if options.before:
        ways = {"libfabric": (options.before, None), **ways}
    rows = {way: [] for way in ways}
    for turn in range(options.rounds):
        for way, (program, encryption) in ways.items():
            rows[way] += bench(program, options.duration, encryption, turn == 0 and encryption == "off")

    print(f"{os.cpu_count()} CPUs, Linux {platform.release()}, loopback, one caller, {options.duration:g} s a row, median of "
          f"{options.rounds} rounds.\n")
    print("| native door over `tcp` | " + " | ".join(ways) + " |\n|" + " --- |" * (len(ways) + 1))
    for size, name in zip(LATENCY + THROUGHPUT, SIZES):
        for op in ("get", "put"):
            wanted = {"door": "native", "op": op, "size": size}
            if size in LATENCY:
                line = [cell(value(rows[way], "p50_us", **wanted), "{:.1f} us") for way in ways]
                print(f"| {op.upper()} {name}, p50 | " + " | ".join(line) + " |")
            else:
                line = [value(rows[way], "bytes_per_s", **wanted) for way in ways]
                print(f"| {op.upper()} {name} | " + " | ".join(cell(n and n / 1e9, "{:.2f} GB/s") for n in line) + " |")
                line = [cell(value(rows[way], "server_cpu_s_per_gb", **wanted), "{:.2f} s/GB") for way in ways]
                print(f"| {op.upper()} {name}, the server's CPU | " + " | ".join(line) + " |")
    tests = rows["encryption off"]
    for size, name in zip(LATENCY + THROUGHPUT, SIZES):
        one_way = value(tests, "p50_us", door="fabtests", op="one_way", size=size)
        write = value(tests, "bytes_per_s", door="fabtests", op="rma_write", size=size)
        if one_way is not None and size in LATENCY:
            print(f"\nlibfabric's own tests over tcp, {name}: one way {one_way:.1f} us", end="")
        if write is not None and size in THROUGHPUT:
            print(f"\nlibfabric's own tests over tcp, {name}: fi_rma_bw {write / 1e9:.2f} GB/s", end="")
    print()


if __name__ == "__main__":
    main()
