#include "fabric/local/pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "fabric/local/test_support.h"

namespace verbena::fabric::local {
namespace {

TEST(Pool, PiecesAreSealedAlignedAndFoundAgain) {
  auto pool = std::make_shared<Pool>();
  auto piece = pool->allocate(5000);
  ASSERT_TRUE(piece);
  const MutableBytes bytes = **piece;
  EXPECT_EQ(bytes.size(), 5000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 4096, 0u);
  auto place = pool->find(bytes.subspan(100, 50));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->slab->data() + place->offset, bytes.data() + 100);
  const int seals = ::fcntl(place->slab->memfd(), F_GET_SEALS);
  EXPECT_EQ(seals & (F_SEAL_SHRINK | F_SEAL_GROW), F_SEAL_SHRINK | F_SEAL_GROW);
}

TEST(Pool, MemoryOfSomebodyElseIsNotFound) {
  auto pool = std::make_shared<Pool>();
  std::byte elsewhere[16];
  EXPECT_FALSE(pool->find(elsewhere));
  auto piece = *pool->allocate(1);
  EXPECT_FALSE(pool->find(elsewhere));
  auto place = pool->find(*piece);
  EXPECT_FALSE(pool->find(Bytes(piece->data(), place->slab->size() + 1)));
  EXPECT_FALSE(pool->find(Bytes(piece->data() - 1, 1)));
}

TEST(Pool, ALargePieceGoesWithItsMemfd) {
  auto pool = std::make_shared<Pool>();
  auto piece = *pool->allocate(20 * MiB);
  std::weak_ptr<Slab> slab = pool->find(*piece)->slab;
  EXPECT_EQ(slab.lock()->size(), 20 * MiB);
  piece.reset();
  EXPECT_TRUE(slab.expired());
}

TEST(Pool, APieceOutlivesThePoolsOwner) {
  auto pool = std::make_shared<Pool>();
  auto piece = *pool->allocate(4096);
  pool.reset();
  std::memset(piece->data(), 1, piece->size());
}

TEST(Pool, PiecesNeverOverlapAndTheirMemoryIsUsedAgain) {
  EXPECT_TRUE(rc::check("allocations and frees", [] {
    auto pool = std::make_shared<Pool>();
    auto first = *pool->allocate(1);
    auto* const base = pool->find(*first)->slab->data();
    first.reset();
    std::vector<std::shared_ptr<MutableBytes>> pieces;
    const auto steps = *rc::gen::container<std::vector<int>>(60, rc::gen::inRange(-100'000, 300'000));
    for (int step : steps) {
      if (step > 0) {
        auto piece = *pool->allocate(step);
        for (auto& other : pieces) {
          RC_ASSERT(piece->data() + piece->size() <= other->data() || other->data() + other->size() <= piece->data());
        }
        pieces.push_back(std::move(piece));
      } else if (!pieces.empty()) {
        pieces.erase(pieces.begin() + (-step) % pieces.size());
      }
    }
    pieces.clear();
    auto all = *pool->allocate(Pool::slab_size_first / 2);  // only fits if the free parts were merged
    RC_ASSERT(all->data() == base);
  }));
}

}  // namespace
}  // namespace verbena::fabric::local
