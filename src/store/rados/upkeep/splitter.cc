#include "store/rados/upkeep/splitter.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "base/metrics.h"
#include "store/logic/keys.h"
#include "store/logic/rename.h"
#include "store/rados/rows/change.h"
#include "store/rados/rows/usage_book.h"

namespace verbena::store::rados {
namespace {

using Pool = Cluster::Pool;

constexpr uint64_t looks_per_size = 4;   // row counts while a tablet fills up
constexpr int purge_attempts_max = 100;  // each continues where the previous one ended
constexpr size_t keys_kept_max = 1024;   // to choose the middle
constexpr int undo_attempts_max = 12;    // some 20 s: later another server does it
constexpr std::chrono::milliseconds undo_again_after{200}, undo_rest_max{2'000};  // doubled each time

// The start of the next tablet's rows of that letter; nullopt: none.
std::optional<std::string> end_of(const BucketState& bucket, size_t tablet, char letter) {
  if (tablet + 1 >= bucket.tablets.size()) return std::nullopt;
  return first_row(letter, bucket.tablets[tablet + 1].low);
}

bool is_behind(const BucketState& bucket, size_t tablet, std::string_view key) {
  return tablet + 1 < bucket.tablets.size() && key >= bucket.tablets[tablet + 1].low;
}

bool is_being_joined(const BucketState& bucket, size_t tablet) {
  const bool joins = bucket.phase == Phase::joining || bucket.phase == Phase::closing;
  return joins && bucket.is_one_of_two(bucket.tablets[tablet]);
}

// Keeps every second one.
void thin_out(std::vector<std::string>& keys) {
  size_t kept = 0;
  for (size_t i = 0; i < keys.size(); i += 2) keys[kept++] = std::move(keys[i]);
  keys.resize(kept);
}

// Keys at equal distances, of as many as come, in order.
struct KeySample {
  uint64_t came = 0, step = 1;
  std::vector<std::string> keys{};
  void add(std::string key) {
    if (came++ % step != 0) return;
    keys.push_back(std::move(key));
    if (keys.size() < keys_kept_max) return;
    thin_out(keys);
    step *= 2;
  }
};

// The key of a version token's row: each key with rows has one.
std::optional<std::string> key_of_token_row(std::string_view row) {
  const auto parsed = keys::parse_upload(std::string(9, 'u').append(row.substr(1)));
  return parsed ? std::optional(parsed->first) : std::nullopt;
}

}  // namespace

size_t find_tablet(const BucketState& bucket, uint64_t number) {
  const auto found = std::ranges::find(bucket.tablets, number, &Tablet::number);
  return static_cast<size_t>(found - bucket.tablets.begin());
}

void Splitter::count(uint64_t bucket, uint64_t tablet, uint64_t rows) {
  const Name name(bucket, tablet);
  const std::lock_guard lock(mutex_);
  uint64_t& written = written_[name];
  written += rows;
  if (stopping_ || !registry_.cluster().may_write() || written < std::max<uint64_t>(rows_max_ / looks_per_size, 1) ||
      looking_.contains(name))
    return;
  written = 0;
  looking_.insert(name);
  boost::asio::co_spawn(io_, look(name), boost::asio::detached);
}

void Splitter::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
}

Task<> Splitter::look(Name name) {
  if (auto looked = co_await look_at(name); !looked && !(looked.error() == Errc::no_such_bucket)) {
    log::info("rados: a tablet was not split for now: {}", describe(looked.error()));
  }
  const std::lock_guard lock(mutex_);
  looking_.erase(name);
  if (written_[name] == 0) written_.erase(name);
}

Task<Result<void>> Splitter::look_at(Name name) {
  VB_CO_ASSIGN(BucketPtr bucket, co_await registry_.load(name.first));
  const size_t tablet = find_tablet(*bucket, name.second);
  if (tablet == bucket->tablets.size()) co_return Result<void>{};
  VB_CO_ASSIGN(Found found, co_await survey(bucket, tablet));
  if (found.left_over) VB_CO_TRY(co_await purge(bucket, name.second));
  if (found.rows <= rows_max_ / looks_per_size && small_) co_return co_await small_(name.first, name.second);
  if (found.rows <= rows_max_ || found.keys.size() < 2) co_return Result<void>{};
  const std::string middle = found.keys[found.keys.size() / 2];
  VB_CO_ASSIGN(bucket, co_await registry_.writable(bucket, ""));
  const size_t now = find_tablet(*bucket, name.second);
  if (now == bucket->tablets.size() || middle <= bucket->tablets[now].low) co_return Result<void>{};
  if (const auto end = end_of(*bucket, now, 'o'); end && "o" + middle >= *end) co_return Result<void>{};
  co_return co_await split(bucket, now, middle);
}

Task<Result<Splitter::Found>> Splitter::survey(BucketPtr bucket, size_t tablet) {
  Found found;
  struct Reply {
    std::set<std::string> keys;
    bool more = false;
    int code = 0;
  };
  KeySample objects, all;
  for (std::string after;;) {
    auto reply = std::make_shared<Reply>();
    librados::ObjectReadOperation op;
    op.omap_get_keys2(after, 1000, &reply->keys, &reply->more, &reply->code);
    const int code =
        co_await registry_.cluster().read(Pool::index, bucket->tablets[tablet].object, std::move(op), reply);
    if (code < 0) co_return std::unexpected(to_error(code, "rados: tablet"));
    for (const std::string& row : reply->keys) {
      after = row;
      if (const auto ended = parse_stored_end_row(row)) {
        const bool behind = is_behind(*bucket, tablet, ended->key);
        found.left_over |= behind;
        if (!behind) ++found.rows;
      }
      if (!tablet_letters.contains(row.front())) continue;  // rows of no key, which a split leaves in place
      const auto end = end_of(*bucket, tablet, row.front());
      if (end && row >= *end) {
        found.left_over = true;
        continue;
      }
      ++found.rows;
      if (row.front() == 'o') objects.add(row.substr(1));
      if (row.front() != 'g') continue;
      if (auto key = key_of_token_row(row)) all.add(std::move(*key));
    }
    if (reply->more && !reply->keys.empty()) continue;
    // Most keys may have removed objects with versions, or open uploads.
    found.keys = std::move(2 * objects.came < all.came ? all.keys : objects.keys);
    co_return found;
  }
}

Task<Result<uint64_t>> Splitter::count_rows(BucketPtr bucket, size_t tablet, uint64_t most) {
  uint64_t rows = 0;
  for (const char letter : tablet_letters) {
    const auto end = end_of(*bucket, tablet, letter);
    for (std::string after;;) {
      VB_CO_ASSIGN(auto page, co_await registry_.page(bucket->tablets[tablet].object, after, std::string(1, letter)));
      for (const auto& [row, value] : page->rows) {
        after = row;
        if (!end || row < *end) ++rows;
      }
      if (rows > most) co_return rows;
      if (!page->more || page->rows.empty() || (end && after >= *end)) break;
    }
  }
  co_return rows;
}

Task<Result<std::shared_ptr<OmapReply>>> Splitter::rows_from(std::string object, std::string start, std::string after) {
  if (!after.empty()) co_return co_await registry_.page(object, after, start.substr(0, 1));
  // Pages begin after a row; this one may begin with the row `start` itself.
  VB_CO_ASSIGN(auto page, co_await registry_.page(object, start, start.substr(0, 1)));
  std::set<std::string> name(&start, &start + 1);
  VB_CO_ASSIGN(auto first, co_await rows_named(object, std::move(name)));
  page->rows.merge(first->rows);
  co_return page;
}

Task<Result<std::shared_ptr<OmapReply>>> Splitter::rows_named(std::string object, std::set<std::string> names) {
  auto found = std::make_shared<OmapReply>();
  librados::ObjectReadOperation op;
  op.omap_get_vals_by_keys(names, &found->rows, &found->rows_code);
  const int code = co_await registry_.cluster().read(Pool::index, std::move(object), std::move(op), found);
  if (code < 0) co_return std::unexpected(to_error(code, "rados: tablet"));
  co_return found;
}

// Guarded by that tablet's epoch until its rows are in use, so that no late call overwrites new rows with old ones.
Task<Result<void>> Splitter::put_rows(BucketPtr frozen, std::string to, std::shared_ptr<OmapReply> page) {
  librados::ObjectWriteOperation op;
  op.cmpxattr(epoch_attribute, LIBRADOS_CMPXATTR_OP_EQ, to_buffer(frozen->epoch_text));
  op.omap_set(page->rows);
  const int code = co_await registry_.cluster().write(Pool::index, std::move(to), std::move(op), 1 * MiB);
  if (code < 0) co_return std::unexpected(to_error(code, "rados: new tablet"));
  co_return Result<void>{};
}

Task<Result<void>> Splitter::copy_keys(BucketPtr frozen, size_t tablet, std::string key, std::string to) {
  const std::string from = frozen->tablets[tablet].object;
  for (const char letter : tablet_letters) {
    const auto end = end_of(*frozen, tablet, letter);
    for (std::string after;;) {
      VB_CO_ASSIGN(auto page, co_await rows_from(from, first_row(letter, key), after));
      const bool more = page->more && !page->rows.empty();
      if (more) after = page->rows.rbegin()->first;
      if (end) page->rows.erase(page->rows.lower_bound(*end), page->rows.end());
      if (page->rows.empty()) break;
      VB_CO_TRY(co_await put_rows(frozen, to, page));
      if (!more) break;
    }
  }
  co_return Result<void>{};
}

Task<Result<void>> Splitter::copy(BucketPtr frozen, size_t tablet, std::string key, std::string to) {
  const std::string from = frozen->tablets[tablet].object;
  VB_CO_TRY(co_await copy_keys(frozen, tablet, key, to));
  VB_CO_TRY(co_await copy_ends(frozen, tablet, std::move(key), to));
  // The new tablet gets the fence too, because swept version tokens may be of its keys.
  std::set<std::string> fence = {fence_row};
  VB_CO_ASSIGN(auto found, co_await rows_named(from, std::move(fence)));
  if (!found->rows.empty()) VB_CO_TRY(co_await put_rows(frozen, to, found));
  co_return co_await copy_tokens(frozen, from, to);
}

Task<Result<void>> Splitter::copy_ends(BucketPtr frozen, size_t tablet, std::string key, std::string to) {
  const std::string from = frozen->tablets[tablet].object;
  for (std::string after;;) {
    VB_CO_ASSIGN(auto page, co_await registry_.page(from, after, std::string(ends_prefix)));
    if (page->rows.empty()) co_return Result<void>{};
    after = page->rows.rbegin()->first;
    const bool more = page->more;
    std::erase_if(page->rows, [&](const auto& row) {
      const auto end = parse_stored_end_row(row.first);
      return !end || end->key < key || is_behind(*frozen, tablet, end->key);
    });
    if (!page->rows.empty()) VB_CO_TRY(co_await put_rows(frozen, to, std::move(page)));
    if (!more) co_return Result<void>{};
  }
}

// Rename tokens do not show which tablet the source is in, so both get the tokens that are still valid.
Task<Result<void>> Splitter::copy_tokens(BucketPtr frozen, std::string from, std::string to) {
  const auto since = static_cast<uint64_t>(std::max<int64_t>(clock_.now_us() - rename_token_life_us, 0));
  for (std::string after = "a" + keys::number(since);;) {
    VB_CO_ASSIGN(auto page, co_await registry_.page(from, after, "a"));
    if (page->rows.empty()) break;
    after = page->rows.rbegin()->first;
    std::set<std::string> tokens;
    for (const auto& [row, value] : page->rows) tokens.insert("r" + row.substr(std::min<size_t>(row.size(), 9)));
    VB_CO_ASSIGN(auto found, co_await rows_named(from, std::move(tokens)));
    page->rows.merge(found->rows);
    VB_CO_TRY(co_await put_rows(frozen, to, page));
    if (!page->more) break;
  }
  co_return Result<void>{};
}

// Rows behind the tablet's end belong to another one, which has them. They are not read here once the tablet has the
// current epoch. While it is joined with the next one, they are what the join has copied: left to that one.
Task<Result<void>> Splitter::purge(BucketPtr bucket, uint64_t number) {
  const std::string object = tablet_object(bucket->id, number);
  for (int attempt = 0; attempt < purge_attempts_max; ++attempt) {
    VB_CO_ASSIGN(bucket, co_await registry_.refresh(bucket, object));
    const size_t tablet = find_tablet(*bucket, number);
    if (tablet + 1 >= bucket->tablets.size() || is_being_joined(*bucket, tablet)) co_return Result<void>{};
    VB_CO_ASSIGN(const Attempt outcome, co_await purge_at(bucket, tablet));
    if (outcome == Attempt::done) co_return Result<void>{};
  }
  // Others keep changing the bucket. The next row written here starts another attempt.
  const std::lock_guard lock(mutex_);
  written_[Name(bucket->id, number)] = rows_max_;
  co_return Result<void>{};
}

// again: the bucket's epoch has changed.
Task<Result<Attempt>> Splitter::purge_at(BucketPtr bucket, size_t tablet) {
  const std::string object = bucket->tablets[tablet].object;
  const std::string low = bucket->tablets[tablet + 1].low;
  for (const char letter : tablet_letters) {
    for (;;) {
      VB_CO_ASSIGN(auto page, co_await rows_from(object, first_row(letter, low), ""));
      if (page->rows.empty()) break;
      std::set<std::string> gone;
      for (const auto& [row, value] : page->rows) gone.insert(row);
      VB_CO_ASSIGN(const Attempt purged, co_await purge_rows(bucket, object, std::move(gone)));
      if (purged == Attempt::again) co_return purged;
    }
  }
  co_return co_await purge_ends(bucket, tablet);
}

Task<Result<Attempt>> Splitter::purge_ends(BucketPtr bucket, size_t tablet) {
  const std::string object = bucket->tablets[tablet].object;
  for (std::string after;;) {
    VB_CO_ASSIGN(auto page, co_await registry_.page(object, after, std::string(ends_prefix)));
    if (page->rows.empty()) co_return Attempt::done;
    after = page->rows.rbegin()->first;
    std::set<std::string> gone;
    for (const auto& [row, value] : page->rows) {
      const auto end = parse_stored_end_row(row);
      if (end && is_behind(*bucket, tablet, end->key)) gone.insert(row);
    }
    if (!gone.empty()) {
      VB_CO_ASSIGN(const Attempt purged, co_await purge_rows(bucket, object, std::move(gone)));
      if (purged == Attempt::again) co_return purged;
    }
    if (!page->more) co_return Attempt::done;
  }
}

// A join that was undone has left here what was counted in the next tablet (usage_book.h). The next attempt writes that
// anew. But when this tablet is split, that one is joined with another one, and both would be counted.
Task<Result<void>> Splitter::purge_usage(BucketPtr frozen, std::string object) {
  VB_CO_ASSIGN(const auto rows, co_await registry_.all(object, "$j"));
  std::set<std::string> left;
  for (const auto& [row, value] : rows) {
    if (!usage_counted_in(row, *frozen)) left.insert(row);
  }
  if (left.empty()) co_return Result<void>{};
  VB_CO_ASSIGN(const Attempt purged, co_await purge_rows(frozen, std::move(object), std::move(left)));
  if (purged == Attempt::again) co_return fail(Errc::conditional_conflict, "rados: the split was undone meanwhile");
  co_return Result<void>{};
}

Task<Result<Attempt>> Splitter::purge_rows(BucketPtr bucket, std::string object, std::set<std::string> gone) {
  librados::ObjectWriteOperation op;
  op.cmpxattr(epoch_attribute, LIBRADOS_CMPXATTR_OP_EQ, to_buffer(bucket->epoch_text));
  op.omap_rm_keys(gone);
  const int code = co_await registry_.cluster().write(Pool::index, std::move(object), std::move(op));
  if (code == -ECANCELED) co_return Attempt::again;
  if (code < 0) co_return std::unexpected(to_error(code, "rados: tablet"));
  co_return Attempt::done;
}

Task<Result<void>> Splitter::split(BucketPtr bucket, size_t tablet, std::string key) {
  static auto& splits = metrics::counter("verbena_rados_splits_total", "Tablets that became two");
  VB_CO_ASSIGN(const uint64_t number, co_await registry_.take_number());
  const uint64_t source = bucket->tablets[tablet].number;
  const std::string who = keys::number(random_number());
  auto named = co_await make_phases(bucket, source, std::move(key), number, who);
  if (named) {
    splits.add();
    co_return co_await purge(std::move(*named), source);
  }
  if (co_await undo(bucket->id, who)) co_await remove_unnamed(bucket->id, number);
  co_return std::unexpected(named.error());
}

Task<Result<BucketPtr>> Splitter::make_phases(BucketPtr bucket, uint64_t source, std::string key, uint64_t number,
                                              std::string who) {
  VB_CO_ASSIGN(BucketPtr frozen, co_await registry_.set_phase(bucket, Phase::splitting, source, "", std::move(who)));
  const std::string object = tablet_object(frozen->id, number);
  librados::ObjectWriteOperation made;
  made.create(true);
  // With an epoch from before the decision: nothing in it changes until the old tablet has the one from after it.
  made.setxattr(epoch_attribute, to_buffer(frozen->epoch_text));
  const int code = co_await registry_.cluster().write(Pool::index, object, std::move(made));
  if (code < 0) co_return std::unexpected(to_error(code, "rados: new tablet"));
  VB_CO_TRY(co_await copy(frozen, find_tablet(*frozen, source), key, object));
  VB_CO_TRY(co_await purge_usage(frozen, tablet_object(frozen->id, source)));
  Registry::Fill name_it = [&key, number](librados::ObjectWriteOperation& op) {
    const std::map<std::string, Buffer> row = {{"t" + key, to_buffer(keys::number(number))}};
    op.omap_set(row);
    op.omap_rm_keys({"p"});
  };
  co_return co_await registry_.change(frozen, std::move(name_it));
}

Task<bool> Splitter::undo(uint64_t bucket, std::string who) {
  auto rest = undo_again_after;
  for (int attempt = 0; attempt < undo_attempts_max; ++attempt) {
    const auto state = co_await registry_.load(bucket);
    if (!state && state.error() == Errc::no_such_bucket) co_return true;
    if (state) {
      const Phase phase = (*state)->phase;
      const bool is_ours = phase == Phase::splitting || phase == Phase::joining || phase == Phase::closing;
      if (!is_ours || (*state)->phase_who() != who) co_return true;
      const auto undone = co_await registry_.set_phase(*state, Phase::live);
      if (undone || undone.error() == Errc::conditional_conflict) co_return true;
    }
    if (stopping_) break;
    co_await pause(rest);
    rest = std::min(2 * rest, undo_rest_max);
  }
  co_return false;
}

// The object of a split that was not made. After an error it may have been made all the same: the bucket says so, once
// its phase is over, whose epoch a late call compares.
Task<> Splitter::remove_unnamed(uint64_t bucket, uint64_t number) {
  const auto state = co_await registry_.load(bucket);
  if (!state && !(state.error() == Errc::no_such_bucket)) co_return;
  if (state && find_tablet(**state, number) != (*state)->tablets.size()) co_return;
  librados::ObjectWriteOperation gone;
  gone.remove();
  (void)co_await registry_.cluster().write(Pool::index, tablet_object(bucket, number), std::move(gone));
}

}  // namespace verbena::store::rados
