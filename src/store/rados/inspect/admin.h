// Administration of a store in a cluster: making its pools, its status, its repair.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "store/rados/rados_store.h"

namespace verbena::store::rados {

struct PoolOptions {
  unsigned placement_groups = 32;             // for each pool
  unsigned copies = 3;                        // of the index, and of the bytes if they are not erasure-coded
  unsigned data_shards = 0, code_shards = 0;  // for the bytes; 0: copies
  std::string failure_domain = "host";        // the domain that holds at most one copy or shard
};

// Makes missing pools. Returns a sentence for each. Blocks, like all functions here.
std::expected<std::vector<std::string>, std::string> make_pools(const Options& options, const PoolOptions& pools);

struct ClusterStatus {
  std::string fsid;
  uint64_t bytes = 0, bytes_free = 0;  // of the cluster, including all copies
  struct Pool {
    std::string name;
    uint64_t objects = 0, bytes = 0;
  };
  std::vector<Pool> pools;
  uint64_t servers = 0;   // registered servers
  uint64_t watchers = 0;  // servers with a watch, that is, living ones
  uint64_t buckets = 0, tablets = 0, waiting_blobs = 0;
  uint64_t holders = 0;       // servers that hold read leases
  uint64_t kept_objects = 0;  // leased objects, summed over the servers, some seconds old
};
std::expected<ClusterStatus, std::string> cluster_status(const Options& options);

// What was removed because it had no owner.
struct Repaired {
  uint64_t stripes = 0, bytes = 0;
  uint64_t tablets = 0;            // tablets of no bucket
  uint64_t stripes_of_living = 0;  // stripes that may still be named, and were left
  uint64_t servers_given_up = 0;   // servers that were silent for half a minute
};
// Servers may run meanwhile; a tablet accepts no changes while it is read (repair.h).
std::expected<Repaired, std::string> repair_store(const Options& options);

// Like RadosStore::survey(), for a store without a server. Writes nothing.
std::expected<Survey, std::string> check_store(const Options& options);

}  // namespace verbena::store::rados
