"""The planted faults: each is one way in which a server of `ofi1` can be wrong, and the cases that must find it."""
import datetime
import time

from ..checksums import crc64nvme
from ..dialects.ofi1 import HEADER
from ..wire import Reply, stamp_of

FAULTS = {}


class Fault:
    def __init__(self, name, what, cases, dialect="ofi1"):
        self.name, self.what, self.cases, self.dialect = name, what, cases, dialect
        self.request = self.reply = self.after = None


def fault(name, what, cases, hook):
    """`hook`: what the function changes: the "request" (it returns another one, or a reply), the "reply", or "after" the reply was sent."""
    def add(run):
        one = FAULTS.setdefault(name, Fault(name, what, cases))

        def guarded(request, *rest):
            return run(request, *rest) if request.token() is not None else None
        setattr(one, hook, guarded)
        return run
    return add


def moved(reply):
    return reply.header("x-amz-rdma-reply") in ("200", "206")


def declined(reply):
    return reply.header("x-amz-rdma-reply") == "501"


def said(status, size, etag='"00000000000000000000000000000000"', more=()):
    """A reply that says success."""
    return Reply(status, [("x-amz-rdma-reply", str(status)), ("x-amz-rdma-bytes-transferred", str(size)), ("ETag", etag), *more], b"")


def as_moved(reply, size):
    """A plain reply made one by RDMA."""
    reply.set("x-amz-rdma-reply", str(reply.status))
    reply.set("x-amz-rdma-bytes-transferred", str(size))
    reply.set("x-amz-rdma-checksum-crc64nvme", crc64nvme(reply.body[:size]))
    reply.body = b""
    return reply


# Headers of replies.
def header_fault(name, what, cases, header, value=None, when=moved, method=None):
    @fault(name, what, cases, "reply")
    def change(request, reply, gate):
        if when(reply) and method in (None, request.method):
            reply.set(header, value)


header_fault("reply-unsaid", "a GET that moved has no x-amz-rdma-reply", (101,), "x-amz-rdma-reply", method="GET")
header_fault("put-reply-unsaid", "a PUT that moved has no x-amz-rdma-reply", (180,), "x-amz-rdma-reply", method="PUT")
header_fault("range-says-200", "a range says 200 in x-amz-rdma-reply", (120,), "x-amz-rdma-reply", "200", when=lambda r: r.status == 206 and moved(r))
header_fault("no-content-range", "a range has no Content-Range", (120,), "content-range", when=lambda r: r.status == 206)
header_fault("no-count", "a GET says no x-amz-rdma-bytes-transferred", (101,), "x-amz-rdma-bytes-transferred", method="GET")
header_fault("put-no-count", "a PUT says no x-amz-rdma-bytes-transferred", (180,), "x-amz-rdma-bytes-transferred", method="PUT")
header_fault("put-no-etag", "a PUT that moved has no ETag", (180,), "etag", method="PUT")
header_fault("no-version-id", "a PUT in a bucket with versions has no x-amz-version-id", (162,), "x-amz-version-id", method="PUT")
header_fault("no-metadata", "a GET by RDMA has no metadata", (111,), "x-amz-meta-colour", method="GET")
header_fault("no-checksum", "a GET says no checksum of what moved", (140,), "x-amz-rdma-checksum-crc64nvme", method="GET")
header_fault("put-no-checksum", "a PUT says no checksum of what moved", (143,), "x-amz-rdma-checksum-crc64nvme", method="PUT")
header_fault("decline-unsaid", "a declined GET has no x-amz-rdma-reply", (108, 220), "x-amz-rdma-reply", when=declined, method="GET")
header_fault("error-says-rdma", "an error has x-amz-rdma-reply: 501", (200,), "x-amz-rdma-reply", "501", when=lambda r: r.status == 404)
header_fault("put-decline-has-etag", "a declined PUT has an ETag", (221,), "etag", '"d41d8cd98f00b204e9800998ecf8427e"', when=declined, method="PUT")


@fault("count-of-object", "a range says the object's size as its bytes transferred", (120,), "reply")
def count_of_object(request, reply, gate):
    if moved(reply) and reply.status == 206:
        reply.set("x-amz-rdma-bytes-transferred", reply.header("content-range").rpartition("/")[2])


@fault("checksum-of-object", "the checksum of a range covers the whole object", (141,), "reply")
def checksum_of_object(request, reply, gate):
    if moved(reply) and reply.status == 206:
        reply.set("x-amz-rdma-checksum-crc64nvme", crc64nvme(gate.plain(request, ("range",)).body))


@fault("checksum-not-chosen", "x-amz-rdma-checksum-algorithm is ignored", (142,), "request")
def checksum_not_chosen(request, gate):
    return gate.signed(request, ("x-amz-rdma-checksum",)) if request.method == "GET" else None


