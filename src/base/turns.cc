#include "base/turns.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace verbena {

Task<void> Turns::pass() {
  // A post would run in the same pass of the loop, before the core polls its fabrics.
  constexpr std::chrono::microseconds moment{100};
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, moment);
  co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  until_ = deadline_in(turn);
}

}  // namespace verbena
