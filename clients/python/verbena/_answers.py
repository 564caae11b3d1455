"""Answers in botocore's form, and a hook to return them before a request is made."""
import datetime
import email.utils
import functools
import re

RANGE = re.compile(r"bytes=(\d+)-(\d*)$")
_NO_HEADERS = {"content-length", "date", "server", "connection", "x-amz-request-id", "x-amz-id-2", "content-range", "etag", "last-modified"}
_DATE = re.compile(r"\w{3}, (\d\d) (\w{3}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT$")
_MONTHS = {name: number for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}

# Events between before-call and the answer, and botocore's own handlers of them: with any other handler, the request is
# made normally.
_SKIPPED = ("request-created", "choose-signer", "before-sign", "before-send", "response-received", "needs-retry", "before-parse")
_HARMLESS = {
    ("botocore.signers", "RequestSigner.handler"), ("botocore.handlers", "add_retry_headers"),
    ("botocore.client", "ClientCreator._default_s3_presign_to_sigv2"), ("botocore.client", "ClientCreator._default_signer_overrides"),
    ("botocore.handlers", "set_operation_specific_signer"), ("botocore.handlers", "remove_arn_from_signing_path"),
    ("botocore.handlers", "_set_extra_headers_for_unsigned_request"), ("botocore.handlers", "_handle_200_error"),
    ("botocore.handlers", "handle_expires_header"), ("botocore.handlers", "_update_status_code"),
    ("botocore.useragent", "UserAgentString.rebuild_and_replace_user_agent_handler"), ("botocore.utils", "S3ExpressIdentityResolver.inject_signing_cache_key"),
    ("botocore.utils", "S3ExpressIdentityResolver.apply_signing_cache_key"), ("botocore.utils", "S3ExpressIdentityResolver.resolve_s3express_identity"),
    ("botocore.retries.standard", "RetryHandler.needs_retry"), ("botocore.retryhandler", "RetryHandler"),
    ("botocore.utils", "S3RegionRedirectorv2.redirect_from_error"), ("botocore.utils", "S3RegionRedirector.redirect_from_error")}


def _who(handler):
    return handler.__module__, getattr(handler, "__qualname__", type(handler).__qualname__)


class Early:
    """Returns answers at before-call, when a request has its address and headers and was neither signed nor sent:
    that saves most of botocore's cost of a small GET. It skips events; if they have handlers, or this botocore
    differs from the known ones, `possible` is False."""

    def __init__(self, s3):
        self._emitter, self._parser, self._seen, self._verdict = s3.meta.events, None, None, False
        try:
            from botocore.endpoint import convert_to_response_dict
            from botocore.history import get_global_history_recorder
            from botocore.httpchecksum import handle_checksum_body
            from botocore.parsers import ResponseParserFactory
            while not hasattr(self._emitter, "_handlers"):
                self._emitter = self._emitter._emitter
            factory = ResponseParserFactory()
            factory.set_parser_defaults(**{"timestamp_parser": timestamp, **s3._endpoint._response_parser_factory._defaults})
            self._parser = factory.create_parser("rest-xml")
            self._recorder, self._made, self._checked = get_global_history_recorder(), convert_to_response_dict, handle_checksum_body
        except (ImportError, AttributeError, TypeError):
            self._parser = None

    def possible(self, operation):
        if self._parser is None or getattr(self._recorder, "_enabled", True):
            return False
        current = getattr(self._emitter, "_lookup_cache", None)  # a new object whenever a handler is added or removed
        if current is None or current is not self._seen:
            self._verdict = all(_who(handler) in _HARMLESS or handler.__module__ == "verbena.boto"
                                for event in _SKIPPED for handler in self._emitter._handlers.prefix_search(f"{event}.s3.{operation}"))
            self._seen = current
        return self._verdict

    def answer(self, model, params, status, headers, body):
        """The return value of before-call: the HTTP answer, and the parsed answer."""
        http = response(params["url"], status, headers, body)
        made = self._made(http, model)
        made["headers"] = _Headers((name.lower(), value) for name, value in headers.items())
        self._checked(http, made, params["context"], model)
        parsed = self._parser.parse(made, model.output_shape)
        parsed["ResponseMetadata"]["RetryAttempts"] = 0
        return http, parsed


class _Headers(dict):
    """Headers for botocore's parser, which looks up some forty by name: lower-case, found in any case."""

    def __contains__(self, name):
        return dict.__contains__(self, name.lower())

    def __getitem__(self, name):
        return dict.__getitem__(self, name.lower())

    def get(self, name, default=None):
        return dict.get(self, name.lower(), default)


@functools.lru_cache(maxsize=1024)
def timestamp(value):
    """A faster parser for S3's one date format: botocore's takes a quarter of the time of a small GET."""
    from botocore.utils import parse_timestamp
    from dateutil.tz import tzutc
    found = _DATE.match(value) if isinstance(value, str) else None
    if found is None or found[2] not in _MONTHS:
        return parse_timestamp(value)
    day, month, *rest = found.groups()
    year, hour, minute, second = map(int, rest)
    return datetime.datetime(year, _MONTHS[month], int(day), hour, minute, second, tzinfo=tzutc())


def get_answer(reply, size, asked, checksums):
    """Status and headers of a GET."""
    answer = {_title(name): value for name, value in reply.headers.items() if name not in _NO_HEADERS}
    answer.update({"ETag": f'"{reply.etag}"', "Content-Length": str(size), "Accept-Ranges": "bytes",
                   "Last-Modified": email.utils.formatdate(reply.modified_us // 1_000_000, usegmt=True)})
    answer["Content-Type"] = reply.content_type or "binary/octet-stream"
    if reply.version_id:
        answer["x-amz-version-id"] = reply.version_id
    for name, value in reply.metadata.items():
        answer[f"x-amz-meta-{name}"] = value
    if checksums and not asked and reply.checksum:
        name, _, value = reply.checksum.partition(":")
        answer[f"x-amz-checksum-{name.lower()}"] = value
        answer["x-amz-checksum-type"] = "FULL_OBJECT"
    if asked is None:
        return 200, answer
    first = int(RANGE.match(asked)[1])
    answer["Content-Range"] = f"bytes {first}-{first + size - 1}/{reply.size}"
    return 206, answer


def _title(name):
    return name if name.startswith("x-amz-") else name.title()


class _Raw:
    """An answer's body for botocore: urllib3's interface over memory."""

    def __init__(self, memory):
        self._memory, self._view, self._at, self.closed = memory, memoryview(memory), 0, False

    def read(self, amt=None, decode_content=None):
        end = len(self._view) if amt is None or amt < 0 else min(self._at + amt, len(self._view))
        whole = self._at == 0 and end == len(self._view) and not self.closed
        piece = bytes(self._memory if whole else self._view[self._at:end])  # a whole slice of bytes is not a copy
        self._at = end
        if end == len(self._view):
            self.close()
        return piece

    def readinto(self, into):
        n = min(len(into), len(self._view) - self._at)
        into[:n] = self._view[self._at:self._at + n]
        self._at += n
        return n

    def stream(self, amt=65536, decode_content=None):
        while self._at < len(self._view):
            yield self.read(amt)

    def tell(self):
        return self._at

    def readable(self):
        return True

    def close(self):
        if not self.closed:
            self.closed, self._at = True, 0
            self._view, self._memory = memoryview(b""), None

    release_conn = close


def response(url, status, headers, body):
    import botocore.awsrequest
    import botocore.compat
    found = botocore.compat.HTTPHeaders()
    for name, value in headers.items():
        found[name] = value
    return botocore.awsrequest.AWSResponse(url, status, found, _Raw(body))
