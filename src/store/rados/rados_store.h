// The engine over Ceph's RADOS: any number of servers over one cluster, each of which serves every key. Rows are stored
// in tablets, objects with an ordered omap in a replicated pool; bytes in stripes, objects in a pool that may be
// erasure-coded. README.md describes the whole, layout.h the layout.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "store/logic/engine_store.h"
#include "store/shared_keys.h"

namespace verbena::store::rados {

struct Options {
  std::string conf, user = "admin", pool, index_pool, name_space;  // as in ClusterOptions
  std::chrono::seconds timeout{10};
  uint64_t split_rows = 100'000;               // rows beyond which a tablet is split
  bool read_leases = false;                    // serve frequently read keys from memory (read_leases.h)
  std::chrono::milliseconds lease_rest{1000};  // time without a lease on a key after another server changed it
  // Time after which a bucket change without a reported end is revoked (coherence/in_flight_changes.h).
  std::chrono::milliseconds intent_lasts{30'000};
  // Time for which all servers have known a new format before it is used (rows/formats.h).
  std::chrono::milliseconds format_rest{600'000};
  bool whole_only = false;         // fails to open if the rows of a bucket are lost: for copying the store
  memory::Arena* arena = nullptr;  // memory for reads; must outlive the store
  const WallClock* clock = &system_clock();
  // Called when another server changes a bucket or one of its documents: before the change is made, and again before it
  // is acknowledged. Empty: perhaps any bucket.
  std::function<void(std::string_view bucket)> on_change = [](std::string_view) {};
  // Called when a server (also this one) has replaced the shared accounts, before that is acknowledged, and whenever
  // everything is reloaded. False: nothing may be served from memory.
  std::function<bool(const std::optional<std::string>&)> on_accounts = [](const auto&) { return true; };
  // Likewise with the shared texts about the master keys: the ids, and the sealed keys. Empty: they are not read.
  using TakeKeys = std::function<void(const std::optional<std::string>&, const std::optional<std::string>&)>;
  TakeKeys on_keys;
};

// The result of a survey. In a store with concurrent writes, bytes that no row names may belong to writes in progress.
struct Survey {
  uint64_t buckets = 0, tablets = 0, objects = 0, versions = 0, parts = 0;
  uint64_t small_blobs = 0, small_bytes = 0;  // stored with the rows
  uint64_t stripes = 0, stripe_bytes = 0;     // in the data pool
  uint64_t waiting_blobs = 0;                 // waiting to be removed
  uint64_t lost_count = 0, unnamed_stripes = 0;
  std::vector<std::string> lost;  // rows without bytes, the first hundred: bucket/key
};

class Engine;

class RadosStore final : public EngineStore, public SharedKeys {
 public:
  // Blocks. The error is a sentence for users.
  static std::expected<std::unique_ptr<RadosStore>, std::string> connect(const Options& options);
  ~RadosStore() override;

  Task<Result<std::vector<BucketInfo>>> buckets() override;
  Task<Result<std::vector<BucketInfo>>> buckets_of(OwnersBuckets which) override;
  Result<UsageNow> usage_now(std::string_view bucket) override;
  Task<Result<Usage>> bucket_usage(std::string_view bucket) override;
  Task<Result<void>> announce(std::string_view bucket, AnnouncementPtr announcement) override;
  Task<Result<std::vector<std::string>>> event_queues() override;
  Task<Result<std::vector<EventBacklog>>> event_backlog(std::string_view queue) override;
  Task<Result<std::vector<QueuedEvent>>> events(std::string_view queue, uint64_t bucket, uint64_t after,
                                                size_t events_max, size_t bytes_max) override;
  Task<Result<void>> remove_events(std::string_view queue, uint64_t bucket, std::vector<uint64_t> ids) override;
  Task<Result<std::vector<EndedKey>>> ended(size_t max, const EndedKey* after) override;
  Task<Result<void>> forget_end(EndedKey ended) override;
  Task<Result<ObjectInfo>> rename(std::string_view bucket, RenameRequest request) override;

  Task<Result<std::shared_ptr<ObjectReader>>> open_unless(std::string_view bucket, std::string_view key,
                                                          uint64_t stamp) override;
  uint64_t term() const override;
  void keep(std::string_view bucket, std::string_view key, uint64_t stamp,
            std::function<void(uint64_t term)> kept) override;
  void listen(Listener* listener) override;

  // The leader's term number (LeaderLease::term); 0: another server is the leader. Check before each action of a job
  // that only one server may do (lifecycle rules, delivery of events).
  uint64_t leader_term() const;

  // Whether state of the bucket and its documents may be cached until on_change(): no change is in flight.
  bool may_keep(std::string_view bucket) const;

  // A text shared by all servers. These block, and must not be called by on_accounts. False: the text is not `before`.
  Result<std::optional<std::string>> read_accounts();
  Result<bool> replace_accounts(const std::optional<std::string>& before, const std::string& text);

  // Likewise: the ids of the master keys, and those keys, sealed. A replacement returns when every server has read it.
  Result<std::optional<std::string>> read_key_ids();
  Result<bool> replace_key_ids(const std::optional<std::string>& before, const std::string& text);
  Result<std::optional<std::string>> read_sealed_keys();
  Result<bool> replace_sealed_keys(const std::optional<std::string>& before, const std::string& text);

  // Blocks, and reads every row and the name of every stripe (inspect/survey.cc).
  Result<Survey> survey();
  // Waits until removed bytes are gone, except those that a reader of this process has open.
  bool settled() const;
  // Calls to the cluster so far.
  uint64_t calls() const;

 private:
  explicit RadosStore(std::shared_ptr<Engine> engine);
  std::shared_ptr<Engine> engine_;
};

}  // namespace verbena::store::rados
