// Task<T>: a coroutine on one core's event loop. An alias of Boost.Asio's awaitable, whose frames are recycled per
// thread, so that a chain of calls costs no allocation once warm.
//
// GCC 12 frees a capture twice when a capturing lambda appears inside a co_await expression: name the lambda in a
// variable first, and never make a capturing lambda itself the coroutine. A test greps for the former.
// The same happens to a braced aggregate there (`co_await sink.push({std::move(lease), bytes})` gives the lease back
// twice): name it in a variable first, too.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "base/result.h"

namespace verbena {

template <class T = void>
using Task = boost::asio::awaitable<T>;

}  // namespace verbena
