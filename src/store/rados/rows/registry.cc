#include "store/rados/rows/registry.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/log.h"
#include "store/logic/codec.h"
#include "store/logic/keys.h"
#include "store/rados/cluster/fate.h"
#include "store/rados/rows/change.h"

namespace verbena::store::rados {
namespace {

using Pool = Cluster::Pool;

constexpr uint64_t page_rows = 1000;             // of omap; the cluster gives no more than 1,024
constexpr std::chrono::seconds left_behind{15};  // after this time the server of a removal or split counts as dead
constexpr std::chrono::seconds wait_max{25};     // for a phase in progress
constexpr std::chrono::seconds phases_kept{120};
constexpr std::chrono::milliseconds look_again{10};
constexpr int attempts_max = 100;
constexpr std::chrono::seconds end_move_max{20};  // in a client's request; later another server does it
constexpr std::chrono::milliseconds end_move_again_after{200}, end_move_rest_max{2'000};  // doubled each time
constexpr const char *tokens_row = "w", *names_fence_row = "f";
// A removed bucket to be swept, with or without an earlier name. Older servers write "x" for both.
constexpr std::string_view was_named = "n", never_named = "f";

std::optional<uint64_t> parse_epoch(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A letter, the number of a tablet in eight bytes, the server; for a move the remaining changes.
Result<void> decode_phase(BucketState& state, std::string text) {
  state.phase_text = std::move(text);
  if (state.phase_text.empty()) return {};
  const std::string_view left = state.phase_text;
  const char letter = left.front();
  if (!std::string_view("rsmjkd").contains(letter)) return fail(Errc::corrupt_object, "rados: phase of a bucket");
  state.phase = static_cast<Phase>(letter);
  if (left.size() < 9) return fail(Errc::corrupt_object, "rados: phase of a bucket");
  state.phase_tablet = keys::read_number(left.substr(1, 8));
  if (state.phase == Phase::moving) {
    VB_ASSIGN(const Move move, decode_move(left.substr(std::min<size_t>(left.size(), 17))));
    state.phase_other = move.to;
  }
  if (state.phase == Phase::joining || state.phase == Phase::closing) {
    if (left.size() != 25) return fail(Errc::corrupt_object, "rados: phase of a bucket");
    state.phase_other = keys::read_number(left.substr(17));
  }
  return {};
}

Result<BucketPtr> decode_state(uint64_t id, std::string_view epoch, std::map<std::string, std::string> rows,
                               Deadline read_at) {
  auto state = std::make_shared<BucketState>();
  state->id = id;
  state->read_at = read_at;
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
    } else if (key == tokens_row) {
      state->tokens = std::move(value);
    } else if (key.starts_with('t')) {
      const auto tablet = keys::parse_number(value);
      if (!tablet) return fail(Errc::corrupt_object, "rados: tablet of a bucket");
      state->tablets.push_back({key.substr(1), *tablet, tablet_object(id, *tablet)});
    } else if (const auto joined = parse_joined_row(key)) {
      state->joined.push_back(*joined);
    }
  }
  if (state->row.empty() || state->record.id != id || state->tablets.empty() || !state->tablets.front().low.empty()) {
    return fail(Errc::corrupt_object, "rados: bucket without record or tablets");
  }
  return state;
}

std::string unnamed_row(uint64_t bucket) { return keys::tagged('u', bucket); }

}  // namespace

std::string encode(const Move& move) {
  Encoder e;
  e.varint(move.to);
  e.text(move.version_token_row);
  e.text(move.version_token_seen);
  e.varint(move.gone.size());
  for (const auto& row : move.gone) e.text(row);
  e.varint(move.sets.size());
  for (const auto& [row, value] : move.sets) {
    e.text(row);
    e.text(value);
  }
  return e.take();
}

Result<Move> decode_move(std::string_view bytes) {
  Decoder d(bytes);
  Move move;
  move.to = d.varint();
  move.version_token_row = d.text();
  move.version_token_seen = d.text();
  for (size_t left = d.count(1); left != 0; --left) move.gone.emplace(d.text());
  for (size_t left = d.count(2); left != 0; --left) {
    std::string row(d.text());
    move.sets.emplace(std::move(row), d.text());
  }
  return finished(d, move);
}

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
  Deadline read_at{};
  // Epoch, record and tablets in one call, so that they are consistent. More than a page is read again until nothing
  // has changed meanwhile.
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    auto reply = std::make_shared<OmapReply>();
    auto record = std::make_shared<OmapReply>();
    struct Both {
      std::shared_ptr<OmapReply> tablets, record, joined;
    };
    auto joined = std::make_shared<OmapReply>();
    auto both = std::make_shared<Both>(Both{reply, record, joined});
    librados::ObjectReadOperation op;
    op.getxattr(epoch_attribute, &reply->epoch, &reply->epoch_code);
    op.omap_get_vals_by_keys({"p", "r", tokens_row}, &record->rows, &record->rows_code);
    op.omap_get_vals2("", "t", page_rows, &reply->rows, &reply->more, &reply->rows_code);
    op.omap_get_vals2("", "g", page_rows, &joined->rows, &joined->more, &joined->rows_code);
    const int code = co_await cluster_.read(Pool::index, bucket_object(bucket), std::move(op), both);
    if (code == -ENOENT || code == -ENODATA) {
      forget(bucket);
      co_return fail(Errc::no_such_bucket);
    }
    if (code < 0) co_return std::unexpected(to_error(code, "rados: bucket"));
    read_at = SteadyClock::now();
    rows.clear();
    for (auto& [key, value] : record->rows) rows.emplace(key, to_text(value));
    for (auto& [key, value] : reply->rows) rows.emplace(key, to_text(value));
    for (auto& [key, value] : joined->rows) rows.emplace(key, to_text(value));
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
  VB_CO_ASSIGN(BucketPtr state, decode_state(bucket, epoch, std::move(rows), read_at));
  if (state->phase == Phase::removed) {
    forget(bucket);
    co_return fail(Errc::no_such_bucket);
  }
  const std::unique_lock lock(mutex_);
  BucketPtr& known = states_[bucket];
  // An epoch has one state: keeps the one that was read first, which has been known for longer.
  if (!known || known->epoch < state->epoch) known = state;
  co_return known;
}

