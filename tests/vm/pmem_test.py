#!/usr/bin/env python3
"""Persistent memory with power cuts: the server on ext4 -o dax on an NVDIMM of a virtual machine, and QEMU killed while
objects are acknowledged. The NVDIMM and the disk are files of the host, so that they keep what a power cut keeps: the
guest's page cache is gone, and so is everything in the server. (QEMU has no caches of a processor: lines that were not
written back are src/store/local/pmem_log_test.cc's subject.)

Runs on the host: tests/vm/pmem_test.py [SEED]. It boots the guest twice, and is run there itself (`in-guest`).
"""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
PMEM, DISK, LEDGER = "/run/pmem", "/run/disk", "/out/ledger.json"
BEFORE, FROZEN = 40, 60  # PUTs while the disk can be written, and while it cannot


def content(name, version):
    size = random.Random(f"{name} {version}").choice([0, 1, 100, 4096, 16384, 16385, 65536])
    return (f"{name} {version} " * (size // 8 + 1))[:size].encode()


# In the guest.

def server_on(folder, *settings):
    import verbena_server
    pathlib.Path(folder).mkdir(exist_ok=True)
    server = verbena_server.Server(folder, args=["--set", "arena_size=128MiB", "--set", "cores=2"] +
                                   [word for setting in settings for word in ("--set", setting)])
    server.log_path = f"/run/{os.path.basename(folder)}.log"  # not on the disk, which is frozen meanwhile
    return server


def call(server, method, path, body=b""):
    import signed_call
    status, text = signed_call.call(server, method, path, body)
    return status, text.encode()


def fill():
    """PUTs, overwrites and removals; each is told when it is acknowledged. The last PUTs are made while the disk's file
    system is frozen, so nothing but persistent memory can have them. Ends by being killed."""
    server = server_on(DISK + "/data", f"data.pmem={PMEM}").start()
    status, body = call(server, "PUT", "/bucket")
    assert status == 200, (status, body, server.log()[-2000:])

    def put(number):
        name, version = f"k{number % 35}", number
        assert call(server, "PUT", f"/bucket/{name}", content(name, version))[0] == 200, name
        print("acknowledged", name, version, flush=True)

    for number in range(BEFORE):
        put(number)
    for name in ("k0", "k7"):
        assert call(server, "DELETE", f"/bucket/{name}")[0] == 204
        print("removed", name, flush=True)
    subprocess.run(["fsfreeze", "-f", DISK], check=True)
    print("frozen", flush=True)
    for number in range(BEFORE, BEFORE + FROZEN):
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
    ledger = json.loads(pathlib.Path(LEDGER).read_text())
    server = server_on(DISK + "/data", f"data.pmem={PMEM}").start()
    found = re.search(r"(\d+) objects come from the log on persistent memory", server.log())
    assert found, server.log()
    print(found.group(0), flush=True)
    for name, versions in ledger.items():
        status, body = call(server, "GET", f"/bucket/{name}")
        possible = [(404, None) if version is None else (200, content(name, version)) for version in versions]
        assert any(status == code and (bytes_ is None or body == bytes_) for code, bytes_ in possible), \
            f"{name}: {status}, {len(body)} bytes {body[:40]}, and not one of the versions {versions}"
    print(len(ledger), "keys are as they were acknowledged", flush=True)
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


def cut_in_mid_load(folder, seed):
    """What the guest has acknowledged by the power cut: for each key the versions that it may have."""
    wanted = BEFORE + random.Random(seed).randrange(FROZEN // 2, FROZEN + 1)
    guest, lines, acknowledged = Guest(folder, "fill"), [], 0
    for line in guest.process.stdout:
        lines.append(line.rstrip("\n"))
        acknowledged += line.startswith("acknowledged")
        if acknowledged == wanted:
            break
    lines += guest.cut()
    assert acknowledged == wanted and "frozen" in lines, "\n".join(lines[-30:])
    print(f"the power is cut after {wanted} PUTs, {wanted - BEFORE} of them onto a frozen disk", flush=True)
    ledger, last = {}, 0
    for line in lines:
        if found := re.fullmatch(r"acknowledged (k\d+) (\d+)", line):
            last = int(found.group(2))
            ledger[found.group(1)] = [last]
        elif found := re.fullmatch(r"removed (k\d+)", line):
            ledger[found.group(1)] = [None]
    # The next one was not told, and may have been acknowledged.
    ledger.setdefault(f"k{(last + 1) % 35}", [None]).append(last + 1)
    return ledger


def main():
    seed = sys.argv[1] if len(sys.argv) > 1 else str(random.randrange(1000))
    print("seed", seed, flush=True)
    with tempfile.TemporaryDirectory(prefix="verbena-pmem-") as name:
        folder = pathlib.Path(name)
        (folder / "out").mkdir()
        ledger = cut_in_mid_load(folder, seed)
        (folder / "out" / "ledger.json").write_text(json.dumps(ledger))
        guest = Guest(folder, "look")
        print(guest.process.stdout.read(), flush=True)
        sys.exit(guest.process.wait())


if __name__ == "__main__":
    if sys.argv[1:2] == ["in-guest"]:
        {"fill": fill, "look": look}[sys.argv[2]]()
    else:
        main()
