#include "store/local/log_ahead.h"

#include <rocksdb/file_system.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "store/local/seam_env.h"

namespace verbena::store::local {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

// A record waits for at most one piece, and a sync has at most a few of them to write.
constexpr size_t piece_size = 256 * KiB;
constexpr std::chrono::milliseconds between_pieces{1};

}  // namespace

// One log's file. Records come from one thread at a time, zeros from another.
class LogAhead::Log {
 public:
  Log(std::filesystem::path path, std::unique_ptr<File> file) : path_(std::move(path)), file_(std::move(file)) {}

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() {
    const std::lock_guard lock(mutex_);
    return size_;
  }
  uint64_t ahead() {
    const std::lock_guard lock(mutex_);
    return ready_ - size_;
  }

  // `ahead`, if not null, receives how many zeros are left after the record; UINT64_MAX: no more will come.
  Result<void> append(Bytes record, uint64_t* ahead) {
    const std::lock_guard lock(mutex_);
    VB_TRY(write_fully(*file_, record, size_));
    size_ += record.size();
    ready_ = std::max(ready_, size_);
    *ahead = done_ ? UINT64_MAX : ready_ - size_;
    return {};
  }

  // A piece of `zeros`, if fewer than `step` are left. False: nothing was to do, or it failed.
  bool write_zeros(Bytes zeros, uint64_t step) {
    const std::lock_guard lock(mutex_);
    if (done_ || ready_ - size_ >= step) return false;
    // Up to a boundary of pieces, so that later ones are whole pages.
    const size_t n = zeros.size() - ready_ % zeros.size();
    const auto written = write_fully(*file_, zeros.first(n), ready_);
    if (!written) {
      // The log grows as it can. What was written of the piece is zeros, too.
      log::debug("store: zeros ahead of {}: {}", path_.filename().string(), describe(written.error()));
      done_ = true;
      return false;
    }
    ready_ += n;
    return true;
  }
  void write_no_more() {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }

  // Cuts the file behind its last record.
  Result<void> finish() {
    const std::lock_guard lock(mutex_);
    done_ = true;
    if (!file_ || ready_ == size_) return {};
    auto cut = file_->truncate(size_);
    if (!cut) {
      const std::lock_guard syncs(sync_mutex_);
      sync_failure_ = cut.error();
      return cut;
    }
    ready_ = size_;
    return sync();
  }
  Result<void> cut(uint64_t size) {
    const std::lock_guard lock(mutex_);
    size_ = ready_ = size;
    return file_->truncate(size);
  }
  // The kernel tells of a write that failed once, to the next datasync, and forgets it: after a failure none succeeds.
  Result<void> sync() {
    const std::lock_guard lock(sync_mutex_);
    if (!sync_failure_) {
      if (auto synced = file_->datasync(); !synced) sync_failure_ = synced.error();
    }
    if (sync_failure_) return std::unexpected(*sync_failure_);
    return {};
  }
  void forgive() {
    const std::lock_guard lock(sync_mutex_);
    sync_failure_.reset();
  }
  Result<void> close() {
    const auto finished = finish();
    const std::lock_guard lock(mutex_);
    file_.reset();
    return finished;
  }

 private:
  const std::filesystem::path path_;
  std::mutex mutex_;
  std::unique_ptr<File> file_;
  uint64_t size_ = 0;   // of the records
  uint64_t ready_ = 0;  // of records and zeros
  bool done_ = false;   // no more zeros
  std::mutex sync_mutex_;
  std::optional<Error> sync_failure_;
};

namespace {

class LogFile final : public rocksdb::FSWritableFile {
 public:
  LogFile(LogAhead& ahead, std::shared_ptr<LogAhead::Log> log, uint64_t from, uint64_t least)
      : ahead_(ahead), log_(std::move(log)), from_(from), least_(least) {}
  ~LogFile() override { (void)log_->close(); }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  using FSWritableFile::Append;
  IOStatus Append(const rocksdb::Slice& data, const IOOptions&, IODebugContext*) override {
    uint64_t left = 0;
    const auto appended = log_->append(as_bytes({data.data(), data.size()}), &left);
    size_ += appended ? data.size() : 0;
    if (appended && size_ >= from_ && left < least_) ahead_.want(log_);
    return to_io_status(appended);
  }
  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    size_ = size;
    return to_io_status(log_->cut(size));
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return to_io_status(log_->close()); }
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override { return to_io_status(log_->sync()); }
  bool IsSyncThreadSafe() const override { return true; }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return size_; }

 private:
  LogAhead& ahead_;
  const std::shared_ptr<LogAhead::Log> log_;
  const uint64_t from_, least_;
  uint64_t size_ = 0;
};

