// The client's side of sealed tokens: what it takes, and from whom.
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "base/checksum.h"
#include "client/endpoint.h"
#include "client/http/object_headers.h"
#include "client/token/token_door.h"
#include "net/testing/scripted_server.h"
#include "rdma/sealing.h"

namespace verbena::client {
namespace {

using namespace std::chrono_literals;
using fabric::sealed::Direction;
using fabric::sealed::record_size_max;
using fabric::sealed::Transfer;
using net::http_reply;
using net::ScriptedRequest;
using net::ScriptedServer;

constexpr fabric::WindowDescriptor lent{.base = 0x1000, .size = 1 * MiB, .key = 9};

TEST(SealedWindow, TheCallersMemoryGetsOnlyWhatWasAuthenticated) {
  const size_t size = 2 * record_size_max + 10;
  std::vector<std::byte> plain(size);
  fill_random(plain);
  const fabric::sealed::Salt salt{std::byte{3}};
  SealedWindow window(size);
  EXPECT_EQ(window.memory().size(), size + fabric::sealed::trailer_size(size));
  const auto key = rdma::parse_sealing(window.header());
  ASSERT_TRUE(key);
  Transfer server(*key, salt, Direction::to_client, lent, size);
  server.keep_tags_in(window.memory().subspan(size));
  server.seal(plain, window.memory().data());
  const std::vector<std::byte> sealed(window.memory().begin(), window.memory().end());

  std::vector<std::byte> into(size, std::byte{0xee});
  ASSERT_TRUE(window.open(into, salt, lent));
  EXPECT_TRUE(into == plain);

  std::ranges::copy(sealed, window.memory().begin());
  window.memory()[record_size_max + 5] ^= std::byte{1};
  std::ranges::fill(into, std::byte{0xee});
  EXPECT_FALSE(window.open(into, salt, lent));
  EXPECT_TRUE(std::equal(into.begin(), into.begin() + record_size_max, plain.begin())) << "the record before it";
  EXPECT_TRUE(
      std::all_of(into.begin() + record_size_max, into.end(), [](std::byte b) { return b == std::byte{0xee}; }));

  std::ranges::copy(sealed, window.memory().begin());
  EXPECT_FALSE(window.open(into, {}, lent)) << "another answer's salt";
  EXPECT_NE(SealedWindow(1).header(), SealedWindow(1).header()) << "a key for each request";
}

// A door over plain HTTP, so that the server can be a script; a client makes such a door for https alone.
class SealedDoor : public ::testing::Test {
 protected:
  void serve(ScriptedServer& server) {
    const auto endpoint = parse_endpoint(server.url()).value();
    http_ = net::HttpClient::create({.host = endpoint.host, .port = endpoint.port}).value();
    s3_.emplace(*http_, S3Options{.credentials = {"AKIDEXAMPLE", "secret", ""}});
    door_.emplace(*s3_, "tcp", true);
  }
  std::unique_ptr<net::HttpClient> http_;
  std::optional<S3Http> s3_;
  std::optional<TokenDoor> door_;
};

TEST_F(SealedDoor, BytesThatAServerDoesNotCallSealedAreNotTaken) {
  std::string more;
  ScriptedServer server([&](const ScriptedRequest&, int) {
    return http_reply(200, "etag: \"e\"\r\nx-amz-rdma-reply: 200\r\nx-amz-rdma-bytes-transferred: 5\r\n" + more, "");
  });
  serve(server);
  std::vector<std::byte> into(5, std::byte{0xee});
  auto got = door_->get("b", "k", into, {});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::malformed_reply);
  const auto requests = server.requests();
  EXPECT_TRUE(requests[0].has(":ofi1s:"));
  EXPECT_TRUE(requests[0].has("x-verbena-rdma-sealing: "));
  EXPECT_TRUE(requests[0].has(";x-verbena-rdma-sealing")) << "it must be signed";
  more = "x-verbena-rdma-sealed: " + std::string(32, '0') + "\r\n";
  got = door_->get("b", "k", into, {});
  ASSERT_FALSE(got);
  EXPECT_NE(got.error().message.find("forged"), std::string::npos) << got.error().message;
  EXPECT_TRUE(std::ranges::all_of(into, [](std::byte b) { return b == std::byte{0xee}; }));
}

TEST_F(SealedDoor, APutIsDoneOnlyIfTheServerSaysThatItWasSealed) {
  const std::string_view data = "payload";
  const KnownChecksum checksum{.algorithm = Algorithm::crc32c, .base64 = crc32c_base64(crc32c(as_bytes(data)))};
  std::string more;
  ScriptedServer server([&](const ScriptedRequest&, int) {
    return http_reply(
        200, "etag: \"e\"\r\nx-amz-rdma-reply: 200\r\nx-amz-checksum-crc32c: " + checksum.base64 + "\r\n" + more, "");
  });
  serve(server);
  std::string reason;
  S3Call call{.method = "PUT", .bucket = "b", .key = "k"};
  auto put = door_->put(call, as_bytes(data), checksum, false, reason);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::outcome_unknown);
  EXPECT_TRUE(server.requests()[0].has("x-amz-rdma-bytes: 7"));
  more = "x-verbena-rdma-sealed: " + std::string(32, '0') + "\r\n";
  put = door_->put(call, as_bytes(data), checksum, false, reason);
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_TRUE(*put);
}

