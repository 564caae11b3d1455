#include "store/local/write_behind.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <latch>

#include "base/checksum.h"
#include "base/log.h"
#include "store/ends.h"
#include "store/logic/object_ops.h"

namespace verbena::store::local {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto settle_within = 15s;   // longer than a full table takes to be written
constexpr size_t overhead = 1 * KiB;  // of an entry and its names, roughly

// A name in the table, without an allocation.
class Name {
 public:
  Name(const Bucket& bucket, std::string_view key) : size_(sizeof bucket.id + key.size()) {
    std::memcpy(text_.data(), &bucket.id, sizeof bucket.id);
    std::memcpy(text_.data() + sizeof bucket.id, key.data(), key.size());
  }
  std::string_view text() const { return {text_.data(), size_}; }

 private:
  std::array<char, sizeof(uint64_t) + key_size_max> text_;
  size_t size_;
};

bool worth_another_try(const Error& error) {
  return error == Errc::insufficient_storage || error == Errc::io_error || error == Errc::slow_down;
}

// What the log has is acknowledged as durable, so it waits for whatever ails the disk: only what the judge says of this
// object is another matter, for objects of the log and others. A block of its row that cannot be read is such a reason.
bool waits_for_the_disk(const Acknowledged& object, const Error& why, bool by_judge) {
  if (by_judge) return why == Errc::insufficient_storage || why == Errc::slow_down;
  return object.place || worth_another_try(why);
}

std::unexpected<Error> refused_by_index() {
  return fail(Errc::slow_down, "store: the index refuses an object that was acknowledged");
}

}  // namespace

WriteBehind::WriteBehind(Engine& engine)
    : engine_(engine),
      bytes_max_(std::min<uint64_t>(engine.options.write_behind_max, engine.options.arena->mapping().size() / 8)),
      bytes_gauge_(
          metrics::gauge("verbena_store_write_behind_bytes", "Acknowledged from memory, not yet in the index")),
      taken_(metrics::counter("verbena_store_write_behind_total", "Objects acknowledged from memory")),
      replaced_(metrics::counter("verbena_store_write_behind_replaced_total",
                                 "Of those, overwritten before they were written")),
      lost_(metrics::counter("verbena_store_write_behind_lost_total",
                             "Of those, never written: the disk or the index refused them")),
      logged_(metrics::counter("verbena_store_pmem_total", "Objects made durable by persistent memory")),
      log_gauge_(metrics::gauge("verbena_store_pmem_bytes", "Bytes of the log on persistent memory that are in use")),
      stuck_gauge_(
          metrics::gauge("verbena_store_pmem_stuck", "Objects of the log on persistent memory that the index refuses")),
      stuck_behind_gauge_(metrics::gauge("verbena_store_write_behind_stuck",
                                         "Objects acknowledged from memory that the index refuses")) {}

void WriteBehind::start() {
  {
    const std::lock_guard lock(mutex_);
    trouble_ = bytes_max_ == 0;
  }
  thread_ = std::thread(&WriteBehind::loop, this);
}

