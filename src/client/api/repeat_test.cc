// A change that may have happened at one door is not repeated at the next: a server whose native door hangs, with its
// S3 port apart.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <future>

#include "client/http/s3_xml.h"
#include "client/native/test_server.h"
#include "client/testing/scripted_client.h"
#include "verbena/client.h"

namespace verbena::client {
namespace {

using namespace std::chrono_literals;

class Repeat : public testing::Test {
 protected:
  void SetUp() override {
    native_.store.put("bucket", "k", "bytes");
    native_.store.is_hot = [this](std::string_view key) {
      if (key == "stuck") {
        is_stuck_.set_value();
        let_go_.get_future().wait();
      }
      return false;
    };
    ClientOptions options;
    options.endpoint = http_.url();
    options.native_endpoint = "127.0.0.1:" + std::to_string(native_.port);
    options.access_key = "AKROOT";
    options.secret_key = "secret/root";
    options.provider = "local";
    options.operation_timeout = 300ms;
    options.attempts_max = 3;
    auto connected = Client::connect(options);
    ASSERT_TRUE(connected) << connected.error().message;
    client_.emplace(std::move(*connected));
    const auto info = client_->head("bucket", "k");  // opens the session
    ASSERT_TRUE(info) << info.error().message;
    ASSERT_TRUE(http_.requests().empty());
    // The server's only core answers no client while this is read.
    session_ = native_.session();
    ASSERT_TRUE(session_);
    reader_ = std::async(std::launch::async, [this] {
      std::string into(10, '\0');
      NativeGet request;
      request.bucket = "bucket";
      request.key = "stuck";
      request.into = std::as_writable_bytes(std::span(into.data(), into.size()));
      return session_->get(request).has_value();
    });
    is_stuck_.get_future().wait();
  }
  void TearDown() override {
    if (!reader_.valid()) return;
    let_go_.set_value();
    EXPECT_FALSE(reader_.get());  // there is no such object
    client_.reset();
    session_.reset();
  }
  size_t deletes() const {
    return static_cast<size_t>(std::ranges::count_if(
        http_.requests(), [](const net::ScriptedRequest& request) { return request.head.starts_with("DELETE"); }));
  }

  std::promise<void> is_stuck_, let_go_;
  NativeTestServer native_{{.cores = 1}};
  net::ScriptedServer http_{[](const net::ScriptedRequest&, int) { return net::http_reply(204, "", ""); }};
  std::optional<Client> client_;
  std::unique_ptr<NativeSession> session_;
  std::future<bool> reader_;
};

TEST_F(Repeat, ARemoveWithoutAnAnswerIsNotMadeAgainByHttp) {
  const auto removed = client_->remove("bucket", "k");
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, ErrorCode::timed_out) << removed.error().message;
  EXPECT_EQ(deletes(), 0u);
}

// Whatever is tried afterwards: the first door may have stored it.
TEST_F(Repeat, APutWithoutAnAnswerIsNeverSaidNotToHaveBeenSent) {
  http_.refuse();
  const auto put = client_->put("bucket", "p", as_bytes("bytes"));
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::outcome_unknown) << put.error().message;
  const auto read = client_->head("bucket", "k");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::connection_failed) << read.error().message;
}

TEST_F(Repeat, ABatchOfRemovesWithoutAnAnswerIsNotMadeAgainByHttp) {
  const BatchItem items[] = {{.bucket = "bucket", .key = "k"}, {.bucket = "bucket", .key = "l"}};
  BatchResult results[2];
  const auto removed = client_->remove_many(items, results);
  ASSERT_FALSE(removed);
  EXPECT_EQ(results[0].error, ErrorCode::timed_out);
  EXPECT_EQ(results[1].error, ErrorCode::timed_out);
  EXPECT_EQ(deletes(), 0u);
}

// The first attempt was made when the server came to it, over what had been stored since.
TEST_F(Repeat, APutThatWentByHttpIsNotMadeByTheNativeDoorWhenItsServerGoesOn) {
  const auto put = client_->put("bucket", "p", as_bytes("bytes"));
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(put->transfer.door, Via::http);
  let_go_.set_value();
  EXPECT_FALSE(reader_.get());
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(session_->ping());  // by then it has looked at each of its links
  EXPECT_FALSE(native_.store.contains("bucket", "p"));
}

// The rule applies to one door only: a repeatable request goes on by HTTP.
TEST_F(Repeat, AHeadWithoutAnAnswerIsAskedAgainByHttp) {
  (void)client_->head("bucket", "k");
  EXPECT_FALSE(http_.requests().empty());
}

