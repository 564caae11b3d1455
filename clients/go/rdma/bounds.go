package rdma

// #include "calls.h"
import "C"

import "context"

// BucketBound makes a bucket evict instead of refusing writes: for caches.
type BucketBound struct {
	BytesMax    uint64 // 0: not limited
	ObjectsMax  uint64 // 0: not limited
	Policy      string // "s3-fifo" (as ""), "lru" or "ttl"
	RenewOnRead bool   // a read renews the TTL of its object
	KeepSuffix  string // a few objects with such keys are not evicted; "": as "/namespace.json"
	KeepNone    bool   // evict those of KeepSuffix, too
}

// SetBound replaces the bucket's bound.
func (c *Client) SetBound(ctx context.Context, bucket string, bound BucketBound) error {
	given := C.verbena_bound{bytes_max: C.uint64_t(bound.BytesMax), objects_max: C.uint64_t(bound.ObjectsMax),
		renew_on_read: flag(bound.RenewOnRead), keep_none: flag(bound.KeepNone)}
	if !fill(given.policy[:], bound.Policy) || !fill(given.keep_suffix[:], bound.KeepSuffix) {
		return &Error{Code: InvalidArgument, Message: "the policy or suffix is too long, or has a zero byte"}
	}
	return c.onBucket(ctx, bucket, func(names *C.char, answer *C.vb_answer) C.int {
		return C.vb_set_bound(c.handle, names, &given, answer)
	})
}

// Bound is the bucket's bound; nil if it has none.
func (c *Client) Bound(ctx context.Context, bucket string) (*BucketBound, error) {
	var found C.verbena_bound
	err := c.onBucket(ctx, bucket, func(names *C.char, answer *C.vb_answer) C.int {
		return C.vb_get_bound(c.handle, names, &found, answer)
	})
	if err != nil || found.policy[0] == 0 {
		return nil, err
	}
	return &BucketBound{BytesMax: uint64(found.bytes_max), ObjectsMax: uint64(found.objects_max), Policy: C.GoString(&found.policy[0]),
		RenewOnRead: found.renew_on_read != 0, KeepSuffix: C.GoString(&found.keep_suffix[0]), KeepNone: found.keep_none != 0}, nil
}

// RemoveBound removes it: the bucket refuses writes again where it would have evicted.
func (c *Client) RemoveBound(ctx context.Context, bucket string) error {
	return c.onBucket(ctx, bucket, func(names *C.char, answer *C.vb_answer) C.int {
		return C.vb_set_bound(c.handle, names, nil, answer)
	})
}

// With a zero byte behind the text. False: it does not fit.
func fill(into []C.char, text string) bool {
	if len(text) >= len(into) {
		return false
	}
	for i := 0; i < len(text); i++ {
		if text[i] == 0 {
			return false
		}
		into[i] = C.char(text[i])
	}
	return true
}
