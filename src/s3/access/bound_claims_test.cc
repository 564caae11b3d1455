#include "s3/access/bound_claims.h"

#include <gtest/gtest.h>

#include "s3/access/bound.h"
#include "store/key_pins.h"

namespace verbena::s3 {
namespace {

BoundWish wish_of(std::string key, uint64_t bytes, bool appends = false) {
  return {.key = std::move(key), .bytes = bytes, .appends = appends};
}

TEST(BoundClaims, AnOverwriteTakesWhatItHasMoreThanTheObject) {
  BoundClaims claims;
  BoundWish one = wish_of("k", 100), two = wish_of("k", 150);
  claims.claim(one, 90);
  EXPECT_EQ(claims.taken(), (BoundRoom{10, 0}));
  EXPECT_EQ(claims.needs(two, 90), (BoundRoom{50, 0}));
  claims.claim(two, 90);
  EXPECT_EQ(claims.taken(), (BoundRoom{60, 0}));
  claims.held_changed("k", std::nullopt);  // it was removed
  EXPECT_EQ(claims.taken(), (BoundRoom{150, 1}));
  claims.held_changed("k", 150);
  EXPECT_EQ(claims.taken(), BoundRoom());
  claims.end(one);
  EXPECT_TRUE(claims.is_claimed("k"));
  claims.end(two);
  EXPECT_FALSE(claims.has("k"));
  EXPECT_EQ(claims.taken(), BoundRoom());
}

TEST(BoundClaims, AppendsAddUpAndAWaitingWriteTakesNothing) {
  BoundClaims claims;
  BoundWish one = wish_of("k", 100, true), two = wish_of("k", 50, true), three = wish_of("other", 7);
  claims.claim(one, 1000);
  claims.claim(two, 1000);
  EXPECT_EQ(claims.taken(), (BoundRoom{150, 0}));
  claims.wait(three);
  EXPECT_TRUE(claims.has("other"));
  EXPECT_FALSE(claims.is_claimed("other"));
  EXPECT_EQ(claims.waiting().size(), 1U);
  claims.end(three);
  claims.held_changed("k", 1100);
  claims.end(one);
  EXPECT_EQ(claims.taken(), (BoundRoom{50, 0}));
  claims.end(two);
  EXPECT_TRUE(claims.waiting().empty());
  EXPECT_EQ(claims.taken(), BoundRoom());
}

class BoundRoomTest : public testing::Test {
 protected:
  BoundRoomTest() {
    (void)bound_->begin_load();
    bound_->end_load();
  }
  void tell(store::KeyEvent what, const std::string& key, uint64_t size) {
    auto change = std::make_shared<store::KeyChange>();
    change->what = what;
    change->key = key;
    change->size = size;
    bound_->told(1, change);
  }
  void put(const std::string& key, uint64_t size) { tell(store::KeyEvent::created, key, size); }
  void evict() {
    const auto found = bound_->victims(100).objects;
    for (const auto& victim : found) tell(store::KeyEvent::evicted, victim.key, victim.size);
  }
  Bound::Room claim(BoundWish& wish) { return bound_->claim(wish); }

