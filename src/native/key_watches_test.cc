// Watches at the native door.
#include "native/key_watches.h"

#include <thread>

#include "auth/policy.h"
#include "native/test_door.h"
#include "native/wire/watch.h"
#include "s3/access/access.h"

namespace verbena::native {
namespace {

constexpr const char* may_list_a =
    R"({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::bucket",
        "Condition": {"StringLike": {"s3:prefix": "a/*"}}}]})";

class KeyWatchesTest : public DoorTest {
 protected:
  explicit KeyWatchesTest(Options options = {.credits = 8}) : DoorTest(std::move(options)) {}

  struct News {
    Errc code = Errc::internal;
    bool gap = false, more = false;
    uint64_t upto = 0;
    std::vector<std::string> changes;  // "1 a": what and which key
  };
  uint64_t watch(FakePeer& peer, std::string_view prefix, std::string_view bucket = "bucket") {
    deliver(peer, peer.seal(wire::Type::watch, ++request_, wire::Watch{.bucket = bucket, .prefix = prefix}));
    const auto body = reply_body(peer);
    const auto started = wire::decode_watch_started(body);
    last_code_ = wire::decode_error(body).value_or(Errc::internal);
    return started ? started->watch : 0;
  }
  void ask(FakePeer& peer, uint64_t watch, uint64_t seen, uint32_t wait_ms = 30'000) {
    deliver(peer, peer.seal(wire::Type::watch_next, ++request_,
                            wire::WatchNext{.watch = watch, .seen = seen, .wait_ms = wait_ms}));
  }
  std::optional<News> news(const FakePeer& peer) {
    run();
    const auto body = reply_body(peer);
    if (body.empty()) return std::nullopt;
    News out;
    out.code = wire::decode_error(body).value_or(Errc::internal);
    if (out.code != Errc::ok) return out;
    const auto told = wire::decode_watch_news(body);
    EXPECT_TRUE(told);
    if (!told) return std::nullopt;
    out.gap = told->gap;
    out.more = told->more;
    out.upto = told->upto;
    wire::Reader changes(told->changes);
    for (uint16_t i = 0; i < told->count; ++i) {
      const auto change = wire::next_change(changes);
      last_version_.assign(change->version);
      last_etag_.assign(change->etag);
      out.changes.push_back(std::to_string(change->what) + " " + std::string(change->key));
    }
    return out;
  }
  void remove(std::string_view key) {
    boost::asio::co_spawn(core_.io(), store_.remove("bucket", key, {}), boost::asio::detached);
    run();
  }
  void remove_bucket() {
    boost::asio::co_spawn(core_.io(), store_.remove_bucket("bucket"), boost::asio::detached);
    run();
    service_.access->all_changed();
  }
  void make_bucket_of(std::string owner) {
    store::BucketInfo info{.name = "bucket", .owner = std::move(owner)};
    boost::asio::co_spawn(core_.io(), store_.create_bucket(std::move(info)), boost::asio::detached);
    run();
    service_.access->all_changed();
  }
  void remove_version(const std::string& id) {
    store::RemoveRequest request;
    request.version_id = id;
    boost::asio::co_spawn(core_.io(), store_.remove("bucket", "a/1", std::move(request)), boost::asio::detached);
    run();
  }
  // Runs until the condition holds, which may take the endpoint's sweep.
  template <class Condition>
  bool comes(Condition condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      run();
    }
    return condition();
  }
  static uint64_t gaps() { return metrics::counter("verbena_native_watch_gaps_total", "").value(); }
  static int64_t watches() { return metrics::gauge("verbena_native_watches", "").value(); }
  // Makes the client a user with this policy.
  void be_user(const std::string& policy) {
    auto who = std::make_shared<auth::Principal>(*auth::superuser());
    who->superuser = false;
    who->kind = auth::Principal::Kind::user;
    who->arn = "arn:aws:iam::" + who->account->id + ":user/ann";
    who->policies.push_back(*auth::parse_policy(policy, auth::PolicyKind::identity));
    credentials_.set({.access_key = "AKROOT", .secret_key = "secret/root", .session_token = {}}, who);
  }
  using Texts = std::vector<std::string>;

  uint64_t request_ = 100;
  Errc last_code_ = Errc::ok;
  std::string last_version_, last_etag_;
};

