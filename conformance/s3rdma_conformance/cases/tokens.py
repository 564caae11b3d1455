"""220-259: tokens: other dialects, malformed ones, foreign addresses, the header's spelling."""
import time

from .. import fabric
from ..case import CEPH, DRAFT, FIELD, HTTP, SAFETY, case, check, expect_body, expect_error, expect_moved, expect_put_declined, expect_untouched
from ..wire import random_bytes

DATA = random_bytes(4000)
OFI1 = ("ofi1",)


def declines(target, make):
    """`make`: a token from a window."""
    target.store("object", DATA)
    window = target.window(4000)
    begun = time.monotonic()
    reply = target.get(window, "object", token=make(window))
    expect_body(target, reply, window, DATA)
    check(time.monotonic() - begun < 10, "a decline that takes longer than clients wait")


def malformed(target, change):
    """`change`: from a token's fields to the malformed ones."""
    target.store("object", DATA)
    window = target.window(4000)
    token = change(target.dialect.token(window).split(":"))
    expect_error(target.get(window, "object", token=":".join(token)), 400, "InvalidRDMAToken", window)


def replaced(place, text):
    return lambda fields: [*fields[:place], text, *fields[place + 1:]]


@case(220, "A version of the dialect that the server does not know is declined, not an error: clients of 400 have no fallback.", CEPH, OFI1)
def unknown_version(target):
    for family in ("ofi2", "ofi10"):
        declines(target, lambda window, family=family: target.dialect.token(window, family=family))


@case(221, "A PUT with an unknown version is declined: 501, RDMANotSupported, no ETag, nothing stored.", CEPH, OFI1)
def unknown_version_put(target):
    source = target.source(DATA)
    target.call("DELETE", target.path("unknown"))
    expect_put_declined(target, target.put(source, "unknown", token=target.dialect.token(source, family="ofi2")), "unknown")


@case(222, "A token of another family of fabrics is declined.", FIELD, OFI1)
def other_family(target):
    declines(target, lambda window: target.dialect.token(window, family="uet1"))


@case(223, "A token that is 88 hexadecimal digits (hipObject's) is declined on an object.", FIELD, OFI1)
def digits(target):
    declines(target, lambda window: "0123456789abcdef" * 5 + "01234567")


@case(224, "A token that nothing can read is declined on a GET.", FIELD, OFI1)
def unreadable(target):
    declines(target, lambda window: "no such token")


@case(225, "A provider that is not open at the server is declined.", CEPH, OFI1)
def other_provider(target):
    for provider in ("psm3", "no.such-Provider"):
        declines(target, lambda window, provider=provider: target.dialect.token(window, provider=provider))


@case(226, "The provider `shm` is declined: its keys protect nothing.", SAFETY, OFI1)
def shared_memory(target):
    declines(target, lambda window: target.dialect.token(window, provider="shm"))


@case(227, "A key of more than 8 bytes is declined.", CEPH, OFI1)
def raw_key(target):
    declines(target, lambda window: target.dialect.token(window) + "0123456789abcdef0")


@case(228, "An endpoint at an address that is neither the client's nor allowed is declined without a connection to it.", SAFETY, OFI1)
def foreign_address(target):
    declines(target, lambda window: target.dialect.token(window, name=fabric.socket_name("192.0.2.1", 40000)))


@case(229, "An endpoint at the server's own port is declined.", SAFETY, OFI1)
def own_port(target):
    address = target.connection().socket.getpeername()
    declines(target, lambda window: target.dialect.token(window, name=fabric.socket_name(address[0], address[1])))


@case(230, "A base that is not hexadecimal is 400 InvalidRDMAToken, without a word of RDMA.", DRAFT, OFI1)
def bad_base(target):
    for text in ("xyz", "", "-1"):
        malformed(target, replaced(0, text))


@case(231, "A size that is not hexadecimal is 400 InvalidRDMAToken.", DRAFT, OFI1)
def bad_size(target):
    for text in ("10g", ""):
        malformed(target, replaced(1, text))


@case(232, "A window that ends beyond 2^64 is 400 InvalidRDMAToken.", DRAFT, OFI1)
def overflow(target):
    malformed(target, lambda fields: ["ffffffffffffffff", "1000", *fields[2:]])


@case(233, "An endpoint name that is not hexadecimal, or has half a byte, is 400 InvalidRDMAToken.", DRAFT, OFI1)
def bad_name(target):
    for text in ("zz", "020", ""):
        malformed(target, replaced(4, text))


@case(234, "An endpoint name of more than 192 bytes is 400 InvalidRDMAToken.", CEPH, OFI1)
def long_name(target):
    malformed(target, replaced(4, "02" * 193))


