// The least file system that FUSE allows, for rivals.py: one file of zeros, "large", whose reads cost nothing but FUSE.
// usage: rivals_fuse SIZE MOUNT_POINT [options of libfuse]
#define FUSE_USE_VERSION 31
#include <fuse.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

uint64_t size_of_it = 0;

void* begin(fuse_conn_info* connection, fuse_config* config) {
  connection->max_read = 1u << 20;  // as the option max_read of the mount, which it must repeat
  config->entry_timeout = config->attr_timeout = 60;
  return nullptr;
}

int attributes(const char* path, struct stat* out, fuse_file_info*) {
  *out = {};
  if (std::strcmp(path, "/") == 0) {
    out->st_mode = S_IFDIR | 0755;
    out->st_nlink = 2;
    return 0;
  }
  if (std::strcmp(path, "/large") != 0) return -ENOENT;
  out->st_mode = S_IFREG | 0444;
  out->st_nlink = 1;
  out->st_size = static_cast<off_t>(size_of_it);
  return 0;
}

int open_direct(const char*, fuse_file_info* info) {
  info->direct_io = 1;
  return 0;
}

// The block's number at its begin, as rivals_load checks it; nothing else is written.
int read_numbers(const char*, char* into, size_t size, off_t offset, fuse_file_info*) {
  const uint64_t at = static_cast<uint64_t>(offset), end = std::min(at + size, size_of_it);
  for (uint64_t block = (at + 4095) / 4096; block * 4096 < end; ++block)
    std::memcpy(into + (block * 4096 - at), &block, sizeof block);
  return at < end ? static_cast<int>(end - at) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  size_of_it = std::strtoull(argv[1], nullptr, 10);
  fuse_operations operations{};
  operations.init = begin;
  operations.getattr = attributes;
  operations.open = open_direct;
  operations.read = read_numbers;
  argv[1] = argv[0];
  return fuse_main(argc - 1, argv + 1, &operations, nullptr);
}
