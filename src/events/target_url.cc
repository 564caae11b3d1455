#include "events/target_url.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "auth/auth.h"
#include "base/host_port.h"

namespace verbena::events {
namespace {

constexpr size_t place_max = 255, kafka_topic_max = 249;  // accepted by all servers

struct Scheme {
  std::string_view name;
  TargetType type;
  bool tls;
  uint16_t port;
};
constexpr std::array schemes{
    Scheme{"http", TargetType::webhook, false, 80},  Scheme{"https", TargetType::webhook, true, 443},
    Scheme{"redis", TargetType::redis, false, 6379}, Scheme{"file", TargetType::file, false, 0},
    Scheme{"mqtt", TargetType::mqtt, false, 1883},   Scheme{"mqtts", TargetType::mqtt, true, 8883},
    Scheme{"amqp", TargetType::amqp, false, 5672},   Scheme{"amqps", TargetType::amqp, true, 5671},
    Scheme{"kafka", TargetType::kafka, false, 9092}, Scheme{"kafka+tls", TargetType::kafka, true, 9093},
    Scheme{"nats", TargetType::nats, false, 4222},   Scheme{"nats+tls", TargetType::nats, true, 4222},
};

template <class N>
bool parse_all(std::string_view text, N& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool parse_host(std::string_view text, TargetSettings& target) {
  auto place = parse_host_port(text);
  if (!place) return false;
  target.host = std::move(place->host);
  if (place->port != 0) target.port = place->port;
  return true;
}

bool parse_list(std::string_view path, TargetSettings& target) {
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos || !parse_all(path.substr(0, slash), target.database)) return false;
  target.path = path.substr(slash + 1);
  return !target.path.empty();
}

// Words between dots; wildcards are only for subscribers.
bool parse_subject(std::string_view path, TargetSettings& target) {
  target.path = path;
  return !path.empty() && path.size() <= place_max && path.find_first_of("*>/?#") == std::string_view::npos &&
         path.front() != '.' && path.back() != '.' && path.find("..") == std::string_view::npos;
}

bool parse_mqtt_topic(std::string_view path, TargetSettings& target) {
  target.path = path;
  return !path.empty() && path.size() <= place_max && path.front() != '$' &&
         path.find_first_of("+#") == std::string_view::npos;
}

// An empty exchange is the default one, where the key is a queue's name.
bool parse_amqp_place(std::string_view path, TargetSettings& target) {
  std::array<std::string*, 3> parts{&target.vhost, &target.exchange, &target.path};
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    const size_t end = last ? path.size() : path.find('/');
    if (end == std::string_view::npos) return false;
    const auto decoded = auth::uri_decode(path.substr(0, end));
    if (!decoded || decoded->size() > place_max || decoded->find('\0') != std::string::npos) return false;
    *parts[i] = *decoded;
    if (!last) path.remove_prefix(end + 1);
  }
  return !target.vhost.empty() && !(target.exchange.empty() && target.path.empty()) &&
         path.find_first_of("/?#") == std::string_view::npos;
}

// In librdkafka's spelling.
bool parse_sasl(std::string_view query, TargetSettings& target) {
  if (query == "sasl=plain") target.sasl = "PLAIN";
  if (query == "sasl=scram-sha-256") target.sasl = "SCRAM-SHA-256";
  if (query == "sasl=scram-sha-512") target.sasl = "SCRAM-SHA-512";
  return !target.sasl.empty();
}

bool parse_kafka_topic(std::string_view path, TargetSettings& target) {
  const size_t query = path.find('?');
  if (query != std::string_view::npos) {
    if (!parse_sasl(path.substr(query + 1), target)) return false;
    path = path.substr(0, query);
  }
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  target.path = path;
  return !path.empty() && path.size() <= kafka_topic_max && path != "." && path != ".." &&
         std::ranges::all_of(path, plain);
}

// The part after host and port, without the slash between.
bool parse_place(std::string_view path, TargetSettings& target) {
  switch (target.type) {
    case TargetType::redis:
      return parse_list(path, target);
    case TargetType::nats:
      return parse_subject(path, target);
    case TargetType::mqtt:
      return parse_mqtt_topic(path, target);
    case TargetType::amqp:
      return parse_amqp_place(path, target);
    case TargetType::kafka:
      return parse_kafka_topic(path, target);
    default:
      return false;
  }
}

}  // namespace

bool is_visible(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; });
}

bool parse_target_url(std::string_view url, TargetSettings& target) {
  const size_t colon = url.find("://");
  if (colon == std::string_view::npos || !is_visible(url)) return false;
  const auto scheme = std::ranges::find(schemes, url.substr(0, colon), &Scheme::name);
  if (scheme == schemes.end()) return false;
  target.type = scheme->type;
  target.tls = scheme->tls;
  target.port = scheme->port;
  const std::string_view rest = url.substr(colon + 3);
  if (target.type == TargetType::file) {
    target.path = rest;
    return target.path.size() > 1 && target.path.front() == '/' && target.path.back() != '/';
  }
  const size_t slash = std::min(rest.find_first_of("/?"), rest.size());
  if (!parse_host(rest.substr(0, slash), target)) return false;
  const std::string_view path = rest.substr(slash);
  if (target.type == TargetType::webhook) {
    target.path = path.starts_with('/') ? std::string(path) : "/" + std::string(path);
    return path.find('#') == std::string_view::npos;
  }
  return path.starts_with('/') && parse_place(path.substr(1), target);
}

}  // namespace verbena::events
