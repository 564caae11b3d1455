#include "store/local/seam_env.h"

#include <rocksdb/file_system.h>

namespace verbena::store::local {

rocksdb::IOStatus to_io_status(const Error& error) {
  using rocksdb::IOStatus;
  switch (error.code) {
    case Errc::not_found:
      return IOStatus::PathNotFound(error.context);
    case Errc::insufficient_storage: {
      IOStatus status = IOStatus::NoSpace(error.context);
      status.SetRetryable(true);  // as RocksDB's own file system says of ENOSPC: space may come back
      return status;
    }
    case Errc::unsupported:
      return IOStatus::NotSupported(error.context);
    default:
      return IOStatus::IOError(describe(error));
  }
}

namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

MutableBytes writable(char* p, size_t n) { return {reinterpret_cast<std::byte*>(p), n}; }

// Reads up to the end of the file or of the buffer.
Result<size_t> read_some(File& file, MutableBytes into, uint64_t offset) {
  size_t done = 0;
  while (done < into.size()) {
    VB_ASSIGN(size_t n, file.pread(into.subspan(done), offset + done));
    if (n == 0) break;
    done += n;
  }
  return done;
}

IOStatus read_slice(File& file, uint64_t offset, size_t n, Slice* result, char* scratch) {
  auto got = read_some(file, writable(scratch, n), offset);
  *result = Slice(scratch, got.value_or(0));
  return to_io_status(got);
}

class SequentialFile final : public rocksdb::FSSequentialFile {
 public:
  explicit SequentialFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
  IOStatus Read(size_t n, const IOOptions&, Slice* result, char* scratch, IODebugContext*) override {
    IOStatus status = read_slice(*file_, offset_, n, result, scratch);
    offset_ += result->size();
    return status;
  }
  IOStatus Skip(uint64_t n) override {
    offset_ += n;
    return IOStatus::OK();
  }

 private:
  std::unique_ptr<File> file_;
  uint64_t offset_ = 0;
};

class RandomAccessFile final : public rocksdb::FSRandomAccessFile {
 public:
  explicit RandomAccessFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    return read_slice(*file_, offset, n, result, scratch);
  }

 private:
  std::unique_ptr<File> file_;
};

class WritableFile final : public rocksdb::FSWritableFile {
 public:
  WritableFile(std::unique_ptr<File> file, uint64_t size) : file_(std::move(file)), size_(size) {}
  using FSWritableFile::Append;
  IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override {
    auto done = write_fully(*file_, as_bytes({data.data(), data.size()}), size_);
    if (done) size_ += data.size();
    return to_io_status(done);
  }
  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    size_ = size;
    return to_io_status(file_->truncate(size));
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override {
    file_.reset();
    return IOStatus::OK();
  }
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override { return to_io_status(file_->datasync()); }
  bool IsSyncThreadSafe() const override { return true; }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return size_; }

 private:
  std::unique_ptr<File> file_;
  uint64_t size_;
};

class Directory final : public rocksdb::FSDirectory {
 public:
  Directory(FileSystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}
  IOStatus Fsync(const IOOptions&, IODebugContext*) override { return to_io_status(fs_.sync_directory(path_)); }

 private:
  FileSystem& fs_;
  std::string path_;
};

class Lock final : public rocksdb::FileLock {
 public:
  explicit Lock(std::unique_ptr<local::FileLock> held) : held_(std::move(held)) {}

 private:
  std::unique_ptr<local::FileLock> held_;
};

class SeamFileSystem final : public rocksdb::FileSystem {
 public:
  explicit SeamFileSystem(local::FileSystem& fs) : fs_(fs) {}
  const char* Name() const override { return "VerbenaSeam"; }

