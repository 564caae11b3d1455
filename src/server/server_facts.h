// What a server that has started is, for who asks it (admin/operator.h). Private to this room.
#pragma once

#include <vector>

#include "admin/operator.h"
#include "base/config.h"
#include "server/core_parts.h"
#include "server/server.h"

namespace verbena::server {

struct Started {
  const Config& config;  // with limits that the process's files are enough for
  const Endpoints& endpoints;
  const std::vector<CoreParts>& cores;
  std::filesystem::path data;  // empty: in memory
  std::string disk_io;
  uint64_t hot_capacity = 0;
  bool few_files = false;  // fewer may be open than the limits want
};
admin::ServerFacts server_facts(const Started& started);

}  // namespace verbena::server