@fault("moved-and-body", "the object moves by RDMA and is in the body, too", (101,), "reply")
def moved_and_body(request, reply, gate):
    if moved(reply) and request.method == "GET":
        reply.body = gate.plain(request).body


@fault("length-of-object", "Content-Length is the object's, though the body is empty", (112,), "reply")
def length_of_object(request, reply, gate):
    if moved(reply) and request.method == "GET":
        reply.length = 1


@fault("head-of-window", "HEAD with a token says the length of the body that a GET would have", (117,), "reply")
def head_of_window(request, reply, gate):
    if request.method == "HEAD":
        reply.set("content-length", "0")


# Tokens that are not looked at.
@fault("put-ignores-token", "a PUT with a token stores an empty object, as servers without RDMA do", (180,), "request")
def put_ignores_token(request, gate):
    return gate.signed(request, ("x-amz-rdma-",)) if request.method == "PUT" else None


@fault("get-ignores-token", "a GET with a token sends the body, without a word", (101,), "request")
def get_ignores_token(request, gate):
    return gate.signed(request, ("x-amz-rdma-",)) if request.method == "GET" else None


@fault("spelling-matters", "only x-amz-rdma-token in lower case is known", (250, 251), "request")
def spelling_matters(request, gate):
    if HEADER not in [key for key, _ in request.headers]:
        return gate.signed(request, ("x-amz-rdma-",))


@fault("range-ignored", "Range has no effect beside a token", (120,), "request")
def range_ignored(request, gate):
    return gate.signed(request, ("range",)) if request.header("range") else None


@fault("condition-ignored", "If-None-Match has no effect on a PUT with a token", (155,), "request")
def condition_ignored(request, gate):
    return gate.signed(request, ("if-none-match",)) if request.method == "PUT" else None


@fault("put-checksum-unchecked", "a PUT's checksum is not compared", (145, 148), "request")
def put_checksum_unchecked(request, gate):
    return gate.signed(request, ("x-amz-checksum-",)) if request.method == "PUT" else None


@fault("put-takes-body", "a PUT with a token and a body stores the body", (186,), "request")
def put_takes_body(request, gate):
    return gate.signed(request, ("x-amz-rdma-",)) if request.method == "PUT" and request.body else None


# Signatures.
@fault("token-unsigned", "a token need not be among the signed headers", (204, 205, 208), "request")
def token_unsigned(request, gate):
    return gate.signed(request) if not request.signs(HEADER) else None


@fault("signature-unchecked", "a request with a token is served whatever its signature is", (202, 206), "request")
def signature_unchecked(request, gate):
    return gate.signed(request)


@fault("never-expires", "a request with a token is served an hour later", (207,), "request")
def never_expires(request, gate):
    old = (request.header("x-amz-date") or "9")[:13] < stamp_of(datetime.datetime.now(datetime.UTC))[:13]
    return gate.signed(request) if old else None


@fault("last-token-wins", "of two tokens the second, unsigned one is served", (253,), "request")
def last_token_wins(request, gate):
    tokens = [value for key, value in request.headers if key.lower() == HEADER]
    return gate.signed(request, (HEADER,), [(HEADER, tokens[-1])]) if len(tokens) > 1 else None


@fault("previous-token", "a connection's first token is kept and used again", (115,), "request")
def previous_token(request, gate):
    if request.method == "GET":
        kept = gate.memory.setdefault("token", request.token())
        return gate.signed(request, (HEADER,), [(HEADER, kept)])


# Declines.
@fault("put-decline-is-200", "a declined PUT has status 200", (221,), "reply")
def put_decline_is_200(request, reply, gate):
    if declined(reply) and request.method == "PUT":
        reply.status = 200


@fault("put-decline-stores", "a declined PUT stores an empty object", (221,), "reply")
def put_decline_stores(request, reply, gate):
    if declined(reply) and request.method == "PUT":
        gate.plain(request)


@fault("decline-without-body", "a declined GET has no body", (108, 220), "reply")
def decline_without_body(request, reply, gate):
    if declined(reply):
        reply.body = b""


@fault("unknown-version-is-400", "a version of the dialect that is not known is 400", (220,), "reply")
def unknown_version_is_400(request, reply, gate):
    if declined(reply) and ":ofi1:" not in request.token():
        return Reply(400, [], b"<Error><Code>InvalidRDMAToken</Code></Error>")


@fault("malformed-is-500", "a malformed token is 500", (230, 236), "reply")
def malformed_is_500(request, reply, gate):
    if reply.code() == "InvalidRDMAToken":
        return Reply(500, [], b"<Error><Code>InternalError</Code></Error>")


@fault("malformed-is-declined", "a malformed token is declined", (230, 237), "reply")
def malformed_is_declined(request, reply, gate):
    if reply.code() == "InvalidRDMAToken" and request.method == "GET":
        reply = gate.plain(request)
        reply.set("x-amz-rdma-reply", "501")
        return reply


