#include "server/session_limits.h"

#include <unistd.h>

#include <algorithm>

namespace verbena::server {

namespace {

// Of an idle session, measured by bench/scale.py --only connections (docs/scaling.md) and rounded up.
constexpr uint64_t memory_per_link = 24 * KiB;
constexpr uint64_t files_per_link = 1;  // plus a set of doorbells per 64 same-host sessions
constexpr uint64_t memory_part = 16, files_part = 4;
constexpr uint64_t fewest = 16, most = 1'000'000;

}  // namespace

uint64_t machine_memory() {
  const auto pages = std::max<int64_t>(::sysconf(_SC_PHYS_PAGES), 0);
  const auto page_size = std::max<int64_t>(::sysconf(_SC_PAGESIZE), 0);
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_size);
}

void settle_session_limits(Config::Rdma& rdma, const SessionRoom& room) {
  const uint64_t links = std::max(room.cores, 1u);
  const uint64_t fit = std::min(room.memory / memory_part / (memory_per_link * links),
                                room.files / files_part / (files_per_link * links));
  if (!rdma.sessions_max) rdma.sessions_max = std::clamp(fit, fewest, most);
  const uint64_t half = (*rdma.sessions_max + 1) / 2;
  if (!rdma.sessions_per_account_max) rdma.sessions_per_account_max = half;
  if (!rdma.sessions_per_client_max) rdma.sessions_per_client_max = half;
}

}  // namespace verbena::server
