"""The servers of a history (history_test.py), and the actions on them."""
import collections
import json
import pathlib
import subprocess
import time

import verbena_server
from history_harm import Harm
from keeps_test import metric

SPLIT_ROWS, SPLIT_ROWS_LONG = 150, 600  # a run of millions of operations would have thousands of tablets
START_S = 240  # on a busy machine
TOTALS = {"verbena_rados_read_leases_total": "read leases that were taken", "verbena_rados_lease_recalls_total": "read leases that were recalled",
          "verbena_rados_splits_total": "tablets that were split", "verbena_rados_joins_total": "tablets that were joined"}


def place(ceph):
    """The arguments that name the object store's place."""
    settings = {"conf": ceph.conf, "pool": "data", "index_pool": "index"}
    return [word for key, value in settings.items() for word in ("--set", f"rados.{key}={value}")]


class Server(verbena_server.Server):
    def __init__(self, ceph, number, split_rows, first=None):
        super().__init__(clock_ahead_ms=verbena_server.CLOCKS_AHEAD_MS[number])
        self.args = ["--engine", "rados", *place(ceph), "--set", "rados.timeout=3", "--set", f"rados.split_rows={split_rows}",
                     "--set", "lifecycle_day=1"]
        if first:
            self.args += ["--set", f"encryption.key_file={first.directory}/master.keys"]
        self.generation = self.late_calls = self.late_at = 0
        self.harm = Harm(f"server {number}")
        self.totals = collections.Counter()  # from its earlier runs
        self.longest_start_s = 0

    def start(self):
        began = time.monotonic()
        while True:
            try:
                super().start()
                break
            except RuntimeError:  # the cluster may have faults, too
                if time.monotonic() > began + START_S:
                    raise
                time.sleep(2)
        self.longest_start_s = max(self.longest_start_s, time.monotonic() - began)
        self.generation += 1
        self.late_calls = 0
        return self

    def note_totals(self):
        for name in TOTALS:
            self.totals[name] += metric(self, name)

    def kill(self):
        if self.http is not None:
            self.note_totals()
        super().kill()

    def total(self, name):
        return self.totals[name] + (metric(self, name) if self.http else 0)

    def cluster_was_late(self, since, lasts=10):
        """True if calls to the cluster timed out recently, as on a busy machine. They may be the reason for failed
        requests."""
        seen, self.late_calls = self.late_calls, metric(self, "verbena_rados_late_calls_total")
        if self.late_calls > seen:
            self.late_at = time.monotonic()
        return self.late_at + lasts > since


def tablets_of(ceph):
    """The number of tablets: splits are part of the test."""
    said = subprocess.run([verbena_server.program(), "rados", "status", "--json", *place(ceph)], stdout=subprocess.PIPE, timeout=60, check=True)
    return json.loads(said.stdout)["tablets"]


def memory_of(pids):
    """The resident memory of the running processes, in MB."""
    total = 0
    for pid in pids:
        try:
            total += int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
        except OSError:  # it has just ended
            pass
    return total * 4096 // 1_000_000
