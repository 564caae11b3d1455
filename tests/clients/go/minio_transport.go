// minio-go over rdma.Transport: the same answers as without it, and payloads transferred natively and by token.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/lifecycle"
	"github.com/minio/minio-go/v7/pkg/sse"
	"github.com/minio/minio-go/v7/pkg/tags"

	"verbena/rdma"
)

func must(err error, what string) {
	if err != nil {
		fmt.Println(what, err)
		os.Exit(1)
	}
}

var (
	ctx      = context.Background()
	http     = os.Getenv("AWS_ENDPOINT_URL")
	endpoint = strings.TrimPrefix(http, "http://")
	access   = os.Getenv("AWS_ACCESS_KEY_ID")
	secret   = os.Getenv("AWS_SECRET_ACCESS_KEY")
)

func client(transport *rdma.Transport, access, secret string) *minio.Client {
	options := &minio.Options{Creds: credentials.NewStaticV4(access, secret, ""), Region: "us-east-1"}
	if transport != nil {
		options.Transport = transport
	}
	made, err := minio.New(endpoint, options)
	must(err, "minio.New")
	return made
}

// The numbers of requests by the clients and by Base in between must be these.
func counted(transport *rdma.Transport, what string, native, base int64, run func()) {
	n, b := transport.Counts()
	run()
	nn, bb := transport.Counts()
	if nn-n != native || bb-b != base {
		must(fmt.Errorf("%d by the clients, %d by Base", nn-n, bb-b), what)
	}
}

func read(from *minio.Client, key string, options minio.GetObjectOptions) ([]byte, minio.ObjectInfo) {
	object, err := from.GetObject(ctx, "minio", key, options)
	must(err, "get "+key)
	defer object.Close()
	got, err := io.ReadAll(object)
	must(err, "read "+key)
	info, err := object.Stat()
	must(err, "stat "+key)
	return got, info
}

// In a bucket with encryption, expiry and tags the answers contain the headers for them, whichever way the bytes went.
func saysWhatTheServerWorksOut(transport *rdma.Transport, fast, plain *minio.Client) {
	must(plain.MakeBucket(ctx, "worked-out", minio.MakeBucketOptions{}), "bucket")
	must(plain.SetBucketEncryption(ctx, "worked-out", sse.NewConfigurationSSES3()), "encryption")
	rules := lifecycle.NewConfiguration()
	rules.Rules = []lifecycle.Rule{{ID: "all", Status: "Enabled", Expiration: lifecycle.Expiration{Days: 3}}}
	must(plain.SetBucketLifecycle(ctx, "worked-out", rules), "lifecycle")
	data := bytes.Repeat([]byte("worked out"), 10000) // for few bytes minio-go requests the head, too
	var put [2]minio.UploadInfo
	for i, by := range []*minio.Client{plain, fast} {
		counted(transport, "put", int64(i), 0, func() {
			var err error
			put[i], err = by.PutObject(ctx, "worked-out", "k", bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{})
			must(err, "put")
		})
	}
	if put[0].ExpirationRuleID != "all" || put[1].ExpirationRuleID != "all" || !put[0].Expiration.Equal(put[1].Expiration) {
		must(fmt.Errorf("%+v\n%+v", put[0], put[1]), "answers to PUTs differ:")
	}
	labels, err := tags.NewTags(map[string]string{"a": "1", "b": "2"}, true)
	must(err, "tags")
	must(plain.PutObjectTagging(ctx, "worked-out", "k", labels, minio.PutObjectTaggingOptions{}), "tags")
	var about [2]minio.ObjectInfo
	for i, by := range []*minio.Client{plain, fast} {
		counted(transport, "get", int64(i), 0, func() {
			object, err := by.GetObject(ctx, "worked-out", "k", minio.GetObjectOptions{})
			must(err, "get")
			_, err = io.ReadAll(object)
			must(err, "read")
			about[i], err = object.Stat()
			must(err, "stat")
		})
	}
	for i := range about {
		if about[i].UserTagCount != 2 || about[i].ExpirationRuleID != "all" || about[i].Metadata.Get("X-Amz-Server-Side-Encryption") != "AES256" ||
			!about[i].Expiration.Equal(about[0].Expiration) {
			must(fmt.Errorf("%+v\n%+v", about[0], about[1]), "answers to GETs differ:")
		}
	}
}

