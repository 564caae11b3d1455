#include "store/rados/members/intents.h"

#include <gtest/gtest.h>

#include "store/logic/codec.h"
#include "store/logic/keys.h"

namespace verbena::store::rados {
namespace {

constexpr uint64_t everything = 0;

Notice round_trip(const Notice& notice) { return decode_notice(encode(notice), everything); }

TEST(Notices, SayWhatTheySaid) {
  const Intent intent{.change = 1, .bucket = 2, .epoch = 3, .name = "b"};
  for (const auto kind : {Notice::Kind::intent, Notice::Kind::over, Notice::Kind::asking}) {
    const auto heard = round_trip({.kind = kind, .intent = intent, .renames = true});
    EXPECT_EQ(heard.kind, kind);
    EXPECT_EQ(heard.intent, intent);
    EXPECT_TRUE(heard.renames);
  }
  EXPECT_EQ(round_trip({.bucket = 7}).bucket, 7u);
  EXPECT_EQ(*decode_intents(encode(std::vector{intent, intent})), (std::vector{intent, intent}));
}

// A server from before there were intents takes a number for a bucket, and reads everything at anything else.
TEST(Notices, AreUnderstoodByOlderServers) {
  EXPECT_EQ(encode(Notice{.bucket = 7}), keys::number(7));
  EXPECT_FALSE(keys::parse_number(encode(Notice{.kind = Notice::Kind::asking})));
  EXPECT_FALSE(keys::parse_number(encode(Notice{.kind = Notice::Kind::over, .intent = {.bucket = 1}})));
}

TEST(Notices, OfANewerServerMeanEverything) {
  std::string newer = encode(Notice{.kind = Notice::Kind::asking});
  newer[1] = 9;
  for (const std::string& message : {newer, std::string(), std::string("damaged"), newer.substr(0, 5)}) {
    const auto heard = decode_notice(message, everything);
    EXPECT_EQ(heard.kind, Notice::Kind::changed);
    EXPECT_EQ(heard.bucket, everything);
  }
  EXPECT_FALSE(decode_intents("damaged"));
  Encoder many;
  many.varint(1'000'000);
  EXPECT_FALSE(decode_intents(many.take())) << "more than there are bytes for";
}

TEST(MarksOfBuckets, EachChangeEndsItsOwn) {
  Intents intents;
  const Deadline now = SteadyClock::now();
  EXPECT_TRUE(intents.put({.change = 1, .bucket = 5, .epoch = 1, .name = "b"}, now));
  EXPECT_TRUE(intents.put({.change = 2, .bucket = 5, .epoch = 1, .name = "b"}, now + std::chrono::seconds(9)));
  EXPECT_TRUE(intents.put({.change = 1, .bucket = 5, .epoch = 3, .name = "b"}, now)) << "told again";
  EXPECT_EQ(intents.of("b"), 2u);
  EXPECT_EQ(intents.over(now).size(), 1u);
  EXPECT_EQ(intents.over(now).front().epoch, 3u);
  intents.end(1);
  intents.end(1);
  EXPECT_TRUE(intents.has("b") && intents.has(5));
  EXPECT_FALSE(intents.has("c") || intents.has(6));
  intents.end(2);
  EXPECT_FALSE(intents.has("b") || intents.has(5) || intents.any());
  intents.set_all(true);
  EXPECT_TRUE(intents.has("b") && intents.has(6));
}

TEST(MarksOfBuckets, AreBounded) {
  Intents intents;
  for (uint64_t i = 1; i <= Intents::intents_max; ++i) {
    ASSERT_TRUE(intents.put({.change = i, .bucket = i, .name = std::to_string(i)}, {}));
  }
  EXPECT_FALSE(intents.put({.change = Intents::intents_max + 1}, {}));
  EXPECT_TRUE(intents.put({.change = 1}, {})) << "it is there";
  intents.end(7);
  EXPECT_TRUE(intents.put({.change = Intents::intents_max + 1}, {}));
}

TEST(MarksOfBuckets, AReadingServesWhoCameBeforeIt) {
  Intents intents;
  ASSERT_TRUE(intents.put({.change = 1, .bucket = 5, .epoch = 1, .name = "b"}, {}));
  const uint64_t came = intents.next_turn(), begun = intents.next_turn(), came_later = intents.next_turn();
  EXPECT_FALSE(intents.was_read("b", came));
  intents.note_read("b", begun);
  EXPECT_TRUE(intents.was_read("b", came));
  EXPECT_FALSE(intents.was_read("b", came_later));
}

TEST(ChargesOfChanges, LeaveRoomForOthers) {
  ChangeCharges charges;
  std::vector<ChangeCharges::Held> held;
  const auto take_all = [&](const std::string& owner) {
    const size_t before = held.size();
    while (auto one = charges.take(owner)) held.push_back(std::move(one));
    return held.size() - before;
  };
  const size_t of_first = take_all("first");
  EXPECT_GT(of_first, 64u);
  EXPECT_LT(of_first, ChangeCharges::all_max / 4);
  EXPECT_GT(take_all("second"), 32u);
  held.clear();
  EXPECT_EQ(take_all("third"), of_first);
}

}  // namespace
}  // namespace verbena::store::rados
