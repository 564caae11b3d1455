"""Batches of a history (history_test.py): native clients that read, write and remove many keys in one message. Each item is a call of its key's history,
and began and ended with its batch."""
import time

from history import ABSENT, UNKNOWN, Call

NOT_SENT = "not sent"
ITEMS = (96, 256)     # of a batch, of as many keys
KINDS, WEIGHTS = ("get", "put", "delete"), (9, 4, 1)
PLACE = 12_200        # for the largest value of such a key
DONE = {"put": 200, "delete": 204}


class BatchClient:
    """One thread of one server's clients."""

    def __init__(self, run, server, number, bucket):
        self.run, self.server, self.bucket = run, server, bucket
        self.by = f"{run.servers.index(server)}.batch"
        self.choose = run.random(f"batch.{number}")
        self.memory = None

    def work(self):
        client, generation = None, 0
        whole = PLACE * ITEMS[1]
        while not self.run.stop.is_set():
            if client is None or generation != self.server.generation:
                generation, client = self.server.generation, self.run.connect_or_none(self.server, "native")
                if client is None:
                    time.sleep(0.2)
                    continue
                self.memory = client.allocate(whole)
            if not self.batch(client):
                client = None  # the connection is to be made anew
                time.sleep(0.3)

    def batch(self, client):
        """False where nothing of it was answered."""
        kind = self.choose.choices(KINDS, WEIGHTS)[0]
        # Others' keys have larger values, for which there is no place.
        things = self.run.many_things(self.choose, self.choose.randint(*ITEMS), others=0 if kind == "get" else 2)
        calls = [Call(kind, by=self.by) for _ in things]
        if kind == "put":
            for thing, call in zip(things, calls):
                call.value = self.run.new_value(thing, self.choose, self.by)
        now = time.monotonic()
        for call in calls:
            call.began = now
        try:
            answers = self.ask(client, kind, things, calls)
        except self.run.failures as error:
            answers = [self.run.answer_to(self.server, calls[0], error)] * len(calls)
        now = time.monotonic()
        for call, answer in zip(calls, answers):
            call.end(answer, now)
        self.run.done(zip(things, calls))
        return not all(answer in (UNKNOWN, NOT_SENT) for answer in answers)

    def ask(self, client, kind, things, calls):
        """What the items were answered."""
        names = [(self.bucket, thing.name) for thing in things]
        if kind == "get":
            done = client.get_many([(*name, i * PLACE, PLACE) for i, name in enumerate(names)], self.memory)
            return [self.found(i, call, one) for i, (call, one) in enumerate(zip(calls, done))]
        if kind == "put":
            done = list(client.put_many([(*name, self.run.body_of(call.value)) for name, call in zip(names, calls)]))
            for thing, call, one in zip(things, calls, done):
                if one.error is None:
                    thing.etags[call.value] = one.etag
        else:
            done = client.remove_many(names)
        return [DONE[kind] if one.error is None else self.run.answer_to(self.server, call, one.error) for call, one in zip(calls, done)]

    def found(self, i, call, one):
        if one.error is not None:
            answer = self.run.answer_to(self.server, call, one.error)
            return ABSENT if answer == 404 else answer
        return self.run.value_of(bytes(memoryview(self.memory)[i * PLACE:i * PLACE + one.bytes]))
