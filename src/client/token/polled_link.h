// A fabric link that only owns windows, and a thread that polls it while one is lent: providers make progress only
// inside calls, including the server's operations on our memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "client/peer_memory.h"
#include "fabric/fabric.h"

namespace verbena::client {

class PolledLink {
 public:
  explicit PolledLink(std::unique_ptr<fabric::Link> link);
  ~PolledLink();
  PolledLink(const PolledLink&) = delete;

  // Lends memory and polls until the loan ends. One loan at a time.
  class Loan {
   public:
    ~Loan();  // stops polling, then withdraws the window: afterwards nothing lands in the memory
    Loan(const Loan&) = delete;
    const fabric::WindowDescriptor& descriptor() const { return lent_->descriptor(); }
    // Called when no answer shows that the server's operations have ended: ending the loan then also ends those that
    // had begun.
    void unanswered() { unanswered_ = true; }

   private:
    friend class PolledLink;
    Loan(PolledLink& owner, std::unique_ptr<fabric::Lent> lent);
    PolledLink& owner_;
    std::unique_ptr<fabric::Lent> lent_;
    bool unanswered_ = false;
  };
  // `device`: `memory` is a part of that window, else of the host. unsupported: the provider does not reach it.
  Result<std::unique_ptr<Loan>> lend(MutableBytes memory, fabric::Access access, const PeerWindow* device = nullptr);
  bool reaches_devices() const { return client::reaches_devices(*link_); }

  std::string provider() const { return std::string(link_->provider()); }
  const std::string& address() const { return address_; }

 private:
  void run();

  std::unique_ptr<fabric::Link> link_;  // the poller's while polling_, else the owner's
  std::string address_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> wanted_{false};  // a window is lent
  bool polling_ = false;
  bool stopping_ = false;
  std::thread poller_;
};

}  // namespace verbena::client
