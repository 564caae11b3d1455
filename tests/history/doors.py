"""The doors of a server, with one set of calls: S3 over HTTP as sent by hand, and the Python client's native and token
doors.

A call returns what the model (bucket.py) compares, or raises Refused (a status that S3 gives for a state of the key),
NotSent (nothing reached the server) or Lost (it may have been done). Anything else is the server's fault: Wrong.
"""
import base64
import hashlib
import http.client
import time
import urllib.parse
import xml.etree.ElementTree as tree

from bucket import MARKER, Listed, Seen
from bytes_of import content_of
from express_case import Express
from verbena_server import ACCESS_KEY, SECRET_KEY

TIMEOUT_S = 5
SESSION_S = 200  # a session of a directory bucket has five minutes
REFUSALS = (400, 404, 412, 507)


class Refused(Exception):
    """`status`, `code`."""

    def __init__(self, status, code):
        super().__init__(f"{status} {code}")
        self.status, self.code = status, code


class NotSent(Exception):
    pass


class Lost(Exception):
    pass


class Wrong(Exception):
    pass


def refused(status, code, said):
    """What an error answer of the server is."""
    if status in REFUSALS and code in ("", "NoSuchKey", "NoSuchVersion", "PreconditionFailed", "InvalidWriteOffset", "Not Found",
                                         "InsufficientStorage", None):
        return Refused(status, code)
    if status in (503, 429, 409):  # it may have been done before the server refused: of that there is no promise
        return Lost(f"{status} {code}")
    return Wrong(f"{status} {code} {said}")


