// An engine that several servers share, in the form that a server opens. The program supplies it: the one over Ceph is
// in a program of its own (cli/exec_rados.h).
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "auth/identity_store.h"
#include "base/config.h"
#include "memory/arena.h"
#include "store/change_feed.h"
#include "store/shared_keys.h"
#include "store/store.h"

namespace verbena::server {

struct ClusterEngine {
  std::unique_ptr<store::Store> store;
  std::unique_ptr<auth::SharedText> accounts;     // of all servers; must not outlive the store
  std::unique_ptr<auth::SharedText> key_ids;      // likewise: ids of all master keys used
  std::unique_ptr<auth::SharedText> sealed_keys;  // likewise: these keys, for servers that have older ones
  store::ChangeFeeds* feeds = nullptr;            // owned by the store
  store::SharedKeys* shared_keys = nullptr;
  std::function<bool(std::string_view bucket)> may_keep;  // whether its documents may be cached, until on_change()
  // Leadership for tasks that are done once per cluster: the number of this server's current term; 0: another one is
  // the leader.
  std::function<uint64_t()> on_duty;
};

// Notifications from other servers, on a thread of the engine. Each runs before the change is acknowledged.
struct ClusterListener {
  // A change of a bucket or its documents, made or about to be made. Empty: perhaps of any bucket.
  std::function<void(std::string_view bucket)> on_change;
  std::function<bool(const std::optional<std::string>&)> on_accounts;  // false: they were not accepted
  // The texts of key_ids and sealed_keys.
  std::function<void(const std::optional<std::string>&, const std::optional<std::string>&)> on_keys;
};

// Blocks. The error is a sentence for operators.
using OpenCluster = std::expected<ClusterEngine, std::string> (*)(const Config& config, memory::Arena& arena,
                                                                  ClusterListener listener);

}  // namespace verbena::server