// A directory bucket's server: `ends` answers report an expired session.
std::string in_directory(const net::ScriptedRequest& request, std::string_view code_of_first) {
  static std::atomic<int> serial{0};
  if (request.has("?session")) {
    const std::string number = std::to_string(++serial);
    return net::http_reply(200, "",
                           "<CreateSessionResult><Credentials><SessionToken>token" + number +
                               "</SessionToken><SecretAccessKey>s</SecretAccessKey><AccessKeyId>ASIA" + number +
                               "</AccessKeyId></Credentials></CreateSessionResult>");
  }
  static std::atomic<int> asked{0};
  if (!code_of_first.empty() && asked++ == 0) {
    return net::http_reply(400, "", "<Error><Code>" + std::string(code_of_first) + "</Code></Error>");
  }
  return net::http_reply(204, "", "");
}

Client http_client(const net::ScriptedServer& server) {
  ClientOptions options = http_options(server);
  options.attempts_max = 1;
  return *Client::connect(options);
}

TEST(BrokenOff, APutThatIsRefusedTheSecondTimeMayHaveHappenedTheFirst) {
  net::ScriptedServer server([](const net::ScriptedRequest&, int number) {
    if (number == 0) return net::http_reply(200, "", "");
    return number == 1 ? std::string() : net::http_reply(503, "", "<Error><Code>SlowDown</Code></Error>");
  });
  const Client client = http_client(server);
  ASSERT_TRUE(client.put("bucket", "k", as_bytes("1")));
  const auto broken = client.put("bucket", "k", as_bytes("2"));
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ErrorCode::outcome_unknown) << broken.error().message;
  const auto refused = client.put("bucket", "k", as_bytes("3"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::slow_down) << refused.error().message;
}

// The native door refuses an object of more than 5 GiB, and nothing else was tried.
TEST(LargePuts, GoInPartsWhereTheNativeDoorTakesOnlySmallerOnes) {
  NativeTestServer native({.cores = 1});
  net::ScriptedServer http([](const net::ScriptedRequest&, int) {
    return net::http_reply(403, "", "<Error><Code>AccessDenied</Code></Error>");
  });
  ClientOptions options = http_options(http);
  options.native_endpoint = "127.0.0.1:" + std::to_string(native.port);
  options.provider = "local";
  options.via = Via::automatic;
  const auto client = Client::connect(options);
  ASSERT_TRUE(client) << client.error().message;
  ASSERT_EQ(client->preferred(1), Via::native);
  constexpr size_t size = 5 * GiB + 1;
  void* const bytes = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(bytes, MAP_FAILED);
  const auto put = client->put("bucket", "k", std::span(static_cast<const std::byte*>(bytes), size));
  const auto memory = client->register_memory(bytes, size);
  ASSERT_TRUE(memory);
  const auto later = client->put_async("bucket", "k", *memory).get();
  ::munmap(bytes, size);
  ASSERT_FALSE(put || later);
  EXPECT_EQ(put.error().code, ErrorCode::access_denied) << put.error().message;
  EXPECT_EQ(later.error().code, ErrorCode::access_denied) << later.error().message;
  for (const auto& request : http.requests())
    EXPECT_TRUE(request.head.starts_with("POST /bucket/k?uploads")) << request.head;
  EXPECT_EQ(http.requests().size(), 2u);
}

constexpr const char* directory = "b--z1--x-s3";

TEST(BucketSessions, SignWhatIsAboutObjectsOfADirectoryBucket) {
  net::ScriptedServer server([](const net::ScriptedRequest& request, int) { return in_directory(request, ""); });
  const Client client = http_client(server);
  ASSERT_TRUE(client.remove(directory, "k"));
  ASSERT_TRUE(client.remove(directory, "k"));
  ASSERT_TRUE(client.remove("general", "k"));
  ASSERT_TRUE(client.remove_bucket(directory));
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 5u);
  EXPECT_TRUE(requests[0].has("GET /b--z1--x-s3?session")) << requests[0].head;
  EXPECT_TRUE(requests[0].has("Credential=AKROOT/"));
  for (const size_t i : {1, 2}) {
    EXPECT_TRUE(requests[i].has("Credential=ASIA") && requests[i].has("/s3express/aws4_request")) << requests[i].head;
    EXPECT_TRUE(requests[i].has("x-amz-s3session-token: token")) << "one session for both";
  }
  for (const size_t i : {3, 4}) {
    EXPECT_TRUE(requests[i].has("Credential=AKROOT/") && requests[i].has("/s3/aws4_request")) << requests[i].head;
    EXPECT_FALSE(requests[i].has("session-token"));
  }
}

