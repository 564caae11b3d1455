#include "rdma/rc/channel.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <array>
#include <cerrno>
#include <utility>

namespace verbena::rdma::rc {

namespace asio = boost::asio;

Channel::Channel(std::unique_ptr<QueuePair> pair, std::chrono::milliseconds settle, GiveBack give_back)
    : pair_(std::move(pair)), settle_(settle), give_back_(std::move(give_back)) {}

Channel::~Channel() {
  if (events_) events_->release();
  if (unfinished_ != 0) pair_.reset();  // its loop has ended before the operations: they are not collected any more
  if (give_back_) give_back_(std::move(pair_));
}

std::unique_ptr<QueuePair> Channel::take() {
  if (events_) events_->release();
  events_.reset();
  for (const auto& [id, one] : waiting_) one->timer->cancel();
  return std::exchange(pair_, nullptr);
}

void Channel::stop() {
  auto pair = take();
  if (pair == nullptr) return;
  pair.reset();
  stopped_at_ = SteadyClock::now();
}

void Channel::collect() {
  std::array<Completion, 16> found;
  for (;;) {
    const size_t count = pair_->poll(found);
    for (size_t i = 0; i < count; ++i) {
      const auto place = waiting_.find(found[i].id);
      if (place == waiting_.end() || place->second->done) continue;
      place->second->done = found[i];
      place->second->timer->cancel();
      --unfinished_;
    }
    if (count < found.size()) return;
  }
}

Task<void> Channel::watch(std::shared_ptr<Channel> self) {
  while (self->pair_ != nullptr && self->unfinished_ != 0) {
    if (!self->pair_->arm()) {
      self->stop();
      break;
    }
    self->collect();  // what completed before it was armed
    if (self->unfinished_ == 0) break;
    boost::system::error_code ended;
    co_await self->events_->async_wait(asio::posix::stream_descriptor::wait_read,
                                       asio::redirect_error(asio::use_awaitable, ended));
  }
  self->watching_ = false;
}

Task<Result<Completion>> Channel::finish(uint64_t id, Deadline deadline) {
  const auto self = shared_from_this();
  if (pair_ == nullptr) co_return fail(Errc::rdma_transfer_failed, "queue pair: it is broken");
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, deadline);
  Waiting one{&timer};
  waiting_.emplace(id, &one);
  ++unfinished_;
  if (!watching_) {
    watching_ = true;
    if (!events_) events_.emplace(executor, pair_->events());
    asio::co_spawn(executor, watch(self), asio::detached);
  }
  while (!one.done && pair_ != nullptr && SteadyClock::now() < deadline) {
    boost::system::error_code cancelled;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
  waiting_.erase(id);
  if (!one.done) --unfinished_;
  if (one.done && one.done->status == 0) co_return *one.done;
  const bool late = !one.done && pair_ != nullptr;
  const int status = one.done ? one.done->status : 0;
  stop();
  if (late) co_return fail(Errc::rdma_transfer_failed, "queue pair: no completion in time", ETIMEDOUT);
  co_return fail(Errc::rdma_transfer_failed, "queue pair: the operation failed", status);
}

Task<Result<Completion>> Channel::finish_write(uint64_t id, Deadline deadline) {
  const auto self = shared_from_this();
  auto done = co_await finish(id, deadline);
  if (done) co_return done;
  asio::steady_timer settled(co_await asio::this_coro::executor, stopped_at_ + settle_);
  boost::system::error_code ended;
  co_await settled.async_wait(asio::redirect_error(asio::use_awaitable, ended));
  co_return done;
}

}  // namespace verbena::rdma::rc
