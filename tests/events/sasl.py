"""SASL authentication of a Kafka broker, as a proxy before a mock broker, which has none. PLAIN (RFC 4616) and SCRAM
(RFC 5802, 7677), in Kafka's wire format: https://kafka.apache.org/protocol (ApiVersions, SaslHandshake,
SaslAuthenticate)."""
import base64
import hashlib
import hmac
import os
import struct

API_VERSIONS, HANDSHAKE, AUTHENTICATE = 18, 17, 36
UNSUPPORTED_MECHANISM, UNSUPPORTED_VERSION, AUTHENTICATION_FAILED = 33, 35, 58
DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS = 4096


class Scram:
    """The server's side of one exchange."""

    def __init__(self, mechanism, user, password):
        self.digest, self.user, self.first = DIGESTS[mechanism], user, None
        self.salt = os.urandom(16)
        self.salted = hashlib.pbkdf2_hmac(self.digest, password.encode(), self.salt, ITERATIONS)

    def mac(self, key, text):
        return hmac.new(key, text, self.digest).digest()

    def answer(self, said):
        """The reply to the client, and whether it is the last one. ValueError: wrong credentials."""
        if self.first is None:
            header, bare = said[:3], said[3:]
            fields = dict(part.split(b"=", 1) for part in bare.split(b","))
            if header != b"n,," or fields[b"n"] != self.user.encode():
                raise ValueError("not this user")
            self.nonce = fields[b"r"] + base64.b64encode(os.urandom(12))
            self.first = b"r=" + self.nonce + b",s=" + base64.b64encode(self.salt) + b",i=%d" % ITERATIONS
            self.signed = bare + b"," + self.first
            return self.first, False
        bare, _, proof = said.rpartition(b",p=")
        # librdkafka before 2.6.1 repeats its own part of the nonce. Kafka up to 3.9 accepts that, and so does this;
        # Kafka 4 does not.
        if not bare.startswith(b"c=biws,r=") or not bare.endswith(self.nonce):
            raise ValueError("another exchange")
        signed = self.signed + b"," + bare
        key = self.mac(self.salted, b"Client Key")
        stored = hashlib.new(self.digest, key).digest()
        if bytes(a ^ b for a, b in zip(key, self.mac(stored, signed))) != base64.b64decode(proof):
            raise ValueError("not the password")
        return b"v=" + base64.b64encode(self.mac(self.mac(self.salted, b"Server Key"), signed)), True


class Plain:
    def __init__(self, mechanism, user, password):
        self.wanted = b"\0" + user.encode() + b"\0" + password.encode()

    def answer(self, said):
        if said != self.wanted:
            raise ValueError("not the password")
        return b"", True


def read_frame(stream):
    head = stream.read(4)
    return stream.read(struct.unpack(">i", head)[0]) if len(head) == 4 else None


def write_frame(link, body):
    link.sendall(struct.pack(">i", len(body)) + body)


def body_of(request):
    """The body after a request's head, which contains the client's name."""
    size = struct.unpack(">h", request[8:10])[0]
    return request[10 + max(size, 0):]


class Sasl:
    """Requires this user's password of each connection, by this mechanism alone. `refused`: the number of wrong
    passwords."""

    def __init__(self, mechanism, user, password):
        self.mechanism, self.user, self.password, self.refused = mechanism, user, password, 0

    def admit(self, link, requests, broker, answers):
        """True if the client at `link` has authenticated. Streams: `requests` of the client, `answers` of the
        broker."""
        exchange = (Plain if self.mechanism == "PLAIN" else Scram)(self.mechanism, self.user, self.password)
        while request := read_frame(requests):
            api, version, number = struct.unpack(">hhi", request[:8])
            head = request[4:8]
            if api == API_VERSIONS and version > 0:
                write_frame(link, head + struct.pack(">hi", UNSUPPORTED_VERSION, 0))
            elif api == API_VERSIONS:
                write_frame(broker, request)
                told = read_frame(answers)
                count = struct.unpack(">i", told[6:10])[0]
                write_frame(link, told[:6] + struct.pack(">i", count + 2) + told[10:] + struct.pack(">hhhhhh", HANDSHAKE, 0, 1, AUTHENTICATE, 0, 0))
            elif api == HANDSHAKE:
                asked = body_of(request)[2:].decode()
                name = self.mechanism.encode()
                error = 0 if asked == self.mechanism else UNSUPPORTED_MECHANISM
                write_frame(link, head + struct.pack(">hih", error, 1, len(name)) + name)
            elif api == AUTHENTICATE:
                try:
                    said, over = exchange.answer(body_of(request)[4:])
                except (ValueError, KeyError):
                    self.refused += 1
                    why = b"Authentication failed"
                    write_frame(link, head + struct.pack(">hh", AUTHENTICATION_FAILED, len(why)) + why + struct.pack(">i", 0))
                    return False
                write_frame(link, head + struct.pack(">hhi", 0, -1, len(said)) + said)
                if over:
                    return True
            else:
                return False  # any other request: not authenticated
        return False
