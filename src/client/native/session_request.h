// How the request that opens a session reaches the server.
#pragma once

#include <functional>

#include "client/native/session.h"
#include "net/http_client.h"

namespace verbena::client {

// For tests: instead of HTTP. Set before the first session of the process is opened.
using AskForSession = std::function<Result<net::HttpReply>(const NativeOptions&, const net::HttpRequest&)>;
void ask_for_sessions_by(AskForSession ask);

}  // namespace verbena::client
