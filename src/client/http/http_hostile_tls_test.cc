// Servers that keep TLS itself busy: their TLS messages are no reply, and must not hold a request for ever.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "client/http/http_client.h"
#include "client/testing/hostile_server.h"

namespace verbena::client {
namespace {

using namespace std::chrono_literals;

template <auto free>
struct Freed {
  void operator()(auto* p) const { free(p); }
};
using ContextPtr = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;

// With a throw-away certificate.
ContextPtr make_server_context() {
  ContextPtr context(SSL_CTX_new(TLS_server_method()));
  const std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>> key(EVP_EC_gen("P-256"));
  const std::unique_ptr<X509, Freed<X509_free>> certificate(X509_new());
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  SSL_CTX_use_certificate(context.get(), certificate.get());
  SSL_CTX_use_PrivateKey(context.get(), key.get());
  return context;
}

// One connection's TLS.
class TlsTalk {
 public:
  TlsTalk(HostileServer& server, int fd, SSL_CTX* context) : server_(server), fd_(fd), ssl_(SSL_new(context)) {
    SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(ssl_.get());
  }
  bool shake_hands() {
    while (SSL_do_handshake(ssl_.get()) != 1) {
      if (!flush() || !hear()) return false;
    }
    return flush();
  }
  bool read_head() {
    std::string head;
    for (char byte; !head.ends_with("\r\n\r\n");) {
      if (SSL_read(ssl_.get(), &byte, 1) == 1) {
        head += byte;
      } else if (!hear()) {
        return false;
      }
    }
    return true;
  }
  bool say(std::string_view text) {
    return SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size())) > 0 && flush();
  }
  void say_tickets_forever() {
    while (SSL_new_session_ticket(ssl_.get()) == 1 && SSL_do_handshake(ssl_.get()) == 1 && flush()) {
    }
  }

 private:
  bool flush() {
    char bytes[16 * KiB];
    for (int n; (n = BIO_read(SSL_get_wbio(ssl_.get()), bytes, sizeof bytes)) > 0;) {
      if (!server_.say(fd_, {bytes, static_cast<size_t>(n)})) return false;
    }
    return true;
  }
  bool hear() {
    char bytes[16 * KiB];
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    return n > 0 && BIO_write(SSL_get_rbio(ssl_.get()), bytes, static_cast<int>(n)) == n;
  }

  HostileServer& server_;
  int fd_;
  std::unique_ptr<SSL, Freed<SSL_free>> ssl_;
};

class HostileTls : public ::testing::Test {
 protected:
  // Answers each connection's first requests with `replies`, then sends only session tickets.
  HostileServer::Act replies_then_tickets(int replies) {
    return [this, replies](HostileServer& server, int fd) {
      TlsTalk talk(server, fd, context_.get());
      if (!talk.shake_hands()) return;
      for (int i = 0; i < replies; ++i) {
        if (!talk.read_head() || !talk.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")) return;
      }
      talk.say_tickets_forever();
    };
  }
  static std::unique_ptr<HttpClient> client_for(const HostileServer& server) {
    HttpOptions options{.host = "127.0.0.1", .port = server.port(), .tls = true, .insecure = true};
    options.stall_timeout = 500ms;
    return HttpClient::create(options).value();
  }
  static void expect_timed_out(HttpClient& client, const HttpRequest& request = {}) {
    const auto reply = client.request(request);
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().code, Errc::timed_out) << describe(reply.error());
  }

  ContextPtr context_ = make_server_context();
};

TEST_F(HostileTls, SessionTicketsWithoutEndAreNoReply) {
  HostileServer server(replies_then_tickets(0), HostileServer::at_once);
  const auto client = client_for(server);
  expect_timed_out(*client);
  const std::string body(32 * MiB, 'b');  // during the upload the client checks for an early answer
  expect_timed_out(*client, {.method = "PUT", .body = as_bytes(body)});
}

TEST_F(HostileTls, SessionTicketsWithoutEndDoNotOutliveTheDeadline) {
  HostileServer server(replies_then_tickets(0), HostileServer::at_once);
  HttpOptions options{.host = "127.0.0.1", .port = server.port(), .tls = true, .insecure = true};
  const auto client = HttpClient::create(options).value();
  expect_timed_out(*client, {.deadline = deadline_in(1s)});
}

// The connection was kept; before the next request the client checks it for pending bytes.
TEST_F(HostileTls, SessionTicketsOnAKeptConnectionHoldNobody) {
  HostileServer server(replies_then_tickets(1), HostileServer::at_once);
  const auto client = client_for(server);
  const auto first = client->request({});
  ASSERT_TRUE(first) << describe(first.error());
  EXPECT_EQ(first->body, "ok");
  expect_timed_out(*client);
}

}  // namespace
}  // namespace verbena::client
