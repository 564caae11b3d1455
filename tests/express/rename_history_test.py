#!/usr/bin/python3
"""Renames that race with puts, deletes and gets of the same keys are a linearizable history.

Keys come in pairs. Threads work on one pair at a time and note when each call began and ended and what it answered; a
put's bytes are its own. A history of a pair is then searched for an order that explains all answers (Wing and Gong's
search, with a memory of what was tried).

usage: rename_history_test.py [--renames N] [--seed N]
"""
import argparse
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from express_case import ZONE, Express  # noqa: E402
from verbena_server import Server  # noqa: E402

BUCKET = f"history--{ZONE}--x-s3"
THREADS = 4
CALLS = 7  # of a thread on one pair
ABSENT = None


class Call:
    def __init__(self, kind, key, value=None):
        self.kind, self.key, self.value = kind, key, value
        self.began = self.ended = 0
        self.answer = None

    def __repr__(self):
        return f"{self.kind} {self.key} {self.value} -> {self.answer} [{self.began:.6f} {self.ended:.6f}]"


def after(state, call):
    """The state after the call, or False where its answer does not fit. A state: what the two keys hold."""
    mine, other = state[call.key], state[1 - call.key]

    def with_mine(value):
        return (value, other) if call.key == 0 else (other, value)

    if call.kind == "put":
        return with_mine(call.value) if call.answer == 200 else False
    if call.kind == "delete":
        return with_mine(ABSENT) if call.answer == 204 else False
    if call.kind == "get":
        return state if call.answer == mine else False
    if call.kind == "keep":  # a rename that may overwrite nothing
        if mine is ABSENT:
            return state if call.answer == 404 else False
        if other is not ABSENT:
            return state if call.answer == 412 else False
    elif mine is ABSENT:
        return state if call.answer == 404 else False
    if call.answer != 200:
        return False
    return (ABSENT, mine) if call.key == 0 else (mine, ABSENT)


def linearizable(calls, start=(ABSENT, ABSENT)):
    calls = sorted(calls, key=lambda call: call.began)
    tried, stack, everything = set(), [(0, start)], (1 << len(calls)) - 1
    while stack:
        done, state = stack.pop()
        if done == everything:
            return True
        if (done, state) in tried:
            continue
        tried.add((done, state))
        # Next may be whoever began before the first of the others has ended.
        first_end = min(call.ended for i, call in enumerate(calls) if not done >> i & 1)
        for i, call in enumerate(calls):
            if done >> i & 1:
                continue
            if call.began > first_end:
                break
            then = after(state, call)
            if then is not False:
                stack.append((done | 1 << i, then))
    return False


def work(client, pair, choose, number, calls):
    for serial in range(CALLS):
        kind = choose.choices(("rename", "keep", "put", "delete", "get"), (9, 3, 4, 2, 2))[0]
        call = Call(kind, choose.randrange(2), f"{number}.{serial}" if kind == "put" else None)
        mine, other = (f"/{BUCKET}/{pair}-{key}" for key in (call.key, 1 - call.key))
        call.began = time.perf_counter()
        if kind == "put":
            call.answer = client.call("PUT", mine, call.value).status
        elif kind == "delete":
            call.answer = client.call("DELETE", mine).status
        elif kind == "get":
            answer = client.call("GET", mine)
            call.answer = answer.body.decode() if answer.status == 200 else ABSENT if answer.status == 404 else answer.status
        else:
            headers = {"x-amz-rename-source": f"{pair}-{call.key}"}
            if kind == "keep":
                headers["if-none-match"] = "*"
            call.answer = client.call("PUT", f"{other}?renameObject", headers=headers).status
        call.ended = time.perf_counter()
        calls.append(call)


def check_the_checker():
    """A history that is none must be found out."""
    def calls(*rows):
        made = []
        for kind, key, value, began, ended, answer in rows:
            call = Call(kind, key, value)
            call.began, call.ended, call.answer = began, ended, answer
            made.append(call)
        return made

    sound = [("put", 0, "a", 0, 1, 200), ("rename", 0, None, 2, 3, 200), ("get", 1, None, 4, 5, "a"), ("get", 0, None, 4, 5, ABSENT)]
    assert linearizable(calls(*sound))
    twice = sound[:3] + [("get", 0, None, 4, 5, "a")]
    assert not linearizable(calls(*twice)), "an object under both names"
    neither = sound[:2] + [("get", 0, None, 4, 5, ABSENT), ("get", 1, None, 6, 7, ABSENT)]
    assert not linearizable(calls(*neither)), "an object under no name"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--renames", type=int, default=10_000)
    arguments.add_argument("--seed", type=int, default=15)
    given = arguments.parse_args()
    check_the_checker()
    renames = calls_made = done = pairs = 0
    with Server() as server:
        root = Express(server.http)
        root.make_bucket(BUCKET)
        clients = [root.open_session(BUCKET) for _ in range(THREADS)]
        opened = time.monotonic()
        while renames < given.renames:
            if time.monotonic() - opened > 200:  # sessions have five minutes
                clients, opened = [root.open_session(BUCKET) for _ in range(THREADS)], time.monotonic()
            histories = [[] for _ in range(THREADS)]
            threads = [threading.Thread(target=work, args=(clients[i], pairs, random.Random(f"{given.seed}.{pairs}.{i}"), i, histories[i]))
                       for i in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            calls = [call for history in histories for call in history]
            assert len(calls) == THREADS * CALLS, f"pair {pairs}: a thread gave up\n{server.log()}"
            if not linearizable(calls):
                print(f"pair {pairs} has no order that explains:", *sorted(calls, key=lambda c: c.began), sep="\n")
                return 1
            calls_made += len(calls)
            renames += sum(call.kind in ("rename", "keep") for call in calls)
            done += sum(call.kind in ("rename", "keep") and call.answer == 200 for call in calls)
            pairs += 1
    print(f"{calls_made} calls on {pairs} pairs of keys, {renames} renames, {done} of them done: linearizable")
    return 0


if __name__ == "__main__":
    sys.exit(main())