// The name is removed before the first of the bucket's objects, and numbers are not reused: so if an object is missing
// and the name is found after that, the object was not removed but lost.
Task<Result<void>> Registry::check_removed(std::string name, uint64_t bucket) {
  const auto state = co_await load(bucket);
  if (!state && !(state.error() == Errc::no_such_bucket)) co_return std::unexpected(state.error());
  if (state) {
    log::error("rados: a tablet of bucket {} is missing in the index pool", log::printable(name));
    co_return fail(Errc::corrupt_object, "An object with a bucket's rows is lost: see `ceph health` and the log.");
  }
  // An object without that row is not the bucket's own, which always has it from then on.
  const auto phase = co_await all(bucket_object(bucket), "p");
  if (!phase && !(phase.error() == Errc::not_found)) co_return std::unexpected(phase.error());
  if (phase) {
    const auto decided = phase->find("p");
    if (decided != phase->end() && decided->second.starts_with(static_cast<char>(Phase::removed)))
      co_return Result<void>{};
  }
  std::string row_name = keys::bucket(name);
  VB_CO_ASSIGN(const std::string named, co_await row(std::string(root_object), std::move(row_name)));
  if (named != keys::number(bucket)) co_return Result<void>{};
  log::error("rados: bucket {} has a name, and its object {} in the index pool is missing", log::printable(name),
             bucket_object(bucket));
  co_return fail(Errc::corrupt_object, "The object that names a bucket's rows is lost: see `ceph health` and the log.");
}

