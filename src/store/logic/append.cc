#include "store/logic/append.h"

#include <boost/asio/async_result.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>

#include "base/checksum.h"
#include "store/logic/append_layout.h"
#include "store/logic/lookup.h"
#include "store/logic/object_ops.h"
#include "store/logic/usage.h"

namespace verbena::store {
namespace {

// The object as it was found: its bytes stay what they are for as long as it has this id.
struct Base {
  uint64_t id = 0;  // 0: there is none
  ObjectInfo info;
  std::vector<StoredPart> parts;
};

Result<std::vector<StoredPart>> parts_of(View& rows, const ObjectRecord& record) {
  if (record.part_count != 0) return object_parts(rows, record);
  std::vector<StoredPart> parts;
  if (record.blob.size == 0) return parts;
  parts.push_back({.info = {.number = 1, .size = record.info.size, .etag = {}, .checksums = {}}, .blob = record.blob});
  parts.back().info.modified_us = record.info.modified_us;
  return parts;
}

// conditional_conflict: the object changed between two looks.
Result<Base> find_base(View& rows, const Bucket& bucket, const std::string& key) {
  VB_ASSIGN(auto record, find_object(rows, bucket, key));
  if (!record) return Base{};
  auto parts = parts_of(rows, *record);
  if (!parts && parts.error() == Errc::not_found) return fail(Errc::conditional_conflict, "append: changed meanwhile");
  VB_TRY(parts);
  return Base{record->id, std::move(record->info), std::move(*parts)};
}

// A full object's CRC goes on over what is added; other checksums do not.
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

// The object as it is so far, while appends are added to it one after the other.
struct Growing {
  bool there = false;
  ObjectInfo info;
};

Result<void> check(const Growing& object, const Appending& one) {
  const CommitConditions& wanted = one.conditions;
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
  const bool other_kind =
      object.info.stored_size != 0 ||
      (!wanted.if_without.empty() && find_attribute(object.info.attributes, wanted.if_without) != nullptr);
  if (object.there && other_kind) return fail(Errc::encryption_type_mismatch, "append: how the object is kept");
  return {};
}

// An object has one checksum: of what came, the first.
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
    return;
  }
  object.info.checksums = object.info.size == 0 ? first_of(one.info.checksums)
                                                : continued(object.info.checksums, one.info.checksums, one.info.size);
  object.info.size += one.info.size;
  object.info.etag = one.info.etag;
}

// What is known before the change: which appends hold for the base, and which of its parts go into the new one.
struct Plan {
  uint64_t base_id = 0;
  std::vector<AppendingPtr> accepted;
  std::vector<StoredPart> kept, absorbed;
  uint64_t added = 0;  // bytes of those that are accepted
};

Plan make_plan(Base base, const std::vector<AppendingPtr>& group) {
  Plan plan;
  plan.base_id = base.id;
  Growing object{base.id != 0, std::move(base.info)};
  for (const AppendingPtr& one : group) {
    if (auto sound = check(object, *one); !sound) {
      one->outcome = std::unexpected(sound.error());
      continue;
    }
    grow(object, *one);
    plan.added += one->info.size;
    plan.accepted.push_back(one);
  }
  const size_t kept = base.parts.size() - parts_to_absorb(base.parts, plan.added);
  const auto from = base.parts.begin() + static_cast<std::ptrdiff_t>(kept);
  plan.absorbed.assign(std::make_move_iterator(from), std::make_move_iterator(base.parts.end()));
  base.parts.erase(from, base.parts.end());
  plan.kept = std::move(base.parts);
  if (plan.kept.size() < static_cast<size_t>(part_number_max)) return plan;
  for (const AppendingPtr& one : plan.accepted) one->outcome = fail(Errc::too_many_parts, "append");
  plan.accepted.clear();
  return plan;
}

struct AppendJob {
  std::shared_ptr<const Bucket> bucket;
  std::string key;
  Plan plan;
  BlobRef blob{};
  std::vector<ObjectInfo> answers{};  // of those accepted, in their order
};

