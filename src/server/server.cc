#include "server/server.h"

#include <sys/stat.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include <future>

#include "base/core.h"
#include "base/keep.h"
#include "base/log.h"
#include "base/metrics.h"
#include "fabric/sealed/sealed.h"
#include "memory/budget.h"
#include "server/door_limits.h"
#include "server/dpu.h"
#include "server/encryption_lines.h"
#include "server/first_contents.h"
#include "server/gpudirect.h"
#include "server/network_parts.h"
#include "server/server_state.h"
#include "sign_in/ldap_library.h"

namespace verbena::server {
namespace {

constexpr unsigned cores_default_max = 16;
constexpr std::chrono::seconds cut_off_max{5};
constexpr std::chrono::seconds device_work_max{10};  // a device that connects, or pins memory
constexpr std::chrono::seconds looking_max{1};       // of operators' calls that read files

// Only waits: other threads make the progress.
template <class Done>
void wait_until(std::chrono::milliseconds longest, Done done) {
  for (const auto until = deadline_in(longest); !done() && SteadyClock::now() < until;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

unsigned core_count(const Config& config, unsigned processors) {
  if (config.cores != 0) return config.cores;
  return std::clamp(processors, 1u, cores_default_max);
}

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

// Opened before the data, since ports and devices may be missing or in use: a failed start has then changed nothing on
// disk.
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
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    const Config::Listener& one = config.listeners[i];
    if (one.address.empty()) continue;
    const std::string name = "listeners[" + std::to_string(i) + "].address";
    if (auto found = free(name.c_str(), one.address, one.port); !found) return found;
  }
  const Config::SignIn::Certificates& certificates = config.sign_in.certificates;
  if (!certificates.ca_file.empty()) {
    auto found = free("sign_in.certificates.address", certificate_address(), certificates.port);
    if (!found) return found;
  }
  auto networks_made = network_rules(config);
  if (!networks_made) return std::unexpected(networks_made.error());
  networks = std::move(*networks_made);
  auto made = memory::Arena::create(config.arena_size);
  if (!made) return std::unexpected("arena_size: " + describe(made.error()));
  arena = std::move(*made);
  const auto began = SteadyClock::now();
  cores.resize(core_count(config));
  for (unsigned i = 0; i < cores.size(); ++i) {
    auto& parts = cores[i];
    parts.core =
        std::make_unique<Core>(Core::Options{.index = i, .pin_to_cpu = config.pin_cores ? static_cast<int>(i) : -1});
    // Without a disk no ring: it would lock all of the arena in memory.
    if (has_disk()) {
      if (auto opened = open_ring(parts, *arena, config.disk_io); !opened) return opened;
    }
    if (config.rdma.enabled) {
      const FabricPlaces places{socket_folder(), descriptors.arrivals, static_cast<unsigned>(cores.size())};
      if (auto opened = open_fabrics(parts, *arena, config, places); !opened) return opened;
    }
  }
  if (config.rdma.enabled) {
    // Each core has a domain of its own, so the arena is registered once per core.
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(SteadyClock::now() - began);
    log::info("fabric: opened on {} cores, {} registered with each, in {:.1f} ms", cores.size(),
              format_size(arena->mapping().size()), static_cast<double>(took.count()) / 1000.0);
  }
  const auto& fabric = cores[0].fabric;
  const auto dpu = fabric != nullptr ? check_dpu_rdma(config.dpu, fabric->provider(), fabric->device())
                                     : check_dpu_rdma(config.dpu, {}, {});
  if (!dpu) return std::unexpected(dpu.error());
  if (!dpu->empty()) log::info("{}", *dpu);
  return {};
}

std::expected<void, std::string> Server::State::open_access_log() {
  if (config.access_log == "off") return {};
  auto opened = call::AccessLog::open(
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

std::expected<void, std::string> Server::State::open_dialects() {
  auto made = rdma::FabricTokenWindows::create({.networks = config.rdma.token_networks,
                                                .port_first = config.rdma.token_port_first,
                                                .port_last = config.rdma.token_port_last,
                                                .own_ports = {}});
  if (!made) return std::unexpected("rdma.token_networks: " + describe(made.error()));
  windows = std::move(*made);
  dialects.add(*windows);
  const FabricChoice choice = choose_fabrics(config);
  if (!choice.token_rc && !choice.token_dc) return {};
  rdma::rc::DeviceChoice device{.name = config.rdma.device_name, .gid_index = std::nullopt};
  if (config.rdma.gid_index != "auto") device.gid_index = std::stoi(config.rdma.gid_index);
  device.port = static_cast<uint8_t>(config.rdma.ib_port.value_or(1));
  device.pkey = config.rdma.pkey;
  device.vlan = config.rdma.vlan;
  if (choice.token_dc) {
    const auto open_dc = [device, arena = arena.get()](std::string_view but, const rdma::dc::Device::MakeRoom& room) {
      return rdma::dc::Device::open(rdma::dc::load_verbs(), device, *arena, but, room);
    };
    auto dc = rdma::dc::Descriptors::create(config.rdma.token_networks, open_dc, {});
    if (!dc) return std::unexpected("rdma.token_networks: " + describe(dc.error()));
    dc_tokens = std::move(*dc);
    dialects.add(*dc_tokens);
  }
  if (!choice.token_rc) return {};
  const auto open_device = [device] { return rdma::rc::open_ibv_device(device); };
  auto endpoint = rdma::rc::Endpoint::create(*arena, config.rdma.token_networks, open_device);
  if (!endpoint) return std::unexpected("rdma.token_networks: " + describe(endpoint.error()));
  connections = std::make_unique<rdma::rc::ReliableConnections>(std::move(*endpoint));
  dialects.add(connections->connections);
  connections->start();
  return {};
}

std::expected<void, std::string> Server::State::open_cores() {
  if (config.rdma.enabled) {
    if (!rdma_may_be_plain(config)) {
      log::info("rdma: tokens are declined unless they are sealed, which is done over https{}",
                tokens_may_be_served(config) ? "" : "; tls.certificate is not set");
    }
    if (auto opened = open_dialects(); !opened) return opened;
    fabric::ofi::export_port_counters();
    fabric::sealed::export_metrics();
    log::info("native: sessions_max={} per_account={} per_client={}", *config.rdma.sessions_max,
              *config.rdma.sessions_per_account_max, *config.rdma.sessions_per_client_max);
    native::Options options = native_limits(config.rdma);
    // There a reader holds back the removal of everything that was removed later, in the whole cluster.
    if (config.engine == EngineChoice::rados) options.lease_keys_max = 0;
    options.feeds = feeds;
    options.access_log = access_log.get();
    options.watch = &watch;
    options.tracer = tracer.get();
    options.auth_failures = auth_failures.get();
    options.networks = rules();
    if (gpudirect != nullptr) options.devices = [this] { return gpudirect->devices(); };
    door = std::make_unique<native::NativeDoor>(*service, *verifier, *identities, options);
  }
  const FabricChoice choice = choose_fabrics(config);
  for (auto& parts : cores) {
    if (parts.fabric != nullptr && choice.serves_tokens(parts.fabric->provider())) {
      windows->add(*parts.core, *parts.fabric);
    }
    // libfabric's tcp trusts its peers, so it serves only tokens, never the native door.
    if (parts.fabric != nullptr && parts.fabric->provider() != "tcp") {
      fabric::Port& port = parts.sealed != nullptr ? *parts.sealed : parts.fabric->port();
      auto attached = door->attach(*parts.core, port, parts.fabric->provider());
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
    const s3::Router::Options options{.domain = config.domain,
                                      .connections = connections.get(),
                                      .networks = rules(),
                                      .encryption = config.rdma.encryption};
    parts.router = std::make_unique<s3::Router>(*service, config.rdma.enabled ? &dialects : nullptr, options);
  }
  // The fabrics keep their message buffers permanently, so only the rest of the arena is shared.
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
  s3::Call caller;
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

void Server::State::run() {
  for (auto& parts : cores) parts.thread = std::thread([core = parts.core.get()] { core->run(); });
  boost::asio::co_spawn(cores.front().core->io(), iam->tell_ownerless_buckets(), boost::asio::detached);
  lifecycle->start();
  if (ends != nullptr) ends->start();
  if (bounds_worker != nullptr) bounds_worker->start();
  request_log->start();
  if (deliveries != nullptr) deliveries->start();
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
  if (ends != nullptr) ends->stop();
  sign_in.begin_stop();
  for (auto& parts : cores) parts.each_listener([](http::Listener& listener) { listener.stop_accepting(); });
  if (door != nullptr) door->stop();
  const auto requests = [this] { return door != nullptr ? door->in_flight() : 0; };
  const auto connections = [this] {
    size_t count = 0;
    for (const auto& parts : cores) parts.each_listener([&](http::Listener& l) { count += l.connections(); });
    return count;
  };
  wait_until(drain, [&] { return requests() == 0 && connections() == 0; });
  // Remaining requests are cut off while the cores run, so that each unwinds on its own thread.
  for (auto& parts : cores) parts.each_listener([](http::Listener& listener) { listener.close(); });
  // A one-sided operation cannot be cancelled: its request waits for it until its deadline.
  wait_until(std::max<std::chrono::milliseconds>(cut_off_max, config.rdma.operation_timeout + std::chrono::seconds(1)),
             [&] { return requests() == 0 && connections() == 0; });
  // While the cores run: an eviction may wait, without a deadline, for a lock of a coroutine on a core.
  if (bounds_worker != nullptr) bounds_worker->stop();
  for (auto& parts : cores) parts.core->stop();
  for (auto& parts : cores) {
    if (parts.thread.joinable()) parts.thread.join();
  }
  request_log->stop();
  if (deliveries != nullptr) deliveries->stop();
  // What a GPU may still touch stays mapped until the process ends.
  if (gpudirect != nullptr && !gpudirect->stop()) {
    log::warn("gpudirect: the server ends while a GPU does not answer");
    keep_until_exit(std::move(arena));
  }
  // A remaining request waits for the disk, whose answer is posted to its loop: loops are destroyed last.
  hot_store.reset();
  // The process ends, and its heap with it: to free what a store in memory has takes a second of a processor for each
  // million objects, which on a busy machine is longer than a service manager waits.
  if (!directory) keep_until_exit(std::move(store));
  store.reset();
  pool.reset();
  iam_pool.reset();
  for (BlockingPool* const looks : {admin_pool.get(), doctor_pool.get()}) {
    if (looks == nullptr || looks->leave(looking_max)) continue;
    log::warn("server: it ends while a check waits for a disk");
  }
  bool device_answers = true;
  if (this->connections != nullptr) {
    this->connections->stop();
    device_answers = this->connections->endpoint->end_work(device_work_max);
  }
  if (dc_tokens != nullptr) device_answers = dc_tokens->end_work(device_work_max) && device_answers;
  sign_in.stop();
  // The loops outlive all timers and sockets on them.
  for (auto& parts : cores) parts.close();
  door.reset();
  if (!device_answers) keep_for_device();
  cores.clear();
  this->connections.reset();
  dc_tokens.reset();
}

// What work that still waits for an RDMA device uses stays until the process ends.
void Server::State::keep_for_device() {
  for (auto& parts : cores) keep_until_exit(std::move(parts.core));
  keep_until_exit(std::move(this->connections));
  keep_until_exit(std::move(dc_tokens));
  keep_until_exit(std::move(arena));
}

std::expected<std::unique_ptr<Server>, std::string> Server::start(const Config& config,
                                                                  const std::filesystem::path& directory,
                                                                  auth::Credentials root, const FirstContents& contents,
                                                                  OpenCluster open_cluster) {
  if (auto sound = check(config); !sound) return std::unexpected(sound.error());
  log::set_level(config.log_level);
  auto opened = DataDirectory::open(directory);
  if (!opened) return std::unexpected(opened.error());
  auto state = std::make_unique<State>(config, std::move(*opened), std::move(root));
  state->open_cluster = open_cluster;
  return start(std::move(state), contents);
}

std::expected<std::unique_ptr<Server>, std::string> Server::start_in_memory(const Config& config, uint64_t bytes_max,
                                                                            auth::Credentials root,
                                                                            const FirstContents& contents) {
  if (auto sound = check(config); !sound) return std::unexpected(sound.error());
  log::set_level(config.log_level);
  ::umask(077);  // for log files, as with a data directory
  auto state = std::make_unique<State>(config, std::nullopt, std::move(root));
  if (config.rdma.enabled && config.rdma.local_socket.empty() && choose_fabrics(config).local) {
    auto made = SocketFolder::make();
    if (!made) return std::unexpected("rdma.local_socket is not set, and " + made.error());
    state->sockets = std::move(*made);
  }
  state->memory_max = bytes_max;
  return start(std::move(state), contents);
}

std::expected<std::unique_ptr<Server>, std::string> Server::start(std::unique_ptr<State> state,
                                                                  const FirstContents& contents) {
  const auto dpu = check_dpu(state->config.dpu);
  if (!dpu) return std::unexpected(dpu.error());
  if (!dpu->empty()) log::info("{}", *dpu);
  // Before there are threads: it changes the environment for a moment.
  if (!state->config.sign_in.ldap.url.empty()) {
    if (auto loaded = sign_in::load_ldap_library(); !loaded) {
      return std::unexpected("sign_in.ldap.url: " + loaded.error());
    }
  }
  const GpusFound gpus = find_gpus(state->config.gpudirect);
  if (!gpus.text.empty()) log::info("{}", gpus.text);
  if (auto done = state->open_transports(); !done) return std::unexpected(done.error());
  if (gpus.devices != 0) {
    state->gpudirect = std::make_unique<Gpudirect>(
        *state->arena, memory::cuda::Devices::Options{.limit = state->config.rdma.operation_timeout,
                                                      .hip_handles = state->config.gpudirect.rocm_handles});
  }
  if (auto done = state->open_identities(); !done) return std::unexpected(done.error());
  tell_networks(state->config, *state->identities);
  const auto& fabric = state->cores[0].fabric;
  tell_encryption(state->config, fabric != nullptr ? fabric->provider() : std::string_view());
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
  if (!state_->directory) return;  // its master key is in no file
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
