// The right to be told what becomes of a bucket's keys (store/change_feed.h).
#pragma once

#include <string>

#include "s3/service.h"

namespace verbena::s3 {

struct WatchRight {
  bool versions = false;  // the ids of versions may be told, too
  // What it was given by: to ask again where that may be another by now (may_have_changed()).
  uint64_t access_generation = 0;
  // Of which of the buckets that had this name in time it is (BucketAccess).
  int64_t created_us = 0;
  std::string owner{};
};
// Who may list the keys under the prefix may be told of them: a change tells what a listing does, and no byte of an
// object. Ids of versions are told to who may list these. access_denied, no_such_bucket.
Task<Result<WatchRight>> authorize_watch(Service& service, const Call& caller, const std::string& bucket,
                                         const std::string& prefix);

}  // namespace verbena::s3
