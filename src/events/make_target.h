// Makes a target from its settings.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "events/amqp_exchange.h"
#include "events/event_file.h"
#include "events/kafka_topic.h"
#include "events/mqtt_topic.h"
#include "events/nats_subject.h"
#include "events/redis_list.h"
#include "events/webhook.h"

namespace verbena::events {

inline std::expected<std::unique_ptr<Target>, std::string> make_target(const TargetSettings& settings) {
  switch (settings.type) {
    case TargetType::file:
      return make_event_file(settings);
    case TargetType::redis:
      return make_redis_list(settings);
    case TargetType::mqtt:
      return make_mqtt_topic(settings);
    case TargetType::amqp:
      return make_amqp_exchange(settings);
    case TargetType::kafka:
      return make_kafka_topic(settings);
    case TargetType::nats:
      return make_nats_subject(settings);
    case TargetType::webhook:
      break;
  }
  return make_webhook(settings);
}

}  // namespace verbena::events
