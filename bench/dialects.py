#!/usr/bin/env python3
"""What the dialects of S3 over RDMA cost (docs/dialects.md), with the ratios that are wanted. Prints Markdown.

    ./dev bench dialects [--rounds N] [--seconds S]      a boot of the virtual machine each round, some minutes
    ./dev bench dialects --host                          the libraries on this host alone

In the virtual machine of tests/vm, between two soft-RoCE devices: each dialect's GETs and PUTs (dialect_load.cc) beside
perftest's RDMA WRITEs and READs, from a server that keeps its objects in memory. On this host: libs3rdma.so.0 and
libcuobjclient.so.1 beside Verbena's own client, over libfabric's tcp. Each ratio is of one round; the table has the medians."""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys

import report
import rivals
from plot import size_text

sys.path.insert(0, str(report.ROOT / "tests" / "lib"))
import verbena_server  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
SIZES = (MIB, 16 * MIB)
HEAD = "| what | measured | wanted | |\n| --- | --- | --- | --- |"
SHIMS = (("shim", "libs3rdma.so.0"), ("cushim", "libcuobjclient.so.1"))


def rows_of(text, where):
    found = {}
    for line in text.splitlines():
        if line.startswith('{"way"'):
            row = json.loads(line)
            found[where, row["way"], row["op"], row["size"], row["callers"]] = row
    return found


def in_guest(arguments):
    guest = argparse.Namespace(memory="3G", limit=1500)
    status, output, _ = rivals.in_guest(guest, "env", f"VERBENA={arguments.program}", "python3", "bench/dialects_guest.py", "--load",
                                        str(arguments.load), "--seconds", str(arguments.seconds))
    if status != 0:
        raise SystemExit(f"dialects: the guest ended with {status}")
    return rows_of(output, "guest")


def on_host(arguments):
    """The shims and the own client by turns, over tcp on loopback."""
    out = {}
    with verbena_server.Server(memory=True) as server:
        environment = dict(os.environ, S3RDMA_PROVIDER="tcp", S3RDMA_ADDRESS="127.0.0.1", AWS_ENDPOINT_URL=server.http,
                           AWS_ACCESS_KEY_ID=verbena_server.ACCESS_KEY, AWS_SECRET_ACCESS_KEY=verbena_server.SECRET_KEY)
        subprocess.run([arguments.program, "mb", "s3://bench", "--endpoint", server.http], env=environment, check=True,
                       stdout=subprocess.DEVNULL)
        for op, way in ((op, way) for op in ("get", "put") for way in ("ofi1", "shim", "cushim") * 2):
            spent = cpu_of_children()
            done = subprocess.run([arguments.load, way, op, server.http, "--native", server.native, "--size", str(MIB),
                                   "--seconds", str(arguments.seconds)], env=environment, capture_output=True, text=True,
                                  check=False, timeout=120)
            if done.returncode != 0:
                raise SystemExit(f"dialects: {way} {op} over tcp: {done.stderr}")
            for key, row in rows_of(done.stdout, "host").items():
                row["cpu_us"] = (cpu_of_children() - spent) * 1e6 / row["operations"]
                for what in ("p50_us", "cpu_us"):
                    row[what] = min(row[what], out.get(key, row)[what])
                out[key] = row
    return out


