// The client's behaviour when a door breaks its contract: scripted servers.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

#include "base/checksum.h"
#include "client/api/client_impl.h"
#include "client/http/object_headers.h"
#include "net/testing/scripted_server.h"
#include "verbena/client.h"

namespace verbena {
namespace {

using net::http_reply;
using net::ScriptedRequest;
using net::ScriptedServer;

// A port without a listener.
uint16_t closed_port() {
  ScriptedServer server([](const ScriptedRequest&, int) { return std::string(); });
  return server.port();
}

ClientOptions options_for(const ScriptedServer& server, Via via = Via::automatic) {
  ClientOptions options;
  options.endpoint = server.url();
  options.native_endpoint = "127.0.0.1:" + std::to_string(closed_port());
  options.access_key = "AKIDEXAMPLE";
  options.secret_key = "secret";
  options.via = via;
  options.provider = "tcp";  // of tokens, since this machine has no device
  options.token_size_min = 1;
  options.attempts_max = 2;
  return options;
}

std::string crc_of(std::string_view text) { return client::crc32c_base64(crc32c(as_bytes(text))); }
std::span<const std::byte> bytes_of(std::string_view text) { return as_bytes(text); }

TEST(Fallback, APutIsSentAgainWithItsBodyWhenTheServerDoesNotKnowTokens) {
  // Such a server stores an empty object and answers 200 with an ETag.
  ScriptedServer server([](const ScriptedRequest&, int) { return http_reply(200, "etag: \"e\"\r\n", ""); });
  auto client = Client::connect(options_for(server));
  ASSERT_TRUE(client) << client.error().message;
  auto put = client->put("b", "k", bytes_of("payload"));
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(put->transfer.door, Via::http);
  EXPECT_NE(put->transfer.fell_back_reason.find("native"), std::string::npos) << put->transfer.fell_back_reason;
  EXPECT_NE(put->transfer.fell_back_reason.find("does not know tokens"), std::string::npos);
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_TRUE(requests[0].has("x-amz-rdma-token: "));
  EXPECT_TRUE(requests[0].has("content-length: 0\r\n"));
  EXPECT_TRUE(requests[0].has("x-amz-content-sha256: UNSIGNED-PAYLOAD"));
  EXPECT_TRUE(requests[0].has(";x-amz-rdma-token")) << "the token must be signed";
  EXPECT_FALSE(requests[1].has("x-amz-rdma-token"));
  EXPECT_EQ(requests[1].body, "payload");

  // And no token is sent to it again.
  ASSERT_TRUE(client->put("b", "k", bytes_of("payload")));
  EXPECT_EQ(server.requests().size(), 3u);
}

TEST(Fallback, APutIsDoneByTokenOnlyWithTheMatchingChecksum) {
  std::string checksum = "wrong===";
  ScriptedServer server([&](const ScriptedRequest& request, int) {
    if (!request.has("x-amz-rdma-token")) return http_reply(200, "etag: \"h\"\r\n", "");
    return http_reply(200, "etag: \"t\"\r\nx-amz-rdma-reply: 200\r\nx-amz-checksum-crc32c: " + checksum + "\r\n", "");
  });
  auto client = Client::connect(options_for(server));
  ASSERT_TRUE(client);
  auto put = client->put("b", "k", bytes_of("payload"));
  ASSERT_TRUE(put);
  EXPECT_EQ(put->transfer.door, Via::http);
  EXPECT_EQ(put->etag, "h");

  checksum = crc_of("payload");
  auto second = Client::connect(options_for(server));
  ASSERT_TRUE(second);
  put = second->put("b", "k", bytes_of("payload"));
  ASSERT_TRUE(put);
  EXPECT_EQ(put->transfer.door, Via::token);
  EXPECT_EQ(put->transfer.provider, "tcp");
  EXPECT_EQ(put->transfer.bytes, 7u);
  EXPECT_EQ(put->etag, "t");
}

// The checksum of the bytes at hand was sent in its place, and bytes that were wrong already were stored.
TEST(Fallback, AChecksumThatTheCallerGivesGoesByTokenToo) {
  ScriptedServer server([](const ScriptedRequest& request, int) {
    const std::string right = crc_of("payload");
    if (!request.has("x-amz-checksum-crc32c: " + right)) {
      return http_reply(400, "", "<Error><Code>BadDigest</Code></Error>");
    }
    return http_reply(200, "etag: \"t\"\r\nx-amz-rdma-reply: 200\r\nx-amz-checksum-crc32c: " + right + "\r\n", "");
  });
  for (const Via via : {Via::token, Via::automatic}) {
    auto client = Client::connect(options_for(server, via));
    ASSERT_TRUE(client);
    PutOptions options;
    options.checksum = "CRC32C:AAAAAA==";
    auto put = client->put("b", "k", bytes_of("payload"), options);
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, ErrorCode::checksum_mismatch) << put.error().message;
    EXPECT_TRUE(server.requests().back().has("x-amz-rdma-token: "));
    EXPECT_TRUE(server.requests().back().has("x-amz-checksum-crc32c: AAAAAA=="));
    options.checksum = "CRC32C:" + crc_of("payload");
    put = client->put("b", "k", bytes_of("payload"), options);
    ASSERT_TRUE(put) << put.error().message;
    EXPECT_EQ(put->transfer.door, Via::token);
  }
}

// A writer goes on at the size that the reply named.
TEST(Fallback, AnAppendByTokenTellsTheObjectsSize) {
  ScriptedServer server([](const ScriptedRequest& request, int) {
    const std::string size = request.has("x-amz-write-offset-bytes: 7") ? "x-amz-object-size: 14\r\n" : "";
    return http_reply(
        200, size + "etag: \"t\"\r\nx-amz-rdma-reply: 200\r\nx-amz-checksum-crc32c: " + crc_of("payload") + "\r\n", "");
  });
  auto client = Client::connect(options_for(server));
  ASSERT_TRUE(client);
  ASSERT_TRUE(client->put("b", "k", bytes_of("payload")));
  PutOptions options;
  options.append_at = 7;
  const auto put = client->put("b", "k", bytes_of("payload"), options);
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(put->transfer.door, Via::token);
  EXPECT_EQ(put->object_size, 14u);
}

TEST(Fallback, ADeclinedPutIsSentWithItsBody) {
  for (const int status : {200, 501}) {
    ScriptedServer server([status](const ScriptedRequest& request, int) {
      if (!request.has("x-amz-rdma-token")) return http_reply(200, "etag: \"h\"\r\n", "");
      return http_reply(status, "x-amz-rdma-reply: 501\r\nx-verbena-rdma-declined: because\r\n",
                        "<Error><Code>RDMANotSupported</Code></Error>");
    });
    auto client = Client::connect(options_for(server));
    ASSERT_TRUE(client);
    auto put = client->put("b", "k", bytes_of("payload"));
    ASSERT_TRUE(put);
    EXPECT_EQ(put->transfer.door, Via::http);
    EXPECT_NE(put->transfer.fell_back_reason.find("declined the token"), std::string::npos);
    EXPECT_NE(put->transfer.fell_back_reason.find("(because)"), std::string::npos);
    EXPECT_EQ(server.requests().size(), 2u);
    EXPECT_EQ(server.requests().back().body, "payload");
  }
}

TEST(Fallback, AskedForTokenAloneADeclineIsAnError) {
  ScriptedServer server(
      [](const ScriptedRequest&, int) { return http_reply(200, "x-amz-rdma-reply: 501\r\n", "body"); });
  auto client = Client::connect(options_for(server, Via::token));
  ASSERT_TRUE(client) << client.error().message;
  auto put = client->put("b", "k", bytes_of("payload"));
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::unsupported);
  std::byte memory[16];
  auto got = client->get("b", "k", std::span(memory));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::unsupported);
}