class Http:
    name = "http"

    def __init__(self, server, directory):
        """`directory`: the name of the directory bucket."""
        self.endpoint, self.directory = server.http, directory
        if self.endpoint is None:
            raise NotSent("the server has no address now")
        self.signer = Express(self.endpoint, service="s3")
        self.session, self.session_ends = None, 0
        self.connection = http.client.HTTPConnection(self.signer.host, timeout=TIMEOUT_S)

    def close(self):
        self.connection.close()

    def _signer(self, bucket):
        if bucket != self.directory:
            return self.signer
        if self.session is None or time.monotonic() > self.session_ends:
            reply, body = self._send(Express(self.endpoint), "GET", f"/{bucket}?session", b"", {"x-amz-create-session-mode": "ReadWrite"})
            if reply.status != 200:
                raise NotSent(f"no session: {reply.status}")
            found = {one.tag.rsplit("}", 1)[-1]: one.text for one in tree.fromstring(body).iter()}
            self.session = Express(self.endpoint, (found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"]))
            self.session_ends = time.monotonic() + SESSION_S
        return self.session

    def _send(self, signer, method, path, body, headers):
        """One request, never sent twice."""
        headers = signer.signed(method, path, body, headers)
        try:
            if self.connection.sock is None:
                self.connection.connect()
        except OSError as error:
            self.connection.close()
            raise NotSent(str(error)) from error
        try:
            self.connection.request(method, path, body=body, headers=headers)
            reply = self.connection.getresponse()
            body = reply.read()
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            raise Lost(f"{type(error).__name__} {error}") from error
        if "x-amz-request-id" not in reply.headers:
            self.connection.close()
            raise Lost("an answer that the server did not give")
        return reply, body

    def call(self, method, bucket, rest, body=b"", headers=()):
        """Headers, bytes."""
        reply, said = self._send(self._signer(bucket), method, f"/{bucket}{rest}", body, dict(headers))
        if reply.status not in (200, 204):
            code = None
            if said:
                code = next((one.text for one in tree.fromstring(said).iter() if one.tag.rsplit("}", 1)[-1] == "Code"), "")
            raise refused(reply.status, code, said[:300])
        return reply.headers, said

    @staticmethod
    def _etag(headers):
        return headers.get("etag", "").strip('"')

    def get(self, bucket, key, version=None):
        query = f"?versionId={version}" if version else ""
        headers, body = self.call("GET", bucket, f"/{key}{query}")
        return Seen(content_of(body), self._etag(headers), headers.get("x-amz-version-id", ""), len(body))

    def head(self, bucket, key):
        headers, _ = self.call("HEAD", bucket, f"/{key}")
        return Seen(None, self._etag(headers), headers.get("x-amz-version-id", ""), int(headers["content-length"]))

    def put(self, bucket, key, body, condition=None, ttl_s=0):
        ttl = {"x-verbena-ttl": str(ttl_s)} if ttl_s else {}
        headers, _ = self.call("PUT", bucket, f"/{key}", body, {**_conditions(condition), **ttl})
        return self._etag(headers), headers.get("x-amz-version-id", "")

    def append(self, bucket, key, body, offset):
        headers, _ = self.call("PUT", bucket, f"/{key}", body, {"x-amz-write-offset-bytes": str(offset)})
        return self._etag(headers), int(headers["x-amz-object-size"])

    def copy(self, bucket, source, target):
        headers, said = self.call("PUT", bucket, f"/{target}", b"", {"x-amz-copy-source": f"/{bucket}/{source}"})
        document = tree.fromstring(said)
        if document.tag.endswith("Error"):
            raise Wrong(said[:300])
        return _texts(document)["ETag"].strip('"'), headers.get("x-amz-version-id", "")

    def upload(self, bucket, key, bodies):
        """A multipart upload with its parts: its id, document and the parts' entity tags."""
        upload = _texts(tree.fromstring(self.call("POST", bucket, f"/{key}?uploads")[1]))["UploadId"]
        document, etags = "", []
        for number, body in enumerate(bodies, 1):
            etags.append(self._etag(self.call("PUT", bucket, f"/{key}?partNumber={number}&uploadId={upload}", body)[0]))
            document += f"<Part><PartNumber>{number}</PartNumber><ETag>{etags[-1]}</ETag></Part>"
        return upload, f"<CompleteMultipartUpload>{document}</CompleteMultipartUpload>".encode(), etags

    def complete(self, bucket, key, upload, condition):
        """An error may come in the body of an answer whose status is 200."""
        headers, said = self.call("POST", bucket, f"/{key}?uploadId={upload[0]}", upload[1], _conditions(condition))
        document = tree.fromstring(said)
        if document.tag.endswith("Error"):
            code = _texts(document)["Code"]
            raise refused({"PreconditionFailed": 412, "NoSuchKey": 404, "ConditionalRequestConflict": 409}.get(code, 500), code, said[:300])
        return _texts(document)["ETag"].strip('"'), headers.get("x-amz-version-id", "")

    def delete(self, bucket, key, version=None, condition=None):
        query = f"?versionId={version}" if version else ""
        headers, _ = self.call("DELETE", bucket, f"/{key}{query}", b"", {"if-match": f'"{condition}"'} if condition else {})
        return headers.get("x-amz-version-id", "")

    def delete_many(self, bucket, keys):
        """For each key: the id of its delete marker, or a Wrong."""
        body = ("<Delete>" + "".join(f"<Object><Key>{key}</Key></Object>" for key in keys) + "</Delete>").encode()
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        _, said = self.call("POST", bucket, "?delete", body, {"content-md5": digest})
        found = {}
        for one in tree.fromstring(said):
            fields = _texts(one)
            marker = fields.get("DeleteMarkerVersionId", "")
            found[fields["Key"]] = marker if one.tag.endswith("Deleted") else Wrong(f"{fields}")
        return [found.get(key, Wrong("no answer to an item")) for key in keys]

    def rename(self, bucket, source, target, keep):
        headers = {"x-amz-rename-source": source, **({"if-none-match": "*"} if keep else {})}
        self.call("PUT", bucket, f"/{target}?renameObject", b"", headers)

    def list(self, bucket, prefix, after, most):
        """Rows (key, etag, size), and whether there is more. A directory bucket's keys may come in any order by AWS's
        rules, and its pages begin at no key."""
        query = f"?list-type=2&max-keys={most}&prefix={urllib.parse.quote(prefix, safe='')}"
        query += f"&start-after={urllib.parse.quote(after, safe='')}" if after else ""
        document = tree.fromstring(self.call("GET", bucket, query)[1])
        rows = []
        for one in document:
            if one.tag.endswith("}Contents"):
                fields = _texts(one)
                rows.append((fields["Key"], fields["ETag"].strip('"'), int(fields["Size"])))
        return rows, _texts(document)["IsTruncated"] == "true"

    def list_versions(self, bucket, prefix, number_of):
        document = tree.fromstring(self.call("GET", bucket, f"?versions=&prefix={urllib.parse.quote(prefix, safe='')}")[1])
        rows = []
        for one in document:
            kind = one.tag.rsplit("}", 1)[-1]
            if kind in ("Version", "DeleteMarker"):
                fields = _texts(one)
                etag = MARKER if kind == "DeleteMarker" else fields["ETag"].strip('"')
                rows.append(Listed(number_of(fields["Key"]), etag, fields["VersionId"], int(fields.get("Size", 0)), fields["IsLatest"] == "true"))
        return tuple(rows), _texts(document)["IsTruncated"] == "true"


def _texts(element):
    return {child.tag.rsplit("}", 1)[-1]: child.text or "" for child in element}


def _conditions(condition):
    return {} if condition is None else {"if-none-match": "*"} if condition == "*" else {"if-match": f'"{condition}"'}


class Client:
    """The Python client by the native or the token door."""

    def __init__(self, verbena, server, via, provider=None):
        self.errors, self.name = verbena.errors, via
        if server.http is None or server.native is None:
            raise NotSent("the server has no address now")
        options = {"endpoint": server.http, "native_endpoint": server.native, "access_key": ACCESS_KEY, "secret_key": SECRET_KEY,
                   "via": via, "attempts_max": 1, "operation_timeout_ms": TIMEOUT_S * 1000, "connect_timeout_ms": 1000}
        if via == "token" or provider:
            options["provider"] = "tcp" if via == "token" else provider
        self.client = self._guarded(lambda: verbena.Client(**options))

    def close(self):
        self.client.close()

    def of(self, error):
        """The exception of this module that an error of the client stands for."""
        errors = self.errors
        declined = isinstance(error, errors.Unsupported) and error.s3_code in ("", "RDMANotSupported")
        if isinstance(error, errors.ConnectionFailed) or declined:  # a declined token: nothing was stored
            return NotSent(str(error))
        if isinstance(error, (errors.BufferTooSmall, errors.TimedOut, errors.OutcomeUnknown, errors.SlowDown, errors.MalformedReply)):
            return Lost(f"{type(error).__name__} {error}")
        if isinstance(error, errors.NoSuchKey):
            return Refused(404, error.s3_code)
        if isinstance(error, errors.InsufficientStorage):
            return Refused(507, "InsufficientStorage")
        if isinstance(error, errors.PreconditionFailed):  # the native door has this code for a wrong offset, too
            return Refused(400 if error.http_status == 400 or error.s3_code == "InvalidWriteOffset" else 412, error.s3_code)
        if error.http_status == 0 and not error.s3_code:
            return Lost(f"{type(error).__name__} {error}")
        return refused(error.http_status, error.s3_code, f"{type(error).__name__} {error}")

    def _guarded(self, act):
        try:
            return act()
        except self.errors.ChecksumMismatch as error:
            raise Wrong(f"ChecksumMismatch {error}") from error
        except self.errors.VerbenaError as error:
            raise self.of(error) from error
        except OSError as error:
            raise Lost(str(error)) from error

    def get(self, bucket, key, version=None):
        options = {"version_id": version} if version else {}
        body, reply = self._guarded(lambda: self.client.get_bytes(bucket, key, **options))
        return Seen(content_of(body), reply.etag, reply.version_id, len(body))

    def head(self, bucket, key):
        reply = self._guarded(lambda: self.client.head(bucket, key))
        return Seen(None, reply.etag, reply.version_id, reply.size)

    def put(self, bucket, key, body, condition=None, ttl_s=0):
        options = {} if condition is None else {"if_none_match": "*"} if condition == "*" else {"if_match": condition}
        if ttl_s:
            options["ttl"] = ttl_s
        reply = self._guarded(lambda: self.client.put(bucket, key, body, **options))
        return reply.etag, reply.version_id

    def append(self, bucket, key, body, offset):
        reply = self._guarded(lambda: self.client.append(bucket, key, body, offset))
        return reply.etag, reply.size

    def delete(self, bucket, key, version=None, condition=None):
        options = {**({"version_id": version} if version else {}), **({"if_match": condition} if condition else {})}
        self._guarded(lambda: self.client.delete(bucket, key, **options))
        return ""

    def rename(self, bucket, source, target, keep):
        self._guarded(lambda: self.client.rename(bucket, source, target, **({"if_none_match": "*"} if keep else {})))

    def list(self, bucket, prefix, after, most):
        rows, _, continuation = self._guarded(lambda: self.client.list_page(bucket, prefix, None, after or None, None, most))
        return [(key, etag, size) for key, size, _, etag in rows], continuation is not None

    # Batches: for each item what the call of one returns, or an exception.

    def _items(self, done, found):
        return [found(number, one) if one.error is None else self.of(one.error) for number, one in enumerate(done)]

    def get_many(self, bucket, keys, place, **lease):
        def ask():
            with self.client.allocate(place * len(keys)) as memory:
                done = self.client.get_many([(bucket, key, number * place, place) for number, key in enumerate(keys)], memory, **lease)
                self.lease = done.lease
                body = bytes(memoryview(memory))

                def found(number, one):
                    return Seen(content_of(body[number * place:number * place + one.bytes]), one.etag, one.version_id, one.bytes)
                return self._items(done, found)
        return self._guarded(ask)

    def head_many(self, bucket, keys, **lease):
        def ask():
            done = self.client.head_many([(bucket, key) for key in keys], **lease)
            self.lease = done.lease
            return self._items(done, lambda _, one: Seen(None, one.etag, one.version_id, one.size))
        return self._guarded(ask)

    def put_many(self, bucket, keys, bodies, if_absent=False):
        items = [(bucket, key, body) for key, body in zip(keys, bodies)]

        def outcome(_, one):
            return Refused(412, "it exists") if one.exists else (one.etag, one.version_id)
        return self._guarded(lambda: self._items(self.client.put_many(items, if_absent=if_absent), outcome))

    def delete_many(self, bucket, keys):
        return self._guarded(lambda: self._items(self.client.remove_many([(bucket, key) for key in keys]), lambda *_: ""))

    def match(self, bucket, keys, lease_ms=0):
        """How many leading keys are there, why the next one does not count, their sizes, and the lease."""
        namespace, hashes = keys[0].rpartition("/")[0], [bytes.fromhex(key.rpartition("/")[2]) for key in keys]
        found = self._guarded(lambda: self.client.match(bucket, namespace, hashes, sizes=True, lease_ms=lease_ms))
        return found.leading, found.ended, list(found.sizes or ()), found.lease

    def leased(self, ask, *arguments, **lease):
        """The items of a batch that takes a lease, and the lease."""
        items = ask(*arguments, **lease)
        return items, self.lease

    def end_lease(self, lease):
        self._guarded(lambda: self.client.end_lease(lease))
