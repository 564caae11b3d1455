// One read or write of a window in progress. It is in the frame of the coroutine that waits for it.
#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <optional>

#include "base/clock.h"
#include "base/task.h"
#include "fabric/tcp/outbox.h"

namespace verbena::fabric::tcp {

struct Transfer {
  using Handler = boost::asio::async_result<boost::asio::use_awaitable_t<>, void(Result<void>)>::handler_type;

  Transfer() = default;
  Transfer(const Transfer&) = delete;

  bool is_write = false;
  Deadline deadline;
  Outgoing out;  // write
  // read
  uint64_t operation = 0;
  std::byte* into = nullptr;
  uint64_t size = 0;
  uint64_t received = 0;

  bool done = false;
  Result<void> outcome;
  std::optional<Handler> handler;  // of the coroutine, once it waits
};

}  // namespace verbena::fabric::tcp