TEST(Fallback, AConditionalPutIsNoGuineaPigForAnUnknownServer) {
  ScriptedServer server([](const ScriptedRequest&, int) { return http_reply(200, "etag: \"e\"\r\n", ""); });
  auto client = Client::connect(options_for(server));
  ASSERT_TRUE(client);
  PutOptions options;
  options.if_none_match = "*";
  auto put = client->put("b", "k", bytes_of("payload"), options);
  ASSERT_TRUE(put);
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_FALSE(server.requests()[0].has("x-amz-rdma-token"));
}

// The body would fail a condition that the first request has changed, or be appended a second time.
TEST(Fallback, AConditionalPutByTokenWhoseSuccessCannotBeTrustedIsNotMadeAgain) {
  for (const char* const said : {"", "x-amz-rdma-reply: 200\r\n"}) {
    ScriptedServer server([&](const ScriptedRequest& request, int number) {
      if (!request.has("x-amz-rdma-token"))
        return http_reply(412, "", "<Error><Code>PreconditionFailed</Code></Error>");
      if (number != 0) return http_reply(200, said, "");
      return http_reply(200, "x-amz-rdma-reply: 200\r\nx-amz-checksum-crc32c: " + crc_of("payload") + "\r\n", "");
    });
    auto client = Client::connect(options_for(server));
    ASSERT_TRUE(client);
    ASSERT_TRUE(client->put("b", "k", bytes_of("payload")));
    PutOptions options;
    if (*said == '\0') options.if_none_match = "*";
    if (*said != '\0') options.append_at = 7;
    const auto put = client->put("b", "k", bytes_of("payload"), options);
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, ErrorCode::outcome_unknown) << put.error().message;
    EXPECT_EQ(server.requests().size(), 2u);
  }
}

