"""340-359: cuObject's protocol over reliable connections, its connections and tokens."""
import time

from ..case import FIELD, SAFETY, SHIM, Skipped, case, check, expect_body, expect_moved, expect_untouched
from ..dialects.rc import describe
from ..wire import random_bytes

OWN = ("cuobj-rc",)
FOREIGN = bytes(10) + b"\xff\xff" + bytes([192, 0, 2, 9])


def connected(target, window):
    reply = target.dialect.connect(target, window)
    check(reply.status == 200, f"a connection expected: {reply}")
    return window


def object_and_window(target, size=3000):
    data = random_bytes(size)
    target.store("object", data)
    return data, target.window(size, "both")


@case(340, "A connection's answer has a session, the server's queue pair and its sequence number, which is not 0.", SHIM, OWN)
def connection(target):
    _, window = object_and_window(target)
    reply = target.dialect.connect(target, window)
    check(reply.status == 200 and window.session, f"a connection expected: {reply}")
    check(int(reply.header("x-amz-rdma-psn"), 16) != 0, f"a sequence number that is not 0 expected: {reply}")


@case(341, "A GET with a token of a connection that does not exist is declined: the object is in the body, the window as it was.", FIELD, OWN)
def no_connection(target):
    data, window = object_and_window(target)
    expect_body(target, target.get(window, "object", token=target.dialect.token(window, session="0" * 32)), window, data)


@case(342, "Disconnecting is 204, and ends a connection: its tokens are declined afterwards.", SHIM, OWN)
def disconnected(target):
    data, window = object_and_window(target)
    connected(target, window)
    expect_moved(target, target.get(window, "object"), window, data)
    reply = target.dialect.disconnect(target, window.session)
    check(reply.status in (200, 204), f"204 expected: {reply}")
    later = random_bytes(len(data))
    target.store("object", later)
    expect_body(target, target.get(window, "object"), None, later)
    check(window.bytes() == data, "the window has changed")


@case(343, "A GET with a wrong key is declined, with the whole object in the body; the window stays, and a new connection moves.", FIELD, OWN)
def wrong_key(target):
    data, window = object_and_window(target)
    connected(target, window)
    expect_body(target, target.get(window, "object", token=target.dialect.token(window, key=window.key ^ 0xFF00)), window, data)
    target.serves()


@case(344, "A connection whose queue pair or sequence number is malformed is 400, without a session.", SHIM, OWN)
def malformed(target):
    _, window = object_and_window(target)
    for wrong in ({"x-amz-rdma-psn": "000000"}, {"x-amz-rdma-psn": "none"}, {"x-amz-rdma-psn": None}, {"x-amz-rdma-token": "01"},
                  {"x-amz-rdma-token": "1" * 88}, {"x-amz-rdma-token": None}):
        reply = target.dialect.connect(target, window, **wrong)
        check(reply.status == 400 and reply.header("x-amz-rdma-session") is None, f"400 for {wrong} expected: {reply}")


@case(345, "A peer whose GID is neither the HTTP peer's nor configured gets no connection.", SAFETY, OWN)
def third_party(target):
    _, window = object_and_window(target)
    reply = target.dialect.connect(target, window, **{"x-amz-rdma-token": describe(window.number, FOREIGN)})
    check(reply.status >= 400 and reply.header("x-amz-rdma-session") is None, f"a refusal expected: {reply}")


@case(346, "A PUT with a token of a connection that does not exist is declined: no ETag, nothing stored.", FIELD, OWN)
def put_declined(target):
    window = target.source(random_bytes(500))
    reply = target.put(window, "declined", token=target.dialect.token(window, session="0" * 32))
    check(target.dialect.declined(reply) and reply.status in (200, 501), f"a decline expected: {reply}")
    check(reply.header("etag") is None and reply.code() == "RDMANotSupported", f"RDMANotSupported and no ETag expected: {reply}")
    check(not target.exists("declined"), "a declined PUT has stored an object")


@case(347, "A token that is not among the signed headers is refused: 403, and the window stays as it is.", SAFETY, OWN)
def unsigned_token(target):
    _, window = object_and_window(target)
    connected(target, window)
    reply = target.call("GET", target.path("object"), unsigned=[("x-amz-rdma-token", target.dialect.token(window))])
    check(reply.status == 403, f"403 expected: {reply}")
    expect_untouched(window)


@case(348, "Connections are bounded: what is too much is 503, and connections that were ended make room.", SHIM, OWN)
def bounded(target):
    windows = []
    for _ in range(100):
        windows.append(target.window(16))
        reply = target.dialect.connect(target, windows[-1])
        if reply.status != 200:
            break
    check(reply.status in (200, 503), f"503 expected: {reply}")
    for window in windows:
        window.close()
    target.serves()
    if reply.status == 200:
        raise Skipped("its bound is above 100 connections, if it has one")


@case(349, "A GET into a place outside of the client's memory is declined, with the whole object in the body.", SAFETY, OWN)
def outside(target):
    data, window = object_and_window(target)
    connected(target, window)
    expect_body(target, target.get(window, "object", token=target.dialect.token(window, base=window.address + (1 << 30))), window, data)


@case(350, "An object that does not fit the token's size is declined and sent in the body, whatever the memory's size is.", FIELD, OWN)
def small_token(target):
    data, window = object_and_window(target)
    connected(target, window)
    expect_body(target, target.get(window, "object", token=target.dialect.token(window, size=2999)), window, data)
    expect_moved(target, target.get(window, "object"), window, data)


@case(351, "A connection serves requests one after the other, in both directions.", SHIM, OWN)
def many_requests(target):
    data = random_bytes(20000)
    window = connected(target, target.window(20000, "both", data))
    session = window.session
    for number in range(10):
        reply = target.put(window, f"in-turn-{number}")
        check(target.dialect.moved(reply) == 200 and target.read(f"in-turn-{number}") == data, f"a PUT that moves expected: {reply}")
        expect_moved(target, target.get(window, f"in-turn-{number}"), window, data)
    check(window.session == session, "the connection was not kept")


@case(352, "A GET into memory whose key has ended is declined, with the whole object in the body.", FIELD, OWN)
def withdrawn(target):
    data, window = object_and_window(target)
    connected(target, window).withdraw()
    expect_body(target, target.get(window, "object"), window, data)
    target.serves()


@case(353, "A GET over a connection whose client is gone is declined within the 10 s that clients wait, with the whole object in the body.", FIELD, OWN)
def client_gone(target):
    data, window = object_and_window(target)
    connected(target, window).disappear()
    begun = time.monotonic()
    expect_body(target, target.get(window, "object"), window, data)
    check(time.monotonic() - begun < 10, f"the body came after {time.monotonic() - begun:.1f} s")
    target.serves()
