#include "store/rados/upkeep/joiner.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "store/logic/keys.h"
#include "store/logic/usage.h"
#include "store/rados/rows/change.h"
#include "store/rados/rows/usage_book.h"

namespace verbena::store::rados {
namespace {

using Pool = Cluster::Pool;

constexpr uint64_t part_of_size = 4;  // joined tablets have room to grow before they are split again

}  // namespace

Task<Result<void>> Joiner::look_at(uint64_t bucket, uint64_t tablet) {
  const auto may_join = [this] { return formats_.current() >= format_of_joins && formats_.all_know_it(); };
  for (bool more = true; more && !stopping_ && may_join();) {
    auto joined = co_await look_once(bucket, tablet);
    if (!joined && joined.error() == Errc::no_such_bucket) co_return Result<void>{};
    // Another server changes the bucket: the next look.
    if (!joined && joined.error() == Errc::conditional_conflict) co_return Result<void>{};
    if (!joined) co_return std::unexpected(joined.error());
    more = *joined;
  }
  co_return Result<void>{};
}

Task<Result<bool>> Joiner::look_once(uint64_t bucket, uint64_t tablet) {
  VB_CO_ASSIGN(BucketPtr state, co_await registry_.load(bucket));
  const size_t at = find_tablet(*state, tablet);
  if (at + 1 >= state->tablets.size() || state->phase != Phase::live) co_return false;
  const uint64_t most = rows_max_ / part_of_size;
  VB_CO_ASSIGN(const uint64_t rows, co_await splitter_.count_rows(state, at, most));
  if (rows > most) co_return false;
  VB_CO_ASSIGN(const uint64_t others, co_await splitter_.count_rows(state, at + 1, most));
  if (rows + others > most) co_return false;
  VB_CO_ASSIGN(const bool settled, co_await is_settled(state->tablets[at + 1].object));
  if (!settled) co_return false;
  co_return co_await join(state, at);
}

Task<Result<bool>> Joiner::join(BucketPtr bucket, size_t tablet) {
  static auto& joins = metrics::counter("verbena_rados_joins_total", "Tablets that were joined with the one before");
  const std::string who = keys::number(random_number());
  auto joined = co_await make_phases(bucket, tablet, who);
  if (joined && *joined) {
    joins.add();
    log::debug("rados: two tablets of bucket {} were joined", log::printable(bucket->record.info.name));
  } else {
    (void)co_await splitter_.undo(bucket->id, who);
  }
  co_return joined;
}

Task<Result<bool>> Joiner::make_phases(BucketPtr bucket, size_t tablet, std::string who) {
  const Tablet first = bucket->tablets[tablet], second = bucket->tablets[tablet + 1];
  const std::string other = keys::number(second.number);
  VB_CO_ASSIGN(const BucketPtr frozen, co_await registry_.set_phase(bucket, Phase::joining, first.number, other, who));
  VB_CO_ASSIGN(const bool filled, co_await fill(frozen, tablet));
  if (!filled) co_return false;
  VB_CO_ASSIGN(const BucketPtr closed, co_await registry_.set_phase(frozen, Phase::closing, first.number, other, who));
  Registry::Fill forget_it = [&second, &first](librados::ObjectWriteOperation& op) {
    const std::map<std::string, Buffer> row = {{joined_row(second.number), to_buffer(keys::number(first.number))}};
    op.omap_set(row);
    op.omap_rm_keys({"t" + second.low, "p"});
  };
  // After an error the bucket says whether it was made.
  VB_CO_TRY(co_await registry_.change(closed, std::move(forget_it)));
  co_return true;
}

// No events wait, and no bytes are to be removed: both end by calls that do not know of the phase.
Task<Result<bool>> Joiner::is_settled(std::string tablet) {
  for (const std::string letter : {"e", "!"}) {
    VB_CO_ASSIGN(const auto page, co_await registry_.page(tablet, "", letter));
    if (!page->rows.empty()) co_return false;
  }
  co_return true;
}

// Everything that servers look for in the second tablet. False: not now.
Task<Result<bool>> Joiner::fill(BucketPtr frozen, size_t tablet) {
  const std::string to = frozen->tablets[tablet].object, from = frozen->tablets[tablet + 1].object;
  VB_CO_ASSIGN(const bool settled, co_await is_settled(from));
  if (!settled) co_return false;
  VB_CO_ASSIGN(const Attempt purged, co_await splitter_.purge_at(frozen, tablet));
  if (purged != Attempt::done) co_return false;
  VB_CO_TRY(co_await splitter_.copy_keys(frozen, tablet + 1, frozen->tablets[tablet + 1].low, to));
  VB_CO_TRY(co_await splitter_.copy_ends(frozen, tablet + 1, frozen->tablets[tablet + 1].low, to));
  VB_CO_TRY(co_await merge_fences(frozen, from, to));
  VB_CO_TRY(co_await splitter_.copy_tokens(frozen, from, to));
  VB_CO_TRY(co_await forget_token_count(frozen, to));
  VB_CO_TRY(co_await copy_rows_of_no_key(frozen, from, "z", to));
  VB_CO_TRY(co_await copy_usage(frozen, tablet + 1, to));
  co_return true;
}

// Above both numbers, so that no earlier comparison holds.
Task<Result<void>> Joiner::merge_fences(BucketPtr frozen, std::string from, std::string to) {
  VB_CO_ASSIGN(const std::string one, co_await registry_.row(std::move(from), std::string(fence_row)));
  VB_CO_ASSIGN(const std::string two, co_await registry_.row(to, std::string(fence_row)));
  VB_CO_ASSIGN(const Fence theirs, decode_fence(one));
  VB_CO_ASSIGN(Fence fence, decode_fence(two));
  fence.number = std::max(fence.number, theirs.number) + 1;
  fence.last_id = std::max(fence.last_id, theirs.last_id);
  auto page = std::make_shared<OmapReply>();
  page->rows.emplace(fence_row, to_buffer(encode(fence)));
  co_return co_await splitter_.put_rows(frozen, std::move(to), std::move(page));
}

// Twice is as good as once: tombstones may stand in both tablets if the join is undone.
Task<Result<void>> Joiner::copy_rows_of_no_key(BucketPtr frozen, std::string from, std::string letter, std::string to) {
  for (std::string after;;) {
    VB_CO_ASSIGN(auto page, co_await registry_.page(from, after, letter));
    if (page->rows.empty()) co_return Result<void>{};
    after = page->rows.rbegin()->first;
    const bool more = page->more;
    VB_CO_TRY(co_await splitter_.put_rows(frozen, to, std::move(page)));
    if (!more) co_return Result<void>{};
  }
}

// The next rename with a token counts them anew (logic/rename.cc).
Task<Result<void>> Joiner::forget_token_count(BucketPtr frozen, std::string of) {
  const std::string row = keys::rename_token_count(frozen->id);
  librados::ObjectWriteOperation op;
  op.cmpxattr(epoch_attribute, LIBRADOS_CMPXATTR_OP_EQ, to_buffer(frozen->epoch_text));
  op.omap_rm_keys({family(Place{frozen->id}, Table::uploads, row).to_stored(row)});
  const int code = co_await registry_.cluster().write(Pool::index, std::move(of), std::move(op));
  if (code < 0) co_return std::unexpected(to_error(code, "rados: joined tablet"));
  co_return Result<void>{};
}

// Under names that mean something only when the second tablet has gone (usage_book.h): one for each server, as each
// knows what it counted itself.
Task<Result<void>> Joiner::copy_usage(BucketPtr frozen, size_t from, std::string to) {
  const Tablet& tablet = frozen->tablets[from];
  const std::string object = tablet.object;
  VB_CO_ASSIGN(const auto rows, co_await registry_.all(object, "$"));
  std::map<uint64_t, Usage> sums;
  for (const auto& [row, value] : rows) {
    const auto of = usage_counted_in(row, *frozen);
    if (!of) continue;
    VB_CO_ASSIGN(const Usage counted, decode_usage(value));
    sums[*of] += counted;
  }
  // What a join that was undone has left, of a server that counts no more here, is of the same tablet.
  VB_CO_ASSIGN(const auto there, co_await registry_.all(to, "$j"));
  for (const auto& [row, value] : there) {
    const auto joined = parse_joined_usage_row(row);
    if (joined && joined->tablet == tablet.number) sums.try_emplace(joined->incarnation);
  }
  auto page = std::make_shared<OmapReply>();
  for (const auto& [server, usage] : sums) {
    page->rows.emplace(joined_usage_row(server, tablet.number), to_buffer(encode(usage)));
  }
  if (page->rows.empty()) co_return Result<void>{};
  co_return co_await splitter_.put_rows(frozen, std::move(to), std::move(page));
}

}  // namespace verbena::store::rados
