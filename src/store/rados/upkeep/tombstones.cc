#include "store/rados/upkeep/tombstones.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <string>

#include "base/metrics.h"
#include "store/rados/cluster/layout.h"

namespace verbena::store::rados {
namespace {

using SweptRows = std::map<std::string, std::string>;  // with their values, as far as compared

constexpr size_t swept_at_once = 500;

// Removes rows that are unchanged, and raises the fence, so that earlier calls fail. conditional_conflict: something
// has changed, or the tablet is being split or joined, with copies of both; the next look finds the rest.
Task<Result<void>> sweep_rows(Registry& registry, BucketPtr bucket, size_t tablet, SweptRows rows) {
  static auto& swept =
      metrics::counter("verbena_rados_version_tokens_swept_total", "Version tokens of removed objects that were swept");
  const std::string object = bucket->tablets[tablet].object;
  if (!bucket->may_change(bucket->tablets[tablet])) {
    co_return fail(Errc::conditional_conflict, "rados: version tokens to be swept");
  }
  std::string name = fence_row;
  VB_CO_ASSIGN(const std::string seen, co_await registry.row(object, std::move(name)));
  VB_CO_ASSIGN(Fence fence, decode_fence(seen));
  ++fence.number;
  std::map<std::string, std::pair<Buffer, int>> compared = {{fence_row, {to_buffer(seen), LIBRADOS_CMPXATTR_OP_EQ}}};
  std::set<std::string> gone;
  uint64_t version_tokens = 0;
  for (const auto& [row, value] : rows) {
    gone.insert(row);
    if (value.empty()) continue;
    compared.emplace(row, std::pair(to_buffer(value), LIBRADOS_CMPXATTR_OP_EQ));
    VB_CO_ASSIGN(const VersionToken version_token, decode_version_token(value));
    fence.last_id = std::max(fence.last_id, version_token.last_id);
    ++version_tokens;
  }
  librados::ObjectWriteOperation op;
  op.cmpxattr(epoch_attribute, LIBRADOS_CMPXATTR_OP_EQ, to_buffer(bucket->epoch_text));
  op.omap_cmp(compared, nullptr);
  op.omap_rm_keys(gone);
  const std::map<std::string, Buffer> set = {{fence_row, to_buffer(encode(fence))}};
  op.omap_set(set);
  const int code = co_await registry.cluster().write(Cluster::Pool::index, object, std::move(op));
  if (code == -ECANCELED || code == -ENOENT || code == -ENODATA) {
    co_return fail(Errc::conditional_conflict, "rados: version tokens to be swept");
  }
  if (code < 0) co_return std::unexpected(to_error(code, "rados: version tokens to be swept"));
  swept.add(version_tokens);
  co_return Result<void>{};
}

// The version tokens of these tombstones that are unchanged since the removal, by the key's current tablet.
Task<Result<std::map<size_t, SweptRows>>> version_tokens_of(Registry& registry, BucketPtr bucket,
                                                            const SweptRows& tombstones) {
  std::map<size_t, std::set<std::string>> names;
  std::map<std::string, std::string> left;
  for (const auto& [row, version_token] : tombstones) {
    const auto tombstone = parse_tombstone_row(row);
    if (!tombstone) co_return fail(Errc::corrupt_object, "rados: version token to be swept");
    std::string name = version_token_row(tombstone->key);
    names[bucket->tablet_of(name)].insert(name);
    left.insert_or_assign(std::move(name), version_token);  // the last of several
  }
  std::map<size_t, SweptRows> found;
  for (auto& [tablet, wanted] : names) {
    const std::string object = bucket->tablets[tablet].object;
    VB_CO_ASSIGN(const auto rows, co_await registry.rows(object, std::move(wanted)));
    for (const auto& [name, version_token] : rows) {
      if (version_token == left.at(name)) found[tablet].emplace(name, version_token);
    }
  }
  co_return found;
}

// Sweeps one page. True: there may be more.
Task<Result<bool>> sweep_page(Registry& registry, BucketPtr bucket, size_t tablet, int64_t before_us) {
  const std::string object = bucket->tablets[tablet].object;
  VB_CO_ASSIGN(auto page, co_await registry.page(object, "", "z"));
  SweptRows tombstones;
  for (auto& [row, version_token] : page->rows) {
    const auto tombstone = parse_tombstone_row(row);
    if (!tombstone) co_return fail(Errc::corrupt_object, "rados: version token to be swept");
    if (tombstone->us > before_us || tombstones.size() == swept_at_once) break;
    tombstones.emplace(row, to_text(version_token));
  }
  if (tombstones.empty()) co_return false;
  VB_CO_ASSIGN(auto version_tokens, co_await version_tokens_of(registry, bucket, tombstones));
  for (auto& [where, rows] : version_tokens) {
    if (where != tablet) VB_CO_TRY(co_await sweep_rows(registry, bucket, where, std::move(rows)));
  }
  // Together with the tombstone's row; for a key that is in another tablet now, after its version token.
  SweptRows here = std::move(version_tokens[tablet]);
  for (const auto& [row, version_token] : tombstones) here.emplace(row, "");
  VB_CO_TRY(co_await sweep_rows(registry, bucket, tablet, std::move(here)));
  co_return true;
}

Task<Result<void>> sweep_receipts(Registry& registry, BucketPtr bucket, size_t tablet, std::set<uint64_t> living) {
  if (living.empty()) co_return Result<void>{};
  const std::string object = bucket->tablets[tablet].object;
  VB_CO_ASSIGN(auto page, co_await registry.page(object, "", "w"));
  SweptRows gone;
  for (const auto& [row, token] : page->rows) {
    const auto server = parse_receipt_row(row);
    // Numbers grow: a server that came after `living` was read has a greater one than all of those.
    const bool is_gone = server && *server < *living.rbegin() && !living.contains(*server);
    if (is_gone && gone.size() < swept_at_once) gone.emplace(row, "");
  }
  if (gone.empty()) co_return Result<void>{};
  co_return co_await sweep_rows(registry, std::move(bucket), tablet, std::move(gone));
}

}  // namespace

Task<Result<void>> sweep_tablet(Registry& registry, BucketPtr bucket, size_t tablet, int64_t now_us,
                                std::set<uint64_t> living) {
  const int64_t before_us = now_us - std::chrono::microseconds(tombstone_life).count();
  auto swept = co_await sweep_receipts(registry, bucket, tablet, std::move(living));
  for (bool more = true; more && swept;) {
    auto page = co_await sweep_page(registry, bucket, tablet, before_us);
    more = page && *page;
    if (!page) swept = std::unexpected(page.error());
  }
  // Others are changing the keys or the bucket: left to the next round. If the bucket's epoch was raised and this
  // tablet does not have it yet, sets it now.
  const bool conflict = !swept && swept.error() == Errc::conditional_conflict;
  if (conflict) {
    std::string object = bucket->tablets[tablet].object;
    (void)co_await registry.refresh(bucket, std::move(object));
  }
  if (conflict || (!swept && swept.error() == Errc::not_found)) co_return Result<void>{};
  co_return swept;
}

}  // namespace verbena::store::rados