// The token's endpoint, which is the link's.
std::string endpoint_of(const ScriptedRequest& request) {
  const size_t begin = request.head.find(":tcp:");
  if (begin == std::string::npos) return {};
  return request.head.substr(begin + 5, request.head.find(':', begin + 5) - begin - 5);
}

// tcp looks a key up when a write begins, so that the rest of it lands unless its connection is closed.
TEST(TokenDoorTest, ALinkIsUsedAgainOnlyIfNothingCanBeOnItsWay) {
  const std::string moved = "etag: \"e\"\r\nx-amz-rdma-reply: 200\r\nx-amz-rdma-bytes-transferred: 5\r\n";
  const auto declined = [](const std::string& why) {
    return http_reply(200, "etag: \"e\"\r\nx-amz-rdma-reply: 501\r\n" + why, "12345");
  };
  ScriptedServer server([&](const ScriptedRequest&, int number) {
    switch (number) {
      case 0:
        return http_reply(504, "", "");  // a proxy's
      case 1:
        return declined("");  // perhaps after a transfer that has failed
      case 2:
        return declined("x-verbena-rdma-declined: token: the transfer failed\r\n");
      case 3:
        return declined("x-verbena-rdma-declined: token: every data endpoint is taken\r\n");
      case 4:
        return http_reply(404, "", "<Error><Code>NoSuchKey</Code></Error>");
      default:
        return http_reply(200, moved, "");
    }
  });
  const auto endpoint = parse_endpoint(server.url()).value();
  const auto http = net::HttpClient::create({.host = endpoint.host, .port = endpoint.port}).value();
  S3Http s3(*http, S3Options{.credentials = {"AKIDEXAMPLE", "secret", ""}});
  TokenDoor door(s3, "tcp", false);
  std::vector<std::byte> into(5);
  for (const bool has_bytes : {false, true, true, true, false, true, true}) {
    EXPECT_EQ(door.get("b", "k", into, {}).has_value(), has_bytes);
  }
  std::vector<std::string> names;
  for (const ScriptedRequest& request : server.requests()) names.push_back(endpoint_of(request));
  ASSERT_EQ(names.size(), 7u);
  EXPECT_FALSE(names[0].empty());
  EXPECT_NE(names[0], names[1]) << "after a proxy's error";
  EXPECT_NE(names[1], names[2]) << "after a decline without a reason";
  EXPECT_NE(names[2], names[3]) << "after a transfer that has failed";
  EXPECT_EQ(names[3], names[4]) << "nothing was tried";
  EXPECT_EQ(names[4], names[5]) << "there was no such object";
  EXPECT_EQ(names[5], names[6]) << "all have arrived";
}

