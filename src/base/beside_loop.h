// A thread beside a loop, for computations that would block the loop for long: a document of megabytes, the sums of ten
// thousand parts. The loop owns it: it starts at first use and ends before the loop's coroutines do, so work may refer
// to the frame of the coroutine that waits for it.
//
//   const auto work = [&] { return parse(text); };   // returns a Result
//   VB_CO_ASSIGN(auto document, co_await beside_loop("document", work));
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/this_coro.hpp>

#include <type_traits>
#include <utility>

#include "base/blocking.h"
#include "base/task.h"

namespace verbena {

BlockingPool& pool_beside(const boost::asio::any_io_executor& executor);

// slow_down: too many calls wait for the thread.
template <class Fn>
Task<std::invoke_result_t<Fn>> beside_loop(const char* reason, Fn work) {
  BlockingPool& pool = pool_beside(co_await boost::asio::this_coro::executor);
  co_return co_await pool.run(reason, std::move(work));
}

// Not refused when many wait: BlockingPool::run_in_order().
template <class Fn>
Task<std::invoke_result_t<Fn>> beside_loop_in_order(const char* reason, Fn work) {
  BlockingPool& pool = pool_beside(co_await boost::asio::this_coro::executor);
  co_return co_await pool.run_in_order(reason, std::move(work));
}

}  // namespace verbena
