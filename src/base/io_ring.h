// io_uring on one core's loop: disk reads and writes without a waiting thread.
//
// The loop owns its ring (opened by IoRing::open, found by IoRing::of), as one of its services, so that neither can
// outlive the other. When the loop is destroyed, the ring first cancels what it can and waits until the kernel has
// completed every operation. Only then are the coroutines behind them destroyed, and with them the memory that the
// kernel was using. For the same reason cancelling such a coroutine waits: it keeps its memory until its operation has
// been collected.
//
// Everything here runs on the loop's thread. On a Core, add() the ring to it: it is polled while the core spins and
// wakes the core's sleep by an eventfd. A loop without a core is woken by the eventfd alone.
#pragma once

#include <liburing.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/core.h"
#include "base/result.h"
#include "base/task.h"

namespace verbena {

class IoRing final : public Pollable {
 public:
  struct Options {
    unsigned depth = 256;  // operations in the kernel at once; more wait here
    // Registered as fixed buffers, if the kernel allows it: reads into it and writes from it then need no look-up of
    // pages. This locks all of it in memory. Other memory works as well.
    MutableBytes memory{};
    // The kernel's own; tests replace them. Both return -errno.
    int (*set_up)(unsigned entries, io_uring* ring, io_uring_params* params) = &io_uring_queue_init_params;
    int (*register_buffers)(io_uring* ring, const iovec* buffers, unsigned count) = &io_uring_register_buffers;
  };

  // Opens the loop's ring, before the loop runs or on its thread. unsupported, with an errno: forbidden by the kernel,
  // a container or a limit. invalid_argument: the loop has one already.
  static Result<IoRing*> open(boost::asio::io_context& loop, const Options& options);
  // The ring of the executor's loop; null when it has none.
  static IoRing* of(const boost::asio::any_io_executor& executor);
  ~IoRing() override;

  bool registered() const { return !registered_.empty(); }

  // The bytes read, possibly fewer than requested, or -errno. Descriptor and memory must stay valid until then, even if
  // the caller is cancelled. Operations that start in the same turn of the loop are submitted together.
  Task<int> read(int fd, MutableBytes into, uint64_t offset) {
    return run({fd, into.data(), into.size(), offset, false});
  }
  // Likewise the bytes written.
  Task<int> write(int fd, Bytes from, uint64_t offset) {
    return run({fd, const_cast<std::byte*>(from.data()), from.size(), offset, true});
  }

  size_t poll() override;
  bool busy() const override { return false; }  // the eventfd wakes
  bool arm() override;
  void disarm() override;
  bool brings_messages() const override { return false; }

 private:
  struct Transfer {
    int fd = -1;
    std::byte* memory = nullptr;  // not changed by a write
    size_t size = 0;
    uint64_t offset = 0;
    bool writes = false;
  };
  struct Operation {
    explicit Operation(const Transfer& t) : transfer(t) {}
    Operation(const Operation&) = delete;
    virtual ~Operation() = default;
    virtual void done(int result) = 0;
    const Transfer transfer;
  };
  using OperationPtr = std::unique_ptr<Operation>;
  template <class Handler>
  struct Waiting final : Operation {
    Waiting(const Transfer& t, Handler h) : Operation(t), handler(std::move(h)) {}
    void done(int result) override { std::move(handler)(result); }
    Handler handler;
  };
  struct Collected {
    OperationPtr operation;
    int result = 0;
  };

  Task<int> run(const Transfer& transfer) {
    auto initiate = [this, transfer](auto handler) {
      start(std::make_unique<Waiting<decltype(handler)>>(transfer, std::move(handler)));
    };
    return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(int)>(std::move(initiate),
                                                                                         boost::asio::use_awaitable);
  }

  class Slot;  // the loop's storage

  IoRing(boost::asio::io_context& loop, const Options& options);
  Result<void> set_up(const Options& options);
  void register_memory(const Options& options);
  void shut_down();

  void start(OperationPtr operation);
  void prepare(io_uring_sqe& sqe, OperationPtr operation);
  void submit();
  void submit_soon();
  void pause();
  size_t collect(std::vector<Collected>& into);
  size_t finish_some();
  void wait_for_event();

  boost::asio::io_context& loop_;
  const unsigned depth_;
  io_uring ring_{};
  bool open_ = false;
  boost::asio::posix::stream_descriptor event_;
  boost::asio::steady_timer again_;
  MutableBytes registered_;
  std::deque<OperationPtr> queued_;   // not submitted to the kernel yet
  std::vector<Collected> collected_;  // scratch of finish_some()
  size_t in_kernel_ = 0;
  bool submit_posted_ = false, waiting_ = false, armed_ = false, paused_ = false;
};

}  // namespace verbena
