// Listings with values: by the native door where the server supports them, else a listing and a batch.
#include "client/api/client_impl.h"

namespace verbena {

using client::fault;

Outcome<ValuePage> Client::Impl::list_values(const std::string& bucket, const ValueOptions& options,
                                             const Buffer& into) {
  OUT_TRY(usable());
  if (options.max_keys < 1 || options.max_keys > 1000) {
    return fault(ErrorCode::invalid_argument, "max_keys must be 1 to 1000");
  }
  std::string reason;
  if (session_) {
    ValuePage page;
    auto listed = client::with_retries(retry_, true, page.transfer.attempts,
                                       [&] { return session_->list_values(bucket, options, into.bytes(), page); });
    if (listed) {
      page.transfer.door = Via::native;
      page.transfer.provider = session_->provider();
      return page;
    }
    const bool old_server = listed.error().code == ErrorCode::unsupported;
    const bool only_native = options_.via == Via::native;
    if (!old_server && (only_native || !client::get_may_fall_back(listed.error()))) {
      return std::unexpected(std::move(listed).error());
    }
    reason = "native: " + listed.error().message;
  }
  auto page = list_and_get(bucket, options, into);
  if (page) page->transfer.fell_back_reason = std::move(reason);
  return page;
}

// Reads the values that fit the buffer, in the order of the listing; the page ends where it is full.
Outcome<ValuePage> Client::Impl::list_and_get(const std::string& bucket, const ValueOptions& options,
                                              const Buffer& into) {
  OUT_ASSIGN(ListPage listed,
             list(bucket, {.prefix = options.prefix, .after = options.after, .max_keys = options.max_keys}));
  ValuePage page;
  std::vector<BatchItem> items;
  std::vector<size_t> places;  // each item's index in the values
  size_t used = 0;
  page.truncated = listed.truncated;
  for (ObjectInfo& info : listed.objects) {
    const bool wanted = info.size <= options.value_size_max && info.size <= into.size();
    if (wanted && info.size > into.size() - used) {
      page.truncated = true;
      break;
    }
    ListedValue& value = page.values.emplace_back();
    value.info = std::move(info);
    if (!wanted) continue;
    value.offset = used;
    used += value.info.size;
    places.push_back(page.values.size() - 1);
  }
  for (const size_t place : places) {
    const ListedValue& value = page.values[place];
    items.push_back({.bucket = bucket, .key = value.info.key, .offset = *value.offset, .size = value.info.size});
  }
  std::vector<BatchResult> results(items.size());
  if (!items.empty()) {
    OUT_ASSIGN(page.transfer, many(Many::get, items, std::span(&into, 1), results, {}));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    ListedValue& value = page.values[places[i]];
    value.error = results[i].error;
    if (value.error) {
      value.offset.reset();
      continue;
    }
    value.info.size = results[i].size;
    value.info.etag = std::move(results[i].etag);
    value.info.version_id = std::move(results[i].version_id);
    value.info.last_modified = results[i].last_modified;
  }
  return page;
}

}  // namespace verbena
