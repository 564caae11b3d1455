// Memory of a device by the Go client, over the double of the driver.
package main

/*
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

static void* library;
static int load(const char* name) { return (library = dlopen(name, RTLD_NOW)) != NULL; }
static uint64_t allocate(int device, size_t size) { return ((uint64_t (*)(int, size_t))dlsym(library, "double_allocate"))(device, size); }
static uint64_t managed(size_t size) { return ((uint64_t (*)(size_t))dlsym(library, "double_allocate_managed"))(size); }
static int release(uint64_t address) { return ((_Bool (*)(uint64_t))dlsym(library, "double_free"))(address); }
static void peek(void* into, uint64_t from, size_t size) { ((void (*)(void*, uint64_t, size_t))dlsym(library, "double_peek"))(into, from, size); }
static void poke(uint64_t to, const void* from, size_t size) { ((void (*)(uint64_t, const void*, size_t))dlsym(library, "double_poke"))(to, from, size); }
static uint64_t stream(int device) { return ((uint64_t (*)(int))dlsym(library, "double_stream"))(device); }
static void fill(uint64_t s, uint64_t to, int v, size_t n) { ((void (*)(uint64_t, uint64_t, int, size_t))dlsym(library, "double_fill"))(s, to, v, n); }
static int initialize(const char* name) { return ((int (*)(unsigned))dlsym(library, name))(0); }
*/
import "C"

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand"
	"os"
	"runtime"
	"unsafe"

	"verbena/rdma"
)

var (
	ctx  = context.Background()
	kind rdma.DeviceKind // of the driver whose double is there; CUDA needs not be named
)

func peek(address uint64, size int) []byte {
	data := make([]byte, size)
	C.peek(unsafe.Pointer(&data[0]), C.uint64_t(address), C.size_t(size))
	return data
}

func poke(address uint64, data []byte) {
	C.poke(C.uint64_t(address), unsafe.Pointer(&data[0]), C.size_t(len(data)))
}

func expect(ok bool, about ...any) {
	if !ok {
		_, _, line, _ := runtime.Caller(1)
		log.Fatal("line ", line, ": ", about)
	}
}

func bothWays(via, path string) {
	client := connect(via)
	defer client.Close()
	for _, size := range []int{1, 5000, 9<<20 + 3} {
		address := uint64(C.allocate(1, C.size_t(size)))
		data := make([]byte, size)
		rand.Read(data)
		poke(address, data)
		buffer, err := client.RegisterDevice(rdma.DeviceMemory{Kind: kind, Address: address, Size: uint64(size), Device: 1})
		expect(err == nil && buffer.Bytes() == nil, err)
		put, err := buffer.Put(ctx, "go-device", via, size, nil)
		expect(err == nil && put.DevicePath == path, err, put)
		host, err := client.GetObject(ctx, "go-device", via)
		expect(err == nil && bytes.Equal(host, data), err)
		poke(address, make([]byte, size))
		got, err := buffer.Get(ctx, "go-device", via, nil)
		expect(err == nil && got.DevicePath == path && bytes.Equal(peek(address, size), data), err, got)
		poke(address, make([]byte, size))
		items := []rdma.Item{{Bucket: "go-device", Key: via, Offset: 0, Size: size}}
		outcomes, err := buffer.GetMany(ctx, items)
		expect(err == nil && rdma.FirstError(outcomes) == nil && bytes.Equal(peek(address, size), data), err, outcomes)
		buffer.Free()
		C.release(C.uint64_t(address))
	}
}

func checked(client *rdma.Client, by string) {
	address, data := uint64(C.allocate(0, 70_001)), make([]byte, 70_001)
	defer C.release(C.uint64_t(address))
	rand.Read(data)
	poke(address, data)
	before, err := client.DeviceCounters()
	expect(err == nil, err)
	buffer, err := client.RegisterDevice(rdma.DeviceMemory{Kind: kind, Address: address, Size: uint64(len(data)), Device: 0})
	expect(err == nil, err)
	defer buffer.Free()
	put, err := buffer.Put(ctx, "go-device", "checked", len(data), &rdma.PutOptions{VerifyDevice: true})
	expect(err == nil && put.DeviceVerified == by, err, put)
	got, err := buffer.Get(ctx, "go-device", "checked", &rdma.GetOptions{VerifyDevice: true})
	expect(err == nil && got.DeviceVerified == by && bytes.Equal(peek(address, len(data)), data), err, got)
	got, err = buffer.Get(ctx, "go-device", "checked", nil)
	expect(err == nil && got.DeviceVerified == "", err, got)
	now, err := client.DeviceCounters()
	expect(err == nil && now.Shared.Transfers == before.Shared.Transfers+3 && now.Shared.Bytes == before.Shared.Bytes+3*70_001, err, now)
	expect(now.VerifiedKernel+now.VerifiedReadBack == before.VerifiedKernel+before.VerifiedReadBack+2 && now.Mismatches == 0, now)
}

