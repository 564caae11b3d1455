// Waiting in a coroutine for what another thread reports.
#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <memory>
#include <utility>

#include "base/task.h"

namespace verbena {

// Calls `begin` with a function that may be copied, and that is called once, from any thread, with a T. Resumes on the
// caller's executor with that T. `begin` returns before this resumes.
template <class T, class Begin>
Task<T> elsewhere(Begin begin) {
  auto executor = co_await boost::asio::this_coro::executor;
  auto initiate = [&](auto handler) {
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));  // std::function copies what it holds
    begin([executor, shared](T result) {
      boost::asio::post(executor, [shared, result = std::move(result)]() mutable { (*shared)(std::move(result)); });
    });
  };
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(T)>(
      initiate, boost::asio::use_awaitable);
}

}  // namespace verbena