TEST_F(KeyWatchesTest, WhatHappensUnderThePrefixIsToldAndNothingElse) {
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, "a/");
  ASSERT_NE(id, 0u);
  ask(peer, id, 0);
  EXPECT_FALSE(news(peer)) << "nothing happened yet";
  store_.put("bucket", "b/1", "other");
  EXPECT_FALSE(news(peer));
  store_.put("bucket", "a/1", "hello");
  auto told = news(peer);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->code, Errc::ok);
  EXPECT_EQ(told->changes, Texts{"1 a/1"});
  EXPECT_EQ(told->upto, 1u);
  EXPECT_FALSE(told->gap);
  store_.put("bucket", "a/2", "hello");
  remove("a/1");
  EXPECT_FALSE(news(peer)) << "no request waits";
  ask(peer, id, 1);
  told = news(peer);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->changes, (Texts{"1 a/2", "3 a/1"}));
  EXPECT_EQ(told->upto, 3u);
  EXPECT_EQ(door_->in_flight(), 0u);
}

TEST_F(KeyWatchesTest, WhatTheClientHasNotSeenIsToldAgain) {
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, "");
  store_.put("bucket", "a", "1");
  store_.put("bucket", "b", "1");
  ask(peer, id, 0);
  EXPECT_EQ(news(peer)->changes.size(), 2u);
  ask(peer, id, 1);
  EXPECT_EQ(news(peer)->changes, Texts{"1 b"});
  ask(peer, id, 3);
  EXPECT_EQ(news(peer)->code, Errc::invalid_request) << "nothing has that number yet";
}

TEST_F(KeyWatchesTest, AnEarlierQuestionIsAnsweredWhenAnotherComes) {
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, "");
  ask(peer, id, 0);
  ask(peer, id, 0);
  uint64_t request = 0;
  const auto body = reply_body(peer, &request);
  EXPECT_EQ(request, request_ - 1);
  EXPECT_EQ(wire::decode_error(body), Errc::request_timeout);
  store_.put("bucket", "a", "1");
  EXPECT_EQ(news(peer)->changes.size(), 1u);
}

TEST_F(KeyWatchesTest, AQuestionThatDoesNotWaitIsAnsweredAtOnce) {
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, "");
  ask(peer, id, 0, 0);
  const auto told = news(peer);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->code, Errc::ok);
  EXPECT_TRUE(told->changes.empty());
}

TEST_F(KeyWatchesTest, PrefixesMayOverlapAndEachIsToldOnce) {
  FakePeer peer = hello(1, 4);
  std::vector<uint64_t> ids;
  for (const char* prefix : {"", "a", "a/", "a/b", "a/b", "a/bc", "b", "a/b/c/d/e"}) ids.push_back(watch(peer, prefix));
  store_.put("bucket", "a/b", "1");
  run();
  std::vector<size_t> counts;
  for (const uint64_t id : ids) {
    ask(peer, id, 0, 0);
    counts.push_back(news(peer)->changes.size());
  }
  EXPECT_EQ(counts, (std::vector<size_t>{1, 1, 1, 1, 1, 0, 0, 0}));
  // The first of two watches with one prefix ends; the other goes on.
  deliver(peer, peer.seal(wire::Type::watch_end, ++request_, wire::WatchEnd{.watch = ids[3]}));
  EXPECT_EQ(reply_code(peer), Errc::ok);
  store_.put("bucket", "a/b", "2");
  ask(peer, ids[4], 1, 0);
  EXPECT_EQ(news(peer)->changes, Texts{"1 a/b"});
  ask(peer, ids[3], 0, 0);
  EXPECT_EQ(news(peer)->code, Errc::invalid_request);
}