@fault("foreign-address-is-500", "an address that the server will not connect to is 500", (228, 229), "reply")
def foreign_address_is_500(request, reply, gate):
    if declined(reply) and request.window():
        return Reply(500, [], b"<Error><Code>InternalError</Code></Error>")


@fault("failure-remembered", "after one transfer that failed every token is declined", (274,), "reply")
def failure_remembered(request, reply, gate):
    if declined(reply):
        gate.memory["failed"] = True
    elif gate.memory.get("failed"):
        reply = gate.plain(request)
        reply.set("x-amz-rdma-reply", "501")
        return reply


@fault("failure-is-success", "a transfer that failed is answered as one that moved", (209, 260, 268), "reply")
def failure_is_success(request, reply, gate):
    if declined(reply) and request.window() and request.method == "GET":
        return as_moved(reply, len(reply.body))


@fault("put-of-nothing", "a PUT whose window cannot be read stores zeros", (263, 265), "reply")
def put_of_nothing(request, reply, gate):
    window = request.window()
    if request.method == "PUT" and reply.status in (500, 501) and window:
        stored = gate.plain(request, body=bytes(window[1]))
        return said(200, window[1], stored.header("etag"))


@fault("put-half", "a PUT stores the first half of the window", (181,), "request")
def put_half(request, gate):
    window = request.window()
    if request.method == "PUT" and window:
        return gate.signed(request, (), [("x-amz-rdma-bytes", str(window[1] // 2))])


@fault("put-half", "", (), "reply")
def put_half_reply(request, reply, gate):
    if request.method == "PUT" and moved(reply):
        reply.set("x-amz-rdma-bytes-transferred", str(request.window()[1]))


# What is written, where, and when.
@fault("cut-to-window", "an object that does not fit is cut to the window", (108,), "request")
def cut_to_window(request, gate):
    window = request.window()
    if request.method == "GET" and window and ":ofi1:" in request.token():
        reply = gate.plain(request)
        if len(reply.body) > window[1] > 0:
            gate.write(request, reply.body[:window[1]])
            return as_moved(reply, window[1])


@fault("writes-then-declines", "the window has a part of an object that is then declined", (108,), "reply")
def writes_then_declines(request, reply, gate):
    window = request.window()
    if declined(reply) and window and len(reply.body) > window[1] > 0:
        gate.write(request, reply.body[:window[1]])


@fault("range-at-its-place", "a range is written at its place in the object", (124,), "request")
def range_at_its_place(request, gate):
    reply = gate.plain(request) if request.method == "GET" and request.header("range") else None
    if reply and reply.status == 206:
        gate.write(request, reply.body, int(reply.header("content-range").split()[1].partition("-")[0]))
        return as_moved(reply, len(reply.body))


@fault("late-write", "the reply comes before the bytes", (101, 267), "request")
def late_write(request, gate):
    reply = gate.plain(request) if request.method == "GET" and request.window() else None
    if reply and reply.status == 200 and reply.body:
        gate.memory["late"] = reply.body
        return as_moved(reply, len(reply.body))


@fault("late-write", "", (), "after")
def late_write_after(request, reply, gate):
    if data := gate.memory.pop("late", None):
        time.sleep(0.2)
        gate.write(request, data)


@fault("late-packet", "a packet lands again after the reply", (267,), "after")
def late_packet(request, reply, gate):
    if moved(reply) and request.method == "GET":
        time.sleep(0.2)
        gate.write(request, b"late")


def write_first(request, gate, drop=()):
    """Writes the object before anything was decided."""
    if request.method == "GET" and request.window():
        reply = gate.plain(request, drop)
        if reply.status == 200 and 0 < len(reply.body) <= request.window()[1]:
            gate.write(request, reply.body)


@fault("writes-before-conditions", "the window is written before conditions are checked", (150, 151), "request")
def writes_before_conditions(request, gate):
    write_first(request, gate, ("if-",))


@fault("writes-before-signature", "the window is written before the signature is checked", (202, 203), "request")
def writes_before_signature(request, gate):
    write_first(request, gate)


@fault("bit-flipped", "a byte in the window is not the object's", (102,), "reply")
def bit_flipped(request, reply, gate):
    if moved(reply) and request.method == "GET" and reply.header("x-amz-rdma-bytes-transferred") != "0":
        gate.write(request, bytes([gate.plain(request).body[0] ^ 1]))


@fault("pads-window", "the window is filled with zeros behind the object", (106,), "reply")
def pads_window(request, reply, gate):
    size = int(reply.header("x-amz-rdma-bytes-transferred") or 0)
    if moved(reply) and request.method == "GET" and size < request.window()[1]:
        gate.write(request, bytes(request.window()[1] - size), size)


@fault("base-ignored", "the token's base is ignored: bytes land at the region's start", (110,), "reply")
def base_ignored(request, reply, gate):
    if moved(reply) and request.method == "GET" and request.window()[0]:
        gate.write(request, gate.plain(request).body, -512)

