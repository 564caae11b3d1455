// Cached rules of buckets' lifecycles, and their stored form.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "s3/documents/lifecycle_rules.h"

namespace verbena::s3 {

// A cache of parsed documents, by their digest; the oldest entries make room for new ones. Thread-safe: no call waits
// while another one's document is parsed.
class LifecycleCache {
 public:
  using Parser = std::function<Result<std::vector<LifecycleRule>>(std::string_view)>;
  static constexpr size_t entries_max = 64;
  static constexpr uint64_t bytes_max = 4 * MiB;  // of the documents

  explicit LifecycleCache(Parser parse = parse_lifecycle) : parse_(std::move(parse)) {}
  // Errors as of the parser.
  Result<std::shared_ptr<const std::vector<LifecycleRule>>> get(const std::string& document);

 private:
  struct Entry {
    std::shared_ptr<const std::vector<LifecycleRule>> rules;
    uint64_t bytes = 0;
  };
  const Parser parse_;
  std::mutex mutex_;
  std::map<std::string, Entry> parsed_;
  std::deque<std::string> order_;  // digests, the oldest first
  uint64_t bytes_ = 0;
};

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
