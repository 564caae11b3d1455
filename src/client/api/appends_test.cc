// Appends that share messages, over a server that is a string in this test.
#include "client/api/appends.h"

#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <optional>
#include <random>
#include <thread>

#include "base/bytes.h"
#include "client/ordered_work.h"
#include "client/testing/scripted_client.h"
#include "client/worker_pool.h"

namespace verbena::client {
namespace {

using namespace std::chrono_literals;

constexpr size_t record_size = 200;

std::string record(size_t number, size_t size = record_size) {
  std::string text = std::to_string(number) + ".";
  text.resize(size, static_cast<char>('a' + number % 26));
  return text;
}

ClientError refusal(ErrorCode code, std::string s3_code = {}) {
  return {.code = code, .message = "refused", .s3_code = std::move(s3_code)};
}

// Messages wait here until the test lets the server handle them.
class AppendsTest : public testing::Test {
 protected:
  struct Sent {
    std::string bytes;
    PutOptions options;
    Callback<PutReply> done;
  };

  Appends::Ways ways() {
    return {.send =
                [this](const std::string& bucket, const std::string& key, const PutOptions& options, Bytes bytes,
                       Callback<PutReply> done) {
                  EXPECT_EQ(bucket + "/" + key, "b/log");
                  sent.push_back({std::string(as_text(bytes)), options, std::move(done)});
                },
            .post = [this](std::function<void()> work) { posted.push_back(std::move(work)); },
            .answered = [](const std::string&, const std::string&, AsyncPut call,
                           Outcome<PutReply> outcome) { call.done(std::move(outcome)); }};
  }

  // Adds an append; its number is its index in `outcomes`.
  size_t add(uint64_t offset, std::string text, std::stop_token stop = {}) {
    const size_t number = outcomes.size();
    outcomes.emplace_back();
    kept.push_back(std::make_unique<std::string>(std::move(text)));
    AsyncPut call;
    auto buffer = plain.register_memory(kept.back()->data(), kept.back()->size());
    call.from = *buffer;
    call.options.append_at = offset;
    call.options.cancel = std::move(stop);
    call.done = [this, number](Outcome<PutReply> outcome) {
      EXPECT_FALSE(outcomes[number]) << number << " has its outcome twice";
      outcomes[number] = std::move(outcome);
    };
    EXPECT_TRUE(Appends::may_join(call));
    appends.add("b", "log", std::move(call));
    return number;
  }
  void add_records(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      add(next_offset, record(outcomes.size()));
      next_offset += record_size;
    }
  }
  // As add(), for appends that can be cancelled.
  std::vector<std::stop_source> add_cancellable(size_t count) {
    std::vector<std::stop_source> stops(count);
    for (std::stop_source& stop : stops) {
      add(next_offset, record(outcomes.size()), stop.get_token());
      next_offset += record_size;
    }
    return stops;
  }
  void run_posted() {
    while (!posted.empty()) {
      auto work = std::move(posted.front());
      posted.pop_front();
      work();
    }
  }
  // The server handles the first waiting message.
  void serve() {
    ASSERT_FALSE(sent.empty());
    Sent one = std::move(sent.front());
    sent.pop_front();
    sizes.push_back(one.bytes.size());
    one.done(judge(one));
    run_posted();
  }
  void serve_all() {
    while (!sent.empty()) serve();
  }
  Outcome<PutReply> judge(const Sent& one) {
    const uint64_t offset = *one.options.append_at;
    if (offset != append_at_end && offset != object.size()) {
      return std::unexpected(refusal(ErrorCode::precondition_failed, "InvalidWriteOffset"));
    }
    if (object.size() + one.bytes.size() > quota) {
      return std::unexpected(refusal(ErrorCode::access_denied, "QuotaExceeded"));
    }
    object += one.bytes;
    PutReply reply;
    reply.etag = "etag " + std::to_string(object.size());
    reply.object_size = object.size();
    reply.transfer.door = Via::native;
    reply.transfer.bytes = one.bytes.size();
    return reply;
  }
  std::string code_of(size_t number) const {
    if (!outcomes[number]) return "none";
    if (*outcomes[number]) return "ok";
    const ClientError& error = (*outcomes[number]).error();
    return error.code == ErrorCode::cancelled ? "cancelled" : error.s3_code;
  }
  void expect_each_at_its_place() {
    size_t bytes = 0, cancelled = 0;
    for (size_t i = 0; i < outcomes.size(); ++i) {
      ASSERT_TRUE(outcomes[i]) << i;
      if (code_of(i) == "cancelled") cancelled += kept[i]->size();
      if (!*outcomes[i]) continue;
      const PutReply& reply = **outcomes[i];
      ASSERT_EQ(reply.transfer.bytes, kept[i]->size());
      ASSERT_GE(reply.object_size, kept[i]->size());
      EXPECT_EQ(object.substr(reply.object_size - kept[i]->size(), kept[i]->size()), *kept[i]) << i;
      bytes += kept[i]->size();
    }
    EXPECT_LE(bytes, object.size());
    EXPECT_LE(object.size(), bytes + cancelled) << "what was refused is there, or something is there twice";
  }