// What the new head names: a list of parts, or where there is one part alone, that.
void put_parts(Transaction& transaction, ObjectRecord& record, std::vector<StoredPart> parts, const BlobRef& blob,
               uint64_t size) {
  if (parts.empty()) {
    record.blob = blob;
    return;
  }
  StoredPart last{.info = {.number = std::min(parts.back().info.number + 1, part_number_max),
                           .size = size,
                           .etag = {},
                           .checksums = {}},
                  .blob = blob};
  last.info.modified_us = record.info.modified_us;
  parts.push_back(std::move(last));
  record.part_count = static_cast<uint32_t>(parts.size());
  transaction.put(Table::uploads, keys::object_parts(record.id), encode(parts));
}

// The bucket, if its objects can be appended to: another version would share the bytes of the one before it.
Result<BucketRecord> check_plain_bucket(Transaction& transaction, const Bucket& bucket) {
  VB_ASSIGN(BucketRecord record, check_bucket(transaction, bucket));
  if (record.info.versioning == Versioning::off) return record;
  return fail(Errc::invalid_bucket_state, "Objects of a bucket with versioning cannot be appended to.");
}

// `changes`: nothing else could have; the new part is `blob`.
Result<void> replace_head(Transaction& transaction, AppendJob& job, const std::optional<ObjectRecord>& current,
                          const Plan& plan) {
  VB_ASSIGN(const BucketRecord bucket, check_plain_bucket(transaction, *job.bucket));
  Growing object;
  if (current) object = {true, current->info};
  job.answers.clear();
  uint64_t absorbed = 0;
  for (const StoredPart& part : plan.absorbed) absorbed += part.blob.size;
  for (const AppendingPtr& one : plan.accepted) {
    VB_TRY(check(object, *one));
    grow(object, *one);
    job.answers.push_back(object.info);
  }
  for (const StoredPart& part : plan.absorbed) transaction.kill(part.blob);
  if (current && current->part_count != 0) transaction.erase(Table::uploads, keys::object_parts(current->id));
  VB_ASSIGN(ObjectRecord record, new_record(transaction, bucket, std::move(object.info), transaction.now_us()));
  put_parts(transaction, record, plan.kept, job.blob, absorbed + plan.added);
  transaction.put(Table::objects, keys::object(bucket.id, job.key), encode(record));
  if (current) transaction.count(-as_current(*current));
  transaction.count(as_current(record));
  for (ObjectInfo& answer : job.answers) answer.modified_us = record.info.modified_us;
  return {};
}

// conditional_conflict: the object is no longer the one that the plan was made for.
Result<void> judge_append(Transaction& transaction, AppendJob& job) {
  VB_ASSIGN(const auto current, find_object(transaction, *job.bucket, job.key));
  if ((current ? current->id : 0) != job.plan.base_id) return fail(Errc::conditional_conflict, "append: changed");
  return replace_head(transaction, job, current, job.plan);
}

