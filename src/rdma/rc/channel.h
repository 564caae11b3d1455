// A connected queue pair as one core uses it: posts operations, and resumes each caller when its completion was
// collected. Past the deadline of one, and after a failure, the queue pair is destroyed, so that nothing lands later.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

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
  explicit Channel(std::unique_ptr<QueuePair> pair, GiveBack give_back = {});
  ~Channel();
  Channel(const Channel&) = delete;

  QueuePair* pair() { return pair_.get(); }  // null: destroyed
  uint64_t next_id() { return ++last_id_; }

  // Resumes when the operation of that id, which was posted, has completed. rdma_transfer_failed with ETIMEDOUT: late.
  Task<Result<Completion>> finish(uint64_t id, Deadline deadline);

  // Destroys the queue pair. Every operation in flight fails.
  void stop() { take().reset(); }
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
  GiveBack give_back_;
  uint64_t last_id_ = 0;
  std::unordered_map<uint64_t, Waiting*> waiting_;
  size_t unfinished_ = 0;  // of those
  bool watching_ = false;
  std::optional<boost::asio::posix::stream_descriptor> events_;  // while watching; does not own the descriptor
};

}  // namespace verbena::rdma::rc
