// The stores of accounts and objects, and their background workers.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "s3/access_generation.h"
#include "s3/documents/bucket_document.h"
#include "server/server_state.h"
#include "server/session_limits.h"
#include "store/local/local_store.h"
#include "store/memory/memory_store.h"

namespace verbena::server {
namespace {

constexpr size_t blocking_queue_max = 4096;
constexpr size_t iam_queue_max = 256;
constexpr uint64_t bounds_memory_part = 8;  // of the machine's memory: bounds_memory: auto

// data.keep_free: auto.
uint64_t free_space_kept(const std::filesystem::path& directory) {
  constexpr uint64_t part = 20, most = 16 * GiB;
  std::error_code unknown;
  const auto space = std::filesystem::space(directory, unknown);
  return unknown ? 0 : std::min<uint64_t>(space.capacity / part, most);
}

// A removal that was not ended was not acknowledged either.
void end_removals(auth::IdentityStore& identities) {
  const auto ended = identities.end_removals();
  if (!ended) log::error("the keys of accounts whose removal was not ended stay refused: {}", describe(ended.error()));
  if (ended && *ended != 0) log::warn("{} accounts stay: their removal was begun, and not ended", *ended);
}

// Says which accounts can make no further bucket, those with most first: after an upgrade, or a lower limit.
void log_full_accounts(const std::vector<store::BucketUsage>& buckets, uint64_t buckets_max) {
  constexpr size_t lines_max = 10;
  std::map<std::string_view, uint64_t> counts;
  for (const store::BucketUsage& bucket : buckets) ++counts[bucket.owner];
  std::vector<std::pair<uint64_t, std::string_view>> full;
  for (const auto& [owner, count] : counts) {
    if (count >= buckets_max) full.emplace_back(count, owner);
  }
  std::ranges::sort(full, std::greater());
  for (size_t i = 0; i < std::min(full.size(), lines_max); ++i) {
    log::warn("server: the account {} has {} buckets and can make no more: buckets_max is {}", full[i].second,
              full[i].first, buckets_max);
  }
  if (full.size() > lines_max) log::warn("server: nor can {} more accounts", full.size() - lines_max);
}

}  // namespace

std::filesystem::path key_file(const Config& config, const std::filesystem::path& directory) {
  return config.encryption.key_file.empty() ? directory / "master.keys"
                                            : std::filesystem::path(config.encryption.key_file);
}

std::expected<void, std::string> Server::State::open_identities() {
  if (directory && config.engine == EngineChoice::rados) return open_shared_identities();
  if (directory) {
    auto ring = auth::KeyRing::open(key_file(config, directory->path()), directory->master_key_ids());
    if (!ring) return std::unexpected(ring.error());
    keys = std::move(*ring);
  } else if (config.encryption.key_file.empty()) {
    keys = auth::KeyRing::in_memory();
  } else {
    return std::unexpected("encryption.key_file: a server in memory makes a master key of its own");
  }
  auto opened = auth::IdentityStore::open(directory ? directory->identities() : "", *keys, root);
  if (!opened) return std::unexpected(opened.error());
  identities = std::move(*opened);
  end_removals(*identities);
  return {};
}

// Accounts are stored with the objects, and so are the ids of the required master keys. A cluster of an older version
// has no ids yet: it gets those of the first server whose keys decrypt the accounts.
std::expected<void, std::string> Server::State::open_shared_identities() {
  if (auto made = open_cluster_engine(); !made) return made;
  auto ring = auth::KeyRing::open(key_file(config, directory->path()), directory->master_key_ids(),
                                  {.ids = *key_ids, .sealed = *sealed_keys});
  if (!ring) return std::unexpected(ring.error());
  keys = std::move(*ring);
  auto opened = auth::IdentityStore::open(*accounts, *keys, root);
  if (!opened) return std::unexpected(opened.error());
  identities = std::move(*opened);
  {
    const std::lock_guard lock(told_mutex);
    told_keys = keys.get();
  }
  if (auto shared = keys->share(); !shared) return shared;
  {
    const std::lock_guard lock(told_mutex);
    told_identities = identities.get();
  }
  // A change from before the notifications began.
  auto text = accounts->read();
  if (!text || !identities->take(*text)) return std::unexpected("cannot read the accounts that all servers share");
  end_removals(*identities);
  return {};
}

std::expected<void, std::string> Server::State::open_engine() {
  if (!directory) {
    if (!config.device.empty()) return std::unexpected("data.device needs a data directory: its index is there");
    auto made = std::make_unique<store::in_memory::MemoryStore>(
        store::in_memory::Options{.arena = arena.get(), .bytes_max = memory_max});
    feeds = made.get();
    store = std::move(made);
    return {};
  }
  if (store != nullptr) return {};  // if accounts are stored there, too
  pool = std::make_unique<BlockingPool>(config.blocking_threads, blocking_queue_max);
  store::local::Options options;
  options.directory = directory->path();
  options.device = config.device;
  options.arena = arena.get();
  options.pool = pool.get();
  options.index_cache = config.index_cache;
  options.scrub_rate = config.scrub_rate;
  options.scrub_rest = config.scrub_rest;
  options.keep_free = config.keep_free.value_or(free_space_kept(directory->path()));
  options.pmem = config.pmem;
  options.accept_data_loss = config.accept_data_loss;
  std::string trouble;
  options.trouble = &trouble;
  options.open_volumes_max = descriptors.store / 2;
  options.open_index_files_max = descriptors.store / 2;
  auto opened = store::local::LocalStore::open(options);
  if (!opened) {
    return std::unexpected("cannot open the store in " + directory->path().string() + ": " +
                           (trouble.empty() ? describe(opened.error()) : trouble));
  }
  feeds = opened->get();
  store = std::move(*opened);
  return {};
}

std::expected<void, std::string> Server::State::open_cluster_engine() {
  if (open_cluster == nullptr) return std::unexpected("engine: this program has no engine for Ceph");
  ClusterListener listener;
  listener.on_change = [this](std::string_view bucket) {
    const std::lock_guard lock(told_mutex);
    if (told_service == nullptr) return;
    if (bucket.empty()) {
      told_service->access->all_changed();
    } else {
      told_service->access->changed(bucket);
    }
  };
  listener.on_accounts = [this](const std::optional<std::string>& text) {
    const std::lock_guard lock(told_mutex);
    return told_identities == nullptr || told_identities->take(text).has_value();
  };
  listener.on_keys = [this, logged = std::string()](const std::optional<std::string>& ids,
                                                    const std::optional<std::string>& sealed) mutable {
    const std::lock_guard lock(told_mutex);
    if (told_keys == nullptr) return;
    const auto taken = told_keys->take(ids, sealed);
    const std::string trouble = taken ? "" : taken.error();
    if (!taken && trouble != logged) log::error("server: master keys of the other servers: {}", trouble);
    logged = trouble;
    if (taken && *taken) {
      log::info("server: {} master keys, the newest is {}, from another server", told_keys->size(),
                told_keys->newest_id());
    }
  };
  auto opened = open_cluster(config, *arena, std::move(listener));
  if (!opened) return std::unexpected(opened.error());
  accounts = std::move(opened->accounts);
  key_ids = std::move(opened->key_ids);
  sealed_keys = std::move(opened->sealed_keys);
  feeds = opened->feeds;
  shared_keys = opened->shared_keys;
  may_keep = std::move(opened->may_keep);
  on_duty = std::move(opened->on_duty);
  store = std::move(opened->store);
  return {};
}

std::expected<void, std::string> Server::State::open_store() {
  if (auto opened = open_engine(); !opened) return opened;
  verifier = std::make_unique<auth::Verifier>(
      *identities, system_clock(),
      auth::Verifier::Options{.region = config.region, .express = config.s3_express.enabled, .domain = config.domain});
  auth_failures = std::make_unique<auth::AuthFailures>(
      unset_clock(), auth::AuthFailures::Limits{.tries_max = config.http.wrong_signatures_max});
  hot_bytes = config.cache.size.value_or(config.arena_size / 2);
  if (hot_bytes != 0) {
    store::HotStore::Options hot{.arena = arena.get(), .capacity = hot_bytes};
    hot.object_size_max = config.cache.object_size_max;
    hot.shared = shared_keys;
    hot_store = std::make_unique<store::HotStore>(*store, hot);
  }
  store::Store& front = hot_store ? static_cast<store::Store&>(*hot_store) : *store;
  service = std::make_unique<s3::Service>(
      s3::Service{front, *arena, system_clock(), config.region, verifier.get(), config.lifecycle_day.count()});
  if (may_keep) service->access->keep_where(may_keep);
  {
    const std::lock_guard lock(told_mutex);
    told_service = service.get();
  }
  service->accounts = identities.get();
  identities->when_limits_change([access = service->access](std::string_view owner) { access->owner_changed(owner); });
  service->credentials = identities.get();
  service->buckets_max = config.buckets_max;
  log_full_accounts(front.usages_now(), config.buckets_max);
  service->express = {.enabled = config.s3_express.enabled, .zone = config.s3_express.zone};
  service->encryption = {.keys = keys.get(),
                         .by_default = config.encryption.by_default == "AES256",
                         .customer_keys_need_tls = config.encryption.customer_keys_need_tls,
                         .kms_keys = config.encryption.kms_keys,
                         .kms_default_key = config.encryption.kms_default_key};
  // A thread of its own: changes of accounts are serialized, and must not delay the engine's.
  iam_pool = std::make_unique<BlockingPool>(1, iam_queue_max);
  auto signing_in = SignInParts::open(config.sign_in, *identities);
  if (!signing_in) return std::unexpected(std::move(signing_in.error()));
  sign_in = std::move(*signing_in);
  iam = std::make_unique<iam::Service>(
      *identities, front, *iam_pool, system_clock(), config.region,
      [of = service.get()](const std::string& bucket, const Result<void>& set) { s3::note_change(*of, bucket, set); },
      sign_in.tools());
  request_log =
      std::make_unique<s3::RequestLog>(*service, s3::RequestLog::Options{.interval = config.bucket_log_interval});
  service->request_log = request_log.get();
  const s3::LifecycleOptions lifecycle_options{.day_s = config.lifecycle_day.count(), .on_duty = on_duty};
  lifecycle = std::make_unique<s3::LifecycleWorker>(*service, lifecycle_options);
  // Also while the engine keeps none: servers of a cluster begin to when all of them know it. A look over Ceph takes a
  // call for each tablet.
  if (auto* const index = dynamic_cast<store::EndIndex*>(store.get()); index != nullptr) {
    s3::EndsOptions ends_options{.on_duty = on_duty};
    if (shared_keys != nullptr) ends_options.pause = std::chrono::seconds(10);
    ends = std::make_unique<s3::EndsWorker>(*service, *index, std::move(ends_options));
  }
  if (feeds != nullptr && shared_keys == nullptr) {
    bounds = std::make_unique<s3::BucketBounds>(config.bounds_memory.value_or(machine_memory() / bounds_memory_part));
    service->bounds = bounds.get();
    bounds_worker = std::make_unique<s3::BoundsWorker>(*service, *feeds);
  }
  return open_events();
}

// The backlog is counted before the first change can add to it.
std::expected<void, std::string> Server::State::open_events() {
  const auto settings = events::read_targets(config.events);
  if (!settings) return std::unexpected(settings.error());
  if (!service->store.keeps_events()) {
    if (settings->empty()) return {};
    return std::unexpected("events.targets: this engine keeps no events");
  }
  event_queues = events::make_event_queues(config.events, *settings);
  service->events = event_queues.get();
  auto opened = events::Deliveries::open(service->store, *event_queues, *settings, on_duty);
  if (!opened) return std::unexpected(std::move(opened.error()));
  deliveries = std::move(*opened);
  return {};
}

}  // namespace verbena::server
