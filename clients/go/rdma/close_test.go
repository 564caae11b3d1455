package rdma

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The client is closed in another goroutine, so that a test that fails ends.
func closes(t *testing.T, client *Client) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		client.Close()
	}()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Fatal("Close does not return")
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(into []byte) (int, error) { return f(into) }

// The reader's own call waited for the lock that Close waited for, and Close for the PUT of this reader.
func TestCloseEndsAPutOfAReaderOfTheSameClient(t *testing.T) {
	client := connectUnclosed(t, "native")
	name := bucket(t, connect(t, "auto"), "go-close-reader")
	if err := client.PutObject(background, name, "k", make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	from, err := client.Open(background, name, "k")
	if err != nil {
		t.Fatal(err)
	}
	reads, put, read := make(chan struct{}), make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := client.PutReader(background, name, "copy", readerFunc(func(into []byte) (int, error) {
			close(reads)
			<-client.closing
			time.Sleep(100 * time.Millisecond) // Close waits by now
			n, err := from.Read(into)
			read <- err
			return n, err
		}), nil)
		put <- err
	}()
	<-reads
	closes(t, client)
	if err := <-read; !errors.Is(err, Closed) {
		t.Error(err)
	}
	if err := <-put; err == nil {
		t.Error("stored without its bytes")
	}
}

// The PUT waited for the next Write, and Close for the PUT.
func TestAWriterThatNobodyClosesEndsWithItsClientOrContext(t *testing.T) {
	other := connect(t, "auto")
	name := bucket(t, other, "go-close-writer")
	client := connectUnclosed(t, "native")
	ctx, cancel := context.WithCancel(background)
	cut, left := client.Create(ctx, name, "cut", nil), client.Create(background, name, "left", nil)
	for _, one := range []*Writer{cut, left} {
		if _, err := one.Write([]byte("the beginning")); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	<-cut.done
	if _, err := cut.Write([]byte("x")); !errors.Is(err, Cancelled) {
		t.Error(err)
	}
	if err := cut.Close(); !errors.Is(err, Cancelled) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	closes(t, client)
	if err := left.Close(); !errors.Is(err, Cancelled) {
		t.Error(err)
	}
	for _, key := range []string{"cut", "left"} {
		if _, err := other.HeadObject(background, name, key); !errors.Is(err, NoSuchKey) {
			t.Error(key, err)
		}
	}
}

// Each kept a goroutine and a thread.
func TestCallsThatGoOnAloneAreBounded(t *testing.T) {
	client := connect(t, "native")
	running, most, blocks := int32(0), int32(0), make(chan struct{})
	var all sync.WaitGroup
	call := func() error {
		ctx, stop := context.WithTimeout(background, 100*time.Millisecond)
		defer stop()
		return client.aside(ctx, func(call) error {
			now := atomic.AddInt32(&running, 1)
			for seen := atomic.LoadInt32(&most); now > seen && !atomic.CompareAndSwapInt32(&most, seen, now); seen = atomic.LoadInt32(&most) {
			}
			<-blocks
			atomic.AddInt32(&running, -1)
			return nil
		}, func(call) {})
	}
	for i := 0; i < 4*asidesMax; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := call(); !errors.Is(err, Cancelled) || !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}()
	}
	all.Wait()
	if most := atomic.LoadInt32(&most); most != asidesMax {
		t.Error(most)
	}
	close(blocks)
	if _, err := client.Buckets(background); err != nil {
		t.Error(err)
	}
	closes(t, client)
	if _, err := client.Buckets(background); !errors.Is(err, Closed) {
		t.Error(err)
	}
}

func TestWhatACallThatNobodyWaitsForHasMadeIsUndone(t *testing.T) {
	client := connect(t, "native")
	ctx, stop := context.WithCancel(background)
	undone, goes := make(chan struct{}), make(chan struct{})
	err := client.aside(ctx, func(call) error {
		stop()
		<-goes
		return nil
	}, func(call) { close(undone) })
	close(goes)
	if !errors.Is(err, Cancelled) {
		t.Error(err)
	}
	<-undone
	for _, result := range []error{nil, io.EOF} {
		if err := client.aside(background, func(call) error { return result }, func(call) { t.Error("undone") }); err != result {
			t.Error(err)
		}
	}
	failing, stop := context.WithCancel(background)
	done := make(chan struct{})
	client.aside(failing, func(call) error {
		defer close(done)
		stop()
		time.Sleep(10 * time.Millisecond)
		return io.EOF
	}, func(call) { t.Error("undone") })
	<-done
	closes(t, client)
}

