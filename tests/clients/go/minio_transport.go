// minio-go over rdma.Transport: the same answers as without it, and payloads that travelled natively.
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

	"verbena/rdma"
)

func must(err error, what string) {
	if err != nil {
		fmt.Println(what, err)
		os.Exit(1)
	}
}

func main() {
	endpoint := strings.TrimPrefix(os.Getenv("AWS_ENDPOINT_URL"), "http://")
	access, secret := os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY")
	client, err := rdma.NewClient(rdma.Config{Endpoint: os.Getenv("VERBENA_NATIVE"), AccessKey: access, SecretKey: secret})
	must(err, "connect")
	transport := &rdma.Transport{Client: client, Endpoint: endpoint}
	keys := credentials.NewStaticV4(access, secret, "")
	fast, err := minio.New(endpoint, &minio.Options{Creds: keys, Transport: transport})
	must(err, "fast")
	plain, err := minio.New(endpoint, &minio.Options{Creds: keys})
	must(err, "plain")
	ctx := context.Background()
	must(fast.MakeBucket(ctx, "minio", minio.MakeBucketOptions{}), "bucket")

	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for name, put := range map[string]*minio.Client{"fast": fast, "plain": plain} {
		_, err := put.PutObject(ctx, "minio", name+" key/ü+", bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{
			ContentType: "text/x", UserMetadata: map[string]string{"Colour": "green"}, CacheControl: "no-cache",
			DisableContentSha256: true, SendContentMd5: name == "fast"})
		must(err, "put "+name)
	}
	for _, key := range []string{"fast key/ü+", "plain key/ü+"} {
		var answers []minio.ObjectInfo
		for _, get := range []*minio.Client{fast, plain} {
			object, err := get.GetObject(ctx, "minio", key, minio.GetObjectOptions{})
			must(err, "get")
			got, err := io.ReadAll(object)
			must(err, "read "+key)
			if !bytes.Equal(got, data) {
				must(fmt.Errorf("other bytes"), key)
			}
			info, err := object.Stat()
			must(err, "stat")
			answers = append(answers, info)
			ranged := minio.GetObjectOptions{}
			must(ranged.SetRange(10, 19), "range")
			object, err = get.GetObject(ctx, "minio", key, ranged)
			must(err, "get range")
			got, err = io.ReadAll(object)
			must(err, "read range")
			if string(got) != string(data[10:20]) {
				must(fmt.Errorf("other bytes: %q", got), key)
			}
		}
		a, b := answers[0], answers[1]
		if a.ETag != b.ETag || a.Size != b.Size || a.ContentType != b.ContentType || !a.LastModified.Equal(b.LastModified) ||
			a.UserMetadata["Colour"] != b.UserMetadata["Colour"] || a.UserMetadata["Colour"] != "green" ||
			a.Metadata.Get("Cache-Control") != b.Metadata.Get("Cache-Control") {
			must(fmt.Errorf("%+v\n%+v", a, b), "answers differ:")
		}
	}
	_, err = fast.GetObject(ctx, "minio", "nothing", minio.GetObjectOptions{})
	object, _ := fast.GetObject(ctx, "minio", "nothing", minio.GetObjectOptions{})
	_, err = io.ReadAll(object)
	if minio.ToErrorResponse(err).Code != "NoSuchKey" {
		must(fmt.Errorf("%v", err), "not the server's own error:")
	}
	native, base := transport.Counts()
	fmt.Println("native", native, "base", base)
	if native < 4 {
		os.Exit(1)
	}
}
