#!/usr/bin/env python3
"""Thousands of native sessions of several client processes: the server's cost for each; idle sessions need no CPU;
limits refuse with their own errors; and all resources are freed, however the clients end. Judged by counts: bytes,
descriptors, wake-ups; times are not checked."""
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[1]
for folder in (TESTS / "lib", TESTS.parent / "bench", TESTS / "load"):
    sys.path.insert(0, str(folder))
from idle_and_frozen_test import metrics, open_session, wait_until  # noqa: E402
from scale import IDLE_WAKES_MAX, SessionHolder, Watched, content, hold_in_all, idle_cost, one_object  # noqa: E402
from verbena_server import client_environment, program  # noqa: E402

KIB = 1 << 10
CLIENTS = 2
EACH = int(os.environ.get("SESSIONS", "1000"))  # sessions of one client
ALL = CLIENTS * EACH
SPARE = 20         # free places
UNUSED = min(200, ALL // 4)
MEMORY_MAX = 64 * KIB
FILES_MAX = 1.1    # open files of one link


class Server(Watched):
    """One core, so that a session is one link."""

    def __init__(self, *settings):
        self.folder = tempfile.TemporaryDirectory(prefix="verbena-sessions-")
        super().__init__(pathlib.Path(self.folder.name) / "data", "cores=1", "http.connections_max=256",
                         "rdma.connections_max=256", *settings)

    def __enter__(self):
        super().__enter__()
        one_object(self)
        return self

    def __exit__(self, *why):
        super().__exit__(*why)
        self.folder.cleanup()

    def sessions(self):
        return metrics(self)["verbena_native_sessions"]

    def gone(self, what, files):
        wait_until(f"{what}: the sessions go", lambda: self.sessions() == 0)
        wait_until(f"{what}: descriptors come back ({self.descriptors()}, {files} before)", lambda: self.descriptors() <= files + SPARE)


def honest(server, provider):
    """A new client is answered."""
    client = SessionHolder(server, provider)
    assert "refused" not in client.hold(1)
    assert client.get(10)["requests"] == 10
    client.end()


def end_all(holders):
    for holder in holders:
        holder.end()


def fill(server, provider, count=ALL):
    holders = [SessionHolder(server, provider) for _ in range(CLIENTS)]
    refused, _ = hold_in_all(holders, count, count // CLIENTS)
    assert not refused, refused
    return holders


def held(provider):
    """The maximum number of sessions: their cost, and that it is freed when they are closed one by one."""
    with Server(f"rdma.sessions_max={ALL + SPARE}") as server:
        honest(server, provider)
        server.rest()
        rss, files, alone = server.rss(), server.descriptors(), idle_cost(server, 1)
        holders = fill(server, provider)
        try:
            each, descriptors = (server.rss() - rss) / ALL, (server.descriptors() - files) / ALL
            server.rest()
            idle = idle_cost(server, 2)
            print(f"{provider}: {ALL} sessions, {each / KIB:.1f} KiB and {descriptors:.2f} descriptors each; idle "
                  f"{idle['idle_wakes']:.0f} wake-ups/s ({alone['idle_wakes']:.0f} without them)", flush=True)
            assert each <= MEMORY_MAX and descriptors <= FILES_MAX, (each, descriptors)
            assert idle["idle_wakes"] <= min(IDLE_WAKES_MAX, alone["idle_wakes"] + 50), (idle, alone)
            honest(server, provider)
            # One session sends requests beside all others, and each of them is alive.
            assert holders[0].get(100)["requests"] == 100
            for holder in holders:
                assert holder.get(EACH, EACH)["requests"] == EACH
            most = server.rss()
            refused = holders[0].hold(EACH + 2 * SPARE)
            assert refused["sessions"] <= EACH + SPARE and refused["refused"].startswith("slow_down"), refused
            over = metrics(server)['verbena_native_sessions_over_limit_total{limit="all"}']
            assert over >= 1, over
            for holder in holders:
                assert holder.hold(0)["sessions"] == 0
            server.gone("closed", files)
            # The freed resources are reused by the next sessions.
            assert not hold_in_all(holders, ALL, EACH)[0]
            assert server.rss() <= most + ALL * 4 * KIB, (server.rss(), most)
        finally:
            end_all(holders)
        server.gone("ended", files)
        honest(server, provider)


def killed(provider):
    """A client with a thousand sessions is killed, another stopped: other clients go on, and the dead one's
    resources are freed."""
    with Server(f"rdma.sessions_max={ALL + SPARE}") as server:
        honest(server, provider)
        files = server.descriptors()
        holders = fill(server, provider)
        dead, stopped = holders
        try:
            stopped.process.send_signal(signal.SIGSTOP)
            honest(server, provider)
            dead.process.send_signal(signal.SIGKILL)
            dead.process.wait()
            wait_until("the sessions of the dead go", lambda: server.sessions() <= EACH)
            wait_until("and their descriptors", lambda: server.descriptors() <= files + FILES_MAX * EACH + SPARE)
            honest(server, provider)
            # Its places are free at once, beside those of the stopped client.
            heir = SessionHolder(server, provider)
            holders.append(heir)
            assert heir.hold(EACH) == {"sessions": EACH}
            stopped.process.send_signal(signal.SIGCONT)
            assert stopped.get(EACH, EACH)["requests"] == EACH, "who was stopped has lost nothing"
        finally:
            end_all(holders)
        server.gone("killed", files)
    print(f"{provider}: a client killed and one stopped with {EACH} sessions each", flush=True)


def account_with_object(server, home):
    env = client_environment(home) | {"AWS_ENDPOINT_URL": server.http}

    def run(*args, body=None):
        return subprocess.run([program(), *args], env=env, input=body, capture_output=True, timeout=60, check=True).stdout
    keys = json.loads(run("user", "add", "tenant", "--json"))
    env.update(AWS_ACCESS_KEY_ID=keys["access_key"], AWS_SECRET_ACCESS_KEY=keys["secret_key"])
    run("mb", "s3://tenant")
    run("put", "-", "s3://tenant/hot", "--via", "http", body=content("hot"))
    return {"VERBENA_ROOT_ACCESS_KEY": keys["access_key"], "VERBENA_ROOT_SECRET_KEY": keys["secret_key"]}


def strangers():
    """One account opens all sessions it may, and requests for sessions that are never used take the rest: root still
    gets one."""
    with Server(f"rdma.sessions_max={ALL}") as server:
        keys = account_with_object(server, server.folder.name)
        files = server.descriptors()
        tenant = SessionHolder(server, "local", keys, bucket="tenant")
        try:
            told = tenant.hold(ALL)
            assert told["sessions"] == ALL // 2 and told["refused"].startswith("slow_down"), told
            made = [open_session(server) for _ in range(UNUSED)]
            assert made == [200] * len(made), "half of the places are not the account's"
            honest(server, "local")
            honest(server, "tcp")
            assert tenant.get(100, 100)["requests"] == 100
        finally:
            tenant.end()
        wait_until("the account's places are free", lambda: server.sessions() <= UNUSED)
        wait_until("descriptors come back", lambda: server.descriptors() <= files + SPARE)
    print(f"strangers: {ALL // 2} sessions of one account, {UNUSED} that nobody used", flush=True)


def main():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    cases = {"local": lambda: held("local"), "tcp": lambda: held("tcp"), "killed_local": lambda: killed("local"),
             "killed_tcp": lambda: killed("tcp"), "strangers": strangers}
    for name in sys.argv[1:] or cases:
        cases[name]()


if __name__ == "__main__":
    main()