// Of bytes that are written already: whatever is there gets one part more.
Result<void> judge_large_append(Transaction& transaction, AppendJob& job) {
  VB_ASSIGN(const auto current, find_object(transaction, *job.bucket, job.key));
  Plan plan = job.plan;
  if (current) {
    VB_ASSIGN(plan.kept, parts_of(transaction, *current));
  }
  if (plan.kept.size() >= static_cast<size_t>(part_number_max)) return fail(Errc::too_many_parts, "append");
  return replace_head(transaction, job, current, plan);
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

// The bytes of the parts that go into the new one. Null: they are gone, as the object is another one by now.
Task<Result<std::shared_ptr<ObjectReader>>> open_absorbed(Context& context, std::shared_ptr<const Bucket> bucket,
                                                          std::shared_ptr<const std::string> key, const Plan& plan) {
  auto blobs = std::make_shared<std::vector<BlobRef>>();
  ObjectInfo info;
  for (const StoredPart& part : plan.absorbed) {
    blobs->push_back(part.blob);
    info.size += part.blob.size;
  }
  const std::string name = bucket->name + "/" + *key;
  Blobs& from = *context.blobs;
  auto opened = from.open(context.rows->at_hand(place_for(*bucket, *key)), name, info, *blobs);
  if (opened || !(opened.error() == Errc::would_block)) co_return opened;
  auto look = [&from, name, info, blobs](View& rows) { return from.open(rows, name, info, *blobs); };
  co_return co_await look_up(*context.rows, "append open", place_for(*bucket, *key), std::move(look));
}

Task<Result<void>> copy_absorbed(ObjectReader& reader, BlobWriter& into) {
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

void answer(const AppendJob& job) {
  for (size_t i = 0; i < job.plan.accepted.size(); ++i) job.plan.accepted[i]->outcome = job.answers[i];
}

// Once: conditional_conflict where somebody else changed the object.
Task<Result<void>> try_append(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket,
                              std::shared_ptr<const std::string> key, const std::vector<AppendingPtr>& group) {
  if (Early::holds_any(*bucket)) VB_CO_TRY(co_await context->early->settle(bucket, *key));
  VB_CO_ASSIGN(Base base, co_await look_for_base(*context, bucket, key));
  auto job = std::make_shared<AppendJob>(AppendJob{bucket, *key, make_plan(std::move(base), group)});
  const Plan& plan = job->plan;
  if (plan.accepted.empty()) co_return Result<void>{};
  uint64_t size = plan.added;
  for (const StoredPart& part : plan.absorbed) size += part.blob.size;
  const std::shared_ptr<BlobWriter> bytes = context->blobs->create(*bucket, size);
  if (!plan.absorbed.empty()) {
    VB_CO_ASSIGN(const auto reader, co_await open_absorbed(*context, bucket, key, plan));
    if (reader == nullptr) co_return fail(Errc::conditional_conflict, "append: changed meanwhile");
    VB_CO_TRY(co_await copy_absorbed(*reader, *bytes));
  }
  for (const AppendingPtr& one : plan.accepted) {
    if (one->bytes.bytes.empty()) continue;
    memory::Chunk shared{.lease = {}, .bytes = one->bytes.bytes, .shared = one};
    VB_CO_TRY(co_await bytes->append(std::move(shared)));
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

constexpr int tries_max = 64;  // changes by others that may come between the look and the commit

// A queue is served by the loop of whoever found it without a server.
class Serving {
 public:
  Serving(std::shared_ptr<Context> context, AppendQueues::Name name)
      : context_(std::move(context)), name_(std::move(name)) {}
  Serving(const Serving&) = delete;
  ~Serving() {
    if (!ended_) context_->appends->abandon(name_);
  }
  std::vector<AppendingPtr> take() {
    auto group = context_->appends->take(name_);
    ended_ = group.empty();
    return group;
  }

 private:
  std::shared_ptr<Context> context_;
  const AppendQueues::Name name_;
  bool ended_ = false;
};

Task<void> serve_queue(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket, std::string key) {
  Serving serving(context, {bucket->id, key});
  for (auto group = serving.take(); !group.empty(); group = serving.take()) {
    co_await append_group(context, bucket, key, group);
    for (const AppendingPtr& one : group) {
      const auto done = std::move(one->done);  // its caller may let go of it at once
      done();
    }
  }
}

class AppendWriter final : public ObjectWriter {
 public:
  AppendWriter(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket, std::string key,
               std::optional<uint64_t> size_hint)
      : context_(std::move(context)), bucket_(std::move(bucket)), key_(std::move(key)), size_hint_(size_hint) {}

  Task<Result<void>> append(memory::Chunk chunk) override {
    if (committed_) co_return fail(Errc::invalid_argument, "writer: already committed");
    const bool all = chunk.bytes.size() == size_hint_.value_or(chunk.bytes.size());
    if (!bytes_ && !whole_ && all && chunk.bytes.size() <= small_max) {
      whole_ = std::move(chunk);
      co_return Result<void>{};
    }
    if (!bytes_) bytes_ = context_->blobs->create(*bucket_, size_hint_);
    if (whole_) {
      memory::Chunk first = std::move(*whole_);
      whole_.reset();
      VB_CO_TRY(co_await bytes_->append(std::move(first)));
    }
    co_return co_await bytes_->append(std::move(chunk));
  }

  Task<Result<ObjectInfo>> commit(ObjectInfo info, CommitConditions conditions) override {
    if (std::exchange(committed_, true)) co_return fail(Errc::invalid_argument, "writer: already committed");
    const uint64_t size = whole_ ? whole_->bytes.size() : bytes_ ? bytes_->size() : 0;
    if (info.size != size || info.stored_size != 0) {
      co_return fail(Errc::incomplete_body, "writer: size is not what was appended");
    }
    info.parts.clear();
    auto one = std::make_shared<Appending>(Appending{.info = std::move(info), .conditions = std::move(conditions)});
    if (bytes_) co_return co_await commit_large(std::move(one));
    if (whole_) one->bytes = std::move(*whole_);
    co_return co_await commit_small(std::move(one));
  }

 private:
  // Longer ones are written as they come.
  static constexpr size_t small_max = 256 * KiB;

  Task<Result<ObjectInfo>> commit_small(AppendingPtr one) {
    auto executor = co_await boost::asio::this_coro::executor;
    auto initiate = [context = context_, bucket = bucket_, key = key_, executor](auto handler, AppendingPtr waiting) {
      // The handler is shared because std::function copies what it holds.
      auto shared = std::make_shared<decltype(handler)>(std::move(handler));
      waiting->done = [executor, shared] { boost::asio::post(executor, [shared]() mutable { (*shared)(); }); };
      if (!context->appends->add({bucket->id, key}, std::move(waiting))) return;
      // Not at once: what comes in the same turn of the loop goes together.
      boost::asio::post(executor, [context, bucket, key, executor] {
        boost::asio::co_spawn(executor, serve_queue(context, bucket, key), boost::asio::detached);
      });
    };
    co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void()>(
        std::move(initiate), boost::asio::use_awaitable, one);
    co_return std::move(one->outcome);
  }

  Task<Result<ObjectInfo>> commit_large(AppendingPtr one) {
    auto bytes = std::exchange(bytes_, nullptr);
    auto job = std::make_shared<AppendJob>(AppendJob{bucket_, key_, {}});
    job->plan.accepted = {one};
    job->plan.added = one->info.size;
    VB_CO_ASSIGN(job->blob, co_await bytes->finish());
    if (Early::holds_any(*bucket_)) VB_CO_TRY(co_await context_->early->settle(bucket_, key_));
    Change change{.judge = [job](Transaction& transaction) { return judge_large_append(transaction, *job); },
                  .bucket = bucket_,
                  .place = {bucket_->id, job->key},
                  .blob = bytes,
                  .takes_space = true};
    VB_CO_TRY(co_await context_->rows->commit(std::move(change)));
    co_return std::move(job->answers.front());
  }

  std::shared_ptr<Context> context_;
  std::shared_ptr<const Bucket> bucket_;
  std::string key_;
  const std::optional<uint64_t> size_hint_;
  std::optional<memory::Chunk> whole_;  // all that came so far, in one piece
  std::shared_ptr<BlobWriter> bytes_;
  bool committed_ = false;
};

}  // namespace

std::shared_ptr<AppendQueues> make_append_queues() { return std::make_shared<AppendQueues>(); }

bool AppendQueues::add(const Name& name, AppendingPtr one) {
  const std::lock_guard lock(mutex_);
  const auto [queue, fresh] = queues_.try_emplace(name);
  queue->second.push_back(std::move(one));
  return fresh;
}

std::vector<AppendingPtr> AppendQueues::take(const Name& name) {
  const std::lock_guard lock(mutex_);
  std::vector<AppendingPtr> group;
  const auto queue = queues_.find(name);
  if (queue == queues_.end()) return group;
  uint64_t bytes = 0;
  auto& waiting = queue->second;
  while (!waiting.empty() && group.size() < group_max) {
    bytes += waiting.front()->info.size;
    if (!group.empty() && bytes > group_bytes_max) break;
    group.push_back(std::move(waiting.front()));
    waiting.pop_front();
  }
  if (group.empty()) queues_.erase(queue);
  return group;
}

void AppendQueues::abandon(const Name& name) {
  std::deque<AppendingPtr> waiting;  // goes without the lock
  const std::lock_guard lock(mutex_);
  const auto queue = queues_.find(name);
  if (queue == queues_.end()) return;
  waiting.swap(queue->second);
  queues_.erase(queue);
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

std::unique_ptr<ObjectWriter> make_append_writer(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket,
                                                 std::string key, std::optional<uint64_t> size_hint) {
  return std::make_unique<AppendWriter>(std::move(context), std::move(bucket), std::move(key), size_hint);
}

}  // namespace verbena::store
