// The superblock and the table of extents of a device, as they are on it and in memory: reads the better copy of each,
// and writes every change to both.
#pragma once

#include <array>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/local/shared_device.h"

namespace verbena::store::local {

// The newer whole copy of the superblock; errors as those of decode_superblock.
Result<Superblock> read_superblock(File& device);

// Not thread-safe.
class DeviceTable {
 public:
  explicit DeviceTable(std::shared_ptr<SharedDevice> device) : device_(std::move(device)) {}

  // Changes nothing. `trouble` receives a sentence for the operator.
  Result<void> load(std::string& trouble);
  const Superblock& superblock() const { return superblock_; }
  uint64_t changes() const { return changes_; }  // of the table, since the device was formatted
  uint64_t volume_of(uint64_t extent) const {
    return pages_[extent / entries_of_page].volumes[extent % entries_of_page];
  }
  // Copies that are damaged or cannot be read, while the other one is whole; sentences.
  const std::vector<std::string>& defects() const { return defects_; }
  // There is no superblock at the device's begin, where others write first, but there is its copy.
  bool begin_overwritten() const { return begin_overwritten_; }

  // Writes each copy that is damaged or older again, from the other one. Before the first change.
  Result<void> repair();
  // After it the superblock is read again: another machine may have written its own meanwhile.
  Result<void> set_owner(const DeviceId& owner, uint64_t generation);
  Result<void> set_volume(uint64_t extent, uint64_t volume);

 private:
  Result<void> load_superblock(std::string& trouble);
  Result<void> load_page(uint64_t number, std::string& trouble);
  void note_defect(const std::string& what, uint64_t place, const Error& why);
  Result<void> check_still_ours();

  const std::shared_ptr<SharedDevice> device_;
  Superblock superblock_;
  std::vector<TablePage> pages_;
  uint64_t changes_ = 0;
  std::vector<std::string> defects_;
  bool begin_overwritten_ = false;
  // Copies to be written again.
  std::set<uint64_t> bad_superblocks_;                 // copy
  std::set<std::pair<uint64_t, uint64_t>> bad_pages_;  // number, copy
};

}  // namespace verbena::store::local
