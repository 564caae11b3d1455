// The volumes on a block device, as the file system that Volumes works on: volume N is the file N.volume, and lies in
// one extent of the device (device_layout.h). A file has its whole size from the start, and all of it is written in
// place; a volume that is unlinked frees its extent. Names are durable when the call that makes or removes them
// returns.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "store/local/device_table.h"

namespace verbena::store::local {

class DeviceVolumes final : public FileSystem {
 public:
  // A volume that was made or removed. `number` counts the changes since the device was formatted.
  struct Change {
    uint64_t number = 0, volume = 0;
    bool made = false;
  };
  using Note = std::function<Result<void>(const Change&)>;

  // Reads the superblock and the table; changes nothing on the device. `trouble` receives a sentence for the operator.
  static Result<std::unique_ptr<DeviceVolumes>> open(std::string name, std::unique_ptr<File> device,
                                                     std::string& trouble);
  ~DeviceVolumes() override;

  const std::string& name() const { return device_->name(); }
  // Not while set_owner() may run.
  const Superblock& superblock() const { return table_.superblock(); }
  const std::vector<std::string>& defects() const { return table_.defects(); }
  bool begin_overwritten() const { return table_.begin_overwritten(); }
  uint64_t changes() const { return table_.changes(); }  // before the first file is opened
  uint64_t volumes() const;                              // how many there are
  bool failed() const { return device_->failed(); }

  // Copies that are damaged are written again, before the first change.
  Result<void> repair() { return table_.repair(); }
  // Makes something of a generation durable elsewhere; `changes`: of the table, all of them noted.
  using NoteGeneration = std::function<Result<void>(uint64_t generation, uint64_t changes)>;
  // The store takes the device, or begins another generation on it: both superblocks name the two, durably. `before`
  // and `after` are called before the first one is written and after both are.
  Result<void> set_owner(const DeviceId& owner, uint64_t generation, const NoteGeneration& before = {},
                         const NoteGeneration& after = {});
  // `note` is called after each change, one at a time, and makes it durable elsewhere. No change is made before all
  // earlier ones are noted: so the table is never ahead by more than one.
  void note_changes(Note note) { note_ = std::move(note); }
  uint64_t writes() const { return device_->volume_writes(); }  // of bytes of volumes, so far
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
  struct Extents;
  struct Held;
  class DeviceFile;

  explicit DeviceVolumes(std::shared_ptr<SharedDevice> device);
  Result<void> load(std::string& trouble);
  Result<std::shared_ptr<Held>> find(uint64_t volume);
  Result<std::shared_ptr<Held>> find_or_make(uint64_t volume);
  Result<std::shared_ptr<Held>> make_locked(uint64_t volume);
  Result<uint64_t> take_free_extent();
  Result<void> change_locked(uint64_t extent, uint64_t volume, bool made);
  Result<void> note_locked();
  uint64_t tell_free_locked() const;  // into the metric; the bytes of free extents
  // Discards a part of an extent that nothing can be given to meanwhile. The bytes that are done, from `from` on.
  uint64_t discard_within(uint64_t extent, uint64_t from, uint64_t to);

  const std::shared_ptr<SharedDevice> device_;
  std::mutex change_mutex_;  // one changes the table at a time; held over I/O, taken before Extents::mutex
  DeviceTable table_;
  Superblock layout_;  // as it was read: what it says of places never changes
  std::optional<Change> unnoted_;
  Note note_;
  const std::shared_ptr<Extents> extents_;
  std::atomic<bool> discards_ = true;
};

// What formatting would take away: the end of a sentence that begins with the device's name, also if it cannot be told.
// Empty: nothing. Other programs' signatures are asked for first, then every byte that format_device() overwrites must
// be blank: programs that use a device without any signature leave nothing else to see.
std::string what_occupies(File& device);

// Makes an empty table and a superblock on the device, and overwrites what others would recognize it by. The rest of
// its bytes stay until they are overwritten. An interrupted call leaves a device that is not formatted. unsupported: it
// is smaller than `size_min`, or extents of this size do not fit.
Result<Superblock> format_device(File& device, uint64_t extent_size = 0, uint64_t size_min = formatted_size_min);

}  // namespace verbena::store::local
