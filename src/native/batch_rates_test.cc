// Rates at the door: what batches are charged, and what is refused once a second is used up.
#include <thread>

#include "native/test_batches.h"
#include "native/wire/match.h"

namespace verbena::native {
namespace {

class BatchRatesTest : public BatchTest {
 protected:
  // From here on the peer is a caller of an account with such a rate.
  void limit(uint64_t bytes_per_s) {
    auth::Principal limited = *auth::superuser();
    limited.superuser = false;
    limited.account_limits = auth::make_limits({.bytes_per_s = bytes_per_s});
    credentials_.set({"AKROOT", "secret/root", ""}, std::make_shared<const auth::Principal>(limited));
    peer_ = hello(5, 2);
  }
  static uint64_t charged() { return metrics::counter("verbena_quota_charged_bytes_total", "").value(); }
};

// Requests and bytes of the second that has been used up, by single messages and by batches.
TEST_F(BatchRatesTest, WhatARateDoesNotAdmitIsRefusedAsAWhole) {
  store_.put("bucket", "k", std::string(4096, 'x'));
  limit(1024);
  EXPECT_EQ(ask(wire::Type::put_many, head(), {{"big", {}, std::string(8 * KiB, 'x')}}).entries.front().code, Errc::ok);
  EXPECT_EQ(ask(wire::Type::head_many, head(), {{"k"}, {"big"}}).refused, Errc::slow_down);
  EXPECT_EQ(ask(wire::Type::delete_many, head(), {{"k"}}).refused, Errc::slow_down);
  EXPECT_TRUE(store_.contains("bucket", "k"));
  deliver(peer_, peer_.seal(wire::Type::get, ++request_, wire::Get{.bucket = "bucket", .key = "k", .window = {}}));
  EXPECT_EQ(reply_code(peer_), Errc::slow_down);
  deliver(peer_, peer_.seal(wire::Type::del, ++request_, wire::Delete{.bucket = "bucket", .key = "k", .if_match = {}}));
  EXPECT_EQ(reply_code(peer_), Errc::slow_down);
  // The root key is never held up.
  credentials_.set({"AKROOT", "secret/root", ""});
  EXPECT_EQ(ask(wire::Type::head_many, head(), {{"k"}, {"big"}}).entries.size(), 2u);
}

TEST_F(BatchRatesTest, RatesAreChargedForWhatMoves) {
  make_hot();
  store_.put("bucket", "big", std::string(60 * KiB, 'x'));
  limit(1024);
  const auto heads = ask(wire::Type::head_many, head(), std::vector<Item>(100, {"big"}));
  ASSERT_EQ(heads.refused, Errc::ok);
  EXPECT_EQ(heads.entries.back().object_size, 60 * KiB);
  // Of what a second has less than half, so that two come at once.
  wire::Get get{.bucket = "bucket", .key = "big", .window = {}};
  get.inline_max = 4096;
  get.ranges.add({0, 199});
  get.ranges.add({40'000, 40'199});
  for (int i = 0; i < 2; ++i) {
    deliver(peer_, peer_.seal(wire::Type::get, ++request_, get));
    const auto body = reply_body(peer_);
    const auto got = wire::decode_object_reply(body);
    ASSERT_TRUE(got) << i;
    EXPECT_EQ(got->length, 400u);
  }
  const wire::BatchPlace place{0, 0, 60 * KiB};
  EXPECT_EQ(ask(wire::Type::get_many, head(), {{"big", place}}).entries.front().code, Errc::ok);
  EXPECT_EQ(ask(wire::Type::get_many, head(), {{"big", place}}).refused, Errc::slow_down);
}

// A message with more items than its reply holds brought the bytes of one that was not charged and in no log.
TEST_F(BatchRatesTest, WhatLiesInTheWindowIsPaidForWithoutAnAnswerToo) {
  constexpr size_t size = 32, count = 400;
  make_hot();
  const std::string key(20, 'k');  // and as long an entity tag
  store_.put("bucket", key, std::string(size, 'x'));
  limit(1'000'000);
  std::vector<Item> items;
  for (size_t i = 0; i < count; ++i) items.push_back({key, {0, i * size, size}});
  for (const bool immediate : {true, false}) {
    immediate_ = immediate;
    std::ranges::fill(memory_, std::byte{0});
    const uint64_t before = charged();
    const auto answer = ask(wire::Type::get_many, head(), items);
    ASSERT_LT(answer.entries.size(), count) << "the reply holds them all";
    const auto arrived = static_cast<uint64_t>(std::ranges::count(memory_, std::byte{'x'}));
    EXPECT_GE(arrived, answer.entries.size() * size);
    EXPECT_EQ(charged() - before, arrived) << immediate;
  }
}

// One that did not fit into the reply was charged although it was not sent.
TEST_F(BatchRatesTest, WhatIsReadForTheReplyIsPaidForWhenItIsInIt) {
  constexpr size_t size = 100, count = 300;
  store_.put("bucket", "cold", std::string(size, 'x'));
  limit(1'000'000);
  wire::BatchHead in_reply = head();
  in_reply.inline_max = 1000;
  const uint64_t before = charged();
  const auto answer = ask(wire::Type::get_many, in_reply, std::vector<Item>(count, Item{"cold"}));
  ASSERT_EQ(answer.refused, Errc::ok);
  ASSERT_LT(answer.entries.size(), count) << "the reply holds them all";
  ASSERT_FALSE(answer.entries.empty());
  EXPECT_EQ(answer.entries.front().inline_bytes.size(), size);
  EXPECT_EQ(charged() - before, answer.entries.size() * size);
}

// The batch's other requests were charged, although none of it was done.
TEST_F(BatchRatesTest, ABatchThatOneBucketsRateRefusesPaysNothing) {
  const auto any = auth::make_limits({.requests_per_s = 1});  // while there is one the door asks for rates
  store_.make_bucket("busy");
  store_.document("bucket", "quota", R"({"requests_per_second":10})");
  store_.document("busy", "quota", R"({"requests_per_second":1})");
  service_.access->all_changed();
  be_the_owner();
  wire::BatchHead both = head();
  both.buckets.add("busy");
  const Item in_busy{.key = "k", .bucket = 1};
  EXPECT_EQ(ask(wire::Type::head_many, both, std::vector<Item>(500, in_busy)).refused, Errc::ok);
  std::vector<Item> of_both(500, Item{"k"});
  of_both.push_back(in_busy);
  EXPECT_EQ(ask(wire::Type::head_many, both, of_both).refused, Errc::slow_down);
  EXPECT_EQ(ask(wire::Type::head_many, head(), std::vector<Item>(500, {"k"})).refused, Errc::ok);
  EXPECT_EQ(ask(wire::Type::head_many, head(), {{"k"}}).refused, Errc::slow_down);
  // This thread keeps what it knows of a bucket until it asks again.
  for (const char* bucket : {"bucket", "busy"}) store_.document(bucket, "quota", R"({"objects":1000})");
  service_.access->all_changed();
  ask(wire::Type::head_many, both, {{"k"}, in_busy});
}

// A process that had ever had a rate looked each key up by itself for as long as it ran.
TEST_F(BatchRatesTest, WithoutARateWhatLiesInMemoryGoesOutTogetherAgain) {
  std::vector<Item> items;
  for (size_t i = 0; i < 16; ++i) {
    items.push_back({fmt::format("k{:03}", i), {0, i * 100, 100}});
    store_.put("bucket", items.back().key, std::string(100, 'x'));
  }
  auto in_place = head();
  in_place.inline_max = 0;
  const auto writes = [&] {
    make_hot();
    window_.writes = 0;
    EXPECT_EQ(ask(wire::Type::get_many, in_place, items).entries.size(), 16u);
    return window_.writes;
  };
  auto of_another_account = auth::make_limits({.requests_per_s = 1});
  EXPECT_GT(writes(), 1);
  of_another_account.reset();
  EXPECT_EQ(writes(), 1);
}

// Its part in the lease that it joins stayed open: the lease held its keys for two minutes, whatever the client had
// been promised. A lease of its own stayed, too.
TEST_F(BatchRatesTest, ABatchThatARateRefusesLeavesNoPartInALease) {
  store_.put("bucket", "k", "x");
  limit(1024);
  peer_ = hello(6, wire::version_of_batch_leases);
  const auto take = [&](wire::LeaseWish wish) {
    std::vector<std::byte> message = body(wire::Type::head_many, head(), {{"k"}});
    message.resize(message.size() + wire::lease_wish_size);
    wire::Writer out(MutableBytes(message).last(wire::lease_wish_size));
    wire::put_lease_wish(out, wish);
    deliver(peer_, peer_.seal(wire::Type::head_many, ++request_, Bytes(message), wire::flag_take_lease));
    return reply_body(peer_);
  };
  const auto held = [] { return metrics::gauge("verbena_native_lease_keys", "").value(); };
  const std::vector<std::byte> first = take({300, 0});
  ASSERT_EQ(*wire::decode_error(first), Errc::ok);
  const uint64_t lease = wire::Reader(Bytes(first).subspan(wire::batch_reply_head_size)).u64();
  ASSERT_NE(lease, 0u);
  EXPECT_EQ(held(), 1);
  ASSERT_EQ(ask(wire::Type::put_many, head(), {{"big", {}, std::string(8 * KiB, 'x')}}).refused, Errc::ok);
  EXPECT_EQ(*wire::decode_error(take({300, lease})), Errc::slow_down);
  for (int i = 0; i < 500 && held() != 0; ++i) {  // at a sweep of the endpoint, within a second
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    run();
  }
  EXPECT_EQ(held(), 0);
}

// From memory it was sent twice, and charged twice.
TEST_F(BatchRatesTest, NoByteMovesForAnAnswerThatDoesNotFit) {
  wire::Put put;
  put.bucket = "bucket";
  put.key = "k";
  put.size = 5;
  const std::string long_value(1000, 'v');
  for (const auto* name :
       {"cache-control", "content-disposition", "content-language", "x-amz-meta-a", "content-type"}) {
    put.headers.add({name, long_value});
  }
  deliver(peer_, peer_.seal(wire::Type::put, ++request_, put, 0, "hello"));
  ASSERT_EQ(reply_code(peer_), Errc::ok);
  limit(1024);
  peer_ = open_session(7, 2);
  deliver(peer_, peer_.seal(wire::Type::hello, 1, wire::Hello{.message_size_max = 4096, .address = {}}));
  ASSERT_EQ(reply_code(peer_), Errc::ok);
  std::ranges::fill(memory_, std::byte{0});
  wire::Get get{.bucket = "bucket", .key = "k", .window = {0, memory_.size(), 1}};
  const uint64_t before = charged();
  for (const bool hot : {false, true}) {
    store_.is_hot = [hot](std::string_view) { return hot; };
    for (int i = 0; i < 2; ++i) {
      deliver(peer_, peer_.seal(wire::Type::get, ++request_, get, wire::flag_window | wire::flag_full_headers));
      EXPECT_EQ(reply_code(peer_), Errc::metadata_too_large) << hot;
    }
  }
  EXPECT_EQ(window_.writes, 0);
  EXPECT_EQ(memory_.front(), std::byte{0});
  EXPECT_EQ(charged(), before);
}

}  // namespace
}  // namespace verbena::native
