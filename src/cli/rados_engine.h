// The engine over Ceph for the commands: supplied by rados/ in the program that is linked with librados. `verbena`
// itself is not, since librados takes longer to load than most commands run; it executes that program (exec_rados.h).
#pragma once

#include <string>
#include <vector>

#include "server/cluster_engine.h"

namespace verbena::cli {

struct RadosFlags {
  std::string config_path;
  std::vector<std::string> set;
  bool json = false, repair = false;
  unsigned placement_groups = 32, copies = 3;
  std::string erasure;  // "K+M"
  std::string failure_domain = "host";
  std::string directory;
};

// `verbena rados ...`: each blocks and returns an exit code.
struct RadosEngine {
  server::OpenCluster open;  // `verbena server`
  int (*init)(const RadosFlags& flags);
  int (*status)(const RadosFlags& flags);
  int (*check)(const RadosFlags& flags);
  int (*import_directory)(const RadosFlags& flags);
  int (*export_directory)(const RadosFlags& flags);
};

}  // namespace verbena::cli
