package rdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestManyObjectsAtOnce(t *testing.T) {
	name := bucket(t, connect(t, "auto"), "go-many")
	ctx, stop := context.WithTimeout(background, time.Minute)
	defer stop()
	for _, via := range []string{"native", "http"} {
		for how, ctx := range map[string]context.Context{"endless": background, "bounded": ctx} {
			client, n := connect(t, via), 5000 // more than one message holds
			if via == "http" {
				n = 20
			}
			from, items := make([]byte, 0, n*10), make([]Item, n)
			for i := range items {
				items[i] = Item{Bucket: name, Key: fmt.Sprint(via, how, i), Offset: len(from), Size: i % 10, ContentType: "text/x"}
				from = append(from, bytes.Repeat([]byte{byte('a' + i%26)}, i%10)...)
			}
			stored, err := client.PutMany(ctx, items, from)
			if err != nil || FirstError(stored) != nil || len(stored) != n || stored[n-1].ETag == "" {
				t.Fatal(via, how, err, FirstError(stored))
			}
			known, err := client.HeadMany(ctx, items)
			if err != nil || FirstError(known) != nil || known[19].Size != 9 || known[19].ETag != stored[19].ETag || known[19].LastModified.Year() < 2020 {
				t.Fatal(via, how, err, FirstError(known), known[19])
			}
			into := make([]byte, len(from))
			got, err := client.GetMany(ctx, items, into)
			if err != nil || FirstError(got) != nil || !bytes.Equal(into, from) || got[19].Bytes != 9 {
				t.Fatal(via, how, err, FirstError(got))
			}
			buffer, err := client.Alloc(len(from))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := buffer.GetMany(ctx, items); err != nil || FirstError(got) != nil || !bytes.Equal(buffer.Bytes(), from) {
				t.Fatal(via, how, err, FirstError(got))
			}
			if stored, err := buffer.PutMany(ctx, items); err != nil || FirstError(stored) != nil {
				t.Fatal(via, how, err, FirstError(stored))
			}
			buffer.Free()
			if _, err := buffer.GetMany(ctx, items); !errors.Is(err, Closed) {
				t.Fatal(err)
			}
			gone, err := client.RemoveMany(ctx, append(items[1:], Item{Bucket: name, Key: "never was"}))
			if err != nil || FirstError(gone) != nil || len(gone) != n {
				t.Fatal(via, how, err, FirstError(gone))
			}
			left, err := client.HeadMany(ctx, items[:2])
			if err != nil || left[0].Err != nil || !errors.Is(left[1].Err, NoSuchKey) {
				t.Fatal(via, how, err, left)
			}
		}
	}
}

