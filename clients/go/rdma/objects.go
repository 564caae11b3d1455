package rdma

// #include "calls.h"
import "C"

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime/cgo"
	"time"
	"unsafe"
)

// Range is a part of an object. Length 0: to its end.
type Range struct{ Offset, Length uint64 }

// GetOptions are conditions and options of a GET. ETags are without quotes, or "*".
type GetOptions struct {
	Range       *Range
	IfMatch     string
	IfNoneMatch string
	VersionID   string
	Metadata    bool // fill ContentType, Checksum, Metadata and Headers
	// A device's memory is checked once the bytes are there: Object.DeviceVerified says by what (docs/gpu.md).
	VerifyDevice bool
	sizeMax      uint64
}

// PutOptions are properties that a PUT stores with the bytes, and its conditions.
type PutOptions struct {
	ContentType string
	Metadata    map[string]string // x-amz-meta-*, names without the prefix
	IfMatch     string
	IfNoneMatch string
	Checksum    string        // "CRC32C:yZRlqg==": what the bytes must have, else nothing is stored
	MD5ETag     bool          // the ETag must be the MD5 of the bytes
	TTL         time.Duration // whole seconds after which the object ends; 0: it has no end
	Describe    bool          // fill Headers with the server's headers for the new object
	// Without Checksum, that of a device's memory is computed from it, before the bytes are sent.
	VerifyDevice bool
}

// Object has an object's properties, and how its bytes were transferred.
type Object struct {
	Key            string
	Bytes          uint64 // moved by this call
	Size           uint64 // of the whole object
	ETag           string
	VersionID      string
	LastModified   time.Time
	ContentType    string
	Checksum       string
	Metadata       map[string]string
	Headers        map[string]string // further stored or computed headers, lower-case names
	Door           string            // "native", "token", "http"
	Provider       string            // "local", "tcp", "verbs;ofi_rxm", "http"
	FellBackReason string
	DevicePath     string // "direct", "shared", "staged": the way to a device's memory (docs/gpu.md); else empty
	DeviceVerified string // of VerifyDevice: "kernel", "read_back", "no_checksum"; else empty
}

// Values of nearly every answer, shared to save allocations.
var words = map[string]string{"native": "native", "token": "token", "http": "http", "local": "local", "tcp": "tcp",
	"": "", "shared": "shared", "staged": "staged", "verbs;ofi_rxm": "verbs;ofi_rxm"}

func oftenSaid(text []C.char) string {
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&text[0])), len(text))
	if end := bytes.IndexByte(raw, 0); end >= 0 {
		raw = raw[:end]
	}
	if word, found := words[string(raw)]; found {
		return word
	}
	return string(raw)
}

func object(key string, answer *C.vb_answer, info *C.verbena_info) Object {
	made := Object{
		Key:            key,
		Bytes:          uint64(answer.bytes),
		Size:           uint64(answer.object.size),
		ETag:           C.GoString(&answer.object.etag[0]),
		VersionID:      C.GoString(&answer.object.version_id[0]),
		Door:           oftenSaid(answer.transfer.door[:]),
		Provider:       oftenSaid(answer.transfer.provider[:]),
		FellBackReason: C.GoString(&answer.transfer.fell_back_reason[0]),
		DevicePath:     oftenSaid(answer.transfer.device_path[:]),
		DeviceVerified: oftenSaid(answer.transfer.device_verified[:]),
	}
	if answer.object.modified_us != 0 {
		made.LastModified = time.UnixMicro(int64(answer.object.modified_us)).UTC()
	}
	if info == nil {
		return made
	}
	made.ContentType = C.GoString(C.verbena_info_content_type(info))
	made.Checksum = C.GoString(C.verbena_info_checksum(info))
	made.Metadata, made.Headers = map[string]string{}, map[string]string{}
	var pair C.verbena_pair
	for i := C.size_t(0); i < C.verbena_info_metadata_count(info); i++ {
		C.verbena_info_metadata(info, i, &pair)
		made.Metadata[C.GoString(pair.name)] = C.GoString(pair.value)
	}
	for i := C.size_t(0); i < C.verbena_info_header_count(info); i++ {
		C.verbena_info_header(info, i, &pair)
		made.Headers[C.GoString(pair.name)] = C.GoString(pair.value)
	}
	C.verbena_info_free(info)
	return made
}

