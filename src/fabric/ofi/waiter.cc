#include "fabric/ofi/waiter.h"

#include <boost/asio/posix/stream_descriptor.hpp>

namespace verbena::fabric::ofi {

// Shared with the pending handler, which may run after the Waiter is gone.
struct Waiter::State {
  State(boost::asio::io_context& io, int fd) : descriptor(io, fd) {}
  boost::asio::posix::stream_descriptor descriptor;
  bool waiting = false;
};

Waiter::Waiter(boost::asio::io_context& io, int fd) : state_(std::make_shared<State>(io, fd)) {}

Waiter::~Waiter() { state_->descriptor.release(); }

void Waiter::arm() {
  if (state_->waiting) return;
  state_->waiting = true;
  state_->descriptor.async_wait(boost::asio::posix::descriptor_base::wait_read,
                                [state = state_](boost::system::error_code) { state->waiting = false; });
}

bool Waiter::waiting() const { return state_->waiting; }

}  // namespace verbena::fabric::ofi
