#include "store/rados/registry.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/log.h"
#include "store/logic/keys.h"

namespace verbena::store::rados {
namespace {

using Pool = Cluster::Pool;

constexpr uint64_t page_rows = 1000;             // of omap; the cluster gives no more than 1,024
constexpr std::chrono::seconds left_behind{15};  // a removal or a split that takes longer has nobody any more
constexpr std::chrono::seconds wait_max{25};     // for one that goes on
constexpr std::chrono::milliseconds look_again{10};
constexpr int attempts_max = 100;

std::optional<uint64_t> parse_epoch(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "r" and who, "s", the tablet's number in eight bytes, and who.
Result<void> decode_phase(BucketState& state, std::string text) {
  state.phase_text = std::move(text);
  if (state.phase_text.empty()) return {};
  const std::string_view left = state.phase_text;
  const char letter = left.front();
  if (letter != 'r' && letter != 's' && letter != 'd') return fail(Errc::corrupt_object, "rados: phase of a bucket");
  state.phase = static_cast<Phase>(letter);
  if (left.size() < 9) return fail(Errc::corrupt_object, "rados: phase of a bucket");
  state.phase_tablet = keys::read_number(left.substr(1, 8));
  return {};
}

Result<BucketPtr> decode_state(uint64_t id, std::string_view epoch, std::map<std::string, std::string> rows) {
  auto state = std::make_shared<BucketState>();
  state->id = id;
  const auto number = parse_epoch(epoch);
  if (!number) return fail(Errc::corrupt_object, "rados: epoch of a bucket");
  state->epoch = *number;
  state->epoch_text = epoch;
  for (auto& [key, value] : rows) {
    if (key == "r") {
      VB_ASSIGN(state->record, decode_bucket(value));
      state->row = std::move(value);
    } else if (key == "p") {
      VB_TRY(decode_phase(*state, std::move(value)));
    } else if (key.starts_with('t')) {
      const auto tablet = keys::parse_number(value);
      if (!tablet) return fail(Errc::corrupt_object, "rados: tablet of a bucket");
      state->tablets.push_back({key.substr(1), *tablet, tablet_object(id, *tablet)});
    }
  }
  if (state->row.empty() || state->record.id != id || state->tablets.empty() || !state->tablets.front().low.empty()) {
    return fail(Errc::corrupt_object, "rados: bucket without record or tablets");
  }
  return state;
}

}  // namespace

Task<> pause(std::chrono::milliseconds time) {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, time);
  co_await timer.async_wait(boost::asio::use_awaitable);
}

size_t BucketState::tablet_of(std::string_view stored) const {
  const auto after = std::ranges::upper_bound(
      tablets, stored, {}, [&](const Tablet& tablet) { return first_row(stored.front(), tablet.low); });
  return static_cast<size_t>(after - tablets.begin()) - 1;
}

BucketPtr Registry::find(uint64_t bucket) const {
  const std::shared_lock lock(mutex_);
  const auto found = states_.find(bucket);
  return found == states_.end() ? nullptr : found->second;
}

void Registry::forget(uint64_t bucket) {
  const std::unique_lock lock(mutex_);
  states_.erase(bucket);
}

Task<Result<std::shared_ptr<OmapReply>>> Registry::page(std::string object, std::string after, std::string prefix) {
  auto reply = std::make_shared<OmapReply>();
  librados::ObjectReadOperation op;
  op.omap_get_vals2(after, prefix, page_rows, &reply->rows, &reply->more, &reply->rows_code);
  const int code = co_await cluster_.read(Pool::index, std::move(object), std::move(op), reply);
  if (code == -ENOENT) co_return fail(Errc::not_found, "rados: object");
  if (code < 0) co_return std::unexpected(to_error(code, "rados: omap"));
  co_return reply;
}

Task<Result<std::map<std::string, std::string>>> Registry::all(std::string object, std::string prefix) {
  std::map<std::string, std::string> rows;
  for (std::string after;;) {
    VB_CO_ASSIGN(auto reply, co_await page(object, after, prefix));
    for (auto& [key, value] : reply->rows) {
      after = key;
      rows.emplace(key, to_text(value));
    }
    if (!reply->more || reply->rows.empty()) co_return rows;
  }
}

Task<Result<BucketPtr>> Registry::load(uint64_t bucket) {
  std::map<std::string, std::string> rows;
  std::string epoch;
  // Epoch, record and tablets in one call, so that they belong together. What goes over a page is read again until
  // nothing has changed meanwhile.
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    auto reply = std::make_shared<OmapReply>();
    auto record = std::make_shared<OmapReply>();
    struct Both {
      std::shared_ptr<OmapReply> tablets, record;
    };
    auto both = std::make_shared<Both>(Both{reply, record});
    librados::ObjectReadOperation op;
    op.getxattr(epoch_attribute, &reply->epoch, &reply->epoch_code);
    op.omap_get_vals_by_keys({"p", "r"}, &record->rows, &record->rows_code);
    op.omap_get_vals2("", "t", page_rows, &reply->rows, &reply->more, &reply->rows_code);
    const int code = co_await cluster_.read(Pool::index, bucket_object(bucket), std::move(op), both);
    if (code == -ENOENT || code == -ENODATA) {
      forget(bucket);
      co_return fail(Errc::no_such_bucket);
    }
    if (code < 0) co_return std::unexpected(to_error(code, "rados: bucket"));
    rows.clear();
    for (auto& [key, value] : record->rows) rows.emplace(key, to_text(value));
    for (auto& [key, value] : reply->rows) rows.emplace(key, to_text(value));
    epoch = to_text(reply->epoch);
    if (!reply->more) break;
    VB_CO_ASSIGN(auto tablets, co_await all(bucket_object(bucket), "t"));
    auto again = std::make_shared<OmapReply>();
    librados::ObjectReadOperation check;
    check.getxattr(epoch_attribute, &again->epoch, &again->epoch_code);
    const int checked = co_await cluster_.read(Pool::index, bucket_object(bucket), std::move(check), again);
    if (checked < 0) co_return std::unexpected(to_error(checked, "rados: bucket"));
    if (to_text(again->epoch) != epoch) continue;
    rows.merge(tablets);
    break;
  }
  VB_CO_ASSIGN(BucketPtr state, decode_state(bucket, epoch, std::move(rows)));
  if (state->phase == Phase::removed) {
    forget(bucket);
    co_return fail(Errc::no_such_bucket);
  }
  const std::unique_lock lock(mutex_);
  BucketPtr& known = states_[bucket];
  if (!known || known->epoch <= state->epoch) known = state;
  co_return known;
}

