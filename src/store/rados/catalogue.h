// The catalogue over the cluster: looks fetch the rows they need; changes are judged over fetched rows and committed if
// these are unchanged.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "store/logic/context.h"
#include "store/rados/bytes/stripes.h"
#include "store/rados/cluster/attempt.h"
#include "store/rados/coherence/in_flight_changes.h"
#include "store/rados/coherence/late_calls.h"
#include "store/rados/coherence/read_leases.h"
#include "store/rados/rows/batcher.h"
#include "store/rados/rows/change.h"
#include "store/rados/rows/end_rows.h"
#include "store/rados/rows/event_rows.h"
#include "store/rados/rows/key_locks.h"
#include "store/rados/rows/pair_change.h"
#include "store/rados/rows/registry.h"
#include "store/rados/rows/usage_book.h"
#include "store/rados/upkeep/garbage.h"
#include "store/rados/upkeep/splitter.h"

namespace verbena::store::rados {

class RadosCatalogue final : public Catalogue {
 public:
  // `fresh`: whether buckets in memory are current; if not, nothing is changed.
  struct Parts {
    Registry& registry;
    Garbage& garbage;
    Batcher& batcher;
    Splitter& splitter;
    UsageBook& book;
    EventRows& events;
    EndRows& ends;
    Ids& ids;
    ReadLeases& read_leases;
    InFlightChanges& in_flight;
    LateCalls& late_calls;
  };
  RadosCatalogue(const Parts& parts, const WallClock& clock, std::function<bool()> fresh)
      : registry_(parts.registry),
        garbage_(parts.garbage),
        batcher_(parts.batcher),
        splitter_(parts.splitter),
        book_(parts.book),
        events_(parts.events),
        ends_(parts.ends),
        ids_(parts.ids),
        read_leases_(parts.read_leases),
        in_flight_(parts.in_flight),
        late_calls_(parts.late_calls),
        clock_(clock),
        fresh_(std::move(fresh)) {}

  View& at_hand(const Place& place) override;
  Task<Result<void>> read(const char* reason, Place place, Look look) override;
  Task<Result<void>> commit(Change change) override;
  // A change of two keys: a rename.
  Task<Result<void>> commit_pair(Change change, std::string from, std::string to);
  // Opens the key's current object; null: it still has this stamp, as one call has found.
  Task<Result<std::shared_ptr<ObjectReader>>> open_unless(Blobs& blobs, std::shared_ptr<const Bucket> bucket,
                                                          std::string key, uint64_t stamp);
  // Writes a read lease of that holder into the key's version token, if the key still has this stamp.
  Task<Result<void>> keep(uint64_t bucket, std::string key, uint64_t stamp, uint64_t holder);
  void close() { locks_.close(); }
  Task<Result<void>> sync() override { co_return Result<void>{}; }  // every acknowledged change is durable already

 private:
  Task<Result<void>> learn(uint64_t bucket);
  Task<Result<void>> give_version_token(Rows& rows, const Tablet& tablet);
  Task<Result<void>> commit_key(Change& change);
  // `lost`: number of lost races.
  Task<Result<Attempt>> try_key(Change& change, Rows& rows, int& lost);
  Task<Result<void>> tell_holders(const Rows& rows);
  Task<Result<Attempt>> settle(Change& change, Rows& rows, Batcher::Outcome outcome);
  Task<Result<bool>> is_removed(uint64_t bucket);
  struct Pair {
    Pair(Registry& registry, uint64_t bucket, const std::string& source, const std::string& target)
        : from(registry, {bucket, source}, nullptr, /*with_bytes=*/false),
          to(registry, {bucket, target}, nullptr, /*with_bytes=*/false) {
      from.ask_fence();
      to.ask_fence();
    }
    void forget(const BucketPtr& now) {
      for (Rows* rows : {&from, &to}) {
        rows->forget();
        rows->set_bucket(now);
      }
    }
    Rows from, to;
  };
  Task<Result<Attempt>> try_pair(Change& change, Pair& pair, int& lost);
  Task<Result<bool>> were_so_at_once(Pair& pair);
  Task<Result<Attempt>> commit_together(Change& change, Pair& pair, PairTransaction& judged, const Tablet& tablet,
                                        int& lost);
  Task<Result<Attempt>> move_between(Pair& pair, PairTransaction& judged, const Tablet& source, const Tablet& target);
  Task<Result<void>> commit_bucket(Change& change);
  Task<Result<void>> change_bucket(Change& change, InFlightChanges::OwnChange& own);
  // conditional_conflict: again.
  Task<Result<void>> try_bucket(Change& change, InFlightChanges::OwnChange& own);
  Task<Result<void>> remove_bucket(Change& change, BucketPtr bucket, InFlightChanges::OwnChange& own);
  Task<Result<void>> create_bucket(Change& change);
  struct NewBucket {
    uint64_t id = 0;
    bool made = false;                   // its objects exist, but nothing names them
    std::optional<std::string> fence{};  // the fence of names, from before the name was looked up
    InFlightChanges::OwnChange own{};
  };
  Task<Result<void>> make_bucket(Change& change, NewBucket& bucket);
  Task<Result<Attempt>> try_create(Change& change, Rows& rows, NewBucket& bucket);
  Task<> leave(NewBucket& bucket);

  Registry& registry_;
  Garbage& garbage_;
  Batcher& batcher_;
  Splitter& splitter_;
  UsageBook& book_;
  EventRows& events_;
  EndRows& ends_;
  Ids& ids_;
  ReadLeases& read_leases_;
  InFlightChanges& in_flight_;
  LateCalls& late_calls_;
  const WallClock& clock_;
  const std::function<bool()> fresh_;
  KeyLocks locks_;
};

}  // namespace verbena::store::rados
