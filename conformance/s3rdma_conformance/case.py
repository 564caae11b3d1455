"""The cases' registry, and what they expect of replies."""
from .checksums import crc32c, crc64nvme

DRAFT, CEPH, S3, HTTP, FIELD, SAFETY, HIPOBJ, SHIM = "draft 1.0", "Ceph", "S3", "HTTP", "field", "safety", "hipObject", "shim"
SOURCES = {
    DRAFT: "RDMA_PROTOCOL_SPEC.md, version 1.0 of October 2025, the draft in a fork of aws-c-s3",
    CEPH: "Ceph's doc/radosgw/s3-rdma.rst and its clients",
    S3: "the public S3 API reference and Signature Version 4",
    HTTP: "RFC 9110 and RFC 9112",
    FIELD: "what clients in the field send, and what they check on replies",
    HIPOBJ: "the test servers of hipObject and elbencho for hipobj-rc-v2, and Ceph's doc/radosgw, S3 over RDMA",
    SHIM: "elbencho's tools/s3rdma/cuobjclient-shim and its server",
    SAFETY: "a window is a client's memory and a token a capability for it",
}
CASES = {}


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


class Case:
    def __init__(self, number, rule, source, run, dialects):
        self.number, self.rule, self.source, self.run, self.dialects = number, rule, source, run, dialects
        self.name = run.__name__


def case(number, rule, source, dialects=None):
    """`rule`: the sentence that a server must keep. `dialects`: those whose bytes the case speaks; None: every dialect."""
    def add(run):
        if number in CASES:
            raise ValueError(f"two cases {number}")
        CASES[number] = Case(number, rule, source, run, dialects)
        return run
    return add


def check(holds, message):
    if not holds:
        raise Failed(message)


def same(there, expected, what):
    if there == expected:
        return
    at = next((i for i, (a, b) in enumerate(zip(there, expected)) if a != b), min(len(there), len(expected)))
    raise Failed(f"{what}: {len(there)} bytes, {len(expected)} expected, different from byte {at} on")


def expect_moved(target, reply, window, data, status=200):
    """A GET by RDMA: the bytes are at the window's start, and nothing else there has changed."""
    expect_said(target, reply, len(data), status)
    same(window.bytes()[:len(data)], data, "the window")
    check(window.bytes()[len(data):] == bytes([0xA5]) * (window.size - len(data)), "the window has changed behind the object's bytes")


def expect_said(target, reply, size, status=200):
    check(reply.status == status, f"status {status} expected: {reply}")
    check(target.dialect.moved(reply) == status, f"a reply that says {status} by RDMA expected: {reply}")
    check(reply.body == b"", f"an empty body expected: {reply}")
    check(reply.header("x-amz-rdma-bytes-transferred") == str(size), f"x-amz-rdma-bytes-transferred: {size} expected: {reply}")
    check(not target.dialect.tells_etag or reply.header("etag") is not None, f"an ETag expected: {reply}")


def expect_stored(target, reply, key, data, status=200):
    expect_said(target, reply, len(data), status)
    same(target.read(key), data, "the object")


def expect_body(target, reply, window, data, status=200):
    """A GET that was declined: the object in the body, the window as it was."""
    check(reply.status == status, f"status {status} expected: {reply}")
    check(target.dialect.declined(reply), f"a reply that declines RDMA expected: {reply}")
    same(reply.body, data, "the body")
    if window is not None:
        expect_untouched(window)


def expect_put_declined(target, reply, key):
    check(target.dialect.declined(reply), f"a reply that declines RDMA expected: {reply}")
    check(reply.status == 501, f"status 501 expected: {reply}")
    check(reply.code() == "RDMANotSupported", f"RDMANotSupported expected: {reply}")
    check(reply.header("etag") is None, "an ETag on a declined PUT")
    check(not target.exists(key), "a declined PUT has stored an object")


def expect_error(reply, status, code=None, window=None):
    """A plain error of S3, which says nothing of RDMA."""
    check(reply.status == status, f"status {status} expected: {reply}")
    check(code is None or reply.code() == code, f"{code} expected: {reply}")
    check(reply.header("x-amz-rdma-reply") is None, f"an error with x-amz-rdma-reply: {reply}")
    if window is not None:
        expect_untouched(window)


def expect_untouched(window):
    window.settle()
    check(window.bytes() == bytes([0xA5]) * window.size, "the window has changed")


def expect_checksum(reply, data, algorithm="crc64nvme"):
    expected = {"crc64nvme": crc64nvme, "crc32c": crc32c}[algorithm](data)
    said = reply.header(f"x-amz-rdma-checksum-{algorithm}")
    check(said == expected, f"x-amz-rdma-checksum-{algorithm}: {expected} expected, {said} there")
