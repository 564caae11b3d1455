#include "store/rados/cluster/cluster.h"

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cerrno>
#include <cstring>

#include "base/metrics.h"

namespace verbena::store::rados {
namespace {

struct Metrics {
  metrics::Counter& reads = metrics::counter("verbena_rados_calls_total", "Calls to the cluster", {{"kind", "read"}});
  metrics::Counter& writes = metrics::counter("verbena_rados_calls_total", "Calls to the cluster", {{"kind", "write"}});
  metrics::Counter& late =
      metrics::counter("verbena_rados_late_calls_total", "Calls that the cluster did not answer in time");
  metrics::Gauge& in_flight = metrics::gauge("verbena_rados_calls_in_flight", "Calls that the cluster has to answer");
};
Metrics& counters() {
  static Metrics all;
  return all;
}

std::string sentence(int code, const std::string& what) {
  std::string text = what + ": " + std::strerror(-code);
  if (code == -ENOENT) text += " (`verbena rados init` makes the pools)";
  return text;
}

}  // namespace

Buffer to_buffer(std::string_view bytes) {
  Buffer buffer;
  buffer.append(bytes.data(), static_cast<unsigned>(bytes.size()));
  return buffer;
}

std::string to_text(Buffer& buffer) { return buffer.to_str(); }

Error to_error(int code, const char* what) {
  const auto error = [&](Errc errc, const char* why) { return Error{errc, -code, why}; };
  switch (-code) {
    case ENOSPC:
    case EDQUOT:
      return error(Errc::insufficient_storage, "The Ceph cluster or one of its pools is full.");
    case ETIMEDOUT:
    case Cluster::unanswered:
      return error(Errc::service_unavailable, "The Ceph cluster did not answer in time.");
    case ESHUTDOWN:
      return error(Errc::service_unavailable, "The Ceph cluster has shut this server out.");
    case EROFS:
    case EPERM:
    case EACCES:
      return error(Errc::service_unavailable, "The Ceph cluster does not let this server do that.");
    case ENOTCONN:
    case ECONNRESET:
    case ECONNREFUSED:
      return error(Errc::service_unavailable, "The Ceph cluster cannot be reached.");
    case EBUSY:
    case EAGAIN:
      return error(Errc::slow_down, "Too many calls wait for the Ceph cluster.");
    default:
      return error(Errc::io_error, what);
  }
}

std::expected<std::unique_ptr<Cluster>, std::string> Cluster::connect(const ClusterOptions& options) {
  std::unique_ptr<Cluster> cluster(new Cluster(options));
  librados::Rados& rados = cluster->rados_;
  if (const int code = rados.init(options.user.c_str()); code < 0) return std::unexpected(sentence(code, "rados"));
  if (const int code = rados.conf_read_file(options.conf.empty() ? nullptr : options.conf.c_str()); code < 0) {
    return std::unexpected(sentence(code, options.conf.empty() ? "no ceph.conf" : options.conf));
  }
  const std::string seconds = std::to_string(options.timeout.count());
  // A call time-out shorter than the objecter's own would leave a client stuck after all OSDs were down.
  const std::pair<const char*, std::string> settings[] = {
      {"rados_osd_op_timeout", seconds}, {"rados_mon_op_timeout", seconds}, {"client_mount_timeout", seconds},
      {"objecter_timeout", "2"},         {"objecter_tick_interval", "1"},   {"log_to_stderr", "false"}};
  for (const auto& [name, value] : settings) {
    if (const int code = rados.conf_set(name, value.c_str()); code < 0) return std::unexpected(sentence(code, name));
  }
  if (const int code = rados.connect(); code < 0) {
    return std::unexpected(sentence(code, "the Ceph cluster does not let in client." + options.user));
  }
  for (const auto& [pool, context] :
       {std::pair(&options.index_pool, &cluster->index_), std::pair(&options.pool, &cluster->data_)}) {
    if (const int code = rados.ioctx_create(pool->c_str(), *context); code < 0) {
      return std::unexpected(sentence(code, "pool '" + *pool + "'"));
    }
    context->set_namespace(options.name_space);
  }
  bool aligned = false;
  // An erasure-coded pool rejects rows, and silently returns none when they are read.
  if (const int code = cluster->index_.pool_requires_alignment2(&aligned); code < 0 || aligned) {
    return std::unexpected("pool '" + options.index_pool + "' is erasure-coded: the index pool must be replicated");
  }
  return cluster;
}

void Cluster::wait_until_idle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return started_ == 0; });  // each call has a time-out
}

void Cluster::close() {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  wake();
}

Cluster::~Cluster() {
  wait_until_idle();
  index_.close();
  data_.close();
  rados_.shutdown();
}

struct Cluster::Call {
  Cluster* cluster = nullptr;
  librados::AioCompletion* completion = nullptr;
  size_t bytes = 0;
  std::shared_ptr<void> keep{};
  uint64_t* version = nullptr;      // in `keep`
  std::function<void(int)> done{};  // called at the end of the call
  std::atomic<bool> is_over{false};

  void end(int code) {
    if (is_over.exchange(true)) return;
    if (code == -ETIMEDOUT || code == -unanswered) counters().late.add();
    done(code);
    done = nullptr;
    cluster->leave(bytes);
  }
};

