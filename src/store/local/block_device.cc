#include "store/local/block_device.h"

#include <fcntl.h>
#include <linux/blkzoned.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fd.h"

namespace verbena::store::local {
namespace {

std::unexpected<Error> device_error(const char* context, int code) {
  const bool cannot = code == EOPNOTSUPP || code == ENOSYS || code == ENOTTY;
  return fail(cannot ? Errc::unsupported : code == ENOSPC ? Errc::insufficient_storage : Errc::io_error, context, code);
}

class BlockDevice final : public File {
 public:
  BlockDevice(Fd fd, uint64_t size, bool direct) : fd_(std::move(fd)), size_(size), direct_(direct) {}

  Result<size_t> pread(MutableBytes into, uint64_t offset) override {
    for (;;) {
      const ssize_t n = ::pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(offset));
      if (n >= 0) return static_cast<size_t>(n);
      if (errno != EINTR) return device_error("device: pread", errno);
    }
  }
  Result<size_t> pwrite(Bytes from, uint64_t offset) override {
    for (;;) {
      const ssize_t n = ::pwrite(fd_.get(), from.data(), from.size(), static_cast<off_t>(offset));
      if (n >= 0) return static_cast<size_t>(n);
      if (errno != EINTR) return device_error("device: pwrite", errno);
    }
  }
  Result<void> datasync() override {
    if (::fdatasync(fd_.get()) != 0) return device_error("device: fdatasync", errno);
    return {};
  }
  Result<void> allocate(uint64_t, uint64_t) override { return {}; }
  Result<void> punch(uint64_t offset, uint64_t length) override {
    uint64_t range[2] = {offset, length};
    if (::ioctl(fd_.get(), BLKDISCARD, range) != 0) return device_error("device: discard", errno);
    return {};
  }
  Result<void> truncate(uint64_t) override { return fail(Errc::unsupported, "device: truncate"); }
  Result<FileStat> stat() override { return FileStat{size_, size_, 0}; }
  bool direct() const override { return direct_; }
  int ring_descriptor() const override { return direct_ ? fd_.get() : -1; }

 private:
  const Fd fd_;
  const uint64_t size_;
  const bool direct_;
};

std::unexpected<Error> refuse_device(std::string& trouble, const std::filesystem::path& path, const std::string& why,
                                     int code = 0) {
  trouble = path.string() + " " + why;
  return code == 0 ? fail(Errc::unsupported, "device") : device_error("device: open", code);
}

std::string why_not_opened(int code) {
  switch (code) {
    case ENOENT:
    case ENXIO:
    case ENODEV:
      return "is missing. Is the disk attached, or the fabric's namespace connected?";
    case EBUSY:
      return "is in use: mounted, part of a RAID or volume group, swap, or open in another server";
    case EACCES:
    case EPERM:
      return "may not be opened by this user: " + std::string(std::strerror(code));
    case EROFS:
      return "can only be read";
    default:
      return std::string("cannot be opened: ") + std::strerror(code);
  }
}

// Empty: volumes can be there.
std::string why_unfit(int fd) {
  uint32_t zone_sectors = 0;
  if (::ioctl(fd, BLKGETZONESZ, &zone_sectors) == 0 && zone_sectors != 0) {
    return "is a zoned device: its zones are written from begin to end alone, and volumes are written in place";
  }
  int logical = 0;
  if (::ioctl(fd, BLKSSZGET, &logical) != 0 || logical <= 0) return "does not tell the size of its blocks";
  if (static_cast<uint64_t>(logical) > disk_alignment) {
    return "has blocks of " + std::to_string(logical) + " bytes, and volumes are written in blocks of 4096";
  }
  return "";
}

}  // namespace

Result<std::unique_ptr<File>> open_block_device(const std::filesystem::path& path, DeviceUse use,
                                                std::string& trouble) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) return refuse_device(trouble, path, why_not_opened(errno), errno);
  if (!S_ISBLK(found.st_mode)) return refuse_device(trouble, path, "is no block device");
  int flags = O_CLOEXEC | (use == DeviceUse::own ? O_RDWR | O_DIRECT : O_RDONLY);
  // Of a block device, without O_CREAT: refused while it is mounted, or another holder has opened it so.
  if (use != DeviceUse::look) flags |= O_EXCL;
  Fd fd(::open(path.c_str(), flags));
  if (!fd) return refuse_device(trouble, path, why_not_opened(errno), errno);
  // The lock also keeps udev from probing the device, and closing it after a write.
  if (use == DeviceUse::own && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return refuse_device(trouble, path, "is locked by another program", errno);
  }
  int read_only = 0;
  if (use == DeviceUse::own && ::ioctl(fd.get(), BLKROGET, &read_only) == 0 && read_only != 0) {
    return refuse_device(trouble, path, "can only be read");
  }
  if (const std::string why = why_unfit(fd.get()); !why.empty()) return refuse_device(trouble, path, why);
  uint64_t size = 0;
  if (::ioctl(fd.get(), BLKGETSIZE64, &size) != 0) return refuse_device(trouble, path, "does not tell its size", errno);
  return std::make_unique<BlockDevice>(std::move(fd), size, use == DeviceUse::own);
}

}  // namespace verbena::store::local
