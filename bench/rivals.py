#!/usr/bin/env python3
"""The native door beside NFS over RDMA, NFS over TCP and NVMe over Fabrics in one virtual machine, on soft-RoCE.

    ./dev bench rivals            three rounds, a boot each (about a quarter of an hour); writes docs/rivals.md and its plot
    ./dev bench rivals --quick    one short round

Every ratio is of one round. The work in the guest is rivals_guest.py's, the load is rivals_load.cc."""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import plot
import report

sys.path.insert(0, str(report.ROOT / "tools"))
import wrap_prose  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
FUSE, MOUNT = "FUSE", "Verbena, mounted by FUSE"
NFS, NFS_TCP, NVME, VERBS, TCP = ("NFS over RDMA", "NFS over TCP", "ext4 on NVMe over RDMA", "Verbena, verbs", "Verbena, tcp")
SIDES = (VERBS, NFS, NVME, TCP, NFS_TCP)
SEQUENTIAL = ("sequential_1m", "sequential_16m")
READS = ("random", *SEQUENTIAL)
# Of Verbena's rows of sequential reads, how many are in flight: one, or by these ends of the row's name. Files are read
# with the kernel's read-ahead where ours has four.
IN_FLIGHT = {"": 1, "_ahead2": 2, "_buffered": 4}
ALL_FILES = ("create", "list", "read", "values")
# The wanted ratios: throughput against NFS over RDMA, and the server's CPU time a byte.
WANTED = {"random": 1.5, "sequential_16m": 1.0, "create": 3, "list": 5, "read": 5}
SERVER_CPU_WANTED = {"sequential_16m": 0.7}

# All data is in memory and every device is emulated by the CPUs: while a row runs, something always wants one. Where fewer
# than this are busy, client or server wait for a time-out.
STALLED_BELOW = 0.5

# A guest whose CPUs wait for the machine's more of their time than this has no figures: it counts the waiting as work.
WAITED_MAX = 0.25


def titles(arguments):
    files = f"{arguments.created:,} x 4 KiB"
    return {"random": "4 KiB, random reads, one caller", "sequential_1m": "1 MiB, sequential reads",
            "sequential_16m": "16 MiB, sequential reads", "sequential_1m_ahead2": "1 MiB, sequential, 2 in flight",
            "sequential_16m_ahead2": "16 MiB, sequential, 2 in flight", "sequential_1m_buffered": "1 MiB, sequential, with read-ahead",
            "sequential_16m_buffered": "16 MiB, sequential, with read-ahead", "create": f"{files} created",
            "list": f"{arguments.files:,} x 4 KiB listed, with sizes", "read": f"{files} read", "values": f"{files} listed and read",
            "checkpoint": f"{plot.size_text(arguments.checkpoint)} written"}


def parsed(text):
    """Lines of rivals_guest.py: (side, row) -> figures. Other lines are the guest's own."""
    found = {}
    for line in text.splitlines():
        if line.startswith('{"side"'):
            row = json.loads(line)
            found[row.pop("side"), row.pop("row")] = row
    return found


def descendants(pid):
    children = {}
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:  # it has ended
                continue
            children.setdefault(parent, []).append(int(folder.name))
    out = [pid]
    for one in out:
        out += children.get(one, [])
    return out


def waited_share(pid):
    """The part of the time of this process and those under it in which they could have run, but waited for a CPU."""
    ran = waited = 0
    for one in descendants(pid):
        for thread in pathlib.Path(f"/proc/{one}/task").glob("*/schedstat"):
            try:
                figures = thread.read_text().split()
            except OSError:
                continue
            ran, waited = ran + int(figures[0]), waited + int(figures[1])
    return waited / (ran + waited) if ran else 0


