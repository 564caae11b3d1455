#include "base/io_ring.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/metrics.h"

namespace verbena {
namespace {

namespace asio = boost::asio;

constexpr size_t buffer_size_max = 1 * GiB;  // of a fixed buffer: the kernel's limit
constexpr std::chrono::milliseconds again_after{1};
constexpr size_t batch_max = 64;  // delivered in one go

// The lengths of transfers and their results are ints.
constexpr size_t transfer_size_max = 1 * GiB;

struct RingMetrics {
  metrics::Counter& reads = metrics::counter("verbena_disk_ring_reads_total", "Reads given to io_uring");
  metrics::Counter& writes = metrics::counter("verbena_disk_ring_writes_total", "Writes given to io_uring");
  metrics::Counter& submissions =
      metrics::counter("verbena_disk_ring_submissions_total", "System calls that gave reads and writes to io_uring");

  static RingMetrics& of_process() {
    static RingMetrics all;
    return all;
  }
};

}  // namespace

// A loop's storage for its ring. All services of a loop are shut down before the first is destroyed, so the services
// that the ring's descriptor and its coroutines need still exist.
class IoRing::Slot final : public asio::execution_context::service {
 public:
  explicit Slot(asio::execution_context& loop) : service(loop) {}
  std::unique_ptr<IoRing> ring;
  static asio::execution_context::id id;

 private:
  void shutdown() override {
    if (ring != nullptr) ring->shut_down();
    ring.reset();
  }
};
asio::execution_context::id IoRing::Slot::id;

IoRing::IoRing(asio::io_context& loop, const Options& options)
    : loop_(loop), depth_(options.depth), event_(loop), again_(loop) {}

IoRing::~IoRing() {
  if (open_) ::io_uring_queue_exit(&ring_);
}

Result<IoRing*> IoRing::open(asio::io_context& loop, const Options& options) {
  auto& slot = asio::use_service<Slot>(loop);
  if (slot.ring != nullptr) return fail(Errc::invalid_argument, "io_uring: the loop has a ring");
  std::unique_ptr<IoRing> ring(new IoRing(loop, options));
  VB_TRY(ring->set_up(options));
  slot.ring = std::move(ring);
  return slot.ring.get();
}

IoRing* IoRing::of(const asio::any_io_executor& executor) {
  return asio::use_service<Slot>(asio::query(executor, asio::execution::context)).ring.get();
}

Result<void> IoRing::set_up(const Options& options) {
  io_uring_params params{};
  // Completions are processed when the core enters the kernel anyway, instead of by interrupting it.
  params.flags = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
  int failed = options.set_up(depth_, &ring_, &params);
  if (failed == -EINVAL) {  // before Linux 5.19
    params = {};
    failed = options.set_up(depth_, &ring_, &params);
  }
  if (failed != 0) return fail(Errc::unsupported, "io_uring: setup", -failed);
  open_ = true;
  ::io_uring_ring_dontfork(&ring_);
  io_uring_probe* probe = ::io_uring_get_probe_ring(&ring_);
  const bool reads = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                     io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
  if (probe != nullptr) ::io_uring_free_probe(probe);
  if (!reads) return fail(Errc::unsupported, "io_uring: this kernel does not read and write by it", ENOSYS);
  // Some sandboxes allow a ring to be made but no operation on it.
  io_uring_prep_nop(::io_uring_get_sqe(&ring_));
  failed = ::io_uring_submit_and_wait(&ring_, 1);
  if (failed < 0) return fail(Errc::unsupported, "io_uring: enter", -failed);
  io_uring_cq_advance(&ring_, 1);
  const int event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) return fail(Errc::unsupported, "io_uring: eventfd", errno);
  event_.assign(event);
  failed = ::io_uring_register_eventfd(&ring_, event);
  if (failed != 0) return fail(Errc::unsupported, "io_uring: register eventfd", -failed);
  register_memory(options);
  return {};
}

// If registration fails (RLIMIT_MEMLOCK, too many) reads work as ordinary ones.
void IoRing::register_memory(const Options& options) {
  std::vector<iovec> buffers;
  for (size_t at = 0; at < options.memory.size(); at += buffer_size_max) {
    buffers.push_back({options.memory.data() + at, std::min(buffer_size_max, options.memory.size() - at)});
  }
  if (buffers.empty()) return;
  if (options.register_buffers(&ring_, buffers.data(), static_cast<unsigned>(buffers.size())) != 0) return;
  registered_ = options.memory;
}

void IoRing::start(OperationPtr operation) {
  queued_.push_back(std::move(operation));
  submit_soon();
}

// Posted, not called: other handlers of the loop may start more reads, and one system call submits them all.
void IoRing::submit_soon() {
  if (std::exchange(submit_posted_, true)) return;
  asio::post(loop_, [this] {
    submit_posted_ = false;
    submit();
  });
}

