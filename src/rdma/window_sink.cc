#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <optional>

#include "rdma/token_windows.h"
#include "rdma/transfer_times.h"

namespace verbena::rdma {
namespace {

// Chunks in flight: reading the next from disk overlaps with these.
constexpr unsigned in_flight_max = 4;

}  // namespace

// Shared with the writes in progress: they keep leases and window until their completions, even if the sink is
// destroyed.
struct WindowSink::State {
  std::unique_ptr<fabric::Window> window;
  std::chrono::milliseconds deadline;
  Deadline last_post;
  uint64_t length = 0;
  uint64_t posted = 0;
  uint64_t written = 0;
  unsigned in_flight = 0;
  Result<void> outcome;
  std::optional<boost::asio::steady_timer> changed;  // cancelled when a write ends

  static Task<void> write(std::shared_ptr<State> state, std::shared_ptr<memory::Chunk> chunk, uint64_t at);
  static Task<void> wait_below(std::shared_ptr<State> state, unsigned limit);
};

Task<void> WindowSink::State::write(std::shared_ptr<State> state, std::shared_ptr<memory::Chunk> chunk, uint64_t at) {
  const uint64_t size = chunk->bytes.size();
  const uint64_t began = ticks();
  Result<void> done = fail(Errc::timed_out, "window sink: time to post is over");
  // What follows a piece that has failed is not written, whenever this runs: the last write may tell the client that
  // all have landed.
  if (state->outcome && SteadyClock::now() < state->last_post) {
    done = co_await state->window->write(chunk->bytes, at, deadline_in(state->deadline));
    TransferTimes::get().write.observe_since(began);
  }
  chunk.reset();
  if (done) {
    state->written += size;
  } else if (state->outcome) {
    state->outcome = done;
  }
  --state->in_flight;
  if (state->changed) state->changed->cancel();
}

// Waits until fewer than `limit` writes are in progress.
Task<void> WindowSink::State::wait_below(std::shared_ptr<State> state, unsigned limit) {
  while (state->in_flight >= limit) {
    if (!state->changed) state->changed.emplace(co_await boost::asio::this_coro::executor);
    state->changed->expires_at(boost::asio::steady_timer::time_point::max());
    boost::system::error_code cancelled;
    co_await state->changed->async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, cancelled));
  }
}

WindowSink::WindowSink(std::unique_ptr<fabric::Window> window, std::chrono::milliseconds deadline)
    : window_(std::move(window)), deadline_(deadline) {}

WindowSink::~WindowSink() = default;

Task<Result<void>> WindowSink::begin(uint64_t length) {
  if (window_ == nullptr) co_return fail(Errc::internal, "window sink: begun twice");
  if (length > window_->size()) co_return fail(Errc::rdma_not_supported, "the window is smaller than the object");
  TransferTimes::get();  // before the time is read
  state_ = std::make_shared<State>();
  state_->window = std::move(window_);
  state_->deadline = deadline_;
  state_->last_post = last_post_;
  state_->length = length;
  co_return Result<void>{};
}

Result<memory::AtOnce> WindowSink::send_at_once(uint64_t length, memory::Pieces& pieces) {
  using memory::AtOnce;
  if (window_ == nullptr || length > window_->size() || length > window_->immediate_size_max())
    return AtOnce::unsupported;
  for (uint64_t at = 0; at < length;) {
    const memory::Chunk piece = pieces.next();
    if (piece.bytes.empty() || !window_->write_now(piece.bytes, at)) return AtOnce::unsupported;
    at += piece.bytes.size();
  }
  return AtOnce::sent;
}

Task<Result<void>> WindowSink::push(memory::Chunk chunk) {
  const auto state = state_;
  if (state == nullptr) co_return fail(Errc::internal, "window sink: not begun");
  if (state->outcome) co_await State::wait_below(state, in_flight_max);
  if (!state->outcome) {
    // Nothing may be written after an error was reported.
    co_await State::wait_below(state, 1);
    co_return state->outcome;
  }
  const uint64_t size = chunk.bytes.size();
  if (size > state->length - state->posted) {
    co_await State::wait_below(state, 1);
    co_return fail(Errc::internal, "window sink: more bytes than announced");
  }
  if (size == 0) co_return Result<void>{};
  const uint64_t at = state->posted;
  state->posted += size;
  ++state->in_flight;
  auto executor = co_await boost::asio::this_coro::executor;
  // Shared, because the write may be over before the digest begins.
  const auto shared = std::make_shared<memory::Chunk>(std::move(chunk));
  boost::asio::co_spawn(executor, State::write(state, shared, at), boost::asio::detached);
  if (digest_) digest_(shared->bytes);
  co_return Result<void>{};
}

Task<Result<void>> WindowSink::drained() {
  const auto state = state_;
  if (state == nullptr) co_return Result<void>{};
  co_await State::wait_below(state, 1);
  co_return state->outcome;
}

Task<Result<void>> WindowSink::finish() {
  const auto state = state_;
  if (state == nullptr) co_return fail(Errc::internal, "window sink: not begun");
  co_await State::wait_below(state, 1);
  if (!state->outcome) co_return state->outcome;
  if (state->written != state->length) co_return fail(Errc::internal, "window sink: fewer bytes than announced");
  co_return Result<void>{};
}

}  // namespace verbena::rdma
