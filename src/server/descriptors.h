// The process's limit of open files, divided: unauthenticated clients' share (connections) leaves the store and other
// users theirs, however few there are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/config.h"

namespace verbena::server {

struct Descriptors {
  size_t store = 0;          // volumes and tables of the index
  uint64_t admin = 256;      // connections to the admin port
  uint64_t admin_each = 64;  // of them per client
  uint64_t arrivals = 512;   // a native tcp port's, of unauthenticated peers
  // Connections to the port that requests client certificates, if there is one: each certificate is held with its
  // connection.
  uint64_t certificates = 512;
  uint64_t certificates_each = 64;
  bool enough = true;  // for everything that the configuration promises
};

// Sets the limits of sessions that are `auto`, then lowers the limits of connections and sessions in `config` to what
// `files` suffice for.
Descriptors share_out(size_t files, unsigned cores, Config& config);

// The process's own limit of open files.
size_t open_files_max();

}  // namespace verbena::server
