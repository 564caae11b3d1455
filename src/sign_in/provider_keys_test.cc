#include "sign_in/provider_keys.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <future>
#include <mutex>
#include <thread>

#include "sign_in/strict_json.h"
#include "sign_in/test_key.h"

namespace verbena::sign_in {
namespace {

class SetClock : public WallClock {
 public:
  int64_t now_us() const override { return now_s * 1'000'000; }
  std::atomic<int64_t> now_s = 1'767'323'045;
};

// Its fetches wait until they are released.
class ProviderKeysTest : public testing::Test {
 protected:
  ~ProviderKeysTest() override {
    keys_->stop();
    let_go();
    pool_.reset();
    loop_.restart();
    loop_.poll();
  }
  Result<KeySet> fetch(const Issuer& issuer) {
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(issuer.url);
    }
    gate_.get_future_copy().wait();
    if (failing_) return fail(Errc::connection_failed, "test");
    return parse_key_set(R"({"keys":[]})");
  }
  void start(ProviderKeys::Limits limits = {}) {
    keys_ = std::make_unique<ProviderKeys>(
        *pool_, clock_, [this](const Issuer& issuer, const std::atomic<bool>&) { return fetch(issuer); }, limits);
  }
  void let_go() { gate_.open(); }
  // Begins a refresh; its result is in `results_` after run().
  void begin(const Issuer& issuer) {
    auto task = [](ProviderKeysTest* test, Issuer of) -> Task<void> {
      auto result = co_await test->keys_->refresh(std::move(of));
      test->results_.push_back(result ? Errc::ok : result.error().code);
    };
    boost::asio::co_spawn(loop_, task(this, issuer), boost::asio::detached);
  }
  void run(size_t results) {
    loop_.restart();
    for (int i = 0; i < 3000 && results_.size() < results; ++i) loop_.run_one_for(std::chrono::milliseconds(10));
    ASSERT_EQ(results_.size(), results);
  }
  // Runs what does not wait for a fetch.
  void run_ready() {
    loop_.restart();
    loop_.poll();
  }
  size_t fetches() {
    const std::lock_guard lock(mutex_);
    return asked_.size();
  }
  void expect_fetches(size_t count) {
    for (int i = 0; i < 3000 && fetches() < count; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(fetches(), count);
  }

  class Gate {
   public:
    std::shared_future<void> get_future_copy() const { return opened_; }
    void open() {
      if (!done_.exchange(true)) promise_.set_value();
    }

   private:
    std::promise<void> promise_;
    std::shared_future<void> opened_ = promise_.get_future().share();
    std::atomic<bool> done_ = false;
  };
  SetClock clock_;
  boost::asio::io_context loop_;
  std::unique_ptr<BlockingPool> pool_ = std::make_unique<BlockingPool>(4, 16);
  Gate gate_;
  std::atomic<bool> failing_ = false;
  std::mutex mutex_;
  std::vector<std::string> asked_;
  std::vector<Errc> results_;
  std::unique_ptr<ProviderKeys> keys_;
};

const Issuer issuer{"111111111111", "idp.example.org", "1", {}};

TEST_F(ProviderKeysTest, AThousandWhoNeedTheSameKeysAskForThemOnce) {
  start();
  for (int i = 0; i < 1000; ++i) begin(issuer);
  run_ready();
  expect_fetches(1);
  let_go();
  run(1000);
  EXPECT_EQ(std::ranges::count(results_, Errc::ok), 1000);
  EXPECT_EQ(fetches(), 1u);
  EXPECT_TRUE(keys_->find(issuer).fresh);
  // Tokens with unknown key ids cause no further fetches for a while.
  for (int i = 0; i < 1000; ++i) begin(issuer);
  run(2000);
  EXPECT_EQ(fetches(), 1u);
  clock_.now_s += 30;
  begin(issuer);
  run(2001);
  EXPECT_EQ(fetches(), 2u);
}

TEST_F(ProviderKeysTest, OneAccountsSlowProvidersKeepNobodyElseWaiting) {
  start();
  for (int i = 0; i < 100; ++i) begin({"222222222222", "slow" + std::to_string(i) + ".example.org", "1", {}});
  run(99);  // one of them is fetched; the others may try again
  EXPECT_EQ(std::ranges::count(results_, Errc::slow_down), 99);
  begin(issuer);
  run_ready();
  expect_fetches(2);
  let_go();
  run(101);
  EXPECT_NE(keys_->find(issuer).keys, nullptr);
}

TEST_F(ProviderKeysTest, FewFetchesAndFewWaitersAreThereAtOnce) {
  start({.fetches_max = 2, .waiters_max = 10});
  for (int i = 0; i < 5; ++i) begin({std::to_string(i), "idp.example.org", "1", {}});
  run(3);
  EXPECT_EQ(std::ranges::count(results_, Errc::slow_down), 3);
  for (int i = 0; i < 20; ++i) begin({"0", "idp.example.org", "1", {}});
  run(3 + 17);  // three more may wait for the first one's fetch
  EXPECT_EQ(std::ranges::count(results_, Errc::slow_down), 20);
  let_go();
  run(25);
}

// The calls of one account that waited for its slow provider made those of all others fail.
TEST_F(ProviderKeysTest, OneAccountsWaitersLeavePlacesForThoseOfOthers) {
  start({.waiters_max = 10});
  for (int i = 0; i < 100; ++i) begin({"222222222222", "slow.example.org", "1", {}});
  run(95);
  EXPECT_EQ(std::ranges::count(results_, Errc::slow_down), 95);
  begin(issuer);
  begin(issuer);
  run_ready();
  expect_fetches(2);
  let_go();
  run(102);
  EXPECT_EQ(std::ranges::count(results_, Errc::ok), 7);
  EXPECT_NE(keys_->find(issuer).keys, nullptr);
  begin({"222222222222", "slow.example.org", "1", {}});
  run(103);
  EXPECT_EQ(results_.back(), Errc::ok) << "places are given back";
}

TEST_F(ProviderKeysTest, AFailureIsNotRepeatedAtOnceAndOldKeysServeMeanwhile) {
  start();
  let_go();
  begin(issuer);
  run(1);
  failing_ = true;
  clock_.now_s += 900;
  EXPECT_FALSE(keys_->find(issuer).fresh);
  begin(issuer);
  run(2);
  EXPECT_NE(keys_->find(issuer).keys, nullptr) << "the provider does not answer, and its keys are not that old";
  for (int i = 0; i < 50; ++i) begin(issuer);
  run(52);
  EXPECT_EQ(fetches(), 2u);
  for (const int64_t rest : {5, 10, 20, 40, 60, 60}) {
    clock_.now_s += rest - 1;
    begin(issuer);
    run(results_.size() + 1);
    const size_t before = fetches();
    clock_.now_s += 1;
    begin(issuer);
    run(results_.size() + 1);
    EXPECT_EQ(fetches(), before + 1) << rest;
  }
  clock_.now_s += 6 * 3600;
  EXPECT_EQ(keys_->find(issuer).keys, nullptr);
}

TEST_F(ProviderKeysTest, WhatIsKeptIsBoundedAndBelongsToOneRegistration) {
  start({.issuers_max = 4});
  let_go();
  begin(issuer);
  run(1);
  for (Issuer other : {Issuer{"222222222222", issuer.url, issuer.tag, {}}, Issuer{issuer.account, issuer.url, "2", {}},
                       Issuer{issuer.account, issuer.url, issuer.tag, {"00"}}}) {
    EXPECT_EQ(keys_->find(other).keys, nullptr);
  }
  for (int i = 0; i < 20; ++i) {
    clock_.now_s += 1;
    begin({"1", "idp" + std::to_string(i) + ".example.org", "1", {}});
    run(2 + static_cast<size_t>(i));
  }
  EXPECT_NE(keys_->find(issuer).keys, nullptr) << "a caller with many names displaces its own";
  EXPECT_EQ(keys_->find({"1", "idp0.example.org", "1", {}}).keys, nullptr) << "asked for longest ago";
  EXPECT_NE(keys_->find({"1", "idp19.example.org", "1", {}}).keys, nullptr);
}

TEST(HttpsUrlTest, OnlyHttpsIsTaken) {
  EXPECT_EQ(parse_https_url("https://idp.example.org/a")->port, 443);
  for (const char* bad : {"http://idp.example.org/", "file:///etc/passwd", "https://"})
    EXPECT_FALSE(parse_https_url(bad)) << bad;
}

TEST(StrictJsonTest, DepthIsBoundedBeforeAnythingIsBuilt) {
  EXPECT_TRUE(read_strict_object(R"({"a":[[1]],"b":"[[[[[["})", 3));
  EXPECT_FALSE(read_strict_object(R"({"a":[[[1]]]})", 3));
  EXPECT_TRUE(read_strict_object(R"({"a":"\"[[[[[[","b":1})", 2));
  EXPECT_FALSE(read_strict_object(R"({"a":{"b":1,"b":2}})", 4));
  EXPECT_FALSE(read_strict_object("{\"a\":1} x", 4));
}

}  // namespace
}  // namespace verbena::sign_in