def in_guest(arguments, *command, rdma="rxe"):
    """Runs in a fresh guest: (exit status, output, seconds)."""
    began = time.monotonic()
    environment = dict(os.environ, VM_MEMORY=arguments.memory, VM_TIMEOUT_S=str(arguments.limit), VM_RDMA=rdma)
    guest = subprocess.Popen(["nice", "-n", "10", str(report.ROOT / "tools" / "vm.sh"), "run", *command], cwd=report.ROOT,
                             env=environment, stdout=subprocess.PIPE, text=True)
    output, waited = [], 0
    for line in guest.stdout:
        output.append(line)
        waited = waited_share(guest.pid) or waited
        print(line, end="", file=sys.stderr, flush=True)
    status = guest.wait()
    if waited > WAITED_MAX:
        raise SystemExit(f"rivals: the guest's CPUs waited {waited:.0%} of their time for this machine's, and it counts that as its "
                         "own: nothing is written. Try again when no other programs run.")
    return status, "".join(output), time.monotonic() - began


def one_round(arguments):
    bin_folder = pathlib.Path(arguments.program).parent / "bin"
    command = ["env", f"VERBENA={arguments.program}", "python3", "bench/rivals_guest.py", "--load", str(bin_folder / "rivals_load"),
               "--large", str(arguments.large), "--files", str(arguments.files), "--created", str(arguments.created),
               "--checkpoint", str(arguments.checkpoint),
               "--seconds", str(arguments.seconds)]
    if (bin_folder / "rivals_fuse").exists():
        command += ["--fuse", str(bin_folder / "rivals_fuse")]
    if arguments.sides:
        command += ["--sides", arguments.sides]
    if arguments.rows:
        command += ["--rows", arguments.rows]
    status, output, _ = in_guest(arguments, *command)
    found = parsed(output)
    if (VERBS, "random") not in found or (NFS, "random") not in found:
        raise SystemExit(f"rivals: the guest ended with {status}, without the figures that are compared")
    return found


def failures(rounds, named):
    """What the rounds lack, as lines of the page."""
    out = [f"- `{side}` of `rivals_guest.py` in round {number}: {row['error']}" for number, found in enumerate(rounds, 1)
           for (side, what), row in found.items() if what == "failed"]
    for side in SIDES:
        lacking = [title for row, title in named.items() if not (side not in (VERBS, TCP) and row.endswith("_ahead2"))
                   and not any((side, row) in found for found in rounds)]
        if lacking:
            out.append(f"- {side}, in no round of this run: {'; '.join(lacking)}.")
    return out


def rate(found):
    """What a row is compared by: operations a second."""
    return found["operations"] / found["seconds"]


def spread(values, decimals=2, unit="x"):
    values = sorted(value for value in values if value is not None)
    if not values:
        return "-"
    text = f"{statistics.median(values):.{decimals}f}{unit}"
    return text if len(values) == 1 else f"{text} ({values[0]:.{decimals}f} to {values[-1]:.{decimals}f})"


def ratios(rounds, row, figure, against=NFS, side=VERBS):
    """In each round, ours to theirs."""
    out = []
    for found in rounds:
        ours, theirs = found.get((side, row)), found.get((against, row))
        if ours and theirs and figure(theirs):
            out.append(figure(ours) / figure(theirs))
    return out


def cpu(of):
    """A figure: CPU seconds a GB, or for small files a thousand operations."""
    def figure(found):
        value = found.get(of)
        return None if value is None else value / found["operations"]
    return figure


def median(rounds, side, row, figure):
    values = [figure(found[side, row]) for found in rounds if (side, row) in found and figure(found[side, row]) is not None]
    return statistics.median(values) if values else None


def busy(found):
    """How many CPUs the guest kept busy while the row ran."""
    return found["machine_cpu_s"] / found["seconds"]


def stalls(rounds, side, row):
    """In how many rounds the row mostly waited for a time-out."""
    return sum((side, row) in found and busy(found[side, row]) < STALLED_BELOW for found in rounds)


def verdict(row, values, wanted, less=False):
    if row not in wanted:
        return "", ""
    middle = statistics.median(values)
    met = middle <= wanted[row] if less else middle >= wanted[row]
    return f"{'<=' if less else '>='} {wanted[row]}x", "met" if met else "not met"


