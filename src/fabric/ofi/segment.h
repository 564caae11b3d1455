// A part of a network of its own: an InfiniBand partition (P_Key) or a VLAN. rdma_cm takes a connection's partition,
// and RoCE its VLAN, from the network interface that has the address. libfabric's verbs provider, which gets its
// addresses from rdma_cm, has no other way to choose them. So selecting one means to select an address.
#pragma once

#include <cstdint>
#include <expected>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace verbena::fabric::ofi {

struct Segment {
  std::optional<uint16_t> pkey;
  std::optional<uint16_t> vlan;
  explicit operator bool() const { return pkey || vlan; }
};

// The RDMA device and port that must be used; empty, none: any.
struct SegmentDevice {
  std::string name{};
  std::optional<int> port{};
};

// What the kernel says about network interfaces; tests say it themselves.
struct Interfaces {
  std::filesystem::path sys = "/sys";  // has class/net and class/infiniband
  // Names and addresses as text, in the kernel's order; an interface may be there several times.
  std::function<std::vector<std::pair<std::string, std::string>>()> addresses;
  // Of an interface that is a VLAN's.
  std::function<std::optional<uint16_t>(const std::string& interface)> vlan;
  static Interfaces of_machine();
};

// The number of a partition without the bit of full membership, which the port's table has and a packet's sender sets.
constexpr uint16_t partition_of(uint16_t pkey) { return pkey & 0x7fff; }

// Whether `address` belongs to an interface of the segment, and, for a partition, whether the device's port is a
// member. The error is a sentence for the operator that begins with the key.
std::expected<void, std::string> check_segment(const Segment& segment, const SegmentDevice& device,
                                               const std::string& address, const Interfaces& machine);

// The address of an interface of the segment, IPv4 before IPv6, never a link-local one.
std::expected<std::string, std::string> segment_address(const Segment& segment, const SegmentDevice& device,
                                                        const Interfaces& machine);

// The VLAN of a network interface of this machine; nullopt: it has none.
std::optional<uint16_t> vlan_of(const std::string& interface);

}  // namespace verbena::fabric::ofi
