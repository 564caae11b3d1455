#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <span>

#include "base/bytes.h"
#include "base/text.h"

namespace verbena::net {
namespace {

namespace asio = boost::asio;
using Thumbprints = std::vector<std::string>;

bool is_address(const std::string& host) {
  boost::system::error_code no_address;
  asio::ip::make_address(host, no_address);
  return !no_address;
}

// An empty name would be taken for "any".
bool expect_name(X509_VERIFY_PARAM* wanted, const std::string& host) {
  if (host.empty()) return false;
  if (is_address(host)) return X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) == 1;
  X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), host.size()) == 1;
}

bool is_pinned(X509* certificate, const Thumbprints& pinned) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (X509_digest(certificate, EVP_sha1(), digest, &size) != 1) return false;
  const std::string text = to_hex(std::as_bytes(std::span(digest, size)));
  return std::ranges::any_of(pinned, [&](const std::string& one) { return lower(one) == text; });
}

// A certificate of the peer's chain whose thumbprint was named is trusted as if it were an authority's. Everything else
// is checked as always: signatures down to the peer's own, its name, its time.
int verify_chain(X509_STORE_CTX* context, void* pinned) {
  const auto& thumbprints = *static_cast<const Thumbprints*>(pinned);
  X509_STORE* const trusted = X509_STORE_CTX_get0_store(context);
  STACK_OF(X509)* const shown = X509_STORE_CTX_get0_untrusted(context);
  for (int i = 0; i < sk_X509_num(shown); ++i) {
    X509* const certificate = sk_X509_value(shown, i);
    if (!is_pinned(certificate, thumbprints)) continue;
    X509_STORE_add_cert(trusted, certificate);  // of this one context
    X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
  }
  return X509_verify_cert(context);
}

int host_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

// Libraries have asked for the address by now, which is no name: this is called before their first message is made.
void ask_for_host(const SSL* ssl, int where, int) {
  if ((where & SSL_CB_HANDSHAKE_START) == 0) return;
  const auto* host = static_cast<const std::string*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), host_index()));
  SSL_set_tlsext_host_name(const_cast<SSL*>(ssl), is_address(*host) ? nullptr : const_cast<char*>(host->c_str()));
}

}  // namespace

Result<void> trust_authorities(SSL_CTX* tls, const TlsTrust& trust) {
  SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION);
  SSL_CTX_set_verify(tls, trust.insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  if (trust.insecure) return {};
  const bool from_file = !trust.ca_file.empty(), from_system = !from_file || trust.system_too;
  bool loaded = !from_system || SSL_CTX_set_default_verify_paths(tls) == 1;
  if (from_file) loaded = loaded && SSL_CTX_load_verify_locations(tls, trust.ca_file.c_str(), nullptr) == 1;
  ERR_clear_error();
  if (!loaded) return fail(Errc::bad_config, "TLS: the certificates of authorities cannot be read");
  return {};
}

Result<asio::ssl::context> make_client_tls(const TlsTrust& trust) {
  asio::ssl::context tls(asio::ssl::context::tls_client);
  VB_TRY(trust_authorities(tls.native_handle(), trust));
  return tls;
}

void trust_thumbprints(SSL_CTX* tls, const std::vector<std::string>& thumbprints) {
  SSL_CTX_set_cert_verify_callback(tls, verify_chain, const_cast<Thumbprints*>(&thumbprints));
}

void ask_for_peer(SSL* tls, const std::string& host) {
  if (!is_address(host)) SSL_set_tlsext_host_name(tls, host.c_str());
}

bool name_peer(SSL* tls, const std::string& host) {
  ask_for_peer(tls, host);
  return expect_name(SSL_get0_param(tls), host);
}

bool expect_host(SSL_CTX* tls, const std::string& host) {
  SSL_CTX_set_ex_data(tls, host_index(), const_cast<std::string*>(&host));
  SSL_CTX_set_info_callback(tls, ask_for_host);
  return expect_name(SSL_CTX_get0_param(tls), host);
}

}  // namespace verbena::net
