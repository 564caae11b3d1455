"""Bytes that name the writes they come from: every line has the write's name.

A write's name ends in its size; a content is one name, or several with "+" between them (an object that was appended
to). `content_of` gives "bytes of no write" for anything else, a mixture of two writes among it.
"""
import functools
import hashlib

NO_WRITE = "bytes of no write"


@functools.lru_cache(maxsize=20_000)
def _size(name):
    return max(int(name.rsplit(":", 1)[1]), len(name) + 1)


@functools.lru_cache(maxsize=4096)
def size_of(content):
    return sum(map(_size, content.split("+"))) if ":" in content else 0


def body_of(content):
    if "+" in content:
        return b"".join(map(body_of, content.split("+")))
    line, size = f"{content}\n".encode(), _size(content)
    return (line * (size // len(line) + 1))[:size]


def content_of(body):
    body, names, at = bytes(body), [], 0
    while at < len(body):
        end = body.find(b"\n", at, at + 200)
        name = body[at:end].decode(errors="replace") if end > at else ""
        try:
            size = _size(name)
        except (ValueError, IndexError):
            return NO_WRITE
        if body[at:at + size] != body_of(name):
            return NO_WRITE
        names.append(name)
        at += size
    return "+".join(names) or NO_WRITE


@functools.lru_cache(maxsize=4096)
def md5_of(content):
    return hashlib.md5(body_of(content), usedforsecurity=False).hexdigest()


def etag_of_parts(etags):
    """Of a completed upload: a part's tag that is no MD5, as in directory buckets, counts with its text (docs/s3.md)."""
    digests = b"".join(etag.encode() if "-" in etag else bytes.fromhex(etag) for etag in etags)
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(etags)}"
