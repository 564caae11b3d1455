// Appends without waiting, by a client to a native door: they share messages, and each has its own outcome.
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <thread>

#include "base/metrics.h"
#include "client/native/test_server.h"
#include "net/testing/scripted_server.h"
#include "verbena/client.h"

namespace verbena::client {
namespace {

constexpr const char* log_bucket = "logs--local1-az1--x-s3";

class AppendAsync : public testing::TestWithParam<const char*> {
 protected:
  using Reply = std::future<Outcome<PutReply>>;

  void SetUp() override {
    native_.make_directory_bucket(log_bucket);
    ClientOptions options;
    options.endpoint = http_.url();
    options.native_endpoint = "127.0.0.1:" + std::to_string(native_.port);
    options.access_key = "AKROOT";
    options.secret_key = "secret/root";
    options.via = Via::native;
    options.async_threads = async_threads;
    auto connected = Client::connect(options);
    ASSERT_TRUE(connected) << connected.error().message;
    client_.emplace(std::move(*connected));
  }
  // The bytes may be reused when this returns: the buffer has a copy.
  Reply append(std::string_view text, PutOptions options) {
    auto buffer = client_->allocate(text.size());
    EXPECT_TRUE(buffer);
    std::memcpy(buffer->data(), text.data(), text.size());
    return client_->put_async(log_bucket, "log", *buffer, std::move(options));
  }
  Reply append(std::string_view text, uint64_t at) { return append(text, PutOptions{.append_at = at}); }
  std::string log() const {
    std::string into(1 << 20, '\0');
    const auto got = client_->get(log_bucket, "log", std::as_writable_bytes(std::span(into.data(), into.size())));
    if (!got) return got.error().message;
    into.resize(got->bytes);
    return into;
  }
  static uint64_t messages() {
    return metrics::counter("verbena_native_requests_total", "", {{"type", "append"}}).value();
  }
  static std::string record(size_t number) {
    std::string text = std::to_string(number);
    text.resize(200, '.');
    return text;
  }

