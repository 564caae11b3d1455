"""Where a durable PUT's time goes, by perf: calls and task switches for each PUT, which a tracepoint counts without the delay that
strace adds, and shares of the server's time on processors. `./dev bench durable --profile`."""

import os
import re
import signal
import subprocess
import tempfile
import time

CALLS = ["epoll_wait", "clock_gettime", "futex", "fdatasync", "pwrite64", "io_uring_enter", "recvmsg", "recvfrom", "sendmsg"]
EVENTS = [*(f"syscalls:sys_enter_{call}" for call in CALLS), "context-switches"]
SHARES_MIN = 2  # per cent; less is not told


def while_it_runs(command, load):
    """Runs `load` between the start of `command` and its end by SIGINT. Gives what it wrote to stderr."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        time.sleep(1)
        load()
        process.send_signal(signal.SIGINT)
        process.wait(60)
        said.seek(0)
        return said.read()


def counts(pid, load):
    """Event -> number, of all threads."""
    text = while_it_runs(["perf", "stat", "-x", ",", "-e", ",".join(EVENTS), "-p", str(pid)], load)
    rows = [line.split(",") for line in text.splitlines()]
    return {row[2].removeprefix("syscalls:sys_enter_"): int(row[0]) for row in rows if len(row) > 2 and row[0].isdigit()}


def report_of(path, *options):
    """(share in per cent, name) of the lines of perf report."""
    text = subprocess.run(["perf", "report", "-i", path, "--stdio", "-g", "none", *options], capture_output=True, text=True,
                          check=True).stdout
    found = re.findall(r"^\s*([\d.]+)%\s+(?:[\d.]+%\s+)?(.*?)\s*$", text, re.M)
    return [(float(share), re.sub(r"^\[[k.]\]\s+", "", name).split("  ")[0]) for share, name in found]


def shares(pid, load):
    """Of the time on processors: of the kernel and of each program or library by itself, and of each system call with all that
    the kernel does in it."""
    with tempfile.TemporaryDirectory(prefix="verbena-perf-") as folder:
        path = os.path.join(folder, "perf.data")
        while_it_runs(["perf", "record", "-q", "-e", "cpu-clock", "-F", "499", "-g", "-o", path, "-p", str(pid)], load)
        of_files = report_of(path, "--no-children", "--sort=dso")
        of_calls = [(share, name.removeprefix("__x64_sys_")) for share, name in report_of(path, "--children", "--sort=symbol")
                    if name.startswith("__x64_sys_")]
    return of_files, of_calls


def profile(server, puts_of, load):
    """Lines of Markdown. `puts_of()` counts PUTs since the start, `load` makes some."""
    before = puts_of()
    counted = counts(server.process.pid, load)
    puts = max(puts_of() - before, 1)
    of_files, of_calls = shares(server.process.pid, load)

    def listed(found):
        return ", ".join(f"{share:.0f} % {name}" for share, name in found if share >= SHARES_MIN) or "nothing was sampled"

    return [f"- for each of {puts:,.0f} PUTs: " + ", ".join(f"{number / puts:.2f} {name}" for name, number in counted.items() if number),
            f"- of its time on processors, by file: {listed(of_files)}", f"- by system call: {listed(of_calls)}"]
