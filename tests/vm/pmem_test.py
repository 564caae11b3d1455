#!/usr/bin/env python3
"""Persistent memory with power cuts: the server on ext4 -o dax on an NVDIMM of a virtual machine, and QEMU killed while
objects are acknowledged. The NVDIMM and the disk are files of the host, so that they keep what a power cut keeps: the
guest's page cache is gone, and so is everything in the server. (QEMU has no caches of a processor: lines that were not
written back are src/store/local/pmem_log_test.cc's subject.)

Several cuts follow each other on one store, in turns of two kinds: with the disk's file system frozen, so that nothing
but persistent memory can have what was acknowledged last; and in the middle of the move from the log to the index, while
PUTs go on. Each boot compares every key before it goes on.

Runs on the host: tests/vm/pmem_test.py [--seed N] [--cuts N]. It boots the guest once for each cut and once more at the
end, and is run there itself (`in-guest`).
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
PMEM, DISK, LEDGER = "/run/pmem", "/run/disk", "/out/ledger.json"
BEFORE, MORE = 40, 60  # PUTs before the removals; behind them, with the disk frozen or in the middle of the move
KEYS = 35


def content(name, version):
    size = random.Random(f"{name} {version}").choice([0, 1, 100, 4096, 16384, 16385, 65536])
    return (f"{name} {version} " * (size // 8 + 1))[:size].encode()


# In the guest.

connections = {}  # by server

def server_on(folder, *settings):
    import verbena_server
    pathlib.Path(folder).mkdir(exist_ok=True)
    server = verbena_server.Server(folder, args=["--set", "arena_size=128MiB", "--set", "cores=2"] +
                                   [word for setting in settings for word in ("--set", setting)])
    server.log_path = f"/run/{os.path.basename(folder)}.log"  # not on the disk, which is frozen meanwhile
    return server


def call(server, method, path, body=None):
    import kept_calls
    if server not in connections:
        connections[server] = kept_calls.Calls(server.http)
    status, _, answer = connections[server].call(method, path, "", body)
    return status, answer


def check(server, ledger):
    """Every key has one of the versions that it may have. Tells which."""
    for name, versions in ledger.items():
        status, body = call(server, "GET", f"/bucket/{name}")
        for version in versions:
            if (status == 404) if version is None else (status == 200 and body == content(name, version)):
                print("is", name, version, flush=True)
                break
        else:
            raise AssertionError(f"{name}: {status}, {len(body)} bytes {body[:40]}, and not one of the versions {versions}")
    found = re.search(r"(\d+) objects come from the log on persistent memory", server.log())
    print("from the log:", found.group(1) if found else 0, flush=True)


def fill():
    """After a cut a look at every key; then PUTs, overwrites and removals, each of which is told when it is
    acknowledged. Ends by being killed."""
    plan = json.loads(pathlib.Path(LEDGER).read_text())
    server = server_on(DISK + "/data", f"data.pmem={PMEM}").start()
    if plan["keys"]:
        check(server, plan["keys"])
    else:
        status, body = call(server, "PUT", "/bucket")
        assert status == 200, (status, body, server.log()[-2000:])

    def put(number):
        name, version = f"k{number % KEYS}", number
        assert call(server, "PUT", f"/bucket/{name}", content(name, version))[0] == 200, name
        print("acknowledged", name, version, flush=True)

    first = plan["next"]
    for number in range(first, first + BEFORE):
        put(number)
    for name in ("k0", "k7"):
        assert call(server, "DELETE", f"/bucket/{name}")[0] == 204
        print("removed", name, flush=True)
    if plan["frozen"]:
        subprocess.run(["fsfreeze", "-f", DISK], check=True)
    print("from here on", flush=True)
    for number in range(first + BEFORE, first + BEFORE + MORE) if plan["frozen"] else itertools.count(first + BEFORE):
        put(number)
    print("all are acknowledged", flush=True)
    signal.pause()


def refusal(server):
    try:
        server.start()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("the server started")


def look():
    """After the cut: everything acknowledged is there, and a second server and a folder without DAX are refused."""
    server = server_on(DISK + "/data", f"data.pmem={PMEM}").start()
    check(server, json.loads(pathlib.Path(LEDGER).read_text())["keys"])
    import verbena_server
    doctor = subprocess.run([verbena_server.program(), "doctor"], stdout=subprocess.PIPE, text=True, check=False).stdout
    assert re.search(r"pmem0.*DAX", doctor), doctor
    said = refusal(server_on(DISK + "/other", f"data.pmem={PMEM}"))
    assert "is in use by another server" in said, said
    assert server.stop() == 0
    said = refusal(server_on(DISK + "/other", "data.pmem=/run"))
    assert "/run is not on a DAX file system" in said, said
    # After an orderly stop the log is not needed, and another store may have the memory.
    plain = server_on(DISK + "/data").start()
    assert call(plain, "GET", "/bucket")[0] == 200
    assert plain.stop() == 0
    other = server_on(DISK + "/other", f"data.pmem={PMEM}").start()
    assert other.stop() == 0
    print("refusals are right", flush=True)


# On the host.

class Guest:
    def __init__(self, folder, what):
        environment = dict(os.environ, VM_PMEM=str(folder / "pmem"), VM_DISK=str(folder / "disk"), VM_OUT=str(folder / "out"))
        self.pid_file = folder / "out" / "qemu.pid"
        self.process = subprocess.Popen([str(ROOT / "tools" / "vm.sh"), "run", "/usr/bin/python3", __file__, "in-guest", what],
                                        cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        text=True)

    def cut(self):
        os.kill(int(self.pid_file.read_text()), signal.SIGKILL)
        rest = self.process.stdout.read().splitlines()
        self.process.wait()
        return rest


def note(ledger, line):
    """What a line of the guest says about its key. True: it is a PUT's acknowledgement."""
    if found := re.fullmatch(r"(acknowledged|is) (k\d+) (\d+|None)", line):
        ledger[found.group(2)] = [None if found.group(3) == "None" else int(found.group(3))]
    elif found := re.fullmatch(r"removed (k\d+)", line):
        ledger[found.group(1)] = [None]
    return line.startswith("acknowledged")


