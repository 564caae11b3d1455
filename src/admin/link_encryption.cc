#include "admin/link_encryption.h"

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <linux/xfrm.h>
#include <net/if.h>
#include <openssl/crypto.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/aead_library.h"
#include "base/aes_instructions.h"
#include "base/fd.h"

namespace verbena::admin {
namespace {

constexpr size_t features_max = 1024;
constexpr size_t associations_max = 100'000;  // or policies

// Passes `request`, a struct of ethtool's, to the kernel.
bool ask_ethtool(int socket, const std::string& interface, void* request) {
  ifreq asked{};
  if (interface.size() >= sizeof asked.ifr_name) return false;
  std::memcpy(asked.ifr_name, interface.data(), interface.size());
  asked.ifr_data = static_cast<char*>(request);
  return ::ioctl(socket, SIOCETHTOOL, &asked) == 0;
}

// The names of the device's features, in the order of their bits; empty: the kernel does not say.
std::vector<std::string> feature_names(int socket, const std::string& interface) {
  std::array<uint32_t, (sizeof(ethtool_sset_info) + 2 * sizeof(uint32_t)) / sizeof(uint32_t)> room{};
  ethtool_sset_info head{};
  head.cmd = ETHTOOL_GSSET_INFO;
  head.sset_mask = 1ULL << ETH_SS_FEATURES;
  std::memcpy(room.data(), &head, sizeof head);
  if (!ask_ethtool(socket, interface, room.data())) return {};
  std::memcpy(&head, room.data(), sizeof head);
  if (head.sset_mask == 0) return {};
  const size_t count = room[sizeof head / sizeof(uint32_t)];
  if (count == 0 || count > features_max) return {};
  std::vector<char> memory(sizeof(ethtool_gstrings) + count * ETH_GSTRING_LEN);
  auto* const strings = reinterpret_cast<ethtool_gstrings*>(memory.data());
  strings->cmd = ETHTOOL_GSTRINGS;
  strings->string_set = ETH_SS_FEATURES;
  strings->len = static_cast<uint32_t>(count);
  if (!ask_ethtool(socket, interface, strings) || strings->len > count) return {};
  std::vector<std::string> names;
  for (size_t i = 0; i < strings->len; ++i) {
    const char* const name = memory.data() + sizeof(ethtool_gstrings) + i * ETH_GSTRING_LEN;
    names.emplace_back(name, ::strnlen(name, ETH_GSTRING_LEN));
  }
  return names;
}

// The offload of an association or a policy, from its attributes: `into` is either.
template <class Offloaded>
void read_offload(Bytes attributes, Offloaded& into) {
  each_attribute(attributes, [&](int type, Bytes body) {
    xfrm_user_offload offload{};
    if (type != XFRMA_OFFLOAD_DEV || body.size() < sizeof offload) return;
    std::memcpy(&offload, body.data(), sizeof offload);
    std::array<char, IF_NAMESIZE> name{};
    ::if_indextoname(static_cast<unsigned>(offload.ifindex), name.data());
    into.device = name[0] == '\0' ? "device " + std::to_string(offload.ifindex) : name.data();
    constexpr uint8_t packet = 4;  // XFRM_OFFLOAD_PACKET, which older headers do not have
    into.packet = (offload.flags & packet) != 0;
  });
}

// Whether a template says that ESP goes from one of the selector's addresses to the other: no gateway opens it.
bool reaches_peer(const xfrm_user_tmpl& use, const xfrm_selector& packets) {
  if (use.mode == XFRM_MODE_TRANSPORT) return true;
  const bool ipv6 = packets.family == AF_INET6;
  const uint8_t bits = ipv6 ? 128 : 32;
  const size_t size = bits / 8;
  return use.mode == XFRM_MODE_TUNNEL && use.family == packets.family && (ipv6 || packets.family == AF_INET) &&
         packets.prefixlen_s == bits && packets.prefixlen_d == bits &&
         std::memcmp(&use.saddr, &packets.saddr, size) == 0 && std::memcmp(&use.id.daddr, &packets.daddr, size) == 0;
}

// Whether an attribute says that a policy is for some packets alone.
bool narrows(int type, Bytes body) {
  if (type == XFRMA_SEC_CTX) return true;
  return (type == XFRMA_MARK || type == XFRMA_IF_ID) &&
         std::ranges::any_of(body, [](std::byte one) { return one != std::byte{}; });
}

// By the policy's one template. With several, ESP may end before the peer, and the rest of the way is AH's.
Coverage coverage_of(const xfrm_userpolicy_info& info, Bytes attributes) {
  bool wants_esp = false, whole = info.sel.ifindex == 0 && info.sel.user == 0;
  each_attribute(attributes, [&](int type, Bytes body) {
    if (narrows(type, body)) whole = false;
    xfrm_user_tmpl use{};
    if (type != XFRMA_TMPL || body.size() != sizeof use) return;
    std::memcpy(&use, body.data(), sizeof use);
    wants_esp = use.id.proto == IPPROTO_ESP && use.optional == 0;
    if (!reaches_peer(use, info.sel)) whole = false;
  });
  if (info.action != XFRM_POLICY_ALLOW || !wants_esp) return Coverage::none;
  return whole ? Coverage::all : Coverage::in_doubt;
}

std::string network_of(const xfrm_address_t& address, uint16_t family, uint8_t bits) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (family != AF_INET && family != AF_INET6) return "?";
  ::inet_ntop(family, &address, text.data(), text.size());
  return std::string(text.data()) + "/" + std::to_string(bits);
}

IpsecPolicy read_policy(const xfrm_userpolicy_info& info, Bytes attributes) {
  IpsecPolicy one;
  one.sends = info.dir == XFRM_POLICY_OUT;
  one.receives = info.dir == XFRM_POLICY_IN;
  one.coverage = coverage_of(info, attributes);
  one.from = network_of(info.sel.saddr, info.sel.family, info.sel.prefixlen_s);
  one.to = network_of(info.sel.daddr, info.sel.family, info.sel.prefixlen_d);
  one.protocol = info.sel.proto;
  one.all_ports = info.sel.sport_mask == 0 && info.sel.dport_mask == 0;
  read_offload(attributes, one);
  return one;
}

std::string named(std::vector<std::string> paths) {
  constexpr size_t named_max = 8;
  const size_t more = paths.size() - std::min(paths.size(), named_max);
  paths.resize(paths.size() - more);
  return fmt::format("{}{}", fmt::join(paths, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
}

}  // namespace

std::string_view to_string(Offload offload) {
  switch (offload) {
    case Offload::absent:
      return "absent";
    case Offload::off:
      return "present, off";
    case Offload::on:
      return "present, on";
    case Offload::unknown:
      return "cannot be told";
  }
  return "?";
}

LinkFeatures link_features(const std::string& interface) {
  LinkFeatures out;
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return out;
  const auto names = feature_names(socket.get(), interface);
  if (names.empty()) return out;
  const size_t blocks = (names.size() + 31) / 32;
  std::vector<char> memory(sizeof(ethtool_gfeatures) + blocks * sizeof(ethtool_get_features_block));
  auto* const features = reinterpret_cast<ethtool_gfeatures*>(memory.data());
  features->cmd = ETHTOOL_GFEATURES;
  features->size = static_cast<uint32_t>(blocks);
  if (!ask_ethtool(socket.get(), interface, features)) return out;
  const auto state = [&](std::string_view name) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] != name) continue;
      ethtool_get_features_block block{};
      std::memcpy(&block, memory.data() + sizeof(ethtool_gfeatures) + i / 32 * sizeof block, sizeof block);
      const uint32_t bit = 1u << (i % 32);
      if ((block.active & bit) != 0) return Offload::on;
      return (block.available & bit) != 0 ? Offload::off : Offload::absent;
    }
    return Offload::absent;
  };
  out.ipsec = state("esp-hw-offload");
  out.macsec = state("macsec-hw-offload");
  return out;
}

