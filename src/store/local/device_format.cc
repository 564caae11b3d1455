#include <algorithm>
#include <array>
#include <vector>

#include "store/local/aligned_bytes.h"
#include "store/local/device_volumes.h"

namespace verbena::store::local {
namespace {

Result<void> put_block(File& device, const DeviceBlock& block, uint64_t place) {
  AlignedBytes memory(device_block);
  std::ranges::copy(block, memory.bytes().begin());
  return write_fully(device, memory.bytes(), place);
}

Result<void> put_zeros(File& device, uint64_t from, uint64_t to) {
  AlignedBytes zeros(1 * MiB);
  for (uint64_t at = from; at < to; at += 1 * MiB) {
    VB_TRY(write_fully(device, zeros.bytes().first(std::min<uint64_t>(1 * MiB, to - at)), at));
  }
  return {};
}

// `size` may be more than whole blocks: others have labels in the very last sectors. It is whole sectors, which direct
// I/O accepts where they are shorter than a block.
Result<void> wipe(File& device, uint64_t data_at, uint64_t size) {
  for (const uint64_t place : superblock_places) VB_TRY(put_zeros(device, place, place + device_block));
  VB_TRY(device.datasync());
  VB_TRY(put_zeros(device, 0, data_at));
  const uint64_t tail = align_down(size) - device_tail;
  VB_TRY(put_zeros(device, std::max(data_at, tail), align_down(size)));
  VB_TRY(put_zeros(device, align_down(size), size));
  return device.datasync();
}

// As a disk that was never written, or was erased or discarded, reads.
bool is_blank(Bytes bytes) {
  for (; !bytes.empty(); bytes = bytes.subspan(std::min<size_t>(bytes.size(), device_block))) {
    const Bytes block = bytes.first(std::min<size_t>(bytes.size(), device_block));
    const std::byte first = block.front();
    if (first != std::byte{0} && first != std::byte{0xff}) return false;
    if (std::ranges::any_of(block, [&](std::byte b) { return b != first; })) return false;
  }
  return true;
}

Result<bool> is_blank(File& device, uint64_t from, uint64_t to) {
  AlignedBytes memory(1 * MiB);
  for (uint64_t at = from; at < to; at += 1 * MiB) {
    const MutableBytes piece = memory.bytes().first(std::min<uint64_t>(1 * MiB, to - at));
    VB_TRY(read_fully(device, piece, at));
    if (!is_blank(piece)) return false;
  }
  return true;
}

// Where format_device() writes on a device of at most extents_max extents, and beyond its whole blocks.
Result<bool> is_blank(File& device) {
  VB_ASSIGN(const FileStat stat, device.stat());
  const uint64_t end = align_down(stat.size), begin_end = std::min(end, device_data_at_min);
  const std::array<std::pair<uint64_t, uint64_t>, 3> places{
      {{0, begin_end}, {std::max(begin_end, end - std::min(end, device_tail)), end}, {end, stat.size}}};
  for (const auto& [from, to] : places) {
    VB_ASSIGN(const bool blank, is_blank(device, from, to));
    if (!blank) return false;
  }
  return true;
}

// Where a small table begins, in either copy.
bool has_table(File& device) {
  AlignedBytes memory(device_block);
  return std::ranges::any_of(std::array{device_table_at, device_table_at + 1 * MiB}, [&](uint64_t place) {
    return read_fully(device, memory.bytes(), place) && is_page(memory.bytes());
  });
}

}  // namespace

std::string what_occupies(File& device) {
  const auto volumes = read_superblock(device);
  if (volumes) return volumes->owned() ? "has the volumes of a Verbena store" : "is formatted for volumes already";
  if (volumes.error() == Errc::io_error) return "cannot be read: " + describe(volumes.error());
  if (!(volumes.error() == Errc::not_found)) return "has volumes whose superblock is damaged, or of a newer program";
  if (has_table(device)) return "has the table of a Verbena store's volumes, whose superblock was overwritten";
  const auto foreign = device.foreign_contents();
  if (!foreign) return "may hold data, which cannot be told: " + foreign.error();
  if (!foreign->empty()) return "holds " + *foreign;
  const auto blank = is_blank(device);
  if (!blank) return "cannot be read: " + describe(blank.error());
  return *blank ? "" : "holds bytes of something that is not recognized";
}

// First the superblocks go, so that no rest of an older format is taken for one; the new ones are last.
Result<Superblock> format_device(File& device, uint64_t extent_size, uint64_t size_min) {
  VB_ASSIGN(const FileStat stat, device.stat());
  if (stat.size < size_min) return fail(Errc::unsupported, "device: too small for a store (docs/raw-device.md)");
  VB_ASSIGN(const Superblock superblock, plan_device(align_down(stat.size), extent_size));
  VB_TRY(wipe(device, superblock.data_at, stat.size));
  for (const uint64_t copy : {0, 1}) {
    for (uint64_t number = 0; number < superblock.pages(); ++number) {
      const TablePage page{.number = number, .volumes = std::vector<uint64_t>(entries_of_page)};
      VB_TRY(put_block(device, encode(page, superblock.id), superblock.page_place(number, copy)));
    }
  }
  VB_TRY(device.datasync());
  for (const uint64_t place : superblock_places) {
    VB_TRY(put_block(device, encode(superblock), place));
    VB_TRY(device.datasync());
  }
  return superblock;
}

}  // namespace verbena::store::local
