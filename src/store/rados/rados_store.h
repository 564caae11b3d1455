// The engine over Ceph's RADOS: any number of servers over one cluster, every one of them serving every key. Rows lie
// in tablets, objects with an ordered omap in a replicated pool; bytes in stripes, objects in a pool that may be
// erasure-coded. README.md has the whole story, layout.h what lies where.
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
  std::string conf, user = "admin", pool, index_pool, name_space;  // as ClusterOptions'
  std::chrono::seconds timeout{10};
  uint64_t split_rows = 100'000;               // of a tablet that becomes two
  bool read_leases = false;                    // keys that are asked for often are answered from memory (read_leases.h)
  std::chrono::milliseconds lease_rest{1000};  // that a key is left alone after another server has changed it
  // After which a change of a bucket whose end is not announced is made impossible (coherence/in_flight_changes.h).
  std::chrono::milliseconds intent_lasts{30'000};
  bool whole_only = false;         // is not opened where the rows of a bucket are lost: for who copies it
  memory::Arena* arena = nullptr;  // reads are leased from it; outlives the store
  const WallClock* clock = &system_clock();
  // Another server is about to change a bucket or one of its documents, or has; runs before that change is made, and
  // before it is acknowledged.
  std::function<void()> on_change = [] {};
  // A server, this one too, has replaced the accounts that all share. Before that is acknowledged, and whenever all is
  // read anew; false: nothing may be answered from what is known.
  std::function<bool(const std::optional<std::string>&)> on_accounts = [](const auto&) { return true; };
};

// What a look at everything finds. Of a store that is written to meanwhile, bytes that no row names may be on their
// way.
struct Survey {
  uint64_t buckets = 0, tablets = 0, objects = 0, versions = 0, parts = 0;
  uint64_t small_blobs = 0, small_bytes = 0;  // with the rows
  uint64_t stripes = 0, stripe_bytes = 0;     // in the data pool
  uint64_t waiting_blobs = 0;                 // that are to be removed
  uint64_t lost_count = 0, unnamed_stripes = 0;
  std::vector<std::string> lost;  // rows without bytes, the first hundred: bucket/key
};

class Engine;

class RadosStore final : public EngineStore, public SharedKeys {
 public:
  // Blocks. The error is a sentence for people.
  static std::expected<std::unique_ptr<RadosStore>, std::string> connect(const Options& options);
  ~RadosStore() override;

  Task<Result<std::vector<BucketInfo>>> buckets() override;
  Result<UsageNow> usage_now(std::string_view bucket) override;
  Task<Result<Usage>> bucket_usage(std::string_view bucket) override;
  Task<Result<void>> announce(std::string_view bucket, AnnouncementPtr announcement) override;
  Task<Result<std::vector<std::string>>> event_queues() override;
  Task<Result<std::vector<EventBacklog>>> event_backlog(std::string_view queue) override;
  Task<Result<std::vector<QueuedEvent>>> events(std::string_view queue, uint64_t bucket, uint64_t after,
                                                size_t events_max, size_t bytes_max) override;
  Task<Result<void>> remove_events(std::string_view queue, uint64_t bucket, std::vector<uint64_t> ids) override;
  Task<Result<ObjectInfo>> rename(std::string_view bucket, RenameRequest request) override;

  Task<Result<std::shared_ptr<ObjectReader>>> open_unless(std::string_view bucket, std::string_view key,
                                                          uint64_t stamp) override;
  uint64_t term() const override;
  void keep(std::string_view bucket, std::string_view key, uint64_t stamp,
            std::function<void(uint64_t term)> kept) override;
  void listen(Listener* listener) override;

  // Whether this is the server that does what is done once for all (lifecycle rules, delivery of events): to be asked
  // before each act. The number of its term (LeaderLease::term); 0: another server is the leader.
  uint64_t leader_term() const;

  // What is read of the bucket and its documents may be cached until on_change(): it has no change in flight.
  bool may_keep(std::string_view bucket) const;

  // A text that all servers share. These block, and must not be called by on_accounts. False: it is not `before`.
  Result<std::optional<std::string>> read_accounts();
  Result<bool> replace_accounts(const std::optional<std::string>& before, const std::string& text);

  // Likewise, without a notice to the others: the ids of the servers' master keys.
  Result<std::optional<std::string>> read_key_ids();
  Result<bool> replace_key_ids(const std::optional<std::string>& before, const std::string& text);

  // Blocks, and looks at every row and the name of every stripe (inspect/survey.cc).
  Result<Survey> survey();
  // What was removed has gone, unless a reader of this process has it open.
  bool settled() const;
  // Calls to the cluster so far.
  uint64_t calls() const;

 private:
  explicit RadosStore(std::shared_ptr<Engine> engine);
  std::shared_ptr<Engine> engine_;
};

}  // namespace verbena::store::rados
