// minio-go signing in by a directory: minio_ldap ADDRESS NAME, the password on standard input. Prints the buckets.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	password, err := io.ReadAll(os.Stdin)
	check(err)
	person, err := credentials.NewLDAPIdentity("http://"+os.Args[1], os.Args[2], string(password))
	check(err)
	client, err := minio.New(os.Args[1], &minio.Options{Creds: person})
	check(err)
	buckets, err := client.ListBuckets(context.Background())
	check(err)
	for _, bucket := range buckets {
		fmt.Println(bucket.Name)
	}
}
