#include "store/rados/rows/usage_book.h"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "store/logic/usage.h"

namespace verbena::store::rados {
namespace {

using Pool = Cluster::Pool;

constexpr size_t rows_taken_over_max = 500;  // in one call

}  // namespace

std::optional<uint64_t> usage_counted_in(std::string_view row, const BucketState& state) {
  const auto joined = parse_joined_usage_row(row);
  if (!joined) return parse_usage_row(row).value_or(0);
  const bool is_tablet = std::ranges::find(state.tablets, joined->tablet, &Tablet::number) != state.tablets.end();
  return is_tablet ? std::nullopt : std::optional(joined->incarnation);
}

void UsageBook::count(uint64_t bucket, const Usage& change) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[bucket];
  entry.own += change;
  if (entry.bucket) entry.bucket->count(change);
}

void UsageBook::know(const std::shared_ptr<const Bucket>& bucket) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[bucket->id];
  if (entry.bucket) return;
  entry.bucket = bucket;
  bucket->count(entry.own + entry.others);
}

void UsageBook::forget(uint64_t bucket) {
  const std::lock_guard lock(mutex_);
  entries_.erase(bucket);
}

void UsageBook::ask(const std::string& owner) {
  const std::lock_guard lock(mutex_);
  owners_[owner] = deadline_in(asked_for_max);
}

void UsageBook::set_others(uint64_t bucket, const Usage& others) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(bucket);
  if (found == entries_.end() || !found->second.bucket) return;
  Entry& entry = found->second;
  entry.bucket->count(others - entry.others);
  entry.others = others;
  entry.bucket->set_uncounted(false);
}

Task<Result<UsageBook::Sums>> UsageBook::sum(BucketPtr state) {
  Sums sums;
  for (const Tablet& tablet : state->tablets) {
    const std::string object = tablet.object;
    auto rows = co_await registry_.all(object, "$");
    if (!rows && rows.error() == Errc::not_found) co_return fail(Errc::no_such_bucket);
    if (!rows) co_return std::unexpected(rows.error());
    for (const auto& [row, value] : *rows) {
      const auto of = usage_counted_in(row, *state);
      if (!of) continue;
      VB_CO_ASSIGN(const Usage counted, decode_usage(value));
      (*of == incarnation_ ? sums.own : sums.others) += counted;
    }
  }
  co_return sums;
}

// Lists the tablets first: changes of a tablet created meanwhile are later than the request.
Task<Result<Usage>> UsageBook::read(uint64_t bucket) {
  VB_CO_ASSIGN(BucketPtr state, co_await registry_.load(bucket));
  VB_CO_ASSIGN(const Sums sums, co_await sum(state));
  co_return sums.own + sums.others;
}

Task<Result<void>> UsageBook::look(uint64_t bucket) {
  VB_CO_ASSIGN(BucketPtr state, co_await registry_.load(bucket));
  VB_CO_ASSIGN(const Sums sums, co_await sum(state));
  set_others(bucket, sums.others);
  co_return Result<void>{};
}

std::set<uint64_t> UsageBook::due() {
  const std::lock_guard lock(mutex_);
  std::erase_if(owners_, [](const auto& asked) { return asked.second < SteadyClock::now(); });
  std::set<uint64_t> buckets;
  for (const auto& [id, entry] : entries_) {
    if (entry.bucket && owners_.contains(entry.bucket->owner)) buckets.insert(id);
  }
  auto next = entries_.upper_bound(looked_at_);
  for (size_t i = 0; i < std::min(others_at_once, entries_.size()); ++i, ++next) {
    if (next == entries_.end()) next = entries_.begin();
    looked_at_ = next->first;
    if (next->second.bucket) buckets.insert(looked_at_);
  }
  return buckets;
}

Task<> UsageBook::run() {
  while (!stopping_) {
    ReadingPace pace;
    for (const uint64_t bucket : registry_.cluster().may_write() ? due() : std::set<uint64_t>()) {
      if (stopping_) co_return;
      const auto began = SteadyClock::now();
      auto looked = co_await look(bucket);
      pace.add(SteadyClock::now() - began);
      if (!looked && !(looked.error() == Errc::no_such_bucket)) {
        log::debug("rados: what bucket {} holds is not known for now: {}", bucket, describe(looked.error()));
      }
    }
    timer_.expires_after(pace.rest());
    boost::system::error_code woken;
    if (!stopping_) co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
  }
}

void UsageBook::stop() {
  stopping_ = true;
  boost::asio::post(timer_.get_executor(), [this] { timer_.cancel(); });
}

// One call, guarded by all rows that it merges: a process that still counts there notices that its row has changed.
Task<Result<void>> UsageBook::take_over(std::string tablet, std::set<uint64_t> living) {
  auto rows = co_await registry_.all(tablet, "$");
  if (!rows && rows.error() == Errc::not_found) co_return Result<void>{};
  if (!rows) co_return std::unexpected(rows.error());
  Usage sum;
  std::map<std::string, std::pair<Buffer, int>> expected;
  std::set<std::string> gone;
  const std::string base = usage_row(0);
  for (const auto& [row, value] : *rows) {
    const auto server = parse_usage_row(row);
    if (!server || living.contains(*server) || gone.size() == rows_taken_over_max) continue;
    VB_CO_ASSIGN(const Usage counted, decode_usage(value));
    sum += counted;
    expected.emplace(row, std::pair(to_buffer(value), LIBRADOS_CMPXATTR_OP_EQ));
    if (*server != 0) gone.insert(row);
  }
  if (gone.empty()) co_return Result<void>{};
  expected.try_emplace(base, Buffer(), LIBRADOS_CMPXATTR_OP_EQ);
  librados::ObjectWriteOperation op;
  op.assert_exists();
  op.omap_cmp(expected, nullptr);
  op.omap_rm_keys(gone);
  const std::map<std::string, Buffer> set = {{base, to_buffer(encode(sum))}};
  op.omap_set(set);
  const int code = co_await registry_.cluster().write(Pool::index, std::move(tablet), std::move(op));
  if (code < 0 && code != -ECANCELED && code != -ENOENT) co_return std::unexpected(to_error(code, "rados: usage"));
  co_return Result<void>{};
}

}  // namespace verbena::store::rados
