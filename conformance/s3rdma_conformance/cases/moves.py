"""100-119: what a GET moves."""
from ..case import CEPH, DRAFT, FIELD, S3, SAFETY, case, check, expect_body, expect_moved, expect_said
from ..wire import random_bytes


def moves(target, size, window_size=None):
    data = random_bytes(size)
    target.store("object", data)
    window = target.window(window_size or size)
    expect_moved(target, target.get(window, "object"), window, data)


@case(101, "A GET of one byte moves that byte.", DRAFT)
def one_byte(target):
    moves(target, 1)


@case(102, "A GET moves exactly the object's bytes, whatever its size is.", DRAFT)
def odd_size(target):
    for size in (4095, 4097, 70001):
        moves(target, size)


@case(103, "A GET of 1 MiB moves exactly the object's bytes.", DRAFT)
def one_mebibyte(target):
    moves(target, 1 << 20)


@case(104, "A GET of an object that takes many operations moves all of its bytes.", DRAFT)
def many_operations(target):
    moves(target, (16 << 20) + 1)


@case(105, "A GET of an empty object succeeds by RDMA with 0 bytes.", FIELD)
def empty(target):
    moves(target, 0, 64)


@case(106, "Bytes of the window behind the object's end stay as they are.", SAFETY)
def larger_window(target):
    moves(target, 5000, 20000)


@case(107, "A GET into a window of exactly the object's size moves.", DRAFT)
def exact_window(target):
    moves(target, 8192)


@case(108, "An object that does not fit the window is declined and sent in the body, never cut; the window stays as it is.", DRAFT)
def window_too_small(target):
    data = random_bytes(5000)
    target.store("object", data)
    window = target.window(4999)
    expect_body(target, target.get(window, "object"), window, data)


@case(109, "A window of no bytes is too small for any object that has some.", DRAFT, dialects=("ofi1",))
def window_of_nothing(target):
    target.store("object", b"0123456789")
    window = target.window(64)
    expect_body(target, target.get(window, "object", token=target.dialect.token(window, size=0)), window, b"0123456789")


@case(110, "Byte i of the object is written at the token's base + i, also where the base lies inside a region.", CEPH, dialects=("ofi1",))
def base_inside_region(target):
    data = random_bytes(1000)
    target.store("object", data)
    window = target.window(4096)
    reply = target.get(window, "object", token=target.dialect.token(window, base=window.base + 512, size=1000))
    expect_said(target, reply, 1000)
    filler = bytes([0xA5])
    check(window.bytes() == filler * 512 + data + filler * (4096 - 1512), "the bytes are not at the token's base, or others have changed")


@case(111, "A reply by RDMA has the headers of a plain GET: type, metadata, ETag and date.", DRAFT)
def usual_headers(target):
    target.store("object", b"some bytes", headers=[("Content-Type", "text/x-odd"), ("x-amz-meta-colour", "green"), ("Cache-Control", "max-age=7")])
    plain = target.must("GET", target.path("object"))
    window = target.window(64)
    reply = target.get(window, "object")
    expect_moved(target, reply, window, b"some bytes")
    for name in ("etag", "last-modified", "content-type", "x-amz-meta-colour", "cache-control"):
        check(reply.header(name) == plain.header(name), f"{name}: {plain.header(name)} without RDMA, {reply.header(name)} with it")


@case(112, "A reply by RDMA has Content-Length: 0, and the reply to the next request follows at once.", DRAFT)
def connection_stays(target):
    data = random_bytes(3000)
    target.store("object", data)
    window = target.window(3000)
    reply = target.get(window, "object")
    expect_moved(target, reply, window, data)
    check(reply.header("content-length") == "0", f"Content-Length: 0 expected: {reply.header('content-length')}, {reply}")
    check(target.read("object") == data, "the next reply on the connection is not the object")


@case(113, "Keys with spaces, percent signs and other alphabets move as others do.", S3)
def odd_keys(target):
    for key in ("a b+c", "per%cent", "дело/日本", "quote'd&more"):
        target.store(key, key.encode())
        window = target.window(100)
        expect_moved(target, target.get(window, key), window, key.encode())


@case(114, "A window may be used again after the reply: it holds the second object's bytes and no others.", DRAFT)
def window_again(target):
    first, second = random_bytes(4000), random_bytes(4000)
    target.store("first", first)
    target.store("second", second)
    window = target.window(4000)
    expect_moved(target, target.get(window, "first"), window, first)
    expect_moved(target, target.get(window, "second"), window, second)


@case(115, "Each request is served by its own token: a second window gets the bytes, the first stays as it is.", SAFETY)
def own_window(target):
    first, second = random_bytes(4000), random_bytes(4000)
    target.store("first", first)
    target.store("second", second)
    one, two = target.window(4000), target.window(4000)
    expect_moved(target, target.get(one, "first"), one, first)
    expect_moved(target, target.get(two, "second"), two, second)
    check(one.bytes() == first, "the window of an earlier request has changed")


@case(116, "Response overrides of the query hold by RDMA, too.", S3)
def response_overrides(target):
    target.store("object", b"bytes")
    window = target.window(16)
    reply = target.get(window, "object", query={"response-content-type": "text/override"})
    expect_moved(target, reply, window, b"bytes")
    check(reply.header("content-type") == "text/override", f"Content-Type: {reply.header('content-type')}")


@case(117, "HEAD ignores a token: Content-Length is the object's, nothing moves, no header speaks of RDMA.", DRAFT, dialects=("ofi1",))
def head(target):
    target.store("object", b"twelve bytes")
    window = target.window(64)
    reply = target.call("HEAD", target.path("object"), headers=[("x-amz-rdma-token", target.dialect.token(window))])
    check(reply.status == 200 and reply.header("content-length") == "12", f"Content-Length 12 expected: {reply.header('content-length')}, {reply}")
    check(reply.header("x-amz-rdma-reply") is None, f"HEAD with x-amz-rdma-reply: {reply}")
    check(window.bytes() == bytes([0xA5]) * 64, "HEAD has written to the window")
