// Tokens for windows in a GPU's memory: what a failure says of the window, and what of the token door.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <condition_variable>
#include <future>
#include <thread>

#include "client/endpoint.h"
#include "client/token/token_door.h"
#include "net/testing/scripted_server.h"
#include "peer_world.h"

namespace verbena::matrix {
namespace {

using net::http_reply;
using net::ScriptedRequest;
using net::ScriptedServer;

class PeerToken : public Peer {
 protected:
  // The native door is closed, and all others are tried.
  ClientOptions automatic(const std::string& endpoint) {
    ClientOptions given = options({Via::automatic, "verbs"});
    given.endpoint = endpoint;
    given.native_endpoint = "127.0.0.1:1";
    given.attempts_max = 1;
    return given;
  }
  // Host memory goes by token: the door does not rest.
  void expect_token(const Client& c) {
    std::vector<std::byte> back(mib);
    const auto got = c.get("bucket", "small", back);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->transfer.door, Via::token) << got->transfer.fell_back_reason;
  }
  void SetUp() override {
    Peer::SetUp();
    ASSERT_TRUE(http().put("bucket", "small", random_bytes(1000, 1)));
  }
};

TEST_F(PeerToken, ARefusedWindowRestsAloneAndItsBytesGoByTokenFromTheHost) {
  OnDevice memory(mib);
  nic_refuses(FI_EOPNOTSUPP);
  const Client c = *Client::connect(automatic(world.server.http()));
  const Buffer first = *c.register_memory(memory.all()), second = *c.register_memory(memory.all());
  const auto got = c.get("bucket", "small", first);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_path, DevicePath::staged);
  EXPECT_EQ(got->transfer.door, Via::token) << got->transfer.fell_back_reason;
  expect_token(c);
  const auto put = c.put("bucket", "other", second.slice(0, 1000));
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(put->transfer.device_path, DevicePath::staged);
  EXPECT_EQ(put->transfer.door, Via::token) << put->transfer.fell_back_reason;
  expect_token(c);
  EXPECT_TRUE(same(stored("other", 1000), random_bytes(1000, 1)));
}

TEST_F(PeerToken, ARefusalOrACancellationOfTheRequestSaysNothingAgainstTheDoor) {
  OnDevice memory(mib);
  const Client c = *Client::connect(automatic(world.server.http()));
  const Buffer window = *c.register_memory(memory.all());
  expect_token(c);  // and the server is known to answer tokens
  const auto conflict = c.put("bucket", "small", window.slice(0, 10), {.if_none_match = "*"});
  ASSERT_FALSE(conflict);
  EXPECT_EQ(conflict.error().code, ErrorCode::precondition_failed);
  expect_token(c);
  std::stop_source stop;
  stop.request_stop();
  const auto got = c.get("bucket", "small", window, {.cancel = stop.get_token()});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::cancelled) << got.error().message;
  expect_token(c);
  // A PUT looked at this only when it had been sent.
  const unsigned lent = nic_dma_bufs();
  const auto put = c.put("bucket", "small", window.slice(0, 10), {.cancel = stop.get_token()});
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::cancelled) << put.error().message;
  EXPECT_EQ(nic_dma_bufs(), lent);
  expect_token(c);
  EXPECT_TRUE(same(stored("small", 1000), random_bytes(1000, 1)));
}

