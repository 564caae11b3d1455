package rdma

// #include "calls.h"
import "C"

import (
	"context"
	"fmt"
	"unsafe"
)

// Code is the reason for a failed call. Codes are errors, so that errors.Is(err, rdma.NoSuchKey) works.
type Code int

const (
	InvalidArgument     Code = C.VERBENA_INVALID_ARGUMENT
	NoSuchBucket        Code = C.VERBENA_NO_SUCH_BUCKET
	NoSuchKey           Code = C.VERBENA_NO_SUCH_KEY
	NoSuchUpload        Code = C.VERBENA_NO_SUCH_UPLOAD
	BucketExists        Code = C.VERBENA_BUCKET_EXISTS
	BucketNotEmpty      Code = C.VERBENA_BUCKET_NOT_EMPTY
	PreconditionFailed  Code = C.VERBENA_PRECONDITION_FAILED
	NotModified         Code = C.VERBENA_NOT_MODIFIED
	InvalidRange        Code = C.VERBENA_INVALID_RANGE
	AccessDenied        Code = C.VERBENA_ACCESS_DENIED
	UnknownAccessKey    Code = C.VERBENA_UNKNOWN_ACCESS_KEY
	ChecksumMismatch    Code = C.VERBENA_CHECKSUM_MISMATCH
	BufferTooSmall      Code = C.VERBENA_BUFFER_TOO_SMALL
	TooLarge            Code = C.VERBENA_TOO_LARGE
	SlowDown            Code = C.VERBENA_SLOW_DOWN
	Unsupported         Code = C.VERBENA_UNSUPPORTED
	ConnectionFailed    Code = C.VERBENA_CONNECTION_FAILED
	TimedOut            Code = C.VERBENA_TIMED_OUT
	OutcomeUnknown      Code = C.VERBENA_OUTCOME_UNKNOWN
	MalformedReply      Code = C.VERBENA_MALFORMED_REPLY
	ServerError         Code = C.VERBENA_SERVER_ERROR
	LocalError          Code = C.VERBENA_LOCAL_ERROR
	Cancelled           Code = C.VERBENA_CANCELLED
	Forked              Code = C.VERBENA_FORKED
	InsufficientStorage Code = C.VERBENA_INSUFFICIENT_STORAGE
	Closed              Code = -1
)

func (c Code) Error() string {
	if c == Closed {
		return "closed"
	}
	return C.GoString(C.verbena_code_name(C.int(c)))
}

// Error is the failure of a call: errors.As finds it.
type Error struct {
	Code       Code
	S3Code     string // "NoSuchKey"; empty when S3 has no name for it
	RequestID  string // the server's, if it sent one
	HTTPStatus int    // 0: the failure did not come over HTTP
	Message    string
	cause      error
}

func (e *Error) Error() string { return fmt.Sprintf("verbena: %s: %s", e.Code.Error(), e.Message) }

// Is matches codes, and the context's error if that ended the call.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

func (e *Error) Unwrap() error { return e.cause }

var errClosed = &Error{Code: Closed, Message: "the client is closed"}

// Converts the failure of an answer to an error; nil for none.
func failure(ctx context.Context, code C.int, answer *C.vb_answer) error {
	if code == C.VERBENA_OK {
		return nil
	}
	made := &Error{Code: Code(code)}
	if said := answer.error; said != nil { // nil: out of memory
		made.S3Code, made.RequestID = C.GoString(&said.s3_code[0]), C.GoString(&said.request_id[0])
		made.HTTPStatus, made.Message = int(said.http_status), C.GoString(&said.message[0])
		C.free(unsafe.Pointer(said))
		answer.error = nil
	}
	if made.Code == Cancelled && ctx != nil {
		made.cause = ctx.Err()
	}
	return made
}