// Reads into a slice, or into a buffer's memory.
func (c *Client) get(ctx context.Context, bucket, key string, into []byte, buffer *C.verbena_buffer, options *GetOptions) (Object, error) {
	if options == nil {
		options = &GetOptions{}
	}
	names, err := named(bucket, key, options.IfMatch, options.IfNoneMatch, options.VersionID)
	if err != nil {
		return Object{}, err
	}
	var info *C.verbena_info
	var wanted **C.verbena_info
	if options.Metadata {
		wanted = &info
	}
	var offset, length C.uint64_t
	if options.Range != nil {
		offset, length = C.uint64_t(options.Range.Offset), C.uint64_t(options.Range.Length)
	}
	answer, err := c.do(ctx, names, func(names *C.char, cancellation *C.verbena_cancellation, answer *C.vb_answer) C.int {
		return C.vb_get(c.handle, names, buffer, start(into), C.size_t(len(into)), flag(options.Range != nil), offset, length,
			flag(options.VerifyDevice), wanted, cancellation, answer)
	})
	if err != nil {
		return Object{}, err
	}
	return object(key, answer, info), nil
}

// GetInto fills the caller's memory: BufferTooSmall when the bytes do not fit. options may be nil.
func (c *Client) GetInto(ctx context.Context, bucket, key string, into []byte, options *GetOptions) (Object, error) {
	return c.get(ctx, bucket, key, into, nil, options)
}

// GetObject returns the object's bytes.
func (c *Client) GetObject(ctx context.Context, bucket, key string) ([]byte, error) {
	data, _, err := c.GetWith(ctx, bucket, key, nil)
	return data, err
}

// GetWith is GetObject with options; it also returns the object's properties.
func (c *Client) GetWith(ctx context.Context, bucket, key string, options *GetOptions) ([]byte, Object, error) {
	version := ""
	if options != nil {
		version = options.VersionID
	}
	for attempt := 0; ; attempt++ {
		var room uint64
		if options != nil && options.Range != nil && options.Range.Length > 0 && options.Range.Length <= 64<<20 {
			room = options.Range.Length
		} else {
			head, err := c.head(ctx, bucket, key, version, false)
			if err != nil {
				return nil, Object{}, err
			}
			if options != nil && options.sizeMax != 0 && head.Size > options.sizeMax {
				return nil, Object{}, &Error{Code: TooLarge, Message: "larger than what may be held in memory"}
			}
			room = head.Size
		}
		data := make([]byte, room, room+1)
		if room == 0 {
			data = data[:1]
		}
		got, err := c.get(ctx, bucket, key, data, nil, options)
		if err == nil {
			return data[:got.Bytes], got, nil
		}
		if !errors.Is(err, BufferTooSmall) || attempt == 8 { // the object may have grown in between
			return nil, Object{}, err
		}
	}
}

// PutObject stores the bytes.
func (c *Client) PutObject(ctx context.Context, bucket, key string, data []byte) error {
	_, err := c.PutWith(ctx, bucket, key, data, nil)
	return err
}

// PutWith is PutObject with options; it also returns the server's answer.
func (c *Client) PutWith(ctx context.Context, bucket, key string, data []byte, options *PutOptions) (Object, error) {
	return c.put(ctx, bucket, key, source{bytes: data}, options)
}

// A PUT's source: a reader, or memory that may lie in a buffer.
type source struct {
	bytes  []byte
	buffer *C.verbena_buffer
	reader cgo.Handle
}

func (c *Client) put(ctx context.Context, bucket, key string, from source, options *PutOptions) (Object, error) {
	if options == nil {
		options = &PutOptions{}
	}
	parts := []string{options.IfMatch, options.IfNoneMatch, options.ContentType, options.Checksum}
	for name, value := range options.Metadata {
		parts = append(parts, name, value)
	}
	names, err := named(bucket, key, parts...)
	if err != nil {
		return Object{}, err
	}
	ttl, err := seconds(options.TTL)
	if err != nil {
		return Object{}, err
	}
	var info *C.verbena_info
	var wanted **C.verbena_info
	if options.Describe {
		wanted = &info
	}
	answer, err := c.do(ctx, names, func(names *C.char, cancellation *C.verbena_cancellation, answer *C.vb_answer) C.int {
		return C.vb_put(c.handle, names, C.uintptr_t(from.reader), from.buffer, start(from.bytes), C.size_t(len(from.bytes)),
			C.size_t(len(options.Metadata)), flag(options.MD5ETag), ttl, flag(options.VerifyDevice), wanted, cancellation, answer)
	})
	if err != nil {
		return Object{}, err
	}
	answer.bytes = answer.transfer.bytes
	return object(key, answer, info), nil
}

