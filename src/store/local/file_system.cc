#include "store/local/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "store/local/block_device.h"

namespace verbena::store::local {
namespace {

std::unexpected<Error> failed(const char* context, int code) {
  switch (code) {
    case ENOENT:
      return fail(Errc::not_found, context, code);
    case ENOSPC:
    case EDQUOT:
      return fail(Errc::insufficient_storage, context, code);
    case EOPNOTSUPP:
    case ENOSYS:
      return fail(Errc::unsupported, context, code);
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return fail(Errc::slow_down, context, code);
    default:
      return fail(Errc::io_error, context, code);
  }
}

FileStat to_file_stat(const struct stat& s) {
  return {static_cast<uint64_t>(s.st_size), static_cast<uint64_t>(s.st_blocks) * 512, s.st_mtim.tv_sec};
}

// Writes through the page cache start write-back in pieces of this size. Otherwise all would go with the next sync, and
// any change of the file system's own data would wait for it, too.
constexpr size_t write_out_from = 256 * KiB;

struct KnownFileSystem {
  const char* name = "an unknown file system";
  bool in_place = false;
};

// By the magic numbers of statfs(2). Those that are not named may copy on write.
KnownFileSystem known_file_system(uint64_t magic) {
  switch (magic) {
    case 0xef53:
      return {"ext4", true};
    case 0x58465342:
      return {"XFS", true};
    case 0x9123683e:
      return {"btrfs", false};
    case 0x794c7630:
      return {"overlay", false};
    case 0x01021994:
      return {"tmpfs", false};
    case 0xf2f52010:
      return {"F2FS", false};
    case 0x2fc12fc1:
      return {"ZFS", false};
    case 0x6969:
      return {"NFS", false};
    default:
      return {};
  }
}

class RealFile final : public File {
 public:
  RealFile(int fd, bool direct) : fd_(fd), direct_(direct) {}
  ~RealFile() override { ::close(fd_); }
  RealFile(const RealFile&) = delete;
  RealFile& operator=(const RealFile&) = delete;

  Result<size_t> pread(MutableBytes into, uint64_t offset) override {
    for (;;) {
      const bool was_direct = direct();
      ssize_t n = ::pread(fd_, into.data(), into.size(), static_cast<off_t>(offset));
      if (n >= 0) return static_cast<size_t>(n);
      if (errno == EINVAL && was_direct && give_up_direct()) continue;
      if (errno != EINTR) return failed("file: pread", errno);
    }
  }
  Result<size_t> pwrite(Bytes from, uint64_t offset) override {
    for (;;) {
      const bool was_direct = direct();
      ssize_t n = ::pwrite(fd_, from.data(), from.size(), static_cast<off_t>(offset));
      if (n > 0 && !was_direct && static_cast<size_t>(n) >= write_out_from) {
        // datasync() reports its errors, too.
        (void)::sync_file_range(fd_, static_cast<off_t>(offset), n, SYNC_FILE_RANGE_WRITE);
      }
      if (n >= 0) return static_cast<size_t>(n);
      if (errno == EINVAL && was_direct && give_up_direct()) continue;
      if (errno != EINTR) return failed("file: pwrite", errno);
    }
  }
  Result<void> datasync() override {
    // Not retried: after a failed fdatasync the kernel may have dropped the dirty pages, and a second one would lie.
    if (::fdatasync(fd_) != 0) return failed("file: fdatasync", errno);
    return {};
  }
  Result<void> allocate(uint64_t offset, uint64_t length) override {
    while (::fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(length)) != 0) {
      if (errno != EINTR) return failed("file: fallocate", errno);
    }
    return {};
  }
  Result<void> punch(uint64_t offset, uint64_t length) override {
    int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    while (::fallocate(fd_, mode, static_cast<off_t>(offset), static_cast<off_t>(length)) != 0) {
      if (errno != EINTR) return failed("file: punch hole", errno);
    }
    return {};
  }
  Result<void> truncate(uint64_t size) override {
    if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) return failed("file: ftruncate", errno);
    return {};
  }
  Result<FileStat> stat() override {
    struct stat s{};
    if (::fstat(fd_, &s) != 0) return failed("file: fstat", errno);
    return to_file_stat(s);
  }
  // The descriptor's own position is used for nothing else.
  Result<std::optional<std::pair<uint64_t, uint64_t>>> data_range(uint64_t from) override {
    const off_t begin = ::lseek(fd_, static_cast<off_t>(from), SEEK_DATA);
    if (begin < 0 && errno == ENXIO) return std::nullopt;
    if (begin < 0) return failed("file: seek data", errno);
    const off_t end = ::lseek(fd_, begin, SEEK_HOLE);
    if (end < 0) return failed("file: seek hole", errno);
    return std::pair(static_cast<uint64_t>(begin), static_cast<uint64_t>(end));
  }
  bool direct() const override { return direct_.load(std::memory_order_relaxed); }
  Result<size_t> pread_cached(MutableBytes into, uint64_t offset) override {
    if (direct()) return fail(Errc::would_block, "file: past the page cache");
    const iovec piece{into.data(), into.size()};
    const ssize_t n = ::preadv2(fd_, &piece, 1, static_cast<off_t>(offset), RWF_NOWAIT);
    // An error, or no support by the file system: pread() reports it.
    if (n < 0) return fail(Errc::would_block, "file: not in the page cache", errno);
    return static_cast<size_t>(n);
  }
  // Direct I/O only: otherwise a ring would copy from the page cache on the loop's thread.
  int ring_descriptor() const override { return direct() ? fd_ : -1; }

