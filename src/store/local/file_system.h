// The seam under the local engine: every byte that the engine keeps on disk goes through these two interfaces, so that
// tests can inject short reads, torn and lost writes, ENOSPC, EIO and flipped bits. All calls block unless they say
// otherwise; the engine makes them on the blocking pool or on its own threads. Thread-safe.
//
// Errors: not_found (ENOENT), insufficient_storage (ENOSPC, EDQUOT), unsupported (the file system cannot), slow_down
// (descriptors or memory are short, which passes), otherwise io_error with the errno.
#pragma once

#include <cstdint>
#include <expected>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace verbena::store::local {

// Offsets, lengths and buffers of volume I/O are multiples of this, the largest that O_DIRECT requires on disks in use.
inline constexpr uint64_t disk_alignment = 4096;
inline constexpr uint64_t align_up(uint64_t n, uint64_t unit = disk_alignment) { return (n + unit - 1) / unit * unit; }
inline constexpr uint64_t align_down(uint64_t n, uint64_t unit = disk_alignment) { return n / unit * unit; }

struct FileStat {
  uint64_t size = 0;             // bytes up to the end
  uint64_t allocated_bytes = 0;  // blocks that the file really holds (st_blocks * 512)
  int64_t modified_s = 0;        // seconds since the epoch
};

class File {
 public:
  virtual ~File() = default;  // closes
  // May move fewer bytes than asked for; pread returns 0 only at the end of the file.
  virtual Result<size_t> pread(MutableBytes into, uint64_t offset) = 0;
  virtual Result<size_t> pwrite(Bytes from, uint64_t offset) = 0;
  virtual Result<void> datasync() = 0;
  // Reserves blocks for the range and extends the file over it.
  virtual Result<void> allocate(uint64_t offset, uint64_t length) = 0;
  // Gives the range's blocks back; it reads as zeros afterwards. The file keeps its size.
  virtual Result<void> punch(uint64_t offset, uint64_t length) = 0;
  virtual Result<void> truncate(uint64_t size) = 0;
  virtual Result<FileStat> stat() = 0;
  // The first range at or after `from` that has been written since it got its blocks: begin and end. Empty: none, or
  // the file system does not tell.
  virtual Result<std::optional<std::pair<uint64_t, uint64_t>>> data_range(uint64_t /*from*/) { return std::nullopt; }
  // True when I/O bypasses the page cache and so must be aligned.
  virtual bool direct() const { return false; }

  // pread() that never waits for the disk: would_block when the start of the range is not in the page cache.
  virtual Result<size_t> pread_cached(MutableBytes /*into*/, uint64_t /*offset*/) {
    return fail(Errc::would_block, "file: not in the page cache");
  }
  // For io_uring; -1: the file is read by pread() and written by pwrite() only.
  virtual int ring_descriptor() const { return -1; }
  // False: pwrite() refuses, so the ring is not to be asked.
  virtual bool takes_writes() const { return true; }
  // Where a range lies in the ring's file; empty: it is not all the file's, and pread() or pwrite() says so.
  virtual std::optional<uint64_t> ring_place(uint64_t offset, size_t /*length*/) const { return offset; }
  // Passes each result of a ring read, bytes read or -errno, and returns the result to use. Does not block.
  virtual int ring_read(MutableBytes /*into*/, uint64_t /*offset*/, int result) { return result; }
  // Likewise each result of a ring write.
  virtual int ring_write(Bytes /*from*/, uint64_t /*offset*/, int result) { return result; }

  // What other programs would recognize on a block device: "ext4 (a file system)", "a gpt partition table"; empty:
  // nothing. The error is a sentence: it cannot be told.
  virtual std::expected<std::string, std::string> foreign_contents() { return ""; }
};

// Holds an exclusive lock until destroyed.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

struct OpenMode {
  bool write = false;
  bool create = false;    // makes the file if it is missing
  bool truncate = false;  // empties it
  bool direct = false;    // O_DIRECT if the file system supports it, silently without if not
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  using Path = std::filesystem::path;
  virtual Result<std::unique_ptr<File>> open(const Path& path, OpenMode mode) = 0;
  virtual Result<void> unlink(const Path& path) = 0;
  virtual Result<void> rename(const Path& from, const Path& to) = 0;
  virtual Result<void> make_directory(const Path& path) = 0;  // parents too; fine when it exists
  virtual Result<void> remove_directory(const Path& path) = 0;
  // Names created, renamed or unlinked in the directory survive a crash after this.
  virtual Result<void> sync_directory(const Path& path) = 0;
  virtual Result<std::vector<std::string>> list(const Path& path) = 0;  // names without "." and ".."
  virtual Result<FileStat> stat(const Path& path) = 0;
  virtual Result<bool> is_directory(const Path& path) = 0;
  virtual Result<uint64_t> free_bytes(const Path& path) = 0;
  // Whether a write into written blocks of a file goes to these blocks: then it changes no metadata. False where the
  // file system copies on write, is none of a disk, or is unknown; `name`, if not null, receives its name.
  virtual bool overwrites_in_place(const Path& /*path*/, std::string* /*name*/) { return false; }
  // A block device, for the volumes of data.device; with `write` no other program may use it. `trouble` receives a
  // sentence. Its size is the file's.
  virtual Result<std::unique_ptr<File>> open_device(const Path& path, bool write, std::string& trouble);
  // Locks `path` (made if missing) against other processes and other holders in this one. would_block when taken.
  virtual Result<std::unique_ptr<FileLock>> lock(const Path& path) = 0;
};

// The machine's. Lives for the whole program.
FileSystem& real_file_system();

// Whether a failed read means that the bytes are missing: no file, or one that ends early. Any other error, EIO
// included, means that they could not be read now, and says nothing about their contents.
inline bool is_missing(const Error& error) {
  return error == Errc::not_found || error == Errc::corrupt_object || (error == Errc::io_error && error.sys == 0);
}

// All bytes or an error; a file that ends early is io_error with sys 0.
Result<void> read_fully(File& file, MutableBytes into, uint64_t offset);
Result<void> write_fully(File& file, Bytes from, uint64_t offset);

// Writes a small file so that a crash leaves the old one or the new one, whole.
Result<void> replace_file(FileSystem& fs, const FileSystem::Path& path, std::string_view content);
Result<std::string> read_small_file(FileSystem& fs, const FileSystem::Path& path, size_t size_max);

}  // namespace verbena::store::local
