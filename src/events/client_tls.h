// TLS as a client of targets: the trusted authorities.
#pragma once

#include <expected>
#include <string>

#include "events/target_settings.h"
#include "net/tls.h"

namespace verbena::events {

// The error is a sentence: certificates that cannot be read.
inline std::expected<boost::asio::ssl::context, std::string> make_target_tls(const TargetSettings& settings) {
  auto tls = net::make_client_tls({.ca_file = settings.ca_file});
  if (!tls) return std::unexpected("events.ca_file: the certificates cannot be read");
  return std::move(*tls);
}

}  // namespace verbena::events
