// The C API's batches.
#include <cstring>
#include <vector>

#include "client/c/c_api.h"

namespace {

using namespace verbena::c_api;
using verbena::ErrorCode;
using verbena::Outcome;
using verbena::client::fault;

constexpr uint64_t lease_ms_max = 60'000;

std::string_view view(const char* value) { return value == nullptr ? std::string_view() : std::string_view(value); }

Outcome<> item_of(const verbena_item& item, verbena::BatchItem& out) {
  out.bucket = item.bucket;
  out.key = item.key;
  out.offset = item.offset;
  out.size = item.size;
  out.window = static_cast<unsigned>(std::min<size_t>(item.window, ~0u));
  if (item.range_first != 0 || item.range_length != 0) out.range = verbena::Range{item.range_first, item.range_length};
  out.version_id = view(item.version_id);
  out.if_match = view(item.if_match);
  out.if_none_match = view(item.if_none_match);
  out.content_type = view(item.content_type);
  if (item.ttl_s > INT64_MAX) return fault(ErrorCode::invalid_argument, "ttl_s");
  out.ttl = std::chrono::seconds(item.ttl_s);
  return {};
}

// Reads items that lie `apart` bytes from each other. Items of this library's size are read in place; other sizes are
// copied.
Outcome<> read_items(const verbena_batch& batch, size_t apart, std::vector<verbena::BatchItem>& items) {
  items.resize(batch.count);
  verbena_item copied;
  for (size_t i = 0; i < batch.count; ++i) {
    const auto* item =
        reinterpret_cast<const verbena_item*>(reinterpret_cast<const std::byte*>(batch.items) + i * apart);
    if (item->struct_size != sizeof *item) {
      OUT_ASSIGN(copied, known(item));
      item = &copied;
    }
    if (item->bucket == nullptr || item->key == nullptr) return null_argument();
    OUT_TRY(item_of(*item, items[i]));
  }
  return {};
}

void put_result(verbena_item_result& into, const verbena::BatchResult& from) {
  into.code = from.error ? static_cast<int>(*from.error) : VERBENA_OK;
  into.bytes = from.bytes;
  into.size = from.size;
  into.modified_us = microseconds(from.last_modified);
  copy_text(into.etag, from.etag);
  copy_text(into.version_id, from.version_id);
}

// Writes straight into the caller's results where they have this library's size.
void put_results(const verbena_batch& batch, std::span<const verbena::BatchResult> results) {
  for (size_t i = 0; i < results.size(); ++i) {
    auto* const at = reinterpret_cast<std::byte*>(batch.results) + i * batch.result_size;
    if (batch.result_size == sizeof(verbena_item_result)) {
      put_result(*reinterpret_cast<verbena_item_result*>(at), results[i]);
      continue;
    }
    verbena_item_result result{};
    put_result(result, results[i]);
    std::memcpy(at, &result, std::min(batch.result_size, sizeof result));
  }
}

// For small batches, the results of the thread's previous batch, whose strings have their memory already.
std::vector<verbena::BatchResult>& empty_results(size_t count, std::vector<verbena::BatchResult>& own) {
  constexpr size_t kept_max = 256;
  thread_local std::vector<verbena::BatchResult> kept;
  auto& results = count <= kept_max ? kept : own;
  results.resize(count);
  for (auto& result : results) {
    result.error = ErrorCode::outcome_unknown;
    result.bytes = result.size = 0;
    result.etag.clear();
    result.version_id.clear();
    result.last_modified = {};
  }
  return results;
}

template <class Call>
int run(verbena_client* client, const verbena_batch* given, verbena_transfer* transfer, const Call& call,
        uint64_t lease = 0) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || given == nullptr) return null_argument();
    OUT_TRY(fillable(transfer));
    OUT_ASSIGN(const verbena_batch batch, known(given));
    if (batch.items == nullptr || batch.results == nullptr || (batch.windows == nullptr && batch.window_count != 0)) {
      return null_argument();
    }
    if (batch.count == 0 || batch.count > verbena::batch_items_max || batch.window_count > verbena::batch_windows_max ||
        batch.result_size < sizeof(int)) {
      return fault(ErrorCode::invalid_argument, "a batch has 1 to 4096 items, at most 6 windows and a result_size");
    }
    const size_t apart = batch.items->struct_size;
    if (apart % alignof(verbena_item) != 0) {
      return fault(ErrorCode::invalid_argument, "struct_size is not the size of the structure");
    }
    std::vector<verbena::BatchItem> items;
    OUT_TRY(read_items(batch, apart, items));
    std::vector<verbena::Buffer> windows;
    for (size_t i = 0; i < batch.window_count; ++i) {
      if (batch.windows[i] == nullptr) return null_argument();
      windows.push_back(batch.windows[i]->buffer);
    }
    verbena::BatchOptions options;
    options.lease = lease;
    options.verify_device = batch.verify_device != 0;
    verbena::BatchLease take;
    if (batch.take != nullptr) {
      OUT_ASSIGN(const verbena_lease wanted, known(batch.take));
      take = {std::chrono::milliseconds(std::min<uint64_t>(wanted.ms, lease_ms_max)), wanted.lease};
      options.take = &take;
    }
    if (batch.in_order != nullptr) {
      options.in_order = [&batch](size_t leading) { batch.in_order(batch.context, leading); };
    }
    std::vector<verbena::BatchResult> own;
    auto& results = empty_results(items.size(), own);
    auto moved = call(client->client, items, windows, results, options);
    put_results(batch, results);
    if (batch.take != nullptr) give(batch.take, verbena_lease{sizeof(verbena_lease), batch.take->ms, take.lease});
    if (!moved) return std::unexpected(std::move(moved).error());
    fill(transfer, *moved);
    return {};
  });
}

using Items = std::span<const verbena::BatchItem>;
using Windows = std::span<const verbena::Buffer>;
using Results = std::span<verbena::BatchResult>;

}  // namespace

extern "C" {

int verbena_get_many(verbena_client* client, const verbena_batch* batch, verbena_transfer* transfer) {
  return verbena_get_many_leased(client, batch, 0, transfer);
}

int verbena_get_many_leased(verbena_client* client, const verbena_batch* batch, uint64_t lease,
                            verbena_transfer* transfer) {
  return run(
      client, batch, transfer,
      [](const verbena::Client& c, Items items, Windows windows, Results results,
         const verbena::BatchOptions& options) { return c.get_many(items, windows, results, options); },
      lease);
}

int verbena_end_lease(verbena_client* client, uint64_t lease) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr) return null_argument();
    return client->client.end_lease(lease);
  });
}

int verbena_head_many(verbena_client* client, const verbena_batch* batch, verbena_transfer* transfer) {
  return run(client, batch, transfer,
             [](const verbena::Client& c, Items items, Windows, Results results, const verbena::BatchOptions& options) {
               return c.head_many(items, results, options);
             });
}

int verbena_put_many(verbena_client* client, const verbena_batch* batch, verbena_transfer* transfer) {
  return run(client, batch, transfer,
             [](const verbena::Client& c, Items items, Windows windows, Results results, const verbena::BatchOptions&) {
               return c.put_many(items, windows, results);
             });
}

int verbena_delete_many(verbena_client* client, const verbena_batch* batch, verbena_transfer* transfer) {
  return run(client, batch, transfer,
             [](const verbena::Client& c, Items items, Windows, Results results, const verbena::BatchOptions&) {
               return c.remove_many(items, results);
             });
}

}  // extern "C"
