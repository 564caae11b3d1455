// A bucket's lifecycle: rules, their XML, and when they are due.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/removal_grounds.h"
#include "store/store.h"

namespace verbena::s3 {

// The name of the bucket's document with the configuration.
inline constexpr std::string_view lifecycle_document = store::rules_document;

// The objects of a rule. Empty: all.
struct LifecycleFilter {
  std::string prefix;
  store::Tags tags;                                // the object has all of them
  std::optional<uint64_t> size_above, size_below;  // bytes, both exclusive
  bool legacy = false;                             // written as <Prefix> in the rule itself
  bool has_prefix = false;                         // an empty prefix was written out
};

struct LifecycleRule {
  std::string id;
  bool enabled = false;
  LifecycleFilter filter;
  // Expiration of current objects: days after creation, or on a date (microseconds since the epoch).
  std::optional<uint32_t> days;
  std::optional<int64_t> date_us;
  bool expired_marker = false;  // remove delete markers that hide nothing
  // Of versions: days after they stopped being current, but never the newest `noncurrent_keep` of them.
  std::optional<uint32_t> noncurrent_days;
  uint32_t noncurrent_keep = 0;
  std::optional<uint32_t> abort_days;  // of uploads, after they began

  // By name, tags and size.
  bool applies(std::string_view key, const store::ObjectInfo& info) const;
};

// 1 to 1000 rules, as AWS checks them: malformed_xml, invalid_argument, invalid_request. Rules without an id get one.
// Transitions are refused (invalid_argument): there is one storage class.
Result<std::vector<LifecycleRule>> parse_lifecycle(std::string_view text);
std::string lifecycle_xml(const std::vector<LifecycleRule>& rules);

// The time `days` after `since_us`: with days of 24 hours the next midnight UTC, as at AWS; with shorter days (for
// tests) to the second. `day_s`: length of a day in seconds.
int64_t due_us(int64_t since_us, uint32_t days, int64_t day_s);

// The rule that will expire the object first, and the time. nullopt: none.
struct Expiry {
  int64_t at_us = 0;
  const LifecycleRule* rule = nullptr;
};
std::optional<Expiry> find_expiry(const std::vector<LifecycleRule>& rules, std::string_view key,
                                  const store::ObjectInfo& info, int64_t day_s);

}  // namespace verbena::s3