def cpu_of_children():
    """Seconds of those that have ended: not the server's."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def speed(way, op, size, callers):
    return lambda found: found["guest", way, op, size, callers]["bytes_per_s"]


def p50(where, way, op, size, callers=1):
    return lambda found: found[where, way, op, size, callers]["p50_us"]


def cpu(way, op):
    return lambda found: found["host", way, op, MIB, 1]["cpu_us"]


def line(title, rounds, above, below, wanted=None, less=False):
    values = [above(found) / below(found) for found in rounds]
    met = ""
    if wanted is not None:
        middle = statistics.median(values)
        met = "met" if (middle <= wanted if less else middle >= wanted) else "missed"
        wanted = f"{'<=' if less else '>='} {wanted:.2f}x"
    print(f"| {title} | {rivals.spread(values)} | {wanted or ''} | {met} |")


def print_shims(rounds, where, fabric):
    for op, (way, library) in ((op, shim) for shim in SHIMS for op in ("get", "put")):
        line(f"{library} against the own client's tokens, {op.upper()} 1 MiB over {fabric}, p50", rounds, p50(where, way, op, MIB),
             p50(where, "ofi1", op, MIB), 1.03, less=True)
        if where == "host":
            line(f"the same, CPU of the client's process for a {op.upper()}", rounds, cpu(way, op), cpu("ofi1", op), 1.03, less=True)


def print_table(rounds):
    print(HEAD)
    for size in SIZES:
        for op in ("get", "put"):
            # hipObject's PUT is written by the client: both ways are RDMA WRITE.
            line(f"hipobj-rc-v2, {op.upper()} {size_text(size)}, 4 callers, against `ib_write_bw`", rounds,
                 speed("hipobj", op, size, 4), speed("ib_write_bw", "", size, 16), 0.8)
    for size in SIZES:
        for op in ("get", "put"):
            line(f"the same against `ofi1`, {op.upper()} {size_text(size)}", rounds, speed("hipobj", op, size, 4),
                 speed("ofi1", op, size, 4), 1.0)
    for size in SIZES:
        for op, program in (("get", "ib_write_bw"), ("put", "ib_read_bw")):
            line(f"cuObject over a reliable connection, {op.upper()} {size_text(size)}, 4 callers, against `{program}`", rounds,
                 speed("cuobj", op, size, 4), speed(program, "", size, 16))
    for op, program in (("get", "ib_write_bw"), ("put", "ib_read_bw")):
        def apart(found, op=op, program=program):
            moved = found["guest", program, "", MIB, 1]["bytes_per_s"]
            return p50("guest", "http", op, 64)(found) + MIB / moved * 1e6
        line(f"cuObject, a further {op.upper()} of 1 MiB on a connection, p50 against an HTTP {op.upper()} of 64 B and the transfer alone",
             rounds, p50("guest", "cuobj", op, MIB), apart, 1.0, less=True)
    for where, fabric in (("guest", "soft-RoCE"), ("host", "tcp on loopback")):
        print_shims(rounds, where, fabric)
    print("\n| figures, medians | 1 caller, p50 us | 4 callers, MiB/s |\n| --- | --- | --- |")
    for size in SIZES:
        for op in ("get", "put"):
            for way in ("hipobj", "cuobj", "ofi1", *(name for name, _ in SHIMS), "http"):
                one = statistics.median(map(p50("guest", way, op, size), rounds))
                four = statistics.median(map(speed(way, op, size, 4), rounds))
                print(f"| {way}, {op.upper()} {size_text(size)} | {one:,.0f} | {four / MIB:,.1f} |")
        for program in ("ib_write_bw", "ib_read_bw"):
            one, many = (statistics.median(map(speed(program, "", size, depth), rounds)) for depth in (1, 16))
            print(f"| `{program}`, {size_text(size)}, 1 and 16 in flight | {size / one * 1e6:,.0f} | {many / MIB:,.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="a row (default 2)")
    parser.add_argument("--program", default=str(report.ROOT / "build" / "verbena"))
    parser.add_argument("--host", action="store_true", help="no virtual machine: the libraries on this host alone")
    arguments = parser.parse_args()
    arguments.load = pathlib.Path(arguments.program).parent / "bin" / "dialect_load"
    rounds = []
    for number in range(arguments.rounds):
        rounds.append(({} if arguments.host else in_guest(arguments)) | on_host(arguments))
        print(f"round {number + 1} of {arguments.rounds} done", file=sys.stderr)
    if arguments.host:
        print(HEAD)
        print_shims(rounds, "host", "tcp on loopback")
        return
    print_table(rounds)


if __name__ == "__main__":
    main()