// Gives the bucket's epoch to a tablet with an earlier one.
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

// In the order of the keys, see refresh().
Task<Result<void>> Registry::spread(BucketPtr state) {
  for (const Tablet& tablet : state->tablets) {
    const std::string object = tablet.object;
    VB_CO_TRY(co_await raise(object, state));
  }
  co_return Result<void>{};
}

// To those that the phase of `of`, a move, concerns. The order does not matter here: the server that began the move has
// read both with the epoch of before it, so the tablets before them do not show their rows any more.
Task<Result<void>> Registry::spread_to_two(BucketPtr of, BucketPtr state) {
  for (const uint64_t number : {of->phase_tablet, of->phase_other}) {
    std::string object = tablet_object(of->id, number);
    VB_CO_TRY(co_await raise(std::move(object), state));
  }
  co_return Result<void>{};
}

Task<Result<BucketPtr>> Registry::refresh(BucketPtr seen, std::string tablet) {
  VB_CO_ASSIGN(BucketPtr now, co_await load(seen->id));
  const auto found = std::ranges::find(now->tablets, tablet, &Tablet::object);
  if (found == now->tablets.end()) co_return now;
  // Rows that a split has moved here must not change while they can still be read in the tablet before it.
  Result<void> raised;
  if (found != now->tablets.begin()) {
    const std::string before = std::prev(found)->object;
    raised = co_await raise(before, now);
  }
  if (raised) raised = co_await raise(tablet, now);
  if (!raised && raised.error() == Errc::not_found) co_return co_await load(seen->id);
  if (!raised) co_return std::unexpected(raised.error());
  co_return now;
}

// The server that began the phase is dead, or will notice that it took too long.
Task<Result<BucketPtr>> Registry::thaw(BucketPtr state) {
  if (state->phase == Phase::moving) {
    log::warn("rados: bucket {}: an unfinished rename of a key is settled", log::printable(state->record.info.name));
    VB_CO_TRY(co_await settle_move(state));
    co_return co_await load(state->id);
  }
  log::warn("rados: bucket {}: an unfinished change is undone", log::printable(state->record.info.name));
  co_return co_await set_phase(state, Phase::live);
}

Deadline Registry::first_seen(const std::string& phase) {
  const std::unique_lock lock(mutex_);
  const auto now = SteadyClock::now();
  std::erase_if(phases_seen_, [now](const auto& seen) { return now - seen.second > phases_kept; });
  return phases_seen_.try_emplace(phase, now).first->second;
}

Task<Result<BucketPtr>> Registry::writable(BucketPtr seen, std::string stored) {
  Free free = [stored](const BucketState& state) {
    if (stored.empty()) return state.phase == Phase::live;
    return state.may_change(state.tablets[state.tablet_of(stored)]);
  };
  co_return co_await wait_until(std::move(seen), std::move(free));
}

Task<Result<BucketPtr>> Registry::readable(BucketPtr seen, std::string stored) {
  Free free = [stored](const BucketState& state) { return state.may_read(state.tablets[state.tablet_of(stored)]); };
  co_return co_await wait_until(std::move(seen), std::move(free));
}

// Of all waiters for a bucket in this process one reads at a time, and undoes abandoned phases.
class Registry::Looking {
 public:
  Looking(Registry& registry, uint64_t bucket) : registry_(registry), bucket_(bucket) {
    const std::unique_lock lock(registry_.mutex_);
    mine_ = registry_.looked_at_.insert(bucket).second;
  }
  Looking(const Looking&) = delete;
  ~Looking() {
    if (!mine_) return;
    const std::unique_lock lock(registry_.mutex_);
    registry_.looked_at_.erase(bucket_);
  }
  bool mine() const { return mine_; }

 private:
  Registry& registry_;
  const uint64_t bucket_;
  bool mine_;
};

