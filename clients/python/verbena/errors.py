"""What calls raise. Every exception of this package is a VerbenaError with `code`, `s3_code`, `http_status` and `request_id`."""
import re

_BY_NUMBER = {}  # a result's number in the C API -> its exception


class VerbenaError(Exception):
    """A call failed. `code` names why ('no_such_key'), `s3_code` is S3's name for it ('NoSuchKey') or empty."""

    code = "error"

    def __init_subclass__(cls, number=None, **rest):
        super().__init_subclass__(**rest)
        if cls.__module__ == __name__:
            cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        if number is not None:
            _BY_NUMBER[number] = cls

    def __init__(self, message="", s3_code="", request_id="", http_status=0):
        super().__init__(message)
        self.s3_code, self.request_id, self.http_status = s3_code, request_id, http_status

    def __reduce__(self):
        return type(self), (str(self), self.s3_code, self.request_id, self.http_status)


class NotFound(VerbenaError, FileNotFoundError):
    """A bucket, key or upload that is not there."""

    def __str__(self):
        return str(self.args[0]) if self.args else ""


# fmt: off
class InvalidArgument(VerbenaError, ValueError, number=1): """The call can never work like that."""
class NoSuchBucket(NotFound, number=2): """No bucket of that name."""
class NoSuchKey(NotFound, number=3): """No object of that key, or no such version."""
class NoSuchUpload(NotFound, number=4): """No multipart upload of that id."""
class BucketExists(VerbenaError, number=5): """The name is in use."""
class BucketNotEmpty(VerbenaError, number=6): """The bucket has objects, versions or uploads."""
class PreconditionFailed(VerbenaError, number=7): """A condition of the call does not hold."""
class NotModified(VerbenaError, number=8): """The object is as the caller knows it."""
class InvalidRange(VerbenaError, ValueError, number=9): """The range lies past the object's end."""
class AccessDenied(VerbenaError, number=10): """Known, but may not; or the signature does not match."""
class UnknownAccessKey(AccessDenied, number=11): """The server has no such access key."""
class ChecksumMismatch(VerbenaError, number=12): """Bytes that are not the object's."""
class BufferTooSmall(VerbenaError, ValueError, number=13): """The object does not fit."""
class TooLarge(VerbenaError, ValueError, number=14): """More than the server takes."""
class SlowDown(VerbenaError, number=15): """The server is overloaded, and retries are used up."""
class Unsupported(VerbenaError, number=16): """The server, or the door, cannot do that."""
class ConnectionFailed(VerbenaError, ConnectionError, number=17): """Nothing reached the server."""
class TimedOut(VerbenaError, TimeoutError, number=18): """No answer in time."""
class OutcomeUnknown(VerbenaError, ConnectionError, number=19): """The connection broke after the request was sent: it may have been done."""
class MalformedReply(VerbenaError, number=20): """The server's answer cannot be read."""
class ServerError(VerbenaError, number=21): """The server failed."""
class LocalError(VerbenaError, number=22): """This machine: no memory, no device, a stream that failed."""
class Cancelled(VerbenaError, number=23): """The client was closed, or the call cancelled, before it ended."""
class Forked(VerbenaError, number=24): """The client was made before a fork of this process: make a new one in the child."""
class InsufficientStorage(ServerError, number=25): """The server's disk or memory is full, or a lease pins all of a bounded bucket."""
class Closed(VerbenaError, ValueError, number=-1): """The client was closed before the call."""
# fmt: on


PRECONDITION_FAILED = 7


def make(number, message, s3_code, request_id, http_status):
    return _BY_NUMBER.get(number, VerbenaError)(message, s3_code, request_id, http_status)


def code_of(number):
    return _BY_NUMBER.get(number, VerbenaError).code if number else None


def of_item(number, bucket, key):
    kind = _BY_NUMBER.get(number, VerbenaError)
    return kind(f"{bucket}/{key}: {kind.code}")
