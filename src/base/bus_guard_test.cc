#include "base/bus_guard.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/fd.h"

namespace verbena {
namespace {

Fd file_in_memory(off_t size) {
  Fd fd(::memfd_create("bus guard", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(fd.get(), size), 0);
  return fd;
}

TEST(BusGuard, TouchingAPageThatIsGoneFailsInsteadOfKilling) {
  install_bus_guard();
  const Fd fd = file_in_memory(8192);
  void* const mapped = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  char* const bytes = static_cast<char*>(mapped);
  char buffer[16] = {};
  EXPECT_TRUE(survives_bus_error([&] { std::memcpy(buffer, bytes + 4096, sizeof buffer); }));
  ASSERT_EQ(::ftruncate(fd.get(), 4096), 0);
  for (int round = 0; round < 3; ++round) {
    EXPECT_FALSE(survives_bus_error([&] { std::memcpy(buffer, bytes + 4096, sizeof buffer); }));
    EXPECT_FALSE(survives_bus_error([&] { std::memcpy(bytes + 4090, buffer, sizeof buffer); }));
    EXPECT_TRUE(survives_bus_error([&] { std::memcpy(bytes, buffer, sizeof buffer); }));
  }
  ::munmap(mapped, 8192);
}

TEST(BusGuardDeathTest, ABusErrorOutsideAGuardStillKills) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        install_bus_guard();
        const Fd fd = file_in_memory(4096);
        auto* p = static_cast<volatile char*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
        if (::ftruncate(fd.get(), 0) == 0) p[0] = 1;
      },
      "");
}

}  // namespace
}  // namespace verbena
