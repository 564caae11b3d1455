// The writer of an append: small ones wait in a queue of their key, long ones are written as they come.
#include <boost/asio/async_result.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <utility>

#include "store/logic/append.h"
#include "store/logic/append_sealing.h"

namespace verbena::store {
namespace {

// Serves a queue on the loop of the caller that found it without a server.
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
      const auto done = std::move(one->done);  // its caller may release it at once
      done();
    }
  }
}

class AppendWriter final : public ObjectWriter {
 public:
  AppendWriter(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket, std::string key,
               std::optional<uint64_t> size_hint, AppendSealPtr seal)
      : context_(std::move(context)),
        bucket_(std::move(bucket)),
        key_(std::move(key)),
        size_hint_(size_hint),
        seal_(std::move(seal)) {}

  Task<Result<void>> append(memory::Chunk chunk) override {
    if (committed_) co_return fail(Errc::invalid_argument, "writer: already committed");
    const bool all = chunk.bytes.size() == size_hint_.value_or(chunk.bytes.size());
    size_ += chunk.bytes.size();
    if (!bytes_ && !whole_ && all && chunk.bytes.size() <= small_max) {
      whole_ = std::move(chunk);
      co_return Result<void>{};
    }
    if (!bytes_) VB_CO_TRY(co_await begin_large());
    if (whole_) {
      memory::Chunk first = std::move(*whole_);
      whole_.reset();
      VB_CO_TRY(co_await write(std::move(first)));
    }
    co_return co_await write(std::move(chunk));
  }

  Task<Result<ObjectInfo>> commit(ObjectInfo info, CommitConditions conditions) override {
    if (std::exchange(committed_, true)) co_return fail(Errc::invalid_argument, "writer: already committed");
    if (info.size != size_ || info.stored_size != 0) {
      co_return fail(Errc::incomplete_body, "writer: the size differs from what was appended");
    }
    info.parts.clear();
    auto one = std::make_shared<Appending>(
        Appending{.info = std::move(info), .conditions = std::move(conditions), .seal = seal_});
    if (bytes_) co_return co_await commit_large(std::move(one));
    if (whole_) one->bytes = std::move(*whole_);
    co_return co_await commit_small(std::move(one));
  }

 private:
  // Longer appends are written as they arrive.
  static constexpr size_t small_max = 256 * KiB;

  Task<Result<void>> begin_large() {
    bytes_ = context_->blobs->create(*bucket_, seal_ && size_hint_ ? sealed_size(*size_hint_) : size_hint_);
    if (seal_ == nullptr) co_return Result<void>{};
    // Reports a mismatch of encryption before many bytes have been sent.
    VB_CO_ASSIGN(const auto there, co_await attributes_now(context_, bucket_, key_));
    if (there) VB_CO_TRY(seal_->check(*there));
    VB_CO_ASSIGN(sealed_under_, seal_->object_key(there ? *there : seal_->fresh()));
    sealing_.emplace(*seal_, sealed_under_, bytes_, size_hint_);
    co_return Result<void>{};
  }

  Task<Result<void>> write(memory::Chunk chunk) {
    if (sealing_) return sealing_->append(std::move(chunk));
    return bytes_->append(std::move(chunk));
  }

  Task<Result<ObjectInfo>> commit_small(AppendingPtr one) {
    auto executor = co_await boost::asio::this_coro::executor;
    auto initiate = [context = context_, bucket = bucket_, key = key_, executor](auto handler, AppendingPtr waiting) {
      // The handler is shared because std::function copies what it holds.
      auto shared = std::make_shared<decltype(handler)>(std::move(handler));
      waiting->done = [executor, shared] { boost::asio::post(executor, [shared]() mutable { (*shared)(); }); };
      if (!context->appends->add({bucket->id, key}, std::move(waiting))) return;
      // Deferred: appends that arrive in the same turn of the loop become one change.
      boost::asio::post(executor, [context, bucket, key, executor] {
        boost::asio::co_spawn(executor, serve_queue(context, bucket, key), boost::asio::detached);
      });
    };
    co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void()>(
        std::move(initiate), boost::asio::use_awaitable, one);
    co_return std::move(one->outcome);
  }

  Task<Result<ObjectInfo>> commit_large(AppendingPtr one) {
    WrittenPart part;
    if (sealing_) {
      VB_CO_ASSIGN(part.attributes, co_await sealing_->commit(size_));
      part.sealed_under = std::move(sealed_under_);
    }
    part.bytes = std::exchange(bytes_, nullptr);
    co_return co_await append_part(context_, bucket_, key_, std::move(one), std::move(part));
  }

  std::shared_ptr<Context> context_;
  std::shared_ptr<const Bucket> bucket_;
  std::string key_;
  const std::optional<uint64_t> size_hint_;
  std::optional<memory::Chunk> whole_;  // everything received so far, in one piece
  std::shared_ptr<BlobWriter> bytes_;
  const AppendSealPtr seal_;
  Secret sealed_under_;                      // the object's key
  std::optional<SealedPartWriter> sealing_;  // into bytes_
  uint64_t size_ = 0;                        // bytes received
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
  std::deque<AppendingPtr> waiting;  // moved out, so that it is destroyed without the lock
  const std::lock_guard lock(mutex_);
  const auto queue = queues_.find(name);
  if (queue == queues_.end()) return;
  waiting.swap(queue->second);
  queues_.erase(queue);
}

std::unique_ptr<ObjectWriter> make_append_writer(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket,
                                                 std::string key, std::optional<uint64_t> size_hint,
                                                 AppendSealPtr seal) {
  return std::make_unique<AppendWriter>(std::move(context), std::move(bucket), std::move(key), size_hint,
                                        std::move(seal));
}

}  // namespace verbena::store
