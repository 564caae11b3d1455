"""150-159: conditions."""
from ..case import S3, SAFETY, case, check, expect_error, expect_moved, expect_stored
from ..wire import random_bytes

DATA = random_bytes(2000)


def conditional(target, *headers):
    window = target.window(2000)
    return window, target.get(window, "object", headers=list(headers))


def etag(target):
    return target.store("object", DATA).header("etag")


@case(150, "If-None-Match with the object's ETag is 304, without a word of RDMA, and the window stays as it is.", S3)
def not_modified(target):
    window, reply = conditional(target, ("If-None-Match", etag(target)))
    expect_error(reply, 304, None, window)


@case(151, "If-Match with another ETag is 412, and the window stays as it is.", S3)
def precondition_failed(target):
    etag(target)
    window, reply = conditional(target, ("If-Match", '"00000000000000000000000000000000"'))
    expect_error(reply, 412, "PreconditionFailed", window)


@case(152, "If-Match with the object's ETag moves.", S3)
def matches(target):
    window, reply = conditional(target, ("If-Match", etag(target)))
    expect_moved(target, reply, window, DATA)


@case(153, "If-Unmodified-Since before the object's date is 412.", S3)
def unmodified_since(target):
    etag(target)
    window, reply = conditional(target, ("If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT"))
    expect_error(reply, 412, "PreconditionFailed", window)


@case(154, "If-Modified-Since before the object's date moves.", S3)
def modified_since(target):
    etag(target)
    window, reply = conditional(target, ("If-Modified-Since", "Sat, 01 Jan 2000 00:00:00 GMT"))
    expect_moved(target, reply, window, DATA)


@case(155, "PUT with If-None-Match: * on a key that exists is 412, and the object stays.", S3)
def put_if_absent(target):
    etag(target)
    reply = target.put(target.source(random_bytes(2000)), "object", headers=[("If-None-Match", "*")])
    expect_error(reply, 412, "PreconditionFailed")
    check(target.read("object") == DATA, "a refused PUT has changed the object")


@case(156, "PUT with If-None-Match: * on a key that does not exist stores.", S3)
def put_absent(target):
    target.call("DELETE", target.path("fresh"))
    expect_stored(target, target.put(target.source(DATA), "fresh", headers=[("If-None-Match", "*")]), "fresh", DATA)


@case(157, "PUT with If-Match stores on the ETag that the object has, and is 412 on another.", S3)
def put_if_match(target):
    old, new = etag(target), random_bytes(900)
    reply = target.put(target.source(new), "object", headers=[("If-Match", '"00000000000000000000000000000000"')])
    expect_error(reply, 412, "PreconditionFailed")
    expect_stored(target, target.put(target.source(new), "object", headers=[("If-Match", old)]), "object", new)


@case(158, "The ETag that a PUT by RDMA answers is the object's: If-Match with it moves.", SAFETY)
def etag_of_put(target):
    reply = target.put(target.source(DATA), "object")
    expect_stored(target, reply, "object", DATA)
    window, got = conditional(target, ("If-Match", reply.header("etag")))
    expect_moved(target, got, window, DATA)
    check(got.header("etag") == reply.header("etag"), f"ETag {reply.header('etag')} of the PUT, {got.header('etag')} of the GET")
