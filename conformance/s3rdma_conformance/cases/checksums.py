"""140-149: checksums of what moved, and of objects."""
from ..case import CEPH, DRAFT, S3, case, check, expect_checksum, expect_moved, expect_stored
from ..checksums import crc32c, crc64nvme
from ..wire import random_bytes


@case(140, "A GET says the CRC64NVME of the bytes that it moved in x-amz-rdma-checksum-crc64nvme.", CEPH)
def get(target):
    data = random_bytes(20000)
    target.store("object", data)
    window = target.window(20000)
    reply = target.get(window, "object")
    expect_moved(target, reply, window, data)
    expect_checksum(reply, data)


@case(141, "The checksum of a range covers the range's bytes alone.", CEPH)
def ranged(target):
    data = random_bytes(20000)
    target.store("object", data)
    window = target.window(5000)
    reply = target.get(window, "object", headers=[("Range", "bytes=5000-9999")])
    expect_moved(target, reply, window, data[5000:10000], 206)
    expect_checksum(reply, data[5000:10000])


@case(142, "x-amz-rdma-checksum-algorithm: CRC32C chooses x-amz-rdma-checksum-crc32c.", CEPH)
def chosen(target):
    data = random_bytes(20000)
    target.store("object", data)
    window = target.window(20000)
    reply = target.get(window, "object", headers=[("x-amz-rdma-checksum-algorithm", "CRC32C")])
    expect_moved(target, reply, window, data)
    expect_checksum(reply, data, "crc32c")


@case(143, "A PUT says the checksum of the bytes that it read.", CEPH)
def put(target):
    data = random_bytes(20000)
    reply = target.put(target.source(data), "put")
    expect_stored(target, reply, "put", data)
    expect_checksum(reply, data)


@case(144, "A PUT's x-amz-checksum-* is over the raw buffer; the server verifies it and keeps it.", DRAFT)
def kept(target):
    data = random_bytes(20000)
    reply = target.put(target.source(data), "put", headers=[("x-amz-checksum-crc32c", crc32c(data))])
    expect_stored(target, reply, "put", data)
    told = target.must("GET", target.path("put"), headers=[("x-amz-checksum-mode", "ENABLED")]).header("x-amz-checksum-crc32c")
    check(told == crc32c(data), f"x-amz-checksum-crc32c of the object: {told}")


@case(145, "A PUT whose bytes do not have the checksum that it names is refused, and nothing is stored.", DRAFT)
def wrong(target):
    target.call("DELETE", target.path("wrong"))
    reply = target.put(target.source(random_bytes(20000)), "wrong", headers=[("x-amz-checksum-crc64nvme", crc64nvme(b"other bytes"))])
    check(reply.status == 400, f"status 400 expected: {reply}")
    check(reply.header("x-amz-rdma-reply") is None and reply.header("etag") is None, f"a refused PUT says that it was served: {reply}")
    check(not target.exists("wrong"), "a PUT with a wrong checksum has stored an object")


@case(146, "A GET by RDMA in x-amz-checksum-mode ENABLED returns the object's checksum.", DRAFT)
def mode_enabled(target):
    data = random_bytes(5000)
    target.store("object", data, headers=[("x-amz-checksum-crc64nvme", crc64nvme(data))])
    window = target.window(5000)
    reply = target.get(window, "object", headers=[("x-amz-checksum-mode", "ENABLED")])
    expect_moved(target, reply, window, data)
    check(reply.header("x-amz-checksum-crc64nvme") == crc64nvme(data), "the object's checksum is missing or wrong")


@case(147, "An empty object has the checksum of no bytes.", CEPH)
def empty(target):
    target.store("empty", b"")
    reply = target.get(target.window(16), "empty")
    check(target.dialect.moved(reply) == 200, f"moved expected: {reply}")
    expect_checksum(reply, b"")


@case(148, "A PUT of many operations with a wrong CRC32C stores nothing.", S3)
def wrong_over_many(target):
    target.call("DELETE", target.path("wrong"))
    reply = target.put(target.source(random_bytes(1 << 20)), "wrong", headers=[("x-amz-checksum-crc32c", crc32c(b"other"))])
    check(reply.status == 400 and not target.exists("wrong"), f"refused and nothing stored expected: {reply}")