  static Client connected(const net::ScriptedServer& server) {
    ClientOptions options;
    options.endpoint = server.url();
    options.via = Via::http;
    auto client = Client::connect(options);
    EXPECT_TRUE(client) << client.error().message;
    return std::move(*client);
  }

  net::ScriptedServer silent{[](const net::ScriptedRequest&, int) { return std::string(); }};
  Client plain = connected(silent);  // for its buffers alone
  std::deque<Sent> sent;
  std::deque<std::function<void()>> posted;
  std::deque<std::optional<Outcome<PutReply>>> outcomes;
  std::deque<std::unique_ptr<std::string>> kept;
  std::vector<size_t> sizes;  // of the messages, in the order in which they were done
  std::string object;
  uint64_t next_offset = 0, quota = ~uint64_t{0};
  Appends appends{ways()};
};

TEST_F(AppendsTest, WhatIsAskedForMeanwhileIsOneMessage) {
  add_records(10);
  ASSERT_EQ(sent.size(), 2u) << "two leave at once";
  serve();
  serve_all();
  EXPECT_EQ(sizes, (std::vector<size_t>{record_size, record_size, 8 * record_size}));
  expect_each_at_its_place();
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ((*outcomes[i])->object_size, (i + 1) * record_size);
  EXPECT_EQ((*outcomes[0])->etag, "etag 200");
  EXPECT_EQ((*outcomes[3])->etag, "etag 2000") << "of the object that there is";
}

TEST_F(AppendsTest, AMessageThatIsFullLeavesAtOnce) {
  add_records(2 + 20);
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent.back().bytes.size(), 20 * record_size) << "another record would be too much";
  add_records(25);
  EXPECT_EQ(sent.size(), 4u);
  serve_all();
  expect_each_at_its_place();
  for (const size_t size : sizes) EXPECT_LE(size, Appends::message_bytes_max);
  EXPECT_EQ(sizes, (std::vector<size_t>{200, 200, 4'000, 4'000, 1'000}));
}

TEST_F(AppendsTest, WhoHasFewInFlightWaitsForNobody) {
  for (int i = 0; i < 20; ++i) {
    add_records(1);
    ASSERT_EQ(sent.size(), i == 0 ? 1u : 2u);
    if (i > 0) serve();
  }
  serve_all();
  EXPECT_EQ(sizes.size(), 20u);
  expect_each_at_its_place();
}

TEST_F(AppendsTest, OneThatDoesNotLieBehindIsRefusedAlone) {
  add_records(4);
  const size_t wrong = add(7, record(4));
  add_records(3);
  serve_all();
  EXPECT_EQ(code_of(wrong), "InvalidWriteOffset");
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (i != wrong) {
      EXPECT_EQ(code_of(i), "ok") << i;
    }
  }
  expect_each_at_its_place();
}

TEST_F(AppendsTest, AQuotaThatIsReachedInAMessageRefusesWhatIsAboveIt) {
  quota = 7 * record_size;
  add_records(30);
  serve_all();
  for (size_t i = 0; i < 30; ++i) {
    EXPECT_EQ(code_of(i), i < 7 ? "ok" : i == 7 ? "QuotaExceeded" : "InvalidWriteOffset") << i;
  }
  expect_each_at_its_place();
}

TEST_F(AppendsTest, WhatIsRefusedGoesAgainInOrderWhicheverAnswerComesFirst) {
  object = record(1'000, 100);  // written by another client
  add_records(2 + 20 + 20 + 3);
  ASSERT_EQ(sent.size(), 4u);
  // The two calls are refused one by one; then the object reaches the size that the others expect.
  serve();
  serve();
  EXPECT_EQ(code_of(0) + code_of(1), "InvalidWriteOffsetInvalidWriteOffset");
  object += record(1'001, 300);
  std::swap(sent[0], sent[1]);
  serve_all();
  for (size_t i = 2; i < 45; ++i) EXPECT_EQ(code_of(i), "ok") << i;
  EXPECT_EQ(object.size(), 45 * record_size);
  for (size_t i = 2; i < 45; ++i) EXPECT_EQ(object.substr(i * record_size, record_size), *kept[i]);
}

TEST_F(AppendsTest, AnOutcomeThatNobodyKnowsIsThatOfEach) {
  for (const ErrorCode code : {ErrorCode::timed_out, ErrorCode::outcome_unknown, ErrorCode::server_error,
                               ErrorCode::slow_down, ErrorCode::connection_failed}) {
    const size_t first = outcomes.size();
    add_records(6);
    serve();
    serve();
    ASSERT_EQ(sent.size(), 1u);
    Sent lost = std::move(sent.front());
    sent.pop_front();
    EXPECT_EQ(lost.bytes.size(), 4 * record_size);
    lost.done(std::unexpected(refusal(code)));
    run_posted();
    EXPECT_TRUE(sent.empty()) << "sent again";
    for (size_t i = first + 2; i < first + 6; ++i) {
      ASSERT_TRUE(outcomes[i]);
      EXPECT_EQ(outcomes[i]->error().code, code);
    }
    next_offset = object.size();
  }
}

TEST_F(AppendsTest, AtTheEndNothingOvertakesAMessageThatWasRefused) {
  quota = 10 * record_size;
  for (size_t i = 0; i < 30; ++i) {
    add(append_at_end, record(i));
    EXPECT_EQ(sent.size(), 1u);
  }
  add(append_at_end, record(30, 100));
  serve_all();
  for (size_t i = 0; i < 31; ++i) EXPECT_EQ(code_of(i), i < 10 ? "ok" : "QuotaExceeded") << i;
  expect_each_at_its_place();
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(object.substr(i * record_size, record_size), *kept[i]) << "in order";
}

TEST_F(AppendsTest, AFlushLeavesNothingWaiting) {
  add_records(7);
  ASSERT_EQ(sent.size(), 2u);
  appends.flush("b", "other");
  ASSERT_EQ(sent.size(), 2u);
  appends.flush("b", "log");
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent.back().bytes.size(), 5 * record_size);
  serve_all();
  expect_each_at_its_place();
  appends.flush("b", "log");
}

TEST_F(AppendsTest, WhatIsCommittedIsToldBeforeAnythingElseIsSent) {
  add_records(10);
  Sent one = std::move(sent.front());
  sent.pop_front();
  one.done(judge(one));
  EXPECT_TRUE(outcomes[0]) << "the posted work has not run";
  run_posted();
  serve_all();
  expect_each_at_its_place();
}

TEST_F(AppendsTest, AtTheEndNothingGoesAgainBehindWhatCameAnotherWay) {
  for (int i = 0; i < 3; ++i) add(append_at_end, record(outcomes.size()));
  serve();
  ASSERT_EQ(sent.size(), 1u) << "two records in one message";
  appends.flush("b", "log");
  quota = object.size() + record_size;
  object += record(99);  // appended by another path
  kept.push_back(std::make_unique<std::string>(record(99)));
  serve();
  EXPECT_TRUE(sent.empty()) << "they would come behind it";
  EXPECT_EQ(code_of(1), "QuotaExceeded");
  EXPECT_EQ(code_of(2), "QuotaExceeded");
}

TEST_F(AppendsTest, AServerThatTellsNoSizeMakesNone) {
  add_records(5);
  serve();
  serve();
  Sent one = std::move(sent.front());
  sent.pop_front();
  one.done(PutReply{});
  run_posted();
  EXPECT_EQ((*outcomes[2])->object_size, 0u);
}

TEST_F(AppendsTest, WhatCanBeCancelledSharesMessagesToo) {
  const auto stops = add_cancellable(10);
  serve_all();
  EXPECT_EQ(sizes, (std::vector<size_t>{record_size, record_size, 8 * record_size}));
  expect_each_at_its_place();
  for (const std::stop_source& stop : stops) std::stop_source(stop).request_stop();
  EXPECT_EQ(code_of(4), "ok");
}

TEST_F(AppendsTest, OneThatIsCancelledWhileItWaitsIsNotSent) {
  auto stops = add_cancellable(5);
  ASSERT_EQ(sent.size(), 2u);
  stops[4].request_stop();
  EXPECT_EQ(code_of(4), "cancelled");
  serve_all();
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(code_of(i), "ok") << i;
  expect_each_at_its_place();
  EXPECT_EQ(object.size(), 4 * record_size);
}

TEST_F(AppendsTest, OneThatIsCancelledInAMessageLeavesTheOthersAndItsMemoryAlone) {
  auto stops = add_cancellable(8);
  serve();
  ASSERT_EQ(sent.size(), 2u);
  stops[1].request_stop();  // alone in its message
  stops[5].request_stop();
  EXPECT_EQ(code_of(1), "cancelled");
  EXPECT_EQ(code_of(5), "cancelled");
  const std::string first = *kept[1], other = *kept[5];
  kept[1]->assign(record_size, '!');
  kept[5]->assign(record_size, '!');
  serve_all();
  for (const size_t i : {0, 2, 3, 4, 6, 7}) {
    EXPECT_EQ(code_of(i), "ok") << i;
    EXPECT_EQ((*outcomes[i])->object_size, (i + 1) * record_size) << i;
  }
  EXPECT_EQ(object.substr(record_size, record_size), first);
  EXPECT_EQ(object.substr(5 * record_size, record_size), other);
}

TEST_F(AppendsTest, OfAMessageThatIsRefusedWhatWasCancelledDoesNotGoAgain) {
  auto stops = add_cancellable(7);
  serve();
  serve();
  ASSERT_EQ(sent.size(), 1u) << "five records in one message";
  quota = 5 * record_size;
  stops[6].request_stop();
  serve_all();
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(code_of(i), "ok") << i;
  EXPECT_EQ(code_of(5), "QuotaExceeded");
  EXPECT_EQ(code_of(6), "cancelled");
  EXPECT_EQ(sizes.size(), 3u + 4u) << "each of the other four once more";
}

TEST_F(AppendsTest, WhatWasCancelledBeforeItCameIsNotSent) {
  std::stop_source stop;
  stop.request_stop();
  add(0, record(0), stop.get_token());
  EXPECT_EQ(code_of(0), "cancelled");
  EXPECT_TRUE(sent.empty());
  appends.flush("b", "log");
  add_records(1);
  serve_all();
  EXPECT_EQ(code_of(1), "ok");
}

TEST_F(AppendsTest, OnlyPlainOnesShareAMessage) {
  std::string text = record(0);
  AsyncPut plain_one;
  plain_one.from = *plain.register_memory(text.data(), text.size());
  EXPECT_FALSE(Appends::may_join(plain_one)) << "no append";
  plain_one.options.append_at = 0;
  EXPECT_TRUE(Appends::may_join(plain_one));
  const auto with = [&](auto change) {
    AsyncPut other = plain_one;
    change(other.options);
    return Appends::may_join(other);
  };
  std::stop_source stop;
  EXPECT_FALSE(with([](PutOptions& options) { options.if_match = "e"; }));
  EXPECT_FALSE(with([](PutOptions& options) { options.if_none_match = "*"; }));
  EXPECT_FALSE(with([](PutOptions& options) { options.content_type = "text/plain"; }));
  EXPECT_FALSE(with([](PutOptions& options) { options.metadata["a"] = "b"; }));
  EXPECT_FALSE(with([](PutOptions& options) { options.checksum = "CRC32C:AAAAAA=="; }));
  EXPECT_FALSE(with([](PutOptions& options) { options.describe = true; }));
  EXPECT_TRUE(with([&](PutOptions& options) { options.cancel = stop.get_token(); }));
  std::string large(Appends::message_bytes_max / 2 + 1, 'x');
  plain_one.from = *plain.register_memory(large.data(), large.size());
  EXPECT_FALSE(Appends::may_join(plain_one));
}

// Whichever messages are refused, and in whatever order answers come: each acknowledged append is stored once, at its
// offset.
TEST_F(AppendsTest, RandomHistoriesKeepTheirWord) {
  std::mt19937_64 random(20'261'123);
  std::vector<std::pair<size_t, std::stop_source>> cancellable;
  for (int round = 0; round < 200; ++round) {
    quota = object.size() + random() % 40'000;
    next_offset = object.size();
    for (int step = 0; step < 60; ++step) {
      switch (random() % 12) {
        case 0:
          if (!sent.empty()) serve();
          break;
        case 1:
          add(append_at_end, record(outcomes.size(), 1 + random() % 900));
          break;
        case 2:
          add(random() % 100'000, record(outcomes.size()));
          break;
        case 3:
          appends.flush("b", "log");
          break;
        case 4:
          next_offset = object.size();
          break;
        case 5: {
          std::stop_source stop;
          const size_t number = add(next_offset, record(outcomes.size()), stop.get_token());
          next_offset += record_size;
          cancellable.emplace_back(number, stop);
          break;
        }
        case 6:
          if (!cancellable.empty()) {
            // The outcome is unknown: the model drops the call.
            auto& [number, stop] = cancellable[random() % cancellable.size()];
            stop.request_stop();
            ASSERT_TRUE(outcomes[number]);
          }
          break;
        default: {
          const std::string text = record(outcomes.size(), 1 + random() % 700);
          add(next_offset, text);
          next_offset += text.size();
        }
      }
    }
    serve_all();
  }
  expect_each_at_its_place();
}

// Threads that add, a thread that delivers answers, and threads that run posted work.
TEST(AppendsThreads, EachCallIsAnsweredOnceAndEachThreadsCallsLieInOrder) {
  constexpr size_t threads = 4, each = 3'000;
  net::ScriptedServer silent([](const net::ScriptedRequest&, int) { return std::string(); });
  ClientOptions options;
  options.endpoint = silent.url();
  options.via = Via::http;
  const auto plain = Client::connect(options);
  ASSERT_TRUE(plain);

  struct Sent {
    std::string bytes;
    Callback<PutReply> done;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Sent> sent;
  bool over = false;
  std::string object;
  size_t messages = 0;
  std::atomic<size_t> answered{0}, wrong{0};
  auto pool = std::make_unique<WorkerPool>(3);
  Appends appends(
      {.send =
           [&](const std::string&, const std::string&, const PutOptions&, Bytes bytes, Callback<PutReply> done) {
             const std::lock_guard lock(mutex);
             sent.push_back({std::string(as_text(bytes)), std::move(done)});
             changed.notify_all();
           },
       .post = [&](std::function<void()> work) { pool->post(std::move(work)); },
       .answered = [](const std::string&, const std::string&, AsyncPut call,
                      Outcome<PutReply> outcome) { call.done(std::move(outcome)); }});
  std::thread server([&] {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return !sent.empty() || over; });
      if (sent.empty()) return;
      Sent one = std::move(sent.front());
      sent.pop_front();
      object += one.bytes;
      ++messages;
      PutReply reply;
      reply.object_size = object.size();
      lock.unlock();
      one.done(std::move(reply));
      lock.lock();
    }
  });
  std::vector<std::vector<std::string>> texts(threads);
  std::vector<std::vector<uint64_t>> ends(threads, std::vector<uint64_t>(each));
  {
    std::vector<std::jthread> adding;
    for (size_t t = 0; t < threads; ++t) {
      for (size_t i = 0; i < each; ++i) texts[t].push_back(record(t * each + i, 20 + i % 50));
      adding.emplace_back([&, t] {
        for (size_t i = 0; i < each; ++i) {
          AsyncPut call;
          call.from = *plain->register_memory(texts[t][i].data(), texts[t][i].size());
          call.options.append_at = append_at_end;
          call.done = [&, t, i](Outcome<PutReply> outcome) {
            if (!outcome) ++wrong;
            if (outcome) ends[t][i] = outcome->object_size;
            ++answered;
            answered.notify_all();
          };
          appends.add("b", "log", std::move(call));
        }
      });
    }
  }
  for (size_t n = answered; n < threads * each; n = answered) answered.wait(n);
  {
    const std::lock_guard lock(mutex);
    over = true;
    changed.notify_all();
  }
  server.join();
  pool.reset();
  EXPECT_EQ(wrong, 0u);
  EXPECT_LT(messages, threads * each);
  for (size_t t = 0; t < threads; ++t) {
    uint64_t before = 0;
    for (size_t i = 0; i < each; ++i) {
      const std::string& text = texts[t][i];
      ASSERT_EQ(object.substr(ends[t][i] - text.size(), text.size()), text) << t << " " << i;
      ASSERT_GT(ends[t][i], before);
      before = ends[t][i];
    }
  }
}

// As many of them went at once as there were threads, and came in any order.
TEST(AppendOrder, AppendsToAKeyByHttpLeaveInTheOrderInWhichTheyWereBegun) {
  constexpr size_t appends = 24, bytes = 10;
  net::ScriptedServer server([&](const net::ScriptedRequest&, int number) {
    std::this_thread::sleep_for(number % 3 * 2ms);
    return net::http_reply(200, "etag: \"e\"\r\nx-amz-object-size: 10\r\n", "");
  });
  const Client client = *Client::connect(http_options(server));
  const Buffer memory = client.allocate(bytes).value();
  std::vector<std::future<Outcome<PutReply>>> replies;
  for (size_t i = 0; i < appends; ++i) {
    replies.push_back(client.put_async("b", "log", memory, PutOptions{.append_at = i * bytes}));
  }
  for (auto& reply : replies) EXPECT_TRUE(reply.get());
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), appends);
  for (size_t i = 0; i < appends; ++i) {
    EXPECT_TRUE(requests[i].has("x-amz-write-offset-bytes: " + std::to_string(i * bytes) + "\r\n")) << i;
  }
}