  BoundPtr bound_ = std::make_shared<Bound>("bound-room", 1, "owner", BoundSettings{.bytes_max = 5000}, [] {});
};

// The claim went on counting the bytes of an object that was there no more: contents and claims together exceeded the
// bound.
TEST_F(BoundRoomTest, AClaimTakesAllOfItsRoomOnceItsObjectsEvictionFoundNothing) {
  for (const Errc why : {Errc::no_such_key, Errc::malformed}) {
    const std::string key = "k" + std::to_string(static_cast<int>(why)), other = "other than " + key;
    put(key, 1000);
    put(other, 3800);
    const auto victims = bound_->victims(1).objects;
    ASSERT_EQ(victims.size(), 1U);
    ASSERT_EQ(victims[0].key, key);
    BoundWish larger = wish_of(key, 1150), next = wish_of("next", 200), fits = wish_of("fits", 50);
    ASSERT_EQ(claim(larger), Bound::Room::claimed) << "150 more than the object has";
    const std::vector<Result<void>> nothing{fail(why, "a test")};
    bound_->settle(victims, nothing);
    EXPECT_EQ(bound_->held().bytes, 3800U);
    EXPECT_EQ(claim(next), Bound::Room::wait) << "3800, 1150 and 200 are more than the bound";
    bound_->release(next);
    EXPECT_EQ(claim(fits), Bound::Room::claimed);
    put(key, 1150);
    for (BoundWish* const one : {&larger, &fits}) bound_->release(*one);
    for (const std::string& gone : {key, other}) tell(store::KeyEvent::removed, gone, 0);
  }
}

// One that was refused stays, and nothing changes for its claim.
TEST_F(BoundRoomTest, AClaimTakesNoMoreWhenItsObjectsEvictionWasRefused) {
  put("k", 1000);
  put("other", 3800);
  const auto victims = bound_->victims(1).objects;
  ASSERT_EQ(victims.size(), 1U);
  BoundWish larger = wish_of("k", 1150), fits = wish_of("fits", 50);
  ASSERT_EQ(claim(larger), Bound::Room::claimed);
  const std::vector<Result<void>> refused{fail(Errc::precondition_failed, "a test")};
  bound_->settle(victims, refused);
  EXPECT_EQ(bound_->held().bytes, 4800U);
  EXPECT_EQ(claim(fits), Bound::Room::claimed);
  for (BoundWish* const one : {&larger, &fits}) bound_->release(*one);
}

TEST_F(BoundRoomTest, AnAppendNeverEvictsItsObjectAndCountsAllOfIt) {
  put("log", 4000);
  put("other", 500);
  BoundWish large = wish_of("log", 2000, true), fits = wish_of("log", 900, true);
  EXPECT_EQ(claim(large), Bound::Room::never);
  EXPECT_EQ(claim(fits), Bound::Room::wait);
  evict();
  EXPECT_EQ(claim(fits), Bound::Room::claimed);
  EXPECT_EQ(bound_->held().bytes, 4000U);
  bound_->release(fits);
}

TEST_F(BoundRoomTest, FullIsAnsweredAfterALookThatBeganAfterTheFirstRefusal) {
  put("a", 4900);
  store::KeyPins::get().pin("bound-room", "a");
  BoundWish first = wish_of("b", 1000), second = wish_of("c", 1000);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(claim(first), Bound::Room::wait);
  evict();
  EXPECT_EQ(claim(first), Bound::Room::full);
  store::KeyPins::get().unpin("bound-room", "a");
  EXPECT_EQ(claim(second), Bound::Room::wait);  // the look that found all pinned was before
  evict();
  EXPECT_EQ(claim(first), Bound::Room::claimed);
  EXPECT_EQ(claim(second), Bound::Room::claimed);
  bound_->release(first);
  bound_->release(second);
}

TEST_F(BoundRoomTest, RoomIsKeptForTheWriteThatWaitsLongest) {
  for (int i = 0; i < 4; ++i) put("k" + std::to_string(i), 1000);
  BoundWish large = wish_of("large", 4500), small = wish_of("small", 600);
  EXPECT_EQ(claim(large), Bound::Room::wait);
  EXPECT_EQ(claim(small), Bound::Room::wait);  // although it would fit
  evict();
  EXPECT_EQ(claim(small), Bound::Room::wait);
  EXPECT_EQ(claim(large), Bound::Room::claimed);
  bound_->release(large);
  EXPECT_EQ(claim(small), Bound::Room::claimed);
  bound_->release(small);
}

TEST_F(BoundRoomTest, WhatIsBeingWrittenIsNoGroundForFull) {
  put("a", 4500);
  BoundWish over = wish_of("a", 4600), other = wish_of("b", 1000);
  EXPECT_EQ(claim(over), Bound::Room::claimed);
  EXPECT_EQ(claim(other), Bound::Room::wait);
  evict();
  EXPECT_EQ(claim(other), Bound::Room::wait);
  put("a", 4600);
  bound_->release(over);
  evict();
  EXPECT_EQ(claim(other), Bound::Room::claimed);
  bound_->release(other);
}

}  // namespace
}  // namespace verbena::s3
