// The removal of an object that the index does not have yet: its head is put into the index and removed there by one
// change, so that conditions, events and usage are what they would be, and its bytes are never written. So a removal
// needs neither a wait nor space on the disk for the object. One that removes nothing, as of an object whose end has
// come, is made when the object is in the index with its bytes.
//
// No other object of the key may be on its way into the index meanwhile. One that is older would come there after the
// removal, so the removal waits for it. One that is newer is submitted later, because the object is taken from those
// that wait and its removal is submitted in one step.
#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "store/local/engine.h"
#include "store/local/write_behind.h"
#include "store/logic/object_ops.h"

namespace verbena::store::local {

namespace asio = boost::asio;

// What only the head says of the bytes.
BlobRef WriteBehind::blob_without_bytes(const Acknowledged& object) const {
  if (object.bytes.bytes.empty()) return {};
  return {.kind = BlobKind::in_index, .id = engine_.next_id(), .size = object.bytes.bytes.size()};
}

// None while the store stops: the thread writes what waits, and stop() waits for the removals that are on their way.
AcknowledgedPtr WriteBehind::take_waiting_locked(std::string_view name) {
  if (stopping_) return nullptr;
  const auto newest = newest_.find(name);
  if (newest == newest_.end()) return nullptr;
  AcknowledgedPtr object = newest->second;
  if (writing_.contains(object->after) || stuck_.contains(object->after)) return nullptr;
  auto taken = waiting_.extract(object->sequence);
  if (!taken) return nullptr;
  writing_.insert(std::move(taken));
  return object;
}

Mutation WriteBehind::removal_of(AcknowledgedPtr object, Judge removal) {
  Mutation mutation;
  mutation.bucket = object->bucket;
  mutation.written_behind = true;
  mutation.judge = [this, object = std::move(object), removal = std::move(removal)](Transaction& transaction) {
    return remove_with(transaction, object, removal);
  };
  return mutation;
}

// A version would need the bytes. Versions are turned on when the bucket has no such object, so this is never met.
Result<void> WriteBehind::remove_with(Transaction& transaction, const AcknowledgedPtr& object, const Judge& removal) {
  VB_ASSIGN(const BucketRecord bucket, check_bucket(transaction, *object->bucket));
  if (bucket.info.versioning != Versioning::off) return fail(Errc::slow_down, "store: the bucket has versions");
  VB_TRY(put_acknowledged(transaction, *object, blob_without_bytes(*object)));
  // Before the removal's own effects: a listener that is told of it must not find the object here any more.
  transaction.on_commit([this, object] { in_index(*object, nullptr); });
  VB_TRY(removal(transaction));
  VB_ASSIGN(const auto left, find_object(transaction, *object->bucket, object->key));
  if (left) return fail(Errc::would_block, "store: the removal left the object");
  return {};
}

// False: the key has no object that can be taken, and `done` was not. A refusal gives the object back on the
// committer's thread: the caller's core may be busy for long, and at a stop of the server it runs no more.
bool WriteBehind::submit_removal(std::string_view name, Judge removal, asio::any_io_executor executor,
                                 Committed& done) {
  std::unique_lock lock(mutex_);
  AcknowledgedPtr object = take_waiting_locked(name);
  if (object == nullptr) return false;
  Committed then = [this, object, executor = std::move(executor),
                    done = std::move(done)](Result<void> outcome) mutable {
    if (!outcome) waits_again(object);
    asio::post(executor,
               [done = std::move(done), outcome = std::move(outcome)]() mutable { done(std::move(outcome)); });
  };
  const auto submitted = engine_.committer->try_submit(removal_of(std::move(object), std::move(removal)), then);
  lock.unlock();
  if (!submitted) then(submitted);
  return true;
}

// would_block: the key has no object that can be taken.
Task<Result<void>> WriteBehind::remove_waiting(std::string name, Judge removal) {
  auto executor = co_await asio::this_coro::executor;
  auto initiate = [this, executor](auto handler, const std::string& of, Judge judge) {
    Committed done = std::move(handler);
    if (submit_removal(of, std::move(judge), executor, done)) return;
    asio::post(executor, [done = std::move(done)]() mutable { done(fail(Errc::would_block, "store: none waits")); });
  };
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(Result<void>)>(
      std::move(initiate), asio::use_awaitable, std::move(name), std::move(removal));
}

Task<Result<bool>> WriteBehind::remove(std::shared_ptr<const Bucket> bucket, std::string key, Judge removal) {
  constexpr int tries_max = 3;  // what the disk refuses while it is written waits again
  for (int tries = 0; tries < tries_max; ++tries) {
    if (find(*bucket, key) != nullptr) {
      const auto removed = co_await remove_waiting(name_of(*bucket, key), removal);
      if (removed) co_return true;
      if (!(removed.error() == Errc::would_block)) co_return std::unexpected(removed.error());
    }
    const auto settled = co_await settle_key(bucket, key, Until::settled_or_refused);
    if (settled) co_return false;
    if (!(settled.error() == Errc::would_block)) co_return std::unexpected(settled.error());
  }
  co_return fail(Errc::slow_down, "store: an object that was acknowledged is not written");
}

// After a removal that was refused.
void WriteBehind::waits_again(const AcknowledgedPtr& object) {
  std::unique_lock lock(mutex_);
  auto taken = writing_.extract(object->sequence);
  if (is_newest_locked(*object)) {
    waiting_.insert(std::move(taken));
    wake_.notify_one();
    return;
  }
  forget_locked(*object);
  tell_log(*object, &PmemLog::replaced);
  wake_settled(std::move(lock));
}

}  // namespace verbena::store::local
