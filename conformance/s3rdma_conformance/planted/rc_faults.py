"""The planted faults of the dialects over reliable connections."""
from ..dialects.ofi1 import HEADER
from ..wire import Reply
from .faults import FAULTS, Fault

HIPOBJ, CUOBJ = "hipobj-rc-v2", "cuobj-rc"
SESSION = "0123456789abcdef" * 2


def planted(dialect, name, what, cases, hook, route):
    """`route`: the end of the paths of the requests that the fault is about, or "" for objects' own."""
    def add(run):
        one = FAULTS.setdefault(name, Fault(name, what, cases, dialect))

        def guarded(request, *rest):
            path = request.target.partition("?")[0]
            own = path.startswith(("/.hipobj-rc/", "/.s3rdma-rc/"))
            about = path.endswith("/" + route) if own else not route and request.token() is not None
            return run(request, *rest) if about else None
        setattr(one, hook, guarded)
        return run
    return add


def reply_fault(dialect, name, what, cases, route, change, when):
    @planted(dialect, name, what, cases, "reply", route)
    def run(request, reply, gate):
        if when(request, reply):
            change(request, reply)


def header(name, value=None):
    return lambda request, reply: reply.set(name, value(request) if callable(value) else value)


def succeeded(request, reply):
    return reply.status == 200


def ready_said(request, reply):
    """READY's success, whatever was."""
    reply.status, reply.body = 200, b""
    for name, value in (("x-amz-rdma-reply", "200"), ("x-amz-rdma-bytes-transferred", "4000"), ("ETag", '"0"'), ("Content-Length", "0")):
        reply.set(name, value)


def prepare_said(request, reply):
    reply.status, reply.body = 200, b""
    own = "01" + "00" * 19 + "ffff7f000001"
    for name, value in (("x-amz-rdma-reply", "200:" + own.ljust(88, "0")), ("x-amz-rdma-session", SESSION), ("x-amz-rdma-psn", "000001")):
        reply.set(name, value)


def status(*numbers):
    return lambda request, reply: reply.status in numbers


def as_500(request, reply):
    reply.status = 500


for fault in (
    ("cookie-unsaid", "READY's answer has no cookie", (302,), "ready", header("x-amz-rdma-cookie"), succeeded),
    ("checksum-unsaid", "READY's answer has no x-amz-rdma-checksum", (303,), "ready", header("x-amz-rdma-checksum"), succeeded),
    ("checksum-of-other-bytes", "READY's answer has the checksum of other bytes", (303,), "ready",
     header("x-amz-rdma-checksum", "CRC64NVME AAAAAAAAAAA="), succeeded),
    ("etag-quoted", "x-amz-rdma-etag has quotes", (304,), "ready", lambda q, r: r.set("x-amz-rdma-etag", r.header("etag")), succeeded),
    ("counts-what-was-asked", "READY says the size that PREPARE asked for", (301,), "ready", header("x-amz-rdma-bytes-transferred", "2000"), succeeded),
    ("no-object-prepared", "PREPARE of a key that does not exist is a session", (305,), "prepare", prepare_said, status(404)),
    ("no-range-prepared", "PREPARE behind the object's end is a session", (306,), "prepare", prepare_said, status(416)),
    ("anonymous-prepared", "PREPARE of an unsigned call is a session", (307,), "prepare", prepare_said,
     lambda q, r: q.header("authorization") is None),
    ("unsigned-field-prepared", "PREPARE with an unsigned field is a session", (308,), "prepare", prepare_said, status(403)),
    ("cookie-unchecked", "READY with another cookie succeeds", (309,), "ready", ready_said, status(403)),
    ("session-unchecked", "READY of no session succeeds", (310, 311, 312), "ready", ready_said, status(404)),
    ("decline-unnamed", "a decline has no x-amz-rdma-protocol-status", (313, 323), "prepare", header("x-amz-rdma-protocol-status"), status(501)),
    ("malformed-prepared", "PREPARE with a malformed field is a session", (314,), "prepare", prepare_said, status(400)),
    ("huge-prepared", "PREPARE of 2 GiB is a session", (315,), "prepare", prepare_said, status(413)),
    ("failed-get-says-200", "a transfer that failed says success", (316, 317, 318, 319, 321), "ready", ready_said, status(408, 500)),
    ("full-is-500", "too many sessions are 500", (324,), "prepare", as_500, status(503)),
    ("late-ready", "a READY after the time of its session succeeds", (325,), "ready", ready_said, status(404)),
    ("protocol-unsaid", "READY's answer has no x-amz-rdma-protocol", (101, 180), "ready", header("x-amz-rdma-protocol"), succeeded),
    ("wrong-sequence", "PREPARE tells another sequence number than the server has", (101,), "prepare",
     lambda q, r: r.set("x-amz-rdma-psn", f"{int(r.header('x-amz-rdma-psn'), 16) ^ 1 or 2:06x}"), succeeded),
    ("wrong-memory", "PREPARE tells another key than that of the PUT's memory", (180, 192), "prepare",
     header("x-amz-rdma-mr-rkey", "1"), lambda q, r: r.header("x-amz-rdma-mr-rkey") is not None),
):
    reply_fault(HIPOBJ, *fault)


