#!/usr/bin/env python3
"""Batches beside single requests of the same run: prints the ratios and writes them into docs/performance.md.

    ./dev bench many            about two minutes
    ./dev bench many --quick    one short round
    ./dev bench many --guest    the same over verbs, too, on soft-RoCE in the virtual machine (a minute a round)

Each ratio is of one round; the median of the rounds, the least and the greatest. "Objects a second of server CPU"
counts the CPU time of the server's process, so that the shared machine does not matter. For the GETs of one caller
the server leaves a CPU to the caller: with a core on each CPU there would be one thread more than CPUs, and a batch,
which all cores serve together, would wait for its own caller. The effect of that is a separate row."""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

import instruction_guard
import report

KIB = 1 << 10
TRACE_BYTES = 96 * KIB * KIB
TRACE = pathlib.Path(__file__).resolve().parent / "kv_cache.trace"


def rows(program, seconds, *arguments, cores=None):
    """(op, door, provider) -> row."""
    found = report.bench(program, "--duration", str(seconds), *arguments, cores=cores)
    return {(row["op"], row["door"], row["provider"]): row for row in found}


def objects_a_core(row):
    """Objects a second of server CPU."""
    cpu = row["server_cpu_s_per_gb"]
    return 1e9 / row["size"] / cpu if cpu else None


def measure(program, seconds, providers):
    """One round: name -> value."""
    found = {}
    size = str(4 * KIB)
    # One core's copies of as many bytes as the trace's cache holds: larger than any processor cache.
    copies = report.yardsticks(program, "--duration", str(seconds), "--sizes", str(TRACE_BYTES), "--nginx", "off",
                               "--fabtests", "off")
    copied = copies[0]["bytes_per_s"] if copies else None
    for provider in providers:
        asked = ["--doors", "native", "--providers", provider, "--batch", "256", "--sizes", size, "--ops"]
        gets = rows(program, seconds, *asked, "get,get_many,get_beside_many", cores=max(1, os.cpu_count() - 1))
        crowded = rows(program, seconds, *asked, "get,get_many")
        found[f"crowded {provider}"] = (crowded["get_many", "native", provider]["ops_per_s"] /
                                        crowded["get", "native", provider]["ops_per_s"])
        one, many = gets["get", "native", provider], gets["get_many", "native", provider]
        found[f"get {provider}"] = many["ops_per_s"] / one["ops_per_s"]
        found[f"core {provider}"] = objects_a_core(many)
        found[f"p99 {provider}"] = one["p99_us"]
        found[f"p99 beside {provider}"] = gets["get_beside_many", "native", provider]["p99_us"]
        trace = rows(program, seconds, "--doors", "native", "--providers", provider, "--ops", "trace,trace_many", "--trace",
                     str(TRACE), "--sizes", size)
        by_batches = trace["trace_many", "native", provider]
        found[f"trace {provider}"] = trace["trace", "native", provider]["ops_per_s"] / by_batches["ops_per_s"]
        if copied:
            found[f"copies {provider}"] = by_batches["bytes_per_s"] / copied
    heads = rows(program, seconds, "--doors", "http,native", "--providers", providers[0], "--ops", "head,head_many",
                 "--batch", "1000", "--sizes", size)
    http = heads["head", "http", "http"]
    found["head"] = heads["head_many", "native", providers[0]]["ops_per_s"] / http["ops_per_s"]
    puts = rows(program, seconds, "--doors", "native", "--providers", providers[0], "--ops", "put,put_many", "--batch",
                "256", "--sizes", size, "--durability", "sync")
    found["put"] = (puts["put_many", "native", providers[0]]["ops_per_s"] /
                    puts["put", "native", providers[0]]["ops_per_s"])
    return found


def served(cost_program, seconds):
    """Objects that one core serves in a second without other work: name -> objects, of one round."""
    def count(case, messages):
        run = subprocess.run([cost_program, "--case", case, "--requests", "256", "--seconds", str(seconds), "--messages",
                              str(messages)], capture_output=True, text=True, check=True, timeout=120)
        return float(run.stdout)
    return {"served few": count("native_get_many_4k", 1), "served many": count("native_get_many_4k", 64),
            "served heads": count("native_head_many", 64)}


