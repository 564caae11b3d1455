// TLS as a client of targets: whom to trust, and whose certificate is expected.
#pragma once

#include <boost/asio/ssl/context.hpp>

#include <expected>
#include <string>

#include "events/target_settings.h"

namespace verbena::events {

// The error is a sentence: certificates that cannot be read.
std::expected<void, std::string> trust_authorities(SSL_CTX* tls, const std::string& ca_file);
// For a library that is given an address where others give a name: the certificate must be `host`'s, and the server is
// asked for by that name (SNI). `host` lives for as long as `tls` does.
void expect_host(SSL_CTX* tls, const std::string& host);
std::expected<boost::asio::ssl::context, std::string> make_client_tls(const TargetSettings& settings);

}  // namespace verbena::events