void WriteBehind::stop() {
  {
    const std::lock_guard none_is_appended(append_mutex_);
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  Batch left;
  std::unique_lock lock(mutex_);
  for (const auto& [sequence, object] : waiting_) left.push_back(object);
  waiting_.clear();
  for (const auto& [sequence, object] : stuck_) left.push_back(object);
  for (const auto& object : left) forget_locked(*object);
  wake_settled(std::move(lock));
  const auto logged = std::ranges::count_if(left, [](const auto& object) { return object->place.has_value(); });
  const size_t lost = left.size() - static_cast<size_t>(logged);
  if (logged != 0) log::error("store: {} objects stay in the log on persistent memory until the next start", logged);
  if (lost == 0) return;
  lost_.add(lost);
  log::error("store: {} objects that were acknowledged from memory could not be written", lost);
}

// --- In and out
// -------------------------------------------------------------------------------------------------------

size_t WriteBehind::size_max(const Bucket& bucket) const {
  if (bucket.versioning.load(std::memory_order_acquire) != Versioning::off) return 0;
  if (bucket.durability.load(std::memory_order_acquire) == Durability::memory) return object_size_max;
  return engine_.pmem == nullptr || engine_.pmem->failed() ? 0 : PmemLog::bytes_max;
}

bool WriteBehind::admits_locked(const Bucket& bucket, const Acknowledged& object) {
  if (trouble_ || stopping_ || bucket.shut != 0) return false;
  if (bytes_ + object.held_bytes <= bytes_max_ && newest_.size() < entries_max) return true;
  hurry_upto_ = last_sequence_;
  wake_.notify_one();
  return false;
}

// `newest`: what the table has of the key; may be null.
void WriteBehind::set_time(Acknowledged& object, const Acknowledged* newest) const {
  ObjectInfo& info = object.info;
  const int64_t now_us = engine_.options.clock->now_us();
  info.modified_us = newest == nullptr ? now_us : std::max(now_us, newest->info.modified_us + 1);
  set_end(info, object.bucket->ttl_from(now_us));  // a key's time may be ahead of the clock
}

// Appends the object to the log, with mutex_ free meanwhile: look-ups do not wait for the copy. What waits for all that
// was acknowledged, or for the key, waits for this one, too, which is why the bucket counts it already.
bool WriteBehind::log_object(Acknowledged& object, std::string name, const memory::Chunk& bytes,
                             std::unique_lock<std::mutex>& lock) {
  const auto newest = newest_.find(name);
  set_time(object, newest == newest_.end() ? nullptr : newest->second.get());
  object.sequence = ++last_sequence_;
  appending_ = {.sequence = object.sequence, .name = std::move(name)};
  object.bucket->acknowledged.fetch_add(1, std::memory_order_acq_rel);
  lock.unlock();
  object.place = append_to_log(object, bytes.bytes, /*moves=*/false);
  lock.lock();
  return object.place.has_value();
}

// With append_mutex_ held, and mutex_ free.
std::optional<uint64_t> WriteBehind::append_to_log(const Acknowledged& object, Bytes bytes, bool moves) {
  ObjectRecord record{.id = 0, .info = object.info, .blob = {}};
  record.blob.size = bytes.size();
  if (record.blob.size != 0) record.blob.kind = BlobKind::in_index;
  const std::string head = encode(record);
  const auto place = engine_.pmem->append({.bucket = object.bucket->id,
                                           .time_us = object.info.modified_us,
                                           .key = object.key,
                                           .head = head,
                                           .bytes = bytes},
                                          moves);
  log_gauge_.set(static_cast<int64_t>(engine_.pmem->used_bytes()));
  return place;
}

void WriteBehind::end_append_locked(const Bucket& bucket) {
  appending_.reset();
  bucket.acknowledged.fetch_sub(1, std::memory_order_acq_rel);
}

// Returns the object that it replaced in the table, to be destroyed when no lock is held.
AcknowledgedPtr WriteBehind::insert_locked(const std::shared_ptr<Acknowledged>& object, std::string name,
                                           bool has_time) {
  const Bucket& bucket = *object->bucket;
  AcknowledgedPtr replaced;
  bytes_ += object->held_bytes;
  auto& newest = newest_[std::move(name)];
  if (!has_time) set_time(*object, newest.get());
  if (newest == nullptr) {
    bucket.acknowledged.fetch_add(1, std::memory_order_acq_rel);
    bucket.count_acknowledged({.objects = 1, .bytes = object->info.size});
  } else {
    bucket.count_acknowledged({.bytes = object->info.size - newest->info.size});
  }
  const auto old = newest == nullptr ? waiting_.end() : waiting_.find(newest->sequence);
  if (old != waiting_.end()) {
    // It takes the older one's place: waiters for that one then wait for this one, and a key that is written all the
    // time is still written out in time.
    replaced = std::move(old->second);
    object->sequence = replaced->sequence;
    object->since = replaced->since;
    object->after = replaced->after;
    old->second = object;
    bytes_ -= replaced->held_bytes;
    replaced_.add();
  } else {
    if (object->sequence == 0) object->sequence = ++last_sequence_;
    if (newest != nullptr) object->after = newest->sequence;
    object->since = Clock::now();
    waiting_.emplace_hint(waiting_.end(), object->sequence, object);
  }
  newest = object;
  heads_->set(object);
  bytes_gauge_.set(static_cast<int64_t>(bytes_));
  return replaced;
}

void WriteBehind::hurry_locked() {
  const bool many = bytes_ > bytes_max_ / 4 || waiting_.size() > entries_max / 4;
  const bool hurry = many && !hurried_locked();
  if (hurry) hurry_upto_ = last_sequence_;
  if (!sleeps_ && !hurry) return;
  sleeps_ = false;
  wake_.notify_one();
}

std::optional<ObjectInfo> WriteBehind::put(const std::shared_ptr<const Bucket>& bucket, std::string_view key,
                                           ObjectInfo& info, memory::Chunk& bytes) {
  const size_t max = size_max(*bucket);
  if (max == 0 || info.lock != ObjectLock{} || bytes.bytes.size() > max) return std::nullopt;
  const bool durable = bucket->durability.load(std::memory_order_acquire) == Durability::sync;
  const size_t held = bytes.lease ? bytes.lease.capacity() : align_up(bytes.bytes.size());
  auto object = std::make_shared<Acknowledged>();
  object->bucket = bucket;
  object->key = key;
  object->held_bytes = held + key.size() + overhead;
  std::string name = name_of(*bucket, key);
  AcknowledgedPtr replaced;  // destroyed when no lock is held
  ObjectInfo stored;
  std::unique_lock appending(append_mutex_, std::defer_lock);
  if (durable) appending.lock();
  {
    std::unique_lock lock(mutex_);
    const bool still = (bucket->durability.load(std::memory_order_acquire) == Durability::sync) == durable;
    if (!still || size_max(*bucket) == 0 || !admits_locked(*bucket, *object)) return std::nullopt;
    if (durable) {
      object->info = info;  // the log may decline
    } else {
      object->info = std::move(info);
    }
    object->info.version_id.clear();
    object->info.delete_marker = false;
    object->info.parts.clear();
    if (durable && !log_object(*object, name, bytes, lock)) {
      hurry_upto_ = last_sequence_;  // the log is full, or cannot be written
      note_failed_log_locked();
      wake_.notify_one();
      end_append_locked(*bucket);
      wake_settled(std::move(lock));
      return std::nullopt;
    }
    // The sender's transfer is over: its bytes are not charged to it any more.
    bytes.lease.detach_charge().release();
    bytes.charge.release();
    object->bytes = std::move(bytes);
    replaced = insert_locked(object, std::move(name), /*has_time=*/durable);
    stored = object->info;
    if (durable) end_append_locked(*bucket);
    object->told_after = bucket->feed->tell_early(key, stored);
    hurry_locked();
  }
  if (replaced != nullptr) tell_log(*replaced, &PmemLog::replaced);
  (durable ? logged_ : taken_).add();
  return stored;
}

// Look-ups find them from the first moment on. They are few: as many as the table held.
Result<void> WriteBehind::bring_back(std::vector<PmemLog::Found> objects) {
  std::map<uint64_t, std::shared_ptr<const Bucket>> buckets;
  for (auto& bucket : engine_.buckets.all()) buckets.emplace(bucket->id, bucket);
  const std::lock_guard lock(mutex_);
  for (PmemLog::Found& found : objects) {
    const auto bucket = buckets.find(found.bucket);
    if (bucket == buckets.end()) {
      engine_.pmem->moved(found.place);
      continue;
    }
    VB_ASSIGN(ObjectRecord record, decode_object(found.head));
    if (stored_size(record.info) != found.bytes.size()) return fail(Errc::corrupt_object, "store: log: size");
    const auto object = std::make_shared<Acknowledged>();
    const auto bytes = std::make_shared<const std::vector<std::byte>>(std::move(found.bytes));
    object->bucket = bucket->second;
    object->key = std::move(found.key);
    object->info = std::move(record.info);
    object->bytes = {.lease = {}, .bytes = *bytes, .shared = bytes, .charge = {}};
    object->held_bytes = bytes->size() + object->key.size() + overhead;
    object->place = found.place;
    object->brought_back = true;
    (void)insert_locked(object, name_of(*object->bucket, object->key), /*has_time=*/true);
  }
  return {};
}

std::string WriteBehind::name_of(const Bucket& bucket, std::string_view key) {
  return std::string(Name(bucket, key).text());
}

AcknowledgedPtr WriteBehind::find(const Bucket& bucket, std::string_view key) const {
  if (!holds_any(bucket)) return nullptr;
  const Name name(bucket, key);
  const std::lock_guard lock(mutex_);
  const auto found = newest_.find(name.text());
  return found == newest_.end() ? nullptr : found->second;
}

std::shared_ptr<ObjectReader> WriteBehind::open(const Bucket& bucket, std::string_view key) const {
  auto object = find(bucket, key);
  return object == nullptr ? nullptr : open_acknowledged(std::move(object), *engine_.options.arena);
}

std::optional<ObjectInfo> WriteBehind::stat(const Bucket& bucket, std::string_view key) const {
  const auto object = find(bucket, key);
  if (object == nullptr) return std::nullopt;
  return object->info;
}

std::unique_ptr<Moment> WriteBehind::moment(const Bucket& bucket, View& rows) const {
  std::unique_lock lock(mutex_);
  auto now = rows.moment();
  if (!holds_any(bucket)) return now;
  auto heads = heads_->now(bucket.id);
  lock.unlock();
  return with_acknowledged(std::move(now), std::move(heads));
}

void WriteBehind::forget_locked(const Acknowledged& object) {
  free_locked(object);
  bytes_ -= object.held_bytes;
  bytes_gauge_.set(static_cast<int64_t>(bytes_));
  const auto newest = find_as_newest_locked(object);
  if (newest == newest_.end()) return;
  newest_.erase(newest);
  heads_->erase(object);
  object.bucket->count_acknowledged(-Usage{.objects = 1, .bytes = object.info.size});
  object.bucket->acknowledged.fetch_sub(1, std::memory_order_acq_rel);
}

WriteBehind::Newest::const_iterator WriteBehind::find_as_newest_locked(const Acknowledged& object) const {
  const auto newest = newest_.find(Name(*object.bucket, object.key).text());
  return newest != newest_.end() && newest->second->sequence == object.sequence ? newest : newest_.end();
}

// --- Waiting for it
// ---------------------------------------------------------------------------------------------------

uint64_t WriteBehind::settled_upto_locked() const {
  uint64_t first = last_sequence_ + 1;
  if (!waiting_.empty()) first = std::min(first, waiting_.begin()->first);
  if (!writing_.empty()) first = std::min(first, writing_.begin()->first);
  if (appending_) first = std::min(first, appending_->sequence);
  return first - 1;
}

void WriteBehind::wake_settled(std::unique_lock<std::mutex> lock, bool refused) {
  const uint64_t upto = settled_upto_locked();
  std::vector<std::pair<std::function<void(bool)>, bool>> ready;
  std::erase_if(waiters_, [&](Waiter& waiter) {
    const bool settled = waiter.upto <= upto;
    if (!settled && !(refused && waiter.until == Until::settled_or_refused)) return false;
    ready.emplace_back(std::move(waiter.wake), settled);
    return true;
  });
  settled_.notify_all();
  if (stopping_) wake_.notify_one();  // the thread may wait for removals
  lock.unlock();
  for (auto& [wake, settled] : ready) wake(settled);
}

Task<Result<void>> WriteBehind::wait_for(uint64_t upto, Until until) {
  struct Turn {
    explicit Turn(asio::any_io_executor executor) : timer(std::move(executor)) {}
    asio::steady_timer timer;
    bool over = false, settled = false;  // used on the waiter's own core
  };
  const auto turn = std::make_shared<Turn>(co_await asio::this_coro::executor);
  turn->timer.expires_after(settle_within);
  {
    const std::lock_guard lock(mutex_);
    if (settled_upto_locked() >= upto) co_return Result<void>{};
    auto over = [turn](bool settled) {
      turn->over = true;
      turn->settled = settled;
      turn->timer.cancel();
    };
    auto wake = [executor = turn->timer.get_executor(), over](bool settled) {
      asio::post(executor, [over, settled] { over(settled); });
    };
    waiters_.push_back({upto, until, turn, std::move(wake)});
    hurry_upto_ = std::max(hurry_upto_, upto);
    wake_.notify_one();
  }
  while (!turn->over) {
    const auto [ec] = co_await turn->timer.async_wait(asio::as_tuple(asio::use_awaitable));
    if (ec || turn->over) continue;
    const std::lock_guard lock(mutex_);
    std::erase_if(waiters_, [&](const Waiter& waiter) { return waiter.who == turn; });
    co_return fail(Errc::slow_down, "store: objects that were acknowledged from memory are not written");
  }
  if (!turn->settled) co_return fail(Errc::would_block, "store: the disk takes no writes");
  co_return Result<void>{};
}

Task<Result<void>> WriteBehind::settle(std::shared_ptr<const Bucket> bucket, std::string key) {
  return settle_key(std::move(bucket), std::move(key), Until::settled);
}

// What got stuck does not hold up the others that wait, so it is looked for when they are done.
Task<Result<void>> WriteBehind::settle_key(std::shared_ptr<const Bucket> bucket, std::string key, Until until) {
  uint64_t upto = 0;
  {
    const Name name(*bucket, key);
    const std::lock_guard lock(mutex_);
    if (const auto newest = newest_.find(name.text()); newest != newest_.end()) upto = newest->second->sequence;
    if (appending_ && appending_->name == name.text()) upto = std::max(upto, appending_->sequence);
  }
  if (upto == 0) co_return Result<void>{};
  VB_CO_TRY(co_await wait_for(upto, until));
  if (is_stuck(*bucket, key)) co_return refused_by_index();
  co_return Result<void>{};
}

Task<Result<void>> WriteBehind::settle(std::shared_ptr<const Bucket> bucket) {
  if (!holds_any(*bucket)) co_return Result<void>{};
  uint64_t upto = 0;
  {
    const std::lock_guard lock(mutex_);
    upto = last_sequence_;
  }
  VB_CO_TRY(co_await wait_for(upto));
  if (is_stuck(*bucket, std::nullopt)) co_return refused_by_index();
  co_return Result<void>{};
}

Task<void> WriteBehind::thin_out(std::shared_ptr<const Bucket> bucket) {
  uint64_t upto = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!trouble_) upto = last_sequence_;
  }
  if (upto != 0 && holds_any(*bucket)) (void)co_await wait_for(upto, Until::settled_or_refused);
}

