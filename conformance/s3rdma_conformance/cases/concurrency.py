"""280-299: retries, several requests at once, limits."""
import concurrent.futures
import time

from ..case import FIELD, HTTP, S3, SAFETY, case, check, expect_moved, expect_put_declined, expect_said
from ..wire import random_bytes

OFI1 = ("ofi1",)


@case(280, "The same GET sent twice moves the same bytes twice.", S3)
def get_twice(target):
    data = random_bytes(5000)
    target.store("object", data)
    for _ in range(2):
        window = target.window(5000)
        expect_moved(target, target.get(window, "object"), window, data)


@case(281, "Two requests sent at once on one connection are answered in their order, each into its own window.", HTTP, OFI1)
def pipelined(target):
    first, second = random_bytes(5000), random_bytes(7000)
    target.store("first", first)
    target.store("second", second)
    one, two = target.window(5000), target.window(7000)
    requests = [target.request("GET", target.path(key), headers=[("x-amz-rdma-token", target.dialect.token(window))])
                for key, window in (("first", one), ("second", two))]
    connection = target.connection()
    connection.send(b"".join(requests))
    replies = [connection.receive(), connection.receive()]
    expect_moved(target, replies[0], one, first)
    expect_moved(target, replies[1], two, second)


def at_once(count, run):
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@case(282, "Many GETs at once into windows of one endpoint move each its own bytes.", SAFETY)
def many_windows(target):
    data = [random_bytes(20000 + i) for i in range(16)]
    windows = [target.window(len(one)) for one in data]
    for i, one in enumerate(data):
        target.store(f"many/{i}", one)

    def get(i):
        try:
            return target.get(windows[i], f"many/{i}")
        finally:
            target.forget_connection()
    for reply, window, one in zip(at_once(16, get), windows, data):
        expect_moved(target, reply, window, one)


@case(283, "Several endpoints are served at once, each under its own name.", SAFETY)
def many_endpoints(target):
    data = [random_bytes(20000 + i) for i in range(4)]
    endpoints = [target.dialect.endpoint() for _ in data]
    try:
        windows = [target.window(len(one), endpoint=endpoint) for one, endpoint in zip(data, endpoints)]
        for i, one in enumerate(data):
            target.store(f"many/{i}", one)

        def get(i):
            try:
                return target.get(windows[i], f"many/{i}")
            finally:
                target.forget_connection()
        for reply, window, one in zip(at_once(4, get), windows, data):
            expect_moved(target, reply, window, one)
    finally:
        for endpoint in endpoints:
            endpoint.close()


@case(284, "A GET beside PUTs of the same key moves one of the objects whole, never a mixture.", S3)
def get_beside_put(target):
    objects = [bytes([i]) * (300000 + i) for i in range(4)]
    target.store("busy", objects[0])
    sources = [target.source(one) for one in objects]
    window = target.window(400000)

    def step(i):
        try:
            if i:
                return target.put(sources[i], "busy")
            seen = []
            for _ in range(6):
                reply = target.get(window, "busy")
                size = int(reply.header("x-amz-rdma-bytes-transferred") or 0)
                seen.append((reply, window.bytes()[:size]))
            return seen
        finally:
            target.forget_connection()
    results = at_once(4, step)
    for reply in results[1:]:
        check(target.dialect.moved(reply) == 200, f"a PUT beside others: {reply}")
    for reply, there in results[0]:
        check(there in objects, f"the window has a mixture of objects: {reply}")


@case(285, "Endpoints that come and go, one for each request, do not use up the server.", SAFETY)
def endpoints_come_and_go(target):
    data = random_bytes(3000)
    target.store("object", data)
    for _ in range(24):
        with target.other_endpoint() as endpoint:
            window = target.window(3000, endpoint=endpoint)
            expect_moved(target, target.get(window, "object"), window, data)
    target.serves()


@case(286, "Hundreds of declines in a row cost the client milliseconds each, and the server nothing that lasts.", SAFETY, OFI1)
def many_declines(target):
    target.store("object", b"data")
    window = target.window(16)
    token = target.dialect.token(window, family="ofi2")
    begun = time.monotonic()
    for _ in range(200):
        check(target.dialect.declined(target.get(window, "object", token=token)), "a decline expected")
    check(time.monotonic() - begun < 20, "200 declines took more than 20 s")
    target.serves()


@case(287, "A window that claims to be huge costs nothing: a small object moves into it.", SAFETY, OFI1)
def huge_window(target):
    target.store("object", b"a few bytes")
    window = target.window(64)
    reply = target.get(window, "object", token=target.dialect.token(window, size=1 << 40))
    expect_moved(target, reply, window, b"a few bytes")


@case(288, "A PUT from a window beyond the largest object is refused or declined at once, and nothing is stored.", S3, OFI1)
def huge_source(target):
    source = target.source(b"a few bytes")
    target.call("DELETE", target.path("huge"))
    begun = time.monotonic()
    reply = target.put(source, "huge", token=target.dialect.token(source, size=1 << 43))
    check(reply.status >= 400 and target.dialect.moved(reply) is None, f"a refusal expected: {reply}")
    check(reply.header("etag") is None and not target.exists("huge"), "a refused PUT has stored an object")
    check(time.monotonic() - begun < 10, "a refusal that takes longer than clients wait")


@case(289, "A sound request is served at once, while others wait for endpoints that are gone.", SAFETY)
def dead_endpoints(target):
    target.store("object", b"0123456789")
    windows = []
    for _ in range(4):
        with target.other_endpoint() as endpoint:
            windows.append(target.window(10, endpoint=endpoint))

    def get(i):
        try:
            if i < 4:
                return target.get(windows[i], "object")
            time.sleep(0.1)
            begun = time.monotonic()
            target.serves()
            return time.monotonic() - begun
        finally:
            target.forget_connection()
    *replies, waited = at_once(5, get)
    check(all(target.dialect.moved(reply) is None for reply in replies), "success into an endpoint that is gone")
    check(waited < 5, f"a sound request waited {waited:.1f} s for endpoints that are gone")


@case(290, "RDMA and plain requests mix on one connection in any order.", FIELD, OFI1)
def mixed_connection(target):
    data = random_bytes(6000)
    window, source = target.window(6000), target.source(data)
    for _ in range(5):
        expect_said(target, target.put(source, "mixed"), 6000)
        check(target.read("mixed") == data, "a plain GET after a PUT by RDMA")
        expect_moved(target, target.get(window, "mixed"), window, data)
        target.store("mixed", data[::-1])
        expect_moved(target, target.get(window, "mixed"), window, data[::-1])
        target.call("DELETE", target.path("declined"))
        expect_put_declined(target, target.put(source, "declined", token=target.dialect.token(source, family="ofi2")), "declined")
