// What the client asks of a server with a token.
#include "client/token/token_door.h"

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "client/endpoint.h"
#include "net/testing/scripted_server.h"

namespace verbena::client {
namespace {

std::string checksum_line(Algorithm algorithm, const char* name, Bytes bytes) {
  Digest digest(algorithm);
  digest.update(bytes);
  return "x-amz-checksum-" + std::string(name) + ": " + digest.finish_base64() + "\r\n";
}

TEST(TokenDoor, AsksForTheChecksumThatObjectsHave) {
  std::vector<std::byte> into(5, std::byte{0xee});
  const std::string crc64 = checksum_line(Algorithm::crc64nvme, "crc64nvme", into);
  const std::string crc32c = checksum_line(Algorithm::crc32c, "crc32c", into);
  const std::string moved = "etag: \"e\"\r\nx-amz-rdma-reply: 200\r\nx-amz-rdma-bytes-transferred: 5\r\n";
  net::ScriptedServer server([&](const net::ScriptedRequest&, int number) {
    return net::http_reply(200, moved + (number < 2 ? crc64 : crc32c), "");
  });
  const auto endpoint = parse_endpoint(server.url()).value();
  const auto http = net::HttpClient::create({.host = endpoint.host, .port = endpoint.port}).value();
  S3Http s3(*http, S3Options{.credentials = {"AKIDEXAMPLE", "secret", ""}});
  TokenDoor door(s3, "tcp", false);
  for (int i = 0; i < 4; ++i) {
    const auto got = door.get("b", "k", into, {});
    ASSERT_TRUE(got) << got.error().message;
  }
  const auto asks_crc32c = [&](size_t request) {
    return server.requests()[request].has("x-amz-rdma-checksum-algorithm: CRC32C");
  };
  EXPECT_TRUE(asks_crc32c(0));
  EXPECT_FALSE(asks_crc32c(1)) << "the server has a CRC64NVME, and need not compute anything";
  EXPECT_FALSE(asks_crc32c(2));
  EXPECT_TRUE(asks_crc32c(3));
}

}  // namespace
}  // namespace verbena::client
