package rdma

import (
	"errors"
	"strings"
	"testing"
)

func TestABoundIsSetShownAndRemoved(t *testing.T) {
	client := connect(t, "auto")
	name := bucket(t, client, "go-bound")
	if bound, err := client.Bound(background, name); err != nil || bound != nil {
		t.Fatal(bound, err)
	}
	wanted := BucketBound{BytesMax: 1 << 30, ObjectsMax: 1000, Policy: "lru", RenewOnRead: true, KeepSuffix: "/kept"}
	if err := client.SetBound(background, name, wanted); err != nil {
		t.Fatal(err)
	}
	if bound, err := client.Bound(background, name); err != nil || bound == nil || *bound != wanted {
		t.Fatalf("%+v %v", bound, err)
	}
	for _, wrong := range []BucketBound{{ObjectsMax: 1, Policy: "random"}, {ObjectsMax: 1, Policy: strings.Repeat("x", 16)},
		{ObjectsMax: 1, KeepSuffix: strings.Repeat("x", 132)}, {ObjectsMax: 1, KeepSuffix: "a\x00b"}} {
		if err := client.SetBound(background, name, wrong); err == nil {
			t.Fatalf("%+v was taken", wrong)
		}
	}
	if bound, err := client.Bound(background, name); err != nil || bound == nil || *bound != wanted {
		t.Fatalf("%+v %v", bound, err)
	}
	if err := client.RemoveBound(background, name); err != nil {
		t.Fatal(err)
	}
	if bound, err := client.Bound(background, name); err != nil || bound != nil {
		t.Fatal(bound, err)
	}
	if err := client.SetBound(background, "go-no-such-bucket", wanted); !errors.Is(err, NoSuchBucket) {
		t.Fatal(err)
	}
}
