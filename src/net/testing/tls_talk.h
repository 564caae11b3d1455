// TLS of a server for tests, and its throw-away certificate.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "net/testing/hostile_server.h"

namespace verbena::net {

template <auto free>
struct Freed {
  void operator()(auto* p) const { free(p); }
};
using ContextPtr = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;

struct TestIdentity {
  ContextPtr context;
  std::string pem;         // of the certificate, which signs itself
  std::string thumbprint;  // SHA-1
};

// `names`: what the certificate is for, like "DNS:localhost" or "IP:127.0.0.1"; empty: nothing.
inline TestIdentity make_identity(const std::string& names = {}) {
  TestIdentity made{.context = ContextPtr(SSL_CTX_new(TLS_server_method())), .pem = {}, .thumbprint = {}};
  const std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>> key(EVP_EC_gen("P-256"));
  const std::unique_ptr<X509, Freed<X509_free>> certificate(X509_new());
  X509* const x509 = certificate.get();
  X509_set_version(x509, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509), -60);
  X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x509), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(x509, X509_get_subject_name(x509));
  X509_set_pubkey(x509, key.get());
  if (!names.empty()) {
    const std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>> extension(
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str()));
    X509_add_ext(x509, extension.get(), -1);
  }
  X509_sign(x509, key.get(), EVP_sha256());
  SSL_CTX_use_certificate(made.context.get(), x509);
  SSL_CTX_use_PrivateKey(made.context.get(), key.get());
  const std::unique_ptr<BIO, Freed<BIO_free>> text(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(text.get(), x509);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(text.get(), &bytes);
  made.pem.assign(bytes, static_cast<size_t>(size));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int digest_size = 0;
  X509_digest(x509, EVP_sha1(), digest, &digest_size);
  made.thumbprint = to_hex(std::as_bytes(std::span(digest, digest_size)));
  return made;
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

  // The name that the client has asked for; empty: none.
  std::string asked_for() const {
    const char* name = SSL_get_servername(ssl_.get(), TLSEXT_NAMETYPE_host_name);
    return name == nullptr ? std::string() : std::string(name);
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

}  // namespace verbena::net
