"""An upgrade during a history (history_test.py --then PROGRAM): the servers are replaced one by one by another
build's, and later back."""
import time


class Upgrade:
    """`program`: a path to that build's `verbena`, with `verbena-rados` beside it; None: no upgrade."""

    def __init__(self, run, program):
        self.run = run
        # The time of each step, as a fraction of the run, and its program (None: the program under test).
        self.steps = [(1 / 3, program), (2 / 3, None)] if program else []

    def is_due(self):
        return bool(self.steps) and self.run.progress() >= self.steps[0][0]

    def do(self, rest=2):
        """Ends some servers cleanly, kills others; both builds serve for `rest` seconds."""
        _, program = self.steps.pop(0)
        for i, server in enumerate(self.run.servers):
            with server.harm.of("replaced"):
                if i % 2:
                    server.kill()
                else:
                    server.note_totals()
                    self.end(server)
                server.program = program
                server.start()
            print(f"server {i} is now {program or 'the program under test'}", flush=True)
            self.run.stop.wait(rest)
        self.run.counts["upgrades of all servers"] += 1

    def end(self, server):
        try:
            status = server.stop()
        except RuntimeError:  # the stop failed and it was killed: the cluster has faults, too
            self.run.counts["servers that did not end in 30 s"] += 1
        else:
            if status != 0:
                self.run.fail(f"a server that was to end said {status}\n{server.log()}")

    def work(self):
        """For a run without faults; else the thread that injects faults calls it, so that the two never coincide."""
        while self.steps and not self.run.stop.is_set():
            if self.is_due():
                self.do()
            time.sleep(0.5)
