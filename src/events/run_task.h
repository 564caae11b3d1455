// Runs a task to its end, on a loop that is not running otherwise. Blocks.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <exception>
#include <optional>
#include <utility>

#include "base/task.h"

namespace verbena::events {

template <class T>
T run_task(boost::asio::io_context& io, Task<T> task) {
  std::optional<T> result;
  std::exception_ptr thrown;
  auto done = [&](std::exception_ptr e, T value) {
    thrown = e;
    if (!e) result.emplace(std::move(value));
  };
  boost::asio::co_spawn(io, std::move(task), done);
  io.restart();
  io.run();
  if (thrown) std::rethrow_exception(thrown);
  return std::move(*result);
}

}  // namespace verbena::events
