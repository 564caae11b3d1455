// The Go client's calls, one after the other: see client_calls.cc.
// usage: client_calls.go BUCKET KEY SIZE SECONDS
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"

	"verbena/rdma"
)

func main() {
	size, _ := strconv.Atoi(os.Args[3])
	seconds, _ := strconv.ParseFloat(os.Args[4], 64)
	client, err := rdma.NewClient(rdma.Config{Endpoint: os.Getenv("VERBENA_NATIVE"), AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"),
		SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), Provider: "local"})
	if err != nil {
		panic(err)
	}
	into, ctx := make([]byte, size), context.Background()
	call := func() {
		if _, err := client.GetInto(ctx, os.Args[1], os.Args[2], into, nil); err != nil {
			panic(err)
		}
	}
	for i := 0; i < 20; i++ {
		call()
	}
	var took []float64
	began := time.Now()
	for time.Since(began).Seconds() < seconds {
		before := time.Now()
		call()
		took = append(took, float64(time.Since(before).Nanoseconds())/1e3)
	}
	elapsed := time.Since(began).Seconds()
	sort.Float64s(took)
	fmt.Printf("{\"p50_us\": %.3f, \"bytes_per_s\": %.0f, \"calls\": %d}\n", took[len(took)/2], float64(size*len(took))/elapsed, len(took))
}