// It waited for the one before it, as long as a frozen server keeps that.
TEST(AppendOrder, AnAppendByHttpThatIsCancelledWhileItWaitsHasItsOutcomeAtOnce) {
  std::atomic<bool> go_on = false;
  net::ScriptedServer server([&](const net::ScriptedRequest&, int) {
    go_on.wait(false);
    return net::http_reply(200, "etag: \"e\"\r\nx-amz-object-size: 10\r\n", "");
  });
  const Client client = *Client::connect(http_options(server));
  const Buffer memory = client.allocate(10).value();
  std::stop_source stop;
  auto first = client.put_async("b", "log", memory, PutOptions{.append_at = append_at_end});
  auto second =
      client.put_async("b", "log", memory, PutOptions{.append_at = append_at_end, .cancel = stop.get_token()});
  auto third = client.put_async("b", "log", memory, PutOptions{.append_at = append_at_end});
  stop.request_stop();
  const bool at_once = second.wait_for(20s) == std::future_status::ready;
  EXPECT_TRUE(at_once && first.wait_for(0s) != std::future_status::ready);
  go_on = true;
  go_on.notify_all();
  EXPECT_EQ(second.get().error().code, ErrorCode::cancelled);
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(third.get());
  EXPECT_FALSE(server.requests().empty());
}

