// Cached rules of buckets' lifecycles, and their stored form.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "s3/documents/lifecycle_rules.h"

namespace verbena::s3 {

// The bucket's rules; empty if it has none. Parsed once per change of the document.
Task<Result<std::shared_ptr<const std::vector<LifecycleRule>>>> lifecycle_rules(store::Store& store,
                                                                                std::string bucket);
// Likewise, of that document.
Result<std::shared_ptr<const std::vector<LifecycleRule>>> lifecycle_rules_of(const std::string& document);

// The stored form of a request's document. `minimum_varies`: the smallest size of a transition depends on the storage
// class. Adds the rules to the cache, so that their first use is fast. Errors as parse_lifecycle().
Result<std::string> kept_lifecycle(std::string_view text, bool minimum_varies);
// Reads a stored document.
struct LifecycleShown {
  std::string xml;
  bool minimum_varies = false;
};
LifecycleShown shown_lifecycle(const std::string& document);

}  // namespace verbena::s3
