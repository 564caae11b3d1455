// What is on a device, by libblkid. The library belongs to every Debian system (mount and mkfs use it), and knows what
// was added to file systems, RAID and volume managers last year; it is loaded for this one question, so that no other
// command waits for it.
#include <dlfcn.h>
#include <fcntl.h>

#include <utility>

#include "base/fd.h"
#include "store/local/block_device.h"

namespace verbena::store::local {
namespace {

// As blkid/blkid.h has them. A probe is opaque.
struct Blkid {
  void* (*new_probe)();
  void (*free_probe)(void*);
  int (*set_device)(void*, int fd, int64_t offset, int64_t size);
  int (*enable_superblocks)(void*, int);
  int (*set_superblocks_flags)(void*, int);
  int (*enable_partitions)(void*, int);
  int (*do_probe)(void*);
  int (*lookup_value)(void*, const char* name, const char** data, size_t* length);
};
constexpr int subblks_type = 1 << 5, subblks_usage = 1 << 7;  // BLKID_SUBLKS_TYPE, BLKID_SUBLKS_USAGE
constexpr int found_one = 0, found_none = 1;

template <class Function>
bool find_symbol(void* library, const char* name, Function& into) {
  into = reinterpret_cast<Function>(::dlsym(library, name));
  return into != nullptr;
}

bool load_blkid(Blkid& to) {
  void* const l = ::dlopen("libblkid.so.1", RTLD_NOW | RTLD_LOCAL);
  return l != nullptr && find_symbol(l, "blkid_new_probe", to.new_probe) &&
         find_symbol(l, "blkid_free_probe", to.free_probe) && find_symbol(l, "blkid_probe_set_device", to.set_device) &&
         find_symbol(l, "blkid_probe_enable_superblocks", to.enable_superblocks) &&
         find_symbol(l, "blkid_probe_set_superblocks_flags", to.set_superblocks_flags) &&
         find_symbol(l, "blkid_probe_enable_partitions", to.enable_partitions) &&
         find_symbol(l, "blkid_do_probe", to.do_probe) && find_symbol(l, "blkid_probe_lookup_value", to.lookup_value);
}

std::string value_of(const Blkid& blkid, void* probe, const char* name) {
  const char* data = nullptr;
  size_t length = 0;
  if (blkid.lookup_value(probe, name, &data, &length) != 0 || data == nullptr || length == 0) return "";
  return std::string(data, length - 1);  // it ends with a zero
}

// One of the two is there.
std::string describe_found(const Blkid& blkid, void* probe) {
  const std::string type = value_of(blkid, probe, "TYPE"), usage = value_of(blkid, probe, "USAGE");
  if (type.empty()) return "a " + value_of(blkid, probe, "PTTYPE") + " partition table";
  const std::string kind = usage == "filesystem" ? "a file system"
                           : usage == "raid"     ? "part of a RAID or volume group"
                           : usage == "crypto"   ? "an encrypted device"
                                                 : "a known signature";
  return type + " (" + kind + ")";
}

}  // namespace

// It is opened a second time: libblkid's reads are of any place and length, which direct I/O refuses, and a name may
// have become another device's since the first time.
std::expected<std::string, std::string> foreign_contents(int fd) {
  Blkid blkid{};
  if (!load_blkid(blkid)) return std::unexpected("libblkid.so.1 (package libblkid1) cannot be loaded");
  const std::string same = "/proc/self/fd/" + std::to_string(fd);
  const Fd again(::open(same.c_str(), O_RDONLY | O_CLOEXEC));
  if (!again) return std::unexpected("it cannot be opened a second time (" + same + ")");
  void* const probe = blkid.new_probe();
  if (probe == nullptr) return std::unexpected("libblkid has no memory");
  std::expected<std::string, std::string> answer = std::unexpected("it cannot be read whole");
  if (blkid.set_device(probe, again.get(), 0, 0) == 0) {
    blkid.enable_superblocks(probe, 1);
    blkid.set_superblocks_flags(probe, subblks_type | subblks_usage);
    blkid.enable_partitions(probe, 1);
    const int found = blkid.do_probe(probe);
    if (found == found_none) answer = "";
    if (found == found_one) answer = describe_found(blkid, probe);
  }
  blkid.free_probe(probe);
  return answer;
}

}  // namespace verbena::store::local
