// Sources: rdma-core's manual pages ibv_query_gid_table(3), ibv_query_pkey(3).
#include "rdma/rc/ibv_port.h"

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "fabric/ofi/segment.h"

namespace verbena::rdma::rc {
namespace {

// Whether the GID may be used: it is of the interface of that VLAN.
bool is_in_vlan(const ibv_gid_entry& gid, uint16_t vlan) {
  std::array<char, IF_NAMESIZE> name{};
  return if_indextoname(gid.ndev_ifindex, name.data()) != nullptr && fabric::ofi::vlan_of(name.data()) == vlan;
}

int read_port(ibv_context* context, uint8_t port, ibv_port_attr* into) { return ibv_query_port(context, port, into); }

ssize_t read_gids(ibv_context* context, ibv_gid_entry* into, size_t entries_max) {
  return ibv_query_gid_table(context, into, entries_max, 0);
}

}  // namespace

// ENODATA: an empty entry of the GID table, since Linux 5.10.
bool tells_of_the_port(int error) { return error == ENODATA || error == EINVAL || error == ENODEV || error == ENOENT; }

GidKind kind_of(const Gid& gid) {
  const auto address = address_of(gid);
  if (address.is_v4()) return GidKind::ipv4;
  return address.to_v6().is_link_local() ? GidKind::link_local : GidKind::ipv6;
}

const GidEntry& PortState::entry_for(const Gid& peer) const {
  const auto by_index = [&](const GidEntry& one) { return gid_index && one.index == *gid_index; };
  if (const auto found = std::ranges::find_if(gids, by_index); found != gids.end()) return *found;
  const GidKind wanted = kind_of(peer);
  const GidEntry* best = nullptr;
  for (const GidEntry& one : gids) {
    if (kind_of(one.gid) != wanted) continue;
    const bool better = wanted == GidKind::link_local ? !one.version2 : one.version2;
    if (best == nullptr || (better && best->version2 != one.version2)) best = &one;
  }
  return best != nullptr ? *best : gids.front();
}

const PortCalls& libibverbs_port_calls() {
  static constexpr PortCalls calls{read_port, read_gids, ibv_query_pkey};
  return calls;
}

// The port's table of partition keys, as the subnet manager made it.
std::vector<uint16_t> OpenPort::partitions(uint16_t size) const {
  std::vector<uint16_t> table;
  for (int at = 0; at < size; ++at) {
    __be16 key = 0;
    if (calls_.query_pkey(context(), number(), at, &key) != 0) break;
    table.push_back(ntohs(key));
  }
  return table;
}

// The GIDs of the port that may be used.
std::vector<GidEntry> OpenPort::gids(size_t table_size) const {
  std::vector<GidEntry> found;
  std::vector<ibv_gid_entry> entries(table_size);
  const auto count = calls_.query_gid_table(context(), entries.data(), entries.size());
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& one = entries[static_cast<size_t>(i)];
    if (one.port_num != number() || one.gid_index > 255) continue;  // queue pairs name it by one byte
    if (choice_.gid_index && one.gid_index != static_cast<uint32_t>(*choice_.gid_index)) continue;
    if (choice_.vlan && !is_in_vlan(one, *choice_.vlan)) continue;
    GidEntry entry{.index = one.gid_index, .version2 = one.gid_type == IBV_GID_TYPE_ROCE_V2};
    std::memcpy(entry.gid.data(), one.gid.raw, entry.gid.size());
    found.push_back(entry);
  }
  return found;
}

bool OpenPort::read() {
  ibv_port_attr port{};
  if (calls_.query_port(context(), number(), &port) != 0 || port.state != IBV_PORT_ACTIVE) return false;
  auto found = std::make_shared<PortState>();
  found->mtu = port.active_mtu;
  found->ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
  found->lid = port.lid;
  found->lid_bits = port.lmc;
  found->needs_gid = (port.flags & IBV_QPF_GRH_REQUIRED) != 0;
  if (choice_.pkey) {
    const auto table = partitions(port.pkey_tbl_len);
    const auto entry = partition_entry(table, *choice_.pkey);
    if (!entry) return false;
    found->partition = *entry;
  }
  found->gids = gids(static_cast<size_t>(std::max(port.gid_tbl_len, 1)));
  if (choice_.gid_index) found->gid_index = static_cast<uint32_t>(*choice_.gid_index);
  if (found->gids.empty()) return false;
  const std::lock_guard lock(mutex_);
  state_ = std::move(found);
  return true;
}

std::optional<uint16_t> partition_entry(std::span<const uint16_t> table, uint16_t pkey) {
  constexpr uint16_t full = 0x8000;
  std::optional<uint16_t> limited;
  for (size_t at = 0; at < table.size(); ++at) {
    if (fabric::ofi::partition_of(table[at]) != fabric::ofi::partition_of(pkey)) continue;
    if ((table[at] & full) != 0) return static_cast<uint16_t>(at);
    if (!limited) limited = static_cast<uint16_t>(at);
  }
  return limited;
}

}  // namespace verbena::rdma::rc
