// A file system in memory that goes wrong on purpose. For tests: of this engine, of anything built on the seam.
//
// It knows what a disk knows: what was synced survives a crash, what was not may be lost, whole or by the sector; a
// name that was made, renamed or unlinked is certain only after its directory was synced. What a sync that failed was
// to write is not written by a later one: a crash loses it, unless it was written again.
#pragma once

#include <array>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>

#include "store/local/file_system.h"

namespace verbena::store::local {

class FaultyFileSystem final : public FileSystem {
 public:
  enum class Fault : uint8_t {
    none,
    crash,             // this operation and all that follow fail; only crash() ends it
    no_space,          // this one operation fails with ENOSPC
    io_error,          // this one operation fails with EIO
    io_error_applied,  // likewise, but a write is done all the same
  };
  enum class Loss : uint8_t {
    nothing,   // as after kill -9
    unsynced,  // all that was not synced is gone
    torn,      // of what was not synced, a random choice of 512-byte sectors is gone
  };

  FaultyFileSystem();
  ~FaultyFileSystem() override;

  // Operations that change something are counted: writes, syncs, allocations, punches, truncations, making, renaming
  // and unlinking of files. The one with this number (counted from now, first is 0) meets the fault.
  void fail_at(uint64_t operation, Fault fault);
  // Likewise, but only writes and syncs of files under this folder are counted.
  void fail_at(uint64_t operation, Fault fault, const Path& folder);
  uint64_t operations() const;  // since the last fail_at()
  bool fault_happened() const;
  // The machine stops and starts again. All files must be closed.
  void crash(Loss loss, uint64_t seed);

  void set_capacity(uint64_t bytes);  // of all files together
  void set_short_io(bool on);         // reads and writes move fewer bytes than asked
  void fail_reads(bool on);           // EIO on every read of a volume-sized request
  void vanish(const Path& folder);    // EIO on every read, write and sync of files under it; empty: they are back
  void fail_reads_at(const Path& path, uint64_t offset);   // EIO on every read that covers this byte; path empty: none
  void fail_writes_at(const Path& path, uint64_t offset);  // likewise
  void flip_bit(const Path& path, uint64_t offset);

  // Syncs of files under this folder wait until release_syncs(). Once at a time.
  void hold_syncs(const Path& folder);
  void wait_for_held_sync();  // until one waits
  void release_one_sync();    // the next is held again
  void release_syncs();
  void fail_syncs(const Path& folder);       // EIO on every one of files under it; empty: no more
  uint64_t syncs(const Path& folder) const;  // of files under it, so far
  // Changes of files under this folder that a file system would have to note in its own records, so far: making,
  // unlinking, reserving, punching, cutting, and writes to where nothing was.
  uint64_t space_changes(const Path& folder) const;
  // All files under a folder as they are, synced or not, to be put back later: the copy that an operator made.
  struct Copy;
  std::shared_ptr<const Copy> copy_of(const Path& folder);
  void put_back(const Copy& copy);  // durably; the folder's files must be closed
  // The disk lies: writes to files under this folder are answered and not done; empty: no more.
  void drop_writes(const Path& folder);
  // At most so many files under this folder are open at a time: more get slow_down (EMFILE).
  void set_open_max(const Path& folder, size_t max);
  size_t open_files() const;  // of those
  uint64_t used_bytes() const;

  Result<std::unique_ptr<File>> open(const Path& path, OpenMode mode) override;
  Result<void> unlink(const Path& path) override;
  Result<void> rename(const Path& from, const Path& to) override;
  Result<void> make_directory(const Path& path) override;
  Result<void> remove_directory(const Path& path) override;
  Result<void> sync_directory(const Path& path) override;
  Result<std::vector<std::string>> list(const Path& path) override;
  Result<FileStat> stat(const Path& path) override;
  Result<bool> is_directory(const Path& path) override;
  Result<uint64_t> free_bytes(const Path& path) override;
  bool overwrites_in_place(const Path& path, std::string* name) override;
  // A file is its device.
  Result<std::unique_ptr<File>> open_device(const Path& path, bool write, std::string& trouble) override;
  void make_device(const Path& path, uint64_t size);  // of zeros, durably
  // The answer of foreign_contents() for every file.
  void set_foreign_contents(std::expected<std::string, std::string> contents);
  Result<std::unique_ptr<FileLock>> lock(const Path& path) override;

 private:
  friend class FaultyFile;
  friend class FaultyLock;
  static constexpr size_t page_size = 4096;
  using Page = std::array<std::byte, page_size>;
  struct Content {
    std::map<uint64_t, std::shared_ptr<const Page>> pages;
    uint64_t size = 0;
  };
  struct Node {
    std::string made_as;  // its first name
    Content now, synced;
    std::set<uint64_t> dirty;  // pages that the next sync writes
  };
  using Names = std::map<std::string, std::shared_ptr<Node>>;

  static std::string normal(const Path& path);
  static bool is_under(const std::string& name, const std::string& folder);
  void wait_while_held(const std::string& name, std::unique_lock<std::mutex>& lock);
  // Counts, meets the fault. `name`: of the file that is written or synced.
  Result<void> begin(bool* apply_then_fail = nullptr, const std::string* name = nullptr);
  void note_space_change(const std::string& name) { ++space_changes_[Path(name).parent_path().string()]; }
  Result<void> write_pages(Node& node, Bytes from, uint64_t offset);
  Result<void> reserve_pages(uint64_t n);
  uint64_t used() const;
  void tear(Node& node, std::mt19937_64& random);

  mutable std::mutex mutex_;
  Names now_, synced_;
  std::set<std::string> directories_, locked_;
  uint64_t operations_ = 0, fail_at_ = UINT64_MAX, capacity_ = 1 * TiB;
  Fault fault_ = Fault::none;
  bool happened_ = false, crashed_ = false, short_io_ = false, fail_reads_ = false;
  std::mt19937_64 random_{1};
  std::string held_folder_, limited_folder_, failing_folder_, fault_folder_, vanished_folder_;
  std::string unreadable_, unwritable_;
  uint64_t unreadable_at_ = 0, unwritable_at_ = 0;
  std::expected<std::string, std::string> foreign_contents_;
  std::condition_variable held_;
  bool waiting_ = false;
  int released_ = 0;
  size_t open_ = 0, open_max_ = SIZE_MAX;
  std::vector<std::string> syncs_;
  std::map<std::string, uint64_t> space_changes_;  // by folder
  std::string dropping_folder_;
};

}  // namespace verbena::store::local
