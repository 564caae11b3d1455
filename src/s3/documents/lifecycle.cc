#include "s3/documents/lifecycle.h"

#include "base/bytes.h"
#include "base/checksum.h"

namespace verbena::s3 {
namespace {

// It is kept with the document, in one change, as a comment behind it, which readers of rules pass over.
constexpr std::string_view varies_note = "<!-- transition-default-minimum-object-size: varies_by_storage_class -->";

using Rules = std::shared_ptr<const std::vector<LifecycleRule>>;

LifecycleCache& rules_cache() {
  static LifecycleCache cache;
  return cache;
}

}  // namespace

// Parsed without the lock: a loop that looks for a document must not wait for another one's.
Result<Rules> LifecycleCache::get(const std::string& document) {
  const std::string digest = sha256(as_bytes(document));
  {
    std::lock_guard lock(mutex_);
    if (const auto it = parsed_.find(digest); it != parsed_.end()) return it->second.rules;
  }
  VB_ASSIGN(auto rules, parse_(document));
  auto shared = std::make_shared<const std::vector<LifecycleRule>>(std::move(rules));
  std::deque<Rules> evicted;  // freed without the lock
  std::lock_guard lock(mutex_);
  const auto [it, is_new] = parsed_.emplace(digest, Entry{shared, document.size()});
  if (!is_new) return it->second.rules;  // by another thread meanwhile
  order_.push_back(digest);
  bytes_ += document.size();
  while (order_.size() > entries_max || (bytes_ > bytes_max && order_.size() > 1)) {
    auto oldest = parsed_.extract(order_.front());
    order_.pop_front();
    bytes_ -= oldest.mapped().bytes;
    evicted.push_back(std::move(oldest.mapped().rules));
  }
  return shared;
}

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
