#include "memory/cuda_lock.h"

#include "memory/cuda_context.h"
#include "memory/limited_call.h"

namespace verbena::memory::cuda {
namespace {

std::atomic<unsigned> calls_left_alone{0};
constexpr unsigned left_alone_max = 8;
constexpr std::chrono::seconds unlock_wait_max{1};

}  // namespace

// Ends on a thread that may wait for the driver.
class PageLock::Held {
 public:
  Held(const Driver& driver, void* context, MutableBytes memory, std::shared_ptr<const void> owner)
      : driver_(driver), context_(context), memory_(memory), owner_(std::move(owner)) {}
  ~Held() {
    if (!locked_) return;
    static_cast<void>(in_context(driver_, context_, "cuMemHostUnregister",
                                 [&](const Calls& c) { return c.host_unregister(memory_.data()); }));
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  Outcome<> lock() {
    auto done = in_context(driver_, context_, "cuMemHostRegister", [&](const Calls& c) {
      return c.host_register(memory_.data(), memory_.size(), host_register_portable);
    });
    locked_ = done.has_value();
    return done;
  }

 private:
  const Driver& driver_;
  void* const context_;
  const MutableBytes memory_;
  const std::shared_ptr<const void> owner_;
  bool locked_ = false;
};

PageLock::PageLock(std::unique_ptr<Held> held) : held_(std::move(held)) {}

Outcome<std::unique_ptr<PageLock>> PageLock::take(const Queue& queue, MutableBytes memory,
                                                  std::shared_ptr<const void> owner, Deadline until,
                                                  const std::stop_token& stop) {
  if (calls_left_alone >= left_alone_max) {
    return std::unexpected(Fault{Fault::Kind::late, "the driver has not returned from earlier page-locking"});
  }
  auto held = std::make_unique<Held>(queue.driver_, queue.context_, memory, std::move(owner));
  auto lock = [held = std::move(held)]() mutable -> Outcome<std::unique_ptr<Held>> {
    if (auto locked = held->lock(); !locked) return std::unexpected(std::move(locked).error());
    return std::move(held);
  };
  auto locked = limited_call(std::move(lock), calls_left_alone, until, stop);
  if (!locked) {
    if (stop.stop_requested()) return std::unexpected(Fault{Fault::Kind::cancelled, "cancelled by the caller"});
    return std::unexpected(Fault{Fault::Kind::late, "the driver did not page-lock memory in time"});
  }
  if (!*locked) return std::unexpected(std::move(*locked).error());
  return std::unique_ptr<PageLock>(new PageLock(std::move(**locked)));
}

PageLock::~PageLock() {
  auto unlock = [held = std::move(held_)]() mutable {
    held.reset();
    return true;
  };
  static_cast<void>(limited_call(std::move(unlock), calls_left_alone, deadline_in(unlock_wait_max), {}));
}

}  // namespace verbena::memory::cuda