@planted(HIPOBJ, "offset-ignored", "a GET begins at the object's start", (300,), "request", "prepare")
def offset_ignored(request, gate):
    if request.header("x-amz-rdma-offset"):
        return gate.signed(request, ("x-amz-rdma-offset",))
    return None


@planted(HIPOBJ, "cancel-ignored", "CANCEL says 204 and does nothing", (312,), "request", "cancel")
def cancel_ignored(request, gate):
    return Reply(204, [], b"")


@planted(HIPOBJ, "other-protocol-served", "another protocol is served as this one", (313,), "request", "prepare")
def other_protocol_served(request, gate):
    return gate.signed(request, ("x-amz-rdma-protocol",), [("x-amz-rdma-protocol", HIPOBJ)])


def moved_said(request, reply):
    size = reply.header("content-length") or "0"
    reply.body = b""
    for name, value in (("x-amz-rdma-reply", "200"), ("x-amz-rdma-bytes-transferred", size), ("ETag", '"0"')):
        reply.set(name, value)


def declines(request, reply):
    return reply.header("x-amz-rdma-reply") == "501"


def emptied(request, reply):
    reply.body = b""


for fault in (
    ("session-unsaid", "a connection's answer has no session", (340,), "connect", header("x-amz-rdma-session"), succeeded),
    ("connection-sequence-0", "a connection's sequence number is 0", (340,), "connect", header("x-amz-rdma-psn", "000000"), succeeded),
    ("connection-wrong-sequence", "a connection tells another sequence number than the server has", (101, 180), "connect",
     lambda q, r: r.set("x-amz-rdma-psn", f"{int(r.header('x-amz-rdma-psn'), 16) ^ 1 or 2:06x}"), succeeded),
    ("declined-says-moved", "a GET that was declined says that it moved", (341, 343, 349, 352, 353), "", moved_said, declines),
    ("declined-without-body", "a GET that was declined has no body", (341, 343, 350), "", emptied, declines),
    ("malformed-connected", "a malformed queue pair gets a connection", (344,), "connect", prepare_said, status(400)),
    ("third-party-connected", "a queue pair of another host gets a connection", (345,), "connect", prepare_said, lambda q, r: r.status >= 400),
    ("declined-put-has-etag", "a PUT that was declined has an ETag", (346,), "", header("ETag", '"0"'), lambda q, r: declines(q, r) and q.method == "PUT"),
    ("connections-full-500", "too many connections are 500", (348,), "connect", as_500, status(503)),
):
    reply_fault(CUOBJ, *fault)


@planted(CUOBJ, "disconnect-ignored", "disconnecting says 204 and does nothing", (342,), "request", "disconnect")
def disconnect_ignored(request, gate):
    return Reply(204, [], b"")


@planted(CUOBJ, "unsigned-token-served", "a token that is not signed is served", (347,), "request", "")
def unsigned_token_served(request, gate):
    if request.signs(HEADER):
        return None
    return gate.signed(request, (HEADER,), [(HEADER, request.token())])
