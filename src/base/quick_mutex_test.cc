#include "base/quick_mutex.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace verbena {
namespace {

TEST(QuickMutex, OneHolderAtATimeAndNobodySleepsForEver) {
  constexpr int threads = 4, rounds = 20000;
  QuickMutex mutex;
  int64_t a = 0, b = 0;  // guarded by mutex: always equal
  bool torn = false;
  std::vector<std::jthread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) {
        const std::lock_guard lock(mutex);
        torn = torn || a != b;
        ++a;
        if (i % 64 == 0) std::this_thread::yield();  // so that others go to sleep
        ++b;
      }
    });
  }
  all.clear();
  EXPECT_FALSE(torn);
  EXPECT_EQ(a, threads * rounds);
}

TEST(QuickMutex, TryLockSaysWhetherItIsTaken) {
  QuickMutex mutex;
  ASSERT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

}  // namespace
}  // namespace verbena
