// The files that this process may have open, shared out: what strangers may hold of them (connections) leaves the store
// and everybody else theirs, however few there are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/config.h"

namespace verbena::server {

struct Descriptors {
  size_t store = 0;          // volumes and tables of the index
  uint64_t admin = 256;      // connections to the admin port
  uint64_t admin_each = 64;  // of them one client's
  uint64_t arrivals = 512;   // a native tcp port's, of peers that have not shown a key
  // To the port where clients are asked for certificates, where there is one: what each shows is held with it.
  uint64_t certificates = 512;
  uint64_t certificates_each = 64;
  bool enough = true;  // for all that the configuration promises
};

// Settles the limits of sessions that are `auto`, then lowers what `config` promises of connections and sessions to
// what `files` are enough for.
Descriptors share_out(size_t files, unsigned cores, Config& config);

// The process's own limit of open files.
size_t open_files_max();

}  // namespace verbena::server
