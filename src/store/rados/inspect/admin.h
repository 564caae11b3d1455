// What the operator of a cluster does with a store in it: make its pools, look how it is.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "store/rados/rados_store.h"

namespace verbena::store::rados {

struct PoolOptions {
  unsigned placement_groups = 32;             // of each pool
  unsigned copies = 3;                        // of the index, and of the bytes where they are not erasure-coded
  unsigned data_shards = 0, code_shards = 0;  // of the bytes; 0: copies
  std::string failure_domain = "host";        // what no two copies or shards lie in
};

// Makes the pools that are not there. Returns a sentence for each. Blocks, as all here.
std::expected<std::vector<std::string>, std::string> make_pools(const Options& options, const PoolOptions& pools);

struct ClusterStatus {
  std::string fsid;
  uint64_t bytes = 0, bytes_free = 0;  // of the cluster, with all copies
  struct Pool {
    std::string name;
    uint64_t objects = 0, bytes = 0;
  };
  std::vector<Pool> pools;
  uint64_t servers = 0;   // that have registered themselves
  uint64_t watchers = 0;  // that have a watch: the living ones
  uint64_t buckets = 0, tablets = 0, waiting_blobs = 0;
  uint64_t holders = 0;       // servers that answer for keys from memory
  uint64_t kept_objects = 0;  // for which they do, each server's counted: as it was some seconds ago
};
std::expected<ClusterStatus, std::string> cluster_status(const Options& options);

// What had no owner and is gone now.
struct Repaired {
  uint64_t stripes = 0, bytes = 0;
  uint64_t tablets = 0;            // that were no bucket's
  uint64_t stripes_of_living = 0;  // which may still be named: left
  uint64_t servers_given_up = 0;   // that had said nothing for half a minute
};
// Servers may go on meanwhile; each tablet takes no changes while it is read (repair.h).
std::expected<Repaired, std::string> repair_store(const Options& options);

// As RadosStore::survey(), of a store that need not be served. Writes nothing.
std::expected<Survey, std::string> check_store(const Options& options);

}  // namespace verbena::store::rados
