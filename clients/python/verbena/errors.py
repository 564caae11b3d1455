"""What calls raise. Every exception of this package is a VerbenaError with `code`, `s3_code`, `http_status` and `request_id`."""


class VerbenaError(Exception):
    """A call failed. `code` names why ('no_such_key'), `s3_code` is S3's name for it ('NoSuchKey') or empty."""

    code = "error"

    def __init__(self, message="", s3_code="", request_id="", http_status=0):
        super().__init__(message)
        self.s3_code, self.request_id, self.http_status = s3_code, request_id, http_status

    def __reduce__(self):
        return type(self), (str(self), self.s3_code, self.request_id, self.http_status)


class InvalidArgument(VerbenaError, ValueError):
    """The call can never work like that."""

    code = "invalid_argument"


class NotFound(VerbenaError, FileNotFoundError):
    """A bucket, key or upload that is not there."""

    code = "not_found"

    def __str__(self):
        return str(self.args[0]) if self.args else ""


class NoSuchBucket(NotFound):
    code = "no_such_bucket"


class NoSuchKey(NotFound):
    code = "no_such_key"


class NoSuchUpload(NotFound):
    code = "no_such_upload"


class BucketExists(VerbenaError):
    code = "bucket_exists"


class BucketNotEmpty(VerbenaError):
    code = "bucket_not_empty"


class PreconditionFailed(VerbenaError):
    code = "precondition_failed"


class NotModified(VerbenaError):
    code = "not_modified"


class InvalidRange(VerbenaError, ValueError):
    code = "invalid_range"


class AccessDenied(VerbenaError):
    """Known, but may not; or the signature does not match."""

    code = "access_denied"


class UnknownAccessKey(AccessDenied):
    code = "unknown_access_key"


class ChecksumMismatch(VerbenaError):
    """Bytes that are not the object's."""

    code = "checksum_mismatch"


class BufferTooSmall(VerbenaError, ValueError):
    code = "buffer_too_small"


class TooLarge(VerbenaError, ValueError):
    code = "too_large"


class SlowDown(VerbenaError):
    """The server is overloaded, and retries are used up."""

    code = "slow_down"


class Unsupported(VerbenaError):
    code = "unsupported"


class ConnectionFailed(VerbenaError, ConnectionError):
    """Nothing reached the server."""

    code = "connection_failed"


class TimedOut(VerbenaError, TimeoutError):
    code = "timed_out"


class OutcomeUnknown(VerbenaError, ConnectionError):
    """The connection broke after the request was sent: the server may or may not have done it."""

    code = "outcome_unknown"


class MalformedReply(VerbenaError):
    code = "malformed_reply"


class ServerError(VerbenaError):
    code = "server_error"


class LocalError(VerbenaError):
    """This machine: no memory, no device, a stream that failed."""

    code = "local_error"


class Cancelled(VerbenaError):
    """The client was closed, or the call cancelled, while it was under way."""

    code = "cancelled"


class Forked(VerbenaError):
    """The client was made before a fork of this process: make a new one in the child."""

    code = "forked"


class Closed(VerbenaError, ValueError):
    """The client was closed before the call."""

    code = "closed"


_BY_NUMBER = {
    1: InvalidArgument, 2: NoSuchBucket, 3: NoSuchKey, 4: NoSuchUpload, 5: BucketExists, 6: BucketNotEmpty, 7: PreconditionFailed,
    8: NotModified, 9: InvalidRange, 10: AccessDenied, 11: UnknownAccessKey, 12: ChecksumMismatch, 13: BufferTooSmall, 14: TooLarge,
    15: SlowDown, 16: Unsupported, 17: ConnectionFailed, 18: TimedOut, 19: OutcomeUnknown, 20: MalformedReply, 21: ServerError,
    22: LocalError, 23: Cancelled, 24: Forked, -1: Closed}


def make(number, message, s3_code, request_id, http_status):
    return _BY_NUMBER.get(number, VerbenaError)(message, s3_code, request_id, http_status)


def of_item(number, bucket, key):
    kind = _BY_NUMBER.get(number, VerbenaError)
    return kind(f"{bucket}/{key}: {kind.code}")