// Work that was posted, and is done when a test says so.
struct Posted {
  OrderedWork work() {
    return OrderedWork([this](std::function<void()> one) { waiting.push_back(std::move(one)); });
  }
  void next() {
    const auto one = std::move(waiting.front());
    waiting.pop_front();
    one();
  }
  void all() {
    while (!waiting.empty()) next();
  }
  std::deque<std::function<void()>> waiting{};
};

TEST(AppendOrder, WorkOfANameIsDoneOneAfterTheOtherAndThatOfOthersMeanwhile) {
  Posted posted;
  OrderedWork work = posted.work();
  std::string done;
  work.add("a", [&] { done += "1"; });
  work.add("a", [&] { done += "2"; });
  work.add("b", [&] { done += "b"; });
  EXPECT_EQ(posted.waiting.size(), 2u) << "one of each name";
  posted.next();
  EXPECT_TRUE(work.has("a"));
  posted.next();
  EXPECT_FALSE(work.has("b"));
  posted.next();
  EXPECT_EQ(done, "1b2");
  EXPECT_FALSE(work.has("a"));
  EXPECT_TRUE(posted.waiting.empty());
}

// An append that was alone in its message, and unanswered when the native door was lost, was made by HTTP behind a
// later one that had found the door closed.
TEST(AppendOrder, WhatMayStillHaveToBeDoneKeepsItsPlace) {
  Posted posted;
  OrderedWork work = posted.work();
  std::string done;
  const auto first = work.reserve("a"), second = work.reserve("a"), third = work.reserve("a");
  EXPECT_FALSE(work.has("a")) << "they may go the same way beside each other";
  work.add("a", [&] { done += "4"; });
  work.add("b", [&] { done += "b"; });
  posted.all();
  EXPECT_EQ(done, "b") << "another name's place is none of its";
  work.fill("a", third, [&] { done += "3"; }, {}, {});
  posted.all();
  EXPECT_EQ(done, "b");
  work.give_up("a", second);
  posted.all();
  EXPECT_EQ(done, "b");
  work.fill("a", first, [&] { done += "1"; }, {}, {});
  posted.all();
  EXPECT_EQ(done, "b134");
  EXPECT_FALSE(work.has("a"));
}

