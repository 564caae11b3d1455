"""160-169: encryption, versions, tags."""
import base64
import hashlib

from ..case import S3, case, check, expect_error, expect_moved, expect_stored
from ..wire import random_bytes

DATA = random_bytes(30000)


def moves(target, key, data, headers=(), **options):
    window = target.window(len(data))
    reply = target.get(window, key, headers=headers, **options)
    expect_moved(target, reply, window, data)
    return reply


@case(160, "An object encrypted by the server (SSE-S3) is read from the window, and arrives in it, in clear.", S3)
def server_encryption(target):
    wanted = [("x-amz-server-side-encryption", "AES256")]
    target.needs(target.call("PUT", target.path("probe"), body=b"x", headers=wanted), "server-side encryption")
    reply = target.put(target.source(DATA), "encrypted", headers=wanted)
    expect_stored(target, reply, "encrypted", DATA)
    check(reply.header("x-amz-server-side-encryption") == "AES256", "the PUT's reply does not say that the object is encrypted")
    told = moves(target, "encrypted", DATA).header("x-amz-server-side-encryption")
    check(told == "AES256", "the GET's reply does not say that the object is encrypted")


def customer_key():
    key = random_bytes(32)
    prefix = "x-amz-server-side-encryption-customer-"
    return [(prefix + "algorithm", "AES256"), (prefix + "key", base64.b64encode(key).decode()),
            (prefix + "key-MD5", base64.b64encode(hashlib.md5(key).digest()).decode())]  # noqa: S324: S3's own field


@case(161, "An object encrypted with the customer's key (SSE-C) moves to a request with the key, and to no other.", S3)
def customer_encryption(target):
    key = customer_key()
    target.needs(target.call("PUT", target.path("probe"), body=b"x", headers=key), "customers' keys")
    reply = target.put(target.source(DATA), "customer", headers=key)
    check(target.dialect.moved(reply) == 200, f"moved expected: {reply}")
    moves(target, "customer", DATA, headers=key)
    for other in ([], customer_key()):
        window = target.window(len(DATA))
        reply = target.get(window, "customer", headers=other)
        check(reply.status in (400, 403), f"400 or 403 expected: {reply}")
        expect_error(reply, reply.status, None, window)


def versioned(target):
    body = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    target.needs(target.call("PUT", "/" + target.bucket, query={"versioning": ""}, body=body), "versioning")


@case(162, "In a bucket with versions a PUT by RDMA answers x-amz-version-id, and each version moves by its id.", S3)
def each_version(target):
    versioned(target)
    made = []
    for data in (random_bytes(500), random_bytes(800)):
        reply = target.put(target.source(data), "versions")
        check(reply.header("x-amz-version-id"), f"x-amz-version-id expected: {reply}")
        made.append((reply.header("x-amz-version-id"), data))
    for version, data in made:
        told = moves(target, "versions", data, query={"versionId": version}).header("x-amz-version-id")
        check(told == version, f"x-amz-version-id {version} expected, {told} there")


@case(163, "A delete marker is 404 with x-amz-delete-marker, without a word of RDMA; the version under it still moves.", S3)
def delete_marker(target):
    versioned(target)
    version = target.put(target.source(DATA), "marked").header("x-amz-version-id")
    target.must("DELETE", target.path("marked"))
    window = target.window(len(DATA))
    reply = target.get(window, "marked")
    expect_error(reply, 404, "NoSuchKey", window)
    check(reply.header("x-amz-delete-marker") == "true", "x-amz-delete-marker expected")
    moves(target, "marked", DATA, query={"versionId": version})


@case(164, "A version that does not exist is 404 NoSuchVersion, without a word of RDMA.", S3)
def no_version(target):
    versioned(target)
    version = target.put(target.source(b"data"), "gone").header("x-amz-version-id")
    target.must("DELETE", target.path("gone"), query={"versionId": version})
    window = target.window(16)
    reply = target.get(window, "gone", query={"versionId": version})
    check(reply.status == 404, f"404 expected: {reply}")
    expect_error(reply, 404, None, window)


@case(165, "Tags that a PUT by RDMA names are the object's.", S3)
def tags(target):
    expect_stored(target, target.put(target.source(DATA), "tagged", headers=[("x-amz-tagging", "colour=green")]), "tagged", DATA)
    told = target.must("GET", target.path("tagged"), query={"tagging": ""}).body
    check(b"<Key>colour</Key>" in told and b"<Value>green</Value>" in told, "the tag is missing")
