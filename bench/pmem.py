#!/usr/bin/env python3
"""Small durable PUTs on persistent memory beside the same ones on a disk: prints a table.

    ./dev bench pmem                                    in a virtual machine with an NVDIMM and a virtio disk, minutes
    ./dev bench pmem --pmem /mnt/pmem --disk /mnt/disk  here, on a DAX file system and a disk (as root, who can freeze
                                                        the disk's file system)
    ./dev bench pmem --counts                           system calls of PUTs of new objects, which are the same on a busy
                                                        machine: a shared mapping stands in for persistent memory
    ./dev bench pmem --cpu                              processor time of each of the server's threads for the table's
                                                        PUTs, with the same stand-in

One caller over `local`, and a server of one core, so that each has a processor of the virtual machine: with more, callers
and cores that poll wait for one another's time slices of 4 ms. In the virtual machine the processor is emulated: ratios within a run say something there, times
do not. A GET of what waits in memory for the index is measured while the disk's file system is frozen, without a hot
tier: nothing else can have answered it."""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "lib"), str(ROOT / "bench")]

import durable_counts  # noqa: E402
import report  # noqa: E402
import verbena_server  # noqa: E402

SIZE, BUCKET = 4096, "pmem"
ROWS = [("PUT 4 KiB `sync`, on the disk", "disk"), ("PUT 4 KiB `sync`, on persistent memory", "pmem"),
        ("GET 4 KiB, from the hot tier", "hot"), ("GET 4 KiB, in persistent memory and not in the hot tier", "waiting")]
# (what, dividend, divisor, least, most)
RATIOS = [("PUT on the disk / on persistent memory", "disk", "pmem", 10, None),
          ("GET from persistent memory / from the hot tier", "waiting", "hot", None, 1.3)]
PUT_WANTED_US = 6
START_S = 12  # the load has begun by then, in an emulated machine too; a removal waits for 15 s
environment = dict(os.environ, AWS_ACCESS_KEY_ID=verbena_server.ACCESS_KEY,
                   AWS_SECRET_ACCESS_KEY=verbena_server.SECRET_KEY)


@contextlib.contextmanager
def served(disk, **settings):
    with tempfile.TemporaryDirectory(dir=disk) as name:
        words = [word for key, value in settings.items()
                 for word in ("--set", f"{key.replace('__', '.')}={value}")]
        server = verbena_server.Server(pathlib.Path(name) / "data", args=words,
                                       env={"VERBENA_SCRUB_RATE": "0", "VERBENA_CORES": "1"})
        server.log_path = os.path.join(tempfile.gettempdir(), "verbena-bench-pmem.log")  # not on a frozen disk
        pathlib.Path(server.directory).mkdir()
        server.start()
        try:
            yield server
        finally:
            server.stop()


def p50(server, op, seconds, *more):
    return durable_counts.row_of(verbena_server.program(), server, environment, [
        "--doors", "native", "--providers", "local", "--ops", op, "--sizes", str(SIZE), "--duration", str(seconds),
        *more])["p50_us"]


@contextlib.contextmanager
def frozen(folder, seconds):
    """The disk's file system takes no writes for so long. The load's last call, which removes its object, waits for it."""
    subprocess.run(["fsfreeze", "-f", folder], check=True)
    thaw = threading.Timer(seconds, lambda: subprocess.run(["fsfreeze", "-u", folder], check=True))
    thaw.start()
    try:
        yield
    finally:
        thaw.join()


def one_round(pmem, disk, seconds):
    found = {}
    with served(disk) as server:
        p50(server, "put", seconds)
        found["disk"] = p50(server, "put", seconds)
    with served(disk, data__pmem=pmem) as server:
        p50(server, "put", seconds)
        found["pmem"] = p50(server, "put", seconds)
        p50(server, "get", seconds)
        found["hot"] = p50(server, "get", seconds)
    with served(disk, data__pmem=pmem, cache__size="0") as server:
        subprocess.run([verbena_server.program(), "mb", f"s3://{BUCKET}", "--endpoint", server.http], env=environment,
                       check=True, stdout=subprocess.DEVNULL)
        for _ in range(2):  # the first one is not counted, as of every row
            with frozen(disk, seconds + START_S):
                found["waiting"] = p50(server, "get", seconds, "--bucket", BUCKET)
    return found


@contextlib.contextmanager
def stood_in(with_log, *settings):
    """A server on this machine, with a shared mapping in place of persistent memory."""
    library = pathlib.Path(verbena_server.program()).parent / "bin" / "dax_stand_in.so"
    with tempfile.TemporaryDirectory(prefix="verbena-pmem-") as name:
        folder = pathlib.Path(name)
        (folder / "data").mkdir()
        (folder / "pmem").mkdir()
        words = ["scrub_rate=0", *settings] + ([f"data.pmem={folder / 'pmem'}"] if with_log else [])
        args = [word for setting in words for word in ("--set", setting)]
        server = verbena_server.Server(folder / "data", args, {"LD_PRELOAD": str(library)} if with_log else None).start()
        try:
            yield server
        finally:
            server.kill()