TEST_F(KeyWatchesTest, WhoDoesNotAskLosesChangesAndIsToldSo) {
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, "k");
  const std::string pad(900, 'x');
  for (int i = 0; i < 1500; ++i) store_.put("bucket", "k" + std::to_string(i) + pad, "");
  run();
  ask(peer, id, 0);
  auto told = news(peer);
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->gap);
  EXPECT_TRUE(told->more);
  EXPECT_FALSE(told->changes.empty()) << "what came since";
  // The gap is reported until the client has seen it.
  ask(peer, id, 0);
  EXPECT_TRUE(news(peer)->gap);
  std::string last;
  for (uint64_t seen = told->upto; told->more; seen = told->upto) {
    ask(peer, id, seen);
    told = news(peer);
    ASSERT_TRUE(told);
    EXPECT_FALSE(told->gap);
    last = told->changes.back();
  }
  EXPECT_EQ(last, "1 k1499" + pad);
}

TEST_F(KeyWatchesTest, ALossAfterAGapThatWasToldIsAnotherGap) {
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, "");
  const auto feed = *store_.feed("bucket");
  feed->lose_track();
  run();
  ask(peer, id, 0);
  auto told = news(peer);
  EXPECT_TRUE(told->gap);
  feed->lose_track();
  run();
  ask(peer, id, told->upto);
  told = news(peer);
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->gap);
  ask(peer, id, told->upto, 0);
  EXPECT_FALSE(news(peer)->gap);
}

// Authorization for the waiting changes was no longer possible, and was tried again and again, without end.
TEST_F(KeyWatchesTest, ABucketsEndIsTheEndOfWhatWaits) {
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, ""), waits = watch(peer, "");
  store_.put("bucket", "a", "1");
  remove("a");
  ask(peer, waits, 0);
  EXPECT_EQ(news(peer)->changes, (Texts{"1 a", "3 a"}));
  ask(peer, waits, 2);
  remove_bucket();
  EXPECT_EQ(news(peer)->code, Errc::no_such_bucket);
  ask(peer, id, 0);
  EXPECT_EQ(news(peer)->code, Errc::no_such_bucket);
  ask(peer, id, 0);
  EXPECT_EQ(news(peer)->code, Errc::invalid_request);
  EXPECT_EQ(watch(peer, "", "bucket"), 0u);
  EXPECT_EQ(last_code_, Errc::no_such_bucket);
}

TEST_F(KeyWatchesTest, ABucketThatWasMadeAnewIsAnotherOne) {
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, "");
  store_.put("bucket", "a", "1");
  remove("a");
  remove_bucket();
  make_bucket_of("other");
  store_.put("bucket", "of another", "1");
  ask(peer, id, 0);
  EXPECT_EQ(news(peer)->code, Errc::no_such_bucket);
}

TEST_F(KeyWatchesTest, WhoMayListThePrefixMayWatchIt) {
  be_user(may_list_a);
  FakePeer peer = hello(1, 4);
  EXPECT_NE(watch(peer, "a/"), 0u);
  EXPECT_NE(watch(peer, "a/b"), 0u);
  for (const char* other : {"", "a", "b/", "A/"}) {
    EXPECT_EQ(watch(peer, other), 0u) << other;
    EXPECT_EQ(last_code_, Errc::access_denied) << other;
  }
}

TEST_F(KeyWatchesTest, WhoMayNoLongerListIsToldNothingOfWhatCameBefore) {
  be_user(may_list_a);
  FakePeer peer = hello(1, 4);
  const uint64_t waits = watch(peer, "a/"), asks_later = watch(peer, "a/");
  ask(peer, waits, 0);
  be_user(R"({"Version": "2012-10-17", "Statement": [
      {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]})");
  store_.put("bucket", "a/secret", "1");
  auto told = news(peer);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->code, Errc::access_denied);
  ask(peer, asks_later, 0);
  EXPECT_EQ(news(peer)->code, Errc::access_denied);
}

// Within the second in which the right was looked at last, too.
TEST_F(KeyWatchesTest, ABucketsNewPolicyIsObeyedByTheNextAnswer) {
  be_user(may_list_a);
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, "a/");
  ask(peer, id, 0);
  constexpr const char* denial =
      R"({"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:*",
          "Resource": ["arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*"]}]})";
  boost::asio::co_spawn(core_.io(), store_.set_document("bucket", "policy", denial), boost::asio::detached);
  run();
  service_.access->all_changed();
  store_.put("bucket", "a/secret", "1");
  const auto told = news(peer);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->code, Errc::access_denied);
}

