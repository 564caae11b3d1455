"""260-279: windows and endpoints that are gone, connections that end, late packets."""
import ctypes
import time

from ..case import CEPH, DRAFT, FIELD, S3, SAFETY, case, check, expect_body, expect_moved, expect_put_declined, expect_stored, expect_untouched
from ..wire import random_bytes, raw

DATA = random_bytes(40000)
OFI1 = ("ofi1",)


def put_fails(target, source, key, **options):
    """A PUT whose window cannot be read: declined, or 500 RDMATransferFailed; nothing is stored."""
    target.call("DELETE", target.path(key))
    reply = target.put(source, key, **options)
    if reply.status == 501:
        expect_put_declined(target, reply, key)
        return
    check(reply.status == 500 and reply.code() == "RDMATransferFailed", f"a decline, or 500 RDMATransferFailed, expected: {reply}")
    check(reply.header("etag") is None, "a failed PUT with an ETag")
    check(not target.exists(key), "a failed PUT has stored an object")


@case(260, "A GET whose window was withdrawn before the request is declined, and the body has the whole object.", DRAFT)
def window_gone(target):
    target.store("object", DATA)
    window = target.window(40000)
    window.close()
    expect_body(target, target.get(window, "object"), None, DATA)
    target.serves()


@case(261, "A GET with a wrong key writes nothing, and the body has the whole object.", SAFETY, OFI1)
def wrong_key(target):
    target.store("object", DATA)
    window = target.window(40000)
    expect_body(target, target.get(window, "object", token=target.dialect.token(window, key=window.key ^ 1)), window, DATA)
    target.serves()


@case(262, "A GET whose endpoint is gone is declined within the 10 s that clients wait, with the whole object in the body.", FIELD)
def endpoint_gone(target):
    target.store("object", DATA)
    with target.other_endpoint() as endpoint:
        window = target.window(40000, endpoint=endpoint)
    begun = time.monotonic()
    expect_body(target, target.get(window, "object"), None, DATA)
    check(time.monotonic() - begun < 10, f"the body came after {time.monotonic() - begun:.1f} s")
    target.serves()


@case(263, "A PUT whose window was withdrawn stores nothing, and is declined or 500 RDMATransferFailed.", DRAFT)
def source_gone(target):
    source = target.source(DATA)
    source.close()
    put_fails(target, source, "gone")
    target.serves()


@case(264, "A PUT whose endpoint is gone stores nothing, and is declined or 500 RDMATransferFailed.", DRAFT)
def source_endpoint_gone(target):
    with target.other_endpoint() as endpoint:
        source = target.source(DATA, endpoint=endpoint)
    put_fails(target, source, "gone")


@case(265, "A PUT from a window that may be written but not read stores nothing; the window stays as it is.", CEPH)
def source_not_readable(target):
    window = target.window(40000, "write")
    put_fails(target, window, "unreadable")
    expect_untouched(window)


@case(266, "A GET into a window that may be read but not written leaves it as it is, and the body has the whole object.", SAFETY)
def window_not_writable(target):
    target.store("object", DATA)
    window = target.window(40000, "read")
    expect_body(target, target.get(window, "object"), window, DATA)


@case(267, "When the reply arrives every byte is in the window, and nothing lands later.", CEPH)
def nothing_late(target):
    target.store("object", DATA)
    window = target.window(40000)
    reply = target.get(window, "object")
    at_reply = window.bytes()
    expect_moved(target, reply, window, DATA)
    check(at_reply == DATA, "bytes have landed after the reply")
    ctypes.memset(window.memory, 0xA5, 40000)
    time.sleep(0.6)
    expect_untouched(window)


@case(268, "A window that a token claims to be larger than it is: what lies beyond is never written, and the reply does not say success.", SAFETY, OFI1)
def window_claimed_larger(target):
    target.store("object", DATA)
    window = target.window(20000)
    reply = target.get(window, "object", token=target.dialect.token(window, size=40000))
    check(target.dialect.moved(reply) is None, f"success, though the window has half of the bytes: {reply}")
    check(target.dialect.declined(reply) and reply.body == DATA, f"a decline with the whole object expected: {reply}")
    target.serves()


