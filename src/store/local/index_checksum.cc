#include "store/local/index_checksum.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

#include "base/checksum.h"

namespace rocksdb::crc32c {

// util/crc32c.h of RocksDB: extends the CRC `crc` over `data`. Weak: a statically linked RocksDB has its own.
__attribute__((weak, visibility("default"))) uint32_t Extend(uint32_t crc, const char* data, size_t size) {
  return verbena::crc32c(verbena::Bytes(reinterpret_cast<const std::byte*>(data), size), crc);
}

}  // namespace rocksdb::crc32c

namespace verbena::store::local {

bool lends_checksum() {
  constexpr const char* name = "_ZN7rocksdb6crc32c6ExtendEjPKcm";
  return dlsym(RTLD_DEFAULT, name) == reinterpret_cast<void*>(&rocksdb::crc32c::Extend) &&
         dlsym(RTLD_NEXT, name) != nullptr;
}

}  // namespace verbena::store::local
