// Joins neighbouring tablets that have become small, while the bucket is in use. The way of a split, backwards:
//
// 1. A phase of the bucket (joining): the rows of both tablets do not change, and are read as always. What an undone
//    join left behind the first tablet's end goes; then the second one's rows are copied there, where nothing shows
//    them.
// 2. The next phase (closing): neither tablet is read. From here on no server that has an earlier state of the bucket
//    reads the second tablet, whose epoch no later server raises any more.
// 3. One call on the bucket's object takes the second tablet's name away and ends the phase: the first one reaches up
//    to the second one's end.
//
// A server that dies before the third step has changed nothing that shows. The second tablet's object stays for a while
// (row "g" of the bucket), since servers look there whether their last calls were made; the leader removes it
// (garbage.h). Its events would be out of order in another tablet: it is joined when they are delivered, and
// when the bytes are gone that it names for removal.
#pragma once

#include <cstdint>
#include <string>

#include "store/rados/rows/formats.h"
#include "store/rados/rows/registry.h"
#include "store/rados/upkeep/splitter.h"

namespace verbena::store::rados {

class Joiner {
 public:
  Joiner(Registry& registry, Splitter& splitter, const Formats& formats, uint64_t rows_max)
      : registry_(registry), splitter_(splitter), formats_(formats), rows_max_(rows_max) {}

  // Joins the tablet with the next ones as long as they have few rows together.
  Task<Result<void>> look_at(uint64_t bucket, uint64_t tablet);
  void stop() { stopping_ = true; }  // begins no further join

 private:
  Task<Result<bool>> look_once(uint64_t bucket, uint64_t tablet);
  Task<Result<bool>> join(BucketPtr bucket, size_t tablet);
  Task<Result<bool>> make_phases(BucketPtr bucket, size_t tablet, std::string who);
  Task<Result<bool>> is_settled(std::string tablet);
  Task<Result<bool>> fill(BucketPtr frozen, size_t tablet);
  Task<Result<void>> merge_fences(BucketPtr frozen, std::string from, std::string to);
  Task<Result<void>> forget_token_count(BucketPtr frozen, std::string of);
  Task<Result<void>> copy_usage(BucketPtr frozen, size_t from, std::string to);
  Task<Result<void>> copy_rows_of_no_key(BucketPtr frozen, std::string from, std::string letter, std::string to);

  Registry& registry_;
  Splitter& splitter_;
  const Formats& formats_;
  const uint64_t rows_max_;
  std::atomic<bool> stopping_{false};
};

}  // namespace verbena::store::rados
