// Tokens of an honest, a lying, a frozen and a vanishing client. Leases are checked when the server ends: an arena with
// a lease out aborts.
#include <gtest/gtest.h>

#include <thread>

#include "base/checksum.h"
#include "base/metrics.h"
#include "client/endpoint.h"
#include "client/http/s3_http.h"
#include "client/token/window_link.h"
#include "fabric/ofi/ofi.h"
#include "rdma/token.h"
#include "world.h"

namespace verbena::matrix {
namespace {

class Tokens : public ::testing::Test {
 protected:
  Tokens() {
    const auto endpoint = client::parse_endpoint(world_.server.http()).value();
    http_ = net::HttpClient::create({.host = endpoint.host, .port = endpoint.port}).value();
    s3_.emplace(*http_,
                client::S3Options{.credentials = {server::TestServer::access_key, server::TestServer::secret_key, ""}});
    EXPECT_TRUE(s3_->make_bucket("tokens", BucketDurability::memory));
    object_ = random_bytes(20'000'000, 9);
    EXPECT_TRUE(s3_->put("tokens", "k", object_, {}));
  }

  std::unique_ptr<fabric::Link> link() {
    fabric::ofi::Options options;
    options.provider = token_provider();
    options.bind_address = test_address();
    return fabric::ofi::connect(options, "").value();
  }

  static std::string token(std::string_view provider, std::string_view address,
                           const fabric::WindowDescriptor& window) {
    return rdma::format_token({.form = rdma::TokenForm::ofi1,
                               .provider = std::string(provider),
                               .endpoint_name = std::string(address),
                               .base = window.base,
                               .size = window.size,
                               .key = window.key});
  }

  // `owner`: the token's, if it is to serve.
  Outcome<net::HttpReply> get(const std::string& token, MutableBytes body, client::WindowLink* owner = nullptr) {
    return s3_->call({.method = "GET",
                      .bucket = "tokens",
                      .key = "k",
                      .headers = {{"x-amz-rdma-token", token}},
                      .into = body,
                      .meanwhile = owner});
  }
  Outcome<net::HttpReply> put(const std::string& token, client::WindowLink* owner = nullptr) {
    return s3_->call({.method = "PUT",
                      .bucket = "tokens",
                      .key = "new",
                      .headers = {{"x-amz-rdma-token", token}},
                      .unsigned_payload = true,
                      .meanwhile = owner});
  }

  World world_;
  std::unique_ptr<net::HttpClient> http_;
  std::optional<client::S3Http> s3_;
  std::vector<std::byte> object_;
};

uint64_t fallbacks() {
  return metrics::counter("verbena_token_fallbacks_total",
                          "GETs whose RDMA transfer failed and went on as HTTP bodies.")
      .value();
}

TEST_F(Tokens, AGetLeavesAnEmptyBodyAndTheBytesInTheClientsMemory) {
  client::WindowLink owner(link());
  std::vector<std::byte> memory(object_.size() + 8192, std::byte{0xee});
  const MutableBytes window(memory.data() + 4096, object_.size());
  auto loan = owner.lend(window, fabric::Access::server_writes).value();
  std::vector<std::byte> body(1024, std::byte{0xdd});
  const auto reply = get(token(owner.provider(), owner.address(), loan->descriptor()), body, &owner);
  loan.reset();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->header("x-amz-rdma-reply"), "200");
  EXPECT_EQ(reply->header("x-amz-rdma-bytes-transferred"), std::to_string(object_.size()));
  EXPECT_EQ(reply->content_length, 0u);
  EXPECT_EQ(reply->body_bytes, 0u);
  EXPECT_TRUE(same(object_, std::span(window).first(object_.size())));
  for (size_t i = 0; i < 4096; ++i) {
    ASSERT_EQ(memory[i], std::byte{0xee}) << "before the window";
    ASSERT_EQ(memory[memory.size() - 1 - i], std::byte{0xee}) << "after the window";
  }
}

// Some clients trust only the checksum of the bytes in their memory.
TEST_F(Tokens, TheReplySaysTheChecksumOfWhatMovedBothWays) {
  client::WindowLink owner(link());
  const auto checksum = [](Bytes bytes) {
    Digest digest(Algorithm::crc64nvme);
    digest.update(bytes);
    return digest.finish_base64();
  };
  std::vector<std::byte> memory(object_.size());
  {
    auto loan = owner.lend(memory, fabric::Access::server_writes).value();
    const auto reply = get(token(owner.provider(), owner.address(), loan->descriptor()), {}, &owner);
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(reply->header("x-amz-rdma-checksum-crc64nvme"), checksum(object_));
  }
  memory = random_bytes(3'000'001, 17);
  auto loan = owner.lend(memory, fabric::Access::server_reads).value();
  const auto reply = put(token(owner.provider(), owner.address(), loan->descriptor()), &owner);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->header("x-amz-rdma-reply"), "200");
  EXPECT_EQ(reply->header("x-amz-rdma-bytes-transferred"), std::to_string(memory.size()));
  EXPECT_EQ(reply->header("x-amz-rdma-checksum-crc64nvme"), checksum(memory));
}

