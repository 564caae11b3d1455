// Reads all rows of a store: their amounts, and the bytes that they name.
#pragma once

#include <map>
#include <set>
#include <string>

#include "store/rados/rados_store.h"
#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

// Reads while others change rows, so it may miss a row that moves. repair.h prevents that.
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
  std::map<std::string, std::string> small_wanted;  // row -> its object
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

// The striped blobs that a tablet's row names. malformed.
Result<void> add_striped(std::string_view row, std::string_view value, std::set<uint64_t>& blobs);

}  // namespace verbena::store::rados
