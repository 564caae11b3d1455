// aws-sdk-go over rdma.Transport: its objects, its uploads and downloads in parts, its errors.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/awserr"
	"github.com/aws/aws-sdk-go/aws/credentials"
	"github.com/aws/aws-sdk-go/aws/session"
	"github.com/aws/aws-sdk-go/service/s3"
	"github.com/aws/aws-sdk-go/service/s3/s3manager"

	"verbena/rdma"
)

func must(err error, what string) {
	if err != nil {
		fmt.Println(what, err)
		os.Exit(1)
	}
}

func main() {
	endpoint, access, secret := os.Getenv("AWS_ENDPOINT_URL"), os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY")
	transport, err := rdma.NewTransport(rdma.Config{Endpoint: endpoint, NativeEndpoint: os.Getenv("VERBENA_NATIVE"), AccessKey: access,
		SecretKey: secret, TokenProvider: "tcp"})
	must(err, "transport")
	defer transport.Close()
	sdk := session.Must(session.NewSession(&aws.Config{Endpoint: aws.String(endpoint), Region: aws.String("us-east-1"),
		S3ForcePathStyle: aws.Bool(true), Credentials: credentials.NewStaticCredentials(access, secret, ""),
		HTTPClient: &http.Client{Transport: transport}}))
	client := s3.New(sdk)
	bucket := aws.String("aws")
	_, err = client.CreateBucket(&s3.CreateBucketInput{Bucket: bucket})
	must(err, "bucket")

	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	native, base := transport.Counts()
	_, err = client.PutObject(&s3.PutObjectInput{Bucket: bucket, Key: aws.String("k"), Body: bytes.NewReader(data), ContentType: aws.String("text/x")})
	must(err, "put")
	got, err := client.GetObject(&s3.GetObjectInput{Bucket: bucket, Key: aws.String("k")})
	must(err, "get")
	body, err := io.ReadAll(got.Body)
	must(err, "read")
	if !bytes.Equal(body, data) || *got.ContentType != "text/x" {
		must(fmt.Errorf("%+v", got), "other")
	}
	large := bytes.Repeat([]byte("fedcba98"), 12<<17)
	_, err = s3manager.NewUploader(sdk).Upload(&s3manager.UploadInput{Bucket: bucket, Key: aws.String("large"), Body: bytes.NewReader(large)})
	must(err, "upload")
	into := aws.NewWriteAtBuffer(nil)
	_, err = s3manager.NewDownloader(sdk).Download(into, &s3.GetObjectInput{Bucket: bucket, Key: aws.String("large")})
	must(err, "download")
	if !bytes.Equal(into.Bytes(), large) {
		must(fmt.Errorf("other bytes"), "large")
	}
	moved, left := transport.Counts()
	// One PUT and one GET; three parts up, between begin and completion; three ranges down.
	if moved-native != 8 || left-base != 2 {
		must(fmt.Errorf("%d by the clients, %d by Base", moved-native, left-base), "counts")
	}
	_, err = client.GetObject(&s3.GetObjectInput{Bucket: bucket, Key: aws.String("nothing")})
	if failed, ok := err.(awserr.Error); !ok || failed.Code() != s3.ErrCodeNoSuchKey || !strings.Contains(err.Error(), "404") {
		must(fmt.Errorf("%v", err), "not the server's own error:")
	}
	fmt.Println("by the clients", moved-native, "by Base", left-base)
}