Task<Result<BucketPtr>> Registry::wait_until(BucketPtr seen, Free free) {
  const auto until = deadline_in(wait_max);
  while (!free(*seen)) {
    co_await pause(look_again);
    if (SteadyClock::now() > until) co_return fail(Errc::slow_down, "rados: the bucket is being changed");
    BucketPtr known = find(seen->id);
    if (known && known->epoch > seen->epoch) {
      seen = std::move(known);
      continue;
    }
    const Looking looking(*this, seen->id);
    if (!looking.mine() && known) continue;
    // A server that resolves a move begins with the next epoch, and has as much time as the first one had.
    if (looking.mine() && SteadyClock::now() - first_seen(seen->phase_text + seen->epoch_text) > left_behind) {
      auto thawed = co_await thaw(seen);
      if (!thawed && !(thawed.error() == Errc::conditional_conflict)) co_return thawed;
    }
    VB_CO_ASSIGN(seen, co_await load(seen->id));
  }
  co_return seen;
}

Task<Result<void>> Registry::make(uint64_t bucket, std::string row) {
  // The tablet first: the bucket's object states that it is complete. Existing objects were made by an earlier
  // execution of this call, because no other server has the number. A late call finds the objects in use and changes
  // nothing.
  librados::ObjectWriteOperation tablet;
  tablet.create(true);
  tablet.setxattr(epoch_attribute, to_buffer("1"));
  const int made = co_await cluster_.write(Pool::index, tablet_object(bucket, 0), std::move(tablet));
  if (made < 0 && made != -EEXIST) co_return std::unexpected(to_error(made, "rados: new tablet"));
  librados::ObjectWriteOperation op;
  op.create(true);
  op.setxattr(epoch_attribute, to_buffer("1"));
  const std::map<std::string, Buffer> rows = {{"r", to_buffer(row)}, {"t", to_buffer(keys::number(0))}};
  op.omap_set(rows);
  const int code = co_await cluster_.write(Pool::index, bucket_object(bucket), std::move(op));
  if (code < 0 && code != -EEXIST) co_return std::unexpected(to_error(code, "rados: new bucket"));
  co_return Result<void>{};
}

Task<Result<void>> Registry::change_object(BucketPtr from, Fill fill) {
  const uint64_t token = random_number();
  librados::ObjectWriteOperation op;
  op.cmpxattr(epoch_attribute, LIBRADOS_CMPXATTR_OP_EQ, to_buffer(from->epoch_text));
  fill(op);
  op.setxattr(epoch_attribute, to_buffer(std::to_string(from->epoch + 1)));
  const std::map<std::string, Buffer> tokens = {{tokens_row, to_buffer(with_token(from->tokens, token))}};
  op.omap_set(tokens);
  const std::string object = bucket_object(from->id);
  const int code = co_await cluster_.write(Pool::index, object, std::move(op));
  if (code == -ENOENT) co_return fail(Errc::no_such_bucket);
  if (code >= 0) co_return Result<void>{};
  if (code != -ECANCELED) co_return std::unexpected(to_error(code, "rados: bucket"));
  switch (co_await fate_by_row(cluster_, object, tokens_row, token, from->tokens)) {
    case Fate::made:
      co_return Result<void>{};
    case Fate::not_made:
      co_return fail(Errc::conditional_conflict, "rados: bucket");
    case Fate::unknown:
      break;
  }
  co_return fail(Errc::service_unavailable, "The Ceph cluster did not say whether the bucket was changed.");
}

Task<Result<BucketPtr>> Registry::change(BucketPtr from, Fill fill) {
  VB_CO_TRY(co_await change_object(from, std::move(fill)));
  VB_CO_ASSIGN(BucketPtr now, co_await load(from->id));
  VB_CO_TRY(co_await spread(now));
  co_return now;
}

