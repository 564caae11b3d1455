// The volumes on a block device, as the file system that Volumes works on: volume N is the file N.volume, and lies in
// one extent of the device (device_layout.h). A file has its whole size from the start, and all of it is written in
// place; a volume that is unlinked frees its extent. Names are durable when the call that makes or removes them
// returns.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "store/local/device_layout.h"

namespace verbena::store::local {

class DeviceVolumes final : public FileSystem {
 public:
  // Reads the superblock and the table; changes nothing. `trouble` receives a sentence for the operator.
  static Result<std::unique_ptr<DeviceVolumes>> open(std::string name, std::unique_ptr<File> device,
                                                     std::string& trouble);
  ~DeviceVolumes() override;

  const std::string& name() const;
  const Superblock& superblock() const { return superblock_; }
  uint64_t volumes() const;  // how many there are
  // Writes the store's id into the superblock, durably.
  Result<void> set_owner(const DeviceId& owner);
  // Tells the device that extents freed since the start hold nothing: at most `bytes` of them. False: there is none.
  bool discard(uint64_t bytes);

  Result<std::unique_ptr<File>> open(const Path& path, OpenMode mode) override;
  Result<void> unlink(const Path& path) override;
  Result<void> sync_directory(const Path&) override { return {}; }
  Result<std::vector<std::string>> list(const Path& path) override;
  Result<FileStat> stat(const Path& path) override;
  Result<bool> is_directory(const Path& path) override;
  Result<uint64_t> free_bytes(const Path& path) override;  // of free extents
  bool overwrites_in_place(const Path& path, std::string* name) override;
  // What a device has none of: unsupported.
  Result<void> rename(const Path& from, const Path& to) override;
  Result<void> make_directory(const Path& path) override;
  Result<void> remove_directory(const Path& path) override;
  Result<std::unique_ptr<FileLock>> lock(const Path& path) override;

 private:
  class Device;
  struct Extents;
  struct Held;
  class DeviceFile;

  DeviceVolumes(std::shared_ptr<Device> device, const Superblock& superblock);
  Result<void> load_table(std::string& trouble);
  Result<std::shared_ptr<Held>> find(uint64_t volume);
  Result<std::shared_ptr<Held>> make(uint64_t volume);
  // Writes the page of the extent's entry with its new value, and flushes.
  Result<void> write_entry(uint64_t extent, uint64_t volume);

  const std::shared_ptr<Device> device_;
  Superblock superblock_;
  std::mutex change_mutex_;       // one changes the table at a time; held over I/O, taken before Extents::mutex
  std::vector<TablePage> table_;  // as on the device
  const std::shared_ptr<Extents> extents_;
  std::atomic<bool> discards_ = true;
};

// Makes an empty table and a superblock on the device, and overwrites what others would recognize it by. The rest of
// its bytes stay until they are overwritten. An interrupted call leaves a device that is not formatted.
Result<Superblock> format_device(File& device, uint64_t extent_size = 0);
// The newer whole copy of the superblock; errors as those of decode_superblock.
Result<Superblock> read_superblock(File& device);

}  // namespace verbena::store::local
