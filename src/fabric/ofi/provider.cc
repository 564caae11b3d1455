#include "fabric/ofi/provider.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <vector>

#include "base/log.h"
#include "fabric/ofi/address.h"
#include "fabric/ofi/device.h"
#include "fabric/ofi/gid.h"
#include "fabric/ofi/segment.h"

namespace verbena::fabric::ofi {
namespace {

constexpr uint32_t api_version = FI_VERSION(2, 0);
constexpr char verbs_name[] = "verbs;ofi_rxm";
constexpr size_t rxm_packet_max = 16 * KiB;  // must be equal on both sides of a connection

// Adds variables ("NAME=value" each) while other threads read the environment, as every log line does for its time:
// setenv() would free the array that they are reading. The previous array is never freed.
void add_to_environment(const std::vector<std::string>& added) {
  size_t count = 0;
  while (environ != nullptr && environ[count] != nullptr) ++count;
  auto** const all = static_cast<char**>(calloc(count + added.size() + 1, sizeof(char*)));
  if (all == nullptr) return;
  std::copy_n(environ, count, all);
  for (size_t i = 0; i < added.size(); ++i) all[count + i] = strdup(added[i].c_str());  // never freed
  __atomic_store_n(&environ, all, __ATOMIC_RELEASE);
}

// libfabric reads its variables at the first fi_getinfo of the process, and has no other way to set these. A variable
// that the operator exported stays as it is.
void set_environment(const Depths& depths, std::optional<size_t> max_sge = std::nullopt) {
  static std::once_flag once;
  std::call_once(once, [&] {
    std::vector<std::string> added;
    const auto set = [&](const char* name, const std::string& value) {
      if (getenv(name) == nullptr) added.push_back(name + ("=" + value));
    };
    const std::string sends = std::to_string(depths.sends_per_connection);
    const std::string receives = std::to_string(depths.receives);
    // rxm sizes a device's completion queue as rx + tx x universe; its default exceeds what many devices have.
    set("FI_UNIVERSE_SIZE", std::to_string(depths.universe));
    // Otherwise rxm keeps the connection of a peer that left the address vector.
    set("FI_AV_REMOVE_CLEANUP", "1");
    // Without a shared receive context, rxm 2.1 crashes when a connection with unread messages closes: it flushes its
    // queue after closing the connection's endpoint, and posts receives to it again (rxm_close_conn).
    set("FI_OFI_RXM_USE_SRX", "1");
    // Our messages fit into a packet each (message_size_max). With the library that checks its peers, rxm accepts
    // nothing else: its code for other messages (pieces, rendezvous, atomics) trusts every number in them.
    set("FI_OFI_RXM_EAGER_ONLY", "1");
    // Windows are registered once per request and withdrawn by closing: a cache would keep them reachable. Its
    // monitors would also patch this process's munmap.
    set("FI_MR_CACHE_MAX_COUNT", "0");
    set("FI_MR_CACHE_MONITOR", "disabled");
    set("FI_OFI_RXM_TX_SIZE", std::to_string(depths.sends));
    for (const char* name : {"FI_OFI_RXM_MSG_TX_SIZE", "FI_VERBS_TX_SIZE"}) set(name, sends);
    if (max_sge) {
      for (const char* name : {"FI_VERBS_TX_IOV_LIMIT", "FI_VERBS_RX_IOV_LIMIT"}) set(name, std::to_string(*max_sge));
    }
    for (const char* name : {"FI_OFI_RXM_RX_SIZE", "FI_OFI_RXM_MSG_RX_SIZE", "FI_VERBS_RX_SIZE"}) set(name, receives);
    add_to_environment(added);
  });
}

enum class Memory { host, device };

InfoPtr make_hints(Role role, const std::string& provider, Memory memory = Memory::host) {
  InfoPtr hints(fi_allocinfo());
  if (!hints) return hints;
  hints->caps = FI_MSG | FI_SEND | FI_RECV | FI_RMA;
  // Never FI_REMOTE_*: no peer may access the server's memory.
  hints->caps |= role == Role::server ? FI_READ | FI_WRITE : FI_REMOTE_READ | FI_REMOTE_WRITE;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  // All parts of FI_MR_BASIC; the provider clears those that it does not need.
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  if (memory == Memory::device) {
    hints->caps |= FI_HMEM;
    hints->domain_attr->mr_mode |= FI_MR_HMEM;
  }
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  if (!provider.empty()) hints->fabric_attr->prov_name = strdup(provider.c_str());
  return hints;
}

bool is_wildcard(const std::string& address) { return address.empty() || address == "0.0.0.0" || address == "::"; }

std::optional<EndpointAddress> source_of(const fi_info& info) {
  if (info.src_addr == nullptr) return std::nullopt;
  std::string name(static_cast<const char*>(info.src_addr), info.src_addrlen);
  // Before binding the port is 0, which no name may have.
  if (name.size() >= sizeof(sockaddr_in)) {
    auto* in = reinterpret_cast<sockaddr_in*>(name.data());
    if (in->sin_port == 0) in->sin_port = htons(1);
  }
  return decode_socket_name(name);
}

// An interface that other hosts can reach comes before loopback; link-local ones are never used.
int rank(const fi_info& info) {
  const auto source = source_of(info);
  if (!source) return 1;
  if (source->ip.is_v6() && source->ip.to_v6().is_link_local()) return -1;
  if (source->ip.is_loopback()) return source->ip.is_v4() ? 2 : 1;
  return source->ip.is_v4() ? 4 : 3;
}

bool wants_gid(const Options& options) {
  return options.device_name || options.ib_port || (options.gid_index && *options.gid_index != "auto");
}

bool wants_rdma_device(const Options& options) { return wants_gid(options) || options.pkey || options.vlan; }

// A key that only the verbs provider supports.
Result<void> check_device_keys(const Options& options, const std::string& provider) {
  if (provider == verbs_name) return {};
  const char* key = options.device_name                                   ? "device_name"
                    : options.ib_port                                     ? "ib_port"
                    : (options.gid_index && *options.gid_index != "auto") ? "gid_index"
                    : options.pkey                                        ? "pkey"
                    : options.vlan                                        ? "vlan"
                                                                          : nullptr;
  if (key == nullptr) return {};
  log::error("fabric: rdma.{} selects an RDMA device, which the provider {} does not use", key, provider);
  return fail(Errc::bad_config, "rdma: device_name, ib_port, gid_index, pkey and vlan need the provider verbs");
}

// The device must have room for the requested sizes. libfabric itself silently reduces a work-request limit to the
// device's, and reports a completion queue that is too large as an invalid argument of some endpoint.
Result<void> check_device(const Options& options, const Depths& depths, const fi_info& info) {
  if (provider_name(info) != verbs_name || info.domain_attr->name == nullptr) return {};
  const std::string device = info.domain_attr->name;
  const auto has = device_limits(device);
  if (!has) return {};
  const auto refuse = [&device](const char* key, size_t asked, size_t limit) {
    log::error("fabric: rdma.{}: {} asked, the device {} has {}", key, asked, device, limit);
    return fail(Errc::bad_config, "rdma: a key exceeds what the device has");
  };
  if (depths.sends > has->work_requests) return refuse("max_send_wr", depths.sends, has->work_requests);
  if (depths.receives > has->work_requests) return refuse("max_recv_wr", depths.receives, has->work_requests);
  if (options.max_sge && *options.max_sge > has->scatter_entries) {
    return refuse("max_sge", *options.max_sge, has->scatter_entries);
  }
  if (options.cq_size && *options.cq_size > has->completions)
    return refuse("cq_size", *options.cq_size, has->completions);
  const size_t needed = depths.receives + depths.sends_per_connection * depths.universe;
  if (needed <= has->completions) return {};
  log::error(
      "fabric: max_send_wr {} and max_recv_wr {} make a completion queue of {}, the device {} has {}: set "
      "rdma.cq_size between {} and that",
      depths.sends_per_connection, depths.receives, needed, device, has->completions, depths.sends + depths.receives);
  return fail(Errc::bad_config, "rdma: the completion queue exceeds what the device has");
}

// The chosen provider must have room for the requested sizes.
Result<void> check_limits(const Options& options, const fi_info& info) {
  const auto refuse = [&info](const char* key, size_t asked, size_t has) {
    log::error("fabric: rdma.{}: {} asked, the provider {} has {}", key, asked, provider_name(info), has);
    return fail(Errc::bad_config, "rdma: a key exceeds what the provider has");
  };
  if (options.max_sge && *options.max_sge > info.tx_attr->iov_limit) {
    return refuse("max_sge", *options.max_sge, info.tx_attr->iov_limit);
  }
  if (options.message_size_max > info.ep_attr->max_msg_size) {
    return refuse("message_size_max", options.message_size_max, info.ep_attr->max_msg_size);
  }
  return {};
}

}  // namespace

Result<Depths> depths(const Options& options) {
  Depths d;
  d.sends = options.max_send_wr.value_or(d.sends);
  d.receives = options.max_recv_wr.value_or(d.receives);
  // Requested sizes are used exactly.
  if (options.max_send_wr || options.cq_size) d.sends_per_connection = d.sends;
  if (d.sends == 0 || d.receives == 0 || d.sends > 65536 || d.receives > 65536) {
    return fail(Errc::bad_config, "rdma: max_send_wr and max_recv_wr are 1 to 65536");
  }
  if (options.max_sge && *options.max_sge == 0) return fail(Errc::bad_config, "rdma: max_sge is at least 1");
  const size_t needed = d.sends + d.receives;
  d.completions = options.cq_size.value_or(needed);
  if (options.cq_size && d.completions >= needed) d.universe = (d.completions - d.receives) / d.sends;
  if (d.completions < needed) {
    log::error("fabric: rdma.cq_size: {} asked, max_send_wr + max_recv_wr need {}", d.completions, needed);
    return fail(Errc::bad_config, "rdma: cq_size is below max_send_wr + max_recv_wr");
  }
  return d;
}

size_t message_size_max(const Options& options, const fi_info& info) {
  return provider_name(info) == verbs_name ? std::min(options.message_size_max, rxm_packet_max)
                                           : options.message_size_max;
}

bool has_socket_addresses(const fi_info& info) {
  return info.addr_format == FI_SOCKADDR || info.addr_format == FI_SOCKADDR_IN || info.addr_format == FI_SOCKADDR_IN6;
}

Result<std::vector<std::string>> preferences(std::string_view provider) {
  std::vector<std::string> names;
  while (!provider.empty()) {
    const auto comma = provider.find(',');
    std::string_view one = provider.substr(0, comma);
    provider = comma == std::string_view::npos ? std::string_view{} : provider.substr(comma + 1);
    while (!one.empty() && one.front() == ' ') one.remove_prefix(1);
    while (!one.empty() && one.back() == ' ') one.remove_suffix(1);
    if (one == "auto") {
      names.insert(names.end(), {verbs_name, "tcp"});
    } else if (one == "verbs" || one == verbs_name) {
      names.emplace_back(verbs_name);
    } else if (one == "tcp" || one == "efa" || one == "cxi") {
      names.emplace_back(one);
    } else if (one != "local") {  // handled by fabric/local
      log::error("fabric: rdma.provider: {} is not one of auto, verbs, tcp, efa, cxi, local", log::printable(one));
      return fail(Errc::bad_config, "rdma.provider: unknown provider");
    }
  }
  if (names.empty()) return fail(Errc::bad_config, "rdma.provider: names no fabric provider");
  return names;
}

namespace {

// The address of the GID that the keys choose.
Result<std::string> chosen_gid(const Options& options) {
  GidChoice choice;
  choice.device = options.device_name.value_or("");
  choice.port = options.ib_port.value_or(1);
  if (options.gid_index && *options.gid_index != "auto") {
    char* end = nullptr;
    const unsigned long index = std::strtoul(options.gid_index->c_str(), &end, 10);
    if (options.gid_index->empty() || *end != '\0' || index > 1023) {
      return fail(Errc::bad_config, "rdma.gid_index: auto or a number");
    }
    choice.index = static_cast<unsigned>(index);
  }
  return gid_source_address(choice);
}

// An address in the partition or VLAN: the configured one, which is checked, or one that is found.
Result<std::string> segment_source(const Options& options) {
  const Segment segment{.pkey = options.pkey, .vlan = options.vlan};
  const SegmentDevice device{.name = options.device_name.value_or(""), .port = options.ib_port};
  const Interfaces machine = Interfaces::of_machine();
  const auto refuse = [](const std::string& why) {
    log::error("fabric: {}", why);
    return fail(Errc::bad_config, "rdma.pkey, rdma.vlan: no such address");
  };
  const bool by_index = options.gid_index && *options.gid_index != "auto";
  std::string address = is_wildcard(options.bind_address) || wants_gid(options) ? "" : options.bind_address;
  if (by_index) {
    VB_ASSIGN(address, chosen_gid(options));
  }
  if (address.empty()) {
    const auto found = segment_address(segment, device, machine);
    if (!found) return refuse(found.error());
    return *found;
  }
  if (const auto checked = check_segment(segment, device, address, machine); !checked) return refuse(checked.error());
  return address;
}

}  // namespace

Result<std::string> source_address(const Options& options) {
  if (!wants_rdma_device(options)) return is_wildcard(options.bind_address) ? std::string() : options.bind_address;
  VB_ASSIGN(const auto names, preferences(options.provider));
  if (std::find(names.begin(), names.end(), verbs_name) == names.end()) {
    VB_TRY(check_device_keys(options, names.front()));
  }
  return options.pkey || options.vlan ? segment_source(options) : chosen_gid(options);
}

namespace {

// When asked for `verbs`, libfabric reads all the names of the kernel's symbols, device or not: most of a start's time.
// TEST_VERBENA_RDMA_DEVICE: a test has a provider of that name without a device.
bool has_devices() {
  if (::secure_getenv("TEST_VERBENA_RDMA_DEVICE") != nullptr) return true;
  std::error_code error;
  const std::filesystem::directory_iterator first("/sys/class/infiniband", error);
  return !error && first != std::filesystem::directory_iterator();
}

// The best that a provider has at this address; null: nothing.
InfoPtr best_of(const std::string& name, Role role, Memory memory, const Options& options, const std::string& source) {
  const auto limits = depths(options);
  const InfoPtr hints = make_hints(role, name, memory);
  if (!limits || !hints) return {};
  const char* node = source.empty() ? nullptr : source.c_str();
  const uint64_t flags = source.empty() ? 0 : FI_SOURCE;
  hints->tx_attr->size = limits->sends;
  hints->rx_attr->size = limits->receives;
  if (options.max_sge) hints->tx_attr->iov_limit = *options.max_sge;
  fi_info* list = nullptr;
  int ret = fi_getinfo(api_version, node, nullptr, flags, hints.get(), &list);
  if (ret != 0 && options.max_sge) {  // report this key, not the provider's absence
    hints->tx_attr->iov_limit = 0;
    ret = fi_getinfo(api_version, node, nullptr, flags, hints.get(), &list);
  }
  if (ret != 0) return {};
  const InfoPtr owner(list);
  const fi_info* best = nullptr;
  for (const fi_info* i = list; i != nullptr; i = i->next) {
    if (provider_name(*i) != name) continue;  // "tcp" also lists "tcp;ofi_rxm"
    if (rank(*i) >= 0 && (best == nullptr || rank(*i) > rank(*best))) best = i;
  }
  InfoPtr chosen(best == nullptr ? nullptr : fi_dupinfo(best));
  if (chosen) chosen->next = nullptr;
  return chosen;
}

// Null: there is none.
Result<InfoPtr> find(const Options& options, Role role, const std::string& source) {
  VB_ASSIGN(const auto limits, depths(options));
  VB_ASSIGN(const auto names, preferences(options.provider));
  set_environment(limits, options.max_sge);
  for (const auto& name : names) {
    // `auto` with a device key means verbs only.
    if (wants_rdma_device(options) && name != verbs_name) continue;
    if (name == verbs_name && !has_devices()) continue;
    InfoPtr chosen = best_of(name, role, Memory::host, options, source);
    if (!chosen) continue;
    VB_TRY(check_device(options, limits, *chosen));
    VB_TRY(check_limits(options, *chosen));
    // libfabric offers the same device a second time where that can register memory of other devices.
    if (role == Role::client && options.device_memory && name != "tcp") {
      InfoPtr both = best_of(name, role, Memory::device, options, source);
      if (both && domain_name(*both) == domain_name(*chosen)) return both;
    }
    return chosen;
  }
  if (wants_rdma_device(options)) VB_TRY(check_device_keys(options, names.front()));
  return InfoPtr();
}

}  // namespace

Result<InfoPtr> choose(const Options& options, Role role, const std::string& source) {
  VB_ASSIGN(auto found, find(options, role, source));
  if (found) return found;
  log::warn("fabric: no provider of \"{}\" at address \"{}\"", log::printable(options.provider),
            log::printable(source));
  return fail(Errc::unsupported, "no fabric provider at this address");
}

bool available(const Options& options) {
  const auto source = source_address(options);
  if (!source) return false;
  const auto found = find(options, Role::server, *source);
  return !found || *found;
}

bool checks_peers() {
  char version[256] = {};
  fi_tostr_r(version, sizeof version, version, FI_TYPE_VERSION);  // the data pointer is ignored but must not be null
  return std::string_view(version).find("-checked3") != std::string_view::npos;
}

// The domains of a provider that register memory of other devices.
static std::set<std::string> registers_device_memory(const std::string& name) {
  std::set<std::string> found;
  fi_info* list = nullptr;
  const InfoPtr hints = make_hints(Role::client, name, Memory::device);
  if (name == "tcp" || !hints || fi_getinfo(api_version, nullptr, nullptr, 0, hints.get(), &list) != 0) return found;
  const InfoPtr owner(list);
  for (const fi_info* i = list; i != nullptr; i = i->next) {
    if (provider_name(*i) == name) found.emplace(domain_name(*i));
  }
  return found;
}

std::vector<ProviderInfo> discover() {
  std::vector<ProviderInfo> found;
  if (const auto limits = depths(Options{})) set_environment(*limits);
  for (const char* name : {verbs_name, "efa", "cxi", "tcp"}) {
    const InfoPtr hints = make_hints(Role::server, name);
    fi_info* list = nullptr;
    if (!hints || fi_getinfo(api_version, nullptr, nullptr, 0, hints.get(), &list) != 0) continue;
    const InfoPtr owner(list);
    const std::set<std::string> devices = registers_device_memory(name);
    for (const fi_info* i = list; i != nullptr; i = i->next) {
      if (provider_name(*i) != name) continue;
      ProviderInfo info;
      info.provider = name;
      info.fabric = i->fabric_attr->name != nullptr ? i->fabric_attr->name : "";
      info.domain = i->domain_attr->name != nullptr ? i->domain_attr->name : "";
      info.message_bytes_max = i->ep_attr->max_msg_size;
      info.usable = rank(*i) >= 0;
      info.device_memory = devices.contains(info.domain);
      if (const auto source = source_of(*i)) info.address = source->ip.to_string();
      // libfabric lists one for each memory-registration mode and the like; the list is reduced to one of each.
      const bool known = std::any_of(found.begin(), found.end(), [&info](const ProviderInfo& other) {
        return other.provider == info.provider && other.domain == info.domain && other.address == info.address;
      });
      if (!known) found.push_back(std::move(info));
    }
  }
  return found;
}

}  // namespace verbena::fabric::ofi
