// Renaming an object within its bucket: its head moves, its bytes stay where they are.
#pragma once

#include <memory>
#include <string>

#include "store/catalogue.h"
#include "store/logic/bucket.h"

namespace verbena::store {

// The time for which a repeated request is recognized by its token. Clients repeat unanswered requests within seconds.
inline constexpr int64_t rename_token_life_us = int64_t{3'600} * 1'000'000;

struct Renaming {
  std::shared_ptr<const Bucket> bucket;
  RenameRequest request;
  ObjectInfo info{};  // the answer
  ObjectInfo gone{};  // reported to listeners under the old name
};

// no_such_key, invalid_bucket_state (the bucket has or had versions), idempotency_mismatch, and errors of the request's
// own judge.
Change rename_change(std::shared_ptr<Renaming> renaming);

}  // namespace verbena::store