TEST_F(KeyWatchesTest, AnAnswerThatIsDueIsNotGivenToAKeyThatIsGone) {
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, "");
  ask(peer, id, 0);
  credentials_.remove();
  store_.put("bucket", "a", "1");
  EXPECT_EQ(news(peer)->code, Errc::access_denied);
}

TEST_F(KeyWatchesTest, IdsOfVersionsAreToldToThoseWhoMayListThem) {
  boost::asio::co_spawn(core_.io(), store_.set_versioning("bucket", store::Versioning::enabled), boost::asio::detached);
  run();
  FakePeer root = hello(1, 4);
  uint64_t id = watch(root, "a/");
  store_.put("bucket", "a/1", "1");
  ask(root, id, 0);
  EXPECT_EQ(news(root)->changes.size(), 1u);
  EXPECT_FALSE(last_version_.empty());
  be_user(may_list_a);
  FakePeer user = hello(2, 4);
  id = watch(user, "a/");
  store_.put("bucket", "a/1", "2");
  ask(user, id, 0);
  EXPECT_EQ(news(user)->changes.size(), 1u);
  EXPECT_TRUE(last_version_.empty());
  EXPECT_FALSE(last_etag_.empty());
}

// Changes of old versions and of delete markers were reported as changes of the object.
TEST_F(KeyWatchesTest, WhoMayNotListVersionsIsToldOfTheCurrentObjectAlone) {
  boost::asio::co_spawn(core_.io(), store_.set_versioning("bucket", store::Versioning::enabled), boost::asio::detached);
  run();
  FakePeer root = hello(1, 4);
  const uint64_t all = watch(root, "a/");
  std::vector<std::string> ids;
  uint64_t seen = 0;
  const auto told_root = [&] {
    ask(root, all, seen, 0);
    const auto told = news(root);
    seen = told->upto;
    ids.push_back(last_version_);
    return told->changes;
  };
  store_.put("bucket", "a/1", "1");
  EXPECT_EQ(told_root(), Texts{"1 a/1"});
  store_.put("bucket", "a/1", "22");
  EXPECT_EQ(told_root(), Texts{"1 a/1"});
  store_.put("bucket", "a/1", "333");
  EXPECT_EQ(told_root(), Texts{"1 a/1"});
  be_user(may_list_a);
  FakePeer user = hello(2, 4);
  const uint64_t id = watch(user, "a/");
  remove_version(ids[1]);  // an old version
  ask(user, id, 0, 0);
  EXPECT_EQ(news(user)->changes, Texts());
  remove("a/1");
  ask(user, id, 0, 0);
  EXPECT_EQ(news(user)->changes, Texts{"3 a/1"}) << "and not of a marker";
  remove("a/1");
  ask(user, id, 1, 0);
  EXPECT_EQ(news(user)->changes, Texts()) << "it was gone before";
  remove_version(ids[2]);
  ask(user, id, 1, 0);
  EXPECT_EQ(news(user)->changes, Texts());
}

// The waiting changes were selected by the earlier right.
TEST_F(KeyWatchesTest, AnotherRightToVersionsIsAGap) {
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, "a/");
  store_.put("bucket", "a/1", "1");
  run();
  be_user(may_list_a);
  ask(peer, id, 0);
  const auto told = news(peer);
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->gap);
  EXPECT_TRUE(told->changes.empty());
}

TEST_F(KeyWatchesTest, WhoIsBusyIsToldOfChangesAllTheSame) {
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, "");
  port_.full = true;  // so that all its possible requests are in flight
  for (int i = 0; i < 8; ++i) {
    deliver(peer, peer.seal(wire::Type::list, ++request_,
                            wire::List{.bucket = "bucket", .prefix = {}, .delimiter = {}, .after = {}}));
  }
  const uint64_t before = dropped("no_credit");
  ask(peer, id, 0);
  store_.put("bucket", "a", "1");
  run();
  port_.full = false;
  run();
  EXPECT_EQ(dropped("no_credit"), before);
  ASSERT_EQ(port_.sent.size(), 9u);
  std::erase_if(port_.sent, [](const auto& one) {  // listings yield, too
    return wire::parse_header(one.second, 16 * KiB)->type !=
           (static_cast<uint8_t>(wire::Type::watch_next) | wire::reply_bit);
  });
  EXPECT_EQ(news(peer)->changes, Texts{"1 a"});
}

