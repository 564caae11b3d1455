package rdma

// #include "calls.h"
import "C"

import (
	"context"
	"sync"
	"time"
)

// KeyEvent is the kind of a change.
type KeyEvent int

const (
	Created     KeyEvent = C.VERBENA_KEY_CREATED      // a new object: put, copied, completed
	Appended    KeyEvent = C.VERBENA_KEY_APPENDED     // bytes were added at its end
	Removed     KeyEvent = C.VERBENA_KEY_REMOVED      // the object, or the named version, was removed
	Marked      KeyEvent = C.VERBENA_KEY_MARKED       // a delete marker is the newest version now
	Changed     KeyEvent = C.VERBENA_KEY_CHANGED      // tags, access list, lock: the bytes are unchanged
	RenamedAway KeyEvent = C.VERBENA_KEY_RENAMED_AWAY // it has another key now
	RenamedHere KeyEvent = C.VERBENA_KEY_RENAMED_HERE // it came from another key
	Evicted     KeyEvent = C.VERBENA_KEY_EVICTED      // removed to make room in a bounded bucket
)

func (e KeyEvent) String() string { return C.GoString(C.verbena_key_event_name(C.int(e))) }

// Change is the change of one key, or a gap.
type Change struct {
	Gap       bool // events were missed: state kept of keys under the prefix may be stale. The other fields are empty then
	Key       string
	What      KeyEvent
	Size      uint64    // of the object now
	ETag      string    // empty after a removal
	VersionID string    // in buckets with versions, for callers that may list them
	Time      time.Time // of the present object's write, or of the removal
	Number    uint64    // of one watch: grows with each change
}

const watchPause = time.Second // before Changes retries

// Watch reports changes of the keys under a prefix, as they happen:
//
//	watch, err := client.Watch(ctx, "bucket", "prefix/")
//	for watch.Next() { use(watch.Change()) }
//
// and then Err. It lasts until its context ends, or Close. Next may be called by one goroutine at a time.
type Watch struct {
	client  *Client
	ctx     context.Context
	closing chan struct{}
	once    sync.Once
	ended   chan struct{} // closed when the handle is gone
	mutex   sync.Mutex    // guards the handle; held during Next's wait
	handle  *C.verbena_watch
	told    sync.Mutex // guards the fields below
	now     Change
	err     error
}

// Watch begins to watch the keys with the prefix, by the native door alone (Unsupported by others).
func (c *Client) Watch(ctx context.Context, bucket, prefix string) (*Watch, error) {
	if bucket == "" {
		return nil, &Error{Code: InvalidArgument, Message: "the bucket is empty"}
	}
	names, err := join(bucket, prefix)
	if err != nil {
		return nil, err
	}
	made := &Watch{client: c, ctx: ctx, closing: make(chan struct{}), ended: make(chan struct{})}
	if _, err := c.do(ctx, names, func(names *C.char, cancellation *C.verbena_cancellation, answer *C.vb_answer) C.int {
		return C.vb_watch_begin(c.handle, names, &made.handle, cancellation, answer)
	}); err != nil {
		return nil, err
	}
	go made.await(made.handle)
	return made, nil
}

// Ends the watch when requested: wakes a waiting Next, and frees the handle after it has returned.
func (w *Watch) await(handle *C.verbena_watch) {
	select {
	case <-w.ctx.Done():
	case <-w.client.closing:
	case <-w.closing:
	}
	C.verbena_watch_stop(handle)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	C.verbena_watch_end(handle)
	w.handle = nil
	close(w.ended)
}

// Next waits for the next change. False: the watch has ended, or it cannot continue now; Err returns the reason. After
// ConnectionFailed and SlowDown it may be called again.
func (w *Watch) Next() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.handle == nil {
		return w.tell(Change{}, w.end())
	}
	var key *C.char
	var change C.verbena_change
	var answer C.vb_answer
	found := C.vb_watch_next(w.handle, &key, &change, &answer)
	switch {
	case found == C.VERBENA_WATCH_GAP:
		return w.tell(Change{Gap: true}, nil)
	case found == C.VERBENA_WATCH_CHANGE:
		return w.tell(Change{Key: C.GoString(key), What: KeyEvent(change.what), Size: uint64(change.size), ETag: C.GoString(&change.etag[0]),
			VersionID: C.GoString(&change.version_id[0]), Time: time.UnixMicro(int64(change.time_us)).UTC(), Number: uint64(change.number)}, nil)
	case found < 0 && found != -C.VERBENA_CANCELLED:
		return w.tell(Change{}, failure(w.ctx, -found, &answer))
	}
	return w.tell(Change{}, w.end())
}

// Stores the outcome; true if it was a change.
func (w *Watch) tell(change Change, err error) bool {
	w.told.Lock()
	defer w.told.Unlock()
	w.now, w.err = change, err
	return change.Gap || change.Key != ""
}

// The reason for a watch's end: nil after Close.
func (w *Watch) end() error {
	if err := w.ctx.Err(); err != nil {
		return &Error{Code: Cancelled, Message: err.Error(), cause: err}
	}
	select {
	case <-w.client.closing:
		return errClosed
	default:
		return nil
	}
}

// Change returns the change found by Next.
func (w *Watch) Change() Change {
	w.told.Lock()
	defer w.told.Unlock()
	return w.now
}

// Err returns the reason why Next returned false; nil after Close.
func (w *Watch) Err() error {
	w.told.Lock()
	defer w.told.Unlock()
	return w.err
}

// Changes sends the changes to a channel, which is closed when the watch has ended; Err then returns the reason. It
// retries after ConnectionFailed and SlowDown: changes missed meanwhile appear as a gap. Use it instead of Next, and
// once.
func (w *Watch) Changes() <-chan Change {
	out := make(chan Change)
	go func() {
		defer close(out)
		for {
			if w.Next() {
				select {
				case out <- w.Change():
					continue
				case <-w.ended:
				}
			}
			code, _ := w.Err().(*Error)
			if code != nil && code.Code != ConnectionFailed && code.Code != SlowDown {
				return
			}
			select {
			case <-w.ended:
				w.Next() // for Err
				return
			case <-time.After(watchPause):
			}
		}
	}()
	return out
}

// Close ends the watch. Further calls do nothing.
func (w *Watch) Close() error {
	w.once.Do(func() { close(w.closing) })
	<-w.ended
	return nil
}
