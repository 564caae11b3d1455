#include "fabric/tcp/tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace verbena::fabric::tcp {

// The parts that OpenSSL's callbacks may touch.
struct TlsAccess {
  static int socket(Tls& tls) { return tls.socket_; }
  static void ended(Tls& tls) { tls.ended_ = true; }
  static const Sha256& key(Tls& tls) { return tls.key_; }
  // How many bytes may be read now, of `size`.
  static size_t room(Tls& tls, size_t size) {
    return tls.ready_ ? size : std::min(size, handshake_bytes_max - tls.handshake_bytes_);
  }
  static void received(Tls& tls, size_t size) {
    if (!tls.ready_) tls.handshake_bytes_ += size;
  }
  // A key update costs this side many times what it costs the peer, and OpenSSL reads on until application data comes.
  // Beyond its limit the peer seems to have left: OpenSSL reads no further record.
  static void own_message(Tls& tls) {
    if (!tls.ready_ || ++tls.own_messages_ <= own_messages_max + tls.opened_ / records_per_own_message) return;
    tls.flooded_ = true;
    SSL_set_shutdown(tls.ssl_.get(), SSL_RECEIVED_SHUTDOWN);
  }
};

namespace {

constexpr std::string_view identity = "verbena-tcp-1";  // the same for all: the key is unique to the connection
constexpr long read_buffer_size = 64 * 1024;
constexpr int tls13_aes128_sha256 = 0x1301;

thread_local std::vector<std::byte> cipher;

// --- BIO: how OpenSSL reads and writes -------------------------------------------------------------------------------

int bio_write(BIO*, const char* data, int size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  cipher.insert(cipher.end(), bytes, bytes + size);
  return size;
}

int bio_read(BIO* bio, char* into, int size) {
  Tls& tls = *static_cast<Tls*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const size_t room = TlsAccess::room(tls, static_cast<size_t>(size));
  if (room == 0) return -1;
  const ssize_t got = ::recv(TlsAccess::socket(tls), into, room, MSG_DONTWAIT);
  if (got > 0) {
    TlsAccess::received(tls, static_cast<size_t>(got));
    return static_cast<int>(got);
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    BIO_set_retry_read(bio);
    return -1;
  }
  TlsAccess::ended(tls);
  return got < 0 ? -1 : 0;
}

// No-op: written bytes stay in `cipher` until the stream sends them.
long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO_METHOD* bio_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "verbena tcp");
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_ctrl(made, bio_control);
    return made;
  }();
  return method;
}

// --- The pre-shared key ----------------------------------------------------------------------------------------------

SSL_SESSION* session_of(SSL* ssl) {
  Tls& tls = *static_cast<Tls*>(SSL_get_app_data(ssl));
  const unsigned char id[2] = {tls13_aes128_sha256 >> 8, tls13_aes128_sha256 & 0xff};
  const SSL_CIPHER* suite = SSL_CIPHER_find(ssl, id);
  SSL_SESSION* session = SSL_SESSION_new();
  const Sha256& key = TlsAccess::key(tls);
  if (session == nullptr || suite == nullptr ||
      SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()), key.size()) != 1 ||
      SSL_SESSION_set_cipher(session, suite) != 1 || SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

int find_session(SSL* ssl, const unsigned char* named, size_t named_size, SSL_SESSION** session) {
  *session = nullptr;
  const std::string_view name(reinterpret_cast<const char*>(named), named_size);
  if (name == identity) *session = session_of(ssl);
  return 1;  // without a session the handshake continues with certificates, of which there are none
}

int use_session(SSL* ssl, const EVP_MD* digest, const unsigned char** name, size_t* name_size, SSL_SESSION** session) {
  *session = nullptr;
  if (digest != nullptr && EVP_MD_get_type(digest) != NID_sha256) return 1;
  *session = session_of(ssl);
  *name = reinterpret_cast<const unsigned char*>(identity.data());
  *name_size = identity.size();
  return *session != nullptr;
}

void see_message(int written, int, int content_type, const void*, size_t, SSL* ssl, void*) {
  if (written == 0 && content_type == SSL3_RT_HANDSHAKE) {
    TlsAccess::own_message(*static_cast<Tls*>(SSL_get_app_data(ssl)));
  }
}

