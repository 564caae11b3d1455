"""What is done to servers and OSDs while a history is made (history_test.py).

Servers have their troubles and OSDs have theirs, at the same time; of each kind one at a time, so that another server and another OSD work.
"""
import random
import signal
import threading
import time
import traceback

OSDS = 3


class Harm:
    """When something was done to somebody."""

    def __init__(self):
        self.times = []  # [from, to], of which the last may have no end yet

    def __enter__(self):
        self.times.append([time.monotonic(), None])

    def __exit__(self, *_):
        self.times[-1][1] = time.monotonic()

    def was_harmed(self, since, lasts=2):
        return any(ended is None or ended + lasts > since for _, ended in self.times)


class Nemesis:
    """`run` has servers, the harm to OSDs, counts, and says when to stop."""

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
        server = choose.choice(self.run.servers)
        if choose.random() < 0.4:
            with server.harm:
                server.kill()
                self.run.stop.wait(1)
                server.start()
            return "servers killed"
        # Shorter than a lease, longer than one, longer than the duty is waited for.
        seconds = choose.choice((0.5, 3, 3, 11, 18))
        with server.harm:
            server.process.send_signal(signal.SIGSTOP)
            self.run.stop.wait(seconds)
            server.process.send_signal(signal.SIGCONT)
        return "servers frozen"

    def _harm_an_osd(self, choose, turn):
        if turn == 2:
            with self.run.osds:
                self.ceph.signal_osd(self.osds_left - 1, signal.SIGKILL)
            self.osds_left -= 1
            return "osds killed"
        number = choose.randrange(self.osds_left)
        with self.run.osds:
            self.ceph.signal_osd(number, signal.SIGSTOP)
            self.run.stop.wait(choose.choice((1, 3, 8)))
            self.ceph.signal_osd(number, signal.SIGCONT)
        return "osds frozen"