  IOStatus NewSequentialFile(const std::string& name, const rocksdb::FileOptions&,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result, IODebugContext*) override {
    auto file = fs_.open(name, {});
    if (file) *result = std::make_unique<SequentialFile>(std::move(*file));
    return to_io_status(file);
  }
  IOStatus NewRandomAccessFile(const std::string& name, const rocksdb::FileOptions&,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* result, IODebugContext*) override {
    auto file = fs_.open(name, {});
    if (file) *result = std::make_unique<RandomAccessFile>(std::move(*file));
    return to_io_status(file);
  }
  IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions&,
                           std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext*) override {
    auto file = fs_.open(name, {.write = true, .create = true, .truncate = true});
    if (file) *result = std::make_unique<WritableFile>(std::move(*file), 0);
    return to_io_status(file);
  }
  IOStatus ReopenWritableFile(const std::string& name, const rocksdb::FileOptions&,
                              std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext*) override {
    auto file = fs_.open(name, {.write = true, .create = true});
    if (!file) return to_io_status(file);
    auto stat = (*file)->stat();
    if (!stat) return to_io_status(stat);
    *result = std::make_unique<WritableFile>(std::move(*file), stat->size);
    return IOStatus::OK();
  }
  IOStatus NewDirectory(const std::string& name, const IOOptions&, std::unique_ptr<rocksdb::FSDirectory>* result,
                        IODebugContext*) override {
    *result = std::make_unique<Directory>(fs_, name);
    return IOStatus::OK();
  }
  IOStatus FileExists(const std::string& name, const IOOptions&, IODebugContext*) override {
    auto stat = fs_.stat(name);
    if (!stat && stat.error() == Errc::not_found) return IOStatus::NotFound();
    return to_io_status(stat);
  }
  IOStatus GetChildren(const std::string& name, const IOOptions&, std::vector<std::string>* result,
                       IODebugContext*) override {
    auto names = fs_.list(name);
    if (!names && names.error() == Errc::not_found) return IOStatus::NotFound();
    if (names) *result = std::move(*names);
    return to_io_status(names);
  }
  IOStatus DeleteFile(const std::string& name, const IOOptions&, IODebugContext*) override {
    return to_io_status(fs_.unlink(name));
  }
  IOStatus CreateDir(const std::string& name, const IOOptions&, IODebugContext*) override {
    return to_io_status(fs_.make_directory(name));
  }
  IOStatus CreateDirIfMissing(const std::string& name, const IOOptions&, IODebugContext*) override {
    return to_io_status(fs_.make_directory(name));
  }
  IOStatus DeleteDir(const std::string& name, const IOOptions&, IODebugContext*) override {
    return to_io_status(fs_.remove_directory(name));
  }
  IOStatus GetFileSize(const std::string& name, const IOOptions&, uint64_t* size, IODebugContext*) override {
    auto stat = fs_.stat(name);
    if (stat) *size = stat->size;
    return to_io_status(stat);
  }
  IOStatus GetFileModificationTime(const std::string& name, const IOOptions&, uint64_t* time,
                                   IODebugContext*) override {
    auto stat = fs_.stat(name);
    if (stat) *time = static_cast<uint64_t>(stat->modified_s);
    return to_io_status(stat);
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions&, IODebugContext*) override {
    return to_io_status(fs_.rename(from, to));
  }
  IOStatus LockFile(const std::string& name, const IOOptions&, rocksdb::FileLock** lock, IODebugContext*) override {
    auto held = fs_.lock(name);
    if (held) *lock = new Lock(std::move(*held));
    return to_io_status(held);
  }
  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions&, IODebugContext*) override {
    delete lock;
    return IOStatus::OK();
  }
  IOStatus GetTestDirectory(const IOOptions&, std::string* path, IODebugContext*) override {
    *path = "/tmp";
    return IOStatus::OK();
  }
  IOStatus GetAbsolutePath(const std::string& path, const IOOptions&, std::string* out, IODebugContext*) override {
    *out = path;
    return IOStatus::OK();
  }
  IOStatus IsDirectory(const std::string& path, const IOOptions&, bool* is_directory, IODebugContext*) override {
    auto answer = fs_.is_directory(path);
    if (answer) *is_directory = *answer;
    return to_io_status(answer);
  }
  IOStatus GetFreeSpace(const std::string& path, const IOOptions&, uint64_t* free, IODebugContext*) override {
    auto answer = fs_.free_bytes(path);
    if (answer) *free = *answer;
    return to_io_status(answer);
  }

 private:
  local::FileSystem& fs_;
};

}  // namespace

std::unique_ptr<rocksdb::Env> make_seam_env(FileSystem& fs) {
  return rocksdb::NewCompositeEnv(std::make_shared<SeamFileSystem>(fs));
}

}  // namespace verbena::store::local
