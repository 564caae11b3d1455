#include "store/rados/catalogue.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/log.h"
#include "base/metrics.h"
#include "store/logic/keys.h"
#include "store/logic/open.h"
#include "store/nothing_at_hand.h"

namespace verbena::store::rados {
namespace {

using Pool = Cluster::Pool;

constexpr std::chrono::seconds look_max{30}, change_max{30};
constexpr int lost_together_max = 2;  // lost races in a batch before a change is sent alone
constexpr int bucket_attempts_max = 50;

bool would_block(const Result<void>& result) { return !result && result.error() == Errc::would_block; }

// A version token differed, or the tablet is gone.
bool lost_race(int code) { return code == -ECANCELED || code == -ENOENT || code == -ENODATA; }

// Whether the outcome is known.
bool is_certain(const Result<void>& done) {
  return done || done.error() == Errc::conditional_conflict || done.error() == Errc::no_such_bucket;
}

InFlightChanges::Planned planned_of(const BucketState& bucket) {
  const BucketInfo& info = bucket.record.info;
  return {.bucket = bucket.id, .epoch = bucket.epoch, .name = info.name, .owner = info.owner};
}

bool begins_versioning(const BucketState& bucket, std::string_view record) {
  const auto then = decode_bucket(record);
  return bucket.record.info.versioning == Versioning::off && then && then->info.versioning != Versioning::off;
}

StripeWriter* blob_of(const Change& change) { return static_cast<StripeWriter*>(change.blob.get()); }

// Runs the judge over fetched rows until it has all rows that it needs.
Task<Result<void>> judge_all(const Judge& judge, Rows& rows, Ids& ids, const WallClock& clock,
                             std::unique_ptr<KeyTransaction>& judged) {
  for (;;) {
    judged = std::make_unique<KeyTransaction>(rows, ids, clock.now_us());
    auto done = judged->run(judge, /*blob=*/nullptr);
    if (!would_block(done)) co_return done;
    VB_CO_TRY(co_await rows.fetch());
  }
}

}  // namespace

View& RadosCatalogue::at_hand(const Place&) {
  static NothingAtHand nothing;
  return nothing;
}

Task<Result<void>> RadosCatalogue::read(const char*, Place place, Look look) {
  Rows rows(registry_, place, garbage_.hold(), /*with_bytes=*/true);
  const auto until = deadline_in(look_max);
  for (;;) {
    auto done = look(rows);
    if (!would_block(done)) co_return done;
    if (SteadyClock::now() > until) co_return fail(Errc::slow_down, "rados: look");
    VB_CO_TRY(co_await rows.fetch());
  }
}

Task<Result<void>> RadosCatalogue::commit(Change change) {
  if (!fresh_()) co_return fail(Errc::service_unavailable, "This server's view of the buckets may be out of date.");
  if (change.place.bucket == 0) co_return co_await create_bucket(change);
  if (change.place.key.empty()) co_return co_await commit_bucket(change);
  VB_CO_TRY(co_await learn(change.place.bucket));
  co_return co_await commit_key(change);
}

// A change of a key uses the bucket's current record, which other servers may have served already.
Task<Result<void>> RadosCatalogue::learn(uint64_t bucket) {
  if (!in_flight_.has_intent(bucket)) co_return Result<void>{};
  const auto now = co_await registry_.load(bucket);
  if (!now) co_return std::unexpected(now.error());
  co_return Result<void>{};
}

Task<Result<void>> RadosCatalogue::commit_key(Change& change) {
  if (change.takes_space && garbage_.full()) co_return std::unexpected(to_error(-ENOSPC, "rados: full"));
  KeyLocks::Name name(change.place.bucket, change.place.key);
  VB_CO_ASSIGN(const KeyLocks::Held held, co_await locks_.take(std::move(name)));
  Rows rows(registry_, change.place, nullptr, /*with_bytes=*/false);
  rows.ask_fence();
  const auto until = deadline_in(change_max);
  int lost = 0;
  do {
    VB_CO_ASSIGN(const Attempt attempt, co_await try_key(change, rows, lost));
    if (attempt == Attempt::done) co_return Result<void>{};
  } while (SteadyClock::now() < until);
  co_return fail(Errc::slow_down, "rados: the key is changed too often");
}

Task<Result<Attempt>> RadosCatalogue::try_key(Change& change, Rows& rows, int& lost) {
  if (!rows.bucket()) co_return fail(Errc::no_such_bucket);
  KeyTransaction judged(rows, ids_, clock_.now_us());
  const auto verdict = judged.run(change.judge, change.blob.get());
  // Before the version token is fetched nothing is known; the call that fetches it also checks the bucket's epoch.
  if (would_block(verdict) || !rows.version_token()) {
    rows.ask_version_token();
    VB_CO_TRY(co_await rows.fetch());
    co_return Attempt::again;
  }
  // Keeps a blob that the key already names.
  if (judged.contradicts()) blob_of(change)->keep();
  if (!verdict) co_return std::unexpected(verdict.error());
  const BucketPtr bucket = rows.bucket();
  const std::string guarded = version_token_row(rows.place().key);
  const Tablet& tablet = bucket->tablets[bucket->tablet_of(guarded)];
  if (!bucket->may_change(tablet)) {
    VB_CO_ASSIGN(BucketPtr now, co_await registry_.writable(bucket, guarded));
    rows.forget();
    rows.set_bucket(std::move(now));
    co_return Attempt::again;
  }
  if (judged.empty()) {
    judged.run_effects();
    co_return Attempt::done;
  }
  if (judged.needs_version_token()) {
    VB_CO_TRY(co_await give_version_token(rows, tablet));
    co_return Attempt::again;
  }
  VB_CO_ASSIGN(Part part, judged.part());
  const StripeWriter* const blob = blob_of(change);
  if (blob != nullptr && blob->in_stripes()) {
    const bool allowed = co_await garbage_.may_name(blob->life(), bucket->read_at);
    if (!allowed) {
      co_return fail(Errc::service_unavailable,
                     "The server lost contact with the cluster for too long: what it wrote last may be gone.");
    }
  }
  if (blob != nullptr && blob->in_index()) {
    std::string value = encode_inline(as_bytes(blob->small()));
    part.bytes += value.size();
    part.sets.insert_or_assign(inline_row(rows.place().key, blob->id()), std::move(value));
  }
  if (part.sets_end) VB_CO_TRY(co_await ends_.mark(bucket->id));
  VB_CO_TRY(co_await tell_holders(rows));
  const uint64_t written = part.sets.size();
  Batcher::Target target{tablet.object, bucket->id, bucket->epoch_text};
  const auto outcome =
      co_await batcher_.commit(std::move(target), std::move(part), /*alone=*/lost >= lost_together_max);
  if (lost_race(outcome.code)) ++lost;
  const auto settled = co_await settle(change, rows, outcome);
  // Its events are in the tablet, too, if it was made and not answered.
  if (settled ? *settled == Attempt::done : outcome.unsure) {
    for (const std::string& queue : judged.queues()) events_.left(queue, bucket->id);
  }
  VB_CO_ASSIGN(const Attempt attempt, settled);
  if (attempt == Attempt::again) co_return attempt;
  garbage_.add(tablet.object, judged.dead());
  splitter_.count(bucket->id, tablet.number, written);
  judged.run_effects();
  co_return Attempt::done;
}

// The version token of a key whose object was removed long ago has been swept, and uploads of the key may still be
// open. Creates a version token, which covers everything judged from now on. Older servers remove the version token
// with the object.
Task<Result<void>> RadosCatalogue::give_version_token(Rows& rows, const Tablet& tablet) {
  const BucketPtr bucket = rows.bucket();
  const std::string row = version_token_row(rows.place().key);
  Part part;
  VB_CO_ASSIGN(const uint64_t greatest, rows.greatest_id());
  part.version_tokens.emplace(row, "");
  part.fence = rows.fence();
  const std::string version_token = encode(VersionToken{.last_id = greatest, .token = random_number()});
  part.sets.emplace(row, version_token);
  part.sets.emplace(tombstone_row(clock_.now_us(), rows.place().key), version_token);  // in case no change follows
  part.bytes = row.size();
  Batcher::Target target{tablet.object, bucket->id, bucket->epoch_text};
  const auto outcome = co_await batcher_.commit(std::move(target), std::move(part), /*alone=*/true);
  rows.forget();
  if (outcome.code < 0 && !lost_race(outcome.code)) {
    co_return std::unexpected(to_error(outcome.code, "rados: a key's version token"));
  }
  co_return Result<void>{};
}

// When this returns, no other server serves the key's current state from memory, unless the version token has changed;
// in that case the change fails.
Task<Result<void>> RadosCatalogue::tell_holders(const Rows& rows) {
  std::string key(rows.place().key), version_token = *rows.version_token();
  co_return co_await read_leases_.tell(rows.place().bucket, std::move(key), std::move(version_token));
}

Task<Result<std::shared_ptr<ObjectReader>>> RadosCatalogue::open_unless(Blobs& blobs,
                                                                        std::shared_ptr<const Bucket> bucket,
                                                                        std::string key, uint64_t stamp) {
  const Place place{bucket->id, key};
  Rows rows(registry_, place, garbage_.hold(), /*with_bytes=*/false);
  rows.ask_version_token();
  (void)rows.get(Table::objects, keys::object(bucket->id, key));  // fetched in the same call, in case it has changed
  VB_CO_TRY(co_await rows.fetch());
  VB_CO_ASSIGN(const VersionToken version_token, decode_version_token(*rows.version_token()));
  if (version_token.token == stamp) co_return nullptr;
  const auto until = deadline_in(look_max);
  for (;;) {
    auto opened = open_object(blobs, rows, *bucket, {key, {}});
    if (opened || !(opened.error() == Errc::would_block)) co_return opened;
    if (SteadyClock::now() > until) co_return fail(Errc::slow_down, "rados: look");
    VB_CO_TRY(co_await rows.fetch());
  }
}

Task<Result<void>> RadosCatalogue::keep(uint64_t bucket, std::string key, uint64_t stamp, uint64_t holder) {
  if (!fresh_() || garbage_.full()) co_return fail(Errc::service_unavailable, "rados: not now");
  // A change of the key in progress would end the lease anyway.
  const auto held = locks_.try_take({bucket, key});
  if (!held) co_return fail(Errc::slow_down, "rados: the key is being changed");
  const Place place{bucket, key};
  Rows rows(registry_, place, nullptr, /*with_bytes=*/false);
  rows.ask_version_token();
  VB_CO_TRY(co_await rows.fetch());
  const std::string row = version_token_row(key), seen = *rows.version_token();
  VB_CO_ASSIGN(VersionToken version_token, decode_version_token(seen));
  if (version_token.token != stamp) co_return fail(Errc::conditional_conflict, "rados: the key has changed");
  std::erase_if(version_token.leases,
                [&](const ReadLease& lease) { return lease.holder == holder || read_leases_.is_over(lease.holder); });
  if (version_token.room() == 0)
    co_return fail(Errc::limit_exceeded, "rados: the key has as many read leases as it may");
  version_token.leases.push_back({holder, random_number()});
  const BucketPtr state = rows.bucket();
  const Tablet& tablet = state->tablets[state->tablet_of(row)];
  if (!state->may_change(tablet)) co_return fail(Errc::slow_down, "rados: the bucket is being changed");
  Part part;
  part.version_tokens.emplace(row, seen);
  part.sets.emplace(row, encode(version_token));
  part.bytes = row.size() + seen.size();
  Batcher::Target target{tablet.object, state->id, state->epoch_text};
  // Sent alone: another server may have changed the key, and other keys' changes must not fail with it.
  const auto outcome = co_await batcher_.commit(std::move(target), std::move(part), /*alone=*/true);
  if (outcome.code < 0) co_return std::unexpected(to_error(outcome.code, "rados: keeping a key"));
  co_return Result<void>{};
}

// The outcome of the change. again: not made; judge again.
Task<Result<Attempt>> RadosCatalogue::settle(Change& change, Rows& rows, Batcher::Outcome outcome) {
  const bool made = outcome.code >= 0;
  if (outcome.unsure && outcome.code == -ENOENT) {
    const auto removed = co_await is_removed(rows.place().bucket);
    outcome.unsure = !removed || !*removed;
  }
  // A change of unknown outcome may still be made, or was made and overwritten: its bytes stay.
  if (StripeWriter* const blob = blob_of(change); blob != nullptr && (made || outcome.unsure)) blob->keep();
  if (made) co_return Attempt::done;
  rows.forget();
  if (outcome.unsure) {
    const bool barred = co_await late_calls_.bar(rows.place().bucket, rows.bucket()->epoch);
    if (!barred) log::warn("rados: bucket {}: a change that was not answered may still come", rows.place().bucket);
    co_return fail(Errc::service_unavailable, "The Ceph cluster did not say whether the change was made.");
  }
  if (lost_race(outcome.code)) co_return Attempt::again;
  co_return std::unexpected(to_error(outcome.code, "rados: commit"));
}

// The tablet's object had gone when the call was sent once more. With its bucket: so is whatever the call may have
// made. Else the tablet was joined with another one, which has it.
Task<Result<bool>> RadosCatalogue::is_removed(uint64_t bucket) {
  const auto state = co_await registry_.load(bucket);
  if (state) co_return false;
  if (state.error() == Errc::no_such_bucket) co_return true;
  co_return std::unexpected(state.error());
}

Task<Result<void>> RadosCatalogue::commit_pair(Change change, std::string from, std::string to) {
  if (!fresh_()) co_return fail(Errc::service_unavailable, "This server's view of the buckets may be out of date.");
  if (change.takes_space && garbage_.full()) co_return std::unexpected(to_error(-ENOSPC, "rados: full"));
  const uint64_t bucket = change.place.bucket;
  VB_CO_TRY(co_await learn(bucket));
  // Locks in the order of the keys, to avoid deadlocks.
  KeyLocks::Name first(bucket, std::min(from, to)), second(bucket, std::max(from, to));
  VB_CO_ASSIGN(const KeyLocks::Held held, co_await locks_.take(std::move(first)));
  std::optional<KeyLocks::Held> held_too;
  if (from != to) {
    VB_CO_ASSIGN(KeyLocks::Held other, co_await locks_.take(std::move(second)));
    held_too.emplace(std::move(other));
  }
  Pair pair(registry_, bucket, from, to);
  const auto until = deadline_in(change_max);
  int lost = 0;
  do {
    VB_CO_ASSIGN(const Attempt attempt, co_await try_pair(change, pair, lost));
    if (attempt == Attempt::done) co_return Result<void>{};
  } while (SteadyClock::now() < until);
  co_return fail(Errc::slow_down, "rados: the keys are changed too often");
}

Task<Result<Attempt>> RadosCatalogue::try_pair(Change& change, Pair& pair, int& lost) {
  Rows &from = pair.from, &to = pair.to;
  if (!from.bucket() || !to.bucket()) co_return fail(Errc::no_such_bucket);
  if (from.bucket()->epoch != to.bucket()->epoch) {
    const BucketPtr newer = from.bucket()->epoch > to.bucket()->epoch ? from.bucket() : to.bucket();
    pair.forget(newer);
  }
  PairTransaction judged(from, to, ids_, clock_.now_us());
  auto verdict = judged.run(change.judge, change.blob.get());
  if (verdict) verdict = judged.follow();
  if (would_block(verdict) || !from.version_token() || !to.version_token()) {
    from.ask_version_token();
    to.ask_version_token();
    VB_CO_TRY(co_await from.fetch());
    VB_CO_TRY(co_await to.fetch());
    co_return Attempt::again;
  }
  // A commit would verify that both states existed at once. Without a commit it must be checked.
  if (!verdict || judged.empty()) {
    VB_CO_ASSIGN(const bool at_once, co_await were_so_at_once(pair));
    if (!at_once) co_return Attempt::again;
  }
  if (!verdict) co_return std::unexpected(verdict.error());
  if (judged.empty()) {
    judged.run_effects();
    co_return Attempt::done;
  }
  const BucketPtr bucket = from.bucket();
  const Tablet& source = bucket->tablets[bucket->tablet_of(version_token_row(from.place().key))];
  const Tablet& target = bucket->tablets[bucket->tablet_of(version_token_row(to.place().key))];
  const bool together = source.number == target.number;
  // A move is a phase of the bucket, which has one at a time.
  const bool free = together ? bucket->may_change(source) : bucket->phase == Phase::live;
  if (!free) {
    std::string row = together ? version_token_row(from.place().key) : std::string();
    VB_CO_ASSIGN(const BucketPtr now, co_await registry_.writable(bucket, std::move(row)));
    pair.forget(now);
    co_return Attempt::again;
  }
  VB_CO_TRY(co_await tell_holders(from));
  VB_CO_TRY(co_await tell_holders(to));
  Task<Result<Attempt>> committing =
      together ? commit_together(change, pair, judged, source, lost) : move_between(pair, judged, source, target);
  VB_CO_ASSIGN(const Attempt attempt, co_await std::move(committing));
  if (attempt == Attempt::again) co_return attempt;
  garbage_.add(target.object, judged.dead());
  judged.run_effects();
  co_return Attempt::done;
}

// The source was read before the target: if it is unchanged now, both states existed when the target was read.
Task<Result<bool>> RadosCatalogue::were_so_at_once(Pair& pair) {
  const std::string seen = *pair.from.version_token();
  pair.from.ask_version_token();
  VB_CO_TRY(co_await pair.from.fetch());
  co_return *pair.from.version_token() == seen;
}

Task<Result<Attempt>> RadosCatalogue::commit_together(Change& change, Pair& pair, PairTransaction& judged,
                                                      const Tablet& tablet, int& lost) {
  VB_CO_ASSIGN(auto parts, judged.parts());
  Part part = PairTransaction::joined(std::move(parts));
  const BucketPtr bucket = pair.from.bucket();
  const uint64_t written = part.sets.size();
  Batcher::Target target{tablet.object, bucket->id, bucket->epoch_text};
  const auto outcome =
      co_await batcher_.commit(std::move(target), std::move(part), /*alone=*/lost >= lost_together_max);
  if (lost_race(outcome.code)) ++lost;
  VB_CO_ASSIGN(const Attempt attempt, co_await settle(change, pair.to, outcome));
  if (attempt == Attempt::again) pair.from.forget();
  if (attempt == Attempt::done) splitter_.count(bucket->id, tablet.number, written);
  co_return attempt;
}

// Two calls, which look atomic to all others: the two tablets are neither read nor changed meanwhile, and if this
// server dies another one finishes the move, or undoes it if the first call was not made.
Task<Result<Attempt>> RadosCatalogue::move_between(Pair& pair, PairTransaction& judged, const Tablet& source,
                                                   const Tablet& target) {
  static auto& moves = metrics::counter("verbena_rados_moves_total", "Objects that were renamed into another tablet");
  VB_CO_ASSIGN(auto parts, judged.parts());
  const std::string guarded = version_token_row(pair.from.place().key), seen = *pair.from.version_token();
  Move move;
  move.to = target.number;
  move.version_token_row = guarded;
  move.version_token_seen = seen;
  move.gone = parts.source.gone;
  move.sets = parts.source.sets;
  std::string left_to_do = encode(move);
  const uint64_t id = pair.from.bucket()->id;
  const std::string who = keys::number(random_number());
  const auto frozen =
      co_await registry_.set_phase(pair.from.bucket(), Phase::moving, source.number, std::move(left_to_do), who);
  if (!frozen) {
    // Its phase may have begun all the same.
    (void)co_await registry_.end_move(id, who, /*sent=*/false);
    if (!(frozen.error() == Errc::conditional_conflict)) co_return std::unexpected(frozen.error());
    VB_CO_ASSIGN(const BucketPtr now, co_await registry_.load(id));
    pair.forget(now);
    co_return Attempt::again;
  }
  const BucketPtr held = *frozen;
  // From here on the source cannot change. Checks whether it has changed since it was read.
  const auto now = co_await registry_.row(source.object, guarded);
  if (!now || *now != seen) {
    (void)co_await registry_.end_move(id, who, /*sent=*/false);
    if (!now) co_return std::unexpected(now.error());
    VB_CO_ASSIGN(const BucketPtr thawed, co_await registry_.load(id));
    pair.forget(thawed);
    co_return Attempt::again;
  }
  parts.target.sets.insert_or_assign(moved_row, held->phase_who());
  Batcher::Target into{target.object, id, held->epoch_text};
  const auto outcome = co_await batcher_.commit(std::move(into), std::move(parts.target), /*alone=*/true);
  Result<bool> moved = fail(Errc::conditional_conflict, "rados: moving a key");
  if (outcome.code >= 0) moved = co_await registry_.finish_move(held);
  Result<BucketPtr> thawed = fail(Errc::conditional_conflict, "rados: moving a key");
  if (moved && *moved) thawed = co_await registry_.set_phase(held, Phase::live);
  if (!thawed) {
    const auto ended = co_await registry_.end_move(id, who, /*sent=*/true);
    if (!moved || !*moved) moved = ended;
  }
  auto later = co_await registry_.load(id);
  if (later) later = co_await registry_.writable(*later, "");
  // What was made is told as made, whatever fails after it: a client repeats what was answered with SlowDown.
  if (outcome.code >= 0 || (moved && *moved)) {
    moves.add();
    co_return Attempt::done;  // perhaps by another server, which does the second half if it finds the first one done
  }
  if (!moved) co_return fail(Errc::service_unavailable, "The Ceph cluster did not say whether the change was made.");
  if (!later) co_return std::unexpected(later.error());
  pair.forget(*later);
  co_return Attempt::again;
}

Task<Result<void>> RadosCatalogue::commit_bucket(Change& change) {
  if (change.takes_space && garbage_.full()) co_return std::unexpected(to_error(-ENOSPC, "rados: full"));
  InFlightChanges::OwnChange own;
  auto done = co_await change_bucket(change, own);
  co_return co_await in_flight_.after(own, std::move(done));
}

Task<Result<void>> RadosCatalogue::change_bucket(Change& change, InFlightChanges::OwnChange& own) {
  for (int attempt = 0; attempt < bucket_attempts_max; ++attempt) {
    const auto done = co_await try_bucket(change, own);
    if (!done && done.error() == Errc::conditional_conflict) continue;  // lost a race to another server
    co_return done;
  }
  co_return fail(Errc::slow_down, "rados: the bucket is changed too often");
}

// Every server, also this one, reloads the bucket after the change, instead of applying effects, which could arrive
// late and undo later changes.
Task<Result<void>> RadosCatalogue::try_bucket(Change& change, InFlightChanges::OwnChange& own) {
  VB_CO_ASSIGN(BucketPtr bucket, co_await registry_.load(change.place.bucket));
  VB_CO_ASSIGN(bucket, co_await registry_.writable(bucket, ""));
  Rows rows(registry_, change.place, nullptr, /*with_bytes=*/false);
  rows.set_bucket(bucket);
  std::unique_ptr<KeyTransaction> judged;
  VB_CO_TRY(co_await judge_all(change.judge, rows, ids_, clock_, judged));
  if (judged->changes_objects()) co_return fail(Errc::internal, "rados: a change of objects without a key");
  if (judged->abandoned()) {
    co_return co_await remove_bucket(change, bucket, own);
  }
  std::map<std::string, Buffer> sets;
  std::set<std::string> gone;
  bool record = false;
  InFlightChanges::Planned planned = planned_of(*bucket);
  for (const auto& [key, value] : judged->written(Table::meta)) {
    const bool is_record = key.starts_with('b');
    const std::string name = is_record ? "r" : "c" + key.substr(9);
    record |= is_record;
    if (is_record && value) planned.renames = begins_versioning(*bucket, *value);
    if (value) {
      sets.emplace(name, to_buffer(*value));
    } else {
      gone.insert(name);
    }
  }
  // Older servers change documents without raising the epoch, so the documents that the judge read are compared too;
  // omap_cmp treats a missing row as empty.
  std::map<std::string, std::pair<Buffer, int>> seen;
  for (const auto& [name, row] : rows.documents()) {
    seen.emplace(name, std::pair(to_buffer(row.value_or("")), LIBRADOS_CMPXATTR_OP_EQ));
  }
  Registry::Fill fill = [&sets, &gone, &seen](librados::ObjectWriteOperation& op) {
    if (!seen.empty()) op.omap_cmp(seen, nullptr);
    if (!gone.empty()) op.omap_rm_keys(gone);
    if (!sets.empty()) op.omap_set(sets);
  };
  VB_CO_TRY(co_await in_flight_.before(own, std::move(planned)));
  own.unsure = true;
  Result<void> changed;
  if (record) {
    const auto now = co_await registry_.change(bucket, std::move(fill));
    if (!now) changed = std::unexpected(now.error());
  } else {
    changed = co_await registry_.change_object(bucket, std::move(fill));
  }
  own.unsure = !is_certain(changed);
  co_return changed;
}

// Rows cannot change while the bucket is checked for being empty; then the removal is decided in the bucket's object,
// and only then the name is freed.
Task<Result<void>> RadosCatalogue::remove_bucket(Change& change, BucketPtr bucket, InFlightChanges::OwnChange& own) {
  InFlightChanges::Planned planned = planned_of(*bucket);
  ++planned.epoch;  // the phase has its own epoch
  VB_CO_TRY(co_await in_flight_.before(own, std::move(planned)));
  VB_CO_ASSIGN(BucketPtr frozen, co_await registry_.set_phase(bucket, Phase::removing));
  Rows rows(registry_, change.place, nullptr, /*with_bytes=*/false);
  rows.set_bucket(frozen);
  std::unique_ptr<KeyTransaction> judged;
  auto verdict = co_await judge_all(change.judge, rows, ids_, clock_, judged);
  if (!verdict) {
    (void)co_await registry_.set_phase(frozen, Phase::live);
    co_return verdict;
  }
  const std::string phase = std::string(1, static_cast<char>(Phase::removed)) + frozen->phase_text.substr(1);
  Registry::Fill decide = [&phase](librados::ObjectWriteOperation& op) {
    const std::map<std::string, Buffer> row = {{"p", to_buffer(phase)}};
    op.omap_set(row);
  };
  own.unsure = true;
  const auto decided = co_await registry_.change_object(frozen, std::move(decide));
  own.unsure = !is_certain(decided);
  VB_CO_TRY(Result<void>(decided));
  VB_CO_TRY(co_await registry_.forget_name(frozen->record.info.name, frozen->id));
  book_.forget(frozen->id);
  garbage_.sweep(frozen->id);
  co_return Result<void>{};
}

Task<Result<void>> RadosCatalogue::create_bucket(Change& change) {
  if (garbage_.full()) co_return std::unexpected(to_error(-ENOSPC, "rados: full"));
  NewBucket bucket;
  auto done = co_await make_bucket(change, bucket);
  if (!done && !bucket.own.unsure) co_await leave(bucket);
  co_return co_await in_flight_.after(bucket.own, std::move(done));
}

// Objects that nothing names or will name.
Task<> RadosCatalogue::leave(NewBucket& bucket) {
  if (bucket.id == 0) co_return;
  const auto forbidden = co_await registry_.forbid_name(bucket.id);
  if (forbidden && *forbidden && bucket.made) garbage_.sweep(bucket.id);
  bucket.id = 0;
  bucket.made = false;
}

Task<Result<void>> RadosCatalogue::make_bucket(Change& change, NewBucket& bucket) {
  Rows rows(registry_, change.place, nullptr, /*with_bytes=*/false);
  for (int attempt = 0; attempt < bucket_attempts_max; ++attempt) {
    VB_CO_ASSIGN(const Attempt outcome, co_await try_create(change, rows, bucket));
    if (outcome == Attempt::done) co_return Result<void>{};
  }
  co_return fail(Errc::slow_down, "rados: buckets are created too often");
}

Task<Result<Attempt>> RadosCatalogue::try_create(Change& change, Rows& rows, NewBucket& bucket) {
  if (!bucket.fence) {
    VB_CO_ASSIGN(bucket.fence, co_await registry_.name_fence());
  }
  KeyTransaction judged(rows, ids_, clock_.now_us());
  judged.set_bucket_id(bucket.id);
  const auto verdict = judged.run(change.judge, /*blob=*/nullptr);
  if (would_block(verdict) && judged.wants_bucket_id()) {
    VB_CO_ASSIGN(bucket.id, co_await registry_.take_number(Registry::For::bucket));
    co_return Attempt::again;
  }
  if (would_block(verdict)) {
    VB_CO_TRY(co_await rows.fetch());
    co_return Attempt::again;
  }
  if (!verdict) co_return std::unexpected(verdict.error());
  const auto& [name, row] = *judged.written(Table::meta).begin();
  VB_CO_ASSIGN(const BucketRecord record, decode_bucket(*row));
  bucket.made = true;
  VB_CO_TRY(co_await registry_.make(bucket.id, *row));
  InFlightChanges::Planned planned{.bucket = bucket.id, .name = record.info.name, .owner = record.info.owner};
  VB_CO_TRY(co_await in_flight_.before(bucket.own, std::move(planned)));
  bucket.own.unsure = true;
  VB_CO_ASSIGN(const bool named, co_await registry_.give_name(name.substr(1), bucket.id, *bucket.fence));
  bucket.own.unsure = false;
  if (!named) {
    co_await leave(bucket);
    rows.forget();
    bucket.fence.reset();
  }
  co_return named ? Attempt::done : Attempt::again;
}

}  // namespace verbena::store::rados
