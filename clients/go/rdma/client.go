// Package rdma is Verbena's client: objects by RDMA devices, shared memory or TCP, or else by S3 over HTTP.
//
//	client, err := rdma.NewClient(rdma.Config{Endpoint: "127.0.0.1:9100", AccessKey: "...", SecretKey: "..."})
//	err = client.PutObject(ctx, "bucket", "key", data)
//	data, err := client.GetObject(ctx, "bucket", "key")
//
// A Client may be used by several goroutines at once. Contexts end calls within some 20 ms, even if the server is
// frozen; nothing is written to the caller's memory after a call has returned. PutReader alone also waits for the Read of
// its reader that has begun.
package rdma

// #cgo LDFLAGS: -lverbena
// #include "calls.h"
import "C"

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Config has the server's address and the credentials. Zero values are the defaults.
type Config struct {
	// Endpoint is the native port, "host:9100". With HTTPEndpoint or an Endpoint of "http://host:9000", HTTP is used where
	// RDMA does not work, and for buckets.
	Endpoint       string
	HTTPEndpoint   string
	NativeEndpoint string // beside an Endpoint that is a URL
	AccessKey      string
	SecretKey      string
	SessionToken   string
	Region         string
	Via            string // "auto", "native", "token", "http"; empty: native with an Endpoint of host:port alone, else auto
	Provider       string // "auto", "local", "verbs", "tcp", "efa", "cxi"
	TokenProvider  string // of NewTransport: "verbs", which is the default, "efa", "cxi", "tcp", "none"
	CAFile         string
	Insecure       bool   // https without verifying the server
	Encryption     string // of RDMA: "auto", "off", "preferred", "required" (docs/sealed-rdma.md)
	CleartextRDMA  bool   // https: allow RDMA between hosts, which TLS does not cover
	Timeout        time.Duration
	Attempts       uint
}

// Client is a connection to one server.
type Client struct {
	mutex        sync.RWMutex // of `closed`; not held during a call, whose reader may begin further ones
	closed       bool
	calls        sync.WaitGroup // those in progress; none begins once it is closed
	handle       *C.verbena_client
	accessKey    string
	cancellation *C.verbena_cancellation // of calls without a context that can end
	closing      chan struct{}
	once         sync.Once
	appends      appends
	asides       chan struct{} // has an element for each call that may go on alone
}

// Calls of a client at once that may go on alone after their contexts have ended: each holds a thread.
const asidesMax = 128

// NewClient connects.
func NewClient(config Config) (*Client, error) {
	endpoint, native, via := config.HTTPEndpoint, config.NativeEndpoint, config.Via
	switch {
	case strings.Contains(config.Endpoint, "://"):
		endpoint = config.Endpoint
	case config.Endpoint != "":
		native = config.Endpoint
		if endpoint == "" && via == "" {
			via = "native"
		}
	}
	names, err := join(endpoint, native, config.AccessKey, config.SecretKey, config.SessionToken, config.Region, via,
		config.Provider, config.CAFile, config.Encryption)
	if err != nil {
		return nil, err
	}
	client := &Client{closing: make(chan struct{}), accessKey: config.AccessKey, asides: make(chan struct{}, asidesMax)}
	var answer C.vb_answer
	timeout := config.Timeout.Milliseconds()
	if timeout < 0 {
		timeout = 0
	}
	code := C.vb_connect(text(names), flag(config.Insecure), flag(config.CleartextRDMA), C.uint64_t(timeout), C.uint(config.Attempts),
		&client.handle, &answer)
	if err := failure(nil, code, &answer); err != nil {
		return nil, err
	}
	C.verbena_cancellation_new(&client.cancellation)
	runtime.SetFinalizer(client, func(c *Client) { c.Close() })
	return client, nil
}

// Close ends the connections. Calls in progress end with Cancelled, later ones with Closed. It waits for them, and so for
// a Read of a PutReader's reader: which must not call it itself.
func (c *Client) Close() error {
	c.once.Do(func() {
		runtime.SetFinalizer(c, nil)
		c.mutex.Lock()
		c.closed = true
		c.mutex.Unlock()
		close(c.closing)
		C.verbena_cancel(c.cancellation)
		c.appends.cancel()
		c.calls.Wait()
		C.verbena_queue_free(c.appends.queue)
		C.verbena_close(c.handle)
		C.verbena_cancellation_free(c.cancellation)
		c.handle, c.cancellation = nil, nil
	})
	return nil
}

// A call in progress: it keeps the client open, and ends with the context.
type call struct {
	client       *Client
	cancellation *C.verbena_cancellation
	finished     chan struct{} // nil: the context cannot end
	watched      chan struct{}
}

