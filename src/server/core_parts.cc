#include "server/core_parts.h"

#include <algorithm>

namespace verbena::server {
namespace {

// What a message carries beside its inline bytes: header, keys, metadata, MAC.
constexpr size_t message_overhead_max = 12 * KiB;

fabric::ofi::Options ofi_options(const Config::Rdma& rdma, const std::string& provider) {
  fabric::ofi::Options options;
  options.provider = provider;
  options.bind_address = rdma.address;
  options.port_first = rdma.fabric_port_first;
  options.port_last = rdma.fabric_port_last;
  if (!rdma.device_name.empty()) options.device_name = rdma.device_name;
  options.ib_port = rdma.ib_port;
  if (rdma.gid_index != "auto") options.gid_index = rdma.gid_index;
  options.max_send_wr = rdma.max_send_wr;
  options.max_recv_wr = rdma.max_recv_wr;
  options.max_sge = rdma.max_sge;
  options.cq_size = rdma.cq_size;
  options.message_size_max = std::max<size_t>(options.message_size_max, rdma.inline_bytes_max + message_overhead_max);
  options.operation_deadline = rdma.operation_timeout;
  return options;
}

}  // namespace

std::expected<void, std::string> open_ring(CoreParts& parts, memory::Arena& arena, DiskIo disk_io) {
  if (disk_io == DiskIo::threads) return {};
  auto opened = IoRing::open(parts.core->io(), {.memory = arena.mapping()});
  if (opened) {
    parts.ring = *opened;
    parts.core->add(parts.ring);
    return {};
  }
  if (disk_io == DiskIo::io_uring) return std::unexpected("disk_io io_uring: " + describe(opened.error()));
  if (parts.core->index() == 0) log::info("disk: {}; data is read by threads", describe(opened.error()));
  return {};
}

FabricChoice choose_fabrics(const Config::Rdma& rdma) {
  FabricChoice choice;
  // "auto" anywhere in the list means: whatever opens.
  const bool any = std::ranges::find(rdma.provider, "auto") != rdma.provider.end();
  choice.must_open = !any && std::ranges::any_of(rdma.provider, [](const auto& name) { return name != "local"; });
  for (const auto& provider : rdma.provider) {
    choice.local = choice.local || provider == "local" || provider == "auto";
    choice.tcp = choice.tcp || provider == "tcp" || provider == "auto";
    if (provider == "local" || provider == "tcp") continue;
    choice.devices += (choice.devices.empty() ? "" : ",") + (provider == "auto" ? std::string("verbs") : provider);
  }
  return choice;
}

namespace {

// libfabric's devices. Its tcp serves tokens only (open_token_fabrics).
std::expected<void, std::string> open_devices(CoreParts& parts, memory::Arena& arena, const Config::Rdma& rdma,
                                              const FabricChoice& choice) {
  if (choice.devices.empty()) return {};
  const auto options = ofi_options(rdma, choice.devices);
  if (!choice.must_open && !fabric::ofi::available(options)) {
    if (parts.core->index() == 0) log::info("fabric: no RDMA device at {}", rdma.address);
    return {};
  }
  auto opened = fabric::ofi::open(*parts.core, arena, options);
  if (opened) {
    parts.fabric = std::move(*opened);
    return {};
  }
  if ((choice.must_open && !choice.tcp) || opened.error() == Errc::bad_config) {
    return std::unexpected("rdma.provider " + choice.devices + ": " + describe(opened.error()));
  }
  log::warn("fabric: libfabric opened nothing ({})", describe(opened.error()));
  return {};
}

std::expected<void, std::string> open_tcp(CoreParts& parts, const Config::Rdma& rdma, const FabricChoice& choice) {
  if (!choice.tcp) return {};
  fabric::tcp::Options options;
  options.bind_address = rdma.address;
  options.port_first = rdma.fabric_port_first;
  options.port_last = rdma.fabric_port_last;
  options.encrypt = rdma.tcp_encryption;
  options.message_size_max = std::max<size_t>(options.message_size_max, rdma.inline_bytes_max + message_overhead_max);
  auto opened = fabric::tcp::listen(*parts.core, options);
  if (!opened) return std::unexpected("rdma.provider tcp: " + rdma.address + ": " + describe(opened.error()));
  parts.tcp = std::move(*opened);
  if (parts.core->index() == 0) {
    log::info("fabric: tcp encryption={}", options.encrypt ? "on" : "off (connections are authenticated)");
  }
  return {};
}

std::expected<void, std::string> open_local(CoreParts& parts, const Config::Rdma& rdma, const FabricChoice& choice,
                                            const std::filesystem::path& directory) {
  if (!choice.local) return {};
  const auto prefix = rdma.local_socket.empty() ? (directory / "local.sock").string() : rdma.local_socket;
  parts.local_socket = prefix + "." + std::to_string(parts.core->index());
  fabric::local::Options options;
  options.peers_max = rdma.sessions_max;  // a session has a link to each core
  auto opened = fabric::local::listen(*parts.core, parts.local_socket, options);
  if (opened) {
    parts.local = std::move(*opened);
  } else if (choice.devices.empty() && !choice.tcp) {
    return std::unexpected("rdma.provider local: " + parts.local_socket + ": " + describe(opened.error()));
  } else {
    log::warn("fabric: the same-host path is off: {}: {}", parts.local_socket, describe(opened.error()));
  }
  return {};
}

// "verbs" for "verbs;ofi_rxm".
std::string key_name(std::string_view provider) { return std::string(provider.substr(0, provider.find(';'))); }

// What tokens are to be served on, of what this machine has: names as rdma.token_provider takes them.
struct TokenProvider {
  std::string name;
  bool must_open;  // named outright
};
std::vector<TokenProvider> wanted_token_providers(const Config::Rdma& rdma) {
  std::vector<TokenProvider> wanted;
  const auto add = [&wanted](const std::string& name, bool must_open) {
    const auto known = std::ranges::find(wanted, name, &TokenProvider::name);
    if (known == wanted.end()) {
      wanted.push_back({name, must_open});
    } else {
      known->must_open = known->must_open || must_open;
    }
  };
  for (const auto& name : rdma.token_provider) {
    if (name == "none") return {};
    if (name != "auto") {
      add(name, true);
    } else {
      for (const char* device : {"verbs", "efa", "cxi"}) add(device, false);
    }
  }
  return wanted;
}

}  // namespace

std::expected<void, std::string> open_fabrics(CoreParts& parts, memory::Arena& arena, const Config& config,
                                              const std::filesystem::path& directory) {
  const auto choice = choose_fabrics(config.rdma);
  if (auto opened = open_devices(parts, arena, config.rdma, choice); !opened) return opened;
  if (auto opened = open_tcp(parts, config.rdma, choice); !opened) return opened;
  return open_local(parts, config.rdma, choice, directory);
}

std::expected<void, std::string> open_token_fabrics(CoreParts& parts, memory::Arena& arena, const Config& config) {
  for (const auto& wanted : wanted_token_providers(config.rdma)) {
    if (parts.fabric != nullptr && key_name(parts.fabric->provider()) == wanted.name) continue;
    auto options = ofi_options(config.rdma, wanted.name);
    options.dial_only = true;
    if (wanted.name != "verbs") {
      options.device_name.reset();
      options.ib_port.reset();
      options.gid_index.reset();
    }
    if (!wanted.must_open && !fabric::ofi::available(options)) continue;
    auto opened = fabric::ofi::open(*parts.core, arena, options);
    if (opened) {
      parts.token_fabrics.push_back(std::move(*opened));
    } else if (wanted.must_open || opened.error() == Errc::bad_config) {
      return std::unexpected("rdma.token_provider " + wanted.name + ": " + describe(opened.error()));
    } else {
      log::warn("fabric: tokens are not served on {} ({})", wanted.name, describe(opened.error()));
    }
  }
  return {};
}

std::vector<fabric::ofi::CoreFabric*> token_fabrics(CoreParts& parts, const Config::Rdma& rdma) {
  std::vector<fabric::ofi::CoreFabric*> serving;
  if (parts.fabric != nullptr) {
    const auto wanted = wanted_token_providers(rdma);
    const auto shared = std::ranges::find(wanted, key_name(parts.fabric->provider()), &TokenProvider::name);
    if (shared != wanted.end()) serving.push_back(parts.fabric.get());
  }
  for (const auto& fabric : parts.token_fabrics) serving.push_back(fabric.get());
  return serving;
}

}  // namespace verbena::server
