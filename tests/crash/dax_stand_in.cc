// Preloaded into a server where no DAX file system is: a mapping with MAP_SYNC is a plain shared one. The page cache
// keeps what a process that is killed has written, so this stands in for persistent memory where processes are killed,
// and never where the power is cut.
#include <dlfcn.h>
#include <sys/mman.h>

#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 0x03
#endif
#ifndef MAP_SYNC
#define MAP_SYNC 0x80000
#endif

extern "C" void* mmap(void* at, size_t length, int protection, int flags, int fd, off_t offset) noexcept {
  using Map = void* (*)(void*, size_t, int, int, int, off_t);
  static const auto next = reinterpret_cast<Map>(::dlsym(RTLD_NEXT, "mmap"));
  constexpr int durable = MAP_SHARED_VALIDATE | MAP_SYNC;
  if ((flags & durable) == durable) flags = (flags & ~durable) | MAP_SHARED;
  return next(at, length, protection, flags, fd, offset);
}
