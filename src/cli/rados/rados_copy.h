// `verbena rados import` and `export`: migration from a single server to a cluster, and back.
#pragma once

#include <string>

#include "store/rados/rados_store.h"

namespace verbena::cli {

// Both block, report their progress, and return an exit code.
int copy_into_cluster(const store::rados::Options& options, const std::string& directory);
int copy_out_of_cluster(const store::rados::Options& options, const std::string& directory);

}  // namespace verbena::cli
