// Bytes, units and their text forms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace verbena {

using Bytes = std::span<const std::byte>;   // borrowed, read only
using MutableBytes = std::span<std::byte>;  // borrowed, writable

inline constexpr uint64_t KiB = 1024;
inline constexpr uint64_t MiB = 1024 * KiB;
inline constexpr uint64_t GiB = 1024 * MiB;
inline constexpr uint64_t TiB = 1024 * GiB;

inline Bytes as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
inline std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// Lower-case hexadecimal.
std::string to_hex(Bytes bytes);
// nullopt for an odd length or any character that is not a hexadecimal digit (either case is accepted).
std::optional<std::vector<std::byte>> from_hex(std::string_view text);

// Standard base64 (RFC 4648 section 4), with padding. Decoding is strict: nullopt for anything else.
std::string to_base64(Bytes bytes);
std::optional<std::vector<std::byte>> from_base64(std::string_view text);

// Compares without a data-dependent branch. For digests, signatures and MACs.
bool equal_constant_time(Bytes a, Bytes b);

// "64 KiB", "1.5 GiB".
std::string format_size(uint64_t bytes);
// "4096", "64KiB", "64k", "1 MiB", "2G" (binary multiples). nullopt when it is not a size or overflows.
std::optional<uint64_t> parse_size(std::string_view text);

// Fills from the kernel's random source. Never fails (it aborts the program if the kernel has none).
void fill_random(MutableBytes into);

}  // namespace verbena
