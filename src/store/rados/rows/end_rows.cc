#include "store/rados/rows/end_rows.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "store/logic/keys.h"

namespace verbena::store::rados {
namespace {

using Pool = Cluster::Pool;

// Mostly nothing is due, so a look begins with few rows.
constexpr uint64_t rows_first = 16, rows_max = 1000;
// A call to a placement group that is away returns after the time-out of calls: so its tablets are asked for seldom.
constexpr std::chrono::seconds aside_min{30}, aside_max{600};

metrics::Counter& failed_reads() {
  static auto& failed = metrics::counter("verbena_rados_end_reads_failed_total",
                                         "Buckets and tablets whose objects with an end could not be read");
  return failed;
}

}  // namespace

EndRows::EndRows(Registry& registry) : registry_(registry) { failed_reads(); }

bool EndRows::is_aside(const std::string& object) const {
  const std::lock_guard lock(mutex_);
  const auto found = aside_.find(object);
  return found != aside_.end() && SteadyClock::now() < found->second.again;
}

void EndRows::put_aside(const std::string& object, const Error& error) {
  failed_reads().add();
  std::chrono::seconds pause = aside_min;
  {
    const std::lock_guard lock(mutex_);
    const auto now = SteadyClock::now();
    std::erase_if(aside_, [&](const auto& one) { return one.second.again + aside_max < now; });  // of removed tablets
    const auto [at, is_new] = aside_.try_emplace(object, Aside{.again = {}, .pause = aside_min});
    if (!is_new) at->second.pause = std::min(2 * at->second.pause, aside_max);
    pause = at->second.pause;
    at->second.again = now + pause;
  }
  log::warn(
      "rados: the objects with an end in {} cannot be read, so those that have ended are not removed; tried again in "
      "{} s: {}",
      object, pause.count(), describe(error));
}

void EndRows::take_back(const std::string& object) {
  const std::lock_guard lock(mutex_);
  aside_.erase(object);
}

Task<Result<void>> EndRows::mark(uint64_t bucket) {
  {
    const std::lock_guard lock(mutex_);
    if (marked_.contains(bucket)) co_return Result<void>{};
  }
  librados::ObjectWriteOperation op;
  op.create(false);
  const std::map<std::string, Buffer> row = {{keys::number(bucket), to_buffer("1")}};
  op.omap_set(row);
  const int code = co_await registry_.cluster().write(Pool::index, std::string(ends_object), std::move(op));
  if (code < 0) co_return std::unexpected(to_error(code, "rados: ends of objects"));
  const std::lock_guard lock(mutex_);
  marked_.insert(bucket);
  co_return Result<void>{};
}

Task<Result<std::set<uint64_t>>> EndRows::marked() {
  std::set<uint64_t> buckets;
  const auto rows = co_await registry_.all(std::string(ends_object), "");
  if (!rows && rows.error() == Errc::not_found) co_return buckets;
  if (!rows) co_return std::unexpected(rows.error());
  for (const auto& [row, value] : *rows) {
    const auto bucket = keys::parse_number(row);
    if (!bucket) co_return fail(Errc::corrupt_object, "rados: bucket with ends of objects");
    buckets.insert(*bucket);
  }
  co_return buckets;
}

Task<Result<std::vector<EndedKey>>> EndRows::due(int64_t now_us, size_t max, std::optional<EndedKey> after) {
  std::vector<EndedKey> found;
  std::set<uint64_t> missing;
  VB_CO_ASSIGN(const auto buckets, co_await marked());
  for (const uint64_t id : buckets) {
    if (found.size() >= max) break;
    if (after && id < after->bucket_id) continue;
    const std::string object = bucket_object(id);
    if (is_aside(object)) continue;
    auto bucket = co_await registry_.load(id);
    if (!bucket && bucket.error() != Errc::no_such_bucket) {
      put_aside(object, bucket.error());
      continue;
    }
    take_back(object);
    if (!bucket) {
      missing.insert(id);
      continue;
    }
    auto from = after && id == after->bucket_id ? after : std::nullopt;
    co_await due_in(std::move(*bucket), now_us, max, std::move(from), found);
  }
  if (!missing.empty()) {
    const auto done = co_await unmark_removed(std::move(missing));
    if (!done) log::warn("rados: names of removed buckets with ends stay: {}", describe(done.error()));
  }
  co_return found;
}

Task<> EndRows::due_in(BucketPtr bucket, int64_t now_us, size_t max, std::optional<EndedKey> after,
                       std::vector<EndedKey>& found) {
  size_t tablet = after ? bucket->tablet_of("o" + after->key) : 0;
  std::string row = after ? stored_end_row(after->end_us, after->key) : std::string();
  for (; tablet < bucket->tablets.size() && found.size() < max; ++tablet) {
    const std::string& object = bucket->tablets[tablet].object;
    std::string from = std::exchange(row, {});
    if (is_aside(object)) continue;
    const auto done = co_await due_in_tablet(bucket, tablet, now_us, max, std::move(from), found);
    if (done) {
      take_back(object);
    } else {
      put_aside(object, done.error());
    }
  }
}

// Not guarded by the bucket's epoch: what is found is judged again by the change that removes it, and what is missed
// because the tablet is split or joined meanwhile is found by the next look.
Task<Result<void>> EndRows::due_in_tablet(BucketPtr bucket, size_t tablet, int64_t now_us, size_t max,
                                          std::string after, std::vector<EndedKey>& found) {
  Result<void> whole;  // an error: a row that cannot be read, and that keeps no other one
  for (uint64_t rows = rows_first; found.size() < max; rows = rows_max) {
    auto page = std::make_shared<OmapReply>();
    librados::ObjectReadOperation op;
    op.omap_get_vals2(after, std::string(ends_prefix), rows, &page->rows, &page->more, &page->rows_code);
    const int code =
        co_await registry_.cluster().read(Pool::index, bucket->tablets[tablet].object, std::move(op), page);
    if (code == -ENOENT) co_return Result<void>{};
    if (code < 0) co_return std::unexpected(to_error(code, "rados: ends of objects"));
    for (const auto& [row, value] : page->rows) {
      after = row;
      auto end = parse_stored_end_row(row);
      if (!end) {
        whole = fail(Errc::corrupt_object, "rados: end of an object");
        continue;
      }
      if (found.size() >= max) co_return Result<void>{};  // the next look goes on: the tablet is not put aside
      if (end->us > now_us) co_return whole;
      // Rows left by a split or an undone join are of another tablet's keys.
      if (bucket->tablet_of("o" + end->key) != tablet) continue;
      found.push_back({.bucket = {}, .key = std::move(end->key), .bucket_id = bucket->id, .end_us = end->us});
    }
    if (!page->more || page->rows.empty()) co_return whole;
  }
  co_return Result<void>{};
}

// A bucket that is still named has lost its object: it keeps its row.
Task<Result<void>> EndRows::unmark_removed(std::set<uint64_t> missing) {
  VB_CO_ASSIGN(const auto named, co_await registry_.all(std::string(root_object), "b"));
  for (const auto& [row, value] : named) missing.erase(keys::parse_number(value).value_or(0));
  if (missing.empty()) co_return Result<void>{};
  std::set<std::string> gone;
  for (const uint64_t id : missing) gone.insert(keys::number(id));
  librados::ObjectWriteOperation op;
  op.omap_rm_keys(gone);
  const int code = co_await registry_.cluster().write(Pool::index, std::string(ends_object), std::move(op));
  if (code < 0 && code != -ENOENT) co_return std::unexpected(to_error(code, "rados: ends of objects"));
  co_return Result<void>{};
}

}  // namespace verbena::store::rados
