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

// DeviceWay counts the transfers of one way to devices: calls that succeeded (a batch is one), and their bytes.
type DeviceWay struct{ Transfers, Bytes uint64 }

// DeviceCounters has the transfers to and from devices that a client made since it was connected (docs/gpu.md).
type DeviceCounters struct {
	Staged, Shared, Direct, Peer DeviceWay
	NotDirect, NotPeer           uint64 // calls that went another way: Object.FellBackReason
	OtherDoor                    uint64 // calls for whose bytes a faster door was not used
	DirectFailed, PeerFailed     uint64 // attempts that failed, and went on by another way
	Failed                       uint64 // calls
	// Checks (VerifyDevice), and the bytes that were copied to the host for them.
	VerifiedKernel, VerifiedReadBack, NoChecksum, Mismatches, ReadBackBytes uint64
}

// DeviceCounters returns what was counted until now.
func (c *Client) DeviceCounters() (DeviceCounters, error) {
	call, err := c.begin(context.Background())
	if err != nil {
		return DeviceCounters{}, err
	}
	defer call.end()
	var now C.verbena_device_counters
	var answer C.vb_answer
	if err := failure(nil, C.vb_count_device(c.handle, &now, &answer), &answer); err != nil {
		return DeviceCounters{}, err
	}
	way := func(transfers, bytes C.uint64_t) DeviceWay { return DeviceWay{uint64(transfers), uint64(bytes)} }
	return DeviceCounters{
		Staged: way(now.staged, now.staged_bytes), Shared: way(now.shared, now.shared_bytes),
		Direct: way(now.direct, now.direct_bytes), Peer: way(now.peer, now.peer_bytes),
		NotDirect: uint64(now.not_direct), NotPeer: uint64(now.not_peer), OtherDoor: uint64(now.other_door),
		DirectFailed: uint64(now.direct_failed), PeerFailed: uint64(now.peer_failed), Failed: uint64(now.failed),
		VerifiedKernel: uint64(now.verified_kernel), VerifiedReadBack: uint64(now.verified_read_back),
		NoChecksum: uint64(now.no_checksum), Mismatches: uint64(now.mismatches), ReadBackBytes: uint64(now.read_back_bytes),
	}, nil
}
