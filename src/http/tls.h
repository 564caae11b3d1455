// The server's TLS context. Internal to http/.
#pragma once

#include <boost/asio/ssl/context.hpp>

#include "http/server.h"

namespace verbena::http {

// TLS 1.2 and up, ALPN "http/1.1". bad_config when a file cannot be read, is no PEM, or key and certificate do not fit.
Result<boost::asio::ssl::context> make_tls_context(const TlsFiles& files);

}  // namespace verbena::http
