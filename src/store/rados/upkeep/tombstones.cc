#include "store/rados/upkeep/tombstones.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "store/rados/cluster/layout.h"

namespace verbena::store::rados {
namespace {

using SweptRows = std::map<std::string, std::string>;  // with their values, as far as compared

constexpr size_t swept_at_once = 500;

// Removes rows that are unchanged, and raises the fence, so that earlier calls fail. conditional_conflict: something
// has changed, or the tablet is being split or joined, with copies of both; the next look finds the rest.
Task<Result<void>> sweep_rows(Registry& registry, BucketPtr bucket, size_t tablet, SweptRows rows) {
  static auto& swept = metrics::counter("verbena_rados_version_tokens_swept_total",
                                        "Version tokens of keys without objects that were swept");
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

struct Remains {
  std::string key;
  std::string version_token;  // as the tombstone has it
};
using RemainsByRow = std::map<std::string, Remains>;  // by the version token's row

// Drops those whose key has versions beside the current object.
Task<Result<void>> drop_keys_with_versions(Registry& registry, std::string object, RemainsByRow& remains) {
  constexpr size_t keys_at_once = 50;
  for (auto next = remains.begin(); next != remains.end();) {
    const auto replies = std::make_shared<std::vector<OmapReply>>(keys_at_once);
    std::vector<RemainsByRow::iterator> asked;
    librados::ObjectReadOperation op;
    for (; next != remains.end() && asked.size() < keys_at_once; ++next) {
      OmapReply& reply = (*replies)[asked.size()];
      op.omap_get_vals2("", versions_prefix(next->second.key), 1, &reply.rows, &reply.more, &reply.rows_code);
      asked.push_back(next);
    }
    const int code = co_await registry.cluster().read(Cluster::Pool::index, object, std::move(op), replies);
    if (code < 0) co_return std::unexpected(to_error(code, "rados: versions of a key"));
    for (size_t i = 0; i < asked.size(); ++i) {
      if (!(*replies)[i].rows.empty()) remains.erase(asked[i]);
    }
  }
  co_return Result<void>{};
}

// The version tokens in that tablet that are still the tombstones', of keys of which nothing is left.
Task<Result<SweptRows>> version_tokens_in(Registry& registry, BucketPtr bucket, size_t tablet, RemainsByRow remains) {
  const std::string object = bucket->tablets[tablet].object;
  std::set<std::string> wanted;
  for (const auto& [row, one] : remains) {
    wanted.insert(row);
    wanted.insert("o" + one.key);
  }
  VB_CO_ASSIGN(const auto rows, co_await registry.rows(object, std::move(wanted)));
  std::erase_if(remains, [&](const auto& entry) {
    const auto& [row, one] = entry;
    const auto version_token = rows.find(row);
    return version_token == rows.end() || version_token->second != one.version_token || rows.contains("o" + one.key);
  });
  const bool has_versions = bucket->record.info.versioning != Versioning::off;
  if (has_versions) VB_CO_TRY(co_await drop_keys_with_versions(registry, object, remains));
  SweptRows found;
  for (const auto& [row, one] : remains) found.emplace(row, one.version_token);
  co_return found;
}

// The version tokens to be swept with these tombstones, by the key's current tablet.
Task<Result<std::map<size_t, SweptRows>>> version_tokens_of(Registry& registry, BucketPtr bucket,
                                                            const SweptRows& tombstones) {
  std::map<size_t, RemainsByRow> remains;
  for (const auto& [row, version_token] : tombstones) {
    auto tombstone = parse_tombstone_row(row);
    if (!tombstone) co_return fail(Errc::corrupt_object, "rados: version token to be swept");
    std::string name = version_token_row(tombstone->key);
    const size_t tablet = bucket->tablet_of(name);
    Remains one{std::move(tombstone->key), version_token};
    remains[tablet].insert_or_assign(std::move(name), std::move(one));  // the last of several
  }
  std::map<size_t, SweptRows> found;
  for (auto& [tablet, of_tablet] : remains) {
    VB_CO_ASSIGN(found[tablet], co_await version_tokens_in(registry, bucket, tablet, std::move(of_tablet)));
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
    if (where != tablet && !rows.empty()) VB_CO_TRY(co_await sweep_rows(registry, bucket, where, std::move(rows)));
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
