// State that the verbs share: an engine's seams, and the current buckets. Readers, writers and requests hold it by
// shared_ptr.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>

#include "base/clock.h"
#include "store/blobs.h"
#include "store/logic/bucket.h"
#include "store/logic/early.h"

namespace verbena::store {

class AppendQueues;
std::shared_ptr<AppendQueues> make_append_queues();

struct Context {
  virtual ~Context() = default;

  // would_block: another process is changing the bucket, and its state must be read again first (VB_CO_BUCKET).
  Result<std::shared_ptr<const Bucket>> find_bucket(std::string_view name) const {
    if (fresh) VB_TRY(may_answer(name));
    return known_bucket(name);
  }
  // The bucket as last read, for uses that tolerate an older state.
  Result<std::shared_ptr<const Bucket>> known_bucket(std::string_view name) const {
    auto bucket = buckets.find(name);
    if (!bucket) return fail(Errc::no_such_bucket);
    return bucket;
  }
  Task<Result<std::shared_ptr<const Bucket>>> settled_bucket(std::string name);
  Result<void> may_answer(std::string_view name) const;
  // Loads all buckets and their documents into memory: before the first verb.
  Result<void> load_buckets(View& view);

  // Set by the engine before the first verb; outlives the context.
  Catalogue* rows = nullptr;
  Blobs* blobs = nullptr;
  Early* early = nullptr;  // null: nothing is acknowledged before the catalogue has it
  const WallClock* clock = &system_clock();
  // For an engine whose buckets other processes may change: whether the known state is current. Empty: always.
  std::function<bool()> fresh;
  // Likewise for one bucket: true if no process is changing it or its documents just now. If not, the bucket is read
  // again.
  std::function<bool(std::string_view name)> is_sure;
  std::function<Task<Result<void>>(std::string name)> settle;
  bool keeps_usage = false;    // the engine adds up Transaction::count()
  bool tells_changes = false;  // every change of a key passes through this process (Bucket::feed)
  uint64_t whole_put_max = 0;  // Store::whole_put_max(): both seams can work without waiting
  bool keeps_events = false;   // event rows may be part of any change, whatever its place
  Buckets buckets;
  const std::shared_ptr<AppendQueues> appends = make_append_queues();
};

// The bucket of that name, in a coroutine: without waiting unless another process is changing it.
#define VB_CO_BUCKET(var, context, name) VB_CO_BUCKET_(VB_CONCAT(vb_bucket_, __COUNTER__), var, context, name)
#define VB_CO_BUCKET_(tmp, var, context, name)                          \
  auto tmp = (context)->find_bucket(name);                              \
  if (!tmp && tmp.error() == ::verbena::Errc::would_block) {            \
    tmp = co_await (context)->settled_bucket(std::string(name));        \
  }                                                                     \
  if (!tmp) co_return ::std::unexpected<::verbena::Error>(tmp.error()); \
  var = ::std::move(*tmp)

// Catalogue::read() with an answer: `look` returns a Result<T>.
template <class F>
Task<std::invoke_result_t<F&, View&>> look_up(Catalogue& catalogue, const char* reason, Place place, F look) {
  using T = typename std::invoke_result_t<F&, View&>::value_type;
  auto answer = std::make_shared<std::optional<T>>();
  Look into = [answer, look = std::move(look)](View& rows) mutable -> Result<void> {
    auto found = look(rows);
    if (!found) return std::unexpected(found.error());
    answer->emplace(std::move(*found));
    return {};
  };
  auto done = co_await catalogue.read(reason, place, std::move(into));
  if (!done) co_return std::unexpected(done.error());
  co_return std::move(**answer);
}

// S3's limits on keys: 1 to 1024 bytes.
Result<void> check_key(std::string_view key);

}  // namespace verbena::store
