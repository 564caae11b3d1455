#include <algorithm>

#include "rdma/token_windows.h"
#include "rdma/transfer_times.h"

namespace verbena::rdma {

struct WindowSource::State {
  std::unique_ptr<fabric::Window> window;
  uint64_t size = 0;
  uint64_t taken = 0;
  std::chrono::milliseconds deadline;
  Result<void> outcome;
};

WindowSource::WindowSource(std::unique_ptr<fabric::Window> window, uint64_t size, std::chrono::milliseconds deadline)
    : state_(std::make_unique<State>()) {
  state_->window = std::move(window);
  state_->size = size;
  state_->deadline = deadline;
  TransferTimes::get();  // before the time is read
  if (size > state_->window->size()) {
    state_->outcome = fail(Errc::invalid_argument, "window source: more bytes than the window has");
  }
}

WindowSource::~WindowSource() = default;

std::optional<uint64_t> WindowSource::size() const { return state_->size; }

bool WindowSource::by_device() const { return state_->window->by_device(); }

// The data endpoint pipelines the pieces of one read, so a large `into` keeps the wire full.
Task<Result<size_t>> WindowSource::read(MutableBytes into) {
  State& state = *state_;
  if (!state.outcome) co_return std::unexpected(state.outcome.error());
  const size_t n = std::min<uint64_t>(into.size(), state.size - state.taken);
  if (n == 0) co_return size_t{0};
  const uint64_t began = ticks();
  const auto done = co_await state.window->read(into.first(n), state.taken, deadline_in(state.deadline));
  TransferTimes::get().read.observe_since(began);
  if (!done) {
    state.outcome = done;
    co_return std::unexpected(done.error());
  }
  state.taken += n;
  co_return n;
}

}  // namespace verbena::rdma