TEST_F(PeerToken, APutThatIsCancelledWhileItsServerIsSilentHasItsWindowBack) {
  OnDevice memory(mib);
  std::atomic<bool> asked{false}, over{false};
  ScriptedServer server([&](const ScriptedRequest&, int) {
    asked = true;
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return http_reply(404, "", "");
  });
  const Client c = *Client::connect(automatic(server.url()));
  const Buffer window = *c.register_memory(memory.all());
  std::stop_source stop;
  auto ending = std::async(std::launch::async, [&] {
    const auto put = c.put("b", "k", window, {.cancel = stop.get_token()});
    return put ? std::string() : std::string(to_string(put.error().code));
  });
  while (!asked) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(nic_registered(), 1u);
  stop.request_stop();
  // Without it, it waits for the answer.
  EXPECT_EQ(ending.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(nic_registered(), 0u);
  over = true;
  EXPECT_EQ(ending.get(), "cancelled");
  EXPECT_EQ(server.requests().size(), 1u);
}

// What the caller writes to the memory after a cancelled PUT is not stored.
TEST_F(PeerToken, APutThatIsCancelledInItsTransferStoresWhatTheWindowHadOrNothing) {
  constexpr size_t size = 8 * mib;
  OnDevice memory(size);
  std::vector<std::byte> on_host(size);
  ClientOptions given = automatic(world.server.http());
  given.multipart_threshold = 2 * size;
  const Client c = *Client::connect(given);
  const Buffer window = *c.register_memory(memory.all());
  const std::vector<std::byte> after(size, std::byte{0xee});
  constexpr int rounds = 24;
  const auto key_of = [](int round) { return "cancelled/" + std::to_string(round); };
  std::vector<bool> stored_it;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    on_host = random_bytes(size, static_cast<unsigned>(round));
    memory.set(on_host);
    std::stop_source stop;
    std::jthread stopper([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(1000 * round));
      stop.request_stop();
    });
    const PutOptions options{.cancel = stop.get_token()};
    const auto put = round % 2 == 1 ? c.put("bucket", key_of(round), std::span<const std::byte>(on_host), options)
                                    : c.put("bucket", key_of(round), window, options);
    on_host = after;
    memory.set(after);
    EXPECT_TRUE(put || put.error().code == ErrorCode::cancelled);
    stored_it.push_back(put.has_value());
  }
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    std::vector<std::byte> back(size);
    const auto got = http().get("bucket", key_of(round), back);
    if (got) {
      EXPECT_TRUE(same(back, random_bytes(size, static_cast<unsigned>(round))));
    } else {
      EXPECT_EQ(got.error().code, ErrorCode::no_such_key);
      EXPECT_FALSE(stored_it[static_cast<size_t>(round)]);
    }
  }
}

TEST_F(PeerToken, AnObjectThatDoesNotFitSaysNothingAgainstTheDoor) {
  OnDevice memory(mib);
  const Client c = *Client::connect(automatic(world.server.http()));
  const Buffer window = *c.register_memory(memory.all());
  const auto got = c.get("bucket", "small", window.slice(0, 999));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::buffer_too_small);
  expect_token(c);
}

TEST_F(PeerToken, AServerWithoutTokensIsKnownFromItsFirstAnswer) {
  OnDevice memory(mib);
  for (const std::string body : {"hello", ""}) {
    SCOPED_TRACE(body);
    ScriptedServer server([&](const ScriptedRequest&, int) { return http_reply(200, "etag: \"e\"\r\n", body); });
    const Client c = *Client::connect(automatic(server.url()));
    const Buffer window = *c.register_memory(memory.all());
    const auto got = c.get("b", "k", window);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->bytes, body.size());
    EXPECT_EQ(got->transfer.door, Via::http);
    EXPECT_EQ(got->transfer.device_path, DevicePath::staged);
    EXPECT_NE(got->transfer.fell_back_reason.find("does not know tokens"), std::string::npos)
        << got->transfer.fell_back_reason;
    EXPECT_TRUE(same(memory.bytes(0, body.size()), {as_bytes(body).begin(), as_bytes(body).end()}));
    EXPECT_TRUE(server.requests().front().has("x-amz-rdma-token"));
  }
}

TEST_F(PeerToken, OfTheWindowAndTheRangeTheSmallerDecidesWhetherATokenIsWorthIt) {
  OnDevice memory(mib);
  ClientOptions given = automatic(world.server.http());
  given.token_size_min = 1000;
  const Client c = *Client::connect(given);
  const Buffer window = *c.register_memory(memory.all());
  const auto part = c.get("bucket", "small", window, {.range = Range{0, 999}});
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(part->transfer.door, Via::http);
  const auto whole = c.get("bucket", "small", window, {.range = Range{0, 1000}});
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->transfer.door, Via::token) << whole->transfer.fell_back_reason;
}

TEST_F(PeerToken, WhatLinksReachIsKnownAlsoWhileAllAreInUse) {
  std::mutex mutex;
  std::condition_variable changed;
  size_t asked = 0;
  bool answers = false;
  ScriptedServer server([&](const ScriptedRequest&, int) {
    std::unique_lock lock(mutex);
    ++asked;
    changed.notify_all();
    changed.wait(lock, [&] { return answers; });
    return http_reply(404, "", "");
  });
  const auto endpoint = client::parse_endpoint(server.url()).value();
  const auto http = net::HttpClient::create({.host = endpoint.host, .port = endpoint.port}).value();
  client::S3Http s3(*http, client::S3Options{.credentials = {"AKIDEXAMPLE", "secret", ""}});
  client::TokenDoor door(s3, "verbs", false, std::chrono::milliseconds(1));
  ASSERT_TRUE(door.open());
  constexpr size_t links = 8;
  std::vector<std::vector<std::byte>> memory(links, std::vector<std::byte>(100));
  std::vector<std::jthread> callers;
  for (auto& into : memory) callers.emplace_back([&] { EXPECT_FALSE(door.get("b", "k", into, {})); });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return asked == links; });
  }
  EXPECT_TRUE(door.reaches_devices({}));
  const std::lock_guard lock(mutex);
  answers = true;
  changed.notify_all();
}