Task<Result<BucketPtr>> Registry::set_phase(BucketPtr from, Phase phase, uint64_t tablet, std::string more,
                                            std::string who) {
  std::string text;
  if (phase != Phase::live) {
    if (who.empty()) who = keys::number(random_number());
    text = std::string(1, static_cast<char>(phase)) + keys::number(tablet) + who + more;
  }
  Fill fill = [text](librados::ObjectWriteOperation& op) {
    if (text.empty()) {
      op.omap_rm_keys({"p"});
    } else {
      const std::map<std::string, Buffer> row = {{"p", to_buffer(text)}};
      op.omap_set(row);
    }
  };
  VB_CO_TRY(co_await change_object(from, std::move(fill)));
  VB_CO_ASSIGN(BucketPtr now, co_await load(from->id));
  // Another tablet's keys are as they are, and an outage of it holds up no move.
  const BucketPtr& moving = phase == Phase::live ? from : now;
  const bool is_move = moving->phase == Phase::moving;
  auto spreading = is_move ? spread_to_two(moving, now) : spread(now);
  VB_CO_TRY(co_await std::move(spreading));
  // A server that was suspended for long between the call and its answer may find the phase ended by others, and keys
  // changed again.
  if (phase != Phase::live && now->epoch != from->epoch + 1) {
    co_return fail(Errc::conditional_conflict, "rados: the change was undone meanwhile");
  }
  co_return now;
}

Task<Result<bool>> Registry::finish_move(BucketPtr state) {
  VB_CO_ASSIGN(const Move move, decode_move(std::string_view(state->phase_text).substr(17)));
  std::map<std::string, Buffer> sets;
  for (const auto& [row, value] : move.sets) sets.emplace(row, to_buffer(value));
  librados::ObjectWriteOperation op;
  op.cmpxattr(epoch_attribute, LIBRADOS_CMPXATTR_OP_EQ, to_buffer(state->epoch_text));
  const std::map<std::string, std::pair<Buffer, int>> expected = {
      {move.version_token_row, {to_buffer(move.version_token_seen), LIBRADOS_CMPXATTR_OP_EQ}}};
  op.omap_cmp(expected, nullptr);
  op.omap_rm_keys(move.gone);
  if (!sets.empty()) op.omap_set(sets);
  const std::string object = tablet_object(state->id, state->phase_tablet);
  const int code = co_await cluster_.write(Pool::index, object, std::move(op));
  if (code == -ECANCELED) {
    // The version token that the move gives the source shows that it was made. No server changes that key before the
    // phase ends.
    const auto given = move.sets.find(move.version_token_row);
    std::string name = move.version_token_row;
    VB_CO_ASSIGN(const std::string now, co_await row(object, std::move(name)));
    co_return given != move.sets.end() && now == given->second;
  }
  if (code < 0) co_return std::unexpected(to_error(code, "rados: moving a key"));
  co_return true;
}

// Raises the epoch first, so that the server that began it can do nothing more. Then the outcome is certain: the
// target's half is there, or never will be, and the source's half is sent after it only. So a source that cannot be
// reached stops nothing where there is nothing to do in it. The phase ends in the bucket's object; the two tablets get
// its last epoch from the first server that accesses them.
Task<Result<bool>> Registry::settle_move(BucketPtr state) {
  Fill again = [text = state->phase_text](librados::ObjectWriteOperation& op) {
    const std::map<std::string, Buffer> row = {{"p", to_buffer(text)}};
    op.omap_set(row);
  };
  VB_CO_TRY(co_await change_object(state, std::move(again)));
  VB_CO_ASSIGN(BucketPtr mine, co_await load(state->id));
  if (mine->phase_text != state->phase_text) co_return fail(Errc::conditional_conflict, "rados: moving a key");
  const std::string source = tablet_object(mine->id, mine->phase_tablet);
  const std::string target = tablet_object(mine->id, mine->phase_other);
  VB_CO_TRY(co_await raise(target, mine));
  VB_CO_ASSIGN(const std::string moved, co_await row(target, moved_row));
  const bool has = moved == mine->phase_who();
  if (has) {
    VB_CO_TRY(co_await raise(source, mine));
    VB_CO_TRY(co_await finish_move(mine));
  }
  VB_CO_TRY(co_await end_phase(mine));
  co_return has;
}

