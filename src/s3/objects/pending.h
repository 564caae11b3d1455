// A task started before its result is needed. It runs on the same core; a dropped Pending lets the task complete by
// itself, so a task must own what it uses.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <exception>
#include <memory>
#include <optional>

#include "base/task.h"

namespace verbena::s3 {

template <class T>
class Pending {
 public:
  Pending(const boost::asio::any_io_executor& executor, Task<Result<T>> task)
      : state_(std::make_shared<State>(executor)) {
    auto done = [state = state_](std::exception_ptr thrown, Result<T> result) {
      state->result = thrown ? Result<T>(fail(Errc::internal, "pending task threw")) : std::move(result);
      state->ready.cancel();
    };
    boost::asio::co_spawn(executor, std::move(task), std::move(done));
  }

  // Called once.
  Task<Result<T>> wait() {
    auto state = state_;
    while (!state->result) co_await state->ready.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    co_return std::move(*state->result);
  }

 private:
  struct State {
    explicit State(const boost::asio::any_io_executor& executor)
        : ready(executor, boost::asio::steady_timer::time_point::max()) {}
    boost::asio::steady_timer ready;  // never expires: cancelled when the result is ready
    std::optional<Result<T>> result;
  };
  std::shared_ptr<State> state_;
};

}  // namespace verbena::s3
