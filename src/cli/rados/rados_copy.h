// `verbena rados import` and `export`: the way from a server by itself to a cluster, and back.
#pragma once

#include <string>

#include "store/rados/rados_store.h"

namespace verbena::cli {

// Both block, say what they do, and return an exit code.
int copy_into_cluster(const store::rados::Options& options, const std::string& directory);
int copy_out_of_cluster(const store::rados::Options& options, const std::string& directory);

}  // namespace verbena::cli
