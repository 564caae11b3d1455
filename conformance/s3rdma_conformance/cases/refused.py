"""200-219: what is refused, and says nothing of RDMA."""
import datetime
import json
import time

from .. import wire
from ..case import DRAFT, S3, SAFETY, Skipped, case, check, expect_error, expect_moved, expect_untouched
from ..wire import random_bytes

DATA = random_bytes(4000)


@case(200, "A key that does not exist is 404 NoSuchKey.", S3)
def no_key(target):
    window = target.window(64)
    expect_error(target.get(window, "no-such-key"), 404, "NoSuchKey", window)


@case(201, "A bucket that does not exist is 404 NoSuchBucket, for a GET and for a PUT.", S3)
def no_bucket(target):
    window, other = target.window(64), target.source(b"data")
    missing = f"/{target.bucket}-none/key"
    expect_error(target.dialect.get(target, window, missing), 404, "NoSuchBucket", window)
    expect_error(target.dialect.put(target, other, missing), 404, "NoSuchBucket")


@case(202, "A wrong secret key is 403 SignatureDoesNotMatch, and the window stays as it is.", S3)
def wrong_secret(target):
    target.store("object", DATA)
    window = target.window(4000)
    wrong = wire.Credentials(target.credentials.access_key, "wrong" * 8, target.credentials.region)
    expect_error(target.get(window, "object", credentials=wrong), 403, "SignatureDoesNotMatch", window)


@case(203, "An anonymous request for a private object is 403, and the window stays as it is.", S3)
def anonymous(target):
    target.store("object", DATA)
    window = target.window(4000)
    expect_error(target.get(window, "object", credentials=None), 403, "AccessDenied", window)


@case(204, "A GET whose token is not among the signed headers is refused, and the window stays as it is.", DRAFT, dialects=("ofi1",))
def unsigned_get(target):
    target.store("object", DATA)
    window = target.window(4000)
    token = target.dialect.token(window)
    expect_error(target.call("GET", target.path("object"), unsigned=[("x-amz-rdma-token", token)]), 403, "AccessDenied", window)


@case(205, "A PUT whose token is not among the signed headers is refused, and nothing is stored.", DRAFT, dialects=("ofi1",))
def unsigned_put(target):
    token = target.dialect.token(target.source(DATA))
    reply = target.call("PUT", target.path("unsigned"), unsigned=[("x-amz-rdma-token", token)], payload_hash="UNSIGNED-PAYLOAD")
    expect_error(reply, 403, "AccessDenied")
    check(not target.exists("unsigned"), "a refused PUT has stored an object")


@case(206, "A token that was changed after signing is refused, and neither window changes.", SAFETY, dialects=("ofi1",))
def changed_token(target):
    target.store("object", DATA)
    signed, other = target.window(4000), target.window(4000)
    request = target.request("GET", target.path("object"), headers=[("x-amz-rdma-token", target.dialect.token(signed))])
    changed = request.replace(target.dialect.token(signed).encode(), target.dialect.token(other).encode())
    expect_error(target.connection().exchange(changed), 403, "SignatureDoesNotMatch", signed)
    expect_untouched(other)


@case(207, "A request that was signed an hour ago is refused: a token in it has expired with it.", S3)
def expired(target):
    target.store("object", DATA)
    window = target.window(4000)
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    expect_error(target.get(window, "object", when=then), 403, "RequestTimeTooSkewed", window)


@case(208, "A presigned URL does not sign a token that is sent beside it: refused.", SAFETY, dialects=("ofi1",))
def presigned(target):
    target.store("object", DATA)
    window = target.window(4000)
    path = wire.presigned(target.credentials, target.host, "GET", target.path("object"))
    head = [("Host", target.host), ("x-amz-rdma-token", target.dialect.token(window))]
    expect_error(target.connection().exchange(wire.raw(f"GET {path} HTTP/1.1", head)), 403, "AccessDenied", window)


@case(209, "A request replayed after its window was withdrawn reaches no memory: the body comes, or an error.", SAFETY, dialects=("ofi1",))
def replayed(target):
    target.store("object", DATA)
    window = target.window(4000)
    request = target.request("GET", target.path("object"), headers=[("x-amz-rdma-token", target.dialect.token(window))])
    expect_moved(target, target.connection().exchange(request), window, DATA)
    window.close()
    later = target.window(4000)
    reply = target.connection().exchange(request)
    check(target.dialect.moved(reply) is None, f"a replay says that it moved bytes: {reply}")
    check(reply.status >= 400 or (target.dialect.declined(reply) and reply.body == DATA), f"the body or an error expected: {reply}")
    expect_untouched(later)


@case(210, "A right that a policy denies is denied by RDMA, too: 403, and the window stays as it is.", S3)
def denied(target):
    target.store("denied/object", DATA)
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*", "Action": ["s3:GetObject", "s3:PutObject"],
                                                      "Resource": f"arn:aws:s3:::{target.bucket}/denied/*"}]}
    target.needs(target.call("PUT", "/" + target.bucket, query={"policy": ""}, body=json.dumps(policy).encode()), "bucket policies")
    try:
        for _ in range(20):
            plain = target.call("GET", target.path("denied/object"))
            if plain.status == 403:
                break
            time.sleep(0.1)
        if plain.status != 403:
            raise Skipped("the account is above bucket policies")
        window = target.window(4000)
        expect_error(target.get(window, "denied/object"), 403, "AccessDenied", window)
        expect_error(target.put(target.source(b"other"), "denied/object"), 403, "AccessDenied")
    finally:
        target.call("DELETE", "/" + target.bucket, query={"policy": ""})
    check(target.read("denied/object") == DATA, "a denied PUT has changed the object")


@case(211, "An access key that does not exist is 403, before anything connects to its endpoint.", S3)
def unknown_key(target):
    target.store("object", DATA)
    window = target.window(4000)
    stranger = wire.Credentials("S3RDMANOSUCHKEY00000", "secret" * 6, target.credentials.region)
    expect_error(target.get(window, "object", credentials=stranger), 403, "InvalidAccessKeyId", window)
