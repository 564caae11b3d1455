package rdma

// #include "calls.h"
import "C"

import (
	"context"
	"fmt"
	"io"
	"runtime/cgo"
	"unsafe"
)

// A reader from which C reads bytes, and its error.
type stream struct {
	from io.Reader
	err  error
}

//export verbenaGoRead
func verbenaGoRead(handle C.uintptr_t, into unsafe.Pointer, size C.size_t) C.int64_t {
	return C.int64_t(cgo.Handle(handle).Value().(*stream).fill(unsafe.Slice((*byte)(into), size)))
}

// Negative on failure: a panic must not pass through C.
func (s *stream) fill(into []byte) (n int) {
	defer func() {
		if problem := recover(); problem != nil {
			s.err, n = fmt.Errorf("the reader panicked: %v", problem), -1
		}
	}()
	n, err := io.ReadFull(s.from, into)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		s.err, n = err, -1
	}
	return n
}

// PutReader stores a reader's bytes until its end, in bounded memory. The reader's failure is returned, and nothing is
// stored then. If the context or the client ends it returns when the Read that has begun does: Create does not wait.
func (c *Client) PutReader(ctx context.Context, bucket, key string, from io.Reader, options *PutOptions) (Object, error) {
	reading := &stream{from: from}
	handle := cgo.NewHandle(reading)
	defer handle.Delete()
	put, err := c.put(ctx, bucket, key, source{reader: handle}, options)
	if reading.err != nil {
		return Object{}, reading.err
	}
	return put, err
}

// Writer stores the bytes written to it as an object, which exists whole after Close, or not at all.
type Writer struct {
	pipe *io.PipeWriter
	done chan struct{}
	put  Object
	err  error
}

// Create begins an object. Close ends it and reports whether it was stored; CloseWithError discards it, and so does the
// end of the context or of the client before that. options may be nil.
func (c *Client) Create(ctx context.Context, bucket, key string, options *PutOptions) *Writer {
	from, to := io.Pipe()
	made := &Writer{pipe: to, done: make(chan struct{})}
	go func() {
		defer close(made.done)
		finished, ended := make(chan struct{}), make(chan error)
		go func() {
			why := c.await(ctx, finished)
			if why != nil {
				from.CloseWithError(why) // the PUT may be waiting for a Write
			}
			ended <- why
		}()
		made.put, made.err = c.PutReader(ctx, bucket, key, from, options)
		close(finished)
		if why := <-ended; why != nil && made.err == io.ErrClosedPipe {
			made.err = why
		}
		if made.err != nil {
			from.CloseWithError(made.err) // for later writes
		} else {
			from.Close()
		}
	}()
	return made
}

// Write implements io.Writer.
func (w *Writer) Write(data []byte) (int, error) { return w.pipe.Write(data) }

// Close waits until the object is stored.
func (w *Writer) Close() error {
	w.pipe.Close()
	<-w.done
	return w.err
}

// CloseWithError discards the object.
func (w *Writer) CloseWithError(err error) error {
	if err == nil {
		err = io.ErrClosedPipe
	}
	w.pipe.CloseWithError(err)
	<-w.done
	return w.err
}

// Object returns the server's answer, after Close.
func (w *Writer) Object() Object {
	<-w.done
	return w.put
}

// PutPart stores one part of an upload begun by an S3 client: by token where that works, else over HTTP. A client of
// the native port alone cannot. checksum ("CRC32C:...") may be empty. The part's ETag is its MD5; Headers are the
// server's.
func (c *Client) PutPart(ctx context.Context, bucket, key, upload string, number int, data []byte, checksum string) (Object, error) {
	if upload == "" || number < 1 || number > 10000 {
		return Object{}, &Error{Code: InvalidArgument, Message: "a part has an upload and a number from 1 to 10000"}
	}
	names, err := named(bucket, key, upload, checksum)
	if err != nil {
		return Object{}, err
	}
	var info *C.verbena_info
	answer, err := c.do(ctx, names, func(names *C.char, cancellation *C.verbena_cancellation, answer *C.vb_answer) C.int {
		return C.vb_put_part(c.handle, names, C.uint(number), start(data), C.size_t(len(data)), &info, cancellation, answer)
	})
	if err != nil {
		return Object{}, err
	}
	answer.bytes = answer.transfer.bytes
	return object(key, answer, info), nil
}
