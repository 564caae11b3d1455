// Events published to a subject of a NATS server, where a stream (JetStream) stores them and confirms each. Core NATS
// drops messages without subscribers: if no stream takes the subject, nothing is delivered.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "events/target.h"
#include "events/target_settings.h"

namespace verbena::events {

// The error is a sentence.
std::expected<std::unique_ptr<Target>, std::string> make_nats_subject(const TargetSettings& settings);

}  // namespace verbena::events