void IoRing::prepare(io_uring_sqe& sqe, OperationPtr operation) {
  const Transfer& transfer = operation->transfer;
  const auto length = static_cast<unsigned>(std::min(transfer.size, transfer_size_max));
  const uintptr_t at = reinterpret_cast<uintptr_t>(transfer.memory) - reinterpret_cast<uintptr_t>(registered_.data());
  const bool registered = at < registered_.size() && length <= registered_.size() - at;
  // The kernel does not accept an operation across two fixed buffers.
  if (registered && length <= buffer_size_max - at % buffer_size_max) {
    const int buffer = static_cast<int>(at / buffer_size_max);
    if (transfer.writes) {
      io_uring_prep_write_fixed(&sqe, transfer.fd, transfer.memory, length, transfer.offset, buffer);
    } else {
      io_uring_prep_read_fixed(&sqe, transfer.fd, transfer.memory, length, transfer.offset, buffer);
    }
  } else if (transfer.writes) {
    io_uring_prep_write(&sqe, transfer.fd, transfer.memory, length, transfer.offset);
  } else {
    io_uring_prep_read(&sqe, transfer.fd, transfer.memory, length, transfer.offset);
  }
  auto& counters = RingMetrics::of_process();
  (transfer.writes ? counters.writes : counters.reads).add();
  io_uring_sqe_set_data(&sqe, operation.release());  // owned by the kernel until it is collected
  ++in_kernel_;
}

void IoRing::submit() {
  while (!queued_.empty() && in_kernel_ < depth_) {
    io_uring_sqe* const sqe = ::io_uring_get_sqe(&ring_);
    if (sqe == nullptr) break;
    prepare(*sqe, std::move(queued_.front()));
    queued_.pop_front();
  }
  if (io_uring_sq_ready(&ring_) == 0) return;
  wait_for_event();
  auto& counters = RingMetrics::of_process();
  counters.submissions.add();
  (void)::io_uring_submit(&ring_);
  if (io_uring_sq_ready(&ring_) != 0) pause();
}

// The kernel is short of memory. An immediate retry would starve the core's other work.
void IoRing::pause() {
  if (std::exchange(paused_, true)) return;
  again_.expires_after(again_after);
  again_.async_wait([this](const boost::system::error_code& failed) {
    if (failed) return;
    paused_ = false;
    submit();
  });
}

size_t IoRing::collect(std::vector<Collected>& into) {
  io_uring_cqe* ready[batch_max];
  const unsigned count = ::io_uring_peek_batch_cqe(&ring_, ready, batch_max);
  for (unsigned i = 0; i < count; ++i) {
    OperationPtr operation(static_cast<Operation*>(io_uring_cqe_get_data(ready[i])));
    if (operation == nullptr) continue;  // the result of shut_down()'s cancellation
    --in_kernel_;
    into.push_back({std::move(operation), ready[i]->res});
  }
  io_uring_cq_advance(&ring_, count);
  return count;
}

// The list is moved out first: resumed coroutines may start new reads, which add to it.
size_t IoRing::finish_some() {
  auto collected = std::exchange(collected_, {});
  const size_t count = collect(collected);
  for (Collected& one : collected) {
    const OperationPtr operation = std::move(one.operation);
    operation->done(one.result);
  }
  collected.clear();
  collected_ = std::move(collected);  // to reuse its memory
  if (!queued_.empty() && !paused_) submit_soon();
  return count;
}

size_t IoRing::poll() {
  // Reads started since the last poll are submitted together, without waiting for the loop to run the post.
  if (!queued_.empty() && !paused_) submit();
  if (in_kernel_ == 0) return 0;
  return finish_some();
}

bool IoRing::arm() {
  if (in_kernel_ == 0) return true;
  armed_ = true;
  io_uring_cq_eventfd_toggle(&ring_, true);
  // Otherwise the check below could run before the kernel sees the switch, and the kernel's check before this one.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // The kernel does not signal completions from before the eventfd was on. They are collected at once, instead of after
  // the short sleep of a loop that could not be armed.
  if (io_uring_cq_ready(&ring_) != 0) asio::post(loop_, [this] { finish_some(); });
  return true;
}

// An awake core polls for completions and needs no signal from the kernel.
void IoRing::disarm() {
  if (std::exchange(armed_, false)) io_uring_cq_eventfd_toggle(&ring_, false);
}

// Not forever: a loop that has nothing else to do ends with its last read.
void IoRing::wait_for_event() {
  if (std::exchange(waiting_, true)) return;
  event_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& failed) {
    waiting_ = false;
    if (failed) return;
    uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(event_.native_handle(), &count, sizeof count);
    while (finish_some() == batch_max) {
    }
    if (in_kernel_ > 0) wait_for_event();
  });
}

void IoRing::shut_down() {
  if (in_kernel_ > 0) {
    if (io_uring_sqe* const sqe = ::io_uring_get_sqe(&ring_); sqe != nullptr) {
      // Linux 5.19; an older one returns EINVAL, and the reads are waited for.
      io_uring_prep_cancel(sqe, nullptr, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
      io_uring_sqe_set_data(sqe, nullptr);
    }
  }
  std::vector<Collected> collected;
  while (in_kernel_ > 0) {
    const int failed = ::io_uring_submit_and_wait(&ring_, 1);
    if (failed < 0 && failed != -EINTR && failed != -EAGAIN && failed != -EBUSY) {
      // Continuing would free buffers into which the kernel still writes.
      std::fprintf(stderr, "verbena: io_uring: reads cannot be collected: %s\n", std::strerror(-failed));
      std::abort();
    }
    collect(collected);
  }
  boost::system::error_code ignored;
  event_.close(ignored);
  again_.cancel();
  // The coroutines that wait are destroyed with the loop, so nothing resumes them.
  collected.clear();
  queued_.clear();
}

}  // namespace verbena
