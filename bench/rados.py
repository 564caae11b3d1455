#!/usr/bin/python3
"""The engine over Ceph beside Ceph's own gateway, on the same OSDs: prints the tables and writes them into
docs/cluster.md.

    ./dev bench rados                       three rounds and listings of 1,000,000 keys: about half an hour
    ./dev bench rados --quick               one short round, printed and not written
    ./dev bench rados --store bluestore     OSDs that write to files; --osds N, --copies N, --keys N, --gateway-keys N

Each round has a cluster of its own on loopback, one Verbena server and one radosgw. The servers' CPU time comes from
their own clocks, apart from the OSDs' and the load's, which share the machine; ratios are within a round."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request

import report
from first_byte import presign
from rados_sides import ACCESS_KEY, SECRET_KEY, SHARDS, Cluster, Gateway, Verbena, available, boto3_client, verbena_server

ROOT = pathlib.Path(__file__).resolve().parents[1]
KIB, MIB = 1 << 10, 1 << 20
SMALL, LARGE = 4 * KIB, 4 * MIB
CALLERS = 16
HOT_KEYS = 64
ARENA = "256MiB"  # of which half keeps hot objects
WARM_LARGE = 80   # objects of 4 MiB that fill it
PAGE = 1000
# The most operations a second of an idle server, and for each tablet (metrics of bucket usage cause some); seconds to
# wait for that.
IDLE_MAX, IDLE_MAX_OF_TABLET, SETTLE_S = 10, 1, 600
BUCKET = "bench"
MARKS = ("<!-- beside the gateway: ./dev bench rados -->", "<!-- end of beside the gateway -->")
KEYS_ENVIRONMENT = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def load(side, verb, prefix, count, size=SMALL, **more):
    """Runs s3_load; its line of JSON."""
    arguments = {"bucket": BUCKET, "prefix": prefix, "count": count, "size": size, "callers": CALLERS, **more}
    command = [str(ROOT / "build" / "bin" / "s3_load"), verb, side.http,
               *(f"--{name}={value}" for name, value in arguments.items())]
    run = subprocess.run(command, env={**os.environ, **KEYS_ENVIRONMENT}, stdout=subprocess.PIPE, text=True, check=False, timeout=3600)
    if run.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit status {run.returncode}")
    return json.loads(run.stdout)


# --- Speed

def timed(ceph, side, verb, prefix, count, size=SMALL, **more):
    """One measurement with its cost on the server and on the OSDs."""
    cpu, osds = side.cpu(), ceph.cpu()
    row = load(side, verb, prefix, count, size, **more)
    row["cpu_us"] = (side.cpu() - cpu) / count * 1e6
    row["osd_us"] = (ceph.cpu() - osds) / count * 1e6
    row["rate"] = count / row["seconds"]
    return row


def measure_side(ceph, side, small, large):
    """One side's measurements in a round: name -> row."""
    boto3_client(side.http).create_bucket(Bucket=BUCKET)
    load(side, "put", "warm", CALLERS * 10)
    found = {"put small": timed(ceph, side, "put", "s", small)}
    found["put large"] = timed(ceph, side, "put", "l", large, LARGE)
    load(side, "put", "w", WARM_LARGE, LARGE)
    side.forget()
    # The first touch of a new server's memory is not part of an uncached object's cost.
    load(side, "get", "warm", CALLERS * 10)
    load(side, "get", "w", WARM_LARGE, LARGE)
    found["get small cold"] = timed(ceph, side, "get", "s", small)
    found["get large cold"] = timed(ceph, side, "get", "l", large, LARGE)
    for name, prefix, count, size in (("get small hot", "s", small, SMALL), ("get large hot", "l", large, LARGE)):
        keys = CALLERS if size == LARGE else HOT_KEYS
        load(side, "get", prefix, keys * 10, size, keys=keys)
        time.sleep(0.5)  # records of read leases are written after the requests
        found[name] = timed(ceph, side, "get", prefix, count, size, keys=keys)
    return found


def native_us(server, seconds):
    """p50 of a GET of 4 KiB by one caller of the native door, by provider."""
    run = subprocess.run([verbena_server.program(), "bench", "--json", "--doors", "native", "--ops", "get", "--sizes", str(SMALL),
                          "--duration", str(seconds), "--endpoint", server.http, "--native", server.native],
                         env={**os.environ, **KEYS_ENVIRONMENT},
                         capture_output=True, text=True, check=False, timeout=600)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode != 0 or not rows:
        raise RuntimeError(f"verbena bench: {run.stderr}")
    return {row["provider"]: row["p50_us"] for row in rows}


