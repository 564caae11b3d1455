"""boto3 accelerated by one line: accelerate(s3) moves the payloads of a client's GetObject and PutObject by Verbena's native door,
those of UploadPart by token.

A request goes there if the answer is exactly the same; every other one, and one that fails there, is sent by boto3 as usual, so that
its errors, retries and events are botocore's own.
"""
import collections
import logging
import os
import threading
import time
import urllib.parse

from . import errors
from ._answers import RANGE, Early, get_answer, response
from ._client import Client

_log = logging.getLogger("verbena.boto")
# Headers without influence on the answer.
_PASSED = {"user-agent", "x-amz-date", "x-amz-content-sha256", "authorization", "amz-sdk-invocation-id", "amz-sdk-request", "host",
           "accept-encoding", "content-length", "x-amz-security-token", "expect", "date", "accept", "connection", "x-amz-checksum-mode",
           "amz-sdk-retry", "x-amzn-trace-id"}
_GET = _PASSED | {"range", "if-match", "if-none-match"}
_SUMMED = {"content-type", "content-md5", "x-amz-sdk-checksum-algorithm"}
_PUT = _PASSED | _SUMMED | {"if-match", "if-none-match"}
_PART = _PASSED | _SUMMED
_REST_S = 10  # pause before tokens are tried again
_UNSIGNED = {"authorization", "content-length", "amz-sdk-invocation-id", "amz-sdk-request"}  # or added after signing
_LATER = "verbena-later"  # placeholder of a Content-MD5
_RANGE_DIGITS_MAX = 18  # of a position in an object
_HELD_MAX = 1 << 30  # larger bodies are left to botocore, which need not hold them in memory
_CHECKSUMS = ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256", "SHA512", "MD5", "XXHASH64", "XXHASH3", "XXHASH128")


