// The C API's asynchronous calls: operations that a queue returns when they are done.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <mutex>

#include "base/clock.h"
#include "client/api/client_impl.h"
#include "client/c/c_api.h"

namespace verbena::c_api {

// Operations that are done and not taken yet. The descriptor is readable exactly while there are any.
class DoneQueue {
 public:
  explicit DoneQueue(int fd) : fd_(fd) {}
  ~DoneQueue();
  DoneQueue(const DoneQueue&) = delete;

  void put(std::unique_ptr<verbena_operation> operation);
  std::unique_ptr<verbena_operation> take();
  // Drops all operations: none will be taken any more.
  void close();
  int fd() const { return fd_; }
  bool forked() const { return forks_ != client::forks(); }

 private:
  const int fd_;
  const uint64_t forks_ = client::forks();
  std::mutex mutex_;
  std::deque<std::unique_ptr<verbena_operation>> done_;
  bool closed_ = false;
};

}  // namespace verbena::c_api

struct verbena_operation {
  std::shared_ptr<verbena::c_api::DoneQueue> queue;
  void* context = nullptr;
  std::stop_source stop;
  verbena::Outcome<> outcome;
  uint64_t bytes = 0;
  verbena::Transfer transfer;
  verbena::ObjectInfo object;
  std::unique_ptr<verbena_info> info;
  std::unique_ptr<verbena_page> page;
};

struct verbena_queue {
  std::shared_ptr<verbena::c_api::DoneQueue> done;
};

namespace verbena::c_api {

DoneQueue::~DoneQueue() { ::close(fd_); }

void DoneQueue::put(std::unique_ptr<verbena_operation> operation) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  done_.push_back(std::move(operation));
  const uint64_t one = 1;
  if (done_.size() == 1 && ::write(fd_, &one, sizeof one) < 0) return;  // it cannot fail: the count is 0
}

std::unique_ptr<verbena_operation> DoneQueue::take() {
  std::lock_guard lock(mutex_);
  if (done_.empty()) return nullptr;
  auto first = std::move(done_.front());
  done_.pop_front();
  uint64_t count = 0;
  if (done_.empty() && ::read(fd_, &count, sizeof count) < 0) return first;  // likewise
  return first;
}

void DoneQueue::close() {
  std::deque<std::unique_ptr<verbena_operation>> left;
  std::lock_guard lock(mutex_);
  closed_ = true;
  left.swap(done_);
}

namespace {

Outcome<verbena::Client::Inside::Impl*> startable(verbena_client* client, verbena_queue* queue) {
  if (client == nullptr || queue == nullptr) return null_argument();
  verbena::Client::Inside::Impl& impl = verbena::Client::Inside::impl(client->client);
  OUT_TRY(impl.usable());
  return &impl;
}

// Creates the operation and shows it to the caller before it can complete.
std::unique_ptr<verbena_operation> begin(verbena_queue* queue, void* context, verbena_operation** operation) {
  auto made = std::make_unique<verbena_operation>();
  made->queue = queue->done;
  made->context = context;
  if (operation != nullptr) *operation = made.get();
  return made;
}

void complete(verbena_operation* operation) {
  auto queue = operation->queue;
  queue->put(std::unique_ptr<verbena_operation>(operation));
}

void got(verbena_operation* operation, Outcome<GetReply> reply, bool info) {
  if (reply) {
    operation->bytes = reply->bytes;
    operation->transfer = std::move(reply->transfer);
    operation->object = reply->info;
    if (info) operation->info.reset(make_info(std::move(reply->info)));
  } else {
    operation->outcome = std::unexpected(std::move(reply).error());
  }
  complete(operation);
}

void was_put(verbena_operation* operation, Outcome<PutReply> reply, bool info) {
  if (reply) {
    operation->bytes = reply->transfer.bytes;
    operation->object.size = reply->object_size != 0 ? reply->object_size : reply->transfer.bytes;
    operation->object.etag = std::move(reply->etag);
    operation->object.version_id = std::move(reply->version_id);
    operation->transfer = std::move(reply->transfer);
    if (info) operation->info.reset(make_info(*reply));
  } else {
    operation->outcome = std::unexpected(std::move(reply).error());
  }
  complete(operation);
}

void start_put(verbena::Client::Inside::Impl& impl, std::unique_ptr<verbena_operation> operation, const char* bucket,
               const char* key, verbena::Buffer from, PutRequest request) {
  request.options.cancel = operation->stop.get_token();
  verbena_operation* const raw = operation.release();
  const bool info = request.info != nullptr;
  impl.put_async(
      bucket, key, std::move(from), std::move(request.options),
      [raw, info](Outcome<PutReply> reply) { was_put(raw, std::move(reply), info); }, true);
}

// Runs on one of the client's threads: `call` returns an Outcome, `keep` takes its value.
template <class Call, class Keep>
void work(verbena::Client::Inside::Impl& impl, verbena_operation* operation, Call call, Keep keep) {
  impl.post([operation, call = std::move(call), keep = std::move(keep)] {
    auto outcome = call();
    if (outcome) {
      keep(*operation, outcome);
    } else {
      operation->outcome = std::unexpected(std::move(outcome).error());
    }
    complete(operation);
  });
}

}  // namespace
}  // namespace verbena::c_api

