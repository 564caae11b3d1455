// The rules of a bucket's lifecycle in use: parsed once, and as they are kept.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "s3/documents/lifecycle_rules.h"

namespace verbena::s3 {

// The bucket's rules; empty when it has none. Parsed once per change of the document.
Task<Result<std::shared_ptr<const std::vector<LifecycleRule>>>> lifecycle_rules(store::Store& store,
                                                                                std::string bucket);
// Likewise, of that document.
Result<std::shared_ptr<const std::vector<LifecycleRule>>> lifecycle_rules_of(const std::string& document);

// A request's document as it is kept. `minimum_varies`: the smallest size of a transition goes by the storage class.
// Its rules are in the cache then, so that the first look at them is a short one. Errors as parse_lifecycle().
Result<std::string> kept_lifecycle(std::string_view text, bool minimum_varies);
// What a kept document says.
struct LifecycleShown {
  std::string xml;
  bool minimum_varies = false;
};
LifecycleShown shown_lifecycle(const std::string& document);

}  // namespace verbena::s3
