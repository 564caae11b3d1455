// A MACsec interface's settings, from the kernel (rtnetlink, without rights).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"

namespace verbena::admin {

struct MacsecLink {
  enum class By : uint8_t { kernel, device, unknown };  // older kernels do not say
  bool encrypts = false;                                // false: frames are authenticated at most
  By by = By::unknown;
};
// nullopt: there is no such interface in this network namespace, it is of another kind, or the kernel does not say.
std::optional<MacsecLink> macsec_link(const std::string& interface);
// The kernel's answer. Any bytes may come.
std::optional<MacsecLink> read_macsec_link(Bytes answer);

// "encrypts, by the kernel", "does not encrypt".
std::string describe(const std::optional<MacsecLink>& link);

}  // namespace verbena::admin
