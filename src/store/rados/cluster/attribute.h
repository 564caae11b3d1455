// One attribute of an object.
#pragma once

#include <string>

#include "store/rados/cluster/cluster.h"

namespace verbena::store::rados {

// Its text; empty if the object has no such attribute. not_found: there is no such object. `what` is for the error.
Task<Result<std::string>> read_attribute(Cluster& cluster, Cluster::Pool pool, std::string object, std::string name,
                                         const char* what);

}  // namespace verbena::store::rados