TEST(Fallback, APartByTokenThatMayHaveArrivedIsNotDeniedByTheBodysRefusal) {
  ScriptedServer server([](const ScriptedRequest& request, int) {
    if (request.has("x-amz-rdma-token")) return std::string();
    return http_reply(503, "", "<Error><Code>SlowDown</Code></Error>");
  });
  auto client = Client::connect(options_for(server));
  ASSERT_TRUE(client);
  const client::UploadPart part{.bucket = "b",
                                .key = "k",
                                .upload_id = "u",
                                .number = 1,
                                .from = bytes_of("payload"),
                                .checksum = {Algorithm::crc32c, crc_of("payload")}};
  const auto put = Client::Inside::impl(*client).put_part(part);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::outcome_unknown) << put.error().message;
}

TEST(Fallback, ADeclinedGetUsesTheBody) {
  ScriptedServer server([](const ScriptedRequest&, int) {
    return http_reply(200, "x-amz-rdma-reply: 501\r\nx-amz-checksum-crc32c: " + crc_of("the body") + "\r\n",
                      "the body");
  });
  auto client = Client::connect(options_for(server));
  ASSERT_TRUE(client);
  std::byte memory[64];
  auto got = client->get("b", "k", std::span(memory));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.door, Via::http);
  EXPECT_EQ(got->bytes, 8u);
  EXPECT_EQ(as_text(Bytes(memory).first(8)), "the body");
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(Fallback, ATokenGetThatDoesNotSayHowMuchIsNotBelieved) {
  ScriptedServer server([](const ScriptedRequest& request, int) {
    if (!request.has("x-amz-rdma-token")) return http_reply(200, "", "by http");
    return http_reply(200, "x-amz-rdma-reply: 200\r\n", "");
  });
  auto client = Client::connect(options_for(server));
  ASSERT_TRUE(client);
  std::byte memory[64];
  auto got = client->get("b", "k", std::span(memory));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->transfer.door, Via::http);
  EXPECT_EQ(got->bytes, 7u);
}

TEST(Fallback, ATokenGetThatClaimsBytesItDidNotMoveFailsItsChecksum) {
  ScriptedServer server([](const ScriptedRequest&, int) {
    return http_reply(200,
                      "x-amz-rdma-reply: 200\r\nx-amz-rdma-bytes-transferred: 8\r\nx-amz-checksum-crc32c: " +
                          crc_of("the body") + "\r\n",
                      "");
  });
  auto client = Client::connect(options_for(server));
  ASSERT_TRUE(client);
  std::byte memory[64] = {};
  auto got = client->get("b", "k", std::span(memory));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::checksum_mismatch);
}

TEST(Fallback, BytesThatDoNotMatchTheirChecksumAreAnError) {
  ScriptedServer server([](const ScriptedRequest&, int) {
    return http_reply(200, "x-amz-checksum-crc32c: " + crc_of("something else") + "\r\n", "the body");
  });
  auto client = Client::connect(options_for(server, Via::http));
  ASSERT_TRUE(client);
  std::byte memory[64];
  auto got = client->get("b", "k", std::span(memory));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::checksum_mismatch);
}

