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

// What one call makes of rows of joined tablets.
struct Folding {
  std::map<std::string, std::string> seen;  // rows that it compares
  std::map<std::string, Usage> sums;        // and writes
  std::set<std::string> gone;

  void add(const std::string& row, const std::string& value, const Usage& usage, const std::string& to) {
    seen.emplace(row, value);
    sums[to] += usage;
    if (row != to) gone.insert(row);
  }
};

// Of a tablet that is joined with this one. The rows that count in it no longer change: only the join writes them.
Result<Folding> fold(const std::map<std::string, std::string>& rows, const BucketState& state,
                     const std::set<uint64_t>& living) {
  Folding folding;
  std::map<uint64_t, std::string> of_living;  // each one's first row
  for (const auto& [row, value] : rows) {
    const auto joined = parse_joined_usage_row(row);
    if (!joined || !usage_counted_in(row, state)) continue;
    if (folding.gone.size() == rows_taken_over_max) break;
    VB_ASSIGN(const Usage usage, decode_usage(value));
    // Numbers grow: a server that came after `living` was read has a greater one than all of those.
    const bool is_gone = joined->incarnation < *living.rbegin() && !living.contains(joined->incarnation);
    const std::string to = is_gone ? usage_row(0) : of_living.try_emplace(joined->incarnation, row).first->second;
    folding.add(row, value, usage, to);
  }
  const std::string base = usage_row(0);
  if (!folding.sums.contains(base)) return folding;
  const auto common = rows.find(base);
  if (common == rows.end()) {
    folding.seen.emplace(base, "");
    return folding;
  }
  VB_ASSIGN(const Usage usage, decode_usage(common->second));
  folding.add(base, common->second, usage, base);
  return folding;
}

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

// What this process counts beyond what it has counted in the tablets that there are and its rows of joined ones say.
Usage UsageBook::excess(uint64_t bucket, const BucketState& state, const Usage& own_joined) {
  Usage known = own_joined;
  for (const Tablet& tablet : state.tablets) known += counted_in_(tablet.object);
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(bucket);
  return found == entries_.end() ? Usage() : found->second.own - known;
}

void UsageBook::set_others(uint64_t bucket, const Usage& others, const Usage& excess) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(bucket);
  if (found == entries_.end() || !found->second.bucket) return;
  Entry& entry = found->second;
  entry.bucket->count(others - entry.others - excess);
  entry.others = others;
  entry.own = entry.own - excess;
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
      if (*of == incarnation_ && parse_joined_usage_row(row)) sums.own_joined += counted;
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
  Usage beyond = excess(bucket, *state, sums.own_joined);
  if (beyond != Usage()) {  // seldom: unless the tablets became others meanwhile, rows of this process are gone
    VB_CO_ASSIGN(const BucketPtr now, co_await registry_.load(bucket));
    if (now->epoch != state->epoch) beyond = Usage();
  }
  set_others(bucket, sums.others, beyond);
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

// One call, guarded by all rows that it reads, and by the epoch: whether a tablet has been joined is as `bucket` says.
Task<Result<void>> UsageBook::fold_joined(BucketPtr bucket, size_t tablet, std::set<uint64_t> living) {
  if (living.empty() || !bucket->may_change(bucket->tablets[tablet])) co_return Result<void>{};
  std::string object = bucket->tablets[tablet].object;
  auto rows = co_await registry_.all(object, "$");
  if (!rows && rows.error() == Errc::not_found) co_return Result<void>{};
  if (!rows) co_return std::unexpected(rows.error());
  VB_CO_ASSIGN(const Folding folding, fold(*rows, *bucket, living));
  if (folding.gone.empty()) co_return Result<void>{};
  std::map<std::string, std::pair<Buffer, int>> expected;
  for (const auto& [row, value] : folding.seen) {
    expected.emplace(row, std::pair(to_buffer(value), LIBRADOS_CMPXATTR_OP_EQ));
  }
  std::map<std::string, Buffer> set;
  for (const auto& [row, usage] : folding.sums) set.emplace(row, to_buffer(encode(usage)));
  librados::ObjectWriteOperation op;
  op.cmpxattr(epoch_attribute, LIBRADOS_CMPXATTR_OP_EQ, to_buffer(bucket->epoch_text));
  op.omap_cmp(expected, nullptr);
  op.omap_rm_keys(folding.gone);
  op.omap_set(set);
  const int code = co_await registry_.cluster().write(Pool::index, std::move(object), std::move(op));
  const bool conflict = code == -ECANCELED || code == -ENOENT || code == -ENODATA;  // left to the next round
  if (code < 0 && !conflict) co_return std::unexpected(to_error(code, "rados: usage of joined tablets"));
  co_return Result<void>{};
}

}  // namespace verbena::store::rados
