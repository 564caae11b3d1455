#include "http/tls.h"

#include <openssl/ssl.h>

#include <cstring>

namespace verbena::http {
namespace {

namespace ssl = boost::asio::ssl;

// Picks http/1.1 where the client offers it; a client that offers only others goes on without ALPN.
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

void see_message(int written, int, int content_type, const void*, size_t, SSL* ssl, void* of) {
  if (written != 0 || content_type != SSL3_RT_HEADER || of == nullptr) return;
  if (++static_cast<TlsRecords*>(of)->count > TlsRecords::most) SSL_set_shutdown(ssl, SSL_RECEIVED_SHUTDOWN);
}

}  // namespace

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
  // A stranger chooses: ffdhe8192, which OpenSSL would take, too, is a hundred times the work of these.
  if (SSL_CTX_set1_groups_list(native, "X25519:P-256:P-384:P-521") != 1) return fail(Errc::internal, "TLS groups");
  SSL_CTX_set_alpn_select_cb(native, choose_protocol, nullptr);
  boost::system::error_code ec;
  context.use_certificate_chain_file(files.certificate_path, ec);
  if (ec) return fail(Errc::bad_config, "TLS certificate cannot be used", ec.value());
  context.use_private_key_file(files.key_path, ssl::context::pem, ec);
  if (ec) return fail(Errc::bad_config, "TLS key cannot be used", ec.value());
  if (SSL_CTX_check_private_key(native) != 1) return fail(Errc::bad_config, "TLS key does not fit the certificate");
  return context;
}

}  // namespace verbena::http
