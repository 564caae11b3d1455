package rdma

// #include "calls.h"
import "C"

import (
	"context"
	"time"
)

const batchMax = 4096 // items of one call into the library

// Item is one object of a batch. Its bytes go to, or come from, [Offset, Offset+Size) of the batch's memory; HeadMany
// and RemoveMany ignore both. ETags are without quotes, or "*".
type Item struct {
	Bucket, Key  string
	Offset, Size int
	Range        *Range // get
	VersionID    string // not put
	IfMatch      string
	IfNoneMatch  string        // not remove
	ContentType  string        // put
	TTL          time.Duration // put: whole seconds after which the object ends; 0: it has no end
}

// Outcome is the result of one item.
type Outcome struct {
	Bytes        uint64 // delivered or stored
	Size         uint64 // of the whole object; unknown for put and remove
	ETag         string
	VersionID    string
	LastModified time.Time
	Err          error // *Error; the other items are independent
}

// FirstError returns the error of the first item that has one.
func FirstError(outcomes []Outcome) error {
	for _, one := range outcomes {
		if one.Err != nil {
			return one.Err
		}
	}
	return nil
}

// A batch's call, and the lease that a get reads by.
type batchKind struct {
	call  C.int
	lease C.uint64_t
}

// GetMany fetches many objects in few messages, each into its place of `into`; places must not overlap. A missing
// object, or one longer than its place, has an error of its own.
func (c *Client) GetMany(ctx context.Context, items []Item, into []byte) ([]Outcome, error) {
	if ctx.Done() == nil {
		return c.many(ctx, batchKind{call: C.vb_get_many}, items, into, nil)
	}
	return c.detached(ctx, batchKind{call: C.vb_get_many}, items, into)
}

// GetManyLeased fetches as GetMany does, and reads the versions that the lease of a Match holds; other objects, and all if it has
// ended, as they are now.
func (c *Client) GetManyLeased(ctx context.Context, lease uint64, items []Item, into []byte) ([]Outcome, error) {
	return c.detached(ctx, batchKind{call: C.vb_get_many, lease: C.uint64_t(lease)}, items, into)
}

// PutMany stores many objects in few messages, each as atomically and durably as PutObject does. A key may be named once in 4096 items.
func (c *Client) PutMany(ctx context.Context, items []Item, from []byte) ([]Outcome, error) {
	if ctx.Done() == nil {
		return c.many(ctx, batchKind{call: C.vb_put_many}, items, from, nil)
	}
	return c.detached(ctx, batchKind{call: C.vb_put_many}, items, from)
}

// HeadMany returns the properties of many objects.
func (c *Client) HeadMany(ctx context.Context, items []Item) ([]Outcome, error) {
	return c.detached(ctx, batchKind{call: C.vb_head_many}, items, nil)
}

// RemoveMany removes many objects; a missing one is not an error.
func (c *Client) RemoveMany(ctx context.Context, items []Item) ([]Outcome, error) {
	return c.detached(ctx, batchKind{call: C.vb_delete_many}, items, nil)
}

// GetMany fetches into the buffer. The context is checked before each 4096 items; items in flight complete first.
func (b *Buffer) GetMany(ctx context.Context, items []Item) ([]Outcome, error) {
	return b.many(ctx, batchKind{call: C.vb_get_many}, items)
}

// PutMany stores from the buffer. Contexts as in GetMany.
func (b *Buffer) PutMany(ctx context.Context, items []Item) ([]Outcome, error) {
	return b.many(ctx, batchKind{call: C.vb_put_many}, items)
}

func (b *Buffer) many(ctx context.Context, kind batchKind, items []Item) ([]Outcome, error) {
	b.mutex.RLock()
	defer b.mutex.RUnlock()
	if b.handle == nil {
		return nil, errClosed
	}
	return b.client.many(ctx, kind, items, b.bytes, b.handle)
}

func placed(kind batchKind) bool { return kind.call == C.vb_get_many || kind.call == C.vb_put_many }

// A time to live, as the library takes it.
func seconds(ttl time.Duration) (C.uint64_t, error) {
	if ttl < 0 || ttl%time.Second != 0 {
		return 0, &Error{Code: InvalidArgument, Message: "a time to live is whole seconds"}
	}
	return C.uint64_t(ttl / time.Second), nil
}

func checkPlaces(kind batchKind, items []Item, size int) error {
	if len(items) == 0 {
		return &Error{Code: InvalidArgument, Message: "a batch has at least one item"}
	}
	for _, item := range items {
		if placed(kind) && (item.Offset < 0 || item.Size < 0 || item.Offset > size || item.Size > size-item.Offset) {
			return &Error{Code: InvalidArgument, Message: "an item lies outside the memory"}
		}
	}
	return nil
}

