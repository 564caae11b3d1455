#!/usr/bin/env python3
"""Runs the whole table of measurements and writes docs/performance.md and docs/performance.svg.

    ./dev bench                 everything, about ten minutes
    ./dev bench --quick         one short round, about two minutes
    ./dev bench --out FOLDER    somewhere else than docs/
    ./dev bench counts          what is counted and not timed: on any machine, however busy; in place, the rest stays
    ./dev bench gets            GETs alone: over HTTP and HTTPS beside nginx, native beside memcpy; in place, a minute a round

Every figure of the document comes out of this run. The peers (nginx, libfabric's own tests, memcpy, MD5)
run on the same machine in the same rounds; a ratio is the median of the rounds', with the least and the greatest."""

import argparse
import errno
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tools"))

import budgets
import first_byte
import instruction_guard
import plot
import wrap_prose  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
KIB, MIB = 1 << 10, 1 << 20
SIZES = [4 * KIB, 64 * KIB, MIB, 16 * MIB]
TCP_ULP = 31  # of <linux/tcp.h>, which Python does not name


# Sections of ./dev bench many, clients and gets are kept when the rest is written anew.
BATCHES = ("<!-- batches: ./dev bench many -->", "<!-- end of batches -->")
CLIENTS = ("<!-- clients: ./dev bench clients -->", "<!-- end of clients -->")
GETS = ("<!-- gets: ./dev bench gets -->", "<!-- end of gets -->")


def section_of(text, marks):
    begin, end = map(re.escape, marks)
    found = re.search(f"{begin}.*?{end}\n", text, re.S)
    return found.group(0) if found else ""


def merged(document, section, marks):
    """The document with the section replaced, or appended."""
    old, section = section_of(document, marks), wrap_prose.paragraphs(section)
    return document.replace(old, section) if old else document.rstrip("\n") + "\n\n" + section


def bench(program, *arguments, cores=None):
    """Rows of one `verbena bench` with that many server cores; None: one a CPU."""
    return rows_of([program, "bench", "--json", *arguments], {"VERBENA_CORES": str(cores)} if cores else {})


def yardsticks(program, *arguments):
    """Rows of the yardsticks, from the same build."""
    return rows_of([str(pathlib.Path(program).resolve().parent / "bin" / "yardsticks"), "--json", *arguments])


def rows_of(command, settings=None):
    # The yardsticks (libfabric's tests, nginx without TLS) do not encrypt either.
    environment = dict(os.environ, VERBENA_RDMA_TCP_ENCRYPTION="off") | (settings or {})
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    rows = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    if run.returncode != 0 or not rows:
        print(f"  {' '.join(command)}: exit status {run.returncode}\n{run.stderr}", file=sys.stderr)
    return rows


def sizes_text(sizes):
    return ",".join(str(size) for size in sizes)


def measure_round(program, seconds, concurrency):
    """One round: name -> rows."""
    common = ["--duration", str(seconds), "--providers", "local,tcp"]
    return {
        "memory": bench(program, *common, "--durability", "memory", "--sizes", sizes_text(SIZES)) +
                  yardsticks(program, "--duration", str(seconds), "--sizes", sizes_text(SIZES)),
        "small": bench(program, "--duration", "0.1", "--providers", "tcp", "--doors", "native", "--ops", "get",
                       "--sizes", "64") + yardsticks(program, "--sizes", "64", "--nginx", "off", "--no-memcpy"),
        "parallel": bench(program, *common, "--durability", "memory", "--doors", "http,native", "--sizes",
                          sizes_text([4 * KIB, MIB]), "--concurrency", ",".join(map(str, concurrency))) +
                    yardsticks(program, "--duration", str(seconds), "--sizes", sizes_text([4 * KIB, MIB]), "--concurrency",
                               ",".join(map(str, concurrency)), "--fabtests", "off", "--no-memcpy"),
        "per_core": measure_per_core(program, seconds),
        "tls": measure_tls(program, seconds),
        "md5": bench(program, "--duration", str(seconds), "--durability", "memory", "--doors", "native", "--providers", "local",
                     "--ops", "put_md5", "--sizes", str(MIB), "--concurrency", "16") +
               yardsticks(program, "--md5", "--duration", str(seconds), "--sizes", str(MIB), "--no-memcpy", "--nginx", "off",
                          "--fabtests", "off"),
    }


