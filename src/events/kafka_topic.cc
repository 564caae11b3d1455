#include "events/kafka_topic.h"

#include <librdkafka/rdkafka.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "events/complaints.h"
#include "events/network_guard.h"
#include "events/waves.h"

namespace verbena::events {
namespace {

constexpr int poll_ms = 50;
constexpr size_t errstr_bytes = 256;

struct FreeConf {
  void operator()(rd_kafka_conf_t* conf) const { rd_kafka_conf_destroy(conf); }
};
struct FreeKafka {
  void operator()(rd_kafka_t* kafka) const { rd_kafka_destroy(kafka); }
};
struct FreeTopic {
  void operator()(rd_kafka_topic_t* topic) const { rd_kafka_topic_destroy(topic); }
};
using ConfPtr = std::unique_ptr<rd_kafka_conf_t, FreeConf>;
using KafkaPtr = std::unique_ptr<rd_kafka_t, FreeKafka>;
using TopicPtr = std::unique_ptr<rd_kafka_topic_t, FreeTopic>;

// A result of getaddrinfo(), in the form that the library requires.
struct FoundAddress {
  addrinfo info{};
  sockaddr_storage address{};
};

boost::asio::ip::address address_of(const sockaddr* address) {
  if (address->sa_family == AF_INET6) {
    boost::asio::ip::address_v6::bytes_type bytes;
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, bytes.size());
    return boost::asio::ip::address_v6(bytes);
  }
  return boost::asio::ip::address_v4(ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr));
}

class KafkaTopic final : public Target {
 public:
  explicit KafkaTopic(TargetSettings settings) : settings_(std::move(settings)), complaints_(settings_.name) {}
  ~KafkaTopic() override { drop(); }

  std::string said() const override { return complaints_.said(); }
  void cut() override { cut_ = true; }

  Task<Result<void>> deliver(const std::vector<std::string>& messages, size_t& delivered) override {
    complaints_.begin();
    const std::vector<std::string> keys = keys_of_events(messages);
    while (delivered < messages.size()) {
      const size_t end = end_of_wave(keys, delivered);
      auto done = produce(messages, keys, delivered, end);
      if (!done) {
        tell_why();
        co_return done;
      }
      complaints_.forget();
      delivered = end;
    }
    co_return Result<void>();
  }

  ConfPtr configuration(std::string& wrong) {
    ConfPtr conf(rd_kafka_conf_new());
    const std::string host =
        settings_.host.find(':') == std::string::npos ? settings_.host : "[" + settings_.host + "]";
    const std::string timeout = std::to_string(settings_.timeout.count());
    std::vector<std::pair<const char*, std::string>> values{
        {"bootstrap.servers", host + ":" + std::to_string(settings_.port)},
        {"client.id", "verbena"},
        {"enable.idempotence", "true"},
        {"acks", "all"},
        {"message.timeout.ms", timeout},
        {"request.timeout.ms", timeout},
        {"socket.timeout.ms", timeout},
        {"socket.connection.setup.timeout.ms", timeout},
        {"linger.ms", "0"},
        {"partitioner", "murmur2_random"},
        {"reconnect.backoff.max.ms", "2000"},
        {"receive.message.max.bytes", "4194304"},
        {"socket.nagle.disable", "true"},
        {"security.protocol",
         std::string(settings_.sasl.empty() ? "" : "sasl_") + (settings_.tls ? "ssl" : "plaintext")}};
    if (!settings_.sasl.empty()) {
      const size_t colon = settings_.secret.find(':');
      values.emplace_back("sasl.mechanism", settings_.sasl);
      values.emplace_back("sasl.username", settings_.secret.substr(0, colon));
      values.emplace_back("sasl.password", settings_.secret.substr(colon + 1));
    }
    if (settings_.tls && !settings_.ca_file.empty()) values.emplace_back("ssl.ca.location", settings_.ca_file);
    if (settings_.tls) values.emplace_back("ssl.endpoint.identification.algorithm", "https");
    char text[errstr_bytes];
    for (const auto& [name, value] : values) {
      if (rd_kafka_conf_set(conf.get(), name, value.c_str(), text, sizeof text) != RD_KAFKA_CONF_OK) wrong = text;
    }
    rd_kafka_conf_set_opaque(conf.get(), this);
    rd_kafka_conf_set_log_cb(conf.get(), [](const rd_kafka_t*, int, const char*, const char*) {});
    rd_kafka_conf_set_error_cb(conf.get(), [](rd_kafka_t*, int, const char* why, void* self) {
      static_cast<KafkaTopic*>(self)->trouble_ = why;
    });
    rd_kafka_conf_set_dr_msg_cb(conf.get(), [](rd_kafka_t*, const rd_kafka_message_t* message, void* self) {
      static_cast<KafkaTopic*>(self)->ended(message->err);
    });
    rd_kafka_conf_set_resolve_cb(conf.get(), look_up);
    rd_kafka_conf_set_connect_cb(conf.get(), connect_to);
    return conf;
  }

