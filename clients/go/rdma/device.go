package rdma

// #include "calls.h"
import "C"

import (
	"context"
	"runtime"
	"unsafe"
)

// AnyDevice lets the driver say which device has the memory.
const AnyDevice = -1

// DeviceKind says whose GPU it is.
type DeviceKind int

const (
	CUDA DeviceKind = C.VERBENA_MEMORY_CUDA // NVIDIA
	ROCm DeviceKind = C.VERBENA_MEMORY_ROCM // AMD
)

// DeviceMemory is memory of a GPU: whole, or a part of one allocation (docs/gpu.md).
type DeviceMemory struct {
	Address  uint64     // as the driver gave it
	Size     uint64     // bytes
	Device   int        // the device's number, or AnyDevice
	ReadOnly bool       // Get and GetMany are InvalidArgument
	Stream   *uint64    // calls come after the work that this CUstream or hipStream_t has got by then; nil: the caller has waited
	Kind     DeviceKind // 0: CUDA
}

// RegisterDevice makes a buffer of a device's memory, which must outlive it. Get, Put, GetMany and PutMany work as with
// other buffers, and Object.DevicePath says how the bytes went. Bytes is nil: no CPU reads this memory.
func (c *Client) RegisterDevice(memory DeviceMemory) (*Buffer, error) {
	if memory.Device < AnyDevice || memory.Device > 1<<30 || memory.Size > 1<<62 {
		return nil, &Error{Code: InvalidArgument, Message: "no such device, or no such size"}
	}
	if memory.Kind == 0 {
		memory.Kind = CUDA
	}
	call, err := c.begin(context.Background())
	if err != nil {
		return nil, err
	}
	defer call.end()
	wanted := C.verbena_device_memory{kind: C.int(memory.Kind), any_device: flag(memory.Device == AnyDevice), read_only: flag(memory.ReadOnly),
		address: C.uint64_t(memory.Address), size: C.uint64_t(memory.Size), has_stream: flag(memory.Stream != nil)}
	if memory.Device != AnyDevice {
		wanted.device = C.int(memory.Device)
	}
	if memory.Stream != nil {
		wanted.stream = C.uint64_t(*memory.Stream)
	}
	made := &Buffer{client: c, device: true}
	var answer C.vb_answer
	if err := failure(nil, C.vb_register_device(c.handle, &wanted, &made.handle, &answer), &answer); err != nil {
		return nil, err
	}
	// Addresses of the device, which are passed on and never read.
	if at := C.verbena_buffer_data(made.handle); at != nil {
		made.bytes = unsafe.Slice((*byte)(at), int(memory.Size))
	}
	runtime.SetFinalizer(made, func(b *Buffer) { b.Free() })
	return made, nil
}
