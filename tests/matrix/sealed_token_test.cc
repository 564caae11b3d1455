// Tokens over https: client and server seal what a fabric between them carries.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/metrics.h"
#include "net/testing/tls_talk.h"
#include "world.h"

namespace verbena::matrix {
namespace {

// A certificate for the server's address, and its key.
class Certificate {
 public:
  Certificate() : identity_(net::make_identity("IP:" + test_address())) {
    std::string name = (std::filesystem::temp_directory_path() / "verbena-tls-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "mkdtemp";
    directory_ = name;
    std::ofstream(file()) << identity_.pem;
    FILE* const out = std::fopen(key().c_str(), "w");
    PEM_write_PrivateKey(out, SSL_CTX_get0_privatekey(identity_.context.get()), nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(out);
  }
  ~Certificate() { std::filesystem::remove_all(directory_); }
  std::string file() const { return directory_ / "server.pem"; }
  std::string key() const { return directory_ / "server.key"; }

 private:
  net::TestIdentity identity_;
  std::filesystem::path directory_;
};

Config https_config(const Certificate& certificate, RdmaEncryption encryption) {
  Config config = test_config();
  config.tls.certificate = certificate.file();
  config.tls.key = certificate.key();
  config.rdma.encryption = encryption;
  return config;
}

ClientOptions options_for(const World& world, const Certificate& certificate, const char* encryption) {
  ClientOptions options;
  options.endpoint = world.server.http();
  options.native_endpoint = world.server.native();
  options.access_key = server::TestServer::access_key;
  options.secret_key = server::TestServer::secret_key;
  options.ca_file = certificate.file();
  options.via = Via::token;
  options.provider = token_provider();
  options.token_size_min = 0;
  options.encryption = encryption;
  return options;
}

uint64_t moved(const char* dialect) {
  return metrics::counter("verbena_rdma_dialect_tokens_total", "", {{"dialect", dialect}, {"outcome", "moved"}})
      .value();
}

TEST(SealedTokens, ServeAClientThatRequiresEncryptionWhereTheServerDoes) {
  const Certificate certificate;
  World world(https_config(certificate, RdmaEncryption::required));
  auto client = Client::connect(options_for(world, certificate, "required"));
  ASSERT_TRUE(client) << client.error().message;
  ASSERT_TRUE(client->make_bucket("sealed"));
  const uint64_t sealed_before = moved("ofi1s"), plain_before = moved("ofi1");
  uint64_t requests = 0;
  for (const size_t size : {1u, 4096u, 65'536u, 65'537u, 5'000'011u}) {
    const auto data = random_bytes(size, size);
    const auto put = client->put("sealed", "k", data);
    ASSERT_TRUE(put) << put.error().message;
    EXPECT_EQ(put->transfer.door, Via::token);
    std::vector<std::byte> back(size + 100, std::byte{0xee});
    const auto got = client->get("sealed", "k", back);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->transfer.door, Via::token);
    EXPECT_EQ(got->bytes, size);
    EXPECT_TRUE(same(std::span(back).first(size), data));
    EXPECT_EQ(back[size], std::byte{0xee});
    requests += 2;
  }
  GetOptions part;
  part.range = Range{.offset = 70'001, .length = 300'000};
  std::vector<std::byte> back(300'000);
  const auto got = client->get("sealed", "k", back, part);
  ASSERT_TRUE(got) << got.error().message;
  const auto last = random_bytes(5'000'011, 5'000'011);
  EXPECT_TRUE(same(back, std::span(last).subspan(70'001, 300'000)));
  EXPECT_EQ(moved("ofi1s") - sealed_before, requests + 1);
  EXPECT_EQ(moved("ofi1"), plain_before);

  // One that does not ask for it is declined.
  auto plain = Client::connect(options_for(world, certificate, "off"));
  ASSERT_TRUE(plain) << plain.error().message;
  const auto declined = plain->get("sealed", "k", back, part);
  ASSERT_FALSE(declined);
  EXPECT_NE(declined.error().message.find("as rdma.encryption requires"), std::string::npos)
      << declined.error().message;
}

TEST(SealedTokens, ANeverSealingServerGetsThemInTheBody) {
  const Certificate certificate;
  World world(https_config(certificate, RdmaEncryption::off));
  ClientOptions options = options_for(world, certificate, "preferred");
  options.via = Via::automatic;
  options.native_endpoint = "127.0.0.1:1";  // none
  auto client = Client::connect(options);
  ASSERT_TRUE(client) << client.error().message;
  ASSERT_TRUE(client->make_bucket("sealed"));
  const auto data = random_bytes(100'000, 3);
  const auto put = client->put("sealed", "k", data);
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(put->transfer.door, Via::http);
  std::vector<std::byte> back(data.size());
  const auto got = client->get("sealed", "k", back);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.door, Via::http);
  EXPECT_TRUE(same(back, data));
}

}  // namespace
}  // namespace verbena::matrix