// Of a key: its newest object. One that was overwritten meanwhile is not in the key's way.
bool WriteBehind::is_stuck(const Bucket& bucket, std::optional<std::string_view> key) const {
  const std::lock_guard lock(mutex_);
  if (!stuck_in_.contains(bucket.id)) return false;
  if (!key) return true;
  const auto newest = newest_.find(Name(bucket, *key).text());
  return newest != newest_.end() && stuck_.contains(newest->second->sequence);
}

void WriteBehind::flush() {
  std::unique_lock lock(mutex_);
  const uint64_t upto = last_sequence_;
  while ((settled_upto_locked() < upto || log_failed_) && !stopping_ && !trouble_) {
    hurry_upto_ = std::max(hurry_upto_, upto);
    wake_.notify_one();
    settled_.wait(lock);
  }
}

void WriteBehind::shut(const Bucket& bucket, bool is) {
  const std::lock_guard lock(mutex_);
  bucket.shut += is ? 1 : -1;
}

// --- The thread
// -------------------------------------------------------------------------------------------------------

bool WriteBehind::due_locked(Clock::time_point now) const {
  return stopping_ || ends_log_locked() || stuck_due_locked(now) ||
         (!waiting_.empty() && (hurried_locked() || now >= due_at_locked()));
}

// Until something may be due.
void WriteBehind::sleep_locked(std::unique_lock<std::mutex>& lock) {
  sleeps_ = waiting_.empty();
  if (sleeps_) trouble_ = bytes_max_ == 0;  // what the disk refused has been removed meanwhile
  if (sleeps_ && stuck_.empty()) {
    wake_.wait(lock);
  } else if (sleeps_) {
    wake_.wait_until(lock, stuck_at_);
  } else {
    wake_.wait_until(lock, stuck_.empty() ? due_at_locked() : std::min(due_at_locked(), stuck_at_));
  }
}

