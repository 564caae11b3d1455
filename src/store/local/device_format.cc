#include <algorithm>
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

}  // namespace

// First the superblocks go, so that no rest of an older format is taken for one; the new ones are last.
Result<Superblock> format_device(File& device, uint64_t extent_size, uint64_t size_min) {
  VB_ASSIGN(const FileStat stat, device.stat());
  if (stat.size < size_min) return fail(Errc::unsupported, "device: too small for a store (docs/raw-device.md)");
  VB_ASSIGN(const Superblock superblock, plan_device(align_down(stat.size), extent_size));
  VB_TRY(wipe(device, superblock.data_at, stat.size));
  for (const uint64_t copy : {0, 1}) {
    for (uint64_t number = 0; number < superblock.pages(); ++number) {
      const TablePage page{number, 0, std::vector<uint64_t>(entries_of_page)};
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