// Nothing was said of why their bytes passed host memory.
TEST_F(PeerToken, WhatGoesInPartsOrIsAppendedSaysWhyItIsStaged) {
  constexpr size_t size = 6 * mib;
  const auto bytes = random_bytes(size, 3);
  OnDevice memory(size);
  memory.set(bytes);
  ClientOptions given = options(token);
  given.multipart_threshold = size - 1;
  const Client by_token = *Client::connect(given), by_session = client(native);
  const auto whole = *by_session.register_memory(memory.all());
  const auto in_parts = by_token.put("bucket", "parts", *by_token.register_memory(memory.all()));
  ASSERT_TRUE(in_parts) << in_parts.error().message;
  EXPECT_EQ(in_parts->transfer.device_path, DevicePath::staged);
  EXPECT_TRUE(in_parts->transfer.fell_back_reason.starts_with("peer: objects above multipart_threshold"))
      << in_parts->transfer.fell_back_reason;
  ASSERT_TRUE(http().make_bucket("logs--local1-az1--x-s3"));  // a directory bucket, which allows appends
  const auto appended = by_session.put("logs--local1-az1--x-s3", "appended", whole.slice(0, mib), {.append_at = 0});
  ASSERT_TRUE(appended) << appended.error().message;
  EXPECT_EQ(appended->transfer.device_path, DevicePath::staged);
  EXPECT_TRUE(appended->transfer.fell_back_reason.starts_with("peer: what is appended"))
      << appended->transfer.fell_back_reason;
  EXPECT_TRUE(same(stored("parts", size), bytes));
  std::vector<std::byte> back(mib);
  ASSERT_TRUE(http().get("logs--local1-az1--x-s3", "appended", back));
  EXPECT_TRUE(same(back, std::span(bytes).first(mib)));
}

// By token the server tells the CRC32C of what it has written, of ranges, too.
TEST_F(PeerToken, WhatIsCheckedIsWhatRdmaDevicesHaveWritten) {
  constexpr size_t size = 150'001;
  const auto bytes = random_bytes(size, 2);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  OnDevice memory(mib);
  for (const Way& way : {native, token}) {
    SCOPED_TRACE(way.name());
    const Client c = client(way);
    const Buffer window = c.register_memory(memory.all())->slice(5, size);
    for (const std::optional<Range> range : {std::optional<Range>(), std::optional(Range{1000, 70'000})}) {
      const bool told = !range || way.via == Via::token;
      const GetOptions options{.range = range, .verify_device = true};
      const auto got = c.get("bucket", "key", window, options);
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(got->transfer.device_path, DevicePath::peer) << got->transfer.fell_back_reason;
      EXPECT_EQ(got->transfer.device_verified, told ? best_check() : DeviceVerified::no_checksum);
      if (!told) continue;
      double_flip_at(own("cuLaunchKernel", "cuMemcpyDtoHAsync_v2"), memory.address() + 5 + got->bytes - 1, 0);
      const auto other = c.get("bucket", "key", window, options);
      ASSERT_FALSE(other);
      EXPECT_EQ(other.error().code, ErrorCode::checksum_mismatch) << other.error().message;
    }
    double_poke(memory.address() + 5, bytes.data(), size);
    const auto put = c.put("bucket", "back", window, {.verify_device = true});
    ASSERT_TRUE(put) << put.error().message;
    EXPECT_EQ(put->transfer.device_path, DevicePath::peer) << put->transfer.fell_back_reason;
    EXPECT_EQ(put->transfer.device_verified, best_check());
    EXPECT_EQ(http().head("bucket", "back")->checksum, http().head("bucket", "key")->checksum);
    EXPECT_EQ(c.device_counters().peer.transfers, 3u);
  }
}

}  // namespace
}  // namespace verbena::matrix