TEST_F(Tokens, AnObjectLargerThanTheWindowIsDeclinedNeverCut) {
  client::WindowLink owner(link());
  std::vector<std::byte> window(object_.size() - 1, std::byte{0xee});
  auto loan = owner.lend(window, fabric::Access::server_writes).value();
  std::vector<std::byte> body(object_.size());
  const auto reply = get(token(owner.provider(), owner.address(), loan->descriptor()), body, &owner);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->header("x-amz-rdma-reply"), "501");
  EXPECT_EQ(body, object_);
  EXPECT_EQ(window.front(), std::byte{0xee});
}

TEST_F(Tokens, TextThatIsNoTokenIsABadRequest) {
  client::WindowLink owner(link());
  const auto address = to_hex(as_bytes(owner.address()));
  const std::string ofi1 = ":ofi1:" + owner.provider() + ":";
  const std::string bad[] = {"0:10" + ofi1 + address,
                             "0:zz" + ofi1 + address + ":1",
                             "0:10" + ofi1 + ":1",
                             "0:2000000" + ofi1 + "00:1",
                             "ffffffffffffffff:10" + ofi1 + address + ":1",
                             "0:10" + ofi1 + std::string(600, 'a') + ":1"};
  for (const auto& text : bad) {
    std::vector<std::byte> body(object_.size());
    const auto reply = get(text, body);
    ASSERT_FALSE(reply) << text;
    EXPECT_EQ(reply.error().s3_code, "InvalidRDMAToken") << text;
    EXPECT_EQ(reply.error().http_status, 400) << text;
    EXPECT_EQ(put(text).error().s3_code, "InvalidRDMAToken") << text;
  }
}

TEST_F(Tokens, ATokenMayNotMakeTheServerDialAnybodyElse) {
  if (token_provider() != "tcp") GTEST_SKIP() << "addresses are forged for tcp";
  // sockaddr_in: family 2, port 40000 (big-endian), 192.0.2.1 (RFC 5737: unassigned).
  const std::byte third_party[16] = {std::byte{2},   std::byte{0}, std::byte{0x9c}, std::byte{0x40},
                                     std::byte{192}, std::byte{0}, std::byte{2},    std::byte{1}};
  std::vector<std::byte> body(object_.size());
  const auto expect_declined = [&](Bytes name, std::string_view why) {
    const auto reply = get(token("tcp", as_text(name), {0, object_.size(), 1}), body);
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(reply->header("x-amz-rdma-reply"), "501");
    EXPECT_EQ(reply->header("x-verbena-rdma-declined"), why);
    EXPECT_EQ(body, object_);
  };
  expect_declined(third_party, "token: neither the peer's address nor in rdma.token_networks");
  // The server's own HTTP port.
  const auto port = client::parse_endpoint(world_.server.http())->port;
  const std::byte own[16] = {std::byte{2},
                             std::byte{0},
                             static_cast<std::byte>(port >> 8),
                             static_cast<std::byte>(port),
                             std::byte{127},
                             std::byte{0},
                             std::byte{0},
                             std::byte{1}};
  expect_declined(own, "token: the server's own port");
}