WriteBehind::Clock::time_point WriteBehind::due_at_locked() const {
  return waiting_.begin()->second->since + engine_.options.write_behind_after;
}

// At a stop, between two batches: then only removals have taken objects. One that is refused gives its object back, to
// be written as the others are.
void WriteBehind::wait_for_removals(std::unique_lock<std::mutex>& lock) {
  wake_.wait(lock, [this] { return writing_.empty(); });
}

void WriteBehind::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!due_locked(Clock::now())) sleep_locked(lock);
    sleeps_ = false;
    if (ends_log_locked()) {
      lock.unlock();
      const bool ended = end_failed_log();
      lock.lock();
      log_ended_ = ended;
      log_failed_ = false;
      settled_.notify_all();
      continue;
    }
    if (stuck_due_locked(Clock::now())) {
      try_stuck(lock);
      continue;
    }
    if (waiting_.empty() && writing_.empty()) return;
    if (waiting_.empty()) {
      wait_for_removals(lock);
      continue;
    }
    const bool last_try = stopping_ && trouble_;
    Batch batch = take_batch_locked();
    lock.unlock();
    write(std::move(batch));
    lock.lock();
    trouble_ = std::exchange(refused_, false);
    settled_.notify_all();  // flush() does not wait for a disk that refuses
    if (!trouble_) continue;
    wake_settled(std::move(lock), /*refused=*/true);
    lock = std::unique_lock(mutex_);
    if (last_try) return wait_for_removals(lock);
    // Trying again at once what the disk has just refused is useless.
    wake_.wait_for(lock, try_again_after, [this] { return stopping_; });
    hurry_upto_ = last_sequence_;
  }
}

