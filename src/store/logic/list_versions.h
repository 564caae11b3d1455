// Pages of versions.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "store/catalogue.h"
#include "store/logic/bucket.h"

namespace verbena::store {

class VersionCursor;

// Bounded work per page: a common prefix, and the versions before a marker, are skipped by a seek. Goes on where it
// stopped, as the listers of list.h do. Whatever changes meanwhile, a page is the bucket at one moment; where the
// engine cannot hold on to it the page has fewer versions than were asked for, one at least, and the next one follows.
class VersionLister {
 public:
  VersionLister(std::shared_ptr<const Bucket> bucket, ListVersionsRequest request);
  ~VersionLister();
  Result<VersionPage> run(View& rows);

 private:
  Result<void> begin(View& rows);
  bool is_cut_short();
  Result<bool> step();  // false: the page is made
  bool add_prefix(const std::string& hidden);
  bool add_version();

  const std::shared_ptr<const Bucket> bucket_;
  const ListVersionsRequest request_;
  int room_;
  VersionPage page_;
  bool ends_ = false;  // nothing can follow the marker
  // The record's id behind the marker, nullopt inside: the newest; once it was found. It is a place in the order,
  // whatever became of that version since, so begin() does not look for it again.
  std::optional<std::optional<uint64_t>> marker_;
  std::unique_ptr<Moment> moment_;
  std::unique_ptr<VersionCursor> cursor_;  // of the moment
};

}  // namespace verbena::store