TEST_F(KeyWatchesTest, PrefixesOfAnyLengthAreToldWhatIsUnderThemAndNothingElse) {
  FakePeer peer = hello(1, 4);
  const std::string key(1024, 'k');
  std::vector<uint64_t> under, beside;
  for (const size_t length : {0, 1, 15, 16, 17, 18, 19, 20, 23, 24, 31, 33, 63, 65, 100, 127, 129, 257, 1000, 1024}) {
    under.push_back(watch(peer, key.substr(0, length)));
    if (length != 0) beside.push_back(watch(peer, key.substr(0, length - 1) + "x"));
  }
  store_.put("bucket", key, "");
  for (const uint64_t id : under) {
    ask(peer, id, 0, 0);
    EXPECT_EQ(news(peer)->changes.size(), 1u) << id;
  }
  for (const uint64_t id : beside) {
    ask(peer, id, 0, 0);
    EXPECT_EQ(news(peer)->changes.size(), 0u) << id;
  }
  for (size_t i = 0; i < under.size(); i += 2) {
    deliver(peer, peer.seal(wire::Type::watch_end, ++request_, wire::WatchEnd{.watch = under[i]}));
    EXPECT_EQ(reply_code(peer), Errc::ok);
  }
  store_.put("bucket", key, "");
  for (size_t i = 1; i < under.size(); i += 2) {
    ask(peer, under[i], 1, 0);
    EXPECT_EQ(news(peer)->changes.size(), 1u) << i;
  }
}

TEST_F(KeyWatchesTest, AFloodInOneBucketIsNoGapInAnother) {
  store_.make_bucket("quiet");
  FakePeer peer = hello(1, 4);
  const uint64_t quiet = watch(peer, "", "quiet"), flooded = watch(peer, "");
  const auto feed = *store_.feed("bucket");
  store_.put("quiet", "a", "1");
  store::ObjectInfo info;
  for (int i = 0; i < 6000; ++i) feed->tell(store::KeyEvent::created, std::string(1000, 'k'), info);
  run();
  ask(peer, quiet, 0);
  auto told = news(peer);
  EXPECT_FALSE(told->gap);
  EXPECT_EQ(told->changes, Texts{"1 a"});
  ask(peer, flooded, 0);
  EXPECT_TRUE(news(peer)->gap);
}

// Operations of fabrics other than `local` and `tcp` begin one turn after their message.
TEST_F(KeyWatchesTest, AWatchOfASessionThatWentMeanwhileIsNotMade) {
  FakePort port;
  ASSERT_TRUE(door_->attach(core_, port, "fake", "/nowhere/else"));
  FakePeer peer = open_session(1, 4);
  peer.keys = wire::derive_stream(peer.master, 1);
  const wire::Hello hello{.message_size_max = 16 * KiB, .address = {}};
  port.receive(peer.id, peer.seal(wire::Type::hello, 1, hello));
  run();
  ASSERT_EQ(port.sent.size(), 1u);
  const int64_t before = watches();
  port.receive(peer.id, peer.seal(wire::Type::watch, 2, wire::Watch{.bucket = "bucket", .prefix = ""}));
  port.gone(peer.id);
  run();
  EXPECT_EQ(watches(), before);
  EXPECT_FALSE((*store_.feed("bucket"))->wanted());
  door_.reset();
}

TEST_F(KeyWatchesTest, AllThatWaitAreToldThatTheyMayNotAnyMore) {
  be_user(may_list_a);
  FakePeer peer = hello(1, 4);
  constexpr size_t many = 60;
  for (size_t i = 0; i < many; ++i) {
    const uint64_t id = watch(peer, "a/" + std::to_string(i % 3));
    ask(peer, id, 0);
  }
  be_user(R"({"Version": "2012-10-17", "Statement": [
      {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]})");
  EXPECT_TRUE(comes([this] { return port_.sent.size() == many; })) << port_.sent.size();
  while (!port_.sent.empty()) EXPECT_EQ(reply_code(peer), Errc::access_denied);
  EXPECT_FALSE((*store_.feed("bucket"))->wanted());
}

