#include "s3/documents/lifecycle.h"

#include <map>
#include <mutex>

#include "base/bytes.h"
#include "base/checksum.h"

namespace verbena::s3 {
namespace {

// It is kept with the document, in one change, as a comment behind it, which readers of rules pass over.
constexpr std::string_view varies_note = "<!-- transition-default-minimum-object-size: varies_by_storage_class -->";

using Rules = std::shared_ptr<const std::vector<LifecycleRule>>;

// A cache of parsed documents, by their digest. Thread-safe.
class RulesCache {
 public:
  Result<Rules> get(const std::string& document) {
    const std::string digest = sha256(as_bytes(document));
    std::lock_guard lock(mutex_);
    if (auto it = parsed_.find(digest); it != parsed_.end()) return it->second;
    VB_ASSIGN(auto rules, parse_lifecycle(document));
    if (parsed_.size() >= entries_max || bytes_ + document.size() > bytes_max) {
      parsed_.clear();
      bytes_ = 0;
    }
    bytes_ += document.size();
    auto shared = std::make_shared<const std::vector<LifecycleRule>>(std::move(rules));
    parsed_.emplace(digest, shared);
    return shared;
  }

 private:
  static constexpr size_t entries_max = 64;
  static constexpr size_t bytes_max = 4 * MiB;  // of the documents
  std::mutex mutex_;
  std::map<std::string, Rules> parsed_;
  size_t bytes_ = 0;
};

RulesCache& rules_cache() {
  static RulesCache cache;
  return cache;
}

}  // namespace

Result<std::string> kept_lifecycle(std::string_view text, bool minimum_varies) {
  VB_ASSIGN(const auto rules, parse_lifecycle(text));
  std::string document = lifecycle_xml(rules);
  if (minimum_varies) document += varies_note;
  VB_TRY(rules_cache().get(document));
  return document;
}

LifecycleShown shown_lifecycle(const std::string& document) {
  const bool varies = document.ends_with(varies_note);
  return {document.substr(0, document.size() - (varies ? varies_note.size() : 0)), varies};
}

Task<Result<Rules>> lifecycle_rules(store::Store& store, std::string bucket) {
  const auto document = co_await store.document(bucket, lifecycle_document);
  static const auto none = std::make_shared<const std::vector<LifecycleRule>>();
  if (!document && document.error() == Errc::not_found) co_return none;
  if (!document) co_return std::unexpected(document.error());
  co_return lifecycle_rules_of(**document);
}

Result<Rules> lifecycle_rules_of(const std::string& document) { return rules_cache().get(document); }

}  // namespace verbena::s3
