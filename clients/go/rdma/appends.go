package rdma

// #include "calls.h"
import "C"

import (
	"context"
	"runtime/cgo"
	"sync"
)

// Appending is an append in progress, as StartAppend begins it.
type Appending struct {
	key       string
	call      call
	done      chan struct{}
	mutex     sync.Mutex
	operation *C.verbena_operation // nil when done
	object    Object
	err       error
}

// The appends in progress of a client.
type appends struct {
	mutex    sync.Mutex
	queue    *C.verbena_queue // created for the first append
	underWay map[*Appending]struct{}
	taking   bool // a goroutine takes completed appends
}

// StartAppend begins an AppendObject without waiting for it; `data` may be changed when it returns. Appends that one
// goroutine starts for one key leave in this order. By the native door adjacent ones of up to 2 KiB share messages
// while others are in flight, each with its own outcome.
func (c *Client) StartAppend(bucket, key string, data []byte, at uint64) (*Appending, error) {
	names, err := named(bucket, key)
	if err != nil {
		return nil, err
	}
	under, err := c.begin(context.Background())
	if err != nil {
		return nil, err
	}
	made := &Appending{key: key, call: under, done: make(chan struct{})}
	if err := c.appends.start(made, names, data, at); err != nil {
		under.end()
		return nil, err
	}
	return made, nil
}

func (a *appends) start(made *Appending, names, data []byte, at uint64) error {
	var answer C.vb_answer
	a.mutex.Lock()
	if a.queue == nil {
		if err := failure(nil, C.vb_end(&answer, C.verbena_queue_new(&a.queue)), &answer); err != nil {
			a.mutex.Unlock()
			return err
		}
		a.underWay = make(map[*Appending]struct{})
	}
	a.mutex.Unlock()

	// The taking goroutine waits until it is counted.
	made.mutex.Lock()
	defer made.mutex.Unlock()
	handle := cgo.NewHandle(made)
	client := made.call.client
	var operation *C.verbena_operation
	code := C.vb_start_append(client.handle, a.queue, text(names), start(data), C.size_t(len(data)), C.uint64_t(at), C.uintptr_t(handle),
		&operation, &answer)
	if err := failure(nil, code, &answer); err != nil {
		handle.Delete()
		return err
	}
	made.operation = operation
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.underWay[made] = struct{}{}
	if !a.taking {
		a.taking = true
		go a.take()
	}
	select {
	case <-client.closing: // Close may have searched the list before this was added
		C.verbena_operation_cancel(operation)
	default:
	}
	return nil
}

// Takes completed appends until none is in progress.
func (a *appends) take() {
	for more := true; more; {
		var number C.uintptr_t
		done := C.vb_next_done(a.queue, &number)
		handle := cgo.Handle(number)
		one := handle.Value().(*Appending)
		handle.Delete()
		one.mutex.Lock()
		one.operation = nil
		one.mutex.Unlock()
		var answer C.vb_answer
		one.err = failure(nil, C.vb_appended(done, &answer), &answer)
		if one.err == nil {
			one.object = object(one.key, &answer, nil)
		}
		a.mutex.Lock()
		delete(a.underWay, one)
		more = len(a.underWay) > 0
		a.taking = more
		a.mutex.Unlock()
		close(one.done)
		one.call.end()
	}
}

// Cancels all in progress.
func (a *appends) cancel() {
	a.mutex.Lock()
	all := make([]*Appending, 0, len(a.underWay))
	for one := range a.underWay {
		all = append(all, one)
	}
	a.mutex.Unlock()
	for _, one := range all {
		one.cancel()
	}
}

func (p *Appending) cancel() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.operation != nil {
		C.verbena_operation_cancel(p.operation)
	}
}

// Done is closed when the outcome is known.
func (p *Appending) Done() <-chan struct{} { return p.done }

// Wait returns the outcome, as AppendObject would. If the context ends first it cancels the append; whether it happened
// is then unknown.
func (p *Appending) Wait(ctx context.Context) (Object, error) {
	select {
	case <-p.done:
		return p.object, p.err
	default:
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.cancel()
		<-p.done
		if failed, ok := p.err.(*Error); ok && failed.Code == Cancelled {
			ended := *failed
			ended.cause = ctx.Err()
			return p.object, &ended
		}
	}
	return p.object, p.err
}
