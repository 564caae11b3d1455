// How volumes lie on a block device: a superblock and a table of extents, two copies of each, and the extents.
//
//        0  superblock, copy 0
//    1 MiB  superblock, copy 1
//    2 MiB  table, copy 0: pages of 4 KiB
//           table, copy 1, at the next full MiB
//  data_at  extents of equal size; each holds one volume, or is free. At least 8 MiB from the begin
//           at least 4 MiB at the end that are never written
//
// Bytes of clients lie in extents alone. Other programs recognize a device by bytes in its first 4 MiB and its last
// 4 MiB (libblkid's farthest place is Promise RAID's, 1.5 MiB before the end), so no object can pass for a RAID's or a
// file system's label.
//
// A superblock and each page have a sequence number and a CRC32C. A change writes the one copy, flushes, writes the
// other and flushes: a write that a power cut tears leaves one of them whole, and otherwise both are the same, at least
// 1 MiB apart. Where one copy is bad, its place may have a number that is one higher than what the other one shows, of
// a change that was interrupted; so the next number is then two higher, and a start whose writes there fail gives the
// page such a number at once. All numbers are little-endian.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/local/file_system.h"

namespace verbena::store::local {

using DeviceId = std::array<std::byte, 16>;
std::string to_text(const DeviceId& id);
std::optional<DeviceId> parse_device_id(std::string_view text);
DeviceId random_device_id();

inline constexpr uint64_t device_block = 4096;  // of a superblock, and of a page
inline constexpr std::array<uint64_t, 2> superblock_places{0, 1 * MiB};
inline constexpr uint64_t device_table_at = 2 * MiB;
inline constexpr uint64_t device_data_at_min = 8 * MiB;
inline constexpr uint64_t device_tail = 4 * MiB;
inline constexpr uint64_t entries_of_page = 500;
inline constexpr uint64_t extents_max = 1 << 20;
inline constexpr uint64_t extent_size_min = 1 * MiB;
inline constexpr uint64_t device_size_min = 64 * MiB;  // of a layout
// Smaller ones are not formatted: a store refuses PUTs where less than 64 MiB are free.
inline constexpr uint64_t formatted_size_min = 256 * MiB;
// Ids of volumes, sequence numbers and generations are below this: all of them must have room to grow.
inline constexpr uint64_t device_number_max = uint64_t{1} << 63;

struct Superblock {
  DeviceId id{};     // of this formatting of the device
  DeviceId owner{};  // of the store that uses it; zeros: none has yet
  uint64_t sequence = 0;
  uint64_t generation = 0;  // of the store (device_bond.h)
  uint64_t device_size = 0;
  uint64_t extent_size = 0;
  uint64_t extents = 0;
  uint64_t data_at = 0;

  bool owned() const { return owner != DeviceId{}; }
  uint64_t pages() const { return (extents + entries_of_page - 1) / entries_of_page; }
  uint64_t page_place(uint64_t number, uint64_t copy) const;
};

struct TablePage {
  uint64_t number = 0;
  uint64_t sequence = 0;          // of two copies the one with the greater number is newer
  uint64_t changes = 0;           // of the table, counted over all pages: the last one in this page
  std::vector<uint64_t> volumes;  // entries_of_page ids; 0: the extent is free
};

using DeviceBlock = std::array<std::byte, device_block>;
DeviceBlock encode(const Superblock& superblock);
DeviceBlock encode(const TablePage& page, const DeviceId& device);
// not_found: it never was a superblock. unsupported: of a newer format. corrupt_object: its checksum is wrong.
// malformed: numbers that cannot be.
Result<Superblock> decode_superblock(Bytes block);
// corrupt_object: anything but this page of this device.
Result<TablePage> decode_page(Bytes block, const DeviceId& device, uint64_t number);
// Whether it is a whole page of the table of any device.
bool is_page(Bytes block);

// The layout of a device of this size; `extent_size` 0: one that suits it. unsupported: too small.
Result<Superblock> plan_device(uint64_t device_size, uint64_t extent_size = 0);

}  // namespace verbena::store::local
