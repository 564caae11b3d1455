"""300-339: hipobj-rc-v2, its own calls."""
import ctypes
import json
import threading
import time

from ..case import HIPOBJ, S3, SAFETY, Skipped, case, check, expect_untouched, same
from ..checksums import crc64nvme
from ..wire import random_bytes

OWN = ("hipobj-rc-v2",)
GONE = (404, 409)  # a session that is unknown or has ended: the servers of hipObject and elbencho say 409, others 404


def prepared(target, window, op, key, **options):
    transfer = target.dialect.prepare(target, window, op, target.path(key), **options)
    check(transfer.reply.status == 200, f"a session expected: {transfer.reply}")
    return transfer


def object_and_window(target, size=3000):
    data = random_bytes(size)
    target.store("object", data)
    return data, target.window(size)


def refused(target, reply, *statuses):
    check(reply.status in statuses, f"status {' or '.join(map(str, statuses))} expected: {reply}")
    check(reply.header("x-amz-rdma-session") is None and not target.dialect.moved(reply), f"a refusal with a session or a success: {reply}")


def nothing_stored(target, key, reply, *statuses):
    refused(target, reply, *statuses)
    check(not target.exists(key), "a PUT that failed has stored an object")


def refusal_of_ready(target, key, status, **fields):
    """PREPARE is sound, the client's write or READY is not."""
    window = target.source(random_bytes(4000))
    reply, written = target.dialect.store(target, prepared(target, window, "PUT", key), **fields)
    nothing_stored(target, key, reply, *status)
    return written


@case(300, "A GET moves x-amz-rdma-size bytes from x-amz-rdma-offset on to the start of the client's memory.", HIPOBJ, OWN)
def offset(target):
    data = random_bytes(9000)
    target.store("object", data)
    window = target.window(1000)
    reply = target.dialect.ready(target, prepared(target, window, "GET", "object", fields={"offset": 4000}))
    check(target.dialect.moved(reply) == 200, f"a success expected: {reply}")
    same(window.bytes(), data[4000:5000], "the window")


@case(301, "Of a size that reaches behind the object's end the bytes up to that end move, and x-amz-rdma-bytes-transferred is their number; or "
      "PREPARE is 416, without a session.", HIPOBJ, OWN)
def behind_the_end(target):
    data, window = random_bytes(700), target.window(2000)
    target.store("object", data)
    transfer = target.dialect.prepare(target, window, "GET", target.path("object"), fields={"offset": 600})
    if transfer.reply.status != 200:
        refused(target, transfer.reply, 416)
        expect_untouched(window)
        return
    reply = target.dialect.ready(target, transfer)
    check(reply.header("x-amz-rdma-bytes-transferred") == "100", f"100 bytes expected: {reply}")
    same(window.bytes(), data[600:] + bytes([0xA5]) * 1900, "the window")


@case(302, "READY's answer echoes the cookie of its transfer.", HIPOBJ, OWN)
def cookie(target):
    data, window = object_and_window(target)
    transfer = prepared(target, window, "GET", "object")
    reply = target.dialect.ready(target, transfer)
    check(int(reply.header("x-amz-rdma-cookie") or "0", 16) == transfer.cookie, f"the cookie {transfer.cookie:08x} expected: {reply}")
    check(window.immediate(10) == transfer.cookie and window.bytes() == data, "the bytes, or the immediate value of the last write, are wrong")


@case(303, "READY's answer says x-amz-rdma-checksum: CRC64NVME and the checksum of the bytes that moved, of a GET and of a PUT.", HIPOBJ, OWN)
def checksums(target):
    data, window = object_and_window(target)
    for reply in (target.get(window, "object"), target.put(target.source(data), "put")):
        said = reply.header("x-amz-rdma-checksum")
        check(said == f"CRC64NVME {crc64nvme(data)}", f"CRC64NVME {crc64nvme(data)} expected: {said}, {reply}")