def guest(seconds):
    """One round on soft-RoCE; the CPUs are emulated."""
    program = f"build/verbena bench --json --duration {seconds} --listen 10.77.0.1"
    found = report.rows_of(["tools/vm.sh", "run", "sh", "-c", f"{program} --providers verbs --doors native --ops get,get_many "
                            "--batch 256 --sizes 4KiB; build/bin/yardsticks --json --perftest --listen 10.77.0.1 --sizes 4KiB "
                            "--no-memcpy --nginx off --fabtests off"])
    one, many = ({row["op"]: row for row in found}[op] for op in ("get", "get_many"))
    ratios = {"get verbs": many["ops_per_s"] / one["ops_per_s"],
              "cpu verbs": many["server_cpu_s_per_gb"] / one["server_cpu_s_per_gb"]}
    device = [row for row in found if row["op"] == "rdma_write"]
    return ratios | ({"device verbs": many["ops_per_s"] / device[0]["ops_per_s"]} if device else {})


def instructions(cost_program):
    """The server's instructions for an object: single and in a batch of 100."""
    cases = ["native_get_4k", "native_get_many_4k", "tcp_get_4k", "tcp_get_many_4k", "native_put_4k", "native_put_many_4k"]
    return {case: instruction_guard.count(cost_program, case) for case in cases}


def ratio(rounds, name, decimals=1):
    values = sorted(found[name] for found in rounds if found.get(name) is not None)
    if not values:
        return "not measured"
    text = f"{statistics.median(values):.{decimals}f}x"
    return text if len(values) == 1 else f"{text} ({values[0]:.{decimals}f} to {values[-1]:.{decimals}f})"


def millions(rounds, name):
    values = [found[name] for found in rounds if found.get(name)]
    return f"{statistics.median(values) / 1e6:.2f} million/s" if values else "not measured"


def microseconds(rounds, name):
    values = [found[name] for found in rounds if found.get(name)]
    return f"{statistics.median(values):.0f} us" if values else "not measured"


def section(info, rounds, seconds, providers, counts):
    out = [report.BATCHES[0], "## Batches", "",
           f"Written by `./dev bench many`: {info['machine']}; {info['system']}; commit {info['commit']}; load average at "
           f"the start {info['load']}; {len(rounds)} rounds, {seconds} s a row. Client and server share the machine.", "",
           "| what | wanted | measured |", "| --- | --- | --- |"]
    wanted = {"local": ">= 5x", "tcp": ">= 10x"}
    for provider in providers:
        out.append(f"| 256 x 4 KiB GET as one batch on `{provider}`, per object, against single GETs | "
                   f"{wanted.get(provider, '')} | {ratio(rounds, f'get {provider}')} |")
        out.append("| the same where the server has a core on each CPU, the caller's too | | "
                   f"{ratio(rounds, f'crowded {provider}')} |")
        out.append(f"| the same, objects a second of server CPU (one caller, and the server polls while it prepares the next batch) | "
                   f"{'>= 3 million' if provider == 'local' else ''} | {millions(rounds, f'core {provider}')} |")
        out.append(f"| p99 of a single GET of 4 KiB on `{provider}` beside an endless stream of such batches, against alone | | "
                   f"{microseconds(rounds, f'p99 beside {provider}')} against {microseconds(rounds, f'p99 {provider}')} |")
        out.append(f"| trace of a KV cache on `{provider}` (`bench/kv_trace.py`), a batch a line: time to the last byte, "
                   f"against singles | <= 0.33x | {ratio(rounds, f'trace {provider}', 2)} |")
        out.append(f"| the same, bytes a second of the batches against one core's memcpy of 96 MiB (what the cache holds) | | "
                   f"{ratio(rounds, f'copies {provider}', 2)} |")
    if "get verbs" in rounds[0]:
        out += ["| 256 x 4 KiB GET as one batch over `verbs` in the guest (soft-RoCE), per object, against single GETs | >= 10x | "
                f"{ratio(rounds, 'get verbs')} |",
                f"| the same, server CPU an object against that of a single GET | | {ratio(rounds, 'cpu verbs', 2)} |",
                "| the same batches' objects a second, against the RDMA writes of 4 KiB that `ib_write_bw` gets out of this "
                f"device | | {ratio(rounds, 'device verbs', 2)} |"]
    if "served few" in rounds[0]:
        out += ["| what a core serves of such batches, client and transport not counted (`request_cost`), the same 256 "
                f"objects each time | >= 3 million | {millions(rounds, 'served few')} |",
                "| likewise, 16,384 objects by turns, which no second-level cache holds: GET, HEAD | | "
                f"{millions(rounds, 'served many')}, {millions(rounds, 'served heads')} |"]
    out += [f"| 1,000 HEADs as one batch, per object, against HTTP HEADs on one connection | >= 100x | {ratio(rounds, 'head')} |",
            f"| 256 x 4 KiB PUT `sync` as one batch, per object, against single PUTs | >= 20x | {ratio(rounds, 'put')} |"]
    if counts:
        for what, name in [("transport not counted", "native"), ("`tcp`, which single GETs of 4 KiB cost a MAC over the bytes", "tcp")]:
            single, many = counts[f"{name}_get_4k"], counts[f"{name}_get_many_4k"]
            out.append(f"| server instructions for an object of 4 KiB in a batch of 100, against a single GET ({what}) | <= 0.25x | "
                       f"{many / single:.2f}x ({many:.0f} against {single:.0f}) |")
        single, many = counts["native_put_4k"], counts["native_put_many_4k"]
        out.append(f"| likewise of a PUT to a `memory` bucket | | {many / single:.2f}x ({many:.0f} against {single:.0f}) |")
    return "\n".join([*out, "", *WHAT_BOUNDS_THEM, "", report.BATCHES[1], ""])