class DeafWatchTest : public KeyWatchesTest {
 protected:
  DeafWatchTest() : KeyWatchesTest({.credits = 8, .watch_deaf_after = std::chrono::milliseconds(0)}) {}
};

TEST_F(DeafWatchTest, NothingWaitsForWhoHasNotAskedForLong) {
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, ""), before = gaps();
  store_.put("bucket", "a", "1");
  EXPECT_TRUE(comes([&] { return gaps() == before + 1; }));
  for (int i = 0; i < 100; ++i) store_.put("bucket", std::to_string(i), "1");
  run();
  EXPECT_EQ(gaps(), before + 1) << "the same one";
  ask(peer, id, 0);
  const auto told = news(peer);
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->gap);
  EXPECT_TRUE(told->changes.empty());
  ask(peer, id, told->upto);
  store_.put("bucket", "b", "1");
  const auto then = news(peer);
  ASSERT_TRUE(then);
  EXPECT_FALSE(then->gap);
  EXPECT_EQ(then->changes, Texts{"1 b"});
}

class ForgottenWatchTest : public KeyWatchesTest {
 protected:
  ForgottenWatchTest() : KeyWatchesTest({.credits = 8, .watch_ends_after = std::chrono::milliseconds(200)}) {}
};

TEST_F(ForgottenWatchTest, AWatchThatNobodyAsksOfEndsAndOneThatWaitsDoesNot) {
  FakePeer peer = hello(1, 4);
  const int64_t before = watches();
  const uint64_t waits = watch(peer, "");
  ask(peer, waits, 0);
  const uint64_t id = watch(peer, "");
  EXPECT_TRUE(comes([&] { return watches() == before + 1; }));
  ask(peer, id, 0);
  EXPECT_EQ(news(peer)->code, Errc::invalid_request);
  store_.put("bucket", "a", "1");
  EXPECT_EQ(news(peer)->changes, Texts{"1 a"});
}

TEST_F(KeyWatchesTest, ASessionHasItsOwnWatchesAndSoManyOfThem) {
  FakePeer one = hello(1, 4), other = hello(2, 4);
  const uint64_t id = watch(one, "");
  ask(other, id, 0, 0);
  EXPECT_EQ(news(other)->code, Errc::invalid_request);
  deliver(other, other.seal(wire::Type::watch_end, ++request_, wire::WatchEnd{.watch = id}));
  EXPECT_EQ(reply_code(other), Errc::invalid_request);
  for (uint32_t i = 1; i < wire::stream_watches_max; ++i) EXPECT_NE(watch(one, std::to_string(i)), 0u);
  EXPECT_EQ(watch(one, "more"), 0u);
  EXPECT_EQ(last_code_, Errc::slow_down);
  EXPECT_NE(watch(other, ""), 0u);
  // Its resources are freed with it.
  port_.gone(one.id);
  EXPECT_EQ(metrics::gauge("verbena_native_watches", "").value(), 1);
}

TEST_F(KeyWatchesTest, ASessionOfAnOlderVersionKnowsNoWatches) {
  FakePeer peer = hello(1, 3);
  const uint64_t before = dropped("bad_type");
  deliver(peer, peer.seal(wire::Type::watch, 2, wire::Watch{.bucket = "bucket", .prefix = ""}));
  EXPECT_TRUE(port_.sent.empty());
  EXPECT_EQ(dropped("bad_type"), before + 1);
}

class FewWatchesTest : public KeyWatchesTest {
 protected:
  FewWatchesTest() : KeyWatchesTest({.credits = 8, .watches_max = 4, .watch_bytes_max = 4096}) {}
};

TEST_F(FewWatchesTest, AnAddressHasHalfOfAllAtMostAndAPlaceIsFreeAgainAtOnce) {
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, "a");
  EXPECT_NE(watch(peer, "b"), 0u);
  EXPECT_EQ(watch(peer, "c"), 0u);
  EXPECT_EQ(last_code_, Errc::slow_down);
  deliver(peer, peer.seal(wire::Type::watch_end, ++request_, wire::WatchEnd{.watch = id}));
  EXPECT_EQ(reply_code(peer), Errc::ok);
  EXPECT_NE(watch(peer, "c"), 0u);
}