Dump read_associations(Bytes messages, std::vector<IpsecAssociation>& into) {
  return each_message<xfrm_usersa_info>(messages, XFRM_MSG_NEWSA, [&](const auto& info, Bytes attributes) {
    if (into.size() == associations_max) return false;
    IpsecAssociation one;
    one.identifier = ntohl(info.id.spi);
    read_offload(attributes, one);
    into.push_back(std::move(one));
    return true;
  });
}

Dump read_policies(Bytes messages, std::vector<IpsecPolicy>& into) {
  return each_message<xfrm_userpolicy_info>(messages, XFRM_MSG_NEWPOLICY, [&](const auto& info, Bytes attributes) {
    if (into.size() == associations_max) return false;
    into.push_back(read_policy(info, attributes));
    return true;
  });
}

EncryptedPaths encrypted_paths(const std::vector<IpsecPolicy>& policies, const std::string& interface) {
  EncryptedPaths paths;
  for (const IpsecPolicy& out : policies) {
    if (!out.sends || !out.packet || !out.all_ports || out.device != interface) continue;
    Coverage back = Coverage::none;
    for (const IpsecPolicy& in : policies) {
      const bool is_way_back = in.receives && in.packet && in.all_ports && in.device == interface &&
                               in.from == out.to && in.to == out.from && in.protocol == out.protocol;
      if (is_way_back) back = std::max(back, in.coverage);
    }
    const Coverage both = std::min(out.coverage, back);
    if (both == Coverage::none) continue;
    const std::string protocol = out.protocol == 0 ? "" : " (IP protocol " + std::to_string(out.protocol) + ")";
    (both == Coverage::all ? paths.all : paths.in_doubt).push_back(out.from + " to " + out.to + protocol);
  }
  return paths;
}

std::string describe(const EncryptedPaths& paths) {
  if (paths.in_doubt.empty()) return paths.all.empty() ? "none" : named(paths.all);
  const std::string doubt = "cannot be told of " + named(paths.in_doubt);
  return paths.all.empty() ? doubt : fmt::format("{} ({})", named(paths.all), doubt);
}

std::optional<std::vector<IpsecAssociation>> ipsec_associations() {
  return dump_of<IpsecAssociation>(NETLINK_XFRM, XFRM_MSG_GETSA, {}, read_associations);
}

std::optional<std::vector<IpsecPolicy>> ipsec_policies() {
  return dump_of<IpsecPolicy>(NETLINK_XFRM, XFRM_MSG_GETPOLICY, {}, read_policies);
}

std::string aes_instructions() {
  const AesInstructions& has = verbena::aes_instructions();
  if (!has.aes) return {};
  const AesGcmLibrary library = aes_gcm_library();
#if defined(__aarch64__)
  const std::string_view names = "ARMv8 AES";
#else
  const std::string_view names = library.vector_aes ? "AES-NI, VAES" : "AES-NI";
#endif
  return fmt::format("{} ({})", names, library.name);
}

std::string leaves_vaes_unused() {
  if (!verbena::aes_instructions().vector_aes || takes_vector_aes(OpenSSL_version_num())) return {};
  return std::string("OpenSSL ") + OpenSSL_version(OPENSSL_VERSION_STRING);
}

}  // namespace verbena::admin
