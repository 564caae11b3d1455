package rdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

func connect(t testing.TB, via string) *Client {
	t.Helper()
	client := connectUnclosed(t, via)
	t.Cleanup(func() { client.Close() })
	return client
}

func connectUnclosed(t testing.TB, via string) *Client {
	t.Helper()
	client, err := NewClient(Config{Endpoint: os.Getenv("VERBENA_NATIVE"), HTTPEndpoint: os.Getenv("AWS_ENDPOINT_URL"), Via: via,
		AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"), SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

var background = context.Background()

func bucket(t testing.TB, client *Client, name string) string {
	t.Helper()
	if err := client.MakeBucket(background, name, false); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestObjectsTravelByEachDoorAndSaySo(t *testing.T) {
	name := bucket(t, connect(t, "auto"), "go-doors")
	data := bytes.Repeat([]byte("0123456789"), 30000)
	for _, via := range []string{"native", "http", "auto"} {
		client := connect(t, via)
		put, err := client.PutWith(background, name, via, data, &PutOptions{ContentType: "text/x", Metadata: map[string]string{"colour": "green"}})
		if err != nil {
			t.Fatal(via, err)
		}
		got, info, err := client.GetWith(background, name, via, &GetOptions{Metadata: true})
		if err != nil || !bytes.Equal(got, data) {
			t.Fatal(via, err, len(got))
		}
		door := "native"
		if via == "http" {
			door = "http"
		}
		if info.Door != door || info.ETag != put.ETag || info.ContentType != "text/x" || info.Metadata["colour"] != "green" {
			t.Fatalf("%s: %+v", via, info)
		}
		part := make([]byte, 5)
		if got, err := client.GetInto(background, name, via, part, &GetOptions{Range: &Range{3, 5}, IfMatch: put.ETag}); err != nil ||
			string(part) != "34567" || got.Size != uint64(len(data)) {
			t.Fatal(via, err, string(part))
		}
	}
}

func TestLogsGrowAndObjectsGetOtherNames(t *testing.T) {
	name := bucket(t, connect(t, "auto"), "go-logs--local1-az1--x-s3")
	for _, via := range []string{"native", "http", "auto"} {
		client := connect(t, via)
		for i, at := range []uint64{0, 4, AtEnd} {
			made, err := client.AppendObject(background, name, via, []byte("abc\n"), at, "text/x")
			if err != nil || made.Size != uint64(4*(i+1)) {
				t.Fatalf("%s: %+v %v", via, made, err)
			}
		}
		if _, err := client.AppendObject(background, name, via, []byte("x"), 5, ""); err == nil {
			t.Fatal(via, "appended where the object does not end")
		}
		if err := client.RenameObject(background, name, via, via+"-2", &RenameOptions{IfNoneMatch: "*"}); err != nil {
			t.Fatal(via, err)
		}
		got, err := client.GetObject(background, name, via+"-2")
		if err != nil || string(got) != "abc\nabc\nabc\n" {
			t.Fatal(via, string(got), err)
		}
		if err := client.RenameObject(background, name, via, via+"-3", nil); !errors.Is(err, NoSuchKey) {
			t.Fatal(via, err)
		}
	}
}

// Each message gives one ETag, that of the object after it: the number of ETags is the number of messages.
func TestAppendsThatNobodyWaitsForShareMessages(t *testing.T) {
	const count = 500
	name := bucket(t, connect(t, "auto"), "go-async-logs--local1-az1--x-s3")
	client := connect(t, "native")
	started := make([]*Appending, count)
	var want []byte
	record := make([]byte, 0, 100)
	for i := range started {
		record = append(record[:0], bytes.Repeat([]byte{byte('a' + i%26)}, 100)...) // the same memory for all
		var err error
		if started[i], err = client.StartAppend(name, "log", record, uint64(len(want))); err != nil {
			t.Fatal(err)
		}
		want = append(want, record...)
	}
	tags := map[string]bool{}
	for i, one := range started {
		made, err := one.Wait(background)
		if err != nil || made.Size != uint64(100*(i+1)) || made.Bytes != 100 || made.Door != "native" {
			t.Fatalf("%d: %+v %v", i, made, err)
		}
		tags[made.ETag] = true
	}
	if len(tags) >= count/4 {
		t.Fatal("messages:", len(tags))
	}
	if got, err := client.GetObject(background, name, "log"); err != nil || !bytes.Equal(got, want) {
		t.Fatal(len(got), err)
	}
	wrong, err := client.StartAppend(name, "log", []byte("x"), 1)
	if err != nil {
		t.Fatal(err)
	}
	var failed *Error
	if _, err := wrong.Wait(background); !errors.As(err, &failed) || failed.S3Code != "InvalidWriteOffset" {
		t.Fatal(err)
	}
	if _, err := client.StartAppend("", "log", nil, 0); !errors.Is(err, InvalidArgument) {
		t.Fatal(err)
	}
	over := connect(t, "http")
	for i := 1; i < 3; i++ {
		one, err := over.StartAppend(name, "http", []byte("abc"), AtEnd)
		if err != nil {
			t.Fatal(err)
		}
		if made, err := one.Wait(background); err != nil || made.Size != uint64(3*i) {
			t.Fatal(made, err)
		}
	}
}

func TestAppendsEndWithTheirContextAndTheirClient(t *testing.T) {
	name := bucket(t, connect(t, "auto"), "go-ended-logs--local1-az1--x-s3")
	client := connect(t, "native")
	var all []*Appending
	for i := 0; i < 50; i++ {
		one, err := client.StartAppend(name, "log", []byte("record"), AtEnd)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	ended, end := context.WithCancel(background)
	end()
	if _, err := all[20].Wait(ended); err != nil && (!errors.Is(err, Cancelled) || !errors.Is(err, context.Canceled)) {
		t.Fatal(err)
	}
	client.Close()
	for i, one := range all {
		select {
		case <-one.Done():
		default:
			t.Fatal(i, "has no outcome")
		}
		if _, err := one.Wait(background); err != nil && !errors.Is(err, Cancelled) {
			t.Fatal(i, err)
		}
	}
	if _, err := client.StartAppend(name, "log", []byte("x"), AtEnd); !errors.Is(err, Closed) {
		t.Fatal(err)
	}
}

func TestErrorsAreFound(t *testing.T) {
	client := connect(t, "auto")
	name := bucket(t, client, "go-errors")
	_, err := client.GetObject(background, name, "nothing")
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != NoSuchKey || !errors.Is(err, NoSuchKey) || errors.Is(err, NoSuchBucket) {
		t.Fatal(err)
	}
	if err := client.PutObject(background, name, "k", []byte("12345")); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		want Code
		call func() error
	}{
		{BufferTooSmall, func() error { _, err := client.GetInto(background, name, "k", make([]byte, 4), nil); return err }},
		{BufferTooSmall, func() error { _, err := client.GetInto(background, name, "k", nil, nil); return err }},
		{NotModified, func() error {
			head, _ := client.HeadObject(background, name, "k")
			_, err := client.GetInto(background, name, "k", make([]byte, 9), &GetOptions{IfNoneMatch: head.ETag})
			return err
		}},
		{PreconditionFailed, func() error {
			_, err := client.PutWith(background, name, "k", nil, &PutOptions{IfNoneMatch: "*"})
			return err
		}},
		{ChecksumMismatch, func() error {
			_, err := client.PutWith(background, name, "sum", []byte("abce"), &PutOptions{Checksum: "CRC32:7YLNEQ=="})
			return err
		}},
		{InvalidArgument, func() error { return client.PutObject(background, name, "a\x00b", nil) }},
		{InvalidArgument, func() error { return client.PutObject(background, "", "k", nil) }},
		{NoSuchBucket, func() error { all := client.List(background, "no-such-bucket", nil); all.Next(); return all.Err() }},
		{AccessDenied, func() error {
			_, err := NewClient(Config{Endpoint: os.Getenv("VERBENA_NATIVE"), AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"), SecretKey: "wrong"})
			return err
		}},
	} {
		if err := one.call(); !errors.Is(err, one.want) {
			t.Errorf("%v instead of %v", err, one.want)
		}
	}
	client.Close()
	client.Close()
	if err := client.PutObject(background, name, "k", nil); !errors.Is(err, Closed) {
		t.Error(err)
	}
}

func TestEmptyObjectsListingsAndReaders(t *testing.T) {
	client := connect(t, "native")
	name := bucket(t, connect(t, "auto"), "go-list")
	for i := 0; i < 25; i++ {
		if err := client.PutObject(background, name, fmt.Sprintf("%d/%02d", i%3, i), bytes.Repeat([]byte{byte(i)}, i)); err != nil {
			t.Fatal(err)
		}
	}
	all, n := client.List(background, name, &ListOptions{PageSize: 7}), 0
	for all.Next() {
		n++
	}
	if all.Err() != nil || n != 25 {
		t.Fatal(all.Err(), n)
	}
	levels := client.List(background, name, &ListOptions{Delimiter: "/"})
	for _, want := range []string{"0/", "1/", "2/"} {
		if !levels.Next() || levels.Entry().Key != want || !levels.Entry().Prefix {
			t.Fatal(want, levels.Entry(), levels.Err())
		}
	}
	if data, err := client.GetObject(background, name, "0/00"); err != nil || len(data) != 0 {
		t.Fatal(err, data)
	}
	reader, err := client.Open(background, name, "0/24")
	if err != nil {
		t.Fatal(err)
	}
	reader.Seek(-20, io.SeekEnd)
	if data, err := io.ReadAll(reader); err != nil || len(data) != 20 || data[0] != 24 {
		t.Fatal(err, data)
	}
	if err := client.DeleteObject(background, name, "0/24"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.HeadObject(background, name, "0/24"); !errors.Is(err, NoSuchKey) {
		t.Fatal(err)
	}
}

func TestBuffersAreUsedAgainAndFreedOnce(t *testing.T) {
	client := connect(t, "native")
	name := bucket(t, connect(t, "auto"), "go-buffers")
	buffer, err := client.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for i := range buffer.Bytes() {
		buffer.Bytes()[i] = byte(i)
	}
	if _, err := buffer.Put(background, name, "k", 1<<20, nil); err != nil {
		t.Fatal(err)
	}
	for i := range buffer.Bytes() {
		buffer.Bytes()[i] = 0
	}
	if got, err := buffer.Get(background, name, "k", nil); err != nil || got.Bytes != 1<<20 || buffer.Bytes()[255] != 255 {
		t.Fatal(err, got)
	}
	if _, err := buffer.Put(background, name, "k", 1<<20+1, nil); !errors.Is(err, InvalidArgument) {
		t.Fatal(err)
	}
	buffer.Free()
	buffer.Free()
	if _, err := buffer.Get(background, name, "k", nil); !errors.Is(err, Closed) {
		t.Fatal(err)
	}
}

// The finalizer of the unreachable Buffer gave the memory of a slice that was in use to the next transfer, or back to the
// system.
func TestBytesOutliveTheirBuffer(t *testing.T) {
	client := connect(t, "native")
	name := bucket(t, connect(t, "auto"), "go-bytes")
	fill := func() []byte {
		buffer, err := client.Alloc(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		data := buffer.Bytes()
		for i := range data {
			data[i] = 7
		}
		if _, err := buffer.Put(background, name, "k", len(data), nil); err != nil {
			t.Fatal(err)
		}
		return data
	}
	data := fill()
	for i := 0; i < 5; i++ {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	other, err := client.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Free()
	copy(other.Bytes(), bytes.Repeat([]byte{9}, 1<<20))
	for i, one := range data {
		if one != 7 {
			t.Fatal(i, one)
		}
	}
}

// Returns when every thread of it is stopped.
func freeze(t *testing.T, server int) {
	syscall.Kill(server, syscall.SIGSTOP)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		running := 0
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", server))
		for _, task := range tasks {
			text, _ := os.ReadFile(task)
			if _, after, found := strings.Cut(string(text), ") "); found && after[0] != 'T' {
				running++
			}
		}
		if running == 0 && len(tasks) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the server does not stop")
		}
	}
}

// A frozen server does not answer: the context alone ends the calls, and nothing lands later.
func TestContextsEndCalls(t *testing.T) {
	client := connect(t, "native")
	name := bucket(t, connect(t, "auto"), "go-contexts")
	data := bytes.Repeat([]byte("x"), 1<<20)
	if err := client.PutObject(background, name, "k", data); err != nil {
		t.Fatal(err)
	}
	server, _ := strconv.Atoi(os.Getenv("VERBENA_SERVER_PID"))
	into := make([]byte, 1<<20)
	withTimeout := func(run func(ctx context.Context) error) {
		ctx, stop := context.WithTimeout(background, 200*time.Millisecond)
		defer stop()
		if err := run(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, Cancelled) {
			t.Error(err)
		}
	}
	freeze(t, server)
	defer syscall.Kill(server, syscall.SIGCONT)
	begin := time.Now()
	withTimeout(func(ctx context.Context) error { _, err := client.GetInto(ctx, name, "k", into, nil); return err })
	withTimeout(func(ctx context.Context) error { return client.PutObject(ctx, name, "k2", data) })
	withTimeout(func(ctx context.Context) error { _, err := client.HeadObject(ctx, name, "k"); return err })
	withTimeout(func(ctx context.Context) error {
		_, err := client.Match(ctx, name, "", [][]byte{make([]byte, 16)}, &MatchOptions{Sizes: true})
		return err
	})
	withTimeout(func(ctx context.Context) error { return client.EndLease(ctx, 1) })
	withTimeout(func(ctx context.Context) error { _, err := client.Buckets(ctx); return err })
	withTimeout(func(ctx context.Context) error { _, err := client.Bound(ctx, name); return err })
	if took := time.Since(begin); took > 20*time.Second {
		t.Error("the contexts did not end the calls, the timeout did", took)
	}
	copy(into, data)
	for i := range into {
		into[i] = 'z'
	}
	syscall.Kill(server, syscall.SIGCONT)
	if _, err := client.HeadObject(background, name, "k"); err != nil {
		t.Fatal(err)
	}
	if bytes.IndexByte(into, 'x') >= 0 {
		t.Error("bytes landed after the call had returned")
	}
	ended, stop := context.WithCancel(background)
	stop()
	if _, err := client.GetObject(ended, name, "k"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Runs on its own, since the server is gone afterwards.
func TestAServerThatDies(t *testing.T) {
	if os.Getenv("VERBENA_MAY_KILL") == "" {
		t.Skip("needs a server of its own")
	}
	client := connect(t, "native")
	name := bucket(t, connect(t, "auto"), "go-dies")
	if err := client.PutObject(background, name, "k", make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			into := make([]byte, 1<<20)
			for {
				if _, err := client.GetInto(background, name, "k", into, nil); err != nil {
					var failed *Error
					if !errors.As(err, &failed) || failed.Code == Closed {
						t.Error(err)
					}
					for i := range into {
						into[i] = 'z'
					}
					time.Sleep(100 * time.Millisecond)
					if bytes.IndexByte(into, 0) >= 0 {
						t.Error("bytes landed after the call had returned")
					}
					return
				}
			}
		}()
	}
	time.Sleep(100 * time.Millisecond)
	server, _ := strconv.Atoi(os.Getenv("VERBENA_SERVER_PID"))
	syscall.Kill(server, syscall.SIGKILL)
	all.Wait()
	if err := client.PutObject(background, name, "k", nil); err == nil {
		t.Error("a server that is gone took an object")
	}
}

func TestGoroutinesRaceClose(t *testing.T) {
	name := bucket(t, connect(t, "auto"), "go-races")
	if err := connect(t, "native").PutObject(background, name, "k", make([]byte, 200_000)); err != nil {
		t.Fatal(err)
	}
	for round := 0; round < 10; round++ {
		client := connect(t, "native")
		var all sync.WaitGroup
		for i := 0; i < 4; i++ {
			all.Add(1)
			go func(with bool) {
				defer all.Done()
				ctx := background
				if with {
					var stop func()
					ctx, stop = context.WithCancel(ctx)
					defer stop()
				}
				into := make([]byte, 200_000)
				for {
					if _, err := client.GetInto(ctx, name, "k", into, nil); err != nil {
						if !errors.Is(err, Closed) && !errors.Is(err, Cancelled) {
							t.Error(err)
						}
						return
					}
				}
			}(i%2 == 0)
		}
		time.Sleep(10 * time.Millisecond)
		client.Close()
		all.Wait()
	}
}

func BenchmarkGetInto4KiB(b *testing.B) {
	client := connect(b, "native")
	client.PutObject(background, "go-doors", "bench", make([]byte, 4096))
	into := make([]byte, 4096)
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if _, err := client.GetInto(background, "go-doors", "bench", into, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// The calls of other RDMA stores' clients.
func Example() {
	client, err := NewClient(Config{
		Endpoint:  os.Getenv("VERBENA_NATIVE"),
		AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"),
		SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx := context.Background()
	if err := client.PutObject(ctx, "go-example", "my-key", []byte("Hello, RDMA!")); err != nil {
		fmt.Println(err)
		return
	}
	data, err := client.GetObject(ctx, "go-example", "my-key")
	fmt.Println(string(data), err)
	// Output: Hello, RDMA! <nil>
}

func TestStreamsAreStoredWholeOrNotAtAll(t *testing.T) {
	name := bucket(t, connect(t, "auto"), "go-streams")
	for _, via := range []string{"native", "http"} {
		client := connect(t, via)
		writer := client.Create(background, name, via, &PutOptions{ContentType: "text/x"})
		var want []byte
		for i := 0; i < 300; i++ {
			piece := bytes.Repeat([]byte{byte(i)}, i*31)
			want = append(want, piece...)
			if n, err := writer.Write(piece); n != len(piece) || err != nil {
				t.Fatal(via, n, err)
			}
		}
		if err := writer.Close(); err != nil || writer.Object().Bytes != uint64(len(want)) {
			t.Fatal(via, err, writer.Object())
		}
		if got, err := client.GetObject(background, name, via); err != nil || !bytes.Equal(got, want) {
			t.Fatal(via, err, len(got))
		}

		broken := errors.New("broken")
		writer = client.Create(background, name, "given up", nil)
		writer.Write([]byte("some"))
		if err := writer.CloseWithError(broken); !errors.Is(err, broken) {
			t.Fatal(via, err)
		}
		if _, err := client.PutReader(background, name, "given up", iotest.ErrReader(broken), nil); !errors.Is(err, broken) {
			t.Fatal(via, err)
		}
		if _, err := client.PutReader(background, name, "given up", panics{}, nil); err == nil || !strings.Contains(err.Error(), "panicked") {
			t.Fatal(via, err)
		}
		if _, err := client.HeadObject(background, name, "given up"); !errors.Is(err, NoSuchKey) {
			t.Fatal(via, err)
		}
		writer = client.Create(background, "no-such-bucket", "k", nil)
		writer.Write([]byte("some"))
		if err := writer.Close(); !errors.Is(err, NoSuchBucket) {
			t.Fatal(via, err)
		}
	}
}

type panics struct{}

func (panics) Read([]byte) (int, error) { panic("at the disco") }

func TestBodiesInChunksAreReadAsTheyWereMeant(t *testing.T) {
	for _, one := range []struct {
		raw, trailer string
		size         int
		data, sum    string
		ok           bool
	}{
		{"3;chunk-signature=ab\r\nabc\r\n0;chunk-signature=cd\r\n\r\n", "", 3, "abc", "", true},
		{"1\r\na\r\n2\r\nbc\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", "x-amz-checksum-crc32", 3, "abc", "AAAAAA==", true},
		{"0;chunk-signature=cd\r\n\r\n", "", 0, "", "", true},
		{"3\r\nabc\r\n0\r\n\r\n", "", 4, "", "", false},
		{"3\r\nabc\r\n0\r\n\r\n", "", 2, "", "", false},
		{"3\r\nabc\r\n0\r\n\r\n", "x-amz-checksum-crc32", 3, "", "", false},
		{"4\r\nabc\r\n0\r\n\r\n", "", 3, "", "", false},
		{"ffffffffffffffff\r\nabc\r\n", "", 3, "", "", false},
		{"-1\r\nabc\r\n", "", 3, "", "", false},
		{"", "", 0, "", "", false},
	} {
		data, sum, err := dechunk([]byte(one.raw), one.size, one.trailer)
		if (err == nil) != one.ok || string(data) != one.data && one.ok || sum != one.sum && one.ok {
			t.Errorf("%q: %q %q %v", one.raw, data, sum, err)
		}
	}
}

func TestPartsNeedAnUploadAndAClientOfMoreThanTheNativePort(t *testing.T) {
	client := connect(t, "native")
	if _, err := client.PutPart(background, "go-doors", "k", "id", 1, []byte("x"), ""); !errors.Is(err, Unsupported) {
		t.Error(err)
	}
	if _, err := client.PutPart(background, "go-doors", "k", "", 1, []byte("x"), ""); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	if _, err := client.PutPart(background, "go-doors", "k", "id", 10001, []byte("x"), ""); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	if _, err := connect(t, "http").PutPart(background, "go-doors", "k", "none", 1, []byte("x"), ""); !errors.Is(err, NoSuchUpload) {
		t.Error(err)
	}
}

// A server with TLS whose native door does not encrypt.
func TestATransportSendsNothingInTheClearUnasked(t *testing.T) {
	certificate := os.Getenv("VERBENA_CA_FILE")
	if certificate == "" {
		t.Skip("VERBENA_CA_FILE is not set")
	}
	config := Config{Endpoint: os.Getenv("AWS_ENDPOINT_URL"), NativeEndpoint: os.Getenv("VERBENA_NATIVE"), CAFile: certificate, Provider: "tcp",
		AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"), SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), TokenProvider: "none"}
	if made, err := NewTransport(config); err == nil {
		made.Close()
		t.Fatal("the SDK's payloads would leave this host unencrypted")
	}
	unverified := config
	unverified.Insecure = true
	if made, err := NewTransport(unverified); err == nil {
		made.Close()
		t.Fatal("NewTransport took a server whose certificate it does not verify")
	} else if !strings.Contains(err.Error(), "Insecure needs Via, Encryption or CleartextRDMA") {
		t.Fatalf("it does not say what to do: %v", err)
	}
	for name, allow := range map[string]func(*Config){
		"cleartext":  func(c *Config) { c.CleartextRDMA = true },
		"encryption": func(c *Config) { c.Encryption = "preferred" },
		"via":        func(c *Config) { c.Via = "native" },
		"insecure":   func(c *Config) { c.Insecure, c.Encryption = true, "preferred" },
	} {
		allowed := config
		allow(&allowed)
		made, err := NewTransport(allowed)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		made.Close()
	}
}
