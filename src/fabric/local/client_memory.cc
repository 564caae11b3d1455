#include "fabric/local/client_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "fabric/local/disposer.h"

namespace verbena::fabric::local {

namespace {

// The order matters: the memory file system itself answers queries for seals, while fstat() of another file may ask a
// FUSE process. And only memfds have these seals (a file on a tmpfs mount starts out sealed against seals).
Result<void> check(int fd, uint64_t size) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return fail(Errc::invalid_argument, "local: shared descriptor is no memfd", errno);
  constexpr int wanted = F_SEAL_SHRINK | F_SEAL_GROW;
  if ((seals & wanted) != wanted) return fail(Errc::invalid_argument, "local: shared memfd lacks its seals");
  struct statfs system{};
  if (::fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC) {
    return fail(Errc::invalid_argument, "local: shared memfd is not of ordinary pages");
  }
  struct stat status{};
  if (::fstat(fd, &status) != 0) return fail(Errc::invalid_argument, "local: shared memfd: fstat", errno);
  if (size == 0 || size % 4096 != 0 || static_cast<uint64_t>(status.st_size) != size) {
    return fail(Errc::invalid_argument, "local: shared memfd has another size");
  }
  if (static_cast<uint64_t>(status.st_blocks) * 512 < size) {
    return fail(Errc::invalid_argument, "local: shared memfd has holes");
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<ClientMemory>> ClientMemory::map(Fd fd, uint64_t size, const MemoryBudgets& budgets) {
  if (auto checked = check(fd.get(), size); !checked) {
    dispose(std::move(fd));
    return std::unexpected(checked.error());
  }
  const Share shares[] = {{budgets.peer_count, 1, "local: too many shared memfds"},
                          {budgets.peer_bytes, size, "local: too much shared memory of one client"},
                          {budgets.port_bytes, size, "local: too much shared memory of all clients"},
                          {budgets.user_mappings, 1, "local: too many mappings of one user"},
                          {mapping_shares().all(), 1, "local: too many mappings of all clients"}};
  auto taken = take_all(shares);
  if (!taken) {
    dispose(std::move(fd));  // its pages may be freed with it
    return std::unexpected(taken.error());
  }
  // Populated here, off the core's thread, so that no request pays for page faults.
  void* base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  if (base == MAP_FAILED) {
    return fail(errno == EPERM ? Errc::invalid_argument : Errc::out_of_memory, "local: map shared memfd", errno);
  }
  std::shared_ptr<ClientMemory> memory(new ClientMemory(Mapping(base, size), std::move(*taken)));
  ::madvise(base, size, MADV_DONTDUMP);  // the client's bytes must not be in the server's core file
  return memory;
}

ClientMemory::~ClientMemory() { dispose(std::move(mapping_), std::move(taken_), std::move(on_unmapped_)); }

}  // namespace verbena::fabric::local
