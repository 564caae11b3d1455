#!/usr/bin/env python3
"""Persistent memory with power cuts: a server on ext4 -o dax on an NVDIMM of a virtual machine, a second one on the
device-dax node of another NVDIMM, and QEMU killed while objects are acknowledged. The NVDIMMs and the disk are files of
the host, so that they keep what a power cut keeps: the guest's page cache is gone, and so is everything in the servers.
(QEMU has no caches of a processor: lines that were not written back are src/store/local/pmem_log_test.cc's subject.)

Several cuts follow each other on these two stores, in turns of two kinds: with the disk's file system frozen, so that
nothing but persistent memory can have what was acknowledged last; and in the middle of the move from the log to the
index, while PUTs go on. Each boot compares every key before it goes on. PUTs go to the two servers by turns.

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
import stat
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
PMEM, DISK, LEDGER = "/run/pmem", "/run/disk", "/out/ledger.json"
NODE = os.environ.get("DAX_NODE")  # in the guest
BEFORE, MORE = 40, 60  # PUTs before the removals; behind them, with the disk frozen or in the middle of the move
KEYS = 35


def name_of(number):
    """Of the store in the folder (k) or on the node (n)."""
    return f"{'kn'[number % 2]}{number % KEYS}"


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


def both():
    """The store in the folder and the one on the node, by the first letter of their keys."""
    return {"k": server_on(DISK + "/data", f"data.pmem={PMEM}"), "n": server_on(DISK + "/node", f"data.pmem={NODE}")}


def verbena(*words):
    """A command of the program: its exit status and what it says."""
    import verbena_server
    run = subprocess.run([verbena_server.program(), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         check=False)
    return run.returncode, run.stdout


def call(server, method, path, body=None):
    import kept_calls
    if server not in connections:
        connections[server] = kept_calls.Calls(server.http)
    status, _, answer = connections[server].call(method, path, "", body)
    return status, answer


def check(servers, ledger):
    """Every key has one of the versions that it may have. Tells which."""
    for name, versions in ledger.items():
        status, body = call(servers[name[0]], "GET", f"/bucket/{name}")
        for version in versions:
            if (status == 404) if version is None else (status == 200 and body == content(name, version)):
                print("is", name, version, flush=True)
                break
        else:
            raise AssertionError(f"{name}: {status}, {len(body)} bytes {body[:40]}, and not one of the versions {versions}")
    for letter, server in servers.items():
        found = re.search(r"(\d+) objects come from the log on persistent memory", server.log())
        print("from the log of the", {"k": "folder:", "n": "node:"}[letter], found.group(1) if found else 0, flush=True)


def format_node():
    """A node that has a store's log already is not formatted again without being told to."""
    status, said = verbena("device", "format", NODE)
    assert status == 0 and "256 MiB" in said, said
    status, said = verbena("device", "format", NODE)
    assert status == 1 and "has the log of a store" in said, said


def fill():
    """After a cut a look at every key; then PUTs, overwrites and removals, each of which is told when it is
    acknowledged. Ends by being killed."""
    plan = json.loads(pathlib.Path(LEDGER).read_text())
    if not plan["keys"]:
        format_node()
    servers = both()
    for server in servers.values():
        server.start()
    if plan["keys"]:
        check(servers, plan["keys"])
    else:
        for server in servers.values():
            status, body = call(server, "PUT", "/bucket")
            assert status == 200, (status, body, server.log()[-2000:])

    def put(number):
        name, version = name_of(number), number
        assert call(servers[name[0]], "PUT", f"/bucket/{name}", content(name, version))[0] == 200, name
        print("acknowledged", name, version, flush=True)

    first = plan["next"]
    for number in range(first, first + BEFORE):
        put(number)
    for name in ("k0", "n7"):
        assert call(servers[name[0]], "DELETE", f"/bucket/{name}")[0] == 204
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


def other_name():
    """Of the node: another inode, as a container has it."""
    made = "/run/other-node"
    os.mknod(made, stat.S_IFCHR | 0o600, os.stat(NODE).st_rdev)
    return made


def look():
    """After the cut: everything acknowledged is there, and a second server and a folder without DAX are refused."""
    servers = both()
    for server in servers.values():
        server.start()
    check(servers, json.loads(pathlib.Path(LEDGER).read_text())["keys"])
    doctor = verbena("doctor")[1]
    assert re.search(r"pmem0.*DAX", doctor), doctor
    assert re.search(os.path.basename(NODE) + r".*persistent", doctor), doctor
    for place in (PMEM, other_name()):
        said = refusal(server_on(DISK + "/other", f"data.pmem={place}"))
        assert "is in use by another server" in said, said
    for server in servers.values():
        assert server.stop() == 0
    said = refusal(server_on(DISK + "/other", "data.pmem=/run"))
    assert "/run is not on a DAX file system" in said, said
    # After an orderly stop the log is not needed, and another store may have the memory.
    plain = server_on(DISK + "/data").start()
    assert call(plain, "GET", "/bucket")[0] == 200
    assert plain.stop() == 0
    for place in (PMEM, NODE):
        other = server_on(DISK + "/other", f"data.pmem={place}").start()
        assert other.stop() == 0
    print("refusals are right", flush=True)


# On the host.

class Guest:
    def __init__(self, folder, what):
        environment = dict(os.environ, VM_PMEM=str(folder / "pmem"), VM_DAX=str(folder / "dax"),
                           VM_DISK=str(folder / "disk"), VM_OUT=str(folder / "out"))
        self.pid_file = folder / "out" / "qemu.pid"
        # On a host with much other work a server took more than the usual minute to start.
        start_s = "TEST_SERVER_START_S=" + os.environ.get("TEST_SERVER_START_S", "240")
        self.process = subprocess.Popen([str(ROOT / "tools" / "vm.sh"), "run", "env", start_s, "/usr/bin/python3", __file__,
                                         "in-guest", what], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, text=True)

    def cut(self):
        os.kill(int(self.pid_file.read_text()), signal.SIGKILL)
        rest = self.process.stdout.read().splitlines()
        self.process.wait()
        return rest


def note(ledger, line):
    """What a line of the guest says about its key. True: it is a PUT's acknowledgement."""
    if found := re.fullmatch(r"(acknowledged|is) ([kn]\d+) (\d+|None)", line):
        ledger[found.group(2)] = [None if found.group(3) == "None" else int(found.group(3))]
    elif found := re.fullmatch(r"removed ([kn]\d+)", line):
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
    assert acknowledged == wanted, "the guest ended by itself:\n" + "\n".join(lines[-60:])
    if not plan["frozen"]:
        time.sleep(chance.uniform(0, 0.3))
    for line in guest.cut():
        lines.append(line)
        acknowledged += note(plan["keys"], line)
    assert acknowledged >= wanted and "from here on" in lines, "\n".join(lines[-30:])
    for line in lines:
        if line.startswith("from the log of"):
            print(line, flush=True)
    behind = acknowledged - BEFORE
    # The next one was not told, and may have been acknowledged.
    last = plan["next"] + acknowledged - 1
    plan["keys"].setdefault(name_of(last + 1), [None]).append(last + 1)
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