// A tablet that has an earlier epoch than its bucket gets the bucket's.
Task<Result<void>> Registry::raise(std::string tablet, BucketPtr state) {
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    auto reply = std::make_shared<OmapReply>();
    librados::ObjectReadOperation look;
    look.getxattr(epoch_attribute, &reply->epoch, &reply->epoch_code);
    const int code = co_await cluster_.read(Pool::index, tablet, std::move(look), reply);
    if (code == -ENOENT) co_return fail(Errc::not_found, "rados: tablet");
    if (code < 0) co_return std::unexpected(to_error(code, "rados: tablet"));
    const std::string text = to_text(reply->epoch);
    const auto epoch = parse_epoch(text);
    if (!epoch) co_return fail(Errc::corrupt_object, "rados: epoch of a tablet");
    if (*epoch >= state->epoch) co_return Result<void>{};
    librados::ObjectWriteOperation op;
    op.cmpxattr(epoch_attribute, LIBRADOS_CMPXATTR_OP_EQ, to_buffer(text));
    op.setxattr(epoch_attribute, to_buffer(state->epoch_text));
    const int raised = co_await cluster_.write(Pool::index, tablet, std::move(op));
    if (raised < 0 && raised != -ECANCELED) co_return std::unexpected(to_error(raised, "rados: tablet"));
  }
  co_return fail(Errc::slow_down, "rados: epoch of a tablet");
}

