// The parts of one core: its loop, its fabric endpoints, its listeners, its router. Private to this room.
#pragma once

#include <expected>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/config.h"
#include "base/core.h"
#include "base/io_ring.h"
#include "fabric/local/local.h"
#include "fabric/ofi/ofi.h"
#include "fabric/tcp/tcp.h"
#include "http/server.h"
#include "s3_http/routing/router.h"

namespace verbena::server {

// Members are destroyed from the last to the first: listeners, then what they call, then fabrics, then the loop.
struct CoreParts {
  std::unique_ptr<Core> core;
  IoRing* ring = nullptr;                           // of the core's loop; null: data is read by threads
  std::unique_ptr<fabric::ofi::CoreFabric> fabric;  // null if no provider between hosts is open
  std::unique_ptr<fabric::Port> sealed;             // around its port; null: nothing is ever encrypted
  std::unique_ptr<fabric::Port> tcp;                // null if not configured
  std::unique_ptr<fabric::Port> local;              // null when the same-host path is off
  std::string local_socket;
  std::vector<std::string> fallbacks;  // differences from the configuration, and their reasons
  std::unique_ptr<s3::Router> router;
  std::unique_ptr<http::Listener> s3_listener;
  std::unique_ptr<http::Listener> native_listener;
  std::unique_ptr<http::Listener> certificate_listener;            // requests client certificates; null: none
  std::vector<std::unique_ptr<http::Listener>> network_listeners;  // of entries of `listeners:` with an address
  std::unique_ptr<http::Listener> admin_listener;                  // of the first core only
  std::thread thread;

  // Calls `use` with each listener there is.
  template <class Use>
  void each_listener(Use use) const {
    for (const auto* listener : {&s3_listener, &certificate_listener, &native_listener, &admin_listener}) {
      if (*listener != nullptr) use(**listener);
    }
    for (const auto& listener : network_listeners) use(*listener);
  }

  // Destroys everything but the loop, which must not be running.
  void close() {
    admin_listener.reset();
    network_listeners.clear();
    native_listener.reset();
    certificate_listener.reset();
    s3_listener.reset();
    router.reset();
    local.reset();
    tcp.reset();
    sealed.reset();
    fabric.reset();
  }
};

// Opens the core's io_uring as `disk_io` says, before the core runs. The error names the key.
std::expected<void, std::string> open_ring(CoreParts& parts, memory::Arena& arena, DiskIo disk_io);

// The configured fabrics. Names of the native door: verbs, efa and cxi are libfabric's devices, tcp and local are
// Verbena's own transports. Providers for tokens have a list of their own, in which every name is libfabric's.
struct FabricChoice {
  bool local = false;
  bool tcp = false;
  std::string devices;         // for ofi::Options::provider, in order of preference; empty: none
  bool must_open = false;      // explicitly named: failing to open is an error
  bool token_devices = false;  // the open ones of `devices` serve tokens
  bool token_tcp = false;      // and by libfabric's tcp, which trusts its peers
  bool token_rc = false;       // dialects over reliable connections are served, without libfabric
  bool token_dc = false;       // cuObject's descriptors, likewise
  // Providers for libfabric: it opens the first that it can.
  std::string libfabric() const { return devices + (token_tcp ? (devices.empty() ? "tcp" : ",tcp") : ""); }
  // Whether `provider`, opened by libfabric, serves tokens.
  bool serves_tokens(std::string_view provider) const { return provider == "tcp" ? token_tcp : token_devices; }
};
FabricChoice choose_fabrics(const Config& config);

struct FabricPlaces {
  std::filesystem::path directory;  // of the same-host sockets, if the configuration names none
  size_t arrivals_max = 512;        // of a native tcp port
  unsigned cores = 1;               // of the server
};

// Opens the fabrics of one core, before it runs. The error names the provider and the key at fault.
std::expected<void, std::string> open_fabrics(CoreParts& parts, memory::Arena& arena, const Config& config,
                                              const FabricPlaces& places);

}  // namespace verbena::server
