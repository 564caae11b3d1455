// Properties of a started server, for operators' calls (admin/operator.h). Private to this room.
#pragma once

#include <vector>

#include "admin/operator.h"
#include "base/config.h"
#include "server/core_parts.h"
#include "server/server.h"

namespace verbena::server {

struct Started {
  const Config& config;  // with limits lowered to the process's limit of files
  const Endpoints& endpoints;
  const std::vector<CoreParts>& cores;
  std::filesystem::path data;  // empty: in memory
  std::string disk_io;
  uint64_t hot_capacity = 0;
  bool few_files = false;  // the limit of open files is lower than the limits need
};
admin::ServerFacts server_facts(const Started& started);

}  // namespace verbena::server
