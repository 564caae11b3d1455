#include "net/tls.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "net/http_client.h"
#include "net/testing/tls_talk.h"

namespace verbena::net {
namespace {

// Servers with certificates for these names, and what a client makes of them.
class TlsNames : public ::testing::Test {
 protected:
  ~TlsNames() override { std::filesystem::remove(ca_file_); }

  HttpOptions trusting(const TestIdentity& identity, const std::string& host) {
    std::ofstream(ca_file_) << identity.pem;
    return {.host = host, .tls = true, .ca_file = ca_file_};
  }
  Errc ask(TestIdentity& identity, HttpOptions options) {
    HostileServer server(
        [&](HostileServer& self, int fd) {
          TlsTalk talk(self, fd, identity.context.get());
          if (!talk.shake_hands() || !talk.read_head()) return;
          asked_for_ = talk.asked_for();
          talk.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
          self.wait(fd);
        },
        HostileServer::at_once);
    options.port = server.port();
    const auto client = HttpClient::create(std::move(options));
    if (!client) return client.error().code;
    const auto reply = (*client)->request({});
    return reply ? Errc::ok : reply.error().code;
  }
  // The certificate is for `names`, and trusted.
  Errc ask(const std::string& names, const std::string& host) {
    TestIdentity identity = make_identity(names);
    return ask(identity, trusting(identity, host));
  }

  const std::string ca_file_ =
      (std::filesystem::temp_directory_path() / ("verbena-tls-" + std::to_string(::getpid()) + ".pem")).string();
  std::string asked_for_;
};

TEST_F(TlsNames, ANameIsTheCertificatesAndIsAskedFor) {
  EXPECT_EQ(ask("DNS:localhost", "localhost"), Errc::ok);
  EXPECT_EQ(asked_for_, "localhost");
  for (const char* other : {"DNS:other.example", "DNS:localhost.example", "DNS:loc*", "IP:127.0.0.1", ""}) {
    EXPECT_EQ(ask(other, "localhost"), Errc::connection_failed) << other;
  }
}

TEST_F(TlsNames, AnAddressIsTheCertificatesAndIsNoName) {
  EXPECT_EQ(ask("IP:127.0.0.1", "127.0.0.1"), Errc::ok);
  EXPECT_EQ(asked_for_, "");
  for (const char* other : {"IP:127.0.0.2", "DNS:127.0.0.1", "DNS:localhost", ""}) {
    EXPECT_EQ(ask(other, "127.0.0.1"), Errc::connection_failed) << other;
  }
}

TEST_F(TlsNames, ACertificateThatNothingVouchesForIsRefused) {
  TestIdentity identity = make_identity("IP:127.0.0.1"), other = make_identity("IP:127.0.0.1");
  HttpOptions options{.host = "127.0.0.1", .tls = true};
  EXPECT_EQ(ask(identity, options), Errc::connection_failed);
  EXPECT_EQ(ask(identity, trusting(other, "127.0.0.1")), Errc::connection_failed);
  options.insecure = true;
  EXPECT_EQ(ask(identity, options), Errc::ok);
  options = trusting(identity, "127.0.0.1");
  options.system_too = true;
  EXPECT_EQ(ask(identity, options), Errc::ok);
}

TEST_F(TlsNames, AThumbprintVouchesForItsCertificateAlone) {
  TestIdentity identity = make_identity("IP:127.0.0.1"), other = make_identity("IP:127.0.0.1");
  HttpOptions options{.host = "127.0.0.1", .tls = true, .thumbprints = {std::string(40, '0'), identity.thumbprint}};
  EXPECT_EQ(ask(identity, options), Errc::ok);
  std::ranges::transform(options.thumbprints.back(), options.thumbprints.back().begin(), ::toupper);
  EXPECT_EQ(ask(identity, options), Errc::ok);
  EXPECT_EQ(ask(other, options), Errc::connection_failed);
  TestIdentity elsewhere = make_identity("IP:127.0.0.2");
  options.thumbprints = {elsewhere.thumbprint};
  EXPECT_EQ(ask(elsewhere, options), Errc::connection_failed) << "it is trusted, and not this host's";
}

TEST_F(TlsNames, AFileThatIsNoPemIsABadConfiguration) {
  std::ofstream(ca_file_) << "no certificate";
  EXPECT_EQ(HttpClient::create({.tls = true, .ca_file = ca_file_}).error(), Errc::bad_config);
  EXPECT_EQ(make_client_tls({.ca_file = ca_file_ + ".gone", .system_too = true}).error(), Errc::bad_config);
}

}  // namespace
}  // namespace verbena::net