def amount(seconds, size, parts, callers=8):
    """Of a row. With `parts` not 0 so many requests that a server computes for about as many tenths of a second, whatever else
    the machine does: its CPU for a request is then as exact on a busy machine, where a row of some time has few requests."""
    if not parts:
        return ["--duration", str(seconds)]
    return ["--count", str(int(parts * 100_000 / (12 + size / 5_000)) // callers + 1)]


def measure_per_core(program, seconds, parts=0):
    """GETs by eight callers, so that neither server sleeps between them: requests per second of its CPU."""
    rows = []
    for size in SIZES[:3]:
        common = [*amount(seconds, size, parts), "--ops", "get", "--sizes", sizes_text([size]), "--concurrency", "8"]
        rows += bench(program, *common, "--durability", "memory", "--doors", "http,anonymous")
        rows += yardsticks(program, *common, "--fabtests", "off", "--no-memcpy", "--plain-sends")
    return rows


def make_certificate(folder):
    """The options that give a server a certificate of ECDSA over P-256, its own issuer, made in the folder."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=127.0.0.1", "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return ["--tls-certificate", str(certificate), "--tls-key", str(key)]


def measure_tls(program, seconds, parts=0):
    """GETs by TLS 1.3, over kept connections and each over one of its own; both servers have the same certificate."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="verbena-tls-") as folder:
        certificate = make_certificate(pathlib.Path(folder))
        for op, size in [*(("get", size) for size in SIZES[:3]), ("get_new", SIZES[0])]:
            much = amount(seconds, size, parts / 20 if op == "get_new" else parts)
            common = [*much, "--ops", op, "--sizes", sizes_text([size]), "--concurrency", "8", *certificate]
            rows += bench(program, *common, "--durability", "memory", "--doors", "anonymous")
            rows += yardsticks(program, *common, "--fabtests", "off", "--no-memcpy")
    return rows


def measure_gets(program, seconds, parts):
    """What ./dev bench gets measures in a round."""
    # One caller, whose GETs cost less: half a second of CPU, which is told in ticks of 10 ms.
    common = [*amount(seconds, MIB, 8 * parts, callers=1), "--sizes", sizes_text([MIB])]
    return {
        "memory": bench(program, *common, "--providers", "local", "--doors", "native", "--ops", "get", "--durability", "memory") +
                  yardsticks(program, *common, "--nginx", "off", "--fabtests", "off"),
        "per_core": measure_per_core(program, seconds, parts),
        "tls": measure_tls(program, seconds, parts),
    }


def throughput_md5(seconds):
    data = os.urandom(MIB)
    digest, count, began = hashlib.md5(usedforsecurity=False), 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        digest.update(data)
        count += 1
    return count * MIB / (time.perf_counter() - began)


def command_output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None


def kernel_tls():
    """A sentence for the page where the kernel cannot encrypt a socket's TLS records."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as connection:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
            return ""
        except OSError as error:
            name = errno.errorcode[error.errno]
    return (f" TLS by the kernel (kTLS) cannot be measured on this machine: its kernel has no module `tls`, and a socket answers `{name}` to "
            "`TCP_ULP`. That of the virtual machine has it, but every instruction there is emulated.")


def commit():
    known = command_output("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
    return known.stdout.strip() if known else "unknown"


def machine():
    cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    release = next((line.split("=")[1].strip('"') for line in
                    pathlib.Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
                    if line.startswith("PRETTY_NAME")), "")
    virtual = " (virtual)" if "hypervisor" in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8") else ""
    nginx = command_output("/usr/sbin/nginx", "-v")
    return {
        "machine": f"{os.cpu_count()} x {cpu.group(1) if cpu else platform.machine()}{virtual}, {memory:.0f} GiB",
        "system": f"{release}, Linux {platform.release()}",
        "commit": commit(),
        "nginx": nginx.stderr.strip().removeprefix("nginx version: ") if nginx else "not installed",
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def cell(value, decimals=2):
    return "-" if value is None else f"{value:,.{decimals}f}"


def row_table(rows):
    """The unchanged rows of one round."""
    out = ["| door | provider | op | size | callers | p50 us | p99 us | p99.9 us | requests/s | MiB/s | server CPU s/GB |",
           "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for r in rows:
        out.append(f"| {r['door']} | {r['provider']} | {r['op']} | {plot.size_text(r['size'])} | {r['concurrency']} | "
                   f"{cell(r['p50_us'])} | {cell(r['p99_us'])} | {cell(r['p999_us'])} | {cell(r['ops_per_s'], 0)} | "
                   f"{cell(r['bytes_per_s'] / MIB, 1)} | {cell(r['server_cpu_s_per_gb'], 3)} |")
    return out


def median_rows(rounds, name):
    """One row per measurement: each figure is the median of the rounds."""
    groups = {}
    for one in rounds:
        for r in one[name]:
            groups.setdefault((r["door"], r["provider"], r["op"], r["size"], r["concurrency"]), []).append(r)
    figures = ("p50_us", "p99_us", "p999_us", "ops_per_s", "bytes_per_s", "server_cpu_s_per_gb")
    out = []
    for group in groups.values():
        merged = dict(group[0])
        for figure in figures:
            known = [r[figure] for r in group if r[figure] is not None]
            merged[figure] = statistics.median(known) if known else None
        out.append(merged)
    return out


def charts(rows, parallel):
    def lines(figure, op):
        found = {}
        for r in rows:
            if r["concurrency"] != 1 or r["op"] != op or r["door"] == "fabtests" or not r[figure]:
                continue
            name = r["door"] if r["door"] in ("http", "nginx") else f"{r['door']} ({r['provider']})"
            found.setdefault(name, []).append((r["size"], r[figure] / (MIB if figure == "bytes_per_s" else 1)))
        return found

    def by_callers(op):
        found = {}
        for r in parallel:
            if r["op"] == op and r["size"] == 4 * KIB:
                name = r["door"] if r["door"] in ("http", "nginx") else f"{r['door']} ({r['provider']})"
                found.setdefault(name, []).append((r["concurrency"], r["ops_per_s"]))
        return found

    return [plot.Chart("GET, p50", "us", lines("p50_us", "get")), plot.Chart("PUT, p50", "us", lines("p50_us", "put")),
            plot.Chart("GET, throughput", "MiB/s", lines("bytes_per_s", "get")),
            plot.Chart("PUT, throughput", "MiB/s", lines("bytes_per_s", "put")),
            plot.Chart("GET of 4 KiB by callers", "requests/s", by_callers("get"), x_text=str),
            plot.Chart("PUT of 4 KiB by callers", "requests/s", by_callers("put"), x_text=str)]


def counts_section(cost_program):
    run = command_output(cost_program)
    if run is None or run.returncode != 0:
        return ["Not counted in this run: bench/request_cost was not built or could not trace its own system calls."]
    baseline = json.loads((ROOT / "bench" / "instructions.json").read_text(encoding="utf-8"))["baselines"][0]
    return ["```", *run.stdout.rstrip().splitlines(), "```", "",
            "Instructions of the core per request (callgrind, " + baseline["environment"]["compiler"] +
            "), as recorded in `bench/instructions.json` and held by the test `guard.instructions`:", "",
            "| request | instructions |", "| --- | --- |",
            *[f"| {name} | {value:,} |" for name, value in baseline["instructions"].items()
              if name != instruction_guard.REFERENCE]]


def profile_section(cost_program):
    """Profiles of the requests whose rows exceed their budgets most."""
    if not shutil.which("valgrind") or not shutil.which("callgrind_annotate"):
        return ["Not profiled in this run: there is no valgrind here."]
    out = []
    for case in ("native_get_4k", "native_get_64k", "http_get_64k", "http_put_64k"):
        out += [f"`{case}`:", "", "| function, with what it calls | of the request's instructions |", "| --- | --- |"]
        out += [f"| `{name}` | {percent:.1f}% |" for name, percent in instruction_guard.profile(cost_program, case)]
        out.append("")
    return out[:-1]


COUNTS_BEGIN, COUNTS_END = "## What a request costs", "## Time to the first byte"


def counted_part(cost_program):
    """From COUNTS_BEGIN to before COUNTS_END."""
    return [COUNTS_BEGIN, "",
            f"Counted, not timed (`./dev bench counts`; commit {commit()}): one hot request on a server without other work, its "
            "core's thread alone (`bench/request_cost`; transport of the native door excluded). Copies are of 1 KiB and more, in "
            "user space.", "",
            *counts_section(cost_program), "",
            "## Where it goes", "",
            "callgrind's inclusive counts; those of coroutines begin where they were resumed.", "",
            *profile_section(cost_program), ""]


def rewrite_counts(path, cost_program):
    text = path.read_text(encoding="utf-8")
    before, rest = text.split(COUNTS_BEGIN + "\n", 1)
    after = rest.split(COUNTS_END + "\n", 1)[1]
    path.write_text(before + wrap_prose.paragraphs("\n".join(counted_part(cost_program))) + "\n" + COUNTS_END + "\n" + after, encoding="utf-8")


def document(info, arguments, rounds, first, md5, took):
    memory, parallel, per_core, tls = (median_rows(rounds, name) for name in ("memory", "parallel", "per_core", "tls"))
    options = " ".join(sys.argv[1:])
    out = ["# Performance", "",
           "Everything on this page, the plot too, was written by one command, except sections that name their own:", "",
           "```sh", f"./dev bench{' ' + options if options else ''}", "```", "",
           f"**Machine**: {info['machine']}; {info['system']}; nginx {info['nginx'].removeprefix('nginx/')}; commit "
           f"{info['commit']}, `release` preset. Client and server share the machine; load average at the start "
           f"{info['load']}. {len(rounds)} round{'s' if len(rounds) > 1 else ''}, {arguments.seconds} s a row, {took:.0f} s in all. "
           "Nothing here touched RDMA hardware: `local` is shared memory, `tcp` is Verbena's own over loopback, without "
           "encryption (what that costs: `bench/tcp_compare.py`); the token door's, and that of `fabtests`, is libfabric's. "
           "Times are noisy because other programs use the machine: read the ratios.", "",
           "## Budgets", "",
           "What the design wants, as ratios within a round: median of the rounds, with the least and the greatest. Durable PUTs have a page "
           "of their own ([performance-durable.md](performance-durable.md)).", "",
           *budgets.table(rounds), "",
           "![Latency and throughput by size, door and callers](performance.svg)", "",
           *counted_part(arguments.cost),
           COUNTS_END, "",
           f"GET of {first_byte.SIZE >> 20} MiB over one kept-alive loopback connection, median of {first_byte.ASKED}:", "",
           "| server | first byte, us | last byte, us |", "| --- | --- | --- |",
           *[f"| {who} | {a:,.1f} | {b:,.1f} |" for who, a, b in first], "",
           "## Limits of this machine", "",
           "| what | MiB/s |", "| --- | --- |",
           f"| MD5, one core | {md5 / MIB:,.0f} |", "",
           "## The table", "",
           "`memory` bucket; GETs are hot. Medians of the rounds. `fabtests` print means, under p50.", "",
           *row_table(memory), "",
           "### Several callers", "", *row_table(parallel), "",
           "### GET over HTTP by eight callers, signed and not, beside nginx with one worker", "", *row_table(per_core), "",
           "### GET over TLS 1.3 by eight callers, not signed, beside nginx with one worker", "",
           "`get_new`: each over a connection of its own. Certificates are of ECDSA over P-256; both servers send session tickets.", "",
           *row_table(tls), ""]
    return "\n".join(out)


def write_gets(path, arguments):
    """The section of ./dev bench gets."""
    each = f"{arguments.parts:g} tenths of a second of a server's CPU a row" if arguments.parts else f"{arguments.seconds} s a row"
    info, rounds = machine(), [measure_gets(arguments.program, arguments.seconds, arguments.parts) for _ in range(arguments.rounds)]
    lines = [GETS[0], "## GETs beside nginx and memcpy", "",
             f"Written by `./dev bench gets`: {info['machine']}; {info['system']}; nginx {info['nginx'].removeprefix('nginx/')}; commit "
             f"{info['commit']}; load average at the start {info['load']}, at the end {os.getloadavg()[0]:.1f}; {arguments.rounds} rounds, "
             f"{each}. Client and server share the machine. Where the page's first table has a row of these, this one is newer. The certificate of both servers is of ECDSA over P-256."
             + kernel_tls()
             + (" The CPU for a request is comparable on a busy machine, a throughput is not." if arguments.parts else ""), "",
             *budgets.table(rounds, measured_alone=True), "", GETS[1], ""]
    path.write_text(merged(path.read_text(encoding="utf-8"), "\n".join(lines), GETS), encoding="utf-8")
    print("\n".join(lines[4:-2]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--rounds", type=int, default=0, help="(default 3, quick 1)")
    parser.add_argument("--seconds", type=float, default=0, help="a row (default 0.5, quick 0.15)")
    parser.add_argument("--parts", type=float, default=0, help="of gets, in place of --seconds: tenths of a second of a server's CPU")
    parser.add_argument("what", nargs="?", choices=["counts", "gets"], help="only what is counted, or only GETs")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs", help="folder of performance.md and .svg")
    parser.add_argument("--program", default=str(ROOT / "build" / "verbena"))
    parser.add_argument("--cost", default=str(ROOT / "build" / "bin" / "request_cost"))
    arguments = parser.parse_args()
    if arguments.what == "counts":
        rewrite_counts(arguments.out / "performance.md", arguments.cost)
        return 0
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    arguments.seconds = arguments.seconds or (0.15 if arguments.quick else 0.5)
    os.environ["VERBENA"] = arguments.program
    if arguments.what == "gets":
        write_gets(arguments.out / "performance.md", arguments)
        return 0
    concurrency = [1, 8] if arguments.quick else [1, 4, 8, 16, 64]
    began, info, rounds = time.monotonic(), machine(), []
    for i in range(arguments.rounds):
        print(f"round {i + 1} of {arguments.rounds}", file=sys.stderr)
        rounds.append(measure_round(arguments.program, arguments.seconds, concurrency))
    md5 = throughput_md5(1 if arguments.quick else 3)
    text = document(info, arguments, rounds, first_byte.measure(), md5, time.monotonic() - began)
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "performance.md"
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    kept = "\n".join(filter(None, (section_of(before, marks) for marks in (GETS, BATCHES, CLIENTS))))
    path.write_text(wrap_prose.paragraphs(text) + ("\n" + kept if kept else ""), encoding="utf-8")
    plot.write_svg(arguments.out / "performance.svg",
                   charts(median_rows(rounds, "memory"), median_rows(rounds, "parallel")))
    print("\n".join(budgets.table(rounds)))
    print(f"\nwrote {arguments.out / 'performance.md'} and performance.svg", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
