package rdma

// #include "calls.h"
import "C"

import (
	"context"
	"time"
)

// ListOptions narrow a listing.
type ListOptions struct {
	Prefix    string
	Delimiter string // "/" for one level: the levels below come as entries with Prefix set
	After     string
	PageSize  uint // 1 to 1000, which is the default
}

// Entry is a key of a listing, or a common prefix.
type Entry struct {
	Object
	Prefix bool
}

// Iterator walks a listing:
//
//	for all := client.List(ctx, "bucket", nil); all.Next(); { use(all.Entry()) }
//
// and then Err.
type Iterator struct {
	client       *Client
	ctx          context.Context
	bucket       string
	options      ListOptions
	continuation string
	entries      []Entry
	now          Entry
	last         bool
	err          error
}

// List begins a listing. options may be nil.
func (c *Client) List(ctx context.Context, bucket string, options *ListOptions) *Iterator {
	made := &Iterator{client: c, ctx: ctx, bucket: bucket}
	if options != nil {
		made.options = *options
	}
	return made
}

// Next reports whether there is another entry.
func (i *Iterator) Next() bool {
	for len(i.entries) == 0 {
		if i.last || i.err != nil {
			return false
		}
		i.err = i.page()
	}
	i.now, i.entries = i.entries[0], i.entries[1:]
	return true
}

// Entry returns the entry found by Next.
func (i *Iterator) Entry() Entry { return i.now }

// Err returns the reason why Next ended early; nil at the end of the listing.
func (i *Iterator) Err() error { return i.err }

func (i *Iterator) page() error {
	if i.bucket == "" {
		return &Error{Code: InvalidArgument, Message: "the bucket is empty"}
	}
	names, err := join(i.bucket, i.options.Prefix, i.options.Delimiter, i.options.After, i.continuation)
	if err != nil {
		return err
	}
	var page *C.verbena_page
	if _, err := i.client.do(i.ctx, names, func(names *C.char, cancellation *C.verbena_cancellation, answer *C.vb_answer) C.int {
		return C.vb_list(i.client.handle, names, C.uint(i.options.PageSize), &page, cancellation, answer)
	}); err != nil {
		return err
	}
	defer C.verbena_page_free(page)
	i.entries = append(i.entries, entries(page)...)
	next := C.verbena_page_continuation(page)
	i.last = next == nil
	i.continuation = C.GoString(next)
	return nil
}

func entries(page *C.verbena_page) []Entry {
	var found []Entry
	for n := C.size_t(0); n < C.verbena_page_count(page); n++ {
		var one C.verbena_object
		one.struct_size = C.sizeof_verbena_object
		key := C.verbena_page_object(page, n, &one)
		found = append(found, Entry{Object: Object{Key: C.GoString(key), Size: uint64(one.size), ETag: C.GoString(&one.etag[0]),
			LastModified: time.UnixMicro(int64(one.modified_us)).UTC()}})
	}
	for n := C.size_t(0); n < C.verbena_page_prefix_count(page); n++ {
		found = append(found, Entry{Object: Object{Key: C.GoString(C.verbena_page_prefix(page, n))}, Prefix: true})
	}
	return found
}

// Buckets returns the names of all buckets.
func (c *Client) Buckets(ctx context.Context) ([]string, error) {
	var names []string
	err := c.doAside(ctx, []byte{0}, func(_ *C.char, _ *C.verbena_cancellation, answer *C.vb_answer) C.int {
		var page *C.verbena_page
		code := C.vb_buckets(c.handle, &page, answer)
		if code == C.VERBENA_OK {
			for _, entry := range entries(page) {
				names = append(names, entry.Key)
			}
			C.verbena_page_free(page)
		}
		return code
	})
	if err != nil {
		return nil, err // the call may still be adding names
	}
	return names, nil
}

// MakeBucket makes a bucket. memory: PUTs are acknowledged from memory and written behind (scratch data).
func (c *Client) MakeBucket(ctx context.Context, bucket string, memory bool) error {
	return c.onBucket(ctx, bucket, func(names *C.char, answer *C.vb_answer) C.int {
		return C.vb_make_bucket(c.handle, names, flag(memory), answer)
	})
}

// RemoveBucket removes an empty bucket.
func (c *Client) RemoveBucket(ctx context.Context, bucket string) error {
	return c.onBucket(ctx, bucket, func(names *C.char, answer *C.vb_answer) C.int {
		return C.vb_remove_bucket(c.handle, names, answer)
	})
}

func (c *Client) onBucket(ctx context.Context, bucket string, run func(*C.char, *C.vb_answer) C.int) error {
	names, err := named(bucket, "\x01")
	if err != nil {
		return err
	}
	return c.doAside(ctx, names, func(names *C.char, _ *C.verbena_cancellation, answer *C.vb_answer) C.int { return run(names, answer) })
}
