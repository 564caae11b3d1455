// Clients of a scripted server, for tests.
#pragma once

#include "net/testing/scripted_server.h"
#include "verbena/client.h"

namespace verbena::client {

// Options of a client that uses HTTP alone.
inline ClientOptions http_options(const net::ScriptedServer& server) {
  ClientOptions options;
  options.endpoint = server.url();
  options.access_key = "AKROOT";
  options.secret_key = "secret/root";
  options.via = Via::http;
  return options;
}

}  // namespace verbena::client
