// The file system of the data: ext4 with fast_commit loses what fdatasync has returned for (docs/reliability.md).
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>

#include "admin/doctor.h"

namespace verbena::admin {
namespace {

namespace fs = std::filesystem;

constexpr long ext4_type = 0xEF53;  // statfs: also ext2's and ext3's
constexpr off_t superblock_at = 1024;
// In the superblock, little-endian: s_magic, s_feature_compat (Documentation/filesystems/ext4/super.rst).
constexpr size_t magic_at = 0x38, compat_at = 0x5C;
constexpr unsigned fast_commit = 0x400;

enum class FastCommit : uint8_t { off, on, unknown };

FastCommit fast_commit_of(const fs::path& device) {
  const int fd = ::open(device.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FastCommit::unknown;
  std::array<unsigned char, 1024> block{};
  const bool read = ::pread(fd, block.data(), block.size(), superblock_at) == static_cast<ssize_t>(block.size());
  ::close(fd);
  const auto two = [&](size_t at) { return block[at] | static_cast<unsigned>(block[at + 1]) << 8; };
  if (!read || two(magic_at) != ext4_type) return FastCommit::unknown;
  return (two(compat_at) & fast_commit) != 0 ? FastCommit::on : FastCommit::off;
}

}  // namespace

Finding judge_ext4(const fs::path& device) {
  Finding out{Health::ok, "file system of the data", {}, {}};
  switch (fast_commit_of(device)) {
    case FastCommit::off:
      out.found = fmt::format("ext4 on {}, without fast_commit", device.string());
      return out;
    case FastCommit::unknown:
      out.found = fmt::format("ext4 on {}: whether it has fast_commit cannot be told", device.string());
      out.mend =
          fmt::format("as root: dumpe2fs -h {} | grep fast_commit prints nothing if it has not", device.string());
      return out;
    case FastCommit::on:
      break;
  }
  out.health = Health::warn;
  out.found = fmt::format("ext4 on {} with fast_commit", device.string());
  out.mend =
      "after a power loss such a file system may lack what was synced, or not mount: unmount it, then tune2fs -O "
      "^fast_commit " +
      device.string();
  return out;
}

Findings check_file_system(const MachineRoots& roots, const fs::path& data) {
  struct statfs type{};
  struct stat found{};
  if (::statfs(data.c_str(), &type) != 0 || type.f_type != ext4_type) return {};
  if (::stat(data.c_str(), &found) != 0) return {};
  const std::string number = fmt::format("{}:{}", major(found.st_dev), minor(found.st_dev));
  std::error_code ec;
  const fs::path block = fs::canonical(roots.sys / "dev/block" / number, ec);  // ends with the device's name
  return {judge_ext4(ec ? roots.dev / "block" / number : roots.dev / block.filename())};
}

}  // namespace verbena::admin
