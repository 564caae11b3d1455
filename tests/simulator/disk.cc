#include "simulator/disk.h"

#include <cerrno>

#include "base/checksum.h"
#include "simulator/scheduler.h"

namespace verbena::simulator {
namespace {

using store::local::File;
using store::local::FileStat;

enum class Kind : uint64_t { name, read, write, sync, space };

// Others go on meanwhile; a few operations are slow.
void take_time(Kind kind, uint64_t what) {
  Scheduler& scheduler = Scheduler::get();
  scheduler.note(static_cast<uint64_t>(kind) << 56 ^ what);
  constexpr uint64_t usual_us[] = {2, 20, 10, 150, 10};
  uint64_t us = 1 + scheduler.random() % usual_us[static_cast<size_t>(kind)];
  if (scheduler.random() % 256 == 0) us *= 200;
  if (scheduler.random() % 4 == 0 || kind == Kind::sync) {
    scheduler.sleep_until(scheduler.steady_ns() + static_cast<int64_t>(us) * 1000);
  }
}
uint64_t named(const store::local::FileSystem::Path& path) { return crc32c(as_bytes(path.native())); }

class SlowFile final : public File {
 public:
  SlowFile(std::unique_ptr<File> below, Disk& disk) : below_(std::move(below)), disk_(disk) {}
  Result<size_t> pread(MutableBytes into, uint64_t offset) override {
    take_time(Kind::read, offset << 20 ^ into.size());
    VB_TRY(disk_.count_read());
    return below_->pread(into, offset);
  }
  Result<size_t> pwrite(Bytes from, uint64_t offset) override {
    take_time(Kind::write, offset << 20 ^ from.size());
    return below_->pwrite(from, offset);
  }
  Result<void> datasync() override {
    take_time(Kind::sync, 0);
    return below_->datasync();
  }
  Result<void> allocate(uint64_t offset, uint64_t length) override {
    take_time(Kind::space, offset);
    return below_->allocate(offset, length);
  }
  Result<void> punch(uint64_t offset, uint64_t length) override {
    take_time(Kind::space, offset);
    return below_->punch(offset, length);
  }
  Result<void> truncate(uint64_t size) override {
    take_time(Kind::space, size);
    return below_->truncate(size);
  }
  Result<FileStat> stat() override { return below_->stat(); }
  Result<std::optional<std::pair<uint64_t, uint64_t>>> data_range(uint64_t from) override {
    return below_->data_range(from);
  }
  bool direct() const override { return below_->direct(); }
  Result<size_t> pread_cached(MutableBytes into, uint64_t offset) override {
    return below_->pread_cached(into, offset);
  }

 private:
  std::unique_ptr<File> below_;
  Disk& disk_;
};

}  // namespace

void Disk::fail_reads(uint64_t from, uint64_t count) {
  fail_from_ = from == UINT64_MAX ? from : reads_ + from;
  fail_to_ = from == UINT64_MAX ? from : fail_from_ + count;
  read_failed_ = false;
}

Result<void> Disk::count_read() {
  const uint64_t number = reads_++;
  if (number < fail_from_ || number >= fail_to_) return {};
  read_failed_ = true;
  return fail(Errc::io_error, "simulated: pread", EIO);
}

Result<std::unique_ptr<File>> Disk::open(const Path& path, store::local::OpenMode mode) {
  take_time(Kind::name, named(path));
  VB_ASSIGN(auto file, below_.open(path, mode));
  return std::make_unique<SlowFile>(std::move(file), *this);
}
Result<void> Disk::unlink(const Path& path) {
  take_time(Kind::name, named(path));
  return below_.unlink(path);
}
Result<void> Disk::rename(const Path& from, const Path& to) {
  take_time(Kind::name, named(from) ^ named(to));
  return below_.rename(from, to);
}
Result<void> Disk::make_directory(const Path& path) { return below_.make_directory(path); }
Result<void> Disk::remove_directory(const Path& path) { return below_.remove_directory(path); }
Result<void> Disk::sync_directory(const Path& path) {
  take_time(Kind::sync, named(path));
  return below_.sync_directory(path);
}
Result<std::vector<std::string>> Disk::list(const Path& path) { return below_.list(path); }
Result<FileStat> Disk::stat(const Path& path) { return below_.stat(path); }
Result<bool> Disk::is_directory(const Path& path) { return below_.is_directory(path); }
Result<uint64_t> Disk::free_bytes(const Path& path) { return below_.free_bytes(path); }
Result<std::unique_ptr<store::local::FileLock>> Disk::lock(const Path& path) { return below_.lock(path); }

}  // namespace verbena::simulator
