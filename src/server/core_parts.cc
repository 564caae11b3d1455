#include "server/core_parts.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fabric/sealed/sealed.h"

namespace verbena::server {
namespace {

// The parts of a message besides its inline bytes: header, keys, metadata, MAC.
constexpr size_t message_overhead_max = 12 * KiB;
// A same-host client must name its session within this time after it has connected.
constexpr std::chrono::seconds local_admission_timeout{10};

fabric::ofi::Options ofi_options(const Config& config, const std::string& provider) {
  const Config::Rdma& rdma = config.rdma;
  fabric::ofi::Options options;
  options.provider = provider;
  options.bind_address = rdma.address;
  options.port_first = rdma.fabric_port_first;
  options.port_last = rdma.fabric_port_last;
  if (!rdma.device_name.empty()) options.device_name = rdma.device_name;
  options.ib_port = rdma.ib_port;
  if (rdma.gid_index != "auto") options.gid_index = rdma.gid_index;
  options.pkey = rdma.pkey;
  options.vlan = rdma.vlan;
  options.max_send_wr = rdma.max_send_wr;
  options.max_recv_wr = rdma.max_recv_wr;
  options.max_sge = rdma.max_sge;
  options.cq_size = rdma.cq_size;
  options.message_size_max = std::max<size_t>(options.message_size_max, rdma.inline_bytes_max + message_overhead_max);
  if (rdma_may_be_sealed(config)) options.message_size_max += fabric::sealed::message_overhead();
  options.operation_deadline = rdma.operation_timeout;
  return options;
}

}  // namespace

namespace {

// The sockets' own directory. If the configuration names it, clients of all users may enter it: the sockets give
// nothing to clients without a key. An existing directory keeps its mode.
std::expected<void, std::string> make_socket_directory(const std::filesystem::path& prefix, bool own_user_only) {
  const auto directory = prefix.parent_path();
  if (directory.empty()) return {};
  if (::mkdir(directory.c_str(), 0700) == 0) {
    if (own_user_only || ::chmod(directory.c_str(), 0755) == 0) return {};
  } else if (errno == EEXIST) {
    return {};
  }
  return std::unexpected("rdma.local_socket: cannot make " + directory.string() + ": " + std::strerror(errno));
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
  parts.fallbacks.push_back("data is read by threads: " + describe(opened.error()));
  return {};
}

FabricChoice choose_fabrics(const Config& config) {
  const Config::Rdma& rdma = config.rdma;
  FabricChoice choice;
  // "auto" anywhere in the list means any provider that opens.
  const bool any = std::ranges::find(rdma.provider, "auto") != rdma.provider.end();
  choice.must_open = !any && std::ranges::any_of(rdma.provider, [](const auto& name) { return name != "local"; });
  for (const auto& name : rdma.token_provider) {
    if (!tokens_may_be_served(config)) break;
    const bool by_libfabric = name != "none" && name != "rc" && name != "dc";
    choice.token_devices = choice.token_devices || (by_libfabric && name != "tcp");
    choice.token_rc = choice.token_rc || (name == "rc" && rdma_may_be_plain(config));  // never sealed
    choice.token_dc = choice.token_dc || (name == "dc" && rdma_may_be_plain(config));  // likewise
    choice.token_tcp = choice.token_tcp || name == "tcp";
  }
  for (const auto& provider : rdma.provider) {
    choice.local = choice.local || provider == "local" || provider == "auto";
    choice.tcp = choice.tcp || provider == "tcp" || provider == "auto";
    if (provider == "local" || provider == "tcp") continue;
    choice.devices += (choice.devices.empty() ? "" : ",") + (provider == "auto" ? std::string("verbs") : provider);
  }
  return choice;
}

namespace {

// libfabric's devices; its tcp serves tokens only, if the configuration names it.
std::expected<void, std::string> open_devices(CoreParts& parts, memory::Arena& arena, const Config& config,
                                              const FabricChoice& choice) {
  const std::string names = choice.libfabric();
  if (names.empty()) return {};
  auto opened = fabric::ofi::open(*parts.core, arena, ofi_options(config, names));
  if (opened) {
    parts.fabric = std::move(*opened);
    if (!rdma_may_be_sealed(config)) return {};
    parts.sealed =
        fabric::sealed::seal(*parts.core, parts.fabric->port(), arena, {.takes_plain = rdma_may_be_plain(config)});
    return {};
  }
  if ((choice.must_open && !choice.tcp) || choice.token_tcp || opened.error() == Errc::bad_config) {
    return std::unexpected("rdma.provider " + names + ": " + describe(opened.error()));
  }
  log::warn("fabric: libfabric opened nothing ({})", describe(opened.error()));
  parts.fallbacks.push_back("no RDMA device (" + names + "): " + describe(opened.error()));
  return {};
}

std::expected<void, std::string> open_tcp(CoreParts& parts, const Config::Rdma& rdma, const FabricChoice& choice,
                                          size_t arrivals_max) {
  if (!choice.tcp) return {};
  fabric::tcp::Options options;
  options.bind_address = rdma.address;
  options.port_first = rdma.fabric_port_first;
  options.port_last = rdma.fabric_port_last;
  options.encrypt = rdma.tcp_encryption;
  options.arrivals_max = arrivals_max;
  options.arrivals_per_address_max = std::max<size_t>(arrivals_max / 8, 1);
  options.message_size_max = std::max<size_t>(options.message_size_max, rdma.inline_bytes_max + message_overhead_max);
  auto opened = fabric::tcp::listen(*parts.core, options);
  if (!opened) return std::unexpected("rdma.provider tcp: " + rdma.address + ": " + describe(opened.error()));
  parts.tcp = std::move(*opened);
  if (parts.core->index() == 0) {
    log::info("fabric: tcp encryption={}", options.encrypt ? "on" : "off (connections are authenticated)");
  }
  return {};
}

std::expected<void, std::string> open_local(CoreParts& parts, const Config& config, const FabricChoice& choice,
                                            const FabricPlaces& places) {
  if (!choice.local) return {};
  const Config::Rdma& rdma = config.rdma;
  const auto prefix =
      rdma.local_socket.empty() ? (places.directory / "sockets/local.sock").string() : rdma.local_socket;
  if (auto made = make_socket_directory(prefix, rdma.local_socket.empty()); !made) return made;
  parts.local_socket = prefix + "." + std::to_string(parts.core->index());
  fabric::local::Options options;
  // A session has a link to each core. Of more sessions than there are mappings for, the rest use another fabric.
  options.peers_max = std::max<size_t>(fabric::local::links_max() / std::max(places.cores, 1u), 1);
  if (rdma.sessions_max) options.peers_max = std::min<size_t>(options.peers_max, *rdma.sessions_max);
  options.admission_timeout = local_admission_timeout;
  options.takes_descriptors = config.gpudirect.enabled;
  auto opened = fabric::local::listen(*parts.core, parts.local_socket, options);
  if (opened) {
    parts.local = std::move(*opened);
  } else if (choice.devices.empty() && !choice.tcp) {
    return std::unexpected("rdma.provider local: " + parts.local_socket + ": " + describe(opened.error()));
  } else {
    log::warn("fabric: the same-host path is off: {}: {}", parts.local_socket, describe(opened.error()));
    parts.fallbacks.push_back("the same-host path is off: " + parts.local_socket + ": " + describe(opened.error()));
  }
  return {};
}

}  // namespace

std::expected<void, std::string> open_fabrics(CoreParts& parts, memory::Arena& arena, const Config& config,
                                              const FabricPlaces& places) {
  const auto choice = choose_fabrics(config);
  if (auto opened = open_devices(parts, arena, config, choice); !opened) return opened;
  if (auto opened = open_tcp(parts, config.rdma, choice, places.arrivals_max); !opened) return opened;
  return open_local(parts, config, choice, places);
}

}  // namespace verbena::server