func inOrderOfAStream(client *rdma.Client) {
	address, stream := uint64(C.allocate(0, 1000)), uint64(C.stream(0))
	buffer, err := client.RegisterDevice(rdma.DeviceMemory{Kind: kind, Address: address, Size: 1000, Device: rdma.AnyDevice, Stream: &stream})
	expect(err == nil, err)
	defer buffer.Free()
	C.fill(C.uint64_t(stream), C.uint64_t(address), 0x41, 1000)
	_, err = buffer.Put(ctx, "go-device", "stream", 1000, nil)
	expect(err == nil, err)
	host, err := client.GetObject(ctx, "go-device", "stream")
	expect(err == nil && bytes.Equal(host, bytes.Repeat([]byte("A"), 1000)), err)
}

func refused(client *rdma.Client) {
	address, host := uint64(C.allocate(0, 1000)), make([]byte, 1000)
	for name, memory := range map[string]rdma.DeviceMemory{
		"another device": {Address: address, Size: 1000, Device: 1}, "no device": {Address: address, Size: 1000, Device: 99},
		"negative": {Address: address, Size: 1000, Device: -2}, "beyond": {Address: address, Size: 1 << 30, Device: 0}, "huge": {Address: address, Size: 1 << 63},
		"host memory": {Address: uint64(uintptr(unsafe.Pointer(&host[0]))), Size: 1000}, "managed": {Address: uint64(C.managed(1000)), Size: 1000}} {
		memory.Kind = kind
		_, err := client.RegisterDevice(memory)
		expect(errors.Is(err, rdma.InvalidArgument), name, err)
	}
	_, err := client.RegisterDevice(rdma.DeviceMemory{Kind: 3, Address: address, Size: 1000})
	expect(errors.Is(err, rdma.Unsupported), err)
	readOnly, err := client.RegisterDevice(rdma.DeviceMemory{Kind: kind, Address: address, Size: 1000, ReadOnly: true})
	expect(err == nil, err)
	_, err = readOnly.Put(ctx, "go-device", "read-only", 1000, nil)
	expect(err == nil, err)
	_, err = readOnly.Put(ctx, "go-device", "read-only", 1001, nil)
	expect(errors.Is(err, rdma.InvalidArgument), err)
	_, err = readOnly.Get(ctx, "go-device", "read-only", nil)
	expect(errors.Is(err, rdma.InvalidArgument), err)
	C.release(C.uint64_t(address))
	_, err = readOnly.Put(ctx, "go-device", "freed", 1000, nil)
	expect(errors.Is(err, rdma.InvalidArgument), err)
	readOnly.Free()
	_, err = readOnly.Put(ctx, "go-device", "after Free", 1, nil)
	expect(err != nil)
}

func connect(via string) *rdma.Client {
	client, err := rdma.NewClient(rdma.Config{Endpoint: os.Getenv("VERBENA_NATIVE"), HTTPEndpoint: os.Getenv("AWS_ENDPOINT_URL"), Via: via,
		AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"), SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY")})
	expect(err == nil, err)
	return client
}

func main() {
	driver, initialize, by := os.Getenv("TEST_VERBENA_CUDA_DRIVER"), "cuInit", "kernel"
	if hip := os.Getenv("TEST_VERBENA_HIP_DRIVER"); hip != "" {
		driver, initialize, by, kind = hip, "hipInit", "read_back", rdma.ROCm
	}
	expect(C.load(C.CString(driver)) != 0 && C.initialize(C.CString(initialize)) == 0)
	client := connect("auto")
	defer client.Close()
	expect(client.MakeBucket(ctx, "go-device", false) == nil)
	bothWays("native", "shared")
	bothWays("http", "staged")
	checked(client, by)
	inOrderOfAStream(client)
	refused(client)
	fmt.Println("all bytes are right")
}
