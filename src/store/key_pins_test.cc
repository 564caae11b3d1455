#include "store/key_pins.h"

#include <gtest/gtest.h>

namespace verbena::store {
namespace {

TEST(KeyPins, CountsEachPinOfAKey) {
  KeyPins pins;
  EXPECT_FALSE(pins.is_pinned("b", "k"));
  pins.pin("b", "k");
  pins.pin("b", "k");
  EXPECT_TRUE(pins.is_pinned("b", "k"));
  EXPECT_FALSE(pins.is_pinned("b", "l"));
  EXPECT_FALSE(pins.is_pinned("c", "k"));
  pins.unpin("b", "k");
  EXPECT_TRUE(pins.is_pinned("b", "k"));
  pins.unpin("b", "k");
  EXPECT_FALSE(pins.is_pinned("b", "k"));
  pins.unpin("b", "k");  // one too many
  EXPECT_EQ(pins.count(), 0u);
}

}  // namespace
}  // namespace verbena::store
