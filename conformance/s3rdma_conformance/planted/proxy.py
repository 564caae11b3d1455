"""An HTTP proxy in front of a sound server that makes it a bad one: it changes requests and replies, and writes to windows itself.

It has the suite's keys, so that it can sign what it changed.
"""
import socketserver
import threading
import time
import urllib.parse

from .. import fabric, wire
from ..dialects.ofi1 import HEADER, parse_token

HOP = ("authorization", "x-amz-date", "x-amz-content-sha256", "content-length")


class Request:
    def __init__(self, line, headers, body):
        self.method, self.target, _ = line.split(" ", 2)
        self.headers, self.body = headers, body

    def header(self, name):
        return next((value for key, value in self.headers if key.lower() == name), None)

    def token(self):
        return self.header(HEADER)

    def window(self):
        """base, size, provider, name, key; None if the token is not of that form."""
        try:
            return parse_token(self.token())
        except (AttributeError, ValueError):
            return None

    def signs(self, name):
        signed = (self.header("authorization") or "").partition("SignedHeaders=")[2].partition(",")[0]
        return name in signed.split(";")

    def bytes(self):
        return wire.raw(f"{self.method} {self.target} HTTP/1.1", self.headers, self.body)


class Gate:
    """What faults may use: the server behind, and an endpoint of the proxy's own."""

    def __init__(self, upstream, credentials, provider):
        self.upstream, self.credentials, self.provider = upstream, credentials, provider
        self.endpoint, self.lock, self.memory, self.errors = None, threading.Lock(), {}, []

    def forward(self, request):
        connection = wire.Connection(self.upstream)
        try:
            return connection.exchange(request.bytes(), request.method)
        finally:
            connection.close()

    def signed(self, request, drop=(), add=(), body=None):
        """The same request under a new signature, without some headers (`drop`: beginnings of names) and with others."""
        path, _, query = request.target.partition("?")
        query = {key: value for key, value in urllib.parse.parse_qsl(query, keep_blank_values=True) if not key.startswith("X-Amz-")}
        headers = [(key, value) for key, value in request.headers
                   if key.lower() != "host" and key.lower() not in HOP and not any(key.lower().startswith(one) for one in drop)]
        raw = wire.request(self.credentials, request.header("host"), request.method, urllib.parse.unquote(path), query=query,
                           headers=[*headers, *add], body=request.body if body is None else body)
        head, _, rest = raw.partition(b"\r\n\r\n")
        line, *rows = head.decode("latin-1").split("\r\n")
        return Request(line, [tuple(row.split(": ", 1)) for row in rows], rest)

    def plain(self, request, drop=(), body=None):
        """The reply to the same request without its token."""
        return self.forward(self.signed(request, ("x-amz-rdma-", *drop), body=body))

    def write(self, request, data, offset=0):
        base, _, _, name, key = request.window()
        with self.lock:
            if self.endpoint is None:
                self.endpoint = fabric.Endpoint(self.provider, address="127.0.0.1")
        self.endpoint.write(name, base + offset, key, data)
        time.sleep(0.05)  # the operation's end says that the bytes have left, not that they are there

    def close(self):
        if self.endpoint:
            self.endpoint.close()


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while True:
            try:
                line, headers = wire.read_head(self.rfile)
                request = Request(line, headers, b"")
                request.body = wire.read_body(self.rfile, request)
            except (OSError, ValueError, wire.ConnectionLost):
                return
            try:
                self.answer(request)
            except (ConnectionResetError, BrokenPipeError):
                return
            except Exception as error:  # noqa: BLE001: the run reports it
                self.server.gate.errors.append(repr(error))
                return

    def answer(self, request):
        fault, gate = self.server.fault, self.server.gate
        changed = fault.request(request, gate) if fault and fault.request else None
        reply = changed if isinstance(changed, wire.Reply) else gate.forward(changed or request)
        if fault and fault.reply:
            reply = fault.reply(request, reply, gate) or reply
        self.wfile.write(serialized(request, reply))
        if hasattr(reply, "length"):
            raise ConnectionResetError("a body that never comes: the client need not wait for it")
        if fault and fault.after:
            fault.after(request, reply, gate)


def serialized(request, reply):
    headers = [(key, value) for key, value in reply.headers if key.lower() not in ("content-length", "transfer-encoding", "connection")]
    told = reply.header("content-length")
    length = told if request.method == "HEAD" else getattr(reply, "length", len(reply.body))
    if reply.status not in (204, 304):
        headers.append(("Content-Length", str(length)))
    return wire.raw(f"HTTP/1.1 {reply.status} Reply", headers, reply.body)


class Proxy(socketserver.ThreadingTCPServer):
    """`fault` None: an honest proxy."""
    allow_reuse_address, daemon_threads = True, True

    def __init__(self, upstream, credentials, provider, fault):
        super().__init__(("127.0.0.1", 0), Handler)
        self.fault, self.gate = fault, Gate(upstream, credentials, provider)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
        self.gate.close()
