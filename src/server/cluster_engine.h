// An engine that several servers share, as a server opens it. Which one that may be is the program's to say: the one
// over Ceph is in a program of its own (cli/hand_over.h).
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
  std::unique_ptr<auth::SharedText> accounts;  // of all servers; lives no longer than the store
  std::unique_ptr<auth::SharedText> key_ids;   // likewise: of the master keys that they have used
  store::ChangeFeeds* feeds = nullptr;         // these are the store's, too
  store::SharedKeys* shared_keys = nullptr;
  std::function<bool(std::string_view bucket)> may_keep;  // what is read of its documents, until on_change()
  // What is done once in the cluster is done here: the number of this server's time on duty; 0: another one does it.
  std::function<uint64_t()> on_duty;
};

// What a server is told by others, on a thread of the engine's. Each runs before the change is acknowledged.
struct ClusterListener {
  std::function<void()> on_change;  // of a bucket or one of its documents; one that is about to come, too
  std::function<bool(const std::optional<std::string>&)> on_accounts;  // false: they were not taken
};

// Blocks. The error is a sentence for people.
using OpenCluster = std::expected<ClusterEngine, std::string> (*)(const Config& config, memory::Arena& arena,
                                                                  ClusterListener listener);

}  // namespace verbena::server
