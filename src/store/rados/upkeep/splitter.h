// Splits tablets that have grown too large, while the bucket is in use: changes of the tablet's keys wait until the
// upper half of its rows has been copied, then the bucket's object names the new tablet. A server that dies in between
// has changed nothing.
#pragma once

#include <boost/asio/io_context.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "store/rados/cluster/attempt.h"
#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

size_t find_tablet(const BucketState& bucket, uint64_t number);  // the number of tablets: it has none of that number

class Splitter {
 public:
  using Name = std::pair<uint64_t, uint64_t>;  // bucket, tablet

  Splitter(Registry& registry, boost::asio::io_context& io, const WallClock& clock, uint64_t rows_max)
      : registry_(registry), io_(io), clock_(clock), rows_max_(rows_max) {}

  // Records so many rows written to a tablet. Its rows are counted from time to time.
  void count(uint64_t bucket, uint64_t tablet, uint64_t rows);
  // Splits the tablet if it has too many rows; else removes what is left behind its end.
  Task<Result<void>> look_at(Name name);
  void stop();  // begins no further split
  // Called after a look at a tablet with few rows.
  void set_small(std::function<Task<Result<void>>(uint64_t bucket, uint64_t tablet)> small) {
    small_ = std::move(small);
  }

  // For joins, too. How many rows of keys the tablet has; counts no further than to one more than `most`.
  Task<Result<uint64_t>> count_rows(BucketPtr bucket, size_t tablet, uint64_t most);
  // Copies the rows of the tablet's keys from `key` on into an object that does not show them yet.
  Task<Result<void>> copy_keys(BucketPtr frozen, size_t tablet, std::string key, std::string to);
  Task<Result<void>> copy_tokens(BucketPtr frozen, std::string from, std::string to);
  // Likewise the ends of these keys.
  Task<Result<void>> copy_ends(BucketPtr frozen, size_t tablet, std::string key, std::string to);
  Task<Result<void>> put_rows(BucketPtr frozen, std::string to, std::shared_ptr<OmapReply> page);
  // Ends that phase of a split or join, if the bucket is in it: one that began or ended half way would stop its tablets
  // until others undo it. Returns whether it is over.
  Task<bool> undo(uint64_t bucket, std::string who);
  // Removes rows behind the tablet's end.
  Task<Result<Attempt>> purge_at(BucketPtr bucket, size_t tablet);

 private:
  struct Found {
    uint64_t rows = 0;
    std::vector<std::string> keys;  // a sample, in order: of current objects, or where these are few of all keys
    bool left_over = false;         // the tablet has rows behind its end
  };

  Task<Result<Attempt>> purge_rows(BucketPtr bucket, std::string object, std::set<std::string> gone);
  Task<Result<Attempt>> purge_ends(BucketPtr bucket, size_t tablet);
  Task<Result<void>> purge_usage(BucketPtr frozen, std::string object);
  Task<> look(Name name);
  Task<Result<Found>> survey(BucketPtr bucket, size_t tablet);
  Task<Result<void>> split(BucketPtr bucket, size_t tablet, std::string key);
  Task<Result<BucketPtr>> make_phases(BucketPtr bucket, uint64_t source, std::string key, uint64_t number,
                                      std::string who);
  Task<> remove_unnamed(uint64_t bucket, uint64_t number);
  Task<Result<void>> copy(BucketPtr frozen, size_t tablet, std::string key, std::string to);
  Task<Result<void>> purge(BucketPtr bucket, uint64_t number);
  // A page of rows of one letter, from a key to the tablet's end.
  Task<Result<std::shared_ptr<OmapReply>>> rows_from(std::string object, std::string start, std::string after);
  Task<Result<std::shared_ptr<OmapReply>>> rows_named(std::string object, std::set<std::string> names);

  Registry& registry_;
  boost::asio::io_context& io_;
  const WallClock& clock_;
  const uint64_t rows_max_;
  std::function<Task<Result<void>>(uint64_t, uint64_t)> small_;
  std::mutex mutex_;  // guards the following members
  std::map<Name, uint64_t> written_;
  std::set<Name> looking_;
  std::atomic<bool> stopping_{false};
};

}  // namespace verbena::store::rados
