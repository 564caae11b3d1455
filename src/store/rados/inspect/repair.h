// Removes stripes that no row names and that no change can come to name any more: what servers left behind that were
// killed in the middle of a PUT. And tablets that no bucket names: of servers that were killed in the middle of a
// split.
//
// Servers may run meanwhile. What a living one has written may be named in a moment, so only stripes of servers go that
// are gone: blobs' ids have their incarnations. A server that was silent for long enough (it may be frozen) is given up
// by taking its sign away, after which no change of its earlier life names anything (Garbage::may_name()): a change
// that was let through before has an epoch of before, and every bucket gets a later one here.
//
// A bucket that has lost an object of the index pool names nothing that could be read: then nothing is removed at all.
//
// The stripes are listed first and the rows read last, so what is named between is seen. And since a row may move while
// rows are read (a rename, a version that becomes current again), each tablet is read while it does not change: a phase
// of the bucket, as a split is. A server that really splits a tablet holds that phase, so a tablet that was listed
// before it and is not named in it has no owner.
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
  // Takes away what is named by a row, or was of a server that lives.
  Task<Result<void>> keep_named(std::vector<Stripe>& stripes);
  Task<Result<void>> keep_of_living(std::vector<Stripe>& stripes);
  Task<Result<std::set<uint64_t>>> read_names();
  Task<Result<void>> remove_strays();
  Task<Result<void>> read_bucket(std::string name, uint64_t id, std::set<uint64_t>& names);
  // False: another server changed the bucket meanwhile.
  Task<Result<Attempt>> read_frozen(uint64_t id, std::set<uint64_t>& names);
  Task<Result<void>> read_removed(uint64_t id, std::set<uint64_t>& names);
  Task<Result<void>> read_tablet(std::string object, std::set<uint64_t>& names);
  Task<Result<void>> remove(const Stripe& stripe);

  Cluster& cluster_;
  Engine& engine_;
  Registry& registry_;
  std::map<uint64_t, std::set<uint64_t>> strays_;  // by bucket: numbers of tablets that may have no owner
  Repaired repaired_;
};

}  // namespace verbena::store::rados
