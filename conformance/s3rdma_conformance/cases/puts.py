"""180-199: PUT."""
from ..case import DRAFT, FIELD, S3, SAFETY, Skipped, case, check, expect_error, expect_moved, expect_put_declined, expect_stored
from ..wire import random_bytes


def stores(target, size):
    data = random_bytes(size)
    expect_stored(target, target.put(target.source(data), "put"), "put", data)


@case(180, "A PUT stores exactly the window's bytes.", DRAFT)
def sizes(target):
    for size in (1, 4095, 70001):
        stores(target, size)


@case(181, "A PUT of 1 MiB stores exactly the window's bytes.", DRAFT)
def one_mebibyte(target):
    stores(target, 1 << 20)


@case(182, "A PUT that takes many operations stores exactly the window's bytes.", DRAFT)
def many_operations(target):
    stores(target, (16 << 20) + 1)


@case(183, "A PUT from a window of no bytes stores an empty object.", DRAFT, dialects=("ofi1",))
def empty(target):
    source = target.source(b"unused")
    expect_stored(target, target.put(source, "empty", token=target.dialect.token(source, size=0)), "empty", b"")


@case(184, "A signed x-amz-rdma-bytes stores that many of the window's bytes.", FIELD, dialects=("ofi1",))
def fewer_bytes(target):
    data = random_bytes(5000)
    reply = target.put(target.source(data), "fewer", headers=[("x-amz-rdma-bytes", "1200")])
    if target.dialect.moved(reply) and reply.header("x-amz-rdma-bytes-transferred") == "5000":
        raise Skipped("the server does not know x-amz-rdma-bytes")
    expect_stored(target, reply, "fewer", data[:1200])


@case(185, "x-amz-rdma-bytes beyond the window is refused, and nothing is stored.", SAFETY, dialects=("ofi1",))
def more_bytes(target):
    data = random_bytes(500)
    target.call("DELETE", target.path("more"))
    reply = target.put(target.source(data), "more", headers=[("x-amz-rdma-bytes", "501")])
    if target.dialect.moved(reply) and reply.header("x-amz-rdma-bytes-transferred") == "500":
        raise Skipped("the server does not know x-amz-rdma-bytes")
    check(400 <= reply.status < 500, f"a refusal expected: {reply}")
    check(not target.exists("more"), "a refused PUT has stored an object")


def refuses(target, key, **options):
    source = target.source(random_bytes(300))
    target.call("DELETE", target.path(key))
    reply = target.put(source, key, **options)
    target.forget_connection()
    check(400 <= reply.status < 500, f"a refusal expected: {reply}")
    expect_error(reply, reply.status)
    check(not target.exists(key), "a refused PUT has stored an object")


@case(186, "A PUT with a token and a body is refused: its bytes would have two sources.", DRAFT, dialects=("ofi1",))
def with_body(target):
    refuses(target, "body", body=b"other bytes")


@case(187, "A PUT with a token and Content-MD5 is refused.", DRAFT, dialects=("ofi1",))
def with_md5(target):
    refuses(target, "md5", headers=[("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==")])


@case(188, "A PUT with a token in aws-chunked framing is refused.", DRAFT, dialects=("ofi1",))
def with_chunks(target):
    refuses(target, "chunked", headers=[("x-amz-decoded-content-length", "0"), ("Content-Encoding", "aws-chunked")], body=b"0\r\n\r\n",
            payload_hash="STREAMING-UNSIGNED-PAYLOAD-TRAILER")


@case(189, "A PUT keeps type and metadata that the request names.", S3)
def metadata(target):
    data = random_bytes(100)
    headers = [("Content-Type", "text/x-odd"), ("x-amz-meta-colour", "green")]
    expect_stored(target, target.put(target.source(data), "meta", headers=headers), "meta", data)
    told = target.call("HEAD", target.path("meta"))
    check(told.header("content-type") == "text/x-odd" and told.header("x-amz-meta-colour") == "green", "type or metadata is not the request's")


@case(190, "A PUT over an object replaces it.", S3)
def replaces(target):
    for data in (random_bytes(3000), random_bytes(1000)):
        expect_stored(target, target.put(target.source(data), "twice"), "twice", data)


@case(191, "A PUT leaves the window's bytes as they are.", SAFETY)
def leaves_window(target):
    data = random_bytes(10000)
    window = target.window(10000, "both", data)
    expect_stored(target, target.put(window, "left"), "left", data)
    check(window.bytes() == data, "a PUT has changed the client's memory")


@case(192, "An object that a PUT by RDMA stored moves back by RDMA.", DRAFT)
def round_trip(target):
    data = random_bytes(100000)
    expect_stored(target, target.put(target.source(data), "round"), "round", data)
    window = target.window(100000)
    expect_moved(target, target.get(window, "round"), window, data)


@case(193, "A PUT that is declined can be sent again with a body at once, on the same connection.", DRAFT, dialects=("ofi1",))
def body_after_decline(target):
    data = random_bytes(2000)
    source = target.source(data)
    target.call("DELETE", target.path("again"))
    expect_put_declined(target, target.put(source, "again", token=target.dialect.token(source, family="ofi2")), "again")
    target.store("again", data)
    check(target.read("again") == data, "the object is not the body that was sent after a decline")


@case(194, "A PUT with the digest of an empty body as its payload hash is served as one that is not signed for its payload.", FIELD,
      dialects=("ofi1",))
def hash_of_nothing(target):
    data = random_bytes(2000)
    expect_stored(target, target.put(target.source(data), "hash", payload_hash=None), "hash", data)
