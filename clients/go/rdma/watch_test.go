package rdma

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func watch(t *testing.T, client *Client, ctx context.Context, name, prefix string) *Watch {
	t.Helper()
	made, err := client.Watch(ctx, name, prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { made.Close() })
	return made
}

func next(t *testing.T, watch *Watch) Change {
	t.Helper()
	if !watch.Next() {
		t.Fatal(watch.Err())
	}
	return watch.Change()
}

func TestAWatchTellsWhatBecomesOfKeysUnderItsPrefix(t *testing.T) {
	client := connect(t, "native")
	name := bucket(t, connect(t, "auto"), "go-watch")
	seen := watch(t, client, background, name, "in/")
	began := time.Now().Add(-time.Minute)
	for _, key := range []string{"out", "in/a", "in/b"} {
		if err := client.PutObject(background, name, key, []byte("12345")); err != nil {
			t.Fatal(err)
		}
	}
	put, _ := client.HeadObject(background, name, "in/a")
	first := next(t, seen)
	if first.Gap || first.Key != "in/a" || first.What != Created || first.Size != 5 || first.ETag != put.ETag || first.Time.Before(began) {
		t.Fatalf("%+v, of %+v", first, put)
	}
	if second := next(t, seen); second.Key != "in/b" || second.Number <= first.Number {
		t.Fatalf("%+v after %+v", second, first)
	}
	if err := client.DeleteObject(background, name, "in/a"); err != nil {
		t.Fatal(err)
	}
	if gone := next(t, seen); gone.Key != "in/a" || gone.What != Removed || gone.What.String() != "removed" || gone.ETag != "" {
		t.Fatalf("%+v", gone)
	}
}

func TestWhatAWatchMissedIsAGap(t *testing.T) {
	client := connect(t, "native")
	if err := connect(t, "auto").MakeBucket(background, "go-watch-gap", true); err != nil {
		t.Fatal(err)
	}
	seen := watch(t, client, background, "go-watch-gap", "")
	const keys = 3000
	items := make([]Item, keys)
	for i := range items {
		items[i] = Item{Bucket: "go-watch-gap", Key: fmt.Sprintf("%04d/%s", i, strings.Repeat("k", 900)), Size: 1}
	}
	outcomes, err := client.PutMany(background, items, []byte("x"))
	if err == nil {
		err = FirstError(outcomes)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := client.PutObject(background, "go-watch-gap", "last", nil); err != nil {
		t.Fatal(err)
	}
	gaps, told := 0, 0
	for {
		change := next(t, seen)
		if change.Key == "last" {
			break
		}
		if change.Gap {
			gaps++
			if change.Key != "" {
				t.Fatalf("%+v", change)
			}
			break
		}
		told++
	}
	if gaps == 0 || told >= keys {
		t.Fatalf("%d gaps, %d of %d changes", gaps, told, keys)
	}
}

func TestAContextEndsAWatch(t *testing.T) {
	client := connect(t, "native")
	name := bucket(t, connect(t, "auto"), "go-watch-context")
	ctx, cancel := context.WithCancel(background)
	seen := watch(t, client, ctx, name, "")
	other := watch(t, client, background, name, "")
	ended := make(chan bool)
	go func() { ended <- seen.Next() }()
	cancel()
	if <-ended || !errors.Is(seen.Err(), Cancelled) || !errors.Is(seen.Err(), context.Canceled) {
		t.Fatal(seen.Err())
	}
	if seen.Next() || !errors.Is(seen.Err(), context.Canceled) {
		t.Fatal("it goes on", seen.Err())
	}
	if _, err := client.Watch(ctx, name, ""); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	go func() { ended <- other.Next() }()
	other.Close()
	other.Close()
	if <-ended || other.Err() != nil {
		t.Fatal(other.Err())
	}
}

func TestChangesComeByAChannelUntilTheClientIsClosed(t *testing.T) {
	client, maker := connect(t, "native"), connect(t, "auto")
	name := bucket(t, maker, "go-watch-channel")
	seen := watch(t, client, background, name, "")
	changes := seen.Changes()
	for i := 0; i < 10; i++ {
		if err := maker.PutObject(background, name, fmt.Sprint(i), nil); err != nil {
			t.Fatal(err)
		}
		if change := <-changes; change.Key != fmt.Sprint(i) {
			t.Fatalf("%d: %+v", i, change)
		}
	}
	// An unread change does not keep the watch alive.
	if err := maker.PutObject(background, name, "last", nil); err != nil {
		t.Fatal(err)
	}
	client.Close()
	for range changes {
	}
	if !errors.Is(seen.Err(), Closed) {
		t.Fatal(seen.Err())
	}
}

func TestWhatCannotBeWatched(t *testing.T) {
	client := connect(t, "native")
	name := bucket(t, connect(t, "auto"), "go-watch-none")
	if _, err := connect(t, "http").Watch(background, name, ""); !errors.Is(err, Unsupported) {
		t.Fatal(err)
	}
	if _, err := client.Watch(background, "go-no-such-bucket", ""); !errors.Is(err, NoSuchBucket) {
		t.Fatal(err)
	}
	for _, bad := range [][2]string{{"", ""}, {name, "a\x00b"}} {
		if _, err := client.Watch(background, bad[0], bad[1]); !errors.Is(err, InvalidArgument) {
			t.Fatal(bad, err)
		}
	}
}