func keysOfLeases(t *testing.T) int {
	t.Helper()
	page, err := http.Get("http://" + os.Getenv("VERBENA_NATIVE") + "/-/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	text, _ := io.ReadAll(page.Body)
	found := regexp.MustCompile(`(?m)^verbena_native_lease_keys (\d+)$`).FindSubmatch(text)
	if found == nil {
		t.Fatal("no such metric")
	}
	keys, _ := strconv.Atoi(string(found[1]))
	return keys
}

// The server counts what its leases hold: a lease whose number no caller had got was held until its time was over.
func TestALeaseOfAMatchThatNobodyWaitsForIsEnded(t *testing.T) {
	client := connect(t, "native")
	name := bucket(t, connect(t, "auto"), "go-lost-lease")
	hash := make([]byte, 16)
	if err := client.PutObject(background, name, hex.EncodeToString(hash), []byte("x")); err != nil {
		t.Fatal(err)
	}
	before := keysOfLeases(t)
	server, _ := strconv.Atoi(os.Getenv("VERBENA_SERVER_PID"))
	freeze(t, server)
	ctx, stop := context.WithTimeout(background, 100*time.Millisecond)
	defer stop()
	_, err := client.Match(ctx, name, "", [][]byte{hash}, &MatchOptions{Lease: time.Minute})
	syscall.Kill(server, syscall.SIGCONT)
	if !errors.Is(err, Cancelled) {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); len(client.asides) != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it goes on")
		}
	}
	if now := keysOfLeases(t); now > before {
		t.Error(now, "keys held, before that", before)
	}
}

// Of several that are ready, select takes any: calls that were done failed.
func TestACallThatIsDoneSucceedsThoughItsContextHasEnded(t *testing.T) {
	client := connect(t, "native")
	ctx, stop := context.WithCancel(background)
	stop()
	finished := make(chan struct{})
	close(finished)
	for i := 0; i < 100; i++ {
		if err := client.await(ctx, finished); err != nil {
			t.Fatal(err)
		}
	}
}

// cgo takes an untyped pointer for one to the whole object of Go's heap, and refused this one for its pointer.
func TestASliceMayBeAPartOfAStructWithPointers(t *testing.T) {
	type connection struct {
		next   *connection
		buffer [4096]byte
	}
	one := &connection{next: &connection{}}
	for i := range one.buffer {
		one.buffer[i] = byte(i)
	}
	client := connect(t, "native")
	name := bucket(t, connect(t, "auto"), "go-structs--local1-az1--x-s3")
	if err := client.PutObject(background, name, "k", one.buffer[:]); err != nil {
		t.Fatal(err)
	}
	if _, err := client.AppendObject(background, name, "k", one.buffer[:], AtEnd, ""); err != nil {
		t.Fatal(err)
	}
	appending, err := client.StartAppend(name, "k", one.buffer[:], AtEnd)
	if err != nil {
		t.Fatal(err)
	}
	if made, err := appending.Wait(background); err != nil || made.Size != 3*4096 {
		t.Fatal(made, err)
	}
	one.buffer = [4096]byte{}
	if _, err := client.GetInto(background, name, "k", one.buffer[:], &GetOptions{Range: &Range{8192, 4096}}); err != nil || one.buffer[255] != 255 {
		t.Fatal(err)
	}
	items := []Item{{Bucket: name, Key: "k", Size: 4096, Range: &Range{1, 4095}}}
	if outcomes, err := client.GetMany(background, items, one.buffer[:]); err != nil || FirstError(outcomes) != nil || one.buffer[0] != 1 {
		t.Fatal(err, outcomes)
	}
	if _, err := client.PutReader(background, name, "read", io.LimitReader(readerFunc(func(into []byte) (int, error) { return len(into), nil }), 10), nil); err != nil {
		t.Fatal(err)
	}
}
