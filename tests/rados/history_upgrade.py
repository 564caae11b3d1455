"""An upgrade while a history is made (history_test.py --then PROGRAM): the servers become another build's one by one, and later this one's again."""
import time


class Upgrade:
    """`program`: a path to that build's `verbena`, beside which `verbena-rados` lies; None: there is no upgrade."""

    def __init__(self, run, program):
        self.run = run
        # When, as a part of the run, and to what (None: the program under test).
        self.steps = [(1 / 3, program), (2 / 3, None)] if program else []

    def is_due(self):
        return bool(self.steps) and self.run.progress() >= self.steps[0][0]

    def do(self, rest=2):
        """Some servers end cleanly, others are killed; `rest` seconds both builds serve."""
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
        except RuntimeError:  # it was killed, then: the cluster is harmed, too
            self.run.counts["servers that did not end in 30 s"] += 1
        else:
            if status != 0:
                self.run.fail(f"a server that was to end said {status}\n{server.log()}")

    def work(self):
        """For a run in which nobody is harmed; else the one who harms servers looks, so that he does not meet it."""
        while self.steps and not self.run.stop.is_set():
            if self.is_due():
                self.do()
            time.sleep(0.5)
