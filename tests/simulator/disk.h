// The disk of the simulation: store/local's faulty file system, each operation of which takes its time and is in the
// trace.
#pragma once

#include "store/local/test_faulty_file_system.h"

namespace verbena::simulator {

class Disk final : public store::local::FileSystem {
 public:
  explicit Disk(store::local::FaultyFileSystem& below) : below_(below) {}

  // So many reads from the one with this number on fail (the next is 0).
  void fail_reads(uint64_t from, uint64_t count);
  bool read_failed() const { return read_failed_; }
  Result<void> count_read();  // io_error: it is one of those

  Result<std::unique_ptr<store::local::File>> open(const Path& path, store::local::OpenMode mode) override;
  Result<void> unlink(const Path& path) override;
  Result<void> rename(const Path& from, const Path& to) override;
  Result<void> make_directory(const Path& path) override;
  Result<void> remove_directory(const Path& path) override;
  Result<void> sync_directory(const Path& path) override;
  Result<std::vector<std::string>> list(const Path& path) override;
  Result<store::local::FileStat> stat(const Path& path) override;
  Result<bool> is_directory(const Path& path) override;
  Result<uint64_t> free_bytes(const Path& path) override;
  bool overwrites_in_place(const Path& path, std::string* name) override {
    return below_.overwrites_in_place(path, name);
  }
  Result<std::unique_ptr<store::local::FileLock>> lock(const Path& path) override;

 private:
  store::local::FaultyFileSystem& below_;
  uint64_t reads_ = 0, fail_from_ = UINT64_MAX, fail_to_ = UINT64_MAX;
  bool read_failed_ = false;
};

}  // namespace verbena::simulator