SSL_CTX* make_context(Side side) {
  SSL_CTX* made = SSL_CTX_new(side == Side::server ? TLS_server_method() : TLS_client_method());
  if (made == nullptr) return nullptr;
  const bool sound = SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION) == 1 &&
                     SSL_CTX_set_max_proto_version(made, TLS1_3_VERSION) == 1 &&
                     SSL_CTX_set_ciphersuites(made, "TLS_AES_128_GCM_SHA256") == 1 &&
                     SSL_CTX_set_num_tickets(made, 0) == 1 &&
                     // Limits the peer's choice: 8,192 bits of ffdhe8192 cost a hundred times as much.
                     SSL_CTX_set1_groups_list(made, "X25519:P-256") == 1;
  if (!sound) {
    SSL_CTX_free(made);
    return nullptr;
  }
  SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(made, SSL_MODE_RELEASE_BUFFERS);  // idle connections keep no record buffers
  SSL_CTX_set_options(made, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  SSL_CTX_set_msg_callback(made, see_message);
  SSL_CTX_set_read_ahead(made, 1);
  SSL_CTX_set_default_read_buffer_len(made, read_buffer_size);
  // Only the key: a peer that offers a certificate instead is refused, since no authority is trusted.
  SSL_CTX_set_verify(made, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  if (side == Side::server) {
    // Required wherever peers are verified, though no session is ever resumed.
    SSL_CTX_set_session_id_context(made, reinterpret_cast<const unsigned char*>(identity.data()), identity.size());
    SSL_CTX_set_psk_find_session_callback(made, find_session);
  } else {
    SSL_CTX_set_psk_use_session_callback(made, use_session);
  }
  return made;
}

SSL_CTX* context(Side side) {
  static SSL_CTX* const server = make_context(Side::server);
  static SSL_CTX* const client = make_context(Side::client);
  return side == Side::server ? server : client;
}

}  // namespace

MutableBytes cipher_text() { return cipher; }
void clear_cipher_text() { cipher.clear(); }

Result<std::unique_ptr<Tls>> Tls::make(Side side, int socket, const Sha256& key) {
  SSL_CTX* shared = context(side);
  if (shared == nullptr) return fail(Errc::internal, "tcp: TLS is not available");
  std::unique_ptr<Tls> tls(new Tls);
  tls->socket_ = socket;
  tls->key_ = key;
  tls->ssl_.reset(SSL_new(shared));
  BIO* bio = BIO_new(bio_method());
  if (tls->ssl_ == nullptr || bio == nullptr) {
    BIO_free(bio);
    return fail(Errc::out_of_memory, "tcp: TLS");
  }
  BIO_set_data(bio, tls.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(tls->ssl_.get(), bio, bio);
  SSL_set_app_data(tls->ssl_.get(), tls.get());
  if (side == Side::server) {
    SSL_set_accept_state(tls->ssl_.get());
  } else {
    SSL_set_connect_state(tls->ssl_.get());
  }
  return tls;
}

Tls::~Tls() { OPENSSL_cleanse(key_.data(), key_.size()); }

Result<HandshakeState> Tls::handshake() {
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_.get());
  if (done == 1) {
    // Without the key on both ends there is no connection.
    if (SSL_session_reused(ssl_.get()) != 1) return fail(Errc::access_denied, "tcp: TLS without the key");
    OPENSSL_cleanse(key_.data(), key_.size());
    ready_ = true;
    return HandshakeState::complete;
  }
  const int why = SSL_get_error(ssl_.get(), done);
  if (why == SSL_ERROR_WANT_READ) return HandshakeState::needs_input;
  if (ended_) return fail(Errc::closed, "tcp: the peer left in the TLS handshake");
  return fail(Errc::access_denied, "tcp: TLS handshake");
}

Result<void> Tls::seal(Bytes plain) {
  ERR_clear_error();
  // Sent before this record.
  if (sealed_ >= records_per_key && SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1) sealed_ = 0;
  size_t done = 0;
  ++sealed_;
  if (SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &done) == 1 && done == plain.size()) return {};
  return fail(Errc::closed, "tcp: TLS write");
}

Result<Tls::Opened> Tls::open(MutableBytes into) {
  Opened opened;
  ERR_clear_error();
  for (size_t records = 0; opened.size < into.size() && records < records_at_once_max; ++records) {
    size_t got = 0;
    const int done = SSL_read_ex(ssl_.get(), into.data() + opened.size, into.size() - opened.size, &got);
    if (flooded_) return fail(Errc::malformed, "tcp: TLS messages without end");
    if (done == 1) {
      opened.size += got;
      ++opened_;
      continue;
    }
    const int why = SSL_get_error(ssl_.get(), done);
    opened.drained = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
    if (opened.drained || opened.size != 0) break;  // an error is reported by the next call
    if (why == SSL_ERROR_ZERO_RETURN || ended_) return fail(Errc::closed, "tcp: the peer left");
    return fail(Errc::malformed, "tcp: TLS record");
  }
  return opened;
}

}  // namespace verbena::fabric::tcp