func (c *Client) head(ctx context.Context, bucket, key, version string, all bool) (Object, error) {
	names, err := named(bucket, key, version)
	if err != nil {
		return Object{}, err
	}
	var info *C.verbena_info
	var wanted **C.verbena_info
	if all {
		wanted = &info
	}
	answer, err := c.do(ctx, names, func(names *C.char, cancellation *C.verbena_cancellation, answer *C.vb_answer) C.int {
		return C.vb_head(c.handle, names, wanted, cancellation, answer)
	})
	if err != nil {
		return Object{}, err
	}
	return object(key, answer, info), nil
}

// HeadObject returns an object's properties.
func (c *Client) HeadObject(ctx context.Context, bucket, key string) (Object, error) {
	return c.head(ctx, bucket, key, "", true)
}

// AtEnd is the offset of an append to an object of any size.
const AtEnd = ^uint64(0)

// AppendObject adds data to the end of an object in a directory bucket, which must be `at` bytes long, or AtEnd; a
// missing object is created. The result has the size of the whole object.
func (c *Client) AppendObject(ctx context.Context, bucket, key string, data []byte, at uint64, contentType string) (Object, error) {
	names, err := named(bucket, key, contentType)
	if err != nil {
		return Object{}, err
	}
	call, err := c.begin(ctx)
	if err != nil {
		return Object{}, err
	}
	defer call.end()
	var answer C.vb_answer
	code := C.vb_append(c.handle, text(names), start(data), C.size_t(len(data)), C.uint64_t(at), call.cancellation, &answer)
	if err := failure(ctx, code, &answer); err != nil {
		return Object{}, err
	}
	answer.bytes = answer.transfer.bytes
	return object(key, &answer, nil), nil
}

// RenameOptions are conditions of a rename. ETags are without quotes, or "*".
type RenameOptions struct {
	SourceIfMatch, IfMatch, IfNoneMatch string
	Token                               string // a repeated request with the same token is not executed again
}

// RenameObject renames an object of a directory bucket atomically, replacing an object of the new name. options may be
// nil.
func (c *Client) RenameObject(ctx context.Context, bucket, from, to string, options *RenameOptions) error {
	if options == nil {
		options = &RenameOptions{}
	}
	names, err := named(bucket, from, to, options.SourceIfMatch, options.IfMatch, options.IfNoneMatch, options.Token)
	if err != nil {
		return err
	}
	call, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer call.end()
	var answer C.vb_answer
	code := C.vb_rename(c.handle, text(names), call.cancellation, &answer)
	return failure(ctx, code, &answer)
}

// DeleteObject succeeds for a key that does not exist, as S3 does.
func (c *Client) DeleteObject(ctx context.Context, bucket, key string) error {
	names, err := named(bucket, key, "", "")
	if err != nil {
		return err
	}
	_, err = c.do(ctx, names, func(names *C.char, cancellation *C.verbena_cancellation, answer *C.vb_answer) C.int {
		return C.vb_delete(c.handle, names, cancellation, answer)
	})
	return err
}

// Reader reads an object in ranges, all of the version at the time of Open. It is an io.ReadSeeker and io.ReaderAt.
type Reader struct {
	client      *Client
	ctx         context.Context
	bucket, key string
	info        Object
	at          int64
}

// Open looks the object up; bytes are fetched by reads.
func (c *Client) Open(ctx context.Context, bucket, key string) (*Reader, error) {
	info, err := c.HeadObject(ctx, bucket, key)
	if err != nil {
		return nil, err
	}
	return &Reader{client: c, ctx: ctx, bucket: bucket, key: key, info: info}, nil
}

// Object returns the properties at the time of Open.
func (r *Reader) Object() Object { return r.info }

// ReadAt fills `into` from an offset of the object.
func (r *Reader) ReadAt(into []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, &Error{Code: InvalidArgument, Message: "a negative offset"}
	}
	left := int64(r.info.Size) - offset
	if left <= 0 {
		return 0, io.EOF
	}
	wanted := into
	if int64(len(wanted)) > left {
		wanted = wanted[:left]
	}
	if len(wanted) == 0 {
		return 0, nil
	}
	got, err := r.client.GetInto(r.ctx, r.bucket, r.key, wanted,
		&GetOptions{Range: &Range{uint64(offset), uint64(len(wanted))}, IfMatch: r.info.ETag})
	if err != nil {
		return 0, err
	}
	if int(got.Bytes) < len(into) {
		return int(got.Bytes), io.EOF
	}
	return int(got.Bytes), nil
}

func (r *Reader) Read(into []byte) (int, error) {
	if len(into) == 0 {
		return 0, nil
	}
	n, err := r.ReadAt(into, r.at)
	r.at += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += int64(r.info.Size)
	}
	if offset < 0 {
		return r.at, &Error{Code: InvalidArgument, Message: "a negative offset"}
	}
	r.at = offset
	return offset, nil
}