 private:
  // Some file systems open a file for direct I/O and refuse each of its reads and writes.
  bool give_up_direct() {
    const int flags = ::fcntl(fd_, F_GETFL);
    if (flags < 0 || ::fcntl(fd_, F_SETFL, flags & ~O_DIRECT) != 0) return false;
    direct_.store(false, std::memory_order_relaxed);
    return true;
  }

  const int fd_;
  std::atomic<bool> direct_;
};

class RealLock final : public FileLock {
 public:
  explicit RealLock(int fd) : fd_(fd) {}
  ~RealLock() override { ::close(fd_); }  // closing lets go of the flock
  RealLock(const RealLock&) = delete;
  RealLock& operator=(const RealLock&) = delete;

 private:
  int fd_;
};

class RealFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open(const Path& path, OpenMode mode) override {
    int flags = O_CLOEXEC | (mode.write ? O_RDWR : O_RDONLY);
    if (mode.create) flags |= O_CREAT;
    if (mode.truncate) flags |= O_TRUNC;
    int fd = -1;
    if (mode.direct) fd = ::open(path.c_str(), flags | O_DIRECT, 0600);
    bool direct = fd >= 0;
    if (fd < 0 && (!mode.direct || errno == EINVAL)) fd = ::open(path.c_str(), flags, 0600);
    if (fd < 0) return failed("file system: open", errno);
    return std::make_unique<RealFile>(fd, direct);
  }
  Result<void> unlink(const Path& path) override {
    if (::unlink(path.c_str()) != 0) return failed("file system: unlink", errno);
    return {};
  }
  Result<void> rename(const Path& from, const Path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return failed("file system: rename", errno);
    return {};
  }
  Result<void> make_directory(const Path& path) override {
    std::error_code ec;
    std::filesystem::create_directories(path, ec);
    if (ec) return failed("file system: mkdir", ec.value());
    return {};
  }
  Result<void> remove_directory(const Path& path) override {
    if (::rmdir(path.c_str()) != 0) return failed("file system: rmdir", errno);
    return {};
  }
  Result<void> sync_directory(const Path& path) override {
    int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return failed("file system: open directory", errno);
    int rc = ::fsync(fd);
    int code = errno;
    ::close(fd);
    if (rc != 0) return failed("file system: fsync directory", code);
    return {};
  }
  Result<std::vector<std::string>> list(const Path& path) override {
    std::error_code ec;
    std::vector<std::string> names;
    std::filesystem::directory_iterator it(path, ec), end;
    for (; !ec && it != end; it.increment(ec)) names.push_back(it->path().filename().string());
    if (ec) return failed("file system: list", ec.value());
    return names;
  }
  Result<FileStat> stat(const Path& path) override {
    struct stat s{};
    if (::stat(path.c_str(), &s) != 0) return failed("file system: stat", errno);
    return to_file_stat(s);
  }
  Result<bool> is_directory(const Path& path) override {
    struct stat s{};
    if (::stat(path.c_str(), &s) != 0) return failed("file system: stat", errno);
    return S_ISDIR(s.st_mode);
  }
  Result<uint64_t> free_bytes(const Path& path) override {
    struct statvfs s{};
    if (::statvfs(path.c_str(), &s) != 0) return failed("file system: statvfs", errno);
    return static_cast<uint64_t>(s.f_bavail) * s.f_frsize;
  }
  bool overwrites_in_place(const Path& path, std::string* name) override {
    struct statfs s{};
    if (::statfs(path.c_str(), &s) != 0) return false;
    const KnownFileSystem known = known_file_system(static_cast<uint64_t>(s.f_type));
    if (name != nullptr) *name = known.name;
    return known.in_place;
  }
  Result<std::unique_ptr<File>> open_device(const Path& path, bool write, std::string& trouble) override {
    return open_block_device(path, write ? DeviceUse::own : DeviceUse::read, trouble);
  }
  Result<std::unique_ptr<FileLock>> lock(const Path& path) override {
    int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return failed("file system: open lock", errno);
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      int code = errno;
      ::close(fd);
      if (code == EWOULDBLOCK) return fail(Errc::would_block, "file system: lock is taken", code);
      return failed("file system: flock", code);
    }
    return std::make_unique<RealLock>(fd);
  }
};

}  // namespace

