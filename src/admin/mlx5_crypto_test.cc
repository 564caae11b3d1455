#include "admin/mlx5_crypto.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace verbena::admin {
namespace {

std::string of_double(const std::string& device) { return inline_aes_xts(device, MLX5_DOUBLE); }

TEST(Mlx5Crypto, TellsWhetherTheDeviceHasAnEngineForAesXts) {
  EXPECT_EQ(of_double("xts"), "present");
  EXPECT_EQ(of_double("single"), "present") << "as newer firmware names it";
  EXPECT_EQ(of_double("wrapped"), "present, for wrapped keys alone");
  EXPECT_EQ(of_double("failed"), "present, its self-tests failed (0x20)");
  EXPECT_EQ(of_double("without"), "absent");
}

TEST(Mlx5Crypto, ZerosThatNobodyAskedForAreNoAnswer) {
  EXPECT_EQ(of_double("mute"), "cannot be told (the device does not answer)");
  EXPECT_EQ(of_double("no_devx"), "cannot be told (no DEVX: Operation not permitted)");
  EXPECT_EQ(of_double("old"), "cannot be told (libmlx5 has no such answer)");
  EXPECT_EQ(of_double("broken"), "cannot be told (Input/output error)");
  EXPECT_EQ(of_double("other"), "cannot be told (libmlx5 does not know the device)");
  EXPECT_EQ(of_double("mlx5_7"), "cannot be told (libibverbs does not see the device)");
}

TEST(Mlx5Crypto, ALibraryThatIsNotThereIsNoError) {
  EXPECT_EQ(inline_aes_xts("xts", "libverbena-none.so.1"),
            "cannot be told (libmlx5 is not installed, or cannot be loaded)");
  EXPECT_EQ(inline_aes_xts("xts", "libc.so.6"), "cannot be told (libmlx5 lacks a function)");
}

TEST(Mlx5Crypto, NoDeviceStaysOpen) {
  void* const library = ::dlopen(MLX5_DOUBLE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto open_contexts = reinterpret_cast<int (*)()>(::dlsym(library, "mlx5_double_open_contexts"));
  ASSERT_NE(open_contexts, nullptr);
  for (const char* device : {"xts", "without", "broken", "no_devx"}) of_double(device);
  EXPECT_EQ(open_contexts(), 0);
}

}  // namespace
}  // namespace verbena::admin