WriteBehind::Batch WriteBehind::take_batch_locked() {
  Batch batch;
  while (!waiting_.empty() && batch.size() < batch_max) {
    auto first = waiting_.extract(waiting_.begin());
    batch.push_back(first.mapped());
    writing_.insert(std::move(first));
  }
  return batch;
}

Result<ObjectInfo> put_acknowledged(Transaction& transaction, const Acknowledged& object, const BlobRef& blob) {
  VB_ASSIGN(BucketRecord bucket, check_bucket(transaction, *object.bucket));
  VB_ASSIGN(auto current, find_object(transaction, *object.bucket, object.key));
  VB_ASSIGN(ObjectRecord record, replace_current(transaction, *object.bucket, bucket, object.key, current, object.info,
                                                 blob, object.info.modified_us, End::as_told));
  return std::move(record.info);
}

// The state of a mutation; shared because std::function copies what it holds.
struct WriteBehind::Written {
  AcknowledgedPtr object;
  WrittenBlob blob;
  ObjectInfo stored{};   // what the index has
  bool refused = false;  // by the judge
};

// The time of a key's object never repeats. With a later one the head tells: of what a commit may add to it, a lock and
// the version's name, an acknowledged object has nothing.
bool is_acknowledged_one(const ObjectInfo& stored, const ObjectInfo& told) {
  const auto told_part = [](ObjectInfo info) {
    info.modified_us = 0;
    info.version_id.clear();
    info.lock = {};
    return encode(ObjectRecord{.id = 0, .info = std::move(info), .blob = {}});
  };
  if (stored.etag != told.etag || stored.modified_us < told.modified_us) return false;
  return stored.modified_us == told.modified_us || told_part(stored) == told_part(told);
}

