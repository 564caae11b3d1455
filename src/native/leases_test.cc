// Leases: what they hold, for how long, and their limits.
#include "native/leases.h"

#include "native/test_batches.h"
#include "native/wire/match.h"
#include "s3/access/bound.h"
#include "store/key_pins.h"
#include "store/reads_behind.h"

namespace verbena::native {
namespace {

class LeaseTest : public BatchTest {
 protected:
  LeaseTest() {
    peer_ = hello(2, wire::version_of_match);
    for (const char* key : {"ns/a", "ns/b", "ns/c"}) store_.put("bucket", key, std::string("old ") + key);
  }
  struct Found {
    std::optional<Errc> refused;
    uint64_t lease = 0;
    uint32_t leading = 0;
    Errc ended = Errc::ok;
  };
  Found match(uint32_t lease_ms, uint64_t lease = 0, std::initializer_list<const char*> keys = {"a", "b", "c"}) {
    std::vector<std::byte> space(1000), body(2000);
    wire::Writer packed(space), out(body);
    for (const char* key : keys) wire::put_text16(packed, key);
    wire::Match match;
    match.bucket = "bucket";
    match.prefix = "ns/";
    match.width = 0;
    match.lease_ms = lease_ms;
    match.lease = lease;
    match.counts.add(static_cast<uint32_t>(keys.size()));
    match.keys = Bytes(space).first(packed.size());
    EXPECT_TRUE(encode(out, match));
    deliver(peer_, peer_.seal(wire::Type::match, ++request_, Bytes(body).first(out.size())));
    const auto reply = reply_body(peer_);
    Found found{.refused = wire::decode_error(reply)};
    if (found.refused != Errc::ok) return found;
    auto reader = wire::MatchReader::open(reply);
    wire::MatchedList list;
    EXPECT_TRUE(reader && reader->next(list));
    found.lease = reader->lease();
    found.leading = list.leading;
    found.ended = list.code;
    return found;
  }
  void remove(const std::string& key) {
    deliver(peer_,
            peer_.seal(wire::Type::del, ++request_, wire::Delete{.bucket = "bucket", .key = key, .if_match = {}}));
    EXPECT_EQ(reply_code(peer_), Errc::ok);
  }
  void end(uint64_t lease) {
    deliver(peer_, peer_.seal(wire::Type::lease_end, ++request_, wire::LeaseEnd{lease}));
    EXPECT_EQ(reply_code(peer_), Errc::ok);
  }
  static int64_t held() { return metrics::gauge("verbena_native_lease_keys", "").value(); }
  static bool pinned(const char* key) { return store::KeyPins::get().is_pinned("bucket", key); }
};

TEST_F(LeaseTest, TheVersionThatWasFoundStaysReadable) {
  for (const bool hot : {false, true}) {
    if (hot) make_hot();
    store_.put("bucket", "ns/a", "old ns/a");
    store_.put("bucket", "ns/b", "old ns/b");
    const Found found = match(60'000);
    EXPECT_EQ(found.leading, 3u);
    ASSERT_NE(found.lease, 0u);
    EXPECT_EQ(held(), 3);
    EXPECT_TRUE(pinned("ns/a"));
    store_.put("bucket", "ns/a", "new");
    remove("ns/b");
    EXPECT_EQ(get_by_lease(found.lease, "ns/a"), "old ns/a") << hot;
    EXPECT_EQ(get_by_lease(found.lease, "ns/b"), "old ns/b");
    EXPECT_EQ(get_by_lease(found.lease, "ns/b"), "old ns/b") << "as often as one likes";
    EXPECT_EQ(get_by_lease(0, "ns/a"), "new");
    EXPECT_EQ(get_by_lease(found.lease + 1, "ns/b"), "no_such_key") << "another lease";
    end(found.lease);
    EXPECT_EQ(held(), 0);
    EXPECT_FALSE(pinned("ns/a"));
    EXPECT_EQ(get_by_lease(found.lease, "ns/a"), "new") << "as without one";
    EXPECT_EQ(get_by_lease(found.lease, "ns/b"), "no_such_key");
    end(found.lease);  // once more
  }
}

TEST_F(LeaseTest, ItEndsWithItsTime) {
  const Found found = match(1);
  ASSERT_NE(found.lease, 0u);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  remove("ns/a");
  EXPECT_EQ(get_by_lease(found.lease, "ns/a"), "no_such_key");
  for (int i = 0; i < 300 && held() != 0; ++i) {  // at a sweep of the endpoint, within a second
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    run();
  }
  EXPECT_EQ(held(), 0);
  EXPECT_FALSE(pinned("ns/a"));
}

TEST_F(LeaseTest, ItEndsWithItsStream) {
  ASSERT_NE(match(60'000).lease, 0u);
  deliver(peer_, peer_.seal(wire::Type::bye, ++request_, Bytes()));
  EXPECT_EQ(held(), 0);
  EXPECT_FALSE(pinned("ns/a"));
}

TEST_F(LeaseTest, FurtherMatchesJoinIt) {
  const Found first = match(60'000, 0, {"a"});
  const Found second = match(60'000, first.lease, {"a", "b"});
  EXPECT_EQ(second.lease, first.lease);
  EXPECT_EQ(held(), 2);
  EXPECT_EQ(match(60'000, 0, {"none"}).lease, 0u) << "of nothing there is none";
  EXPECT_EQ(match(0, 0, {"a"}).lease, 0u);
  end(first.lease);
}

TEST_F(LeaseTest, ARightThatWasTakenAwayIsNotKept) {
  be_the_owner();
  peer_ = hello(60, wire::version_of_match);
  const Found found = match(60'000);
  ASSERT_EQ(found.leading, 3u);
  remove("ns/a");
  EXPECT_EQ(get_by_lease(found.lease, "ns/a"), "old ns/a");
  deny(R"("Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*")");
  EXPECT_EQ(get_by_lease(found.lease, "ns/a"), "access_denied");
  end(found.lease);
}

TEST_F(LeaseTest, AChangedPolicyDoesNotLoseTheVersion) {
  be_the_owner();
  peer_ = hello(60, wire::version_of_match);
  const Found found = match(60'000);
  store_.put("bucket", "ns/a", "new");
  deny(R"("Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/other/*")");
  EXPECT_EQ(get_by_lease(found.lease, "ns/a"), "old ns/a");
  end(found.lease);
}

TEST_F(LeaseTest, AMalformedOneIsRefused) {
  std::vector<std::byte> short_one(7);
  deliver(peer_, peer_.seal(wire::Type::get_many, ++request_, Bytes(short_one), wire::flag_lease));
  EXPECT_EQ(reply_code(peer_), Errc::invalid_request);
  deliver(peer_, peer_.seal(wire::Type::lease_end, ++request_, Bytes(short_one)));
  EXPECT_EQ(reply_code(peer_), Errc::invalid_request);
}

class LeaseLimitsTest : public LeaseTest {
 protected:
  std::shared_ptr<store::ObjectReader> reader(const char* key) {
    store_.is_hot = [](std::string_view) { return true; };
    return store_.hot("bucket", key);
  }
  static s3::BucketAccessPtr record() {
    auto made = std::make_shared<s3::BucketAccess>();
    made->name = "bucket";
    return made;
  }
  const s3::BucketAccessPtr bucket_ = record();
};

TEST_F(LeaseLimitsTest, KeysAndBytesAreBoundedForAllForAnAccountAndForAStream) {
  LeaseLimits limits({.keys_max = 8, .bytes_max = 1'000'000, .memory_bytes_max = 1'000'000});
  const auto book = std::make_shared<LeaseBook>(limits);
  const Deadline later = deadline_in(std::chrono::minutes(1));
  const auto object = reader("ns/a");
  const auto add = [&](Leases& leases, uint64_t id, const char* key) {
    const auto added = leases.add(id, bucket_, key, object, false);
    return added ? Errc::ok : added.error().code;
  };
  {
    Leases one(book, "account"), two(book, "account"), three(book, "account"), other(book, "other");
    const uint64_t id = one.begin(0, later), of_two = two.begin(0, later), of_three = three.begin(0, later);
    EXPECT_EQ(add(one, id, "1"), Errc::ok);
    EXPECT_EQ(add(one, id, "1"), Errc::ok) << "which it has";
    EXPECT_EQ(add(one, id, "2"), Errc::ok);
    EXPECT_EQ(add(one, id, "3"), Errc::slow_down) << "a quarter for a stream";
    EXPECT_EQ(add(two, of_two, "1"), Errc::ok);
    EXPECT_EQ(add(two, of_two, "2"), Errc::ok);
    EXPECT_EQ(add(three, of_three, "1"), Errc::slow_down) << "half for an account";
    EXPECT_EQ(add(other, other.begin(0, later), "1"), Errc::ok);
    one.end(id);
    EXPECT_EQ(add(three, of_three, "1"), Errc::ok);
    EXPECT_EQ(add(one, id, "1"), Errc::no_such_key);
  }
  EXPECT_EQ(held(), 0);
  LeaseLimits small({.keys_max = 100, .bytes_max = 4 * 20, .memory_bytes_max = 4 * lease_memory(8, true)});
  Leases leases(std::make_shared<LeaseBook>(small), "account");
  const uint64_t id = leases.begin(0, later);
  EXPECT_EQ(add(leases, id, "1"), Errc::ok) << "8 of 20 bytes";
  EXPECT_TRUE(leases.add(id, bucket_, "2", object, true));
  EXPECT_FALSE(leases.add(id, bucket_, "3", object, true)) << "too much in memory";
  EXPECT_EQ(add(leases, id, "3"), Errc::slow_down);
}

// The bucket with a bound, of the account "owner"; or of one that is gone.
s3::BucketAccessPtr bounded(const s3::BoundSettings& settings, const std::string& owner_id = "owner") {
  auto made = std::make_shared<s3::BucketAccess>();
  made->name = "bucket";
  made->owner = std::string(64, 'a');
  made->owner_id = owner_id;
  made->bound = std::make_shared<s3::Bound>("bucket", 0, made->owner, settings, [] {});
  return made;
}

// An account's second key has to fit into a quarter, all of them into half.
TEST_F(LeaseLimitsTest, OneForeignAccountPinsAtMostAQuarterOfABoundedBucket) {
  LeaseLimits limits({.keys_max = 1000, .bytes_max = GiB, .memory_bytes_max = GiB});
  const auto book = std::make_shared<LeaseBook>(limits);
  const Deadline later = deadline_in(std::chrono::minutes(1));
  const auto object = reader("ns/a");  // 8 bytes
  for (const auto& bucket : {bounded({.objects_max = 8}), bounded({.bytes_max = 8 * 8})}) {
    Leases guest(book, "guest"), again(book, "guest"), other(book, "other"), third(book, "third");
    const auto add = [&](Leases& leases, uint64_t id, const char* key) {
      return leases.add(id, bucket, key, object, false).has_value();
    };
    const uint64_t of_guest = guest.begin(0, later), of_again = again.begin(0, later), of_other = other.begin(0, later);
    EXPECT_TRUE(add(guest, of_guest, "1"));
    EXPECT_TRUE(add(again, of_again, "2"));
    const int64_t before = held();
    EXPECT_FALSE(add(guest, of_guest, "3"));
    EXPECT_FALSE(add(again, of_again, "3")) << "another session is the same account";
    EXPECT_EQ(held(), before) << "nothing was taken";
    EXPECT_FALSE(pinned("3"));
    EXPECT_TRUE(add(other, of_other, "1")) << "a key that is pinned anyway counts for its account, too";
    EXPECT_TRUE(add(other, of_other, "3"));
    EXPECT_FALSE(add(other, of_other, "4"));
    const uint64_t of_third = third.begin(0, later);
    EXPECT_TRUE(add(third, of_third, "4"));
    EXPECT_FALSE(add(third, of_third, "5")) << "half of the bound";
    again.end(of_again);
    EXPECT_TRUE(add(guest, of_guest, "3")) << "what ends leaves room to its account";
  }
  EXPECT_EQ(held(), 0);
}

TEST_F(LeaseLimitsTest, AForeignAccountPinsOneKeyHoweverSmallItsPartIs) {
  LeaseLimits limits({.keys_max = 1000, .bytes_max = GiB, .memory_bytes_max = GiB});
  const auto book = std::make_shared<LeaseBook>(limits);
  for (const auto& bucket : {bounded({.objects_max = 2}), bounded({.bytes_max = 2 * 8})}) {
    Leases guest(book, "guest"), other(book, "other");
    const uint64_t id = guest.begin(0, deadline_in(std::chrono::minutes(1)));
    EXPECT_TRUE(guest.add(id, bucket, "ns/a", reader("ns/a"), false));
    EXPECT_FALSE(guest.add(id, bucket, "ns/b", reader("ns/b"), false));
    const uint64_t others = other.begin(0, deadline_in(std::chrono::minutes(1)));
    EXPECT_FALSE(other.add(others, bucket, "ns/b", reader("ns/b"), false)) << "the half is one key";
    EXPECT_TRUE(other.add(others, bucket, "ns/a", reader("ns/a"), false));
  }
}

TEST_F(LeaseLimitsTest, OtherAccountsPinAtMostHalfOfABoundedBucket) {
  LeaseLimits limits({.keys_max = 1000, .bytes_max = GiB, .memory_bytes_max = GiB});
  const auto book = std::make_shared<LeaseBook>(limits);
  const Deadline later = deadline_in(std::chrono::minutes(1));
  const auto object = reader("ns/a");  // 8 bytes
  const s3::BucketAccessPtr by_count = bounded({.objects_max = 9}), by_bytes = bounded({.bytes_max = 71});
  for (const auto& bucket : {by_count, by_bytes}) {
    Leases owners(book, "owner"), guest(book, "guest"), other(book, "other"), third(book, "third"), unknown(book, "");
    const auto add = [&](Leases& leases, uint64_t id, const char* key) {
      const auto added = leases.add(id, bucket, key, object, false);
      return added ? Errc::ok : added.error().code;
    };
    const uint64_t of_guest = guest.begin(0, later), of_other = other.begin(0, later), own = owners.begin(0, later);
    EXPECT_EQ(add(guest, of_guest, "1"), Errc::ok);
    EXPECT_EQ(add(other, of_other, "2"), Errc::ok);
    EXPECT_EQ(add(guest, of_guest, "2"), Errc::ok) << "it is pinned anyway";
    EXPECT_EQ(add(other, of_other, "3"), Errc::ok);
    EXPECT_EQ(add(third, third.begin(0, later), "4"), Errc::ok);
    const int64_t before = held();
    EXPECT_EQ(add(third, third.begin(0, later), "5"), Errc::slow_down) << "all of them together";
    EXPECT_EQ(add(unknown, unknown.begin(0, later), "5"), Errc::slow_down) << "without an account, too";
    EXPECT_EQ(held(), before) << "nothing was taken";
    EXPECT_FALSE(pinned("5"));
    for (const char* key : {"1", "2", "3", "4", "5"}) EXPECT_EQ(add(owners, own, key), Errc::ok) << key;
    other.end(of_other);
    const uint64_t of_other_now = other.begin(0, later);
    EXPECT_EQ(add(other, of_other_now, "5"), Errc::ok);
    EXPECT_EQ(add(other, of_other_now, "3"), Errc::slow_down) << "the guest pins 2, too";
    guest.end(of_guest);
    EXPECT_EQ(add(other, of_other_now, "3"), Errc::ok);
  }
  EXPECT_EQ(held(), 0);
}

TEST_F(LeaseLimitsTest, ACallerWithoutAnAccountDoesNotOwnABucketWhoseOwnerIsGone) {
  LeaseLimits limits({.keys_max = 1000, .bytes_max = GiB, .memory_bytes_max = GiB});
  Leases unknown(std::make_shared<LeaseBook>(limits), "");
  const uint64_t id = unknown.begin(0, deadline_in(std::chrono::minutes(1)));
  EXPECT_FALSE(unknown.add(id, bounded({.objects_max = 1}, ""), "ns/a", reader("ns/a"), false));
}

TEST_F(LeaseLimitsTest, ALargerVersionOfAForeignKeyCountsWithItsSize) {
  LeaseLimits limits({.keys_max = 1000, .bytes_max = GiB, .memory_bytes_max = GiB});
  Leases guest(std::make_shared<LeaseBook>(limits), "guest");
  const auto bucket = bounded({.bytes_max = 2 * 20});
  const uint64_t id = guest.begin(0, deadline_in(std::chrono::minutes(1)));
  EXPECT_TRUE(guest.add(id, bucket, "ns/a", reader("ns/a"), false));
  store_.put("bucket", "ns/a", "19 bytes, and so on");
  EXPECT_TRUE(guest.add(id, bucket, "ns/a", reader("ns/a"), false));
  EXPECT_FALSE(guest.add(id, bucket, "ns/b", reader("ns/b"), false)) << "8 more";
  store_.put("bucket", "ns/a", "21 bytes: more than half");
  EXPECT_FALSE(guest.add(id, bucket, "ns/a", reader("ns/a"), false));
  EXPECT_EQ(guest.find(id, "bucket", "ns/a").reader->info().size, 19u) << "the old one stays";
}

TEST_F(LeaseLimitsTest, ABucketThatOnlyRenewsOnReadsHasNoHalf) {
  LeaseLimits limits({.keys_max = 1000, .bytes_max = GiB, .memory_bytes_max = GiB});
  Leases guest(std::make_shared<LeaseBook>(limits), "guest");
  const uint64_t id = guest.begin(0, deadline_in(std::chrono::minutes(1)));
  EXPECT_TRUE(guest.add(id, bounded({.renew_on_read = true}), "ns/a", reader("ns/a"), false));
}

TEST_F(LeaseLimitsTest, ItEndsHoweverOftenItIsProlonged) {
  LeaseLimits limits({.keys_max = 8, .bytes_max = 1'000'000, .memory_bytes_max = 1'000'000});
  const auto book = std::make_shared<LeaseBook>(limits);
  Leases leases(book, "account");
  const uint64_t id = leases.begin(0, deadline_in(std::chrono::minutes(1)));
  EXPECT_TRUE(leases.add(id, bucket_, "k", reader("ns/a"), false));
  EXPECT_TRUE(leases.keep_until(id, deadline_in(std::chrono::hours(1))));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(leases.begin(id, deadline_in(std::chrono::minutes(1))), id);
    EXPECT_TRUE(leases.keep_until(id, deadline_in(std::chrono::hours(1))));
  }
  EXPECT_FALSE(book->work(deadline_in(Leases::longest)));
  EXPECT_EQ(held(), 0);
}

TEST_F(LeaseLimitsTest, RequestsWithoutAnAnswerDoNotProlongIt) {
  LeaseLimits limits({.keys_max = 8, .bytes_max = 1'000'000, .memory_bytes_max = 1'000'000});
  const auto book = std::make_shared<LeaseBook>(limits);
  Leases leases(book, "account");
  const Deadline start = SteadyClock::now();
  const auto after = [&](int seconds) { return start + std::chrono::seconds(seconds); };
  const uint64_t id = leases.begin(0, after(61), start);
  EXPECT_TRUE(leases.add(id, bucket_, "k", reader("ns/a"), false));
  EXPECT_TRUE(leases.keep_until(id, after(10)));
  EXPECT_EQ(leases.begin(id, after(65), after(5)), id);
  leases.leave(id);
  EXPECT_FALSE(book->work(after(9)));
  EXPECT_EQ(held(), 1) << "as was promised";
  // One that is never answered, and further ones beside it.
  for (const int at : {8, 30, 59}) EXPECT_EQ(leases.begin(id, after(at + 120), after(at)), id);
  EXPECT_FALSE(book->work(after(60)));
  EXPECT_EQ(held(), 1);
  const uint64_t other = leases.begin(id, after(181), after(61));
  EXPECT_NE(other, id) << "its longest is over";
  leases.leave(other);
  EXPECT_FALSE(book->work(after(121)));
  EXPECT_EQ(held(), 0);
  const uint64_t unknown = leases.begin(0, after(60), start);
  EXPECT_TRUE(leases.add(unknown, bucket_, "k", reader("ns/a"), false));
  leases.leave(unknown);
  EXPECT_FALSE(leases.keep_until(unknown, after(60))) << "no answer has named it";
}

TEST_F(LeaseLimitsTest, AnAnswerDoesNotEndItUnderAnotherRequest) {
  LeaseLimits limits({.keys_max = 8, .bytes_max = 1'000'000, .memory_bytes_max = 1'000'000});
  const auto book = std::make_shared<LeaseBook>(limits);
  Leases leases(book, "account");
  const uint64_t id = leases.begin(0, deadline_in(std::chrono::seconds(61)));
  EXPECT_TRUE(leases.add(id, bucket_, "1", reader("ns/a"), false));
  EXPECT_EQ(leases.begin(id, deadline_in(std::chrono::seconds(61))), id);
  EXPECT_TRUE(leases.keep_until(id, deadline_in(std::chrono::seconds(1))));
  EXPECT_FALSE(book->work(deadline_in(std::chrono::seconds(30))));
  EXPECT_TRUE(leases.add(id, bucket_, "2", reader("ns/b"), false));
  EXPECT_TRUE(leases.keep_until(id, deadline_in(std::chrono::seconds(2))));
  EXPECT_FALSE(book->work(deadline_in(std::chrono::milliseconds(500))));
  EXPECT_EQ(held(), 2);
  EXPECT_FALSE(book->work(deadline_in(std::chrono::seconds(3))));
  EXPECT_EQ(held(), 0);
  // One that has found nothing, while the other has not found anything yet.
  const uint64_t empty = leases.begin(0, deadline_in(std::chrono::seconds(61)));
  EXPECT_EQ(leases.begin(empty, deadline_in(std::chrono::seconds(61))), empty);
  EXPECT_FALSE(leases.keep_until(empty, deadline_in(std::chrono::seconds(1))));
  EXPECT_TRUE(leases.add(empty, bucket_, "1", reader("ns/a"), false));
  EXPECT_TRUE(leases.keep_until(empty, deadline_in(std::chrono::seconds(1))));
}

TEST_F(LeaseLimitsTest, WithoutRoomForAnotherVersionTheOldOneStays) {
  LeaseLimits limits({.keys_max = 8, .bytes_max = 4 * 15, .memory_bytes_max = 1'000'000});
  Leases leases(std::make_shared<LeaseBook>(limits), "account");
  const uint64_t id = leases.begin(0, deadline_in(std::chrono::minutes(1)));
  EXPECT_TRUE(leases.add(id, bucket_, "ns/a", reader("ns/a"), false)) << "8 of 15 bytes";
  store_.put("bucket", "ns/a", "another one");
  const auto added = leases.add(id, bucket_, "ns/a", reader("ns/a"), false);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error(), Errc::slow_down);
  EXPECT_EQ(held(), 1);
  EXPECT_TRUE(pinned("ns/a"));
  ASSERT_NE(leases.find(id, "bucket", "ns/a").reader, nullptr);
  EXPECT_EQ(leases.find(id, "bucket", "ns/a").reader->info().size, 8u);
}

TEST_F(LeaseLimitsTest, AnotherVersionTakesTheKeysPlace) {
  LeaseLimits limits({.keys_max = 8, .bytes_max = 1'000'000, .memory_bytes_max = 1'000'000});
  const auto book = std::make_shared<LeaseBook>(limits);
  Leases leases(book, "account");
  const uint64_t id = leases.begin(0, deadline_in(std::chrono::minutes(1)));
  EXPECT_TRUE(leases.add(id, bucket_, "ns/a", reader("ns/a"), false));
  store_.put("bucket", "ns/a", "another one");
  EXPECT_TRUE(leases.add(id, bucket_, "ns/a", reader("ns/a"), false));
  EXPECT_EQ(held(), 1);
  EXPECT_TRUE(pinned("ns/a"));
  EXPECT_EQ(leases.find(id, "bucket", "ns/a").reader->info().size, 11u);
  EXPECT_EQ(leases.find(id, "bucket", "ns/b").reader, nullptr);
}

TEST_F(LeaseLimitsTest, WhatIsHeldInMemoryCountsAsSuch) {
  EXPECT_EQ(lease_memory(1, true), 5 * KiB);
  EXPECT_EQ(lease_memory(1, false), 5 * KiB) << "it may lie in the index";
  EXPECT_EQ(lease_memory(MiB, false), KiB);
  EXPECT_EQ(lease_memory(MiB, true), MiB + KiB);
}

TEST_F(LeaseLimitsTest, AMillionLeasesEndWithTheirTime) {
  LeaseLimits limits({.keys_max = 400'000, .bytes_max = GiB, .memory_bytes_max = 2 * GiB});
  const auto book = std::make_shared<LeaseBook>(limits);
  Leases leases(book, "account");
  const auto object = reader("ns/a");
  const Deadline soon = deadline_in(std::chrono::seconds(50)), later = soon + std::chrono::seconds(1);
  size_t refused = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const uint64_t id = leases.begin(0, soon);
    if (!leases.add(id, bucket_, "k", object, false)) ++refused;
    (void)leases.keep_until(id, soon);
  }
  EXPECT_EQ(refused, 900'000u);
  EXPECT_EQ(held(), 100'000);
  EXPECT_TRUE(book->work(later));
  EXPECT_EQ(held(), 100'000 - static_cast<int64_t>(LeaseBook::turn_max)) << "a part of them at a time";
  while (book->work(later)) {
  }
  EXPECT_EQ(held(), 0);
}

TEST_F(LeaseLimitsTest, AStreamThatHeldMuchIsReleasedTurnByTurn) {
  LeaseLimits limits({.keys_max = 40'000, .bytes_max = GiB, .memory_bytes_max = GiB});
  const auto book = std::make_shared<LeaseBook>(limits);
  const auto object = reader("ns/a");
  const Deadline later = deadline_in(std::chrono::minutes(1));
  uint64_t large = 0;
  Leases other(book, "account");
  {
    Leases leases(book, "account");
    large = leases.begin(0, later);
    for (int i = 0; i < 5'000; ++i) EXPECT_TRUE(leases.add(large, bucket_, "k" + std::to_string(i), object, false));
    for (int i = 0; i < 2'000; ++i) EXPECT_TRUE(leases.add(leases.begin(0, later), bucket_, "k", object, false));
    EXPECT_NE(other.find(large, "bucket", "k1").reader, nullptr) << "by another stream of the account";
  }
  constexpr auto turn = static_cast<int64_t>(LeaseBook::turn_max);
  EXPECT_EQ(held(), 7'000 - turn);
  EXPECT_EQ(other.find(large, "bucket", "k1").reader, nullptr) << "it has ended all the same";
  int turns = 1;
  for (; book->work(SteadyClock::now()); ++turns) EXPECT_EQ(held(), std::max<int64_t>(7'000 - turn * (turns + 1), 0));
  EXPECT_LT(turns, 9);
  EXPECT_EQ(held(), 0);
}

TEST_F(LeaseLimitsTest, OtherAccountsDoNotReadByALease) {
  LeaseLimits limits({.keys_max = 100, .bytes_max = GiB, .memory_bytes_max = GiB});
  const auto book = std::make_shared<LeaseBook>(limits);
  Leases mine(book, "account"), twin(book, "account"), other(book, "other"), guest(book, ""), guest2(book, "");
  const Deadline later = deadline_in(std::chrono::minutes(1));
  const uint64_t id = mine.begin(0, later), of_guest = guest.begin(0, later);
  EXPECT_TRUE(mine.add(id, bucket_, "k", reader("ns/a"), false));
  EXPECT_TRUE(guest.add(of_guest, bucket_, "k", reader("ns/a"), false));
  EXPECT_NE(twin.find(id, "bucket", "k").reader, nullptr);
  EXPECT_EQ(other.find(id, "bucket", "k").reader, nullptr);
  EXPECT_NE(guest.find(of_guest, "bucket", "k").reader, nullptr);
  EXPECT_EQ(guest2.find(of_guest, "bucket", "k").reader, nullptr);
  twin.end(id);
  EXPECT_FALSE(twin.add(id, bucket_, "l", reader("ns/a"), false));
  EXPECT_FALSE(twin.keep_until(id, later));
  EXPECT_NE(twin.begin(id, later), id) << "its own";
  EXPECT_NE(mine.find(id, "bucket", "k").reader, nullptr);
}

// One reader of an object in memory that no hot tier has.
class InMemory final : public store::ObjectReader {
 public:
  InMemory() { info_.size = bytes_.size(); }
  const store::ObjectInfo& info() const override { return info_; }
  Task<Result<memory::Chunk>> read(uint64_t, size_t) override { co_return memory::Chunk{}; }
  memory::Chunk peek(uint64_t, uint64_t) const override { return {.lease = {}, .bytes = Bytes(bytes_)}; }

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(MiB);
  store::ObjectInfo info_;
};

// Fills a cache beside, as long as it exists.
class Filling final : public store::ObjectReader, public store::ReadsBehind {
 public:
  explicit Filling(std::shared_ptr<store::ObjectReader> below) : below_(std::move(below)) {}
  const store::ObjectInfo& info() const override { return below_->info(); }
  Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override { return below_->read(offset, length); }
  const std::shared_ptr<store::ObjectReader>& behind() const override { return below_; }

 private:
  std::shared_ptr<store::ObjectReader> below_;
};

TEST_F(LeaseLimitsTest, AnObjectInMemoryWithoutAHotTierCountsAsSuch) {
  LeaseLimits limits({.keys_max = 100, .bytes_max = GiB, .memory_bytes_max = 6 * MiB});
  const auto book = std::make_shared<LeaseBook>(limits);
  Leases leases(book, "account"), other(book, "other");
  const uint64_t id = leases.begin(0, deadline_in(std::chrono::minutes(1)));
  const auto object = std::make_shared<InMemory>();
  EXPECT_TRUE(leases.add(id, bucket_, "1", object, false));
  EXPECT_TRUE(leases.add(id, bucket_, "2", object, false));
  EXPECT_FALSE(leases.add(id, bucket_, "3", object, false)) << "half for an account";
  EXPECT_TRUE(other.add(other.begin(0, deadline_in(std::chrono::minutes(1))), bucket_, "3", object, false));
}

TEST_F(LeaseLimitsTest, AReaderThatFillsTheHotTierIsNotKept) {
  LeaseLimits limits({.keys_max = 100, .bytes_max = GiB, .memory_bytes_max = GiB});
  Leases leases(std::make_shared<LeaseBook>(limits), "account");
  const uint64_t id = leases.begin(0, deadline_in(std::chrono::minutes(1)));
  auto filling = std::make_shared<Filling>(reader("ns/a"));
  const std::weak_ptr<Filling> gone = filling;
  EXPECT_TRUE(leases.add(id, bucket_, "ns/a", std::move(filling), false));
  EXPECT_TRUE(gone.expired());
  EXPECT_EQ(leases.find(id, "bucket", "ns/a").reader->info().size, 8u);
}

}  // namespace
}  // namespace verbena::native
