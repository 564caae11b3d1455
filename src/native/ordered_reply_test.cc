// Answers of a read batch that are known in another order than the items'.
#include "native/ordered_reply.h"

#include <gtest/gtest.h>

namespace verbena::native {
namespace {

class OrderedReplyTest : public testing::Test {
 protected:
  OrderedReplyTest() {
    op_.stream = std::make_shared<SessionStream>();
    head_.buckets.add("bucket");
  }
  // `room`: of the reply's body.
  void begin(size_t room) {
    op_.stream->message_size_max = wire::frame_size + wire::batch_reply_head_size + room;
    op_.reply.resize(op_.stream->message_size_max);
    op_.moved = {};
    reply_.begin(op_, head_, OrderedReply::Form::entries, true);
  }
  // An answer with bytes in the reply that wait in the slot.
  void hold(size_t index, std::string_view bytes) {
    ReadSlot& slot = reply_.slot(index);
    slot.clear();
    slot.length = bytes.size();
    slot.in_reply = slot.charged = true;
    std::ranges::copy(as_bytes(bytes), reply_.hold(slot).begin());
    reply_.complete(index);
  }
  void refuse(size_t index, Errc code) {
    ReadSlot& slot = reply_.slot(index);
    slot.clear();
    slot.code = code;
    reply_.complete(index);
  }
  // What the client reads: bytes of each answer, or the number of its error.
  std::vector<std::string> answers() {
    wire::Reader in(op_.body_space().subspan(wire::batch_reply_head_size, reply_.size()));
    std::vector<std::string> read;
    for (size_t i = 0; i < reply_.answered(); ++i) {
      wire::BatchEntry entry;
      EXPECT_TRUE(wire::read_entry(in, head_.details, false, entry));
      if (entry.code == Errc::ok) {
        read.emplace_back(reinterpret_cast<const char*>(entry.inline_bytes.data()), entry.inline_bytes.size());
      } else {
        read.push_back(std::to_string(static_cast<int>(entry.code)));
      }
    }
    return read;
  }
  wire::BatchHead head_;
  Op op_;
  OrderedReply reply_;
};

TEST_F(OrderedReplyTest, AnAnswerWaitsForThoseAheadOfIt) {
  begin(1000);
  for (int i = 0; i < 3; ++i) reply_.take();
  hold(2, "third");
  refuse(1, Errc::no_such_key);
  EXPECT_EQ(reply_.answered(), 0u);
  EXPECT_EQ(reply_.bytes_moved(), 0u);
  hold(0, "first");
  EXPECT_EQ(answers(),
            (std::vector<std::string>{"first", std::to_string(static_cast<int>(Errc::no_such_key)), "third"}));
  EXPECT_TRUE(reply_.all_answered());
}

TEST_F(OrderedReplyTest, EachIsAccountedForOnceAndWhenItIsWritten) {
  begin(1000);
  for (int i = 0; i < 3; ++i) reply_.take();
  hold(1, "22");
  EXPECT_EQ(op_.moved.out, 0u);
  hold(0, "1");
  EXPECT_EQ(op_.moved.out, 3u);
  EXPECT_EQ(reply_.arrived(), 2u);
  refuse(2, Errc::no_such_key);
  reply_.take();
  hold(3, "4444");
  EXPECT_EQ(op_.moved.out, 7u);
  EXPECT_EQ(reply_.bytes_moved(), 7u);
  EXPECT_EQ(reply_.arrived(), 2u);  // up to the first that failed
  EXPECT_EQ(reply_.answered(), 4u);
}

TEST_F(OrderedReplyTest, TakesNoItemsOnceItIsFullAndAnswersThoseThatFit) {
  begin(60);
  for (int i = 0; i < 3; ++i) reply_.take();
  hold(0, std::string(20, 'a'));
  EXPECT_TRUE(reply_.may_take());
  hold(1, std::string(40, 'b'));
  EXPECT_FALSE(reply_.may_take());
  hold(2, "c");  // fits, but its turn does not come
  EXPECT_EQ(answers(), std::vector<std::string>{std::string(20, 'a')});
  EXPECT_EQ(op_.moved.out, 20u);
}

TEST_F(OrderedReplyTest, AFirstAnswerThatFitsNoReplyIsAnError) {
  begin(60);
  reply_.take();
  hold(0, std::string(80, 'a'));
  EXPECT_EQ(answers(), std::vector<std::string>{std::to_string(static_cast<int>(Errc::too_large))});
  EXPECT_EQ(op_.moved.out, 0u);
  EXPECT_EQ(reply_.arrived(), 0u);
}

TEST_F(OrderedReplyTest, TakesNoMoreItemsThanItHasSlotsAndPromisesNoRoomTwice) {
  begin(64 * KiB);
  for (size_t i = 0; i < OrderedReply::slots_max; ++i) {
    ASSERT_TRUE(reply_.may_take());
    reply_.take();
  }
  EXPECT_FALSE(reply_.may_take());
  hold(1, std::string(40 * KiB, 'b'));
  EXPECT_TRUE(reply_.has_room(10 * KiB, 0));
  EXPECT_FALSE(reply_.has_room(30 * KiB, 0));
  EXPECT_FALSE(reply_.has_room(10 * KiB, 200));  // the answers of as many have to fit, too
}

TEST_F(OrderedReplyTest, AnswersWithoutASlotCountAsThoseWithOne) {
  begin(1000);
  store::ObjectInfo info;
  info.size = 30;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(reply_.append(info, false));
    reply_.count_for_bucket(0, info.size);
  }
  reply_.answered_together({.items = 2, .in_window = 60});
  EXPECT_EQ(answers().size(), 2u);
  EXPECT_EQ(op_.moved.out, 60u);
  EXPECT_EQ(reply_.arrived(), 2u);
  EXPECT_TRUE(reply_.is_next(reply_.take()));
  hold(2, "3");
  EXPECT_EQ(op_.moved.out, 61u);
}

}  // namespace
}  // namespace verbena::native
