#!/usr/bin/env python3
"""A thousand idle connections and sessions, clients stopped in the middle of transfers, and a server without free
descriptors: beside them a normal client gets every answer right, and no memory stays leased."""
import hashlib
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, boto3_client, client_environment, program  # noqa: E402

IDLE = 1000
MIB = 1 << 20


def body_bytes(seed, size):
    block = hashlib.sha512(str(seed).encode()).digest() * 64
    return (block * (size // len(block) + 1))[:size]


def metrics(server):
    text = urllib.request.urlopen(f"http://{server.native}/-/metrics", timeout=20).read().decode()
    return {name: float(value) for name, value in re.findall(r"^(verbena_\S+) (\S+)$", text, re.M)}


def wait_until(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def endpoint_of(server):
    host, port = urllib.parse.urlsplit(server.http).netloc.split(":")
    return host, int(port)


def ask(connection):
    connection.sendall(b"GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n")
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = connection.recv(65536)
        assert piece, "the server closed an idle connection"
        answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head, re.I).group(1))
    while len(body) < length:
        body += connection.recv(65536)
    return int(head.split()[1])


def open_session(server):
    """Opens a native session as a client does, by one signed request. It is never used."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    body = json.dumps({"version": 1, "client_nonce": os.urandom(16).hex()}).encode()
    url = f"http://{server.native}/-/session"
    request = AWSRequest("POST", url, data=body, headers={
        "x-amz-content-sha256": hashlib.sha256(body).hexdigest(), "Host": server.native})
    SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), "s3", "us-east-1").add_auth(request)
    made = urllib.request.Request(url, data=body, headers=dict(request.headers), method="POST")
    try:
        return urllib.request.urlopen(made, timeout=20).status
    except urllib.error.HTTPError as refused:
        return refused.code


def command(server, home, *args, **options):
    return subprocess.run([program(), *args, "--endpoint", server.http, "--native", server.native, "-q"],
                          env=client_environment(home), timeout=60, check=True, **options)


def round_trip(server, home, via, seed, size=3 * MIB + 11):
    data = body_bytes(seed, size)
    command(server, home, "put", "-", "s3://normal/key", "--via", via, input=data)
    got = command(server, home, "get", "s3://normal/key", "-", "--via", via, stdout=subprocess.PIPE).stdout
    assert got == data, f"{via}: other bytes came back"


def idle():
    with Server(args=["--set", f"rdma.sessions_max={IDLE + 10}"]) as server:
        boto3_client(server.http).create_bucket(Bucket="normal")
        connections = []
        for _ in range(IDLE):
            connections.append(socket.create_connection(endpoint_of(server), timeout=30))
        for connection in connections:
            assert ask(connection) == 404
        sessions = [open_session(server) for _ in range(IDLE)]
        assert sessions == [200] * IDLE, f"{sessions.count(200)} sessions"
        more = [open_session(server) for _ in range(20)]
        assert more.count(503) == 10, f"past the limit: {more}"
        seen = metrics(server)
        assert seen["verbena_http_connections"] >= IDLE and seen["verbena_native_sessions"] == IDLE + 10, seen
        for via in ("http", "token"):
            round_trip(server, server.directory, via, via)
        for connection in connections[::10]:
            assert ask(connection) == 404
            connection.close()
    with Server(args=["--set", f"rdma.sessions_max={IDLE + 10}"]) as server:
        boto3_client(server.http).create_bucket(Bucket="normal")
        assert [open_session(server) for _ in range(IDLE)] == [200] * IDLE
        round_trip(server, server.directory, "native", "native")
    print(f"idle: {IDLE} connections and {IDLE} sessions")


# The server's door for a stopped client, and the client's provider.
DOORS = [("http", "auto"), ("token", "tcp"), ("native", "tcp"), ("native", "local")]


def frozen():
    args = ["--set", "http.body_timeout=2", "--set", "rdma.operation_timeout_ms=1000", "--set", "arena_size=128MiB",
            "--set", "cache.size=0"]
    stopped = []
    with Server(args=args) as server:
        s3 = boto3_client(server.http, read_timeout=60)
        for bucket in ("normal", "frozen"):
            s3.create_bucket(Bucket=bucket)
        rest = metrics(server)["verbena_memory_leased_bytes"]
        try:
            for door, provider in DOORS:
                counter = f'verbena_door_bytes_total{{direction="out",door="{door}"}}'
                before = metrics(server).get(counter, 0)
                stopped.append(subprocess.Popen(
                    [program(), "bench", "--doors", door, "--providers", provider, "--ops", "get", "--sizes", "16MiB",
                     "--concurrency", "4", "--duration", "600", "--bucket", "frozen",
                     "--endpoint", server.http, "--native", server.native],
                    env=client_environment(server.directory), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
                wait_until(f"the bench by {door} moves bytes",
                           lambda: metrics(server).get(counter, 0) > before + 100 * MIB or stopped[-1].poll() is not None)
                assert stopped[-1].poll() is None, f"the bench by {door} ended: {stopped[-1].returncode}"
                stopped[-1].send_signal(signal.SIGSTOP)
            for i in range(4):
                for via in ("http", "token", "native"):
                    round_trip(server, server.directory, via, (i, via))
            wait_until("leases of frozen clients come back while they are still frozen",
                       lambda: metrics(server)["verbena_memory_leased_bytes"] <= rest)
        finally:
            for process in stopped:
                process.kill()
                process.wait()
        for via in ("http", "token", "native"):
            round_trip(server, server.directory, via, via)
    print(f"frozen: {len(DOORS)} clients stopped")


def without_descriptors():
    """The server's limit is lowered until it cannot accept; waiting connections are served when others have closed."""
    with Server(args=["--set", "rdma.enabled=true"]) as server:
        boto3_client(server.http).create_bucket(Bucket="normal")
        pid = server.process.pid
        used = len(os.listdir(f"/proc/{pid}/fd"))
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 40, hard))
        connections = [socket.create_connection(endpoint_of(server), timeout=30) for _ in range(120)]
        wait_until("the server runs out of descriptors", lambda: "accept failed" in server.log())
        for connection in connections[:60]:
            connection.close()
        for connection in connections[60:]:
            # Wherever a connection waited, it is served as soon as there is room. Each closes after its answer.
            assert ask(connection) == 404
            connection.close()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        for via in ("http", "native"):
            round_trip(server, server.directory, via, via)
    print("without descriptors: the listener recovered")


def small_soft_limit():
    """Started with a small soft limit, such as a login shell's, the server raises it to the hard limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    server = Server()
    try:
        server.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    try:
        assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
        connections = [socket.create_connection(endpoint_of(server), timeout=30) for _ in range(400)]
        assert [ask(connection) for connection in connections] == [404] * len(connections)
        for connection in connections:
            connection.close()
    finally:
        server.__exit__(*sys.exc_info())
    print("small soft limit: raised")


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    cases = {"idle": idle, "frozen": frozen, "descriptors": without_descriptors, "soft_limit": small_soft_limit}
    for name in sys.argv[1:] or cases:
        cases[name]()


if __name__ == "__main__":
    main()
