// Events produced to a topic of a Kafka cluster, with the object as their key, so that a partition has them in order.
// Confirmed by all replicas that are in sync (acks=all, idempotent).
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "events/target.h"
#include "events/target_settings.h"

namespace verbena::events {

// The library's threads start with the first event. The error is a sentence: the setting that the library rejects.
std::expected<std::unique_ptr<Target>, std::string> make_kafka_topic(const TargetSettings& settings);

}  // namespace verbena::events