@case(304, "READY's answer has the object's ETag, without quotes, in x-amz-rdma-etag.", HIPOBJ, OWN)
def etags(target):
    data, window = object_and_window(target)
    for key, ask in (("object", lambda: target.get(window, "object")), ("put", lambda: target.put(target.source(data), "put"))):
        reply = ask()
        stored = target.call("HEAD", target.path(key)).header("etag")
        check(reply.header("x-amz-rdma-etag") == stored.strip('"'), f"{stored} expected: {reply}")


@case(305, "PREPARE of a GET of a key that does not exist is 404, without a session.", HIPOBJ, OWN)
def no_object(target):
    refused(target, target.dialect.prepare(target, target.window(10), "GET", target.path("none-such")).reply, 404)


@case(306, "PREPARE of a GET that begins behind the object's end is 416, without a session.", HIPOBJ, OWN)
def no_range(target):
    _, window = object_and_window(target)
    refused(target, target.dialect.prepare(target, window, "GET", target.path("object"), fields={"offset": 3000}).reply, 416)


@case(307, "A call that is not signed is 403.", HIPOBJ, OWN)
def anonymous(target):
    _, window = object_and_window(target)
    refused(target, target.dialect.prepare(target, window, "GET", target.path("object"), more={"credentials": None}).reply, 403)


@case(308, "A call with an x-amz-rdma-* header that is not among the signed ones is 403: it could be changed on the way.", HIPOBJ, OWN)
def unsigned_header(target):
    _, window = object_and_window(target)
    more = {"unsigned": [("x-amz-rdma-offset", "0")]}
    refused(target, target.dialect.prepare(target, window, "GET", target.path("object"), more=more).reply, 403)


@case(309, "READY with another cookie is 403, and nothing moves. (hipObject's server keeps the session, others end it.)", HIPOBJ, OWN)
def wrong_cookie(target):
    _, window = object_and_window(target)
    transfer = prepared(target, window, "GET", "object")
    refused(target, target.dialect.ready(target, transfer, cookie=f"{transfer.cookie ^ 1:08x}"), 403)
    expect_untouched(window)


@case(310, "READY for a session that does not exist is 404 or 409.", HIPOBJ, OWN)
def no_session(target):
    _, window = object_and_window(target)
    transfer = prepared(target, window, "GET", "object")
    refused(target, target.dialect.ready(target, transfer, session="0" * 32), *GONE)
    expect_untouched(window)


@case(311, "A session serves one transfer: a second READY is refused, and nothing moves again.", HIPOBJ, OWN)
def ready_twice(target):
    data, window = object_and_window(target)
    transfer = prepared(target, window, "GET", "object")
    check(target.dialect.moved(target.dialect.ready(target, transfer)) == 200 and window.bytes() == data, "the first READY does not move")
    target.store("object", random_bytes(3000))
    refused(target, target.dialect.ready(target, transfer), *GONE)
    check(window.bytes() == data, "a second READY has written to the window")


@case(312, "CANCEL ends a session with 204, also one that is gone; READY is 404 or 409 afterwards.", HIPOBJ, OWN)
def cancelled(target):
    _, window = object_and_window(target)
    transfer = prepared(target, window, "GET", "object")
    for _ in range(2):
        reply = target.dialect.cancel(target, transfer.session)
        check(reply.status in (200, 204), f"204 expected: {reply}")
    refused(target, target.dialect.ready(target, transfer), *GONE)
    expect_untouched(window)


@case(313, "Another value of x-amz-rdma-protocol is declined: 501 with x-amz-rdma-protocol-status: unsupported.", HIPOBJ, OWN)
def other_protocol(target):
    _, window = object_and_window(target)
    reply = target.dialect.prepare(target, window, "GET", target.path("object"), fields={"protocol": "hipobj-rc-v9"}).reply
    check(target.dialect.declined(reply), f"a decline expected: {reply}")
    refused(target, reply, 501)


