#!/usr/bin/env python3
"""The server's memory for an idle session over verbs, on a real device: the slope from a few to some dozens, of one
client. All of it is released when the client is gone. Runs inside the virtual machine: tools/vm.sh run
tests/vm/sessions_test.py"""
import json
import os
import re
import pathlib
import subprocess

import guest
from guest import AS_CLIENT, KIB, KEYS, NATIVE, Server, until, verbena
import verbena_server

FEW, MANY = 4, 20
MEMORY_MAX = 64 * KIB


def rss(process):
    """From the page tables: the kernel's counter of a process is stale by some dozens of pages a thread."""
    pages = pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="utf-8")
    return int(re.search(r"^Rss:\s+(\d+)", pages, re.M).group(1)) * KIB


def mapped(process):
    """Total mappings of the device: the queues that it shares with the process."""
    total = 0
    for line in pathlib.Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8").splitlines():
        if "/dev/infiniband/" in line or "[infinibandevent]" in line:
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            total += end - begin
    return total


class Holder:
    """scale_load, as a client on the other device."""

    def __init__(self):
        env = dict(os.environ, VERBENA_ROOT_ACCESS_KEY=verbena_server.ACCESS_KEY,
                   VERBENA_ROOT_SECRET_KEY=verbena_server.SECRET_KEY)
        self.process = subprocess.Popen(
            [*AS_CLIENT, os.environ["SCALE_LOAD"], "sessions", NATIVE, "--provider", "verbs", "--bucket", "faults", "--key",
             "hot"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def hold(self, count):
        told = self.ask("hold", count)
        assert told == {"sessions": count}, told

    def kill(self):
        self.process.kill()
        self.process.wait()


def idle_sessions_take_little():
    server = Server("cores=1", "rdma.session_idle_timeout=600").start()
    try:
        verbena("mb", "s3://faults", "--durability", "memory")
        body = pathlib.Path("/tmp/hot")
        body.write_bytes(b"hot!" * 64)
        verbena("put", str(body), "s3://faults/hot", "--via", "http")
        client = Holder()
        client.hold(FEW)
        few, queues = rss(server.process), mapped(server.process)
        client.hold(MANY)
        each = (rss(server.process) - few) / (MANY - FEW)
        queues = (mapped(server.process) - queues) / (MANY - FEW)
        in_1_gib = (1 << 30) // each if each > 0 else 0
        print(f"{FEW} to {MANY} sessions: {each / KIB:.1f} KiB each at the server, {queues / KIB:.1f} KiB of queues mapped; {in_1_gib:.0f} in 1 GiB; "
              f"{rss(client.process) / MANY / KIB / KIB:.1f} MiB each at the client", flush=True)
        assert 0 < each <= MEMORY_MAX, each
        assert client.ask("get", MANY, MANY)["requests"] == MANY, "each answers while all are open"
        most, queues = rss(server.process), mapped(server.process)
        client.hold(FEW)
        until(lambda: server.metric("verbena_native_sessions") == FEW, 30, "the closed sessions to go")
        until(lambda: mapped(server.process) <= queues - (MANY - FEW) * 16 * KIB, 30, "and their queues")
        client.hold(MANY)
        print(f"again: {(rss(server.process) - most) / KIB:.0f} KiB more in all", flush=True)
        assert mapped(server.process) <= queues, "what was taken serves those that come next"
        client.kill()
    finally:
        server.stop()


if __name__ == "__main__":
    guest.prepare()
    guest.run([idle_sessions_take_little])
