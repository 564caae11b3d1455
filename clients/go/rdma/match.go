package rdma

// #include "calls.h"
import "C"

import (
	"context"
	"time"
	"unsafe"
)

const matchMax = 65536 // hashes of one question

// MatchOptions says what a Match tells beside how many keys there are.
type MatchOptions struct {
	Sizes bool          // of the leading objects
	Lease time.Duration // holds what was found for so long, a minute at most, for GetManyLeased; by the native door alone
	Join  uint64        // with that: a lease of this client that takes it in; 0: a new one
}

// Matched says how many leading keys of a list exist.
type Matched struct {
	Leading int
	Ended   Code     // why the next key does not count; 0: all of the list do
	Sizes   []uint64 // of the leading objects, if they were asked for
	Lease   uint64   // 0: none
}

// Match counts the leading keys that exist and may be read: as many HEADs, up to the first that fails, in one message. A
// key is the namespace, a slash and the hash in lower-case hexadecimal; a hash has 16 or 32 bytes.
func (c *Client) Match(ctx context.Context, bucket, namespace string, hashes [][]byte, options *MatchOptions) (Matched, error) {
	if options == nil {
		options = &MatchOptions{}
	}
	if len(hashes) == 0 || len(hashes) > matchMax || options.Lease < 0 {
		return Matched{}, &Error{Code: InvalidArgument, Message: "a match has 1 to 65536 hashes, and no lease below zero"}
	}
	width := len(hashes[0])
	packed := make([]byte, 0, len(hashes)*width)
	for _, hash := range hashes {
		if len(hash) != width {
			return Matched{}, &Error{Code: InvalidArgument, Message: "the hashes of a match have one width"}
		}
		packed = append(packed, hash...)
	}
	names, err := join(bucket, namespace)
	if err != nil {
		return Matched{}, err
	}
	var sizes []uint64
	var into *C.uint64_t
	if options.Sizes {
		sizes = make([]uint64, len(hashes))
		into = (*C.uint64_t)(unsafe.Pointer(&sizes[0]))
	}
	milliseconds := C.uint64_t((options.Lease + time.Millisecond - 1) / time.Millisecond)
	count, join := C.uint32_t(len(hashes)), C.uint64_t(options.Join)
	var found C.vb_matched
	err = c.aside(ctx, func(k call) error {
		_, err := k.run(ctx, names, func(names *C.char, _ *C.verbena_cancellation, answer *C.vb_answer) C.int {
			return C.vb_match(c.handle, names, start(packed), count, C.size_t(width), milliseconds, join, into, &found, answer)
		})
		return err
	}, func(k call) {
		if found.lease != 0 && join == 0 {
			k.endLease(context.Background(), uint64(found.lease)) // no caller knows it; else its time ends it
		}
	})
	if err != nil {
		return Matched{}, err
	}
	matched := Matched{Leading: int(found.leading), Ended: Code(found.code), Lease: uint64(found.lease)}
	if options.Sizes {
		matched.Sizes = sizes[:matched.Leading]
	}
	return matched, nil
}

// EndLease ends a lease before its time. It succeeds for one that has ended.
func (c *Client) EndLease(ctx context.Context, lease uint64) error {
	return c.aside(ctx, func(k call) error { return k.endLease(ctx, lease) }, func(call) {})
}

func (k call) endLease(ctx context.Context, lease uint64) error {
	_, err := k.run(ctx, []byte{0}, func(_ *C.char, _ *C.verbena_cancellation, answer *C.vb_answer) C.int {
		return C.vb_end_lease(k.client.handle, C.uint64_t(lease), answer)
	})
	return err
}
