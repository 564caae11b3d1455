"""Faults of servers and OSDs during a history (history_test.py).

Servers and OSDs have faults at the same time, but one of each kind at a time, so that another server and another OSD
work.
"""
import contextlib
import math
import random
import signal
import threading
import time
import traceback

OSDS = 3


class Harm:
    """A record of the times of faults."""

    def __init__(self, whose):
        self.whose = whose
        self.times = []  # [from, to, what]; the last may have no end yet

    @contextlib.contextmanager
    def of(self, what):
        self.times.append([time.monotonic(), None, what])
        try:
            yield
        finally:
            self.times[-1][1] = time.monotonic()

    def told(self):
        return [f"[{began:.6f} {ended or math.inf:.6f}] {self.whose} {what}" for began, ended, what in self.times[-50:]]

    def was_harmed(self, since, lasts=2):
        return any(ended is None or ended + lasts > since for _, ended, _ in self.times[-3:])


class Nemesis:
    """Injects the faults. `run` has servers, the faults of OSDs, counts, and the end of the run."""

    def __init__(self, run, ceph):
        self.run, self.ceph = run, ceph
        self.osds_left = OSDS

    def threads(self):
        return [threading.Thread(target=self._repeat, args=(self._harm_a_server, (1, 3))),
                threading.Thread(target=self._repeat, args=(self._harm_an_osd, (6, 12)))]

    def _repeat(self, harm, rest):
        choose = random.Random(f"{self.run.arguments.seed}.{harm.__name__}")
        turn = 0
        while not self.run.stop.wait(choose.uniform(*rest)):
            turn += 1
            try:
                self.run.counts[harm(choose, turn)] += 1
            except Exception:  # noqa: BLE001
                self.run.fail(traceback.format_exc())

    def _harm_a_server(self, choose, _):
        if self.run.upgrade.is_due():
            self.run.upgrade.do()
        server = choose.choice(self.run.servers)
        if choose.random() < 0.4:
            with server.harm.of("killed"):
                server.kill()
                self.run.stop.wait(1)
                server.start()
            return "servers killed"
        # Shorter than a read lease, longer than one, longer than the leader lease.
        seconds = choose.choice((0.5, 3, 3, 11, 18))
        with server.harm.of(f"frozen for {seconds} s"):
            server.process.send_signal(signal.SIGSTOP)
            self.run.stop.wait(seconds)
            server.process.send_signal(signal.SIGCONT)
        return "servers frozen"

    def _harm_an_osd(self, choose, turn):
        if turn == 2:
            with self.run.osds.of(f"{self.osds_left - 1} killed"):
                self.ceph.signal_osd(self.osds_left - 1, signal.SIGKILL)
            self.osds_left -= 1
            return "osds killed"
        number = choose.randrange(self.osds_left)
        seconds = choose.choice((1, 3, 8))
        with self.run.osds.of(f"{number} frozen for {seconds} s"):
            self.ceph.signal_osd(number, signal.SIGSTOP)
            self.run.stop.wait(seconds)
            self.ceph.signal_osd(number, signal.SIGCONT)
        return "osds frozen"
