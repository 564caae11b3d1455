package rdma

// #include "calls.h"
import "C"

import (
	"context"
	"runtime"
	"sync"
	"unsafe"
)

// Buffer is memory prepared for RDMA: a server on the same host copies straight into and out of it. It lies outside of
// Go's heap.
type Buffer struct {
	mutex  sync.RWMutex
	client *Client
	handle *C.verbena_buffer
	bytes  []byte
	device bool // the bytes are of a device: RegisterDevice
}

// Alloc makes a zeroed buffer. Free it after use; the garbage collector does so only if Bytes was never called.
func (c *Client) Alloc(size int) (*Buffer, error) {
	if size <= 0 {
		return nil, &Error{Code: InvalidArgument, Message: "a buffer has at least one byte"}
	}
	call, err := c.begin(context.Background())
	if err != nil {
		return nil, err
	}
	defer call.end()
	made := &Buffer{client: c}
	var answer C.vb_answer
	if err := failure(nil, C.vb_alloc(c.handle, C.size_t(size), &made.handle, &answer), &answer); err != nil {
		return nil, err
	}
	made.bytes = unsafe.Slice((*byte)(C.verbena_buffer_data(made.handle)), size)
	runtime.SetFinalizer(made, func(b *Buffer) { b.Free() })
	return made, nil
}

// Bytes is the memory, until Free; nil if it is of a device. The slice does not keep the Buffer, so from here on only
// Free gives the memory back: without it, it is leaked.
func (b *Buffer) Bytes() []byte {
	b.mutex.RLock()
	defer b.mutex.RUnlock()
	if b.device {
		return nil
	}
	runtime.SetFinalizer(b, nil)
	return b.bytes
}

// Get fills the buffer's beginning; the object's bytes are Bytes()[:object.Bytes].
func (b *Buffer) Get(ctx context.Context, bucket, key string, options *GetOptions) (Object, error) {
	b.mutex.RLock()
	defer b.mutex.RUnlock()
	if b.handle == nil {
		return Object{}, errClosed
	}
	return b.client.get(ctx, bucket, key, b.bytes, b.handle, options)
}

// Put stores the first `size` bytes.
func (b *Buffer) Put(ctx context.Context, bucket, key string, size int, options *PutOptions) (Object, error) {
	b.mutex.RLock()
	defer b.mutex.RUnlock()
	if b.handle == nil {
		return Object{}, errClosed
	}
	if size < 0 || size > len(b.bytes) {
		return Object{}, &Error{Code: InvalidArgument, Message: "the buffer is smaller than that"}
	}
	return b.client.put(ctx, bucket, key, source{bytes: b.bytes[:size], buffer: b.handle}, options)
}

// Free waits for calls that use the buffer. Slices of Bytes must not be used after it.
func (b *Buffer) Free() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	runtime.SetFinalizer(b, nil)
	C.verbena_buffer_free(b.handle)
	b.handle, b.bytes = nil, nil
}