Result<std::unique_ptr<File>> FileSystem::open_device(const Path& path, bool /*write*/, std::string& trouble) {
  trouble = path.string() + ": this file system has no devices";
  return fail(Errc::unsupported, "file system: device");
}

FileSystem& real_file_system() {
  static RealFileSystem fs;
  return fs;
}

Result<void> read_fully(File& file, MutableBytes into, uint64_t offset) {
  size_t done = 0;
  while (done < into.size()) {
    VB_ASSIGN(size_t n, file.pread(into.subspan(done), offset + done));
    if (n == 0) return fail(Errc::io_error, "file: ends early");
    // A short direct read may stop anywhere; go on from the last aligned byte.
    size_t next = file.direct() && done + n < into.size() ? align_down(done + n) : done + n;
    if (next == done) return fail(Errc::io_error, "file: no progress");
    done = next;
  }
  return {};
}

Result<void> write_fully(File& file, Bytes from, uint64_t offset) {
  size_t done = 0;
  while (done < from.size()) {
    VB_ASSIGN(size_t n, file.pwrite(from.subspan(done), offset + done));
    size_t next = file.direct() && done + n < from.size() ? align_down(done + n) : done + n;
    if (next == done) return fail(Errc::io_error, "file: no progress");
    done = next;
  }
  return {};
}

Result<void> replace_file(FileSystem& fs, const FileSystem::Path& path, std::string_view content) {
  FileSystem::Path temporary = path;
  temporary += ".new";
  {
    VB_ASSIGN(auto file, fs.open(temporary, {.write = true, .create = true, .truncate = true}));
    VB_TRY(write_fully(*file, as_bytes(content), 0));
    VB_TRY(file->datasync());
  }
  VB_TRY(fs.rename(temporary, path));
  return fs.sync_directory(path.parent_path());
}

Result<std::string> read_small_file(FileSystem& fs, const FileSystem::Path& path, size_t size_max) {
  VB_ASSIGN(auto file, fs.open(path, {}));
  VB_ASSIGN(FileStat stat, file->stat());
  if (stat.size > size_max) return fail(Errc::too_large, "file system: small file");
  std::string content(stat.size, '\0');
  VB_TRY(read_fully(*file, std::as_writable_bytes(std::span(content.data(), content.size())), 0));
  return content;
}

}  // namespace verbena::store::local
