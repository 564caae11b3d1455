"""120-139: ranges."""
from ..case import DRAFT, FIELD, S3, case, check, expect_body, expect_error, expect_moved
from ..wire import random_bytes

DATA = random_bytes(9000)


def ranged(target, text, first, last, window_size=None):
    target.store("object", DATA)
    part = DATA[first:last + 1]
    window = target.window(window_size or len(part))
    reply = target.get(window, "object", headers=[("Range", text)])
    expect_moved(target, reply, window, part, 206)
    check(reply.header("content-range") == f"bytes {first}-{last}/9000", f"Content-Range: {reply.header('content-range')}")


@case(120, "A range moves its bytes alone: status 206, the same in x-amz-rdma-reply, and Content-Range.", DRAFT)
def middle(target):
    ranged(target, "bytes=1000-2999", 1000, 2999)


@case(121, "A suffix range moves the object's last bytes.", S3)
def suffix(target):
    ranged(target, "bytes=-700", 8300, 8999)


@case(122, "An open range moves the bytes up to the object's end.", S3)
def open_end(target):
    ranged(target, "bytes=8000-", 8000, 8999)


@case(123, "A range of the last byte moves one byte.", S3)
def last_byte(target):
    ranged(target, "bytes=8999-8999", 8999, 8999)


@case(124, "A range's first byte lands at the window's start, not at its place in the object.", DRAFT)
def lands_at_start(target):
    ranged(target, "bytes=4000-4999", 4000, 4999, 9000)


@case(125, "A range that ends behind the object is cut to the object's end.", S3)
def past_the_end(target):
    ranged(target, "bytes=8990-99999", 8990, 8999, 64)


@case(126, "A range that cannot be satisfied is 416 InvalidRange, without a word of RDMA.", S3)
def unsatisfiable(target):
    target.store("object", DATA)
    window = target.window(9000)
    expect_error(target.get(window, "object", headers=[("Range", "bytes=9000-9100")]), 416, "InvalidRange", window)


@case(127, "A range that does not fit the window is declined and sent in the body with status 206.", DRAFT)
def too_small(target):
    target.store("object", DATA)
    window = target.window(99)
    reply = target.get(window, "object", headers=[("Range", "bytes=0-99")])
    expect_body(target, reply, window, DATA[:100], 206)
    check(reply.header("content-range") == "bytes 0-99/9000", f"Content-Range: {reply.header('content-range')}")


@case(128, "A range that fits the window moves, though the object would not fit.", DRAFT)
def object_would_not_fit(target):
    ranged(target, "bytes=10-19", 10, 19, 10)


@case(129, "A Range header that is malformed is ignored: the whole object moves with status 200.", S3)
def malformed(target):
    target.store("object", DATA)
    window = target.window(9000)
    expect_moved(target, target.get(window, "object", headers=[("Range", "bytes=later")]), window, DATA)


@case(130, "A range of 1 MiB in a larger object moves exactly those bytes.", FIELD)
def large_range(target):
    data = random_bytes(3 << 20)
    target.store("large", data)
    window = target.window(1 << 20)
    reply = target.get(window, "large", headers=[("Range", f"bytes={1 << 20}-{(2 << 20) - 1}")])
    expect_moved(target, reply, window, data[1 << 20:2 << 20], 206)