Task<Result<void>> Registry::spread(BucketPtr state) {
  for (const Tablet& tablet : state->tablets) {
    const std::string object = tablet.object;
    VB_CO_TRY(co_await raise(object, state));
  }
  co_return Result<void>{};
}

Task<Result<BucketPtr>> Registry::refresh(BucketPtr seen, std::string tablet) {
  VB_CO_ASSIGN(BucketPtr now, co_await load(seen->id));
  const bool still_there = std::ranges::any_of(now->tablets, [&](const Tablet& t) { return t.object == tablet; });
  if (!still_there) co_return now;
  auto raised = co_await raise(tablet, now);
  if (!raised && raised.error() == Errc::not_found) co_return co_await load(seen->id);
  if (!raised) co_return std::unexpected(raised.error());
  co_return now;
}

// Whoever began it is gone, or finds out now that it took too long.
Task<Result<BucketPtr>> Registry::thaw(BucketPtr state) {
  log::warn("rados: bucket {}: what was begun and left is undone", log::printable(state->record.info.name));
  co_return co_await set_phase(state, Phase::live);
}

Task<Result<BucketPtr>> Registry::writable(BucketPtr seen, std::string stored) {
  const auto until = deadline_in(wait_max);
  const auto free = [&stored](const BucketState& state) {
    if (stored.empty()) return state.phase == Phase::live;
    return state.may_change(state.tablets[state.tablet_of(stored)]);
  };
  while (!free(*seen)) {
    Deadline first_seen;
    {
      const std::unique_lock lock(mutex_);
      first_seen = phases_seen_.try_emplace(seen->phase_text, SteadyClock::now()).first->second;
    }
    if (SteadyClock::now() - first_seen > left_behind) {
      auto thawed = co_await thaw(seen);
      if (!thawed && !(thawed.error() == Errc::conditional_conflict)) co_return thawed;
    } else {
      co_await pause(look_again);
    }
    VB_CO_ASSIGN(seen, co_await load(seen->id));
    if (SteadyClock::now() > until) co_return fail(Errc::slow_down, "rados: the bucket is being changed");
  }
  co_return seen;
}

Task<Result<void>> Registry::make(uint64_t bucket, std::string row) {
  // The tablet first: a bucket's object says that it is all there.
  librados::ObjectWriteOperation tablet;
  tablet.create(false);
  tablet.setxattr(epoch_attribute, to_buffer("1"));
  const int made = co_await cluster_.write(Pool::index, tablet_object(bucket, 0), std::move(tablet));
  if (made < 0) co_return std::unexpected(to_error(made, "rados: new tablet"));
  librados::ObjectWriteOperation op;
  op.create(false);
  op.setxattr(epoch_attribute, to_buffer("1"));
  const std::map<std::string, Buffer> rows = {{"r", to_buffer(row)}, {"t", to_buffer(keys::number(0))}};
  op.omap_set(rows);
  const int code = co_await cluster_.write(Pool::index, bucket_object(bucket), std::move(op));
  if (code < 0) co_return std::unexpected(to_error(code, "rados: new bucket"));
  co_return Result<void>{};
}

Task<Result<void>> Registry::change_rows(BucketPtr from, Fill fill) {
  librados::ObjectWriteOperation op;
  op.cmpxattr(epoch_attribute, LIBRADOS_CMPXATTR_OP_EQ, to_buffer(from->epoch_text));
  fill(op);
  const int code = co_await cluster_.write(Pool::index, bucket_object(from->id), std::move(op));
  if (code == -ECANCELED) co_return fail(Errc::conditional_conflict, "rados: bucket");
  if (code == -ENOENT) co_return fail(Errc::no_such_bucket);
  if (code < 0) co_return std::unexpected(to_error(code, "rados: bucket"));
  co_return Result<void>{};
}

