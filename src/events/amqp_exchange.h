// Events published to an exchange of an AMQP 0-9-1 broker (RabbitMQ), persistent and mandatory: the broker confirms
// each when it is safe in the queues that it was routed to, and returns unroutable ones.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "events/target.h"
#include "events/target_settings.h"

namespace verbena::events {

// Calls block, each for as long as the settings' timeout. The error is a sentence: certificates that cannot be read.
std::expected<std::unique_ptr<Target>, std::string> make_amqp_exchange(const TargetSettings& settings);

}  // namespace verbena::events
