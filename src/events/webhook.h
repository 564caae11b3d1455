// Events as HTTP requests: each is a POST with the record as its JSON body, and any 2xx confirms it. Redirections are
// not followed.
#pragma once

#include <boost/asio/io_context.hpp>

#include <expected>
#include <memory>
#include <string>

#include "events/target.h"
#include "events/target_settings.h"

namespace verbena::events {

// `io` runs deliver() and outlives the target. The error is a sentence: certificates that cannot be read.
std::expected<std::unique_ptr<Target>, std::string> make_webhook(boost::asio::io_context& io,
                                                                 const TargetSettings& settings);

}  // namespace verbena::events