 private:
  Result<void> start() {
    std::string wrong;
    ConfPtr conf = configuration(wrong);
    char text[errstr_bytes];
    if (wrong.empty()) {
      kafka_.reset(rd_kafka_new(RD_KAFKA_PRODUCER, conf.get(), text, sizeof text));
      if (kafka_ != nullptr) (void)conf.release();  // owned by the producer now
    }
    if (kafka_ == nullptr) {
      complaints_.say(wrong.empty() ? std::string_view(text) : wrong);
      return fail(Errc::connection_failed, "kafka: the library does not start");
    }
    topic_.reset(rd_kafka_topic_new(kafka_.get(), settings_.path.c_str(), nullptr));
    if (topic_ == nullptr) return fail(Errc::connection_failed, "kafka: no memory");
    return {};
  }

  // All have different keys, so whichever are accepted, the order of each key is kept.
  Result<void> produce(const std::vector<std::string>& messages, const std::vector<std::string>& keys, size_t from,
                       size_t end) {
    if (kafka_ == nullptr) VB_TRY(start());
    failed_ = RD_KAFKA_RESP_ERR_NO_ERROR;
    const Deadline until = deadline_in(settings_.timeout);
    Result<void> may;
    for (size_t i = from; i < end; ++i) {
      may = may_send();
      if (!may) break;
      const int rc = rd_kafka_produce(topic_.get(), RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY,
                                      const_cast<char*>(messages[i].data()), messages[i].size(), keys[i].data(),
                                      keys[i].size(), nullptr);
      if (rc != 0) {
        failed_ = rd_kafka_last_error();
        break;
      }
      ++under_way_;
    }
    // The library sends on a thread of its own, maybe later: when leadership is lost, unsent messages are taken back.
    while (under_way_ != 0 && failed_ == RD_KAFKA_RESP_ERR_NO_ERROR && may && !cut_ && SteadyClock::now() < until) {
      rd_kafka_poll(kafka_.get(), poll_ms);
      may = may_send();
    }
    if (!may && under_way_ == 0) return may;
    if (!may) {
      (void)give_up();
      return may;
    }
    if (under_way_ == 0 && failed_ == RD_KAFKA_RESP_ERR_NO_ERROR) return {};
    return give_up();
  }

  // Takes unsent messages back: the library would send them after their repetition.
  Result<void> give_up() {
    const rd_kafka_resp_err_t failed = failed_;
    rd_kafka_purge(kafka_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    while (under_way_ != 0 && !cut_) rd_kafka_poll(kafka_.get(), poll_ms);
    if (cut_) return fail(Errc::cancelled, "kafka: the server ends");
    char text[errstr_bytes];
    if (rd_kafka_fatal_error(kafka_.get(), text, sizeof text) != RD_KAFKA_RESP_ERR_NO_ERROR) {
      trouble_ = text;
      drop();
    }
    switch (failed) {
      case RD_KAFKA_RESP_ERR_NO_ERROR:
      case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
        return fail(Errc::timed_out, "kafka: no confirmation");
      case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
      case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
      case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
      case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
      case RD_KAFKA_RESP_ERR_INVALID_MSG:
        trouble_ = rd_kafka_err2str(failed);
        return fail(Errc::invalid_request, "kafka: the brokers refuse the message");
      default:
        trouble_ = rd_kafka_err2str(failed);
        return fail(Errc::connection_failed, "kafka: the brokers take nothing");
    }
  }

  void ended(rd_kafka_resp_err_t error) {
    --under_way_;
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR && failed_ == RD_KAFKA_RESP_ERR_NO_ERROR) failed_ = error;
  }