TEST(BucketSessions, AreOpenedAnewWhenTheServerTakesThemNoMore) {
  net::ScriptedServer server(
      [](const net::ScriptedRequest& request, int) { return in_directory(request, "ExpiredToken"); });
  const Client client = http_client(server);
  const auto removed = client.remove(directory, "k");
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(server.requests().size(), 4u) << "a session, an error, a session, and again";
}

TEST(BucketSessions, WithoutOneTheLastingKeysSign) {
  net::ScriptedServer server([](const net::ScriptedRequest& request, int) {
    if (request.has("?session")) return net::http_reply(501, "", "<Error><Code>NotImplemented</Code></Error>");
    return net::http_reply(204, "", "");
  });
  const Client client = http_client(server);
  ASSERT_TRUE(client.remove(directory, "k"));
  ASSERT_TRUE(client.remove(directory, "k"));
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 3u) << "asked for once";
  EXPECT_TRUE(requests[2].has("Credential=AKROOT/"));
}

// One bucket's stuck CreateSession held the calls to all, cancelled ones too.
TEST(BucketSessions, ThatOneBucketWaitsForHoldUpNoOtherAndNobodyWhoIsCancelled) {
  std::promise<void> let_go;
  auto until = let_go.get_future().share();
  std::atomic<bool> asked{false};
  net::ScriptedServer server([&](const net::ScriptedRequest& request, int) {
    if (request.has("GET /stuck--z1--x-s3?session")) {
      asked = true;
      until.wait();
    }
    return in_directory(request, "");
  });
  const Client client = http_client(server);
  auto first = std::async(std::launch::async, [&] { return client.remove("stuck--z1--x-s3", "k").has_value(); });
  while (!asked) std::this_thread::sleep_for(1ms);
  auto other = std::async(std::launch::async, [&] { return client.remove(directory, "k").has_value(); });
  EXPECT_EQ(other.wait_for(20s), std::future_status::ready);
  std::stop_source stop;
  auto second = std::async(std::launch::async, [&]() -> std::optional<ErrorCode> {
    RemoveOptions options;
    options.cancel = stop.get_token();
    const auto removed = client.remove("stuck--z1--x-s3", "k", options);
    return removed ? std::nullopt : std::optional(removed.error().code);
  });
  EXPECT_EQ(second.wait_for(100ms), std::future_status::timeout);
  stop.request_stop();
  EXPECT_EQ(second.wait_for(20s), std::future_status::ready);
  let_go.set_value();
  EXPECT_EQ(second.get(), ErrorCode::cancelled);
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(other.get());
}

// The long-term keys signed for a minute, as if the server had no sessions.
TEST(BucketSessions, ACancelledOneSaysNothingAboutTheServer) {
  std::stop_source stop;
  net::ScriptedServer server([&](const net::ScriptedRequest& request, int number) {
    if (number == 0) {
      stop.request_stop();
      return std::string();
    }
    return in_directory(request, "");
  });
  const Client client = http_client(server);
  RemoveOptions options;
  options.cancel = stop.get_token();
  const auto removed = client.remove(directory, "k", options);
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, ErrorCode::cancelled);
  ASSERT_TRUE(client.remove(directory, "k"));
  EXPECT_TRUE(server.requests().back().has("x-amz-s3session-token: token"));
}

TEST(BucketSessions, WhatIsNoAnswerToCreateSessionIsNotSentOn) {
  const auto made = [](std::string_view token) {
    return "<CreateSessionResult><Credentials><SessionToken>" + std::string(token) +
           "</SessionToken><SecretAccessKey>s</SecretAccessKey><AccessKeyId>A</AccessKeyId></Credentials>"
           "</CreateSessionResult>";
  };
  EXPECT_TRUE(parse_session_xml(made("abc")));
  for (const std::string& bad :
       {std::string(), std::string("a&#13;&#10;x-evil: 1"), std::string("a b"), std::string(20'000, 'x')}) {
    EXPECT_FALSE(parse_session_xml(made(bad))) << bad.substr(0, 20);
  }
  EXPECT_FALSE(parse_session_xml("<CreateSessionResult/>"));
  EXPECT_FALSE(parse_session_xml("no XML"));
}

}  // namespace
}  // namespace verbena::client
