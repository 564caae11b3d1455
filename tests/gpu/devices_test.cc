// The devices of a server (memory/cuda_devices.h) over the double of CUDA's driver, without a server around them: their
// threads, handles and sizes that no client of ours sends, and a device that is lost while many copy.
#include "memory/cuda_devices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <random>
#include <thread>

#include "memory/cuda_physical.h"
#include "the_double.h"

namespace verbena::memory::cuda {
namespace {

using Blob = std::vector<std::byte>;

Blob pattern(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Blob bytes(size);
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t next = random();
    std::memcpy(bytes.data() + at, &next, std::min<size_t>(8, size - at));
  }
  return bytes;
}

Blob on_device(uint64_t address, size_t size) {
  Blob bytes(size);
  double_peek(bytes.data(), address, size);
  return bytes;
}

class DevicesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { matrix::use_the_double(); }
  void SetUp() override {
    double_reset_counts();
    double_delay(0);
    auto arena = Arena::create(64 * MiB);
    ASSERT_TRUE(arena);
    arena_ = std::move(*arena);
    auto opened = Devices::open(*arena_, {});
    ASSERT_TRUE(opened) << opened.error().text;
    devices_ = std::move(*opened);
  }
  void TearDown() override {
    for (const int device : {0, 1}) double_lose(device, false);
    // As a server: of a device that failed, copies may still be on their way.
    static std::vector<std::unique_ptr<Arena>> kept;
    if (!devices_->stop()) kept.push_back(std::move(arena_));
    EXPECT_EQ(double_misuse(), 0u);
    double_delay(200);
  }

  static const Driver& driver() { return **Driver::get(Platform::cuda); }
  static Exported exported(uint64_t address) {
    const auto allocation = driver().allocation(address);
    EXPECT_TRUE(allocation) << allocation.error().text;
    auto shared = driver().share(*allocation);
    EXPECT_TRUE(shared) << shared.error().text;
    return *shared;
  }
  // Null: it was refused.
  template <class Memory>
  std::shared_ptr<Mapped> map(const Memory& memory) {
    auto told = std::make_shared<std::promise<std::shared_ptr<Mapped>>>();
    devices_->map(memory, [told](auto outcome) { told->set_value(outcome ? std::move(*outcome) : nullptr); });
    return told->get_future().get();
  }
  static CopyEnd copy(Mapped& memory, bool to_device, std::byte* host, uint64_t at, size_t size) {
    auto told = std::make_shared<std::promise<CopyEnd>>();
    memory.copy({.to_device = to_device, .host = host, .at = at, .size = size, .ended = [told](CopyEnd how) {
                   told->set_value(how);
                 }});
    return told->get_future().get();
  }
  // What was given up before is unmapped, but for what a device that an earlier test has lost keeps.
  void expect_all_unmapped() {
    for (const int device : {0, 1}) {
      const uint64_t address = double_allocate(device, 4096);
      auto last = map(exported(address));
      ASSERT_NE(last, nullptr);
      const auto fence = last->fence();
      last.reset();
      std::promise<void> done;
      fence([&] { done.set_value(); });
      done.get_future().get();
      double_free(address);
    }
    EXPECT_EQ(double_mapped(), mapped_before_);
  }

  const uint64_t mapped_before_ = double_mapped();
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Devices> devices_;
};

TEST_F(DevicesTest, ManyThreadsMapCopyAndUnmapOnTwoDevices) {
  constexpr size_t size = 100'003;
  std::vector<std::jthread> threads;
  for (unsigned number = 0; number < 6; ++number) {
    threads.emplace_back([this, number] {
      const uint64_t address = double_allocate(static_cast<int>(number % 2), size);
      const Exported shared = exported(address);
      for (unsigned turn = 0; turn < 20; ++turn) {
        const auto mapped = map(shared);
        ASSERT_NE(mapped, nullptr);
        const auto lease = arena_->lease(size);
        ASSERT_TRUE(lease);
        const Blob bytes = pattern(size, number * 1000 + turn);
        std::ranges::copy(bytes, lease->data());
        ASSERT_EQ(copy(*mapped, true, lease->data(), 0, size), CopyEnd::done);
        EXPECT_EQ(on_device(address, size), bytes);
        std::fill_n(lease->data(), size, std::byte{});
        ASSERT_EQ(copy(*mapped, false, lease->data(), 0, size), CopyEnd::done);
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), lease->data()));
      }
      double_free(address);
    });
  }
  threads.clear();
  expect_all_unmapped();
}

