// Removes stripes that no row names and no future change can name, which servers leave when they are killed in the
// middle of a PUT, and tablets that no bucket names, left by an unfinished split.
//
// Servers may run meanwhile. Stripes of a living server may be named at any moment, so only those of dead servers are
// removed: blobs' ids contain the server's incarnation. A server that was silent for long enough (it may be frozen) is
// declared dead by removing its sign of life, after which no change of that incarnation can name its blobs
// (Garbage::may_name()): a change that was allowed before has an earlier epoch, and every bucket gets a later one here.
//
// If a bucket has lost an object of the index pool, its references are unknown, so nothing is removed at all.
//
// The stripes are listed first and the rows read last, so that references made in between are seen. Since a row may
// move while rows are read (a rename, a version that becomes current again), each tablet is read while it accepts no
// changes: in a phase of the bucket, like a split. A real split holds that phase too, so a tablet that was listed
// before the phase and is not named in it has no owner.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "store/rados/cluster/attempt.h"
#include "store/rados/engine.h"
#include "store/rados/inspect/admin.h"

namespace verbena::store::rados {

class Repair {
 public:
  explicit Repair(Engine& engine) : cluster_(*engine.cluster), engine_(engine), registry_(engine.registry) {}

  Result<Repaired> run();  // blocks

 private:
  struct Stripe {
    uint64_t blob, number;
  };
  Result<std::vector<Stripe>> list_stripes();
  Result<void> list_tablets();
  Task<Result<void>> keep_named_tablets();
  // Excludes stripes that a row names, or that a living server has written.
  Task<Result<void>> keep_named(std::vector<Stripe>& stripes);
  Task<Result<void>> keep_of_living(std::vector<Stripe>& stripes);
  Task<Result<std::set<uint64_t>>> read_names();
  Task<Result<void>> remove_strays();
  Task<Result<void>> read_bucket(std::string name, uint64_t id, std::set<uint64_t>& names);
  // again: another server changed the bucket meanwhile.
  Task<Result<Attempt>> read_frozen(uint64_t id, std::set<uint64_t>& names);
  Task<Result<void>> read_removed(uint64_t id, std::set<uint64_t>& names);
  Task<Result<void>> read_tablet(std::string object, std::set<uint64_t>& names);
  Task<Result<void>> remove(const Stripe& stripe);

  Cluster& cluster_;
  Engine& engine_;
  Registry& registry_;
  std::map<uint64_t, std::set<uint64_t>> strays_;  // by bucket: tablets that may have no owner
  Repaired repaired_;
};

}  // namespace verbena::store::rados