@case(314, "A field of PREPARE that is missing or malformed is 400, without a session.", HIPOBJ, OWN)
def malformed(target):
    _, window = object_and_window(target)
    wrong = [{"psn": "000000"}, {"psn": "xyz"}, {"psn": None}, {"cookie": "123456789"}, {"cookie": None}, {"op": "HEAD"}, {"size": "0"}, {"size": "-1"},
             {"size": None}, {"token": "1" * 88}, {"token": "01"}, {"token": None}, {"target": "object"}, {"target": None}, {"offset": "one"}]
    for fields in wrong:
        op = fields.get("op", "GET")
        reply = target.dialect.prepare(target, window, op, target.path("object"), fields={**fields, "op": op}).reply
        check(reply.status == 400, f"400 for {fields} expected: {reply}")
        refused(target, reply, 400)


@case(315, "A size of more than 2^31 - 1 bytes is 413.", HIPOBJ, OWN)
def too_large(target):
    _, window = object_and_window(target)
    refused(target, target.dialect.prepare(target, window, "GET", target.path("object"), fields={"size": 1 << 31}).reply, 413)


@case(316, "A GET into memory whose key is wrong fails with 500 RDMATransferFailed or 408; the memory stays as it is.", SAFETY, OWN)
def wrong_key(target):
    _, window = object_and_window(target)
    reply = target.dialect.ready(target, prepared(target, window, "GET", "object"), mr_rkey=f"{window.key ^ 0xFF00:x}")
    refused(target, reply, 408, 500)
    expect_untouched(window)
    target.serves()


@case(317, "A PUT's memory ends with its size: a write of one byte more fails, and nothing is stored.", SAFETY, OWN)
def beyond_staging(target):
    window = target.source(random_bytes(4001))
    transfer = prepared(target, window, "PUT", "beyond", fields={"size": 4000})
    reply, written = target.dialect.store(target, transfer)
    check(written != 0, "a write behind the memory's end has succeeded")
    nothing_stored(target, "beyond", reply, 408, 500)


@case(318, "A PUT whose last write does not carry the cookie fails, and nothing is stored.", HIPOBJ, OWN)
def wrong_immediate(target):
    refusal_of_ready(target, "immediate", (408, 500), cookie=0)


@case(319, "A PUT of fewer bytes than x-amz-rdma-size fails, and nothing is stored.", HIPOBJ, OWN)
def too_short(target):
    refusal_of_ready(target, "short", (408, 500), size=3999)


@case(320, "A PUT's memory is gone when READY is answered: a later write fails, and the object stays as it is.", SAFETY, OWN)
def staging_gone(target):
    data = random_bytes(4000)
    window = target.source(data)
    transfer = prepared(target, window, "PUT", "gone")
    reply, written = target.dialect.store(target, transfer)
    check(target.dialect.moved(reply) == 200 and written == 0, f"a success expected: {reply}")
    check(window.write(transfer.address, transfer.key, transfer.cookie, timeout=30) != 0, "a write after the answer has succeeded")
    same(target.read("gone"), data, "the object")


@case(321, "A client's queue pair does not reach the memory of another session.", SAFETY, OWN)
def other_session(target):
    data, victim, thief = random_bytes(4000), target.source(random_bytes(4000)), target.source(random_bytes(4000))
    victim = target.source(data)
    theirs, own = prepared(target, victim, "PUT", "victim"), prepared(target, thief, "PUT", "thief")
    key, address = own.key, own.address
    own.key, own.address = theirs.key, theirs.address
    reply, written = target.dialect.store(target, own)
    check(written != 0 and (key, address) != (theirs.key, theirs.address), "a write into another session's memory has succeeded")
    nothing_stored(target, "thief", reply, 408, 500)
    reply, written = target.dialect.store(target, theirs)
    check(target.dialect.moved(reply) == 200 and written == 0, f"a success expected: {reply}")
    same(target.read("victim"), data, "the object")


@case(322, "The client's write may come before READY, too.", HIPOBJ, OWN)
def write_before_ready(target):
    data = random_bytes(4000)
    window = target.source(data)
    transfer, statuses = prepared(target, window, "PUT", "early"), []
    thread = threading.Thread(target=lambda: statuses.append(window.write(transfer.address, transfer.key, transfer.cookie)))
    thread.start()
    time.sleep(0.05)
    reply = target.dialect.ready(target, transfer)
    thread.join(30)
    check(target.dialect.moved(reply) == 200 and statuses == [0], f"a success expected: {reply}, {statuses}")
    same(target.read("early"), data, "the object")


