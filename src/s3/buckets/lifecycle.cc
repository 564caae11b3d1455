#include "s3/buckets/lifecycle.h"

#include <fmt/core.h>

#include <map>
#include <mutex>

#include "auth/auth.h"
#include "base/bytes.h"
#include "base/checksum.h"
#include "base/date.h"
#include "s3/access/access.h"
#include "s3/buckets/bucket_document.h"
#include "s3/document_reading.h"
#include "s3/verbs.h"

namespace verbena::s3 {
namespace {

constexpr size_t lifecycle_document_max = 512 * KiB;
// Parameters of PutBucketLifecycleConfiguration besides its document. They are stored with the document, in one change,
// as a comment behind it, which the parser of rules skips.
constexpr std::string_view minimum_header = "x-amz-transition-default-minimum-object-size";
constexpr std::string_view minimum_of_all = "all_storage_classes_128K", minimum_varies = "varies_by_storage_class";
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

// The stored form of a request's document. Its rules are cached, so that their first use is fast.
Result<std::string> kept_rules(std::string_view text, bool varies) {
  VB_ASSIGN(const auto rules, parse_lifecycle(text));
  std::string document = lifecycle_xml(rules);
  if (varies) document += varies_note;
  VB_TRY(rules_cache().get(document));
  return document;
}

}  // namespace

Task<Result<Rules>> lifecycle_rules(store::Store& store, std::string bucket) {
  const auto document = co_await store.document(bucket, lifecycle_document);
  static const auto none = std::make_shared<const std::vector<LifecycleRule>>();
  if (!document && document.error() == Errc::not_found) co_return none;
  if (!document) co_return std::unexpected(document.error());
  co_return lifecycle_rules_of(**document);
}

Result<Rules> lifecycle_rules_of(const std::string& document) { return rules_cache().get(document); }

bool may_expire(const Context& context) {
  const BucketAccess* const access = cached_access(context.service, context.bucket);
  return access == nullptr || access->lifecycle != nullptr;
}

void add_expiration_header(ReplyHeaders& out, const BucketAccess& access, std::string_view key,
                           const store::ObjectInfo& info) {
  if (access.lifecycle == nullptr) return;
  // The header is for clients that plan by the calendar: it has days of 24 hours even if lifecycle_day is shorter.
  constexpr int64_t day_s = 86'400;
  const auto expiry = find_expiry(*access.lifecycle, key, info, day_s);
  if (!expiry) return;
  out.emplace_back("x-amz-expiration",
                   fmt::format("expiry-date=\"{}\", rule-id=\"{}\"", format_http_date(expiry->at_us / 1'000'000),
                               auth::uri_encode(expiry->rule->id, true)));
}

Task<> add_expiration_header(Context& context, const store::ObjectInfo& info) {
  const auto found = co_await bucket_access(context.service, context.bucket);
  if (!found) co_return;
  add_expiration_header(context.response.headers, **found, context.key, info);
}

Task<Result<void>> serve_bucket_lifecycle(Context& context) {
  VB_CO_ASSIGN(const auto document,
               co_await read_bucket_document(context, lifecycle_document, Errc::no_such_lifecycle));
  const bool varies = document->ends_with(varies_note);
  context.reply_header(minimum_header, varies ? minimum_varies : minimum_of_all);
  context.reply_xml(document->substr(0, document->size() - (varies ? varies_note.size() : 0)));
  co_return Result<void>();
}

Task<Result<void>> serve_put_bucket_lifecycle(Context& context) {
  const std::string_view minimum = context.header(minimum_header).value_or(minimum_of_all);
  if (minimum != minimum_of_all && minimum != minimum_varies) {
    co_return fail(Errc::invalid_argument, "The default minimum object size of transitions is not one of S3's.");
  }
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, lifecycle_document_max));
  const auto work = [&] { return kept_rules(text, minimum == minimum_varies); };
  Result<std::string> document;
  if (text.size() > read_at_once_bytes) {
    document = co_await beside_loop("document", work);
  } else {
    document = work();
  }
  VB_CO_TRY(document);
  context.reply_header(minimum_header, minimum);
  co_return co_await keep_document(context.service, context.bucket, lifecycle_document, std::move(*document));
}

Task<Result<void>> serve_delete_bucket_lifecycle(Context& context) {
  VB_CO_TRY(co_await drop_document(context.service, context.bucket, lifecycle_document));
  reply_no_content(context);
  co_return Result<void>();
}

}  // namespace verbena::s3
