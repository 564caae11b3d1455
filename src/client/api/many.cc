// Batches: by the native door where the server supports them, else as concurrent single requests.
#include "client/api/many.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <tuple>

#include "client/api/client_impl.h"
#include "client/helpers.h"

namespace verbena {

using client::fault;

namespace client {
namespace {

using Place = std::tuple<unsigned, size_t, size_t>;  // window, begin, end

bool overlap(std::span<const BatchItem> items) {
  bool in_order = true;
  for (size_t i = 1; in_order && i < items.size(); ++i) {
    const BatchItem &before = items[i - 1], &now = items[i];
    in_order = std::tuple(before.window, before.offset + before.size) <= std::tuple(now.window, now.offset);
  }
  if (in_order) return false;
  std::vector<Place> places;
  for (const BatchItem& item : items) {
    if (item.size != 0) places.emplace_back(item.window, item.offset, item.offset + item.size);
  }
  std::ranges::sort(places);
  const auto meets = [](const Place& a, const Place& b) {
    return std::get<0>(a) == std::get<0>(b) && std::get<1>(b) < std::get<2>(a);
  };
  return std::ranges::adjacent_find(places, meets) != places.end();
}

bool is_without_server(ErrorCode code) { return code == ErrorCode::timed_out || code == ErrorCode::connection_failed; }

Outcome<> without_server(ErrorCode since) {
  if (!is_without_server(since)) return {};
  return std::unexpected(fault(since, "the server did not answer an earlier request of this batch"));
}

bool named_twice(std::span<const BatchItem> items) {
  using Name = std::tuple<std::string_view, std::string_view, std::string_view>;
  std::vector<Name> names;
  for (const BatchItem& item : items) names.emplace_back(item.bucket, item.key, item.version_id);
  if (std::ranges::is_sorted(names, std::less_equal<>()) && std::ranges::adjacent_find(names) == names.end()) {
    return false;
  }
  std::ranges::sort(names);
  return std::ranges::adjacent_find(names) != names.end();
}

}  // namespace

Outcome<> check_items(std::span<const BatchItem> items, std::span<const MutableBytes> windows, size_t results,
                      bool reads_into, bool has_places, bool writes) {
  if (items.empty() || items.size() > batch_items_max) {
    return fault(ErrorCode::invalid_argument, "a batch has 1 to 4096 items");
  }
  if (results < items.size()) return fault(ErrorCode::invalid_argument, "a batch needs a result for each item");
  if (windows.size() > batch_windows_max) return fault(ErrorCode::invalid_argument, "a batch has at most 6 windows");
  for (const BatchItem& item : items) {
    if (item.bucket.empty() || item.bucket.size() > 255 || item.key.empty() || item.key.size() > 1024) {
      return fault(ErrorCode::invalid_argument, "batch: an invalid bucket or key");
    }
    if (item.version_id.size() > 255 || item.if_match.size() > 255 || item.if_none_match.size() > 255) {
      return fault(ErrorCode::invalid_argument, "batch: an invalid version or ETag");
    }
    if (!has_places) continue;
    if (item.window >= windows.size() || item.offset > windows[item.window].size() ||
        item.size > windows[item.window].size() - item.offset) {
      return fault(ErrorCode::invalid_argument, "batch: a place outside its window");
    }
  }
  if (reads_into && overlap(items)) return fault(ErrorCode::invalid_argument, "batch: places overlap");
  if (writes && named_twice(items)) return fault(ErrorCode::invalid_argument, "batch: a key is written twice");
  return {};
}

}  // namespace client

namespace {

bool may_go_on_by_singles(const ClientError& error, bool writes) {
  if (error.code == ErrorCode::unsupported || error.code == ErrorCode::connection_failed ||
      error.code == ErrorCode::local_error) {
    return true;
  }
  // A write that may have happened is not repeated.
  return !writes && (error.code == ErrorCode::outcome_unknown || error.code == ErrorCode::timed_out ||
                     error.code == ErrorCode::server_error || error.code == ErrorCode::malformed_reply);
}

native::wire::Type type_of(bool reads, bool second) {
  using native::wire::Type;
  if (reads) return second ? Type::head_many : Type::get_many;
  return second ? Type::delete_many : Type::put_many;
}

// Conditions of a batch item that the single request's options do not have.
net::HttpHeaders conditions_of(const BatchItem& item) {
  net::HttpHeaders headers;
  const auto quoted = [](std::string_view etag) {
    return etag == "*" ? std::string(etag) : "\"" + std::string(etag) + "\"";
  };
  if (!item.if_match.empty()) headers.emplace_back("if-match", quoted(item.if_match));
  if (!item.if_none_match.empty()) headers.emplace_back("if-none-match", quoted(item.if_none_match));
  return headers;
}

void fill(BatchResult& result, ObjectInfo info) {
  result.size = info.size;
  result.etag = std::move(info.etag);
  result.version_id = std::move(info.version_id);
  result.last_modified = info.last_modified;
  result.checksum = std::move(info.checksum);
}

}  // namespace

Outcome<Transfer> Client::Impl::many(Many what, std::span<const BatchItem> items, std::span<const Buffer> windows,
                                     std::span<BatchResult> results, const BatchOptions& options) {
  const bool reads = what == Many::get || what == Many::head;
  const bool has_places = what == Many::get || what == Many::put;
  std::vector<MutableBytes> memory;
  for (const Buffer& window : windows) memory.push_back(window.bytes());
  OUT_TRY(usable());
  if (std::ranges::any_of(windows, &Buffer::on_device)) return device_many(what, items, windows, results, options);
  OUT_TRY(client::check_items(items, memory, results.size(), what == Many::get, has_places, !reads));

  if (!reads) {
    for (const BatchItem& item : items) flush_appends(std::string(item.bucket), std::string(item.key));
  }
  Transfer transfer;
  client::ManyCall call;
  call.type = type_of(reads, !has_places);
  call.items = items;
  call.windows = memory;
  call.results = results;
  call.in_order = options.in_order;
  if (what == Many::get) call.lease = options.lease;
  call.tell_checksums = what == Many::get && options.verify_device;
  if (reads && options.take != nullptr) {
    if (options.take->time.count() <= 0) return fault(ErrorCode::invalid_argument, "batch: a lease of no time");
    if (!session_) return fault(ErrorCode::unsupported, "batch: only a native door has leases");
    call.take = options.take;
  }
  bool native_too = true;
  if (session_) {
    // A refused message changed nothing; items that were answered are not requested again.
    const auto once = [&] { return session_->many(call); };
    auto done = reads ? client::with_retries(retry_, true, transfer.attempts, once)
                      : client::with_retries_of_change(retry_, false, transfer.attempts, once);
    transfer.door = Via::native;
    transfer.provider = session_->provider();
    const bool only_native = options_.via == Via::native || call.take != nullptr;
    const bool old_server = !done && done.error().code == ErrorCode::unsupported && call.take == nullptr;
    if (!done && !old_server && (only_native || !may_go_on_by_singles(done.error(), !reads))) {
      for (size_t i = 0; i < items.size(); ++i) {
        if (call.answered.empty() || call.answered[i] == 0) results[i].error = done.error().code;
      }
      return std::unexpected(std::move(done).error());
    }
    if (!done) {
      transfer.fell_back_reason = "native: " + done.error().message;
      native_too = old_server;
      if (done.error().code == ErrorCode::connection_failed) session_->suspend(done.error());
    }
  }
  call.answered.resize(items.size(), 0);
  if (std::ranges::find(call.answered, 0) != call.answered.end()) {
    for (size_t i = 0; i < call.told; ++i) {
      if (call.answered[i] == 0) (void)call.may_ask_again(i);
    }
    many_singles(what, items, memory, results, call.answered, call.told, options, native_too, transfer);
  }
  for (size_t i = 0; i < items.size(); ++i) transfer.bytes += results[i].error ? 0 : results[i].bytes;
  return transfer;
}

// Uses threads of its own, since the client's workers may be inside such a call themselves.
void Client::Impl::many_singles(Many what, std::span<const BatchItem> items, std::span<const MutableBytes> windows,
                                std::span<BatchResult> results, std::vector<uint8_t>& answered, size_t told,
                                const BatchOptions& options, bool native_too, Transfer& transfer) {
  std::atomic<size_t> next{0};
  // Once an item has failed after all its attempts for want of a server: the others would wait as long, one after
  // another.
  std::atomic<ErrorCode> gone{};
  std::mutex mutex;
  size_t leading = told;
  std::exception_ptr thrown;  // by `in_order`, or for want of memory
  const auto work_on = [&] {
    std::vector<std::byte> aside;  // for items already reported: their places belong to the caller again
    for (size_t i = next++; i < items.size(); i = next++) {
      if (answered[i] == 0) {
        MutableBytes place =
            windows.empty() ? MutableBytes() : windows[items[i].window].subspan(items[i].offset, items[i].size);
        if (i < told) {
          aside.resize(place.size());
          place = aside;
        }
        results[i].error.reset();
        results[i].bytes = results[i].size = 0;
        results[i].device_verified = DeviceVerified::none;
        Transfer one;
        Outcome<> done = client::without_server(gone);
        if (done) done = single(what, items[i], place, results[i], native_too, one);
        if (!done && client::is_without_server(done.error().code)) gone = done.error().code;
        std::lock_guard lock(mutex);
        if (!done) results[i].error = done.error().code;
        if (done) transfer.door = one.door, transfer.provider = one.provider;
        if (!options.verify_device) results[i].checksum.clear();
        answered[i] = 1;
      }
      std::lock_guard lock(mutex);
      const size_t before = leading;
      while (leading < items.size() && answered[leading] != 0) ++leading;
      if (!options.in_order || leading == before || thrown != nullptr) continue;
      try {
        options.in_order(leading);
      } catch (...) {  // noted under the lock: it is not called again
        thrown = std::current_exception();
        next = items.size();
      }
    }
  };
  // On a helper's thread an exception would end the process: it is the caller's.
  const auto work = [&] {
    try {
      work_on();
    } catch (...) {
      next = items.size();
      std::lock_guard lock(mutex);
      if (thrown == nullptr) thrown = std::current_exception();
    }
  };
  const size_t workers = std::min<size_t>(items.size(), options_.async_threads);
  {
    const auto helpers = client::start_helpers(workers == 0 ? 0 : workers - 1, work);
    work();
  }
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

Outcome<> Client::Impl::single(Many what, const BatchItem& item, MutableBytes memory, BatchResult& result,
                               bool native_too, Transfer& transfer) {
  const std::string bucket(item.bucket), key(item.key);
  const bool versioned = !item.version_id.empty();
  const bool conditional = !item.if_match.empty() || !item.if_none_match.empty();
  const bool plain = !versioned && !conditional;
  if (what == Many::put) {
    PutOptions options;
    options.content_type = item.content_type;
    options.ttl = item.ttl;
    options.if_match = item.if_match;
    options.if_none_match = item.if_none_match;
    OUT_ASSIGN(auto put, this->put(bucket, key, {memory, nullptr}, options, native_too));
    result.bytes = result.size = memory.size();
    result.etag = std::move(put.etag);
    result.version_id = std::move(put.version_id);
    transfer = std::move(put.transfer);
    return {};
  }
  const auto too_old = [] { return fault(ErrorCode::unsupported, "batch: the server is too old for this item"); };
  if (what == Many::get) {
    if (versioned && options_.via == Via::native) return too_old();
    GetOptions options;
    options.range = item.range;
    options.if_match = item.if_match;
    options.if_none_match = item.if_none_match;
    options.version_id = item.version_id;
    OUT_ASSIGN(auto got, this->get(bucket, key, {memory, nullptr}, options, native_too));
    result.bytes = got.bytes;
    fill(result, std::move(got.info));
    transfer = std::move(got.transfer);
    return {};
  }
  if (what == Many::head && plain) {
    OUT_ASSIGN(auto info, head(bucket, key));
    fill(result, std::move(info));
    return {};
  }
  if (what == Many::remove && plain) return remove(bucket, key);
  // Properties of a single object that only HTTP can send.
  if (options_.via == Via::native) return too_old();
  client::S3Call call{.method = what == Many::head ? "HEAD" : "DELETE",
                      .bucket = bucket,
                      .key = key,
                      .headers = conditions_of(item),
                      .replayable = what != Many::remove};
  if (versioned) call.query.emplace_back("versionId", item.version_id);
  unsigned attempts = 0;
  const auto once = [&] { return s3_->call(call); };
  OUT_ASSIGN(const auto reply, what == Many::remove ? client::with_retries_of_change(retry_, false, attempts, once)
                                                    : client::with_retries(retry_, true, attempts, once));
  fill(result, client::object_info(reply, key));
  transfer.provider = s3_->provider();
  return {};
}

std::future<Outcome<Transfer>> Client::Impl::many_async(Many what, std::vector<BatchItem> items,
                                                        std::vector<Buffer> windows, std::span<BatchResult> results,
                                                        BatchOptions options) {
  auto promise = std::make_shared<std::promise<Outcome<Transfer>>>();
  auto future = promise->get_future();
  if (auto may = usable(); !may) {
    promise->set_value(std::unexpected(std::move(may).error()));
    return future;
  }
  workers_->post([=, this, items = std::move(items), windows = std::move(windows), options = std::move(options)] {
    promise->set_value(many(what, items, windows, results, options));
  });
  return future;
}

}  // namespace verbena
