package rdma

// #include "calls.h"
import "C"

import (
	"context"
	"runtime/cgo"
	"sync"
)

// Appending is an append under way, as StartAppend begins it.
type Appending struct {
	key       string
	call      call
	done      chan struct{}
	mutex     sync.Mutex
	operation *C.verbena_operation // nil when it is done
	object    Object
	err       error
}

// Those of a client.
type appends struct {
	mutex    sync.Mutex
	queue    *C.verbena_queue // made for the first
	underWay map[*Appending]struct{}
	taking   bool // a goroutine takes what is done
}

// StartAppend begins an AppendObject and does not wait for it; `data` may be changed when it returns. Appends that one goroutine starts
// for one key leave in this order. By the native door those of up to 2 KiB that lie one behind the other share messages while others
// are under way, each with its own outcome.
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

	// Who takes it waits until it is counted.
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
	case <-client.closing: // which may have looked for it before it was there
		C.verbena_operation_cancel(operation)
	default:
	}
	return nil
}

// Takes what is done until nothing is under way.
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

// Ends all that are under way.
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

// Done is closed when the outcome is there.
func (p *Appending) Done() <-chan struct{} { return p.done }

// Wait gives the outcome: what AppendObject returns. If the context ends first that ends the append, too; whether it happened is not
// known then.
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
