// A client's window as Sink and Source.
#pragma once

#include <functional>
#include <memory>

#include "fabric/fabric.h"
#include "memory/stream.h"

namespace verbena::rdma {

// A GET's bytes into a client's window. finish() returns when every write has completed.
// After any error the window has been drained: nothing lands later.
class WindowSink : public memory::Sink {
 public:
  WindowSink(std::unique_ptr<fabric::Window> window, std::chrono::milliseconds deadline);
  ~WindowSink() override;
  // From then on nothing more is posted, whenever it was pushed: timed_out. What was posted has the usual deadline.
  void post_until(Deadline last_post) { last_post_ = last_post; }
  // Called with the bytes of each piece when its write was posted, so that what it computes takes no time of the wire.
  // Outlived by what it uses.
  void digest_with(std::function<void(Bytes)> digest) { digest_ = std::move(digest); }
  // rdma_not_supported when the window is smaller than `length`: the caller declines and sends the body.
  Task<Result<void>> begin(uint64_t length) override;
  // Supported if the transport copies (fabric::Window::write_now) and the bytes are few enough.
  Result<memory::AtOnce> send_at_once(uint64_t length, memory::Pieces& pieces) override;
  Task<Result<void>> push(memory::Chunk chunk) override;
  Task<Result<void>> drained() override;
  Task<Result<void>> finish() override;

 private:
  struct State;
  std::unique_ptr<fabric::Window> window_;  // until begin()
  std::chrono::milliseconds deadline_;
  Deadline last_post_ = Deadline::max();
  std::function<void(Bytes)> digest_;
  std::shared_ptr<State> state_;  // from begin() on
};

// A PUT's bytes out of a client's window: `size` bytes from its start.
class WindowSource : public memory::Source {
 public:
  WindowSource(std::unique_ptr<fabric::Window> window, uint64_t size, std::chrono::milliseconds deadline);
  ~WindowSource() override;
  std::optional<uint64_t> size() const override;
  // `into` must be arena memory.
  Task<Result<size_t>> read(MutableBytes into) override;
  bool by_device() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace verbena::rdma
