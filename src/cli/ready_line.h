// The output of `server --print-ready` when the doors are open.
#pragma once

#include <string>

#include "server/data_directory.h"
#include "server/server.h"

namespace verbena::cli {

// One line of JSON, for programs that start a server and wait for it. It has a secret only when the server has just
// made it: it is available nowhere else.
std::string ready_line(const server::Endpoints& endpoints, const server::RootKeys& keys, const std::string& region);

}  // namespace verbena::cli
