// A target as its settings say.
#pragma once

#include <boost/asio/io_context.hpp>

#include <expected>
#include <memory>
#include <string>

#include "events/event_file.h"
#include "events/redis_list.h"
#include "events/webhook.h"

namespace verbena::events {

inline std::expected<std::unique_ptr<Target>, std::string> make_target(boost::asio::io_context& io,
                                                                       const TargetSettings& settings) {
  switch (settings.type) {
    case TargetType::file:
      return make_event_file(settings);
    case TargetType::redis:
      return make_redis_list(settings);
    case TargetType::webhook:
      break;
  }
  return make_webhook(io, settings);
}

}  // namespace verbena::events
