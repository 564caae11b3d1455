#include "events/amqp_exchange.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "base/clock.h"
#include "events/client_tls.h"
#include "events/complaints.h"
#include "events/network_guard.h"
#include "events/waves.h"

namespace verbena::events {
namespace {

constexpr amqp_channel_t only_channel = 1;
constexpr int frame_bytes_max = 128 * 1024;
// A connection attempt cannot be interrupted, and the server's stop would wait for it.
constexpr std::chrono::milliseconds connect_max{5'000};
constexpr uint8_t kept_on_disk = 2;  // delivery mode

struct FreeAmqp {
  void operator()(amqp_connection_state_t_* connection) const { amqp_destroy_connection(connection); }
};
using AmqpPtr = std::unique_ptr<amqp_connection_state_t_, FreeAmqp>;

amqp_bytes_t bytes_of(const std::string& text) { return {text.size(), const_cast<char*>(text.data())}; }
std::string_view text_of(amqp_bytes_t bytes) { return {static_cast<const char*>(bytes.bytes), bytes.len}; }

timeval time_until(Deadline until) {
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(until - SteadyClock::now()).count();
  const auto positive = std::max<int64_t>(left, 0);
  return {positive / 1'000'000, positive % 1'000'000};
}

class AmqpExchange final : public Target {
 public:
  explicit AmqpExchange(TargetSettings settings) : settings_(std::move(settings)), complaints_(settings_.name) {}
  ~AmqpExchange() override { drop(); }

  std::string said() const override { return complaints_.said(); }
  void cut() override {
    const std::lock_guard lock(mutex_);
    cut_ = true;
    if (socket_ >= 0) ::shutdown(socket_, SHUT_RDWR);
  }

  Task<Result<void>> deliver(const std::vector<std::string>& messages, size_t& delivered) override {
    complaints_.begin();
    const std::vector<std::string> keys = keys_of_events(messages);
    while (delivered < messages.size()) {
      const size_t end = end_of_wave(keys, delivered);
      const bool reused = connection_ != nullptr;
      auto done = publish(messages, delivered, end);
      // The broker may have closed an idle connection meanwhile.
      if (!done && reused && done.error() == Errc::connection_failed) done = publish(messages, delivered, end);
      if (!done) co_return done;
      complaints_.forget();
      delivered = end;
    }
    co_return Result<void>();
  }

 private:
  Result<void> publish(const std::vector<std::string>& messages, size_t from, size_t end) {
    auto done = exchange(messages, from, end);
    if (!done) drop();
    return done;
  }

  Result<void> exchange(const std::vector<std::string>& messages, size_t from, size_t end) {
    if (connection_ == nullptr) VB_TRY(connect());
    amqp_basic_properties_t properties{};
    properties._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG;
    properties.content_type = amqp_cstring_bytes("application/json");
    properties.delivery_mode = kept_on_disk;
    for (size_t i = from; i < end; ++i) {
      VB_TRY(may_send());
      const int status =
          amqp_basic_publish(connection_.get(), only_channel, bytes_of(settings_.exchange), bytes_of(settings_.path),
                             /*mandatory=*/1, /*immediate=*/0, &properties, bytes_of(messages[i]));
      if (status != AMQP_STATUS_OK) return failed(status, "amqp: the broker takes nothing");
      unconfirmed_.insert(++published_);
    }
    return wait_for_confirmations(deadline_in(settings_.timeout));
  }

  // Waits until everything published is confirmed.
  Result<void> wait_for_confirmations(Deadline until) {
    while (!unconfirmed_.empty()) {
      amqp_maybe_release_buffers(connection_.get());
      amqp_frame_t frame{};
      const timeval left = time_until(until);
      const int status = amqp_simple_wait_frame_noblock(connection_.get(), &frame, &left);
      if (status == AMQP_STATUS_TIMEOUT || SteadyClock::now() >= until) {
        return fail(Errc::timed_out, "amqp: no confirmation");
      }
      if (status != AMQP_STATUS_OK) return failed(status, "amqp: no confirmation");
      if (frame.frame_type == AMQP_FRAME_METHOD) VB_TRY(hear(frame.payload.method));
    }
    return {};
  }

  Result<void> hear(const amqp_method_t& method) {
    switch (method.id) {
      case AMQP_BASIC_ACK_METHOD: {
        const auto* ack = static_cast<const amqp_basic_ack_t*>(method.decoded);
        if (ack->delivery_tag > published_)
          return fail(Errc::connection_failed, "amqp: the broker confirmed a message that was not sent");
        // Brokers confirm in any order, singly or several at once.
        if (ack->multiple != 0) {
          unconfirmed_.erase(unconfirmed_.begin(), unconfirmed_.upper_bound(ack->delivery_tag));
        } else {
          unconfirmed_.erase(ack->delivery_tag);
        }
        return {};
      }
      case AMQP_BASIC_NACK_METHOD:
        return fail(Errc::invalid_request, "amqp: the broker refuses the message");
      case AMQP_BASIC_RETURN_METHOD:
        complaints_.say(text_of(static_cast<const amqp_basic_return_t*>(method.decoded)->reply_text));
        return fail(Errc::invalid_request, "amqp: no queue wants the message");
      case AMQP_CHANNEL_CLOSE_METHOD:
        complaints_.say(text_of(static_cast<const amqp_channel_close_t*>(method.decoded)->reply_text));
        return fail(Errc::invalid_request, "amqp: the broker refuses the message");
      case AMQP_CONNECTION_CLOSE_METHOD:
        complaints_.say(text_of(static_cast<const amqp_connection_close_t*>(method.decoded)->reply_text));
        return fail(Errc::connection_failed, "amqp: the broker closes the connection");
      default:
        return {};
    }
  }

  // Connects to a checked address, not to a name.
  Result<void> connect() {
    VB_ASSIGN(const net::TcpEndpoints endpoints, target_addresses(settings_, cut_));
    int status = AMQP_STATUS_SOCKET_ERROR;
    for (const auto& endpoint : endpoints) {
      if (cut_) return fail(Errc::cancelled, "amqp: the server ends");
      VB_ASSIGN(status, open(endpoint));
      if (status == AMQP_STATUS_OK) return introduce();
    }
    return failed(status, "amqp: no connection");
  }

  Result<int> open(const boost::asio::ip::tcp::endpoint& endpoint) {
    drop();
    connection_.reset(amqp_new_connection());
    if (connection_ == nullptr) return fail(Errc::connection_failed, "amqp: no memory");
    amqp_socket_t* socket =
        settings_.tls ? amqp_ssl_socket_new(connection_.get()) : amqp_tcp_socket_new(connection_.get());
    if (socket == nullptr) return fail(Errc::connection_failed, "amqp: no memory");
    if (settings_.tls) VB_TRY(check_certificate(socket));
    const timeval limit = time_until(deadline_in(std::min(settings_.timeout, connect_max)));
    const int status =
        amqp_socket_open_noblock(socket, endpoint.address().to_string().c_str(), endpoint.port(), &limit);
    if (status != AMQP_STATUS_OK) return status;
    const std::lock_guard lock(mutex_);
    if (cut_) return fail(Errc::cancelled, "amqp: the server ends");
    socket_ = amqp_get_sockfd(connection_.get());
    // The library writes without a deadline: with this option the kernel drops a connection whose broker does not read.
    const unsigned milliseconds = static_cast<unsigned>(settings_.timeout.count());
    ::setsockopt(socket_, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
    return status;
  }

  // Checked by OpenSSL directly: the library has the address, not the name.
  Result<void> check_certificate(amqp_socket_t* socket) {
    auto* tls = static_cast<SSL_CTX*>(amqp_ssl_socket_get_context(socket));
    amqp_ssl_socket_set_verify_hostname(socket, 0);
    amqp_ssl_socket_set_verify_peer(socket, 1);
    if (!net::trust_authorities(tls, {.ca_file = settings_.ca_file})) {
      return fail(Errc::connection_failed, "amqp: the certificates of events.ca_file cannot be read");
    }
    if (!net::expect_host(tls, settings_.host)) {
      return fail(Errc::connection_failed, "amqp: a certificate cannot be checked for this host");
    }
    return {};
  }

  Result<void> introduce() {
    const timeval limit = time_until(deadline_in(settings_.timeout));
    amqp_set_handshake_timeout(connection_.get(), &limit);
    amqp_set_rpc_timeout(connection_.get(), &limit);
    const size_t colon = settings_.secret.find(':');
    const bool known = colon != std::string::npos;
    const std::string user = known ? settings_.secret.substr(0, colon) : "guest";
    const std::string password = known ? settings_.secret.substr(colon + 1) : "guest";
    VB_TRY(answered(amqp_login(connection_.get(), settings_.vhost.c_str(), only_channel, frame_bytes_max,
                               /*heartbeat=*/0, AMQP_SASL_METHOD_PLAIN, user.c_str(), password.c_str())));
    amqp_channel_open(connection_.get(), only_channel);
    VB_TRY(answered(amqp_get_rpc_reply(connection_.get())));
    amqp_confirm_select(connection_.get(), only_channel);
    VB_TRY(answered(amqp_get_rpc_reply(connection_.get())));
    published_ = 0;
    unconfirmed_.clear();
    return {};
  }

  Result<void> answered(const amqp_rpc_reply_t& reply) {
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return {};
    if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION) {
      VB_TRY(hear(reply.reply));
      return fail(Errc::connection_failed, "amqp: the broker refuses the connection");
    }
    return failed(reply.library_error, "amqp: the broker refuses the connection");
  }

  Result<void> failed(int status, const char* what) {
    complaints_.say(amqp_error_string2(status));
    return fail(status == AMQP_STATUS_TIMEOUT ? Errc::timed_out : Errc::connection_failed, what);
  }

  void drop() {
    const std::lock_guard lock(mutex_);
    socket_ = -1;
    connection_.reset();
  }

  const TargetSettings settings_;
  Complaints complaints_;
  std::mutex mutex_;  // guards socket_: cut() is called by another thread
  int socket_ = -1;
  AmqpPtr connection_;
  uint64_t published_ = 0;  // on this channel
  std::set<uint64_t> unconfirmed_;
  std::atomic<bool> cut_{false};
};

}  // namespace

std::expected<std::unique_ptr<Target>, std::string> make_amqp_exchange(const TargetSettings& settings) {
  if (auto readable = make_target_tls(settings); !readable) return std::unexpected(readable.error());
  return std::make_unique<AmqpExchange>(settings);
}

}  // namespace verbena::events
