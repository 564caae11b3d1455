#include "fabric/local/bus_guard.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "fabric/local/test_support.h"

namespace verbena::fabric::local {
namespace {

TEST(BusGuard, TouchingAPageThatIsGoneFailsInsteadOfKilling) {
  install_bus_guard();
  Fd fd = testing::shared_memfd(8192, 0);
  Mapping mapping(::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), 8192);
  char buffer[16] = {};
  EXPECT_TRUE(survives_bus_error([&] { std::memcpy(buffer, mapping.data() + 4096, sizeof buffer); }));
  ASSERT_EQ(::ftruncate(fd.get(), 4096), 0);
  for (int round = 0; round < 3; ++round) {
    EXPECT_FALSE(survives_bus_error([&] { std::memcpy(buffer, mapping.data() + 4096, sizeof buffer); }));
    EXPECT_FALSE(survives_bus_error([&] { std::memcpy(mapping.data() + 4090, buffer, sizeof buffer); }));
    EXPECT_TRUE(survives_bus_error([&] { std::memcpy(mapping.data(), buffer, sizeof buffer); }));
  }
}

TEST(BusGuardDeathTest, ABusErrorOutsideAGuardStillKills) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        install_bus_guard();
        Fd fd = testing::shared_memfd(4096, 0);
        auto* p = static_cast<volatile char*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
        if (::ftruncate(fd.get(), 0) == 0) p[0] = 1;
      },
      "");
}

}  // namespace
}  // namespace verbena::fabric::local