  static constexpr unsigned async_threads = 2;
  NativeTestServer native_{{.provider = GetParam()}};
  net::ScriptedServer http_{[](const net::ScriptedRequest&, int) { return net::http_reply(500, "", ""); }};
  std::optional<Client> client_;
};

TEST_P(AppendAsync, ManyInFlightAreFewMessagesAndEachKnowsWhereItLies) {
  constexpr size_t count = 1'000;
  const uint64_t before = messages();
  std::string whole;
  std::vector<Reply> replies;
  for (size_t i = 0; i < count; ++i) {
    replies.push_back(append(record(i), whole.size()));
    whole += record(i);
  }
  for (size_t i = 0; i < count; ++i) {
    const auto reply = replies[i].get();
    ASSERT_TRUE(reply) << i << " " << reply.error().message;
    EXPECT_EQ(reply->object_size, (i + 1) * 200);
    EXPECT_EQ(reply->transfer.bytes, 200u);
    EXPECT_EQ(reply->transfer.door, Via::native);
    EXPECT_FALSE(reply->etag.empty());
  }
  EXPECT_EQ(log(), whole);
  EXPECT_LT(messages() - before, count / 4);
}

TEST_P(AppendAsync, WhatSaysMoreOfItselfKeepsItsPlaceBetweenTheOthers) {
  std::vector<Reply> replies;
  std::string whole;
  const auto add = [&](PutOptions options) {
    const std::string text = record(replies.size());
    options.append_at = whole.size();
    replies.push_back(append(text, std::move(options)));
    whole += text;
  };
  std::stop_source stop;
  for (size_t i = 0; i < 120; ++i) {
    switch (i % 12) {
      case 5: {
        Digest digest(Algorithm::crc32c);
        digest.update(as_bytes(record(i)));
        add({.checksum = "CRC32C:" + to_base64(as_bytes(digest.finish()))});
        break;
      }
      case 7:  // which alone does not keep a call out of a message
        add({.cancel = stop.get_token()});
        break;
      case 9:
        add({.describe = true});
        break;
      case 11: {  // and a synchronous one
        const std::string text = record(replies.size());
        const auto now = client_->put(log_bucket, "log", as_bytes(text), {.append_at = whole.size()});
        ASSERT_TRUE(now) << now.error().message;
        whole += text;
        std::promise<Outcome<PutReply>> done;
        done.set_value(*now);
        replies.push_back(done.get_future());
        break;
      }
      default:
        add({});
    }
  }
  for (size_t i = 0; i < replies.size(); ++i) {
    const auto reply = replies[i].get();
    ASSERT_TRUE(reply) << i << " " << reply.error().message;
    EXPECT_EQ(reply->object_size, (i + 1) * 200);
    if (i % 12 == 9 && GetParam() == std::string_view("tcp")) {
      EXPECT_TRUE(reply->headers.contains("x-amz-checksum-crc32c")) << i;
    }
  }
  EXPECT_EQ(log(), whole);
}

TEST_P(AppendAsync, OneThatIsWrongIsRefusedAlone) {
  std::vector<Reply> replies;
  std::string whole;
  for (size_t i = 0; i < 60; ++i) {
    if (i % 20 == 13) {
      replies.push_back(append(record(i), 1));
    } else if (i % 20 == 17) {
      replies.push_back(append(record(i), {.checksum = "CRC32C:AAAAAA==", .append_at = whole.size()}));
    } else {
      replies.push_back(append(record(i), whole.size()));
      whole += record(i);
    }
  }
  for (size_t i = 0; i < replies.size(); ++i) {
    const auto reply = replies[i].get();
    const std::string code = reply ? "" : reply.error().s3_code;
    EXPECT_EQ(code, i % 20 == 13 ? "InvalidWriteOffset" : i % 20 == 17 ? "BadDigest" : "") << i;
  }
  EXPECT_EQ(log(), whole);
}

TEST_P(AppendAsync, WhatCanBeCancelledSharesMessagesAndIsAnsweredOnceWhoeverIsFirst) {
  constexpr size_t count = 1'000;
  const uint64_t before = messages();
  std::vector<std::stop_source> stops(count);
  std::vector<Reply> replies;
  {
    std::jthread cancelling([&] {
      for (size_t i = 0; i < count; i += 7) stops[i].request_stop();
    });
    for (size_t i = 0; i < count; ++i) {
      replies.push_back(append(record(i), {.append_at = append_at_end, .cancel = stops[i].get_token()}));
    }
  }
  std::map<uint64_t, size_t> places;
  for (size_t i = 0; i < count; ++i) {
    const auto reply = replies[i].get();
    if (i % 7 != 0) {
      ASSERT_TRUE(reply) << i << " " << reply.error().message;
    }
    if (reply) {
      places[reply->object_size - 200] = i;
    } else {
      EXPECT_EQ(reply.error().code, ErrorCode::cancelled);
    }
  }
  const std::string whole = log();
  for (const auto& [at, i] : places) ASSERT_EQ(whole.substr(at, 200), record(i));
  EXPECT_LT(messages() - before, count / 4);
}

// Records are identified by the offsets in their answers.
TEST_P(AppendAsync, PutsAndRemovalsInBetweenLeaveWholeRecords) {
  std::vector<Reply> replies;
  const auto empty = client_->allocate(1);
  for (size_t i = 0; i < 600; ++i) {
    if (i % 97 == 50) {
      EXPECT_TRUE(client_->remove(log_bucket, "log"));
    } else if (i % 97 == 80) {
      EXPECT_TRUE(client_->put(log_bucket, "log", as_bytes(record(i))));
    }
    replies.push_back(append(record(i), append_at_end));
  }
  for (Reply& one : replies) {
    const auto reply = one.get();
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(reply->object_size % 200, 0u);
  }
  const std::string whole = log();
  ASSERT_EQ(whole.size() % 200, 0u);
  for (size_t at = 0; at < whole.size(); at += 200) {
    const std::string text = whole.substr(at, 200);
    EXPECT_EQ(text, record(std::stoul(text)));
  }
  EXPECT_TRUE(whole.ends_with(record(599)));
}

TEST_P(AppendAsync, AClientThatGoesAnswersAll) {
  std::atomic<size_t> answered{0};
  std::atomic<uint64_t> acknowledged{0};
  auto buffer = client_->allocate(200);
  std::memcpy(buffer->data(), record(1).data(), 200);
  for (size_t i = 0; i < 500; ++i) {
    client_->put_async(log_bucket, "log", *buffer, {.append_at = append_at_end}, [&](Outcome<PutReply> reply) {
      if (reply) acknowledged += 200;
      ++answered;
    });
  }
  buffer = Buffer();
  client_.reset();
  EXPECT_EQ(answered, 500u);
  auto there = native_.session();
  NativeGet head;
  head.bucket = log_bucket;
  head.key = "log";
  const auto object = there->head(head);
  EXPECT_GE(object ? object->object_size : 0, acknowledged.load());
}

TEST_P(AppendAsync, ACompletionMayLetGoOfTheClient) {
  std::atomic<size_t> answered{0};
  std::promise<void> all_added;
  const std::shared_future<void> added = all_added.get_future();
  auto buffer = client_->allocate(200);
  std::memcpy(buffer->data(), record(1).data(), 200);
  for (size_t i = 0; i < 100; ++i) {
    client_->put_async(log_bucket, "log", *buffer, {.append_at = append_at_end}, [&, i](Outcome<PutReply>) {
      added.wait();
      if (i == 30) client_.reset();
      ++answered;
      answered.notify_all();
    });
  }
  buffer = Buffer();
  all_added.set_value();
  for (size_t n = answered; n < 100; n = answered) answered.wait(n);
}

// As many as there are completion threads: the appends that they wait for are sent and completed by other threads.
TEST_P(AppendAsync, CompletionsMayWaitForAppendsOfTheirKey) {
  auto buffer = client_->allocate(200);
  ASSERT_TRUE(buffer);
  std::memcpy(buffer->data(), record(1).data(), 200);
  std::atomic<int> ended{0};
  for (unsigned i = 0; i < async_threads; ++i) {
    client_->put_async(log_bucket, "log", *buffer, {.append_at = append_at_end}, [&](Outcome<PutReply> outcome) {
      EXPECT_TRUE(outcome);
      std::vector<Reply> more;
      for (int n = 0; n < 20; ++n) {
        more.push_back(client_->put_async(log_bucket, "log", *buffer, PutOptions{.append_at = append_at_end}));
      }
      for (Reply& one : more) EXPECT_TRUE(one.get());
      ++ended;
      ended.notify_all();
    });
  }
  for (int n = ended; n < static_cast<int>(async_threads); n = ended) ended.wait(n);
  EXPECT_EQ(log().size(), 21 * async_threads * 200u);
}

INSTANTIATE_TEST_SUITE_P(Provider, AppendAsync, testing::Values("local", "tcp"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace verbena::client