TEST_F(DevicesTest, ALossUnderManyCopiesEndsEachOfThemAndTheOtherDeviceGoesOn) {
  constexpr size_t size = 65'537;
  double_delay(100);
  std::atomic<bool> lost{false};
  std::atomic<unsigned> copies{0};
  std::vector<std::future<unsigned>> failures;
  for (unsigned number = 0; number < 8; ++number) {
    failures.push_back(std::async(std::launch::async, [&, number] {
      const uint64_t address = double_allocate(static_cast<int>(number % 2), size);
      const auto mapped = map(exported(address));
      EXPECT_NE(mapped, nullptr);
      unsigned failed = 0;
      for (unsigned turn = 0, after = 0; mapped != nullptr && after < 5; ++turn) {
        after += lost ? 1 : 0;
        const auto lease = arena_->lease(size);
        EXPECT_TRUE(lease);
        if (!lease) break;
        const Blob bytes = pattern(size, number * 1'000'000 + turn);
        std::ranges::copy(bytes, lease->data());
        const CopyEnd how = copy(*mapped, true, lease->data(), 0, size);
        failed += how == CopyEnd::done ? 0 : 1;
        if (how == CopyEnd::done) {
          EXPECT_EQ(on_device(address, size), bytes);
        }
        ++copies;
      }
      return failed;
    }));
  }
  while (copies < 100) std::this_thread::yield();
  double_lose(0, true);
  lost = true;
  for (unsigned number = 0; number < 8; ++number) {
    const unsigned failed = failures[number].get();
    EXPECT_EQ(failed != 0, number % 2 == 0) << number << ": " << failed;
  }
  EXPECT_EQ(devices_->lost(), 1u);
}