@case(269, "A PUT whose window ends before its token says so stores nothing.", SAFETY, OFI1)
def source_claimed_larger(target):
    source = target.source(DATA)
    put_fails(target, source, "larger", token=target.dialect.token(source, size=80000))
    target.serves()


def abandon(target, request, cut=None):
    connection = target.connection(fresh=True)
    target.local.connection = None
    connection.send(request[:cut] if cut else request)
    connection.close(abruptly=True)


@case(270, "A client that ends its connection in the middle of a head, or right after it, harms no later request.", SAFETY, OFI1)
def connection_lost(target):
    target.store("object", DATA)
    window = target.window(40000)
    request = target.request("GET", target.path("object"), headers=[("x-amz-rdma-token", target.dialect.token(window))])
    for cut in (1, len(request) // 2, len(request) - 1, None):
        abandon(target, request, cut)
    time.sleep(0.2)
    target.serves()


@case(271, "A PUT whose connection ends is stored whole or not at all.", S3, OFI1)
def put_connection_lost(target):
    target.call("DELETE", target.path("lost"))
    source = target.source(DATA)
    abandon(target, target.request("PUT", target.path("lost"), headers=[("x-amz-rdma-token", target.dialect.token(source))],
                                   payload_hash="UNSIGNED-PAYLOAD"))
    time.sleep(0.5)
    reply = target.call("GET", target.path("lost"))
    check(reply.status == 404 or reply.body == DATA, f"the object is neither absent nor whole: {reply}")


def bytes_at_rest(window):
    """libfabric's tcp looks up the key when a write begins: the rest of that one still arrives, a piece of some MiB at most."""
    seen = None
    for _ in range(20):
        before, seen = seen, window.bytes()
        if seen == before:
            break
        time.sleep(0.1)
    return seen


@case(272, "A window that is withdrawn while the connection is gone is never written afterwards.", SAFETY, OFI1)
def withdrawn_after_loss(target):
    target.store("large", random_bytes(8 << 20))
    window = target.window(8 << 20)
    abandon(target, target.request("GET", target.path("large"), headers=[("x-amz-rdma-token", target.dialect.token(window))]))
    time.sleep(0.01)
    window.close()
    at_rest = bytes_at_rest(window)
    time.sleep(0.5)
    check(window.bytes() == at_rest, "a withdrawn window has changed")
    target.serves()


@case(273, "A client that stops in a transfer is given up within the 10 s that clients wait; other clients are served meanwhile.", FIELD, OFI1)
def stopped_client(target):
    target.store("large", random_bytes(8 << 20))
    with target.other_endpoint() as endpoint:
        window = target.window(8 << 20, endpoint=endpoint)
        endpoint.running = False
        begun = time.monotonic()
        connection = target.connection(fresh=True)
        connection.send(target.request("GET", target.path("large"), headers=[("x-amz-rdma-token", target.dialect.token(window))]))
        target.local.connection = None
        target.serves()
        served = time.monotonic() - begun
        reply = connection.receive()
        connection.close()
    check(served < 4 or served < time.monotonic() - begun - 1, f"another client waited {served:.1f} s for one that has stopped")
    check(time.monotonic() - begun < 12, f"the reply took {time.monotonic() - begun:.1f} s")
    check(target.dialect.moved(reply) is None, f"success into a window that nothing reached: {reply}")


@case(274, "After a failed GET the same request with a sound window moves: a failure is not remembered against the client.", DRAFT)
def retry_after_failure(target):
    target.store("object", DATA)
    gone = target.window(40000)
    gone.close()
    target.get(gone, "object")
    window = target.window(40000)
    expect_moved(target, target.get(window, "object"), window, DATA)


@case(275, "The same PUT sent twice stores the same object and says success twice.", S3)
def put_twice(target):
    source = target.source(DATA)
    for _ in range(2):
        expect_stored(target, target.put(source, "twice"), "twice", DATA)


@case(276, "A malformed request line or header with a token in it is a 4xx, and the server goes on.", SAFETY, OFI1)
def malformed_request(target):
    window = target.window(64)
    connection = target.connection(fresh=True)
    reply = connection.exchange(raw("GET  HTTP/9.9", [("Host", target.host), ("x-amz-rdma-token", target.dialect.token(window))]))
    target.forget_connection()
    check(400 <= reply.status < 600, f"an error expected: {reply}")
    expect_untouched(window)
    target.serves()
