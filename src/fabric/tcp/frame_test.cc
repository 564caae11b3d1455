#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "fabric/tcp/frame_reader.h"

namespace verbena::fabric::tcp {
namespace {

// Records frames, and receives payload into `place`.
struct Notes final : FrameReceiver {
  Result<void> message(Bytes message) override {
    said.emplace_back("message " + std::string(as_text(message)));
    return {};
  }
  Result<std::byte*> landing(const Frame& frame) override {
    if (refuse) return fail(Errc::malformed, "test");
    if (skip) return nullptr;
    return place.data() + frame.offset;
  }
  Result<void> landed(const Frame& frame) override {
    const auto bytes = skip ? Bytes() : Bytes(place).subspan(frame.offset, frame.payload);
    said.emplace_back("payload " + std::to_string(frame.id) + " " + std::string(as_text(bytes)));
    return {};
  }
  Result<void> control(const Frame& frame) override {
    said.emplace_back("control " + std::to_string(frame.id) + " " + std::to_string(frame.operation));
    return {};
  }
  bool may_go_on() override { return said.size() < said_max; }
  size_t said_max = SIZE_MAX;
  std::vector<std::string> said;
  std::vector<std::byte> place = std::vector<std::byte>(4096);
  bool refuse = false, skip = false;
};

void append(std::string& to, const Frame& frame, std::string_view payload = {}) {
  FrameHead head;
  Frame whole = frame;
  whole.payload = static_cast<uint32_t>(payload.size());
  const size_t size = encode(whole, head);
  to += as_text(Bytes(head).first(size));
  to += payload;
}

// Feeds the bytes like a socket, in pieces of these sizes. When the receiver stops, it gets another turn of so many.
Result<void> feed(FrameReader& reader, std::string_view bytes, const std::vector<size_t>& pieces, FrameReceiver& notes,
                  size_t per_turn = 1) {
  std::vector<std::byte> scratch(FrameReader::scratch_size(1024));
  for (size_t turn = 0; !bytes.empty(); ++turn) {
    size_t left = std::min(bytes.size(), pieces[turn % pieces.size()]);
    size_t done = 0;
    for (const iovec& place : reader.targets(scratch)) {
      const size_t size = std::min(left, place.iov_len);
      std::memcpy(place.iov_base, bytes.data(), size);
      bytes.remove_prefix(size);
      left -= size;
      done += size;
    }
    VB_TRY(reader.received(done, scratch, notes));
    while (reader.paused()) {
      dynamic_cast<Notes&>(notes).said_max += per_turn;
      VB_TRY(reader.resume(scratch, notes));
    }
  }
  return {};
}

TEST(TcpFrames, AreWhatTheyWereWhenTheyComeBack) {
  for (const Frame& frame :
       {Frame{FrameType::message, 7}, Frame{FrameType::write, 9, 5, 6}, Frame{FrameType::read, 0, 1, 2, 3, 4}}) {
    FrameHead head;
    const size_t size = encode(frame, head);
    EXPECT_EQ(size, head_size(static_cast<uint8_t>(frame.type)));
    const auto back = decode(Bytes(head).first(size), Side::client, 1024);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, frame);
  }
}

TEST(TcpFrames, EachSideTakesOnlyItsOwn) {
  for (const auto type : {FrameType::write, FrameType::read, FrameType::data, FrameType::refused}) {
    FrameHead head;
    const Frame frame{
        .type = type, .payload = type == FrameType::write || type == FrameType::data ? 1u : 0u, .size = 1};
    const size_t size = encode(frame, head);
    const bool to_client = type == FrameType::write || type == FrameType::read;
    EXPECT_EQ(decode(Bytes(head).first(size), Side::client, 1024).has_value(), to_client);
    EXPECT_EQ(decode(Bytes(head).first(size), Side::server, 1024).has_value(), !to_client);
  }
}

TEST(TcpFrames, LengthsBeyondTheLimitsAreRefused) {
  const auto refused = [](const Frame& frame, Side side) {
    FrameHead head;
    const size_t size = encode(frame, head);
    return !decode(Bytes(head).first(size), side, 1024);
  };
  EXPECT_TRUE(refused({.type = FrameType::message, .payload = 1025}, Side::server));
  EXPECT_TRUE(refused({.type = FrameType::message, .payload = 0}, Side::server));
  EXPECT_TRUE(refused({.type = FrameType::data, .payload = payload_size_max + 1}, Side::server));
  EXPECT_TRUE(refused({.type = FrameType::data, .payload = 0xffffffff - 16}, Side::server));
  EXPECT_TRUE(refused({.type = FrameType::refused, .payload = 1}, Side::server));
  EXPECT_TRUE(refused({.type = FrameType::read, .size = read_size_max + 1}, Side::client));
  EXPECT_TRUE(refused({.type = FrameType::read, .size = 0}, Side::client));
  FrameHead short_head;
  encode({.type = FrameType::write, .payload = 1}, short_head);
  short_head[4] = std::byte{15};  // shorter than its own fields
  EXPECT_FALSE(decode(Bytes(short_head).first(24), Side::client, 1024));
  short_head[1] = std::byte{1};  // not zero
  EXPECT_FALSE(decode(Bytes(short_head).first(24), Side::client, 1024));
}

RC_GTEST_PROP(TcpFrameReader, SeesTheSameFramesHoweverTheyArrive, ()) {
  const auto count = *rc::gen::inRange<size_t>(1, 12);
  std::string bytes;
  std::vector<std::string> expected;
  for (size_t i = 0; i < count; ++i) {
    const std::string payload(*rc::gen::inRange<size_t>(1, 1024), static_cast<char>('a' + i));
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        append(bytes, {.type = FrameType::message}, payload);
        expected.push_back("message " + payload);
        break;
      case 1:
        append(bytes, {.type = FrameType::write, .id = i, .offset = i * 8}, payload);
        expected.push_back("payload " + std::to_string(i) + " " + payload);
        break;
      default:
        append(bytes, {.type = FrameType::read, .id = i, .size = 1, .operation = 7});
        expected.push_back("control " + std::to_string(i) + " 7");
    }
  }
  const auto pieces = *rc::gen::nonEmpty(rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(1, 700)));
  FrameReader reader(Side::client, 1024);
  Notes notes;
  RC_ASSERT(feed(reader, bytes, pieces, notes).has_value());
  RC_ASSERT(notes.said == expected);
  FrameReader slow(Side::client, 1024);
  Notes turns;
  turns.said_max = 0;
  RC_ASSERT(feed(slow, bytes, pieces, turns, *rc::gen::inRange<size_t>(1, 4)).has_value());
  RC_ASSERT(turns.said == expected);
}

