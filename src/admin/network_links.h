// Network devices as the kernel shows them in /sys/class/net, and which ones they send through: of a VLAN, a bond or a
// MACsec interface those below it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace verbena::admin {

class NetworkLinks {
 public:
  // `sys`: /sys, or a copy.
  explicit NetworkLinks(const std::filesystem::path& sys) : folder_(sys / "class/net") {}
  std::vector<std::string> names() const;

  // The devices right below one.
  std::vector<std::string> below(const std::string& interface) const;
  // It sends through a device that the kernel does not name in its folder, as at the other end of a veth pair, or in
  // another network namespace.
  bool sends_unnamed(const std::string& interface) const;
  // The device itself, then all that are below it; each once.
  std::vector<std::string> stack(const std::string& interface) const;

  bool is_macsec(const std::string& interface) const;
  bool has_phy(const std::string& interface) const;  // a PHY with a driver of its own

 private:
  std::filesystem::path folder_;
};

}  // namespace verbena::admin