class FilesWithLogs final : public rocksdb::FileSystemWrapper {
 public:
  FilesWithLogs(const std::shared_ptr<rocksdb::FileSystem>& below, LogAhead& ahead, uint64_t from, uint64_t least)
      : rocksdb::FileSystemWrapper(below), ahead_(ahead), from_(from), least_(least) {}
  const char* Name() const override { return "VerbenaLogs"; }
  IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* context) override {
    if (!name.ends_with(".log")) return rocksdb::FileSystemWrapper::NewWritableFile(name, options, result, context);
    auto log = ahead_.make_log(name);
    if (log) *result = std::make_unique<LogFile>(ahead_, std::move(*log), from_, least_);
    return to_io_status(log);
  }

 private:
  LogAhead& ahead_;
  const uint64_t from_, least_;
};

}  // namespace

LogAhead::LogAhead(Options options) : options_(options) { thread_ = std::thread(&LogAhead::loop, this); }

LogAhead::~LogAhead() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  thread_.join();
}

std::unique_ptr<rocksdb::Env> LogAhead::make_env(rocksdb::Env* below) {
  rocksdb::Env* const env = below != nullptr ? below : rocksdb::Env::Default();
  return rocksdb::NewCompositeEnv(
      std::make_shared<FilesWithLogs>(env->GetFileSystem(), *this, options_.from, options_.step / 2));
}

// RocksDB writes to a log no more when it makes the next one. Zeros in the middle of the logs would be damage to an
// older program.
Result<std::shared_ptr<LogAhead::Log>> LogAhead::make_log(const std::string& path) {
  std::shared_ptr<Log> before;
  {
    const std::lock_guard lock(mutex_);
    before = std::exchange(newest_, {});
  }
  if (before) {
    if (auto finished = before->finish(); !finished) {
      // Its next sync fails, so that no change of it is acknowledged: the index moves past it (Index::recover).
      log::error("store: {} could not be cut behind its last record: {}", before->path().string(),
                 describe(finished.error()));
    }
  }
  VB_ASSIGN(auto file, options_.fs->open(path, {.write = true, .create = true, .truncate = true}));
  auto made = std::make_shared<Log>(path, std::move(file));
  const std::lock_guard lock(mutex_);
  newest_ = made;
  std::erase_if(logs_, [](const auto& one) { return one.expired(); });
  logs_.push_back(made);
  return made;
}

void LogAhead::forgive_failures() {
  const std::lock_guard lock(mutex_);
  for (const auto& one : logs_) {
    if (const auto log = one.lock()) log->forgive();
  }
}

void LogAhead::want(const std::shared_ptr<Log>& log) {
  const std::lock_guard lock(mutex_);
  if (working_ || wanted_) return;
  wanted_ = log;
  wake_.notify_all();
}

uint64_t LogAhead::bytes_ahead() {
  const std::lock_guard lock(mutex_);
  return newest_ ? newest_->ahead() : 0;
}

void LogAhead::wait_idle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return !working_ && !wanted_; });
}

bool LogAhead::has_space(const Log& log) {
  const auto free = options_.fs->free_bytes(log.path().parent_path());
  return free && *free > options_.free_bytes_min + 4 * options_.step;
}

void LogAhead::loop() {
  const std::vector<std::byte> zeros(piece_size);
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || wanted_; });
    if (stopping_) return;
    const auto log = std::exchange(wanted_, {});
    working_ = true;
    lock.unlock();
    const bool space = has_space(*log);
    if (!space) log->write_no_more();
    while (space && log->write_zeros(zeros, options_.step)) {
      std::unique_lock pause(mutex_);
      if (wake_.wait_for(pause, between_pieces, [this] { return stopping_; })) break;
    }
    lock.lock();
    working_ = false;
    idle_.notify_all();
  }
}

}  // namespace verbena::store::local
