// Reads all rows of a store: their amounts, and the bytes that they name.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "store/blob_ref.h"
#include "store/rados/rados_store.h"
#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

// Reads while others change rows, so it may miss a row that moves. repair.h prevents that.
class RowSurvey {
 public:
  RowSurvey(Registry& registry, Survey& survey) : registry_(registry), survey_(survey) {}

  Task<Result<void>> run();  // every row of every bucket; corrupt_object: one of its objects is lost
  Task<Result<void>> look_at_bucket(BucketPtr state);  // as it was some time ago; not_found: a tablet is lost

  // Bytes, and the row that names them.
  struct Named {
    BlobRef blob;
    uint64_t bucket;
    std::string row;
  };
  std::map<uint64_t, Named> striped;  // by blob
  std::set<uint64_t> waiting;
  std::map<std::string, Named> small_wanted;  // by the bucket and the row of the bytes
  std::set<std::string> small_there;

 private:
  Task<Result<void>> look_at(const BucketState& state, size_t tablet, const std::string& from);
  Result<void> add(const BucketState& state, const std::string& row, const std::string& value);

  Registry& registry_;
  Survey& survey_;
};

// The key of a row of an object, a version or parts, for people; empty: it is another row.
std::string name_in(std::string_view row);
// The row of small bytes that such a row names.
std::string small_row(std::string_view row, const BlobRef& blob);
// What such a row names. malformed.
Result<std::vector<BlobRef>> blobs_in(std::string_view row, std::string_view value);
// The striped blobs that a tablet's row names. malformed.
Result<void> add_striped(std::string_view row, std::string_view value, std::set<uint64_t>& blobs);

}  // namespace verbena::store::rados
