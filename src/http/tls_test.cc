#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>

#include <filesystem>

#include "http/test_server.h"
#include "http/tls.h"

namespace verbena::http {
namespace {

// A throw-away certificate and key, valid for an hour.
class Certificate {
 public:
  explicit Certificate(EVP_PKEY* key = EVP_EC_gen("P-256")) {
    char pattern[] = "/tmp/verbena-tls-XXXXXX";
    directory_ = ::mkdtemp(pattern);
    X509* certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME* name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1,
                               0);
    X509_set_issuer_name(certificate, name);
    X509_sign(certificate, key, EVP_sha256());
    std::FILE* file = std::fopen(files().certificate_path.c_str(), "w");
    PEM_write_X509(file, certificate);
    std::fclose(file);
    file = std::fopen(files().key_path.c_str(), "w");
    PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  ~Certificate() { std::filesystem::remove_all(directory_); }
  TlsFiles files() const { return {directory_ + "/cert.pem", directory_ + "/key.pem"}; }

 private:
  std::string directory_;
};

// What a client offers besides its versions; nullptr: OpenSSL's own choice.
struct Offer {
  const char* groups = nullptr;
  const char* ciphers = nullptr;  // of TLS 1.2
};

// A blocking TLS client over TestClient's socket.
class TlsClient {
 public:
  explicit TlsClient(uint16_t port, int version_max = TLS1_3_VERSION, std::string_view alpn = "\x08http/1.1",
                     const Offer& offer = {})
      : socket_(port), context_(SSL_CTX_new(TLS_client_method())), ssl_(nullptr) {
    SSL_CTX_set_min_proto_version(context_, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context_, version_max);
    SSL_CTX_set_security_level(context_, 0);
    if (offer.groups != nullptr) {
      EXPECT_EQ(SSL_CTX_set1_groups_list(context_, offer.groups), 1);
    }
    if (offer.ciphers != nullptr) {
      EXPECT_EQ(SSL_CTX_set_cipher_list(context_, offer.ciphers), 1);
    }
    ssl_ = SSL_new(context_);
    if (!alpn.empty()) {
      SSL_set_alpn_protos(ssl_, reinterpret_cast<const unsigned char*>(alpn.data()),
                          static_cast<unsigned>(alpn.size()));
    }
    const int on = 1;
    ::setsockopt(socket_.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    SSL_set_fd(ssl_, socket_.fd());
    connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  bool connected() const { return connected_; }
  std::string cipher() const { return SSL_get_cipher_name(ssl_); }
  std::string protocol() const {
    const unsigned char* text = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl_, &text, &size);
    return {reinterpret_cast<const char*>(text), size};
  }
  // False: the server has closed.
  bool update_keys() { return SSL_key_update(ssl_, SSL_KEY_UPDATE_REQUESTED) == 1 && SSL_do_handshake(ssl_) == 1; }
  std::string ask(std::string_view request, size_t body_size) {
    size_t done = 0;
    if (SSL_write_ex(ssl_, request.data(), request.size(), &done) != 1 || done != request.size()) return {};
    std::string text;
    char piece[16384];
    size_t head = std::string::npos;
    while (head == std::string::npos || text.size() < head + 4 + body_size) {
      size_t n = 0;
      if (SSL_read_ex(ssl_, piece, sizeof piece, &n) != 1) break;
      text.append(piece, n);
      if (head == std::string::npos) head = text.find("\r\n\r\n");
    }
    return head == std::string::npos ? std::string() : text.substr(head + 4);
  }

 private:
  TestClient socket_;
  SSL_CTX* context_;
  SSL* ssl_;
  bool connected_ = false;
};

class Tls : public testing::Test {
 protected:
  Certificate certificate_;
};

TEST_F(Tls, RequestsAndAnswersGoBothWaysWhole) {
  TestServer server({}, certificate_.files());
  TlsClient client(server.port());
  ASSERT_TRUE(client.connected());
  EXPECT_EQ(client.protocol(), "http/1.1");
  EXPECT_EQ(client.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n", 5), "hello");
  for (size_t size : {1, 4096, 16384, 16385, 100'000, 3'000'001}) {
    EXPECT_TRUE(client.ask("GET /send?" + std::to_string(size) + " HTTP/1.1\r\nHost: h\r\n\r\n", size) ==
                pattern(size));
  }
  const auto body = pattern(1'000'000);
  EXPECT_TRUE(client.ask("PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n" + body, body.size()) ==
              body);
  EXPECT_EQ(test_arena().leased_bytes(), 0u);
}

TEST_F(Tls, OldVersionsAreRefusedAndTheOthersAreNot) {
  TestServer server({}, certificate_.files());
  EXPECT_FALSE(TlsClient(server.port(), TLS1_1_VERSION).connected());
  EXPECT_TRUE(TlsClient(server.port(), TLS1_2_VERSION).connected());
  EXPECT_TRUE(server.wait_for_connections(0));
}

TEST_F(Tls, AClientOfOtherProtocolsOrNoneConnectsWithoutOne) {
  TestServer server({}, certificate_.files());
  TlsClient h2(server.port(), TLS1_3_VERSION, std::string_view("\x02h2"));
  EXPECT_TRUE(h2.connected());
  EXPECT_EQ(h2.protocol(), "");
  TlsClient both(server.port(), TLS1_3_VERSION, std::string_view("\x02h2\x08http/1.1"));
  EXPECT_EQ(both.protocol(), "http/1.1");
  EXPECT_TRUE(TlsClient(server.port(), TLS1_3_VERSION, "").connected());
}

TEST_F(Tls, PlainTextAndSilenceOnATlsPortAreDropped) {
  TestServer server(Limits{.header_timeout = std::chrono::seconds(1)}, certificate_.files());
  TestClient plain(server.port()), silent(server.port());
  plain.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(plain.read().status, 0);
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(server.wait_for_connections(0));
}

TEST_F(Tls, AReaderThatLeavesMidAnswerCostsNoLease) {
  TestServer server({}, certificate_.files());
  {
    TlsClient client(server.port());
    client.ask("GET /send?200000000 HTTP/1.1\r\nHost: h\r\n\r\n", 1000);
  }
  EXPECT_TRUE(server.wait_for_connections(0));
  EXPECT_EQ(test_arena().leased_bytes(), 0u);
}

// Without any credentials one connection could occupy its core without end.
TEST_F(Tls, NewKeysWithoutEndEndTheConnection) {
  ::signal(SIGPIPE, SIG_IGN);  // for OpenSSL's writes to a closed connection
  TestServer server({}, certificate_.files());
  TlsClient client(server.port());
  ASSERT_TRUE(client.connected());
  int updates = 0;
  while (updates < 100'000 && client.update_keys()) ++updates;
  EXPECT_LT(updates, 100'000);
  EXPECT_TRUE(server.wait_for_connections(0));
}

TEST_F(Tls, NewKeysBeforeEachRequestAreFine) {
  TestServer server({}, certificate_.files());
  TlsClient client(server.port());
  for (unsigned i = 0; i < 2 * TlsRecords::most; ++i) {
    ASSERT_TRUE(client.update_keys());
    ASSERT_EQ(client.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n", 5), "hello") << i;
  }
}

TEST_F(Tls, NoGroupThatCostsMuchIsTaken) {
  TestServer server({}, certificate_.files());
  EXPECT_FALSE(TlsClient(server.port(), TLS1_3_VERSION, "", {.groups = "ffdhe8192"}).connected());
  for (const char* groups : {"X25519", "P-256", "P-384", "ffdhe8192:P-521"}) {
    EXPECT_TRUE(TlsClient(server.port(), TLS1_3_VERSION, "", {.groups = groups}).connected()) << groups;
  }
}

// What was recorded would be open to a later finder of the server's private key.
TEST_F(Tls, NoKeyExchangeWithoutForwardSecrecyIsTaken) {
  const Certificate rsa(EVP_RSA_gen(2048));  // a key that serves both kinds of exchange
  TestServer server({}, rsa.files());
  const auto offered = [&](const char* ciphers) {
    const TlsClient client(server.port(), TLS1_2_VERSION, "", {.ciphers = ciphers});
    return client.connected() ? client.cipher() : "refused";
  };
  for (const char* ciphers : {"AES256-GCM-SHA384", "AES128-GCM-SHA256", "AES256-SHA", "kRSA"}) {
    EXPECT_EQ(offered(ciphers), "refused") << ciphers;
  }
  EXPECT_EQ(offered("ECDHE-RSA-AES256-SHA384:ECDHE-RSA-AES128-SHA"), "refused") << "CBC";
  for (const char* cipher : {"ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"}) {
    EXPECT_EQ(offered(cipher), cipher);
    EXPECT_EQ(offered(("AES256-GCM-SHA384:" + std::string(cipher)).c_str()), cipher) << "though the client prefers RSA";
  }
}

TEST_F(Tls, FilesThatAreNoneAreBadConfiguration) {
  Core core({});
  const auto good = certificate_.files();
  const Certificate other;
  for (const TlsFiles& files :
       {TlsFiles{"/nonexistent", good.key_path}, TlsFiles{good.certificate_path, "/nonexistent"},
        TlsFiles{good.key_path, good.certificate_path}, TlsFiles{good.certificate_path, other.files().key_path}}) {
    auto made = listen(core, "127.0.0.1", 0, {}, files, act_on_path);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Errc::bad_config);
  }
}

}  // namespace
}  // namespace verbena::http
