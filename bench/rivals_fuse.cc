// The least file system that FUSE allows, for rivals.py: one file, "large". With PROVIDER none its bytes cost nothing
// but FUSE; with verbs or tcp they are read from the object "large" of BUCKET over the native door, and while reads
// come in order the next pieces are on their way: what a mount would do, for the one file that is measured. usage:
// rivals_fuse PROVIDER BUCKET SIZE MOUNT_POINT [options of libfuse]
#define FUSE_USE_VERSION 31
#include <fuse.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>

#include "rivals_client.h"

namespace {

constexpr size_t request_max = 1u << 20;
constexpr unsigned depth = 4;
constexpr uint64_t none = UINT64_MAX;

uint64_t size_of_it = 0;

void* begin(fuse_conn_info* connection, fuse_config* config) {
  connection->max_read = request_max;  // as the option max_read of the mount, which it must repeat
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

// The object: one file handle's view of it, as all that is measured is one caller's.
class Remote {
 public:
  Remote(const std::string& provider, std::string bucket)
      : bucket_(std::move(bucket)),
        client_(rivals::connect(provider)),
        memory_(rivals::must(client_.allocate(request_max), "allocate")),
        ahead_(client_, bucket_, depth, request_max, size_of_it) {}

  void read(char* into, size_t size, uint64_t offset) {
    const std::lock_guard lock(lock_);
    const bool whole = size == request_max && offset % request_max == 0, in_order = whole && offset == next_;
    if (whole && !in_order) ahead_.seek(offset + size);
    next_ = whole ? offset + size : none;
    std::memcpy(into, in_order ? ahead_.next().data() : get(size, offset), size);
  }

 private:
  const std::byte* get(size_t size, uint64_t offset) {
    const verbena::GetOptions options{.range = verbena::Range{offset, size}};
    const auto got = client_.get(bucket_, "large", memory_.slice(0, size), options);
    if (rivals::must(got, "get").bytes != size) rivals::fail("a short read");
    return memory_.data();
  }

  std::string bucket_;
  verbena::Client client_;
  verbena::Buffer memory_;
  rivals::ReadAhead ahead_;
  std::mutex lock_;
  uint64_t next_ = none;  // where a read in order begins
};

std::unique_ptr<Remote> remote;

int read_remote(const char*, char* into, size_t size, off_t offset, fuse_file_info*) {
  const uint64_t at = static_cast<uint64_t>(offset), end = std::min(at + size, size_of_it);
  if (at >= end) return 0;
  remote->read(into, end - at, at);
  return static_cast<int>(end - at);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  size_of_it = std::strtoull(argv[3], nullptr, 10);
  const std::string_view provider = argv[1];
  if (provider != "none") remote = std::make_unique<Remote>(argv[1], argv[2]);
  fuse_operations operations{};
  operations.init = begin;
  operations.getattr = attributes;
  operations.open = open_direct;
  operations.read = remote ? read_remote : read_numbers;
  argv[3] = argv[0];
  const int status = fuse_main(argc - 3, argv + 3, &operations, nullptr);
  remote.reset();
  return status;
}
