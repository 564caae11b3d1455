#!/usr/bin/python3
"""The format of docs/sealed-rdma.md, written from that page alone: independent of the server's and the client's code.

usage: sealed_format.py --write FILE    makes vectors.json (fixed inputs: the same bytes each time)
       sealed_format.py FILE            checks every vector, and that no changed one can be opened
"""
import hashlib
import hmac
import json
import struct
import sys

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

CIPHERS = {"aes-256-gcm": AESGCM, "chacha20-poly1305": ChaCha20Poly1305}
KINDS = {"open": 1, "message": 2}
RECORD = 64 << 10


def mac(key, text):
    return hmac.new(key, text, hashlib.sha256).digest()


def aead(vector, use):
    """The cipher of a direction for messages or records, under the key of the number's epoch."""
    root = mac(bytes.fromhex(vector["connection_key"]),
               f"verbena-sealed-1 {use} {vector['direction']}".encode() + b"\0" + bytes.fromhex(vector["salt"]))
    epoch = vector["number"] >> 24
    return CIPHERS[vector["cipher"]](mac(root, b"verbena-sealed-1 epoch\0" + struct.pack("<Q", epoch)))


def nonce(number):
    return bytes(4) + struct.pack("<Q", number)


def envelope(vector):
    kind = KINDS[vector["kind"]]
    head = b"VNS\x01" + bytes([kind, 0, 0, 0]) + struct.pack("<QQ", vector["session"], vector["number"])
    if vector["kind"] == "open":
        head += bytes.fromhex(vector["salt"])
    return head, head + aead(vector, "messages").encrypt(nonce(vector["number"]), bytes.fromhex(vector["plain"]), head)


def context(vector):
    return struct.pack("<QQQ", vector["window"], vector["offset"], len(vector["plain"]) // 2)


def record(vector):
    return aead(vector, "records").encrypt(nonce(vector["number"]), bytes.fromhex(vector["plain"]), context(vector))


def transfer(vector):
    """The memory of a sealed token: all records one behind the other, then their tags."""
    plain = bytes.fromhex(vector["plain"])
    root = mac(bytes.fromhex(vector["connection_key"]),
               f"verbena-sealed-1 transfer {vector['direction']}".encode() + b"\0" + bytes.fromhex(vector["salt"])
               + struct.pack("<Q", len(plain)))
    cipher = CIPHERS[vector["cipher"]](mac(root, b"verbena-sealed-1 epoch\0" + struct.pack("<Q", 0)))
    body, tags = b"", b""
    for number, at in enumerate(range(0, len(plain), RECORD)):
        part = plain[at:at + RECORD]
        bound = struct.pack("<QQQ", vector["window"], vector["offset"] + at, len(part))
        both = cipher.encrypt(nonce(number), part, bound)
        body, tags = body + both[:-16], tags + both[-16:]
    return body + tags


def transfers():
    """Only the digest of what is sealed stands in the file where it is long."""
    for cipher in CIPHERS:
        for direction, salt, size in (("to server", bytes(16), 100), ("to client", bytes(range(16)), RECORD),
                                      ("to client", bytes(range(16)), 2 * RECORD + 1)):
            plain = (hashlib.sha512(f"{cipher} {size}".encode()).digest() * (size // 64 + 1))[:size]
            yield {"cipher": cipher, "connection_key": bytes(range(32)).hex(), "salt": salt.hex(),
                   "direction": direction, "window": 7, "offset": 0x1000, "plain": plain.hex()}


def written(vector):
    """How a transfer stands in the file: `plain` as 64 bytes that repeat."""
    size = len(vector["plain"]) // 2
    return {**vector, "what": "transfer", "size": size, "plain": vector["plain"][:128],
            "sealed_sha256": hashlib.sha256(transfer(vector)).hexdigest()}


def inputs():
    key, salt = bytes(range(32)).hex(), bytes(range(100, 116)).hex()
    for cipher in CIPHERS:
        common = {"cipher": cipher, "connection_key": key, "salt": salt}
        for direction, kind, number in (("to server", "open", 1), ("to server", "message", 2), ("to client", "message", 1),
                                        ("to client", "message", (1 << 24) + 5)):
            yield {**common, "what": "message", "direction": direction, "kind": kind, "session": 0x1122334455667788,
                   "number": number, "plain": hashlib.sha512(f"{cipher} {number}".encode()).hexdigest()}
        for direction, number, size in (("to server", 0, 64), ("to client", 7, 1), ("to client", (1 << 24) - 1, 300),
                                        ("to client", 1 << 24, 300)):
            plain = b"".join(hashlib.sha256(f"{number} {i}".encode()).digest() for i in range(10))[:size]
            yield {**common, "what": "record", "direction": direction, "window": 3, "offset": 65536, "number": number,
                   "plain": plain.hex()}


def sealed(vector):
    return (envelope(vector)[1] if vector["what"] == "message" else record(vector)).hex()


def check(vector):
    assert sealed(vector) == vector["sealed"], vector
    raw = bytearray.fromhex(vector["sealed"])
    head = envelope(vector)[0] if vector["what"] == "message" else context(vector)
    use = "messages" if vector["what"] == "message" else "records"
    body = raw[len(head):] if vector["what"] == "message" else raw
    for at in range(0, len(body), 7):
        changed = bytearray(body)
        changed[at] ^= 1 << at % 8
        try:
            aead(vector, use).decrypt(nonce(vector["number"]), bytes(changed), head)
        except InvalidTag:
            continue
        raise AssertionError(f"a change at byte {at} was not noticed: {vector}")


def main():
    if sys.argv[1] == "--write":
        vectors = [{**vector, "sealed": sealed(vector)} for vector in inputs()] + [written(v) for v in transfers()]
        with open(sys.argv[2], "w") as file:
            json.dump(vectors, file, indent=1)
            file.write("\n")
        return
    with open(sys.argv[1]) as file:
        vectors = json.load(file)
    for vector in vectors:
        if vector["what"] != "transfer":
            check(vector)
    assert [v for v in vectors if v["what"] == "transfer"] == [written(v) for v in transfers()]
    print(f"{len(vectors)} vectors")


main()