using namespace verbena::c_api;
using verbena::ErrorCode;
using verbena::Outcome;
using verbena::client::fault;

extern "C" {

int verbena_queue_new(verbena_queue** queue) {
  return guarded([&]() -> Outcome<> {
    if (queue == nullptr) return null_argument();
    *queue = nullptr;
    const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) return fault(ErrorCode::local_error, std::string("eventfd: ") + std::strerror(errno));
    *queue = new verbena_queue{std::make_shared<DoneQueue>(fd)};
    return {};
  });
}

int verbena_queue_fd(const verbena_queue* queue) { return queue == nullptr ? -1 : queue->done->fd(); }

int verbena_queue_next(verbena_queue* queue, int timeout_ms, verbena_operation** operation) {
  return guarded([&]() -> Outcome<> {
    if (queue == nullptr || operation == nullptr) return null_argument();
    *operation = nullptr;
    if (queue->done->forked()) return fault(ErrorCode::forked, "the queue was made before a fork of this process");
    const auto until = verbena::deadline_in(std::chrono::milliseconds(std::max(timeout_ms, 0)));
    for (;;) {
      if (auto done = queue->done->take()) {
        *operation = done.release();
        return {};
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - verbena::SteadyClock::now()).count();
      if (timeout_ms >= 0 && left <= 0) return {};
      pollfd readable{queue->done->fd(), POLLIN, 0};
      if (::poll(&readable, 1, timeout_ms < 0 ? -1 : static_cast<int>(left)) < 0 && errno == EINTR) {
        if (timeout_ms >= 0) continue;
        return {};  // lets a signal's handler act
      }
    }
  });
}

void verbena_queue_free(verbena_queue* queue) {
  if (queue == nullptr) return;
  if (!queue->done->forked()) queue->done->close();
  delete queue;
}

int verbena_start_get(verbena_client* client, verbena_queue* queue, const char* bucket, const char* key,
                      verbena_buffer* buffer, size_t offset, size_t size, const verbena_get_options* options,
                      void* context, verbena_operation** operation) {
  return guarded([&]() -> Outcome<> {
    if (bucket == nullptr || key == nullptr || buffer == nullptr) return null_argument();
    OUT_ASSIGN(auto* impl, startable(client, queue));
    OUT_ASSIGN(auto request, get_request(options));
    OUT_ASSIGN(auto into, part_of(buffer, offset, size));
    auto made = begin(queue, context, operation);
    request.options.cancel = made->stop.get_token();
    verbena_operation* const raw = made.release();
    const bool info = request.options.metadata;
    if (request.ranges.empty()) {
      impl->get_async(
          bucket, key, std::move(into), std::move(request.options),
          [raw, info](Outcome<verbena::GetReply> reply) { got(raw, std::move(reply), info); }, true);
      return {};
    }
    // No reference to the client: verbena_close() waits for this.
    impl->post([=, request = std::move(request), bucket = std::string(bucket), key = std::string(key)] {
      got(raw, impl->get_ranges(bucket, key, request.ranges, into, request.options), info);
    });
    return {};
  });
}

int verbena_start_put(verbena_client* client, verbena_queue* queue, const char* bucket, const char* key,
                      verbena_buffer* buffer, size_t offset, size_t size, const verbena_put_options* options,
                      void* context, verbena_operation** operation) {
  return guarded([&]() -> Outcome<> {
    if (bucket == nullptr || key == nullptr || buffer == nullptr) return null_argument();
    OUT_ASSIGN(auto* impl, startable(client, queue));
    OUT_ASSIGN(auto request, put_request(options));
    OUT_ASSIGN(auto from, part_of(buffer, offset, size));
    start_put(*impl, begin(queue, context, operation), bucket, key, std::move(from), std::move(request));
    return {};
  });
}

