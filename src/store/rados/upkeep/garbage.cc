#include "store/rados/upkeep/garbage.h"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "store/logic/keys.h"
#include "store/logic/record.h"
#include "store/rados/rows/formats.h"

namespace verbena::store::rados {
namespace {

using Pool = Cluster::Pool;

constexpr int sign_attempts_max = 5;
constexpr std::chrono::minutes joined_rest{5};                        // longer than any call
constexpr SteadyClock::duration look_counts_max = 3 * Garbage::beat;  // of the time between two looks at signs
constexpr std::chrono::milliseconds look_for_sign_every{2};           // doubled each time
constexpr std::chrono::milliseconds look_for_sign_at_least_every{64};

// Blobs that only this row of a tablet names: parts, and blobs already released.
void add_blobs(std::string_view row, std::string_view value, std::vector<BlobRef>& blobs) {
  if (const auto dead = parse_dead_row(row)) {
    blobs.push_back({BlobKind::extents, *dead, keys::parse_number(value).value_or(0)});
    return;
  }
  if (!row.starts_with('x')) return;
  const auto part = decode_part(value);
  if (part && part->blob.kind == BlobKind::extents) blobs.push_back(part->blob);
}

}  // namespace

Garbage::Garbage(Registry& registry, boost::asio::io_context& io, uint64_t incarnation, Helpers helpers)
    : registry_(registry),
      incarnation_(incarnation),
      helpers_(std::move(helpers)),
      timer_(io),
      sign_timer_(io),
      round_timer_(io) {}

std::shared_ptr<const void> Garbage::hold() {
  const std::lock_guard lock(mutex_);
  if (!token_ || *token_ != era_) {
    token_ = std::make_shared<const uint64_t>(era_);
    tokens_.emplace_back(era_, token_);
  }
  return token_;
}

// The era of the oldest living reader.
uint64_t Garbage::oldest() {
  const std::lock_guard lock(mutex_);
  if (token_ && *token_ != era_) token_.reset();
  while (!tokens_.empty() && tokens_.front().second.expired()) tokens_.pop_front();
  return tokens_.empty() ? era_ : std::min(era_, tokens_.front().first);
}

// What waits already, found once more by a round, is not queued again.
void Garbage::push(Entry entry) {
  const std::lock_guard lock(mutex_);
  if (entry.whole_tablet) {
    if (!queued_tablets_.insert(entry.tablet).second) return;
  } else if (entry.bucket != 0) {
    if (!queued_buckets_.insert(entry.bucket).second) return;
  } else {
    std::erase_if(entry.blobs, [this](const BlobRef& blob) { return !queued_blobs_.insert(blob.id).second; });
    if (entry.blobs.empty()) return;
  }
  backlog_ += entry.blobs.size();
  queue_.push_back(std::move(entry));
  ++added_;
}

void Garbage::note_removed(const Entry& entry) {
  const std::lock_guard lock(mutex_);
  backlog_ -= entry.blobs.size();
  if (entry.whole_tablet) {
    queued_tablets_.erase(entry.tablet);
  } else if (entry.bucket != 0) {
    queued_buckets_.erase(entry.bucket);
  } else {
    for (const BlobRef& blob : entry.blobs) queued_blobs_.erase(blob.id);
  }
}

bool Garbage::is_queued(const std::string& tablet) {
  const std::lock_guard lock(mutex_);
  return queued_tablets_.contains(tablet);
}

bool Garbage::is_queued(uint64_t swept_bucket) {
  const std::lock_guard lock(mutex_);
  return queued_buckets_.contains(swept_bucket);
}

void Garbage::add(const std::string& tablet, const std::vector<BlobRef>& blobs) {
  if (blobs.empty()) return;
  push({tablet, blobs});
  boost::asio::post(timer_.get_executor(), [this] { timer_.cancel(); });
}

void Garbage::discard(uint64_t blob, uint64_t size) {
  {
    const std::lock_guard lock(mutex_);
    discarded_.push_back({BlobKind::extents, blob, size});
    ++added_;
  }
  boost::asio::post(timer_.get_executor(), [this] { timer_.cancel(); });
}

void Garbage::sweep(uint64_t bucket) {
  {
    const std::lock_guard lock(mutex_);
    sweeps_.push_back(bucket);
    ++added_;
  }
  boost::asio::post(timer_.get_executor(), [this] { timer_.cancel(); });
}

void Garbage::stop() {
  stopping_ = true;
  boost::asio::post(timer_.get_executor(), [this] {
    timer_.cancel();
    sign_timer_.cancel();
    round_timer_.cancel();
  });
}

Task<Result<void>> Garbage::sign_in() { co_return co_await exchange_signs(); }

Task<bool> Garbage::may_name(uint64_t life, Deadline read_at) {
  const auto until = deadline_in(sign_wait);
  auto rest = look_for_sign_every;
  for (bool asked = false; signed_at_.load() < read_at.time_since_epoch().count(); asked = true) {
    if (life != life_.load() || stopping_ || SteadyClock::now() > until) co_return false;
    if (!asked && !sign_wanted_.exchange(true)) {
      boost::asio::post(sign_timer_.get_executor(), [this] { sign_timer_.cancel(); });
    }
    co_await pause(rest);
    rest = std::min(2 * rest, look_for_sign_at_least_every);
  }
  // After that look: a server that sees the first sign of an incarnation sees the incarnation.
  co_return life == life_.load();
}

Task<> Garbage::run_signs() {
  while (!stopping_) {
    sign_wanted_ = false;
    auto exchange = registry_.cluster().may_write() ? exchange_signs() : wait_outside();
    if (auto done = co_await std::move(exchange); !done) log::warn("rados: sign of life: {}", describe(done.error()));
    if (stopping_) break;
    if (sign_wanted_) continue;
    sign_timer_.expires_after(batches_.empty() ? std::chrono::milliseconds(beat) : std::chrono::milliseconds(100));
    boost::system::error_code woken;
    co_await sign_timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
  }
  life_ = 0;  // nothing may be named from here on
  co_await sign_out();
}

Task<> Garbage::sign_out() {
  librados::ObjectWriteOperation op;
  op.omap_rm_keys({server_row(incarnation_), formats_row(incarnation_)});
  (void)co_await registry_.cluster().withdraw(std::string(servers_object), std::move(op));
}

// Until the others write a format again that this server knows.
Task<Result<void>> Garbage::wait_outside() {
  if (std::exchange(is_living_, false)) {
    signed_at_ = 0;  // no sign of before lets a change name a blob
    co_await sign_out();
    sign_.clear();
  }
  const auto since = LeaseClock::now();
  VB_CO_ASSIGN(auto rows, co_await registry_.all(std::string(servers_object), ""));
  co_return co_await helpers_.look_at_formats(rows, since);
}

Task<> Garbage::run() {
  while (!stopping_) {
    const bool may_write = registry_.cluster().may_write();
    const auto done = may_write ? co_await pass() : Result<void>{};
    const bool failed = !done || !may_write;
    if (!done) log::warn("rados: removing unnamed bytes: {}", describe(done.error()));
    if (stopping_) break;
    bool more = false;
    {
      const std::lock_guard lock(mutex_);
      more = !queue_.empty() || !sweeps_.empty() || !discarded_.empty();
    }
    if (more && !failed) continue;
    const auto rest = batches_.empty() ? std::chrono::milliseconds(beat) : std::chrono::milliseconds(100);
    timer_.expires_after(rest);
    boost::system::error_code woken;
    co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
  }
}

// Returns the current era and begins the next one.
Task<Result<uint64_t>> Garbage::begin_era() {
  for (;;) {
    VB_CO_ASSIGN(auto rows, co_await registry_.all(std::string(servers_object), "era"));
    const auto row = rows.find("era");
    const std::string seen = row == rows.end() ? "" : row->second;
    const uint64_t era = keys::parse_number(seen).value_or(0);
    librados::ObjectWriteOperation op;
    const std::map<std::string, std::pair<Buffer, int>> expected = {
        {"era", {to_buffer(seen), LIBRADOS_CMPXATTR_OP_EQ}}};
    op.omap_cmp(expected, nullptr);
    const std::map<std::string, Buffer> next = {{"era", to_buffer(keys::number(era + 1))}};
    op.omap_set(next);
    const int code = co_await registry_.cluster().write(Pool::index, std::string(servers_object), std::move(op));
    if (code == -ECANCELED) continue;
    if (code < 0) co_return std::unexpected(to_error(code, "rados: era"));
    const std::lock_guard lock(mutex_);
    era_ = std::max(era_, era + 1);
    co_return era;
  }
}

// Replaces this server's last sign by a new one, with the oldest era that it reads.
Task<Result<void>> Garbage::sign() {
  const std::string name = server_row(incarnation_);
  for (int attempt = 0; attempt < sign_attempts_max; ++attempt) {
    const auto began = SteadyClock::now();
    const auto begun = LeaseClock::now();
    const std::string next = keys::number(oldest()) + keys::number(++beats_);
    librados::ObjectWriteOperation op;
    op.create(false);
    const std::map<std::string, std::pair<Buffer, int>> expected = {
        {name, {to_buffer(sign_), LIBRADOS_CMPXATTR_OP_EQ}}};
    op.omap_cmp(expected, nullptr);
    const std::map<std::string, Buffer> set = {{name, to_buffer(next)}};
    op.omap_set(set);
    const int code = co_await registry_.cluster().write(Pool::index, std::string(servers_object), std::move(op));
    if (code >= 0) {
      sign_ = next;
      sign_begun_ = begun;
      if (!std::exchange(is_living_, true)) ++life_;
      signed_at_ = began.time_since_epoch().count();
      co_return Result<void>{};
    }
    if (code != -ECANCELED) co_return std::unexpected(to_error(code, "rados: sign of life"));
    // Another sign of this process: from an unanswered call. None: others have declared it dead.
    VB_CO_ASSIGN(std::string now, co_await registry_.row(std::string(servers_object), name));
    if (now.empty() && std::exchange(is_living_, false)) {
      log::warn("rados: the other servers took this one for dead: its unfinished changes are abandoned");
    }
    sign_ = std::move(now);
  }
  co_return fail(Errc::slow_down, "rados: sign of life");
}

// The eras that others read, and the silent servers among them. A server is silent in the time in which it was looked
// for: what passes while the signs cannot be read, because their OSD is down, is not its silence.
Task<Result<void>> Garbage::look_at_signs() {
  VB_CO_ASSIGN(auto rows, co_await registry_.all(std::string(servers_object), ""));
  Result<void> looked;
  if (helpers_.look_at_formats) looked = co_await helpers_.look_at_formats(rows, sign_begun_);
  if (!registry_.cluster().may_write()) co_return looked;
  const auto now = SteadyClock::now();
  const auto since = std::min<SteadyClock::duration>(now - std::exchange(looked_at_signs_, now), look_counts_max);
  uint64_t least = oldest();
  std::map<std::string, std::string> silent;
  for (const auto& [name, value] : rows) {
    if (name == "era") {
      const std::lock_guard lock(mutex_);
      era_ = std::max(era_, keys::parse_number(value).value_or(0));
      continue;
    }
    if (!name.starts_with('s') || value.size() != 16) continue;
    const uint64_t era = keys::read_number(std::string_view(value).substr(0, 8));
    // Including the own one, as others see it.
    if (name == server_row(incarnation_)) {
      least = std::min(least, era);
      continue;
    }
    const uint64_t beat_seen = keys::read_number(std::string_view(value).substr(8));
    const auto [known, is_new] = signs_.try_emplace(name, Sign{beat_seen});
    Sign& sign = known->second;
    if (sign.beat != beat_seen) {
      sign = {beat_seen};
    } else if (!is_new) {
      sign.silent += since;
    }
    if (sign.silent > silence_max) {
      silent.emplace(name, value);
    } else {
      least = std::min(least, era);
    }
  }
  // The one that finds it silent first removes its row, and need not be the leader.
  if (std::erase_if(signs_, [&rows](const auto& known) { return !rows.contains(known.first); }) != 0) note_gone();
  VB_CO_TRY(co_await forget_silent(silent, least));
  if (has_gone_ && helpers_.server_gone && helpers_.is_leader && helpers_.is_leader()) {
    has_gone_ = false;
    helpers_.server_gone();
  }
  least_ = least;
  co_return looked;
}

Task<Result<void>> Garbage::forget_silent(const std::map<std::string, std::string>& silent, uint64_t& least) {
  for (const auto& [name, value] : silent) {
    VB_CO_ASSIGN(const bool forgotten, co_await forget_server(registry_, name, value));
    signs_.erase(name);
    if (forgotten) {
      note_gone();
    } else {  // it has renewed its sign
      least = std::min(least, keys::read_number(std::string_view(value).substr(0, 8)));
    }
  }
  co_return Result<void>{};
}

// It may have left blobs, and changes that were not announced.
void Garbage::note_gone() {
  has_gone_ = true;
  next_round_ = {};
  round_timer_.cancel();
}

Task<Result<void>> Garbage::exchange_signs() {
  VB_CO_TRY(co_await sign());
  co_return co_await look_at_signs();
}

Task<> Garbage::run_rounds() {
  while (!stopping_) {
    const auto now = SteadyClock::now();
    const bool looks = registry_.cluster().may_write() && (rounds_ == 0 || helpers_.is_leader());
    const bool is_due = now >= next_round_;
    if (looks && (is_due || std::ranges::any_of(aside_, [now](const auto& one) { return one.second <= now; }))) {
      if (is_due) next_round_ = now + rounds_every;
      auto looked = co_await look_for_leftovers(/*all=*/is_due);
      if (!looked) {
        log::warn("rados: looking for bytes that other servers have left: {}", describe(looked.error()));
        next_round_ = {};
      } else if (is_due) {
        ++rounds_;
        timer_.cancel();
      }
    }
    if (stopping_) break;
    round_timer_.expires_after(beat);
    boost::system::error_code woken;
    co_await round_timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
  }
}

// Returns an error after everything that can be done is done.
Task<Result<void>> Garbage::pass() {
  std::vector<Entry> entries;
  std::vector<uint64_t> sweeps;
  uint64_t added = 0;
  Result<void> done = co_await try_discarded();
  {
    const std::lock_guard lock(mutex_);
    sweeps.swap(sweeps_);
    added = added_;  // what comes while these are looked at is of the next pass
  }
  for (const uint64_t bucket : sweeps) {
    if (auto collected = co_await collect_bucket(bucket); !collected) {
      log::warn("rados: a removed bucket keeps its space for now: {}", describe(collected.error()));
    }
  }
  {
    const std::lock_guard lock(mutex_);
    entries.swap(queue_);
  }
  if (!entries.empty()) {
    auto era = co_await begin_era();
    if (!era) {
      const std::lock_guard lock(mutex_);
      queue_.insert(queue_.begin(), entries.begin(), entries.end());
      co_return std::unexpected(era.error());
    }
    std::ranges::reverse(entries);  // taken from the end
    batches_.push_back({*era, std::move(entries)});
    sign_timer_.cancel();  // reports soon that this server does not read them
  }
  if (SteadyClock::now() >= next_probe_) {
    next_probe_ = deadline_in(beat);
    co_await probe_space();
  }
  if (auto removed = co_await remove_due(); !removed) done = removed;
  report_settled(added);
  co_return done;
}

// Removes what has no reader any more.
Task<Result<void>> Garbage::remove_due() {
  Result<void> done;
  size_t failures = 0;
  while (!batches_.empty() && batches_.front().era < least_ && failures < failures_max) {
    auto& entries = batches_.front().entries;
    while (!entries.empty() && failures < failures_max) {
      Entry entry = std::move(entries.back());
      entries.pop_back();
      if (waits_for_tablets(entry)) {
        failed_.push_back(std::move(entry));
        continue;
      }
      if (auto removed = co_await remove(entry); !removed) {
        done = removed;
        failed_.push_back(std::move(entry));
        ++failures;
        continue;
      }
      note_removed(entry);
    }
    if (entries.empty()) batches_.pop_front();
  }
  for (size_t left = failed_.size(); left != 0 && failures < failures_max; --left) {
    const bool removed = co_await try_failed();
    if (!removed) {
      ++failures;
      done = fail(Errc::service_unavailable, "rados: removing");
    }
  }
  co_return done;
}

// A swept bucket's object and its row in `root` alone say which tablets it had: they go after these.
bool Garbage::waits_for_tablets(const Entry& entry) const {
  if (entry.bucket == 0 || entry.whole_tablet) return false;
  return std::ranges::any_of(
      failed_, [&entry](const Entry& failed) { return failed.whole_tablet && failed.bucket == entry.bucket; });
}

// The first of those that failed; the last one if it fails again. False: it has failed.
Task<bool> Garbage::try_failed() {
  Entry entry = std::move(failed_.front());
  failed_.pop_front();
  if (waits_for_tablets(entry)) {
    failed_.push_back(std::move(entry));
    co_return true;
  }
  const auto removed = co_await remove(entry);
  if (removed) {
    note_removed(entry);
  } else {
    failed_.push_back(std::move(entry));
  }
  co_return removed.has_value();
}

// `added`: of `added_`, when this pass began to take what was added.
void Garbage::report_settled(uint64_t added) {
  bool rest = !failed_.empty();
  {
    const std::lock_guard lock(mutex_);
    rest = rest || !discarded_.empty() || !sweeps_.empty();
  }
  if (batches_.empty() && !rest) settled_ = added;
  if (!batches_.empty() && !rest && batches_.front().era >= oldest()) {
    blocked_era_ = batches_.front().era;
    blocked_ = added;
  }
  static auto& waiting = metrics::gauge("verbena_rados_garbage_blobs", "Blobs that are to be removed");
  waiting.set(static_cast<int64_t>(backlog_.load()));
}

Task<Result<void>> Garbage::remove_blob(const BlobRef& blob) {
  for (uint64_t stripe = 0; stripe < std::max<uint64_t>(stripes_of(blob.size), 1); ++stripe) {
    librados::ObjectWriteOperation op;
    op.remove();
    const int code = co_await registry_.cluster().write(Pool::data, stripe_object(blob.id, stripe), std::move(op));
    if (code < 0 && code != -ENOENT) co_return std::unexpected(to_error(code, "rados: removing"));
  }
  co_return Result<void>{};
}

Task<Result<void>> Garbage::try_discarded() {
  std::vector<BlobRef> blobs;
  {
    const std::lock_guard lock(mutex_);
    blobs.swap(discarded_);
  }
  Result<void> done;
  std::vector<BlobRef> left;
  for (const BlobRef& blob : blobs) {
    Result<void> removed = done;
    if (left.size() < failures_max) removed = co_await remove_blob(blob);
    if (removed) continue;
    left.push_back(blob);
    done = removed;
  }
  std::ranges::rotate(left, left.begin() + static_cast<std::ptrdiff_t>(std::min(left.size(), failures_max)));
  const std::lock_guard lock(mutex_);
  discarded_.insert(discarded_.end(), left.begin(), left.end());
  co_return done;
}

Task<> Garbage::remove_discarded() {
  if (auto done = co_await try_discarded(); !done) {
    log::warn("rados: bytes of unfinished writes stay: {}", describe(done.error()));
  }
}

Task<Result<void>> Garbage::remove(const Entry& entry) {
  std::set<std::string> rows;
  for (const BlobRef& blob : entry.blobs) {
    VB_CO_TRY(co_await remove_blob(blob));
    rows.insert(dead_row(blob.id));
  }
  int code = 0;
  librados::ObjectWriteOperation op;
  if (entry.whole_tablet) {
    op.remove();
    code = co_await registry_.cluster().write(Pool::index, entry.tablet, std::move(op));
  } else if (!entry.tablet.empty() && !rows.empty()) {
    op.assert_exists();
    op.omap_rm_keys(rows);
    code = co_await registry_.cluster().write(Pool::index, entry.tablet, std::move(op));
  } else if (entry.bucket != 0) {
    op.remove();
    code = co_await registry_.cluster().write(Pool::index, bucket_object(entry.bucket), std::move(op));
    if (code == 0 || code == -ENOENT) {
      librados::ObjectWriteOperation root;
      root.omap_rm_keys({keys::tagged('x', entry.bucket)});
      code = co_await registry_.cluster().write(Pool::index, std::string(root_object), std::move(root));
    }
  }
  if (code < 0 && code != -ENOENT) co_return std::unexpected(to_error(code, "rados: removing"));
  co_return Result<void>{};
}

std::string server_row(uint64_t incarnation) { return keys::tagged('s', incarnation); }

Task<Result<bool>> forget_server(Registry& registry, std::string row, std::string seen) {
  librados::ObjectWriteOperation op;
  const std::map<std::string, std::pair<Buffer, int>> expected = {{row, {to_buffer(seen), LIBRADOS_CMPXATTR_OP_EQ}}};
  op.omap_cmp(expected, nullptr);
  op.omap_rm_keys({row, formats_row(keys::read_number(std::string_view(row).substr(1)))});
  const int code = co_await registry.cluster().write(Pool::index, std::string(servers_object), std::move(op));
  if (code >= 0) co_return true;
  if (code != -ECANCELED) co_return std::unexpected(to_error(code, "rados: a silent server"));
  // Removed already: by an earlier execution of this call, or by another server.
  VB_CO_ASSIGN(const std::string now, co_await registry.row(std::string(servers_object), row));
  co_return now.empty();
}

Task<Result<std::set<uint64_t>>> Garbage::living() {
  VB_CO_ASSIGN(auto rows, co_await registry_.all(std::string(servers_object), "s"));
  std::set<uint64_t> servers = {incarnation_};
  for (const auto& [row, value] : rows) servers.insert(keys::parse_number(row.substr(1)).value_or(0));
  co_return servers;
}

// Released blobs that another server left, and buckets that were not swept completely. Not `all`: in buckets that could
// not be looked into some time ago.
Task<Result<void>> Garbage::look_for_leftovers(bool all) {
  VB_CO_ASSIGN(const std::set<uint64_t> servers, co_await living());
  VB_CO_ASSIGN(auto rows, co_await registry_.all(std::string(root_object), ""));
  std::map<uint64_t, Deadline> aside;
  for (const auto& [key, value] : rows) {
    if (stopping_) break;
    if (all && key.starts_with('x') && key.size() == 9) {
      const std::lock_guard lock(mutex_);
      sweeps_.push_back(keys::read_number(std::string_view(key).substr(1)));
      ++added_;
    }
    if (!key.starts_with('b')) continue;
    const uint64_t bucket = keys::parse_number(value).value_or(0);
    const auto known = aside_.find(bucket);
    if (!all && (known == aside_.end() || known->second > SteadyClock::now())) {
      if (known != aside_.end()) aside.insert(*known);
      continue;
    }
    std::string name = key.substr(1);
    if (auto looked = co_await look_into_named(name, bucket, servers); !looked) {
      log::warn("rados: bucket {}: what is to be removed there stays for now: {}", log::printable(name),
                describe(looked.error()));
      aside.emplace(bucket, deadline_in(aside_for));
    }
  }
  aside_ = std::move(aside);
  co_return Result<void>{};
}

Task<Result<void>> Garbage::look_into_named(std::string name, uint64_t bucket, std::set<uint64_t> living) {
  auto looked = co_await look_into(bucket, std::move(living));
  if (looked || !(looked.error() == Errc::no_such_bucket)) co_return looked;
  auto removed = co_await registry_.check_removed(name, bucket);
  if (!removed && removed.error() == Errc::corrupt_object) co_return Result<void>{};  // an operator must repair it
  if (!removed) co_return removed;
  // Its removal was decided by a server that died before completing it.
  looked = co_await registry_.forget_name(std::move(name), bucket);
  next_round_ = {};
  co_return looked;
}

Task<Result<void>> Garbage::look_into(uint64_t bucket, std::set<uint64_t> living) {
  VB_CO_ASSIGN(BucketPtr state, co_await registry_.load(bucket));
  for (size_t i = 0; i < state->tablets.size(); ++i) {
    const std::string object = state->tablets[i].object;
    auto rows = co_await registry_.all(object, "!");
    if (!rows && rows.error() == Errc::not_found) continue;
    if (!rows) co_return std::unexpected(rows.error());
    Entry entry{object, {}};
    for (const auto& [row, value] : *rows) add_blobs(row, value, entry.blobs);
    if (!entry.blobs.empty()) push(std::move(entry));
    VB_CO_TRY(co_await helpers_.look_into_tablet(state, i, living));
  }
  co_return co_await remove_joined(std::move(state));
}

// Their rows are in other tablets. The objects stay until no server looks there any more for what became of its calls.
Task<Result<void>> Garbage::remove_joined(BucketPtr state) {
  const auto now = SteadyClock::now();
  for (const uint64_t number : state->joined) {
    std::string object = tablet_object(state->id, number);
    if (now - joined_seen_.try_emplace(object, now).first->second < joined_rest) continue;
    librados::ObjectWriteOperation gone;
    gone.remove();
    const int code = co_await registry_.cluster().write(Pool::index, object, std::move(gone));
    if (code < 0 && code != -ENOENT) co_return std::unexpected(to_error(code, "rados: joined tablet"));
    VB_CO_ASSIGN(BucketPtr current, co_await registry_.load(state->id));
    // A later epoch would stop a split, a join or a rename half way.
    VB_CO_ASSIGN(current, co_await registry_.writable(current, ""));
    Registry::Fill forget = [number](librados::ObjectWriteOperation& op) { op.omap_rm_keys({joined_row(number)}); };
    const auto forgotten = co_await registry_.change(current, std::move(forget));
    if (!forgotten && forgotten.error() == Errc::conditional_conflict) continue;  // the next round
    if (!forgotten) co_return std::unexpected(forgotten.error());
    joined_seen_.erase(object);
  }
  co_return Result<void>{};
}

Task<Result<void>> Garbage::collect_bucket(uint64_t bucket) {
  if (is_queued(bucket)) co_return Result<void>{};  // with all of its tablets
  auto tablets = co_await registry_.all(bucket_object(bucket), "");
  if (!tablets && !(tablets.error() == Errc::not_found)) co_return std::unexpected(tablets.error());
  if (tablets) {
    for (const auto& [name, named] : *tablets) {
      const auto joined = parse_joined_row(name);
      if (!joined && !name.starts_with('t')) continue;
      const uint64_t number = joined ? *joined : keys::parse_number(named).value_or(0);
      Entry entry{tablet_object(bucket, number), {}, /*whole_tablet=*/true, bucket};
      if (is_queued(entry.tablet)) continue;
      for (std::string after;;) {
        auto page = co_await registry_.page(entry.tablet, after, "");
        if (!page && page.error() == Errc::not_found) break;
        if (!page) co_return std::unexpected(page.error());
        std::map<std::string, std::string> outliving;
        for (auto& [row, value] : (*page)->rows) {
          after = row;
          add_blobs(row, to_text(value), entry.blobs);
          if (row.starts_with('e')) outliving.emplace(row, to_text(value));
        }
        if (!outliving.empty()) VB_CO_TRY(co_await helpers_.rescue(bucket, std::move(outliving)));
        if (!(*page)->more || (*page)->rows.empty()) break;
      }
      push(std::move(entry));
    }
  }
  Entry last;
  last.bucket = bucket;
  push(std::move(last));
  co_return Result<void>{};
}

// On a full pool a change of rows may succeed, but creating an object does not: so an object is created to test it.
Task<void> Garbage::probe_space() {
  bool full = false;
  const std::string object = fmt::format("space.{:x}", incarnation_);
  for (const Pool pool : {Pool::index, Pool::data}) {
    librados::ObjectWriteOperation gone;
    gone.remove();
    (void)co_await registry_.cluster().write(pool, object, std::move(gone));
    librados::ObjectWriteOperation made;
    made.write_full(to_buffer("x"));
    const int code = co_await registry_.cluster().write(pool, object, std::move(made));
    full |= code == -ENOSPC || code == -EDQUOT;
    librados::ObjectWriteOperation last;
    last.remove();
    (void)co_await registry_.cluster().write(pool, object, std::move(last));
  }
  if (full_.exchange(full) != full) {
    log::warn("rados: {}", full ? "the cluster or a pool is full: nothing new is accepted" : "there is space again");
  }
}

}  // namespace verbena::store::rados
