// Renaming an object within its bucket: its head moves, its bytes stay where they are.
#pragma once

#include <memory>
#include <string>

#include "store/catalogue.h"
#include "store/logic/bucket.h"

namespace verbena::store {

// For so long a request that comes again with its token is known. Clients repeat what got no answer within seconds.
inline constexpr int64_t rename_token_life_us = int64_t{3'600} * 1'000'000;

struct Renaming {
  std::shared_ptr<const Bucket> bucket;
  RenameRequest request;
  ObjectInfo info{};  // the answer
  ObjectInfo gone{};  // what others are told of the old name
};

// no_such_key, invalid_bucket_state (the bucket has or had versions), idempotency_mismatch, and what the request's own
// judge says.
Change rename_change(std::shared_ptr<Renaming> renaming);

}  // namespace verbena::store