// Work that goes on elsewhere keeps its place until that has ended.
TEST(AppendOrder, WorkMayLeaveItsPlaceReserved) {
  Posted posted;
  OrderedWork work = posted.work();
  std::string done;
  OrderedWork::Place place;
  work.add("a", [&] {
    done += "1";
    place = work.own_place("a");
  });
  work.add("a", [&] { done += "3"; });
  posted.all();
  EXPECT_EQ(done, "1");
  std::stop_source stop;
  stop.request_stop();
  work.fill("a", place, [&] { done += "2"; }, stop.get_token(), [&] { done += "x"; });
  posted.all();
  EXPECT_EQ(done, "1x3") << "it was cancelled";
}

// Each append waited for the answer of the one before it, although the native door was open again.
TEST(AppendOrder, WorkBesidePlacesBeginsBeforeTheyHaveEnded) {
  Posted posted;
  OrderedWork work = posted.work();
  std::string done;
  const auto first = work.reserve("a");
  std::vector<OrderedWork::Place> sent;
  for (const char* number : {"2", "3"}) {
    const auto begin = [&, number] {
      done += number;
      sent.push_back(work.own_place("a"));
    };
    work.add_beside_places("a", begin, {}, {});
  }
  posted.all();
  EXPECT_EQ(done, "23");
  EXPECT_FALSE(work.has("a")) << "what comes now may go beside them";
  ASSERT_EQ(sent.size(), 2u);
  // Each has its place still, if it has to go by another door.
  work.fill("a", sent[1], [&] { done += "c"; }, {}, {});
  work.fill("a", sent[0], [&] { done += "b"; }, {}, {});
  work.add_beside_places("a", [&] { done += "d"; }, {}, {});
  posted.all();
  EXPECT_EQ(done, "23") << "only places are passed over, no work";
  work.fill("a", first, [&] { done += "a"; }, {}, {});
  posted.all();
  EXPECT_EQ(done, "23abcd");
  EXPECT_FALSE(work.has("a"));
}

