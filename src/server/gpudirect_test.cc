#include "server/gpudirect.h"

#include <gtest/gtest.h>

#include "base/metrics.h"

namespace verbena::server {
namespace {

TEST(Gpudirect, WithoutItsKeyNothingIsLookedFor) {
  EXPECT_EQ(find_gpus({}).text, "");
  EXPECT_NE(metrics::exposition().find("verbena_gpudirect_devices 0"), std::string::npos);
}

TEST(Gpudirect, AMachineWithoutADriverIsToldAndStarts) {
  if (::getenv("TEST_VERBENA_CUDA_DRIVER") != nullptr) GTEST_SKIP() << "there is a double of the driver";
  const std::string said = find_gpus({.enabled = true}).text;
  EXPECT_TRUE(said.starts_with("gpudirect: ")) << said;
  EXPECT_GT(said.size(), 20u) << said;
}

}  // namespace
}  // namespace verbena::server
