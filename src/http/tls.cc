#include "http/tls.h"

#include <openssl/core_names.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace verbena::http {
namespace {

namespace ssl = boost::asio::ssl;

// Selects http/1.1 if the client offers it; a client that offers only others continues without ALPN.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                    unsigned int in_size, void*) {
  static constexpr std::string_view wanted = "http/1.1";
  for (unsigned int at = 0; at < in_size;) {
    const unsigned int size = in[at];
    if (at + 1 + size > in_size) break;
    if (size == wanted.size() && std::memcmp(in + at + 1, wanted.data(), size) == 0) {
      *out = in + at + 1;
      *out_size = static_cast<unsigned char>(size);
      return SSL_TLSEXT_ERR_OK;
    }
    at += 1 + size;
  }
  return SSL_TLSEXT_ERR_NOACK;
}

// TLS 1.2 has key exchanges that a recording and the server's private key open later (RSA), and modes whose padding has
// been attacked (CBC). Takes ECDHE with authenticated encryption alone, out of what the system's policy allows. TLS 1.3
// has nothing else.
bool take_forward_secrecy_alone(SSL_CTX* context) {
  std::string names;
  const STACK_OF(SSL_CIPHER)* const allowed = SSL_CTX_get_ciphers(context);
  for (int i = 0; i < sk_SSL_CIPHER_num(allowed); ++i) {
    const SSL_CIPHER* const one = sk_SSL_CIPHER_value(allowed, i);
    if (SSL_CIPHER_get_kx_nid(one) != NID_kx_ecdhe || SSL_CIPHER_is_aead(one) == 0) continue;
    names += names.empty() ? "" : ":";
    names += SSL_CIPHER_get_name(one);
  }
  return !names.empty() && SSL_CTX_set_cipher_list(context, names.c_str()) == 1;
}

void see_message(int written, int, int content_type, const void*, size_t, SSL* ssl, void* of) {
  if (written != 0 || content_type != SSL3_RT_HEADER || of == nullptr) return;
  if (++static_cast<TlsRecords*>(of)->count > TlsRecords::most) SSL_set_shutdown(ssl, SSL_RECEIVED_SHUTDOWN);
}

// Held as long as the connection.
constexpr size_t client_chain_bytes_max = 8 * KiB;
constexpr int client_chain_max = 8, rsa_bits_min = 2048, rsa_bits_max = 4096, rsa_exponent_bits_max = 32;

// Limits the cost of verifying by a key that an unauthenticated client chooses.
bool is_cheap_key(EVP_PKEY* key) {
  if (key == nullptr) return false;
  if (EVP_PKEY_is_a(key, "ED25519") == 1) return true;
  if (EVP_PKEY_is_a(key, "EC") == 1) {
    char group[32] = "";
    size_t size = 0;
    return EVP_PKEY_get_group_name(key, group, sizeof group, &size) == 1 &&
           (std::string_view(group) == "prime256v1" || std::string_view(group) == "secp384r1" ||
            std::string_view(group) == "secp521r1");
  }
  BIGNUM* exponent = nullptr;
  if (EVP_PKEY_is_a(key, "RSA") != 1 || EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_E, &exponent) != 1) return false;
  const bool small = BN_num_bits(exponent) <= rsa_exponent_bits_max;
  BN_free(exponent);
  return small && EVP_PKEY_get_bits(key) >= rsa_bits_min && EVP_PKEY_get_bits(key) <= rsa_bits_max;
}

// Sign-in by certificate verifies it at that time (sign_in/client_authority). For other requests any certificate is
// accepted.
int take_any_certificate(X509_STORE_CTX* context, void*) {
  if (is_cheap_key(X509_get0_pubkey(X509_STORE_CTX_get0_cert(context)))) return 1;
  X509_STORE_CTX_set_error(context, X509_V_ERR_EE_KEY_TOO_SMALL);
  return 0;
}

// Without a list of authorities: the trusted ones may change, and clients that choose a certificate by such names would
// send none.
void ask_for_certificates(SSL_CTX* context) {
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(context, take_any_certificate, nullptr);
  SSL_CTX_set_max_cert_list(context, client_chain_bytes_max);
  // Each connection must present its certificate anew.
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
}

void add_der(const X509* certificate, std::vector<std::string>& to) {
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificate, &der);
  if (size > 0) to.emplace_back(reinterpret_cast<char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
}

}  // namespace

std::vector<std::string> peer_certificates_of(const SSL* ssl) {
  std::vector<std::string> out;
  const X509* const own = SSL_get0_peer_certificate(ssl);
  if (own == nullptr || SSL_session_reused(ssl) == 1) return out;
  add_der(own, out);
  const STACK_OF(X509)* const others = SSL_get_peer_cert_chain(ssl);  // on this side without the client's own
  for (int i = 0; i < std::min(sk_X509_num(others), client_chain_max); ++i) add_der(sk_X509_value(others, i), out);
  return out;
}

void watch_records(SSL* ssl, TlsRecords& records) {
  SSL_set_msg_callback(ssl, see_message);
  SSL_set_msg_callback_arg(ssl, &records);
}

Result<ssl::context> make_tls_context(const TlsFiles& files) {
  ssl::context context(ssl::context::tls_server);
  SSL_CTX* native = context.native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);  // idle connections keep no record buffers
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // The client chooses the group: ffdhe8192, which OpenSSL would accept, costs a hundred times these.
  if (SSL_CTX_set1_groups_list(native, "X25519:P-256:P-384:P-521") != 1) return fail(Errc::internal, "TLS groups");
  if (!take_forward_secrecy_alone(native)) {
    return fail(Errc::bad_config, "TLS: this system's policy allows no cipher suite with forward secrecy");
  }
  SSL_CTX_set_alpn_select_cb(native, choose_protocol, nullptr);
  boost::system::error_code ec;
  context.use_certificate_chain_file(files.certificate_path, ec);
  if (ec) return fail(Errc::bad_config, "TLS certificate cannot be used", ec.value());
  context.use_private_key_file(files.key_path, ssl::context::pem, ec);
  if (ec) return fail(Errc::bad_config, "TLS key cannot be used", ec.value());
  if (SSL_CTX_check_private_key(native) != 1) return fail(Errc::bad_config, "TLS key does not fit the certificate");
  if (files.ask_clients) ask_for_certificates(native);
  return context;
}

}  // namespace verbena::http
