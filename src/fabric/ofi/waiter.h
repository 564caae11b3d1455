// Lets a core sleep on a libfabric wait descriptor through its io_context.
#pragma once

#include <boost/asio/io_context.hpp>

#include <memory>

namespace verbena::fabric::ofi {

class Waiter {
 public:
  // Does not own `fd`.
  Waiter(boost::asio::io_context& io, int fd);
  ~Waiter();
  Waiter(const Waiter&) = delete;

  // From now on an event on the descriptor wakes the io_context, once.
  void arm();
  bool waiting() const;  // none has come since

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace verbena::fabric::ofi
