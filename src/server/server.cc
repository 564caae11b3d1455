#include "server/server.h"

#include <sys/stat.h>

#include <boost/asio/post.hpp>

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "admin/console.h"
#include "admin/operator.h"
#include "admin/pages.h"
#include "auth/guesses.h"
#include "auth/identity_store.h"
#include "auth/keyring.h"
#include "base/blocking.h"
#include "base/core.h"
#include "base/log.h"
#include "base/metrics.h"
#include "events/delivery.h"
#include "events/make_target.h"
#include "http/s3_handler.h"
#include "http/server.h"
#include "iam/service.h"
#include "memory/arena.h"
#include "memory/budget.h"
#include "native/native.h"
#include "rdma/fabric_token_windows.h"
#include "s3/access/access.h"
#include "s3/bucket_traffic.h"
#include "s3/events/event_queues.h"
#include "s3/router.h"
#include "s3/usage_metrics.h"
#include "s3/workers/lifecycle_worker.h"
#include "s3/workers/request_log.h"
#include "server/core_parts.h"
#include "server/data_directory.h"
#include "server/descriptors.h"
#include "server/process_metrics.h"
#include "server/server_facts.h"
#include "server/socket_folder.h"
#include "sign_in/provider_keys.h"
#include "store/hot_store.h"
#include "store/local/local_store.h"
#include "store/memory/memory_store.h"
#ifdef VERBENA_RADOS
#include "store/rados/rados_store.h"
#endif

