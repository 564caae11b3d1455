// The admin API for commands: of a running server, or on the data directory of a stopped one.
#pragma once

#include <expected>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/client_flags.h"

namespace verbena::cli {

struct AdminTarget {
  ClientFlags client;
  std::string data;      // a data directory; empty: the server of `client`
  std::string key_file;  // of the master keys; empty: the data directory's own
};

// The answer, or the exit code after an error was reported. `subject`: the name in the report. `tries_max`: how often a
// busy server (status 503) is asked, with pauses that grow to two seconds.
std::expected<nlohmann::json, int> admin_call(const AdminTarget& target, const std::string& call,
                                              const nlohmann::json& arguments, const std::string& subject,
                                              unsigned tries_max = 1);

}  // namespace verbena::cli
