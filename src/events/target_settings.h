// The configured targets of events: "NAME=URL", where the URL's scheme is the target's type.
//
//   http://, https://HOST[:PORT]/PATH    a webhook: each event is a POST
//   redis://HOST[:PORT]/DATABASE/LIST    each event is pushed to the list's end (RPUSH)
//   file:///PATH                         each event is a line
//   nats://, nats+tls://HOST[:PORT]/SUBJECT
//   mqtt://, mqtts://HOST[:PORT]/TOPIC
//   amqp://, amqps://HOST[:PORT]/VHOST/EXCHANGE/ROUTING-KEY    each with %XX for what is no name
//   kafka://, kafka+tls://HOST[:PORT]/TOPIC[?sasl=MECHANISM]    plain, scram-sha-256 or scram-sha-512
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "base/config.h"

namespace verbena::events {

enum class TargetType : uint8_t { webhook, redis, file, nats, mqtt, amqp, kafka };

struct TargetSettings {
  std::string name{};
  TargetType type = TargetType::webhook;
  bool tls = false;
  std::string host{};
  uint16_t port = 0;
  std::string path{};  // with the query; a file's; the name of a list, a subject, a topic, a routing key
  unsigned database = 0;
  std::string vhost{}, exchange{};  // of AMQP; an exchange without a name is the default one
  std::string sasl{};               // of Kafka: the mechanism of authentication; empty: none
  std::string secret{};             // a bearer token; "USER:PASSWORD"; "PASSWORD" of a Redis, a token of NATS
  bool allow_private = false;       // may be in a private network
  std::string ca_file{};            // empty: the system's
  std::chrono::milliseconds timeout{10'000};
};

std::string type_name(TargetType type);  // as in ARNs

// The error is a sentence for operators without secrets.
std::expected<std::vector<TargetSettings>, std::string> read_targets(const Config::Events& config);

}  // namespace verbena::events