@case(235, "An endpoint name that is no address of its provider is 400 InvalidRDMAToken or declined, and harms nothing.", SAFETY, OFI1)
def no_address(target):
    target.store("object", DATA)
    window = target.window(4000)
    for name in (b"\2", b"\xff" * 16, b"\2\0" + bytes(190)):
        reply = target.get(window, "object", token=target.dialect.token(window, name=name))
        check(reply.code() == "InvalidRDMAToken" or target.dialect.declined(reply), f"400 or a decline expected: {reply}")
        expect_untouched(window)
    target.serves()


@case(236, "A key that is not hexadecimal is 400 InvalidRDMAToken.", DRAFT, OFI1)
def bad_key(target):
    for text in ("key", ""):
        malformed(target, replaced(5, text))


@case(237, "A token with a field too few or too many is 400 InvalidRDMAToken.", DRAFT, OFI1)
def count_of_fields(target):
    malformed(target, lambda fields: fields[:5])
    malformed(target, lambda fields: [*fields, "0"])


@case(238, "A PUT with a malformed token is 400 InvalidRDMAToken, and nothing is stored.", DRAFT, OFI1)
def malformed_put(target):
    source = target.source(DATA)
    target.call("DELETE", target.path("malformed"))
    reply = target.put(source, "malformed", token=":".join(replaced(0, "xyz")(target.dialect.token(source).split(":"))))
    expect_error(reply, 400, "InvalidRDMAToken")
    check(reply.header("etag") is None and not target.exists("malformed"), "a refused PUT has stored an object")


@case(239, "A token of thousands of characters is refused or declined, and the server goes on.", SAFETY, OFI1)
def long_token(target):
    target.store("object", DATA)
    window = target.window(4000)
    reply = target.get(window, "object", token=target.dialect.token(window) + "0" * 5000)
    check(400 <= reply.status < 500 or target.dialect.declined(reply), f"a refusal or a decline expected: {reply}")
    expect_untouched(window)
    target.forget_connection()
    target.serves()


@case(240, "An empty token is a decline or a 400, never a success by RDMA.", SAFETY, OFI1)
def empty_token(target):
    target.store("object", DATA)
    reply = target.get(None, "object", token="")
    check(reply.status == 400 or (target.dialect.declined(reply) and reply.body == DATA), f"a refusal or a decline expected: {reply}")


@case(241, "An error of S3 comes before a token is looked at for service: a missing key with an unknown token is 404.", CEPH, OFI1)
def error_before_decline(target):
    window = target.window(64)
    expect_error(target.get(window, "no-such-key", token=target.dialect.token(window, family="ofi2")), 404, "NoSuchKey", window)


@case(242, "A decline of a range sends the range in the body: 206 and Content-Range.", DRAFT, OFI1)
def declined_range(target):
    target.store("object", DATA)
    window = target.window(4000)
    reply = target.get(window, "object", token=target.dialect.token(window, family="ofi2"), headers=[("Range", "bytes=100-199")])
    expect_body(target, reply, window, DATA[100:200], 206)
    check(reply.header("content-range") == "bytes 100-199/4000", f"Content-Range: {reply.header('content-range')}")


@case(243, "A declined GET of an empty object has Content-Length: 0.", HTTP, OFI1)
def declined_empty(target):
    target.store("empty", b"")
    window = target.window(16)
    reply = target.get(window, "empty", token=target.dialect.token(window, family="ofi2"))
    check(target.dialect.declined(reply) and reply.header("content-length") == "0", f"a decline with Content-Length: 0 expected: {reply}")


def spelled(target, spelling, padding=""):
    target.store("object", DATA)
    window = target.window(4000)
    token = padding + target.dialect.token(window) + padding
    expect_moved(target, target.get(window, "object", token=token, spelling=spelling), window, DATA)


@case(250, "The header's name may be spelled in any case: X-Amz-Rdma-Token.", HTTP, OFI1)
def mixed_case(target):
    spelled(target, "X-Amz-Rdma-Token")


@case(251, "The header's name may be spelled in any case: X-AMZ-RDMA-TOKEN.", HTTP, OFI1)
def upper_case(target):
    spelled(target, "X-AMZ-RDMA-TOKEN")


@case(252, "White space around the token is no part of it.", HTTP, OFI1)
def white_space(target):
    spelled(target, "x-amz-rdma-token", "  ")


@case(253, "Two tokens in one request never both get bytes.", SAFETY, OFI1)
def two_tokens(target):
    target.store("object", DATA)
    one, two = target.window(4000), target.window(4000)
    reply = target.call("GET", target.path("object"), headers=[("x-amz-rdma-token", target.dialect.token(one))],
                        unsigned=[("x-amz-rdma-token", target.dialect.token(two))])
    check(two.bytes() == bytes([0xA5]) * 4000, "the bytes went to a token that was not signed")
    check(one.bytes() in (DATA, bytes([0xA5]) * 4000), f"a window with a part of the object: {reply}")
    target.forget_connection()
