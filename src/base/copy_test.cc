#include "base/copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace verbena {
namespace {

TEST(CopyBytes, CopiesWhatLiesThereWhereverItLies) {
  constexpr size_t page = 4096, sizes[] = {0, 1, 31, 1023, 1024, 1025, 2047, 2048, 2049, 4096, 10'000};
  std::vector<std::byte> from(4 * page), to(6 * page);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 31 + i / 256);
  for (const size_t size : sizes) {
    for (size_t at = 0; at < 70; ++at) {
      std::ranges::fill(to, std::byte{0xEE});
      // The target is `at` bytes behind the source within a page, modulo the page.
      const size_t base = (reinterpret_cast<uintptr_t>(from.data()) - reinterpret_cast<uintptr_t>(to.data())) % page;
      std::byte* const place = to.data() + base + at;
      copy_bytes(place, Bytes(from).first(size));
      ASSERT_TRUE(std::ranges::equal(Bytes(place, size), Bytes(from).first(size))) << size << " at " << at;
      ASSERT_TRUE(place == to.data() || place[-1] == std::byte{0xEE}) << size << " at " << at;
      ASSERT_EQ(place[size], std::byte{0xEE}) << size << " at " << at;
    }
  }
}

TEST(CopyPastCaches, CopiesWhatLiesThereWhereverItLies) {
  constexpr size_t sizes[] = {0, 1, 63, 64, 65, 127, 4096, 16'383, 16'384, 16'449, 40'000, 70'001};
  std::vector<std::byte> from(80'000), to(80'200);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 31 + i / 256);
  for (const size_t size : sizes) {
    for (size_t at = 1; at < 67; at += 3) {
      const Bytes source = Bytes(from).subspan(at % 7, size);
      for (const CopyOrder order : {CopyOrder::lines, CopyOrder::pages_in_parallel}) {
        std::ranges::fill(to, std::byte{0xEE});
        copy_past_caches_in(to.data() + at, source.data(), size, order);
        ASSERT_TRUE(std::ranges::equal(Bytes(to).subspan(at, size), source)) << size << " at " << at;
        ASSERT_EQ(to[at - 1], std::byte{0xEE}) << size << " at " << at;
        ASSERT_EQ(to[at + size], std::byte{0xEE}) << size << " at " << at;
      }
    }
  }
}

}  // namespace
}  // namespace verbena
