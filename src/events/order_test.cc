// Events of servers that share a store, for one deliverer: changes that are committed late, and lost leadership.
#include <gtest/gtest.h>

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdlib.h>

#include <boost/asio/ip/tcp.hpp>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <thread>

#include "events/delivery.h"
#include "events/event_file.h"
#include "events/look_pause.h"
#include "events/make_target.h"
#include "events/run_task.h"
#include "store/memory/test_store.h"

namespace verbena::events {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr uint64_t the_bucket = 7;

// Events with ids chosen by the test, as from other servers' clocks.
class LateStore final : public store::in_memory::TestStore {
 public:
  using TestStore::TestStore;
  void add(const std::map<uint64_t, std::string>& more) {
    const std::lock_guard lock(mutex_);
    rows_.insert(more.begin(), more.end());
  }
  void take(uint64_t from, uint64_t to) {
    const std::lock_guard lock(mutex_);
    std::erase_if(rows_, [&](const auto& row) { return row.first >= from && row.first <= to; });
  }
  size_t left() {
    const std::lock_guard lock(mutex_);
    return rows_.size();
  }
  Task<Result<std::vector<store::EventBacklog>>> event_backlog(std::string_view) override {
    const std::lock_guard lock(mutex_);
    std::vector<store::EventBacklog> backlog;
    if (!rows_.empty()) backlog.push_back({.bucket = the_bucket, .events = rows_.size(), .bytes = rows_.size()});
    co_return backlog;
  }
  Task<Result<std::vector<store::QueuedEvent>>> events(std::string_view, uint64_t, uint64_t after, size_t events_max,
                                                       size_t) override {
    const std::lock_guard lock(mutex_);
    std::vector<store::QueuedEvent> events;
    for (auto row = rows_.upper_bound(after); row != rows_.end() && events.size() < events_max; ++row) {
      events.push_back({row->first, row->second});
    }
    co_return events;
  }
  Task<Result<void>> remove_events(std::string_view, uint64_t, std::vector<uint64_t> ids) override {
    const std::lock_guard lock(mutex_);
    for (const uint64_t id : ids) rows_.erase(id);
    co_return Result<void>{};
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::string> rows_;
};

// Accepts one message after the other, with a test's action before each.
class OneByOne final : public Target {
 public:
  struct Got {
    std::mutex mutex;
    std::vector<std::string> messages;
    std::function<void(const std::string&)> before = [](const std::string&) {};
  };
  explicit OneByOne(Got& got) : got_(got) {}
  Task<Result<void>> deliver(const std::vector<std::string>& messages, size_t& delivered) override {
    for (const std::string& message : messages) {
      got_.before(message);
      VB_CO_TRY(may_send());
      const std::lock_guard lock(got_.mutex);
      got_.messages.push_back(message);
      ++delivered;
    }
    co_return Result<void>{};
  }

 private:
  Got& got_;
};

class OrderTest : public ::testing::Test {
 protected:
  OrderTest() : arena_(memory::Arena::create(16 * MiB).value()), store_(*arena_), queues_({{"t", "file"}}, {}) {
    Delivery::Options options{.retry_first = 1ms, .retry_most = 4ms};
    options.on_duty = [this] { return term_.load(); };
    options.look_every = 1ms;
    const auto target = [this] { return std::make_unique<OneByOne>(got_); };
    delivery_ = std::move(*Delivery::make(store_, queues_, "t", target, options));
  }
  using Texts = std::vector<std::string>;
  Texts got() {
    const std::lock_guard lock(got_.mutex);
    return got_.messages;
  }
  Texts got_when(const std::function<bool(const Texts&)>& enough) {
    for (const auto until = deadline_in(60s); !enough(got()) && SteadyClock::now() < until;) {
      std::this_thread::sleep_for(1ms);
    }
    return got();
  }

