"""HTTP/1.1 and Signature Version 4 with every byte in reach: which headers are signed, how they are spelled, and where a connection ends."""
import datetime
import hashlib
import hmac
import secrets
import socket
import ssl
import urllib.parse

UNSIGNED = "UNSIGNED-PAYLOAD"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


class ConnectionLost(Exception):
    pass


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def header(self, name, default=None):
        return next((value for key, value in self.headers if key.lower() == name.lower()), default)

    def set(self, name, value):
        self.headers = [(key, old) for key, old in self.headers if key.lower() != name.lower()] + ([(name, value)] if value is not None else [])

    def code(self):
        """S3's error code, if the body has one."""
        _, found, rest = self.body.partition(b"<Code>")
        return rest.partition(b"</Code>")[0].decode() if found else None

    def __str__(self):
        told = {key: value for key, value in self.headers if key.lower().startswith("x-amz-rdma") or key.lower() == "x-verbena-rdma-declined"}
        return f"{self.status} {self.code() or ''} {told} body of {len(self.body)} bytes"


class Connection:
    def __init__(self, endpoint, timeout=30, ca_file=None):
        url = urllib.parse.urlsplit(endpoint)
        self.socket = socket.create_connection((url.hostname, url.port or (443 if url.scheme == "https" else 80)), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if url.scheme == "https":
            self.socket = ssl.create_default_context(cafile=ca_file).wrap_socket(self.socket, server_hostname=url.hostname)
        self.file = self.socket.makefile("rb")

    def local_address(self):
        return self.socket.getsockname()[0]

    def send(self, data):
        self.socket.sendall(data)

    def receive(self, method="GET"):
        line, headers = read_head(self.file)
        status = int(line.split()[1])
        if status == 100:
            return self.receive(method)
        reply = Reply(status, headers, b"")
        if method != "HEAD" and status not in (204, 304):
            reply.body = read_body(self.file, reply)
        return reply

    def exchange(self, request, method="GET"):
        self.send(request)
        return self.receive(method)

    def close(self, abruptly=False):
        if abruptly:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.file.close()
        self.socket.close()


def read_head(file):
    line = file.readline(65536)
    if not line.endswith(b"\n"):
        raise ConnectionLost("the connection ended before a reply")
    headers = []
    while (row := file.readline(65536)) not in (b"\r\n", b"\n"):
        if not row:
            raise ConnectionLost("the connection ended in a head")
        name, _, value = row.decode("latin-1").partition(":")
        headers.append((name, value.strip()))
    return line.decode("latin-1").rstrip(), headers


def exactly(file, size):
    data = file.read(size)
    if len(data) != size:
        raise ConnectionLost(f"{len(data)} bytes of a body of {size}")
    return data


def read_body(file, message):
    if "chunked" in (message.header("transfer-encoding") or "").lower():
        body = b""
        while size := int(file.readline().split(b";")[0], 16):
            body += exactly(file, size)
            file.readline()
        while file.readline() not in (b"\r\n", b"\n", b""):
            pass
        return body
    length = message.header("content-length")
    return exactly(file, int(length)) if length is not None else b""


class Credentials:
    def __init__(self, access_key, secret_key, region="us-east-1"):
        self.access_key, self.secret_key, self.region = access_key, secret_key, region


def quote(text, safe="/"):
    return urllib.parse.quote(text, safe=safe + "-_.~")


def canonical_query(query):
    return "&".join(f"{quote(key, '')}={quote(value, '')}" for key, value in sorted(query.items()))


def signing_key(credentials, day):
    key = ("AWS4" + credentials.secret_key).encode()
    for word in (day, credentials.region, "s3", "aws4_request"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return key


def signature(credentials, method, path, query, signed, payload_hash, stamp):
    """`signed`: the headers that are signed."""
    ordered = sorted((name.lower(), " ".join(value.split())) for name, value in signed)
    names = ";".join(name for name, _ in ordered)
    canonical = "\n".join([method, path, query, "".join(f"{name}:{value}\n" for name, value in ordered), names, payload_hash])
    scope = f"{stamp[:8]}/{credentials.region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    return scope, names, hmac.new(signing_key(credentials, stamp[:8]), text.encode(), hashlib.sha256).hexdigest()


def stamp_of(moment):
    return moment.strftime("%Y%m%dT%H%M%SZ")


def request(credentials, host, method, path, query=None, headers=(), body=b"", *, unsigned=(), when=None, payload_hash=None):
    """The bytes of a signed request; `path` is not quoted yet. `unsigned`: headers that are sent beside the signed ones. `credentials` None:
    anonymous."""
    quoted, query = quote(path), canonical_query(query or {})
    stamp = stamp_of(when or datetime.datetime.now(datetime.UTC))
    payload_hash = payload_hash or hashlib.sha256(body).hexdigest()
    sent = [("Host", host), *headers, ("x-amz-date", stamp), ("x-amz-content-sha256", payload_hash)]
    if credentials:
        scope, names, proof = signature(credentials, method, quoted, query, sent, payload_hash, stamp)
        sent.append(("Authorization", f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={proof}"))
    if body or method in ("PUT", "POST"):
        sent.append(("Content-Length", str(len(body))))
    target = quoted + ("?" + query if query else "")
    return raw(f"{method} {target} HTTP/1.1", [*sent, *unsigned], body)


def raw(line, headers, body=b""):
    return (line + "\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers) + "\r\n").encode("latin-1") + body


def presigned(credentials, host, method, path, seconds=300):
    """A path with a signature in its query, which signs the host alone."""
    stamp = stamp_of(datetime.datetime.now(datetime.UTC))
    query = {"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Date": stamp, "X-Amz-Expires": str(seconds), "X-Amz-SignedHeaders": "host",
             "X-Amz-Credential": f"{credentials.access_key}/{stamp[:8]}/{credentials.region}/s3/aws4_request"}
    text = canonical_query(query)
    proof = signature(credentials, method, quote(path), text, [("host", host)], UNSIGNED, stamp)[2]
    return f"{quote(path)}?{text}&X-Amz-Signature={proof}"


def random_bytes(size):
    return secrets.token_bytes(size)