def calls_of_puts(with_log, count, callers):
    """System calls of the server for PUTs of objects of their own, until the index has them."""
    with stood_in(with_log) as server:
        verbena_server.boto3_client(server.http).create_bucket(Bucket=BUCKET + "-counts")

        def put_some(caller):
            s3 = verbena_server.boto3_client(server.http)
            for number in range(count // callers):
                s3.put_object(Bucket=BUCKET + "-counts", Key=f"{caller}/{number}", Body=os.urandom(SIZE))

        def load():
            threads = [threading.Thread(target=put_some, args=(caller,)) for caller in range(callers)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            time.sleep(1)  # what the log has is moved

        return durable_counts.traced(server, load)


def time_of_threads(server):
    """Nanoseconds on a processor, by thread."""
    return {task.name: int((task / "schedstat").read_text().split()[0])
            for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()}


def cpu(seconds):
    for with_log in (False, True) * 2:
        with stood_in(with_log, "cores=1") as server:
            p50(server, "put", seconds)
            before = time_of_threads(server)
            p50(server, "put", seconds)
            spent = [after - before.get(thread, 0) for thread, after in time_of_threads(server).items()]
        shares = [f"{share / sum(spent):.0%}" for share in sorted(spent, reverse=True)[:4]]
        print("with the log on persistent memory:" if with_log else "on the disk:", f"{sum(spent) / 1e6:.0f} ms of processor",
              "time, of which its busiest threads had", ", ".join(shares), flush=True)


def counts(count=1000, callers=4):
    print(f"{count} PUTs of 4 KiB, each to a key of its own, by {callers} callers over HTTP: system calls of the server")
    for with_log in (False, True) * 2:
        found = calls_of_puts(with_log, count, callers)
        print("with the log on persistent memory:" if with_log else "on the disk:",
              ", ".join(f"{found.get(call, 0)} {call}" for call in ("fdatasync", "pwrite64")), flush=True)


def table(rounds, where):
    machine = report.machine()
    lines = [f"`./dev bench pmem {' '.join(sys.argv[1:])}`, {time.strftime('%Y-%m-%d')}, at {machine['commit']}: {len(rounds)} rounds "
             f"{where}; outside {machine['machine']}, load average {machine['load']}", "", "| what | p50 |", "| --- | --- |"]
    for title, key in ROWS:
        values = sorted(found[key] for found in rounds)
        lines.append(f"| {title} | {statistics.median(values):.1f} us ({values[0]:.1f} to {values[-1]:.1f}) |")
    lines += ["", "| ratio | wanted | measured |", "| --- | --- | --- |"]
    for title, above, below, least, most in RATIOS:
        ratio = statistics.median(found[above] / found[below] for found in rounds)
        wanted = f">= {least}x" if least else f"<= {most}x"
        good = ratio >= least if least else ratio <= most
        lines.append(f"| {title} | {wanted} | {ratio:.2f}x{'' if good else ', missed'} |")
    return "\n".join(lines)


def in_guest(options):
    with tempfile.TemporaryDirectory(prefix="verbena-pmem-") as name:
        machine = dict(os.environ, VM_PMEM=f"{name}/pmem", VM_DISK=f"{name}/disk", VM_TIMEOUT_S="1200")
        command = [str(ROOT / "tools" / "vm.sh"), "run", "/usr/bin/python3", __file__, "--pmem", "/run/pmem", "--disk",
                   "/run/disk", "--rounds", str(options.rounds), "--seconds", str(options.seconds), "--json"]
        run = subprocess.run(command, cwd=ROOT, env=machine, stdout=subprocess.PIPE, text=True, check=False)
    rounds = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    if run.returncode != 0 or len(rounds) != options.rounds:
        raise SystemExit(f"the guest ended with {run.returncode}:\n{run.stdout}")
    return rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pmem", help="a folder of a DAX file system; default: in a virtual machine")
    parser.add_argument("--disk", help="a folder of the disk to compare with: the root of its file system")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of a row")
    parser.add_argument("--counts", action="store_true", help="count system calls instead")
    parser.add_argument("--cpu", action="store_true", help="processor time of the server's threads instead")
    parser.add_argument("--json", action="store_true", help="a line for each round")
    options = parser.parse_args()
    if (options.pmem is None) != (options.disk is None):
        parser.error("--pmem and --disk go together")
    if options.counts:
        return counts()
    if options.cpu:
        return cpu(options.seconds)
    if options.pmem is None:
        rounds = in_guest(options)
    else:
        rounds = []
        for _ in range(options.rounds):
            rounds.append(one_round(options.pmem, options.disk, options.seconds))
            if options.json:
                print(json.dumps(rounds[-1]), flush=True)
    if not options.json:
        where = "in a virtual machine, whose processor is emulated" if options.pmem is None else "on this machine"
        print(table(rounds, where))
        if options.pmem is not None:
            put = statistics.median(found["pmem"] for found in rounds)
            print(f"\nPUT 4 KiB on persistent memory: {put:.1f} us, wanted <= {PUT_WANTED_US} us")


if __name__ == "__main__":
    main()