TEST_F(Tokens, OtherDialectsAndProvidersAreDeclined) {
  client::WindowLink owner(link());
  const std::string cuobject = "00007f0000000000:01312d00:0000beef:0001:00abcd:1:fe800000000000000000000000000001";
  const std::string long_key = "0:2000000:ofi1:tcp:" + to_hex(as_bytes(owner.address())) + ":112233445566778899";
  for (const auto& text : {token("shm", owner.address(), {0, object_.size(), 1}),
                           token("efa", owner.address(), {0, object_.size(), 1}), cuobject, long_key}) {
    std::vector<std::byte> body(object_.size());
    const auto reply = get(text, body);
    ASSERT_TRUE(reply) << text << ": " << reply.error().message;
    EXPECT_EQ(reply->header("x-amz-rdma-reply"), "501");
    EXPECT_EQ(body, object_);
  }
  const auto declined = put(token("shm", owner.address(), {0, 1000, 1}));
  ASSERT_FALSE(declined);
  EXPECT_EQ(declined.error().http_status, 501);
  EXPECT_EQ(declined.error().s3_code, "RDMANotSupported");
  const auto opaque = put(cuobject);
  ASSERT_TRUE(opaque) << opaque.error().message;
  EXPECT_EQ(opaque->header("x-amz-rdma-reply"), "501");
  EXPECT_FALSE(opaque->header("etag"));
  EXPECT_EQ(s3_->head("tokens", "new", {}).error().code, ErrorCode::no_such_key);
}

TEST_F(Tokens, AWindowWithoutTheRightIsAFailedTransfer) {
  client::WindowLink owner(link());
  std::vector<std::byte> memory(object_.size(), std::byte{0xee});
  {
    auto readable_only = owner.lend(memory, fabric::Access::server_reads).value();
    std::vector<std::byte> body(object_.size());
    const auto reply = get(token(owner.provider(), owner.address(), readable_only->descriptor()), body, &owner);
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(reply->header("x-amz-rdma-reply"), "501");
    EXPECT_EQ(body, object_);
    EXPECT_EQ(memory.front(), std::byte{0xee});
  }
  auto loan = owner.lend(MutableBytes(memory).first(1000), fabric::Access::server_reads).value();
  auto wrong_key = loan->descriptor();
  wrong_key.key ^= 0x55;
  const auto failed = put(token(owner.provider(), owner.address(), wrong_key), &owner);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().s3_code, "RDMANotSupported") << "the owner refused, nothing moved";
  EXPECT_EQ(s3_->head("tokens", "new", {}).error().code, ErrorCode::no_such_key);
}

TEST_F(Tokens, AFrozenClientCostsOneFallbackAndOthersNoticeNothing) {
  auto frozen = link();  // not polled: its memory accepts no byte
  std::vector<std::byte> memory(object_.size(), std::byte{0xee});
  auto lent = frozen->lend(memory, fabric::Access::server_writes).value();
  const auto before = fallbacks();
  std::thread other([this] {
    auto client = world_.client({Via::token, "auto"});
    for (int i = 0; i < 20; ++i) {
      std::vector<std::byte> back(object_.size());
      const auto got = client.get("tokens", "k", std::span(back));
      ASSERT_TRUE(got) << got.error().message;
      ASSERT_EQ(back, object_);
    }
  });
  std::vector<std::byte> body(object_.size());
  const auto reply = get(token(frozen->provider(), frozen->address(), lent->descriptor()), body);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->header("x-amz-rdma-reply"), "501");
  EXPECT_EQ(body, object_);
  other.join();
  EXPECT_EQ(fallbacks(), before + 1);
}

TEST_F(Tokens, AClientThatVanishesInMidTransferCostsOneFallback) {
  const auto before = fallbacks();
  std::vector<std::byte> memory(object_.size(), std::byte{0xee});
  auto owner = link();
  auto lent = owner->lend(memory, fabric::Access::server_writes).value();
  const auto text = token(owner->provider(), owner->address(), lent->descriptor());
  std::thread vanishing([&] {
    // Accepts the first bytes, then disappears with registration and endpoint.
    const auto until = deadline_in(std::chrono::seconds(5));
    while (memory.front() == std::byte{0xee} && SteadyClock::now() < until) (void)owner->poll([](Bytes) {});
    lent.reset();
    owner.reset();
  });
  std::vector<std::byte> body(object_.size());
  const auto reply = get(text, body);
  vanishing.join();
  ASSERT_TRUE(reply) << reply.error().message;
  if (reply->header("x-amz-rdma-reply") == "501") {
    EXPECT_EQ(body, object_);
    EXPECT_EQ(fallbacks(), before + 1);
  } else {
    EXPECT_EQ(memory, object_) << "all bytes had landed before it went";
  }
}

}  // namespace
}  // namespace verbena::matrix