// A crash between the sync of the index and the mark in the log leaves such a record.
std::optional<ObjectInfo> WriteBehind::find_in_index(const Acknowledged& object) const {
  IndexView rows(*engine_.index, Tier::disk, Visible::durable);
  auto current = find_object(rows, *object.bucket, object.key);
  if (!current || !*current || !is_acknowledged_one((*current)->info, object.info)) return std::nullopt;
  return std::move((*current)->info);
}

void WriteBehind::write(Batch batch) {
  const auto all = std::make_shared<std::latch>(static_cast<ptrdiff_t>(batch.size()));
  for (AcknowledgedPtr& object : batch) {
    if (const auto stored = object->brought_back ? find_in_index(*object) : std::nullopt) {
      in_index(*object, &*stored);
      all->count_down();
      continue;
    }
    auto blob = write_blob(*object);
    if (!blob) {
      failed(std::move(object), blob.error(), /*by_judge=*/false);
      all->count_down();
      continue;
    }
    auto written = std::make_shared<Written>(Written{.object = object, .blob = std::move(*blob)});
    auto judge = [this, written](Transaction& transaction) -> Result<void> {
      auto put = put_acknowledged(transaction, *written->object, written->blob.ref);
      written->refused = !put;
      VB_ASSIGN(written->stored, std::move(put));
      add_blob(static_cast<IndexTransaction&>(transaction).batch(), written->blob);
      transaction.on_commit([this, written] { in_index(*written->object, &written->stored); });
      return {};
    };
    Mutation mutation{.judge = std::move(judge),
                      .blob = nullptr,
                      .runs = std::move(written->blob.runs),
                      .bucket = object->bucket,
                      // What the log has is acknowledged: a full disk takes it, too.
                      .takes_space = !object->place && !index_takes_all(),
                      .written_behind = true};
    auto done = [this, object, written, all](const Result<void>& outcome) {
      if (!outcome) failed(object, outcome.error(), written->refused);
      all->count_down();
    };
    engine_.committer->submit(std::move(mutation), std::move(done));
  }
  all->wait();
  const std::lock_guard lock(mutex_);
  note_failed_log_locked();
}

