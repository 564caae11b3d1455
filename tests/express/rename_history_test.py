#!/usr/bin/python3
"""Renames that race with puts, deletes and gets of the same keys are a linearizable history.

Keys come in pairs. Threads work on one pair at a time and record each call's begin, end and answer; each put has unique
bytes. The history of a pair is then searched for an order that explains all answers (tests/lib/history.py).

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
import history  # noqa: E402
from history import ABSENT, Call  # noqa: E402
from verbena_server import Server  # noqa: E402

BUCKET = f"history--{ZONE}--x-s3"
THREADS = 4
CALLS = 7  # of a thread on one pair


def work(client, pair, choose, number, calls):
    for serial in range(CALLS):
        kind = choose.choices(("rename", "keep", "put", "delete", "get"), (9, 3, 4, 2, 2))[0]
        call = Call(kind, f"{number}.{serial}" if kind == "put" else None, choose.randrange(2))
        mine, other = (f"/{BUCKET}/{pair}-{key}" for key in (call.where, 1 - call.where))
        call.begin()
        if kind == "put":
            call.end(client.call("PUT", mine, call.value).status)
        elif kind == "delete":
            call.end(client.call("DELETE", mine).status)
        elif kind == "get":
            answer = client.call("GET", mine)
            call.end(answer.body.decode() if answer.status == 200 else ABSENT if answer.status == 404 else answer.status)
        else:
            headers = {"x-amz-rename-source": f"{pair}-{call.where}"}
            if kind == "keep":
                headers["if-none-match"] = "*"
            call.end(client.call("PUT", f"{other}?renameObject", headers=headers).status)
        calls.append(call)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--renames", type=int, default=10_000)
    arguments.add_argument("--seed", type=int, default=15)
    given = arguments.parse_args()
    history.check_the_checker()
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
            if not history.linearizable(calls, (ABSENT, ABSENT), history.pair):
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