@case(323, "A peer whose GID is neither the HTTP peer's nor configured is declined: 501 with x-amz-rdma-protocol-status: unsupported.", SAFETY, OWN)
def third_party(target):
    _, window = object_and_window(target)
    from ..dialects.rc import describe
    foreign = describe(window.number, bytes(10) + b"\xff\xff" + bytes([192, 0, 2, 9]))
    reply = target.dialect.prepare(target, window, "GET", target.path("object"), fields={"token": foreign}).reply
    check(target.dialect.declined(reply), f"a decline expected: {reply}")
    refused(target, reply, 501)


@case(324, "Sessions are bounded: what is too much is 503, and sessions that were cancelled make room.", HIPOBJ, OWN)
def bounded(target):
    _, window = object_and_window(target)
    open_sessions, replies = [], []
    for _ in range(100):
        transfer = target.dialect.prepare(target, window, "GET", target.path("object"), connect=False)
        replies.append(transfer.reply)
        if transfer.reply.status != 200:
            break
        open_sessions.append(transfer.session)
    for session in open_sessions:
        target.dialect.cancel(target, session)
    check(replies[-1].status in (200, 503), f"503 expected: {replies[-1]}")
    target.serves()
    if replies[-1].status == 200:
        raise Skipped("its bound is above 100 sessions, if it has one")


@case(325, "A session whose READY comes more than 10 s after PREPARE has ended: 404, 408 or 409, and nothing moves.", HIPOBJ, OWN)
def late(target):
    _, window = object_and_window(target)
    transfer = prepared(target, window, "GET", "object")
    time.sleep(11.5)
    refused(target, target.dialect.ready(target, transfer), 408, *GONE)
    expect_untouched(window)


@case(326, "A right that a policy denies is denied at PREPARE: 403, without a session.", S3, OWN)
def denied(target):
    data, window = object_and_window(target)
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject",
                                                      "Resource": f"arn:aws:s3:::{target.bucket}/object"}]}
    target.needs(target.call("PUT", "/" + target.bucket, query={"policy": ""}, body=json.dumps(policy).encode()), "policies")
    try:
        if not any(target.call("GET", target.path("object")).status == 403 or time.sleep(0.1) for _ in range(20)):
            raise Skipped("the account is above bucket policies")
        refused(target, target.dialect.prepare(target, window, "GET", target.path("object")).reply, 403)
    finally:
        target.call("DELETE", "/" + target.bucket, query={"policy": ""})
    check(target.read("object") == data, "the object has changed")


@case(327, "CANCEL ends the memory of a PUT, too: a later write fails, and nothing is stored.", SAFETY, OWN)
def cancelled_put(target):
    window = target.source(random_bytes(4000))
    transfer = prepared(target, window, "PUT", "cancelled")
    reply = target.dialect.cancel(target, transfer.session)
    check(reply.status in (200, 204), f"204 expected: {reply}")
    time.sleep(0.6)
    check(window.write(transfer.address, transfer.key, transfer.cookie, timeout=30) != 0, "a write after CANCEL has succeeded")
    nothing_stored(target, "cancelled", target.dialect.ready(target, transfer), *GONE)


@case(328, "After the answer to a GET that failed in the middle nothing lands: the client has its memory back.", SAFETY, OWN)
def failed_in_the_middle(target):
    size = 8 << 20
    target.store("large", random_bytes(size))
    window = target.window(3 << 20)  # the rest is not the client's memory
    reply = target.dialect.ready(target, prepared(target, window, "GET", "large", fields={"size": size}))
    ctypes.memset(window.memory, 0xA5, window.size)
    refused(target, reply, 408, 500)
    time.sleep(0.6)
    expect_untouched(window)
    target.serves()
