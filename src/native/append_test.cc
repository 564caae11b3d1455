// APPEND and RENAME at the native door.
#include <thread>

#include "native/test_door.h"

namespace verbena::native {
namespace {

constexpr std::string_view directory = "b--local1-az1--x-s3";

class AppendTest : public DoorTest {
 protected:
  AppendTest() : DoorTest({.credits = 64, .reply_deadline = std::chrono::milliseconds(20)}) {}

  void make_directory_bucket() {
    s3::Call root;
    root.identity.anonymous = false;
    bool made = false;
    boost::asio::co_spawn(core_.io(), make(service_, root, made), boost::asio::detached);
    run();
    ASSERT_TRUE(made);
  }
  static Task<void> make(s3::Service& service, s3::Call caller, bool& made) {
    const auto done = co_await s3::create_bucket(service, caller, std::string(directory), store::Durability::sync);
    made = done.has_value();
  }
  static wire::Append append_of(std::string_view bytes, uint64_t offset = wire::open_end) {
    wire::Append append;
    append.offset = offset;
    append.put.bucket = directory;
    append.put.key = "log";
    append.put.size = bytes.size();
    return append;
  }
  std::string text_of(FakePeer& peer, uint64_t request, const wire::Get& get) {
    deliver(peer, peer.seal(wire::Type::get, request, get));
    const auto body = reply_body(peer);
    const auto got = wire::decode_object_reply(body);
    return got ? std::string(as_text(got->inline_bytes)) : "(error)";
  }
};

TEST_F(AppendTest, BytesGoToTheEndAndTheReplyTellsWhere) {
  make_directory_bucket();
  FakePeer peer = hello(1, 3);
  deliver(peer, peer.seal(wire::Type::append, 2, append_of("one ", 0), 0, "one "));
  deliver(peer, peer.seal(wire::Type::append, 3, append_of("two"), 0, "two"));
  auto body = reply_body(peer);
  EXPECT_EQ(wire::decode_object_reply(body)->object_size, 4u);
  body = reply_body(peer);
  const auto second = wire::decode_object_reply(body);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->length, 3u);
  EXPECT_EQ(second->object_size, 7u);
  deliver(peer, peer.seal(wire::Type::append, 4, append_of("x", 4), 0, "x"));
  EXPECT_EQ(reply_code(peer), Errc::invalid_write_offset);
  wire::Get get;
  get.bucket = directory;
  get.key = "log";
  get.inline_max = 4096;
  EXPECT_EQ(text_of(peer, 5, get), "one two");
  EXPECT_EQ(door_->in_flight(), 0u);
}

TEST_F(AppendTest, ManyThatComeTogetherLieInTheOrderInWhichTheyCame) {
  make_directory_bucket();
  FakePeer peer = hello(1, 3);
  std::string whole;
  for (uint64_t i = 0; i < 40; ++i) {
    const std::string text = "record " + std::to_string(i) + "\n";
    port_.receive(peer.id, peer.seal(wire::Type::append, 10 + i, append_of(text, whole.size()), 0, text));
    whole += text;
  }
  run();
  for (uint64_t i = 0; i < 40; ++i) {
    const auto body = reply_body(peer);
    ASSERT_TRUE(wire::decode_object_reply(body)) << i;
  }
  wire::Get get;
  get.bucket = directory;
  get.key = "log";
  get.inline_max = 4096;
  EXPECT_EQ(text_of(peer, 99, get), whole);
}

TEST_F(AppendTest, ABucketThatIsNoDirectoryBucketTakesNone) {
  FakePeer peer = hello(1, 3);
  auto append = append_of("x", 0);
  append.put.bucket = "bucket";
  deliver(peer, peer.seal(wire::Type::append, 2, append, 0, "x"));
  EXPECT_EQ(reply_code(peer), Errc::not_implemented);
  const wire::Rename rename{.bucket = "bucket", .from = "a", .to = "b"};
  deliver(peer, peer.seal(wire::Type::rename, 3, rename));
  EXPECT_EQ(reply_code(peer), Errc::not_implemented);
}

TEST_F(AppendTest, ARenameIsAnsweredByItsCode) {
  make_directory_bucket();
  FakePeer peer = hello(1, 3);
  deliver(peer, peer.seal(wire::Type::append, 2, append_of("x", 0), 0, "x"));
  (void)reply_body(peer);
  wire::Rename rename{.bucket = directory, .from = "log", .to = "new", .token = "once"};
  deliver(peer, peer.seal(wire::Type::rename, 3, rename));
  EXPECT_EQ(reply_code(peer), Errc::ok);
  deliver(peer, peer.seal(wire::Type::rename, 4, rename));
  EXPECT_EQ(reply_code(peer), Errc::ok) << "the same again";
  rename.to = "other";
  deliver(peer, peer.seal(wire::Type::rename, 5, rename));
  EXPECT_EQ(reply_code(peer), Errc::idempotency_mismatch);
  rename.token = {};
  deliver(peer, peer.seal(wire::Type::rename, 6, rename));
  EXPECT_EQ(reply_code(peer), Errc::no_such_key);
  rename.from = "new";
  rename.source_if_match = "other";
  deliver(peer, peer.seal(wire::Type::rename, 7, rename));
  EXPECT_EQ(reply_code(peer), Errc::precondition_failed);
}

TEST_F(AppendTest, ASessionOfAnOlderVersionKnowsThemNot) {
  make_directory_bucket();
  FakePeer peer = hello(1, 2);
  const auto before = dropped("bad_type");
  deliver(peer, peer.seal(wire::Type::append, 2, append_of("x", 0), 0, "x"));
  const wire::Rename rename{.bucket = directory, .from = "log", .to = "new"};
  deliver(peer, peer.seal(wire::Type::rename, 3, rename));
  EXPECT_TRUE(port_.sent.empty());
  EXPECT_EQ(dropped("bad_type"), before + 2);
}

TEST_F(AppendTest, WhatIsNoBodyIsRefused) {
  FakePeer peer = hello(1, 3);
  const wire::Delete other{.bucket = directory, .key = "k", .if_match = {}};
  deliver(peer, peer.seal(wire::Type::append, 2, other));
  EXPECT_EQ(reply_code(peer), Errc::invalid_request);
  deliver(peer, peer.seal(wire::Type::rename, 3, other));
  EXPECT_EQ(reply_code(peer), Errc::invalid_request);
}

// The client made them another way when it had given up: what came of the first attempt replaced what followed.
class GivenUp : public AppendTest {
 protected:
  // A change of each kind, read by the server and not begun.
  void bring_changes(FakePeer& peer) {
    make_directory_bucket();
    for (const char* key : {"a", "c"}) store_.put(std::string(directory), key, "old");
    wire::Put put;
    put.bucket = directory;
    put.key = "new";
    put.size = 3;
    const wire::Rename rename{.bucket = directory, .from = "a", .to = "b"};
    const wire::Delete remove{.bucket = directory, .key = "c", .if_match = {}};
    port_.receive(peer.id, peer.seal(wire::Type::put, 2, put, 0, "new"));
    port_.receive(peer.id, peer.seal(wire::Type::append, 3, append_of("one"), 0, "one"));
    port_.receive(peer.id, peer.seal(wire::Type::rename, 4, rename));
    port_.receive(peer.id, peer.seal(wire::Type::del, 5, remove));
  }
  void expect_nothing_changed() {
    const std::string bucket(directory);
    for (const char* key : {"a", "c"}) EXPECT_TRUE(store_.contains(bucket, key)) << key;
    for (const char* key : {"new", "log", "b"}) EXPECT_FALSE(store_.contains(bucket, key)) << key;
    EXPECT_EQ(door_->in_flight(), 0u);
  }
};

TEST_F(GivenUp, WhatAStreamHasAskedForIsNotMadeOnceItHasEnded) {
  FakePeer peer = hello(1, 3);
  bring_changes(peer);
  port_.receive(peer.id, peer.seal(wire::Type::bye, 6, Bytes()));
  run();
  expect_nothing_changed();
  EXPECT_TRUE(port_.sent.empty());
}

TEST_F(GivenUp, WhatIsNotMadeInTimeIsNotMade) {
  FakePeer peer = hello(1, 3);
  peer.timeout_ms = 20;
  bring_changes(peer);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  run();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(reply_code(peer), Errc::slow_down);
  expect_nothing_changed();
}

}  // namespace
}  // namespace verbena::native