WHAT_BOUNDS_THEM = [
    "What bounds the rows that are not met:",
    "",
    "- **The KV trace**: values of 64 KiB to 2 MiB are copies. Single requests move nearly as much as one core's memcpy, and there are "
    "only two cores: batches cannot take less than about half of that time here. Over `tcp` both reach the limit of loopback.",
    "- **Over `verbs`**: a batch already moves more than half of what `ib_write_bw` moves on the emulated device; if it cost nothing but "
    "the device's writes it would just reach the ten times that are wanted.",
    "- **Objects a second of a core**: 256 objects of 4 KiB and their destinations fill the second-level cache; at the speed of memcpy "
    "of 1 MiB (the table above) the copies alone are more than a third of the time.",
    "- **PUT `sync`**: the rest is RocksDB's work for an object (a look-up and an insertion among the rows in memory, the bytes of the log) "
    "and one sync of a log that is 256 times as long as that of a single PUT.",
    "- **Instructions without transport**: a single GET is cheap too; the rest of an item is the MAC over its part of the messages, the "
    "look-up of its key and the copy.",
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round, printed and not written")
    parser.add_argument("--guest", action="store_true", help="over verbs in the virtual machine, too")
    parser.add_argument("--program", default=str(report.ROOT / "build" / "verbena"))
    parser.add_argument("--cost-program", default=str(report.ROOT / "build" / "bin" / "request_cost"))
    parser.add_argument("--providers", default="local,tcp")
    arguments = parser.parse_args()
    info, providers = report.machine(), arguments.providers.split(",")
    seconds, count = (0.3, 1) if arguments.quick else (1, 3)
    counted = pathlib.Path(arguments.cost_program).exists()
    rounds = []
    for number in range(count):
        print(f"round {number + 1} of {count}", file=sys.stderr)
        rounds.append(measure(arguments.program, seconds, providers))
        if counted:
            rounds[-1] |= served(arguments.cost_program, seconds)
        if arguments.guest:
            rounds[-1] |= guest(3 * seconds)
    counts = instructions(arguments.cost_program) if counted else {}
    text = section(info, rounds, seconds, providers, counts)
    print(text)
    if arguments.quick:
        return
    path = report.ROOT / "docs" / "performance.md"
    path.write_text(report.merged(path.read_text(encoding="utf-8"), text, report.BATCHES), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