namespace verbena::server {
namespace {

constexpr unsigned cores_default_max = 16;
constexpr size_t blocking_queue_max = 4096;
constexpr size_t iam_queue_max = 256;
constexpr unsigned sign_in_threads = 2, fetch_threads = 16;  // who waits for a provider does nothing else
constexpr size_t sign_in_queue_max = 256, fetch_queue_max = 16;
constexpr uint16_t admin_port_default = 9001;
constexpr std::chrono::seconds cut_off_max{5};
// Of connections and sessions: a sixteenth is kept for whoever runs the server.
constexpr size_t reserved_part = 16;
constexpr size_t reserved_connections_max = 64;

unsigned core_count(const Config& config) {
  if (config.cores != 0) return config.cores;
  return std::clamp(std::thread::hardware_concurrency(), 1u, cores_default_max);
}

http::Limits http_limits(const Config::Http& http) {
  return {.header_bytes_max = http.header_bytes_max,
          .connections_max = http.connections_max,
          .idle_timeout = http.idle_timeout,
          .header_timeout = http.header_timeout,
          .body_stall_timeout = http.body_timeout,
          .body_rate_min = http.body_rate_min};
}

std::shared_ptr<http::ConnectionRoom> make_room(uint64_t connections_max, uint64_t client_max, const char* door) {
  const size_t reserved = std::min<size_t>(connections_max / reserved_part, reserved_connections_max);
  const http::ConnectionRoom::Limits limits{
      .connections_max = connections_max, .client_max = client_max, .reserved = reserved};
  return std::make_shared<http::ConnectionRoom>(limits, door);
}

native::Options native_options(const Config::Rdma& rdma, http::AccessLog* access_log, observe::RequestWatch* watch,
                               observe::Tracer* tracer, auth::Guesses* guesses) {
  native::Options options;
  options.watch = watch;
  options.tracer = tracer;
  options.guesses = guesses;
  options.access_log = access_log;
  options.sessions_max = rdma.sessions_max.value();
  options.account_sessions_max = rdma.sessions_per_account_max.value();
  options.client_sessions_max = rdma.sessions_per_client_max.value();
  options.reserved_sessions = options.sessions_max / reserved_part;
  options.credits = static_cast<uint32_t>(rdma.credits);
  options.inline_max_bytes = static_cast<uint32_t>(rdma.inline_bytes_max);
  options.idle_timeout = rdma.session_idle_timeout;
  options.operation_deadline = rdma.operation_timeout;
  return options;
}

// Drain only: the threads being waited for are other ones.
template <class Done>
void wait_until(std::chrono::milliseconds longest, Done done) {
  for (const auto until = deadline_in(longest); !done() && SteadyClock::now() < until;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// How data is read: for the log, and as a metric.
std::string tell_disk_io(const std::vector<CoreParts>& cores) {
  const auto rings = std::ranges::count_if(cores, [](const CoreParts& parts) { return parts.ring != nullptr; });
  const bool registered = std::ranges::all_of(cores, [](const CoreParts& p) { return p.ring && p.ring->registered(); });
  metrics::gauge("verbena_disk_rings", "Cores that read data by io_uring; the others by threads").set(rings);
  if (rings == 0) return "threads";
  return registered ? "io_uring (arena registered)" : "io_uring (arena not registered: see `ulimit -l`)";
}

std::string at(std::string_view address, uint16_t port) {
  const bool v6 = address.find(':') != std::string_view::npos;
  return (v6 ? "[" + std::string(address) + "]" : std::string(address)) + ":" + std::to_string(port);
}

}  // namespace

std::filesystem::path key_file(const Config& config, const std::filesystem::path& directory) {
  return config.encryption.key_file.empty() ? directory / "master.keys"
                                            : std::filesystem::path(config.encryption.key_file);
}

#ifdef VERBENA_RADOS
namespace {

// The accounts of all servers of a cluster.
class AccountsInCluster final : public auth::SharedText {
 public:
  explicit AccountsInCluster(store::rados::RadosStore& store) : store_(store) {}
  Result<std::optional<std::string>> read() override { return store_.read_accounts(); }
  Result<bool> replace(const std::optional<std::string>& before, const std::string& text) override {
    return store_.replace_accounts(before, text);
  }

 private:
  store::rados::RadosStore& store_;
};

}  // namespace
#endif

// Destroyed from the last member to the first: threads are joined by then, cores go before what their coroutines use.
struct Server::State {
  State(const Config& config, std::optional<DataDirectory> directory, auth::Credentials root)
      : config(config), directory(std::move(directory)), root(std::move(root)) {
    const size_t files = open_files_max();
    descriptors = share_out(files, core_count(config), this->config);
    if (descriptors.enough) return;
    const auto& limits = this->config;
    log::warn(
        "server: {} files may be open at once, too few for the limits that are set: it takes {} connections, {} "
        "to its native port, {} sessions; raise the limit of open files (ulimit -n, LimitNOFILE=)",
        files, limits.http.connections_max, limits.rdma.connections_max, *limits.rdma.sessions_max);
  }
  ~State() {
    const std::lock_guard lock(told_mutex);
    told_service = nullptr;
    told_identities = nullptr;
  }

  std::expected<void, std::string> open_transports();
  std::expected<void, std::string> open_identities();
  std::expected<void, std::string> open_store();
  std::expected<void, std::string> open_engine();
  std::expected<void, std::string> open_events();
  std::expected<void, std::string> open_rados();
  std::expected<void, std::string> open_shared_identities();
  std::expected<void, std::string> open_sign_in();
  std::expected<void, std::string> open_access_log();
  std::expected<void, std::string> open_tracer();
  std::expected<void, std::string> open_cores();
  std::expected<void, std::string> put_contents(const FirstContents& contents);
  std::expected<void, std::string> listen();
  std::expected<void, std::string> listen_admin();
  void serve_operator();
  http::Handler s3_handler(const CoreParts& parts);
  void run();
  void stop(std::chrono::milliseconds drain);
  // Where same-host sockets lie when the configuration does not say. Empty: it does, or there are none.
  std::filesystem::path socket_folder() const {
    if (directory) return directory->path();
    return sockets ? sockets->path() : std::filesystem::path();
  }

  bool has_disk() const { return directory && config.engine == EngineChoice::local; }

  Config config;  // with limits that the process's files are enough for
  Descriptors descriptors;
  std::optional<DataDirectory> directory;  // none: everything is in memory
  std::optional<SocketFolder> sockets;     // instead of it
  uint64_t memory_max = 0;                 // bytes of objects then
  uint64_t hot_bytes = 0;                  // of the hot tier; 0: none
  auth::Credentials root;
  Endpoints endpoints;
  std::unique_ptr<auth::KeyRing> keys;
  std::unique_ptr<auth::SharedText> accounts;  // of all servers of a cluster
  std::unique_ptr<auth::IdentityStore> identities;
  std::unique_ptr<memory::Arena> arena;
  std::unique_ptr<BlockingPool> pool;
  // Is told what other servers of a cluster change, by a thread of the engine that outlives it.
  std::mutex told_mutex;
  s3::Service* told_service = nullptr;
  auth::IdentityStore* told_identities = nullptr;
  std::unique_ptr<s3::EventQueues> event_queues;  // threads of the store tell it what was committed
  std::unique_ptr<store::Store> store;
  std::unique_ptr<store::HotStore> hot_store;  // in front of it; null when the hot tier is off
  std::unique_ptr<auth::Verifier> verifier;
  std::unique_ptr<auth::Guesses> guesses;  // at secrets
  std::unique_ptr<s3::Service> service;
  std::unique_ptr<BlockingPool> iam_pool, sign_in_pool, fetch_pool;
  std::unique_ptr<sign_in::ProviderKeys> provider_keys;  // null: nobody signs in by a provider
  std::unique_ptr<iam::Service> iam;
  std::unique_ptr<s3::LifecycleWorker> lifecycle;
  std::unique_ptr<s3::RequestLog> request_log;
  std::vector<std::unique_ptr<events::Delivery>> deliveries;
  std::unique_ptr<http::AccessLog> access_log;
  observe::RequestWatch watch;
  std::unique_ptr<observe::Tracer> tracer;  // null: there are no traces
  std::unique_ptr<s3::UsageMetrics> usage_metrics;
  std::unique_ptr<admin::Pages> pages;
  std::unique_ptr<admin::Console> console;
  std::unique_ptr<admin::Operator> operations;
  std::unique_ptr<native::NativeDoor> door;
  std::unique_ptr<rdma::FabricTokenWindows> windows;
  std::vector<CoreParts> cores;
  std::atomic<bool> stopping = false;
};

// What of the machine may be missing or taken: asked for before the data is, so that a start that fails here has
// changed nothing on disk.
std::expected<void, std::string> Server::State::open_transports() {
  const auto free = [](const char* name, const std::string& address,
                       uint16_t port) -> std::expected<void, std::string> {
    if (auto found = http::check_free(address, port); !found) {
      return std::unexpected(name + (" " + at(address, port)) + ": " + describe(found.error()));
    }
    return {};
  };
  if (auto found = free("http", config.http.address, config.http.port); !found) return found;
  if (config.rdma.enabled) {
    if (auto found = free("rdma", config.rdma.address, config.rdma.port); !found) return found;
  }
  auto made = memory::Arena::create(config.arena_size);
  if (!made) return std::unexpected("arena_size: " + describe(made.error()));
  arena = std::move(*made);
  const auto began = SteadyClock::now();
  cores.resize(core_count(config));
  for (unsigned i = 0; i < cores.size(); ++i) {
    auto& parts = cores[i];
    parts.core =
        std::make_unique<Core>(Core::Options{.index = i, .pin_to_cpu = config.pin_cores ? static_cast<int>(i) : -1});
    // Without a disk no ring: it would keep all of the arena in memory.
    if (has_disk()) {
      if (auto opened = open_ring(parts, *arena, config.disk_io); !opened) return opened;
    }
    if (config.rdma.enabled) {
      const FabricPlaces places{socket_folder(), descriptors.arrivals};
      if (auto opened = open_fabrics(parts, *arena, config, places); !opened) return opened;
    }
  }
  if (config.rdma.enabled) {
    // Each core has a domain of its own, so the arena is registered once per core.
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(SteadyClock::now() - began);
    log::info("fabric: opened on {} cores, {} registered with each, in {:.1f} ms", cores.size(),
              format_size(arena->mapping().size()), static_cast<double>(took.count()) / 1000.0);
  }
  return {};
}

std::expected<void, std::string> Server::State::open_identities() {
  if (directory) {
    auto ring = auth::KeyRing::open(key_file(config, directory->path()), directory->master_key_ids());
    if (!ring) return std::unexpected(ring.error());
    keys = std::move(*ring);
  } else if (config.encryption.key_file.empty()) {
    keys = auth::KeyRing::in_memory();
  } else {
    return std::unexpected("encryption.key_file: a server in memory makes a master key of its own");
  }
  if (directory && config.engine == EngineChoice::rados) return open_shared_identities();
  auto opened = auth::IdentityStore::open(directory ? directory->identities() : "", *keys, root);
  if (!opened) return std::unexpected(opened.error());
  identities = std::move(*opened);
  return {};
}

// They lie where the objects do.
std::expected<void, std::string> Server::State::open_shared_identities() {
  if (auto made = open_rados(); !made) return made;
  auto opened = auth::IdentityStore::open(*accounts, *keys, root);
  if (!opened) return std::unexpected(opened.error());
  identities = std::move(*opened);
  {
    const std::lock_guard lock(told_mutex);
    told_identities = identities.get();
  }
  // What was changed before it was told.
  auto text = accounts->read();
  if (!text || !identities->take(*text)) return std::unexpected("cannot read the accounts that all servers share");
  return {};
}

std::expected<void, std::string> Server::State::open_engine() {
  if (!directory) {
    store = std::make_unique<store::in_memory::MemoryStore>(
        store::in_memory::Options{.arena = arena.get(), .bytes_max = memory_max});
    return {};
  }
  if (store != nullptr) return {};  // where the accounts are, too
  pool = std::make_unique<BlockingPool>(config.blocking_threads, blocking_queue_max);
  store::local::Options options;
  options.directory = directory->path();
  options.arena = arena.get();
  options.pool = pool.get();
  options.index_cache = config.index_cache;
  options.scrub_rate = config.scrub_rate;
  options.scrub_rest = config.scrub_rest;
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
  store = std::move(*opened);
  return {};
}

std::expected<void, std::string> Server::State::open_rados() {
#ifdef VERBENA_RADOS
  store::rados::Options options{.conf = config.rados.conf,
                                .user = config.rados.user,
                                .pool = config.rados.pool,
                                .index_pool = config.rados.index_pool,
                                .name_space = config.rados.name_space,
                                .timeout = config.rados.timeout,
                                .arena = arena.get()};
  options.on_change = [this] {
    const std::lock_guard lock(told_mutex);
    if (told_service != nullptr) told_service->access->changed();
  };
  options.on_accounts = [this](const std::optional<std::string>& text) {
    const std::lock_guard lock(told_mutex);
    const bool taken = told_identities == nullptr || told_identities->take(text).has_value();
    if (told_service != nullptr) told_service->access->changed();  // quotas of owners are kept with their buckets
    return taken;
  };
  auto opened = store::rados::RadosStore::connect(options);
  if (!opened) return std::unexpected("cannot open the store in the Ceph cluster: " + opened.error());
  accounts = std::make_unique<AccountsInCluster>(**opened);
  store = std::move(*opened);
  return {};
#else
  return std::unexpected("engine: this build has no engine for Ceph (it was built without librados)");
#endif
}

std::expected<void, std::string> Server::State::open_store() {
  if (auto opened = open_engine(); !opened) return opened;
  verifier = std::make_unique<auth::Verifier>(
      *identities, system_clock(),
      auth::Verifier::Options{.region = config.region, .express = config.s3_express.enabled, .domain = config.domain});
  // Other servers of a cluster change keys, too, and nobody tells a hot tier here.
  guesses = std::make_unique<auth::Guesses>(system_clock(),
                                            auth::Guesses::Limits{.tries_max = config.http.wrong_signatures_max});
  const bool alone = !directory || config.engine == EngineChoice::local;
  hot_bytes = alone ? config.cache.size.value_or(config.arena_size / 2) : 0;
  if (hot_bytes != 0) {
    store::HotStore::Options hot{.arena = arena.get(), .capacity = hot_bytes};
    hot.object_size_max = config.cache.object_size_max;
    hot_store = std::make_unique<store::HotStore>(*store, hot);
  }
  store::Store& front = hot_store ? static_cast<store::Store&>(*hot_store) : *store;
  service = std::make_unique<s3::Service>(
      s3::Service{front, *arena, system_clock(), config.region, verifier.get(), config.lifecycle_day.count()});
  {
    const std::lock_guard lock(told_mutex);
    told_service = service.get();
  }
  service->accounts = identities.get();
  service->credentials = identities.get();
  service->express = {.enabled = config.s3_express.enabled, .zone = config.s3_express.zone};
  service->encryption = {.keys = keys.get(),
                         .by_default = config.encryption.by_default == "AES256",
                         .customer_keys_need_tls = config.encryption.customer_keys_need_tls,
                         .kms_keys = config.encryption.kms_keys,
                         .kms_default_key = config.encryption.kms_default_key};
  // A thread of its own: changes of accounts come one after the other, and must not hold up the engine's.
  iam_pool = std::make_unique<BlockingPool>(1, iam_queue_max);
  if (auto opened = open_sign_in(); !opened) return opened;
  std::optional<iam::SignInTools> sign_in;
  if (provider_keys) sign_in.emplace(*provider_keys, *sign_in_pool);
  iam = std::make_unique<iam::Service>(
      *identities, front, *iam_pool, system_clock(), [access = service->access] { access->changed(); }, sign_in);
  request_log =
      std::make_unique<s3::RequestLog>(*service, s3::RequestLog::Options{.interval = config.bucket_log_interval});
  service->request_log = request_log.get();
  const s3::LifecycleOptions lifecycle_options{.day_s = config.lifecycle_day.count()};
  lifecycle = std::make_unique<s3::LifecycleWorker>(*service, lifecycle_options);
  return open_events();
}

// What waits from before is counted before the first change can add to it.
std::expected<void, std::string> Server::State::open_events() {
  const auto settings = events::read_targets(config.events);
  if (!settings) return std::unexpected(settings.error());
  if (!service->store.keeps_events()) {
    if (settings->empty()) return {};
    return std::unexpected("events.targets: this engine keeps no events");
  }
  std::vector<s3::EventQueues::Target> targets;
  for (const auto& target : *settings) targets.push_back({target.name, events::type_name(target.type)});
  const s3::EventQueues::Limits limits{.events_max = config.events.queue_max,
                                       .bytes_max = config.events.queue_bytes_max,
                                       .drop_when_full = config.events.drop_when_full};
  event_queues = std::make_unique<s3::EventQueues>(std::move(targets), limits);
  service->events = event_queues.get();
  for (const auto& target : *settings) {
    auto make = [&target](boost::asio::io_context& io) { return events::make_target(io, target); };
    auto made = events::Delivery::make(service->store, *event_queues, target.name, make, {});
    if (!made) return std::unexpected(made.error());
    if (auto loaded = (*made)->load(); !loaded) {
      return std::unexpected("the events that wait for " + target.name +
                             " cannot be read: " + describe(loaded.error()));
    }
    deliveries.push_back(std::move(*made));
  }
  return {};
}

std::expected<void, std::string> Server::State::open_sign_in() {
  if (!config.sign_in.web_identity) return {};
  auto networks = auth::Networks::parse(config.sign_in.networks);
  if (!networks) return std::unexpected("sign_in.networks: " + networks.error());
  if (auto sound = sign_in::check_authorities(config.sign_in.ca_file); !sound) {
    return std::unexpected("sign_in.ca_file: " + config.sign_in.ca_file + " is not a PEM file of certificates");
  }
  // Apart: who waits for a provider's answer must not keep those from signing in whose keys are there.
  sign_in_pool = std::make_unique<BlockingPool>(sign_in_threads, sign_in_queue_max);
  fetch_pool = std::make_unique<BlockingPool>(fetch_threads, fetch_queue_max);
  sign_in::HttpsRules rules{.networks = std::move(*networks), .ca_file = config.sign_in.ca_file};
  auto fetch = [rules = std::move(rules)](const sign_in::Issuer& issuer, const std::atomic<bool>& stop) {
    return sign_in::fetch_keys(issuer, rules, stop);
  };
  const sign_in::ProviderKeys::Limits limits{.fetches_max = fetch_threads};
  provider_keys = std::make_unique<sign_in::ProviderKeys>(*fetch_pool, system_clock(), std::move(fetch), limits);
  return {};
}

std::expected<void, std::string> Server::State::open_access_log() {
  if (config.access_log == "off") return {};
  auto opened = http::AccessLog::open(
      {.path = config.access_log, .size_max = config.access_log_size_max, .files_max = config.access_log_files});
  if (!opened) return std::unexpected("access_log: " + config.access_log + ": " + describe(opened.error()));
  access_log = std::move(*opened);
  return {};
}

std::expected<void, std::string> Server::State::open_tracer() {
  if (config.traces.endpoint.empty()) return {};
  auto opened = observe::Tracer::create({.endpoint = config.traces.endpoint,
                                         .headers = observe::parse_trace_headers(config.traces.headers),
                                         .sample_ratio = config.traces.sample_ratio,
                                         .per_second_max = config.traces.per_second_max});
  if (!opened) return std::unexpected("traces.endpoint: " + opened.error());
  tracer = std::move(*opened);
  return {};
}

std::expected<void, std::string> Server::State::open_cores() {
  if (config.rdma.enabled) {
    auto made = rdma::FabricTokenWindows::create({.networks = config.rdma.token_networks,
                                                  .port_first = config.rdma.token_port_first,
                                                  .port_last = config.rdma.token_port_last,
                                                  .own_ports = {}});
    if (!made) return std::unexpected("rdma.token_networks: " + describe(made.error()));
    windows = std::move(*made);
    fabric::ofi::export_port_counters();
    log::info("native: sessions_max={} per_account={} per_client={}", *config.rdma.sessions_max,
              *config.rdma.sessions_per_account_max, *config.rdma.sessions_per_client_max);
    door = std::make_unique<native::NativeDoor>(
        *service, *verifier, *identities,
        native_options(config.rdma, access_log.get(), &watch, tracer.get(), guesses.get()));
  }
  const FabricChoice choice = choose_fabrics(config.rdma);
  for (auto& parts : cores) {
    if (parts.fabric != nullptr && choice.serves_tokens(parts.fabric->provider())) {
      windows->add(*parts.core, *parts.fabric);
    }
    // libfabric's tcp trusts what its peers send, so it never carries the native door, only tokens.
    if (parts.fabric != nullptr && parts.fabric->provider() != "tcp") {
      auto attached = door->attach(*parts.core, parts.fabric->port(), parts.fabric->provider());
      if (!attached) return std::unexpected("native door: " + describe(attached.error()));
    }
    if (parts.tcp != nullptr) {
      auto attached = door->attach(*parts.core, *parts.tcp, "tcp");
      if (!attached) return std::unexpected("native door: " + describe(attached.error()));
    }
    if (parts.local != nullptr) {
      auto attached = door->attach(*parts.core, *parts.local, "local", parts.local_socket);
      if (!attached) return std::unexpected("native door: " + describe(attached.error()));
    }
    parts.router = std::make_unique<s3::Router>(*service, windows.get(), s3::Router::Options{.domain = config.domain});
  }
  // The fabrics keep their message buffers for good, so only the rest of the arena is shared out.
  arena->budget().set_limits(
      memory::Budget::Limits::of(arena->mapping().size() - arena->leased_bytes(), config.arena_client_max));
  if (cores[0].local != nullptr) endpoints.providers.emplace_back("local");
  if (cores[0].fabric != nullptr && cores[0].fabric->provider() != "tcp") {
    endpoints.providers.emplace_back(cores[0].fabric->provider());
  }
  if (cores[0].tcp != nullptr) endpoints.providers.emplace_back("tcp");
  if (cores[0].fabric != nullptr && choice.serves_tokens(cores[0].fabric->provider())) {
    endpoints.tokens = cores[0].fabric->provider();
    if (endpoints.tokens == "tcp") {
      log::warn(
          "fabric: rdma.token_provider tcp: libfabric trusts what comes over its tcp, any peer can crash the server");
    }
  }
  return {};
}

std::expected<void, std::string> Server::State::put_contents(const FirstContents& contents) {
  if (contents.buckets.empty() && contents.seed.empty()) return {};
  s3::Caller caller;
  caller.identity.generation = identities->generation();
  auto key = identities->find(root.access_key, {}, system_clock().now_us() / 1'000'000);
  if (!key) return std::unexpected("root keys: " + describe(key.error()));
  caller.identity.anonymous = false;
  caller.identity.access_key = root.access_key;
  caller.identity.principal = (*key)->principal;
  caller.identity.key = std::move(*key);
  caller.secure = true;
  caller.peer_address = "127.0.0.1";
  caller.request_id = "0000000000000000";
  const auto filled = fill(*service, caller, contents);
  if (!filled) return std::unexpected(filled.error());
  log::info("server: {} buckets made, {} objects put into them, {} bytes", filled->buckets, filled->objects,
            filled->bytes);
  return {};
}

http::Handler Server::State::s3_handler(const CoreParts& parts) {
  return http::make_s3_handler(*verifier, *parts.router,
                               {.access_log = access_log.get(),
                                .watch = &watch,
                                .tracer = tracer.get(),
                                .iam = iam.get(),
                                .arena = arena.get(),
                                .domain = config.domain,
                                .guesses = guesses.get(),
                                .stopping = &stopping});
}

std::expected<void, std::string> Server::State::listen() {
  std::optional<http::TlsFiles> tls;
  if (!config.tls.certificate.empty()) tls = http::TlsFiles{config.tls.certificate, config.tls.key};
  const auto limits = http_limits(config.http);
  // Apart, so that a full S3 door leaves health, metrics and sessions open.
  const auto s3_room = make_room(config.http.connections_max, config.http.connections_per_client_max, "s3");
  const auto native_room = make_room(config.rdma.connections_max, config.rdma.connections_per_client_max, "native");
  uint16_t http_port = config.http.port;
  uint16_t native_port = config.rdma.port;
  pages = std::make_unique<admin::Pages>(*verifier, stopping, guesses.get());
  console = std::make_unique<admin::Console>(config.domain);
  s3::show_buckets(config.admin.bucket_metrics);
  usage_metrics = std::make_unique<s3::UsageMetrics>(service->store, config.admin.bucket_metrics);
  export_process_metrics(directory ? directory->path() : std::filesystem::path());
  for (auto& parts : cores) {
    http::Handler s3 = s3_handler(parts);
    if (config.admin.console) {
      s3 = console->handler("/console", pages->handler(std::move(s3), admin::Pages::Metrics::signed_always));
    }
    auto opened = http::listen(*parts.core, config.http.address, http_port, limits, tls, std::move(s3), s3_room);
    if (!opened) return std::unexpected("http " + at(config.http.address, http_port) + ": " + describe(opened.error()));
    parts.s3_listener = std::move(*opened);
    http_port = parts.s3_listener->port();
    if (door == nullptr) continue;
    auto native = http::listen(*parts.core, config.rdma.address, native_port, limits, std::nullopt,
                               pages->handler(door->session_handler()), native_room);
    if (!native)
      return std::unexpected("rdma " + at(config.rdma.address, native_port) + ": " + describe(native.error()));
    parts.native_listener = std::move(*native);
    native_port = parts.native_listener->port();
  }
  endpoints.http = (tls ? "https://" : "http://") + at(config.http.address, http_port);
  if (door != nullptr) {
    endpoints.native = at(config.rdma.address, native_port);
    // Clients name addresses that the server dials: never its own.
    for (const uint16_t port : {http_port, native_port}) {
      windows->add_own_port(port);
      door->add_own_port(port);
    }
  }
  return config.admin.enabled ? listen_admin() : std::expected<void, std::string>();
}

std::expected<void, std::string> Server::State::listen_admin() {
  auto& parts = cores.front();
  const auto room = make_room(descriptors.admin, descriptors.admin_each, "admin");
  const auto metrics =
      config.admin.open_metrics ? admin::Pages::Metrics::open : admin::Pages::Metrics::signed_elsewhere;
  // The console calls S3 and IAM where it came from, so that browsers need no leave to call another origin.
  const auto open = [&](uint16_t port) {
    return http::listen(*parts.core, config.admin.address, port, http_limits(config.http), std::nullopt,
                        console->handler("/", pages->handler(s3_handler(parts), metrics)), room);
  };
  const uint16_t wanted = config.admin.port.value_or(config.http.port == 0 ? 0 : admin_port_default);
  auto opened = open(wanted);
  // The default port may belong to another server on this machine: then any free one is taken.
  if (!opened && opened.error().code == Errc::connection_failed && !config.admin.port) opened = open(0);
  if (!opened) return std::unexpected("admin " + at(config.admin.address, wanted) + ": " + describe(opened.error()));
  parts.admin_listener = std::move(*opened);
  const uint16_t port = parts.admin_listener->port();
  endpoints.admin = "http://" + at(config.admin.address, port);
  if (door != nullptr) {
    windows->add_own_port(port);
    door->add_own_port(port);
  }
  return {};
}

// Before the cores run: calls come to them.
void Server::State::serve_operator() {
  const Started started{.config = config,
                        .endpoints = endpoints,
                        .cores = cores,
                        .data = directory ? directory->path() : std::filesystem::path(),
                        .disk_io = has_disk() ? tell_disk_io(cores) : "none",
                        .hot_capacity = hot_bytes,
                        .few_files = !descriptors.enough};
  const admin::Operator::Parts parts{.config = config,
                                     .arena = *arena,
                                     .store = service->store,
                                     .clock = system_clock(),
                                     .identities = *identities,
                                     .watch = watch,
                                     .door = door.get(),
                                     .events = event_queues.get(),
                                     .stopping = stopping};
  operations = std::make_unique<admin::Operator>(parts, server_facts(started));
  iam->set_operator(operations.get());
}

void Server::State::run() {
  for (auto& parts : cores) parts.thread = std::thread([core = parts.core.get()] { core->run(); });
  lifecycle->start();
  request_log->start();
  for (auto& delivery : deliveries) delivery->start();
  std::string providers;
  for (const auto& provider : endpoints.providers) providers += (providers.empty() ? "" : ", ") + provider;
  log::info("server: http={} native={} admin={} providers=[{}] cores={} arena={}{} disk_io={} data={}", endpoints.http,
            endpoints.native, endpoints.admin, providers, cores.size(), format_size(arena->mapping().size()),
            arena->huge_pages() ? " (huge pages)" : "", has_disk() ? tell_disk_io(cores) : "none",
            !directory   ? "memory"
            : has_disk() ? directory->path().string()
                         : "rados:" + config.rados.pool);
}

void Server::State::stop(std::chrono::milliseconds drain) {
  if (stopping.exchange(true)) return;
  lifecycle->stop();
  if (provider_keys) provider_keys->stop();
  for (auto& parts : cores) parts.each_listener([](http::Listener& listener) { listener.stop_accepting(); });
  if (door != nullptr) door->stop();
  const auto requests = [this] { return door != nullptr ? door->in_flight() : 0; };
  const auto connections = [this] {
    size_t count = 0;
    for (const auto& parts : cores) parts.each_listener([&](http::Listener& l) { count += l.connections(); });
    return count;
  };
  wait_until(drain, [&] { return requests() == 0 && connections() == 0; });
  // What is still there is cut off while the cores run, so that each request unwinds on its own thread.
  for (auto& parts : cores) parts.each_listener([](http::Listener& listener) { listener.close(); });
  // A one-sided operation cannot be cancelled: a request waits for its own until its deadline.
  wait_until(std::max<std::chrono::milliseconds>(cut_off_max, config.rdma.operation_timeout + std::chrono::seconds(1)),
             [&] { return requests() == 0 && connections() == 0; });
  for (auto& parts : cores) parts.core->stop();
  for (auto& parts : cores) {
    if (parts.thread.joinable()) parts.thread.join();
  }
  request_log->stop();
  for (auto& delivery : deliveries) delivery->begin_stop();
  for (auto& delivery : deliveries) delivery->stop();
  // A request that is still there waits for the disk, and what the disk answers is posted to its loop: loops go last.
  hot_store.reset();
  store.reset();
  pool.reset();
  iam_pool.reset();
  fetch_pool.reset();
  sign_in_pool.reset();
  // The loops outlive all that has timers or sockets on them.
  for (auto& parts : cores) parts.close();
  door.reset();
  cores.clear();
}

std::expected<std::unique_ptr<Server>, std::string> Server::start(const Config& config,
                                                                  const std::filesystem::path& directory,
                                                                  auth::Credentials root,
                                                                  const FirstContents& contents) {
  if (auto sound = check(config); !sound) return std::unexpected(sound.error());
  log::set_level(config.log_level);
  auto opened = DataDirectory::open(directory);
  if (!opened) return std::unexpected(opened.error());
  return start(std::make_unique<State>(config, std::move(*opened), std::move(root)), contents);
}

std::expected<std::unique_ptr<Server>, std::string> Server::start_in_memory(const Config& config, uint64_t bytes_max,
                                                                            auth::Credentials root,
                                                                            const FirstContents& contents) {
  if (auto sound = check(config); !sound) return std::unexpected(sound.error());
  log::set_level(config.log_level);
  ::umask(077);  // of the logs that it may write, as with a data directory
  auto state = std::make_unique<State>(config, std::nullopt, std::move(root));
  if (config.rdma.enabled && config.rdma.local_socket.empty() && choose_fabrics(config.rdma).local) {
    auto made = SocketFolder::make();
    if (!made) return std::unexpected("rdma.local_socket is not set, and " + made.error());
    state->sockets = std::move(*made);
  }
  state->memory_max = bytes_max;
  return start(std::move(state), contents);
}

std::expected<std::unique_ptr<Server>, std::string> Server::start(std::unique_ptr<State> state,
                                                                  const FirstContents& contents) {
  if (auto done = state->open_transports(); !done) return std::unexpected(done.error());
  if (auto done = state->open_identities(); !done) return std::unexpected(done.error());
  if (auto done = state->open_store(); !done) return std::unexpected(done.error());
  if (auto done = state->open_access_log(); !done) return std::unexpected(done.error());
  if (auto done = state->open_tracer(); !done) return std::unexpected(done.error());
  if (auto done = state->open_cores(); !done) return std::unexpected(done.error());
  if (auto done = state->put_contents(contents); !done) return std::unexpected(done.error());
  if (auto done = state->listen(); !done) return std::unexpected(done.error());
  state->serve_operator();
  state->run();
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}
Server::~Server() { stop(); }

void Server::reload() {
  if (state_->access_log != nullptr) state_->access_log->reopen();
  if (!state_->directory) return;  // no file has its master key
  if (auto done = state_->keys->reload(); !done) {
    log::error("server: the master keys stay as they were: {}", done.error());
  } else {
    log::info("server: {} master keys, the newest is {}", state_->keys->size(), state_->keys->newest_id());
  }
}

bool Server::answers(std::chrono::milliseconds within) {
  const auto until = SteadyClock::now() + within;
  std::vector<std::future<void>> signs;
  for (auto& parts : state_->cores) {
    auto sign = std::make_shared<std::promise<void>>();
    signs.push_back(sign->get_future());
    boost::asio::post(parts.core->io(), [sign] { sign->set_value(); });
  }
  return std::ranges::all_of(signs,
                             [until](auto& sign) { return sign.wait_until(until) == std::future_status::ready; });
}

const Endpoints& Server::endpoints() const { return state_->endpoints; }
void Server::stop(std::chrono::milliseconds drain) { state_->stop(drain); }

}  // namespace verbena::server
