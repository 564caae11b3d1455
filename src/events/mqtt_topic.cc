#include "events/mqtt_topic.h"

#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "events/client_tls.h"
#include "events/complaints.h"
#include "events/network_guard.h"

namespace verbena::events {
namespace {

constexpr int reason_failed = 0x80;  // reasons from here on are failures
constexpr size_t client_id_bytes = 10;

struct FreeMqtt {
  void operator()(mosquitto* client) const { mosquitto_destroy(client); }
};
using MqttPtr = std::unique_ptr<mosquitto, FreeMqtt>;

void start_library() {
  static std::once_flag once;
  std::call_once(once, mosquitto_lib_init);
}

std::string random_client_id() {
  std::byte bytes[client_id_bytes];
  fill_random(bytes);
  return "verbena-" + to_hex(bytes);
}

int left_ms(Deadline until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - SteadyClock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

class MqttTopic final : public Target {
 public:
  MqttTopic(boost::asio::ssl::context tls, TargetSettings settings)
      : tls_(std::move(tls)),
        settings_(std::move(settings)),
        complaints_(settings_.name),
        cut_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    start_library();
  }
  bool expect_host() { return net::expect_host(tls_.native_handle(), settings_.host); }

  std::string said() const override { return complaints_.said(); }
  void cut() override {
    cut_ = true;
    (void)::eventfd_write(cut_event_.get(), 1);
  }

  // One after the other: an event that the broker refuses must not be overtaken by an accepted one.
  Task<Result<void>> deliver(const std::vector<std::string>& messages, size_t& delivered) override {
    complaints_.begin();
    for (const std::string& message : messages) {
      const bool reused = client_ != nullptr;
      auto done = publish(message);
      // The broker may have closed an idle connection meanwhile.
      if (!done && reused && done.error() == Errc::connection_failed) done = publish(message);
      if (!done) co_return done;
      complaints_.forget();
      ++delivered;
    }
    co_return Result<void>();
  }

 private:
  Result<void> publish(const std::string& message) {
    auto done = exchange(message);
    if (!done) client_.reset();
    return done;
  }

  Result<void> exchange(const std::string& message) {
    if (client_ == nullptr) VB_TRY(connect());
    reason_.reset();
    VB_TRY(may_send());
    const int rc = mosquitto_publish_v5(client_.get(), &sent_, settings_.path.c_str(), static_cast<int>(message.size()),
                                        message.data(), /*qos=*/1, /*retain=*/false, nullptr);
    if (rc == MOSQ_ERR_OVERSIZE_PACKET || rc == MOSQ_ERR_QOS_NOT_SUPPORTED) {
      complaints_.say(mosquitto_strerror(rc));
      return fail(Errc::invalid_request, "mqtt: the broker takes no such message");
    }
    if (rc != MOSQ_ERR_SUCCESS) return fail(Errc::connection_failed, "mqtt: the broker takes nothing");
    VB_TRY(wait_for_reason(deadline_in(settings_.timeout), "mqtt: no confirmation"));
    return refused_or_not("mqtt: the broker refuses the message");
  }

  // Connects to a checked address, not to a name.
  Result<void> connect() {
    VB_ASSIGN(const net::TcpEndpoints endpoints, target_addresses(settings_, cut_));
    Result<void> done = fail(Errc::connection_failed, "mqtt: no connection");
    for (const auto& endpoint : endpoints) {
      done = connect_to(endpoint);
      if (done || !(done.error() == Errc::connection_failed)) break;
    }
    return done;
  }

  Result<void> connect_to(const boost::asio::ip::tcp::endpoint& endpoint) {
    client_.reset(mosquitto_new(random_client_id().c_str(), /*clean_session=*/true, this));
    if (client_ == nullptr) return fail(Errc::connection_failed, "mqtt: no memory");
    mosquitto* client = client_.get();
    mosquitto_int_option(client, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V5);
    mosquitto_int_option(client, MOSQ_OPT_TCP_NODELAY, 1);
    if (settings_.tls) {
      mosquitto_int_option(client, MOSQ_OPT_SSL_CTX_WITH_DEFAULTS, 0);
      mosquitto_void_option(client, MOSQ_OPT_SSL_CTX, tls_.native_handle());
    }
    const size_t colon = settings_.secret.find(':');
    if (colon != std::string::npos) {
      mosquitto_username_pw_set(client, settings_.secret.substr(0, colon).c_str(),
                                settings_.secret.substr(colon + 1).c_str());
    }
    mosquitto_connect_v5_callback_set(client, [](mosquitto*, void* self, int reason, int, const mosquitto_property*) {
      static_cast<MqttTopic*>(self)->reason_ = reason;
    });
    mosquitto_publish_v5_callback_set(client,
                                      [](mosquitto*, void* self, int id, int reason, const mosquitto_property*) {
                                        auto* topic = static_cast<MqttTopic*>(self);
                                        if (id == topic->sent_) topic->reason_ = reason;
                                      });
    reason_.reset();
    in_hand_ = false;
    const int rc = mosquitto_connect_async(client, endpoint.address().to_string().c_str(), endpoint.port(),
                                           /*keepalive=*/0);
    if (rc != MOSQ_ERR_SUCCESS) return fail(Errc::connection_failed, "mqtt: no connection");
    VB_TRY(wait_for_reason(deadline_in(settings_.timeout), "mqtt: no connection"));
    VB_TRY(refused_or_not("mqtt: the broker refuses the connection"));
    in_hand_ = true;
    return {};
  }

  Result<void> refused_or_not(const char* what) {
    if (*reason_ < reason_failed) return {};
    complaints_.say(mosquitto_reason_string(*reason_));
    return fail(Errc::invalid_request, what);
  }

  // Runs the library until a callback has the result. Its own loop waits by select(), which fails for descriptors above
  // 1023.
  Result<void> wait_for_reason(Deadline until, const char* what) {
    bool connected = in_hand_;
    while (!reason_) {
      if (cut_) return fail(Errc::cancelled, what);
      const int fd = mosquitto_socket(client_.get());
      if (fd < 0) return fail(Errc::connection_failed, what);
      // Before the broker's first answer, there is only one write: the library would want to write for as long as TLS
      // takes.
      const bool writes = in_hand_ ? mosquitto_want_write(client_.get()) : !connected;
      pollfd waits[2] = {{.fd = fd, .events = static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), .revents = 0},
                         {.fd = cut_event_.get(), .events = POLLIN, .revents = 0}};
      const int ready = ::poll(waits, 2, left_ms(until));
      if (SteadyClock::now() >= until) return fail(Errc::timed_out, what);
      if (ready <= 0 || waits[0].revents == 0) continue;
      connected = true;
      int rc = mosquitto_loop_read(client_.get(), 1);
      if (rc == MOSQ_ERR_SUCCESS) rc = mosquitto_loop_write(client_.get(), 1);
      if (rc != MOSQ_ERR_SUCCESS && !reason_) {
        if (rc == MOSQ_ERR_TLS) complaints_.say("TLS failed, or its certificate is not this host's");
        return fail(Errc::connection_failed, what);
      }
    }
    return {};
  }

  boost::asio::ssl::context tls_;
  const TargetSettings settings_;
  Complaints complaints_;
  const Fd cut_event_;
  std::atomic<bool> cut_{false};
  MqttPtr client_;
  bool in_hand_ = false;       // the broker has answered the connection request
  int sent_ = 0;               // the packet being waited for
  std::optional<int> reason_;  // its result
};

}  // namespace

std::expected<std::unique_ptr<Target>, std::string> make_mqtt_topic(const TargetSettings& settings) {
  auto tls = make_target_tls(settings);
  if (!tls) return std::unexpected(tls.error());
  auto topic = std::make_unique<MqttTopic>(std::move(*tls), settings);
  if (!topic->expect_host()) return std::unexpected("a certificate cannot be checked for this host");
  return topic;
}

}  // namespace verbena::events
