// GET_MANY and HEAD_MANY that take leases, and reads by leases of other sessions.
#include "native/test_batches.h"
#include "native/wire/match.h"
#include "store/key_pins.h"

namespace verbena::native {
namespace {

class BatchLeaseTest : public BatchTest {
 protected:
  BatchLeaseTest() {
    peer_ = hello(2, wire::version_of_batch_leases);
    for (const char* key : {"a", "b", "c"}) store_.put("bucket", key, std::string("old ") + key);
  }
  struct Leased {
    Answer answer;
    uint64_t lease = 0;
    std::string bytes(size_t i) const {
      const wire::BatchEntry& entry = answer.entries.at(i);
      return entry.code == Errc::ok ? std::string(as_text(entry.inline_bytes)) : std::string(to_string(entry.code));
    }
    std::vector<Errc> codes() const {
      std::vector<Errc> codes;
      for (const auto& entry : answer.entries) codes.push_back(entry.code);
      return codes;
    }
  };
  // `by`: a lease to read by.
  Leased take(wire::Type type, const std::vector<Item>& items, wire::LeaseWish wish, uint64_t by = 0) {
    wire::BatchHead in_reply = head();
    if (type == wire::Type::get_many) in_reply.inline_max = 1000;
    std::vector<std::byte> message = body(type, in_reply, items);
    const size_t before = message.size();
    message.resize(before + (by != 0 ? wire::lease_size : 0) + wire::lease_wish_size);
    wire::Writer out(MutableBytes(message).subspan(before));
    if (by != 0) out.u64(by);
    wire::put_lease_wish(out, wish);
    const auto flags = static_cast<uint8_t>(wire::flag_take_lease | (by != 0 ? wire::flag_lease : 0));
    deliver(peer_, peer_.seal(type, ++request_, Bytes(message), flags));
    return leased(reply_body(peer_));
  }
  static Leased leased(std::vector<std::byte> body) {
    Leased found;
    if (body.size() > wire::batch_reply_head_size + wire::lease_size && *wire::decode_error(body) == Errc::ok) {
      const auto at = body.begin() + wire::batch_reply_head_size;
      found.lease = wire::Reader(Bytes(body).subspan(wire::batch_reply_head_size)).u64();
      body.erase(at, at + wire::lease_size);
    }
    found.answer = parsed(std::move(body));
    return found;
  }
  void end(uint64_t lease) {
    deliver(peer_, peer_.seal(wire::Type::lease_end, ++request_, wire::LeaseEnd{lease}));
    EXPECT_EQ(reply_code(peer_), Errc::ok);
  }
  void remove(const std::string& key) {
    deliver(peer_,
            peer_.seal(wire::Type::del, ++request_, wire::Delete{.bucket = "bucket", .key = key, .if_match = {}}));
    EXPECT_EQ(reply_code(peer_), Errc::ok);
  }
  void make_the_bucket_again(std::initializer_list<const char*> keys) {
    store_.clear("bucket");
    boost::asio::co_spawn(core_.io(), store_.remove_bucket("bucket"), boost::asio::detached);
    run();
    store::BucketInfo info{.name = "bucket", .owner = "other"};
    boost::asio::co_spawn(core_.io(), store_.create_bucket(std::move(info)), boost::asio::detached);
    run();
    service_.access->all_changed();
    for (const char* key : keys) store_.put("bucket", key, std::string("of another bucket: ") + key);
  }
  static int64_t keys_held() { return metrics::gauge("verbena_native_lease_keys", "").value(); }
};

TEST_F(BatchLeaseTest, WhatABatchHasFoundStaysReadable) {
  for (const bool hot : {false, true}) {
    if (hot) make_hot();
    for (const wire::Type type : {wire::Type::head_many, wire::Type::get_many}) {
      for (const char* key : {"a", "b"}) store_.put("bucket", key, std::string("old ") + key);
      const Leased found = take(type, {{"a"}, {"none"}, {"b"}}, {60'000, 0});
      ASSERT_EQ(found.codes(), (std::vector{Errc::ok, Errc::no_such_key, Errc::ok})) << hot;
      ASSERT_NE(found.lease, 0u);
      EXPECT_EQ(keys_held(), 2);
      EXPECT_TRUE(store::KeyPins::get().is_pinned("bucket", "a"));
      EXPECT_EQ(found.answer.entries[0].object_size, 5u);
      EXPECT_TRUE(type == wire::Type::head_many || found.bytes(2) == "old b");
      store_.put("bucket", "a", "new");
      remove("b");
      EXPECT_EQ(get_by_lease(found.lease, "a"), "old a");
      EXPECT_EQ(get_by_lease(found.lease, "b"), "old b");
      EXPECT_EQ(get_by_lease(0, "a"), "new");
      end(found.lease);
      EXPECT_EQ(get_by_lease(found.lease, "b"), "no_such_key");
      EXPECT_EQ(keys_held(), 0);
    }
  }
}

TEST_F(BatchLeaseTest, FurtherBatchesJoinItAndOneOfNothingHasNone) {
  const Leased first = take(wire::Type::head_many, {{"a"}}, {60'000, 0});
  const Leased second = take(wire::Type::get_many, {{"b"}, {"a"}}, {60'000, first.lease});
  EXPECT_EQ(second.lease, first.lease);
  EXPECT_EQ(keys_held(), 2);
  EXPECT_EQ(take(wire::Type::head_many, {{"none"}}, {60'000, 0}).lease, 0u);
  EXPECT_EQ(take(wire::Type::head_many, {{"none"}}, {60'000, first.lease}).lease, first.lease);
  end(first.lease);
  EXPECT_EQ(keys_held(), 0);
}

TEST_F(BatchLeaseTest, ABatchReadsByOneLeaseAndTakesAnother) {
  const Leased first = take(wire::Type::head_many, {{"a"}}, {60'000, 0});
  store_.put("bucket", "a", "new");
  const Leased second = take(wire::Type::get_many, {{"a"}, {"b"}}, {60'000, 0}, first.lease);
  EXPECT_EQ(second.bytes(0), "old a");
  EXPECT_EQ(second.bytes(1), "old b");
  end(first.lease);
  EXPECT_EQ(get_by_lease(second.lease, "a"), "old a");
  end(second.lease);
}

TEST_F(BatchLeaseTest, ABucketThatWasMadeAgainIsReadAsWithoutALease) {
  const Leased found = take(wire::Type::head_many, {{"a"}, {"b"}}, {60'000, 0});
  ASSERT_NE(found.lease, 0u);
  make_the_bucket_again({"a"});
  EXPECT_EQ(get_by_lease(found.lease, "a"), "of another bucket: a");
  EXPECT_EQ(get_by_lease(found.lease, "b"), "no_such_key");
  const Leased second = take(wire::Type::get_many, {{"a"}, {"b"}}, {60'000, 0}, found.lease);
  EXPECT_EQ(second.bytes(0), "of another bucket: a");
  EXPECT_EQ(second.bytes(1), "no_such_key");
  end(found.lease);
  store_.put("bucket", "a", "new");
  EXPECT_EQ(get_by_lease(second.lease, "a"), "of another bucket: a");
  end(second.lease);
  EXPECT_EQ(keys_held(), 0);
}

TEST_F(BatchLeaseTest, ItEndsWithItsTimeAndItsStream) {
  ASSERT_NE(take(wire::Type::head_many, {{"a"}}, {1, 0}).lease, 0u);
  for (int i = 0; i < 300 && keys_held() != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    run();
  }
  EXPECT_EQ(keys_held(), 0);
  ASSERT_NE(take(wire::Type::head_many, {{"a"}}, {60'000, 0}).lease, 0u);
  deliver(peer_, peer_.seal(wire::Type::bye, ++request_, Bytes()));
  EXPECT_EQ(keys_held(), 0);
}

TEST_F(BatchLeaseTest, WhatMayNotBeReadIsNotHeld) {
  be_the_owner();
  peer_ = hello(60, wire::version_of_batch_leases);
  deny(R"("Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/a")");
  const Leased found = take(wire::Type::head_many, {{"a"}, {"b"}, {"none"}}, {60'000, 0});
  EXPECT_EQ(found.codes(), (std::vector{Errc::access_denied, Errc::ok, Errc::no_such_key}));
  EXPECT_EQ(keys_held(), 1);
  deny(R"("Action":"s3:ListBucket","Resource":"arn:aws:s3:::bucket")");
  const Leased blind = take(wire::Type::head_many, {{"none"}}, {60'000, found.lease});
  EXPECT_EQ(blind.codes(), (std::vector{Errc::access_denied})) << "not whether it is there";
  end(found.lease);
}

TEST_F(BatchLeaseTest, AnotherSessionOfTheAccountReadsByItAndOfAnotherAccountNot) {
  be_the_owner();
  peer_ = hello(60, wire::version_of_batch_leases);
  const Leased found = take(wire::Type::head_many, {{"a"}}, {60'000, 0});
  store_.put("bucket", "a", "new");
  FakePeer holder = peer_;
  peer_ = hello(61, wire::version_of_batch_leases);
  EXPECT_EQ(get_by_lease(found.lease, "a"), "old a");
  end(found.lease);
  EXPECT_EQ(get_by_lease(found.lease, "a"), "old a") << "it is not this session's to end";
  deliver(holder, holder.seal(wire::Type::bye, ++request_, Bytes()));
  EXPECT_EQ(get_by_lease(found.lease, "a"), "new") << "it ended with its session";
}

TEST_F(BatchLeaseTest, MalformedOnesAreRefused) {
  EXPECT_EQ(take(wire::Type::head_many, {{"a"}}, {0, 0}).answer.refused, Errc::invalid_request);
  std::vector<std::byte> short_one(wire::lease_wish_size - 1);
  for (const wire::Type type : {wire::Type::get_many, wire::Type::head_many}) {
    deliver(peer_, peer_.seal(type, ++request_, Bytes(short_one), wire::flag_take_lease));
    EXPECT_EQ(reply_code(peer_), Errc::invalid_request);
  }
  EXPECT_EQ(keys_held(), 0);
}

TEST_F(BatchLeaseTest, AnOlderSessionDoesNotHaveTheFlag) {
  peer_ = hello(70, wire::version_of_batch_leases - 1);
  const std::vector<std::byte> message = body(wire::Type::head_many, head(), {{"a"}});
  deliver(peer_, peer_.seal(wire::Type::head_many, ++request_, Bytes(message), wire::flag_take_lease));
  const Answer answer = parsed(reply_body(peer_));
  ASSERT_EQ(answer.entries.size(), 1u);
  EXPECT_EQ(answer.entries[0].code, Errc::ok);
  EXPECT_EQ(keys_held(), 0);
}

}  // namespace
}  // namespace verbena::native
