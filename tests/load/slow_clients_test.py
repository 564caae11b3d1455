#!/usr/bin/env python3
"""Hundreds of slow clients on a small arena, beside a normal client with only correct answers.

On loopback each 127.x.y.z is a separate peer: in one case all slow clients are one peer, in the other each is its
own.
"""
import concurrent.futures
import pathlib
import re
import socket
import sys
import threading
import time
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from verbena_server import Server, boto3_client  # noqa: E402

MIB = 1 << 20
ARENA = 64 * MIB
SLOW_UPLOADS = 150
SLOW_READS = 150
UPLOAD_SIZE = 2 * MIB
TICK_S = 0.05
STEP = 1024  # bytes that a slow client moves per tick


def body_bytes(seed, size):
    block = bytes((seed * 131 + i * 7 + i // 251) % 256 for i in range(4096))
    return (block * (size // len(block) + 1))[:size]


def metrics(server):
    text = urllib.request.urlopen(f"http://{server.native}/-/metrics", timeout=20).read().decode()
    found = {}
    for name, value in re.findall(r"^(verbena_memory_\w+)(?:\{[^}]*\})? (\S+)$", text, re.M):
        found[name] = found.get(name, 0) + float(value)
    return found


class SlowClient:
    """One request on a raw socket, moved a step at a time."""

    def __init__(self, address, endpoint, request, key, upload):
        host, port = endpoint
        self.socket = socket.socket()
        if upload is None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.bind((address, 0))
        self.socket.settimeout(30)
        self.socket.connect((host, port))
        self.socket.sendall(request)
        self.socket.setblocking(False)
        self.key, self.upload, self.sent, self.received = key, upload, 0, bytearray()

    def step(self):
        try:
            if self.upload is not None and self.sent < len(self.upload):
                self.sent += self.socket.send(self.upload[self.sent:self.sent + STEP])
            else:
                self.received += self.socket.recv(STEP)
        except (BlockingIOError, ConnectionError):
            pass

    def finish(self):
        """Transfers the rest at full speed. Returns status, head and body."""
        self.socket.settimeout(60)
        try:
            if self.upload is not None:
                self.socket.sendall(self.upload[self.sent:])
        except ConnectionError:
            pass  # refused early: the answer has the reason
        while True:
            try:
                piece = self.socket.recv(1 << 16)
            except ConnectionError:
                piece = b""
            if not piece:
                break
            self.received += piece
        head, _, body = bytes(self.received).partition(b"\r\n\r\n")
        return int(head.split()[1]) if head else 0, head, body


def request_text(method, url, length=None):
    parts = urllib.parse.urlsplit(url)
    lines = [f"{method} {parts.path}?{parts.query} HTTP/1.1", f"Host: {parts.netloc}", "Connection: close"]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class SlowCrowd:
    def __init__(self, server, s3, addresses):
        host, port = urllib.parse.urlsplit(server.http).netloc.split(":")
        endpoint = (host, int(port))
        self.uploads, self.reads, self.stopping = [], [], False
        for i in range(SLOW_UPLOADS):
            url = s3.generate_presigned_url("put_object", Params={"Bucket": "slow", "Key": f"up-{i}"})
            self.uploads.append(SlowClient(addresses(i), endpoint, request_text("PUT", url, UPLOAD_SIZE), f"up-{i}",
                                           body_bytes(i, UPLOAD_SIZE)))
        for i in range(SLOW_READS):
            url = s3.generate_presigned_url("get_object", Params={"Bucket": "slow", "Key": "big"})
            self.reads.append(SlowClient(addresses(i), endpoint, request_text("GET", url), "big", None))
        self.clients = self.uploads + self.reads
        self.thread = threading.Thread(target=self.trickle)
        self.thread.start()

    def trickle(self):
        while not self.stopping:
            for client in self.clients:
                client.step()
            time.sleep(TICK_S)

    def stop(self):
        self.stopping = True
        self.thread.join()


def normal_work(s3, server, rounds):
    """Each answer is checked; any error ends the test."""
    peak = 0
    for i in range(rounds):
        for size in (0, 4096, 65536, 100_000, 3 * MIB + 17):
            data, key = body_bytes(i + size, size), f"normal-{size}"
            s3.put_object(Bucket="slow", Key=key, Body=data)
            got = s3.get_object(Bucket="slow", Key=key)["Body"].read()
            assert got == data, f"round {i}: {len(got)} of {size} bytes, or others"
        part = s3.get_object(Bucket="slow", Key="big", Range="bytes=12345-2222222")["Body"].read()
        assert part == body_bytes(99, 16 * MIB)[12345:2222223]
        now = metrics(server)
        peak = max(peak, now["verbena_memory_leased_bytes"])
    return peak


def check_some(crowd, s3, big):
    """Most of the crowd disconnect; the others finish at full speed. Each gets its whole object, or a "busy" error
    before any byte of it; none gets a part of it, or other bytes."""
    kept = crowd.uploads[::10] + crowd.reads[::10]
    for client in crowd.clients:
        if client not in kept:
            client.socket.close()
    outcomes = {}
    with concurrent.futures.ThreadPoolExecutor(len(kept)) as pool:
        answers = list(pool.map(SlowClient.finish, kept))
    for client, (status, head, body) in zip(kept, answers):
        assert status in (200, 503), (status, head)
        outcome = status
        if status == 503:
            assert b"SlowDown" in body, body
        elif client.upload is not None:
            assert s3.get_object(Bucket="slow", Key=client.key)["Body"].read() == client.upload
        else:
            assert body == big[:len(body)], "a slow reader's bytes"
            assert len(body) == len(big), f"a slow reader was cut off after {len(body)} of {len(big)} bytes"
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert outcomes.get(200, 0) > len(kept) // 2, outcomes
    return outcomes


def wait_until(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def scenario(name, server, addresses):
    s3 = boto3_client(server.http, read_timeout=60, signature_version="s3v4")
    big = body_bytes(99, 16 * MIB)
    s3.put_object(Bucket="slow", Key="big", Body=big)
    rest = metrics(server)["verbena_memory_leased_bytes"]
    crowd = SlowCrowd(server, s3, addresses)
    try:
        peak = normal_work(s3, server, 8)
    finally:
        crowd.stop()
    outcomes = check_some(crowd, s3, big)
    for client in crowd.clients:
        client.socket.close()
    seen = metrics(server)
    wait_until("every lease comes back", lambda: metrics(server)["verbena_memory_leased_bytes"] <= rest)
    wait_until("nobody waits", lambda: metrics(server)["verbena_memory_waiting"] == 0)
    print(f"{name}: peak {peak / MIB:.1f} MiB seen, {seen['verbena_memory_leased_bytes_max'] / MIB:.1f} MiB at most of "
          f"{ARENA // MIB} MiB; waits {seen['verbena_memory_waits_total']:.0f}, refused "
          f"{seen['verbena_memory_refusals_total']:.0f}, full {seen['verbena_memory_full_total']:.0f}; "
          f"slow clients that went on: {outcomes}")
    assert seen["verbena_memory_leased_bytes_max"] <= ARENA * 15 // 16, "headroom is left for small requests"
    assert seen["verbena_memory_full_total"] == 0, "no lease found the arena full"


def main():
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    kinds = {
        "one slow peer": lambda i: "127.0.0.9",
        "many slow peers": lambda i: f"127.1.{i // 250}.{i % 250 + 1}",
    }
    for name, addresses in kinds.items():
        with Server(args=["--set", f"arena_size={ARENA // MIB}MiB", "--set", "cores=2", "--set", "cache.size=0"]) as server:
            boto3_client(server.http).create_bucket(Bucket="slow")
            scenario(name, server, addresses)


if __name__ == "__main__":
    main()