class Acceleration:
    """The result of accelerate(). `counts` has the number of requests by each way, `reasons` why requests did not go
    natively. If no native door answered, `client` is None and the boto3 client is unchanged."""

    def __init__(self, s3, client, token_options=None, md5_etags=True):
        self.s3, self.client, self._md5_etags = s3, client, md5_etags
        self._tokens, self._token_options, self._tokens_after = None, token_options, 0.0
        self.counts, self.reasons = collections.Counter(), collections.Counter()
        self._lock = threading.Lock()
        self._endpoint = urllib.parse.urlsplit(s3.meta.endpoint_url)
        self._later, self._early = threading.local(), Early(s3)
        self._registered = [] if client is None else self._handlers(s3.meta.events)
        for register, event, handler in self._registered:
            register(event, handler, unique_id=f"verbena-{event}")

    def _handlers(self, events):
        handlers = [(events.register_last, "before-call.s3.GetObject", self._get_early), (events.register_last, "before-send.s3.GetObject", self._get), (events.register_last, "before-send.s3.PutObject", self._put),
                            (events.register_last, "before-send.s3.UploadPart", self._part)]
        for operation in ("PutObject", "UploadPart"):
            handlers += [(events.register_first, f"before-call.s3.{operation}", self._leave_md5),
                         (events.register_last, f"before-sign.s3.{operation}", self._leave_hashes)]
        return handlers

    def close(self):
        """Restores the client."""
        for _, event, _ in self._registered:
            self.s3.meta.events.unregister(event, unique_id=f"verbena-{event}")
        if self.client is not None:
            self.client.close()
        if self._tokens is not None:
            self._tokens.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def _count(self, way, reason=None):
        with self._lock:
            self.counts[way] += 1
            if reason:
                self.reasons[reason] += 1
                _log.info("by botocore: %s", reason)

    def _decline(self, reason, body=None, request=None):
        if body is not None:
            body.rewind()
        if request is not None:
            self._hash(request)
        self._count("http", reason)

    # botocore hashes a body twice before its way is known: Content-MD5, and SHA-256 for the signature over HTTP. The
    # session has an integrity check of its own, so both hashes are computed only if a request was declined.

    def _leave_md5(self, params, **_):
        algorithm = params.get("context", {}).get("checksum", {}).get("request_algorithm")
        names = {name.lower() for name in params["headers"]}
        if algorithm in (None, "conditional-md5") and "content-md5" not in names and not any(map(_is_checksum, names)):
            params["headers"]["Content-MD5"] = _LATER

    def _leave_hashes(self, request, signature_version=None, **_):
        context, config = request.context, request.context.get("client_config")
        self._later.md5 = request.headers.get("Content-MD5") == _LATER
        if self._later.md5:
            del request.headers["Content-MD5"]
        if context.get("verbena_config") is None and config is not None and signature_version in ("v4", "s3v4"):
            from botocore.config import Config
            context["verbena_config"] = config
            context["client_config"] = config.merge(Config(s3={**(config.s3 or {}), "payload_signing_enabled": False}))
        self._later.config = context.get("verbena_config")

    def _hash(self, request):
        """Adds the headers, and the signature, that the request would have had."""
        md5, config = getattr(self._later, "md5", False), getattr(self._later, "config", None)
        self._later.md5 = self._later.config = None
        if not md5 and config is None:
            return
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.utils import calculate_md5
        headers = {name: _text(value) for name, value in request.headers.items() if name.lower() not in _UNSIGNED}
        again = AWSRequest(method=request.method, url=request.url, headers=headers, data=request.body)
        if md5:
            again.headers["Content-MD5"] = calculate_md5(request.body if request.body is not None else b"")
        again.context["client_config"] = config
        S3SigV4Auth(self.s3._request_signer._credentials.get_frozen_credentials(), "s3", self.s3.meta.region_name or "us-east-1").add_auth(again)
        for name in ("Content-MD5", "X-Amz-Content-SHA256", "X-Amz-Date", "Authorization"):
            if name in again.headers:
                request.headers[name] = again.headers[name]

    def _address(self, given):
        """Bucket and key of a URL without parameters, or None."""
        url = urllib.parse.urlsplit(given)
        if url.query and url.query not in ("x-id=GetObject", "x-id=PutObject"):
            return None
        return self._names(url)

    def _names(self, url):
        path = urllib.parse.unquote(url.path)
        if url.netloc == self._endpoint.netloc:
            bucket, _, key = path[1:].partition("/")
        elif url.netloc.endswith("." + self._endpoint.netloc):
            bucket, key = url.netloc[:-len(self._endpoint.netloc) - 1], path[1:]
        else:
            return None
        return (bucket, key) if bucket and key and "\0" not in key else None

    def _get_early(self, model, params, **_):
        self._later.declined = False
        if not self._early.possible("GetObject"):
            return None
        answer = self._fetch(params["url"], _headers(params))
        self._later.declined = answer is None
        return answer and self._early.answer(model, params, *answer)

    def _get(self, request, **_):
        if getattr(self._later, "declined", False):  # and counted: a retry is attempted again
            self._later.declined = False
            return None
        answer = self._fetch(request.url, _headers(request))
        return answer and response(request.url, *answer)

    def _fetch(self, url, headers):
        """Status, headers and body of a GetObject; None, and counted, if it must go another way."""
        address, others = self._address(url), set(headers) - _GET
        if address is None or others:
            return self._decline(f"GetObject with {', '.join(sorted(others)) or 'query parameters'}")
        options = {"if_match": _etag(headers.get("if-match")), "if_none_match": _etag(headers.get("if-none-match"))}
        asked = headers.get("range")
        if asked is not None:
            match = RANGE.match(asked)
            if match is None or max(map(len, match.groups(""))) > _RANGE_DIGITS_MAX or (match[2] and int(match[2]) < int(match[1])):
                return self._decline("GetObject with another kind of range")
            first = int(match[1])
            options["range"] = (first, int(match[2]) - first + 1 if match[2] else 0)
        try:
            got, reply = self.client.get_bytes(*address, metadata=True, size_max=_HELD_MAX, **options)
        except (errors.VerbenaError, ValueError) as error:
            return self._decline(f"GetObject: {getattr(error, 'code', 'invalid')}")
        except MemoryError:
            return self._decline("GetObject: no memory")
        self._count(reply.door)
        return (*get_answer(reply, len(got), asked, "x-amz-checksum-mode" in headers), got)

    def _put(self, request, **_):
        headers, address = _headers(request), self._address(request.url)
        others = {name for name in set(headers) - _PUT if not name.startswith("x-amz-meta-") and not _is_checksum(name)}
        if address is None or others:
            return self._decline(f"PutObject with {', '.join(sorted(others)) or 'query parameters'}", None, request)
        body = self._payload(request, headers, "PutObject")
        if body is None:
            return None
        metadata = {name[11:]: value for name, value in headers.items() if name.startswith("x-amz-meta-")}
        try:
            put = self.client.put(*address, body.bytes, content_type=headers.get("content-type"), metadata=metadata,
                                  if_match=_etag(headers.get("if-match")), if_none_match=_etag(headers.get("if-none-match")),
                                  checksum=body.checksum, md5_etag=self._md5_etags, describe=True)
        except (errors.OutcomeUnknown, errors.TimedOut) as error:
            if headers.get("if-match") or headers.get("if-none-match"):
                raise _broken(request, error) from error
            return self._decline(f"PutObject: {error.code}", body, request)
        except (errors.VerbenaError, ValueError) as error:
            return self._decline(f"PutObject: {getattr(error, 'code', 'invalid')}", body, request)
        return self._stored(request, put)

    def _part(self, request, **_):
        headers, url = _headers(request), urllib.parse.urlsplit(request.url)
        others = {name for name in set(headers) - _PART if not _is_checksum(name)}
        asked, address = dict(urllib.parse.parse_qsl(url.query)), self._names(url)
        number, upload = asked.pop("partNumber", ""), asked.pop("uploadId", "")
        asked.pop("x-id", None)
        if address is None or others or asked or not upload or not number.isdecimal():
            return self._decline(f"UploadPart with {', '.join(sorted(others)) or 'query parameters'}", None, request)
        tokens, why = self._token_client()
        if tokens is None:
            return self._decline(f"UploadPart: {why}", None, request)
        body = self._payload(request, headers, "UploadPart")
        if body is None:
            return None
        try:
            put = tokens.put_part(*address, upload, int(number), body.bytes, checksum=body.checksum, md5_etag=True, describe=True)
        except (errors.VerbenaError, ValueError, OverflowError) as error:  # storing a part twice is harmless
            if isinstance(error, errors.Unsupported):
                self._tokens_after = time.monotonic() + _REST_S
            return self._decline(f"UploadPart: {getattr(error, 'code', 'invalid')}", body, request)
        return self._stored(request, put)

    def _payload(self, request, headers, what):
        """The body in memory, with the request's properties; None, and counted, if it must go another way."""
        checksums = [f"{name[15:].upper()}:{value}" for name, value in headers.items() if _is_checksum(name)]
        if "x-amz-sdk-checksum-algorithm" in headers and not checksums and not _streaming(headers):
            return self._decline(f"{what} with a checksum that comes later", None, request)
        if len(checksums) > 1 or headers.get("content-encoding") or _streaming(headers):
            return self._decline(f"{what} in chunks", None, request)
        length = headers.get("content-length", "")
        if hasattr(request.body, "read") and not (length.isdecimal() and int(length) <= _HELD_MAX):
            return self._decline(f"{what} of a body that is too large, or of unknown length", None, request)
        body = _Body(request.body, checksums[0] if checksums else None)
        if body.bytes is None:
            return self._decline(f"{what} of a body that is no bytes in memory", body, request)
        if "content-md5" in headers and not _md5_is(body.bytes, headers["content-md5"]):
            return self._decline(f"{what} with another MD5", body, request)
        return body

    def _stored(self, request, put):
        self._count(put.door)
        answer = {**put.headers, "ETag": f'"{put.etag}"', "Content-Length": "0"}
        if put.version_id and put.version_id != "null":  # S3 reports the version of a PUT in buckets with versions
            answer["x-amz-version-id"] = put.version_id
        return response(request.url, 200, answer, b"")

    def _token_client(self):
        """The client for tokens, created on first use; else None and the reason."""
        with self._lock:
            if self._token_options is None:
                return None, "no token_provider"
            if time.monotonic() < self._tokens_after:
                return None, "tokens rest"
            if self._tokens is None:
                try:
                    self._tokens = Client(**self._token_options)
                except (errors.VerbenaError, ValueError) as error:
                    self._tokens_after = time.monotonic() + _REST_S
                    return None, getattr(error, "code", "invalid")
            return self._tokens, None


