#include "store/local/device_layout.h"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checksum.h"
#include "base/cursor.h"

namespace verbena::store::local {
namespace {

constexpr std::string_view superblock_magic = "verbena volumes\n", page_magic = "vbtable\n";
constexpr uint32_t device_format = 1;
constexpr size_t crc_at = device_block - sizeof(uint32_t);

void seal_block(DeviceBlock& block) {
  const uint32_t crc = crc32c(Bytes(block).first(crc_at));
  cursor::Writer(MutableBytes(block).subspan(crc_at)).u32(crc);
}

bool is_sealed(Bytes block) { return cursor::Reader(block.subspan(crc_at)).u32() == crc32c(block.first(crc_at)); }

DeviceId read_id(cursor::Reader& from) {
  DeviceId id{};
  const Bytes bytes = from.bytes(id.size());
  if (bytes.size() == id.size()) std::ranges::copy(bytes, id.begin());
  return id;
}

uint64_t table_size(uint64_t pages) { return align_up(pages * device_block, 1 * MiB); }

uint64_t data_place(uint64_t extents) {
  const uint64_t pages = (extents + entries_of_page - 1) / entries_of_page;
  return std::max(device_data_at_min, device_table_at + 2 * table_size(pages));
}

// `extents` is at most extents_max, so nothing overflows.
bool fits(uint64_t device_size, uint64_t extents, uint64_t extent_size) {
  const uint64_t around = data_place(extents) + device_tail;
  return device_size > around && (device_size - around) / extent_size >= extents;
}

// All places follow from two numbers, so a superblock whose checksum is right by chance, or by intent, names no byte
// outside. What is counted has room to grow.
bool is_possible(const Superblock& s) {
  return s.extent_size >= extent_size_min && std::has_single_bit(s.extent_size) && s.extents != 0 &&
         s.extents <= extents_max && s.data_at == data_place(s.extents) && s.device_size >= device_size_min &&
         fits(s.device_size, s.extents, s.extent_size) && s.sequence < device_number_max &&
         s.generation < device_number_max;
}

}  // namespace

uint64_t Superblock::page_place(uint64_t number, uint64_t copy) const {
  return device_table_at + copy * table_size(pages()) + number * device_block;
}

std::string to_text(const DeviceId& id) { return to_hex(id); }

std::optional<DeviceId> parse_device_id(std::string_view text) {
  DeviceId id{};
  const auto bytes = from_hex(text);
  if (!bytes || bytes->size() != id.size()) return std::nullopt;
  std::ranges::copy(*bytes, id.begin());
  return id;
}

DeviceId random_device_id() {
  DeviceId id{};
  // So few bytes come whole once the system's source is ready, and this call waits for that.
  while (::getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size())) continue;
  return id;
}

DeviceBlock encode(const Superblock& s) {
  DeviceBlock block{};
  cursor::Writer to(block);
  to.text(superblock_magic);
  to.u32(device_format);
  to.u32(0);
  to.bytes(s.id);
  to.bytes(s.owner);
  for (const uint64_t number : {s.sequence, s.generation, s.device_size, s.extent_size, s.extents, s.data_at}) {
    to.u64(number);
  }
  seal_block(block);
  return block;
}

Result<Superblock> decode_superblock(Bytes block) {
  if (block.size() != device_block) return fail(Errc::malformed, "device: superblock");
  cursor::Reader from(block);
  if (from.text(superblock_magic.size()) != superblock_magic) return fail(Errc::not_found, "device: no superblock");
  if (!is_sealed(block)) return fail(Errc::corrupt_object, "device: superblock");
  if (from.u32() != device_format) return fail(Errc::unsupported, "device: the format is newer than this program");
  from.u32();
  Superblock s;
  s.id = read_id(from);
  s.owner = read_id(from);
  for (uint64_t* number : {&s.sequence, &s.generation, &s.device_size, &s.extent_size, &s.extents, &s.data_at}) {
    *number = from.u64();
  }
  if (!is_possible(s)) return fail(Errc::malformed, "device: superblock");
  return s;
}

DeviceBlock encode(const TablePage& page, const DeviceId& device) {
  DeviceBlock block{};
  cursor::Writer to(block);
  to.text(page_magic);
  to.u64(page.sequence);
  to.u64(page.changes);
  to.u64(page.number);
  to.bytes(device);
  for (const uint64_t volume : page.volumes) to.u64(volume);
  seal_block(block);
  return block;
}

bool is_page(Bytes block) {
  return block.size() == device_block && is_sealed(block) &&
         cursor::Reader(block).text(page_magic.size()) == page_magic;
}

Result<TablePage> decode_page(Bytes block, const DeviceId& device, uint64_t number) {
  const auto damaged = fail(Errc::corrupt_object, "device: page of the table");
  if (!is_page(block)) return damaged;
  cursor::Reader from(block);
  from.text(page_magic.size());
  TablePage page;
  page.sequence = from.u64();
  page.changes = from.u64();
  page.number = from.u64();
  if (page.number != number || read_id(from) != device) return damaged;
  if (page.sequence >= device_number_max || page.changes >= device_number_max) return damaged;
  page.volumes.resize(entries_of_page);
  for (uint64_t& volume : page.volumes) volume = from.u64();
  if (std::ranges::any_of(page.volumes, [](uint64_t volume) { return volume >= device_number_max; })) return damaged;
  return page;
}

Result<Superblock> plan_device(uint64_t device_size, uint64_t extent_size) {
  constexpr uint64_t wanted_extents = 128, usual_most = 1 * GiB;
  if (device_size < device_size_min) return fail(Errc::unsupported, "device: smaller than 64 MiB");
  if (extent_size == 0) {
    extent_size = std::clamp(std::bit_floor(device_size / wanted_extents), extent_size_min, usual_most);
    while (device_size / extent_size > extents_max) extent_size *= 2;
  }
  Superblock s{.id = random_device_id(), .device_size = device_size, .extent_size = extent_size};
  s.extents = std::min(device_size / extent_size, extents_max);
  while (s.extents != 0 && !fits(device_size, s.extents, extent_size)) --s.extents;
  s.data_at = data_place(s.extents);
  if (!is_possible(s)) return fail(Errc::unsupported, "device: extents of this size do not fit");
  return s;
}

}  // namespace verbena::store::local
