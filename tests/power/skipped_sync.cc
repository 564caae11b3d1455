// Preloaded into a server: syncs of files whose path contains SKIPPED_SYNC are answered and not done. A planted fault
// for tests/power/cuts.py, which must find it.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool skipped(int fd) {
  static const char* const wanted = std::getenv("SKIPPED_SYNC");
  if (wanted == nullptr) return false;
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = ::readlink(link, path, sizeof path - 1);
  if (n <= 0) return false;
  path[n] = '\0';
  // A name that ends in $ is a path's end: a directory itself, not the files in it.
  size_t length = std::strlen(wanted);
  if (wanted[length - 1] != '$') return std::strstr(path, wanted) != nullptr;
  size_t end = length - 1, size = static_cast<size_t>(n);
  return size >= end && std::strncmp(path + size - end, wanted, end) == 0;
}

using Sync = int (*)(int);

int synced(const char* name, int fd) {
  if (skipped(fd)) return 0;
  return reinterpret_cast<Sync>(::dlsym(RTLD_NEXT, name))(fd);
}

}  // namespace

extern "C" int fsync(int fd) { return synced("fsync", fd); }
extern "C" int fdatasync(int fd) { return synced("fdatasync", fd); }