Task<Result<void>> Registry::end_phase(BucketPtr state) {
  Fill none = [](librados::ObjectWriteOperation& op) { op.omap_rm_keys({"p"}); };
  co_return co_await change_object(state, std::move(none));
}

Task<Result<bool>> Registry::undo_move(BucketPtr state) {
  VB_CO_TRY(co_await end_phase(std::move(state)));
  co_return false;
}

Task<Result<bool>> Registry::end_move(uint64_t bucket, std::string who, bool sent) {
  auto rest = end_move_again_after;
  Error failed = Error{Errc::slow_down, 0, "rados: moving a key"};
  for (const auto until = deadline_in(end_move_max); SteadyClock::now() < until && !cluster_.is_closing();) {
    const auto state = co_await load(bucket);
    if (state && ((*state)->phase != Phase::moving || (*state)->phase_who() != who)) {
      co_return fail(Errc::conditional_conflict, "rados: moving a key");
    }
    if (!state && state.error() == Errc::no_such_bucket) co_return std::unexpected(state.error());
    Result<bool> settled = fail(Errc::service_unavailable, "rados: moving a key");
    if (state) {
      auto settling = sent ? settle_move(*state) : undo_move(*state);
      settled = co_await std::move(settling);
    }
    if (settled) co_return settled;
    failed = settled.error();
    co_await pause(rest);
    rest = std::min(2 * rest, end_move_rest_max);
  }
  co_return std::unexpected(failed);
}

Task<Result<std::map<std::string, std::string>>> Registry::rows(std::string object, std::set<std::string> names) {
  auto reply = std::make_shared<OmapReply>();
  librados::ObjectReadOperation op;
  op.omap_get_vals_by_keys(names, &reply->rows, &reply->rows_code);
  const int code = co_await cluster_.read(Pool::index, std::move(object), std::move(op), reply);
  std::map<std::string, std::string> found;
  if (code == -ENOENT) co_return found;
  if (code < 0) co_return std::unexpected(to_error(code, "rados: row"));
  for (auto& [name, value] : reply->rows) found.emplace(name, to_text(value));
  co_return found;
}

Task<Result<std::string>> Registry::row(std::string object, std::string name) {
  std::set<std::string> names(&name, &name + 1);
  VB_CO_ASSIGN(auto found, co_await rows(std::move(object), std::move(names)));
  const auto row = found.find(name);
  co_return row == found.end() ? std::string() : std::move(row->second);
}

Task<Result<std::string>> Registry::name_fence() {
  std::string object(root_object), name = names_fence_row;
  co_return co_await row(std::move(object), std::move(name));
}

// The bucket's number identifies this call and the next: the rows of that number are final.
Task<Result<bool>> Registry::give_name(std::string name, uint64_t bucket, std::string fence) {
  const std::string row = keys::bucket(name), object(root_object);
  librados::ObjectWriteOperation op;
  const std::string allowed = unnamed_row(bucket), removed = keys::tagged('x', bucket);
  const std::map<std::string, std::pair<Buffer, int>> expected = {
      {row, {Buffer(), LIBRADOS_CMPXATTR_OP_EQ}},
      {allowed, {to_buffer("u"), LIBRADOS_CMPXATTR_OP_EQ}},
      {names_fence_row, {to_buffer(fence), LIBRADOS_CMPXATTR_OP_EQ}}};
  op.omap_cmp(expected, nullptr);
  op.omap_rm_keys({allowed});
  const std::map<std::string, Buffer> set = {{row, to_buffer(keys::number(bucket))}};
  op.omap_set(set);
  const int code = co_await cluster_.write(Pool::index, object, std::move(op));
  if (code >= 0) co_return true;
  if (code != -ECANCELED) co_return std::unexpected(to_error(code, "rados: root"));
  std::set<std::string> names = {row, allowed, removed};
  VB_CO_ASSIGN(const auto now, co_await rows(object, std::move(names)));
  const auto is = [&now](const std::string& one, std::string_view value) {
    const auto found = now.find(one);
    return found != now.end() && found->second == value;
  };
  // It has the name, or had it.
  if (is(row, keys::number(bucket)) || is(removed, was_named)) co_return true;
  // It may still get one, or naming was forbidden.
  if (now.contains(allowed) || is(removed, never_named)) co_return false;
  co_return fail(Errc::service_unavailable, "The Ceph cluster did not say whether the bucket was made.");
}