def ratio_table(rounds, named):
    out = ["| row | wanted | against NFS over RDMA | | against NVMe over RDMA | tcp against NFS over TCP |",
           "| --- | --- | --- | --- | --- | --- |"]
    for row, title in named.items():
        values = ratios(rounds, row, rate)
        if not values:
            continue
        wanted, met = verdict(row, values, WANTED)
        out.append(f"| {title} | {wanted} | {spread(values)} | {judged(rounds, row, met)} | {spread(ratios(rounds, row, rate, NVME))} | "
                   f"{spread(ratios(rounds, row, rate, NFS_TCP, TCP))} |")
    return out


def judged(rounds, row, met):
    """A verdict. Where NFS over RDMA stalls it is none, and that of tcp beside tcp is told, where nothing stalls."""
    waited = stalls(rounds, NFS, row)
    if not waited:
        return met
    values = ratios(rounds, row, rate, NFS_TCP, TCP)
    other = f"; over TCP {verdict(row, values, WANTED)[1]}" if row in WANTED and values else ""
    return f"{'no verdict: ' if met else ''}NFS stalls in {waited} of {len(rounds)} rounds{other}"


def cpu_table(rounds, named):
    out = ["| row | wanted | server's threads | | client's process | whole machine |", "| --- | --- | --- | --- | --- | --- |"]
    for row, title in named.items():
        values = ratios(rounds, row, cpu("server_cpu_s"))
        if not values:
            continue
        wanted, met = verdict(row, values, SERVER_CPU_WANTED, less=True)
        out.append(f"| {title} | {wanted} | {spread(values)} | {met} | {spread(ratios(rounds, row, cpu('client_cpu_s')))} | "
                   f"{spread(ratios(rounds, row, cpu('machine_cpu_s')))} |")
    return out


def own_code_words(rounds, row):
    """What of the server's time is its own code, beside all of nfsd's; by medians."""
    own, all_of_it, theirs = (median(rounds, side, row, cpu(of)) for side, of in (
        (VERBS, "server_user_s"), (VERBS, "server_cpu_s"), (NFS, "server_cpu_s")))
    if own is None or not all_of_it or not theirs:
        return ""
    return (f" Verbena's own code is {own / all_of_it:.0%} of its process's time, {own / theirs:.2f}x of what nfsd's threads take; the "
            "rest is the kernel's: the system calls that post, and softirqs that interrupt it.")


def cpu_words(rounds, named):
    """For rows whose server takes more than is wanted, though all CPUs together take less."""
    out = []
    for row in SERVER_CPU_WANTED:
        server, machine = ratios(rounds, row, cpu("server_cpu_s")), ratios(rounds, row, cpu("machine_cpu_s"))
        if server and machine and statistics.median(server) > SERVER_CPU_WANTED[row] and statistics.median(machine) < 1:
            out.append(f"{named[row]}: the server's process takes {spread(server)} of what nfsd's threads take, and all CPUs together "
                       f"{spread(machine)}. soft-RoCE makes packets in the time of the thread that posts them: Verbena posts from its "
                       "process, and NFS from kworkers, which no column but the last counts. Which of the two columns a real NIC would show, whose "
                       f"packets cost no CPU, this machine cannot tell.{own_code_words(rounds, row)}")
    return ["", *out] if out else []


def cell(value, decimals=1):
    return "-" if value is None else f"{value:,.{decimals}f}"