TEST(TcpFrameReader, SkipsPayloadThatHasNoPlace) {
  std::string bytes;
  append(bytes, {.type = FrameType::write, .id = 1}, std::string(3000, 'x'));
  append(bytes, {.type = FrameType::message}, "after");
  FrameReader reader(Side::client, 1024);
  Notes notes;
  notes.skip = true;
  ASSERT_TRUE(feed(reader, bytes, {100}, notes));
  EXPECT_EQ(notes.said, (std::vector<std::string>{"payload 1 ", "message after"}));
  EXPECT_EQ(notes.place, std::vector<std::byte>(4096));
}

TEST(TcpFrameReader, WritesNothingMoreOnceTheRestIsToBeSkipped) {
  std::string bytes;
  append(bytes, {.type = FrameType::write, .id = 1}, std::string(3000, 'x'));
  FrameReader reader(Side::client, 1024);
  Notes notes;
  ASSERT_TRUE(feed(reader, std::string_view(bytes).substr(0, 1000), {1000}, notes));
  ASSERT_NE(reader.under_way(), nullptr);
  reader.skip_rest();
  ASSERT_TRUE(feed(reader, std::string_view(bytes).substr(1000), {500}, notes));
  EXPECT_EQ(reader.under_way(), nullptr);
  EXPECT_EQ(notes.place[1000 - 24 - 1], std::byte{'x'});
  EXPECT_EQ(notes.place[1000 - 24], std::byte{0});
}

TEST(TcpFrameReader, EndsAtAReceiversError) {
  std::string bytes;
  append(bytes, {.type = FrameType::write, .id = 1}, "xyz");
  FrameReader reader(Side::client, 1024);
  Notes notes;
  notes.refuse = true;
  EXPECT_FALSE(feed(reader, bytes, {64}, notes));
}

}  // namespace
}  // namespace verbena::fabric::tcp
