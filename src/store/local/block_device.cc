#include "store/local/block_device.h"

#include <fcntl.h>
#include <linux/blkzoned.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/fd.h"

namespace verbena::store::local {
namespace {

std::unexpected<Error> device_error(const char* context, int code) {
  const bool cannot = code == EOPNOTSUPP || code == ENOSYS || code == ENOTTY;
  return fail(cannot ? Errc::unsupported : code == ENOSPC ? Errc::insufficient_storage : Errc::io_error, context, code);
}

class KernelBlockDevice final : public BlockDevice {
 public:
  KernelBlockDevice(Fd fd, Fd disk, bool direct) : fd_(std::move(fd)), disk_(std::move(disk)), direct_(direct) {}

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
  // Asked each time: a device may become smaller while it is open.
  Result<FileStat> stat() override {
    uint64_t size = 0;
    if (::ioctl(fd_.get(), BLKGETSIZE64, &size) != 0) return device_error("device: size", errno);
    return FileStat{size, size, 0};
  }
  bool direct() const override { return direct_; }
  int ring_descriptor() const override { return direct_ ? fd_.get() : -1; }
  std::expected<std::string, std::string> foreign_contents() override { return local::foreign_contents(fd_.get()); }
  void read_partitions_again() override { (void)::ioctl(fd_.get(), BLKRRPART); }

 private:
  const Fd fd_;
  const Fd disk_;  // of a partition: the whole one, for its lock
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

// The whole disk of a partition; none: it is no partition, or may not be opened.
Fd open_whole_disk(dev_t device) {
  const std::string number = std::to_string(major(device)) + ":" + std::to_string(minor(device));
  const std::filesystem::path here = "/sys/dev/block/" + number;
  std::error_code unknown;
  if (!std::filesystem::exists(here / "partition", unknown)) return {};
  const auto disk = std::filesystem::canonical(here, unknown).parent_path();
  if (unknown) return {};
  return Fd(::open(("/dev" / disk.filename()).c_str(), O_RDONLY | O_CLOEXEC));
}

constexpr std::chrono::seconds lock_wait{10};

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

bool lock_within(int fd, int operation, std::chrono::milliseconds time) {
  constexpr std::chrono::milliseconds rest{50};
  const auto until = std::chrono::steady_clock::now() + time;
  while (::flock(fd, operation | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    if (std::chrono::steady_clock::now() >= until) {
      errno = EWOULDBLOCK;
      return false;
    }
    std::this_thread::sleep_for(rest);
  }
  return true;
}

Result<std::unique_ptr<BlockDevice>> open_block_device(const std::filesystem::path& path, DeviceUse use,
                                                       std::string& trouble) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) return refuse_device(trouble, path, why_not_opened(errno), errno);
  if (!S_ISBLK(found.st_mode)) return refuse_device(trouble, path, "is no block device");
  int flags = O_CLOEXEC | (use == DeviceUse::own ? O_RDWR | O_DIRECT : O_RDONLY);
  // Of a block device, without O_CREAT: refused while it is mounted, or another holder has opened it so.
  if (use != DeviceUse::look) flags |= O_EXCL;
  Fd fd(::open(path.c_str(), flags));
  if (!fd) return refuse_device(trouble, path, why_not_opened(errno), errno);
  // The name may have become another file's since.
  if (::fstat(fd.get(), &found) != 0 || !S_ISBLK(found.st_mode))
    return refuse_device(trouble, path, "is no block device");
  // The lock keeps udev from probing the device, which it does when a writer has closed it: for that it is waited. Of a
  // partition's disk the lock is shared, since other servers may have the other partitions; it tells programs that
  // change the disk's partitions.
  if (use == DeviceUse::own && !lock_within(fd.get(), LOCK_EX, lock_wait)) {
    return refuse_device(trouble, path, "is locked by another program", errno);
  }
  Fd disk = use == DeviceUse::own ? open_whole_disk(found.st_rdev) : Fd();
  if (disk && !lock_within(disk.get(), LOCK_SH, lock_wait)) {
    return refuse_device(trouble, path, "is on a disk that another program has locked", errno);
  }
  int read_only = 0;
  if (use == DeviceUse::own && ::ioctl(fd.get(), BLKROGET, &read_only) == 0 && read_only != 0) {
    return refuse_device(trouble, path, "can only be read");
  }
  if (const std::string why = why_unfit(fd.get()); !why.empty()) return refuse_device(trouble, path, why);
  auto device = std::make_unique<KernelBlockDevice>(std::move(fd), std::move(disk), use == DeviceUse::own);
  if (const auto stat = device->stat(); !stat) {
    return refuse_device(trouble, path, "does not tell its size", stat.error().sys);
  }
  return device;
}

}  // namespace verbena::store::local
