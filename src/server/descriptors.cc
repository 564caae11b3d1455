#include "server/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

#include "server/session_limits.h"

namespace verbena::server {
namespace {

constexpr size_t own_files = 64, own_files_of_core = 16;  // logs, locks, libraries; listeners, rings, fabrics
constexpr size_t store_least = 64, store_good = 2048, store_most = 8192;

size_t left_beside(size_t store, size_t files, unsigned cores) {
  const size_t own = store + own_files + cores * own_files_of_core;
  return files > own ? files - own : 0;
}

// A session has a connection to each core, and same-host sessions have a set of doorbells per 64.
uint64_t files_of(uint64_t sessions, unsigned cores) { return cores * (sessions + sessions / 64 + 1); }

// `sessions`: the number of sessions with an explicit limit.
uint64_t promised(const Config& config, const Descriptors& shares, unsigned cores, uint64_t sessions) {
  const bool asks = !config.sign_in.certificates.ca_file.empty();
  const uint64_t http = config.http.connections_max + shares.admin + (asks ? shares.certificates : 0);
  if (!config.rdma.enabled) return http;
  return http + config.rdma.connections_max + cores * shares.arrivals + files_of(sessions, cores);
}

void lower(uint64_t& limit, uint64_t left, uint64_t wanted) {
  if (limit != 0) limit = std::max<uint64_t>(limit * left / wanted, 1);  // 0: no limit
}

}  // namespace

Descriptors share_out(size_t files, unsigned cores, Config& config) {
  Descriptors shares;
  const uint64_t sessions = config.rdma.sessions_max.value_or(0);
  settle_session_limits(config.rdma, {machine_memory(), files, cores});
  // `auto` limits have been fitted to the files already: they are reserved.
  const bool fitted = sessions == 0;
  if (fitted && config.rdma.enabled) files -= std::min<size_t>(files, files_of(*config.rdma.sessions_max, cores));
  const uint64_t wanted = promised(config, shares, cores, sessions);
  shares.store = std::clamp(files / 2, store_least, store_most);
  // The store can work with fewer, by opening files again and again.
  if (left_beside(shares.store, files, cores) < wanted) {
    shares.store = std::max(std::min(shares.store, store_good), files / 5);
  }
  const size_t left = left_beside(shares.store, files, cores);
  shares.enough = left >= wanted;
  if (shares.enough) return shares;
  auto& rdma = config.rdma;
  for (uint64_t* limit : {&config.http.connections_max, &config.http.connections_per_client_max, &rdma.connections_max,
                          &rdma.connections_per_client_max, &shares.admin, &shares.admin_each, &shares.arrivals,
                          &shares.certificates, &shares.certificates_each}) {
    lower(*limit, left, wanted);
  }
  if (fitted) return shares;
  for (auto* limit : {&rdma.sessions_max, &rdma.sessions_per_account_max, &rdma.sessions_per_client_max}) {
    lower(**limit, left, wanted);
  }
  return shares;
}

size_t open_files_max() {
  rlimit files{};
  return ::getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : 1024;
}

}  // namespace verbena::server