// It was given every copy and refused each, for ever.
TEST_F(DevicesTest, ADeviceThatRefusesACopyBecauseItIsBrokenIsLost) {
  const uint64_t address = double_allocate(0, 4096);
  const auto mapped = map(exported(address));
  ASSERT_NE(mapped, nullptr);
  const auto lease = arena_->lease(4096);
  ASSERT_TRUE(lease);
  double_fail_some("cuMemcpyHtoDAsync_v2", 2, 0, 1);  // this copy alone: no memory
  EXPECT_EQ(copy(*mapped, true, lease->data(), 0, 4096), CopyEnd::failed);
  EXPECT_EQ(copy(*mapped, true, lease->data(), 0, 4096), CopyEnd::done);
  EXPECT_EQ(devices_->lost(), 0u);
  double_lose(0, true);
  EXPECT_EQ(copy(*mapped, true, lease->data(), 0, 4096), CopyEnd::failed);
  for (int i = 0; i < 500 && devices_->lost() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  double_lose(0, false);
  EXPECT_EQ(copy(*mapped, true, lease->data(), 0, 4096), CopyEnd::failed);
  EXPECT_EQ(devices_->lost(), 1u);
}

// --- What no client of ours sends ------------------------------------------------------------------------------------

class Mutations {
 public:
  explicit Mutations(uint64_t seed) : random_(seed) {}
  uint64_t below(uint64_t end) { return random_() % end; }
  bool percent(unsigned chance) { return below(100) < chance; }
  // Around a size, or anything.
  uint64_t size(uint64_t right) {
    const uint64_t some[] = {
        0,     1,         right - 1,          right + 1,  right / 2, 2 * right, 4096, uint64_t{1} << below(64),
        right, random_(), UINT64_MAX - right, UINT64_MAX, INT64_MAX, right};
    return some[below(std::size(some))];
  }
  // Bits, bytes, or a field of 4 or 8 bytes.
  void change(std::span<std::byte> bytes) {
    for (uint64_t times = 1 + below(3); times > 0; --times) {
      const size_t at = below(bytes.size());
      switch (below(4)) {
        case 0:
          bytes[at] ^= std::byte(1 << below(8));
          break;
        case 1:
          bytes[at] = std::byte(below(256));
          break;
        case 2: {
          uint32_t field = 0;
          const size_t place = below(bytes.size() / sizeof field) * sizeof field;
          std::memcpy(&field, bytes.data() + place, sizeof field);
          field += static_cast<uint32_t>(below(9)) - 4;  // a neighbour: the next descriptor, device, process
          std::memcpy(bytes.data() + place, &field, sizeof field);
          break;
        }
        default: {
          const uint64_t field = size(4096);
          std::memcpy(bytes.data() + below(bytes.size() / sizeof field) * sizeof field, &field, sizeof field);
        }
      }
    }
  }

 private:
  std::mt19937_64 random_;
};

// Memory of a caller with that of others around it, none of which changes but what was copied.
class Neighbours {
 public:
  static constexpr size_t size = 3 * 4096;
  static constexpr unsigned count = 5;
  Neighbours() {
    for (unsigned i = 0; i < count; ++i) {
      addresses_[i] = double_allocate(static_cast<int>(i % 2), size);
      bytes_[i] = pattern(size, i);
      double_poke(addresses_[i], bytes_[i].data(), size);
    }
  }
  ~Neighbours() {
    for (const uint64_t address : addresses_) double_free(address);
  }
  uint64_t own() const { return addresses_[2]; }
  // What is at `at` of the own memory now.
  void now(size_t at, std::span<const std::byte> written) {
    ASSERT_LE(at + written.size(), size);
    std::ranges::copy(written, bytes_[2].begin() + static_cast<std::ptrdiff_t>(at));
  }
  void expect_no_other_change() const {
    for (unsigned i = 0; i < count; ++i) EXPECT_EQ(on_device(addresses_[i], size), bytes_[i]) << i;
  }

 private:
  uint64_t addresses_[count];
  Blob bytes_[count];
};

// While that memory is mapped, and a driver answers from what it has.
TEST_F(DevicesTest, AHandleWithAPartOfAnothersNamesNeither) {
  Neighbours memory;
  const uint64_t other_address = double_allocate(0, 2 * Neighbours::size);
  const Exported own = exported(memory.own()), other = exported(other_address);
  const auto mapped = map(other);
  ASSERT_NE(mapped, nullptr);
  constexpr size_t word = 8;
  for (size_t at = 0; at < own.handle.size(); at += word) {
    Exported mixed = own;
    std::copy_n(other.handle.begin() + static_cast<std::ptrdiff_t>(at), word,
                mixed.handle.begin() + static_cast<std::ptrdiff_t>(at));
    if (mixed.handle == own.handle) continue;
    EXPECT_EQ(map(mixed), nullptr) << "word at " << at;
  }
  double_free(other_address);
}

TEST_F(DevicesTest, ThousandsOfChangedHandlesAreRefusedOrAreTheMemoryThatTheyName) {
  Neighbours memory;
  Mutations chance(38);
  const Exported right = exported(memory.own());
  const auto lease = arena_->lease(Neighbours::size);
  ASSERT_TRUE(lease);
  unsigned refused = 0, taken = 0;
  for (unsigned turn = 0; turn < 5000; ++turn) {
    Exported one = right;
    if (chance.percent(60)) chance.change(one.handle);
    if (chance.percent(15)) chance.change(one.device);
    if (chance.percent(50)) one.size = chance.size(right.size);
    if (chance.percent(3)) one.platform = Platform::rocm;
    const auto mapped = map(one);
    ++(mapped == nullptr ? refused : taken);
    if (mapped == nullptr) continue;
    ASSERT_LE(mapped->size(), Neighbours::size);
    ASSERT_NE(mapped->size(), 0u);
    const size_t at = chance.below(mapped->size()), size = 1 + chance.below(mapped->size() - at);
    const Blob bytes = pattern(size, turn);
    std::ranges::copy(bytes, lease->data());
    ASSERT_EQ(copy(*mapped, true, lease->data(), at, size), CopyEnd::done);
    memory.now(at, bytes);
  }
  EXPECT_GT(refused, 2000u);
  EXPECT_GT(taken, 200u);
  memory.expect_no_other_change();
  EXPECT_EQ(devices_->lost(), 0u);
  expect_all_unmapped();
}

TEST_F(DevicesTest, ThousandsOfChangedPiecesAreRefusedOrAreTheMemoryThatTheyName) {
  constexpr size_t least = size_t{2} << 20, count = 3;
  const unsigned handles = double_handles(), reserved = double_reserved();
  const size_t sizes[count] = {least, 2 * least, least};
  const uint64_t address = double_map_pieces(0, sizes, count, true), other = double_map_pieces(1, sizes, count, true);
  ASSERT_NE(address, 0u);
  const Blob before = on_device(other, 4 * least);
  {
    // Descriptors of both devices' pieces, and one that is of none.
    std::vector<Fd> files;
    for (const uint64_t begin : {address, other}) {
      uint64_t at = begin;
      for (const size_t size : sizes) {
        const auto piece = Physical::behind(driver(), {.device = begin == address ? 0 : 1, .begin = at, .size = size});
        ASSERT_TRUE(piece) << piece.error().text;
        files.push_back(*(*piece)->descriptor());
        at += size;
      }
    }
    Mutations chance(39);
    const auto lease = arena_->lease(least);
    ASSERT_TRUE(lease);
    const DeviceName names[] = {*driver().name_of(0), *driver().name_of(1)};
    unsigned refused = 0, taken = 0;
    for (unsigned turn = 0; turn < 2000; ++turn) {
      Pieces one{.device = names[chance.percent(95) ? 0 : 1]};
      uint64_t all = 0;
      for (uint64_t pieces = chance.percent(2) ? 0 : 1 + chance.below(4); pieces > 0; --pieces) {
        const size_t number = chance.percent(97) ? chance.below(count) : chance.below(files.size());
        const int file = chance.percent(97) ? files[number].get() : static_cast<int>(chance.below(1000)) - 10;
        const uint64_t size = chance.percent(90) ? sizes[number % count] : chance.size(sizes[number % count]);
        one.pieces.push_back({file, size});
        all += size;
      }
      if (chance.percent(2)) chance.change(one.device);
      const auto mapped = map(one);
      ++(mapped == nullptr ? refused : taken);
      if (mapped == nullptr) continue;
      ASSERT_EQ(mapped->size(), all);
      const size_t at = chance.below(all), size = 1 + chance.below(std::min<uint64_t>(least, all - at));
      const bool writes = turn % 2 == 0 && one.device == names[0];
      ASSERT_EQ(copy(*mapped, writes, lease->data(), at, size), CopyEnd::done);
    }
    EXPECT_GT(refused, 200u);
    EXPECT_GT(taken, 200u);
  }
  EXPECT_EQ(on_device(other, 4 * least), before);  // none of it is of the device that was written to
  EXPECT_EQ(devices_->lost(), 0u);
  expect_all_unmapped();
  EXPECT_TRUE(double_unmap_pieces(address, 4 * least));
  EXPECT_TRUE(double_unmap_pieces(other, 4 * least));
  EXPECT_EQ(double_handles(), handles);
  EXPECT_EQ(double_reserved(), reserved);
}

}  // namespace
}  // namespace verbena::memory::cuda