Task<Result<bool>> Registry::forbid_name(uint64_t bucket) {
  librados::ObjectWriteOperation op;
  const std::string allowed = unnamed_row(bucket), removed = keys::tagged('x', bucket), object(root_object);
  const std::map<std::string, std::pair<Buffer, int>> expected = {{allowed, {to_buffer("u"), LIBRADOS_CMPXATTR_OP_EQ}}};
  op.omap_cmp(expected, nullptr);
  op.omap_rm_keys({allowed});
  const std::map<std::string, Buffer> set = {{removed, to_buffer(never_named)}};
  op.omap_set(set);
  const int code = co_await cluster_.write(Pool::index, object, std::move(op));
  if (code >= 0) co_return true;
  if (code != -ECANCELED) co_return std::unexpected(to_error(code, "rados: root"));
  // It has or had the name, or another server or an earlier execution of this call has forbidden naming, which the row
  // shows.
  VB_CO_ASSIGN(const std::string now, co_await this->row(object, removed));
  co_return now == never_named;
}

Task<Result<void>> Registry::forget_name(std::string name, uint64_t bucket) {
  const std::string row = keys::bucket(name), object(root_object);
  librados::ObjectWriteOperation op;
  const std::map<std::string, std::pair<Buffer, int>> expected = {
      {row, {to_buffer(keys::number(bucket)), LIBRADOS_CMPXATTR_OP_EQ}}};
  op.omap_cmp(expected, nullptr);
  op.omap_rm_keys({row});
  const std::map<std::string, Buffer> set = {{keys::tagged('x', bucket), to_buffer(was_named)},
                                             {names_fence_row, to_buffer(keys::number(random_number()))}};
  op.omap_set(set);
  const int code = co_await cluster_.write(Pool::index, object, std::move(op));
  forget(bucket);
  // Another server has completed the removal.
  if (code < 0 && code != -ECANCELED) co_return std::unexpected(to_error(code, "rados: root"));
  co_return Result<void>{};
}

Task<Result<uint64_t>> Registry::take_number(For what) {
  const std::string object(root_object);
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    VB_CO_ASSIGN(auto rows, co_await all(object, "next"));
    const auto row = rows.find("next");
    const std::string seen = row == rows.end() ? "" : row->second;
    const uint64_t number = keys::parse_number(seen).value_or(1);
    librados::ObjectWriteOperation op;
    const std::map<std::string, std::pair<Buffer, int>> expected = {
        {"next", {to_buffer(seen), LIBRADOS_CMPXATTR_OP_EQ}}};
    op.omap_cmp(expected, nullptr);
    std::map<std::string, Buffer> next = {{"next", to_buffer(keys::number(number + 1))}};
    if (what == For::bucket) next.emplace(unnamed_row(number), to_buffer("u"));
    op.omap_set(next);
    const int code = co_await cluster_.write(Pool::index, object, std::move(op));
    if (code >= 0) co_return number;
    if (code != -ECANCELED) co_return std::unexpected(to_error(code, "rados: root"));
  }
  co_return fail(Errc::slow_down, "rados: root");
}

}  // namespace verbena::store::rados