def figures_table(rounds, named):
    """Medians. CPU is of an operation: of a file, or of a read."""
    out = ["| row | side | p50 us | operations/s | MiB/s | server CPU us | of it its own code | client CPU us | machine CPU us |",
           "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row, title in named.items():
        for side in (*SIDES, MOUNT, FUSE):
            if not any((side, row) in found for found in rounds):
                continue
            cpus = [median(rounds, side, row, cpu(of)) for of in ("server_cpu_s", "server_user_s", "client_cpu_s", "machine_cpu_s")]
            out.append(f"| {title} | {side} | {cell(median(rounds, side, row, lambda f: f['p50_us'] or None), 0)} | "
                       f"{cell(median(rounds, side, row, rate))} | "
                       f"{cell(median(rounds, side, row, lambda f: f['bytes'] / f['seconds'] / MIB))} | "
                       + " | ".join(cell(None if value is None else value * 1e6, 0) for value in cpus) + " |")
    return out


def split(rounds, side, row):
    """Medians of CPU us an operation: of the server, of the client, of all."""
    found = [median(rounds, side, row, cpu(of)) for of in ("server_cpu_s", "client_cpu_s", "machine_cpu_s")]
    return [None if value is None else value * 1e6 for value in found]


def likely_cause(rounds, row, ours, theirs):
    """Why a row is lost, by what was counted. Figures are CPU us an operation."""
    (server, client, mine), (_, _, other) = split(rounds, ours, row), split(rounds, theirs, row)
    if mine > 1.1 * other:
        where = max((server, "the server"), (client, "the client"), (mine - server - client, "softirqs and kworkers"))[1]
        return f"more CPU: {mine:,.0f} us an operation against {other:,.0f}, most of it of {where}"
    if stalls(rounds, ours, row):
        return "our side waits for a time-out"
    used, theirs_used = median(rounds, ours, row, busy), median(rounds, theirs, row, busy)
    if used < 0.9 * theirs_used:
        return f"fewer CPUs at work: {used:.1f} of 2 against {theirs_used:.1f}; an operation costs no more CPU"
    return f"no more CPU than theirs ({mine:,.0f} us against {other:,.0f}): within what rounds differ by"


def losses(rounds, named):
    """Every ratio under 1."""
    out = ["| row | ours | theirs | ratio | our CPU us: server, client, all | theirs, all | likely cause |",
           "| --- | --- | --- | --- | --- | --- | --- |"]
    for row, title in named.items():
        for ours, theirs in ((VERBS, NFS), (VERBS, NVME), (TCP, NFS_TCP)):
            values = ratios(rounds, row, rate, theirs, ours)
            if not values or statistics.median(values) >= 1:
                continue
            server, client, mine = split(rounds, ours, row)
            why = likely_cause(rounds, row, ours, theirs)
            out.append(f"| {title} | {ours} | {theirs} | {spread(values)} | {server:,.0f}, {client:,.0f}, {mine:,.0f} | "
                       f"{split(rounds, theirs, row)[2]:,.0f} | {why} |")
    return out if len(out) > 2 else ["Nowhere: no ratio of the table is under 1."]


def read_ahead(rounds, named):
    """Our sequential reads, which are one call after the other, beside the kernel's clients with read-ahead."""
    out = []
    for row in SEQUENTIAL:
        for ours, theirs in ((VERBS, NFS), (VERBS, NVME), (TCP, NFS_TCP)):
            values = [rate(found[ours, row]) / rate(found[theirs, row + "_buffered"]) for found in rounds
                      if (ours, row) in found and (theirs, row + "_buffered") in found]
            if values and statistics.median(values) < 1:
                out.append(f"- {named[row]}, {ours}: {spread(values)} of {theirs} with the kernel's read-ahead, which asks for the "
                           "next bytes while the program looks at these; our caller asks when it has them.")
    return ["", "One read after the other of ours beside theirs with read-ahead, which the table above does not have:", "", *out] if out else []


def best_of_nfs(found, row):
    """Seconds for a read over NFS/RDMA, the faster of its two ways."""
    return min(1 / rate(found[NFS, name]) for name in (row, row + "_buffered") if (NFS, name) in found)


def best_of_ours(found, row):
    """Seconds for a read by the native door, with as many reads in flight as are best there."""
    return min(1 / rate(found[VERBS, row + end]) for end in IN_FLIGHT if (VERBS, row + end) in found)


def mount_section(rounds, named):
    needed = [(side, row) for row in READS for side in (FUSE, MOUNT, VERBS, NFS)]
    needed += [(side, row + "_buffered") for row in SEQUENTIAL for side in (NFS, VERBS)]
    complete = [found for found in rounds if all(one in found for one in needed)]
    if not complete:
        return ["Not measured in this run."]
    out = ["| read | FUSE alone, us | its CPU us: daemon, caller, all | native, us: 1, 2, 4 in flight | mount, us | "
           "NFS over RDMA (the faster way), us | native, the best, against NFS | mount against NFS |",
           "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    native, mounted = [], []
    for row in READS:
        rivals = [best_of_nfs(found, row) for found in complete]
        native.append([rival / best_of_ours(found, row) for rival, found in zip(rivals, complete)])
        mounted.append([rival * rate(found[MOUNT, row]) for rival, found in zip(rivals, complete)])
        times = [median(complete, VERBS, row + end, lambda f: 1e6 / rate(f)) for end in IN_FLIGHT]
        alone, over = (cell(median(complete, side, row, lambda f: 1e6 / rate(f)), 0) for side in (FUSE, MOUNT))
        costs = ", ".join(cell(value, 0) for value in split(complete, FUSE, row))
        out.append(f"| {named[row]} | {alone} | {costs} | {', '.join(cell(one, 0) for one in times if one is not None)} | {over} | "
                   f"{statistics.median(rivals) * 1e6:,.0f} | {spread(native[-1])} | {spread(mounted[-1])} |")
    return out + ["", decision([named[row] for row in READS], native, mounted)]


def decision(names, native, mounted):
    """Of each row of reads, the ratios of all rounds against NFS: of the native door's best, and of the mount."""
    def ahead(of_rows):
        return [name for name, values in zip(names, of_rows) if statistics.median(values) > 1]
    numbers = (f"The mount that was measured is faster than NFS over RDMA in: {'; '.join(ahead(mounted)) or 'none'}. The native door, with "
               f"as many reads in flight as are best: {'; '.join(ahead(native)) or 'none'}.")
    if len(ahead(mounted)) == len(names):
        return (f"**Decision: worth building.** {numbers} It is not built yet: what was measured reads one file, and has no names, no "
                "cache and nothing that tells it of changes.")
    if len(ahead(native)) == len(names):
        return (f"**Decision: no mount for now.** {numbers} So a mount could win in every row if FUSE cost less than here; programs that "
                "can use the client library have that already.")
    lost = [name for name in names if name not in ahead(native)]
    return (f"**Decision: no mount.** {numbers} A mount has to wait for the native door, so on this machine none would win in: "
            f"{'; '.join(lost)}.")


def machine_text(info, arguments, rounds, boots):
    return (
        f"**Machine**: a guest of 2 CPUs and {arguments.memory} under QEMU's TCG (every instruction emulated) on {info['machine']}; "
        f"{info['system']} outside, Debian's kernel {boots['kernel']} inside; commit {info['commit']}; {time.strftime('%Y-%m-%d')}; "
        f"load average outside at the start {info['load']}. {len(rounds)} round{'s' if len(rounds) > 1 else ''}, each in a fresh boot. "
        "The RDMA devices are soft-RoCE (`rdma_rxe`), both ends in one kernel, a veth pair over a bridge between them: what a real NIC "
        "does is done by the CPU here, on both sides. Nothing on this page is a time of hardware: read the ratios.")


RULE = (
    "The rule: a mount is worth building if it is faster than NFS over RDMA in every row of reads (median of the rounds' ratios); it "
    "is left for later if the native door itself is, without FUSE; else there is none. NFS counts with the faster of its two ways, "
    "O_DIRECT or with the kernel's read-ahead, and a row in which both stall would count as it is. Not measured: a mount that answers "
    "from registered memory without the copy that this one makes, and FUSE over io_uring (Linux 6.14; the guest's kernel has none), "
    "which saves two changes between kernel and daemon for each request, a part of the column *FUSE alone*.")

METHOD = [
    "All data lies in one tmpfs of the guest: NFS exports a folder of it (`sync`, NFS 4.2, 16 nfsd threads), the NVMe target (nvmet, "
    "over RDMA) serves a file of it with ext4 made by the client, and Verbena's data directory (a `sync` bucket) lies there. So "
    "everything is in the servers' memory, and nothing waits for a disk: what the others' servers read from the page cache, Verbena's"
    " reads from its hot tier (`cache.size`, `cache.object_size_max`). Over soft-RoCE NFS's clients lose replies now and then, and "
    "wait: for 5 s here (`timeo=50`), and not for the 60 s of the default. File systems are mounted "
    "anew before each row, so that their client has nothing cached; reads of the large file are O_DIRECT, and once more buffered, "
    "with the kernel's read-ahead and once through the file. Beside these Verbena's client has two and four reads in flight, as the "
    "read-ahead of a mount would (the rows *with read-ahead* have four). It keeps nothing. The load (`bench/rivals_load.cc`) is the"
    " same program for all, and looks at the bytes that it reads.",
    "",
    "NFS and NVMe move plain bytes, so Verbena does, too (`rdma.tcp_encryption: off`; over verbs a client without TLS asks for no "
    "encryption). Verbena has one of the guest's two CPUs (`cores: 1`), for its core asks the device again and again. "
    "Both its sides poll for up to half a millisecond before they sleep, for that is what sleeping costs an emulated CPU; on a machine "
    "where it is cheap they poll for a tenth of that (`src/base/sleep_cost.h`).",
    "",
    "Small files lie in 16 folders, one for each of 16 callers. Those that are listed are there before, written by the server's side "
    "where NFS exports its folder, and else by the client. Those that are created are synced one by one (fsync), the same promise as "
    "a PUT into a `sync` bucket gives; without it ext4 would answer from its client's page cache, and the disk would get the files "
    "later. Verbena's callers use batches: at most 256 objects in a PUT_MANY or "
    "GET_MANY, 1,000 in a page of a listing, with the values in the row of that name. A file system has a call for each file: that is "
    "the difference which these rows show. The checkpoint is one caller's: buffered writes of 16 MiB and fsync, or one PUT.",
    "",
    "CPU time: *server* is that of the nfsd threads, or of Verbena's process; *client* is the load's process, with its system calls; "
    "*machine* is all of it: with soft-RoCE's and the bridge's work in softirqs and kworkers, which cannot be assigned to one of the "
    "sides, and which sometimes runs in the time of whichever thread is interrupted. The NVMe target has no threads of its own, only "
    "kworkers. "
    "For queue pairs of user space soft-RoCE makes the packets in the system call that posts an operation, which is Verbena's time, and "
    "for those of the kernel, NFS's, in tasklets, which are in neither's: the table of figures has apart what of the server's time its own "
    "code took.",
    "",
    f"A row *stalls* if the guest kept fewer than {STALLED_BELOW} CPUs busy while it ran: all data is in memory, so something waited "
    "for a time-out. A ratio against a side that stalls says nothing about ours, however large it is. Such rows have no verdict; what is "
    "told in its place is that of our tcp beside NFS over TCP, the last column, where no reply is lost. The plot leaves them out.",
    "",
    "Against NVMe over RDMA: one client owns that disk, so its ext4 asks no server about names, sizes and permissions, and caches what "
    "it likes. Ours and NFS's files are shared by many. Its column says what a disk of one's own would do, and not what a shared "
    "store could.",
]


SMB = ("It was not built as soft-iWARP was: that is a module of its own, made of one folder of Debian's source. SMB Direct is an "
       "option inside `cifs.ko` and `ksmbd.ko`, so both and what they share would be built from it, and the server needs a daemon of "
       "its own (ksmbd-tools). The rows wanted against it are open. SMB over TCP, which that kernel has on both sides, was not measured "
       "either: Verbena's tcp stands beside NFS over TCP, which is the same kind of server on the same way.")


def not_had(rounds, boots, arguments):
    out = [*failures(rounds, titles(arguments)), f"- SMB Direct: {boots['smb']} {SMB}",
           "- Mounts of S3 by others (s3fs, rclone): they are no part of Verbena, and go over HTTP.",
           "- The `verbena` command as a client: the load is a program over the client library, whose calls the command makes, too. "
           "What a start of a process adds to a single `verbena get` is not measured.",
           "- InfiniBand's link layer, a real NIC: there is none here, and soft devices emulate Ethernet's only."]
    if arguments.checkpoint < 1 << 30:
        out.append(f"- A checkpoint of 1 GiB: {plot.size_text(arguments.checkpoint)} is what emulated CPUs move in an acceptable time.")
    if arguments.created < 10_000:
        out.append(f"- 10,000 small files created and read: {arguments.created:,} were, for over soft-RoCE NFS creates a dozen a second.")
    return out


def boot_section(boots):
    if "siw" not in boots:
        return ["Not measured."]
    return [f"A guest that boots, runs `true` and ends: {boots['rxe']:.0f} s with soft-RoCE, {boots['siw']:.0f} s with soft-iWARP (`siw`), "
            "median of 3 by turns. The module is in no Debian kernel: `tools/build-siw.sh` fetches about 150 MB and builds it once a "
            f"kernel ({boots['module']}). That fetch is why no test of `./dev test` uses it; `./dev vm --siw` does."]


def document(info, arguments, rounds, boots):
    named = titles(arguments)
    options = " ".join(sys.argv[1:])
    out = ["# Beside what is mounted today", "",
           "The native door beside NFS over RDMA, NFS over TCP and NVMe over Fabrics. Written by one command, the plot too:", "",
           "```sh", f"./dev bench rivals{' ' + options if options else ''}", "```", "", machine_text(info, arguments, rounds, boots), "",
           *METHOD, "", "## Throughput", "",
           "Operations a second, ours to theirs; more is better. Median of the rounds' ratios, with the least and the greatest.", "",
           *ratio_table(rounds, named), "", "![Operations a second against NFS over RDMA](rivals.svg)", "",
           "## Where we do not", "",
           "Every ratio of that table that is under 1, with the likely cause by what was counted.", "", *losses(rounds, named),
           *read_ahead(rounds, named), "",
           "## CPU time of an operation against NFS over RDMA", "", "Verbena over verbs; less is better.", "", *cpu_table(rounds, named),
           *cpu_words(rounds, named), "",
           "## Figures", "", "Medians; CPU is of one operation (a read, a file, the whole checkpoint).", "", *figures_table(rounds, named), "",
           "## A mount?", "",
           "A file system in user space over the native door would pay FUSE for each request. `bench/rivals_fuse.cc` is the least that "
           "FUSE allows, by libfuse 3 (`direct_io`, 1 MiB at most a request, one thread to a request). *FUSE alone*: it answers reads "
           "from nothing. *Mount*: it reads the object by the client library over verbs, in order with four pieces of 1 MiB in flight, "
           "and copies what has arrived into the answer: what a mount would do for the file that is measured, and nothing else of "
           "it.", "",
           RULE, "", *mount_section(rounds, named), "", "## What could not be had", "", *not_had(rounds, boots, arguments), "",
           "## What a boot with soft-iWARP costs", "", *boot_section(boots), ""]
    return wrap_prose.paragraphs("\n".join(out))


def bars(rounds, named):
    """Title -> side -> operations a second against NFS over RDMA."""
    return {title: {side: statistics.median(values) for side in SIDES if side != NFS
                    for values in [ratios(rounds, row, rate, side=side)] if values}
            for row, title in named.items() if ratios(rounds, row, rate) and not stalls(rounds, NFS, row)}


def about_kernel():
    cache = pathlib.Path(os.environ.get("VERBENA_CACHE", pathlib.Path.home() / ".cache" / "verbena")) / "vm"
    version = (cache / "version").read_text(encoding="utf-8").split()[0]
    config = (cache / "kernel" / "boot" / f"config-{version}").read_text(encoding="utf-8")
    off = [name for name in ("CIFS_SMB_DIRECT", "SMB_SERVER_SMBDIRECT") if not re.search(rf"^CONFIG_{name}=", config, re.M)]
    smb = ("Debian's kernel is built without it (" + ", ".join(f"`CONFIG_{name}` is not set" for name in off) + "), so that neither its "
           "client nor its server can do it, and both would have to be built anew." if off else "not tried.")
    return {"kernel": version, "smb": smb}


def boot_times(arguments):
    """Medians of whole runs of a guest that does nothing."""
    module = pathlib.Path(os.environ.get("VERBENA_CACHE", pathlib.Path.home() / ".cache" / "verbena")) / "vm" / "siw.ko"
    had, began = module.exists(), time.monotonic()
    subprocess.run([str(report.ROOT / "tools" / "vm.sh"), "setup"], check=True, env=dict(os.environ, VM_RDMA="siw"))
    took = time.monotonic() - began
    times = {"rxe": [], "siw": []}
    for _ in range(3):
        for rdma, found in times.items():
            found.append(in_guest(arguments, "true", rdma=rdma)[2])
    return {rdma: statistics.median(found) for rdma, found in times.items()} | {
        "module": "it was there already" if had else f"{took:.0f} s"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--rounds", type=int, default=0, help="(default 3, quick 1)")
    parser.add_argument("--seconds", type=float, default=0, help="a row of reads (default 2, quick 0.5)")
    parser.add_argument("--files", type=int, default=0, help="small files that are listed (default 10000, quick 320)")
    parser.add_argument("--created", type=int, default=0, help="small files that are created and read (default 1000, quick 320)")
    parser.add_argument("--large", type=int, default=64 * MIB, help="bytes of the file that is read")
    parser.add_argument("--checkpoint", type=int, default=0, help="bytes of it (default 256 MiB, quick 32 MiB)")
    parser.add_argument("--memory", default="6G", help="of the guest")
    parser.add_argument("--limit", type=int, default=2400, help="seconds that a guest may take")
    parser.add_argument("--no-boots", action="store_true", help="leave out the boots with soft-iWARP")
    parser.add_argument("--out", type=pathlib.Path, default=report.ROOT / "docs", help="folder of rivals.md and rivals.svg")
    parser.add_argument("--sides", help="only these of rivals_guest.py's, with commas")
    parser.add_argument("--rows", help="only these of rivals_guest.py's, with commas; random is one of them")
    arguments = parser.parse_args()
    arguments.program = os.environ.get("VERBENA") or str(report.ROOT / "build" / "verbena")  # bin/ beside it has the load
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    arguments.seconds = arguments.seconds or (0.5 if arguments.quick else 2)
    arguments.files = arguments.files or (320 if arguments.quick else 10_000)
    arguments.created = arguments.created or (320 if arguments.quick else 1000)
    arguments.checkpoint = arguments.checkpoint or (32 if arguments.quick else 256) * MIB
    info, rounds = report.machine(), []
    for i in range(arguments.rounds):
        print(f"round {i + 1} of {arguments.rounds}", file=sys.stderr)
        rounds.append(one_round(arguments))
    boots = about_kernel() | ({} if arguments.no_boots or arguments.quick else boot_times(arguments))
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "rivals.md").write_text(document(info, arguments, rounds, boots), encoding="utf-8")
    plot.write_bars(arguments.out / "rivals.svg", "Operations a second, NFS over RDMA = 1", bars(rounds, titles(arguments)))
    print("\n".join(ratio_table(rounds, titles(arguments))))
    print(f"\nwrote {arguments.out / 'rivals.md'} and rivals.svg", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