func TestEachItemOfABatchHasItsOwnOutcome(t *testing.T) {
	client := connect(t, "native")
	name := bucket(t, connect(t, "auto"), "go-items")
	put, err := client.PutWith(background, name, "k", []byte("0123456789"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ended, stop := context.WithCancel(background)
	defer stop()
	for _, ctx := range []context.Context{background, ended} {
		into := bytes.Repeat([]byte("-"), 40)
		got, err := client.GetMany(ctx, []Item{
			{Bucket: name, Key: "k", Offset: 30, Size: 10}, {Bucket: name, Key: "nothing", Offset: 0, Size: 5}, {Bucket: name, Key: "k", Offset: 5, Size: 9},
			{Bucket: name, Key: "k", Offset: 15, Size: 5, Range: &Range{2, 3}, IfMatch: put.ETag}, {Bucket: name, Key: "k", Offset: 20, Size: 10, IfMatch: "other"},
			{Bucket: "no-such-bucket", Key: "k"}}, into)
		if err != nil || got[0].Err != nil || got[3].Err != nil || string(into[15:18]) != "234" || string(into[30:]) != "0123456789" {
			t.Fatal(err, got, string(into))
		}
		for i, want := range map[int]Code{1: NoSuchKey, 2: BufferTooSmall, 4: PreconditionFailed, 5: NoSuchBucket} {
			var failed *Error
			if !errors.As(got[i].Err, &failed) || failed.Code != want {
				t.Error(i, got[i].Err)
			}
		}
		if !errors.Is(FirstError(got), NoSuchKey) || string(into[:5]) != "-----" {
			t.Error(FirstError(got), string(into))
		}
		for _, wrong := range [][]Item{nil, {{Bucket: name, Key: "k", Offset: -1, Size: 1}}, {{Bucket: name, Key: "k", Offset: 1, Size: 40}},
			{{Bucket: name, Key: "k", Offset: int(^uint(0) >> 1), Size: 1}}, {{Bucket: name, Key: "k", Size: -1}}, {{Key: "k"}}, {{Bucket: name}},
			{{Bucket: name, Key: "a\x00b"}}, {{Bucket: name, Key: "k", Size: 10}, {Bucket: name, Key: "k", Offset: 9, Size: 10}}} {
			if _, err := client.GetMany(ctx, wrong, into); !errors.Is(err, InvalidArgument) {
				t.Error(wrong, err)
			}
		}
	}
	client.Close()
	for _, call := range []func() error{
		func() error { _, err := client.GetMany(background, []Item{{Bucket: name, Key: "k"}}, nil); return err },
		func() error { _, err := client.PutMany(ended, []Item{{Bucket: name, Key: "k"}}, nil); return err },
		func() error { _, err := client.HeadMany(background, []Item{{Bucket: name, Key: "k"}}); return err },
		func() error { _, err := client.RemoveMany(ended, []Item{{Bucket: name, Key: "k"}}); return err },
	} {
		if err := call(); !errors.Is(err, Closed) && !errors.Is(err, Cancelled) {
			t.Error(err)
		}
	}
}

// A frozen server does not answer: the context alone ends the batches, and nothing lands later.
func TestContextsEndBatches(t *testing.T) {
	client := connect(t, "native")
	name := bucket(t, connect(t, "auto"), "go-many-contexts")
	data := bytes.Repeat([]byte("x"), 1<<20)
	if err := client.PutObject(background, name, "k", data); err != nil {
		t.Fatal(err)
	}
	server, _ := strconv.Atoi(os.Getenv("VERBENA_SERVER_PID"))
	into, items := make([]byte, 1<<20), []Item{{Bucket: name, Key: "k", Size: 1 << 20}}
	freeze(t, server)
	defer syscall.Kill(server, syscall.SIGCONT)
	begin := time.Now()
	for _, call := range []func(ctx context.Context) error{
		func(ctx context.Context) error { _, err := client.GetMany(ctx, items, into); return err },
		func(ctx context.Context) error { _, err := client.PutMany(ctx, items, data); return err },
		func(ctx context.Context) error { _, err := client.HeadMany(ctx, items); return err },
		func(ctx context.Context) error {
			_, err := client.RemoveMany(ctx, []Item{{Bucket: name, Key: "other"}})
			return err
		},
	} {
		ctx, stop := context.WithTimeout(background, 200*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, Cancelled) {
			t.Error(err)
		}
		stop()
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Error("the contexts did not end the batches, the timeout did", took)
	}
	for i := range into {
		into[i] = 'z'
	}
	syscall.Kill(server, syscall.SIGCONT)
	if known, err := client.HeadMany(background, items); err != nil || known[0].Err != nil {
		t.Fatal(err, known)
	}
	if bytes.IndexByte(into, 'x') >= 0 {
		t.Error("bytes landed after the call had returned")
	}
}

func TestBatchesRaceClose(t *testing.T) {
	name := bucket(t, connect(t, "auto"), "go-many-races")
	if err := connect(t, "native").PutObject(background, name, "k", make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(background)
	defer stop()
	for round := 0; round < 6; round++ {
		client := connect(t, "native")
		var all sync.WaitGroup
		for _, ctx := range []context.Context{background, background, ctx, ctx} {
			all.Add(1)
			go func(ctx context.Context) {
				defer all.Done()
				into, items := make([]byte, 100_000), []Item{{Bucket: name, Key: "k", Size: 100_000}}
				for {
					got, err := client.GetMany(ctx, items, into)
					if err == nil {
						err = FirstError(got)
					}
					if err != nil {
						if !errors.Is(err, Closed) && !errors.Is(err, Cancelled) {
							t.Error(err)
						}
						return
					}
				}
			}(ctx)
		}
		time.Sleep(10 * time.Millisecond)
		client.Close()
		all.Wait()
	}
}

func TestATtlBecomesAnEnd(t *testing.T) {
	name := bucket(t, connect(t, "auto"), "go-ttl")
	for _, via := range []string{"native", "http"} {
		client, key := connect(t, via), "one/"+via
		if _, err := client.PutWith(background, name, key, []byte("x"), &PutOptions{TTL: time.Hour}); err != nil {
			t.Fatal(via, err)
		}
		items := []Item{{Bucket: name, Key: "many/" + via, Size: 1, TTL: time.Hour}}
		if stored, err := client.PutMany(background, items, []byte("x")); err != nil || FirstError(stored) != nil {
			t.Fatal(via, err, FirstError(stored))
		}
		for _, key := range []string{key, items[0].Key} {
			if found, err := client.HeadObject(background, name, key); err != nil || found.Headers["x-verbena-ttl"] != "3600" {
				t.Fatal(via, key, err, found.Headers)
			}
		}
		items[0].TTL = time.Millisecond
		if _, err := client.PutMany(background, items, []byte("x")); !errors.Is(err, InvalidArgument) {
			t.Fatal(via, err)
		}
	}
}

func TestALeaseKeepsWhatAMatchFound(t *testing.T) {
	name, client := bucket(t, connect(t, "auto"), "go-lease"), connect(t, "native")
	hashes, items, from := make([][]byte, 5), make([]Item, 4), []byte("block0block1block2block3")
	for i := range hashes {
		hashes[i] = bytes.Repeat([]byte{byte(i)}, 16)
	}
	for i := range items {
		items[i] = Item{Bucket: name, Key: fmt.Sprintf("m/%x", hashes[i]), Offset: 6 * i, Size: 6}
	}
	if stored, err := client.PutMany(background, items, from); err != nil || FirstError(stored) != nil {
		t.Fatal(err, FirstError(stored))
	}
	found, err := client.Match(background, name, "m", hashes, &MatchOptions{Sizes: true, Lease: time.Minute})
	if err != nil || found.Leading != 4 || found.Ended != NoSuchKey || len(found.Sizes) != 4 || found.Sizes[3] != 6 || found.Lease == 0 {
		t.Fatal(err, found)
	}
	again, err := client.Match(background, name, "m", hashes[:2], &MatchOptions{Lease: time.Minute, Join: found.Lease})
	if err != nil || again.Leading != 2 || again.Ended != 0 || again.Lease != found.Lease {
		t.Fatal(err, again)
	}
	if gone, err := client.RemoveMany(background, items); err != nil || FirstError(gone) != nil {
		t.Fatal(err, FirstError(gone))
	}
	into := make([]byte, len(from))
	if got, err := client.GetManyLeased(background, found.Lease, items, into); err != nil || FirstError(got) != nil || !bytes.Equal(into, from) {
		t.Fatal(err, FirstError(got), string(into))
	}
	if err := client.EndLease(background, found.Lease); err != nil {
		t.Fatal(err)
	}
	if got, err := client.GetManyLeased(background, found.Lease, items, into); err != nil || !errors.Is(FirstError(got), NoSuchKey) {
		t.Fatal(err, FirstError(got))
	}
	if _, err := client.Match(background, name, "m", append(hashes, []byte("short")), nil); !errors.Is(err, InvalidArgument) {
		t.Fatal(err)
	}
	if _, err := connect(t, "http").Match(background, name, "m", hashes, &MatchOptions{Lease: time.Minute}); !errors.Is(err, Unsupported) {
		t.Fatal(err)
	}
}
