#!/usr/bin/python3
"""The keys of docs/native-protocol.md, section 1.3, and the format of docs/sealed-rdma.md, written from those pages (and
RFC 7748) alone: independent of the server's and the client's code.

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

P = 2**255 - 19
CIPHERS = {"aes-256-gcm": AESGCM, "chacha20-poly1305": ChaCha20Poly1305}
KINDS = {"open": 1, "message": 2}
RECORD = 64 << 10


def mac(key, text):
    return hmac.new(key, text, hashlib.sha256).digest()


def x25519(scalar, point):
    """RFC 7748, section 5: the Montgomery ladder. Not in constant time: for test vectors alone."""
    k = bytearray(scalar)
    k[0] &= 248
    k[31] = k[31] & 127 | 64
    k = int.from_bytes(k, "little")
    x1 = int.from_bytes(point, "little") & (1 << 255) - 1
    x2, z2, x3, z3, swapped = 1, 0, x1, 1, 0
    for t in reversed(range(255)):
        bit = k >> t & 1
        if swapped ^ bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
        swapped = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % P, b * b % P, d * a % P, c * b % P
        e = aa - bb
        x3, z3 = (da + cb)**2 % P, x1 * (da - cb)**2 % P
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
    if swapped:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


def session(vector):
    """The keys of a session, as both sides come to them."""
    made = dict(vector)
    nonces = bytes.fromhex(vector["client_nonce"]) + bytes.fromhex(vector["server_nonce"])
    number = struct.pack("<Q", vector["session"])
    master = mac(vector["secret_key"].encode(), b"verbena-native-1 session\0" + nonces + number)
    if vector["version"] >= 9:
        client, server = bytes.fromhex(vector["client_private"]), bytes.fromhex(vector["server_private"])
        base = bytes([9]) + bytes(31)
        client_key, server_key = x25519(client, base), x25519(server, base)
        shared = x25519(client, server_key)
        assert shared == x25519(server, client_key) != bytes(32)
        request = json.dumps({"version": 1, "version_max": 9, "client_nonce": vector["client_nonce"],
                              "client_key": client_key.hex()})
        extracted = mac(master, shared)
        master = mac(extracted, b"verbena-native-1 ephemeral\0" + hashlib.sha256(request.encode()).digest()
                     + client_key + server_key + nonces + number + b"\1")
        made.update(request=request, client_key=client_key.hex(), server_key=server_key.hex(), shared=shared.hex())
    index = struct.pack("<H", vector["endpoint"])
    made.update(what="session", master=master.hex(),
                to_server=mac(master, b"verbena-native-1 client to server\0" + index)[:16].hex(),
                to_client=mac(master, b"verbena-native-1 server to client\0" + index)[:16].hex(),
                connection=mac(master, b"verbena-native-1 connection\0" + index).hex(),
                proof=mac(master, b"verbena-native-1 answer\0" + vector["answer"].encode()).hex())
    return made


def sessions():
    for version, name in ((8, "older"), (9, "first"), (9, "second")):
        def bytes_of(what, size):
            return hashlib.sha512(f"{name} {what}".encode()).digest()[:size].hex()
        yield {"version": version, "secret_key": f"a secret of the {name} session", "session": 0x1122334455667788,
               "client_nonce": bytes_of("client", 16), "server_nonce": bytes_of("server", 16), "endpoint": 3,
               "answer": f'{{"version": {version}}}',
               **({"client_private": bytes_of("client key", 32), "server_private": bytes_of("server key", 32)}
                  if version >= 9 else {})}


def published():
    """RFC 7748, section 6.1."""
    bob = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    alice = bytes.fromhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
    assert x25519(bob, alice).hex() == "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"


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
        vectors += map(session, sessions())
        with open(sys.argv[2], "w") as file:
            json.dump(vectors, file, indent=1)
            file.write("\n")
        return
    with open(sys.argv[1]) as file:
        vectors = json.load(file)
    for vector in vectors:
        if vector["what"] not in ("transfer", "session"):
            check(vector)
    published()
    assert [v for v in vectors if v["what"] == "transfer"] == [written(v) for v in transfers()]
    assert [v for v in vectors if v["what"] == "session"] == list(map(session, sessions()))
    print(f"{len(vectors)} vectors")


main()