// It took whatever came.
TEST(Fallback, ABatchItemOfAVersionIsCheckedLikeAGet) {
  ScriptedServer server([](const ScriptedRequest& request, int) {
    if (request.has("range: ")) return http_reply(200, "", "the body");  // a proxy that knows no ranges
    return http_reply(200, "x-amz-checksum-crc32c: " + crc_of("something else") + "\r\n", "the body");
  });
  auto client = Client::connect(options_for(server, Via::http));
  ASSERT_TRUE(client);
  const std::vector<Buffer> memory{client->allocate(64).value()};
  std::vector<BatchItem> items(2);
  for (BatchItem& item : items) item.bucket = "b", item.key = "k", item.version_id = "v", item.size = 16;
  items[1].offset = 32;
  items[1].range = Range{5, 3};
  std::vector<BatchResult> results(2);
  ASSERT_TRUE(client->get_many(items, memory, results));
  EXPECT_EQ(results[0].error, ErrorCode::checksum_mismatch);
  EXPECT_EQ(results[1].error, ErrorCode::malformed_reply);
  for (const ScriptedRequest& request : server.requests()) EXPECT_TRUE(request.has("versionId=v"));
}

TEST(Fallback, AnOverloadedServerIsAskedAgain) {
  ScriptedServer server([](const ScriptedRequest&, int number) {
    return number == 0 ? http_reply(503, "", "<Error><Code>SlowDown</Code></Error>") : http_reply(200, "", "ok");
  });
  auto client = Client::connect(options_for(server, Via::http));
  ASSERT_TRUE(client);
  std::byte memory[8];
  auto got = client->get("b", "k", std::span(memory));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->transfer.attempts, 2u);
}

TEST(Fallback, AConditionalPutIsNotRepeatedAfterABrokenConnection) {
  ScriptedServer server([](const ScriptedRequest&, int) { return std::string(); });
  auto client = Client::connect(options_for(server, Via::http));
  ASSERT_TRUE(client);
  PutOptions options;
  options.if_none_match = "*";
  auto put = client->put("b", "k", bytes_of("payload"), options);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::outcome_unknown);
  EXPECT_EQ(server.requests().size(), 1u);

  put = client->put("b", "k", bytes_of("payload"));
  ASSERT_FALSE(put);
  EXPECT_EQ(server.requests().size(), 3u) << "without a condition twice is as good as once";
}

TEST(Fallback, ARemoveThatMayHaveHappenedIsNotRepeated) {
  ScriptedServer server([](const ScriptedRequest&, int number) {
    return number == 0 ? http_reply(200, "", "<ListBucketResult/>") : std::string();
  });
  auto client = Client::connect(options_for(server, Via::http));
  ASSERT_TRUE(client);
  (void)client->list("b", {});  // so that the remove has a kept connection
  const auto removed = client->remove("b", "k");
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, ErrorCode::outcome_unknown);
  EXPECT_EQ(server.requests().size(), 2u);
}

