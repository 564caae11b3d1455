// The local engine with its volumes on a block device of the machine, which $VERBENA_TEST_DEVICE names: each rig
// formats it, so all that was there is lost. Its index is in a directory of the machine.
#pragma once

#include <cstdlib>

#include "store/local/block_device.h"
#include "store/local/test_store.h"

namespace verbena::store::conformance {

class BlockDeviceRig final : public local::TestStore {
 public:
  static bool has_device() { return std::getenv("VERBENA_TEST_DEVICE") != nullptr; }

  BlockDeviceRig() {
    options.device = std::getenv("VERBENA_TEST_DEVICE");
    std::string trouble;
    const auto file = local::open_block_device(options.device, local::DeviceUse::own, trouble);
    EXPECT_TRUE(file && local::format_device(**file)) << trouble;
  }
};

}  // namespace verbena::store::conformance
