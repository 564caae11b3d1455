// The logic as an engine across a network runs it: nothing is at hand, each look costs a round trip, and a change may
// lose a race and be judged again. Over another engine's seams; for tests.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "store/logic/engine_store.h"

namespace verbena::store::conformance {

// The rows that one function has requested over its runs, and those that have arrived. If it opened a Moment, that is
// the moment at which the first row arrived; it is lost when a change precedes the next arrival.
class Fetched {
 public:
  // False: the row is requested now.
  bool has(Table table, std::string_view key);
  // A round trip: fetches everything requested. False when nothing was. `rows`: the source, read after `changes`.
  bool fetch(View& rows, uint64_t changes);

  void hold_moment() { holds_moment_ = true; }
  uint64_t moment() const { return moment_; }
  Moment& near() { return *near_; }

 private:
  using Row = std::pair<Table, std::string>;
  std::set<Row> here_, asked_;
  bool holds_moment_ = false;
  uint64_t moment_ = 0, changes_ = 0;
  std::unique_ptr<Moment> near_;
};

// Rows of another view, each available after it was fetched. Buckets' rows are kept by every server, so they are at
// hand.
class FarView final : public View {
 public:
  FarView(View& rows, Fetched& fetched) : rows_(rows), fetched_(fetched) {}
  Result<std::string> get(Table table, std::string_view key) override;
  std::unique_ptr<Cursor> cursor(Table table, std::string prefix, std::string_view from) override;
  std::unique_ptr<Moment> moment() override;

 private:
  View& rows_;
  Fetched& fetched_;
};

class FarCatalogue final : public Catalogue {
 public:
  explicit FarCatalogue(Catalogue& near) : near_(near) {}

  View& at_hand(const Place& place) override;
  Task<Result<void>> read(const char* reason, Place place, Look look) override;
  Task<Result<void>> commit(Change change) override;
  Task<Result<void>> sync() override { return near_.sync(); }
  Task<Result<void>> sync_rows() override { return near_.sync_rows(); }

  uint64_t round_trips() const { return round_trips_; }  // for looks, so far
  uint64_t commits() const { return commits_; }          // attempts made once the judge had all the rows it requested

 private:
  Result<void> judge(Transaction& transaction, const Judge& judge, Fetched& fetched, bool& was_judged);

  Catalogue& near_;
  std::atomic<uint64_t> round_trips_{0}, commits_{0}, changes_{0};
};

class FarStore final : public EngineStore {
 public:
  explicit FarStore(std::shared_ptr<Context> near, bool keeps_ends = true);
  FarCatalogue& catalogue();

 private:
  struct FarContext;
  explicit FarStore(std::shared_ptr<FarContext> context);
  std::shared_ptr<FarContext> far_;
};

}  // namespace verbena::store::conformance
