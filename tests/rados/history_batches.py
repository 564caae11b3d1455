"""Batches of a history (history_test.py): native clients that read, write and remove many keys in one message. Each
item is a call in its key's history, with the batch's begin and end."""
import time

from history import ABSENT, UNKNOWN, Call

NOT_SENT = "not sent"
READERS, WRITERS = 3, 2  # of each server: changes wait for servers and OSDs in trouble, most reads do not
# Items of a batch, each of another key: minimum and maximum. Halved after a batch without an answer, for a busy
# machine.
ITEMS_READ, ITEMS_CHANGED = (32, 1536), (8, 192)
FAST_S = 1            # seconds; after a faster batch they grow
# When two servers change one key at once, all changes in the same call are repeated. So each server has a share of the
# keys, a new one every few seconds, and leaves it only in these batches.
MEET, ITEMS_MEET = 0.15, (4, 24)
SHARE_LASTS_S = 3
READS_MAX, READS_MAX_LONG = 8, 24  # for each change: more reads would see the same
READS_AHEAD = 5_000
PLACE = 12_200        # space for the largest value of such a key
PLACES_OF_OTHERS = 400_000  # space for the keys shared with other threads, in batches of changes
DONE = {"put": 200, "delete": 204}


def batch_clients(run, bucket):
    return [BatchClient(run, server, number, bucket, number < READERS) for number in range(READERS + WRITERS) for server in run.servers]


class BatchClient:
    """One client thread of a server."""

    def __init__(self, run, server, number, bucket, reads):
        self.run, self.server, self.bucket, self.reads = run, server, bucket, reads
        self.by = f"{run.servers.index(server)}.batch"
        self.choose = run.random(f"batch.{number}.{self.by}")
        self.items_min, self.items_max = ITEMS_READ if reads else ITEMS_CHANGED
        self.items = self.items_max / 2
        self.memory = None

    def work(self):
        client, generation = None, 0
        whole = PLACE * self.items_max + PLACES_OF_OTHERS
        while not self.run.stop.is_set():
            if client is None or generation != self.server.generation:
                generation, client = self.server.generation, self.run.connect_or_none(self.server, "native")
                if client is None:
                    time.sleep(0.2)
                    continue
                self.memory = client.allocate(whole)
            self.run.wait_for_checks()
            if self.reads and self.are_reads_ahead():
                time.sleep(0.1)
                continue
            if not self.batch(client):
                client = None  # None: connect anew
                time.sleep(0.3)

    def are_reads_ahead(self):
        most = READS_MAX_LONG if self.run.is_long else READS_MAX
        return self.run.counts["reads in batches"] > most * self.run.counts["changes in batches"] + READS_AHEAD

    def batch(self, client):
        """Runs one batch. False if no item was answered."""
        kind = "get" if self.reads else self.choose.choice(("put", "delete"))
        things = self.run.many_things(self.choose, *self.choice())
        calls = [Call(kind, by=self.by) for _ in things]
        if kind == "put":
            for thing, call in zip(things, calls):
                call.value = self.run.new_value(thing, self.choose, self.by)
        began = time.monotonic()
        for call in calls:
            call.began = began
        try:
            answers = self.ask(client, kind, things, calls)
        except self.run.failures as error:
            answers = [self.run.answer_to(self.server, calls[0], error)] * len(calls)
        now = time.monotonic()
        for call, answer in zip(calls, answers):
            call.end(answer, now)
        self.run.done(zip(things, calls), "reads in batches" if self.reads else "changes in batches")
        answered = not all(answer in (UNKNOWN, NOT_SENT) for answer in answers)
        if not answered:
            self.items = max(self.items / 2, self.items_min)
        elif now - began < FAST_S:
            self.items = min(self.items * 1.25, self.items_max)
        return answered

    def choice(self):
        """The number of keys, how many of them are shared with other threads, and of which server's share."""
        count = round(self.items * self.choose.uniform(0.5, 1))
        if self.reads:  # values of shared keys do not fit the read buffer
            return count, 0, None
        if self.choose.random() < MEET:
            return self.choose.randint(*ITEMS_MEET), 2, None
        return count, 0, self.run.servers.index(self.server)

    def ask(self, client, kind, things, calls):
        """Sends the batch; returns the items' answers."""
        names = [(self.bucket, thing.name) for thing in things]
        if kind == "get":
            done = client.get_many([(*name, i * PLACE, PLACE) for i, name in enumerate(names)], self.memory)
            return [self.found(i, call, one) for i, (call, one) in enumerate(zip(calls, done))]
        if kind == "put":
            done = client.put_many(list(self.placed(names, calls)), self.memory)
            for thing, call, one in zip(things, calls, done):
                if one.error is None:
                    thing.etags[call.value] = one.etag
        else:
            done = client.remove_many(names)
        return [DONE[kind] if one.error is None else self.run.answer_to(self.server, call, one.error) for call, one in zip(calls, done)]

    def placed(self, names, calls):
        """Places the bodies one after the other."""
        memory, offset = memoryview(self.memory), 0
        for name, call in zip(names, calls):
            body = self.run.body_of(call.value)
            memory[offset:offset + len(body)] = body
            yield (*name, offset, len(body))
            offset += len(body)

    def found(self, i, call, one):
        if one.error is not None:
            answer = self.run.answer_to(self.server, call, one.error)
            return ABSENT if answer == 404 else answer
        return self.run.value_of(bytes(memoryview(self.memory)[i * PLACE:i * PLACE + one.bytes]))
