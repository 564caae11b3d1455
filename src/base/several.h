// The same work by several coroutines of one loop, which share what they take from.
//
//   const auto work = [this, page] { return worker(page); };   // a coroutine that ends when nothing is left
//   co_await run_several(std::min(most, page->keys.size()), work);
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstddef>
#include <memory>
#include <utility>

#include "base/task.h"

namespace verbena {

struct Several {
  boost::asio::steady_timer ended;  // cancelled by each that ends
  size_t busy;
};

inline Task<> one_of_several(std::shared_ptr<Several> all, Task<> work) {
  co_await std::move(work);
  --all->busy;
  all->ended.cancel();
}

// Returns when each of `count` coroutines that `work` returned has ended.
template <class Work>
Task<> run_several(size_t count, Work work) {
  const auto executor = co_await boost::asio::this_coro::executor;
  const auto all = std::make_shared<Several>(boost::asio::steady_timer(executor), count);
  for (size_t i = 0; i < count; ++i) {
    boost::asio::co_spawn(executor, one_of_several(all, work()), boost::asio::detached);
  }
  while (all->busy != 0) {
    all->ended.expires_at(boost::asio::steady_timer::time_point::max());
    (void)co_await all->ended.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }
}

}  // namespace verbena