// The door was closed again by the time of its turn.
TEST(AppendOrder, WorkBesidePlacesMayFillItsOwn) {
  Posted posted;
  OrderedWork work = posted.work();
  std::string done;
  const auto first = work.reserve("a");
  const auto begin = [&] { work.fill("a", work.own_place("a"), [&] { done += "2"; }, {}, {}); };
  work.add_beside_places("a", begin, {}, {});
  work.add_beside_places("a", [&] { done += "3"; }, {}, {});
  posted.all();
  EXPECT_EQ(done, "");
  EXPECT_TRUE(work.has("a"));
  work.give_up("a", first);
  posted.all();
  EXPECT_EQ(done, "23");
  EXPECT_FALSE(work.has("a"));
}

// Posted for one, and by then another one is first, which waits for a place before it.
TEST(AppendOrder, APlaceThatIsFilledMeanwhileIsNotPassedOver) {
  Posted posted;
  OrderedWork work = posted.work();
  std::string done;
  const auto first = work.reserve("a"), second = work.reserve("a");
  work.add_beside_places("a", [&] { done += "3"; }, {}, {});
  work.fill("a", second, [&] { done += "2"; }, {}, {});
  while (!posted.waiting.empty()) posted.next();
  EXPECT_EQ(done, "");
  work.give_up("a", first);
  while (!posted.waiting.empty()) posted.next();
  EXPECT_EQ(done, "23");
  EXPECT_FALSE(work.has("a"));
}

TEST(AppendOrder, WorkIsDoneOrCancelledNeverBoth) {
  Posted posted;
  OrderedWork work = posted.work();
  std::string done;
  std::stop_source first, second, early;
  early.request_stop();
  work.add("a", [&] { done += "1"; }, first.get_token(), [&] { done += "x"; });
  auto captured = std::make_shared<int>();
  work.add("a", [&, captured] { done += "2"; }, second.get_token(), [&] { done += "y"; });
  work.add("a", [&] { done += "3"; }, early.get_token(), [&] { done += "z"; });
  work.add("a", [&] { done += "4"; });
  EXPECT_EQ(done, "z");
  posted.next();
  first.request_stop();
  second.request_stop();
  EXPECT_EQ(captured.use_count(), 1);
  EXPECT_EQ(done, "z1y");
  while (!posted.waiting.empty()) posted.next();
  EXPECT_EQ(done, "z1y4");
  EXPECT_FALSE(work.has("a"));
}

}  // namespace
}  // namespace verbena::client
