package rdma

// #include "calls.h"
import "C"

import (
	"context"
	"sync"
	"time"
)

// KeyEvent is what became of a key.
type KeyEvent int

const (
	Created     KeyEvent = C.VERBENA_KEY_CREATED      // there is a new object: put, copied, completed
	Appended    KeyEvent = C.VERBENA_KEY_APPENDED     // bytes came to its end
	Removed     KeyEvent = C.VERBENA_KEY_REMOVED      // the object is gone, or the version that is named
	Marked      KeyEvent = C.VERBENA_KEY_MARKED       // a delete marker is the newest version now
	Changed     KeyEvent = C.VERBENA_KEY_CHANGED      // tags, access list, lock: the bytes are the same
	RenamedAway KeyEvent = C.VERBENA_KEY_RENAMED_AWAY // it has another key now
	RenamedHere KeyEvent = C.VERBENA_KEY_RENAMED_HERE // it came from another key
)

func (e KeyEvent) String() string { return C.GoString(C.verbena_key_event_name(C.int(e))) }

// Change is what became of one key, or a gap.
type Change struct {
	Gap       bool // changes were missed: anything cached of keys under the prefix may be stale. Nothing else is reported then
	Key       string
	What      KeyEvent
	Size      uint64    // of the object as it is now
	ETag      string    // empty where nothing is left
	VersionID string    // in buckets with versions, for those who may list them
	Time      time.Time // when what is there was written; or when it went
	Number    uint64    // of one watch: grows with each change
}

const watchPause = time.Second // before Changes asks again

// Watch tells what becomes of the keys under a prefix, as it happens:
//
//	watch, err := client.Watch(ctx, "bucket", "prefix/")
//	for watch.Next() { use(watch.Change()) }
//
// and then Err. It lasts until its context ends, or Close. Next is for one goroutine at a time.
type Watch struct {
	client  *Client
	ctx     context.Context
	closing chan struct{}
	once    sync.Once
	ended   chan struct{} // closed when the handle is gone
	mutex   sync.Mutex    // of the handle; whoever waits in Next holds it for as long as he does
	handle  *C.verbena_watch
	told    sync.Mutex // of what is below
	now     Change
	err     error
}

// Watch begins to watch the keys that start with the prefix, by the native door alone (Unsupported by others).
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

// Ends the watch when it is time to: whoever waits in Next is woken, and when he has gone the handle does, too.
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

// Next waits for the next change. False: the watch has ended, or it cannot go on now; Err says why. After ConnectionFailed and SlowDown
// one may ask again.
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

// Whether it was a change.
func (w *Watch) tell(change Change, err error) bool {
	w.told.Lock()
	defer w.told.Unlock()
	w.now, w.err = change, err
	return change.Gap || change.Key != ""
}

// Why a watch is over: nil after Close.
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

// Change is what Next found.
func (w *Watch) Change() Change {
	w.told.Lock()
	defer w.told.Unlock()
	return w.now
}

// Err is why Next said no; nil after Close.
func (w *Watch) Err() error {
	w.told.Lock()
	defer w.told.Unlock()
	return w.err
}

// Changes gives what Next finds to a channel, which is closed when the watch has ended; then Err says why. It asks again by itself after
// ConnectionFailed and SlowDown: what was missed meanwhile comes as a gap. Instead of Next, and once.
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

// Close ends the watch. A second time it does nothing.
func (w *Watch) Close() error {
	w.once.Do(func() { close(w.closing) })
	<-w.ended
	return nil
}
