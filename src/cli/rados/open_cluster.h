// The engine over Ceph for `verbena server`.
#pragma once

#include "server/cluster_engine.h"

namespace verbena::cli {

std::expected<server::ClusterEngine, std::string> open_cluster(const Config& config, memory::Arena& arena,
                                                               server::ClusterListener listener);

}  // namespace verbena::cli
