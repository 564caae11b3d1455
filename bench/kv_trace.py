#!/usr/bin/env python3
"""Makes bench/kv_cache.trace: the requests of a language model server to a cache of attention keys and values.

    bench/kv_trace.py > bench/kv_cache.trace

A prompt is a chain of blocks; prompts begin with one of a few shared prefixes and then differ. A lookup requests all
cached blocks of the chain at once; missing ones are computed and put. 7 in 10 lines are lookups. A block has 64 KiB
to 2 MiB, depending on its model. The cache holds 96 MiB; the least recently used chains are removed. bench/README.md
describes the lines, under `verbena bench --ops trace,trace_many`."""

import collections
import random

KIB = 1024
CAPACITY = 96 * KIB * KIB
SIZES = [64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, 1024 * KIB, 2048 * KIB]
WEIGHTS = [30, 25, 20, 15, 7, 3]
LINES = 400


class Cache:
    def __init__(self):
        self.blocks = collections.OrderedDict()  # name -> size, least recently used first
        self.used = 0

    def line(self, verb, names, sizes):
        print(verb, " ".join(f"{name} {size}" for name, size in zip(names, sizes)))

    def look_up(self, chain):
        """Looks up the leading blocks; returns the missing ones."""
        here = 0
        while here < len(chain) and chain[here][0] in self.blocks:
            self.blocks.move_to_end(chain[here][0])
            here += 1
        if here:
            self.line("get", *zip(*chain[:here]))
        return chain[here:], here != 0

    def insert(self, blocks):
        gone = []
        wanted = sum(size for _, size in blocks)
        while self.used + wanted > CAPACITY:
            name, size = self.blocks.popitem(last=False)
            self.used -= size
            gone.append((name, size))
        if gone:
            self.line("del", *zip(*gone))
        self.line("put", *zip(*blocks))
        for name, size in blocks:
            self.used += size - self.blocks.pop(name, 0)
            self.blocks[name] = size
        return 1 + bool(gone)


def main():
    chance = random.Random(20261122)
    prefixes = [(f"p{i}", chance.choices(SIZES, WEIGHTS)[0], chance.randint(4, 24)) for i in range(12)]
    sessions = []
    cache = Cache()
    lines = lookups = 0
    while lines < LINES:
        if len(sessions) < 8 or lookups * 10 > lines * 7:
            sessions.append([chance.choice(prefixes), f"s{len(sessions)}", 0])
        session = chance.choice(sessions[-12:])
        if lookups * 10 > lines * 7:
            session[2] += chance.randint(1, 6)  # the dialogue goes on
        (name, size, shared), own, length = session
        chain = [(f"kv/{name}/{i:03}", size) for i in range(shared)] + [
            (f"kv/{name}/{own}/{i:03}", size) for i in range(length)]
        missing, found = cache.look_up(chain)
        lines += found
        lookups += found
        if missing:
            lines += cache.insert(missing)


if __name__ == "__main__":
    main()
