// Events published to a topic of an MQTT 5 broker with QoS 1: each is confirmed by a PUBACK, which in MQTT 5 (unlike in
// 3.1.1) says whether the broker took it.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "events/target.h"
#include "events/target_settings.h"

namespace verbena::events {

// The error is a sentence: certificates that cannot be read.
std::expected<std::unique_ptr<Target>, std::string> make_mqtt_topic(const TargetSettings& settings);

}  // namespace verbena::events