def accelerate(s3, *, native_endpoint=None, provider="auto", token_provider="verbs", md5_etags=True, **options):
    """Moves the payloads of a boto3 client's GetObject, PutObject and UploadPart past HTTP, to and from its Verbena server.

    The native door is `native_endpoint`, else VERBENA_NATIVE, else port 9100 of the endpoint's host. If none answers there, boto3 is
    unchanged, with one warning in the log (logger verbena.boto).

    Downloads, uploads and transfers in parts use the same calls. Parts of uploads go by RDMA token if this machine has a device of
    `token_provider` (None: never). What boto3 would send by TLS goes only by a native door that encrypts it, or stays on this
    host, unless `cleartext_rdma` or `encryption` (as those of connect()) says otherwise; with verify=False one of the two is
    needed. md5_etags=False saves the server the MD5 of the bytes of PutObject: the ETag is then not their MD5.
    Returns an Acceleration; its `close()` undoes it.
    """
    native_endpoint = native_endpoint or os.environ.get("VERBENA_NATIVE") or None
    credentials = s3._request_signer._credentials.get_frozen_credentials()
    verify = getattr(s3._endpoint.http_session, "_verify", True)
    options.update(endpoint=s3.meta.endpoint_url, native_endpoint=native_endpoint, access_key=credentials.access_key,
                   secret_key=credentials.secret_key, session_token=credentials.token, region=s3.meta.region_name or "us-east-1",
                   ca_file=verify if isinstance(verify, str) else None, insecure=verify is False)
    native = dict(options, encryption="required") if _unprotected(options) else options
    if native is not options and native["insecure"]:  # "required" needs a server that is known
        _say_once(s3.meta.endpoint_url, "verify=False, and neither encryption nor cleartext_rdma was given")
        return Acceleration(s3, None)
    try:
        client = Client(**native, via="native", provider=provider)
    except (errors.InvalidArgument, errors.AccessDenied):  # of the call, or reported by the door
        raise
    except errors.VerbenaError as error:
        _say_once(native_endpoint or f"port 9100 of {s3.meta.endpoint_url}", error)
        return Acceleration(s3, None)
    return Acceleration(s3, client, token_provider and dict(options, via="token", provider=token_provider), md5_etags)