// Runs a batch without having to wait for it when the context ends: until it completes it uses memory of its own.
func (c *Client) detached(ctx context.Context, kind batchKind, items []Item, memory []byte) ([]Outcome, error) {
	if err := checkPlaces(kind, items, len(memory)); err != nil {
		return nil, err
	}
	call, err := c.begin(context.Background())
	if err != nil {
		return nil, err
	}
	if err := call.beginAside(ctx); err != nil {
		return nil, err
	}
	own := &Buffer{}
	if len(memory) > 0 {
		if own, err = c.Alloc(len(memory)); err != nil {
			call.endAside()
			return nil, err
		}
	}
	if kind.call == C.vb_put_many {
		for _, item := range items {
			copy(own.bytes[item.Offset:item.Offset+item.Size], memory[item.Offset:])
		}
	}
	kept := append([]Item(nil), items...)
	finished := make(chan struct{})
	var outcomes []Outcome
	go func() {
		defer close(finished)
		defer call.endAside()
		outcomes, err = c.many(ctx, kind, kept, own.bytes, own.handle)
	}()
	if ended := c.await(ctx, finished); ended != nil {
		go func() {
			<-finished
			own.Free()
		}()
		return nil, ended
	}
	for i, one := range outcomes {
		if kind.call == C.vb_get_many && one.Err == nil {
			copy(memory[kept[i].Offset:kept[i].Offset+kept[i].Size], own.bytes[kept[i].Offset:kept[i].Offset+int(one.Bytes)])
		}
	}
	own.Free()
	return outcomes, err
}

func (c *Client) many(ctx context.Context, kind batchKind, items []Item, memory []byte, buffer *C.verbena_buffer) ([]Outcome, error) {
	if err := checkPlaces(kind, items, len(memory)); err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, 0, len(items))
	for first := 0; first < len(items); first += batchMax {
		some := items[first:]
		if len(some) > batchMax {
			some = some[:batchMax]
		}
		results, err := c.batch(ctx, kind, some, memory, buffer)
		if err != nil {
			return nil, err
		}
		for i := range results {
			outcomes = append(outcomes, outcome(&some[i], &results[i]))
		}
	}
	return outcomes, nil
}

func (c *Client) batch(ctx context.Context, kind batchKind, items []Item, memory []byte, buffer *C.verbena_buffer) ([]C.verbena_item_result, error) {
	texts, places := make([]string, 0, 6*len(items)), make([]C.vb_place, len(items))
	for i, item := range items {
		if item.Bucket == "" || item.Key == "" {
			return nil, &Error{Code: InvalidArgument, Message: "the bucket or key is empty"}
		}
		texts = append(texts, item.Bucket, item.Key, item.VersionID, item.IfMatch, item.IfNoneMatch, item.ContentType)
		if kind.call == C.vb_put_many {
			ttl, err := seconds(item.TTL)
			if err != nil {
				return nil, err
			}
			places[i].ttl_s = ttl
		}
		if placed(kind) {
			places[i].offset, places[i].size = C.size_t(item.Offset), C.size_t(item.Size)
		}
		if item.Range != nil && kind.call == C.vb_get_many {
			places[i].range_first, places[i].range_length = C.uint64_t(item.Range.Offset), C.uint64_t(item.Range.Length)
		}
	}
	names, err := join(texts...)
	if err != nil {
		return nil, err
	}
	results := make([]C.verbena_item_result, len(items))
	_, err = c.do(ctx, names, func(names *C.char, _ *C.verbena_cancellation, answer *C.vb_answer) C.int {
		return C.vb_many(c.handle, kind.call, kind.lease, names, &places[0], C.size_t(len(items)), buffer, start(memory), C.size_t(len(memory)), &results[0], answer)
	})
	return results, err
}

func outcome(item *Item, result *C.verbena_item_result) Outcome {
	if code := Code(result.code); code != 0 {
		return Outcome{Err: &Error{Code: code, Message: code.Error() + ": " + item.Bucket + "/" + item.Key}}
	}
	made := Outcome{Bytes: uint64(result.bytes), Size: uint64(result.size), ETag: C.GoString(&result.etag[0]), VersionID: C.GoString(&result.version_id[0])}
	if result.modified_us != 0 {
		made.LastModified = time.UnixMicro(int64(result.modified_us)).UTC()
	}
	return made
}