// Called on a thread of librados, which has released the call.
void Cluster::completed(librados::completion_t, void* raw) {
  const std::unique_ptr<std::shared_ptr<Call>> held(static_cast<std::shared_ptr<Call>*>(raw));
  const std::shared_ptr<Call> call = *held;
  const int code = call->completion->get_return_value();
  if (call->version != nullptr) *call->version = call->completion->get_version64();
  call->completion->release();
  call->keep.reset();
  call->end(code);
}

Task<bool> Cluster::enter(size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (may_enter(bytes)) {
      ++in_flight_;
      bytes_ += bytes;
      co_return true;
    }
    if (row_waiters_.size() + byte_waiters_.size() >= waiters_max) co_return false;
  }
  auto executor = co_await boost::asio::this_coro::executor;
  auto initiate = [this, executor, bytes](auto handler) {
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));
    auto go = [executor, shared] { boost::asio::post(executor, [shared]() mutable { (*shared)(true); }); };
    std::unique_lock lock(mutex_);
    if (!may_enter(bytes)) {
      queue_of(bytes).push_back({bytes, std::move(go), ++came_});
      return;
    }
    ++in_flight_;
    bytes_ += bytes;
    lock.unlock();
    go();
  };
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(bool)>(
      std::move(initiate), boost::asio::use_awaitable);
}

void Cluster::leave(size_t bytes) {
  const std::lock_guard lock(mutex_);
  --in_flight_;
  --started_;
  if (started_ == 0) idle_.notify_all();
  bytes_ -= bytes;
  counters().in_flight.set(static_cast<int64_t>(in_flight_));
  wake();
}

void Cluster::wake() {
  for (;;) {
    // The first waiter among those that fit.
    std::deque<Waiter>* next = nullptr;
    for (auto* queue : {&row_waiters_, &byte_waiters_}) {
      if (queue->empty() || !fits(queue->front().bytes)) continue;
      if (next == nullptr || queue->front().came < next->front().came) next = queue;
    }
    if (next == nullptr) return;
    ++in_flight_;
    bytes_ += next->front().bytes;
    const auto go = std::move(next->front().go);
    next->pop_front();
    go();  // only posts
  }
}

Task<int> Cluster::call(Start start, std::shared_ptr<void> keep, size_t bytes) {
  return make_call(std::move(start), std::move(keep), bytes, std::nullopt);
}

Task<int> Cluster::call_within(std::chrono::milliseconds most, Start start, std::shared_ptr<void> keep) {
  return make_call(std::move(start), std::move(keep), 0, most);
}

Task<int> Cluster::make_call(Start start, std::shared_ptr<void> keep, size_t bytes,
                             std::optional<std::chrono::milliseconds> most, uint64_t* version) {
  if (!co_await enter(bytes)) co_return -EBUSY;
  calls_.fetch_add(1, std::memory_order_relaxed);
  auto executor = co_await boost::asio::this_coro::executor;
  auto timer = most ? std::make_shared<boost::asio::steady_timer>(executor, *most) : nullptr;
  auto initiate = [this, executor, bytes, timer, version](auto handler, Start begin, std::shared_ptr<void> held) {
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));
    auto done = [executor, shared, timer](int code) {
      boost::asio::post(executor, [shared, timer, code]() mutable {
        if (timer) timer->cancel();
        (*shared)(code);
      });
    };
    auto call = std::make_shared<Call>(this, nullptr, bytes, std::move(held), version, std::move(done));
    auto* raw = new std::shared_ptr<Call>(call);
    auto* completion = call->completion = librados::Rados::aio_create_completion(raw, &Cluster::completed);
    {
      const std::lock_guard lock(mutex_);
      ++started_;
    }
    if (timer) {
      timer->async_wait([call](const boost::system::error_code& cancelled) {
        if (!cancelled) call->end(-unanswered);
      });
    }
    if (const int code = begin(completion); code < 0) {
      delete raw;
      completion->release();
      call->end(code);
    }
  };
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(int)>(
      std::move(initiate), boost::asio::use_awaitable, std::move(start), std::move(keep));
}

Task<int> Cluster::read(Pool pool, std::string object, librados::ObjectReadOperation op, std::shared_ptr<void> reply,
                        size_t bytes, uint64_t* version) {
  counters().reads.add();
  auto held = std::make_shared<librados::ObjectReadOperation>(std::move(op));
  Start start = [this, pool, object = std::move(object), held](librados::AioCompletion* completion) {
    return context(pool).aio_operate(object, completion, held.get(), nullptr);
  };
  co_return co_await make_call(std::move(start), std::move(reply), bytes, std::nullopt, version);
}

// Removals and changes of rows succeed on a full pool; calls that would create an object get ENOSPC at once instead of
// waiting for space.
Cluster::Start Cluster::start_of(Pool pool, std::string object, librados::ObjectWriteOperation op) {
  counters().writes.add();
  auto held = std::make_shared<librados::ObjectWriteOperation>(std::move(op));
  return [this, pool, object = std::move(object), held](librados::AioCompletion* completion) {
    return context(pool).aio_operate(object, completion, held.get(), librados::OPERATION_FULL_TRY);
  };
}

Task<int> Cluster::write(Pool pool, std::string object, librados::ObjectWriteOperation op, size_t bytes) {
  if (!may_write()) co_return -EROFS;
  Start start = start_of(pool, std::move(object), std::move(op));
  co_return co_await call(std::move(start), nullptr, bytes);
}

Task<int> Cluster::withdraw(std::string object, librados::ObjectWriteOperation op) {
  Start start = start_of(Pool::index, std::move(object), std::move(op));
  co_return co_await call(std::move(start), nullptr);
}

}  // namespace verbena::store::rados
