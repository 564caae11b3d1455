// Pages of versions.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "store/catalogue.h"
#include "store/logic/bucket.h"
#include "store/logic/list.h"

namespace verbena::store {

class VersionCursor;

// Pages with bounded work: a common prefix, and the versions before a marker, are skipped by a seek. Continues where it
// stopped, as the listers of list.h do. Whatever changes meanwhile, a page is the bucket as of one moment; if the
// engine cannot hold the moment, the page has fewer versions than requested, at least one, and the next one follows.
class VersionLister {
 public:
  VersionLister(std::shared_ptr<const Bucket> bucket, ListVersionsRequest request);
  ~VersionLister();
  Result<VersionPage> run(View& rows);

 private:
  Result<void> begin(View& rows);
  Result<void> go_behind_marker(Moment& moment, VersionCursor& cursor);
  bool is_cut_short();
  Result<PageState> step();
  Result<PageState> pass_damaged();
  bool passes(const Error& error) const;
  void note_damaged(const std::string& key);
  bool add_prefix(const std::string& hidden);
  bool add_version();

  const std::shared_ptr<const Bucket> bucket_;
  const ListVersionsRequest request_;
  int room_;
  VersionPage page_;
  bool ends_ = false;  // nothing can follow the marker
  // The marker's record id, once found; the inner nullopt: the newest. It is a position in the order, whatever happened
  // to that version since, so begin() does not look for it again.
  std::optional<std::optional<uint64_t>> marker_;
  std::unique_ptr<Moment> moment_;
  std::unique_ptr<VersionCursor> cursor_;  // of the moment
};

}  // namespace verbena::store
