// aws-sdk-go as applications use it: an upload manager with parts, listings, presigned URLs, errors. Prints "ok".
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/awserr"
	"github.com/aws/aws-sdk-go/aws/session"
	"github.com/aws/aws-sdk-go/service/s3"
	"github.com/aws/aws-sdk-go/service/s3/s3manager"
)

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func expect(holds bool, what string) {
	if !holds {
		fmt.Println("not so:", what)
		os.Exit(1)
	}
}

func main() {
	bucket, key := aws.String("go-sdk"), aws.String("dir/a key+plus")
	sess, err := session.NewSession(&aws.Config{Endpoint: aws.String(os.Args[1]), Region: aws.String("us-east-1"),
		S3ForcePathStyle: aws.Bool(true), MaxRetries: aws.Int(0)})
	check(err)
	client := s3.New(sess)
	_, err = client.CreateBucket(&s3.CreateBucketInput{Bucket: bucket})
	check(err)

	big := bytes.Repeat([]byte("0123456789abcdef"), 13<<20/16)
	_, err = s3manager.NewUploader(sess).Upload(&s3manager.UploadInput{Bucket: bucket, Key: key, Body: bytes.NewReader(big),
		ContentType: aws.String("x/y"), Metadata: map[string]*string{"a": aws.String("b")}})
	check(err)
	back := aws.NewWriteAtBuffer(nil)
	_, err = s3manager.NewDownloader(sess).Download(back, &s3.GetObjectInput{Bucket: bucket, Key: key})
	check(err)
	expect(bytes.Equal(back.Bytes(), big), "the bytes in parts")
	head, err := client.HeadObject(&s3.HeadObjectInput{Bucket: bucket, Key: key})
	check(err)
	expect(*head.ContentType == "x/y" && *head.Metadata["A"] == "b", "metadata")
	part, err := client.GetObject(&s3.GetObjectInput{Bucket: bucket, Key: key, Range: aws.String("bytes=16-31")})
	check(err)
	text, err := io.ReadAll(part.Body)
	check(err)
	expect(string(text) == "0123456789abcdef", "a range")

	_, err = client.CopyObject(&s3.CopyObjectInput{Bucket: bucket, Key: aws.String("copy"), CopySource: aws.String("go-sdk/dir/a%20key%2Bplus")})
	check(err)
	list, err := client.ListObjectsV2(&s3.ListObjectsV2Input{Bucket: bucket, Delimiter: aws.String("/")})
	check(err)
	expect(len(list.Contents) == 1 && len(list.CommonPrefixes) == 1, "a listing")

	put, _ := client.PutObjectRequest(&s3.PutObjectInput{Bucket: bucket, Key: aws.String("presigned"), ACL: aws.String("private")})
	url, headers, err := put.PresignRequest(time.Minute)
	check(err)
	request, _ := http.NewRequest("PUT", url, bytes.NewReader([]byte("hello")))
	for name, values := range headers {
		request.Header[name] = values
	}
	answer, err := http.DefaultClient.Do(request)
	check(err)
	expect(answer.StatusCode == 200, "a presigned PUT")

	_, err = client.GetObject(&s3.GetObjectInput{Bucket: bucket, Key: aws.String("none")})
	failure, is := err.(awserr.Error)
	expect(is && failure.Code() == "NoSuchKey", "an error's code")
	check(s3manager.NewBatchDeleteWithClient(client).Delete(aws.BackgroundContext(),
		s3manager.NewDeleteListIterator(client, &s3.ListObjectsInput{Bucket: bucket})))
	_, err = client.DeleteBucket(&s3.DeleteBucketInput{Bucket: bucket})
	check(err)
	fmt.Println("ok")
}