void WriteBehind::note_failed_log_locked() {
  log_failed_ = !log_ended_ && engine_.pmem != nullptr && engine_.pmem->failed();
}

// Nothing is appended any more. Once the index has everything, a start needs nothing of what can still be read there,
// and must not refuse for what cannot.
bool WriteBehind::end_failed_log() {
  if (log_ended_ || !engine_.pmem->empty()) return log_ended_;
  const auto ended = engine_.end_pmem_log();
  if (!ended) log::warn("store: the log on persistent memory is needed at the next start: {}", describe(ended.error()));
  return ended.has_value();
}

// A change by the catalogue was reported after this object, which readers still see instead of it: the last report of a
// key must match what readers see. So it must where the index has another time than was reported.
void WriteBehind::tell_again_locked(const Acknowledged& object, const ObjectInfo& stored) const {
  BucketFeed& feed = *object.bucket->feed;
  const bool as_told = stored.modified_us == object.info.modified_us;
  if (!feed.wanted() || (as_told && feed.committed(object.key) == object.told_after)) return;
  if (is_newest_locked(object)) (void)feed.tell_early(object.key, stored);
}

void WriteBehind::tell_log(const Acknowledged& object, void (PmemLog::*what)(uint64_t)) const {
  if (!object.place) return;
  (engine_.pmem.get()->*what)(*object.place);
  log_gauge_.set(static_cast<int64_t>(engine_.pmem->used_bytes()));
}

void WriteBehind::in_index(const Acknowledged& object, const ObjectInfo* stored) {
  tell_log(object, &PmemLog::moved);  // first: a change of the key may follow at once
  std::unique_lock lock(mutex_);
  const auto keep = writing_.extract(object.sequence);
  if (stored != nullptr) tell_again_locked(object, *stored);
  forget_locked(object);
  note_failed_log_locked();  // a removal may be the last one to mark a record
  if (log_failed_) wake_.notify_one();
  wake_settled(std::move(lock));
}

// What was acknowledged is read as long as the server runs: it is given up only with its bucket.
bool WriteBehind::is_kept(const Error& why) { return !(why == Errc::no_such_bucket); }

void WriteBehind::failed(AcknowledgedPtr object, const Error& why, bool by_judge) {
  std::unique_lock lock(mutex_);
  auto taken = writing_.extract(object->sequence);
  const bool overwritten = !is_newest_locked(*object);
  if (!overwritten && waits_for_the_disk(*object, why, by_judge)) {
    if (!taken) return;  // it is stuck, and stays so
    if (!trouble_ && !refused_) log::error("store: write behind waits: {}", describe(why));
    refused_ = true;
    waiting_.insert(std::move(taken));
    return;
  }
  if (!overwritten && is_kept(why)) {
    stick_locked(object, why);
    return wake_settled(std::move(lock));
  }
  forget_locked(*object);
  tell_log(*object, overwritten ? &PmemLog::replaced : &PmemLog::moved);
  if (!overwritten) {
    lost_.add();
    object->bucket->feed->lose_track();
    log::error("store: {}/{} was acknowledged from memory and is lost: {}", object->bucket->name,
               log::printable(object->key), describe(why));
  }
  wake_settled(std::move(lock));
}