  std::unique_ptr<memory::Arena> arena_;
  LateStore store_;
  s3::EventQueues queues_;
  OneByOne::Got got_;
  std::atomic<uint64_t> term_{1};
  std::unique_ptr<Delivery> delivery_;
};

// The clock of the server that made "k created" is behind that of the one that made "a" and "k removed".
TEST_F(OrderTest, AChangeWithALesserIdThanWhatWasToldIsToldBeforeWhatFollowedIt) {
  store_.add({{100, "a"}});
  delivery_->start();
  got_when([](const Texts& texts) { return texts.size() == 1; });
  store_.add({{90, "k created"}, {200, "k removed"}, {201, "b"}});
  const Texts all = got_when([](const Texts& texts) { return texts.size() == 4; });
  delivery_->stop();
  EXPECT_EQ(all, (Texts{"a", "k created", "k removed", "b"}));
}

TEST_F(OrderTest, WhatCameLateWaitsForAPageAtMostWhileTheTargetIsAlwaysBusy) {
  std::atomic<uint64_t> next{1000};
  // A new event for each delivered one, so that the end is never reached.
  got_.before = [&](const std::string& message) {
    const uint64_t id = next++;
    if (id < 9000 && message != "late") store_.add({{id, "more"}});
    if (id == 2000) store_.add({{5, "late"}});
  };
  for (uint64_t id = 10; id < 510; ++id) store_.add({{id, "more"}});
  delivery_->start();
  const Texts all = got_when([](const Texts& texts) { return std::ranges::count(texts, "late") != 0; });
  delivery_->stop();
  const auto late = std::ranges::find(all, "late") - all.begin();
  EXPECT_LE(late, 2000 + 1000);
}

// A process that is frozen between a check and a message does not notice it: the next check has another result.
TEST_F(OrderTest, AServerThatLosesItsDutyInTheMiddleOfABatchSendsNothingMore) {
  for (uint64_t id = 1; id <= 40; ++id) store_.add({{id, std::to_string(id)}});
  std::promise<void> lost;
  got_.before = [&](const std::string& message) {
    if (message != "13") return;
    term_ = 0;
    lost.set_value();
  };
  delivery_->start();
  lost.get_future().wait();
  // Another server has delivered all of them, and later ones.
  for (const auto until = deadline_in(60s); store_.left() != 28 && SteadyClock::now() < until;) {
    std::this_thread::sleep_for(1ms);
  }
  store_.take(13, 40);
  store_.add({{41, "41"}});
  term_ = 2;
  const Texts all = got_when([](const Texts& texts) { return std::ranges::count(texts, "41") != 0; });
  delivery_->stop();
  ASSERT_EQ(all.size(), 13u);
  EXPECT_EQ(all[11], "12");
  EXPECT_EQ(all[12], "41");
  EXPECT_TRUE(queues_.states().at(0).up) << "the target has refused nothing";
}

// Frozen for so long that another server became the leader and resigned: checking for leadership alone is not enough.
TEST_F(OrderTest, WhatWasReadInAnEarlierTimeOnDutyIsNotTold) {
  for (uint64_t id = 1; id <= 10; ++id) store_.add({{id, std::to_string(id)}});
  got_.before = [&](const std::string& message) {
    if (message != "4" || term_ != 1) return;
    store_.take(4, 10);
    store_.add({{11, "11"}});
    term_ = 2;
  };
  delivery_->start();
  const Texts all = got_when([](const Texts& texts) { return std::ranges::count(texts, "11") != 0; });
  delivery_->stop();
  EXPECT_EQ(all, (Texts{"1", "2", "3", "11"}));
}

// One that was frozen for a minute while it counted did not look for ten minutes: what other servers had left waited
// for so long.
TEST(LookPause, AServerThatWasFrozenWhileItCountedLooksAgainSoon) {
  EXPECT_EQ(pause_after_look(1000ms, 1ms), 1s);
  EXPECT_EQ(pause_after_look(1000ms, 500ms), 5s);
  EXPECT_EQ(pause_after_look(1000ms, 69s), 138s) << "a third of the time";
}

TEST(TargetGate, NothingIsWrittenIntoAFile) {
  std::string name = "/tmp/verbena-gate-XXXXXX";
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const auto file = make_event_file({.name = "f", .path = name + "/events"});
  asio::io_context io;
  size_t delivered = 0;
  bool open = false;
  file->ask_before_each([&] { return open; });
  const std::vector<std::string> one{"{}"};
  const auto refused = run_task(io, file->deliver(one, delivered));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::cancelled);
  EXPECT_EQ(std::filesystem::file_size(name + "/events"), 0u);
  open = true;
  EXPECT_TRUE(run_task(io, file->deliver(one, delivered)));
  EXPECT_EQ(delivered, 1u);
  std::filesystem::remove_all(name);
}

// Checked once the connection exists: making it may take long.
TEST(TargetGate, NothingIsSentToAWebhook) {
  asio::io_context io, other;
  asio::ip::tcp::acceptor listener(other, {asio::ip::address_v4::loopback(), 0});
  TargetSettings settings{.name = "w", .host = "127.0.0.1", .port = listener.local_endpoint().port(), .path = "/"};
  settings.allow_private = true;
  const auto hook = make_target(settings);
  ASSERT_TRUE(hook);
  size_t asked = 0, delivered = 0;
  (*hook)->ask_before_each([&] {
    ++asked;
    return false;
  });
  const std::vector<std::string> two{"{}", "{}"};
  const auto refused = run_task(io, (*hook)->deliver(two, delivered));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::cancelled);
  EXPECT_EQ(asked, 1u);
  auto connection = listener.accept();
  char byte = 0;
  boost::system::error_code ended;
  EXPECT_EQ(connection.read_some(asio::buffer(&byte, 1), ended), 0u);
  EXPECT_TRUE(ended) << "closed without a word";
}

