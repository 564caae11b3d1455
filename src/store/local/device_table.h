// The superblock and the table of extents of a device, as they are on it and in memory: reads the better copy of each,
// and writes every change to both. Where the place of one can neither be read nor written, the other one is enough.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
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
  // Copies that are damaged, older, or cannot be read, while the other one is whole; sentences.
  const std::vector<std::string>& defects() const { return defects_; }
  // There is no superblock at the device's begin, where others write first, but there is its copy.
  bool begin_overwritten() const { return begin_overwritten_; }

  // Writes each copy that is damaged or older again, from the other one. Before the first change. One that cannot be
  // written stays bad, and is tried again with each change; the other one's number leaps past what is in its place.
  Result<void> repair();
  // The superblock is read again before and after it: another machine may have written its own.
  Result<void> set_owner(const DeviceId& owner, uint64_t generation);
  Result<void> set_volume(uint64_t extent, uint64_t volume);
  // Reads the superblock again. If another machine has taken or formatted the device, or neither copy can be read, it
  // is given up.
  Result<void> check_still_ours();
  // Likewise, for what can wait: if neither copy can be read now, that is an error and nothing else.
  Result<void> look_whether_ours();

 private:
  Result<void> load_superblock(std::string& trouble);
  Result<void> load_page(uint64_t number, std::string& trouble);
  Result<void> judge(const Result<Superblock>& there);
  // Writes a page with the next number.
  Result<void> put_page(TablePage next);
  void note_defect(const std::string& what, uint64_t place, std::string_view how);
  // A change: the good copies must take it, a bad one may.
  Result<void> put(const DeviceBlock& block, const std::array<uint64_t, 2>& places, std::array<bool, 2>& bad);
  bool put_again(const DeviceBlock& block, const std::string& what, uint64_t place);

  const std::shared_ptr<SharedDevice> device_;
  Superblock superblock_;
  std::vector<TablePage> pages_;
  uint64_t changes_ = 0, sequence_ = 0;  // the greatest of all pages
  std::vector<std::string> defects_;
  bool begin_overwritten_ = false;
  // Copies to be written again; at most one of two.
  std::array<bool, 2> bad_superblocks_{};
  std::map<uint64_t, std::array<bool, 2>> bad_pages_;  // by number
};

}  // namespace verbena::store::local
