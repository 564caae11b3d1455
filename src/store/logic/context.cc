#include "store/logic/context.h"

#include <map>

#include "store/logic/keys.h"
#include "store/logic/record.h"

namespace verbena::store {
namespace {

Result<void> load_documents(View& rows, const Buckets& buckets) {
  std::map<uint64_t, std::shared_ptr<const Bucket>> by_id;
  for (auto& bucket : buckets.all()) by_id[bucket->id] = bucket;
  const auto cursor = rows.cursor(Table::meta, keys::document_prefix());
  for (; cursor->valid(); cursor->next()) {
    auto key = keys::parse_document(cursor->key());
    if (!key) return fail(Errc::corrupt_object, "store: document record");
    auto bucket = by_id.find(key->first);
    if (bucket == by_id.end()) return fail(Errc::corrupt_object, "store: document of no bucket");
    bucket->second->documents.set(key->second, std::make_shared<const std::string>(cursor->value()));
  }
  return cursor->status();
}

}  // namespace

Result<void> Context::may_answer(std::string_view name) const {
  if (!fresh()) return fail(Errc::service_unavailable, "This server's view of the buckets may be out of date.");
  if (is_sure && !is_sure(name)) return fail(Errc::would_block, "bucket");
  return {};
}

Task<Result<std::shared_ptr<const Bucket>>> Context::settled_bucket(std::string name) {
  std::string copy = name;
  VB_CO_TRY(co_await settle(std::move(copy)));
  co_return known_bucket(name);
}

// Two walks without a Moment: nothing changes before the first verb.
Result<void> Context::load_buckets(View& view) {
  const auto cursor = view.cursor(Table::meta, keys::bucket_prefix());
  for (; cursor->valid(); cursor->next()) {
    VB_ASSIGN(BucketRecord record, decode_bucket(cursor->value()));
    buckets.add(record);
  }
  VB_TRY(cursor->status());
  return load_documents(view, buckets);
}

Result<void> check_key(std::string_view key) {
  if (key.empty()) return fail(Errc::invalid_argument, "key: empty");
  if (key.size() > key_size_max) return fail(Errc::key_too_long);
  return {};
}

}  // namespace verbena::store