Task<Result<BucketPtr>> Registry::change(BucketPtr from, Fill fill) {
  Fill with_epoch = [&fill, epoch = std::to_string(from->epoch + 1)](librados::ObjectWriteOperation& op) {
    fill(op);
    op.setxattr(epoch_attribute, to_buffer(epoch));
  };
  VB_CO_TRY(co_await change_rows(from, std::move(with_epoch)));
  VB_CO_ASSIGN(BucketPtr now, co_await load(from->id));
  VB_CO_TRY(co_await spread(now));
  co_return now;
}

Task<Result<BucketPtr>> Registry::set_phase(BucketPtr from, Phase phase, uint64_t tablet) {
  std::string text;
  if (phase != Phase::live) {
    std::byte who[8];
    fill_random(who);
    text = std::string(1, static_cast<char>(phase)) + keys::number(tablet) + std::string(as_text(who));
  }
  Fill fill = [text](librados::ObjectWriteOperation& op) {
    if (text.empty()) {
      op.omap_rm_keys({"p"});
    } else {
      const std::map<std::string, Buffer> row = {{"p", to_buffer(text)}};
      op.omap_set(row);
    }
  };
  co_return co_await change(from, std::move(fill));
}

Task<Result<bool>> Registry::give_name(std::string name, uint64_t bucket) {
  const std::string row = keys::bucket(name), object(root_object);
  librados::ObjectWriteOperation op;
  const std::map<std::string, std::pair<Buffer, int>> guard = {{row, {Buffer(), LIBRADOS_CMPXATTR_OP_EQ}}};
  op.omap_cmp(guard, nullptr);
  const std::map<std::string, Buffer> set = {{row, to_buffer(keys::number(bucket))}};
  op.omap_set(set);
  const int code = co_await cluster_.write(Pool::index, object, std::move(op));
  if (code == -ECANCELED) co_return false;
  if (code < 0) co_return std::unexpected(to_error(code, "rados: root"));
  co_return true;
}

Task<Result<void>> Registry::forget_name(std::string name, uint64_t bucket) {
  const std::string row = keys::bucket(name), object(root_object);
  librados::ObjectWriteOperation op;
  const std::map<std::string, std::pair<Buffer, int>> guard = {
      {row, {to_buffer(keys::number(bucket)), LIBRADOS_CMPXATTR_OP_EQ}}};
  op.omap_cmp(guard, nullptr);
  op.omap_rm_keys({row});
  const std::map<std::string, Buffer> set = {{keys::tagged('x', bucket), to_buffer("x")}};
  op.omap_set(set);
  const int code = co_await cluster_.write(Pool::index, object, std::move(op));
  forget(bucket);
  // Another one has finished what was decided.
  if (code < 0 && code != -ECANCELED) co_return std::unexpected(to_error(code, "rados: root"));
  co_return Result<void>{};
}

Task<Result<uint64_t>> Registry::take_number() {
  const std::string object(root_object);
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    VB_CO_ASSIGN(auto rows, co_await all(object, "next"));
    const auto row = rows.find("next");
    const std::string seen = row == rows.end() ? "" : row->second;
    const uint64_t number = keys::parse_number(seen).value_or(1);
    librados::ObjectWriteOperation op;
    const std::map<std::string, std::pair<Buffer, int>> guard = {{"next", {to_buffer(seen), LIBRADOS_CMPXATTR_OP_EQ}}};
    op.omap_cmp(guard, nullptr);
    const std::map<std::string, Buffer> next = {{"next", to_buffer(keys::number(number + 1))}};
    op.omap_set(next);
    const int code = co_await cluster_.write(Pool::index, object, std::move(op));
    if (code >= 0) co_return number;
    if (code != -ECANCELED) co_return std::unexpected(to_error(code, "rados: root"));
  }
  co_return fail(Errc::slow_down, "rados: root");
}

}  // namespace verbena::store::rados