// A device that has failed, has vanished or is full takes no more before the end, and the next start would not have
// these objects: the index takes them, whatever their size. Only what is left at the end, which is bounded.
bool WriteBehind::index_takes_all() const {
  if (engine_.device_volumes == nullptr) return false;
  const std::lock_guard lock(mutex_);
  return stopping_ && (trouble_ || engine_.device_volumes->failed());
}

Result<WrittenBlob> WriteBehind::write_blob(const Acknowledged& object) {
  const Bytes bytes = object.bytes.bytes;
  WrittenBlob blob;
  blob.ref.size = bytes.size();
  if (bytes.empty()) return blob;
  blob.ref.id = engine_.next_id();
  if (bytes.size() <= engine_.options.inline_max || index_takes_all()) {
    blob.ref.kind = BlobKind::in_index;
    blob.in_index = encode_inline(bytes);
    return blob;
  }
  blob.ref.kind = BlobKind::extents;
  VB_ASSIGN(blob.runs, write_runs(volume_kind(*object.bucket), bytes));
  Segment& segment = blob.segments.emplace_back();
  for (const Run& run : blob.runs) segment.extents.push_back({run.volume->id(), run.offset, run.length});
  for (size_t at = 0; at < bytes.size(); at += block_size) {
    segment.block_crcs.push_back(crc32c(bytes.subspan(at, std::min<size_t>(block_size, bytes.size() - at))));
  }
  return blob;
}

// Few, where a device is nearly full; else one. No block spans two of them.
Result<std::vector<Run>> WriteBehind::write_runs(VolumeKind kind, Bytes bytes) {
  std::vector<Run> runs;
  while (!bytes.empty()) {
    const uint64_t left = align_up(bytes.size());
    auto run = engine_.volumes->try_reserve(kind, left);
    auto reserved = run ? Result<Run>(std::move(*run)) : engine_.volumes->reserve_any(kind, left, left);
    Result<void> written;
    if (reserved) {
      const uint64_t takes = reserved->length >= left ? left : align_down(reserved->length, block_size);
      const Bytes piece = bytes.first(std::min<uint64_t>(takes, bytes.size()));
      runs.push_back(std::move(*reserved));
      if (auto rest = engine_.volumes->trim(runs.back(), takes)) engine_.garbage->reclaim({*rest});
      written = write_run(runs.back(), piece);
      bytes = bytes.subspan(piece.size());
    } else {
      written = std::unexpected(reserved.error());
    }
    if (written) continue;
    engine_.garbage->reclaim(std::move(runs));
    return std::unexpected(written.error());
  }
  return runs;
}

// Whole pages go directly from the object's memory if it is aligned; the rest goes through the staging buffer.
Result<void> WriteBehind::write_run(const Run& run, Bytes bytes) {
  constexpr size_t staging_size = object_size_max + disk_alignment;
  if (staging_.empty()) {
    staging_memory_ = std::make_unique<std::byte[]>(staging_size + disk_alignment);
    void* start = staging_memory_.get();
    size_t space = staging_size + disk_alignment;
    staging_ = {static_cast<std::byte*>(std::align(disk_alignment, staging_size, start, space)), staging_size};
  }
  const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % disk_alignment == 0;
  const size_t straight = aligned ? align_down(bytes.size()) : 0;
  const Bytes rest = bytes.subspan(straight);
  const Bytes tail = staging_.first(align_up(rest.size()));
  if (!rest.empty()) std::memcpy(staging_.data(), rest.data(), rest.size());
  std::memset(staging_.data() + rest.size(), 0, tail.size() - rest.size());

  Volume& volume = *run.volume;
  Result<void> written;
  if (straight != 0) written = write_fully(volume.file(), bytes.first(straight), run.offset);
  if (written && !tail.empty()) written = write_fully(volume.file(), tail, run.offset + straight);
  volume.note_written();
  if (!written && written.error() == Errc::io_error) volume.distrust();
  return written;
}

}  // namespace verbena::store::local
