// The three answers to "is it encrypted on its way?", of rdma.encryption and of `listeners:`.
#pragma once

#include <cstdint>
#include <string_view>

namespace verbena {

// What the native door does on RDMA devices, whose packets other machines can read and change: nothing, encrypt for the
// clients that ask for it, or serve such clients only.
enum class RdmaEncryption : uint8_t { off, preferred, required };

constexpr std::string_view to_string(RdmaEncryption encryption) {
  return encryption == RdmaEncryption::off ? "off" : encryption == RdmaEncryption::preferred ? "preferred" : "required";
}

}  // namespace verbena