// By HTTP alone, as an item with a version or a condition is sent when the native door is not available.
TEST(Fallback, ARemoveOfAVersionThatMayHaveHappenedIsNotRepeated) {
  ScriptedServer server([](const ScriptedRequest&, int number) {
    return number == 0 ? http_reply(200, "", "<ListBucketResult/>") : std::string();
  });
  auto client = Client::connect(options_for(server, Via::http));
  ASSERT_TRUE(client);
  (void)client->list("b", {});  // so that the remove has a kept connection
  const BatchItem item{.bucket = "b", .key = "k", .version_id = "v"};
  BatchResult result;
  (void)client->remove_many(std::span(&item, 1), std::span(&result, 1));
  EXPECT_EQ(result.error, ErrorCode::outcome_unknown);
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST(Fallback, ARemoveOfAVersionThatTheServerWasTooLateWithMayHaveHappened) {
  ScriptedServer server([](const ScriptedRequest&, int) {
    return http_reply(503, "", "<Error><Code>ServiceUnavailable</Code></Error>");
  });
  auto client = Client::connect(options_for(server, Via::http));
  ASSERT_TRUE(client);
  const BatchItem items[] = {{.bucket = "b", .key = "k", .version_id = "v"},
                             {.bucket = "b", .key = "l", .if_match = "e"}};
  BatchResult results[2];
  (void)client->remove_many(items, results);
  EXPECT_EQ(results[0].error, ErrorCode::outcome_unknown);
  EXPECT_EQ(results[1].error, ErrorCode::outcome_unknown);
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST(Fallback, ARemoveThatTheServerRefusedToWorkOnIsRepeated) {
  ScriptedServer server([](const ScriptedRequest&, int number) {
    return number == 0 ? http_reply(503, "", "<Error><Code>SlowDown</Code></Error>") : http_reply(204, "", "");
  });
  auto client = Client::connect(options_for(server, Via::http));
  ASSERT_TRUE(client);
  EXPECT_TRUE(client->remove("b", "k"));
}

TEST(Fallback, ErrorsKeepTheServersWords) {
  ScriptedServer server([](const ScriptedRequest&, int) {
    return http_reply(404, "",
                      "<Error><Code>NoSuchBucket</Code><Message>No b here.</Message><RequestId>R</RequestId></Error>");
  });
  auto client = Client::connect(options_for(server, Via::http));
  ASSERT_TRUE(client);
  auto listed = client->list("b");
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code, ErrorCode::no_such_bucket);
  EXPECT_EQ(listed.error().message, "No b here.");
  EXPECT_EQ(listed.error().s3_code, "NoSuchBucket");
  EXPECT_EQ(listed.error().request_id, "R");
  EXPECT_EQ(listed.error().http_status, 404);
}

TEST(Fallback, NoServerAtAllIsSaidAtOnce) {
  ClientOptions options;
  options.endpoint = "http://127.0.0.1:" + std::to_string(closed_port());
  options.native_endpoint = "127.0.0.1:" + std::to_string(closed_port());
  options.access_key = "A";
  options.secret_key = "s";
  for (Via via : {Via::automatic, Via::native, Via::http}) {
    options.via = via;
    auto client = Client::connect(options);
    ASSERT_FALSE(client);
    EXPECT_EQ(client.error().code, ErrorCode::connection_failed) << to_string(via);
  }
}

// It waited for another call's whole transfer, also after it had been cancelled.
TEST(Fallback, ACallByTokenThatWaitsForAnotherIsCancelled) {
  std::atomic<int> held{0};
  std::atomic<bool> over{false};
  ScriptedServer server([&](const ScriptedRequest&, int) {
    ++held;
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return http_reply(404, "", "<Error><Code>NoSuchKey</Code></Error>");
  });
  auto client = Client::connect(options_for(server, Via::token));
  ASSERT_TRUE(client) << client.error().message;
  const auto get = [&client](const std::stop_token& stop) {
    std::vector<std::byte> into(8);
    GetOptions options;
    options.cancel = stop;
    const auto got = client->get("b", "k", std::span(into), options);
    return got ? std::string() : std::string(to_string(got.error().code));
  };
  std::vector<std::future<std::string>> before;
  constexpr int links = 8;
  for (int i = 0; i < links; ++i) before.push_back(std::async(std::launch::async, get, std::stop_token()));
  while (held < links) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::stop_source stop;
  auto ninth = std::async(std::launch::async, get, stop.get_token());
  EXPECT_EQ(ninth.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  stop.request_stop();
  // Without it, it waits for one of the eight.
  EXPECT_EQ(ninth.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  over = true;
  EXPECT_EQ(ninth.get(), "cancelled");
  for (auto& one : before) EXPECT_EQ(one.get(), "no_such_key");
}

// A PUT by token waited for its server, however long that took.
TEST(Fallback, APutByTokenThatTheServerDoesNotAnswerIsCancelled) {
  std::atomic<bool> asked{false}, over{false};
  ScriptedServer server([&](const ScriptedRequest&, int) {
    asked = true;
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return http_reply(404, "", "<Error><Code>NoSuchBucket</Code></Error>");
  });
  auto client = Client::connect(options_for(server, Via::token));
  ASSERT_TRUE(client) << client.error().message;
  std::stop_source stop;
  auto ending = std::async(std::launch::async, [&] {
    const std::vector<std::byte> bytes(100'000);
    PutOptions options;
    options.cancel = stop.get_token();
    const auto put = client->put("b", "k", std::span(bytes), options);
    return put ? std::string() : std::string(to_string(put.error().code));
  });
  while (!asked) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  stop.request_stop();
  // Without it, it waits for the answer.
  EXPECT_EQ(ending.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  over = true;
  EXPECT_EQ(ending.get(), "cancelled");
  EXPECT_EQ(server.requests().size(), 1u);
}

// It was sent again with its body, which the same server refused as well, and the token door rested.
TEST(Fallback, APartByTokenThatTheServerRefusesIsNotSentAgainAndSaysNothingAgainstTokens) {
  ScriptedServer server(
      [](const ScriptedRequest&, int) { return http_reply(404, "", "<Error><Code>NoSuchUpload</Code></Error>"); });
  auto client = Client::connect(options_for(server));
  ASSERT_TRUE(client) << client.error().message;
  const std::string checksum = crc_of("payload");
  client::UploadPart part{.bucket = "b", .key = "k", .upload_id = "u", .number = 1, .from = bytes_of("payload")};
  part.checksum = {Algorithm::crc32c, checksum};
  for (size_t sent = 1; sent <= 2; ++sent) {
    const auto put = Client::Inside::impl(*client).put_part(part);
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().s3_code, "NoSuchUpload") << put.error().message;
    ASSERT_EQ(server.requests().size(), sent);
    EXPECT_TRUE(server.requests().back().has("x-amz-rdma-token: "));
  }
}

// GETs, PUTs and parts had rules of their own.
TEST(Fallback, AFailureOfTheTokenDoorMakesItRestWhateverTheRequestWas) {
  const std::string checksum = crc_of("payload");
  const std::function<void(Client&)> requests[] = {
      [](Client& client) {
        std::byte memory[8];
        (void)client.get("b", "k", std::span(memory));
      },
      [](Client& client) { (void)client.put("b", "k", bytes_of("payload")); },
      [&](Client& client) {
        client::UploadPart part{.bucket = "b", .key = "k", .upload_id = "u", .number = 1, .from = bytes_of("payload")};
        part.checksum = {Algorithm::crc32c, checksum};
        (void)Client::Inside::impl(client).put_part(part);
      }};
  for (const auto& request : requests) {
    ScriptedServer server(
        [](const ScriptedRequest&, int) { return http_reply(500, "", "<Error><Code>InternalError</Code></Error>"); });
    ClientOptions options = options_for(server);
    options.attempts_max = 1;
    auto client = Client::connect(options);
    ASSERT_TRUE(client) << client.error().message;
    request(*client);
    ASSERT_EQ(server.requests().size(), 2u);
    EXPECT_TRUE(server.requests()[0].has("x-amz-rdma-token: "));
    EXPECT_FALSE(server.requests()[1].has("x-amz-rdma-token: "));
    request(*client);
    ASSERT_EQ(server.requests().size(), 3u) << "without another token";
    EXPECT_FALSE(server.requests()[2].has("x-amz-rdma-token: "));
  }
}

// On a thread of the client's it ended the process, and another thread called it again.
TEST(Batches, WhatInOrderThrowsIsTheCallersByAnyThread) {
  ScriptedServer server([](const ScriptedRequest&, int) { return http_reply(200, "etag: \"e\"\r\n", "bytes"); });
  ClientOptions options = options_for(server, Via::http);
  options.async_threads = 4;
  const auto client = Client::connect(options);
  ASSERT_TRUE(client) << client.error().message;
  std::vector<BatchItem> items;
  for (size_t i = 0; i < 16; ++i) items.push_back({.bucket = "b", .key = "k", .offset = i * 5, .size = 5});
  std::vector<BatchResult> results(items.size());
  const Buffer window = *client->allocate(items.size() * 5);
  for (int thrown = 0; thrown < 20; ++thrown) {
    std::atomic<int> calls{0};
    const auto in_order = [&](size_t) {
      ++calls;
      throw std::runtime_error("the caller's");
    };
    const auto moves = [&] { return client->get_many(items, std::span(&window, 1), results, {.in_order = in_order}); };
    EXPECT_THROW((void)moves(), std::runtime_error);
    EXPECT_EQ(calls, 1);
  }
}

}  // namespace
}  // namespace verbena
