"""An OpenID Connect provider for tests, which misbehaves on request, and an authority that signs its certificate.

    with Authority() as authority, Provider(authority) as provider:
        provider.url                                  # "https://localhost:40001/realm"
        provider.token(sub="alice", aud="app")        # signed by its newest key
        provider.rotate(); provider.answers["/realm/keys"] = Answer(b"...")
"""
import base64
import datetime
import http.server
import ipaddress
import json
import pathlib
import shutil
import ssl
import tempfile
import threading
import time

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

CURVES = {"ES256": ("P-256", ec.SECP256R1), "ES384": ("P-384", ec.SECP384R1), "ES512": ("P-521", ec.SECP521R1)}


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value, size=None):
    return base64url(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


def pem(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


class Authority:
    """A certificate authority: `file` is its own certificate, certificate() signs others."""

    def __init__(self, name="Test authority"):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="verbena-ca-"))
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.made = self._build(self.name, self.key.public_key(), [], True)
        self.file = str(self.folder / "ca.pem")
        pathlib.Path(self.file).write_bytes(self.made.public_bytes(serialization.Encoding.PEM))
        self.thumbprint = self.made.fingerprint(hashes.SHA1()).hex()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def _build(self, subject, key, names, authority, days=1):
        now = datetime.datetime.utcnow()
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(key)
        made = made.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
        made = made.not_valid_after(now + datetime.timedelta(days=days))
        made = made.add_extension(x509.BasicConstraints(authority, None), critical=True)
        if names:
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return made.sign(self.key, hashes.SHA256())

    def certificate(self, *names, common_name=None, days=1):
        """Files of a new key and certificate: (certificate, key)."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name or names[0])])
        alternatives = []
        for name in names:
            try:
                alternatives.append(x509.IPAddress(ipaddress.ip_address(name)))
            except ValueError:
                alternatives.append(x509.DNSName(name))
        made = self._build(subject, key.public_key(), alternatives, False, days)
        stem = self.folder / f"c{len(list(self.folder.iterdir()))}"
        stem.with_suffix(".crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
        stem.with_suffix(".key").write_bytes(pem(key))
        return str(stem.with_suffix(".crt")), str(stem.with_suffix(".key"))


class Key:
    def __init__(self, identity, algorithm):
        self.id, self.algorithm = identity, algorithm
        if algorithm in CURVES:
            self.private = ec.generate_private_key(CURVES[algorithm][1]())
        elif algorithm == "EdDSA":
            self.private = ed25519.Ed25519PrivateKey.generate()
        else:
            self.private = rsa.generate_private_key(65537, 2048)

    def published(self):
        public = {"kid": self.id, "use": "sig", "alg": self.algorithm}
        if self.algorithm in CURVES:
            numbers, size = self.private.public_key().public_numbers(), (self.private.curve.key_size + 7) // 8
            return {**public, "kty": "EC", "crv": CURVES[self.algorithm][0], "x": number(numbers.x, size), "y": number(numbers.y, size)}
        if self.algorithm == "EdDSA":
            raw = self.private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
            return {**public, "kty": "OKP", "crv": "Ed25519", "x": base64url(raw)}
        numbers = self.private.public_key().public_numbers()
        return {**public, "kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}


class Answer:
    """An answer to be given for a path instead of the regular one."""

    def __init__(self, body=b"", status=200, headers=(), pause_s=0.0, piece=1 << 30):
        self.body, self.status, self.headers, self.pause_s, self.piece = body, status, headers, pause_s, piece


class Provider:
    def __init__(self, authority, algorithm="RS256", path="/realm", host="localhost", address="127.0.0.1", names=("localhost", "127.0.0.1")):
        """`names`: of its certificate. `connections` counts all clients, whether or not TLS succeeded."""
        self.keys, self.algorithm, self.path, self.made = [], algorithm, path, 0
        self.answers, self.asked, self.lock, self.ended = {}, {}, threading.Lock(), threading.Event()
        certificate, key = authority.certificate(*names)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.connections = 0
        self.server = http.server.ThreadingHTTPServer((address, 0), self._handler())
        self.server.daemon_threads = True
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.url = f"https://{host}:{self.port}{path}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.rotate()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()

    @property
    def name(self):
        """The provider's name in condition keys."""
        return self.url.removeprefix("https://")

    def rotate(self, algorithm=None, keep=0):
        self.made += 1
        self.keys = (self.keys[-keep:] if keep else []) + [Key(f"key-{self.made}", algorithm or self.algorithm)]

    def token(self, headers=None, key=None, without=(), **claims):
        key = key or self.keys[-1]
        now = int(time.time())
        whole = {"iss": self.url, "aud": "app", "sub": "alice", "iat": now, "exp": now + 600, **claims}
        return jwt.encode({k: v for k, v in whole.items() if k not in without}, key.private, key.algorithm,
                          headers={"kid": key.id, **(headers or {})})

    def fetches(self):
        """The number of requests for its keys."""
        with self.lock:
            return self.asked.get(self.path + "/keys", 0)

    def _document(self, path):
        if path == self.path + "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": self.url + "/keys", "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256"]}
        if path == self.path + "/keys":
            return {"keys": [key.published() for key in self.keys]}
        return None

    def _handler(provider):
        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = 30

            def log_message(self, *_):
                pass

            def do_GET(self):
                with provider.lock:
                    provider.asked[self.path] = provider.asked.get(self.path, 0) + 1
                document = provider._document(self.path)
                answer = provider.answers.get(self.path) or Answer(json.dumps(document).encode(), 200 if document else 404)
                self.send_response(answer.status)
                for name, value in answer.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                try:
                    for at in range(0, len(answer.body), answer.piece):
                        if answer.pause_s and provider.ended.wait(answer.pause_s):
                            return
                        self.wfile.write(answer.body[at:at + answer.piece])
                        self.wfile.flush()
                except OSError:
                    pass  # the client has closed

            def handle(self):
                with provider.lock:
                    provider.connections += 1
                try:
                    super().handle()
                except OSError:
                    pass

        return Handler
