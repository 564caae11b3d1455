// The right to watch a bucket's keys (store/change_feed.h).
#pragma once

#include <string>

#include "s3/access_generation.h"
#include "s3/service.h"

namespace verbena::s3 {

struct WatchRight {
  bool versions = false;  // versions may be reported, too
  // The inputs of the decision, to see when it must be made again (KeyWatches).
  uint64_t access_number = 0;  // of the bucket (AccessGeneration)
  AccessGeneration::Place bucket{};
  // Identifies the bucket among earlier ones of its name (BucketAccess).
  int64_t created_us = 0;
  std::string owner{};
};
// A caller that may list the keys under the prefix may watch them: a change reports what a listing does, and no byte of
// an object. Reports about versions need the right to list versions. access_denied, no_such_bucket.
Task<Result<WatchRight>> authorize_watch(Service& service, const Call& caller, const std::string& bucket,
                                         const std::string& prefix);

}  // namespace verbena::s3