// The caller may change the bytes of a PUT afterwards, and the server would read others.
TEST(TokenDoorTest, ALinkWhoseMemoryAServerMayStillReadIsNotUsedAgain) {
  ScriptedServer server([](const ScriptedRequest&, int number) {
    return number == 0 ? http_reply(504, "", "") : http_reply(503, "", "<Error><Code>SlowDown</Code></Error>");
  });
  const auto endpoint = parse_endpoint(server.url()).value();
  const auto http = net::HttpClient::create({.host = endpoint.host, .port = endpoint.port}).value();
  S3Http s3(*http, S3Options{.credentials = {"AKIDEXAMPLE", "secret", ""}});
  TokenDoor door(s3, "tcp", false);
  const std::vector<std::byte> from(5);
  const KnownChecksum checksum{.algorithm = Algorithm::crc32c, .base64 = crc32c_base64(crc32c(from))};
  for (int i = 0; i < 3; ++i) {
    std::string reason;
    EXPECT_FALSE(door.put({.method = "PUT", .bucket = "b", .key = "k"}, from, checksum, false, reason));
  }
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_FALSE(endpoint_of(requests[0]).empty());
  EXPECT_NE(endpoint_of(requests[0]), endpoint_of(requests[1])) << "after a proxy's error";
  EXPECT_EQ(endpoint_of(requests[1]), endpoint_of(requests[2])) << "after the server's";
}

// It waited as long as the transfers of others took, and its own time had not begun.
TEST(TokenDoorTest, AWaitForALinkEndsWithoutAStopToo) {
  constexpr int links = 8;
  std::atomic<int> arrived = 0;
  std::atomic<bool> go_on = false;
  ScriptedServer server([&](const ScriptedRequest&, int) {
    ++arrived;
    arrived.notify_all();
    go_on.wait(false);
    return http_reply(404, "", "<Error><Code>NoSuchKey</Code></Error>");
  });
  const auto endpoint = parse_endpoint(server.url()).value();
  const auto http = net::HttpClient::create({.host = endpoint.host, .port = endpoint.port}).value();
  S3Http s3(*http, S3Options{.credentials = {"AKIDEXAMPLE", "secret", ""}});
  TokenDoor door(s3, "tcp", false, 50ms);
  const auto get = [&] {
    std::vector<std::byte> into(5);
    return door.get("b", "k", into, {}).error().code;
  };
  std::vector<std::future<ErrorCode>> stuck;
  for (int i = 0; i < links; ++i) {
    stuck.push_back(std::async(std::launch::async, get));
    for (int n = arrived; n <= i; n = arrived) arrived.wait(n);
  }
  auto ninth = std::async(std::launch::async, get);
  const bool ended = ninth.wait_for(20s) == std::future_status::ready;
  go_on = true;
  go_on.notify_all();
  EXPECT_TRUE(ended);
  EXPECT_EQ(ninth.get(), ErrorCode::connection_failed);
  for (auto& one : stuck) EXPECT_EQ(one.get(), ErrorCode::no_such_key);
}

TEST_F(SealedDoor, WhatIsTooLargeGoesByHttps) {
  ScriptedServer server([](const ScriptedRequest&, int) { return http_reply(200, "", ""); });
  serve(server);
  std::vector<std::byte> large(64 * MiB + 1);
  const auto got = door_->get("b", "k", large, {});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::unsupported);
  std::string reason;
  const auto put = door_->put({.method = "PUT", .bucket = "b", .key = "k"}, large, {}, false, reason);
  ASSERT_TRUE(put);
  EXPECT_FALSE(*put);
  EXPECT_EQ(reason, "token: too large to be sealed at once");
  EXPECT_TRUE(server.requests().empty());
}

}  // namespace
}  // namespace verbena::client