// Its library sends on a thread of its own, and later: here when its broker is back.
TEST(TargetGate, WhatKafkasLibraryHasNotSentIsTakenFromIt) {
  char wrong[256];
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  ASSERT_EQ(rd_kafka_conf_set(conf, "test.mock.num.brokers", "1", wrong, sizeof wrong), RD_KAFKA_CONF_OK) << wrong;
  rd_kafka_conf_set_log_cb(conf, [](const rd_kafka_t*, int, const char*, const char*) {});
  const std::unique_ptr<rd_kafka_t, decltype(&rd_kafka_destroy)> client(
      rd_kafka_new(RD_KAFKA_PRODUCER, conf, wrong, sizeof wrong), rd_kafka_destroy);
  ASSERT_NE(client, nullptr) << wrong;
  rd_kafka_mock_cluster_t* cluster = rd_kafka_handle_mock_cluster(client.get());
  ASSERT_EQ(rd_kafka_mock_topic_create(cluster, "objects", 1, 1), RD_KAFKA_RESP_ERR_NO_ERROR);
  const std::string broker = rd_kafka_mock_cluster_bootstraps(cluster);
  TargetSettings settings{.name = "k", .type = TargetType::kafka, .host = "127.0.0.1", .path = "objects"};
  settings.port = static_cast<uint16_t>(std::stoul(broker.substr(broker.rfind(':') + 1)));
  settings.timeout = 30s;
  settings.allow_private = true;
  asio::io_context io;
  const auto topic = make_target(settings);
  ASSERT_TRUE(topic);
  size_t asked = 0, delivered = 0;
  const auto event = [](const std::string& key) {
    return R"({"Records":[{"s3":{"bucket":{"name":"b"},"object":{"key":")" + key + R"("}}}]})";
  };
  const std::vector<std::string> frozen{event("frozen")}, next{event("next")};
  ASSERT_EQ(rd_kafka_mock_broker_set_down(cluster, 1), RD_KAFKA_RESP_ERR_NO_ERROR);
  (*topic)->ask_before_each([&] { return ++asked < 5; });
  const auto refused = run_task(io, (*topic)->deliver(frozen, delivered));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::cancelled);
  EXPECT_EQ(delivered, 0u);
  ASSERT_EQ(rd_kafka_mock_broker_set_up(cluster, 1), RD_KAFKA_RESP_ERR_NO_ERROR);
  (*topic)->ask_before_each([] { return true; });
  ASSERT_TRUE(run_task(io, (*topic)->deliver(next, delivered)));
  EXPECT_EQ(delivered, 1u);
  int64_t first = 0, behind = 0;
  ASSERT_EQ(rd_kafka_query_watermark_offsets(client.get(), "objects", 0, &first, &behind, 30'000),
            RD_KAFKA_RESP_ERR_NO_ERROR);
  EXPECT_EQ(behind - first, 1) << "the frozen server's message came when the broker was there again";
}

}  // namespace
}  // namespace verbena::events
