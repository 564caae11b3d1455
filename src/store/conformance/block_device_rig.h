// The local engine with its volumes on a block device of the machine, which $VERBENA_TEST_DEVICE names: each rig
// formats it, so all that was there is lost. It is used only if $VERBENA_TEST_DEVICE_ERASE names it, too: a variable
// that was left over costs no disk. Its index is in a directory of the machine.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "store/local/block_device.h"
#include "store/local/test_store.h"

namespace verbena::store::conformance {

class BlockDeviceRig final : public local::TestStore {
 public:
  static bool has_device() {
    static const bool has = [] {
      const char* const device = std::getenv("VERBENA_TEST_DEVICE");
      const char* const erase = std::getenv("VERBENA_TEST_DEVICE_ERASE");
      if (device == nullptr) return false;
      if (erase != nullptr && std::string_view(erase) == device) return true;
      std::fprintf(stderr, "%s is not used: VERBENA_TEST_DEVICE_ERASE=%s says that its contents may go\n", device,
                   device);
      return false;
    }();
    return has;
  }

  BlockDeviceRig() {
    options.device = std::getenv("VERBENA_TEST_DEVICE");
    std::string trouble;
    const auto file = local::open_block_device(options.device, local::DeviceUse::own, trouble);
    EXPECT_TRUE(file && local::format_device(**file)) << trouble;
  }
};

}  // namespace verbena::store::conformance
