#!/usr/bin/env python3
"""What sealing RDMA (docs/sealed-rdma.md) costs, with the ratios that are wanted. Prints Markdown.

    ./dev bench sealed [--seconds S] [--rounds N] [--guest]

Ciphers: one core seals and opens by the functions that server and client move payload with (records of 64 KiB): as a
GET does, with the client's copies, and as a PUT does; beside OpenSSL in one call; bytes per second of the processor.
Moves: GETs of 1 MiB, four in flight, by the native door over libfabric's tcp on loopback, plain and sealed, and over
Verbena's own tcp with TLS; with --guest also between a soft-RoCE device and itself in the virtual machine of tests/vm.
The sides alternate; each figure is the median of the rounds. Instructions: of the server for a GET of an object in
memory, by callgrind (bench/request_cost), over a transport that only copies."""
import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

import instruction_guard

ROOT = pathlib.Path(__file__).resolve().parents[1]
PLAIN = ["native_get_4k", "tcp_get_4k", "wire_get_4k"]


def rows(command):
    done = subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True, check=False,
                          timeout=900)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def size_of(size):
    if size < 1 << 10:
        return f"{size} B"
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def print_ciphers(found):
    print("| seal and open on one core | OpenSSL, one call | ours, in records | ratio | wanted |\n| --- | --- | --- | --- | --- |")
    for row in found:
        wanted = ">= 0.9x" if row["cipher"] == "AES-256-GCM" and row["bytes"] >= 1 << 20 else ""
        used = " (used here)" if row["used_here"] else ""
        print(f"| {row['cipher']}{used}, {row['way']} {size_of(row['bytes'])} | "
              f"{row['openssl_bytes_per_cpu_s'] / 1e9:.2f} GB/s | {row['ours_bytes_per_cpu_s'] / 1e9:.2f} GB/s | "
              f"{row['ratio']:.2f}x | {wanted} |")


def of_way(found, way, field):
    return [row[field] for row in found if row["way"] == way]


def print_moves(found, where):
    """`found`: in each round a row of each way. Ratios are of one round."""
    print(f"\n| GET 1 MiB {where} | throughput | bytes per CPU second of the server |\n| --- | --- | --- |")
    for way, name in (("plain", "plain"), ("sealed", "sealed"), ("tcp", "our own tcp, TLS")):
        speed, cpu = (statistics.median(of_way(found, way, field)) for field in ("bytes_per_s", "bytes_per_cpu_s"))
        print(f"| {name} | {speed / 1e9:.2f} GB/s | {cpu / 1e9:.2f} GB |")

    def ratio(field, over):
        return statistics.median(a / b for a, b in zip(of_way(found, "sealed", field), of_way(found, over, field)))

    print(f"| sealed against plain | {ratio('bytes_per_s', 'plain'):.2f}x (wanted on soft-RoCE: >= 0.7x) | "
          f"{ratio('bytes_per_cpu_s', 'plain'):.2f}x |")
    print(f"| sealed against TLS | {ratio('bytes_per_s', 'tcp'):.2f}x | "
          f"{ratio('bytes_per_cpu_s', 'tcp'):.2f}x (wanted: >= 1.2x) |")


def print_instructions(program):
    counts = {case: instruction_guard.count(program, case)
              for case in [instruction_guard.REFERENCE, *PLAIN, "sealed_get_4k", "wire_get_64k", "sealed_get_64k",
                          "wire_get_1m", "sealed_get_1m"]}
    print("\n| instructions of the server | plain | sealed | added | wanted |\n| --- | --- | --- | --- | --- |")
    for size in ("4k", "64k", "1m"):
        plain, sealed = counts[f"wire_get_{size}"], counts[f"sealed_get_{size}"]
        name = size.replace("k", " KiB").replace("m", " MiB")
        print(f"| GET {name} | {plain:,.0f} | {sealed:,.0f} | {sealed - plain:+,.0f} | "
              f"{'<= +6,000' if size == '4k' else ''} |")
    here = instruction_guard.environment(program)
    known = json.loads(instruction_guard.BASELINE.read_text(encoding="utf-8"))["baselines"]
    baseline = instruction_guard.nearest(known, here)
    exact = baseline["environment"] == here
    plain = {case: counts[case] for case in [instruction_guard.REFERENCE, *PLAIN]}
    print("\nPlain sessions beside it, against the recorded counts" + ("" if exact else " of another toolchain, by ratios") +
          " (all of them: the test `guard.instructions`):\n")
    for line, _ in instruction_guard.judge(plain, baseline, exact):
        print("    " + re.sub(r"\s+", " ", line))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    options.add_argument("--seconds", type=float, default=0.5, help="of one side's turn")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--guest", action="store_true", help="also over soft-RoCE in the virtual machine")
    options = options.parse_args()
    bench = options.build / "bin" / "sealed_bench"
    model = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    print(f"{os.cpu_count()} x {model.group(1) if model else platform.machine()}, Linux {platform.release()}; load "
          f"{os.getloadavg()[0]:.1f} at the start; median of {options.rounds} rounds.\n")
    print_ciphers(rows([bench, "ciphers", options.seconds, options.rounds]))
    print_moves(rows([bench, "moves", options.seconds, options.rounds]), "over libfabric's tcp, loopback")
    if options.guest:
        # An emulated processor: a turn needs several seconds to hold enough requests.
        found = rows(["tools/vm.sh", "run", bench, "moves", options.seconds * 6, options.rounds, "verbs", "10.77.0.1"])
        print_moves(found, "over soft-RoCE, in the virtual machine")
    print_instructions(str(options.build / "bin" / "request_cost"))


if __name__ == "__main__":
    main()
