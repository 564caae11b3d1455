// What the rows of a store name: how much there is of everything, and which bytes belong to whom.
#pragma once

#include <map>
#include <set>
#include <string>

#include "store/rados/rados_store.h"
#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

// Looks while others change rows: of a key that is changed meanwhile it may miss one that moves. repair.h does not.
class RowSurvey {
 public:
  RowSurvey(Registry& registry, Survey& survey) : registry_(registry), survey_(survey) {}

  Task<Result<void>> run();  // every row of every bucket; corrupt_object: one of its objects is lost

  struct Named {
    uint64_t size;
    std::string by;
  };
  std::map<uint64_t, Named> striped;  // by blob
  std::set<uint64_t> waiting;
  std::map<std::string, std::string> small_wanted;  // row -> whose
  std::set<std::string> small_there;

 private:
  Task<Result<void>> look_at_bucket(uint64_t id);
  Task<Result<void>> look_at(const BucketState& state, size_t tablet);
  Result<void> add(const BucketState& state, const std::string& row, const std::string& value);
  Result<void> add_parts(const BucketState& state, const std::string& row, const std::string& value,
                         const std::string& bucket);
  void name(uint64_t bucket, const std::string& key, const BlobRef& blob, std::string by);

  Registry& registry_;
  Survey& survey_;
};

// The blobs in stripes that a tablet's row names. malformed.
Result<void> add_striped(std::string_view row, std::string_view value, std::set<uint64_t>& blobs);

}  // namespace verbena::store::rados