def _unprotected(options):
    """Whether payload of an https endpoint could be sent unencrypted without having been allowed to."""
    asked = options.get("cleartext_rdma") or options.get("encryption") not in (None, "", "auto")
    return options["endpoint"].startswith("https://") and not asked


_said, _said_lock = set(), threading.Lock()


def _say_once(where, error):
    with _said_lock:
        if where in _said:
            return
        _said.add(where)
    _log.warning("no native door at %s (%s): boto3 goes on by HTTP alone", where, error)


def _broken(request, error):
    from botocore.exceptions import ConnectionClosedError
    return ConnectionClosedError(endpoint_url=request.url, error=error)


def _text(value):
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _headers(request):
    """The headers of a prepared request, or of its source."""
    found = request["headers"] if isinstance(request, dict) else request.headers
    return {_text(name).lower(): _text(value) for name, value in found.items()}


def _etag(value):
    if value is None or value == "*":
        return value
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value


def _is_checksum(name):
    return name.startswith("x-amz-checksum-") and name[15:].upper() in _CHECKSUMS


def _streaming(headers):
    return headers.get("x-amz-content-sha256", "").startswith("STREAMING") or "transfer-encoding" in headers


class _Body:
    """A request's body: its bytes in memory (None: a stream without a known end), and its checksum if it has one."""

    def __init__(self, body, checksum):
        self.checksum, self.bytes, self._stream, self._start = checksum, None, None, 0
        if body is None:
            self.bytes = b""
        elif isinstance(body, (bytes, bytearray, memoryview)):
            self.bytes = body
        elif isinstance(body, str):
            self.bytes = body.encode()
        elif hasattr(body, "read") and hasattr(body, "seek") and hasattr(body, "tell"):
            self._stream, self._start = body, body.tell()
            data = body.read()
            self.bytes = data if isinstance(data, (bytes, bytearray)) else None

    def rewind(self):
        """Resets it for sending over HTTP. A stream that was sent stays at its end, as progress bars expect."""
        if self._stream is not None:
            self._stream.seek(self._start)


def _md5_is(body, expected):
    import base64
    import hashlib
    return base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode() == expected
