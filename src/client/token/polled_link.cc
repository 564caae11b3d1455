#include "client/token/polled_link.h"

namespace verbena::client {
namespace {

// Most transfers finish within this time; a nap would delay each of them, since nothing ends it early on ofi.
constexpr std::chrono::microseconds spin_for{1'000};
constexpr std::chrono::microseconds poll_nap{100};  // bounds how long the end of a loan waits for the poller

}  // namespace

PolledLink::PolledLink(std::unique_ptr<fabric::Link> link) : link_(std::move(link)), address_(link_->address()) {
  poller_ = std::thread(&PolledLink::run, this);
}

PolledLink::~PolledLink() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  poller_.join();
}

Result<std::unique_ptr<PolledLink::Loan>> PolledLink::lend(MutableBytes memory, fabric::Access access,
                                                           const PeerWindow* device) {
  VB_ASSIGN(auto lent, device == nullptr ? link_->lend(memory, access) : device->lend(*link_, memory, access));
  return std::unique_ptr<Loan>(new Loan(*this, std::move(lent)));
}

PolledLink::Loan::Loan(PolledLink& owner, std::unique_ptr<fabric::Lent> lent) : owner_(owner), lent_(std::move(lent)) {
  {
    std::lock_guard lock(owner_.mutex_);
    owner_.wanted_ = true;
    owner_.polling_ = true;
  }
  owner_.changed_.notify_all();
}

PolledLink::Loan::~Loan() {
  std::unique_lock lock(owner_.mutex_);
  owner_.wanted_ = false;
  owner_.link_->wake();
  owner_.changed_.wait(lock, [this] { return !owner_.polling_; });
  if (unanswered_) lent_->revoke();
  lent_.reset();
}

void PolledLink::run() {
  const auto ignore = [](Bytes) {};  // a link without a peer receives no messages
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return polling_ || stopping_; });
    if (stopping_) return;
    lock.unlock();
    auto quiet_since = SteadyClock::now();
    while (wanted_) {
      auto progress = link_->poll(ignore);
      const auto now = SteadyClock::now();
      if (progress && *progress > 0) quiet_since = now;
      if (now - quiet_since > spin_for) {
        link_->wait(now + poll_nap);
      } else {
        std::this_thread::yield();
      }
    }
    lock.lock();
    polling_ = false;
    changed_.notify_all();
  }
}

}  // namespace verbena::client
