// Controls of the driver double, found in it by dlsym: its own functions, beside those of the driver.
#pragma once

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {
// Whose driver it is a double of: NVIDIA's 1, AMD's 2.
int double_platform();
// AMD's: its version from now on, devices whose UUID says nothing, and whether the kernel exports dma-bufs.
void double_hip_version(int version);
void double_hip_nameless(bool nameless);
void double_hip_dma_bufs(bool supported);
// A plain allocation on a device, managed memory, and their end. 0: none.
uint64_t double_allocate(int device, size_t size);
uint64_t double_allocate_managed(size_t size);
bool double_free(uint64_t address);
// At that address, which must be free: behind another allocation, or where a freed one was.
uint64_t double_allocate_at(int device, uint64_t address, size_t size);
// Pieces of physical memory (multiples of 2 MiB), mapped side by side; 0: none. One of them replaced by other physical
// memory, and the end of all.
uint64_t double_map_pieces(int device, const size_t* sizes, size_t count, bool shareable);
bool double_replace_piece(int device, uint64_t address, size_t size);
bool double_unmap_pieces(uint64_t address, size_t size);
// The numbers by which the driver tells allocations apart are the same for all mapped pieces.
void double_blind_ids(bool blind);
// How the devices order writes of others (CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING; AMD's never do), and
// whether the host can flush them; whether their memory is exported over PCIe when that is asked for.
void double_peer_writes(int order, int flush_options);
void double_over_pcie(bool possible);
// The dma-buf of a whole allocation, as its user exports it; -1: there is none.
int double_dma_buf(uint64_t address);
// What the kernel's peer memory finds at this address: the bytes of one allocation; null: no memory of a device.
void* double_peer_bytes(uint64_t address, size_t size);
// Physical memory that callers have handles of, and ranges of addresses that are reserved.
unsigned double_handles();
unsigned double_reserved();
// A CPU's way to the bytes, for tests alone: the device's address itself cannot be read or written.
void double_peek(void* into, uint64_t from, size_t size);
void double_poke(uint64_t to, const void* from, size_t size);

// Each operation of a stream starts so long after it could.
void double_delay(unsigned microseconds);
// A stream for the tests' own work: held ones do nothing until they are let go.
uint64_t double_stream(int device);
void double_hold(uint64_t stream, bool held);
void double_capture(uint64_t stream, bool captured);
// Work on a stream: fills device memory with a byte.
void double_fill(uint64_t stream, uint64_t to, int value, size_t size);
// All streams, also the driver's users', do nothing while this holds.
void double_hold_all(bool held);

// The call of this name ("cuMemHostRegister_v2") fails with this status from its `after`-th use on; 0: it works again.
void double_fail(const char* call, int status, unsigned after);
// So many of its uses fail, after so many others.
void double_fail_some(const char* call, int status, unsigned after, unsigned count);
// Its use after so many others finds one bit of the byte at that address of a device changed.
void double_flip_at(const char* call, uint64_t address, unsigned after);
// Why the last kernel was refused, or failed; empty: none since the last question. NVIDIA's alone.
const char* double_kernel_fault();
// Each use of it takes so long, until double_reset_counts().
void double_slow(const char* call, unsigned microseconds);
// Uses of it do not return until they are let go; how many wait so.
void double_block(const char* call, bool blocked);
unsigned double_blocked();
// Every call in the device's context fails from now on (an uncorrectable error of its memory), or works again.
void double_lose(int device, bool lost);

unsigned double_calls(const char* call);
unsigned double_all_calls();
// Copies whose host memory was not page-locked.
unsigned double_pageable();
// Copies by a CPU, in bytes, of places that begin with at least 64 bytes of this value (-1: none), since it was named.
// Seen only where the double was linked, not loaded.
bool double_sees_copies();
void double_watch_copies(int byte);
// One of instructions of the caller's own.
void double_note_copy(const void* from, size_t size);
uint64_t double_copied();
// Misuse that a driver would not report: page-locked memory that was given up while a copy used it.
unsigned double_misuse();
// Bytes of device memory, of memory of other processes that is mapped, and page-locked ranges, that exist.
uint64_t double_allocated();
uint64_t double_mapped();
unsigned double_locked();
void double_reset_counts();
}
#pragma GCC visibility pop
