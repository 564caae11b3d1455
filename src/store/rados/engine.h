// The engine's parts and their wiring. Internal to store/rados.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/blocking.h"
#include "store/logic/context.h"
#include "store/logic/keys.h"
#include "store/rados/catalogue.h"
#include "store/rados/coherence/in_flight_changes.h"
#include "store/rados/coherence/late_calls.h"
#include "store/rados/coherence/read_leases.h"
#include "store/rados/members/invalidation_bus.h"
#include "store/rados/members/leader_lease.h"
#include "store/rados/rados_store.h"
#include "store/rados/rows/formats.h"
#include "store/rados/upkeep/joiner.h"

namespace verbena::store::rados {

class Engine final : public Context {
 public:
  Engine(const Options& options, std::unique_ptr<Cluster> connected);
  ~Engine() override;
  std::expected<void, std::string> open(memory::Arena& arena);
  void close();

  // Runs a task to its end on the engine's own thread. Blocks; not on that thread.
  template <class T>
  T run(Task<T> task) {
    return boost::asio::co_spawn(io, std::move(task), boost::asio::use_future).get();
  }

  Task<Result<void>> hear(Notice notice);
  Task<Result<void>> reload(uint64_t bucket);
  Task<Result<void>> reload_all();  // on the engine's thread, like the next
  Task<Result<void>> reload_buckets();
  Task<Result<void>> settle_names();
  using NamedBuckets = std::vector<std::pair<std::string, uint64_t>>;
  Task<Result<void>> reload_each(NamedBuckets wanted);
  Task<Result<void>> reload_numbered(uint64_t id);
  Task<Result<void>> reload_locked(uint64_t id, std::string name);
  Task<Result<void>> reload_named(std::string name);
  Task<Result<void>> reload_one(uint64_t id);
  Task<Result<BucketPtr>> find_locked(uint64_t id);
  void forget(const Bucket& bucket);
  void forget(uint64_t id);
  Task<Result<std::optional<std::string>>> read_accounts();
  Task<Result<bool>> replace_accounts(std::optional<std::string> before, std::string text);
  Task<Result<void>> reload_accounts();
  Task<Result<void>> reload_keys();
  Task<Result<bool>> replace_keys(std::string_view row, std::optional<std::string> before, std::string text);
  Task<Result<void>> tell_changed(uint64_t what);
  Task<Result<void>> check_missing(std::string name, uint64_t id);
  // Part of the leader's round: what servers that are gone left in a tablet, and whether it is joined with the next.
  Task<Result<void>> look_into_tablet(BucketPtr bucket, size_t tablet, std::set<uint64_t> living);

  const WallClock& clock_source;
  const std::function<void(std::string_view bucket)> on_change;
  const std::function<bool(const std::optional<std::string>&)> on_accounts;
  const Options::TakeKeys on_keys;
  const bool is_holder;
  const bool whole_only;
  const std::chrono::milliseconds lease_rest, intent_lasts;
  const std::unique_ptr<Cluster> cluster;
  boost::asio::io_context io{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{io.get_executor()};
  std::thread thread;
  std::unique_ptr<BlockingPool> files;  // where on_keys runs, which locks and syncs files; null: without on_keys
  Registry registry{*cluster};
  Formats formats;
  bool new_store = false;  // no server has been here before
  Ids ids;
  UsageBook book{registry, io};
  Batcher batcher{*cluster, io, [this](uint64_t bucket, const Usage& change) { book.count(bucket, change); }};
  Splitter splitter;
  Joiner joiner;
  std::optional<LeaderLease> leader;
  std::optional<EventRows> events;
  EndRows ends{registry};
  std::shared_ptr<Garbage> garbage;
  std::optional<BlobSpace> space;
  std::optional<StripedBlobs> striped;
  std::shared_ptr<InvalidationBus> bus;
  std::shared_ptr<InFlightChanges> in_flight;
  std::optional<LateCalls> late_calls;
  std::shared_ptr<ReadLeases> read_leases;
  static constexpr int being_leased_max = 256;
  std::atomic<int> being_leased{0};  // read leases being written
  std::optional<RadosCatalogue> catalogue;
  // Keys: for a bucket (0, its name), then (2, its number); for accounts (1, ""). Used on the engine's thread.
  KeyLocks reloads;
  std::future<void> collecting, looking, signing, watching, counting, telling, leading, leasing;

 private:
  Result<uint64_t> take_incarnation();
  Task<Result<bool>> has_object(std::string object);  // in the index pool
  Task<Result<std::string>> read_account_tokens();
  std::expected<void, std::string> check_root();
  std::expected<void, std::string> check_new();
  Result<void> load_all();
  void make_bus();
};

}  // namespace verbena::store::rados