def measure_native(verbena, seconds):
    with verbena_server.Server(env={"VERBENA_LOG_LEVEL": "error"}) as embedded:
        here, there = native_us(embedded, seconds), native_us(verbena, seconds)
    return {provider: (there[provider], here[provider]) for provider in here}


def measure_round(arguments):
    with make_cluster(arguments) as ceph, Verbena(ceph, [f"arena_size={ARENA}"]) as verbena, Gateway(ceph) as gateway:
        found = {"verbena": measure_side(ceph, verbena, arguments.small, arguments.large),
                 "gateway": measure_side(ceph, gateway, arguments.small // 2, arguments.large)}
        found["native"] = measure_native(verbena, arguments.seconds)
    return found


def make_cluster(arguments):
    return Cluster(osds=arguments.osds, size=arguments.copies, store=arguments.store, bytes_per_osd=16 << 30,
                   folder=arguments.work)


# --- Operations on the OSDs

def idle_rate(side, seconds):
    before, began = side.operations(), time.monotonic()
    time.sleep(seconds)
    return (side.operations() - before) / (time.monotonic() - began)


def settle(side, ceph):
    """Waits until the server is idle: after many puts tablets are split for a while."""
    deadline, quiet = time.monotonic() + SETTLE_S, 0
    while quiet < 3 and time.monotonic() < deadline:
        most = IDLE_MAX + IDLE_MAX_OF_TABLET * tablets(ceph)
        quiet = quiet + 1 if idle_rate(side, 1) <= most else 0


def counted(side, idle, verb, prefix, count, size=SMALL, **more):
    """Operations a request, without the server's background operations meanwhile."""
    before, began = side.operations(), time.monotonic()
    load(side, verb, prefix, count, size, **more)
    return (side.operations() - before - idle * (time.monotonic() - began)) / count


def count_side(side, unkept=None):
    """name -> operations a request. `unkept`: a server without cached objects."""
    boto3_client(side.http).create_bucket(Bucket=BUCKET)
    load(side, "put", "warm", 100)
    time.sleep(3)
    idle = idle_rate(side, 5)
    found = {"put small, one caller": counted(side, idle, "put", "o", 300, callers=1),
             "put small": counted(side, idle, "put", "s", 3000),
             "put large": counted(side, idle, "put", "l", 64, LARGE, callers=4)}
    side.forget()
    load(side, "get", "warm", 10)
    found["get small cold"] = counted(side, idle, "get", "s", 1000)
    found["head cold"] = counted(side, idle, "head", "o", 300)
    found["get large cold"] = counted(side, idle, "get", "l", 64, LARGE, callers=4)
    load(side, "get", "s", 16 * 10, keys=16)
    time.sleep(0.5)
    found["get small hot"] = counted(side, idle, "get", "s", 2000, keys=16)
    if unkept is not None:
        load(unkept, "get", "s", 16 * 10, keys=16)
        found["get small hot, not kept"] = counted(unkept, idle_rate(unkept, 5), "get", "s", 2000, keys=16)
    return found


# --- Listings

class Lister:
    """Pages of keys that s3_load made."""

    def __init__(self, side, ceph):
        self.side, self.ceph = side, ceph
        self.host = side.http.split("//")[1]

    def page(self, after):
        """The seconds of a page, and its number of keys."""
        target = presign(self.host, "GET", f"/{BUCKET}", {"list-type": "2", "max-keys": str(PAGE), "start-after": after})
        began = time.perf_counter()
        with urllib.request.urlopen(f"http://{self.host}{target}", timeout=300) as answer:
            text = answer.read()
        return time.perf_counter() - began, text.count(b"<Key>")

    def measure(self, keys, pages=20):
        """First, middle and last page: (milliseconds, operations)."""
        found = {}
        settle(self.side, self.ceph)
        for name, first in (("first", 0), ("middle", keys // 2), ("last", keys - PAGE)):
            after = f"k{first - 1:010}" if first else "a"
            self.page(after)
            idle = idle_rate(self.side, 3)
            before, began = self.side.operations(), time.monotonic()
            rows = [self.page(after) for _ in range(pages)]
            spent = self.side.operations() - before - idle * (time.monotonic() - began)
            if any(count != PAGE for _, count in rows):
                raise RuntimeError(f"{self.side.name}: the {name} page has not {PAGE} keys")
            found[name] = (statistics.median(took for took, _ in rows) * 1e3, spent / pages)
        return found


def measure_listings(arguments):
    settings = [f"rados.split_rows={arguments.split_rows}"] if arguments.split_rows else []
    with make_cluster(arguments) as ceph, Verbena(ceph, settings) as verbena:
        say(f"listing: {arguments.keys} keys")
        boto3_client(verbena.http).create_bucket(Bucket=BUCKET)
        fill = load(verbena, "fill", "k", arguments.keys, 64, native=verbena.native, callers=4)
        found = {"keys": arguments.keys, "fill_s": fill["seconds"], "verbena": Lister(verbena, ceph).measure(arguments.keys),
                 "tablets": tablets(ceph)}
    with make_cluster(arguments) as ceph, Gateway(ceph) as gateway:
        say(f"listing: {arguments.gateway_keys} keys of the gateway")
        boto3_client(gateway.http).create_bucket(Bucket=BUCKET)
        load(gateway, "put", "k", arguments.gateway_keys, 64)
        found.update(gateway_keys=arguments.gateway_keys, gateway=Lister(gateway, ceph).measure(arguments.gateway_keys, 5))
    return found


def tablets(ceph):
    done = subprocess.run(["rados", "-c", ceph.conf, "-p", "verbena.index", "ls", "--all"], cwd="/", capture_output=True, text=True,
                          check=True, timeout=60)
    return sum("\tt." in line for line in done.stdout.splitlines())


# --- Tables

def spread(values, decimals=1):
    values = sorted(values)
    text = f"{statistics.median(values):.{decimals}f}x"
    return text if len(values) == 1 else f"{text} ({values[0]:.{decimals}f} to {values[-1]:.{decimals}f})"


def median_of(rounds, side, name, figure):
    return statistics.median(one[side][name][figure] for one in rounds)


SPEED = (  # name, what, figure that is compared, wanted
    ("get small hot", "GET 4 KiB, hot", "cpu_us", ">= 10x a core"),
    ("get small cold", "GET 4 KiB, cold: each object once", "cpu_us", ">= 3x a core"),
    ("put small", "PUT 4 KiB, new keys", "rate", ">= 3x throughput"),
    ("get large hot", "GET 4 MiB, hot", "cpu_us", ">= 1.5x a core"),
    ("get large cold", "GET 4 MiB, cold: each object once", "cpu_us", ">= 1.5x a core"),
    ("put large", "PUT 4 MiB, new keys", "cpu_us", ">= 1.5x a core"))


def speed_table(rounds):
    out = ["| what | wanted | measured | throughput | CPU of the server a request, us | of the OSDs, us | requests/s |",
           "| --- | --- | --- | --- | --- | --- | --- |"]
    for name, what, figure, wanted in SPEED:
        ratios = {"rate": [one["verbena"][name]["rate"] / one["gateway"][name]["rate"] for one in rounds],
                  "cpu_us": [one["gateway"][name]["cpu_us"] / one["verbena"][name]["cpu_us"] for one in rounds]}
        cells = [f"{median_of(rounds, 'verbena', name, column):,.0f} / {median_of(rounds, 'gateway', name, column):,.0f}"
                 for column in ("cpu_us", "osd_us", "rate")]
        decimals = 1 if statistics.median(ratios[figure]) >= 3 else 2
        out.append(f"| {what} | {wanted} | {spread(ratios[figure], decimals)} | {spread(ratios['rate'], decimals)} | {' | '.join(cells)} |")
    for provider in rounds[0]["native"]:
        pairs = [one["native"][provider] for one in rounds]
        out.append(f"| native GET 4 KiB of a leased object on `{provider}`, p50, against the embedded engine's | its microseconds | "
                   f"{spread([there / here for there, here in pairs], 2)}: {statistics.median(p[0] for p in pairs):.1f} us against "
                   f"{statistics.median(p[1] for p in pairs):.1f} us | | | | |")
    return out


COUNTS = (
    ("get small hot", "GET 4 KiB, hot, under a read lease", "0"),
    ("get small hot, not kept", "GET 4 KiB, hot, without (`rados.keep` false)", "1"),
    ("get small cold", "GET 4 KiB, cold", "1"),
    ("head cold", "HEAD, cold", "1"),
    ("put small, one caller", "PUT 4 KiB of a new key, one caller", ""),
    ("put small", "PUT 4 KiB of new keys, 16 callers", "1 amortized"),
    ("get large cold", "GET 4 MiB, cold", ""),
    ("put large", "PUT 4 MiB of new keys", ""))


def counts_table(counts):
    def cell(side, name):
        value = counts[side].get(name)
        return "-" if value is None else f"{max(value, 0):.2f}"
    return ["| request | wanted | Verbena | radosgw |", "| --- | --- | --- | --- |",
            *(f"| {what} | {wanted} | {cell('verbena', name)} | {cell('gateway', name)} |" for name, what, wanted in COUNTS)]


def listings_table(found):
    def cell(side, name):
        took_ms, operations = found[side][name]
        return f"{took_ms:.1f} ms, {operations:.1f} operations"
    return [f"| page of 1,000 keys | wanted | Verbena, {found['keys']:,} keys in {found['tablets']} tablets | "
            f"radosgw, {found['gateway_keys']:,} keys in {SHARDS} shards |", "| --- | --- | --- | --- |",
            *(f"| {name} | <= 2 operations | {cell('verbena', name)} | {cell('gateway', name)} |" for name in ("first", "middle", "last"))]


def section(info, arguments, rounds, counts, listings):
    options = " ".join(sys.argv[1:])
    out = [MARKS[0], "## Compared with Ceph's gateway", "",
           f"Written by `./dev bench rados{' ' + options if options else ''}`: {info['machine']}; {info['system']}; commit {info['commit']}; "
           f"radosgw {gateway_version()}; load average at the start {info['load']}. {arguments.osds} OSD{'s' if arguments.osds > 1 else ''} "
           f"({arguments.store}), {arguments.copies} cop{'ies' if arguments.copies > 1 else 'y'} of each object, on loopback; one Verbena "
           f"server and one radosgw ({SHARDS} shards), {CALLERS} callers over HTTP (`bench/s3_load.cc`); all share the machine. Medians of "
           f"{len(rounds)} round{'s' if len(rounds) > 1 else ''}, with the least and the greatest. Pairs are Verbena's / radosgw's.", "",
           *speed_table(rounds), "",
           "Operations on the OSDs for each request, counted by the servers (`verbena_rados_calls_total`; radosgw's `objecter`), less those "
           "that they make by themselves:", "", *counts_table(counts)]
    if listings:
        out += ["", f"Listings (the keys were put in {listings['fill_s']:.0f} s, by batches of 1,000 at the native door):", "",
                *listings_table(listings)]
    return "\n".join([*out, "", MARKS[1], ""])


def gateway_version():
    return subprocess.run(["radosgw", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]


def counts_of(arguments):
    with make_cluster(arguments) as ceph, Verbena(ceph) as verbena, Gateway(ceph) as gateway:
        with Verbena(ceph, ["rados.keep=false"], beside=verbena) as unkept:
            counts = {"verbena": count_side(verbena, unkept)}
        counts["gateway"] = count_side(gateway)
    return counts


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round, printed and not written")
    parser.add_argument("--osds", type=int, default=1)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--store", choices=("memstore", "bluestore"), default="memstore")
    parser.add_argument("--work", help="folder of the clusters' files, which is made and removed (default: a temporary one)")
    parser.add_argument("--rounds", type=int, default=0, help="(default 3, quick 1)")
    parser.add_argument("--keys", type=int, default=0, help="of listings (default 1,000,000, quick 20,000)")
    parser.add_argument("--gateway-keys", type=int, default=0, help="of its listings (default 200,000, quick 20,000)")
    parser.add_argument("--split-rows", type=int, default=0, help="of the listings' server: rows at which a tablet becomes two")
    parser.add_argument("--only", choices=("speed", "counts", "listings"), help="a part, printed and not written")
    arguments = parser.parse_args()
    quick = arguments.quick
    arguments.rounds = arguments.rounds or (1 if quick else 3)
    arguments.keys = arguments.keys or (20_000 if quick else 1_000_000)
    arguments.gateway_keys = arguments.gateway_keys or (20_000 if quick else 200_000)
    arguments.small, arguments.large, arguments.seconds = (4_000, 64, 0.5) if quick else (20_000, 192, 2)
    return arguments


def main():
    arguments = parse()
    if not available() or not shutil.which("radosgw"):
        sys.exit("bench rados: Ceph's programs are not installed (tools/packages-test.txt, tools/packages-rados.txt)")
    only = arguments.only
    info, rounds, counts, listings = report.machine(), [], None, None
    for number in range(arguments.rounds if only in (None, "speed") else 0):
        say(f"round {number + 1} of {arguments.rounds}")
        rounds.append(measure_round(arguments))
    if only in (None, "counts"):
        say("operations")
        counts = counts_of(arguments)
    if only in (None, "listings"):
        listings = measure_listings(arguments)
    if only is not None:
        print("\n".join(speed_table(rounds) if rounds else counts_table(counts) if counts else listings_table(listings)))
        return
    text = section(info, arguments, rounds, counts, listings)
    print(text)
    if arguments.quick:
        return
    path = ROOT / "docs" / "cluster.md"
    path.write_text(report.merged(path.read_text(encoding="utf-8"), text, MARKS), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