func main() {
	transport, err := rdma.NewTransport(rdma.Config{Endpoint: http, NativeEndpoint: os.Getenv("VERBENA_NATIVE"), AccessKey: access,
		SecretKey: secret, TokenProvider: "tcp"})
	must(err, "transport")
	defer transport.Close()
	fast, plain := client(transport, access, secret), client(nil, access, secret)
	must(fast.MakeBucket(ctx, "minio", minio.MakeBucketOptions{}), "bucket")

	// Signed in chunks, minio-go's default over http; with an unsigned payload; with an MD5.
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	kinds := map[string]minio.PutObjectOptions{"chunks": {}, "unsigned": {DisableContentSha256: true}, "md5": {SendContentMd5: true}}
	for kind, options := range kinds {
		options.ContentType, options.CacheControl, options.UserMetadata = "text/x", "", map[string]string{"Colour": "green"}
		for name, put := range map[string]*minio.Client{"fast": fast, "plain": plain} {
			key := name + " key/ü+ " + kind
			native := int64(0)
			if name == "fast" {
				native = 1
			}
			counted(transport, "put "+key, native, 0, func() {
				_, err := put.PutObject(ctx, "minio", key, bytes.NewReader(data), int64(len(data)), options)
				must(err, "put "+key)
			})
			want, about := read(plain, key, minio.GetObjectOptions{})
			var got []byte
			var info minio.ObjectInfo
			counted(transport, "get "+key, 1, 0, func() { got, info = read(fast, key, minio.GetObjectOptions{}) })
			if !bytes.Equal(got, data) || !bytes.Equal(want, data) {
				must(fmt.Errorf("other bytes"), key)
			}
			if info.ETag != about.ETag || info.Size != about.Size || info.ContentType != "text/x" || about.ContentType != "text/x" ||
				!info.LastModified.Equal(about.LastModified) || info.UserMetadata["Colour"] != "green" {
				must(fmt.Errorf("%+v\n%+v", info, about), "answers differ:")
			}
			ranged := minio.GetObjectOptions{}
			must(ranged.SetRange(10, 19), "range")
			if got, _ := read(fast, key, ranged); string(got) != string(data[10:20]) {
				must(fmt.Errorf("other bytes: %q", got), key)
			}
		}
	}

	saysWhatTheServerWorksOut(transport, fast, plain)

	// An upload in parts: their payloads go by token, the begin and the completion by Base.
	large := bytes.Repeat([]byte("fedcba98"), 12<<17)
	counted(transport, "parts", 3, 2, func() {
		_, err := fast.PutObject(ctx, "minio", "parts", bytes.NewReader(large), int64(len(large)), minio.PutObjectOptions{PartSize: 5 << 20})
		must(err, "parts")
	})
	if got, _ := read(plain, "parts", minio.GetObjectOptions{}); !bytes.Equal(got, large) {
		must(fmt.Errorf("other bytes"), "parts")
	}

	// Everything by token, if so configured.
	tokens, err := rdma.NewTransport(rdma.Config{Endpoint: http, AccessKey: access, SecretKey: secret, Via: "token", Provider: "tcp",
		TokenProvider: "tcp"})
	must(err, "tokens")
	defer tokens.Close()
	counted(tokens, "by token", 2, 0, func() {
		byToken := client(tokens, access, secret)
		_, err := byToken.PutObject(ctx, "minio", "by token", bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{})
		must(err, "by token")
		if got, _ := read(byToken, "by token", minio.GetObjectOptions{}); !bytes.Equal(got, data) {
			must(fmt.Errorf("other bytes"), "by token")
		}
	})

	// A header without an equivalent at the native door goes by Base, body included.
	counted(transport, "a header", 0, 1, func() {
		_, err := fast.PutObject(ctx, "minio", "tagged", bytes.NewReader(data), int64(len(data)),
			minio.PutObjectOptions{UserTags: map[string]string{"a": "b"}})
		must(err, "tagged")
	})
	if got, _ := read(plain, "tagged", minio.GetObjectOptions{}); !bytes.Equal(got, data) {
		must(fmt.Errorf("other bytes"), "tagged")
	}

	// The server's own errors; a request signed with another key, or unsigned, does not get the transport's rights.
	object, err := fast.GetObject(ctx, "minio", "nothing", minio.GetObjectOptions{})
	must(err, "get")
	if _, err = io.ReadAll(object); minio.ToErrorResponse(err).Code != "NoSuchKey" {
		must(fmt.Errorf("%v", err), "not the server's own error:")
	}
	for _, stranger := range []*minio.Client{client(transport, "SOMEBODYELSE00000000", secret), client(transport, "", "")} {
		object, err := stranger.GetObject(ctx, "minio", "parts", minio.GetObjectOptions{})
		must(err, "get")
		if _, err = io.ReadAll(object); err == nil {
			must(fmt.Errorf("was answered"), "a stranger")
		}
		if _, err = stranger.PutObject(ctx, "minio", "strange", bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{}); err == nil {
			must(fmt.Errorf("could write"), "a stranger")
		}
	}
	native, base := transport.Counts()
	fmt.Println("by the clients", native, "by Base", base)
}
