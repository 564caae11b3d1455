// The events of a batch that may be in flight together.
#include <gtest/gtest.h>

#include "events/waves.h"

namespace verbena::events {
namespace {

TEST(Waves, AnEventsKeyIsItsObjects) {
  EXPECT_EQ(key_of_event(R"({"Records":[{"s3":{"bucket":{"name":"b"},"object":{"key":"a/%20"}}}]})"), "b/a/%20");
  EXPECT_EQ(key_of_event(R"({"Event":"s3:TestEvent","Bucket":"b"})"), "b");
  for (const char* none : {"", "[", "[]", "7", "{}", R"({"Bucket":7})"}) EXPECT_EQ(key_of_event(none), "") << none;
  EXPECT_EQ(key_of_event(R"({"Records":[]})"), "/");
}

TEST(Waves, NoWaveHasAKeyTwice) {
  const std::vector<std::string> keys{"a", "b", "a", "a", "b", "c"};
  EXPECT_EQ(end_of_wave(keys, 0), 2u);
  EXPECT_EQ(end_of_wave(keys, 2), 3u);
  EXPECT_EQ(end_of_wave(keys, 3), 6u);
  EXPECT_EQ(end_of_wave(keys, 6), 6u);
}

}  // namespace
}  // namespace verbena::events
