"""The server under test, as cases see it: signed calls, plain objects, windows, a bucket of its own."""
import contextlib
import secrets
import threading
import urllib.parse

from . import wire
from .case import Failed, Skipped, check


class Target:
    def __init__(self, endpoint, credentials, dialect_class, provider, device=None, ca_file=None):
        self.endpoint_url, self.credentials, self.ca_file = endpoint, credentials, ca_file
        self.host = urllib.parse.urlsplit(endpoint).netloc
        self.local = threading.local()
        self.bucket = "s3rdma-" + secrets.token_hex(6)
        self.dialect = dialect_class(provider, device, self.connection().local_address())
        self.fabric = None
        self.windows = []

    def connection(self, fresh=False):
        """This thread's connection."""
        if fresh or getattr(self.local, "connection", None) is None:
            self.local.connection = wire.Connection(self.endpoint_url, ca_file=self.ca_file)
        return self.local.connection

    def forget_connection(self):
        connection, self.local.connection = getattr(self.local, "connection", None), None
        if connection:
            connection.close()

    def request(self, method, path, **options):
        return wire.request(options.pop("credentials", self.credentials), self.host, method, path, **options)

    def call(self, method, path, **options):
        try:
            reply = self.connection().exchange(self.request(method, path, **options), method)
        except (OSError, wire.ConnectionLost, ValueError, IndexError):
            self.forget_connection()
            raise
        if (reply.header("connection") or "").lower() == "close":
            self.forget_connection()
        return reply

    def path(self, key):
        return f"/{self.bucket}/{key}"

    # Plain S3.
    def must(self, method, path, **options):
        reply = self.call(method, path, **options)
        check(reply.status in (200, 204), f"{method} {path} without RDMA: {reply}")
        return reply

    def store(self, key, data, **options):
        return self.must("PUT", self.path(key), body=data, **options)

    def read(self, key, **options):
        return self.must("GET", self.path(key), **options).body

    def exists(self, key):
        return self.call("HEAD", self.path(key)).status == 200

    def open(self):
        reply = self.call("PUT", "/" + self.bucket)
        if reply.status != 200:
            raise Failed(f"the bucket {self.bucket} could not be made: {reply}")
        self.fabric = self.dialect.endpoint()

    def close(self):
        with contextlib.suppress(Exception):
            self._empty()
        self.forget_connection()
        if self.fabric:
            self.fabric.close()
        self.dialect.close()

    def _empty(self):
        body = self.call("GET", "/" + self.bucket, query={"versions": ""}).body.decode()
        for entry in body.split("<Key>")[1:]:
            key = urllib.parse.unquote(entry.partition("</Key>")[0]).replace("&amp;", "&")
            version = entry.partition("<VersionId>")[2].partition("</VersionId>")[0]
            self.call("DELETE", self.path(key), query={"versionId": version} if version else {})
        self.call("DELETE", "/" + self.bucket)

    # RDMA.
    def window(self, size, access="write", data=None, endpoint=None):
        """Closed at the end of the case."""
        window = self.dialect.window(endpoint or self.fabric, size, access, data)
        self.windows.append(window)
        return window

    def source(self, data, **options):
        return self.window(len(data), "read", data, **options)

    def get(self, window, key, **options):
        return self.dialect.get(self, window, self.path(key), **options)

    def put(self, window, key, **options):
        return self.dialect.put(self, window, self.path(key), **options)

    @contextlib.contextmanager
    def other_endpoint(self):
        endpoint = self.dialect.endpoint()
        try:
            yield endpoint
        finally:
            endpoint.close()

    def end_case(self):
        for window in self.windows:
            window.close()
        self.windows = []

    def serves(self):
        """After an attack: the server still moves bytes."""
        data = wire.random_bytes(3000)
        self.store("still-there", data)
        window = self.window(len(data))
        reply = self.get(window, "still-there")
        check(self.dialect.moved(reply) == 200 and window.bytes() == data, f"the server no longer moves bytes: {reply}")

    def multipart(self, key, parts, **options):
        """Begins an upload; `parts`: functions that upload a part and return its reply, given number and upload id. Completes it."""
        begun = self.must("POST", self.path(key), query={"uploads": ""}, **options)
        upload = begun.body.partition(b"<UploadId>")[2].partition(b"</UploadId>")[0].decode()
        rows = ""
        for number, part in enumerate(parts, 1):
            reply = part({"partNumber": str(number), "uploadId": upload})
            rows += f"<Part><PartNumber>{number}</PartNumber><ETag>{reply.header('etag')}</ETag></Part>"
        body = f"<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>".encode()
        done = self.must("POST", self.path(key), query={"uploadId": upload}, body=body)
        check(b"<Error>" not in done.body, f"the upload could not be completed: {done.body[:300]}")
        return done

    def needs(self, reply, what):
        """Skips a case whose feature the server does not have over plain HTTP either."""
        if reply.status not in (200, 204):
            raise Skipped(f"{what}: {reply.status} {reply.code()} without RDMA")
