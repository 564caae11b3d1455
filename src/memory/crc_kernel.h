// CRCs of a device's memory, by a kernel on that device: its text, and what a CPU does with its results. The text is
// PTX (ISA 6.0, for sm_50 and later), which NVIDIA's driver compiles when it is loaded: no CUDA toolkit at build time.
//
// A thread block takes 64 KiB, 256 threads together: thread t the words t, t + 256, ... of a block that is filled up
// with zeros in front, so that neighbours read neighbouring words. A thread's register is multiplied by x^(256 words)
// before it takes the next word, with one table for each byte of the register; in the end by the power of x that its
// place needs, and the threads' registers are added (XOR). The CRC register begins at zero, so that leading zeros do
// not count; join_crc() accounts for its initial value.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/checksum.h"

namespace verbena::memory::cuda {

inline constexpr unsigned crc_threads = 256;
inline constexpr size_t crc_block = 64 * KiB;
inline constexpr size_t crc_results_max = 4096;  // blocks whose results the kernel's module has room for
inline constexpr const char* crc_entry = "verbena_crc";
inline constexpr const char* crc_results = "crc_results";

// CRC32C, CRC32 and CRC64NVME.
bool has_crc_kernel(Algorithm algorithm);

// Of an algorithm that has one. Entry verbena_crc(u64 address, u64 size, u64 first), one thread block of crc_threads
// for each of crc_blocks(): writes their registers to crc_results[first], [first + 1], ... (u64). It reads whole words,
// so that up to seven bytes before and behind the range are read, and ignored: they belong to the same allocation,
// since allocations are aligned.
std::string crc_kernel(Algorithm algorithm);

// Blocks of a range of at least one byte.
size_t crc_blocks(Algorithm algorithm, uint64_t address, uint64_t size);

// The CRC of the range from the registers of its blocks, in order.
uint64_t join_crc(Algorithm algorithm, uint64_t address, uint64_t size, std::span<const uint64_t> registers);

}  // namespace verbena::memory::cuda