func (c *Client) begin(ctx context.Context) (call, error) {
	if err := ctx.Err(); err != nil {
		return call{}, &Error{Code: Cancelled, Message: err.Error(), cause: err}
	}
	c.mutex.RLock()
	closed := c.closed
	if !closed {
		c.calls.Add(1)
	}
	c.mutex.RUnlock()
	if closed {
		return call{}, errClosed
	}
	if ctx.Done() == nil {
		return call{client: c, cancellation: c.cancellation}, nil
	}
	made := call{client: c, finished: make(chan struct{}), watched: make(chan struct{})}
	C.verbena_cancellation_new(&made.cancellation)
	go func() {
		defer close(made.watched)
		select {
		case <-ctx.Done():
			C.verbena_cancel(made.cancellation)
		case <-c.closing:
			C.verbena_cancel(made.cancellation)
		case <-made.finished:
		}
	}()
	return made, nil
}

func (k call) end() {
	if k.finished != nil {
		close(k.finished)
		<-k.watched
		C.verbena_cancellation_free(k.cancellation)
	}
	k.client.calls.Done()
}

var errClosing = &Error{Code: Cancelled, Message: "cancelled by the client's Close"}

func cancelledBy(ctx context.Context) error {
	return &Error{Code: Cancelled, Message: "cancelled by the caller", cause: ctx.Err()}
}

// Waits until `finished` is closed. An error: the context or the client ended before that.
func (c *Client) await(ctx context.Context, finished <-chan struct{}) error {
	var ended error
	select {
	case <-finished:
		return nil
	case <-ctx.Done():
		ended = cancelledBy(ctx)
	case <-c.closing:
		ended = errClosing
	}
	select {
	case <-finished: // of several that are ready one is chosen at random
		return nil
	default:
		return ended
	}
}

// For a call that may go on alone after the context has ended: waits while there are asidesMax of them. Its end is
// endAside. An error: the context or the client ended before that, and so has the call.
func (k call) beginAside(ctx context.Context) error {
	var err error
	select {
	case k.client.asides <- struct{}{}:
		return nil
	case <-ctx.Done():
		err = cancelledBy(ctx)
	case <-k.client.closing:
		err = errClosing
	}
	k.end()
	return err
}

func (k call) endAside() {
	<-k.client.asides
	k.end()
}

// What one call into C does: it gets the names in C's form. The answer has the results.
type work func(*C.char, *C.verbena_cancellation, *C.vb_answer) C.int

func (k call) run(ctx context.Context, names []byte, work work) (*C.vb_answer, error) {
	answer := new(C.vb_answer)
	if err := failure(ctx, work(text(names), k.cancellation, answer), answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// Runs one call into C. A failure becomes an error.
func (c *Client) do(ctx context.Context, names []byte, work work) (*C.vb_answer, error) {
	call, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer call.end()
	return call.run(ctx, names, work)
}

// As do, for calls that the library cannot cancel: if the context or the client ends before one it goes on alone, and
// what it returns is dropped. So `work` uses no memory of the caller's, and frees what C gives it.
func (c *Client) doAside(ctx context.Context, names []byte, work work) error {
	return c.aside(ctx, func(k call) error {
		_, err := k.run(ctx, names, work)
		return err
	}, func(call) {})
}

// Runs `run` in a goroutine. If the context ends first, aside returns, and the goroutine goes on without it: where `run`
// then succeeds, it calls `undo`, since no caller gets the result.
func (c *Client) aside(ctx context.Context, run func(call) error, undo func(call)) error {
	made, err := c.begin(ctx)
	if err != nil {
		return err
	}
	if err := made.beginAside(ctx); err != nil {
		return err
	}
	const ran, left = 1, 2
	var state int32 // the first of both that sets it decides
	finished := make(chan struct{})
	var failed error
	go func() {
		defer close(finished)
		defer made.endAside()
		failed = run(made)
		if !atomic.CompareAndSwapInt32(&state, 0, ran) && failed == nil {
			undo(made)
		}
	}()
	if ended := c.await(ctx, finished); ended != nil {
		if atomic.CompareAndSwapInt32(&state, 0, left) {
			return ended
		}
		<-finished
	}
	return failed
}

// Joins texts with a zero byte after each, for C.
func join(texts ...string) ([]byte, error) {
	size := 0
	for _, text := range texts {
		if strings.IndexByte(text, 0) >= 0 {
			return nil, &Error{Code: InvalidArgument, Message: "a name with a zero byte"}
		}
		size += len(text) + 1
	}
	joined := make([]byte, 0, size)
	for _, text := range texts {
		joined = append(append(joined, text...), 0)
	}
	return joined, nil
}

func named(bucket, key string, more ...string) ([]byte, error) {
	if bucket == "" || key == "" {
		return nil, &Error{Code: InvalidArgument, Message: "the bucket or key is empty"}
	}
	return join(append([]string{bucket, key}, more...)...)
}

func text(joined []byte) *C.char { return (*C.char)(unsafe.Pointer(&joined[0])) }

func flag(set bool) C.int {
	if set {
		return 1
	}
	return 0
}

// A slice's memory for C, as characters: of an untyped pointer cgo would check the whole object that the slice is a part
// of, and panic if that has pointers.
func start(memory []byte) *C.char {
	if len(memory) == 0 {
		return nil
	}
	return (*C.char)(unsafe.Pointer(&memory[0]))
}