int verbena_start_append(verbena_client* client, verbena_queue* queue, const char* bucket, const char* key,
                         const void* from, size_t size, uint64_t at, const verbena_put_options* options, void* context,
                         verbena_operation** operation) {
  return guarded([&]() -> Outcome<> {
    if (bucket == nullptr || key == nullptr || (from == nullptr && size > 0)) return null_argument();
    OUT_ASSIGN(auto* impl, startable(client, queue));
    OUT_ASSIGN(auto request, put_request(options));
    request.options.append_at = at;
    verbena::Buffer memory;
    if (size > 0) {
      // It is only read.
      OUT_ASSIGN(memory, client->client.register_memory(const_cast<void*>(from), size));
    }
    start_put(*impl, begin(queue, context, operation), bucket, key, std::move(memory), std::move(request));
    return {};
  });
}

int verbena_start_head(verbena_client* client, verbena_queue* queue, const char* bucket, const char* key,
                       const verbena_head_options* options, void* context, verbena_operation** operation) {
  return guarded([&]() -> Outcome<> {
    if (bucket == nullptr || key == nullptr) return null_argument();
    OUT_ASSIGN(auto* impl, startable(client, queue));
    OUT_ASSIGN(auto request, head_request(options));
    auto made = begin(queue, context, operation);
    request.options.cancel = made->stop.get_token();
    work(
        *impl, made.release(),
        [impl, bucket = std::string(bucket), key = std::string(key), options = request.options] {
          return impl->head(bucket, key, options);
        },
        [](verbena_operation& done, Outcome<verbena::ObjectInfo>& info) {
          done.object = *info;
          done.info.reset(make_info(std::move(*info)));
        });
    return {};
  });
}

int verbena_start_delete(verbena_client* client, verbena_queue* queue, const char* bucket, const char* key,
                         const verbena_delete_options* options, void* context, verbena_operation** operation) {
  return guarded([&]() -> Outcome<> {
    if (bucket == nullptr || key == nullptr) return null_argument();
    OUT_ASSIGN(auto* impl, startable(client, queue));
    OUT_ASSIGN(auto request, delete_request(options));
    auto made = begin(queue, context, operation);
    request.cancel = made->stop.get_token();
    work(
        *impl, made.release(),
        [impl, bucket = std::string(bucket), key = std::string(key), request] {
          return impl->remove(bucket, key, request);
        },
        [](verbena_operation&, Outcome<>&) {});
    return {};
  });
}

int verbena_start_list(verbena_client* client, verbena_queue* queue, const char* bucket,
                       const verbena_list_options* options, void* context, verbena_operation** operation) {
  return guarded([&]() -> Outcome<> {
    if (bucket == nullptr) return null_argument();
    OUT_ASSIGN(auto* impl, startable(client, queue));
    OUT_ASSIGN(auto request, list_request(options));
    auto made = begin(queue, context, operation);
    request.cancel = made->stop.get_token();
    work(
        *impl, made.release(), [impl, bucket = std::string(bucket), request] { return impl->list(bucket, request); },
        [](verbena_operation& done, Outcome<verbena::ListPage>& page) {
          done.page.reset(new verbena_page{std::move(*page)});
        });
    return {};
  });
}

void verbena_operation_cancel(verbena_operation* operation) {
  if (operation == nullptr) return;
  // Another thread may take the operation and free it during the request to stop.
  std::stop_source stop = operation->stop;
  stop.request_stop();
}

void* verbena_operation_context(const verbena_operation* operation) {
  return operation == nullptr ? nullptr : operation->context;
}

int verbena_operation_result(verbena_operation* operation, uint64_t* bytes, verbena_object* object,
                             verbena_transfer* transfer) {
  return guarded([&]() -> Outcome<> {
    if (operation == nullptr) return null_argument();
    OUT_TRY(fillable(object));
    OUT_TRY(fillable(transfer));
    OUT_TRY(operation->outcome);
    if (bytes != nullptr) *bytes = operation->bytes;
    fill(object, operation->object);
    fill(transfer, operation->transfer);
    return {};
  });
}

const verbena_info* verbena_operation_info(const verbena_operation* operation) {
  return operation == nullptr ? nullptr : operation->info.get();
}
const verbena_page* verbena_operation_page(const verbena_operation* operation) {
  return operation == nullptr ? nullptr : operation->page.get();
}
void verbena_operation_free(verbena_operation* operation) { delete operation; }

}  // extern "C"
