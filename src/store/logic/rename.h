// Renaming an object within its bucket: its head moves, its bytes stay where they are.
#pragma once

#include <memory>
#include <string>

#include "store/catalogue.h"
#include "store/logic/bucket.h"

namespace verbena::store {

// The time for which a repeated request is recognized by its token. Clients repeat unanswered requests within seconds.
inline constexpr int64_t rename_token_life_us = int64_t{3'600} * 1'000'000;

// Tokens of one bucket. Beyond that the oldest one is forgotten early, if it has this age; else the rename is refused.
inline constexpr uint64_t rename_tokens_max = 100'000;
inline constexpr int64_t rename_token_least_us = int64_t{60} * 1'000'000;

struct Renaming {
  std::shared_ptr<const Bucket> bucket;
  RenameRequest request;
  ObjectInfo info{};  // the answer
  ObjectInfo gone{};  // reported to listeners under the old name
};

// no_such_key, invalid_bucket_state (the bucket has or had versions), idempotency_mismatch, and errors of the request's
// own judge; slow_down: the bucket has too many young tokens.
Change rename_change(std::shared_ptr<Renaming> renaming);

}  // namespace verbena::store
