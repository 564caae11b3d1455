// A bucket with an object that must stay readable whatever hostile peers do, and requests with their tokens.
#pragma once

#include <optional>

#include "client/endpoint.h"
#include "client/http/s3_http.h"
#include "world.h"

namespace verbena::matrix {

struct Bucket {
  static constexpr size_t object_size = 300'000;

  explicit Bucket(World& world) : world(world) {
    const auto endpoint = client::parse_endpoint(world.server.http()).value();
    http = net::HttpClient::create({.host = endpoint.host, .port = endpoint.port}).value();
    s3.emplace(*http,
               client::S3Options{.credentials = {server::TestServer::access_key, server::TestServer::secret_key, ""}});
    EXPECT_TRUE(s3->make_bucket("hostile", BucketDurability::memory));
    object = random_bytes(object_size, 4);
    EXPECT_TRUE(s3->put("hostile", "k", object, {}));
  }
  // Sends a GET with a token; a body goes into `body`.
  Outcome<net::HttpReply> get(const std::string& token) {
    body.assign(object_size, std::byte{0});
    return s3->call(
        {.method = "GET", .bucket = "hostile", .key = "k", .headers = {{"x-amz-rdma-token", token}}, .into = body});
  }
  Outcome<net::HttpReply> put(const std::string& token) {
    return s3->call({.method = "PUT",
                     .bucket = "hostile",
                     .key = "new",
                     .headers = {{"x-amz-rdma-token", token}},
                     .unsigned_payload = true});
  }
  // A new client can still read the object that way.
  void expect_service(const Way& way) {
    SCOPED_TRACE(way.name());
    auto client = world.client(way);
    std::vector<std::byte> back(object_size);
    const auto got = client.get("hostile", "k", std::span(back));
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->transfer.door, way.via) << got->transfer.fell_back_reason;
    EXPECT_EQ(back, object);
  }

  World& world;
  std::unique_ptr<net::HttpClient> http;
  std::optional<client::S3Http> s3;
  std::vector<std::byte> object, body;
};

}  // namespace verbena::matrix
