// The server's end of memory that a client lent for a request.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "fabric/fabric.h"
#include "fabric/local/client_memory.h"
#include "fabric/local/shared_region.h"

namespace verbena::fabric::local {

// Long copies let the rings be polled between slices. A post to the io_context would not do: its poll() runs everything
// that is ready before the core polls the rings again. So the port resumes one long copy at each of its own turns.
class CopyQueue {
 public:
  Task<> wait_for_turn();
  // Resumes the copy that has waited longest. False when none waits.
  bool resume_one();
  // Destroys waiting copies: the port is going away, and their coroutines hold this queue.
  void drop() { std::exchange(waiting_, {}).clear(); }
  bool empty() const { return waiting_.empty(); }

 private:
  std::deque<std::function<void()>> waiting_;
};

// State that a peer's windows share with its port; outlives the peer while a window is open.
struct PeerMemory {
  SharedRegion region;
  bool gone = false;  // no copy starts any more
};

// Bytes of a window that is lent for that direction only. access_denied, invalid_argument.
Result<void> check_range(Access lent, uint64_t window_size, Access wanted, size_t size, uint64_t at);

class LocalWindow final : public Window {
 public:
  // 30 us of memcpy: a short delay for others.
  static constexpr size_t slice_size = 512 * KiB;

  // The caller checked that base and size lie inside `memory`.
  LocalWindow(std::shared_ptr<PeerMemory> peer, std::shared_ptr<ClientMemory> memory, std::shared_ptr<CopyQueue> queue,
              const WindowDescriptor& lent, Access access);

  uint64_t size() const override { return size_; }
  Task<Result<void>> write(Bytes from, uint64_t at, Deadline deadline) override;
  Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline deadline) override;
  size_t immediate_size_max() const override { return slice_size; }
  Result<void> write_all_now(std::span<const Write> writes) override;
  Result<void> read_now(MutableBytes into, uint64_t at) override;

 private:
  Result<void> check(Access wanted, size_t size, uint64_t at) const;
  // Copies while the permit is valid.
  Result<void> copy_in(std::span<const Write> writes);
  Result<void> copy_out(MutableBytes into, uint64_t at);
  // `copy` touches the window's memory.
  template <class Copying>
  Result<void> permitted(Copying copy);

  std::shared_ptr<PeerMemory> peer_;
  std::shared_ptr<ClientMemory> memory_;
  std::shared_ptr<CopyQueue> queue_;
  std::byte* data_;
  uint64_t size_;
  WindowKey key_;
  Access access_;
};

}  // namespace verbena::fabric::local
