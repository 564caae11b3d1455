#include "store/logic/append.h"

#include <algorithm>
#include <cstring>

#include "base/checksum.h"
#include "store/logic/append_layout.h"
#include "store/logic/append_sealing.h"
#include "store/logic/ends.h"
#include "store/logic/events.h"
#include "store/logic/lookup.h"
#include "store/logic/object_ops.h"
#include "store/logic/usage.h"

namespace verbena::store {
namespace {

// The object as found before the append: its bytes cannot change while it has this id.
struct Base {
  uint64_t id = 0;  // 0: there is none
  ObjectInfo info;
  std::vector<StoredPart> parts;
  bool listed = false;  // it has a list of parts
};

Result<std::vector<StoredPart>> parts_of(View& rows, const ObjectRecord& record) {
  if (record.part_count != 0) return object_parts(rows, record);
  std::vector<StoredPart> parts;
  if (record.blob.size == 0) return parts;
  parts.push_back({.info = {.number = 1, .size = record.info.size, .etag = {}, .checksums = {}}, .blob = record.blob});
  PartInfo& only = parts.back().info;
  only.modified_us = record.info.modified_us;
  only.stored_size = record.info.stored_size;
  if (const std::string* salt = find_attribute(record.info.attributes, salt_attribute)) {
    only.attributes.emplace_back(salt_attribute, *salt);
  }
  return parts;
}

// conditional_conflict: the object changed between two looks.
Result<Base> find_base(View& rows, const Bucket& bucket, const std::string& key) {
  VB_ASSIGN(auto record, find_object(rows, bucket, key));
  if (!record || bucket.is_gone(record->info)) return Base{};
  auto parts = parts_of(rows, *record);
  if (!parts && parts.error() == Errc::not_found) return fail(Errc::conditional_conflict, "append: changed meanwhile");
  VB_TRY(parts);
  return Base{record->id, std::move(record->info), std::move(*parts), record->part_count != 0};
}

// Extends a full object's CRC over the added bytes; other checksums cannot be extended.
std::vector<Checksum> continued(const std::vector<Checksum>& before, const std::vector<Checksum>& added,
                                uint64_t size) {
  std::vector<Checksum> out;
  for (const Checksum& one : before) {
    const auto same = std::ranges::find_if(
        added, [&](const Checksum& c) { return c.algorithm == one.algorithm && c.parts == 0 && one.parts == 0; });
    if (same == added.end()) continue;
    if (auto value = combine_crcs(one.algorithm, one.value, same->value, size)) {
      out.push_back({one.algorithm, std::move(*value), 0});
    }
  }
  return out;
}

// The object's state while appends are added to it one after the other.
struct Growing {
  bool there = false;
  ObjectInfo info;
};

// Checks that the append and the object are of one kind: both encrypted or both plain.
Result<void> check_kind(const Growing& object, const Appending& one) {
  if (!object.there) return {};
  if (one.seal != nullptr) return one.seal->check(object.info.attributes);
  const std::string_view without = one.conditions.if_without;
  if (object.info.stored_size == 0 && (without.empty() || find_attribute(object.info.attributes, without) == nullptr)) {
    return {};
  }
  return fail(Errc::encryption_type_mismatch, "append: how the object is kept");
}

Result<void> check(const Growing& object, const Appending& one) {
  const CommitConditions& wanted = one.conditions;
  if (!object.there && !wanted.may_make_object) {
    return fail(Errc::quota_exceeded, "The quota is used up: the object is gone, and there is no room for a new one.");
  }
  const auto matches = [&](const std::string& etag) { return etag == "*" || etag == object.info.etag; };
  if (wanted.if_match) {
    if (!object.there) return fail(Errc::no_such_key, "if-match: no object");
    if (!matches(*wanted.if_match)) return fail(Errc::precondition_failed, "if-match");
  }
  if (wanted.if_none_match && object.there && matches(*wanted.if_none_match)) {
    return fail(Errc::precondition_failed, "if-none-match");
  }
  if (wanted.if_size && *wanted.if_size != object.info.size) return fail(Errc::invalid_write_offset, "append: offset");
  if (one.info.size > object_size_max - object.info.size) return fail(Errc::entity_too_large, "append: object size");
  return check_kind(object, one);
}

// The first of the received checksums: an object has one.
std::vector<Checksum> first_of(const std::vector<Checksum>& checksums) {
  if (checksums.empty()) return {};
  return {checksums.front()};
}

void grow(Growing& object, const Appending& one) {
  if (!object.there) {
    object.there = true;
    object.info = one.info;
    object.info.parts.clear();
    object.info.checksums = first_of(one.info.checksums);
    if (one.seal != nullptr) change_attributes(object.info.attributes, one.seal->fresh());
    return;
  }
  object.info.checksums = object.info.size == 0 ? first_of(one.info.checksums)
                                                : continued(object.info.checksums, one.info.checksums, one.info.size);
  object.info.size += one.info.size;
  object.info.etag = one.info.etag;
}

// The decisions made before the change: which appends are accepted for the base, and which of its parts are merged into
// the new one.
struct Plan {
  uint64_t base_id = 0;
  std::vector<AppendingPtr> accepted;
  std::vector<StoredPart> kept, absorbed;
  uint64_t added = 0;     // bytes of the accepted appends
  AppendSealPtr seal;     // if the object is encrypted: the seal of the first append
  Attributes attributes;  // of the object
};

void refuse(Plan& plan, const Error& error) {
  for (const AppendingPtr& one : plan.accepted) one->outcome = std::unexpected(error);
  plan.accepted.clear();
}

// Checks that these are the parts the object was last stored with, before it gets a new list: otherwise a list that was
// altered on the disk would be authenticated from then on.
Result<void> verify_parts(const AppendSeal& seal, const Attributes& object, bool listed,
                          const std::vector<StoredPart>& parts) {
  VB_ASSIGN(const auto numbered, numbered_parts(object, listed, parts));
  return seal.verify(object, numbered);
}

Plan make_plan(Base base, const std::vector<AppendingPtr>& group) {
  Plan plan;
  plan.base_id = base.id;
  Growing object{base.id != 0, std::move(base.info)};
  for (const AppendingPtr& one : group) {
    Result<void> sound = one->conditions.wanted.check();
    if (sound) sound = check(object, *one);
    if (!sound) {
      one->outcome = std::unexpected(sound.error());
      continue;
    }
    grow(object, *one);
    plan.added += one->info.size;
    plan.accepted.push_back(one);
  }
  if (plan.accepted.empty()) return plan;
  plan.seal = plan.accepted.front()->seal;
  plan.attributes = std::move(object.info.attributes);
  if (plan.seal != nullptr && base.id != 0) {
    if (auto whole = verify_parts(*plan.seal, plan.attributes, base.listed, base.parts); !whole) {
      refuse(plan, whole.error());
      return plan;
    }
  }
  const size_t kept = base.parts.size() - parts_to_absorb(base.parts, plan.added);
  const auto from = base.parts.begin() + static_cast<std::ptrdiff_t>(kept);
  plan.absorbed.assign(std::make_move_iterator(from), std::make_move_iterator(base.parts.end()));
  base.parts.erase(from, base.parts.end());
  plan.kept = std::move(base.parts);
  if (plan.kept.size() < static_cast<size_t>(part_number_max)) return plan;
  refuse(plan, {Errc::too_many_parts, 0, "append"});
  return plan;
}

struct AppendJob {
  std::shared_ptr<const Bucket> bucket;
  std::string key;
  Plan plan;
  BlobRef blob{};
  Attributes part_attributes{};       // of the new part, if it is sealed
  Secret sealed_under{};              // of a large one, the key
  std::vector<ObjectInfo> answers{};  // of the accepted appends, in their order
};

// Stores what the new head names: a list of parts, or a single part itself. `parts` includes the new one.
Result<void> put_parts(Transaction& transaction, ObjectRecord& record, std::vector<StoredPart> parts,
                       const AppendSeal* seal) {
  StoredPart& last = parts.back();
  const bool listed = parts.size() > 1;
  if (seal != nullptr) {
    Attributes salt = last.info.attributes;
    if (listed) salt.front().second.clear();  // each part has its own
    change_attributes(record.info.attributes, salt);
  }
  if (listed) {
    last.info.number = std::min(std::prev(parts.end(), 2)->info.number + 1, part_number_max);
    last.info.modified_us = record.info.modified_us;
    record.part_count = static_cast<uint32_t>(parts.size());
    transaction.put(Table::uploads, keys::object_parts(record.id), encode(parts));
  } else {
    record.blob = last.blob;
  }
  if (seal == nullptr) return {};
  VB_ASSIGN(const auto numbered, numbered_parts(record.info.attributes, listed, parts));
  change_attributes(record.info.attributes, seal->manifest(numbered));
  record.info.stored_size = 0;
  for (const StoredPart& part : parts) record.info.stored_size += part.blob.size;
  return {};
}

// The bucket, if it never had versions: another version would share the bytes of the one before it.
Result<BucketRecord> check_plain_bucket(Transaction& transaction, const Bucket& bucket) {
  VB_ASSIGN(BucketRecord record, check_bucket(transaction, bucket));
  if (record.info.versioning == Versioning::off) return record;
  return fail(Errc::invalid_bucket_state, "Objects of a bucket with versioning cannot be appended to.");
}

bool has_ended(const AppendJob& job, const std::optional<ObjectRecord>& current) {
  return current && job.bucket->is_gone(current->info);
}

// Replaces the object's head with one that includes the new part, `blob`. `ended`: the current object's end has come.
Result<void> replace_head(Transaction& transaction, AppendJob& job, const std::optional<ObjectRecord>& current,
                          bool ended, const Plan& plan) {
  VB_ASSIGN(const BucketRecord bucket, check_plain_bucket(transaction, *job.bucket));
  Growing object;
  if (current && !ended) object = {true, current->info};
  job.answers.clear();
  job.answers.reserve(plan.accepted.size());
  StoredPart part{.info = {.number = 1, .size = plan.added, .etag = {}, .checksums = {}}, .blob = job.blob};
  part.info.attributes = job.part_attributes;
  for (const StoredPart& one : plan.absorbed) part.info.size += one.info.size;
  part.info.stored_size = part.blob.size == part.info.size ? 0 : part.blob.size;
  for (const AppendingPtr& one : plan.accepted) {
    VB_TRY(check(object, *one));
    grow(object, *one);
    job.answers.push_back(object.info);
  }
  for (const StoredPart& one : plan.absorbed) transaction.kill(one.blob);
  if (ended) {
    VB_TRY(bury(transaction, current));
  } else if (current && current->part_count != 0) {
    transaction.erase(Table::uploads, keys::object_parts(current->id));
  }
  VB_ASSIGN(const int64_t time_us, time_after(transaction, bucket.id, job.key, info_of(current), transaction.now_us()));
  VB_ASSIGN(ObjectRecord record, new_record(transaction, *job.bucket, bucket, std::move(object.info), time_us));
  std::vector<StoredPart> parts = plan.kept;
  parts.push_back(std::move(part));
  VB_TRY(put_parts(transaction, record, std::move(parts), plan.seal.get()));
  transaction.put(Table::objects, keys::object(bucket.id, job.key), encode(record));
  move_end(transaction, bucket.id, job.key, info_of(current), &record.info);
  if (current) transaction.count(-as_current(*current));
  transaction.count(as_current(record));
  for (size_t i = 0; i < job.answers.size(); ++i) {
    job.answers[i].modified_us = record.info.modified_us;
    if (end_us_of(job.answers[i]) != end_us_of(record.info)) job.answers[i].headers = record.info.headers;
    VB_TRY(announce(transaction, plan.accepted[i]->conditions.announcement, bucket.id, job.answers[i]));
  }
  // Appends that are one change are reported as one.
  transaction.on_commit([p = &job, what = current && !ended ? KeyEvent::appended : KeyEvent::created] {
    p->bucket->feed->tell(what, p->key, p->answers.back());
  });
  return {};
}

// conditional_conflict: the object is not the one that the plan was made for.
Result<void> judge_append(Transaction& transaction, AppendJob& job) {
  VB_ASSIGN(const auto current, find_object(transaction, *job.bucket, job.key));
  const bool ended = has_ended(job, current);
  if ((current && !ended ? current->id : 0) != job.plan.base_id)
    return fail(Errc::conditional_conflict, "append: changed");
  // The next attempt leaves those out that were given up.
  for (const AppendingPtr& one : job.plan.accepted) {
    if (!one->conditions.wanted.check()) return fail(Errc::conditional_conflict, "append: not wanted");
  }
  return replace_head(transaction, job, current, ended, job.plan);
}

// For bytes that were sealed on arrival: checks that the current object has the same key and is intact.
Result<void> check_sealed_under(const AppendJob& job, const std::optional<ObjectRecord>& current,
                                const std::vector<StoredPart>& parts) {
  const AppendSeal& seal = *job.plan.seal;
  VB_ASSIGN(const Secret key, seal.object_key(current ? current->info.attributes : seal.fresh()));
  if (!equal_constant_time(key.bytes(), job.sealed_under.bytes())) {
    return fail(Errc::conditional_conflict, "append: another object meanwhile");
  }
  if (!current) return {};
  return verify_parts(seal, current->info.attributes, current->part_count != 0, parts);
}

// For bytes that are written already: adds one part to the current object, whichever that is.
Result<void> judge_large_append(Transaction& transaction, AppendJob& job) {
  VB_TRY(job.plan.accepted.front()->conditions.wanted.check());
  VB_ASSIGN(const auto current, find_object(transaction, *job.bucket, job.key));
  const bool ended = has_ended(job, current);
  const bool there = current && !ended;
  Plan plan = job.plan;
  if (there) {
    VB_ASSIGN(plan.kept, parts_of(transaction, *current));
  }
  if (plan.kept.size() >= static_cast<size_t>(part_number_max)) return fail(Errc::too_many_parts, "append");
  if (plan.seal != nullptr) {
    Growing object;
    if (there) object = {true, current->info};
    VB_TRY(check(object, *plan.accepted.front()));
    VB_TRY(check_sealed_under(job, there ? current : std::nullopt, plan.kept));
  }
  return replace_head(transaction, job, current, ended, plan);
}

Place place_for(const Bucket& bucket, std::string_view key) {
  return {bucket.id, key, bucket.durability.load(std::memory_order_acquire)};
}

Task<Result<Base>> look_for_base(Context& context, std::shared_ptr<const Bucket> bucket,
                                 std::shared_ptr<const std::string> key) {
  auto base = find_base(context.rows->at_hand(place_for(*bucket, *key)), *bucket, *key);
  if (base || !(base.error() == Errc::would_block)) co_return base;
  auto look = [bucket, key](View& rows) { return find_base(rows, *bucket, *key); };
  co_return co_await look_up(*context.rows, "append look", place_for(*bucket, *key), std::move(look));
}

// Null: some of the bytes were removed before they could be held. If the object is still the plan's, none were.
Result<std::shared_ptr<ObjectReader>> hold_absorbed(Blobs& from, View& rows, const Bucket& bucket,
                                                    const std::string& key, uint64_t base_id, const ObjectInfo& info,
                                                    std::span<const BlobRef> blobs) {
  VB_ASSIGN(auto reader, from.open(rows, bucket.name + "/" + key, info, blobs));
  if (!reader) return reader;
  VB_ASSIGN(const auto current, find_object(rows, bucket, key));
  if (!current || current->id != base_id) reader.reset();
  return reader;
}

// The bytes of the parts that are merged into the new one. Null: they are gone because the object was replaced.
Task<Result<std::shared_ptr<ObjectReader>>> open_absorbed(Context& context, std::shared_ptr<const Bucket> bucket,
                                                          std::shared_ptr<const std::string> key, const Plan& plan) {
  auto blobs = std::make_shared<std::vector<BlobRef>>();
  ObjectInfo info;
  for (const StoredPart& part : plan.absorbed) {
    blobs->push_back(part.blob);
    info.size += part.info.size;
    info.stored_size += part.blob.size;
  }
  if (info.stored_size == info.size) info.stored_size = 0;
  auto look = [&from = *context.blobs, bucket, key, base_id = plan.base_id, info, blobs](View& rows) {
    return hold_absorbed(from, rows, *bucket, *key, base_id, info, *blobs);
  };
  auto opened = look(context.rows->at_hand(place_for(*bucket, *key)));
  if (opened || !(opened.error() == Errc::would_block)) co_return opened;
  co_return co_await look_up(*context.rows, "append open", place_for(*bucket, *key), std::move(look));
}

template <class Writer>
Task<Result<void>> copy_absorbed(ObjectReader& reader, Writer& into) {
  const uint64_t size = reader.info().size;
  for (uint64_t at = 0; at < size;) {
    const size_t wanted = std::min<uint64_t>(size - at, ObjectReader::chunk_size_max);
    const size_t length = reader.fit(at, wanted, ObjectReader::chunk_size_max);
    VB_CO_ASSIGN(memory::Chunk chunk, co_await reader.read(at, length));
    at += length;
    VB_CO_TRY(co_await into.append(std::move(chunk)));
  }
  co_return Result<void>{};
}

Task<Result<void>> write_plain(const Plan& plan, std::shared_ptr<ObjectReader> absorbed, BlobWriter& into) {
  if (absorbed != nullptr) VB_CO_TRY(co_await copy_absorbed(*absorbed, into));
  for (const AppendingPtr& one : plan.accepted) {
    if (one->bytes.bytes.empty()) continue;
    memory::Chunk shared{.lease = {}, .bytes = one->bytes.bytes, .shared = one};
    VB_CO_TRY(co_await into.append(std::move(shared)));
  }
  co_return Result<void>{};
}

// Copies the bytes for sealing: the received ones stay as they are, since the change may have to be made again.
// `behind`: bytes that will be added at the end.
Task<Result<void>> append_gathered(memory::Arena& arena, const Plan& plan, size_t behind, SealedPartWriter& into) {
  constexpr size_t piece_max = 256 * KiB;
  uint64_t left = plan.added;
  memory::Lease piece;
  size_t filled = 0, size = 0;
  for (const AppendingPtr& one : plan.accepted) {
    for (Bytes rest = one->bytes.bytes; !rest.empty();) {
      if (!piece) {
        size = std::min<uint64_t>(left, piece_max);
        VB_CO_ASSIGN(piece, arena.lease(size + (size == left ? behind : 0)));
        filled = 0;
      }
      const size_t n = std::min(rest.size(), size - filled);
      std::memcpy(piece.data() + filled, rest.data(), n);
      rest = rest.subspan(n);
      filled += n;
      left -= n;
      if (filled < size) continue;
      const Bytes bytes(piece.data(), filled);
      memory::Chunk chunk{std::move(piece), bytes};
      piece = {};
      VB_CO_TRY(co_await into.append(std::move(chunk)));
    }
  }
  co_return Result<void>{};
}

// `size`: of the new part. Returns its attributes.
Task<Result<Attributes>> write_sealed(const Plan& plan, std::shared_ptr<ObjectReader> absorbed, uint64_t size,
                                      std::shared_ptr<BlobWriter> into, std::string name) {
  const AppendSeal& seal = *plan.seal;
  VB_CO_ASSIGN(const Secret key, seal.object_key(plan.attributes));
  SealedPartWriter part(seal, key, std::move(into), size);
  if (absorbed != nullptr) {
    VB_CO_ASSIGN(const auto opened, open_sealed_parts(seal, key, plan.absorbed, std::move(absorbed), std::move(name)));
    VB_CO_TRY(co_await copy_absorbed(*opened, part));
  }
  VB_CO_TRY(co_await append_gathered(seal.arena(), plan, sealed_size(size) - size, part));
  co_return co_await part.commit(size);
}

void answer(AppendJob& job) {
  for (size_t i = 0; i < job.plan.accepted.size(); ++i) job.plan.accepted[i]->outcome = std::move(job.answers[i]);
}

// One attempt: conditional_conflict if another change replaced the object.
Task<Result<void>> try_append(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket,
                              std::shared_ptr<const std::string> key, const std::vector<AppendingPtr>& group) {
  if (Early::holds_any(*bucket)) VB_CO_TRY(co_await context->early->settle(bucket, *key));
  VB_CO_ASSIGN(Base base, co_await look_for_base(*context, bucket, key));
  auto job = std::make_shared<AppendJob>(AppendJob{bucket, *key, make_plan(std::move(base), group)});
  const Plan& plan = job->plan;
  if (plan.accepted.empty()) co_return Result<void>{};
  uint64_t size = plan.added;
  for (const StoredPart& part : plan.absorbed) size += part.info.size;
  const bool sealed = plan.seal != nullptr;
  const std::shared_ptr<BlobWriter> bytes = context->blobs->create(*bucket, sealed ? sealed_size(size) : size);
  std::shared_ptr<ObjectReader> absorbed;
  if (!plan.absorbed.empty()) {
    VB_CO_ASSIGN(absorbed, co_await open_absorbed(*context, bucket, key, plan));
    if (absorbed == nullptr) co_return fail(Errc::conditional_conflict, "append: changed meanwhile");
  }
  if (sealed) {
    const std::string name = bucket->name + "/" + *key;
    VB_CO_ASSIGN(job->part_attributes, co_await write_sealed(plan, std::move(absorbed), size, bytes, name));
  } else {
    VB_CO_TRY(co_await write_plain(plan, std::move(absorbed), *bytes));
  }
  VB_CO_ASSIGN(job->blob, co_await bytes->finish());
  Change change{.judge = [job](Transaction& transaction) { return judge_append(transaction, *job); },
                .bucket = bucket,
                .place = {bucket->id, *key},
                .blob = bytes,
                .takes_space = true};
  VB_CO_TRY(co_await context->rows->commit(std::move(change)));
  answer(*job);
  co_return Result<void>{};
}

constexpr int tries_max = 64;  // other changes that may come between the look and the commit

}  // namespace

Task<Result<std::optional<Attributes>>> attributes_now(std::shared_ptr<Context> context,
                                                       std::shared_ptr<const Bucket> bucket, std::string key) {
  if (Early::holds_any(*bucket)) VB_CO_TRY(co_await context->early->settle(bucket, key));
  const auto name = std::make_shared<const std::string>(std::move(key));
  for (int i = 0; i < tries_max; ++i) {
    auto base = co_await look_for_base(*context, bucket, name);
    if (!base && base.error() == Errc::conditional_conflict) continue;
    VB_CO_TRY(base);
    if (base->id == 0) co_return std::nullopt;
    co_return std::move(base->info.attributes);
  }
  co_return fail(Errc::slow_down, "append: the object changes too often");
}

Task<Result<ObjectInfo>> append_part(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket,
                                     std::string key, AppendingPtr one, WrittenPart part) {
  auto job = std::make_shared<AppendJob>(AppendJob{bucket, key, {}});
  job->plan.accepted = {one};
  job->plan.added = one->info.size;
  job->plan.seal = one->seal;
  job->part_attributes = std::move(part.attributes);
  job->sealed_under = std::move(part.sealed_under);
  VB_CO_ASSIGN(job->blob, co_await part.bytes->finish());
  if (Early::holds_any(*bucket)) VB_CO_TRY(co_await context->early->settle(bucket, key));
  Change change{.judge = [job](Transaction& transaction) { return judge_large_append(transaction, *job); },
                .bucket = bucket,
                .place = {bucket->id, job->key},
                .blob = part.bytes,
                .takes_space = true};
  VB_CO_TRY(co_await context->rows->commit(std::move(change)));
  co_return std::move(job->answers.front());
}

Task<void> append_group(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket, std::string key,
                        std::vector<AppendingPtr> group) {
  const auto name = std::make_shared<const std::string>(std::move(key));
  Error last{Errc::slow_down, 0, "append: the object changes too often"};
  for (int i = 0; i < tries_max; ++i) {
    const auto done = co_await try_append(context, bucket, name, group);
    if (done) co_return;
    if (done.error() == Errc::conditional_conflict) continue;
    last = done.error();
    break;
  }
  for (const AppendingPtr& one : group) one->outcome = std::unexpected(last);
}

}  // namespace verbena::store