// A client without requests used up the common limit.
TEST_F(FewWatchesTest, WhoDoesNotAskLeavesSomethingToTheOthers) {
  FakePeer deaf = hello(1, 4), listens = hello(2, 4);
  watch(deaf, "");
  const uint64_t id = watch(listens, "x");
  for (int i = 0; i < 5; ++i) store_.put("bucket", std::to_string(i), "");
  run();
  for (uint64_t seen = 0; seen < 20; ++seen) {
    store_.put("bucket", "x" + std::to_string(seen), "");
    run();
    ask(listens, id, seen);
    const auto told = news(listens);
    ASSERT_TRUE(told);
    EXPECT_FALSE(told->gap) << seen;
    EXPECT_EQ(told->changes.size(), 1u);
  }
}

TEST_F(FewWatchesTest, WhereNoMoreBytesMayWaitThereIsAGap) {
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, "");
  for (int i = 0; i < 100; ++i) store_.put("bucket", std::to_string(i), "");
  run();
  ask(peer, id, 0);
  EXPECT_TRUE(news(peer)->gap);
}

class NoFeed final : public store::ChangeFeeds {
 public:
  Result<store::BucketFeedPtr> feed(std::string_view) override {
    return fail(Errc::not_implemented, "an engine that others share");
  }
};
NoFeed no_feed;

class NoWatchesTest : public KeyWatchesTest {
 protected:
  NoWatchesTest() : KeyWatchesTest({.credits = 8, .feeds = &no_feed}) {}
};

TEST_F(NoWatchesTest, WhereTheEngineCannotTellAWatchIsRefused) {
  FakePeer peer = hello(1, 4);
  EXPECT_EQ(watch(peer, ""), 0u);
  EXPECT_EQ(last_code_, Errc::not_implemented);
}

TEST_F(NoWatchesTest, WhoMayNotIsRefusedBeforeTheFeedIsLookedAt) {
  be_user(may_list_a);
  FakePeer peer = hello(1, 4);
  EXPECT_EQ(watch(peer, "b/"), 0u);
  EXPECT_EQ(last_code_, Errc::access_denied);
}

// The end of a bucket is reported late.
class LateFeed final : public store::ChangeFeeds {
 public:
  Result<store::BucketFeedPtr> feed(std::string_view) override { return of_the_first; }
  store::BucketFeedPtr of_the_first;
};
LateFeed late_feed;

class LateEndTest : public KeyWatchesTest {
 protected:
  LateEndTest() : KeyWatchesTest({.credits = 8, .feeds = &late_feed}) {
    late_feed.of_the_first = std::make_shared<store::BucketFeed>(7, store_.now_us(), "root");
  }
  ~LateEndTest() override { late_feed.of_the_first.reset(); }
};

TEST_F(LateEndTest, TheRightToABucketIsNoneToAnotherOfItsName) {
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, "");
  ASSERT_NE(id, 0u);
  late_feed.of_the_first->tell(store::KeyEvent::created, "a", {});
  run();
  remove_bucket();
  make_bucket_of("other");
  ask(peer, id, 0);
  EXPECT_EQ(news(peer)->code, Errc::no_such_bucket);
  EXPECT_EQ(watch(peer, ""), 0u);
  EXPECT_EQ(last_code_, Errc::no_such_bucket);
}

// Writers are faster than the core reads notes: dropped notes are known to be missing.
TEST_F(KeyWatchesTest, WhatTheCoreHadNoTimeToLookAtIsAGap) {
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, "");
  const auto feed = *store_.feed("bucket");
  store::ObjectInfo info;
  for (int i = 0; i < 6000; ++i) feed->tell(store::KeyEvent::created, std::string(1000, 'k'), info);
  run();
  ask(peer, id, 0);
  EXPECT_TRUE(news(peer)->gap);
}

TEST_F(KeyWatchesTest, ADoorThatStopsIsToldNothingAnyMore) {
  FakePeer peer = hello(1, 4);
  const uint64_t id = watch(peer, "");
  ask(peer, id, 0);
  door_->stop();
  store_.put("bucket", "a", "1");
  EXPECT_FALSE(news(peer));
}

}  // namespace
}  // namespace verbena::native