  // Errors of brokers come from rd_kafka_poll(), those of addresses from the library's threads.
  void tell_why() {
    if (refused_private_.exchange(false)) trouble_ = "a broker lies in a private network (events.allow_private)";
    if (!trouble_.empty()) complaints_.say(trouble_);
    trouble_.clear();
  }

  // Called on the library's threads. Other brokers of the cluster name a broker's address, so each is checked when
  // connecting.
  static int look_up(const char* node, const char* service, const addrinfo*, addrinfo** result, void* opaque) {
    if (node == nullptr) {
      delete[] reinterpret_cast<FoundAddress*>(*result);
      return 0;
    }
    auto* self = static_cast<KafkaTopic*>(opaque);
    const auto port = static_cast<uint16_t>(std::strtoul(service, nullptr, 10));
    const auto allowed = target_addresses(self->settings_, node, port, self->cut_);
    if (!allowed && allowed.error() != Errc::access_denied) return EAI_AGAIN;
    if (!allowed) {
      self->refused_private_ = true;
      return EAI_FAIL;
    }
    auto* found = new FoundAddress[allowed->size()];
    for (size_t i = 0; i < allowed->size(); ++i) {
      const auto& endpoint = (*allowed)[i];
      std::memcpy(&found[i].address, endpoint.data(), endpoint.size());
      found[i].info = {.ai_flags = 0,
                       .ai_family = endpoint.protocol().family(),
                       .ai_socktype = SOCK_STREAM,
                       .ai_protocol = IPPROTO_TCP,
                       .ai_addrlen = static_cast<socklen_t>(endpoint.size()),
                       .ai_addr = reinterpret_cast<sockaddr*>(&found[i].address),
                       .ai_canonname = nullptr,
                       .ai_next = i + 1 < allowed->size() ? &found[i + 1].info : nullptr};
    }
    *result = &found[0].info;
    return 0;
  }

  static int connect_to(int socket, const sockaddr* address, int size, const char*, void* opaque) {
    auto* self = static_cast<KafkaTopic*>(opaque);
    if (!self->settings_.allow_private && !is_public(address_of(address))) {
      self->refused_private_ = true;
      return EACCES;
    }
    const int rc = ::connect(socket, address, static_cast<socklen_t>(size));
    return rc == 0 || errno == EINPROGRESS ? 0 : errno;
  }

  void drop() {
    if (kafka_ != nullptr) rd_kafka_purge(kafka_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    topic_.reset();
    kafka_.reset();
    under_way_ = 0;
  }

  const TargetSettings settings_;
  Complaints complaints_;
  KafkaPtr kafka_;
  TopicPtr topic_;
  size_t under_way_ = 0;                                     // produced and not ended
  rd_kafka_resp_err_t failed_ = RD_KAFKA_RESP_ERR_NO_ERROR;  // the first of their failures
  std::string trouble_;                                      // the library's last message
  std::atomic<bool> refused_private_{false}, cut_{false};
};

}  // namespace

std::expected<std::unique_ptr<Target>, std::string> make_kafka_topic(const TargetSettings& settings) {
  auto topic = std::make_unique<KafkaTopic>(settings);
  std::string wrong;
  (void)topic->configuration(wrong);
  if (!wrong.empty()) return std::unexpected("events.targets: " + settings.name + ": librdkafka: " + wrong);
  return topic;
}

}  // namespace verbena::events
