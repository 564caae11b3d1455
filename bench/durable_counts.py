"""What a durable PUT costs in counts: they are the same on a busy machine as on a quiet one.

Groups of commits and syncs come from the server's metrics, task switches from /proc, transactions of the file system's
journal from /proc/fs/jbd2 (ext4), system calls from strace, in a run of their own because strace slows the server."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

CALLS = ["futex", "epoll_wait", "fdatasync", "pwrite64", "io_uring_enter", "fallocate", "ftruncate"]


def metrics(server):
    with urllib.request.urlopen(f"http://{server.native}/-/metrics", timeout=60) as reply:
        text = reply.read().decode()
    return {name: float(value) for name, value in re.findall(r"^(verbena_store_\w+) ([\d.e+]+)$", text, re.M)}


def task_switches(pid):
    """Of all threads that are alive: those that waited."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            status = (task / "status").read_text(encoding="utf-8")
        except OSError:
            continue
        total += int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.M).group(1))
    return total


def journal_of(folder):
    """The statistics of the file system's journal; None if it has none that tells."""
    device = os.stat(folder).st_dev
    try:
        name = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve(strict=True).name
    except OSError:
        return None
    path = pathlib.Path(f"/proc/fs/jbd2/{name}-8/info")
    return path if path.exists() else None


def file_system_of(folder):
    """In words: its kind, and whether it has a journal that can be seen."""
    device, kind = os.stat(folder).st_dev, "an unknown file system"
    for line in pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        fields, _, rest = line.partition(" - ")
        if fields.split()[2] == f"{os.major(device)}:{os.minor(device)}":
            kind = rest.split()[0]
    if kind != "ext4":
        return kind
    return "ext4 with a journal" if journal_of(folder) else "ext4 without a journal"


@contextlib.contextmanager
def journalled(folder, size="6G"):
    """A folder on an ext4 with a journal, in a sparse file on a loop device, and its name in words; without the right to
    mount one the folder itself."""
    image, where = pathlib.Path(folder) / "journalled.img", pathlib.Path(folder) / "journalled"
    subprocess.run(["truncate", "-s", size, image], check=True)
    where.mkdir()
    made = subprocess.run(["mkfs.ext4", "-q", "-F", image], capture_output=True, check=False).returncode == 0
    if not made or subprocess.run(["mount", "-o", "loop", image, where], capture_output=True, check=False).returncode != 0:
        image.unlink()
        yield pathlib.Path(folder), file_system_of(folder)
        return
    try:
        yield where, f"{file_system_of(where)}, in a file on a loop device"
    finally:
        subprocess.run(["umount", where], check=True)
        image.unlink()


def commits_of(journal):
    return int(journal.read_text(encoding="utf-8").split()[0]) if journal else None


def traced(server, load):
    """Name of a system call -> number of calls while `load` runs; empty where strace is missing or forbidden."""
    if shutil.which("strace") is None:
        return {}
    with tempfile.NamedTemporaryFile("r", prefix="verbena-strace-") as out:
        tracer = subprocess.Popen(["strace", "-f", "-c", "-o", out.name, "-p", str(server.process.pid)],
                                  stderr=subprocess.DEVNULL)
        time.sleep(1)
        thread = threading.Thread(target=load)
        thread.start()
        thread.join()
        tracer.send_signal(signal.SIGINT)
        tracer.wait(60)
        rows = [line.split() for line in out.read().splitlines()]
    return {row[-1]: int(row[3]) for row in rows if len(row) >= 5 and row[3].isdigit() and row[-1] != "total"}


def settle(server, size, load, in_index=16 * 1024, tries_max=12):
    """Runs `load` until its objects take space that has been written before: the steady state."""
    for _ in range(tries_max):
        before = metrics(server)
        load()
        after = metrics(server)
        puts = after["verbena_store_commits_total"] - before.get("verbena_store_commits_total", 0)
        reused = after["verbena_store_reused_bytes_total"] - before.get("verbena_store_reused_bytes_total", 0)
        if size <= in_index or reused >= 0.95 * puts * size:
            return


def count(server, folder, load):
    """Counts for each PUT that `load` makes."""
    journal = journal_of(folder)
    before, switches, commits = metrics(server), task_switches(server.process.pid), commits_of(journal)
    load()
    after = metrics(server)
    puts = max(after["verbena_store_commits_total"] - before["verbena_store_commits_total"], 1)

    def grown(name):
        return (after.get(name, 0) - before.get(name, 0)) / puts

    found = {"PUTs": puts, "groups of commits": grown("verbena_store_commit_groups_total"),
             "syncs of volumes": grown("verbena_store_volume_syncs_total"),
             "task switches": (task_switches(server.process.pid) - switches) / puts}
    if journal:
        found["journal transactions"] = (commits_of(journal) - commits) / puts
    before = metrics(server)
    calls = traced(server, load)
    puts = max(metrics(server)["verbena_store_commits_total"] - before["verbena_store_commits_total"], 1)
    if calls:
        found |= {name: calls.get(name, 0) / puts for name in CALLS}
    return found


def table(columns):
    """columns: (heading, counts)."""
    names = [name for name in columns[0][1] if name != "PUTs"]
    lines = ["| for each PUT | " + " | ".join(heading for heading, _ in columns) + " |", "| --- " * (len(columns) + 1) + "|"]
    for name in names:
        lines.append(f"| {name} | " + " | ".join(f"{counts.get(name, 0):.3f}" for _, counts in columns) + " |")
    return "\n".join(lines)


def row_of(program, server, environment, arguments):
    """One row of `verbena bench`."""
    run = subprocess.run([program, "bench", "--json", "--durability", "sync", "--endpoint", server.http, "--native",
                          server.native, *arguments], env=environment, capture_output=True, text=True, timeout=900, check=False)
    if run.returncode != 0:
        raise SystemExit(f"verbena bench: {run.stderr}{run.stdout}")
    return next(json.loads(line) for line in run.stdout.splitlines() if line.startswith("{"))