def cut_in_mid_load(folder, plan, chance):
    """Lets the guest work, and cuts its power. The plan then has for each key the versions that it may have."""
    (folder / "out" / "ledger.json").write_text(json.dumps(plan))
    wanted = BEFORE + chance.randrange(MORE // 2, MORE + 1)
    guest, lines, acknowledged = Guest(folder, "fill"), [], 0
    for line in guest.process.stdout:
        lines.append(line.rstrip("\n"))
        acknowledged += note(plan["keys"], lines[-1])
        if acknowledged == wanted:
            break
    if not plan["frozen"]:
        time.sleep(chance.uniform(0, 0.3))
    for line in guest.cut():
        lines.append(line)
        acknowledged += note(plan["keys"], line)
    assert acknowledged >= wanted and "from here on" in lines, "\n".join(lines[-30:])
    for line in lines:
        if line.startswith("from the log:"):
            print(line, flush=True)
    behind = acknowledged - BEFORE
    # The next one was not told, and may have been acknowledged.
    last = plan["next"] + acknowledged - 1
    plan["keys"].setdefault(f"k{(last + 1) % KEYS}", [None]).append(last + 1)
    plan["next"] = last + 2
    return f"{acknowledged} PUTs, the last {behind} " + ("onto a frozen disk" if plan["frozen"] else "while the log is moved")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.randrange(1000))
    parser.add_argument("--cuts", type=int, default=2)
    options = parser.parse_args()
    print("seed", options.seed, flush=True)
    chance = random.Random(options.seed)
    plan = {"keys": {}, "next": 0, "frozen": True}
    with tempfile.TemporaryDirectory(prefix="verbena-pmem-") as name:
        folder = pathlib.Path(name)
        (folder / "out").mkdir()
        for cut in range(1, options.cuts + 1):
            plan["frozen"] = cut % 2 == 1
            print(f"power cut {cut}:", cut_in_mid_load(folder, plan, chance), flush=True)
        (folder / "out" / "ledger.json").write_text(json.dumps(plan))
        guest = Guest(folder, "look")
        print(guest.process.stdout.read(), flush=True)
        status = guest.process.wait()
        if status == 0:
            print(f"{options.cuts} power cuts, {plan['next']} PUTs: every key is as it was acknowledged", flush=True)
        sys.exit(status)


if __name__ == "__main__":
    if sys.argv[1:2] == ["in-guest"]:
        {"fill": fill, "look": look}[sys.argv[2]]()
    else:
        main()
