#!/usr/bin/python3
"""A soak: three servers at full load over a small Ceph for hours, whose OSDs are killed, frozen, slow, out, full, scrubbed
and backfilled, one at a time. The history checker judges every answer (history_test.py).

Four OSDs on files (bluestore), the index in three copies (two must be there), the bytes erasure-coded (2+1), placement
groups that remember their last ten calls, scrubs all the time, servers' clocks 50 ms and 2 s apart. One server's
tablets may have eight times as many rows as the others', so that it joins what they split. Servers are killed and
frozen as in history_test.py; with --older they begin as that build and are replaced one by one after a tenth of the run.
After each disturbance of an OSD the next one waits until every placement group is active and clean.

usage: soak.py PYTHON_FOLDER --hours H [--seed N] [--older PROGRAM] [--logs FOLDER]
"""
import argparse
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time

import history_test  # before what it makes known to be found
import history_servers
import verbena_server
from ceph_cluster import CephCluster, skip_without_ceph
from history_harm import Nemesis
from history_servers import tablets_of
from history_upgrade import Upgrade

OSDS = 4
CONF = (*history_test.CEPH, "osd scrub min interval = 20", "osd scrub max interval = 60", "osd deep scrub interval = 60",
        "osd scrub load threshold = 1000", "osd scrub sleep = 0.01", "osd max backfills = 4", "mon osd down out interval = 10000",
        "osd recovery sleep hdd = 0", "bluestore cache size = 67108864")
CLEAN_MAX_S = 600
FULL_S = 15
# A server that starts waits for a minute, twice, while the cluster is slow: one that is killed sooner begins anew.
START_ONCE_S, START_S = 180, 600


class OsdHarm(Nemesis):
    """Everything that befalls OSDs. All data survives any one of them at any time."""

    def _harm_an_osd(self, choose, turn):
        kind = ("frozen", "killed", "slow", "out", "full")[turn % 5] if turn < 10 else choose.choice(("frozen", "killed", "killed", "slow", "out", "full"))
        number = choose.randrange(OSDS)
        with self.run.osds.of(f"{number} {kind}"):
            getattr(self, f"_{kind}")(choose, number)
            self._wait_until_clean()
        return f"osds {kind}"

    def _frozen(self, choose, number):
        self.ceph.signal_osd(number, signal.SIGSTOP)
        self.run.stop.wait(choose.choice((1, 3, 8, 20)))
        self.ceph.signal_osd(number, signal.SIGCONT)

    def _killed(self, choose, number):
        self.ceph.signal_osd(number, signal.SIGKILL)
        self.run.stop.wait(choose.choice((1, 5, 15)))
        self.ceph.start_osd(number)
        self.ceph.wait_for_osds(OSDS, seconds=120)

    def _slow(self, choose, number):
        """Each third message waits."""
        for probability in (0.3, 0):
            self.ceph.ceph("tell", f"osd.{number}", "injectargs", f"--osd_debug_inject_dispatch_delay_probability={probability}",
                           "--osd_debug_inject_dispatch_delay_duration=0.2", timeout=120)
            if probability:
                self.run.stop.wait(choose.choice((5, 15)))

    def _out(self, choose, number):
        """Its placement groups are backfilled to the others, and back."""
        self.ceph.ceph("osd", "out", str(number), timeout=120)
        self.run.stop.wait(choose.choice((5, 20)))
        self._wait_until_clean()
        self.ceph.ceph("osd", "in", str(number), timeout=120)

    def _full(self, _, __):
        """Ceph takes no writes but removals."""
        ratios = ("nearfull", "backfillfull", "full")
        for ratio in ratios:
            self.ceph.ceph("osd", f"set-{ratio}-ratio", "0.000001", timeout=120)
        self.run.stop.wait(FULL_S)
        for ratio, value in zip(reversed(ratios), ("0.95", "0.9", "0.85")):
            self.ceph.ceph("osd", f"set-{ratio}-ratio", value, timeout=120)

    def _groups(self):
        pools = json.loads(self.ceph.ceph("osd", "dump", "-f", "json", timeout=120))["pools"]
        return [f"{pool['pool']}.{group:x}" for pool in pools for group in range(pool["pg_num"])]

    def _wait_until_clean(self):
        began = time.monotonic()
        for group in self._groups():
            while True:
                if self.run.stop.is_set():
                    return
                try:
                    state = json.loads(self.ceph.ceph("tell", group, "query", timeout=30))["state"]
                except (RuntimeError, subprocess.TimeoutExpired, ValueError):
                    state = "unknown"
                if "clean" in state:
                    break
                if time.monotonic() > began + CLEAN_MAX_S:
                    raise TimeoutError(f"placement group {group} is {state} after {CLEAN_MAX_S} s")
                time.sleep(1)
        self.run.counts["seconds until all was clean"] += round(time.monotonic() - began)


class Soak(history_test.Run):
    nemesis = OsdHarm
    split_rows = (150, 150, 1200)

    def split_rows_of(self, number):
        return self.split_rows[number]

    def __init__(self, arguments, verbena, pool):
        super().__init__(arguments, verbena, pool)
        self.is_long = True
        verbena_server.START_TIMEOUT_S, history_servers.START_S = START_ONCE_S, START_S
        self.upgrade = Upgrade(self, None)
        if arguments.older:
            self.upgrade.steps = [(0.1, None)]
            self.first_program = arguments.older


def pools(ceph):
    ceph.ceph("osd", "pool", "create", "index", "8", "8", "replicated")
    ceph.ceph("osd", "pool", "set", "index", "min_size", "2")
    ceph.ceph("osd", "erasure-code-profile", "set", "two-and-one", "k=2", "m=1", "crush-failure-domain=osd")
    ceph.ceph("osd", "pool", "create", "data", "8", "8", "erasure", "two-and-one")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("python_folder")
    parser.add_argument("--hours", type=float, required=True)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--older", metavar="PROGRAM", type=os.path.abspath)
    parser.add_argument("--logs", metavar="FOLDER")
    arguments = parser.parse_args()
    arguments.seconds, arguments.operations, arguments.calm, arguments.then = arguments.hours * 3600, 1, False, None
    print(f"seed {arguments.seed}, {arguments.hours} h", flush=True)
    sys.path.insert(0, arguments.python_folder)
    with multiprocessing.Pool(1) as pool:  # before any thread is started
        import verbena
        run = Soak(arguments, verbena, pool)
        with CephCluster(osds=OSDS, size=3, store="bluestore", more=CONF) as ceph:
            pools(ceph)
            tablets = 0
            try:
                run.go(ceph)
                tablets = 0 if run.wrong else tablets_of(ceph)
            finally:
                run.stop.set()
                if run.wrong and arguments.logs:
                    run.keep_logs(ceph)
                for server in run.servers:
                    server.__exit__(ValueError, None, None)
    run.report()
    print(f"{tablets:8d}  tablets at the end")
    print(f"{max(server.longest_start_s for server in run.servers):8.0f}  seconds of the longest start of a server")
    if run.wrong:
        print("WRONG:", *run.wrong[:5], sep="\n\n")
        print("\nWhat was done last:", *run.osds.told(), *(line for server in run.servers for line in server.harm.told()), sep="\n")
        return 1
    return 0


if __name__ == "__main__":
    skip_without_ceph()
    sys.exit(main())
