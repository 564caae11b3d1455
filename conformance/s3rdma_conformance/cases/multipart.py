"""170-179: multipart uploads."""
from ..case import DRAFT, S3, case, check, expect_error, expect_moved, expect_said
from ..wire import random_bytes

PART = 5 << 20


def by_rdma(target, key, data):
    def upload(query):
        reply = target.put(target.source(data), key, query=query)
        expect_said(target, reply, len(data))
        return reply
    return upload


def by_http(target, key, data):
    return lambda query: target.must("PUT", target.path(key), query=query, body=data)


@case(170, "Parts by RDMA make one object, in their order.", DRAFT)
def parts(target):
    first, second = random_bytes(PART), random_bytes(1001)
    target.multipart("parts", [by_rdma(target, "parts", first), by_rdma(target, "parts", second)])
    check(target.read("parts") == first + second, "the object is not its parts' bytes")


@case(171, "Parts by RDMA and parts by HTTP mix in one upload.", DRAFT)
def mixed(target):
    first, second = random_bytes(PART), random_bytes(1001)
    target.multipart("mixed", [by_http(target, "mixed", first), by_rdma(target, "mixed", second)])
    window = target.window(PART + 1001)
    expect_moved(target, target.get(window, "mixed"), window, first + second)


@case(172, "A GET with partNumber moves that part alone, with status 206.", S3)
def one_part(target):
    first, second = random_bytes(PART), random_bytes(1001)
    target.multipart("numbered", [by_http(target, "numbered", first), by_http(target, "numbered", second)])
    window = target.window(1001)
    reply = target.get(window, "numbered", query={"partNumber": "2"})
    expect_moved(target, reply, window, second, 206)
    check(reply.header("x-amz-mp-parts-count") == "2", f"x-amz-mp-parts-count: {reply.header('x-amz-mp-parts-count')}")


@case(173, "A part of an upload that does not exist is 404 NoSuchUpload, without a word of RDMA.", S3)
def no_upload(target):
    reply = target.put(target.source(random_bytes(1000)), "none", query={"partNumber": "1", "uploadId": "0" * 32})
    expect_error(reply, 404, "NoSuchUpload")


@case(174, "A part that is declined has no ETag, and the upload has no such part.", DRAFT, dialects=("ofi1",))
def declined(target):
    begun = target.must("POST", target.path("declined"), query={"uploads": ""}).body
    upload = begun.partition(b"<UploadId>")[2].partition(b"</UploadId>")[0].decode()
    source = target.source(random_bytes(1000))
    token = target.dialect.token(source, family="ofi2")
    reply = target.put(source, "declined", token=token, query={"partNumber": "1", "uploadId": upload})
    check(target.dialect.declined(reply) and reply.status == 501 and reply.header("etag") is None, f"a declined part expected: {reply}")
    listed = target.must("GET", target.path("declined"), query={"uploadId": upload}).body
    check(b"<Part>" not in listed, "a declined part is listed")
    target.must("DELETE", target.path("declined"), query={"uploadId": upload})


@case(175, "The same part sent again replaces the first.", S3)
def again(target):
    first, second = random_bytes(2000), random_bytes(3000)

    def twice(query):
        by_rdma(target, "again", first)(query)
        return by_rdma(target, "again", second)(query)
    target.multipart("again", [twice])
    check(target.read("again") == second, "the object is not the second upload of its part")
