// A connected queue pair as one core uses it: posts operations, and resumes each caller when its completion was
// collected. Past the deadline of one, and after a failure, the queue pair is destroyed. A write that has not succeeded
// by then is reported only when its packets cannot be on the wire any more, so that nothing lands later.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/clock.h"
#include "base/task.h"
#include "rdma/rc/device.h"

namespace verbena::rdma::rc {

class Channel : public std::enable_shared_from_this<Channel> {
 public:
  // `given_back`: called when the channel ends, with the queue pair, unless that was destroyed.
  using GiveBack = std::function<void(std::unique_ptr<QueuePair>)>;
  // `settle`: the delay between destroying the queue pair and reporting that a write has failed. Until then the peer's
  // device still serves the write's packets.
  Channel(std::unique_ptr<QueuePair> pair, std::chrono::milliseconds settle, GiveBack give_back = {});
  ~Channel();
  Channel(const Channel&) = delete;

  QueuePair* pair() { return pair_.get(); }  // null: destroyed
  uint64_t next_id() { return ++last_id_; }

  // Resumes when the operation of that id, which was posted, has completed. rdma_transfer_failed with ETIMEDOUT: late.
  // Not for writes.
  Task<Result<Completion>> finish(uint64_t id, Deadline deadline);
  // The same for a write into the peer's memory. If it fails, nothing of it lands after this has returned.
  Task<Result<Completion>> finish_write(uint64_t id, Deadline deadline);

  // Destroys the queue pair. Every operation in flight fails.
  void stop();
  // The same, but the caller destroys it; null: destroyed.
  std::unique_ptr<QueuePair> take();

 private:
  struct Waiting {
    boost::asio::steady_timer* timer;
    std::optional<Completion> done{};
  };
  static Task<void> watch(std::shared_ptr<Channel> self);
  void collect();

  std::unique_ptr<QueuePair> pair_;
  std::chrono::milliseconds settle_;
  Deadline stopped_at_{};
  GiveBack give_back_;
  uint64_t last_id_ = 0;
  std::unordered_map<uint64_t, Waiting*> waiting_;
  size_t unfinished_ = 0;  // of those
  bool watching_ = false;
  // From the first operation on. Does not own the descriptor.
  std::optional<boost::asio::posix::stream_descriptor> events_;
};

}  // namespace verbena::rdma::rc
