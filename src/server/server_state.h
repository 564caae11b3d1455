// The parts of a running server. Private to this room: `server.cc` starts and stops it, `open_store.cc` opens the
// stores of accounts and objects, `listen.cc` the doors.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <expected>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "admin/console.h"
#include "admin/operator.h"
#include "admin/pages.h"
#include "auth/auth_failures.h"
#include "auth/identity_store.h"
#include "auth/keyring.h"
#include "auth/network_rules.h"
#include "base/blocking.h"
#include "base/log.h"
#include "events/deliveries.h"
#include "http/s3_handler.h"
#include "http/server.h"
#include "iam/service.h"
#include "memory/arena.h"
#include "native/native.h"
#include "rdma/dc/descriptors.h"
#include "rdma/fabric_token_windows.h"
#include "rdma/rc/reliable_connections.h"
#include "s3/events/event_queues.h"
#include "s3/usage_metrics.h"
#include "s3/workers/bounds_worker.h"
#include "s3/workers/ends_worker.h"
#include "s3/workers/lifecycle_worker.h"
#include "s3/workers/request_log.h"
#include "server/core_parts.h"
#include "server/data_directory.h"
#include "server/descriptors.h"
#include "server/gpudirect.h"
#include "server/server.h"
#include "server/sign_in_parts.h"
#include "server/socket_folder.h"
#include "store/hot_store.h"

namespace verbena::server {

// As configured; 0: the number of processors that this process may use, within limits.
unsigned core_count(const Config& config, unsigned processors = std::thread::hardware_concurrency());
// "127.0.0.1:9000", "[::1]:9000".
std::string at(std::string_view address, uint16_t port);
// The way that data is read: for the log, and as a metric.
std::string tell_disk_io(const std::vector<CoreParts>& cores);

// Destroyed from the last member to the first: threads are joined by then, cores are destroyed before the objects that
// their coroutines use.
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
  std::expected<void, std::string> open_cluster_engine();
  std::expected<void, std::string> open_shared_identities();
  std::expected<void, std::string> open_access_log();
  std::expected<void, std::string> open_tracer();
  std::expected<void, std::string> open_cores();
  std::expected<void, std::string> open_dialects();
  std::expected<void, std::string> put_contents(const FirstContents& contents);
  std::expected<void, std::string> listen();
  std::expected<void, std::string> listen_admin();
  std::expected<void, std::string> listen_for_certificates(CoreParts& parts, http::TlsFiles tls,
                                                           const std::shared_ptr<http::ConnectionRoom>& room);
  const std::string& certificate_address() const {
    const std::string& own = config.sign_in.certificates.address;
    return own.empty() ? config.http.address : own;
  }
  // A listener for clients of `entry` of the configuration's alone, on each core.
  std::expected<void, std::string> listen_for_network(size_t entry, const std::optional<http::TlsFiles>& tls,
                                                      const std::shared_ptr<http::ConnectionRoom>& room);
  void serve_operator();
  http::Handler s3_handler(const CoreParts& parts, std::optional<size_t> network_entry = {});
  // Null: there are none.
  const auth::NetworkRules* rules() const { return networks.empty() ? nullptr : &networks; }
  void run();
  void stop(std::chrono::milliseconds drain);
  void keep_for_device();
  // The folder of same-host sockets if it is not configured. Empty: configured, or there are none.
  std::filesystem::path socket_folder() const {
    if (directory) return directory->path();
    return sockets ? sockets->path() : std::filesystem::path();
  }

  bool has_disk() const { return directory && config.engine == EngineChoice::local; }

  uint16_t certificate_port = 0;       // of the port that requests client certificates
  OpenCluster open_cluster = nullptr;  // null: this program has no shared engine
  Config config;                       // with limits lowered to the process's limit of files
  Descriptors descriptors;
  std::optional<DataDirectory> directory;  // none: everything is in memory
  std::optional<SocketFolder> sockets;     // replaces it then
  uint64_t memory_max = 0;                 // bytes of objects then
  uint64_t hot_bytes = 0;                  // of the hot tier; 0: none
  auth::NetworkRules networks;
  auth::Credentials root;
  Endpoints endpoints;
  std::unique_ptr<auth::SharedText> accounts, key_ids, sealed_keys;  // shared by all servers of a cluster
  std::unique_ptr<auth::KeyRing> keys;
  std::function<bool(std::string_view bucket)> may_keep;  // ClusterEngine's; empty: always
  std::function<uint64_t()> on_duty;  // likewise: leadership for tasks done once; empty: a single server
  std::unique_ptr<auth::IdentityStore> identities;
  std::unique_ptr<memory::Arena> arena;
  std::unique_ptr<Gpudirect> gpudirect;  // null: not configured
  std::unique_ptr<BlockingPool> pool;
  // Receives notifications of other servers' changes, from a thread of the engine that outlives it.
  std::mutex told_mutex;
  s3::Service* told_service = nullptr;
  auth::IdentityStore* told_identities = nullptr;
  auth::KeyRing* told_keys = nullptr;
  std::unique_ptr<s3::EventQueues> event_queues;  // notified of commits by threads of the store
  std::unique_ptr<store::Store> store;
  store::ChangeFeeds* feeds = nullptr;         // of the engine
  store::SharedKeys* shared_keys = nullptr;    // likewise, if other servers change keys, too
  std::unique_ptr<store::HotStore> hot_store;  // in front of it; null when the hot tier is off
  std::unique_ptr<auth::Verifier> verifier;
  std::unique_ptr<auth::AuthFailures> auth_failures;  // authentication failures
  std::unique_ptr<s3::Service> service;
  std::unique_ptr<BlockingPool> iam_pool, admin_pool, doctor_pool;
  SignInParts sign_in;
  std::unique_ptr<iam::Service> iam;
  std::unique_ptr<s3::LifecycleWorker> lifecycle;
  std::unique_ptr<s3::BucketBounds> bounds;  // these two null: the engine tells no changes
  std::unique_ptr<s3::BoundsWorker> bounds_worker;
  std::unique_ptr<s3::EndsWorker> ends;  // null: the engine keeps no ends of objects
  std::unique_ptr<s3::RequestLog> request_log;
  std::unique_ptr<events::Deliveries> deliveries;  // null: the engine keeps no events
  std::unique_ptr<call::AccessLog> access_log;
  observe::RequestWatch watch;
  std::unique_ptr<observe::Tracer> tracer;  // null: no traces
  std::unique_ptr<s3::UsageMetrics> usage_metrics;
  std::unique_ptr<admin::Pages> pages;
  std::unique_ptr<admin::Console> console;
  std::unique_ptr<admin::Operator> operations;
  std::unique_ptr<native::NativeDoor> door;
  std::unique_ptr<rdma::FabricTokenWindows> windows;
  std::unique_ptr<rdma::rc::ReliableConnections> connections;  // null: not configured
  std::unique_ptr<rdma::dc::Descriptors> dc_tokens;            // likewise
  rdma::Dialects dialects;
  std::vector<CoreParts> cores;
  std::atomic<bool> stopping = false;
};

}  // namespace verbena::server
