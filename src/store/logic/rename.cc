#include "store/logic/rename.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "store/logic/ends.h"
#include "store/logic/object_ops.h"
#include "store/logic/usage.h"

namespace verbena::store {
namespace {

constexpr size_t tokens_forgotten_at_once = 2;  // for each new one, so that they do not pile up

struct Token {
  int64_t came_us;
  std::string asked;
};

Result<std::optional<Token>> find_token(Transaction& transaction, const std::string& name) {
  VB_ASSIGN(const auto row, find_row(transaction, Table::uploads, name));
  if (!row || row->size() < 8) return std::nullopt;
  return Token{.came_us = static_cast<int64_t>(keys::read_number(std::string_view(*row).substr(0, 8))),
               .asked = row->substr(8)};
}

// Whether the token's rename was made already.
Result<bool> was_done(Transaction& transaction, const Renaming& r) {
  if (r.request.token.empty()) return false;
  VB_ASSIGN(const auto token, find_token(transaction, keys::rename_token(r.bucket->id, r.request.token)));
  if (!token || transaction.now_us() - token->came_us >= rename_token_life_us) return false;
  if (token->asked != r.request.asked) return fail(Errc::idempotency_mismatch, "rename: token");
  return true;
}

// How many tokens the bucket has. Counted from their rows once: where an older program made them, or a tablet was
// split or joined.
Result<uint64_t> count_tokens(Transaction& transaction, uint64_t bucket) {
  VB_ASSIGN(const auto row, find_row(transaction, Table::uploads, keys::rename_token_count(bucket)));
  if (row && row->size() == sizeof(uint64_t)) return keys::read_number(*row);
  uint64_t count = 0;
  const auto all = transaction.cursor(Table::uploads, keys::rename_age_prefix(bucket));
  for (; all->valid() && count < rename_tokens_max; all->next()) ++count;
  VB_TRY(all->status());
  return count;
}

using Ages = std::vector<std::pair<int64_t, std::string>>;  // times, and the tokens that came then

// The rows of these ages and of their tokens. A token that was used again when its time was over has a later row, and
// another age: that row stays.
Result<std::vector<std::string>> rows_made_then(Transaction& transaction, uint64_t bucket, const Ages& ages) {
  std::vector<std::string> rows;
  for (const auto& [came_us, token] : ages) {
    rows.push_back(keys::rename_age(bucket, came_us, token));
    std::string name = keys::rename_token(bucket, token);
    VB_ASSIGN(const auto found, find_token(transaction, name));
    if (found && found->came_us == came_us) rows.push_back(std::move(name));
  }
  return rows;
}

// Forgets tokens whose time is over, and one more if the bucket has its most. Returns how many.
Result<uint64_t> forget_old_tokens(Transaction& transaction, uint64_t bucket, uint64_t count) {
  Ages old;
  const auto by_age = transaction.cursor(Table::uploads, keys::rename_age_prefix(bucket));
  for (; by_age->valid() && old.size() < tokens_forgotten_at_once; by_age->next()) {
    auto came = keys::parse_rename_age(by_age->key());
    if (!came) return fail(Errc::corrupt_object, "index: age of a rename");
    const int64_t age_us = transaction.now_us() - came->first;
    const bool full = old.empty() && count >= rename_tokens_max;
    if (full && age_us < rename_token_least_us) return fail(Errc::slow_down, "rename: too many tokens");
    if (!full && age_us < rename_token_life_us) break;
    old.push_back(*std::move(came));
  }
  VB_TRY(by_age->status());
  VB_ASSIGN(const auto rows, rows_made_then(transaction, bucket, old));
  for (const std::string& row : rows) transaction.erase(Table::uploads, row);
  return old.size();
}

Result<void> remember_token(Transaction& transaction, const Renaming& r) {
  if (r.request.token.empty()) return {};
  const uint64_t bucket = r.bucket->id;
  VB_ASSIGN(const uint64_t count, count_tokens(transaction, bucket));
  VB_ASSIGN(const uint64_t forgotten, forget_old_tokens(transaction, bucket, count));
  const int64_t now_us = transaction.now_us();
  transaction.put(Table::uploads, keys::rename_token(bucket, r.request.token),
                  keys::number(static_cast<uint64_t>(now_us)) + r.request.asked);
  transaction.put(Table::uploads, keys::rename_age(bucket, now_us, r.request.token), "");
  transaction.put(Table::uploads, keys::rename_token_count(bucket),
                  keys::number(count - std::min(count, forgotten) + 1));
  return {};
}

// The object with its parts, which the request's judge may read.
Result<ObjectInfo> whole_info(Transaction& transaction, const ObjectRecord& record) {
  ObjectInfo info = record.info;
  if (record.part_count == 0) return info;
  VB_ASSIGN(auto parts, object_parts(transaction, record));
  uint64_t stored = 0;
  for (StoredPart& part : parts) {
    stored += part.blob.size;
    info.parts.push_back(std::move(part.info));
  }
  info.stored_size = stored == info.size ? 0 : stored;
  return info;
}

Result<void> judge_rename(Transaction& transaction, Renaming& r) {
  VB_ASSIGN(const BucketRecord bucket, check_bucket(transaction, *r.bucket));
  if (bucket.info.versioning != Versioning::off) {
    return fail(Errc::invalid_bucket_state, "Objects of a bucket with versioning cannot be renamed.");
  }
  VB_ASSIGN(const bool done, was_done(transaction, r));
  if (done) return {};
  VB_ASSIGN(auto source, find_object(transaction, *r.bucket, r.request.from));
  if (!source || r.bucket->is_gone(source->info)) return fail(Errc::no_such_key, "rename: source");
  VB_ASSIGN(const auto target, find_object(transaction, *r.bucket, r.request.to));
  const bool target_is_there = target && !r.bucket->is_gone(target->info);
  VB_ASSIGN(r.info, whole_info(transaction, *source));
  if (r.request.judge) VB_TRY(r.request.judge(r.info, target_is_there ? &target->info : nullptr));
  if (r.request.from == r.request.to) return {};  // to do it again changes nothing: its token is not kept
  VB_TRY(remember_token(transaction, r));
  VB_TRY(bury(transaction, target));
  if (target) transaction.count(-as_current(*target));
  r.gone = {};
  VB_ASSIGN(r.gone.modified_us,
            time_after(transaction, bucket.id, r.request.from, info_of(source), transaction.now_us()));
  transaction.leave_us(bucket.id, r.request.from, r.gone.modified_us);
  source->info.attributes = r.info.attributes;
  transaction.erase(Table::objects, keys::object(bucket.id, r.request.from));
  // The id stays: the list of parts, which is named by it, is not touched.
  transaction.put(Table::objects, keys::object(bucket.id, r.request.to), encode(*source));
  move_end(transaction, bucket.id, r.request.from, &source->info, nullptr);
  move_end(transaction, bucket.id, r.request.to, info_of(target), &source->info);
  transaction.on_commit([p = &r] {
    p->bucket->feed->tell(KeyEvent::renamed_away, p->request.from, p->gone);
    p->bucket->feed->tell(KeyEvent::renamed_here, p->request.to, p->info);
  });
  return {};
}

}  // namespace

Change rename_change(std::shared_ptr<Renaming> renaming) {
  auto judge = [renaming](Transaction& transaction) { return judge_rename(transaction, *renaming); };
  return {.judge = std::move(judge), .bucket = renaming->bucket, .place = {renaming->bucket->id}, .takes_space = true};
}

}  // namespace verbena::store
